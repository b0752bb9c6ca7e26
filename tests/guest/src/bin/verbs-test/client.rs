//! The client: checks every operation against the server.

use guest_tests::{Suite, counter, text, uverbs};
use runtime::time::{Duration, Instant, sleep};
use scif::{Endpoint, NodeId, Options, PortId};
use verbs::{
    Access, Context, Data, Opcode, QpState, QpType, Remote, SendFlags, SendRequest, WcOpcode,
    WcStatus, WorkCompletion,
};

use super::end::{self, Checked, End, settings, wait};
use super::server::{hear, say};
use super::{Message, PORT, VICTIM_PORT, kind, sleeping};

/// A connection with the server and both queue pairs.
pub struct Peer {
    endpoint: Endpoint,
    own: End,
    /// The server's memory.
    remote: Remote,
}

pub fn same<T: PartialEq + core::fmt::Debug>(what: &str, found: T, expected: T) -> Checked {
    match found == expected {
        true => Ok(()),
        false => Err(alloc::format!("{what}: {found:?} instead of {expected:?}")),
    }
}

pub fn of(kind: u32, number: u64) -> Message {
    Message {
        kind,
        number,
        ..Message::default()
    }
}

pub fn part(kind: u32, at: usize, length: usize, seed: u32) -> Message {
    Message {
        kind,
        seed,
        at: at as u64,
        length: length as u64,
        number: 1,
    }
}

impl Peer {
    /// Connects and makes queue pairs of this type; `limit`: the server's receives are shared, with
    /// this limit.
    fn new(
        context: &Context,
        node: NodeId,
        kind: QpType,
        access: Access,
        limit: Option<u32>,
    ) -> Checked<Self> {
        Self::at(context, PortId::new(node, PORT), kind, access, limit)
    }

    fn at(
        context: &Context,
        to: PortId,
        kind: QpType,
        access: Access,
        limit: Option<u32>,
    ) -> Checked<Self> {
        let patient = Options::new().retry_for(Duration::from_secs(30));
        let endpoint = patient.connect(to).map_err(text("connect"))?;
        let own = End::new(context, kind, None)?;
        let message = Message {
            kind: kind::PAIR,
            seed: access.bits(),
            at: limit.map_or(0, |limit| u64::from(limit) + 1),
            length: 0,
            number: kind as u64,
        };
        say(&endpoint, message)?;
        let settings = settings(access);
        own.pair.init(&settings).map_err(text("init"))?;
        own.pair.meet(&endpoint, &settings).map_err(text("meet"))?;
        let answer = hear(&endpoint)?.ok_or("no answer")?;
        let remote = Remote {
            address: answer.at,
            key: answer.seed,
        };
        Ok(Self {
            endpoint,
            own,
            remote,
        })
    }

    fn rc(context: &Context, node: NodeId) -> Checked<Self> {
        Self::new(context, node, QpType::Rc, end::all(), None)
    }

    fn ask(&self, message: Message) -> Checked<Message> {
        say(&self.endpoint, message)?;
        hear(&self.endpoint)?.ok_or_else(|| "no answer".into())
    }

    fn place(&self, at: usize) -> Remote {
        Remote {
            address: self.remote.address + at as u64,
            ..self.remote
        }
    }

    /// The next completion of a send, with this status.
    fn done(&self, expected: WcStatus) -> Checked<WorkCompletion> {
        let found = wait(&self.own.sends, 1)?.remove(0);
        same("status", found.status, expected)?;
        Ok(found)
    }

    fn state(&self) -> Checked<QpState> {
        Ok(self.own.pair.query().map_err(text("query"))?.state)
    }
}

