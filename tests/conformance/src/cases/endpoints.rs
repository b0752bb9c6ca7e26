//! open, bind and listen.

use scif_abi::Error::{AccessDenied, ConnectionRefused, InvalidArgument, NoMemory};

use crate::ask::BLOCK;
use crate::bench::{Place, Side, equal, holds};
use crate::table::{Row, Section};

/// `scif_open`.
pub const OPEN: Section = Section {
    title: "scif_open",
    word: "open",
    about: "",
    rows: &[
        Row::succeeds(["a fresh endpoint", "a descriptor", "a descriptor"], |b| {
            let endpoint = b.new_endpoint(Side::A);
            Ok(endpoint.open())
        }),
        Row::succeeds(
            [
                "by a user who is not root",
                "–",
                "as the device file's rights say",
            ],
            |b| {
                let endpoint = b.new_endpoint(Side::User);
                Ok(endpoint.open())
            },
        )
        .because("only ports below 1024 and calls of the kernel are for root"),
        Row::story(
            ["many at once, and again after closing", "–", "–"],
            "each is an endpoint of its own",
            |b| {
                for _ in 0..2 {
                    let mut open = alloc::vec::Vec::new();
                    for _ in 0..64 {
                        open.push(b.open(Side::A)?);
                    }
                    for endpoint in open {
                        b.ok(endpoint.bind(0))?;
                        b.ok(endpoint.close())?;
                    }
                }
                Ok(())
            },
        ),
        Row::fails(
            [
                "one process has 8192 endpoints",
                "ENOMEM",
                "ENOMEM when memory ends",
            ],
            NoMemory,
            |b| {
                for _ in 0..8192 {
                    b.open(Side::A)?;
                }
                Ok(b.new_endpoint(Side::A).open())
            },
        )
        .because("so that one program cannot use up all ports of a node")
        .only(Place::SIM),
        Row::elsewhere(
            [
                "all processes of one user have 32768 endpoints",
                "ENOMEM",
                "ENOMEM when memory ends",
            ],
            "ENOMEM",
            &[(
                "scheme-scif/src/tests/rights.rs",
                "endpoints_and_backlogs_are_limited",
            )],
        )
        .because(
            "the limits of users and processes are in the file `limits`, where root sets them",
        ),
    ],
};

