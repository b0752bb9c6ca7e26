//! Level 0: headers that programs make themselves.

use alloc::format;

use super::six::mapped;
use crate::errno::{EAGAIN, EFAULT, EINVAL, ENXIO, EPERM, EPROTO};
use crate::st::bench::{Ask, Bench, Checked, End, Memory, Side, ensure, number::*};
use crate::st::call::{Call, NOTHING, Reply};
use crate::st::{Row, row};

pub const LEVEL_0: &[Row] = &[
    row(
        75,
        "`st_header_t`",
        "has 40 bytes, and its fields at the protocol's offsets",
        layout,
    ),
    row(
        76,
        "`st_tx` of each operation without data",
        "`st_rx` gives the same 40 bytes with ports and key filled in, and len 0",
        operations,
    ),
    row(
        77,
        "DATA with len",
        "the bytes are at ⟨Bufx, Offset⟩ of B; without `opt_pay` no descriptor, with it header, \
         payload and len",
        data,
    ),
    row(
        78,
        "`opt_pay`",
        "is 32 bytes, and no more is written; `st_rx` without one drops them",
        payload,
    ),
    row(
        79,
        "a wrong D_Key, a wrong port; Bufx beyond the range",
        "`EINVAL`; `ENXIO`",
        wrong,
    ),
    row(80, "RC, CA, RD, DA, DC", "`EPERM`", connections),
    row(
        81,
        "GET with len; FetchInc, FetchDec, FetchClear of a word that both sides change at once",
        "the data comes; nothing is lost",
        get_and_fetch,
    ),
    row(
        82,
        "`st_tx` without a slot, `st_rx` without a descriptor",
        "wait",
        waits,
    ),
    row(
        83,
        "a header of level 1 at `st_rx`; one of level 0 at `st1_pull`",
        "a NOP with 32 bytes of payload; `EPROTO`, and it stays",
        mixed,
    ),
    row(
        84,
        "push and pull that a program writes on `st_tx` and `st_rx` alone",
        "do what rows 49 to 54 say",
        by_hand,
    ),
];

/// Codes of operations and flags.
const NOP: u64 = 0x10;
const GET: u64 = 0x15;
const RTS: u64 = 0x16;
const DATA: u64 = 0x1b;
/// The codes of all operations that are not about connections, in order.
const OPERATIONS: [u64; 13] = [
    NOP, 0x13, 0x14, GET, RTS, 0x17, 0x18, 0x1a, DATA, 0x1c, 0x1d, 0x1e, 0x1f,
];
const INTERRUPT: u64 = 0x040;
const SILENT: u64 = 0x080;
const INCREMENT: u64 = 0x100;
const DECREMENT: u64 = 0x200;
const CLEAR: u64 = 0x300;

/// A header. Fields that rows do not need are 0.
#[derive(Clone, Copy, Default)]
struct Low {
    op: u64,
    param: u64,
    ports: [u64; 2],
    key: u64,
    buffer: u64,
    offset: u64,
    /// The fields Cksum and B_id, then Sync, B_num, D_id and S_id.
    rest: [u64; 6],
}

impl Low {
    fn of(code: u64, flags: u64) -> Low {
        Low {
            op: code << 11 | flags,
            ..Low::default()
        }
    }

    fn at(code: u64, flags: u64, ahead: u64) -> Low {
        Low {
            buffer: ahead >> 12,
            offset: ahead & 0xfff,
            ..Low::of(code, flags)
        }
    }

    /// The 40 bytes as words.
    fn words(&self) -> [u64; 5] {
        let [cksum, b_id, sync, b_num, d_id, s_id] = self.rest;
        let [d_port, s_port] = self.ports;
        [
            self.op | self.param << 16 | d_port << 32 | s_port << 48,
            self.key | cksum << 32 | b_id << 48,
            self.buffer | self.offset << 32,
            sync | b_num << 32,
            d_id | s_id << 32,
        ]
    }

    /// `st_tx`, with the payload of a number, and local memory from an offset of the own range on.
    fn send(&self, end: End, payload: Option<u64>, length: i64, local: u64) -> Ask {
        let [w0, w1, w2, w3, w4] = self.words();
        let call = Call::Transmit {
            handle: end.slot,
            given: 1,
            w0,
            w1,
            w2,
            w3,
            w4,
            payload: payload.unwrap_or(NOTHING),
            length: length as u64,
            buffer: local >> 12,
            offset: local & 0xfff,
        };
        (end.side, call)
    }
}

