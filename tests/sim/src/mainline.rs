//! A node with the mainline driver beside one real engine: what that driver does with each
//! message, and what it does when none arrives. Its ids are addresses that it does not check, so a
//! message about an end that it has freed stops the test, as it would crash such a node.

use std::collections::BTreeMap;

use scif_abi::limits::PAGE_BYTES;
use scif_abi::message::NodeMessage as Say;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, QueuePair};
use scif_core::{CpuEngine, Event, Memory};
use zerocopy::{FromZeros, IntoBytes};

use crate::peer::RING_BYTES;
use crate::talk::Talk;

/// The number of the engine's node.
pub const US: u16 = 1;

/// The number of the mainline node, which is the host.
pub const THEM: u16 = 0;

/// Time in nanoseconds after which the mainline driver gives up a connect and frees the endpoint
/// (`SCIF_NODE_ALIVE_TIMEOUT`).
pub const CONNECT_NS: u64 = 30_000_000_000;

/// The mainline driver's first id. Its ids look like its kernel's addresses.
const IDS: u64 = 0xffff_8880_0000_1000;

/// Bytes in the block of one end: the structure and the ring.
const BLOCK_BYTES: usize = PAGE_BYTES + RING_BYTES as usize;

/// The state of one of the mainline driver's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request is not answered; the driver gives up at this time in nanoseconds.
    Connecting(u64),
    /// The connection is in use.
    Connected,
    /// The engine's side has closed.
    Disconnected,
    /// The mainline side has closed and waits for the answer.
    Closing,
}

/// One of the mainline driver's ends.
#[derive(Debug)]
struct End {
    stage: Stage,
    port: u16,
    to: u16,
    /// The local address of the structure.
    local: u64,
    /// The id of the engine's end and the bus address of its structure.
    other: (u64, u64),
    written: u32,
    read: u32,
}

/// The messages that went over the link since the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of doorbells that the engine rang.
    pub doorbells: u64,
    /// Number of CLIENT_SENT messages that the mainline driver received.
    pub sent: u64,
    /// Number of CLIENT_RCVD messages that the mainline driver received.
    pub received: u64,
}

/// The two nodes.
pub struct Mainline {
    /// The engine, the memory of both nodes, and the ring by which the mainline driver talks.
    pub talk: Talk,
    /// Whether the mainline driver runs. While it does not, its ring fills.
    pub runs: bool,
    /// The messages that went over the link.
    pub traffic: Traffic,
    now: u64,
    ends: BTreeMap<u64, End>,
    next: u64,
    /// Endpoints of the engine that have changed.
    pub changed: Vec<scif_core::EndpointId>,
}

impl Default for Mainline {
    fn default() -> Mainline {
        Mainline::new()
    }
}

impl Mainline {
    /// Makes both nodes with the link up.
    pub fn new() -> Mainline {
        let mut talk = Talk::online(US);
        talk.allow_peer_reads();
        Mainline {
            talk,
            runs: true,
            traffic: Traffic::default(),
            now: 0,
            ends: BTreeMap::new(),
            next: IDS,
            changed: Vec::new(),
        }
    }

    /// Makes the mainline program connect to a port of the engine's node. Returns the id of its
    /// end. The engine gets the request with the next [`turn`](Self::turn).
    pub fn connect(&mut self, to: u16) -> u64 {
        let (local, queue_pair) = self.talk.peer.make_queue_pair(|_| {}).unwrap();
        let id = self.next;
        self.next += 0x400;
        let port = 1089 + self.ends.len() as u16;
        let end = End {
            stage: Stage::Connecting(self.now + CONNECT_NS),
            port,
            to,
            local,
            other: (0, 0),
            written: 0,
            read: 0,
        };
        self.ends.insert(id, end);
        let request = Say::ConnectRequest {
            connector: id,
            queue_pair,
        };
        self.talk.peer.say(port, to, request);
        id
    }

