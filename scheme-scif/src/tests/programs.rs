//! Programs that use registered memory, for the tests of windows and mappings.

use scif_abi::call::{Call, MemoryCall, RegisterRecord, RmaRecord};
use scif_abi::codec::Operation;
use scif_abi::flags::{MapFlags as Placement, RmaFlags};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDWR};

pub use super::bed::state;
use super::bed::{Bed, Op, PAGE, USER};
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
pub fn call(bed: &mut Bed, node: usize, id: HandleId, operation: Call) -> Result<usize> {
    bed.now(node, op(id, operation)).0
}

/// Memory of a program: its handle, its token, and where the program has it mapped.
#[derive(Clone, Copy)]
pub struct Memory {
    pub id: HandleId,
    pub token: u64,
    pub address: usize,
}

#[track_caller]
pub fn memory_of(bed: &mut Bed, node: usize, pages: usize, caller: Caller) -> Memory {
    let id = bed.open_with(node, "memory", O_RDWR, caller).unwrap();
    let provide = memory_words(MemoryCall::Provide {
        pages: pages as u64,
    });
    let token = bed.call(node, id, &[], provide).0.unwrap() as u64;
    let address = bed.map(node, id, 0, pages * PAGE, shared(READ_WRITE));
    Memory {
        id,
        token,
        address: address.unwrap(),
    }
}

pub fn memory(bed: &mut Bed, node: usize, pages: usize) -> Memory {
    memory_of(bed, node, pages, USER)
}

/// A program's memory is gone: unmapped and closed.
pub fn forget(bed: &mut Bed, node: usize, memory: Memory, pages: usize) {
    bed.unmap(node, memory.id, 0, pages * PAGE).unwrap();
    bed.close(node, memory.id);
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
pub fn register(bed: &mut Bed, node: usize, id: HandleId, record: RegisterRecord) -> Result<usize> {
    call(bed, node, id, Call::Register { record })
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
pub fn ends(bed: &mut Bed, to: usize) -> (HandleId, HandleId) {
    let listener = bed.open_with(to, "listen/2050", O_RDWR, USER).unwrap();
    let accept = bed.submit(
        to,
        Op::Dup {
            id: listener,
            name: b"accept".to_vec(),
            caller: USER,
        },
    );
    let connect = bed.submit(
        0,
        Op::Open {
            directory: crate::ROOT,
            path: format!("{to}/2050"),
            flags: O_RDWR,
            caller: USER,
        },
    );
    let accepted = bed.answer(to, accept).unwrap().0.unwrap();
    let connected = bed.answer(0, connect).unwrap().0.unwrap();
    bed.close(to, listener);
    (connected, accepted)
}

/// The tests that hold for two nodes and for one that is connected with itself.
pub fn on_both(mut test: impl FnMut(&mut Bed, usize)) {
    for (nodes, to) in [(2, 1), (1, 0)] {
        test(&mut Bed::new(nodes), to);
    }
}
