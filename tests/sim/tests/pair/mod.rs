//! A connection with a scripted peer that behaves as the mainline driver does, and windows of both
//! of its ends.

use std::task::Poll;

use scif_abi::message::{Message, NodeMessage as Say};
use scif_abi::qp::QP_MAGIC;
use scif_abi::window::{TABLE_ENTRIES, WINDOW_BYTES, WindowFill, WindowRecord};
use scif_abi::{Error, PortId};
use scif_core::{ConnectMode, CpuEngine, EndpointId, Memory, Owner, Pages, PinId, Run, Ticket};
use sim::memory::Fabric;
use sim::rng::Rng;
use sim::talk::Talk;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

pub const US: u16 = 1;
pub const PEER: u16 = 0;
pub const PAGE: u64 = 4096;

/// The peer's id of its end: a pointer, as mainline ids are.
pub const THEIRS: u64 = 0xffff_8801_2345_6780;

/// A connection that we have made.
pub struct Pair {
    pub talk: Talk,
    pub endpoint: EndpointId,
    /// Our id of our end.
    pub ours: u64,
}

/// Returns the offset of table `index` of a lent structure. The tables of addresses come first, in
/// no order.
fn table_offset(tables: usize, index: usize) -> u64 {
    let order = index / tables * tables + (tables - 1 - index % tables);
    (1 + order as u64) * PAGE
}

impl Pair {
    /// Makes a connection, with this number of bytes of memory in each node.
    pub fn new(bytes: usize) -> Pair {
        let mut talk = Talk::on(Fabric::with_bytes(2, bytes), US).greet();
        talk.allow_peer_reads();
        let endpoint = talk.engine.open(Owner::default()).unwrap();
        let to = PortId::new(PEER, 201);
        talk.engine
            .connect(&mut talk.memory, endpoint, to, ConnectMode::Blocking)
            .unwrap();
        let heard = talk.heard();
        let [
            Say::ConnectRequest {
                connector: ours, ..
            },
        ] = heard[..]
        else {
            panic!("heard {heard:?}");
        };
        let (_, queue_pair) = talk.peer.make_queue_pair(|_| {}).unwrap();
        let grant = Say::ConnectGrant {
            connector: ours,
            queue_pair,
            acceptor: THEIRS,
        };
        talk.tell(201, 1088, grant);
        assert_eq!(talk.engine.connect_result(endpoint), Poll::Ready(Ok(1088)));
        assert_eq!(talk.heard(), [Say::ConnectGrantAck { acceptor: THEIRS }]);
        Pair {
            talk,
            endpoint,
            ours,
        }
    }

    /// Sends a message of the peer as the mainline driver does: without ports, and with what was
    /// on its stack in the unused words.
    pub fn tell(&mut self, body: Say) {
        let mut message = Message::new(PortId::new(0, 0), PortId::new(0, 0), body);
        let undefined = match body {
            // The words are 0 in fact, but no node may rely on that.
            Say::AllocRequest { .. } => &[0, 3][..],
            Say::Unregister { .. } => &[2, 3],
            Say::Munmap { .. } => &[1, 2, 3],
            Say::Mark { .. } | Say::WaitAck { .. } => &[2, 3],
            _ => &[],
        };
        for word in undefined {
            message.payload[*word] = 0x5a5a_5a5a_5a5a_5a5a.into();
        }
        self.talk.peer.send(&message);
        self.talk.engine.doorbell(&mut self.talk.memory, PEER);
    }

    /// Lets copies be made and notifications be sent. Returns the messages that the peer receives.
    pub fn heard(&mut self) -> Vec<Say> {
        let Talk { engine, memory, .. } = &mut self.talk;
        engine.pump(memory, &mut CpuEngine, 1 << 20);
        self.talk.heard()
    }

    pub fn finish(&mut self, ticket: Ticket) -> Option<Result<u64, Error>> {
        self.talk.engine.finish(ticket)
    }

    /// Pins memory of a node for windows. Returns the address of each page.
    pub fn pin(&mut self, node: u16, pages: usize) -> Vec<u64> {
        let mut fabric = self.talk.fabric.borrow_mut();
        let pinned = fabric.pin(node.into(), pages, &mut Rng::new(pages as u64));
        pinned.unwrap()
    }

    /// Makes the peer register the pages at these addresses of its memory, each as its own chunk.
    pub fn register_theirs(&mut self, pages: &[u64], offset: i64, owner_window: u64) -> u64 {
        let before = self.talk.engine.stats().pages;
        self.tell(Say::AllocRequest {
            peer: 0,
            pages: pages.len() as u64,
            waiter: owner_window + 8,
        });
        let heard = self.heard();
        let [
            Say::AllocGrant {
                user_window,
                address,
                waiter,
            },
        ] = heard[..]
        else {
            panic!("heard {heard:?}");
        };
        assert_eq!(waiter, owner_window + 8);
        let peer = &mut self.talk.peer;
        let mut record = WindowRecord::new_zeroed();
        let read = peer.memory.peer_read(US, address, record.as_mut_bytes());
        assert_eq!(read, Ok(()));
        assert_eq!(record.magic.get(), QP_MAGIC);
        assert_eq!(record.pages.get(), pages.len() as i64);
        let tables = pages.len().div_ceil(TABLE_ENTRIES) as u32;
        assert_eq!(record.own.get(), address);
        assert_eq!(record.lookup_entries.get(), tables);
        for (at, page) in pages.iter().enumerate() {
            let (table, entry) = (at / TABLE_ENTRIES, at % TABLE_ENTRIES);
            let words = [peer.memory.export(US, *page), 1];
            for (lookup, word) in [record.addresses, record.counts].iter().zip(words) {
                let mut address = [0; 8];
                let place = lookup.address.get() + 8 * table as u64;
                let read = peer.memory.peer_read(US, place, &mut address);
                assert_eq!(read, Ok(()));
                let place = u64::from_le_bytes(address) + 8 * entry as u64;
                peer.scribble(place, &word.to_le_bytes());
            }
        }
        let fill = WindowFill {
            chunks: pages.len() as u32,
            protection: 3,
            offset,
            endpoint: self.ours,
            owner_window,
        };
        for (at, bytes) in fill.stores() {
            peer.scribble(address + at, &bytes);
        }
        let (peer, ours) = (self.ours, user_window);
        let register = Say::Register {
            peer,
            user_window,
            owner_window,
        };
        self.tell(register);
        let answer = Say::RegisterAck {
            peer,
            user_window: ours,
            owner_window,
        };
        assert_eq!(self.heard(), [answer]);
        assert_eq!(self.talk.engine.stats().pages, before, "the loan is over");
        user_window
    }