/// `st_rx`, with a place for the payload or without one.
const fn receive(end: End, payload: bool) -> Ask {
    let call = Call::Receive {
        handle: end.slot,
        given: 1,
        payload: payload as u64,
    };
    (end.side, call)
}

/// Checks that a descriptor has this header, length and payload.
fn is(reply: &Reply, low: &Low, length: i64, payload: Option<u64>) -> Checked {
    let words = low.words().map(|word| word as i64);
    let has_header = reply.extra.get(..5) == Some(&words[..]);
    let payload = match payload {
        Some(number) => reply.word(6)? == number as i64,
        None => true,
    };
    let is_right = has_header && reply.word(5)? == length && payload && reply.word(7)? == 0;
    ensure(is_right, || format!("{reply}, not {words:?} {length}"))
}

/// The header as the peer receives it, with ports and key.
fn filled(bench: &mut Bench<'_>, from: End, low: Low) -> Checked<Low> {
    let mut option =
        |name| Ok::<_, alloc::string::String>(bench.word(from.socket.get(name))? as u64);
    Ok(Low {
        ports: [option(ST_R_PORT)?, option(ST_L_PORT)?],
        key: option(ST_R_KEY)? & 0xffff_ffff,
        ..low
    })
}

fn layout(bench: &mut Bench<'_>) -> Checked {
    let found = bench.reply((Side::A, Call::Layout {}))?.extra;
    let expected = [40, 0, 2, 4, 6, 8, 12, 14, 16, 20, 24, 28, 32, 36];
    ensure(found == expected, || format!("{found:?}"))
}

fn operations(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for code in OPERATIONS {
        for flags in [0, INTERRUPT] {
            let low = Low {
                param: 0x1234,
                buffer: 0x0102_0304,
                offset: 0x0506_0708,
                rest: [1, 2, 0xffff_ffff, 4, 5, code],
                ..Low::of(code, flags)
            };
            let expected = filled(bench, ends.a, low)?;
            bench.ok(low.send(ends.a, None, 0, 0))?;
            let reply = bench.reply(receive(ends.b, true))?;
            is(&reply, &expected, 0, None)?;
            // If ports and key are given, the header is the same.
            bench.ok(expected.send(ends.a, Some(code), 0, 0))?;
            let reply = bench.reply(receive(ends.b, true))?;
            is(&reply, &expected, 0, Some(code))?;
        }
        bench.ok(Low::of(code, SILENT).send(ends.a, None, 0, 0))?;
    }
    bench.is_empty(ends.b)
}

const RANGE: u64 = 64 * 1024;

fn data(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    for (seed, ahead, flags, payload) in [
        (1, 0, 0, None),
        (2, 4096 + 17, 0, Some(5)),
        (3, 3 * 4096, INTERRUPT, None),
        (4, 100, SILENT, Some(6)),
    ] {
        bench.ok(at_a.from(4100).fill(5000, seed))?;
        let low = Low::at(DATA, flags, ahead);
        let expected = filled(bench, ends.a, low)?;
        bench.ok(low.send(ends.a, payload, 5000, 4100))?;
        if flags != SILENT && (payload.is_some() || flags == INTERRUPT) {
            let reply = bench.reply(receive(ends.b, true))?;
            is(&reply, &expected, 5000, payload)?;
        } else {
            bench.ok(ends.a.fence())?;
            bench.is_empty(ends.b)?;
        }
        bench.has(at_b.from(ahead), 5000, seed)?;
    }
    // The local range has bounds, too.
    bench.fails(Low::of(DATA, 0).send(ends.a, None, 100, RANGE - 50), EFAULT)
}

fn payload(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let low = Low::of(NOP, 0);
    let expected = filled(bench, ends.a, low)?;
    for number in 0..20 {
        bench.ok(low.send(ends.a, Some(number), 0, 0))?;
        bench.ok(low.send(ends.a, Some(number + 100), 0, 0))?;
        bench.ok(low.send(ends.a, Some(number + 200), 0, 0))?;
        let first = bench.reply(receive(ends.b, true))?;
        is(&first, &expected, 0, Some(number))?;
        let second = bench.reply(receive(ends.b, false))?;
        is(&second, &expected, 0, None)?;
        let third = bench.reply(receive(ends.b, true))?;
        is(&third, &expected, 0, Some(number + 200))?;
    }
    bench.is_empty(ends.b)
}