/// All checks; the exit status.
pub fn check(node: NodeId) -> i32 {
    let mut suite = Suite::new("verbs-test");
    let context = match end::open() {
        Ok(context) => context,
        Err(error) => {
            suite.check("open", Err(error));
            return suite.finish();
        }
    };
    type Check = fn(&Context, NodeId) -> Checked;
    let checks: [(&str, Check); 19] = [
        ("messages arrive whole and in order", messages),
        ("messages of any length", lengths),
        ("inline and immediate data", inline),
        ("a write shows in the peer's memory alone", writes),
        (
            "a write with immediate data completes a receive",
            writes_with,
        ),
        ("a read leaves the peer alone", reads),
        ("atomics lose nothing", atomics),
        ("a peer without a receive is waited for", receiver_not_ready),
        ("unreliable connections", unreliable),
        ("shared receives and their limit", shared),
        ("a key that is not there", bad_key),
        ("access that was not given", no_access),
        ("a message longer than its receive", too_long),
        ("memory taken back", taken_back),
        ("a channel wakes a sleeper", sleeping::sleeper),
        (
            "a long message while its end sleeps",
            sleeping::long_message,
        ),
        ("a completion queue that is overrun", sleeping::overrun),
        ("a queue pair that is destroyed", destroyed),
        ("no request to the driver", no_request),
    ];
    for (name, check) in checks {
        suite.check(name, check(&context, node));
    }
    suite.check("a peer that is killed", killed(&context, node));
    suite.check("nothing is left", nothing_left(&context));
    let last = Peer::rc(&context, node).and_then(|peer| say(&peer.endpoint, of(kind::QUIT, 0)));
    suite.check("the server goes on and ends", last);
    suite.finish()
}

fn messages(context: &Context, node: NodeId) -> Checked {
    const COUNT: usize = 100;
    const LENGTH: usize = 1000;
    let peer = Peer::rc(context, node)?;
    peer.ask(part_of(kind::RECEIVE, COUNT, 0, LENGTH))?;
    for number in 0..COUNT {
        peer.own.fill(number as u32, number * LENGTH, LENGTH)?;
        let segment = peer.own.segment(number * LENGTH, LENGTH)?;
        let sent = peer.own.pair.send(number as u64, &[segment]);
        sent.map_err(text("send"))?;
    }
    for (number, found) in wait(&peer.own.sends, COUNT)?.into_iter().enumerate() {
        same("status", found.status, WcStatus::Success)?;
        same("order", found.id, number as u64)?;
    }
    let answer = peer.ask(of(kind::EXPECT, COUNT as u64))?;
    same("received", answer.number, COUNT as u64)?;
    same("bytes", answer.length, (COUNT * LENGTH) as u64)?;
    for number in 0..COUNT {
        let right = peer.ask(part(kind::CHECK, number * LENGTH, LENGTH, number as u32))?;
        same("content", right.number, 1)?;
    }
    // The other way.
    peer.own.receive(COUNT as u64, 0, LENGTH)?;
    let answer = peer.ask(part_of(kind::SEND, COUNT, 0, LENGTH))?;
    same("sent", answer.number, COUNT as u64)?;
    let found = wait(&peer.own.receives, COUNT)?;
    let is_in_order = found.iter().map(|of| of.id).eq(0..COUNT as u64);
    same("order of receives", is_in_order, true)?;
    same("content", peer.own.is_right(0, 0, LENGTH)?, true)
}

pub fn part_of(kind: u32, count: usize, at: usize, length: usize) -> Message {
    Message {
        number: count as u64,
        ..part(kind, at, length, 0)
    }
}

fn lengths(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    for length in [
        0,
        1,
        63,
        64,
        1999,
        2000,
        2001,
        4096,
        65_537,
        1 << 20,
        3_000_001,
    ] {
        peer.ask(part_of(kind::RECEIVE, 1, 0, length))?;
        peer.own.fill(length as u32, 0, length)?;
        let segment = peer.own.segment(0, length)?;
        let sent = peer.own.pair.send(1, &[segment]);
        sent.map_err(text("send"))?;
        peer.done(WcStatus::Success)?;
        let answer = peer.ask(of(kind::EXPECT, 1))?;
        same("bytes", answer.length, length as u64)?;
        let right = peer.ask(part(kind::CHECK, 0, length, length as u32))?;
        same("content", right.number, 1)?;
    }
    Ok(())
}

fn inline(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    peer.ask(part_of(kind::RECEIVE, 1, 0, 64))?;
    let mut request = SendRequest::new(5, Opcode::SendWithImm, alloc::vec![]);
    request.data = Data::Inline(super::pattern(9, 64));
    request.flags |= SendFlags::INLINE;
    request.immediate = 0xdead_beef;
    peer.own.pair.post(request).map_err(text("post"))?;
    same("id", peer.done(WcStatus::Success)?.id, 5)?;
    let answer = peer.ask(of(kind::EXPECT, 1))?;
    same("immediate", answer.at, 0xdead_beef)?;
    let right = peer.ask(part(kind::CHECK, 0, 64, 9))?;
    same("content", right.number, 1)
}

