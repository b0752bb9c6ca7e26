//! The attacker: lanes by hand.

use alloc::vec::Vec;

use guest_tests::pattern::Random;
use guest_tests::{Suite, text};
use runtime::time::{Duration, Instant, sleep};
use scif::{Endpoint, Errno, Listener, NodeId, Options, PortId, RecvFlags, RmaFlags, SendFlags};
use verbs_core::record::{
    Ack, Address, Answer, Fault, HEADER_BYTES, Marks, Piece, Ready, Record, Refusal,
};
use verbs_core::types::Access;

use super::{CLAIMED, Checked, LOOK, Order, PAGE, PORT, PREPARE, QUIT, hear, relay, say};

/// How long the victim may take for anything.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Rounds of anything, and records of each.
const ROUNDS: u64 = 40;
const RECORDS: u64 = 60;
/// Lanes that no queue pair wants, of which the victim keeps some.
const GREETINGS: u32 = 300;
const MOST_KEPT: usize = 128;
/// The first port that the attacker claims for them.
const FIRST_CLAIMED: u32 = 100;
/// A port of the attacker that the victim connects to, in the same node.
const DROPPING: u16 = 60001;
/// Keys that are tried: all small ones.
const GUESSES: u32 = 3000;

/// An acknowledgement of messages that were perhaps never sent.
fn ack(number: u32) -> Ack {
    Ack {
        taken: number,
        limit: number,
    }
}

/// The attacker's word with the victim.
struct Attack {
    control: Endpoint,
    node: NodeId,
    random: Random,
}

/// A lane, and what is known of the other end.
struct Lane {
    endpoint: Endpoint,
    qpn: u32,
    /// The number that the attacker gives to its queue pair.
    source: u32,
    generation: u32,
}

pub fn attack(node: NodeId, seed: u64) -> i32 {
    let mut suite = Suite::new("verbs-hostile");
    let patient = Options::new().retry_for(TIME_LIMIT);
    let control = match patient.connect(PortId::new(node, PORT)) {
        Ok(control) => control,
        Err(error) => {
            suite.check("connect", Err(alloc::format!("{error}")));
            return suite.finish();
        }
    };
    let mut attack = Attack {
        control,
        node,
        random: Random::new(seed),
    };
    type Check = fn(&mut Attack) -> Checked;
    let mut checks: Vec<(&str, Check)> = alloc::vec![
        ("a lane that nobody wants reaches nothing", Attack::stranger),
        ("what is exposed is reached, and no more", Attack::connected),
        ("guessed keys", Attack::guesses),
        ("guessed numbers of queue pairs", Attack::numbers),
        ("beyond a window, and against its rights", Attack::outside),
        ("memory that is for writing is not read", Attack::write_only),
        ("forged records", Attack::forged),
        ("anything", Attack::anything),
        ("records that stop in the middle", Attack::halves),
        ("many that say nothing", Attack::silent),
        ("many lanes that nobody wants", Attack::greetings),
        ("the relay of groups", |attack| relay::attack(attack.node)),
    ];
    if scif::nodes().is_ok_and(|nodes| nodes.own == node) {
        checks.push(("lanes that end at once", Attack::drops));
    }
    checks.push(("questions whose answers nobody takes", Attack::deaf));
    for (name, check) in checks {
        let result = check(&mut attack).and_then(|()| attack.is_well());
        suite.check(name, result);
    }
    let quit = say(&attack.control, order(QUIT));
    suite.check("the victim goes on and ends", quit);
    suite.finish()
}

fn order(verb: u32) -> Order {
    Order {
        verb,
        ..Order::default()
    }
}

impl Attack {
    fn ask(&self, verb: u32) -> Checked<Order> {
        say(&self.control, order(verb))?;
        hear(&self.control)
    }