    /// Registers memory of ours, which the peer acknowledges. Returns the peer's and our id of the
    /// window.
    pub fn register_ours(&mut self, pages: &[u64], pin: u64, offset: i64) -> (u64, u64) {
        let run = |page: &u64| Run {
            address: *page,
            pages: 1,
        };
        let given = Pages {
            pin: PinId(pin),
            runs: pages.iter().map(run).collect(),
            is_charged: true,
        };
        let Talk { engine, memory, .. } = &mut self.talk;
        let ticket = engine
            .register(memory, self.endpoint, given, offset, 3, 0x10)
            .unwrap();
        let heard = self.heard();
        let [
            Say::AllocRequest {
                peer,
                pages: count,
                waiter,
            },
        ] = heard[..]
        else {
            panic!("heard {heard:?}");
        };
        assert_eq!((peer, count), (THEIRS, pages.len() as u64));

        let (local, address) = self.lend(pages.len());
        let before = self.structure(local);
        let user_window = 0xffff_8802_0000_0000 + pin;
        self.tell(Say::AllocGrant {
            user_window,
            address,
            waiter,
        });
        let heard = self.heard();
        let [
            Say::Register {
                peer: THEIRS,
                user_window: echoed,
                owner_window,
            },
        ] = heard[..]
        else {
            panic!("heard {heard:?}");
        };
        assert_eq!(echoed, user_window);
        self.check_filled(local, &before, pages, offset, owner_window);
        assert_eq!(self.finish(ticket), None);
        self.tell(Say::RegisterAck {
            peer: THEIRS,
            user_window,
            owner_window,
        });
        assert_eq!(self.finish(ticket), Some(Ok(offset as u64)));
        (user_window, owner_window)
    }

    /// Makes a structure as the mainline driver lends it, with pointers in its private fields.
    pub fn lend(&mut self, pages: usize) -> (u64, u64) {
        let tables = pages.div_ceil(TABLE_ENTRIES);
        let memory = &mut self.talk.peer.memory;
        let local = memory.allocate((1 + 2 * tables) * PAGE as usize).unwrap();
        let address = memory.export(US, local);
        let mut bytes = [0xee; WINDOW_BYTES];
        let lookups = [512, 512 + 8 * tables as u64].map(|at| address + at);
        let record = WindowRecord::granted(pages as u32, address, lookups[0], lookups[1]);
        let public = [(0, 8), (20, 8), (114, 8), (130, 8), (138, 4), (146, 8)];
        for (at, length) in public {
            bytes[at..at + length].copy_from_slice(&record.as_bytes()[at..at + length]);
        }
        memory.write(local, &bytes);
        for index in 0..2 * tables {
            let table = address + table_offset(tables, index);
            memory.write(local + 512 + 8 * index as u64, &table.to_le_bytes());
        }
        (local, address)
    }

    fn structure(&self, local: u64) -> [u8; WINDOW_BYTES] {
        let mut bytes = [0; WINDOW_BYTES];
        self.talk.peer.memory.read(local, &mut bytes);
        bytes
    }

    /// Checks that only the owner's fields of the structure have changed, and that the tables hold
    /// the page list.
    fn check_filled(
        &mut self,
        local: u64,
        before: &[u8; WINDOW_BYTES],
        pages: &[u64],
        offset: i64,
        owner_window: u64,
    ) {
        let mut expected = WindowRecord::read_from_bytes(before).unwrap();
        expected.protection = 3.into();
        expected.offset = offset.into();
        expected.endpoint = THEIRS.into();
        expected.owner_window = owner_window.into();
        let now = WindowRecord::read_from_bytes(&self.structure(local)).unwrap();
        expected.chunks = now.chunks;
        assert_eq!(now, expected);
        let (mut left, tables) = (pages, pages.len().div_ceil(TABLE_ENTRIES));
        for at in 0..now.chunks.get() as usize {
            let mut entry = [[0; 8]; 2];
            for (kind, word) in entry.iter_mut().enumerate() {
                let table = table_offset(tables, kind * tables + at / TABLE_ENTRIES);
                let place = local + table + 8 * (at % TABLE_ENTRIES) as u64;
                self.talk.peer.memory.read(place, word);
            }
            let [address, count] = entry.map(u64::from_le_bytes);
            let (chunk, rest) = left.split_at(count as usize);
            assert_eq!(address, self.talk.memory.export(PEER, chunk[0]));
            let follows = |pair: &[u64]| pair[1] == pair[0] + PAGE;
            assert!(chunk.windows(2).all(follows));
            left = rest;
        }
        assert!(left.is_empty());
    }
}
