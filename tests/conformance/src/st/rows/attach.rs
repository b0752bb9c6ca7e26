//! Attaching and detaching channels.

use alloc::format;
use alloc::vec::Vec;

use super::six::{mapped, stream};
use crate::errno::{
    EBADF, EBUSY, ECONNRESET, EFAULT, EINVAL, ENOTCONN, ENOTSOCK, ENXIO, EOPNOTSUPP,
};
use crate::st::bench::{Bench, Checked, End, Ends, Place, Side, ensure, number::*};
use crate::st::call::{Call, NOTHING};
use crate::st::{Row, row};

/// Descriptors and handles belong to the C library.
const LIBRARY: &[(Place, &str)] = &[(
    Place::Sim,
    "descriptors and handles are the library's, the machine has none",
)];

pub const ATTACH: &[Row] = &[
    row(
        20,
        "attach before connect; with the bypass off; on a file",
        "`ENOTCONN`; `EOPNOTSUPP`; `ENOTSOCK`",
        no_connection,
    )
    .except(LIBRARY),
    row(21, "flags 1", "`EINVAL`", flags).except(LIBRARY),
    row(22, "channel −1, N", "`EINVAL`", channels).except(LIBRARY),
    row(23, "the place of the handle is NULL", "`EFAULT`", no_place).except(LIBRARY),
    row(
        24,
        "the same channel twice; from a child with the inherited socket",
        "`EBUSY`; `EOPNOTSUPP`, as the child's library knows it as a stream",
        twice,
    )
    .except(LIBRARY),
    row(
        25,
        "all N channels at once",
        "a message on one arrives on it and on no other",
        all_channels,
    ),
    row(
        26,
        "A attaches and pushes N−1 headers before B attaches",
        "nobody waits; B then pulls all",
        no_handshake,
    ),
    row(
        27,
        "detach",
        "the handle is NULL, the socket open; `getpeername` and another attach work",
        again,
    )
    .except(LIBRARY),
    row(
        28,
        "detach of NULL, of a handle that is NULL",
        "`EFAULT`, `EINVAL`",
        detach_null,
    )
    .except(LIBRARY),
    row(
        29,
        "detach when B has not pulled yet",
        "B pulls all headers",
        detach_pushed,
    ),
    row(
        30,
        "detach with own headers that were not pulled",
        "they are there after the next attach",
        detach_unpulled,
    ),
    row(
        31,
        "detach while another thread pulls",
        "`EBUSY`",
        detach_busy,
    )
    .except(LIBRARY),
    row(
        32,
        "detach with mapped memory",
        "it is unmapped: B's push to it is `ENXIO`, and its pages are released",
        detach_mapped,
    ),
    row(
        33,
        "`close` of the socket before detach",
        "the peer: `ECONNRESET`; own calls: `EBADF`; detach: 0",
        close_first,
    ),
    row(
        34,
        "a program is killed while it is attached, with mapped memory",
        "nothing is left on either node",
        killed,
    ),
    row(
        35,
        "very many rounds of each kind of push and pull between attach and detach, both looking",
        "the counter `requests` of both nodes grows by the seconds it took and no more (in `sim` \
         requests are records that an end sends, its sleeps, and data that its driver moves)",
        no_requests,
    ),
];

fn no_connection(bench: &mut Bench<'_>) -> Checked {
    let handle = bench.slot();
    let socket = bench.socket_with(Side::A, &[(ST_BYPASS, 1)])?;
    bench.fails(socket.attach(0, 0, handle), ENOTCONN)?;
    let (without, _) = bench.sockets(&[])?;
    bench.fails(without.attach(0, 0, handle), EOPNOTSUPP)?;
    let slot = bench.slot();
    bench.ok((Side::A, Call::File { socket: slot }))?;
    let file = crate::st::bench::Socket {
        side: Side::A,
        slot,
    };
    bench.fails(file.attach(0, 0, handle), ENOTSOCK)?;
    bench.ok(file.close())?;
    bench.fails(file.attach(0, 0, handle), EBADF)
}

fn flags(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let handle = bench.slot();
    for flags in [1, 2, 0x8000_0000] {
        bench.fails(ends.a.socket.attach(1, flags, handle), EINVAL)?;
    }
    bench.ok(ends.a.socket.attach(1, 0, handle))
}

fn channels(bench: &mut Bench<'_>) -> Checked {
    let handle = bench.slot();
    for (options, count) in [(&[][..], 4), (&[(ST_X_CHANNELS, 1)], 1)] {
        let ends = bench.ends_of(options)?;
        for channel in [-1, count, i64::from(i32::MAX)] {
            bench.fails(ends.a.socket.attach(channel, 0, handle), EINVAL)?;
        }
    }
    Ok(())
}

