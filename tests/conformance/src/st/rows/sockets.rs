//! Sockets and their options.

use alloc::format;
use alloc::vec::Vec;

use crate::errno::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, EINVAL,
    EISCONN, ENOPROTOOPT, EOPNOTSUPP, EPROTO, EPROTOTYPE, ETIMEDOUT,
};
use crate::st::bench::{Ask, Bench, Checked, Memory, Place, Side, Socket, ensure, number::*};
use crate::st::call::Call;
use crate::st::{Row, row};

/// Sockets belong to the C library.
const SOCKET: &[(Place, &str)] = &[(Place::Sim, "sockets are libsocket's, the machine has none")];
/// Messages of `send` and `recv` are not transfers.
const MESSAGE: &[(Place, &str)] = &[(
    Place::Sim,
    "messages without the bypass are libsocket's, the machine carries none",
)];

pub const SOCKETS: &[Row] = &[
    row(
        1,
        "`socket(PF_INET, SOCK_SEQPACKET, 118)`",
        "a descriptor",
        socket,
    )
    .except(SOCKET),
    row(2, "`SOCK_STREAM` with 118", "`EPROTOTYPE`", stream).except(SOCKET),
    row(
        3,
        "`AF_STP`, and protocol 0 with `SOCK_SEQPACKET`",
        "mean the same",
        same_names,
    )
    .except(SOCKET),
    row(
        4,
        "`ST_BYPASS` read",
        "0 at first, 1 after setting, 0 after clearing",
        bypass,
    )
    .except(SOCKET),
    row(
        5,
        "an option is set after bind, after connect",
        "`EINVAL`, `EISCONN`; the value is unchanged",
        too_late,
    )
    .except(SOCKET),
    row(
        6,
        "flag 2; optlen 3; level `SOL_SOCKET`; an unknown option",
        "`EINVAL`, `EINVAL`, `ENOPROTOOPT`, `ENOPROTOOPT`",
        bad_options,
    )
    .except(SOCKET),
    row(
        7,
        "an accepted socket",
        "has the listener's bypass and slots",
        inherited,
    )
    .except(SOCKET),
    row(
        8,
        "the bypass at A only, at B only",
        "connect: `ECONNREFUSED`; accept: `EPROTO`; the next client is served",
        one_bypass,
    ),
    row(
        9,
        "`ST_L_NUMSLOTS` 3, 100, 10⁶",
        "connect: `EINVAL`; accept: `EPROTO`; no trace",
        bad_slots,
    ),
    row(
        10,
        "keys, ports and slots of both ends after connect",
        "agree crosswise; keys are not 0",
        crosswise,
    ),
    row(
        11,
        "connect to a port without listener, to a node that is not there, to a SCIF server that \
         talks, to one that accepts and says nothing",
        "`ECONNREFUSED`, `EHOSTUNREACH`, `ECONNREFUSED`, after 30 s `ETIMEDOUT`; no trace",
        nobody,
    )
    .except(SOCKET),
    row(
        12,
        "bind below 1024 as a user; to a port in use; to another node's address",
        "`EACCES`; `EADDRINUSE`; `EADDRNOTAVAIL`",
        bind,
    )
    .except(SOCKET),
    row(
        13,
        "`getsockname`, `getpeername`",
        "10.0.0.node+1 and the SCIF ports",
        names,
    )
    .except(SOCKET),
    row(
        14,
        "connect with `O_NONBLOCK`",
        "`EINPROGRESS`, `POLLOUT`, then `SO_ERROR` 0; or `ECONNREFUSED`",
        no_wait,
    )
    .except(SOCKET),
    row(
        15,
        "send, recv on a bypass socket",
        "`EOPNOTSUPP`",
        bypassed,
    )
    .except(MESSAGE),
    row(
        16,
        "messages without the bypass, of 0 bytes too",
        "keep their boundaries",
        boundaries,
    )
    .except(MESSAGE),
    row(
        17,
        "a message longer than the buffer",
        "is cut and its rest gone: `MSG_TRUNC`",
        cut,
    )
    .except(MESSAGE),
    row(
        18,
        "a message of 10 MiB",
        "send returns only when recv takes it",
        large,
    )
    .except(MESSAGE),
    row(
        19,
        "close, and death, without the bypass",
        "recv: 0; `ECONNRESET`",
        ends,
    )
    .except(MESSAGE),
];

