//! accept and close.

use scif_abi::Error::{
    BadDescriptor, ConnectionRefused, ConnectionReset, Interrupted, InvalidArgument, WouldBlock,
};

use crate::ask::{BLOCK, HUP, IN, SYNC};
use crate::bench::{Place, Side, equal};
use crate::table::{Row, Section};

/// `scif_accept`.
pub const ACCEPT: Section = Section {
    title: "scif_accept",
    word: "accept",
    about: "",
    rows: &[
        Row::story(
            [
                "a request waits, no flag",
                "0, peer filled in",
                "0, peer filled in",
            ],
            "0, and the peer's node and port",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let (active, from) = b.bound(Side::A)?;
                let connect = b.begin(active.connect(at))?;
                b.becomes(listener.poll(IN), IN.into())?;
                let passive = b.new_endpoint(Side::B);
                let reply = b.reply(listener.accept(passive, 0))?;
                let wanted = alloc::vec![from.node().into(), from.port().into()];
                equal("the peer", reply.extra, wanted)?;
                b.finish_ok(connect)?;
                b.gives(passive.send(1, BLOCK), 1)?;
                b.gives(active.recv(1, BLOCK), 1)
            },
        ),
        Row::story(
            ["SYNC, no request yet", "waits", "waits"],
            "waits for one",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let passive = b.new_endpoint(Side::B);
                let accept = b.begin(listener.accept(passive, SYNC))?;
                b.waits(accept)?;
                let active = b.open(Side::A)?;
                b.ok(active.connect(at))?;
                b.finish_ok(accept).map(|_| ())
            },
        ),
        Row::fails(
            ["no request, no flag", "EAGAIN", "EAGAIN"],
            WouldBlock,
            |b| {
                let (listener, _) = b.listener(Side::A, 5)?;
                let new = b.new_endpoint(Side::A);
                Ok(listener.accept(new, 0))
            },
        ),
        Row::fails(
            ["an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| {
                let (listener, _) = b.listener(Side::A, 5)?;
                let new = b.new_endpoint(Side::A);
                Ok(listener.accept(new, 2))
            },
        ),
        Row::fails(
            ["SYNC and an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| {
                let (listener, _) = b.listener(Side::A, 5)?;
                let new = b.new_endpoint(Side::A);
                Ok(listener.accept(new, SYNC | 4))
            },
        ),
        Row::fails(
            ["not listening", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| {
                let (endpoint, _) = b.bound(Side::A)?;
                let new = b.new_endpoint(Side::A);
                Ok(endpoint.accept(new, SYNC))
            },
        ),
        Row::story(
            [
                "the order of requests",
                "the first of the queue",
                "first come, first served",
            ],
            "first come, first served",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let mut ports = alloc::vec::Vec::new();
                for _ in 0..3 {
                    let (active, from) = b.bound(Side::A)?;
                    ports.push(i64::from(from.port()));
                    b.begin(active.connect(at))?;
                }
                for port in ports {
                    let passive = b.new_endpoint(Side::B);
                    let reply = b.reply(listener.accept(passive, SYNC))?;
                    equal("the peer's port", reply.extra[1], port)?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "waiting, and the listener is closed",
                "EINTR: interrupted",
                "EINTR",
            ],
            "EINTR",
            |b| {
                let (listener, _) = b.listener(Side::B, 5)?;
                let new = b.new_endpoint(Side::B);
                let accept = b.begin(listener.accept(new, SYNC))?;
                b.waits(accept)?;
                b.ok(listener.close())?;
                b.finish_fails(accept, Interrupted)
            },
        ),
        Row::story(
            [
                "the connector withdrew before the accept",
                "EAGAIN without SYNC",
                "EAGAIN; SYNC takes the next",
            ],
            "the request is gone from the queue: EAGAIN without SYNC",
            |b| {
                let active = b.open(Side::A)?;
                let listener = b.request(active)?;
                b.ok(active.close())?;
                b.becomes(listener.poll(IN), 0)?;
                let new = b.new_endpoint(Side::B);
                b.fails(listener.accept(new, 0), WouldBlock)
            },
        ),
        Row::story(
            [
                "the connector closes right after",
                "–",
                "succeeds; what was sent can be read",
            ],
            "succeeds; what was sent can be read, then ECONNRESET",
            |b| {
                let active = b.open(Side::A)?;
                let listener = b.request(active)?;
                let passive = b.accept(listener)?;
                b.becomes(active.poll(crate::ask::OUT), crate::ask::OUT.into())?;
                b.gives(active.send(7, BLOCK), 7)?;
                b.ok(active.close())?;
                b.gives(passive.recv(7, BLOCK), 7)?;
                b.fails(passive.recv(1, BLOCK), ConnectionReset)
            },
        ),
        Row::story(
            [
                "the new endpoint and the listener's port",
                "bound to the same port",
                "the same",
            ],
            "carries the listener's port and lives on when the listener closes",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(3, BLOCK), 3)?;
                b.gives(passive.recv(3, BLOCK), 3)
            },
        ),
        Row::story(
            [
                "the second half of an accept, no such handle",
                "ENOENT",
                "ENOENT",
            ],
            "ENOENT",
            |b| {
                let fresh = b.open(Side::A)?;
                let slot = fresh.slot;
                let call = crate::call::Call::AcceptRegister {
                    slot,
                    handle: 1 << 40,
                };
                let side = Side::A;
                b.fails(crate::bench::Ask { side, call }, scif_abi::Error::NoEntry)
            },
        )
        .only(Place::GUESTS),
        Row::elsewhere(
            [
                "the connector does not acknowledge the grant",
                "EAGAIN or ENODEV",
                "waits while its node lives",
            ],
            "ENODEV after 10 s, EAGAIN without SYNC; a late acknowledgement is answered by a \
             disconnect",
            &[
                (
                    "tests/sim/tests/states.rs",
                    "a_grant_that_nobody_acknowledges_times_out",
                ),
                (
                    "scheme-scif/src/tests/connections.rs",
                    "an_accept_whose_connector_is_lost",
                ),
            ],
        )
        .because("an accept must not hang for ever because of a peer"),
        Row::elsewhere(
            ["there is no room for one more endpoint", "ENOMEM", "ENOMEM"],
            "ENOMEM; the connector gets ECONNREFUSED, and nobody is connected to nobody",
            &[(
                "scheme-scif/src/tests/connections.rs",
                "an_accept_at_a_limit_connects_nobody",
            )],
        ),
        Row::elsewhere(
            [
                "the connector closes before it has acknowledged the grant",
                "–",
                "EAGAIN; SYNC takes the next",
            ],
            "the accept passes it over: EAGAIN without SYNC, else the next",
            &[(
                "tests/sim/tests/states.rs",
                "a_withdrawn_grant_ends_the_accept",
            )],
        ),
        Row::elsewhere(
            [
                "the acceptor closes between the grant and its acknowledgement",
                "–",
                "the connector stays connected to nobody",
            ],
            "the connector sees it as a peer that has gone",
            &[(
                "tests/sim/tests/states.rs",
                "an_acceptor_that_dies_resets_the_connector",
            )],
        )
        .because(
            "a race of both drivers: the endpoint joins the connected ones before it \
                acknowledges",
        ),
    ],
};