fn no_place(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    bench.fails(ends.a.socket.attach(1, 0, NOTHING), EFAULT)?;
    bench.attach(ends.a.socket, 1).map(drop)
}

fn twice(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let handle = bench.slot();
    bench.fails(ends.a.socket.attach(0, 0, handle), EBUSY)?;
    let socket = ends.a.socket.slot;
    bench.fails((Side::A, Call::Child { socket }), EOPNOTSUPP)?;
    // The connection still works.
    bench.push(ends.a, 24)?;
    bench.pull(ends.b, 24)
}

fn all_channels(bench: &mut Bench<'_>) -> Checked {
    for count in [4, 1, 64] {
        let ends = bench.ends_of(&[(ST_X_CHANNELS, count)])?;
        let mut pairs: Vec<(End, End)> = alloc::vec![(ends.a, ends.b)];
        for channel in 1..count {
            let a = bench.attach(ends.a.socket, channel)?;
            pairs.push((a, bench.attach(ends.b.socket, channel)?));
        }
        // From the last channel to the first, so that no other order can be right by chance.
        for (channel, (a, b)) in pairs.iter().enumerate().rev() {
            let channel = channel as u64;
            bench.push(*a, channel)?;
            bench.push(*b, 100 + channel)?;
        }
        for (channel, (a, b)) in (0..).zip(&pairs) {
            bench.pull(*b, channel)?;
            bench.pull(*a, 100 + channel)?;
        }
        for (a, b) in pairs.iter().take(4) {
            bench.is_empty(*a)?;
            bench.is_empty(*b)?;
        }
    }
    Ok(())
}

fn no_handshake(bench: &mut Bench<'_>) -> Checked {
    let (socket, accepted) = bench.sockets(&[(ST_BYPASS, 1)])?;
    let a = bench.attach(socket, 2)?;
    for number in 0..63 {
        bench.push(a, number)?;
    }
    let b = bench.attach(accepted, 2)?;
    for number in 0..63 {
        bench.pull(b, number)?;
    }
    bench.is_empty(b)
}

fn again(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let is_null = bench.word(ends.a.detach())?;
    ensure(is_null == 1, || "the handle is not NULL".into())?;
    let socket = ends.a.socket.slot;
    let name = bench.reply((Side::A, Call::Name { socket, of_peer: 1 }))?;
    let address = bench.address(Side::B) as i64;
    ensure(name.word(0)? == address, || format!("{name}"))?;
    for number in 0..10 {
        let a = bench.attach(ends.a.socket, 0)?;
        bench.push(a, number)?;
        bench.pull(ends.b, number)?;
        bench.ok(a.detach())?;
    }
    Ok(())
}

fn detach_null(bench: &mut Bench<'_>) -> Checked {
    bench.fails(End::null(Side::A).detach(), EFAULT)?;
    let handle = bench.slot();
    bench.fails((Side::A, Call::Detach { handle }), EINVAL)
}

fn detach_pushed(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for number in 0..40 {
        bench.push(ends.a, number)?;
    }
    bench.ok(ends.a.detach())?;
    for number in 0..40 {
        bench.pull(ends.b, number)?;
    }
    Ok(())
}

fn detach_unpulled(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for number in 0..40 {
        bench.push(ends.b, number)?;
    }
    bench.pull(ends.a, 0)?;
    bench.ok(ends.a.detach())?;
    let a = bench.attach(ends.a.socket, 0)?;
    for number in 1..40 {
        bench.pull(a, number)?;
    }
    // Everything is as before: the queue has all its slots.
    stream(bench, ends.b, a, 200)?;
    stream(bench, a, ends.b, 200)
}

fn detach_busy(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let pulling = bench.begin(ends.a.pull(true, 0, 0, 0))?;
    bench.waits(pulling)?;
    bench.fails(ends.a.detach(), EBUSY)?;
    bench.push(ends.b, 31)?;
    bench.ends(pulling, Ok(0))?;
    bench.ok(ends.a.detach())
}

fn detach_mapped(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let before = bench.counts()?;
    let at_a = bench.map(ends.a, 1 << 20)?;
    let local = bench.allocate(Side::B, 100)?;
    bench.ok(ends.b.push(Some(1), local.at, at_a.at, 100))?;
    bench.pull(ends.a, 1)?;
    bench.ok(ends.a.detach())?;
    bench.fails(ends.b.push(Some(2), local.at, at_a.at, 100), ENXIO)?;
    bench.fails(ends.b.pull(false, local.at, at_a.at, 100), ENXIO)?;
    bench.settles_at(&before)
}