    /// The victim's memory is as it must be, and its own traffic goes on.
    fn is_well(&self) -> Checked {
        let first = self.ask(LOOK)?;
        let second = self.ask(LOOK)?;
        match (first.is_unharmed, second.rounds > first.rounds) {
            (1, true) => Ok(()),
            found => Err(alloc::format!("unharmed, goes on: {found:?}")),
        }
    }

    /// The victim has `more` windows than `then`, when only its own traffic had some.
    fn has_windows_more(&self, then: &Order, more: u64) -> Checked {
        let now = self.ask(LOOK)?.windows;
        match now == then.windows + more {
            true => Ok(()),
            false => Err(alloc::format!("{now} windows, before {}", then.windows)),
        }
    }

    /// A lane to the port of a queue pair, from a port of the attacker's choice.
    fn lane(&self, qpn: u32, from: u32) -> Checked<Lane> {
        let to = PortId::new(self.node, (qpn >> 8) as u16);
        let endpoint = Options::new().retry_for(TIME_LIMIT).connect(to);
        let endpoint = endpoint.map_err(text("connect"))?;
        let mut hello = b"VRBS".to_vec();
        for word in [2, from, qpn >> 8] {
            hello.extend(word.to_le_bytes());
        }
        let sent = endpoint.send(&hello, SendFlags::BLOCK);
        sent.map_err(text("hello"))?;
        Ok(Lane {
            endpoint,
            qpn,
            source: CLAIMED,
            generation: 0,
        })
    }

    /// The lane of a queue pair that waits for it, past the greetings.
    fn wanted_lane(&self) -> Checked<(Lane, Order)> {
        let victim = self.ask(PREPARE)?;
        let mut lane = self.lane(victim.qpn, CLAIMED >> 8)?;
        lane.send(&Record::Ready(lane.address(0), ready()), &[])?;
        lane.ready()?;
        Ok((lane, victim))
    }

    // ---- Checks ----

    fn stranger(&mut self) -> Checked {
        let victim = self.ask(PREPARE)?;
        // From a port that no queue pair of the victim is connected with.
        for from in [2, 3] {
            let lane = self.lane(victim.qpn, from)?;
            for key in victim.keys {
                lane.is_denied(key)?;
            }
        }
        self.has_windows_more(&victim, 0)
    }

    fn connected(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        let [all, readable, own, other] = victim.keys;
        let (window, length) = lane.grant(all)?.ok_or("what is for peers is denied")?;
        let written = lane.endpoint.vwrite_to(&[7; PAGE], window, RmaFlags::SYNC);
        written.map_err(text("a write to what was exposed"))?;
        if length != PAGE as u64 || lane.grant(readable)?.is_none() {
            return Err("what is for peers to read is denied".into());
        }
        for key in [own, other] {
            lane.is_denied(key)?;
        }
        self.has_windows_more(&victim, 2)
    }

    fn guesses(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        let [all, readable, ..] = victim.keys;
        let mut given = Vec::new();
        for key in 0..GUESSES {
            if lane.grant(key)?.is_some() {
                given.push(key);
            }
        }
        let mut expected = [all, readable, victim.writable];
        expected.sort_unstable();
        match given == expected {
            true => Ok(()),
            false => Err(alloc::format!("{given:x?}, not {expected:x?}")),
        }
    }

    fn numbers(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        for destination in (victim.qpn & !0xff..).take(256) {
            if destination == victim.qpn {
                continue;
            }
            let address = Address {
                destination,
                ..lane.address(0)
            };
            lane.send(&Record::Ready(address, ready()), &[])?;
            lane.send(&Record::Gone(address, 0), &[])?;
            lane.send(&Record::Error(address, Fault::Access), &[])?;
        }
        // The lane is there, and the queue pair that it is for.
        lane.grant(victim.keys[0])?.map(drop).ok_or("denied".into())
    }

