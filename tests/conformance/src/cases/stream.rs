//! send and recv.

use scif_abi::Error::{ConnectionReset, InvalidArgument, NotConnected};
use scif_abi::limits::MAX_ENDPOINT_RING_BYTES;

use crate::ask::{BLOCK, HUP};
use crate::bench::{Place, Side, equal, holds};
use crate::table::{Row, Section};

/// Number of bytes that any ring takes without a reader.
const RING: u64 = 4095;

/// Number of bytes that no ring takes without a reader.
const MORE: u64 = MAX_ENDPOINT_RING_BYTES as u64 + 100_000;

/// Half of [`MORE`].
const HALF: u64 = MORE / 2;

/// The reason why the loss of a node does not give ENODEV here.
const LOST: &str = "the documents list both. The loss of a node resets its connections, and that \
    is what every later call on such an endpoint says; ENODEV is what a connect to the node gives";

/// `scif_send`.
pub const SEND: Section = Section {
    title: "scif_send",
    word: "send",
    about: "The order of the checks: length 0, flags, state.",
    rows: &[
        Row::gives(["blocking, it fits", "the count", "the count"], 4095, |b| {
            Ok(b.pair()?.0.send(RING, BLOCK))
        }),
        Row::gives(
            ["not blocking, it fits", "the count", "the count"],
            100,
            |b| Ok(b.pair()?.0.send(100, 0)),
        ),
        Row::gives(
            [
                "not blocking, some of it fits",
                "\"only those bytes which can be sent\"",
                "what fits",
            ],
            95,
            |b| {
                let (active, passive) = b.pair()?;
                b.fill_ring(active)?;
                b.gives(passive.recv(95, BLOCK), 95)?;
                Ok(active.send(1000, 0))
            },
        ),
        Row::elsewhere(
            [
                "not blocking, the reader has taken a little",
                "\"only those bytes which can be sent\"",
                "what fits",
            ],
            "of a ring of more than 4096 bytes up to a quarter less than was taken; never less \
             than 4095 bytes of an empty one",
            &[
                (
                    "lib/scif-ring/tests/plain.rs",
                    "room_is_kept_back_while_there_is_plenty_and_nobody_waits",
                ),
                (
                    "lib/scif-ring/tests/plain.rs",
                    "what_a_base_ring_takes_is_never_kept_back",
                ),
            ],
        )
        .because(
            "each store of the reader's index takes a cache line from the sender, or is a write on \
             the bus, so a reader gives room back when the sender waits for it or a quarter of the \
             ring is filled",
        ),
        Row::gives(
            ["not blocking, no room", "–", "0, never EAGAIN"],
            0,
            |b| {
                let (active, _) = b.pair()?;
                b.fill_ring(active)?;
                Ok(active.send(1, 0))
            },
        )
        .because("`write` with O_NONBLOCK on the file gives EAGAIN, as files do"),
        Row::story(
            [
                "blocking, more than fits",
                "waits until all is sent",
                "waits",
            ],
            "waits until the peer has made room for all of it",
            |b| {
                let (active, passive) = b.pair()?;
                let send = b.begin(active.send(MORE, BLOCK))?;
                b.waits(send)?;
                let reply = b.reply(passive.recv(MORE, BLOCK))?;
                equal("the first wrong byte", reply.extra, alloc::vec![-1])?;
                equal("sent", b.finish(send)?.result, Ok(MORE as i64))
            },
        ),
        Row::story(
            [
                "blocking, and the peer closes meanwhile",
                "the count so far",
                "the count so far",
            ],
            "the count so far; the next is ECONNRESET",
            |b| {
                let (active, passive) = b.pair()?;
                let send = b.begin(active.send(MORE, BLOCK))?;
                b.waits(send)?;
                b.ok(passive.close())?;
                let sent = b.finish(send)?.result.unwrap_or(-1);
                holds(
                    (RING as i64..MORE as i64).contains(&sent),
                    "the count is not that of a ring",
                )?;
                b.fails(active.send(1, BLOCK), ConnectionReset)
            },
        ),
        Row::story(
            ["two blocking sends on one endpoint", "–", "take turns"],
            "take turns: neither is cut by the other",
            |b| {
                let (active, passive) = b.pair()?;
                let first = b.begin(active.send(HALF, BLOCK))?;
                let second = b.begin(active.send_from(HALF, HALF, BLOCK))?;
                let reply = b.reply(passive.recv(MORE, BLOCK))?;
                equal("the first wrong byte", reply.extra, alloc::vec![-1])?;
                equal("the first", b.finish(first)?.result, Ok(HALF as i64))?;
                equal("the second", b.finish(second)?.result, Ok(HALF as i64))
            },
        ),
        Row::gives(["length 0, connected", "0", "0"], 0, |b| {
            Ok(b.pair()?.0.send(0, BLOCK))
        }),
        Row::gives(
            [
                "length 0, unknown flag",
                "EINVAL or 0",
                "0: nothing else is looked at",
            ],
            0,
            |b| Ok(b.pair()?.0.send(0, 6)),
        ),
        Row::fails(
            ["an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| Ok(b.pair()?.0.send(1, 2)),
        ),
        Row::fails(
            ["BLOCK and an unknown flag", "EINVAL", "accepted"],
            InvalidArgument,
            |b| Ok(b.pair()?.0.send(1, BLOCK | 4)),
        )
        .because("the documents say that unknown flags are invalid"),
        Row::fails(
            ["an unknown flag, not connected", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| Ok(b.open(Side::A)?.send(1, 2)),
        ),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| Ok(b.open(Side::A)?.send(1, BLOCK)),
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                Ok(active.send(1, 0))
            },
        ),
        Row::story(
            ["the node is lost", "ENODEV or ECONNRESET", "ECONNRESET"],
            "ECONNRESET; the count so far if it is lost in the middle",
            |b| {
                let (active, _) = b.pair()?;
                let send = b.begin(active.send(MORE, BLOCK))?;
                b.waits(send)?;
                b.lose_node()?;
                let sent = b.finish(send)?.result.unwrap_or(-1);
                holds(
                    (RING as i64..MORE as i64).contains(&sent),
                    "the count is not that of a ring",
                )?;
                b.fails(active.send(1, BLOCK), ConnectionReset)?;
                b.fails(active.send(1, 0), ConnectionReset)
            },
        )
        .because(LOST)
        .only(Place::SIM),
        Row::elsewhere(
            ["a buffer that is not mapped", "EFAULT", "EFAULT"],
            "EFAULT",
            &[("tests/guest/src/bin/scif-errors.rs", "pointers")],
        ),
        Row::elsewhere(
            ["the same, and a bad flag or state", "–", "–"],
            "EINVAL or the state's error",
            &[(
                "lib/scif/src/raw/tests.rs",
                "a_bad_buffer_is_reported_after_flags_and_state",
            )],
        ),
    ],
};

