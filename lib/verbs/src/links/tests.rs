//! Tests of connections that are being made.

use scif::PortId;
use syscall::error::EMFILE;
use verbs_core::table::Id;

use super::{FIRST_PAUSE, Links, MOST_SILENT, Pending, bound_silent};
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

#[test]
fn a_node_that_connects_without_end_keeps_out_no_other() {
    let driver = Driver::default();
    driver.play(|| {
        let mut pending = Vec::new();
        for port in 0..2 * MOST_SILENT as u16 {
            pending.push(Pending::Accepted {
                own: 2000,
                peer: PortId::new(if port == 3 { 2 } else { 1 }, port),
                endpoint: driver.endpoint(),
                hello: Vec::new(),
                is_watched: false,
            });
            bound_silent(&mut pending);
        }
        let peers = pending.iter().filter_map(|of| match of {
            Pending::Accepted { peer, .. } => Some((peer.node(), peer.port())),
            _ => None,
        });
        let peers: Vec<_> = peers.collect();
        assert_eq!(peers.len(), MOST_SILENT);
        // The other node's oldest, and the newest of this one.
        assert_eq!((peers[0], peers[1]), ((2, 3), (1, 129)));
    });
}