fn make(side: Side, slot: u64, kind: u64, protocol: u64) -> Ask {
    let call = Call::Socket {
        socket: slot,
        domain: PF_INET,
        kind,
        protocol,
    };
    (side, call)
}

fn socket(bench: &mut Bench<'_>) -> Checked {
    for side in [Side::A, Side::B, Side::User] {
        let slot = bench.slot();
        bench.ok(make(side, slot, SOCK_SEQPACKET, IPPROTO_STP))?;
        bench.ok(Socket { side, slot }.close())?;
    }
    Ok(())
}

fn stream(bench: &mut Bench<'_>) -> Checked {
    let slot = bench.slot();
    bench.fails(make(Side::A, slot, SOCK_STREAM, IPPROTO_STP), EPROTOTYPE)
}

fn same_names(bench: &mut Bench<'_>) -> Checked {
    let slot = bench.slot();
    let socket = Socket {
        side: Side::A,
        slot,
    };
    // AF_STP is AF_INET.
    for protocol in [0, IPPROTO_STP] {
        bench.ok(make(Side::A, slot, SOCK_SEQPACKET, protocol))?;
        let call = Call::GetOption {
            socket: slot,
            level: SOL_SOCKET,
            name: SO_PROTOCOL,
        };
        let found = bench.word((Side::A, call))?;
        ensure(found == IPPROTO_STP as i64, || format!("protocol {found}"))?;
        bench.ok(socket.set(ST_BYPASS, 1))?;
        bench.ok(socket.close())?;
    }
    Ok(())
}

/// Checks that an option has this value.
fn is(bench: &mut Bench<'_>, socket: Socket, name: u64, value: i64) -> Checked {
    let found = bench.word(socket.get(name))?;
    ensure(found == value, || {
        format!("option {name} is {found}, not {value}")
    })
}

fn bypass(bench: &mut Bench<'_>) -> Checked {
    let socket = bench.socket(Side::A)?;
    is(bench, socket, ST_BYPASS, 0)?;
    for value in [1, 0, 1] {
        bench.ok(socket.set(ST_BYPASS, value))?;
        is(bench, socket, ST_BYPASS, value)?;
    }
    Ok(())
}

fn too_late(bench: &mut Bench<'_>) -> Checked {
    let socket = bench.socket(Side::A)?;
    bench.ok(bench.bind(socket, 0, 0))?;
    for (name, before) in [(ST_BYPASS, 0), (ST_L_NUMSLOTS, 64), (ST_X_CHANNELS, 4)] {
        bench.fails(socket.set(name, 1), EINVAL)?;
        is(bench, socket, name, before)?;
    }
    let (a, b) = bench.sockets(&[(ST_BYPASS, 1)])?;
    for socket in [a, b] {
        bench.fails(socket.set(ST_BYPASS, 0), EISCONN)?;
        is(bench, socket, ST_BYPASS, 1)?;
    }
    let (listener, _) = bench.listener(&[])?;
    bench.fails(listener.set(ST_BYPASS, 1), EISCONN)?;
    is(bench, listener, ST_BYPASS, 0)
}

fn bad_options(bench: &mut Bench<'_>) -> Checked {
    let socket = bench.socket(Side::A)?;
    let set = |level, name, value: i64, length| {
        let call = Call::SetOption {
            socket: socket.slot,
            level,
            name,
            value: value as u64,
            length,
        };
        (Side::A, call)
    };
    bench.fails(set(IPPROTO_STP, ST_BYPASS, 2, 4), EINVAL)?;
    bench.fails(set(IPPROTO_STP, ST_BYPASS, -1, 4), EINVAL)?;
    bench.fails(set(IPPROTO_STP, ST_BYPASS, 1, 3), EINVAL)?;
    bench.fails(set(SOL_SOCKET, ST_BYPASS, 1, 4), ENOPROTOOPT)?;
    bench.fails(set(IPPROTO_STP, 999, 1, 4), ENOPROTOOPT)?;
    bench.fails(set(IPPROTO_STP, 1020, 1, 4), ENOPROTOOPT)?;
    is(bench, socket, ST_BYPASS, 0)
}

