//! Registered memory on two nodes and within one: registering, transfers, fences, mappings, and
//! that nothing is left.

use std::rc::Rc;

use scif_abi::call::{
    CachedRecord, Call, MemoryCall, PagesHeader, RegisterRecord, RmaRecord, SignalRecord,
};
use scif_abi::codec::Operation;
use scif_abi::flags::{FenceFlags, MapFlags as Placement, RmaFlags};
use scif_core::Run;
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR};
use zerocopy::FromBytes;

use super::bed::{ADMIN, Bed, Op, PAGE, PHYSICAL, USER};
use super::memory::{shared, words as memory_words};
use crate::{Caller, HandleId};

const SYNC: u32 = RmaFlags::SYNC.bits();
const FIXED: u32 = Placement::FIXED.bits();
const READ_WRITE: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE);
const PAGE64: u64 = PAGE as u64;

fn error<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

/// A request for an operation, as a client makes it.
fn op(id: HandleId, call: Call) -> Op {
    let [first, second] = call.words();
    Op::Call {
        id,
        payload: call.payload().to_vec(),
        metadata: vec![call.number(), first, second],
    }
}

#[track_caller]
fn call(bed: &mut Bed, node: usize, id: HandleId, operation: Call) -> Result<usize> {
    bed.now(node, op(id, operation)).0
}

/// Memory of a program: its handle, its token, and where the program has it mapped.
#[derive(Clone, Copy)]
struct Memory {
    id: HandleId,
    token: u64,
    address: usize,
}

#[track_caller]
fn memory_of(bed: &mut Bed, node: usize, pages: usize, caller: Caller) -> Memory {
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

fn memory(bed: &mut Bed, node: usize, pages: usize) -> Memory {
    memory_of(bed, node, pages, USER)
}

/// A program's memory is gone: unmapped and closed.
fn forget(bed: &mut Bed, node: usize, memory: Memory, pages: usize) {
    bed.unmap(node, memory.id, 0, pages * PAGE).unwrap();
    bed.close(node, memory.id);
}

fn record(memory: Memory, length: usize, protection: u32) -> RegisterRecord {
    RegisterRecord {
        memory: memory.token.into(),
        memory_offset: 0.into(),
        length: (length as u64).into(),
        offset: 0.into(),
        protection: protection.into(),
        flags: 0.into(),
    }
}

fn fixed(memory: Memory, offset: u64, pages: usize) -> RegisterRecord {
    RegisterRecord {
        offset: (offset as i64).into(),
        flags: FIXED.into(),
        ..record(memory, pages * PAGE, 3)
    }
}

#[track_caller]
fn register(bed: &mut Bed, node: usize, id: HandleId, record: RegisterRecord) -> Result<usize> {
    call(bed, node, id, Call::Register { record })
}

fn rma(local: u64, length: usize, remote: u64, flags: u32) -> RmaRecord {
    RmaRecord {
        local_offset: (local as i64).into(),
        length: (length as u64).into(),
        remote_offset: (remote as i64).into(),
        flags: flags.into(),
        reserved: 0.into(),
    }
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 255 + seed) as u8).collect()
}

/// What must be the same before and after, of all nodes.
fn state(bed: &mut Bed) -> Vec<u64> {
    let names = [
        "handles",
        "waiting",
        "memory_objects",
        "memory_pages",
        "endpoints",
        "connections",
        "windows",
        "remote_windows",
        "pinned_pages",
        "mapped_pages",
        "jobs",
        "pages",
    ];
    let mut values = Vec::new();
    for node in 0..bed.nodes.len() {
        values.extend(names.map(|name| bed.counter(node, name)));
        assert_eq!(bed.kept(node), 0);
        let (engine, _) = bed.nodes[node].scif.engine();
        assert_eq!(engine.check_invariants(), Ok(()));
    }
    values
}

