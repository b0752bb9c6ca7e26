//! Push and pull: the six combinations.

use alloc::format;

use crate::errno::EAGAIN;
use crate::st::bench::{Bench, Checked, End, Ends, Memory, Side, ensure, number::*};
use crate::st::call::Call;
use crate::st::{Row, row};

pub const SIX: &[Row] = &[
    row(
        49,
        "a header alone",
        "all 32 bytes arrive unchanged",
        header,
    ),
    row(
        50,
        "a put alone",
        "the bytes are in B's memory, and B's queue stays empty",
        put,
    ),
    row(
        51,
        "a get alone",
        "the bytes of A's range are in B's memory; A's memory and queue are unchanged",
        get,
    ),
    row(
        52,
        "very many puts with headers, of 1 byte to 64 KiB at all alignments",
        "after each pull its data is there",
        puts_with,
    ),
    row(
        53,
        "A changes its memory and pushes; B pulls with a get; 500 times",
        "B reads the new content each time",
        pull_gets,
    ),
    row(
        54,
        "a put with a header, a pull with a get",
        "the put is visible, the header comes, then the get: in this order",
        both,
    ),
    row(
        55,
        "a pull before the push",
        "waits and wakes: of a program that looks, and of one that sleeps",
        pull_first,
    ),
    row(
        56,
        "very many headers",
        "the header of push k is that of pull k",
        in_order,
    ),
    row(57, "several puts, one header", "all are there", several),
    row(
        58,
        "a get without header between two pulls",
        "takes no header",
        get_between,
    ),
    row(
        59,
        "both sides push until it is full, then pull; and both at once",
        "neither blocks the other",
        both_ways,
    ),
    row(
        60,
        "N headers that nobody pulls",
        "a push behind N and at most a quarter of N more waits, and goes on when a quarter of N at \
         most was pulled; with `O_NONBLOCK` it is `EAGAIN`, and its put has not happened",
        full,
    ),
    row(
        61,
        "the source is overwritten right after the push",
        "B sees the old content",
        overwritten,
    ),
];

/// A connection whose ends have each mapped this number of bytes.
pub fn mapped(bench: &mut Bench<'_>, bytes: u64) -> Checked<(Ends, Memory, Memory)> {
    let ends = bench.ends_joined()?;
    let at_a = bench.map(ends.a, bytes)?;
    let at_b = bench.map(ends.b, bytes)?;
    Ok((ends, at_a, at_b))
}

/// Pushes headers, numbered from 0, until the peer's queue of `slots` slots has no room for
/// another one. Returns their number. The peer must not pull meanwhile.
pub fn fill_queue(bench: &mut Bench<'_>, end: End, slots: u64) -> Checked<u64> {
    for number in 0..slots {
        bench.push(end, number)?;
    }
    bench.ok(end.socket.nonblocking(true))?;
    let mut pushed = slots;
    let next = loop {
        let next = bench.call(end.push(Some(pushed), 0, 0, 0))?;
        if next.result.is_err() {
            break next;
        }
        pushed += 1;
        ensure(pushed <= slots + slots / 4, || format!("{pushed} had room"))?;
    };
    bench.ok(end.socket.nonblocking(false))?;
    ensure(next.result == Err(EAGAIN), || {
        format!("a full queue: {next}")
    })?;
    Ok(pushed)
}

const RANGE: u64 = 64 * 1024;

fn header(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for number in [0, 1, 77, u64::from(u32::MAX), i64::MAX as u64] {
        bench.push(ends.a, number)?;
        bench.pull(ends.b, number)?;
        bench.push(ends.b, number)?;
        bench.pull(ends.a, number)?;
    }
    Ok(())
}

fn put(bench: &mut Bench<'_>) -> Checked {
    let (ends, _, at_b) = mapped(bench, RANGE)?;
    let local = bench.allocate(Side::A, RANGE)?;
    bench.ok(local.fill(5000, 50))?;
    bench.ok(ends.a.push(None, local.at, at_b.at + 17, 5000))?;
    bench.ok(ends.a.fence())?;
    bench.has(at_b.from(17), 5000, 50)?;
    bench.is_all(Memory { length: 17, ..at_b }, 0)?;
    bench.is_all(at_b.from(5017), 0)?;
    bench.is_empty(ends.b)
}