fn inherited(bench: &mut Bench<'_>) -> Checked {
    let options = [(ST_BYPASS, 1), (ST_L_NUMSLOTS, 256), (ST_X_CHANNELS, 2)];
    let (_, accepted) = bench.sockets(&options)?;
    for (name, value) in options {
        is(bench, accepted, name, value)?;
    }
    Ok(())
}

fn one_bypass(bench: &mut Bench<'_>) -> Checked {
    for at_b in [0, 1] {
        let (listener, port) = bench.listener(&[(ST_BYPASS, at_b)])?;
        let other = bench.socket_with(Side::A, &[(ST_BYPASS, 1 - at_b)])?;
        let connecting = bench.begin(bench.connect(other, port))?;
        let (accept, _) = bench.accept(listener);
        let accepting = bench.begin(accept)?;
        bench.ends(connecting, Err(ECONNREFUSED))?;
        bench.ends(accepting, Err(EPROTO))?;
        let fitting = bench.socket_with(Side::A, &[(ST_BYPASS, at_b)])?;
        bench.join(fitting, (listener, port))?;
    }
    Ok(())
}

fn bad_slots(bench: &mut Bench<'_>) -> Checked {
    let (listener, port) = bench.listener(&[(ST_BYPASS, 1)])?;
    for slots in [3, 100, 1_000_000] {
        let socket = bench.socket_with(Side::A, &[(ST_BYPASS, 1)])?;
        // The value may be refused at once.
        let set = bench.call(socket.set(ST_L_NUMSLOTS, slots))?;
        if set.result == Ok(0) {
            let connecting = bench.begin(bench.connect(socket, port))?;
            let (accept, _) = bench.accept(listener);
            let accepting = bench.begin(accept)?;
            bench.ends(connecting, Err(EINVAL))?;
            bench.ok(socket.close())?;
            bench.ends(accepting, Err(EPROTO))?;
        } else {
            ensure(set.result == Err(EINVAL), || {
                format!("slots {slots}: {set}")
            })?;
        }
    }
    bench.ok(listener.close())
}

fn crosswise(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_of(&[(ST_L_NUMSLOTS, 128)])?;
    let (a, b) = (ends.a.socket, ends.b.socket);
    for (own, peer) in [
        (ST_L_KEY, ST_R_KEY),
        (ST_L_PORT, ST_R_PORT),
        (ST_L_NUMSLOTS, ST_R_NUMSLOTS),
    ] {
        for (one, other) in [(a, b), (b, a)] {
            let told = bench.word(one.get(own))?;
            is(bench, other, peer, told)?;
            ensure(told != 0, || format!("option {own} is 0"))?;
        }
    }
    is(bench, b, ST_R_NUMSLOTS, 128)
}