/// `scif_bind`.
pub const BIND: Section = Section {
    title: "scif_bind",
    word: "bind",
    about: "Ports belong to a node. The checks in their order: rights, then the endpoint's \
        state, then the port.",
    rows: &[
        Row::gives(["a free port", "the port", "the port"], 5000, |b| {
            Ok(b.open(Side::A)?.bind(5000))
        }),
        Row::story(
            [
                "port 0",
                "a port \"greater than or equal to SCIF_PORT_RSVD\"",
                "lowest free from 1088 / from 1089",
            ],
            "the lowest free port from 1088",
            |b| {
                let (first, at) = b.bound(Side::A)?;
                let (_, next) = b.bound(Side::A)?;
                holds(at.port() >= 1088, "a reserved port was given out")?;
                holds(next.port() > at.port(), "not the lowest free port")?;
                b.ok(first.close())?;
                let (_, again) = b.bound(Side::A)?;
                equal("the port after one became free", again, at)
            },
        ),
        Row::fails(
            ["a port in use", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| {
                let (_, at) = b.bound(Side::A)?;
                Ok(b.open(Side::A)?.bind(at.port()))
            },
        ),
        Row::fails(
            ["a port that connect has chosen", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| {
                let (listener, at) = b.listener(Side::B, 1)?;
                let active = b.open(Side::A)?;
                let connect = b.begin(active.connect(at))?;
                b.accept(listener)?;
                let port = b.finish_ok(connect)?.result.unwrap_or(0);
                Ok(b.open(Side::A)?.bind(port as u16))
            },
        ),
        Row::fails(
            ["a port a listener has", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| {
                let (_, at) = b.listener(Side::A, 1)?;
                Ok(b.open(Side::A)?.bind(at.port()))
            },
        ),
        Row::succeeds(["a port in use on another node", "–", "allowed"], |b| {
            let (_, at) = b.bound(Side::A)?;
            Ok(b.open(Side::B)?.bind(at.port()))
        })
        .only(&[Place::Sim, Place::Pair]),
        Row::story(
            [
                "the port of an endpoint that was closed",
                "–",
                "free at once",
            ],
            "free at once; no waiting time",
            |b| {
                for _ in 0..3 {
                    let endpoint = b.open(Side::A)?;
                    b.gives(endpoint.bind(5002), 5002)?;
                    b.ok(endpoint.close())?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "the listener's port, while connections it accepted live",
                "–",
                "allowed / EINVAL",
            ],
            "allowed once the listener is closed",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let active = b.open(Side::A)?;
                let connect = b.begin(active.connect(at))?;
                let passive = b.accept(listener)?;
                b.finish_ok(connect)?;
                b.ok(listener.close())?;
                let next = b.open(Side::B)?;
                b.ok(next.bind(at.port()))?;
                b.ok(next.listen(5))?;
                b.gives(active.send(5, BLOCK), 5)?;
                b.gives(passive.recv(5, BLOCK), 5)
            },
        )
        .because("servers are restarted with connections open"),
        Row::fails(
            ["a port below 1024, not root", "EACCES", "EACCES"],
            AccessDenied,
            |b| Ok(b.open(Side::User)?.bind(1023)),
        ),
        Row::fails(
            ["port 1, not root", "EACCES", "EACCES"],
            AccessDenied,
            |b| Ok(b.open(Side::User)?.bind(1)),
        ),
        Row::fails(
            [
                "a port below 1024, not root, endpoint bound already",
                "–",
                "EACCES: the right is looked at first",
            ],
            AccessDenied,
            |b| {
                let (endpoint, _) = b.bound(Side::User)?;
                Ok(endpoint.bind(80))
            },
        ),
        Row::gives(["port 1024, not root", "the port", "the port"], 1024, |b| {
            Ok(b.open(Side::User)?.bind(1024))
        }),
        Row::gives(
            ["a port below 1024, root", "the port", "the port"],
            1000,
            |b| Ok(b.open(Side::A)?.bind(1000)),
        ),
        Row::gives(["the highest port", "the port", "the port"], 65535, |b| {
            Ok(b.open(Side::A)?.bind(65535))
        }),
        Row::fails(
            ["bound already", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| Ok(b.bound(Side::A)?.0.bind(5003)),
        ),
        Row::fails(
            ["listening", "EINVAL: bound already", "EISCONN"],
            scif_abi::Error::IsConnected,
            |b| Ok(b.listener(Side::A, 1)?.0.bind(5003)),
        )
        .because(
            "the documents have EINVAL for bound and EISCONN for connected; an endpoint that \
             listens or connects has a use that excludes another one, which both drivers call \
             EISCONN",
        ),
        Row::fails(
            [
                "connected",
                "EINVAL: bound already; EISCONN: connected",
                "EISCONN",
            ],
            scif_abi::Error::IsConnected,
            |b| Ok(b.pair()?.0.bind(5003)),
        )
        .because("both hold; the more special one is said"),
        Row::story(
            ["a bind that failed", "–", "the endpoint stays unbound"],
            "the endpoint stays unbound and can be bound",
            |b| {
                let (_, taken) = b.bound(Side::A)?;
                let endpoint = b.open(Side::A)?;
                b.fails(endpoint.bind(taken.port()), InvalidArgument)?;
                b.gives(endpoint.bind(5004), 5004)
            },
        ),
        Row::elsewhere(
            [
                "port 0, and no port is free",
                "ENOSPC",
                "ENOSPC / a wrong port",
            ],
            "ENOSPC",
            &[("tests/sim/tests/states.rs", "all_ports_in_use_is_enospc")],
        ),
    ],
};

/// `scif_listen`.
pub const LISTEN: Section = Section {
    title: "scif_listen",
    word: "listen",
    about: "",
    rows: &[
        Row::elsewhere(
            [
                "the backlogs of the user's, or process's, listeners are too much together",
                "ENOMEM",
                "–",
            ],
            "ENOMEM",
            &[(
                "scheme-scif/src/tests/rights.rs",
                "endpoints_and_backlogs_are_limited",
            )],
        )
        .because("requests that wait take memory whose size others choose"),
        Row::gives(["a bound endpoint", "0", "0"], 0, |b| {
            Ok(b.bound(Side::A)?.0.listen(1))
        }),
        Row::fails(["not bound", "EINVAL", "EINVAL"], InvalidArgument, |b| {
            Ok(b.open(Side::A)?.listen(1))
        }),
        Row::fails(
            ["backlog 0", "–", "never accepts / EINVAL"],
            InvalidArgument,
            |b| Ok(b.bound(Side::A)?.0.listen(0)),
        )
        .because("a listener that refuses everybody helps nobody"),
        Row::fails(
            ["a negative backlog", "–", "never accepts / EINVAL"],
            InvalidArgument,
            |b| Ok(b.bound(Side::A)?.0.listen(-1)),
        ),
        Row::fails(
            ["backlog 0, not bound", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| Ok(b.open(Side::A)?.listen(0)),
        ),
        Row::gives(
            ["a backlog above 1024", "–", "as asked / clamped to 1024"],
            0,
            |b| Ok(b.bound(Side::A)?.0.listen(i32::MAX)),
        )
        .because("clamped: servers pass large numbers"),
        Row::story(
            [
                "more requests than the backlog",
                "\"may\" be refused",
                "refused at once",
            ],
            "the first as many wait, the next is refused at once (ECONNREFUSED)",
            |b| {
                let (listener, at) = b.listener(Side::B, 2)?;
                let mut waiting = alloc::vec::Vec::new();
                for _ in 0..2 {
                    let active = b.open(Side::A)?;
                    waiting.push(b.begin(active.connect(at))?);
                }
                let (late, _) = b.bound(Side::A)?;
                b.fails(late.connect(at), ConnectionRefused)?;
                b.accept(listener)?;
                b.finish_ok(waiting[0])?;
                // One place of the backlog is free again.
                let connect = b.begin(late.connect(at))?;
                b.accept(listener)?;
                b.finish_ok(waiting[1])?;
                b.accept(listener)?;
                b.finish_ok(connect)?;
                Ok(())
            },
        ),
    ],
};
