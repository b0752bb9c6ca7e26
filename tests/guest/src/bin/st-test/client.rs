//! The client: checks push and pull in every combination against the server.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use guest_tests::{Suite, counter, kernel_count, text};
use runtime::time::Duration;
use scif::NodeId;
use st::{
    Connection, Deadline, Error, Flags, Header, Local, Memory, Operation, PortId, Receiver,
    Refused, Remote, Sender, Target, Waiting, connect,
};

use super::server::cross;
use super::{
    BYTES, COUNTER, Message, PORT, accepts, byte, deaths, handover, kind, many, options, pattern,
    say, silence,
};

pub type Checked<T = ()> = Result<T, String>;

/// Both halves of channel 0, and the connection.
pub struct Peer {
    pub link: Connection,
    pub tx: Sender,
    pub rx: Receiver,
}

impl Peer {
    pub fn connect(node: NodeId, port: u16) -> Checked<Self> {
        let patient = options().retry_for(Duration::from_secs(30));
        let link = connect(PortId::new(node, port), &patient).map_err(text("connect"))?;
        let (tx, rx) = link.channel(0).map_err(text("channel"))?.split();
        Ok(Self { link, tx, rx })
    }

    /// Says something without waiting for an answer.
    pub fn say(&mut self, message: Message) -> Checked {
        say(&mut self.tx, message).map_err(text("push"))
    }

    /// Says something; the answer.
    pub fn ask(&mut self, message: Message) -> Checked<Message> {
        self.say(message)?;
        self.rx.pull().map_err(text("answer"))
    }

    /// Says something and wants this number in the answer.
    fn want(&mut self, message: Message, number: u64) -> Checked {
        match self.ask(message)?.number {
            found if found == number => Ok(()),
            found => Err(alloc::format!("{found} instead of {number}")),
        }
    }

    fn remote(&mut self) -> Checked<Remote> {
        self.tx.remote(Deadline::Never).map_err(text("remote"))
    }
}

pub fn of(kind: u32, number: u64) -> Message {
    Message {
        kind,
        number,
        ..Message::default()
    }
}

fn part(kind: u32, at: usize, length: usize, seed: u32) -> Message {
    Message {
        kind,
        seed,
        at: at as u64,
        length: length as u64,
        number: 0,
    }
}

pub fn ensure(condition: bool, what: &str) -> Checked {
    condition.then_some(()).ok_or_else(|| what.into())
}

pub fn same<T: PartialEq + core::fmt::Debug>(found: T, expected: T) -> Checked {
    match found == expected {
        true => Ok(()),
        false => Err(alloc::format!("found {found:?}, expected {expected:?}")),
    }
}

/// Lengths of transfers: around words, lines, pages and pieces.
const LENGTHS: [usize; 12] = [1, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 65_537, 300_001];

/// All checks; the exit status.
pub fn check(node: NodeId) -> i32 {
    let mut suite = Suite::new("st-test");
    let mut peer = match Peer::connect(node, PORT) {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("connect", Err(error));
            return suite.finish();
        }
    };
    type Check = fn(&mut Peer) -> Checked;
    let checks: [(&str, Check); 21] = [
        ("headers arrive unchanged and in order", headers),
        ("no request while both look", no_requests),
        ("no request while one sleeps shortly", short_sleeps),
        ("a put shows in the peer's memory alone", puts),
        ("a get leaves the peer alone", gets),
        ("a header comes behind its data", puts_with),
        ("data is got after a header", pull_gets),
        ("a full queue stops a push and no earlier", full),
        ("several headers by one call", many::several),
        ("both directions at once", both_ways),
        ("a sleeper is woken", sleeps),
        ("places outside are refused", outside),
        ("locked operations lose nothing", atomics),
        ("a fence orders channels", fences),
        ("channels are attached once and keep headers", attaching),
        ("memory is mapped once at a time", mapping),
        ("level 0 carries headers as they are", level0),
        ("level 0 moves data", level0_data),
        ("one wait for many channels", many::wait_set),
        ("one wait ends at its deadline", many::wait_set_in_time),
        ("unmapped under puts", storm),
    ];
    for (name, check) in checks {
        let result = check(&mut peer);
        suite.check(name, result);
    }
    suite.check("other options are refused", refusals(node));
    suite.check("the peer closes", closes(&mut peer));
    accepts::check(&mut suite, node);
    silence::check(&mut suite);
    handover::check(&mut suite);
    deaths::check(&mut suite, node);
    let last = Peer::connect(node, PORT).and_then(|mut peer| peer.say(of(kind::QUIT, 0)));
    suite.check("the server goes on and ends", last);
    suite.finish()
}

