//! Tests of connections that are being made.

use syscall::error::EMFILE;
use verbs_core::table::Id;

use super::{FIRST_PAUSE, Links, MOST_SILENT, Pending};
use crate::played::Driver;

fn accepted(links: &Links) -> usize {
    let of = links.pending.iter();
    of.filter(|of| matches!(of, Pending::Accepted { .. }))
        .count()
}

#[test]
fn what_waits_behind_an_accept_that_fails_is_accepted_soon() {
    let driver = Driver::default();
    driver.play(|| {
        let mut links = Links::new(1);
        links.take_number(Id(0)).expect("a number");
        for listening in &mut links.listeners {
            listening.is_watched = true;
        }
        driver.accept([None, Some(EMFILE), None]);
        links.advance(7);
        assert_eq!(accepted(&links), 1);
        for pending in &mut links.pending {
            if let Pending::Accepted { is_watched, .. } = pending {
                *is_watched = true;
            }
        }
        assert_eq!(links.next_try(), Some(7 + FIRST_PAUSE));
        assert!(!links.has_to_do(6 + FIRST_PAUSE));
        assert!(links.has_to_do(7 + FIRST_PAUSE), "others wait there");
        links.advance(7 + FIRST_PAUSE);
        assert_eq!((accepted(&links), links.next_try()), (2, None));
    });
}

#[test]
fn a_dead_driver_is_not_asked_again_soon() {
    let driver = Driver::default();
    driver.play(|| {
        let mut links = Links::new(1);
        let pd = Id(0);
        links.take_number(pd).expect("a number");
        driver.die();
        links.advance(7);
        assert_eq!((links.find_number(pd), links.next_try()), (None, None));
    });
}

#[test]
fn a_peer_that_connects_without_end_ends_no_turn() {
    let driver = Driver::default();
    driver.play(|| {
        let mut links = Links::new(1);
        links.take_number(Id(0)).expect("a number");
        driver.accept([None; 1000]);
        for turn in 1..=3 {
            links.advance(7);
            assert_eq!(driver.accepts_left(), 1000 - turn * MOST_SILENT);
            assert_eq!(accepted(&links), MOST_SILENT);
            assert_eq!(links.next_try(), Some(7), "others wait");
        }
    });
}