    /// Returns the state of an end; `None` if it is freed.
    pub fn stage(&self, id: u64) -> Option<Stage> {
        self.ends.get(&id).map(|end| end.stage)
    }

    /// Lets time pass without any action.
    pub fn pass(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        let late = |end: &End| matches!(end.stage, Stage::Connecting(until) if until <= self.now);
        let given_up = self.ends.extract_if(.., |_, end| late(end));
        for (_, end) in given_up.collect::<Vec<_>>() {
            self.talk.peer.memory.free(end.local, BLOCK_BYTES);
        }
    }

    /// Lets both drivers do everything that is pending.
    ///
    /// # Panics When the engine accesses memory that is gone.
    pub fn turn(&mut self) {
        self.look();
        loop {
            let Talk { engine, memory, .. } = &mut self.talk;
            engine.pump(memory, &mut CpuEngine, 1 << 20);
            let events = self.talk.events();
            for event in &events {
                match event {
                    Event::Ring(_) => self.traffic.doorbells += 1,
                    Event::Changed(id) => self.changed.push(*id),
                    _ => {}
                }
            }
            let rang = events.contains(&Event::Ring(THEM));
            if !rang || !self.runs {
                break;
            }
            self.hear();
        }
        assert_eq!(self.talk.fabric.borrow().fault, None);
    }

    /// Passes the time to the engine, and a doorbell as if the mainline node had rung.
    fn look(&mut self) {
        let Talk { engine, memory, .. } = &mut self.talk;
        engine.tick(memory, self.now);
        engine.doorbell(memory, THEM);
    }

    /// Lets the mainline driver take its messages.
    pub fn hear(&mut self) {
        self.hear_some(usize::MAX);
    }

    /// Lets the mainline driver take at most `most` messages.
    pub fn hear_some(&mut self, most: usize) {
        for message in self.talk.peer.receive_some(most) {
            self.take(message.body().unwrap());
        }
        let Talk { engine, memory, .. } = &mut self.talk;
        engine.doorbell(memory, THEM);
    }

    /// Finds an end by its id, which is the address of the end.
    fn at(&mut self, id: u64, what: Say) -> &mut End {
        let end = self.ends.get_mut(&id);
        end.unwrap_or_else(|| panic!("{what:?} names memory that is freed"))
    }

    fn take(&mut self, what: Say) {
        match what {
            Say::ConnectGrant {
                connector,
                queue_pair,
                acceptor,
            } => {
                let end = self.at(connector, what);
                // It ignores a grant that it does not wait for.
                if matches!(end.stage, Stage::Connecting(_)) {
                    end.stage = Stage::Connected;
                    end.other = (acceptor, queue_pair);
                    let (from, to) = (end.port, end.to);
                    let answer = Say::ConnectGrantAck { acceptor };
                    self.talk.peer.say(from, to, answer);
                }
            }
            // No program of the mainline node listens.
            Say::ConnectRequest { connector, .. } => {
                let answer = Say::ConnectReject { connector };
                self.talk.peer.say(0, 0, answer);
            }
            Say::ConnectReject { connector } => {
                let local = self.at(connector, what).local;
                self.ends.remove(&connector);
                self.talk.peer.memory.free(local, BLOCK_BYTES);
            }
            Say::ClientSent { peer } => {
                self.at(peer, what);
                self.traffic.sent += 1;
            }
            Say::ClientReceived { peer } => {
                self.at(peer, what);
                self.traffic.received += 1;
            }
            Say::Disconnect { closer, peer, .. } => {
                // It looks for the end that the message names, and answers in any case.
                if let Some(end) = self.ends.get_mut(&peer) {
                    end.stage = Stage::Disconnected;
                }
                self.talk.peer.say(
                    0,
                    0,
                    Say::DisconnectAck {
                        closer,
                        peer,
                        stored: 0,
                    },
                );
            }
            Say::DisconnectAck { closer, .. } => {
                let end = self.at(closer, what);
                assert_eq!(end.stage, Stage::Closing);
                let local = end.local;
                self.ends.remove(&closer);
                self.talk.peer.memory.free(local, BLOCK_BYTES);
            }
            Say::Exit => self.talk.peer.say(0, 0, Say::ExitAck),
            Say::Init | Say::ExitAck => {}
            other => panic!("it does not expect {other:?}"),
        }
    }