fn headers(peer: &mut Peer) -> Checked {
    const COUNT: u64 = 20_000;
    peer.say(of(kind::ECHO, COUNT))?;
    for number in 0..COUNT {
        let header = [number, !number, number << 32, 0x0123_4567_89ab_cdef];
        peer.tx.push(&header).map_err(text("push"))?;
        same(peer.rx.pull::<[u64; 4]>().map_err(text("pull"))?, header)?;
    }
    Ok(())
}

/// Between two nodes: the driver's requests grow by the liveness checks alone.
fn no_requests(peer: &mut Peer) -> Checked {
    const COUNT: u64 = 200_000;
    let here = scif::nodes().map_err(text("nodes"))?.own;
    if peer.link.endpoint().peer().map_err(text("peer"))?.node() == here {
        // One processor cannot look from both sides at once.
        return Ok(());
    }
    peer.tx.set_waiting(Waiting::Poll);
    peer.rx.set_waiting(Waiting::Poll);
    peer.say(of(kind::ECHO, COUNT))?;
    let clock = runtime::time::Instant::now();
    let before = counter("requests")?;
    for number in 0..COUNT {
        peer.tx.push(&[number; 4]).map_err(text("push"))?;
        same(peer.rx.pull::<[u64; 4]>().map_err(text("pull"))?[3], number)?;
    }
    let grown = counter("requests")? - before;
    let seconds = clock.elapsed().as_secs();
    peer.tx.set_waiting(Waiting::Adaptive);
    peer.rx.set_waiting(Waiting::Adaptive);
    // Reading the counter costs some, and either end asks about once a second.
    let allowed = 40 + 4 * seconds;
    runtime::println!("st-test: {grown} requests in {seconds} s for {COUNT} round trips");
    ensure(grown <= allowed, "requests to the driver")
}

/// Between two nodes: a thread that sleeps for each answer asks the driver for nothing, as the
/// kernel looks. On a busy machine some answers take longer than such a sleep; on a fast one most
/// are there before it. So there are many batches, until one is calm and one answer was slept for.
fn short_sleeps(peer: &mut Peer) -> Checked {
    const BATCHES: u64 = 4000;
    const BATCH: u64 = 100;
    let here = scif::nodes().map_err(text("nodes"))?.own;
    if peer.link.endpoint().peer().map_err(text("peer"))?.node() == here {
        return Ok(());
    }
    peer.rx.set_waiting(Waiting::Sleep);
    let before_all = kernel_count("idle_polls_seen")?;
    let (mut least, mut seen) = (u64::MAX, 0);
    for _ in 0..BATCHES {
        peer.say(of(kind::ECHO, BATCH))?;
        let before = counter("requests")?;
        for number in 0..BATCH {
            peer.tx.push(&[number; 4]).map_err(text("push"))?;
            same(peer.rx.pull::<[u64; 4]>().map_err(text("pull"))?[3], number)?;
        }
        least = least.min(counter("requests")? - before);
        seen = kernel_count("idle_polls_seen")? - before_all;
        // Reading the counter takes requests too.
        if least < 20 && seen > 0 {
            break;
        }
    }
    peer.rx.set_waiting(Waiting::Adaptive);
    runtime::println!("st-test: {least} requests, {seen} answers that the kernel saw");
    ensure(least < 20 && seen > 0, "requests to the driver")
}

