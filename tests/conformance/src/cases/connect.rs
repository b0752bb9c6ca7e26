//! connect, blocking and not.

use scif_abi::Error::{
    ConnectionRefused, InProgress, InvalidArgument, IsConnected, NoDevice, NotSupported,
};
use scif_abi::PortId;

use crate::ask::{BLOCK, OUT};
use crate::bench::{Place, Side, equal, holds};
use crate::table::{Row, Section};

/// A node that exists in no place.
const NO_NODE: u16 = 99;

/// `scif_connect`.
pub const CONNECT: Section = Section {
    title: "scif_connect",
    word: "connect",
    about: "The checks in their order: the node is online, the port is not 0, then the \
        endpoint's state. \
            An unbound endpoint gets a port and keeps it when the attempt fails.",
    rows: &[
        Row::story(
            [
                "somebody listens and accepts",
                "the port of epd",
                "the port (library)",
            ],
            "the local port, after the other side has accepted",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let active = b.open(Side::A)?;
                let connect = b.begin(active.connect(at))?;
                b.waits(connect)?;
                let passive = b.new_endpoint(Side::B);
                let peer = b.reply(listener.accept(passive, crate::ask::SYNC))?.extra;
                let port = b.finish_ok(connect)?.result.unwrap_or(0);
                holds(port >= 1088, "the port is not an ephemeral one")?;
                equal("the peer", peer, alloc::vec![b.node(Side::A).into(), port])
            },
        ),
        Row::story(
            ["a bound endpoint", "the port of epd", "the port"],
            "the port it was bound to",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let (active, own) = b.bound(Side::A)?;
                let connect = b.begin(active.connect(at))?;
                b.accept(listener)?;
                let port = b.finish_ok(connect)?.result;
                equal("the port", port, Ok(own.port().into()))
            },
        ),
        Row::story(["to the own node", "–", "allowed"], "allowed", |b| {
            let (active, passive) = b.connection(Side::A, Side::A)?;
            b.gives(active.send(100, BLOCK), 100)?;
            b.gives(passive.recv(100, BLOCK), 100)
        }),
        Row::story(
            [
                "from the second node to the first",
                "symmetric",
                "symmetric",
            ],
            "the same",
            |b| {
                let (active, passive) = b.connection(Side::B, Side::A)?;
                b.gives(active.send(100, BLOCK), 100)?;
                b.gives(passive.recv(100, BLOCK), 100)
            },
        ),
        Row::story(
            [
                "by a user who is not root, to a port below 1024",
                "–",
                "allowed",
            ],
            "allowed",
            |b| {
                let listener = b.open(Side::B)?;
                b.ok(listener.bind(1001))?;
                b.ok(listener.listen(1))?;
                let at = b.at(Side::B, 1001);
                let active = b.open(Side::User)?;
                let connect = b.begin(active.connect(at))?;
                b.accept(listener)?;
                b.finish_ok(connect).map(|_| ())
            },
        ),
        Row::fails(
            ["nobody listens there", "ECONNREFUSED", "ECONNREFUSED"],
            ConnectionRefused,
            |b| {
                let at = b.free_port(Side::B)?;
                Ok(b.bound(Side::A)?.0.connect(at))
            },
        ),
        Row::fails(
            [
                "to a port that is bound and does not listen",
                "ECONNREFUSED",
                "ECONNREFUSED",
            ],
            ConnectionRefused,
            |b| {
                let (_, at) = b.bound(Side::B)?;
                Ok(b.bound(Side::A)?.0.connect(at))
            },
        ),
        Row::fails(
            ["to its own port", "–", "ECONNREFUSED"],
            ConnectionRefused,
            |b| {
                let (active, own) = b.bound(Side::A)?;
                Ok(active.connect(own))
            },
        ),
        Row::fails(
            ["the backlog is full", "may be ECONNREFUSED", "ECONNREFUSED"],
            ConnectionRefused,
            |b| {
                let (_, at) = b.listener(Side::B, 1)?;
                let first = b.open(Side::A)?;
                b.begin(first.connect(at))?;
                Ok(b.bound(Side::A)?.0.connect(at))
            },
        ),
        Row::story(
            [
                "the listener closes with the request queued",
                "requests are rejected",
                "refused / 10 s",
            ],
            "ECONNREFUSED at once",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let (active, _) = b.bound(Side::A)?;
                let connect = b.begin(active.connect(at))?;
                b.ok(listener.close())?;
                b.finish_fails(connect, ConnectionRefused)
            },
        ),
        Row::story(
            [
                "again, on the endpoint that was refused",
                "–",
                "the endpoint stays bound",
            ],
            "the endpoint keeps its port, and connects once somebody listens",
            |b| {
                let target = b.free_port(Side::B)?;
                let active = b.open(Side::A)?;
                let refused = b.call(active.connect(target))?.result;
                equal("the first", refused, Err(ConnectionRefused.into()))?;
                b.fails(active.connect(target), ConnectionRefused)?;
                let (listener, at) = b.listener(Side::B, 5)?;
                let connect = b.begin(active.connect(at))?;
                let passive = b.new_endpoint(Side::B);
                let peer = b.reply(listener.accept(passive, crate::ask::SYNC))?.extra;
                let port = b.finish_ok(connect)?.result.unwrap_or(0);
                equal("the port the peer sees", peer[1], port)?;
                b.fails(active.bind(5010), IsConnected)
            },
        ),
        Row::fails(
            ["port 0", "EINVAL", "ECONNREFUSED / EINVAL"],
            InvalidArgument,
            |b| {
                let at = b.at(Side::B, 0);
                Ok(b.open(Side::A)?.connect(at))
            },
        ),
        Row::fails(
            ["a node that does not exist", "ENODEV", "ENODEV"],
            NoDevice,
            |b| Ok(b.open(Side::A)?.connect(PortId::new(NO_NODE, 5000))),
        ),
        Row::fails(
            ["the highest node number", "ENODEV", "ENODEV"],
            NoDevice,
            |b| Ok(b.open(Side::A)?.connect(PortId::new(u16::MAX, 5000))),
        ),
        Row::fails(
            ["a node that does not exist, port 0", "–", "ENODEV / EINVAL"],
            NoDevice,
            |b| Ok(b.open(Side::A)?.connect(PortId::new(NO_NODE, 0))),
        )
        .because("one order is as good as another; the node comes first"),
        Row::fails(
            [
                "a connected endpoint, a node that does not exist",
                "–",
                "ENODEV",
            ],
            NoDevice,
            |b| Ok(b.pair()?.0.connect(PortId::new(NO_NODE, 5000))),
        ),
        Row::fails(
            ["listening", "EOPNOTSUPP", "EOPNOTSUPP"],
            NotSupported,
            |b| {
                let (listener, at) = b.listener(Side::A, 1)?;
                Ok(listener.connect(at))
            },
        ),
        Row::fails(
            ["connected already", "EISCONN", "EISCONN"],
            IsConnected,
            |b| {
                let (active, _) = b.pair()?;
                let (_, at) = b.listener(Side::B, 1)?;
                Ok(active.connect(at))
            },
        ),
        Row::fails(
            ["the acceptor's end", "EISCONN", "EISCONN"],
            IsConnected,
            |b| {
                let (_, passive) = b.pair()?;
                let (_, at) = b.listener(Side::A, 1)?;
                Ok(passive.connect(at))
            },
        ),
        Row::fails(
            ["the peer has closed", "–", "EINVAL"],
            InvalidArgument,
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), crate::ask::HUP.into())?;
                let (_, at) = b.listener(Side::B, 1)?;
                Ok(active.connect(at))
            },
        )
        .because("a new connection takes a new endpoint"),
        Row::elsewhere(
            [
                "too many requests of the user, or the process, are not answered",
                "ENOMEM",
                "ENOMEM when memory ends",
            ],
            "ENOMEM; withdrawn requests count until the peer has answered",
            &[("scheme-scif/src/tests/rights.rs", "connects_are_limited")],
        )
        .because("each request has pages that the peer may write to"),
        Row::elsewhere(
            ["no port is free", "ENOSPC", "ENOSPC / a wrong port"],
            "ENOSPC",
            &[("tests/sim/tests/states.rs", "all_ports_in_use_is_enospc")],
        ),
        Row::elsewhere(
            [
                "nobody answers",
                "–",
                "ENODEV after 30 s / ECONNREFUSED after 10 s",
            ],
            "ENODEV after 30 s",
            &[("tests/sim/tests/states.rs", CONNECT_TIMEOUT)],
        )
        .because(
            "ETIMEDOUT is not among the documented errors; 10 s are short for a server that \
                starts",
        ),
    ],
};

