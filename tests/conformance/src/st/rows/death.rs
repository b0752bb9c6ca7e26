//! Deaths of programs, nodes and drivers, and a peer that breaks the rules.

use alloc::format;
use alloc::vec::Vec;

use st_core::queue::{LINE, Layout};
use st_core::record::{Parameters, RECORD_BYTES, Record};

use super::six::stream;
use crate::errno::{ECONNRESET, ENODEV, EPROTO};
use crate::st::bench::{
    Bench, Checked, End, Ends, Memory, NodeFailure, Place, Side, Ticket, ensure, number::*,
};
use crate::st::call::Call;
use crate::st::{Row, row};

/// Both ends are on one node.
const ONE_NODE: (Place, &str) = (Place::Node, "B's node is A's own");

pub const DEATH: &[Row] = &[
    row(
        85,
        "B is killed while A is in push, pull, puts, or waits for memory",
        "each ends, and push, pull, fence and map after it; headers that arrived come first",
        killed,
    ),
    row(
        86,
        "B's node loses its power, is frozen until it is lost, the link is cut",
        "as 85, `ENODEV` or `ECONNRESET`",
        node_lost,
    )
    .except(&[ONE_NODE]),
    row(
        88,
        "B stores nonsense into A's queue window: kinds, sequence numbers, credits; and sends \
         records that are none",
        "`EPROTO`; other connections of both nodes go on",
        nonsense,
    ),
    row(
        89,
        "B fills one channel, and goes on pushing",
        "other channels and connections go on, both ways",
        flooded,
    ),
    row(
        90,
        "A is killed between put and header, at any moment",
        "B never sees the header; each header it sees has its data",
        between,
    ),
    row(
        87,
        "A's driver is killed in the middle of puts",
        "as 85 at both ends; connections work again afterwards",
        driver_killed,
    ),
];

const RANGE: u64 = 64 * 1024;

/// The call that A is in when its peer goes.
struct Scene {
    ends: Ends,
    /// A's own mapped memory.
    at_a: Memory,
    /// Calls that wait, or go on and on.
    calls: Vec<Ticket>,
    storm: Ticket,
}

/// Ten headers that B has pushed wait at A; A pulls, pushes and puts on other channels.
fn begin(bench: &mut Bench<'_>) -> Checked<Scene> {
    let ends = bench.ends_joined()?;
    let at_a = bench.map(ends.a, RANGE)?;
    let at_b = bench.map(ends.b, RANGE)?;
    let mut channels = Vec::new();
    for channel in 1..4 {
        channels.push(bench.attach(ends.a.socket, channel)?);
    }
    let local = bench.allocate(Side::A, RANGE)?;
    let (puller, pusher, waiter) = (channels[0], channels[1], channels[2]);
    for number in 0..64 {
        bench.push(pusher, number)?;
    }
    for number in 0..10 {
        bench.push(ends.b, number)?;
    }
    let mut calls = Vec::new();
    for call in [
        puller.pull(true, 0, 0, 0),
        pusher.push(Some(64), 0, 0, 0),
        waiter.push(None, local.at, at_b.at, 1),
    ] {
        let call = bench.begin(call)?;
        bench.waits(call)?;
        calls.push(call);
    }
    let call = Call::Storm {
        handle: ends.a.slot,
        local: local.at,
        remote: at_b.at,
        length: RANGE,
        header: 0,
    };
    let storm = bench.begin((Side::A, call))?;
    bench.grows(at_b)?;
    Ok(Scene {
        ends,
        at_a,
        calls,
        storm,
    })
}