fn writes(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    for (seed, length) in [(1, 8), (2, 4097), (3, 1 << 20), (4, 8), (5, 64)] {
        peer.own.fill(seed, 0, length)?;
        let segment = peer.own.segment(0, length)?;
        let written = peer.own.pair.write(7, &[segment], peer.place(4096 + 8));
        written.map_err(text("write"))?;
        let found = peer.done(WcStatus::Success)?;
        same("opcode", found.opcode, WcOpcode::RdmaWrite)?;
        let right = peer.ask(part(kind::CHECK, 4096 + 8, length, seed))?;
        same("content", right.number, 1)?;
    }
    Ok(())
}

fn writes_with(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    peer.ask(part_of(kind::RECEIVE, 1, 0, 0))?;
    peer.own.fill(11, 0, 300)?;
    let segment = peer.own.segment(0, 300)?;
    let written = peer
        .own
        .pair
        .write_with(7, &[segment], peer.place(0), 0x0102_0304);
    written.map_err(text("write"))?;
    peer.done(WcStatus::Success)?;
    let answer = peer.ask(of(kind::EXPECT, 1))?;
    same("immediate", answer.at, 0x0102_0304)?;
    same("bytes", answer.length, 300)?;
    let right = peer.ask(part(kind::CHECK, 0, 300, 11))?;
    same("content", right.number, 1)
}

fn reads(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    for (seed, length) in [(1, 8), (2, 4097), (3, 1 << 20), (4, 8)] {
        peer.ask(part(kind::FILL, 16, length, seed))?;
        // Two segments.
        let segments = [peer.own.segment(0, 3)?, peer.own.segment(3, length - 3)?];
        let read = peer.own.pair.read(7, &segments, peer.place(16));
        read.map_err(text("read"))?;
        let found = peer.done(WcStatus::Success)?;
        same("opcode", found.opcode, WcOpcode::RdmaRead)?;
        same("bytes", found.byte_len, length as u32)?;
        same("content", peer.own.is_right(seed, 0, length)?, true)?;
    }
    Ok(())
}

fn atomics(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    let (before, at) = (peer.own.segment(64, 8)?, peer.place(128));
    let start = peer.ask(part(kind::WORD, 128, 0, 0))?.number;
    for number in 0..100 {
        let added = peer.own.pair.fetch_and_add(number, before, at, 3);
        added.map_err(text("add"))?;
        peer.done(WcStatus::Success)?;
        let found: u64 = peer.own.region.read(64).map_err(text("look"))?;
        same("before", found, start.wrapping_add(3 * number))?;
    }
    let now = start.wrapping_add(300);
    for (compare, after) in [(now + 1, now), (now, 77)] {
        let swapped = peer.own.pair.compare_and_swap(1, before, at, (compare, 77));
        swapped.map_err(text("swap"))?;
        let found = peer.done(WcStatus::Success)?;
        same("opcode", found.opcode, WcOpcode::CompSwap)?;
        let found: u64 = peer.own.region.read(64).map_err(text("look"))?;
        same("before", found, now)?;
        same(
            "after",
            peer.ask(part(kind::WORD, 128, 0, 0))?.number,
            after,
        )?;
    }
    Ok(())
}

fn receiver_not_ready(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    let segment = peer.own.segment(0, 100)?;
    peer.own.pair.send(1, &[segment]).map_err(text("send"))?;
    let mut found = alloc::vec![];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        peer.own.sends.poll(1, &mut found).map_err(text("poll"))?;
    }
    same("completions", found.len(), 0)?;
    peer.ask(part_of(kind::RECEIVE, 1, 0, 100))?;
    peer.done(WcStatus::Success)?;
    same("received", peer.ask(of(kind::EXPECT, 1))?.number, 1)
}