fn get(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, _) = mapped(bench, RANGE)?;
    let local = bench.allocate(Side::B, 5000)?;
    bench.ok(at_a.fill(RANGE, 51))?;
    bench.ok(ends.b.pull(false, local.at, at_a.at, 5000))?;
    bench.has(local, 5000, 51)?;
    bench.has(at_a, RANGE, 51)?;
    bench.is_empty(ends.a)
}

/// Bytes that the loops of puts use.
const PLACES: u64 = 8 * (64 * 1024 + 64);

fn puts_with(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, PLACES)?;
    let count = bench.many();
    let putting = bench.begin((
        Side::A,
        Call::PutLoop {
            handle: ends.a.slot,
            first: 0,
            count,
            remote: at_b.at,
        },
    ))?;
    let getting = bench.begin((
        Side::B,
        Call::GetLoop {
            handle: ends.b.slot,
            first: 0,
            count,
            local: at_b.at,
        },
    ))?;
    for (what, ticket) in [("pulls", getting), ("puts", putting)] {
        let reply = bench.take(ticket)?;
        let is_whole = reply.result == Ok(count as i64);
        ensure(is_whole, || format!("{what} of {count}: {reply}"))?;
    }
    Ok(())
}

fn pull_gets(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_a = bench.map(ends.a, RANGE)?;
    let local = bench.allocate(Side::B, 4096)?;
    for number in 0..500 {
        bench.ok(at_a.from(number).fill(4096, number))?;
        bench.push(ends.a, number)?;
        bench.comes(ends.b.pull(true, local.at, at_a.at + number, 4096), number)?;
        bench.has(local, 4096, number)?;
    }
    Ok(())
}

fn both(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    let source = bench.allocate(Side::A, 3000)?;
    let target = bench.allocate(Side::B, 3000)?;
    for number in 0..100 {
        bench.ok(source.fill(3000, number))?;
        bench.ok(at_a.fill(3000, number + 1000))?;
        let pulling = bench.begin(ends.b.pull(true, target.at, at_a.at, 3000))?;
        bench.ok(ends.a.push(Some(number), source.at, at_b.at, 3000))?;
        let reply = bench.ends(pulling, Ok(0))?;
        let header = reply.word(0)?;
        ensure(header == number as i64, || format!("header {header}"))?;
        bench.has(at_b, 3000, number)?;
        bench.has(target, 3000, number + 1000)?;
    }
    Ok(())
}

fn pull_first(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    // The pause is long enough for the peer to be asleep, and short enough for it to be still
    // polling, in turn.
    for number in 0..20 {
        let pulling = bench.begin(ends.b.pull(true, 0, 0, 0))?;
        if number % 2 == 0 {
            bench.waits(pulling)?;
        }
        bench.push(ends.a, number)?;
        let reply = bench.ends(pulling, Ok(0))?;
        ensure(reply.word(0)? == number as i64, || format!("{reply}"))?;
    }
    Ok(())
}

/// Pushes this number of headers at one end and pulls them at the other, at the same time.
pub fn stream(bench: &mut Bench<'_>, from: End, to: End, count: u64) -> Checked {
    let pushing = pushes(bench, from, count)?;
    let pulling = pulls(bench, to, count)?;
    all_came(bench, pulling, count)?;
    all_came(bench, pushing, count)
}

type Begun = crate::st::bench::Ticket;

fn pushes(bench: &mut Bench<'_>, end: End, count: u64) -> Checked<Begun> {
    let call = Call::Pushes {
        handle: end.slot,
        first: 0,
        count,
    };
    bench.begin((end.side, call))
}

fn pulls(bench: &mut Bench<'_>, end: End, count: u64) -> Checked<Begun> {
    let call = Call::Pulls {
        handle: end.slot,
        first: 0,
        count,
    };
    bench.begin((end.side, call))
}