/// Everything ends at A, which pulls as many headers at least before.
fn finish(bench: &mut Bench<'_>, scene: Scene, arrived: u64) -> Checked {
    let Scene {
        ends,
        at_a,
        calls,
        storm,
    } = scene;
    for call in calls {
        let reply = bench.take(call)?;
        ensure(
            is_lost(reply.result.err().map_or(0, |errno| errno.0)),
            || format!("a call that waited: {reply}"),
        )?;
    }
    let reply = bench.take(storm)?;
    ensure(is_lost(reply.word(0)? as i32), || format!("puts: {reply}"))?;
    let mut pulled = 0;
    let end = loop {
        let reply = bench.call(ends.a.pull(true, 0, 0, 0))?;
        match reply.result {
            Ok(0) if reply.word(0)? == pulled => pulled += 1,
            _ => break reply,
        }
    };
    ensure(is_lost(end.result.err().map_or(0, |errno| errno.0)), || {
        format!("after {pulled} headers: {end}")
    })?;
    ensure(pulled as u64 >= arrived, || format!("{pulled} headers"))?;
    bench.lost(ends.a.push(Some(1), 0, 0, 0))?;
    bench.lost(ends.a.fence())?;
    let other = bench.attach(ends.a.socket, 0).err();
    ensure(other.is_some(), || "channel 0 is attached twice".into())?;
    // The memory is the program's again, whatever the end says.
    let unmapped = bench.call(ends.a.unmap(at_a.at, 0))?;
    let is_over = match unmapped.result {
        Ok(0) => true,
        Ok(_) => false,
        Err(errno) => is_lost(errno.0),
    };
    ensure(is_over, || format!("unmap: {unmapped}"))?;
    bench.lost(ends.a.map(0, RANGE as i64))?;
    bench.ok(ends.a.detach())?;
    bench.ok(ends.a.socket.close())
}

const fn is_lost(errno: i32) -> bool {
    errno == ECONNRESET.0 || errno == ENODEV.0
}

fn killed(bench: &mut Bench<'_>) -> Checked {
    for _ in 0..3 {
        let scene = begin(bench)?;
        bench.driver().kill(Side::B)?;
        finish(bench, scene, 10)?;
    }
    Ok(())
}

/// The time without a heartbeat until a node is lost, in these rows.
const SILENCE_MS: u64 = 6000;

fn node_lost(bench: &mut Bench<'_>) -> Checked {
    if bench.place() == Place::Sim {
        // Steps are its time, and some headers may be on their way and are lost.
        return each_loss(bench, |_| Ok(()), 0);
    }
    let milliseconds = SILENCE_MS;
    let before = bench.word((Side::A, Call::Silence { milliseconds }))?;
    // Of a node that comes back too: it is to notice that it was lost.
    let shorten = |bench: &mut Bench<'_>| {
        let milliseconds = SILENCE_MS;
        bench
            .word((Side::B, Call::Silence { milliseconds }))
            .map(drop)
    };
    let result = each_loss(bench, shorten, 10);
    let milliseconds = before as u64;
    for side in [Side::A, Side::B] {
        bench.word((side, Call::Silence { milliseconds }))?;
    }
    result
}