fn close_first(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, 8192)?;
    bench.push(ends.a, 1)?;
    let pulling = bench.begin(ends.a.pull(true, 0, 0, 0))?;
    bench.waits(pulling)?;
    bench.ok(ends.a.socket.close())?;
    let reply = bench.end(pulling)?;
    let is_end = reply.result == Err(ECONNRESET) || reply.result == Err(EBADF);
    ensure(is_end, || format!("a pull under way: {reply}"))?;
    bench.pull(ends.b, 1)?;
    let pulling = bench.begin(ends.b.pull(true, 0, 0, 0))?;
    bench.ends(pulling, Err(ECONNRESET))?;
    bench.fails(ends.b.push(Some(2), 0, 0, 0), ECONNRESET)?;
    bench.fails(ends.b.push(None, at_b.at, at_a.at, 8), ECONNRESET)?;
    bench.fails(ends.b.fence(), ECONNRESET)?;
    for call in [
        ends.a.push(Some(3), 0, 0, 0),
        ends.a.pull(true, 0, 0, 0),
        ends.a.push(None, at_a.at, at_b.at, 8),
        ends.a.fence(),
        ends.a.map(0, 8192),
        ends.a.unmap(at_a.at, 0),
    ] {
        bench.fails(call, EBADF)?;
    }
    bench.ok(ends.a.detach())?;
    bench.ok(ends.b.detach())
}

fn killed(bench: &mut Bench<'_>) -> Checked {
    for side in [Side::A, Side::B] {
        let (ends, ..) = mapped(bench, 1 << 20)?;
        let survivor = match side {
            Side::A => ends.b,
            _ => ends.a,
        };
        bench.attach(ends.a.socket, 3)?;
        bench.driver().kill(side)?;
        bench.fails(survivor.pull(true, 0, 0, 0), ECONNRESET)?;
    }
    // The rule for every row checks that nothing is left.
    Ok(())
}

/// Least milliseconds between two requests by which a connection's end checks whether its driver
/// is alive.
const PERIOD_MS: i64 = 900;

fn no_requests(bench: &mut Bench<'_>) -> Checked {
    const BYTES: u64 = 64;
    let (a, b) = bench.sockets(&[(ST_BYPASS, 1)])?;
    for socket in [a, b] {
        // Neither end ever sleeps.
        let call = Call::SetOption {
            socket: socket.slot,
            level: SOL_SOCKET,
            name: SO_BUSY_POLL,
            value: 1,
            length: 4,
        };
        bench.ok((socket.side, call))?;
    }
    let ends = Ends {
        a: bench.attach(a, 0)?,
        b: bench.attach(b, 0)?,
    };
    let at_a = bench.map(ends.a, 4096)?;
    let at_b = bench.map(ends.b, 4096)?;
    let count = bench.many();
    // The counter is the node's, and the ends of its other connections make requests, too.
    let ends_of_node = bench.counts()?.map(|counts| counts.get(1).copied());
    // Memory is mapped after its first use. The next rounds show the most requests of the bench
    // itself: it starts and ends the rounds, sleeps meanwhile or not, and reads the counter.
    const FEW: u64 = 100;
    const TRIES: usize = 16;
    let mut own = [0; 2];
    for turn in 0..=TRIES + 1 {
        let is_checked = turn == TRIES + 1;
        let count = if is_checked { count } else { FEW };
        let mut tickets = Vec::new();
        for (end, own, peer, begins) in [(ends.a, at_a, at_b, 1), (ends.b, at_b, at_a, 0)] {
            let call = Call::Rounds {
                handle: end.slot,
                begins,
                count,
                local: own.at + 2048,
                remote: peer.at,
                length: BYTES,
            };
            tickets.push(bench.begin((end.side, call))?);
        }
        if turn.is_multiple_of(2) {
            bench.driver().pause();
        }
        for ((ticket, own), ends) in tickets.into_iter().zip(&mut own).zip(ends_of_node) {
            let ends = ends.ok_or("no count of connections")?;
            let reply = bench.take(ticket)?;
            let is_whole = reply.result == Ok(3 * count as i64);
            ensure(is_whole, || format!("of {} rounds: {reply}", 3 * count))?;
            let (requests, milliseconds) = (reply.word(0)?, reply.word(1)?);
            let asked = ends * (milliseconds / PERIOD_MS + 1);
            if !is_checked {
                let is_first = turn == 0;
                *own = if is_first { 0 } else { requests.max(*own) };
                continue;
            }
            ensure(requests <= *own + asked, || {
                format!(
                    "{requests} requests in {milliseconds} ms, {own} of them the bench's, by \
                     {ends} ends of connections"
                )
            })?;
        }
    }
    Ok(())
}