fn unreliable(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::new(context, node, QpType::Uc, end::all(), None)?;
    peer.ask(part_of(kind::RECEIVE, 2, 0, 500))?;
    peer.own.fill(21, 0, 500)?;
    for number in 0..2 {
        let segment = peer.own.segment(0, 500)?;
        peer.own
            .pair
            .send(number, &[segment])
            .map_err(text("send"))?;
    }
    for _ in 0..2 {
        peer.done(WcStatus::Success)?;
    }
    same("received", peer.ask(of(kind::EXPECT, 2))?.number, 2)?;
    let right = peer.ask(part(kind::CHECK, 500, 500, 21))?;
    same("content", right.number, 1)?;
    // Without a receive it is lost, and succeeds.
    let segment = peer.own.segment(0, 500)?;
    peer.own.pair.send(3, &[segment]).map_err(text("send"))?;
    peer.done(WcStatus::Success)?;
    let read = peer.own.pair.read(4, &[segment], peer.place(0));
    same("read", read, Err(verbs::Error::Invalid))
}

fn shared(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::new(context, node, QpType::Rc, end::all(), Some(2))?;
    peer.ask(part_of(kind::RECEIVE, 4, 0, 100))?;
    for number in 0..4 {
        let segment = peer.own.segment(0, 100)?;
        peer.own
            .pair
            .send(number, &[segment])
            .map_err(text("send"))?;
    }
    for _ in 0..4 {
        peer.done(WcStatus::Success)?;
    }
    same("received", peer.ask(of(kind::EXPECT, 4))?.number, 4)?;
    let event = peer.ask(of(kind::EVENT, 0))?.number;
    same("event", event, verbs::EventType::SrqLimitReached as u64)?;
    // One that finds no receive comes when there is one.
    let segment = peer.own.segment(0, 100)?;
    peer.own.pair.send(9, &[segment]).map_err(text("send"))?;
    peer.ask(of(kind::SLEEP, 20))?;
    peer.ask(part_of(kind::RECEIVE, 1, 0, 100))?;
    same("id", peer.done(WcStatus::Success)?.id, 9)
}

fn bad_key(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    let segment = peer.own.segment(0, 8)?;
    let wrong = Remote {
        key: peer.remote.key ^ 1,
        ..peer.remote
    };
    peer.own
        .pair
        .write(1, &[segment], wrong)
        .map_err(text("write"))?;
    peer.own.pair.send(2, &[segment]).map_err(text("send"))?;
    peer.done(WcStatus::RemAccessErr)?;
    peer.done(WcStatus::WrFlushErr)?;
    same("own state", peer.state()?, QpState::Err)?;
    let event = peer.ask(of(kind::EVENT, 0))?.number;
    same("event", event, verbs::EventType::QpAccessErr as u64)?;
    let state = peer.ask(of(kind::STATE, 0))?.number;
    same("state", state, QpState::Err as u64)
}

fn no_access(context: &Context, node: NodeId) -> Checked {
    let access = Access::REMOTE_READ | Access::LOCAL_WRITE;
    let peer = Peer::new(context, node, QpType::Rc, access, None)?;
    let segment = peer.own.segment(0, 8)?;
    let read = peer.own.pair.read(1, &[segment], peer.place(0));
    read.map_err(text("read"))?;
    peer.done(WcStatus::Success)?;
    let written = peer.own.pair.write(2, &[segment], peer.place(0));
    written.map_err(text("write"))?;
    peer.done(WcStatus::RemAccessErr)?;
    let event = peer.ask(of(kind::EVENT, 0))?.number;
    same("event", event, verbs::EventType::QpAccessErr as u64)
}

fn too_long(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    peer.ask(part_of(kind::RECEIVE, 2, 0, 100))?;
    let segment = peer.own.segment(0, 101)?;
    peer.own.pair.send(1, &[segment]).map_err(text("send"))?;
    peer.done(WcStatus::RemInvReqErr)?;
    let answer = peer.ask(of(kind::EXPECT, 2))?;
    same("good", answer.number, 0)?;
    same("status", answer.seed, WcStatus::LocLenErr as u32)
}

fn taken_back(context: &Context, node: NodeId) -> Checked {
    let mut peer = Peer::rc(context, node)?;
    let segment = peer.own.segment(0, 8)?;
    for _ in 0..3 {
        let written = peer.own.pair.write(1, &[segment], peer.place(0));
        written.map_err(text("write"))?;
        peer.done(WcStatus::Success)?;
    }
    let answer = peer.ask(of(kind::RENEW, 0))?;
    let old = peer.remote;
    peer.remote = Remote {
        address: answer.at,
        key: answer.seed,
    };
    let written = peer.own.pair.write(2, &[segment], peer.place(0));
    written.map_err(text("write"))?;
    peer.done(WcStatus::Success)?;
    let written = peer.own.pair.write(3, &[segment], old);
    written.map_err(text("write"))?;
    peer.done(WcStatus::RemAccessErr)?;
    let event = peer.ask(of(kind::EVENT, 0))?.number;
    same("event", event, verbs::EventType::QpAccessErr as u64)
}

