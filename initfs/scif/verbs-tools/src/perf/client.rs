//! The measuring role. Each measurement makes a connection and a queue pair of its own.

use alloc::string::String;
use alloc::vec::Vec;

use hal::clock::ticks;
use scif::PortId;
use scif_perf::report::Unit;
use scif_perf::samples::Samples;
use verbs::Context;

use super::end::{self, End};
use super::wire::{self, Kind, Order};
use super::{BANDWIDTH_SIZE, Context as _, LATENCY_SIZE, Result, Settings};
use crate::batches::Batches;

/// Bytes that an atomic operation changes.
const WORD: u64 = 8;
/// Rounds that are not counted, since the first ones make connections and windows.
const WARM_UP: u64 = 16;

/// Measures all tests and sizes of the settings.
pub fn measure(settings: &Settings) -> Result {
    let context = end::open()?;
    for kind in &settings.kinds {
        let default = match kind.is_stream() {
            true => BANDWIDTH_SIZE,
            false => LATENCY_SIZE,
        };
        let sizes = match (&settings.sizes, kind.is_atomic()) {
            (_, true) => [WORD].to_vec(),
            (Some(sizes), false) => sizes.clone(),
            (None, false) => [default].to_vec(),
        };
        for size in sizes {
            one(settings, &context, *kind, size)?;
        }
    }
    Ok(())
}

/// Ends the server.
pub fn stop(server: PortId) -> Result {
    let endpoint = verbs::connect(server).context("the server")?;
    wire::order(&endpoint, None)
}

/// Measures one test with one size.
fn one(settings: &Settings, context: &Context, kind: Kind, size: u64) -> Result {
    let mut samples = Samples::new();
    for _ in 0..settings.repetitions {
        samples.add(repetition(settings, context, kind, size)?);
    }
    if !kind.is_stream() {
        settings.print(kind.name(), size, Unit::Nanoseconds, samples);
        return Ok(());
    }
    // Samples are requests per second.
    if !kind.is_atomic() {
        let bytes = samples.scaled(size as f64);
        settings.print(kind.name(), size, Unit::BytesPerSecond, bytes);
    }
    let stem = kind.name().split('_').next().unwrap_or_default();
    let rate: String = [stem, "_rate"].concat();
    settings.print(&rate, size, Unit::PerSecond, samples);
    Ok(())
}

fn repetition(settings: &Settings, context: &Context, kind: Kind, size: u64) -> Result<Vec<f64>> {
    let endpoint = verbs::connect(settings.server);
    let endpoint = endpoint.context("no server there (`ib-perf -s`)")?;
    let order = Order {
        kind,
        size,
        rounds: settings.rounds + WARM_UP,
        depth: settings.depth,
        has_events: settings.has_events,
    };
    wire::order(&endpoint, Some(&order))?;
    let mut end = End::connect(context, &endpoint, &order)?;
    if kind == Kind::SendLat {
        end.receive(order.depth as usize)?;
    }
    wire::meet(&endpoint)?;
    let samples = match kind.is_stream() {
        true => stream(settings, &mut end, &order)?,
        false => latency(settings, &mut end, &order)?,
    };
    wire::meet(&endpoint)?;
    Ok(samples)
}

/// Measures the nanoseconds of each round.
fn latency(settings: &Settings, end: &mut End, order: &Order) -> Result<Vec<f64>> {
    let mut samples = Vec::new();
    for round in 1..=order.rounds {
        let start = ticks();
        let share = match order.kind {
            Kind::SendLat => {
                end.send()?;
                end.receives.wait_all(1)?;
                0.5
            }
            Kind::WriteLat => {
                end.write_mark(round as u8)?;
                end.wait_for_mark(round as u8)?;
                0.5
            }
            _ => {
                post(end, order.kind)?;
                end.sends.wait_all(1)?;
                1.0
            }
        };
        let time = settings.rate.between(start, ticks());
        if round > WARM_UP {
            samples.push(time * share);
        }
        if order.kind == Kind::SendLat {
            end.receive(1)?;
        }
        if matches!(order.kind, Kind::SendLat | Kind::WriteLat) {
            end.sends.take(order.depth as usize)?;
        }
    }
    Ok(samples)
}

/// Posts a request of this kind, which will raise a completion.
fn post(end: &End, kind: Kind) -> Result {
    let (own, peer) = (end.outgoing()?, end.peer);
    let posted = match kind {
        Kind::SendLat | Kind::SendBw => return end.send(),
        Kind::WriteLat | Kind::WriteBw => end.pair.write(0, &[own], peer),
        Kind::ReadLat | Kind::ReadBw => end.pair.read(0, &[own], peer),
        Kind::AtomicLat | Kind::AtomicRate => end.pair.fetch_and_add(0, own, peer, 1),
    };
    posted.context("a request")
}

/// Measures requests per second: a sample for each batch of `depth` requests that have completed.
fn stream(settings: &Settings, end: &mut End, order: &Order) -> Result<Vec<f64>> {
    let depth = u64::from(order.depth);
    let mut posted = 0;
    let mut batches = Batches::new(depth, ticks());
    while batches.completed() < order.rounds {
        while posted < order.rounds && posted - batches.completed() < depth {
            post(end, order.kind)?;
            posted += 1;
        }
        let count = end.sends.wait(order.depth as usize)?;
        batches.add(count as u64, ticks);
    }
    let rate = |(count, time)| count as f64 * 1e9 / settings.rate.between(0, time);
    Ok(batches.finish(ticks()).into_iter().map(rate).collect())
}
