//! Long messages over a wire that loses, doubles and reorders datagrams, driven by a seed: every
//! message arrives once and whole, or its sender is told, and nothing is left.

use std::collections::VecDeque;

use mad_core::agents::{Owner, Registration};
use mad_core::mad::{GSI_QKEY, Mad, OPENIB_OUI, method};
use mad_core::packet::{Destination, Packet};
use mad_core::port::{Happened, Port, Request};
use mad_core::rmpp::{LINGER_NS, MESSAGE_TIMEOUT_NS};

const MS: u64 = 1_000_000;
const CLASS: u8 = 0x33;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Whether an event happens now that happens this often in a thousand times.
    fn happens(&mut self, in_thousand: u64) -> bool {
        self.next() % 1000 < in_thousand
    }
}

/// How bad the wire is: lost, doubled and reordered datagrams in a thousand.
#[derive(Clone, Copy)]
struct Wire {
    lost: u64,
    doubled: u64,
    reordered: u64,
}

struct World {
    ports: [Port; 2],
    agents: [mad_core::agents::AgentId; 2],
    wire: Wire,
    random: Random,
    now: u64,
    /// The datagrams on the wire, and their receivers.
    flying: VecDeque<(usize, Packet)>,
}

impl World {
    fn new(seed: u64, wire: Wire) -> World {
        let mut ports = [Port::new(1), Port::new(2)];
        let registration = Registration {
            qpn: 1,
            class: CLASS,
            class_version: 1,
            oui: OPENIB_OUI,
            methods: 1 << method::GET,
            rmpp_version: 1,
            user_rmpp: false,
        };
        let mut register = |at: usize| {
            ports[at]
                .register(Owner::User(at as u64), registration)
                .expect("nobody else has it")
        };
        let agents = [register(0), register(1)];
        World {
            ports,
            agents,
            wire,
            random: Random(seed * 2 + 1),
            now: 0,
            flying: VecDeque::new(),
        }
    }

    fn send(&mut self, from: usize, message: Vec<u8>, timeout_ms: u32) {
        let lid = 2 - from as u16;
        let request = Request {
            agent: self.agents[from],
            to: Destination {
                lid,
                qpn: 1,
                qkey: GSI_QKEY,
                ..Destination::default()
            },
            responder: lid,
            message,
            timeout_ms,
            retries: 30,
        };
        let sent = self.ports[from].send(request, self.now);
        assert_eq!(sent, Ok(()));
    }

    /// Carries datagrams and waits until an agent has an event, or nothing is on its way. Returns
    /// the events, each with the index of its port.
    fn step(&mut self) -> Vec<(usize, Happened)> {
        loop {
            let mut got = Vec::new();
            for (at, port) in self.ports.iter_mut().enumerate() {
                while let Some(delivery) = port.next_delivery() {
                    assert_eq!(delivery.agent, self.agents[at]);
                    got.push((at, delivery.what));
                }
            }
            if !got.is_empty() {
                return got;
            }
            self.launch();
            if let Some((to, packet)) = self.flying.pop_front() {
                self.ports[to].receive(&packet, self.now);
                continue;
            }
            let waits = self.ports.iter().filter(|port| port.sends() > 0);
            let Some(deadline) = waits.filter_map(Port::deadline).min() else {
                return got;
            };
            self.now = self.now.max(deadline);
            let now = self.now;
            self.ports.iter_mut().for_each(|port| port.progress(now));
        }
    }

    /// Puts what ports send on the wire.
    fn launch(&mut self) {
        for from in [0, 1] {
            while let Some(packet) = self.ports[from].next_packet() {
                if self.random.happens(self.wire.lost) {
                    continue;
                }
                let copies = 1 + usize::from(self.random.happens(self.wire.doubled));
                for _ in 0..copies {
                    let at = match self.random.happens(self.wire.reordered) {
                        true => self.random.next() as usize % (self.flying.len() + 1),
                        false => self.flying.len(),
                    };
                    self.flying.insert(at, (1 - from, packet));
                }
            }
        }
    }

    /// Goes on until nothing is on its way.
    fn run_until_idle(&mut self) -> Vec<(usize, Happened)> {
        let steps = std::iter::from_fn(|| Some(self.step()).filter(|got| !got.is_empty()));
        steps.flatten().collect()
    }

