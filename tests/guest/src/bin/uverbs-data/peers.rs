//! Programs of the library, and of other nodes, as peers of one that has only commands.

use alloc::format;
use alloc::vec::Vec;

use guest_tests::uverbs::Context;
use guest_tests::{Suite, connect_patiently, settled, text};
use runtime::{println, thread};
use scif::{Endpoint, Listener, Memory, PortId, RecvFlags, SendFlags};
use verbs::{Access, QpType, Settings, WcStatus};
use verbs_core::types::{self, Opcode};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::OK;
use crate::end::{ALL, Address, BYTES, Checked, End, Send};

/// Where `uverbs-data serve` listens.
const PORT: u16 = 5420;

/// The word of an end to the other one.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct Card {
    memory: u64,
    qpn: u32,
    key: u32,
    lid: u32,
    seed: u32,
}

/// A queue pair of the library is the peer.
pub fn library() -> Checked {
    let context = Context::begun().map_err(text("open"))?;
    let raw = End::new(&context, ALL)?;
    let device = verbs::devices().map_err(text("devices"))?.remove(0);
    let start = |worker: verbs::Worker| {
        let run = move || {
            if let Err(error) = worker.run() {
                println!("uverbs-data: the progress thread ends: {error}");
            }
        };
        thread::spawn(run).map(drop).map_err(verbs::Error::from)
    };
    let library = device.open(start).map_err(text("library"))?;
    let domain = library.protection_domain().map_err(text("domain"))?;
    let queue = library.completion_queue(16).map_err(text("queue"))?;
    let pair = domain.queue_pair(QpType::Rc, &queue, &queue);
    let pair = pair.build().map_err(text("pair"))?;
    let settings = Settings {
        access: Access::REMOTE | Access::LOCAL_WRITE,
        ..Settings::default()
    };
    pair.init(&settings).map_err(text("init"))?;
    let memory = Memory::new(BYTES).map_err(text("memory"))?;
    let all = Access::REMOTE | Access::LOCAL_WRITE;
    let region = domain.register(memory, all).map_err(text("region"))?;
    let mut address = pair.address();
    raw.connect(address.lid, address.number, 7)?;
    (address.lid, address.number) = (raw.address.lid, raw.address.qpn);
    pair.connect_to(address, &settings)
        .map_err(text("connect"))?;
    let wait = |id: u64| {
        let mut found = Vec::new();
        let look = || {
            let _ = queue.poll(16, &mut found);
            !found.is_empty()
        };
        settled(look, &true);
        match found.as_slice() {
            [one] if one.id == id && one.status == WcStatus::Success => Ok(()),
            other => Err(format!("the library's completions: {other:?}")),
        }
    };
    // From the one that has only commands.
    let length = 100_000;
    let segment = |from, to| region.segment(from..to).map_err(text("segment"));
    raw.fill(1, 0, length)?;
    pair.receive(1, &[segment(0, length)?])
        .map_err(text("receive"))?;
    let place = region.remote(200_000);
    let send = Send {
        opcode: Opcode::Send,
        at: 0,
        length,
        remote: place.address,
        key: place.key,
        numbers: (0, 0),
        flags: types::SendFlags::empty(),
    };
    raw.send(2, &send)?;
    raw.expect(&[(2, OK)])?;
    wait(1)?;
    raw.send(
        3,
        &Send {
            opcode: Opcode::RdmaWrite,
            ..send
        },
    )?;
    raw.send(
        4,
        &Send {
            opcode: Opcode::RdmaRead,
            at: 300_000,
            remote: region.remote(0).address,
            ..send
        },
    )?;
    raw.expect(&[(3, OK), (4, OK)])?;
    raw.has(1, 300_000, length)?;
    raw.send(
        5,
        &Send {
            opcode: Opcode::AtomicFetchAndAdd,
            at: 600_000,
            length: 8,
            remote: region.remote(400_000).address,
            numbers: (41, 0),
            ..send
        },
    )?;
    raw.expect(&[(5, OK)])?;
    let word = region.read::<u64>(400_000).map_err(text("word"))?;
    if word != 41 {
        return Err(format!("the library's word is {word}"));
    }
    // And to it.
    let receive = raw.element(700_000, length, raw.address.key);
    raw.receive(6, receive)?;
    pair.send(7, &[segment(200_000, 200_000 + length)?])
        .map_err(text("send"))?;
    wait(7)?;
    raw.expect(&[(6, OK)])?;
    raw.has(1, 700_000, length)?;
    let place = verbs::Remote {
        address: raw.address.memory + 850_000,
        key: raw.address.key,
    };
    pair.write(8, &[segment(0, length)?], place)
        .map_err(text("write"))?;
    wait(8)?;
    raw.has(1, 850_000, length)?;
    let word = verbs::Remote {
        address: raw.address.memory + 600_008,
        key: raw.address.key,
    };
    pair.fetch_and_add(9, segment(500_000, 500_008)?, word, 5)
        .map_err(text("add"))?;
    wait(9)?;
    let word = raw.memory.read::<u64>(600_008).map_err(text("word"))?;
    if word != 5 {
        return Err(format!("the word is {word}"));
    }
    drop(pair);
    raw.end()
}