/// `scif_close`.
pub const CLOSE: Section = Section {
    title: "scif_close",
    word: "close",
    about: "Succeeds in every state (see the table of states).",
    rows: &[
        Row::fails(["twice", "EBADF", "EBADF"], BadDescriptor, |b| {
            let endpoint = b.open(Side::A)?;
            b.ok(endpoint.close())?;
            Ok(endpoint.close())
        }),
        Row::story(
            [
                "connected, what was sent before",
                "the peer can receive it",
                "the peer can receive it",
            ],
            "the peer reads all of it, then gets ECONNRESET",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(4000, BLOCK), 4000)?;
                b.ok(active.close())?;
                b.becomes(passive.poll(IN), (IN | HUP).into())?;
                b.gives(passive.recv(1000, BLOCK), 1000)?;
                // A blocking receive of more bytes than are left returns those that are left.
                b.gives(passive.recv_from(1000, 5000, BLOCK), 3000)?;
                b.fails(passive.recv(1, BLOCK), ConnectionReset)?;
                b.becomes(passive.poll(IN), HUP.into())
            },
        ),
        Row::story(
            ["connected, what was not received", "–", "thrown away"],
            "thrown away; the peer's next send is ECONNRESET",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(100, BLOCK), 100)?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                b.fails(active.send(1, BLOCK), ConnectionReset)
            },
        ),
        Row::story(
            ["both sides at once", "–", "both acknowledge"],
            "both end, nothing is left over",
            |b| {
                let before = b.counts()?;
                for _ in 0..8 {
                    let (active, passive) = b.pair()?;
                    let one = b.begin(active.close())?;
                    let other = b.begin(passive.close())?;
                    b.finish_ok(one)?;
                    b.finish_ok(other)?;
                }
                b.settles_at(before)
            },
        ),
        Row::story(
            [
                "a listener with requests queued",
                "they are rejected",
                "refused / 10 s",
            ],
            "all get ECONNREFUSED at once, and the port is free",
            |b| {
                let (listener, at) = b.listener(Side::B, 5)?;
                let mut connects = alloc::vec::Vec::new();
                for _ in 0..3 {
                    let active = b.open(Side::A)?;
                    connects.push(b.begin(active.connect(at))?);
                }
                b.ok(listener.close())?;
                for connect in connects {
                    b.finish_fails(connect, ConnectionRefused)?;
                }
                let next = b.open(Side::B)?;
                b.gives(next.bind(at.port()), at.port().into())
            },
        )
        .because("clients that wait 10 s for nothing help nobody"),
        Row::story(
            ["a listener whose connections live", "–", "they live on"],
            "they live on",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(passive.send(50, BLOCK), 50)?;
                b.gives(active.recv(50, BLOCK), 50)
            },
        ),
        Row::story(
            ["disconnected", "0", "0, no message"],
            "ends without a word to the peer",
            |b| {
                let before = b.counts()?;
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                b.gives(active.close(), 0)?;
                b.settles_at(before)
            },
        ),
    ],
};
