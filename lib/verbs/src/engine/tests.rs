//! Tests of the ends of lanes and listeners, with a driver for tests.

use verbs_core::host::{Host, LaneId};
use verbs_core::record::HEADER_BYTES;

use super::Engine;
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