    fn outside(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        let (all, _) = lane.grant(victim.keys[0])?.ok_or("denied")?;
        let (readable, _) = lane.grant(victim.keys[1])?.ok_or("denied")?;
        let page = PAGE as i64;
        let everywhere = [
            readable,
            all - page,
            all + page,
            readable - page,
            readable + page,
            0,
            i64::MAX & !(page - 1),
        ];
        for (offset, bytes) in everywhere
            .into_iter()
            .zip([PAGE; 7])
            .chain([(all, 2 * PAGE)])
        {
            // A neighbour may be the other one, which was exposed, too.
            let is_exposed = bytes == PAGE && offset == all;
            let data = alloc::vec![7; bytes];
            let written = lane.endpoint.vwrite_to(&data, offset, RmaFlags::SYNC);
            if written.is_ok() && !is_exposed {
                return Err(alloc::format!("a write to {offset:#x}"));
            }
        }
        Ok(())
    }

    fn write_only(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        let (window, _) = lane.grant(victim.writable)?.ok_or("denied")?;
        let written = lane.endpoint.vwrite_to(&[7; PAGE], window, RmaFlags::SYNC);
        written.map_err(text("a write to what is for writing"))?;
        let mut bytes = [0; PAGE];
        let read = lane.endpoint.vread_from(&mut bytes, window, RmaFlags::SYNC);
        match read {
            Err(scif::Error::Scif(Errno::AccessDenied)) if bytes == [0; PAGE] => Ok(()),
            other => Err(alloc::format!("a read of what is for writing: {other:?}")),
        }
    }

    fn forged(&mut self) -> Checked {
        let whole = Marks::FIRST | Marks::LAST;
        let piece = |number, total, payload| Piece {
            marks: whole,
            number,
            total,
            immediate: 0,
            srq: 0,
            ack: None,
            payload,
        };
        // A message of another number, one longer than it says, one longer than the receive; an
        // acknowledgement, alone and in a message, and a refusal of what was not sent.
        for case in 0..6 {
            let (lane, _) = self.wanted_lane()?;
            let address = lane.address(lane.generation);
            let bytes = [7; 2000];
            match case {
                0 => lane.send(&Record::Message(address, piece(99, 8, 8)), &bytes[..8])?,
                1 => lane.send(&Record::Message(address, piece(0, 8, 2000)), &bytes)?,
                2 => lane.send(&Record::Message(address, piece(0, 2000, 2000)), &bytes)?,
                3 => lane.send(&Record::Ack(address, ack(500)), &[])?,
                4 => {
                    let ack = Some(ack(500));
                    let piece = Piece {
                        ack,
                        ..piece(0, 8, 8)
                    };
                    lane.send(&Record::Message(address, piece), &bytes[..8])?;
                }
                _ => lane.send(&Record::Refused(address, 77, Refusal::TooLong), &[])?,
            }
            self.is_well()?;
        }
        Ok(())
    }

    fn anything(&mut self) -> Checked {
        for _ in 0..ROUNDS {
            let (lane, victim) = self.wanted_lane()?;
            for _ in 0..RECORDS {
                let mut header = self.record(&lane, &victim).encode();
                if self.random.up_to(10) == 1 {
                    let at = self.random.up_to(HEADER_BYTES as u64) as usize - 1;
                    if let Some(byte) = header.get_mut(at) {
                        *byte = self.random.up_to(256) as u8;
                    }
                }
                let bytes = [0x5a; 256];
                let count = self.random.up_to(256) as usize;
                let message = [&header[..], bytes.get(..count).unwrap_or_default()].concat();
                // The victim ends the lane as soon as it sees what cannot be.
                if lane.endpoint.send(&message, SendFlags::BLOCK).is_err() {
                    break;
                }
            }
            self.is_well()?;
        }
        Ok(())
    }