/// `scif_recv`.
pub const RECV: Section = Section {
    title: "scif_recv",
    word: "recv",
    about: "The order of the checks: length 0, flags, state. There are no message boundaries.",
    rows: &[
        Row::story(
            [
                "blocking, not all there yet",
                "waits for len bytes",
                "waits for all",
            ],
            "waits for all of them",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(10, BLOCK), 10)?;
                let recv = b.begin(passive.recv(30, BLOCK))?;
                b.waits(recv)?;
                b.gives(active.send_from(10, 19, BLOCK), 19)?;
                b.waits(recv)?;
                b.gives(active.send_from(29, 1, BLOCK), 1)?;
                let reply = b.finish_ok(recv)?;
                equal("received", reply.result, Ok(30))?;
                equal("the first wrong byte", reply.extra, alloc::vec![-1])
            },
        ),
        Row::gives(
            [
                "not blocking, less is there",
                "\"only those bytes which can be received\"",
                "what is there",
            ],
            10,
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(10, BLOCK), 10)?;
                Ok(passive.recv(100, 0))
            },
        ),
        Row::gives(
            ["not blocking, nothing is there", "–", "0, never EAGAIN"],
            0,
            |b| Ok(b.pair()?.1.recv(100, 0)),
        )
        .because(
            "clients drain with it until 0; `read` with O_NONBLOCK gives EAGAIN, as \
            files do",
        ),
        Row::story(
            [
                "several sends, one recv; one send, several recvs",
                "a byte stream",
                "a byte stream",
            ],
            "a byte stream",
            |b| {
                let (active, passive) = b.pair()?;
                for from in [0, 7, 14] {
                    b.gives(active.send_from(from, 7, 0), 7)?;
                }
                let reply = b.reply(passive.recv(20, BLOCK))?;
                equal("the first wrong byte", reply.extra, alloc::vec![-1])?;
                b.gives(passive.recv_from(20, 1, 0), 1)?;
                b.gives(passive.recv_from(21, 1, 0), 0)
            },
        ),
        Row::story(
            ["byte by byte", "–", "works"],
            "works; the last gives 0",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(40, BLOCK), 40)?;
                for from in 0..40 {
                    let reply = b.reply(passive.recv_from(from, 1, 0))?;
                    equal(
                        "a byte",
                        (reply.result, reply.extra),
                        (Ok(1), alloc::vec![-1]),
                    )?;
                }
                b.gives(passive.recv(1, 0), 0)
            },
        ),
        Row::story(
            ["both directions at once", "–", "independent"],
            "independent of each other",
            |b| {
                let (active, passive) = b.pair()?;
                let there = b.begin(active.send(30_000, BLOCK))?;
                let back = b.begin(passive.send(30_000, BLOCK))?;
                let recv = b.begin(active.recv(30_000, BLOCK))?;
                b.gives(passive.recv(30_000, BLOCK), 30_000)?;
                for ticket in [there, back, recv] {
                    equal("a transfer", b.finish(ticket)?.result, Ok(30_000))?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "blocking, and the peer closes meanwhile",
                "the bytes so far can be received",
                "the count so far",
            ],
            "the count so far; the next is ECONNRESET",
            |b| {
                let (active, passive) = b.pair()?;
                let recv = b.begin(passive.recv(30, BLOCK))?;
                b.gives(active.send(10, BLOCK), 10)?;
                b.waits(recv)?;
                b.ok(active.close())?;
                equal("received", b.finish(recv)?.result, Ok(10))?;
                b.fails(passive.recv(1, 0), ConnectionReset)
            },
        ),
        Row::story(
            [
                "blocking, nothing there, and the peer closes",
                "ECONNRESET",
                "ECONNRESET",
            ],
            "ECONNRESET: there is no other end of a stream",
            |b| {
                let (active, passive) = b.pair()?;
                let recv = b.begin(passive.recv(30, BLOCK))?;
                b.waits(recv)?;
                b.ok(active.close())?;
                b.finish_fails(recv, ConnectionReset)
            },
        ),
        Row::gives(["length 0, connected", "0", "0"], 0, |b| {
            Ok(b.pair()?.0.recv(0, BLOCK))
        }),
        Row::gives(
            [
                "length 0, unknown flag",
                "EINVAL or 0",
                "0: nothing else is looked at",
            ],
            0,
            |b| Ok(b.pair()?.0.recv(0, 6)),
        ),
        Row::fails(
            ["an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| Ok(b.pair()?.0.recv(1, 2)),
        ),
        Row::fails(
            ["BLOCK and an unknown flag", "EINVAL", "accepted"],
            InvalidArgument,
            |b| Ok(b.pair()?.0.recv(1, BLOCK | 4)),
        )
        .because("the documents say that unknown flags are invalid"),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| Ok(b.open(Side::A)?.recv(1, BLOCK)),
        ),
        Row::fails(
            [
                "the peer has closed and all is read",
                "ECONNRESET",
                "ECONNRESET",
            ],
            ConnectionReset,
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                Ok(active.recv(1, 0))
            },
        ),
        Row::elsewhere(
            ["the node returns from low power", "EAGAIN", "– / –"],
            "does not happen: nodes do not sleep",
            &[("tests/sim/tests/states.rs", "every_call_in_every_state")],
        ),
        Row::story(
            ["the node is lost", "ENODEV or ECONNRESET", "ECONNRESET"],
            "ECONNRESET, after what came before; the count so far if it is lost in the middle",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(passive.send(10, BLOCK), 10)?;
                b.gives(active.recv(4, BLOCK), 4)?;
                let recv = b.begin(active.recv_from(4, 30, BLOCK))?;
                b.waits(recv)?;
                b.lose_node()?;
                let reply = b.finish(recv)?;
                equal(
                    "received",
                    (reply.result, reply.extra),
                    (Ok(6), alloc::vec![-1]),
                )?;
                b.fails(active.recv(1, BLOCK), ConnectionReset)?;
                b.fails(active.recv(1, 0), ConnectionReset)
            },
        )
        .because(LOST)
        .only(Place::SIM),
        Row::elsewhere(
            ["a buffer that is not mapped", "EFAULT", "EFAULT"],
            "EFAULT",
            &[("tests/guest/src/bin/scif-errors.rs", "pointers")],
        ),
        Row::elsewhere(
            ["the same, and a bad flag or state", "–", "–"],
            "EINVAL or the state's error",
            &[(
                "lib/scif/src/raw/tests.rs",
                "a_bad_buffer_is_reported_after_flags_and_state",
            )],
        ),
    ],
};