fn destroyed(context: &Context, node: NodeId) -> Checked {
    let peer = Peer::rc(context, node)?;
    peer.ask(part_of(kind::RECEIVE, 1, 0, 100))?;
    peer.own.receive(1, 0, 100)?;
    peer.ask(of(kind::DESTROY, 0))?;
    same("own state", peer.state()?, QpState::Rts)?;
    let segment = peer.own.segment(0, 8)?;
    peer.own.pair.send(1, &[segment]).map_err(text("send"))?;
    peer.done(WcStatus::RetryExcErr)?;
    let found = wait(&peer.own.receives, 1)?.remove(0);
    same("receive", found.status, WcStatus::WrFlushErr)?;
    same("own state", peer.state()?, QpState::Err)
}

/// Requests to the SCIF driver, and commands for the device, of all programs.
fn asked() -> Checked<u64> {
    let device =
        uverbs::counter("commands").map_err(|error| alloc::format!("commands: {error}"))?;
    Ok(counter("requests")? + device)
}

/// Writes and polls need no daemon while the program is awake: their number adds no request.
/// There are several rounds, as other programs ask now and then, and the library asks once a second
/// whether the driver lives.
fn no_request(context: &Context, node: NodeId) -> Checked {
    const ROUNDS: u64 = 50;
    const WRITES: u64 = 1000;
    // The progress thread takes the lane out of its event queue when the program begins to poll,
    // and in again when it has stopped, which takes two requests each.
    const SWITCHES: u64 = 4;
    let peer = Peer::rc(context, node)?;
    let segment = peer.own.segment(0, 64)?;
    let write = |number| -> Checked {
        let written = peer.own.pair.write(number, &[segment], peer.place(0));
        written.map_err(text("write"))?;
        peer.done(WcStatus::Success).map(drop)
    };
    // The key is asked for at its first use.
    write(0)?;
    // Requests of the look itself, and of a look and a round.
    let (mut of_a_look, mut of_a_round) = (u64::MAX, u64::MAX);
    for _ in 0..ROUNDS {
        let first = asked()?;
        let before = asked()?;
        for number in 1..=WRITES {
            write(number)?;
        }
        let after = asked()?;
        of_a_look = of_a_look.min(before - first);
        of_a_round = of_a_round.min(after - before);
        if of_a_round <= of_a_look + SWITCHES {
            return Ok(());
        }
    }
    Err(alloc::format!(
        "{of_a_round} requests for {WRITES} writes and a look, which alone makes {of_a_look}"
    ))
}

fn killed(context: &Context, node: NodeId) -> Checked {
    let to = PortId::new(node, VICTIM_PORT);
    let peer = Peer::at(context, to, QpType::Rc, end::all(), None)?;
    peer.own.receive(2, 0, 100)?;
    let segment = peer.own.segment(0, 8)?;
    let written = peer.own.pair.write(1, &[segment], peer.place(0));
    written.map_err(text("write"))?;
    peer.done(WcStatus::Success)?;
    // The peer has no receive for these.
    peer.own.pair.send(2, &[segment]).map_err(text("send"))?;
    peer.own.pair.send(3, &[segment]).map_err(text("send"))?;
    say(&peer.endpoint, of(kind::DIE, 0))?;
    same("oldest", peer.done(WcStatus::RetryExcErr)?.id, 2)?;
    same("next", peer.done(WcStatus::WrFlushErr)?.id, 3)?;
    for found in wait(&peer.own.receives, 2)? {
        same("receive", found.status, WcStatus::WrFlushErr)?;
    }
    same("own state", peer.state()?, QpState::Err)?;
    let event = context.next_event().map_err(text("event"))?;
    same("event", event.kind, verbs::EventType::QpFatal)
}

fn nothing_left(context: &Context) -> Checked {
    let counts = || context.raw().counts();
    let start = Instant::now();
    while counts() != verbs::context::Counts::default() {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(alloc::format!("{:?}", counts()));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}
