//! The file `cards`.

use syscall::error::{EACCES, EBUSY, EINVAL, ENODEV, Error};
use syscall::flag::O_RDWR;

use crate::fixture::*;
use crate::{Card, CardCommand, CardState, NodeEvent};

fn card(node: u16, state: CardState) -> Card {
    Card {
        node,
        place: "0000--03--00.0".into(),
        family: "x100",
        stepping: "C0",
        memory_bytes: 8 << 30,
        state,
        post_code: "12".into(),
        temperature: Some(54),
    }
}

#[test]
fn cards_are_shown() {
    let mut fixture = Fixture::new(1);
    assert_eq!(fixture.text(0, "cards").lines().count(), 1);
    let mut unknown = card(2, CardState::Resetting);
    (unknown.memory_bytes, unknown.temperature) = (0, None);
    fixture.nodes[0]
        .scif
        .set_cards(vec![card(1, CardState::Ready), unknown]);
    let text = fixture.text(0, "cards");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "node", "place", "family", "stepping", "mib", "state", "post", "celsius"
        ]
    );
    assert_eq!(
        lines[1],
        [
            "1",
            "0000--03--00.0",
            "x100",
            "C0",
            "8192",
            "ready",
            "12",
            "54"
        ]
    );
    assert_eq!(lines[2][4..], ["-", "resetting", "12", "-"]);
}

#[test]
fn commands_are_told_to_the_driver() {
    let mut fixture = Fixture::new(1);
    let cards = vec![card(1, CardState::Ready), card(2, CardState::Running)];
    fixture.nodes[0].scif.set_cards(cards);
    assert_eq!(
        fixture.open_with(0, "cards", O_RDWR, USER),
        Err(Error::new(EACCES))
    );
    let file = fixture.open(0, "cards").unwrap();
    let mut write = |text: &str| fixture.write(0, file, text.as_bytes());
    assert_eq!(write("boot"), Err(Error::new(EINVAL)));
    assert_eq!(write("eject 1"), Err(Error::new(EINVAL)));
    assert_eq!(write("boot one"), Err(Error::new(EINVAL)));
    assert_eq!(write("boot 3"), Err(Error::new(ENODEV)));
    assert_eq!(write("boot 2"), Err(Error::new(EBUSY)));
    assert_eq!(write("shutdown 1"), Err(Error::new(EBUSY)));
    // All or none.
    assert_eq!(write("boot 1\nboot 2\n"), Err(Error::new(EBUSY)));
    assert_eq!(write("boot 1\nshutdown 2\nreset 2\n"), Ok(26));
    let told = [
        NodeEvent::Card(1, CardCommand::Boot),
        NodeEvent::Card(2, CardCommand::Shutdown),
        NodeEvent::Card(2, CardCommand::Reset),
    ];
    assert_eq!(fixture.nodes[0].node_events, told);
}
