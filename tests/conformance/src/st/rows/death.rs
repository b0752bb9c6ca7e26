//! Deaths of programs, nodes and drivers, and peers that do nothing.

use alloc::format;
use alloc::vec::Vec;

use super::hostile::nonsense;
use super::six::{fill_queue, stream};
use crate::errno::{ECONNRESET, ENODEV};
use crate::st::bench::{Bench, Checked, Ends, Memory, NodeFailure, Place, Side, Ticket, ensure};
use crate::st::call::Call;
use crate::st::{Row, row};

/// Both ends are on one node.
const ONE_NODE: (Place, &str) = (Place::Node, "B's node is A's own");

pub const DEATH: &[Row] = &[
    row(
        85,
        "B is killed while A is in push, pull, puts, or waits for memory",
        "each ends, and push, pull, fence and map after it; headers that arrived come first",
        killed,
    ),
    row(
        86,
        "B's node loses its power, is frozen until it is lost, the link is cut",
        "as 85, `ENODEV` or `ECONNRESET`",
        node_lost,
    )
    .except(&[ONE_NODE]),
    row(
        88,
        "B stores nonsense into A's queue window: kinds, sequence numbers, credits; sends records \
         that are none; stores random words at random places, by a seed that the run prints",
        "`EPROTO`; other connections of both nodes go on",
        nonsense,
    ),
    row(
        89,
        "B fills one channel, and goes on pushing",
        "other channels and connections go on, both ways",
        flooded,
    ),
    row(
        90,
        "A is killed between put and header, at any moment",
        "B never sees the header; each header it sees has its data",
        between,
    ),
    row(
        87,
        "A's driver is killed in the middle of puts",
        "as 85 at both ends; connections work again afterwards",
        driver_killed,
    ),
];

const RANGE: u64 = 64 * 1024;

/// A's calls that are under way when its peer dies.
struct Scene {
    ends: Ends,
    /// A's own mapped memory.
    at_a: Memory,
    /// Calls that wait, or are repeated for ever.
    calls: Vec<Ticket>,
    storm: Ticket,
}

/// Ten headers that B has pushed wait at A; A pulls, pushes and puts on other channels.
fn begin(bench: &mut Bench<'_>) -> Checked<Scene> {
    let ends = bench.ends_joined()?;
    let at_a = bench.map(ends.a, RANGE)?;
    let at_b = bench.map(ends.b, RANGE)?;
    let mut channels = Vec::new();
    for channel in 1..4 {
        channels.push(bench.attach(ends.a.socket, channel)?);
    }
    let local = bench.allocate(Side::A, RANGE)?;
    let (puller, pusher, waiter) = (channels[0], channels[1], channels[2]);
    let pushed = fill_queue(bench, pusher, 64)?;
    for number in 0..10 {
        bench.push(ends.b, number)?;
    }
    let mut calls = Vec::new();
    for call in [
        puller.pull(true, 0, 0, 0),
        pusher.push(Some(pushed), 0, 0, 0),
        waiter.push(None, local.at, at_b.at, 1),
    ] {
        let call = bench.begin(call)?;
        bench.waits(call)?;
        calls.push(call);
    }
    let call = Call::Storm {
        handle: ends.a.slot,
        local: local.at,
        remote: at_b.at,
        length: RANGE,
        header: 0,
    };
    let storm = bench.begin((Side::A, call))?;
    bench.grows(at_b)?;
    Ok(Scene {
        ends,
        at_a,
        calls,
        storm,
    })
}

/// Checks that all calls end at A, after it has pulled at least `arrived` headers.
fn finish(bench: &mut Bench<'_>, scene: Scene, arrived: u64) -> Checked {
    let Scene {
        ends,
        at_a,
        calls,
        storm,
    } = scene;
    for call in calls {
        let reply = bench.take(call)?;
        ensure(
            is_lost(reply.result.err().map_or(0, |errno| errno.0)),
            || format!("a call that waited: {reply}"),
        )?;
    }
    let reply = bench.take(storm)?;
    ensure(is_lost(reply.word(0)? as i32), || format!("puts: {reply}"))?;
    let mut pulled = 0;
    let end = loop {
        let reply = bench.call(ends.a.pull(true, 0, 0, 0))?;
        match reply.result {
            Ok(0) if reply.word(0)? == pulled => pulled += 1,
            _ => break reply,
        }
    };
    ensure(is_lost(end.result.err().map_or(0, |errno| errno.0)), || {
        format!("after {pulled} headers: {end}")
    })?;
    ensure(pulled as u64 >= arrived, || format!("{pulled} headers"))?;
    bench.lost(ends.a.push(Some(1), 0, 0, 0))?;
    bench.lost(ends.a.fence())?;
    let other = bench.attach(ends.a.socket, 0).err();
    ensure(other.is_some(), || "channel 0 is attached twice".into())?;
    // The memory is the program's again, whatever `st_unmap` returns.
    let unmapped = bench.call(ends.a.unmap(at_a.at, 0))?;
    let is_over = match unmapped.result {
        Ok(0) => true,
        Ok(_) => false,
        Err(errno) => is_lost(errno.0),
    };
    ensure(is_over, || format!("unmap: {unmapped}"))?;
    bench.lost(ends.a.map(0, RANGE as i64))?;
    bench.ok(ends.a.detach())?;
    bench.ok(ends.a.socket.close())
}