fn puts(peer: &mut Peer) -> Checked {
    // The peer maps only now: the wait is for its first announcement.
    peer.say(of(kind::MAP, 0))?;
    let remote = peer.remote()?;
    peer.rx.pull::<Message>().map_err(text("mapped"))?;
    same(remote.bytes(), BYTES as u64)?;
    for (seed, length) in (1..).zip(LENGTHS) {
        let at = 8192 + 3 * seed as usize;
        let place = remote.at(at as u64).map_err(text("at"))?;
        let mut data = pattern(seed, length);
        peer.tx.put(&data, place).map_err(text("put"))?;
        // The data is the program's again.
        data.fill(0);
        peer.want(part(kind::CHECK, at, length, seed), 1)?;
    }
    // No header came of it, and nothing moves with no bytes.
    let place = remote.at(remote.bytes()).map_err(text("end"))?;
    peer.tx.put(&[], place).map_err(text("empty put"))?;
    same(peer.rx.try_pull::<Message>().map_err(text("try"))?, None)
}

fn gets(peer: &mut Peer) -> Checked {
    let remote = peer.remote()?;
    for (seed, length) in (100..).zip(LENGTHS) {
        let at = 5000 + seed as usize;
        peer.ask(part(kind::FILL, at, length, seed))?;
        let mut buffer = vec![0; length];
        let place = remote.at(at as u64).map_err(text("at"))?;
        peer.rx.get(&mut buffer, place).map_err(text("get"))?;
        ensure(buffer == pattern(seed, length), "wrong bytes")?;
        peer.want(part(kind::CHECK, at, length, seed), 1)?;
    }
    Ok(())
}

fn puts_with(peer: &mut Peer) -> Checked {
    const COUNT: u64 = 1500;
    let remote = peer.remote()?;
    peer.say(of(kind::CHECK_EACH, COUNT))?;
    let mut state = 1_u32;
    for seed in 0..COUNT as u32 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = 1 + (state >> 8) as usize % (1 << ((state >> 4) % 16 + 1));
        let at = 8192 + (state >> 16) as usize % 4099;
        let message = part(0, at, length, seed);
        let place = remote.at(at as u64).map_err(text("at"))?;
        let put = peer.tx.put_with(&pattern(seed, length), place, &message);
        put.map_err(text("put"))?;
        same(peer.rx.pull::<Message>().map_err(text("pull"))?, message)?;
    }
    let right: Message = peer.rx.pull().map_err(text("answer"))?;
    same(right.number, COUNT)
}

fn pull_gets(peer: &mut Peer) -> Checked {
    let remote = peer.remote()?;
    for (seed, length) in (500..).zip(LENGTHS) {
        // The answer is the header that says where the new content is.
        peer.say(part(kind::FILL, 70_000 + length, length, seed))?;
        let mut buffer = vec![0; length];
        let place = |message: &Message| remote.at(message.at);
        let header = peer.rx.pull_get(&mut buffer, place);
        same(header.map_err(text("pull"))?.seed, seed)?;
        ensure(buffer == pattern(seed, length), "wrong bytes")?;
    }
    Ok(())
}

fn full(peer: &mut Peer) -> Checked {
    const CHANNEL: u32 = 2;
    let slots = u64::from(peer.link.peer().slots);
    // As the server takes nothing, exactly a quarter more than agreed has room.
    let places = slots + slots / 4;
    let (mut tx, _rx) = peer.link.channel(CHANNEL).map_err(text("channel"))?.split();
    for number in 0..places {
        tx.try_push(&number).map_err(text("push"))?;
    }
    same(tx.try_push(&places), Err(Error::WouldBlock))?;
    let soon = Deadline::after_ms(30).map_err(text("clock"))?;
    same(tx.push_until(&places, soon), Err(Error::TimedOut))?;
    // The server takes them all, while this end waits for room.
    let count = 10 * slots;
    peer.say(Message {
        at: CHANNEL.into(),
        ..of(kind::DRAIN, count)
    })?;
    for number in places..count {
        tx.push(&number).map_err(text("push on"))?;
    }
    same(
        peer.rx.pull::<Message>().map_err(text("answer"))?.number,
        count,
    )
}