fn exchange(endpoint: &Endpoint, own: &Card) -> Checked<Card> {
    let flags = SendFlags::BLOCK;
    endpoint
        .send(own.as_bytes(), flags)
        .map_err(text("sending a card"))?;
    let mut card = Card::new_zeroed();
    let flags = RecvFlags::BLOCK;
    let count = endpoint
        .recv(card.as_mut_bytes(), flags)
        .map_err(text("receiving a card"))?;
    match count == size_of::<Card>() {
        true => Ok(card),
        false => Err("a short card".into()),
    }
}

fn meet(end: &End<'_>, endpoint: &Endpoint) -> Checked<Address> {
    let own = Card {
        memory: end.address.memory,
        qpn: end.address.qpn,
        key: end.address.key,
        lid: end.address.lid.into(),
        seed: 0,
    };
    let card = exchange(endpoint, &own)?;
    let address = Address {
        lid: card.lid as u16,
        qpn: card.qpn,
        memory: card.memory,
        key: card.key,
    };
    end.connect(address.lid, address.qpn, 7)?;
    Ok(address)
}

/// Says that something was done, and waits until the other end has said the same.
fn rendezvous(endpoint: &Endpoint, seed: u32) -> Checked {
    let own = Card {
        seed,
        ..Card::new_zeroed()
    };
    match exchange(endpoint, &own)?.seed == seed {
        true => Ok(()),
        false => Err("the ends do not do the same".into()),
    }
}

const LENGTH: usize = 100_000;

/// Serves one client of any node; the exit status.
pub fn serve() -> i32 {
    let mut suite = Suite::new("uverbs-data");
    suite.check("the server", server());
    suite.finish()
}

fn server() -> Checked {
    let listener = Listener::bind(PORT).map_err(text("bind"))?;
    let (endpoint, _) = listener.accept().map_err(text("accept"))?;
    let context = Context::begun().map_err(text("open"))?;
    let end = End::new(&context, ALL)?;
    end.fill(2, 400_000, LENGTH)?;
    meet(&end, &endpoint)?;
    end.receive(1, end.element(0, LENGTH, end.address.key))?;
    rendezvous(&endpoint, 1)?;
    end.expect(&[(1, OK)])?;
    end.has(1, 0, LENGTH)?;
    rendezvous(&endpoint, 2)?;
    end.has(1, 200_000, LENGTH)?;
    let word = end.memory.read::<u64>(600_000).map_err(text("word"))?;
    if word != 6 {
        return Err(format!("the word is {word}"));
    }
    rendezvous(&endpoint, 3)?;
    end.end()
}

/// The client of the server on this node; the exit status.
pub fn client(node: u16) -> i32 {
    let mut suite = Suite::new("uverbs-data");
    suite.check("the client", run(node));
    suite.finish()
}

fn run(node: u16) -> Checked {
    let endpoint = connect_patiently(PortId::new(node, PORT)).map_err(text("connect"))?;
    let context = Context::begun().map_err(text("open"))?;
    let end = End::new(&context, ALL)?;
    end.fill(1, 0, LENGTH)?;
    let peer = meet(&end, &endpoint)?;
    rendezvous(&endpoint, 1)?;
    let send = Send {
        opcode: Opcode::Send,
        at: 0,
        length: LENGTH,
        remote: peer.memory + 200_000,
        key: peer.key,
        numbers: (0, 0),
        flags: types::SendFlags::empty(),
    };
    let write = Send {
        opcode: Opcode::RdmaWrite,
        ..send
    };
    let read = Send {
        opcode: Opcode::RdmaRead,
        at: 400_000,
        remote: peer.memory + 400_000,
        ..send
    };
    let add = Send {
        opcode: Opcode::AtomicFetchAndAdd,
        at: 600_000,
        length: 8,
        remote: peer.memory + 600_000,
        numbers: (6, 0),
        ..send
    };
    for (id, request) in [(1, &send), (2, &write), (3, &read), (4, &add)] {
        end.send(id, request)?;
    }
    end.expect(&[(1, OK), (2, OK), (3, OK), (4, OK)])?;
    end.has(2, 400_000, LENGTH)?;
    rendezvous(&endpoint, 2)?;
    rendezvous(&endpoint, 3)?;
    end.end()
}