    /// Nothing is remembered any more.
    fn check_empty(&mut self) {
        self.now += MESSAGE_TIMEOUT_NS + LINGER_NS;
        for port in &mut self.ports {
            port.progress(self.now);
            assert_eq!(port.sends(), 0);
            let kept = port.incoming();
            assert_eq!((kept.open, kept.complete, kept.bytes), (0, 0, 0));
        }
    }
}

/// A message of this number of bytes of data.
fn message(method: u8, tid: u64, data: usize) -> Vec<u8> {
    let mut mad = Mad::padded(&[1, CLASS, 1, method]);
    mad.header.tid = tid.into();
    let mut bytes = mad.bytes()[..40].to_vec();
    bytes[26] = 1;
    bytes[37..40].copy_from_slice(&OPENIB_OUI);
    bytes.extend((0..data).map(|at| (at * 7 % 253) as u8));
    bytes
}

/// A request of `asked` bytes and an answer of `answered` bytes.
fn exchange(seed: u64, wire: Wire, asked: usize, answered: usize) {
    let mut world = World::new(seed, wire);
    let question = message(method::GET, 5, asked);
    world.send(0, question.clone(), 60_000);
    let (mut requests, mut answers) = (0, 0);
    loop {
        let got = world.step();
        if got.is_empty() {
            break;
        }
        for (at, what) in got {
            match (at, what) {
                (1, Happened::Received { message: got, .. }) => {
                    assert_eq!(got[40..], question[40..], "seed {seed}");
                    let tid = u64::from_be_bytes(got[8..16].try_into().expect("eight bytes"));
                    requests += 1;
                    // The request's last acknowledgement may still be on its way.
                    let answer = message(method::GET_RESPONSE, tid, answered);
                    world.send(1, answer, 0);
                }
                (0, Happened::Received { message: got, .. }) => {
                    let answer = message(method::GET_RESPONSE, 0, answered);
                    assert_eq!(got[40..], answer[40..], "seed {seed}");
                    answers += 1;
                }
                other => panic!("seed {seed}, {asked} and {answered} bytes: {other:?}"),
            }
        }
    }
    let both = (requests, answers);
    assert_eq!(both, (1, 1), "seed {seed}, {asked} and {answered} bytes");
    world.check_empty();
}

const GOOD: Wire = Wire {
    lost: 0,
    doubled: 0,
    reordered: 0,
};
const BAD: Wire = Wire {
    lost: 50,
    doubled: 30,
    reordered: 100,
};

/// Around the edges of a segment (216 bytes), of a window (65 segments), and up to 1 MiB.
const LENGTHS: [usize; 14] = [
    1,
    2,
    215,
    216,
    217,
    431,
    432,
    433,
    65 * 216,
    65 * 216 + 1,
    129 * 216,
    70_000,
    200_001,
    1 << 20,
];

#[test]
fn messages_of_any_length_arrive_both_ways() {
    for length in LENGTHS {
        exchange(1, GOOD, length, length);
        exchange(2, GOOD, length, 1);
        exchange(3, GOOD, 1, length);
    }
}

#[test]
fn messages_arrive_over_a_bad_wire() {
    for seed in 1..=12 {
        for length in LENGTHS {
            if length < 1 << 20 || seed == 1 {
                exchange(seed, BAD, length, length);
            }
        }
    }
}

#[test]
fn a_wire_that_loses_everything_is_told_to_the_sender() {
    for length in [1, 217, 70_000] {
        let wire = Wire { lost: 1000, ..GOOD };
        let mut world = World::new(1, wire);
        world.send(0, message(method::GET, 5, length), 100);
        let got = world.run_until_idle();
        assert!(matches!(got[..], [(0, Happened::TimedOut { .. })]));
        assert_eq!(world.now, 31 * 100 * MS);
        world.check_empty();
    }
}

#[test]
fn what_does_not_come_to_its_end_leaves_nothing() {
    for seed in 1..=50 {
        let wire = Wire { lost: 700, ..BAD };
        let mut world = World::new(seed, wire);
        let asked = message(method::GET, 5, 3000);
        world.send(0, asked.clone(), 100);
        for (at, what) in world.run_until_idle() {
            match what {
                Happened::Received { message, .. } => {
                    assert_eq!((at, &message[40..]), (1, &asked[40..]), "seed {seed}");
                }
                Happened::TimedOut { .. } => assert_eq!(at, 0, "seed {seed}"),
            }
        }
        world.check_empty();
    }
}
