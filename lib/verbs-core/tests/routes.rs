//! How datagrams find a lane to their destination, and what becomes of those that find none.

mod pair;

use pair::datagrams::{TO_RIGHT, datagram, ends, routed, setup};
use pair::{End, LANE, settle, wait};
use verbs_core::host::LaneId;
use verbs_core::types::Error;
use verbs_core::types::WcStatus::Success;
use verbs_core::{Destination, Event};

#[test]
fn a_lane_is_wanted_once_and_found() {
    let (mut left, mut right, ah) = ends(&setup());
    right.receive(10, 0, 64);
    right.receive(11, 0, 64);
    left.post(datagram(&left, 1, 8, ah));
    left.post(datagram(&left, 2, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.events(), [Event::LaneWanted(TO_RIGHT)]);
    assert_eq!(left.send_results(), []);
    left.context.route(TO_RIGHT, Some(LANE)).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    assert_eq!(right.receive_results(), [(10, Success), (11, Success)]);
    // A route that is forgotten is asked for again.
    right.receive(12, 0, 64);
    left.context.forget_routes(LANE);
    left.post(datagram(&left, 4, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.events(), [Event::LaneWanted(TO_RIGHT)]);
    left.context.route(TO_RIGHT, Some(LANE)).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(right.receive_results(), [(12, Success)]);
    // A lane that has ended leads nowhere.
    right.program.cut(LANE);
    settle(&mut left, &mut right);
    assert_eq!(left.events(), [Event::LaneOver(LANE)]);
    left.post(datagram(&left, 3, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.events(), [Event::LaneWanted(TO_RIGHT)]);
    let unknown = left.context.route(TO_RIGHT, Some(LaneId(99)));
    assert_eq!(unknown, Err(Error::NotFound));
}

#[test]
fn datagrams_to_nowhere_are_dropped() {
    let (mut left, mut right, ah) = ends(&setup());
    // Nobody answers: a datagram waits half a second.
    left.post(datagram(&left, 1, 8, ah));
    settle(&mut left, &mut right);
    wait(&mut left, &mut right, 499_999_999);
    assert_eq!((left.send_results(), left.events().len()), (vec![], 1));
    wait(&mut left, &mut right, 1);
    assert_eq!(left.send_results(), [(1, Success)]);
    // Nobody is there: this answer counts for one datagram.
    left.context.route(TO_RIGHT, None).unwrap();
    left.post(datagram(&left, 2, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(
        (left.send_results(), left.events()),
        (vec![(2, Success)], vec![])
    );
    left.post(datagram(&left, 3, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.events(), [Event::LaneWanted(TO_RIGHT)]);
}

#[test]
fn a_destination_that_nobody_finds_costs_others_half_a_second_once() {
    let (mut left, mut right, ah) = routed(&setup());
    right.receive(10, 0, 64);
    let nowhere = |end: &End, id| {
        let mut request = datagram(end, id, 8, ah);
        request.datagram.qpn = 9;
        request
    };
    for id in 0..10 {
        left.post(nowhere(&left, id));
    }
    left.post(datagram(&left, 10, 8, ah));
    settle(&mut left, &mut right);
    assert_eq!(left.sent().len(), 0);
    wait(&mut left, &mut right, 500_000_000);
    assert_eq!(left.sent().len(), 11);
    assert_eq!(right.receive_results(), [(10, Success)]);
    let wanted = Destination { qpn: 9, ..TO_RIGHT };
    assert_eq!(left.events(), [Event::LaneWanted(wanted)]);
    // Once there is an answer, datagrams are sent.
    left.context.route(wanted, Some(LANE)).unwrap();
    let before = left.program.sent_records;
    left.post(nowhere(&left, 11));
    settle(&mut left, &mut right);
    assert_eq!(left.program.sent_records - before, 1);
}