fn wrong(bench: &mut Bench<'_>) -> Checked {
    let (ends, _, at_b) = mapped(bench, RANGE)?;
    let right = filled(bench, ends.a, Low::of(RTS, 0))?;
    let [d_port, s_port] = right.ports;
    for bad in [
        Low {
            key: right.key ^ 1,
            ..right
        },
        Low {
            ports: [d_port + 1, s_port],
            ..right
        },
        Low {
            ports: [d_port, s_port + 1],
            ..right
        },
        Low::of(0, 0),
        Low::of(0x11, 0),
    ] {
        bench.fails(bad.send(ends.a, None, 0, 0), EINVAL)?;
    }
    bench.fails(Low::of(RTS, 0).send(ends.a, None, 8, 0), EINVAL)?;
    bench.fails(Low::of(DATA, 0).send(ends.a, None, -1, 0), EINVAL)?;
    for ahead in [RANGE, RANGE - 7, 0xffff_ffff << 12] {
        for payload in [None, Some(1)] {
            bench.fails(Low::at(DATA, 0, ahead).send(ends.a, payload, 8, 0), ENXIO)?;
            bench.fails(Low::at(GET, 0, ahead).send(ends.a, payload, 8, 0), ENXIO)?;
        }
    }
    bench.is_all(at_b, 0)?;
    bench.is_empty(ends.b)
}

fn connections(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for code in 1..=5 {
        bench.fails(Low::of(code, 0).send(ends.a, None, 0, 0), EPERM)?;
        bench.fails(Low::of(code, 0).send(ends.a, Some(1), 0, 0), EPERM)?;
    }
    bench.is_empty(ends.b)
}

fn get_and_fetch(bench: &mut Bench<'_>) -> Checked {
    const WORD: u64 = 8192;
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    bench.ok(at_b.from(100).fill(5000, 81))?;
    bench.ok(Low::at(GET, 0, 100).send(ends.a, None, 5000, 4097))?;
    bench.has(at_a.from(4097), 5000, 81)?;
    bench.is_empty(ends.b)?;

    let count = bench.many() / 4;
    let fetches = |flags, count| {
        let call = Call::Fetches {
            handle: ends.a.slot,
            ahead: WORD,
            count,
            flags,
            local: at_a.at,
        };
        (Side::A, call)
    };
    let word = at_b.from(WORD);
    bench.ok((
        Side::B,
        Call::Store {
            address: word.at,
            value: 1_000_000,
        },
    ))?;
    let call = Call::Adds {
        address: word.at,
        count,
    };
    let adding = bench.begin((Side::B, call))?;
    for (flags, count) in [(INCREMENT, count), (DECREMENT, count / 2)] {
        let fetching = bench.begin(fetches(flags, count))?;
        let reply = bench.take(fetching)?;
        ensure(reply.word(0)? == count as i64, || format!("{reply}"))?;
    }
    bench.ends(adding, Ok(0))?;
    let sum = 1_000_000 + 2 * count as i64 - (count / 2) as i64;
    let found = bench.load(word)?;
    ensure(found == sum, || format!("{found}, not {sum}"))?;
    let cleared = bench.reply(fetches(CLEAR, 1))?;
    ensure(cleared.result == Ok(sum), || {
        format!("{cleared}, not {sum}")
    })?;
    bench.is_all(Memory { length: 8, ..word }, 0)?;
    // A locked operation is on 8 aligned bytes.
    for (ahead, length) in [(WORD + 4, 8), (WORD, 4), (WORD, 16)] {
        let low = Low::at(GET, INCREMENT, ahead);
        bench.fails(low.send(ends.a, None, length, 0), EINVAL)?;
    }
    Ok(())
}

