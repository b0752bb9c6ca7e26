//! Fences and order.

use alloc::format;

use super::six::{mapped, stream};
use crate::st::bench::{Bench, Checked, Memory, Place, Side, ensure};
use crate::st::call::Call;
use crate::st::{Row, row};

pub const FENCE: &[Row] = &[
    row(
        71,
        "a fence with nothing outstanding",
        "returns at once",
        nothing_outstanding,
    ),
    row(
        72,
        "after a fence, a put without header",
        "is seen by B when it is told on another channel, by a message of SCIF, and by a third \
         program (in `cards` on a third node)",
        told,
    ),
    row(
        73,
        "`st_flush` and `st_fence`",
        "are one function",
        one_function,
    )
    .except(&[(Place::Sim, "names of functions are C's")]),
    row(
        74,
        "headers of two channels; a put, a fence, and a header on another channel",
        "may overtake each other; may not",
        two_channels,
    ),
];

fn nothing_outstanding(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, 4096)?;
    for waits in [true, false] {
        for end in [ends.a, ends.b] {
            bench.ok(end.socket.nonblocking(!waits))?;
            bench.ok(end.fence())?;
            bench.ok(end.fence())?;
        }
    }
    bench.ok(ends.a.push(Some(1), at_a.at, at_b.at, 100))?;
    bench.ok(ends.a.fence())?;
    bench.ok(ends.a.fence())?;
    bench.pull(ends.b, 1)
}

const RANGE: u64 = 64 * 1024;

fn told(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, RANGE)?;
    let local = bench.allocate(Side::A, RANGE)?;
    let other_a = bench.attach(ends.a.socket, 1)?;
    let other_b = bench.attach(ends.b.socket, 1)?;
    let scif = match bench.place() {
        Place::Sim => None,
        _ => Some(plain_connection(bench)?),
    };
    for seed in 0..30 {
        bench.ok(local.fill(RANGE, seed))?;
        let pulling = bench.begin(other_b.pull(true, 0, 0, 0))?;
        bench.ok(ends.a.push(None, local.at, at_b.at, RANGE as i64))?;
        bench.ok(ends.a.fence())?;
        match (seed % 3, scif) {
            (1, Some((from, to))) => {
                let receiving = bench.begin((Side::B, Call::ScifRecv { socket: to }))?;
                bench.gives((Side::A, words_of(from)), 72)?;
                bench.ends(receiving, Ok(72))?;
                bench.has(at_b, RANGE, seed)?;
            }
            // The program that runs the rows checks it.
            (2, _) => bench.has(at_b, RANGE, seed)?,
            _ => {}
        }
        bench.push(other_a, seed)?;
        bench.ends(pulling, Ok(0))?;
        bench.has(at_b, RANGE, seed)?;
    }
    bench.is_empty(ends.b)
}

/// A connection of plain SCIF from A to B: the slots of its ends.
fn plain_connection(bench: &mut Bench<'_>) -> Checked<(u64, u64)> {
    let (listener, from, to) = (bench.slot(), bench.slot(), bench.slot());
    let port = bench.port();
    let socket = listener;
    bench.ok((Side::B, Call::Scif { socket, port }))?;
    bench.ok((
        Side::A,
        Call::Scif {
            socket: from,
            port: 0,
        },
    ))?;
    let accepting = bench.begin((Side::B, Call::ScifAccept { socket, into: to }))?;
    let node = u64::from(bench.driver().node(Side::B));
    let call = Call::ScifConnect {
        socket: from,
        node,
        port,
    };
    bench.ok((Side::A, call))?;
    bench.ends(accepting, Ok(0))?;
    Ok((from, to))
}

const fn words_of(socket: u64) -> Call {
    Call::ScifSend {
        socket,
        w0: 1,
        w1: 2,
        w2: 3,
        w3: 4,
        w4: 5,
        w5: 6,
        w6: 7,
        w7: 8,
        w8: 9,
    }
}

fn one_function(bench: &mut Bench<'_>) -> Checked {
    bench.gives((Side::A, Call::Symbols {}), 1)?;
    let ends = bench.ends_joined()?;
    let handle = ends.a.slot;
    bench.ok((Side::A, Call::Fence { handle, flush: 1 }))
}

fn two_channels(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let other_a = bench.attach(ends.a.socket, 1)?;
    let other_b = bench.attach(ends.b.socket, 1)?;
    // The header that was pushed first can wait any time.
    bench.push(ends.a, 1)?;
    stream(bench, other_a, other_b, 200)?;
    bench.pull(ends.b, 1)?;
    let at_b = bench.map(ends.b, RANGE)?;
    let local = bench.allocate(Side::A, RANGE)?;
    for seed in 0..100 {
        let length = 1 + seed * 641;
        bench.ok(local.fill(length, seed))?;
        let pulling = bench.begin(other_b.pull(true, 0, 0, 0))?;
        bench.ok(ends.a.push(None, local.at, at_b.at, length as i64))?;
        bench.ok(ends.a.fence())?;
        bench.push(other_a, seed)?;
        let reply = bench.ends(pulling, Ok(0))?;
        ensure(reply.word(0)? == seed as i64, || format!("{reply}"))?;
        bench.has(Memory { length, ..at_b }, length, seed)?;
    }
    Ok(())
}
