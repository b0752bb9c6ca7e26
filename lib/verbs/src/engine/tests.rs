//! Tests of the ends of lanes and listeners, with a driver for tests.

use verbs_core::demo;
use verbs_core::host::{Host, LaneId};
use verbs_core::record::HEADER_BYTES;
use verbs_core::types::QpType;
use verbs_core::work::{Capacity, QpInit};

use super::Engine;
use crate::links::Key;
use crate::played::Driver;
use crate::stream::Stream;

#[test]
fn no_number_is_given_at_a_listener_that_has_died_with_a_lane() {
    let driver = Driver::default();
    driver.play(|| {
        let mut engine = Engine::new(1, 7);
        let pd = engine.core.alloc_pd().expect("a domain");
        let port = |number: u32| number >> 8;
        let take = |engine: &mut Engine| engine.take_number(pd, 5).map(port);
        let first = take(&mut engine).expect("a number");
        assert_eq!(
            take(&mut engine).ok(),
            Some(first),
            "one listener serves both"
        );
        driver.die();
        engine.lane_over(LaneId(0));
        let second = take(&mut engine).expect("a number");
        assert_ne!(first, second, "nobody reaches the first listener");
    });
}

#[test]
fn a_death_that_was_found_ends_the_lane_though_a_receive_does_not_find_it() {
    let driver = Driver::default();
    driver.play(|| {
        let mut engine = Engine::new(1, 7);
        let lane = engine.lanes.insert_stream(Stream::new(driver.endpoint()));
        engine.serve(0);
        assert!(!engine.lanes.available(lane, HEADER_BYTES).has_ended);
        driver.die();
        engine.serve(0);
        assert!(engine.lanes.available(lane, HEADER_BYTES).has_ended);
    });
}

/// A peer whose lane has ended makes another one, perhaps before this end has found the end.
#[test]
fn a_queue_pair_gets_the_lane_that_has_come_before_the_former_one_was_over() {
    const NUMBER: u32 = 2000 << 8;
    let driver = Driver::default();
    driver.play(|| {
        let mut engine = Engine::new(1, 7);
        let pd = engine.core.alloc_pd().expect("a domain");
        let cq = engine.core.create_cq(1).expect("a queue");
        let init = QpInit {
            kind: QpType::Rc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            capacity: Capacity::default(),
            signal_all: false,
        };
        engine.core.create_qp(NUMBER, init).expect("a queue pair");
        let mut attributes = demo::attributes();
        // It is on node 0, which connects.
        (attributes.dlid, attributes.dest_qpn) = (1, 3000 << 8);
        for (state, mask) in &demo::ways(QpType::Rc)[..2] {
            attributes.state = *state;
            let modified = engine.core.modify_qp(NUMBER, &attributes, *mask);
            assert_eq!(modified, Ok(()));
            engine.follow(NUMBER, *mask, *state);
        }
        let key = Key::new(NUMBER, 0, attributes.dest_qpn);
        let establish = |engine: &mut Engine| {
            let lane = engine.insert_stream(key, driver.endpoint());
            engine.open(key, pd, lane);
        };
        establish(&mut engine);
        assert!(!engine.core.awaits_lane(NUMBER));
        driver.die();
        establish(&mut engine);
        engine.serve(0);
        engine.turn(0);
        assert_eq!((engine.next_event(), engine.core.counts().lanes), (None, 1));
        assert!(!engine.core.awaits_lane(NUMBER));
        assert!(engine.left.is_busy, "it has to tell its peer");
    });
}