    /// Takes the mainline machine away. Its memory may belong to another node afterwards.
    pub fn vanish(&mut self) {
        self.runs = false;
        self.ends.clear();
        self.talk.fabric.borrow_mut().restart(THEM.into());
    }

    /// Makes the mainline program close an end.
    pub fn close(&mut self, id: u64) {
        let end = self.ends.get_mut(&id).unwrap();
        end.stage = Stage::Closing;
        let (port, to, peer) = (end.port, end.to, end.other.0);
        let closer = id;
        self.talk.peer.say(
            port,
            to,
            Say::Disconnect {
                closer,
                peer,
                stored: 0,
            },
        );
    }

    /// Returns the number of bytes that the mainline program can read.
    pub fn readable(&self, id: u64) -> u32 {
        let end = &self.ends[&id];
        let written = self
            .talk
            .peer
            .memory
            .load_index(end.local + LOCAL_WRITE_OFFSET);
        written.wrapping_sub(end.read) & (RING_BYTES - 1)
    }

    /// Makes the mainline program read at most `most` bytes: it copies them out, stores the index,
    /// and only then has its driver send the message.
    pub fn read(&mut self, id: u64, most: u32) -> Vec<u8> {
        let bytes = self.take_bytes(id, most);
        if !bytes.is_empty() {
            self.tell_read(id);
        }
        bytes
    }

    /// The first half of [`read`](Self::read): stores the index, but does not send the message.
    pub fn take_bytes(&mut self, id: u64, most: u32) -> Vec<u8> {
        let count = self.readable(id).min(most);
        let end = self.ends.get_mut(&id).unwrap();
        let mut bytes = vec![0; count as usize];
        for byte in &mut bytes {
            let at = end.local + PAGE_BYTES as u64 + u64::from(end.read);
            self.talk.peer.memory.read(at, std::slice::from_mut(byte));
            end.read = (end.read + 1) % RING_BYTES;
        }
        let place = end.other.1 + LOCAL_READ_OFFSET;
        self.talk.peer.scribble(place, &end.read.to_le_bytes());
        bytes
    }

    /// The second half of [`read`](Self::read): sends the message.
    pub fn tell_read(&mut self, id: u64) {
        let end = &self.ends[&id];
        let (port, to, peer) = (end.port, end.to, end.other.0);
        self.talk.peer.say(port, to, Say::ClientReceived { peer });
    }

    /// Makes the mainline program write. Returns the number of bytes that found room.
    pub fn write(&mut self, id: u64, bytes: &[u8]) -> usize {
        let end = self.ends.get_mut(&id).unwrap();
        let mut structure = QueuePair::new_zeroed();
        let read = self
            .talk
            .peer
            .memory
            .peer_read(US, end.other.1, structure.as_mut_bytes());
        assert_eq!(read, Ok(()));
        let (ring, size) = (structure.local_buffer.get(), structure.inbound.size.get());
        let taken = self
            .talk
            .peer
            .memory
            .load_index(end.local + LOCAL_READ_OFFSET);
        let room = size - 1 - (end.written.wrapping_sub(taken) & (size - 1));
        let count = bytes.len().min(room as usize);
        for byte in &bytes[..count] {
            let at = ring + u64::from(end.written);
            self.talk.peer.scribble(at, std::slice::from_ref(byte));
            end.written = (end.written + 1) % size;
        }
        let place = end.other.1 + LOCAL_WRITE_OFFSET;
        self.talk.peer.scribble(place, &end.written.to_le_bytes());
        let (port, to, peer) = (end.port, end.to, end.other.0);
        self.talk.peer.say(port, to, Say::ClientSent { peer });
        count
    }
}
