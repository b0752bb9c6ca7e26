//! Sequences of calls that real clients of SCIF make.

use scif_abi::Error::{
    ConnectionRefused, ConnectionReset, InProgress, InvalidArgument, NoDevice, WouldBlock,
};
use scif_abi::PortId;

use crate::ask::{BLOCK, FIXED, HUP, IN, OUT, PAGE, READ, REMOTE, SELF, SYNC, WRITE, node_ids};
use crate::bench::{Side, equal, holds};
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

/// The patterns.
pub const USAGE: Section = Section {
    title: "Patterns of real clients",
    word: "usage",
    about: "Sequences of calls that the tools and services of the coprocessor rely on. Those of C \
        programs run as C programs (`tests/patterns`).",
    rows: &[
        Row::story(
            ["a server's loop", "–", "board tools"],
            "node query without room, bind of a fixed port, listen, poll, accept",
            |b| {
                b.ok(node_ids(Side::B, 0))?;
                let server = b.open(Side::B)?;
                b.gives(server.bind(130), 130)?;
                b.ok(server.listen(16))?;
                for _ in 0..3 {
                    b.gives(server.poll(IN), 0)?;
                    let client = b.open(Side::A)?;
                    let at = b.at(Side::B, 130);
                    let connect = b.begin(client.connect(at))?;
                    b.becomes(server.poll(IN), IN.into())?;
                    let session = b.new_endpoint(Side::B);
                    let peer = b.reply(server.accept(session, 0))?.extra;
                    let port = b.finish_ok(connect)?.result.unwrap_or(0);
                    equal("the peer", peer, alloc::vec![b.node(Side::A).into(), port])?;
                    b.ok(client.close())?;
                    b.ok(session.close())?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["a server that restarts at once", "–", "– / EINVAL"],
            "closes, opens, binds and listens again while old connections live",
            |b| {
                let port = 131;
                let mut live = alloc::vec::Vec::new();
                for _ in 0..4 {
                    let server = b.open(Side::B)?;
                    b.gives(server.bind(port), port.into())?;
                    b.ok(server.listen(4))?;
                    let client = b.open(Side::A)?;
                    let at = b.at(Side::B, port);
                    let connect = b.begin(client.connect(at))?;
                    let session = b.accept(server)?;
                    b.finish_ok(connect)?;
                    b.ok(server.close())?;
                    live.push((client, session));
                }
                for (client, session) in live {
                    b.gives(client.send(4, BLOCK), 4)?;
                    b.gives(session.recv(4, BLOCK), 4)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["header, then a body of its length", "–", "–"],
            "blocking receives of exact sizes, whatever the sends were",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(3, 0), 3)?;
                b.gives(active.send_from(3, 13, 0), 13)?;
                b.gives(active.send_from(16, 84, BLOCK), 84)?;
                b.gives(passive.recv(16, BLOCK), 16)?;
                let body = b.reply(passive.recv_from(16, 84, BLOCK))?;
                equal("the first wrong byte", body.extra, alloc::vec![-1])
            },
        ),
        Row::story(
            ["draining by non-blocking receives", "–", "–"],
            "until one gives 0",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(1000, BLOCK), 1000)?;
                b.gives(passive.recv(600, 0), 600)?;
                b.gives(passive.recv_from(600, 600, 0), 400)?;
                b.gives(passive.recv(600, 0), 0)
            },
        ),
        Row::story(
            ["sent and closed", "–", "–"],
            "the reader gets all, then ECONNRESET; poll says IN HUP, then HUP",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(4095, BLOCK), 4095)?;
                b.ok(active.close())?;
                b.becomes(passive.poll(IN), (IN | HUP).into())?;
                b.gives(passive.recv(4095, BLOCK), 4095)?;
                b.becomes(passive.poll(IN), HUP.into())?;
                b.fails(passive.recv(1, BLOCK), ConnectionReset)
            },
        ),
        Row::story(
            ["re-connecting after the peer has gone", "–", "–"],
            "takes a fresh endpoint: the old one is EINVAL",
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                b.fails(active.send(1, BLOCK), ConnectionReset)?;
                let (listener, at) = b.listener(Side::B, 1)?;
                b.fails(active.connect(at), InvalidArgument)?;
                let fresh = b.open(Side::A)?;
                let connect = b.begin(fresh.connect(at))?;
                b.accept(listener)?;
                b.finish_ok(connect).map(|_| ())
            },
        ),
        Row::story(
            ["a privileged source port, from 1023 down", "–", "–"],
            "EINVAL for those in use, the first free one succeeds",
            |b| {
                for port in [1023, 1022] {
                    let taken = b.open(Side::A)?;
                    b.gives(taken.bind(port), port.into())?;
                    b.ok(taken.listen(1))?;
                }
                let endpoint = b.open(Side::A)?;
                for port in [1023, 1022] {
                    b.fails(endpoint.bind(port), InvalidArgument)?;
                }
                b.gives(endpoint.bind(1021), 1021)
            },
        ),
        Row::story(
            ["retrying a refused connect on one endpoint", "–", "–"],
            "refused at once each time, until somebody listens",
            |b| {
                let server = b.open(Side::B)?;
                b.gives(server.bind(161), 161)?;
                let (client, _) = b.bound(Side::A)?;
                let at = b.at(Side::B, 161);
                for _ in 0..5 {
                    b.fails(client.connect(at), ConnectionRefused)?;
                }
                b.ok(server.listen(1))?;
                let connect = b.begin(client.connect(at))?;
                b.accept(server)?;
                b.finish_ok(connect).map(|_| ())
            },
        ),
        Row::story(
            ["a node that is not there", "–", "–"],
            "ENODEV at once, blocking and not",
            |b| {
                let (client, _) = b.bound(Side::A)?;
                b.fails(client.connect(PortId::new(77, 160)), NoDevice)?;
                b.ok(client.nonblocking())?;
                b.fails(client.connect(PortId::new(77, 160)), NoDevice)
            },
        ),
        Row::story(
            ["a card's boot notification", "–", "–"],
            "many clients at once: two words each, an answer, and both close",
            |b| {
                let server = b.open(Side::B)?;
                b.gives(server.bind(161), 161)?;
                b.ok(server.listen(120))?;
                let at = b.at(Side::B, 161);
                let mut clients = alloc::vec::Vec::new();
                for _ in 0..8 {
                    let client = b.open(Side::A)?;
                    b.ok(client.nonblocking())?;
                    b.in_progress(client.connect(at))?;
                    clients.push(client);
                }
                for client in clients {
                    let session = b.accept(server)?;
                    b.becomes(client.poll(OUT), OUT.into())?;
                    b.ok(client.connect(at))?;
                    b.gives(client.send(4, BLOCK), 4)?;
                    b.gives(client.send_from(4, 4, BLOCK), 4)?;
                    b.gives(session.recv(4, BLOCK), 4)?;
                    b.gives(session.recv_from(4, 4, BLOCK), 4)?;
                    b.gives(session.send(4, BLOCK), 4)?;
                    b.gives(client.recv(4, BLOCK), 4)?;
                    b.ok(client.close())?;
                    b.ok(session.close())?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["a server that calls back", "–", "–"],
            "connects to the client's node while the first connection lives",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(active.send(8, BLOCK), 8)?;
                b.gives(passive.recv(8, BLOCK), 8)?;
                let back = b.open(Side::B)?;
                let target = b.at(Side::A, 163);
                let refused = b.call(back.connect(target))?.result;
                equal("too early", refused, Err(ConnectionRefused.into()))?;
                let listener = b.open(Side::A)?;
                b.gives(listener.bind(163), 163)?;
                b.ok(listener.listen(1))?;
                let connect = b.begin(back.connect(target))?;
                let called = b.accept(listener)?;
                b.finish_ok(connect)?;
                b.gives(back.send(8, BLOCK), 8)?;
                b.gives(called.recv(8, BLOCK), 8)?;
                b.gives(passive.send(8, BLOCK), 8)?;
                b.gives(active.recv(8, BLOCK), 8)
            },
        ),
        Row::story(
            ["accepted and closed at once", "–", "–"],
            "the other end sees ECONNRESET, never a hang",
            |b| {
                let (active, passive) = b.pair()?;
                let recv = b.begin(active.recv(16, BLOCK))?;
                b.ok(passive.close())?;
                b.finish_fails(recv, ConnectionReset)
            },
        ),
        Row::story(
            ["heartbeat", "–", "–"],
            "poll gives 0 on silence, wakes on data and on the end",
            |b| {
                let (active, passive) = b.pair()?;
                b.gives(passive.poll_two(passive, IN, 10), 0)?;
                let poll = b.begin(passive.poll_two(passive, IN, -1))?;
                // The poll may not be asleep yet. The same endpoint is in two entries: what
                // arrives between the looks at them is reported by the second one only.
                b.waits(poll)?;
                b.gives(active.send(1, 0), 1)?;
                holds(
                    b.finish_ok(poll)?.extra.contains(&IN.into()),
                    "not woken by data",
                )?;
                b.gives(passive.recv(1, 0), 1)?;
                let poll = b.begin(passive.poll_two(passive, IN, -1))?;
                b.waits(poll)?;
                b.ok(active.close())?;
                holds(
                    b.finish_ok(poll)?.extra.contains(&HUP.into()),
                    "not woken by the end",
                )
            },
        ),
        Row::story(
            ["one thread sends, another receives", "–", "–"],
            "on one endpoint, both blocking",
            |b| {
                let (active, passive) = b.pair()?;
                let recv = b.begin(active.recv(20_000, BLOCK))?;
                let send = b.begin(active.send(20_000, BLOCK))?;
                let echo = b.begin(passive.recv(20_000, BLOCK))?;
                equal("echoed", b.finish(echo)?.result, Ok(20_000))?;
                b.gives(passive.send(20_000, BLOCK), 20_000)?;
                equal("sent", b.finish(send)?.result, Ok(20_000))?;
                let reply = b.finish_ok(recv)?;
                equal("the first wrong byte", reply.extra, alloc::vec![-1])
            },
        ),
        Row::story(
            [
                "bind of 1, 2, … until one succeeds, on one endpoint",
                "–",
                "a script",
            ],
            "EACCES for each below 1024 when not root; the endpoint stays unbound",
            |b| {
                let endpoint = b.open(Side::User)?;
                for port in [1, 2, 3, 1023] {
                    b.fails(endpoint.bind(port), scif_abi::Error::AccessDenied)?;
                }
                b.gives(endpoint.bind(1025), 1025)
            },
        ),
        Row::story(
            ["offsets equal to addresses", "–", "–"],
            "FIXED at large offsets, told by send, used by the peer at once",
            |b| {
                let (active, passive) = b.pair()?;
                let offset = 0x7f12_3456_7000;
                let memory = b.window(active, 4, offset, BOTH)?;
                b.ok(memory.fill(0, 4 * PAGE, 2))?;
                b.gives(active.send(8, BLOCK), 8)?;
                b.gives(passive.recv(8, BLOCK), 8)?;
                let local = b.window(passive, 4, 0, BOTH)?;
                b.gives(passive.read_from(0, 4 * PAGE, offset, 4), 0)?;
                b.holds_pattern(local, 0, 4 * PAGE, 2)
            },
        ),
        Row::story(
            ["a ring in mapped memory", "–", "–"],
            "words written by one side through its mapping are seen by the other, both ways",
            |b| {
                let (active, passive) = b.pair()?;
                let mine = b.window(active, 1, 0, BOTH)?;
                let theirs = b.window(passive, 1, 0, BOTH)?;
                let there = b.new_memory(Side::A);
                let back = b.new_memory(Side::B);
                b.ok(active.map(there, 0, PAGE, BOTH))?;
                b.ok(passive.map(back, 0, PAGE, BOTH))?;
                for turn in 1..20 {
                    b.ok(there.store(8, turn))?;
                    b.becomes(theirs.load(8), turn as i64)?;
                    b.ok(back.store(16, turn))?;
                    b.becomes(mine.load(16), turn as i64)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["a pipeline of buffers", "–", "–"],
            "write, signal behind it, and reuse of the buffer after the answer",
            |b| {
                let (active, passive) = b.pair()?;
                let source = b.window(active, 17, 0, BOTH)?;
                let target = b.window(passive, 17, 0, BOTH)?;
                let (flag, answer) = (16 * PAGE, 16 * PAGE + 8);
                for turn in 1..8 {
                    b.ok(source.fill(0, 16 * PAGE, turn))?;
                    b.gives(active.write_to(0, 16 * PAGE, 0, 0), 0)?;
                    b.gives(active.fence_signal((0, 0), (flag, turn), SELF | REMOTE), 0)?;
                    b.becomes(target.load(flag), turn as i64)?;
                    b.holds_pattern(target, 0, 16 * PAGE, turn)?;
                    b.gives(
                        passive.fence_signal((0, 0), (answer, turn), SELF | REMOTE),
                        0,
                    )?;
                    b.becomes(source.load(answer), turn as i64)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["a non-blocking connect from start to end, twice", "–", "–"],
            "EINPROGRESS, OUT, ECONNREFUSED; then EINPROGRESS, OUT, the port",
            |b| {
                let target = b.free_port(Side::B)?;
                let (client, own) = b.bound(Side::A)?;
                b.ok(client.nonblocking())?;
                b.in_progress(client.connect(target))?;
                b.becomes(client.poll(OUT), OUT.into())?;
                b.fails(client.connect(target), ConnectionRefused)?;
                let (server, at) = b.listener(Side::B, 1)?;
                b.in_progress(client.connect(at))?;
                b.fails(client.connect(at), InProgress)?;
                let session = b.new_endpoint(Side::B);
                b.ok(server.accept(session, SYNC))?;
                b.fails(server.accept(session, 0), WouldBlock)?;
                b.becomes(client.poll(OUT), OUT.into())?;
                b.gives(client.connect(at), own.port().into())
            },
        ),
        Row::story(
            ["a node is lost", "–", "–"],
            "every waiting call ends, transfers are ECONNRESET, the node is usable when it is \
                back",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(active, 4, 0, BOTH)?;
                b.window(passive, 4, 0, BOTH)?;
                let recv = b.begin(active.recv(10, BLOCK))?;
                let (_, at) = b.listener(Side::B, 1)?;
                let other = b.open(Side::A)?;
                let connect = b.begin(other.connect(at))?;
                b.lose_node()?;
                b.finish_fails(recv, ConnectionReset)?;
                b.finish_fails(connect, NoDevice)?;
                b.fails(active.send(1, BLOCK), ConnectionReset)?;
                let register = active.register(memory, 0, PAGE, 0x10_0000, BOTH, FIXED);
                b.fails(register, ConnectionReset)?;
                b.becomes(active.poll(IN | OUT), HUP.into())
            },
        )
        .only(crate::bench::Place::SIM)
        .because("between booted nodes the suite `late` cuts the power"),
    ],
};