/// The test of the time-out.
const CONNECT_TIMEOUT: &str = "a_connect_that_nobody_accepts_times_out";

/// `scif_connect` with `O_NONBLOCK`.
pub const NONBLOCKING: Section = Section {
    title: "scif_connect with O_NONBLOCK",
    word: "nonblocking",
    about: "The first call starts the attempt, `POLLOUT` reports its end, and a second call \
        collects the result.",
    rows: &[
        Row::fails(
            ["the first call", "\"not to wait\"", "EINPROGRESS"],
            InProgress,
            |b| {
                let (_, at) = b.listener(Side::B, 1)?;
                let (active, _) = b.bound(Side::A)?;
                b.ok(active.nonblocking())?;
                b.in_progress(active.connect(at))?;
                // The second call gives the same error, and changes nothing.
                Ok(active.connect(at))
            },
        ),
        Row::story(
            ["it succeeds", "–", "POLLOUT, then the port"],
            "poll reports OUT, the next call gives the port, one more is EISCONN",
            |b| {
                let active = b.open(Side::A)?;
                let listener = b.request(active)?;
                b.gives(active.poll(OUT), 0)?;
                b.accept(listener)?;
                b.becomes(active.poll(OUT), OUT.into())?;
                let any = b.at(Side::B, 1);
                let port = b.ok(active.connect(any))?;
                holds(port >= 1088, "not a port")?;
                b.fails(active.connect(any), IsConnected)
            },
        ),
        Row::story(
            ["transfers before the result is collected", "–", "work"],
            "work",
            |b| {
                let active = b.open(Side::A)?;
                let listener = b.request(active)?;
                let passive = b.accept(listener)?;
                b.becomes(active.poll(OUT), OUT.into())?;
                b.gives(active.send(9, BLOCK), 9)?;
                b.gives(passive.recv(9, BLOCK), 9)
            },
        ),
        Row::story(
            ["it is refused", "–", "POLLOUT, then ECONNREFUSED"],
            "poll reports OUT, the next call gives ECONNREFUSED, and a further one begins anew",
            |b| {
                let target = b.free_port(Side::B)?;
                let (active, _) = b.bound(Side::A)?;
                b.ok(active.nonblocking())?;
                b.in_progress(active.connect(target))?;
                b.becomes(active.poll(OUT), OUT.into())?;
                b.fails(active.connect(target), ConnectionRefused)?;
                let (listener, at) = b.listener(Side::B, 1)?;
                b.in_progress(active.connect(at))?;
                // The old failure is forgotten, so there is nothing to report.
                b.gives(active.poll(OUT), 0)?;
                b.accept(listener)?;
                b.becomes(active.poll(OUT), OUT.into())?;
                b.ok(active.connect(at)).map(|_| ())
            },
        )
        .because(
            "both drivers keep the old error, so that a second attempt looks ended at \
            once: a defect",
        ),
        Row::fails(
            ["a node that does not exist", "ENODEV", "ENODEV"],
            NoDevice,
            |b| {
                let active = b.open(Side::A)?;
                b.ok(active.nonblocking())?;
                Ok(active.connect(PortId::new(NO_NODE, 5000)))
            },
        ),
        Row::fails(
            ["port 0", "EINVAL", "ECONNREFUSED / EINVAL"],
            InvalidArgument,
            |b| {
                let at = b.at(Side::B, 0);
                let active = b.open(Side::A)?;
                b.ok(active.nonblocking())?;
                Ok(active.connect(at))
            },
        ),
        Row::story(
            ["closed while it is under way", "–", "waits for its end"],
            "closes at once; the request is withdrawn",
            |b| {
                let before = b.counts()?;
                let active = b.open(Side::A)?;
                let listener = b.request(active)?;
                b.ok(active.close())?;
                b.becomes(listener.poll(crate::ask::IN), 0)?;
                b.ok(listener.close())?;
                b.settles_at(before)
            },
        ),
        Row::story(
            [
                "O_NONBLOCK and transfers",
                "–",
                "governed by their flags only",
            ],
            "a blocking recv waits all the same",
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(active.nonblocking())?;
                let recv = b.begin(active.recv(4, BLOCK))?;
                b.waits(recv)?;
                b.gives(passive.send(4, BLOCK), 4)?;
                equal("received", b.finish(recv)?.result, Ok(4))
            },
        ),
        Row::story(
            ["O_NONBLOCK and accept", "–", "governed by its flag only"],
            "an accept with SYNC waits all the same",
            |b| {
                let (listener, at) = b.listener(Side::B, 1)?;
                b.ok(listener.nonblocking())?;
                let new = b.new_endpoint(Side::B);
                let accept = b.begin(listener.accept(new, crate::ask::SYNC))?;
                b.waits(accept)?;
                let active = b.open(Side::A)?;
                b.ok(active.connect(at))?;
                b.finish_ok(accept).map(|_| ())
            },
        ),
        Row::story(
            ["the node is lost while it is under way", "ENODEV", "ENODEV"],
            "poll reports OUT, the next call gives ENODEV",
            |b| {
                let active = b.open(Side::A)?;
                b.request(active)?;
                b.lose_node()?;
                b.becomes(active.poll(OUT), OUT.into())?;
                let at = b.at(Side::B, 5000);
                let result = b.call(active.connect(at))?.result;
                equal("collected", result, Err(NoDevice.into()))
            },
        )
        .only(Place::SIM),
    ],
};