/// Two ends of a connection opened by an ordinary user: on nodes 0 and `to`.
fn ends(bed: &mut Bed, to: usize) -> (HandleId, HandleId) {
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
fn on_both(test: fn(&mut Bed, usize)) {
    for (nodes, to) in [(2, 1), (1, 0)] {
        test(&mut Bed::new(nodes), to);
    }
}

#[test]
fn data_goes_both_ways_and_nothing_is_left() {
    on_both(|bed, to| {
        let before = state(bed);
        let (near, far) = ends(bed, to);
        let mine = memory(bed, 0, 10);
        let theirs = memory(bed, to, 10);
        let local = register(bed, 0, near, record(mine, 10 * PAGE, 3)).unwrap() as u64;
        let remote = register(bed, to, far, record(theirs, 10 * PAGE, 3)).unwrap() as u64;
        assert!(bed.text(0, "windows").contains("registered"));
        assert_eq!(
            bed.counter(0, "pinned_pages"),
            if to == 0 { 20 } else { 10 }
        );
        let data = pattern(10 * PAGE, 1);
        bed.poke(0, mine.address, &data);

        let copied = bed.counter(0, "rma_bytes_cpu");
        let record = rma(local, 10 * PAGE, remote, SYNC);
        assert_eq!(call(bed, 0, near, Call::WriteTo { record }), Ok(0));
        assert_eq!(bed.peek(to, theirs.address, 10 * PAGE), data);
        assert_eq!(bed.counter(0, "rma_bytes_cpu") - copied, 10 * PAGE64);

        bed.poke(to, theirs.address, &pattern(10 * PAGE, 2));
        let record = rma(local + 3, 5000, remote + 4095, SYNC);
        assert_eq!(call(bed, 0, near, Call::ReadFrom { record }), Ok(0));
        assert_eq!(
            bed.peek(0, mine.address + 3, 5000),
            pattern(10 * PAGE, 2)[4095..9095]
        );
        assert_eq!(bed.peek(0, mine.address, 3), data[..3]);
        assert_eq!(bed.peek(0, mine.address + 5003, 9), data[5003..5012]);

        // The data beside the call, over several looks.
        let [first, second] = Call::VirtualWriteTo {
            remote_offset: remote as i64 + 7,
            flags: 0,
        }
        .words();
        let bytes = pattern(9 * PAGE + 11, 5);
        let words = [Call::VIRTUAL_WRITE_TO, first, second];
        assert_eq!(bed.call(0, near, &bytes, words).0, Ok(0));
        assert_eq!(bed.peek(to, theirs.address + 7, bytes.len()), bytes);
        let words = [Call::VIRTUAL_READ_FROM, first, second];
        let (result, found) = bed.call(0, near, &vec![0; bytes.len()], words);
        assert_eq!((result, found == bytes), (Ok(0), true));

        let length = 10 * PAGE64;
        let offset = local as i64;
        let unregister = Call::Unregister { offset, length };
        assert_eq!(call(bed, 0, near, unregister), Ok(0));
        assert_eq!(call(bed, 0, near, unregister), error(ENXIO));
        assert_eq!(bed.counter(0, "pinned_pages"), if to == 0 { 10 } else { 0 });
        bed.close(0, near);
        bed.close(to, far);
        forget(bed, 0, mine, 10);
        forget(bed, to, theirs, 10);
        assert_eq!(state(bed), before);
    });
}

#[test]
fn memory_is_for_its_user_and_root() {
    let mut bed = Bed::new(2);
    let (near, _) = ends(&mut bed, 1);
    let stranger = Caller { uid: 1234, ..USER };
    let theirs = memory_of(&mut bed, 0, 2, stranger);
    let own = memory(&mut bed, 0, 2);
    let foreign = register(&mut bed, 0, near, record(theirs, PAGE, 3));
    assert_eq!(foreign, error(EFAULT));
    assert!(register(&mut bed, 0, near, record(own, PAGE, 3)).is_ok());
    let (root, _) = bed.pair(0, 1, 2060);
    assert!(register(&mut bed, 0, root, record(theirs, PAGE, 3)).is_ok());
    // What is registered stays when its maker closes the memory; nothing new is made of it.
    forget(&mut bed, 0, theirs, 2);
    assert_eq!(
        register(&mut bed, 0, root, record(theirs, PAGE, 3)),
        error(EFAULT)
    );
    assert_eq!(bed.counter(0, "memory_objects"), 2);
    bed.close(0, root);
    assert_eq!(bed.counter(0, "memory_objects"), 1);
}

#[test]
fn bad_registrations_leave_no_trace() {
    let mut bed = Bed::new(2);
    let (near, far) = ends(&mut bed, 1);
    let own = memory(&mut bed, 0, 4);
    let before = state(&mut bed);
    let good = record(own, PAGE, 3);
    let table = [
        (
            RegisterRecord {
                length: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                length: 100.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                memory_offset: 100.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                length: (5 * PAGE64).into(),
                ..good
            },
            EFAULT,
        ),
        (
            RegisterRecord {
                memory_offset: (4 * PAGE64).into(),
                ..good
            },
            EFAULT,
        ),
        (
            RegisterRecord {
                memory_offset: (u64::MAX - 4095).into(),
                ..good
            },
            EFAULT,
        ),
        (
            RegisterRecord {
                memory: 0.into(),
                ..good
            },
            EFAULT,
        ),
        (
            RegisterRecord {
                memory: 99.into(),
                ..good
            },
            EFAULT,
        ),
        (
            RegisterRecord {
                protection: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                protection: 4.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                flags: 1.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                flags: 0x20.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                flags: FIXED.into(),
                offset: 1.into(),
                ..good
            },
            EINVAL,
        ),
        (
            RegisterRecord {
                flags: FIXED.into(),
                offset: (-4096).into(),
                ..good
            },
            EINVAL,
        ),
    ];
    for (record, errno) in table {
        assert_eq!(
            register(&mut bed, 0, near, record),
            error(errno),
            "{record:?}"
        );
        assert_eq!(state(&mut bed), before);
    }
    // Not connected, and no longer connected.
    let fresh = bed.open_with(0, "endpoint", O_RDWR, USER).unwrap();
    assert_eq!(register(&mut bed, 0, fresh, good), error(ENOTCONN));
    bed.close(0, fresh);
    // The limit.
    bed.nodes[0].scif.engine().0.set_pinned_limit(None, 1);
    let two = record(own, 2 * PAGE, 3);
    assert_eq!(register(&mut bed, 0, near, two), error(EAGAIN));
    assert_eq!(state(&mut bed), before);
    bed.close(1, far);
    assert_eq!(register(&mut bed, 0, near, good), error(ECONNRESET));
    bed.close(0, near);
    forget(&mut bed, 0, own, 4);
    assert_eq!(bed.counter(0, "memory_pages"), 0);
}

#[test]
fn transfers_are_checked() {
    on_both(|bed, to| {
        let (near, far) = ends(bed, to);
        let mine = memory(bed, 0, 2);
        let theirs = memory(bed, to, 2);
        let first = fixed(mine, 0x10000, 1);
        register(bed, 0, near, first).unwrap();
        register(bed, to, far, fixed(theirs, 0x20000, 1)).unwrap();
        let write_only = RegisterRecord {
            memory_offset: PAGE64.into(),
            protection: 2.into(),
            ..fixed(theirs, 0x21000, 1)
        };
        register(bed, to, far, write_only).unwrap();
        assert_eq!(register(bed, 0, near, first), error(EADDRINUSE));
        let table = [
            (rma(0x10000, 0, 0x20000, SYNC), EINVAL, EINVAL),
            (rma(0x10000, 8, 0x20000, 16), EINVAL, EINVAL),
            (rma(0x11000, 8, 0x20000, 0), ENXIO, ENXIO),
            (rma(0x10000, 8, 0x22000, 0), ENXIO, ENXIO),
            (rma(0x10000, PAGE + 1, 0x20000, 0), ENXIO, ENXIO),
            (rma(0x10000, 8, u64::MAX - 7, 0), ENXIO, ENXIO),
            (rma(0x10000, usize::MAX, 0x20000, 0), ENXIO, ENXIO),
            (rma(0x10000, 8, 0x21000, 0), EACCES, 0),
        ];
        for (record, read, write) in table {
            let expected = |errno| if errno == 0 { Ok(0) } else { error(errno) };
            let found = call(bed, 0, near, Call::ReadFrom { record });
            assert_eq!(found, expected(read), "{record:?}");
            let found = call(bed, 0, near, Call::WriteTo { record });
            assert_eq!(found, expected(write), "{record:?}");
        }
        let mut virtually = |length: usize, remote: i64, flags: u32| {
            let words = [Call::VIRTUAL_READ_FROM, remote as u64, u64::from(flags)];
            bed.call(0, near, &vec![0; length], words).0
        };
        assert_eq!(virtually(0, 0x20000, 0), error(EINVAL));
        assert_eq!(virtually(8, 0x20000, 64), error(EINVAL));
        assert_eq!(virtually(8, 0x22000, 0), error(ENXIO));
        assert_eq!(virtually(8, -8, 0), error(ENXIO));
        assert_eq!(virtually(8, 0x21000, 0), error(EACCES));
        assert_eq!(virtually(8, 0x20000, 0), Ok(0));
    });
}

#[test]
fn cached_transfers_need_memory_that_is_mapped() {
    on_both(|bed, to| {
        let (near, far) = ends(bed, to);
        let mine = memory(bed, 0, 6);
        let theirs = memory(bed, to, 6);
        register(bed, to, far, fixed(theirs, 0, 6)).unwrap();
        bed.poke(0, mine.address, &pattern(6 * PAGE, 3));
        let record = |memory: Memory, offset: usize, length: usize| CachedRecord {
            memory: memory.token.into(),
            memory_offset: (offset as u64).into(),
            length: (length as u64).into(),
            remote_offset: 100.into(),
            flags: SYNC.into(),
            reserved: 0.into(),
        };
        let write = |bed: &mut Bed, offset, length| {
            let record = record(mine, offset, length);
            call(bed, 0, near, Call::CachedWriteTo { record })
        };
        let uses = "memory_objects";
        assert_eq!(write(bed, 5, 5 * PAGE), Ok(0));
        let data = pattern(6 * PAGE, 3);
        assert_eq!(
            bed.peek(to, theirs.address + 100, 5 * PAGE),
            data[5..5 + 5 * PAGE]
        );
        let back = record(mine, 9000, 3000);
        assert_eq!(
            call(bed, 0, near, Call::CachedReadFrom { record: back }),
            Ok(0)
        );
        assert_eq!(bed.peek(0, mine.address + 9000, 3000), data[5..3005]);
        assert_eq!(write(bed, 0, 0), error(EINVAL));
        assert_eq!(write(bed, 0, 6 * PAGE + 1), error(EFAULT));
        assert_eq!(write(bed, usize::MAX, 2), error(EFAULT));
        let foreign = Memory { token: 999, ..mine };
        let unknown = Call::CachedWriteTo {
            record: record(foreign, 0, 1),
        };
        assert_eq!(call(bed, 0, near, unknown), error(EFAULT));
        // The program puts something else in the place of two pages.
        bed.unmap(0, mine.id, 2 * PAGE64, 2 * PAGE).unwrap();
        assert_eq!(write(bed, 0, 2 * PAGE), Ok(0));
        assert_eq!(write(bed, 0, 2 * PAGE + 1), error(EFAULT));
        assert_eq!(write(bed, 3 * PAGE, 5), error(EFAULT));
        assert_eq!(write(bed, 4 * PAGE, 2 * PAGE), Ok(0));
        let flags = shared(MapFlags::PROT_READ);
        bed.map(0, mine.id, 2 * PAGE64, 2 * PAGE, flags).unwrap();
        assert_eq!(write(bed, 0, 5 * PAGE), Ok(0));
        // No use is left over by any of it.
        bed.close(0, near);
        bed.close(to, far);
        for _ in 0..2 {
            bed.unmap(0, mine.id, 0, 6 * PAGE).unwrap();
        }
        bed.close(0, mine.id);
        forget(bed, to, theirs, 6);
        assert_eq!(bed.counter(0, uses), 0);
    });
}

#[test]
fn windows_are_mapped_and_outlive_everything() {
    on_both(|bed, to| {
        let before = state(bed);
        let (near, far) = ends(bed, to);
        let theirs = memory(bed, to, 8);
        let offset = register(bed, to, far, record(theirs, 8 * PAGE, 3)).unwrap() as u64;
        // An object of the test bed has runs of three pages.
        let run = |bed: &mut Bed, page: u64, length: u64| {
            let remote_offset = (offset + page * PAGE64) as i64;
            call(
                bed,
                0,
                near,
                Call::MapRun {
                    remote_offset,
                    length,
                },
            )
        };
        assert_eq!(run(bed, 0, 8 * PAGE64), Ok(3 * PAGE));
        assert_eq!(run(bed, 1, 8 * PAGE64 - PAGE64), Ok(2 * PAGE));
        assert_eq!(run(bed, 6, PAGE64), Ok(PAGE));
        assert_eq!(run(bed, 7, 2 * PAGE64), error(ENXIO));
        assert_eq!(run(bed, 0, 1), error(EINVAL));
        let flags = shared(READ_WRITE);
        assert_eq!(bed.map(0, near, offset, 4 * PAGE, flags), error(EXDEV));
        let name = b"window".to_vec();
        let dup = Op::Dup {
            id: near,
            name,
            caller: USER,
        };
        let window = bed.now(0, dup).0.unwrap();
        let address = bed.map(0, window, offset, 3 * PAGE, flags).unwrap();
        let direct = bed.map(0, near, offset + 3 * PAGE64, PAGE, flags).unwrap();
        assert_eq!(bed.counter(0, "mapped_pages"), 4);
        let mappings = bed.text(0, "mappings");
        assert_eq!(mappings.matches("window").count(), 2, "{mappings}");

        // Loads and stores: nobody copies.
        let copied = bed.counter(0, "rma_bytes_cpu");
        bed.poke(0, address + 2 * PAGE, b"stored");
        assert_eq!(bed.peek(to, theirs.address + 2 * PAGE, 6), b"stored");
        bed.poke(to, theirs.address + 3 * PAGE, b"loaded");
        assert_eq!(bed.peek(0, direct, 6), b"loaded");
        assert_eq!(bed.counter(0, "rma_bytes_cpu"), copied);

        // Unregistered, closed, the owner's memory given up: the mapping stays.
        let length = 8 * PAGE64;
        let unregister = Call::Unregister {
            offset: offset as i64,
            length,
        };
        assert_eq!(call(bed, to, far, unregister), Ok(0));
        assert_eq!(bed.map(0, window, offset, PAGE, flags), error(ENXIO));
        assert_eq!(call(bed, 0, near, Call::Shutdown), Ok(0));
        assert_eq!(call(bed, 0, near, Call::Shutdown), error(EBADF));
        assert_eq!(bed.read(0, near, 1), error(EBADF));
        bed.close(to, far);
        forget(bed, to, theirs, 8);
        bed.poke(0, address, b"still there");
        assert_eq!(bed.peek(0, address, 11), b"still there");
        assert_eq!(bed.counter(to, "memory_pages"), 8);
        assert!(bed.map(0, window, offset, PAGE, flags).is_err());

        // Piece by piece.
        bed.unmap(0, window, offset + PAGE64, PAGE).unwrap();
        bed.unmap(0, window, offset, PAGE).unwrap();
        assert_eq!(bed.counter(0, "mapped_pages"), 2);
        bed.unmap(0, near, offset + 3 * PAGE64, PAGE).unwrap();
        assert_eq!(bed.counter(to, "memory_pages"), 8);
        bed.unmap(0, window, offset + 2 * PAGE64, PAGE).unwrap();
        assert_eq!(bed.counter(to, "memory_pages"), 0);
        bed.close(0, window);
        bed.close(0, near);
        assert_eq!(state(bed), before);
    });
}

#[test]
fn rights_of_windows_and_handles_hold_for_mappings() {
    on_both(|bed, to| {
        let (near, far) = ends(bed, to);
        let theirs = memory(bed, to, 3);
        let read_only = RegisterRecord {
            protection: 1.into(),
            ..fixed(theirs, 0x10000, 1)
        };
        register(bed, to, far, read_only).unwrap();
        let write_only = RegisterRecord {
            protection: 2.into(),
            memory_offset: PAGE64.into(),
            ..fixed(theirs, 0x20000, 1)
        };
        register(bed, to, far, write_only).unwrap();
        let (read, write) = (MapFlags::PROT_READ, MapFlags::PROT_WRITE);
        let table = [
            (0x10000, shared(read), 0),
            (0x10000, shared(write), EACCES),
            (0x10000, shared(read | write), EACCES),
            (0x20000, shared(write), 0),
            (0x20000, shared(read), EACCES),
            (0x10000, shared(read | MapFlags::PROT_EXEC), EACCES),
            (0x10000, read | MapFlags::MAP_PRIVATE, EINVAL),
            (0x11000, shared(read), ENXIO),
            (0x10001, shared(read), EINVAL),
            (1 << 63, shared(read), EINVAL),
        ];
        let before = bed.counter(0, "mapped_pages");
        for (offset, flags, errno) in table {
            match bed.map(0, near, offset, PAGE, flags) {
                Ok(_) => {
                    assert_eq!(errno, 0, "{offset:#x} {flags:?}");
                    bed.unmap(0, near, offset, PAGE).unwrap();
                }
                Err(found) => assert_eq!(found.errno, errno, "{offset:#x} {flags:?}"),
            }
            assert_eq!(bed.counter(0, "mapped_pages"), before);
        }
        let unconnected = bed.open_with(0, "endpoint", O_RDONLY, USER).unwrap();
        let found = bed.map(0, unconnected, 0, PAGE, shared(read));
        assert_eq!(found, error(ENOTCONN));
        let found = bed.map(0, unconnected, 0, PAGE, shared(write));
        assert_eq!(found, error(EACCES));
    });
}

#[test]
fn fences() {
    on_both(|bed, to| {
        let (near, far) = ends(bed, to);
        let mine = memory(bed, 0, 1);
        let theirs = memory(bed, to, 1);
        register(bed, 0, near, fixed(mine, 0, 1)).unwrap();
        register(bed, to, far, fixed(theirs, 0, 1)).unwrap();
        let (own, peer) = (FenceFlags::INIT_SELF, FenceFlags::INIT_PEER);
        for initiator in [own, peer] {
            let flags = initiator.bits();
            let mark = call(bed, 0, near, Call::FenceMark { flags }).unwrap();
            let wait = Call::FenceWait { mark: mark as i32 };
            assert_eq!(call(bed, 0, near, wait), Ok(0));
        }
        let wait = |mark| Call::FenceWait { mark };
        assert_eq!(call(bed, 0, near, wait(-1)), error(EINVAL));
        assert_eq!(call(bed, 0, near, wait(12345)), error(EINVAL));
        for flags in [0, 3, 4, own.bits() | 16] {
            let mark = Call::FenceMark { flags };
            assert_eq!(call(bed, 0, near, mark), error(EINVAL));
        }
        let both = FenceFlags::SIGNAL_LOCAL | FenceFlags::SIGNAL_REMOTE;
        for (value, initiator) in [(10, own), (20, peer)] {
            let record = SignalRecord {
                local_offset: 8.into(),
                local_value: value.into(),
                remote_offset: 16.into(),
                remote_value: (value + 1).into(),
                flags: (initiator | both).bits().into(),
                reserved: 0.into(),
            };
            assert_eq!(call(bed, 0, near, Call::FenceSignal { record }), Ok(0));
            assert_eq!(bed.peek(0, mine.address + 8, 8), value.to_le_bytes());
            assert_eq!(
                bed.peek(to, theirs.address + 16, 8),
                (value + 1).to_le_bytes()
            );
            let table = [
                (
                    SignalRecord {
                        local_offset: 2.into(),
                        ..record
                    },
                    EINVAL,
                ),
                (
                    SignalRecord {
                        remote_offset: 5000.into(),
                        ..record
                    },
                    ENXIO,
                ),
                (
                    SignalRecord {
                        flags: initiator.bits().into(),
                        ..record
                    },
                    EINVAL,
                ),
            ];
            for (record, errno) in table {
                let found = call(bed, 0, near, Call::FenceSignal { record });
                assert_eq!(found, error(errno), "{record:?}");
            }
        }
    });
}

#[test]
fn waiting_calls_can_be_given_up() {
    on_both(|bed, to| {
        let (near, far) = ends(bed, to);
        let mine = memory(bed, 0, 64);
        let theirs = memory(bed, to, 64);
        register(bed, 0, near, fixed(mine, 0, 64)).unwrap();
        register(bed, to, far, fixed(theirs, 0, 64)).unwrap();
        let spare = memory(bed, 0, 1);
        let before = state(bed);
        let record = rma(0, 64 * PAGE, 0, SYNC);
        let register = record_of(spare);
        let calls = [
            op(near, Call::WriteTo { record }),
            op(near, Call::Register { record: register }),
            Op::Call {
                id: near,
                payload: vec![1; 64 * PAGE * 8],
                metadata: vec![Call::VIRTUAL_WRITE_TO, 0, 0],
            },
        ];
        for op in calls {
            let request = bed.submit_only(0, op.clone());
            if let Some((result, _)) = bed.answer(0, request) {
                // Longer than the windows are: answered at once.
                assert_eq!(result, error(ENXIO));
                continue;
            }
            assert_eq!(bed.cancel(0, request), error(ECANCELED), "{op:?}");
            // What cannot be undone runs to its end; then everything is as it was.
            assert_eq!(state(bed), before);
        }
        // The same with a payload that is moved in slices: given up after the first.
        let op = Op::Call {
            id: near,
            payload: vec![1; 64 * PAGE],
            metadata: vec![Call::VIRTUAL_WRITE_TO, 0, u64::from(RmaFlags::SYNC.bits())],
        };
        let request = bed.submit_only(0, op);
        if bed.is_kept(0, request) {
            assert_eq!(bed.cancel(0, request), error(ECANCELED));
        }
        assert_eq!(state(bed), before);
    });
}

fn record_of(memory: Memory) -> RegisterRecord {
    record(memory, PAGE, 3)
}

#[test]
fn waiting_calls_end_when_the_endpoint_is_shut_down() {
    on_both(|bed, to| {
        let (near, far) = ends(bed, to);
        let mine = memory(bed, 0, 64);
        let theirs = memory(bed, to, 64);
        register(bed, 0, near, fixed(mine, 0, 64)).unwrap();
        register(bed, to, far, fixed(theirs, 0, 64)).unwrap();
        let record = rma(0, 64 * PAGE, 0, SYNC);
        let transfer = bed.submit_only(0, op(near, Call::WriteTo { record }));
        let receive = bed.start_read(0, near, 10);
        if to == 1 {
            // The transfer ran meanwhile; another one waits now.
            assert!(bed.answer(0, transfer).is_some());
        }
        let transfer = bed.submit_only(0, op(near, Call::WriteTo { record }));
        let waits = bed.is_kept(0, transfer);
        let shut = bed.submit_only(0, op(near, Call::Shutdown));
        bed.run();
        assert_eq!(bed.answer(0, shut).unwrap().0, Ok(0));
        assert_eq!(bed.answer(0, receive).unwrap().0, error(EINTR));
        if waits {
            assert!(bed.answer(0, transfer).unwrap().0.is_err());
        }
        assert_eq!(bed.kept(0), 0);
        assert_eq!(bed.counter(0, "waiting"), 0);
        // A listener too.
        let listener = bed.open_with(0, "listen/2070", O_RDWR, USER).unwrap();
        let accept = bed.start_accept(0, listener);
        assert!(bed.is_kept(0, accept));
        assert_eq!(call(bed, 0, listener, Call::Shutdown), Ok(0));
        assert_eq!(bed.answer(0, accept).unwrap().0, error(EINTR));
        let again = bed.open_with(0, "listen/2070", O_RDWR, USER);
        assert!(again.is_ok(), "the port is free again");
        assert_eq!(call(bed, 0, listener, Call::LocalPort), error(EBADF));
    });
}

#[test]
fn pages_of_a_peer_for_drivers() {
    on_both(|bed, to| {
        let before = state(bed);
        let (near, far) = bed.pair(0, to, 2050);
        let theirs = memory_of(bed, to, 5, ADMIN);
        let mut wanted = fixed(theirs, 0x10000, 5);
        wanted.protection = 1.into();
        register(bed, to, far, wanted).unwrap();
        let get = |bed: &mut Bed, offset: u64, pages: usize, room: usize| {
            let metadata = [Call::GET_PAGES, offset, (pages * PAGE) as u64];
            bed.call(0, near, &vec![0xee; room], metadata)
        };
        let room = size_of::<PagesHeader>() + 5 * 8;
        let (result, payload) = get(bed, 0x10000, 5, room);
        assert_eq!(result, Ok(5));
        let (header, rest) = PagesHeader::read_from_prefix(&payload).unwrap();
        assert_eq!((header.pages.get(), header.protection.get()), (5, 1));
        let addresses: Vec<u64> = rest
            .chunks(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        // What the owner stores in its pages is at these addresses of its memory.
        for (page, address) in addresses.iter().enumerate() {
            bed.poke(to, theirs.address + page * PAGE, &[page as u8 + 1]);
            let offset = address - PHYSICAL * to as u64;
            assert_eq!(bed.raw(to, offset), page as u8 + 1);
        }
        assert_eq!(get(bed, 0x10000, 5, room - 1).0, error(EINVAL));
        assert_eq!(get(bed, 0x10000, 5, 3).0, error(EINVAL));
        assert_eq!(get(bed, 0x10000, 0, room).0, error(EINVAL));
        assert_eq!(get(bed, 0x10001, 1, room).0, error(EINVAL));
        assert_eq!(get(bed, 0x10000, 6, 2 * room).0, error(ENXIO));
        assert_eq!(get(bed, 0x20000, 1, room).0, error(ENXIO));
        let cookie = header.cookie.get();
        let put = |cookie| Call::PutPages { cookie };
        assert_eq!(call(bed, 0, near, put(cookie + 1)), error(EINVAL));
        let length = 5 * PAGE64;
        let offset = 0x10000;
        assert_eq!(
            call(bed, to, far, Call::Unregister { offset, length }),
            Ok(0)
        );
        assert_eq!(bed.counter(to, "windows"), 1);
        assert_eq!(call(bed, 0, near, put(cookie)), Ok(0));
        assert_eq!(bed.counter(to, "windows"), 0);
        assert_eq!(call(bed, 0, near, put(cookie)), error(EINVAL));

        let user = bed.open_with(0, "endpoint", O_RDWR, USER).unwrap();
        assert_eq!(call(bed, 0, user, put(1)), error(EACCES));
        let metadata = [Call::GET_PAGES, 0, PAGE64];
        assert_eq!(bed.call(0, user, &[0; 64], metadata).0, error(EACCES));
        for id in [user, near] {
            bed.close(0, id);
        }
        bed.close(to, far);
        forget(bed, to, theirs, 5);
        assert_eq!(state(bed), before);
    });
}

#[test]
fn offered_pages_are_registered_and_released() {
    let mut bed = Bed::new(2);
    let (near, far) = ends(&mut bed, 1);
    let theirs = memory(&mut bed, 1, 2);
    register(&mut bed, 1, far, fixed(theirs, 0, 2)).unwrap();
    // Pages of some program on node 0, which the helper offers.
    let program = memory(&mut bed, 0, 2);
    bed.poke(0, program.address, &pattern(2 * PAGE, 4));
    let view = bed.nodes[0].scif.engine().1.local(program.address);
    let lent = Rc::new(vec![Run {
        address: view,
        pages: 2,
    }]);
    let helper = bed.open_with(0, "memory", O_RDWR, ADMIN).unwrap();
    let offer = Op::Offer {
        id: helper,
        lent: lent.clone(),
        call: MemoryCall::Offer { owner: USER.uid },
    };
    let request = bed.submit(0, offer);
    let token = bed.call(0, helper, &[], memory_words(MemoryCall::Token));
    let token = token.0.unwrap() as u64;
    let offered = Memory { token, ..program };
    register(&mut bed, 0, near, fixed(offered, 0, 2)).unwrap();
    let record = rma(0, 2 * PAGE, 0, SYNC);
    assert_eq!(call(&mut bed, 0, near, Call::WriteTo { record }), Ok(0));
    let data = pattern(2 * PAGE, 4);
    assert_eq!(bed.peek(1, theirs.address, 2 * PAGE), data);
    // Memory that nobody maps through the daemon is never good for cached transfers.
    let cached = CachedRecord {
        memory: token.into(),
        length: 8.into(),
        ..CachedRecord::default()
    };
    let write = Call::CachedWriteTo { record: cached };
    assert_eq!(call(&mut bed, 0, near, write), error(EFAULT));
    // Given up: nothing new, but the window stays and so does the payload.
    let unpin = memory_words(MemoryCall::Unpin { token });
    let other = bed.open_with(0, "memory", O_RDWR, ADMIN).unwrap();
    assert_eq!(bed.call(0, other, &[], unpin).0, Ok(0));
    assert!(bed.is_kept(0, request));
    let again = fixed(offered, 0x10000, 1);
    assert_eq!(register(&mut bed, 0, near, again), error(EFAULT));
    assert_eq!(call(&mut bed, 0, near, Call::WriteTo { record }), Ok(0));
    bed.close(0, near);
    assert_eq!(bed.answer(0, request).unwrap().0, Ok(0));
    assert_eq!(Rc::strong_count(&lent), 1);
}

#[test]
fn losing_the_node_ends_everything_but_the_mapping() {
    let mut bed = Bed::new(3);
    let before = [bed.counter(0, "windows"), bed.counter(0, "memory_pages")];
    let (near, far) = ends(&mut bed, 1);
    let mine = memory(&mut bed, 0, 64);
    let theirs = memory(&mut bed, 1, 64);
    register(&mut bed, 0, near, fixed(mine, 0, 64)).unwrap();
    register(&mut bed, 1, far, fixed(theirs, 0, 64)).unwrap();
    bed.map(0, near, 0, PAGE, shared(READ_WRITE)).unwrap();
    let record = rma(0, 64 * PAGE, 0, SYNC);
    let request = bed.submit_only(0, op(near, Call::WriteTo { record }));
    let peers = bed.open_with(0, "peers", O_RDONLY, USER).unwrap();
    assert_eq!(
        bed.read(0, peers, 100),
        Ok(b"added 0\nadded 1\nadded 2\n".to_vec())
    );
    let waiting = bed.start_read(0, peers, 100);
    assert!(bed.is_kept(0, waiting));
    bed.lose(1);
    assert!(bed.answer(0, request).is_some());
    let (result, bytes) = bed.answer(0, waiting).unwrap();
    assert_eq!((result, &bytes[..10]), (Ok(10), &b"removed 1\n"[..]));
    let record = rma(0, 8, 0, 0);
    let found = call(&mut bed, 0, near, Call::WriteTo { record });
    assert!(
        found == error(ECONNRESET) || found == error(ENODEV),
        "{found:?}"
    );
    bed.unmap(0, near, 0, PAGE).unwrap();
    bed.close(0, near);
    forget(&mut bed, 0, mine, 64);
    assert_eq!(
        [bed.counter(0, "windows"), bed.counter(0, "memory_pages")],
        before
    );
    assert_eq!(bed.counter(0, "mapped_pages"), 0);
}