fn both_ways(peer: &mut Peer) -> Checked {
    const CHANNEL: u32 = 1;
    let slots = u64::from(peer.link.peer().slots);
    let (mut tx, mut rx) = peer.link.channel(CHANNEL).map_err(text("channel"))?.split();
    for _ in 0..200 {
        peer.say(Message {
            at: CHANNEL.into(),
            ..of(kind::CROSS, slots)
        })?;
        same(
            cross(&mut tx, &mut rx, slots).map_err(text("cross"))?,
            slots,
        )?;
        same(
            peer.rx.pull::<Message>().map_err(text("answer"))?.number,
            slots,
        )?;
    }
    Ok(())
}

fn sleeps(peer: &mut Peer) -> Checked {
    peer.rx.set_waiting(Waiting::Sleep);
    for round in 0..20 {
        peer.ask(of(kind::SLEEP, 5 * (round % 4)))?;
    }
    peer.say(of(kind::SLEEP, 300))?;
    let soon = Deadline::after_ms(20).map_err(text("clock"))?;
    let early = peer.rx.pull_until::<Message>(soon);
    same(early, Err(Error::TimedOut))?;
    same(peer.rx.try_pull::<Message>().map_err(text("try"))?, None)?;
    peer.rx.pull::<Message>().map_err(text("late"))?;
    peer.rx.set_waiting(Waiting::Adaptive);
    Ok(())
}

fn outside(peer: &mut Peer) -> Checked {
    let remote = peer.remote()?;
    let end = remote.bytes();
    let last = remote.at(end - 1).map_err(text("at"))?;
    same(remote.at(end + 1), Err(Error::Outside))?;
    same(remote.address(remote.base() - 1), Err(Error::Outside))?;
    same(remote.address(remote.base() + 5), remote.at(5))?;
    same(peer.tx.put(&[1, 2], last), Err(Error::Outside))?;
    same(peer.rx.get(&mut [0; 2], last), Err(Error::Outside))?;
    let header = of(0, 1);
    same(
        peer.tx.put_with(&[1, 2], last, &header),
        Err(Error::Outside),
    )?;
    peer.ask(part(kind::FILL, BYTES - 8, 8, 9))?;
    peer.want(part(kind::CHECK, BYTES - 8, 8, 9), 1)?;
    let all = remote.at(0).map_err(text("all"))?;
    peer.tx.put(&pattern(11, BYTES), all).map_err(text("all"))?;
    peer.want(part(kind::CHECK, 0, BYTES, 11), 1)?;
    same(peer.tx.put(&vec![0; BYTES + 1], all), Err(Error::Outside))
}

fn atomics(peer: &mut Peer) -> Checked {
    const COUNT: u64 = 20_000;
    let word = peer.remote()?.at(COUNTER as u64).map_err(text("at"))?;
    peer.tx.fetch_clear(word).map_err(text("clear"))?;
    peer.say(of(kind::ADD, COUNT))?;
    for _ in 0..COUNT {
        peer.tx.fetch_add(word, 3).map_err(text("add"))?;
        peer.tx.fetch_sub(word, 1).map_err(text("sub"))?;
    }
    peer.rx.pull::<Message>().map_err(text("answer"))?;
    same(peer.tx.fetch_clear(word), Ok(3 * COUNT))?;
    same(peer.tx.fetch_add(word, 0), Ok(0))?;
    let odd = peer.remote()?.at(COUNTER as u64 + 4).map_err(text("at"))?;
    same(peer.tx.fetch_add(odd, 1), Err(Error::Invalid))
}

fn fences(peer: &mut Peer) -> Checked {
    peer.tx.fence().map_err(text("nothing outstanding"))?;
    let remote = peer.remote()?;
    for seed in 0..200 {
        let place = remote.at(8192).map_err(text("at"))?;
        peer.tx
            .put(&pattern(seed, 5000), place)
            .map_err(text("put"))?;
        peer.tx.fence().map_err(text("fence"))?;
        peer.want(part(kind::CHECK, 8192, 5000, seed), 1)?;
    }
    Ok(())
}