const fn is_lost(errno: i32) -> bool {
    errno == ECONNRESET.0 || errno == ENODEV.0
}

fn killed(bench: &mut Bench<'_>) -> Checked {
    for _ in 0..3 {
        let scene = begin(bench)?;
        bench.driver().kill(Side::B)?;
        finish(bench, scene, 10)?;
    }
    Ok(())
}

/// The time without a heartbeat after which a node counts as lost, in these rows.
const SILENCE_MS: u64 = 6000;

fn node_lost(bench: &mut Bench<'_>) -> Checked {
    if bench.place() == Place::Sim {
        // In the simulator steps are the time, and headers that are under way may be lost.
        return each_loss(bench, |_| Ok(()), 0);
    }
    let milliseconds = SILENCE_MS;
    let before = bench.word((Side::A, Call::Silence { milliseconds }))?;
    // Also on the node that comes back: it must notice that it was lost.
    let shorten = |bench: &mut Bench<'_>| {
        let milliseconds = SILENCE_MS;
        bench
            .word((Side::B, Call::Silence { milliseconds }))
            .map(drop)
    };
    let result = each_loss(bench, shorten, 10);
    let milliseconds = before as u64;
    for side in [Side::A, Side::B] {
        bench.word((side, Call::Silence { milliseconds }))?;
    }
    result
}

/// Runs `begin_with` first each time. A then pulls at least `arrived` headers.
fn each_loss(
    bench: &mut Bench<'_>,
    begin_with: impl Fn(&mut Bench<'_>) -> Checked,
    arrived: u64,
) -> Checked {
    for loss in [NodeFailure::Power, NodeFailure::Freeze, NodeFailure::Cut] {
        let named = |what| format!("{loss:?}: {what}");
        begin_with(bench)?;
        let scene = begin(bench).map_err(named)?;
        bench.driver().lose(loss)?;
        let found = finish(bench, scene, arrived);
        bench.driver().restore(loss)?;
        found.map_err(named)?;
        bench.clear()?;
        works(bench).map_err(named)?;
    }
    Ok(())
}

/// Checks that a new connection works.
fn works(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    stream(bench, ends.a, ends.b, 100)?;
    stream(bench, ends.b, ends.a, 100)?;
    bench.ok(ends.a.detach())?;
    bench.ok(ends.b.detach())
}

fn driver_killed(bench: &mut Bench<'_>) -> Checked {
    let scene = begin(bench)?;
    let pulling = bench.begin(scene.ends.b.pull(true, 0, 0, 0))?;
    bench.driver().kill_driver()?;
    let reply = bench.take(pulling)?;
    ensure(
        is_lost(reply.result.err().map_or(0, |errno| errno.0)),
        || format!("B's pull: {reply}"),
    )?;
    finish(bench, scene, 10)?;
    bench.clear()?;
    works(bench)
}

fn flooded(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let other_a = bench.attach(ends.a.socket, 1)?;
    let other_b = bench.attach(ends.b.socket, 1)?;
    let others = bench.ends_joined()?;
    let call = Call::Pushes {
        handle: ends.b.slot,
        first: 0,
        count: 1000,
    };
    let flood = bench.begin((Side::B, call))?;
    bench.waits(flood)?;
    for (a, b) in [(other_a, other_b), (others.a, others.b)] {
        stream(bench, a, b, 500)?;
        stream(bench, b, a, 500)?;
    }
    // Headers on the channel itself, in the other direction.
    stream(bench, ends.a, ends.b, 500)?;
    bench.waits(flood)?;
    let call = Call::Pulls {
        handle: ends.a.slot,
        first: 0,
        count: 1000,
    };
    let pulling = bench.begin((Side::A, call))?;
    for ticket in [pulling, flood] {
        let reply = bench.take(ticket)?;
        ensure(reply.result == Ok(1000), || format!("{reply}"))?;
    }
    Ok(())
}

fn between(bench: &mut Bench<'_>) -> Checked {
    for round in 0..5 {
        let ends = bench.ends_joined()?;
        let at_b = bench.map(ends.b, RANGE)?;
        let local = bench.allocate(Side::A, RANGE)?;
        let call = Call::Storm {
            handle: ends.a.slot,
            local: local.at,
            remote: at_b.at,
            length: RANGE,
            header: 1,
        };
        bench.begin((Side::A, call))?;
        let call = Call::Calm {
            handle: ends.b.slot,
            local: at_b.at,
        };
        let calm = bench.begin((Side::B, call))?;
        bench.grows(at_b)?;
        bench.driver().kill_later(Side::A, 20 + 13 * round)?;
        let reply = bench.take(calm)?;
        let is_right = is_lost(reply.word(0)? as i32) && reply.result != Ok(0);
        ensure(is_right, || format!("{reply}"))?;
    }
    Ok(())
}
