//! Windows and fences with a peer of the base protocol: what the mainline driver sends, stores and
//! leaves undefined, and what it must get.

use std::task::Poll;

use scif_abi::message::{Message, NodeMessage as Say};
use scif_abi::qp::QP_MAGIC;
use scif_abi::window::{WINDOW_BYTES, WindowFill, WindowRecord};
use scif_abi::{Error, PortId};
use scif_core::{
    ConnectMode, CpuEngine, Direction, EndpointId, Event, Local, Memory, Owner, Pages, PinId,
    Place, Rma, Run, Signal, Ticket,
};
use sim::rng::Rng;
use sim::talk::Talk;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const US: u16 = 1;
const PEER: u16 = 0;
const PAGE: u64 = 4096;

/// The peer's id of its end: a pointer, as mainline ids are.
const THEIRS: u64 = 0xffff_8801_2345_6780;

/// A connection we have made.
struct Pair {
    talk: Talk,
    endpoint: EndpointId,
    /// Our id of our end.
    ours: u64,
}

impl Pair {
    fn new() -> Pair {
        let mut talk = Talk::online(US);
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

    /// The peer says something as the mainline driver does: without ports, and with what was on its
    /// stack in the words it does not use.
    fn tell(&mut self, body: Say) {
        let mut message = Message::new(PortId::new(0, 0), PortId::new(0, 0), body);
        let undefined = match body {
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

    /// Copies are made, and what is to be told is told.
    fn heard(&mut self) -> Vec<Say> {
        let Talk { engine, memory, .. } = &mut self.talk;
        engine.pump(memory, &mut CpuEngine, 1 << 20);
        self.talk.heard()
    }

    fn finish(&mut self, ticket: Ticket) -> Option<Result<u64, Error>> {
        self.talk.engine.finish(&mut self.talk.memory, ticket)
    }

    /// Memory of a node for windows: the address of each page.
    fn pin(&mut self, node: u16, pages: usize) -> Vec<u64> {
        let mut fabric = self.talk.fabric.borrow_mut();
        let pinned = fabric.pin(node.into(), pages, &mut Rng::new(pages as u64));
        pinned.unwrap()
    }

    /// The peer registers the pages at these addresses of its memory, each a chunk of its own.
    fn register_theirs(&mut self, pages: &[u64], offset: i64, owner_window: u64) -> u64 {
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
        assert_eq!(
            (record.own.get(), record.lookup_entries.get()),
            (address, 1)
        );
        let mut tables = [[0; 8]; 2];
        for (table, lookup) in tables.iter_mut().zip([record.addresses, record.counts]) {
            let read = peer.memory.peer_read(US, lookup.address.get(), table);
            assert_eq!(read, Ok(()));
        }
        for (at, page) in pages.iter().enumerate() {
            let words = [peer.memory.export(US, *page), 1];
            for (table, word) in tables.iter().zip(words) {
                let entry = u64::from_le_bytes(*table) + 8 * at as u64;
                peer.scribble(entry, &word.to_le_bytes());
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

    /// We register memory and the peer acknowledges; the peer's and our id of the window.
    fn register_ours(&mut self, pages: &[u64], pin: u64, offset: i64) -> (u64, u64) {
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

    /// A structure as the mainline driver lends it, with pointers in its private fields.
    fn lend(&mut self, pages: usize) -> (u64, u64) {
        let memory = &mut self.talk.peer.memory;
        let local = memory.allocate(3 * PAGE as usize).unwrap();
        let address = memory.export(US, local);
        let mut bytes = [0xee; WINDOW_BYTES];
        let lookups = [address + 512, address + 520];
        let record = WindowRecord::lent(pages as u32, address, lookups[0], lookups[1]);
        let public = [(0, 8), (20, 8), (114, 8), (130, 8), (138, 4), (146, 8)];
        for (at, length) in public {
            bytes[at..at + length].copy_from_slice(&record.as_bytes()[at..at + length]);
        }
        memory.write(local, &bytes);
        for (at, table) in [(512, address + PAGE), (520, address + 2 * PAGE)] {
            memory.write(local + at, &table.to_le_bytes());
        }
        (local, address)
    }

    fn structure(&self, local: u64) -> [u8; WINDOW_BYTES] {
        let mut bytes = [0; WINDOW_BYTES];
        self.talk.peer.memory.read(local, &mut bytes);
        bytes
    }

    /// Only the owner's fields of the structure have changed, and the tables hold the page list.
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
        let mut left = pages;
        for at in 0..u64::from(now.chunks.get()) {
            let mut entry = [[0; 8]; 2];
            for (table, word) in entry.iter_mut().enumerate() {
                let place = local + PAGE * (1 + table as u64) + 8 * at;
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

#[test]
fn a_mainline_node_registers_windows_with_us() {
    let mut pair = Pair::new();
    let pages = pair.pin(PEER, 3);
    for (at, page) in pages.iter().enumerate() {
        let memory = &mut pair.talk.peer.memory;
        memory.write(*page, &[at as u8 + 1; PAGE as usize]);
    }
    let owner_window = 0xffff_8800_0000_1000;
    let user_window = pair.register_theirs(&pages, 0x10_0000, owner_window);

    // A transfer from it: the end of the first page and the start of the second.
    let buffer = pair.pin(US, 1);
    let rma = Rma {
        direction: Direction::Read,
        local: Local::Pages {
            pages: Pages {
                pin: PinId(7),
                runs: vec![Run {
                    address: buffer[0],
                    pages: 1,
                }],
                is_charged: false,
            },
            offset: 5,
        },
        remote: 0x10_0000 + PAGE as i64 - 3,
        length: 7,
        flags: 4,
    };
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ticket = engine.rma(memory, pair.endpoint, rma).unwrap();
    engine.pump(memory, &mut CpuEngine, 1 << 20);
    let released = std::iter::from_fn(|| engine.next_event(memory));
    assert!(
        released
            .into_iter()
            .any(|event| event == Event::Released(PinId(7)))
    );
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    let mut bytes = [0; 7];
    pair.talk.memory.read(buffer[0] + 5, &mut bytes);
    assert_eq!(bytes, [1, 1, 1, 2, 2, 2, 2]);

    // While it is mapped it is in use; the last munmap ends that.
    let Talk { engine, memory, .. } = &mut pair.talk;
    let mapped = engine
        .map(memory, pair.endpoint, 0x10_0000, PAGE, 1)
        .unwrap();
    let bus = pair.talk.peer.memory.export(US, pages[0]);
    assert_eq!(mapped.place, Place::Peer(PEER, bus));
    pair.tell(Say::Unregister {
        user_window,
        owner_window,
    });
    let used = Say::UnregisterNack {
        owner: THEIRS,
        owner_window,
    };
    assert_eq!(pair.heard(), [used]);
    let Talk { engine, memory, .. } = &mut pair.talk;
    let again = engine.map_run(pair.endpoint, 0x10_0000, PAGE);
    assert_eq!(again, Err(Error::NoSuchAddress));
    engine.unmap(memory, mapped.window, 1);
    assert_eq!(pair.heard(), [Say::Munmap { owner_window }]);

    // One that nobody uses goes at once, and so does one that nobody knows.
    let user_window = pair.register_theirs(&pages, 0x10_0000, owner_window);
    for owner in [THEIRS, 0] {
        pair.tell(Say::Unregister {
            user_window,
            owner_window,
        });
        let gone = Say::UnregisterAck {
            owner,
            owner_window,
        };
        assert_eq!(pair.heard(), [gone]);
    }
    assert_eq!(pair.talk.engine.stats().remote_windows, 0);
}

#[test]
fn a_mainline_node_thinks_better_of_it() {
    let mut pair = Pair::new();
    let before = pair.talk.engine.stats().pages;
    pair.tell(Say::AllocRequest {
        peer: 0,
        pages: 1,
        waiter: 3,
    });
    let heard = pair.heard();
    let [Say::AllocGrant { user_window, .. }] = heard[..] else {
        panic!("heard {heard:?}");
    };
    pair.tell(Say::FreeVirtual {
        peer: pair.ours,
        user_window,
        owner_window: 4,
        kind: 19,
    });
    assert_eq!(pair.heard(), []);
    assert_eq!(pair.talk.engine.stats().pages, before);
    // More than anybody has.
    pair.tell(Say::AllocRequest {
        peer: 0,
        pages: 1 << 31,
        waiter: 3,
    });
    assert_eq!(pair.heard(), [Say::AllocReject { waiter: 3 }]);
}

#[test]
fn we_register_windows_with_a_mainline_node() {
    let mut pair = Pair::new();
    let pages = pair.pin(US, 5);
    let (user_window, owner_window) = pair.register_ours(&pages, 1, 0x20_0000);
    let unregister = |pair: &mut Pair| {
        let Talk { engine, memory, .. } = &mut pair.talk;
        let length = 5 * PAGE;
        engine
            .unregister(memory, pair.endpoint, 0x20_0000, length)
            .unwrap()
    };
    let ticket = unregister(&mut pair);
    let asked = Say::Unregister {
        user_window,
        owner_window,
    };
    assert_eq!(pair.heard(), [asked]);
    assert_eq!(pair.finish(ticket), None);
    // Still mapped there: unregister has returned, the pages stay.
    pair.tell(Say::UnregisterNack {
        owner: pair.ours,
        owner_window,
    });
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    let is_released = |event: &Event| matches!(event, Event::Released(_));
    assert!(!pair.talk.events().iter().any(is_released));
    pair.tell(Say::Munmap { owner_window });
    assert!(pair.talk.events().contains(&Event::Released(PinId(1))));

    // The same place again, and not in use this time.
    let (_, owner_window) = pair.register_ours(&pages, 2, 0x20_0000);
    let ticket = unregister(&mut pair);
    pair.heard();
    pair.tell(Say::UnregisterAck {
        owner: pair.ours,
        owner_window,
    });
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
    assert!(pair.talk.events().contains(&Event::Released(PinId(2))));
    assert_eq!(pair.talk.engine.stats().windows, 0);
}

#[test]
fn a_mainline_node_uses_fences() {
    let mut pair = Pair::new();
    let (own, theirs) = (pair.pin(US, 1), pair.pin(PEER, 1));
    pair.register_ours(&own, 1, 0);
    pair.register_theirs(&theirs, 0, 0xffff_8800_0000_2000);
    let peer = pair.ours;
    pair.tell(Say::Mark { peer, waiter: 5 });
    let heard = pair.heard();
    let [
        Say::MarkAck {
            requester: THEIRS,
            waiter: 5,
            mark,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    // It marks remote marks in bit 31 and extends the sign.
    let waits = [mark | 0xffff_ffff_8000_0000, 0x4000_0000];
    pair.tell(Say::Wait {
        peer,
        waiter: 6,
        mark: waits[0],
    });
    let waited = Say::WaitAck {
        requester: THEIRS,
        waiter: 6,
    };
    assert_eq!(pair.heard(), [waited]);
    pair.tell(Say::Wait {
        peer,
        waiter: 7,
        mark: waits[1],
    });
    let refused = Say::WaitNack {
        requester: THEIRS,
        waiter: 7,
    };
    assert_eq!(pair.heard(), [refused]);

    let done = Say::SignalAck {
        requester: THEIRS,
        waiter: 8,
    };
    pair.tell(Say::SignalLocal {
        peer,
        offset: 16,
        value: 0x1112_1314_1516_1718,
        waiter: 8,
    });
    assert_eq!(pair.heard(), [done]);
    pair.tell(Say::SignalRemote {
        peer,
        offset: 24,
        value: 0x2122_2324_2526_2728,
        waiter: 8,
    });
    assert_eq!(pair.heard(), [done]);
    let mut word = [0; 8];
    pair.talk.memory.read(own[0] + 16, &mut word);
    assert_eq!(u64::from_le_bytes(word), 0x1112_1314_1516_1718);
    pair.talk.peer.memory.read(theirs[0] + 24, &mut word);
    assert_eq!(u64::from_le_bytes(word), 0x2122_2324_2526_2728);
    for offset in [PAGE, 2, PAGE - 4, u64::MAX] {
        pair.tell(Say::SignalLocal {
            peer,
            offset,
            value: 1,
            waiter: 9,
        });
        let refused = Say::SignalNack {
            requester: THEIRS,
            waiter: 9,
        };
        assert_eq!(pair.heard(), [refused], "{offset:#x}");
    }
}

#[test]
fn we_use_fences_of_a_mainline_node() {
    let mut pair = Pair::new();
    let (own, theirs) = (pair.pin(US, 1), pair.pin(PEER, 1));
    pair.register_ours(&own, 1, 0);
    pair.register_theirs(&theirs, 0, 0xffff_8800_0000_2000);
    let requester = pair.ours;
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ticket = engine.fence_mark(memory, pair.endpoint, 2).unwrap();
    let heard = pair.heard();
    let [
        Say::Mark {
            peer: THEIRS,
            waiter,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    pair.tell(Say::MarkAck {
        requester,
        waiter,
        mark: 5,
    });
    let Some(Ok(mark)) = pair.finish(ticket) else {
        panic!("no mark");
    };
    let mark = i32::try_from(mark).unwrap();
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ticket = engine.fence_wait(memory, pair.endpoint, mark).unwrap();
    let heard = pair.heard();
    let [
        Say::Wait {
            peer: THEIRS,
            waiter,
            mark: 5,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    assert_eq!(pair.finish(ticket), None);
    pair.tell(Say::WaitAck { requester, waiter });
    assert_eq!(pair.finish(ticket), Some(Ok(0)));

    // By the documents, "local" and "remote" are the caller's; on the wire they are the executor's.
    let signal = Signal {
        local_offset: 8,
        local_value: 1,
        remote_offset: 16,
        remote_value: 2,
        flags: 0x32,
    };
    let Talk { engine, memory, .. } = &mut pair.talk;
    let ticket = engine.fence_signal(memory, pair.endpoint, signal).unwrap();
    let heard = pair.heard();
    let mut waiters = Vec::new();
    for say in &heard {
        match *say {
            Say::SignalRemote {
                peer: THEIRS,
                offset: 8,
                value: 1,
                waiter,
            }
            | Say::SignalLocal {
                peer: THEIRS,
                offset: 16,
                value: 2,
                waiter,
            } => {
                waiters.push(waiter);
            }
            _ => panic!("heard {heard:?}"),
        }
    }
    assert_eq!(waiters.len(), 2, "heard {heard:?}");
    for waiter in waiters {
        assert_eq!(pair.finish(ticket), None);
        pair.tell(Say::SignalAck { requester, waiter });
    }
    assert_eq!(pair.finish(ticket), Some(Ok(0)));
}