fn all_came(bench: &mut Bench<'_>, ticket: Begun, count: u64) -> Checked {
    let reply = bench.take(ticket)?;
    let is_whole = reply.result == Ok(count as i64);
    ensure(is_whole, || format!("of {count} headers: {reply}"))
}

fn in_order(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let count = bench.many();
    stream(bench, ends.a, ends.b, count)
}

fn several(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, RANGE)?;
    let local = bench.allocate(Side::A, 1000)?;
    for number in 0..60 {
        bench.ok(local.fill(1000, number))?;
        bench.ok(ends.a.push(None, local.at, at_b.at + 1000 * number, 1000))?;
    }
    bench.push(ends.a, 57)?;
    bench.pull(ends.b, 57)?;
    for number in 0..60 {
        bench.has(at_b.from(1000 * number), 1000, number)?;
    }
    Ok(())
}

fn get_between(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_a = bench.map(ends.a, RANGE)?;
    let local = bench.allocate(Side::B, 100)?;
    bench.push(ends.a, 1)?;
    bench.push(ends.a, 2)?;
    bench.pull(ends.b, 1)?;
    bench.ok(ends.b.pull(false, local.at, at_a.at, 100))?;
    bench.pull(ends.b, 2)
}

fn both_ways(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    // Whatever number of headers was taken before, and however many of them the peer knows of.
    for before in [0, 5, 15, 16, 63] {
        for number in 0..before {
            for (from, to) in [(ends.a, ends.b), (ends.b, ends.a)] {
                bench.push(from, number)?;
                bench.pull(to, number)?;
            }
        }
        for number in 0..64 {
            bench.push(ends.a, number)?;
            bench.push(ends.b, number)?;
        }
        for number in 0..64 {
            bench.pull(ends.a, number)?;
            bench.pull(ends.b, number)?;
        }
    }
    let count = bench.many() / 4;
    let pushing = [pushes(bench, ends.a, count)?, pushes(bench, ends.b, count)?];
    let pulling = [pulls(bench, ends.a, count)?, pulls(bench, ends.b, count)?];
    for ticket in pulling.into_iter().chain(pushing) {
        all_came(bench, ticket, count)?;
    }
    Ok(())
}

fn full(bench: &mut Bench<'_>) -> Checked {
    for slots in [8_u64, 64] {
        let ends = bench.ends_of(&[(ST_L_NUMSLOTS, slots as i64)])?;
        let at_b = bench.map(ends.b, RANGE)?;
        let local = bench.allocate(Side::A, 1000)?;
        bench.ok(local.set(7))?;
        let pushed = fill_queue(bench, ends.a, slots)?;
        bench.ok(ends.a.socket.nonblocking(true))?;
        let put = ends.a.push(Some(pushed), local.at, at_b.at, 1000);
        bench.fails(put, EAGAIN)?;
        bench.ok(ends.a.socket.nonblocking(false))?;
        let pushing = bench.begin(put)?;
        bench.waits(pushing)?;
        bench.is_all(
            Memory {
                length: 1000,
                ..at_b
            },
            0,
        )?;
        let mut pulled = 0;
        while pulled < slots / 4 {
            bench.pull(ends.b, pulled)?;
            pulled += 1;
        }
        bench.ends(pushing, Ok(0))?;
        while pulled <= pushed {
            bench.pull(ends.b, pulled)?;
            pulled += 1;
        }
        bench.is_all(
            Memory {
                length: 1000,
                ..at_b
            },
            7,
        )?;
    }
    Ok(())
}

fn overwritten(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, RANGE)?;
    let local = bench.allocate(Side::A, RANGE)?;
    for (number, length) in [(1, 8), (2, 4096), (3, RANGE)] {
        bench.ok(local.fill(length, number))?;
        bench.ok(ends.a.push(Some(number), local.at, at_b.at, length as i64))?;
        bench.ok(local.set(0xee))?;
        bench.pull(ends.b, number)?;
        bench.has(at_b, length, number)?;
    }
    Ok(())
}