fn nobody(bench: &mut Bench<'_>) -> Checked {
    let before = bench.counts()?;
    let port = bench.port();
    let socket = bench.socket_with(Side::A, &[(ST_BYPASS, 1)])?;
    bench.fails(bench.connect(socket, port), ECONNREFUSED)?;
    bench.ok(socket.close())?;
    let socket = bench.socket_with(Side::A, &[(ST_BYPASS, 1)])?;
    let call = Call::Connect {
        socket: socket.slot,
        address: 0x0a00_0001 + 100,
        port,
    };
    bench.fails((Side::A, call), EHOSTUNREACH)?;
    bench.ok(socket.close())?;
    bench.settles_at(&before)?;
    // A server of plain SCIF that sends something other than an answer.
    let (server, into) = (bench.slot(), bench.slot());
    bench.ok((
        Side::B,
        Call::Scif {
            socket: server,
            port,
        },
    ))?;
    for bypass in [0, 1] {
        let socket = bench.socket_with(Side::A, &[(ST_BYPASS, bypass)])?;
        let connecting = bench.begin(bench.connect(socket, port))?;
        let accept = Call::ScifAccept {
            socket: server,
            into,
        };
        let accepting = bench.begin((Side::B, accept))?;
        bench.ends(accepting, Ok(0))?;
        let nonsense = 0x5a5a_5a5a_5a5a_5a5a;
        let call = Call::ScifSend {
            socket: into,
            w0: nonsense,
            w1: nonsense,
            w2: nonsense,
            w3: nonsense,
            w4: nonsense,
            w5: nonsense,
            w6: nonsense,
            w7: nonsense,
            w8: nonsense,
        };
        bench.gives((Side::B, call), 72)?;
        bench.ends(connecting, Err(ECONNREFUSED))?;
        bench.ok((Side::B, Call::Close { socket: into }))?;
        bench.ok(socket.close())?;
    }
    mute(bench, server, port)?;
    bench.ok((Side::B, Call::Close { socket: server }))?;
    bench.settles_at(&before)
}

/// A server that sends nothing: both kinds of sockets wait at the same time.
fn mute(bench: &mut Bench<'_>, server: u64, port: u64) -> Checked {
    let mut waiting = Vec::new();
    for bypass in [0, 1] {
        let socket = bench.socket_with(Side::A, &[(ST_BYPASS, bypass)])?;
        let connecting = bench.begin(bench.connect(socket, port))?;
        let into = bench.slot();
        let call = Call::ScifAccept {
            socket: server,
            into,
        };
        let accepting = bench.begin((Side::B, call))?;
        bench.ends(accepting, Ok(0))?;
        waiting.push((socket, into, connecting));
    }
    for (socket, into, connecting) in waiting {
        let reply = bench.take(connecting)?;
        let is_right = reply.result == Err(ETIMEDOUT);
        ensure(is_right, || format!("a server that says nothing: {reply}"))?;
        bench.ok((Side::B, Call::Close { socket: into }))?;
        bench.ok(socket.close())?;
    }
    Ok(())
}

fn bind(bench: &mut Bench<'_>) -> Checked {
    let user = bench.socket(Side::User)?;
    bench.fails(bench.bind(user, 0, 1000), EACCES)?;
    let (_, port) = bench.listener(&[])?;
    let socket = bench.socket(Side::B)?;
    bench.fails(bench.bind(socket, 0, port), EADDRINUSE)?;
    let foreign = bench.address(Side::B) + 100;
    bench.fails(bench.bind(socket, foreign, 0), EADDRNOTAVAIL)?;
    bench.ok(bench.bind(socket, bench.address(Side::B), 0))
}

fn names(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.sockets(&[(ST_BYPASS, 1)])?;
    for (one, other) in [(a, b), (b, a)] {
        let own = bench.reply(one.name(false))?;
        let port = bench.word(one.get(ST_L_PORT))?;
        let address = bench.address(one.side) as i64;
        let is_right = own.extra == [address, port];
        ensure(is_right, || format!("{own}, not {address:#x} {port}"))?;
        let told = bench.reply(other.name(true))?;
        ensure(told.extra == own.extra, || format!("{told}, not {own}"))?;
    }
    Ok(())
}