    fn record(&mut self, lane: &Lane, victim: &Order) -> Record {
        let mut number = |most: u64| self.random.up_to(most) as u32;
        let small = match number(3) {
            1 => number(8),
            2 => u32::MAX - number(4),
            _ => number(u64::from(u32::MAX)),
        };
        let address = Address {
            destination: if number(8) == 1 { small } else { lane.qpn },
            source: if number(8) == 1 { small } else { CLAIMED },
            generation: if number(4) == 1 {
                small
            } else {
                lane.generation
            },
        };
        let key = match number(2) {
            1 => small,
            which => victim.keys[which as usize],
        };
        match number(9) {
            1 => Record::Ready(address, ready()),
            2 => Record::Gone(address, small),
            3 => Record::Ack(address, ack(small)),
            4 => Record::Refused(address, small, Refusal::NotReady),
            5 => Record::Error(address, Fault::Request),
            6 => Record::Expose(key),
            7 => Record::Granted(key, Answer::Denied),
            8 => Record::Revoke(key),
            _ => Record::Message(
                address,
                Piece {
                    marks: Marks::from_bits_truncate(number(256) as u8),
                    number: small,
                    total: small,
                    immediate: small,
                    srq: small,
                    ack: (number(2) == 1).then(|| ack(small)),
                    payload: number(4000),
                },
            ),
        }
    }

    fn halves(&mut self) -> Checked {
        for count in [1, HEADER_BYTES - 1, HEADER_BYTES + 3] {
            let (lane, _) = self.wanted_lane()?;
            let piece = Piece {
                marks: Marks::FIRST,
                number: 0,
                total: 64,
                immediate: 0,
                srq: 0,
                ack: None,
                payload: 64,
            };
            let header = Record::Message(lane.address(lane.generation), piece).encode();
            let bytes = [&header[..], &[1; 64]].concat();
            let part = bytes.get(..count).unwrap_or_default();
            lane.endpoint
                .send(part, SendFlags::BLOCK)
                .map_err(text("send"))?;
            drop(lane);
            self.is_well()?;
        }
        Ok(())
    }

    fn silent(&mut self) -> Checked {
        let victim = self.ask(PREPARE)?;
        let to = PortId::new(self.node, (victim.qpn >> 8) as u16);
        let mut silent = Vec::new();
        for _ in 0..160 {
            let patient = Options::new().retry_for(TIME_LIMIT);
            silent.push(patient.connect(to).map_err(text("connect"))?);
        }
        // Peers that have sent something are read.
        let (lane, victim) = self.wanted_lane()?;
        lane.grant(victim.keys[0])?.map(drop).ok_or("denied".into())
    }
}

impl Attack {
    fn greetings(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        // Another one by the same name.
        let second = self.lane(victim.qpn, CLAIMED >> 8)?;
        wait_until("the second lane by a name stays", || second.has_ended())?;
        let mut idle = Vec::new();
        for number in 0..GREETINGS {
            // Half of them for datagrams.
            let from = match number % 2 {
                0 => 0,
                _ => FIRST_CLAIMED + number,
            };
            idle.push(self.lane(victim.qpn, from)?);
        }
        let surplus = GREETINGS as usize - MOST_KEPT;
        wait_until("lanes that nobody wants stay", || {
            idle.iter().filter(|lane| lane.has_ended()).count() == surplus
        })?;
        lane.grant(victim.keys[0])?.map(drop).ok_or("denied".into())
    }

    fn deaf(&mut self) -> Checked {
        let (lane, victim) = self.wanted_lane()?;
        let question = Record::Expose(victim.keys[0]).encode();
        let mut last = Instant::now();
        // Until the victim has taken nothing for a while.
        let (mut bytes, mut from) = (question, 0);
        while last.elapsed() < Duration::from_secs(1) {
            let rest = bytes.get(from..).unwrap_or_default();
            let sent = lane.endpoint.send(rest, SendFlags::empty());
            match sent.map_err(text("a question"))? {
                0 => sleep(Duration::from_millis(1)),
                count => {
                    (from, last) = (from + count, Instant::now());
                    if from == HEADER_BYTES {
                        (bytes, from) = (question, 0);
                    }
                }
            }
        }
        drop(lane);
        // The victim waits for the end of the lane.
        self.wanted_lane().map(drop)
    }

