//! poll.

use crate::ask::{BLOCK, ERR, HUP, IN, OUT};
use crate::bench::{Side, equal, holds};
use crate::table::{Row, Section};

/// `scif_poll`.
pub const POLL: Section = Section {
    title: "scif_poll",
    word: "poll",
    about: "Poll reports levels, not edges. ERR and HUP are reported whether asked for or not.",
    rows: &[
        Row::ready(["unbound", "–", "ERR"], ERR, |b| {
            Ok(b.open(Side::A)?.poll(IN | OUT))
        }),
        Row::ready(["bound", "–", "ERR"], ERR, |b| {
            Ok(b.bound(Side::A)?.0.poll(IN | OUT))
        }),
        Row::ready(["listening, no request", "–", "nothing"], 0, |b| {
            Ok(b.listener(Side::A, 1)?.0.poll(IN | OUT))
        }),
        Row::ready(
            [
                "listening, no request, IN not asked for",
                "–",
                "ERR / nothing",
            ],
            0,
            |b| Ok(b.listener(Side::A, 1)?.0.poll(OUT)),
        )
        .because("a listener that waits is not in error"),
        Row::story(["listening, a request waits", "IN", "IN"], "IN", |b| {
            let active = b.open(Side::A)?;
            let listener = b.request(active)?;
            b.becomes(listener.poll(IN | OUT), IN.into())
        }),
        Row::ready(["connected, nothing to receive", "OUT", "OUT"], OUT, |b| {
            Ok(b.pair()?.0.poll(IN | OUT))
        }),
        Row::ready(
            ["connected, a byte to receive", "IN and OUT", "IN and OUT"],
            IN | OUT,
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(1, BLOCK), 1)?;
                Ok(passive.poll(IN | OUT))
            },
        ),
        Row::ready(["connected, no room", "no OUT", "no OUT"], 0, |b| {
            let (active, _) = b.pair()?;
            b.fill_ring(active)?;
            Ok(active.poll(IN | OUT))
        }),
        Row::story(
            ["connected, one byte of room", "OUT", "OUT"],
            "OUT as soon as the peer has read a byte",
            |b| {
                let (active, passive) = b.pair()?;
                b.fill_ring(active)?;
                b.gives(passive.recv(1, BLOCK), 1)?;
                b.becomes(active.poll(OUT), OUT.into())
            },
        ),
        Row::elsewhere(
            [
                "connected, a little room, and a blocking send on the endpoint waits for more",
                "–",
                "OUT",
            ],
            "OUT; another send that does not block gives 0: the one that waits takes the room",
            &[(
                "lib/scif/src/bypass/tests.rs",
                "poll_says_out_while_another_send_waits_for_more_room",
            )],
        )
        .because(
            "OUT tells of room, not of who waits for it; bytes of a blocking send stay together",
        ),
        Row::ready(
            [
                "connected, only IN asked for",
                "what was asked for",
                "what was asked for",
            ],
            0,
            |b| Ok(b.pair()?.0.poll(IN)),
        ),
        Row::ready(["nothing asked for", "–", "nothing"], 0, |b| {
            Ok(b.pair()?.0.poll(0))
        }),
        Row::story(
            [
                "the peer has closed, bytes are left",
                "–",
                "IN, HUP / IN, OUT, HUP",
            ],
            "IN and HUP, without OUT",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(1, BLOCK), 1)?;
                b.ok(active.close())?;
                b.becomes(passive.poll(IN | OUT), (IN | HUP).into())
            },
        )
        .because("nothing can be sent any more"),
        Row::story(
            [
                "the peer has closed, nothing is left",
                "–",
                "HUP / HUP, OUT",
            ],
            "HUP, without IN and OUT",
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(active.close())?;
                b.becomes(passive.poll(IN | OUT), HUP.into())
            },
        ),
        Row::story(
            [
                "several endpoints, time 0",
                "the number that are ready",
                "the number",
            ],
            "the number that are ready, at once",
            |b| {
                let (active, passive) = b.pair()?;
                let (listener, _) = b.listener(Side::A, 1)?;
                b.gives(listener.poll_two(active, IN, 0), 0)?;
                b.gives(passive.send(1, BLOCK), 1)?;
                b.becomes(active.poll(IN), IN.into())?;
                let reply = b.reply(listener.poll_two(active, IN, 0))?;
                equal(
                    "the answer",
                    (reply.result, reply.extra),
                    (Ok(1), alloc::vec![0, IN.into()]),
                )
            },
        ),
        Row::story(
            ["several endpoints, until one is ready", "waits", "waits"],
            "waits, and wakes by any of them",
            |b| {
                let (active, passive) = b.pair()?;
                let (listener, at) = b.listener(Side::A, 1)?;
                for turn in 0..2 {
                    let poll = b.begin(listener.poll_two(active, IN, -1))?;
                    b.waits(poll)?;
                    if turn == 0 {
                        b.gives(passive.send(1, BLOCK), 1)?;
                        let reply = b.finish_ok(poll)?;
                        equal("the first", reply.extra, alloc::vec![0, IN.into()])?;
                        b.gives(active.recv(1, BLOCK), 1)?;
                    } else {
                        let other = b.open(Side::B)?;
                        b.ok(other.nonblocking())?;
                        b.in_progress(other.connect(at))?;
                        let reply = b.finish_ok(poll)?;
                        equal("the second", reply.extra, alloc::vec![IN.into(), 0])?;
                    }
                }
                Ok(())
            },
        ),
        Row::story(
            ["waiting, and the peer closes", "–", "wakes with HUP"],
            "wakes with HUP",
            |b| {
                let (active, passive) = b.pair()?;
                let (listener, _) = b.listener(Side::A, 1)?;
                let poll = b.begin(listener.poll_two(active, IN, -1))?;
                b.waits(poll)?;
                b.ok(passive.close())?;
                let reply = b.finish_ok(poll)?;
                equal("woken by", reply.extra, alloc::vec![0, HUP.into()])
            },
        ),
        Row::story(
            ["nothing happens until the time is over", "0", "0"],
            "0 after the time",
            |b| {
                let (active, _) = b.pair()?;
                let (listener, _) = b.listener(Side::A, 1)?;
                let reply = b.reply(listener.poll_two(active, IN, 20))?;
                holds(reply.result == Ok(0), "something was ready")
            },
        ),
    ],
};