fn no_wait(bench: &mut Bench<'_>) -> Checked {
    let (listener, port) = bench.listener(&[])?;
    let nobody = bench.port();
    for (port, expected) in [(port, 0), (nobody, i64::from(ECONNREFUSED.0))] {
        let socket = bench.socket(Side::A)?;
        bench.ok(socket.nonblocking(true))?;
        bench.fails(bench.connect(socket, port), EINPROGRESS)?;
        let accepting = match expected {
            0 => Some({
                let (accept, _) = bench.accept(listener);
                bench.begin(accept)?
            }),
            _ => None,
        };
        let call = Call::Poll {
            socket: socket.slot,
            events: POLLOUT,
            timeout_ms: 60_000,
        };
        let polling = bench.begin((Side::A, call))?;
        let reply = bench.take(polling)?;
        let is_ready = reply
            .result
            .is_ok_and(|events| events as u64 & POLLOUT != 0);
        ensure(is_ready, || format!("events {reply}"))?;
        let call = Call::GetOption {
            socket: socket.slot,
            level: SOL_SOCKET,
            name: SO_ERROR,
        };
        let error = bench.word((Side::A, call))?;
        ensure(error == expected, || format!("SO_ERROR {error}"))?;
        if let Some(accepting) = accepting {
            bench.ends(accepting, Ok(0))?;
        }
    }
    Ok(())
}

fn bypassed(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for end in [ends.a, ends.b] {
        let memory = bench.allocate(end.side, 10)?;
        bench.fails(end.socket.send(memory), EOPNOTSUPP)?;
        bench.fails(end.socket.recv(memory), EOPNOTSUPP)?;
    }
    Ok(())
}

fn boundaries(bench: &mut Bench<'_>) -> Checked {
    const LENGTHS: [u64; 7] = [1, 100, 0, 7, 0, 0, 5000];
    let (a, b) = bench.sockets(&[])?;
    let from = bench.allocate(Side::A, 5000)?;
    let to = bench.allocate(Side::B, 5000)?;
    for (seed, length) in (0..).zip(LENGTHS) {
        bench.ok(from.fill(length, seed))?;
        bench.gives(a.send(Memory { length, ..from }), length as i64)?;
    }
    for (seed, length) in (0..).zip(LENGTHS) {
        bench.gives(b.recv(to), length as i64)?;
        bench.has(to, length, seed)?;
    }
    Ok(())
}

fn cut(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.sockets(&[])?;
    let from = bench.allocate(Side::A, 1000)?;
    let to = bench.allocate(Side::B, 10)?;
    bench.ok(from.fill(1000, 17))?;
    bench.gives(a.send(from), 1000)?;
    bench.gives(a.send(Memory { length: 5, ..from }), 5)?;
    for (length, is_cut) in [(10, true), (5, false)] {
        let reply = bench.reply(b.recv(to))?;
        let has_flag = reply.word(0)? & MSG_TRUNC != 0;
        let is_right = reply.result == Ok(length) && has_flag == is_cut;
        ensure(is_right, || format!("{reply}"))?;
        bench.has(to, length as u64, 17)?;
    }
    Ok(())
}

fn large(bench: &mut Bench<'_>) -> Checked {
    const LENGTH: u64 = 10 << 20;
    let (a, b) = bench.sockets(&[])?;
    let from = bench.allocate(Side::A, LENGTH)?;
    let to = bench.allocate(Side::B, LENGTH)?;
    bench.ok(from.fill(LENGTH, 18))?;
    let sending = bench.begin(a.send(from))?;
    bench.waits(sending)?;
    let receiving = bench.begin(b.recv(to))?;
    bench.ends(receiving, Ok(LENGTH as i64))?;
    bench.ends(sending, Ok(LENGTH as i64))?;
    bench.has(to, LENGTH, 18)
}

fn ends(bench: &mut Bench<'_>) -> Checked {
    for dies in [false, true] {
        let (a, b) = bench.sockets(&[])?;
        let from = bench.allocate(Side::B, 10)?;
        let to = bench.allocate(Side::A, 100)?;
        bench.ok(from.fill(10, 19))?;
        bench.gives(b.send(from), 10)?;
        match dies {
            true => bench.driver().kill(Side::B)?,
            false => bench.ok(b.close())?,
        }
        bench.gives(a.recv(to), 10)?;
        bench.has(to, 10, 19)?;
        for _ in 0..2 {
            match dies {
                true => bench.fails(a.recv(to), ECONNRESET)?,
                false => bench.gives(a.recv(to), 0)?,
            }
        }
    }
    Ok(())
}