fn attaching(peer: &mut Peer) -> Checked {
    same(peer.link.channel(0).err(), Some(Error::Busy))?;
    same(peer.link.channel(4).err(), Some(Error::Invalid))?;
    let (mut tx, mut rx) = peer.link.channel(1).map_err(text("channel"))?.split();
    peer.say(Message {
        at: 1,
        ..of(kind::CROSS, 10)
    })?;
    for number in 0..10_u64 {
        tx.push(&number).map_err(text("push"))?;
        if number == 4 {
            rx.pull::<u64>().map_err(text("first"))?;
        }
    }
    peer.rx.pull::<Message>().map_err(text("answer"))?;
    drop(tx);
    same(peer.link.channel(1).err(), Some(Error::Busy))?;
    drop(rx);
    // The nine that were not pulled are there.
    let (_tx, mut rx) = peer.link.channel(1).map_err(text("again"))?.split();
    for number in 1..10 {
        same(rx.pull::<u64>(), Ok(number))?;
    }
    same(rx.try_pull::<u64>(), Ok(None))
}

fn mapping(peer: &mut Peer) -> Checked {
    let first = peer.tx.map(Memory::new(8192).map_err(text("memory"))?);
    let first = first.map_err(text("map"))?;
    let second = peer.tx.map(Memory::new(4096).map_err(text("memory"))?);
    same(second.err(), Some(Error::Busy))?;
    let memory = first.unmap().map_err(text("unmap"))?;
    for _ in 0..300 {
        let small = Memory::new(4096).map_err(text("memory"))?;
        drop(peer.tx.map(small).map_err(text("again"))?);
    }
    drop(memory);
    // The peer's memory goes, and other memory comes: places of the first lead nowhere.
    let old = peer.remote()?;
    let place = old.at(0).map_err(text("at"))?;
    peer.ask(of(kind::UNMAP, 0))?;
    same(peer.tx.put(&[1], place), Err(Error::Gone))?;
    same(peer.rx.get(&mut [1], place), Err(Error::Gone))?;
    same(peer.tx.fetch_add(place, 1), Err(Error::Gone))?;
    same(peer.tx.remote(Deadline::Never), Err(Error::Gone))?;
    peer.ask(of(kind::MAP, 0))?;
    same(peer.tx.put(&[1], place), Err(Error::Gone))?;
    let new = peer.remote()?;
    same(new.generation(), old.generation() + 1)?;
    let place = new.at(100).map_err(text("at"))?;
    peer.tx.put(&pattern(3, 100), place).map_err(text("put"))?;
    peer.want(part(kind::CHECK, 100, 100, 3), 1)
}

fn level0(peer: &mut Peer) -> Checked {
    let (mut tx, mut rx) = peer.link.channel(3).map_err(text("channel"))?.split();
    let operations = [
        Operation::Nop,
        Operation::RequestToSend,
        Operation::ClearToSend,
        Operation::RequestState,
        Operation::End,
    ];
    peer.ask(Message {
        at: 3,
        ..of(kind::RAW, 2 * operations.len() as u64 + 1)
    })?;
    for operation in operations {
        let header = Header {
            parameter: 7,
            block_id: 8,
            ..Header::new(operation, Flags::LAST).with_length(0x1234_5678_9abc)
        };
        for payload in [None, Some([0xa5; 32])] {
            let sent = tx.raw(&header, payload.as_ref(), Local::Nothing, Deadline::Never);
            sent.map_err(text("tx"))?;
            let back = rx.raw(Deadline::Never).map_err(text("rx"))?;
            let expected = Header {
                destination_port: back.header.destination_port,
                source_port: back.header.source_port,
                destination_key: back.header.destination_key,
                ..header
            };
            same(
                (back.header, back.payload, back.length),
                (expected, payload, 0),
            )?;
            same(back.header.destination_key, peer.link.own().key)?;
        }
    }
    // A header of level 1 is a Nop there, and one of level 0 stays for level 0 here.
    tx.push(&[7_u64; 4]).map_err(text("push"))?;
    let soon = Deadline::after_ms(5000).map_err(text("clock"))?;
    same(rx.pull_until::<[u64; 4]>(soon), Err(Error::OtherLevel))?;
    let back = rx.raw(Deadline::Now).map_err(text("rx"))?;
    same(back.header.operation(), Some(Operation::Nop))?;
    let bytes: Vec<u8> = [7_u64; 4]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    ensure(
        back.payload.is_some_and(|found| found[..] == bytes),
        "payload",
    )?;
    let mut raw = |header: Header| tx.raw(&header, None, Local::Nothing, Deadline::Now);
    let connect = Header::new(Operation::RequestConnection, Flags::empty());
    same(raw(connect), Err(Error::NotAllowed))?;
    let wrong = Header {
        destination_key: 1,
        ..Header::new(Operation::Nop, Flags::empty())
    };
    same(raw(wrong), Err(Error::Invalid))
}

