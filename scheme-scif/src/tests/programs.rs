//! Programs that use registered memory, for the tests of windows and mappings.

use scif_abi::call::{Call, MemoryCall, RegisterRecord, RmaRecord};
use scif_abi::codec::Operation;
use scif_abi::flags::{MapFlags as Placement, RmaFlags};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDWR};

pub use super::fixture::state;
use super::fixture::{Fixture, Op, PAGE, USER};
use super::memory::{shared, words as memory_words};
use crate::{Caller, HandleId};

pub const SYNC: u32 = RmaFlags::SYNC.bits();
pub const FIXED: u32 = Placement::FIXED.bits();
pub const READ_WRITE: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE);
pub const PAGE64: u64 = PAGE as u64;

pub fn error<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

/// A request for an operation, as a client makes it.
pub fn op(id: HandleId, call: Call) -> Op {
    let [first, second] = call.words();
    Op::Call {
        id,
        payload: call.payload().to_vec(),
        metadata: vec![call.number(), first, second],
    }
}

#[track_caller]
pub fn call(fixture: &mut Fixture, node: usize, id: HandleId, operation: Call) -> Result<usize> {
    fixture.now(node, op(id, operation)).0
}

/// Memory of a program: its handle, its token, and where the program has it mapped.
#[derive(Clone, Copy)]
pub struct Memory {
    pub id: HandleId,
    pub token: u64,
    pub address: usize,
}

#[track_caller]
pub fn memory_of(fixture: &mut Fixture, node: usize, pages: usize, caller: Caller) -> Memory {
    let id = fixture.open_with(node, "memory", O_RDWR, caller).unwrap();
    let provide = memory_words(MemoryCall::Provide {
        pages: pages as u64,
    });
    let token = fixture.call(node, id, &[], provide).0.unwrap() as u64;
    let address = fixture.map(node, id, 0, pages * PAGE, shared(READ_WRITE));
    Memory {
        id,
        token,
        address: address.unwrap(),
    }
}

pub fn memory(fixture: &mut Fixture, node: usize, pages: usize) -> Memory {
    memory_of(fixture, node, pages, USER)
}

/// Removes a program's memory: unmaps and closes it.
pub fn forget(fixture: &mut Fixture, node: usize, memory: Memory, pages: usize) {
    fixture.unmap(node, memory.id, 0, pages * PAGE).unwrap();
    fixture.close(node, memory.id);
}

pub fn record(memory: Memory, length: usize, protection: u32) -> RegisterRecord {
    RegisterRecord {
        memory: memory.token.into(),
        memory_offset: 0.into(),
        length: (length as u64).into(),
        offset: 0.into(),
        protection: protection.into(),
        flags: 0.into(),
    }
}

pub fn fixed(memory: Memory, offset: u64, pages: usize) -> RegisterRecord {
    RegisterRecord {
        offset: (offset as i64).into(),
        flags: FIXED.into(),
        ..record(memory, pages * PAGE, 3)
    }
}

#[track_caller]
pub fn register(
    fixture: &mut Fixture,
    node: usize,
    id: HandleId,
    record: RegisterRecord,
) -> Result<usize> {
    call(fixture, node, id, Call::Register { record })
}

pub fn rma(local: u64, length: usize, remote: u64, flags: u32) -> RmaRecord {
    RmaRecord {
        local_offset: (local as i64).into(),
        length: (length as u64).into(),
        remote_offset: (remote as i64).into(),
        flags: flags.into(),
        reserved: 0.into(),
    }
}

pub fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 255 + seed) as u8).collect()
}

/// Two ends of a connection opened by an ordinary user: on nodes 0 and `to`.
pub fn ends(fixture: &mut Fixture, to: usize) -> (HandleId, HandleId) {
    let listener = fixture.open_with(to, "listen/2050", O_RDWR, USER).unwrap();
    let accept = fixture.submit(
        to,
        Op::Dup {
            id: listener,
            name: b"accept".to_vec(),
            caller: USER,
        },
    );
    let connect = fixture.submit(
        0,
        Op::Open {
            directory: crate::ROOT,
            path: format!("{to}/2050"),
            flags: O_RDWR,
            caller: USER,
        },
    );
    let accepted = fixture.answer(to, accept).unwrap().0.unwrap();
    let connected = fixture.answer(0, connect).unwrap().0.unwrap();
    fixture.close(to, listener);
    (connected, accepted)
}

/// Runs a test with two nodes and with one that is connected with itself.
pub fn on_both(mut test: impl FnMut(&mut Fixture, usize)) {
    for (nodes, to) in [(2, 1), (1, 0)] {
        test(&mut Fixture::new(nodes), to);
    }
}
