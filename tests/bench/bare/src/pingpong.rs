//! The raw round trip: each side polls a word of its own memory and stores the other's through the
//! aperture.

use alloc::vec::Vec;

use platform::clock::ticks;
use platform::mem::{BoundsError, Region};
use runtime::time::{Duration, sleep};
use scif_perf::report::{Line, Unit};
use scif_perf::samples::Samples;

use crate::station::{BALL, Command, Station};
use crate::{Failure, Settings, failed};

/// Looks at the word before giving up: some seconds.
const MAX_LOOKS: u32 = 2_000_000_000;

/// Measures, if it is asked for.
pub fn run(station: &Station, settings: &Settings) -> Result<(), Failure> {
    if !settings.wants("pingpong") {
        return Ok(());
    }
    let mut samples = Samples::new();
    // The first repetition warms everything up and does not count.
    for repetition in 0..=settings.repetitions {
        let set = |region: &Region| region.write(BALL, 0_u64);
        set(&station.control).map_err(failed("ping-pong"))?;
        set(&station.peer_control).map_err(failed("ping-pong"))?;
        station.order(Command::Play, settings.rounds)?;
        // Until the other side has woken up and spins.
        sleep(Duration::from_millis(20));
        let times = rounds(station, settings)?;
        station.answer()?;
        if repetition > 0 {
            samples.add(times);
        }
    }
    if let Some(summary) = samples.summary() {
        settings.print(&Line::new("bare_pingpong", 8, Unit::Nanoseconds, summary));
    }
    Ok(())
}

/// Serves: returns the last ball that came.
pub fn play(station: &Station, rounds: u64) -> Result<u64, Failure> {
    let (own, peer) = (&station.control, &station.peer_control);
    for ball in 1..=rounds {
        let came = wait(own, ball).map_err(failed("ping-pong"))?;
        if !came {
            return Err("ping-pong: the ball did not come".into());
        }
        peer.store_release_u64(BALL, ball)
            .map_err(failed("ping-pong"))?;
    }
    Ok(rounds)
}

/// The time of each round trip in nanoseconds. One reading of the counter for each: it is the end
/// of one and the start of the next.
fn rounds(station: &Station, settings: &Settings) -> Result<Vec<f64>, Failure> {
    let (own, peer) = (&station.control, &station.peer_control);
    let mut times = Vec::with_capacity(settings.rounds as usize);
    let mut last = ticks();
    for ball in 1..=settings.rounds {
        peer.store_release_u64(BALL, ball)
            .map_err(failed("ping-pong"))?;
        if !wait(own, ball).map_err(failed("ping-pong"))? {
            return Err("ping-pong: the ball did not come back".into());
        }
        let now = ticks();
        times.push(settings.rate.between(last, now));
        last = now;
    }
    Ok(times)
}

/// Polls until the ball is here; whether it came.
#[inline]
fn wait(own: &Region, ball: u64) -> Result<bool, BoundsError> {
    for _ in 0..MAX_LOOKS {
        if own.load_acquire_u64(BALL)? == ball {
            return Ok(true);
        }
    }
    Ok(false)
}