fn level0_data(peer: &mut Peer) -> Checked {
    let data = pattern(77, 5000);
    let header = |operation, flags| Header {
        buffer: 3,
        offset: 100,
        ..Header::new(operation, flags)
    };
    let put = header(Operation::Data, Flags::empty());
    let local = Local::From(data.as_slice().into());
    let sent = peer.tx.raw(&put, None, local, Deadline::Never);
    sent.map_err(text("data"))?;
    peer.want(part(kind::CHECK, 3 * 4096 + 100, 5000, 77), 1)?;
    let mut back = vec![0; 5000];
    let get = header(Operation::Get, Flags::empty());
    let local = Local::To(Target::Slice(&mut back));
    let got = peer.tx.raw(&get, None, local, Deadline::Never);
    got.map_err(text("get"))?;
    ensure(back == data, "wrong bytes")?;
    let add = Header {
        buffer: 1,
        ..Header::new(Operation::Get, Flags::FETCH_INCREMENT)
    };
    for value in 0..3_u64 {
        let mut former = [0xff; 8];
        let local = Local::To(Target::Slice(&mut former));
        let fetched = peer.tx.raw(&add, None, local, Deadline::Never);
        fetched.map_err(text("fetch"))?;
        same(u64::from_le_bytes(former), value)?;
    }
    let beyond = Header { buffer: 256, ..put };
    let local = Local::From(data.as_slice().into());
    let outside = peer.tx.raw(&beyond, None, local, Deadline::Never);
    same(outside, Err(Error::Outside))
}

fn storm(peer: &mut Peer) -> Checked {
    for round in 0..3 {
        let place = peer.remote()?.at(0).map_err(text("at"))?;
        peer.ask(of(kind::STORM, 30))?;
        let mut puts = 0_u64;
        let end = loop {
            let data = vec![byte(round, puts as usize) | 1; 100_000];
            match peer.tx.put(&data, place) {
                Ok(()) => puts += 1,
                Err(error) => break error,
            }
        };
        same(end, Error::Gone)?;
        let answer: Message = peer.rx.pull().map_err(text("answer"))?;
        ensure(answer.number == 1, "it changed afterwards, or never")?;
        peer.ask(of(kind::MAP, 0))?;
    }
    Ok(())
}

fn refusals(node: NodeId) -> Checked {
    let to = PortId::new(node, PORT);
    let bad = [
        (options().channels(65), Refused::OwnOptions),
        (options().slots(3), Refused::OwnOptions),
        (options().slots(63), Refused::OwnOptions),
    ];
    for (options, reason) in bad {
        let result = connect(to, &options).err();
        same(result, Some(Error::Refused(reason)))?;
    }
    let nobody = connect(PortId::new(node, 5399), &options()).err();
    same(nobody.map(Error::errno), Some(111))
}

fn closes(peer: &mut Peer) -> Checked {
    peer.say(of(kind::CLOSE, 0))?;
    same(peer.rx.pull::<Message>(), Err(Error::Ended))?;
    same(peer.tx.push(&0_u64), Err(Error::Ended))?;
    same(peer.tx.fence(), Err(Error::Ended))?;
    same(peer.tx.remote(Deadline::Now).map(drop), Err(Error::Ended))
}