fn waits(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_of(&[(ST_L_NUMSLOTS, 8)])?;
    let low = Low::of(RTS, 0);
    let expected = filled(bench, ends.a, low)?;
    // A descriptor with payload takes two slots, of which there are a quarter more than agreed.
    for number in 0..5 {
        bench.ok(low.send(ends.a, Some(number), 0, 0))?;
    }
    bench.ok(ends.a.socket.nonblocking(true))?;
    bench.fails(low.send(ends.a, Some(5), 0, 0), EAGAIN)?;
    bench.ok(ends.a.socket.nonblocking(false))?;
    let sending = bench.begin(low.send(ends.a, Some(5), 0, 0))?;
    bench.waits(sending)?;
    for number in 0..5 {
        let reply = bench.reply(receive(ends.b, true))?;
        is(&reply, &expected, 0, Some(number))?;
    }
    bench.ends(sending, Ok(0))?;
    let reply = bench.reply(receive(ends.b, true))?;
    is(&reply, &expected, 0, Some(5))?;
    let receiving = bench.begin(receive(ends.b, true))?;
    bench.waits(receiving)?;
    bench.ok(low.send(ends.a, Some(6), 0, 0))?;
    let reply = bench.ends(receiving, Ok(0))?;
    is(&reply, &expected, 0, Some(6))
}

fn mixed(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let nop = filled(bench, ends.a, Low::of(NOP, 0))?;
    let rts = filled(bench, ends.a, Low::of(RTS, 0))?;
    bench.push(ends.a, 83)?;
    let reply = bench.reply(receive(ends.b, true))?;
    ensure(
        reply.word(0)? as u64 & 0xffff == nop.op && reply.word(6)? == 83,
        || format!("{reply}"),
    )?;
    for payload in [None, Some(7)] {
        bench.ok(rts.send(ends.a, payload, 0, 0))?;
        bench.push(ends.a, 84)?;
        bench.fails(ends.b.pull(true, 0, 0, 0), EPROTO)?;
        bench.fails(ends.b.pull(true, 0, 0, 0), EPROTO)?;
        let reply = bench.reply(receive(ends.b, true))?;
        is(&reply, &rts, 0, payload)?;
        bench.pull(ends.b, 84)?;
    }
    Ok(())
}

fn push0(end: End, header: Option<u64>, local: u64, remote: u64, length: u64) -> Ask {
    let call = Call::Push0 {
        handle: end.slot,
        header: header.unwrap_or(NOTHING),
        local,
        remote,
        length,
    };
    (end.side, call)
}

fn pull0(end: End, header: bool, local: u64, remote: u64, length: u64) -> Ask {
    let call = Call::Pull0 {
        handle: end.slot,
        header: header.into(),
        local,
        remote,
        length,
    };
    (end.side, call)
}

fn by_hand(bench: &mut Bench<'_>) -> Checked {
    const HALF: u64 = RANGE / 2;
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    for number in 0..20 {
        let length = 1 + number * 999;
        // 49: a header.
        bench.ok(push0(ends.a, Some(number), 0, 0, 0))?;
        bench.comes(pull0(ends.b, true, 0, 0, 0), number)?;
        // 50: a put.
        bench.ok(at_a.fill(length, number))?;
        bench.ok(push0(ends.a, None, 0, 17, length))?;
        bench.ok(ends.a.fence())?;
        bench.has(at_b.from(17), length, number)?;
        bench.is_empty(ends.b)?;
        // 51: a get.
        bench.ok(at_a.fill(length, number + 1))?;
        bench.ok(pull0(ends.b, false, HALF, 0, length))?;
        bench.has(at_b.from(HALF), length, number + 1)?;
        bench.is_empty(ends.a)?;
        // 52: a put with a header; the memory that it came from is reused.
        bench.ok(push0(ends.a, Some(number), 0, 31, length))?;
        bench.ok(at_a.set(0xee))?;
        bench.comes(pull0(ends.b, true, 0, 0, 0), number)?;
        bench.has(at_b.from(31), length, number + 1)?;
        // 53: a get with a header.
        bench.ok(at_a.from(HALF).fill(length, number + 2))?;
        bench.ok(push0(ends.a, Some(number), 0, 0, 0))?;
        bench.comes(pull0(ends.b, true, HALF, HALF, length), number)?;
        bench.has(at_b.from(HALF), length, number + 2)?;
        // 54: a put and a get with a header.
        bench.ok(at_a.fill(length, number + 3))?;
        bench.ok(push0(ends.a, Some(number), 0, 5, length))?;
        bench.ok(at_a.from(HALF).fill(length, number + 4))?;
        bench.comes(pull0(ends.b, true, HALF, HALF, length), number)?;
        bench.has(at_b.from(5), length, number + 3)?;
        bench.has(at_b.from(HALF), length, number + 4)?;
    }
    Ok(())
}