    fn drops(&mut self) -> Checked {
        let listener = Listener::bind(DROPPING).map_err(text("listen"))?;
        let claimed = u32::from(DROPPING) << 8;
        let prepare = Order {
            claimed,
            ..order(PREPARE)
        };
        say(&self.control, prepare)?;
        let qpn = hear(&self.control)?.qpn;
        // It comes again as long as no queue pair was ready.
        for _ in 0..3 {
            drop(greeted(&listener)?);
        }
        let mut lane = Lane {
            endpoint: greeted(&listener)?,
            qpn,
            source: claimed,
            generation: 0,
        };
        lane.send(&Record::Ready(lane.address(0), ready()), &[])?;
        lane.ready()
    }
}

/// The next connection of the victim, past its greeting.
fn greeted(listener: &Listener) -> Checked<Endpoint> {
    let mut accepted = None;
    wait_until("the victim does not connect", || {
        accepted = listener.try_accept().ok().flatten();
        accepted.is_some()
    })?;
    let (endpoint, _) = accepted.ok_or("no connection")?;
    let got = endpoint.recv(&mut [0; 16], RecvFlags::BLOCK);
    got.map_err(text("the greeting"))?;
    Ok(endpoint)
}

/// Waits until something has happened.
pub fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) -> Checked {
    let start = Instant::now();
    while !is_done() {
        if start.elapsed() > TIME_LIMIT {
            return Err(what.into());
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn ready() -> Ready {
    Ready {
        generation: 1,
        limit: 1000,
        is_shared: false,
        wants_answer: true,
        access: Access::REMOTE,
        rnr_timer: 1,
        reads: 16,
    }
}

impl Lane {
    fn address(&self, generation: u32) -> Address {
        Address {
            destination: self.qpn,
            source: self.source,
            generation,
        }
    }

    fn send(&self, record: &Record, payload: &[u8]) -> Checked {
        let bytes = [&record.encode()[..], payload].concat();
        let sent = self.endpoint.send(&bytes, SendFlags::BLOCK);
        sent.map(drop).map_err(text("a record"))
    }

    /// The next record of the victim.
    fn hear(&self) -> Checked<Record> {
        let mut header = [0; HEADER_BYTES];
        let mut count = 0;
        let start = Instant::now();
        while count < HEADER_BYTES {
            let rest = header.get_mut(count..).unwrap_or_default();
            let got = self.endpoint.recv(rest, RecvFlags::empty());
            count += got.map_err(text("the lane"))?;
            if start.elapsed() > TIME_LIMIT {
                return Err("the victim says nothing".into());
            }
            sleep(Duration::from_micros(200));
        }
        Record::decode(&header).map_err(|_| "a record that nobody knows".into())
    }

    /// Whether the victim has ended it.
    fn has_ended(&self) -> bool {
        self.endpoint.recv(&mut [0; 1], RecvFlags::empty()).is_err()
    }

    /// Waits until the victim's queue pair is ready.
    fn ready(&mut self) -> Checked {
        loop {
            if let Record::Ready(_, ready) = self.hear()? {
                self.generation = ready.generation;
                return Ok(());
            }
        }
    }

    /// Asks for a key: the window and its length.
    fn grant(&self, key: u32) -> Checked<Option<(i64, u64)>> {
        self.send(&Record::Expose(key), &[])?;
        loop {
            match self.hear()? {
                Record::Granted(of, answer) if of == key => {
                    return Ok(match answer {
                        Answer::Given(grant) => Some((grant.window as i64, grant.length)),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
    }

    fn is_denied(&self, key: u32) -> Checked {
        match self.grant(key)? {
            None => Ok(()),
            Some(_) => Err(alloc::format!("the key {key:#x} is given")),
        }
    }
}