/// `begin_with` comes first each time; A then pulls `arrived` headers at least.
fn each_loss(
    bench: &mut Bench<'_>,
    begin_with: impl Fn(&mut Bench<'_>) -> Checked,
    arrived: u64,
) -> Checked {
    for loss in [NodeFailure::Power, NodeFailure::Freeze, NodeFailure::Cut] {
        let named = |what| format!("{loss:?}: {what}");
        begin_with(bench)?;
        let scene = begin(bench).map_err(named)?;
        bench.driver().lose(loss)?;
        let found = finish(bench, scene, arrived);
        bench.driver().restore(loss)?;
        found.map_err(named)?;
        bench.clear()?;
        works(bench).map_err(named)?;
    }
    Ok(())
}

/// A new connection works.
fn works(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    stream(bench, ends.a, ends.b, 100)?;
    stream(bench, ends.b, ends.a, 100)?;
    bench.ok(ends.a.detach())?;
    bench.ok(ends.b.detach())
}

fn driver_killed(bench: &mut Bench<'_>) -> Checked {
    let scene = begin(bench)?;
    let pulling = bench.begin(scene.ends.b.pull(true, 0, 0, 0))?;
    bench.driver().kill_driver()?;
    let reply = bench.take(pulling)?;
    ensure(
        is_lost(reply.result.err().map_or(0, |errno| errno.0)),
        || format!("B's pull: {reply}"),
    )?;
    finish(bench, scene, 10)?;
    bench.clear()?;
    works(bench)
}

fn flooded(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let other_a = bench.attach(ends.a.socket, 1)?;
    let other_b = bench.attach(ends.b.socket, 1)?;
    let others = bench.ends_joined()?;
    let call = Call::Pushes {
        handle: ends.b.slot,
        first: 0,
        count: 1000,
    };
    let flood = bench.begin((Side::B, call))?;
    bench.waits(flood)?;
    for (a, b) in [(other_a, other_b), (others.a, others.b)] {
        stream(bench, a, b, 500)?;
        stream(bench, b, a, 500)?;
    }
    // The channel itself, the other way.
    stream(bench, ends.a, ends.b, 500)?;
    bench.waits(flood)?;
    let call = Call::Pulls {
        handle: ends.a.slot,
        first: 0,
        count: 1000,
    };
    let pulling = bench.begin((Side::A, call))?;
    for ticket in [pulling, flood] {
        let reply = bench.take(ticket)?;
        ensure(reply.result == Ok(1000), || format!("{reply}"))?;
    }
    Ok(())
}

fn between(bench: &mut Bench<'_>) -> Checked {
    for round in 0..5 {
        let ends = bench.ends_joined()?;
        let at_b = bench.map(ends.b, RANGE)?;
        let local = bench.allocate(Side::A, RANGE)?;
        let call = Call::Storm {
            handle: ends.a.slot,
            local: local.at,
            remote: at_b.at,
            length: RANGE,
            header: 1,
        };
        bench.begin((Side::A, call))?;
        let call = Call::Calm {
            handle: ends.b.slot,
            local: at_b.at,
        };
        let calm = bench.begin((Side::B, call))?;
        bench.grows(at_b)?;
        bench.driver().kill_later(Side::A, 20 + 13 * round)?;
        let reply = bench.take(calm)?;
        let is_right = is_lost(reply.word(0)? as i32) && reply.result != Ok(0);
        ensure(is_right, || format!("{reply}"))?;
    }
    Ok(())
}

// ---- A peer that breaks the rules ----

/// The call.
#[derive(Clone, Copy, Debug)]
enum Nonsense {
    /// A slot that is filled with a kind that is none.
    Kind,
    /// The first slot of a descriptor of two, and not the second.
    Half,
    /// More slots were taken than were filled.
    Credit,
    /// A record that is none.
    Record,
    /// Memory whose end lies beyond all addresses.
    Memory,
}

const ALL: [Nonsense; 5] = [
    Nonsense::Kind,
    Nonsense::Half,
    Nonsense::Credit,
    Nonsense::Record,
    Nonsense::Memory,
];

const CHANNELS: u32 = 4;
const SLOTS: u32 = 64;
/// Offsets in a queue window: how many slots of channel 0 were taken; its first slot; in a slot,
/// the kind and the sequence number.
const TAKEN: u64 = 0;
const FIRST_SLOT: u64 = (CHANNELS as u64) * (LINE as u64);
const KIND: u64 = 56;
const SEQUENCE: u64 = 60;

fn nonsense(bench: &mut Bench<'_>) -> Checked {
    let others = bench.ends_joined()?;
    for kind in ALL {
        let named = |what| format!("{kind:?}: {what}");
        let peer = Hostile::meet(bench).map_err(named)?;
        peer.spoil(bench, kind).map_err(named)?;
        let a = peer.a;
        let found = match kind {
            Nonsense::Credit => fill_up(bench, a),
            Nonsense::Half => {
                let call = Call::Receive {
                    handle: a.slot,
                    given: 1,
                    payload: 1,
                };
                bench.fails((Side::A, call), EPROTO)
            }
            _ => bench.fails(a.pull(true, 0, 0, 0), EPROTO),
        };
        found.map_err(named)?;
        bench.fails(a.pull(true, 0, 0, 0), EPROTO).map_err(named)?;
        bench
            .fails(a.push(Some(1), 0, 0, 0), EPROTO)
            .map_err(named)?;
        bench.ok(a.detach())?;
        bench.ok(a.socket.close())?;
        stream(bench, others.a, others.b, 100)?;
        stream(bench, others.b, others.a, 100)?;
    }
    Ok(())
}

/// Pushes until credits are looked at.
fn fill_up(bench: &mut Bench<'_>, end: End) -> Checked {
    for number in 0..u64::from(SLOTS) {
        let reply = bench.call(end.push(Some(number), 0, 0, 0))?;
        if reply.result == Err(EPROTO) {
            return Ok(());
        }
        ensure(reply.result == Ok(0), || format!("push {number}: {reply}"))?;
    }
    bench.fails(end.push(Some(64), 0, 0, 0), EPROTO)
}

/// A peer of A's that is made of SCIF's calls at B.
struct Hostile {
    a: End,
    /// Its connection's slot at B.
    socket: u64,
    /// Where A's queue window is mapped at B; 0 in the simulator.
    window: u64,
}

impl Hostile {
    fn meet(bench: &mut Bench<'_>) -> Checked<Hostile> {
        if bench.place() == Place::Sim {
            let ends = bench.ends_joined()?;
            return Ok(Hostile {
                a: ends.a,
                socket: ends.b.socket.slot,
                window: 0,
            });
        }
        let (listener, socket, port) = (bench.slot(), bench.slot(), bench.port());
        let here = |call| (Side::B, call);
        bench.ok(here(Call::Scif {
            socket: listener,
            port,
        }))?;
        let client = bench.socket_with(Side::A, &[(ST_BYPASS, 1)])?;
        let connecting = bench.begin(bench.connect(client, port))?;
        bench.ok(here(Call::ScifAccept {
            socket: listener,
            into: socket,
        }))?;
        let layout = Layout::new(CHANNELS, SLOTS).ok_or("no layout")?;
        let length = (layout.bytes() as u64).next_multiple_of(4096);
        let own = bench.reply(here(Call::ScifRegister { socket, length }))?;
        let request = bench.reply(here(Call::ScifRecv { socket }))?.extra;
        let bytes: Vec<u8> = request.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes: [u8; RECORD_BYTES] = bytes.try_into().map_err(|_| "a short record")?;
        let Ok(Record::Request(told)) = Record::decode(&bytes) else {
            return Err(format!("A begins with {request:?}"));
        };
        let answer = Record::Answer(Parameters {
            port: port as u16,
            key: 88,
            bypass: true,
            channels: CHANNELS,
            slots: SLOTS,
            window: own.result.unwrap_or(0),
        });
        bench.gives(here(record(socket, &answer.encode())), 72)?;
        bench.ends(connecting, Ok(0))?;
        let offset = told.window as u64;
        let window = bench.reply(here(Call::ScifMap {
            socket,
            offset,
            length,
        }))?;
        Ok(Hostile {
            a: bench.attach(client, 0)?,
            socket,
            window: window.result.unwrap_or(0) as u64,
        })
    }

    fn spoil(&self, bench: &mut Bench<'_>, kind: Nonsense) -> Checked {
        let Hostile { socket, window, .. } = *self;
        let sim = bench.place() == Place::Sim;
        let store = |bench: &mut Bench<'_>, at: u64, value: u64| {
            let call = match sim {
                true => Call::Scribble {
                    socket,
                    offset: at,
                    value,
                },
                false => Call::Store4 {
                    address: window + at,
                    value,
                },
            };
            bench.ok((Side::B, call))
        };
        match kind {
            Nonsense::Kind => {
                store(bench, FIRST_SLOT + KIND, 99)?;
                store(bench, FIRST_SLOT + SEQUENCE, 1)
            }
            Nonsense::Half => {
                // A header of level 0 with payload.
                store(bench, FIRST_SLOT + KIND, 3)?;
                store(bench, FIRST_SLOT + SEQUENCE, 1)
            }
            Nonsense::Credit => store(bench, TAKEN, 1000),
            Nonsense::Record => {
                let call = record(socket, &[0x5a; RECORD_BYTES]);
                bench.gives((Side::B, call), 72).map(drop)
            }
            Nonsense::Memory => {
                let region = st_core::region::Region {
                    base: u64::MAX - 100,
                    length: 4096,
                    offset: 1 << 40,
                    generation: 1,
                };
                let announce = Record::Announce { channel: 0, region };
                let call = record(socket, &announce.encode());
                bench.gives((Side::B, call), 72).map(drop)
            }
        }
    }
}

/// A call that sends a record.
fn record(socket: u64, bytes: &[u8; RECORD_BYTES]) -> Call {
    let word = |index: usize| {
        let from = bytes.get(8 * index..8 * index + 8);
        let word = from.and_then(|bytes| bytes.first_chunk());
        word.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    Call::ScifSend {
        socket,
        w0: word(0),
        w1: word(1),
        w2: word(2),
        w3: word(3),
        w4: word(4),
        w5: word(5),
        w6: word(6),
        w7: word(7),
        w8: word(8),
    }
}
