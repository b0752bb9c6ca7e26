//! Registered memory on two nodes and within one: registering, transfers, fences, and that nothing
//! is left behind.

use std::rc::Rc;

use scif_abi::call::{CachedRecord, Call, RegisterRecord, SignalRecord};
use scif_abi::codec::Operation;
use scif_abi::flags::{FenceFlags, RmaFlags};
use scif_core::{Resource, Scope};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDWR};

use super::fixture::{Fixture, Op, PAGE, USER};
use super::memory::shared;
use super::own_pages::{own, pin, space};
use super::programs::*;
use crate::Caller;

#[test]
fn data_goes_both_ways_and_nothing_is_left() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 10);
        let theirs = memory(fixture, to, 10);
        let local = register(fixture, 0, near, record(mine, 10 * PAGE, 3)).unwrap() as u64;
        let remote = register(fixture, to, far, record(theirs, 10 * PAGE, 3)).unwrap() as u64;
        assert!(fixture.text(0, "windows").contains("registered"));
        assert_eq!(
            fixture.counter(0, "pinned_pages"),
            if to == 0 { 20 } else { 10 }
        );
        let data = pattern(10 * PAGE, 1);
        fixture.poke(0, mine.address, &data);

        let copied = fixture.counter(0, "rma_bytes_cpu");
        let record = rma(local, 10 * PAGE, remote, SYNC);
        assert_eq!(call(fixture, 0, near, Call::WriteTo { record }), Ok(0));
        assert_eq!(fixture.peek(to, theirs.address, 10 * PAGE), data);
        assert_eq!(fixture.counter(0, "rma_bytes_cpu") - copied, 10 * PAGE64);

        fixture.poke(to, theirs.address, &pattern(10 * PAGE, 2));
        let record = rma(local + 3, 5000, remote + 4095, SYNC);
        assert_eq!(call(fixture, 0, near, Call::ReadFrom { record }), Ok(0));
        assert_eq!(
            fixture.peek(0, mine.address + 3, 5000),
            pattern(10 * PAGE, 2)[4095..9095]
        );
        assert_eq!(fixture.peek(0, mine.address, 3), data[..3]);
        assert_eq!(fixture.peek(0, mine.address + 5003, 9), data[5003..5012]);

        // The data is beside the call and is moved in several steps.
        let [first, second] = Call::VirtualWriteTo {
            remote_offset: remote as i64 + 7,
            flags: 0,
        }
        .words();
        let bytes = pattern(9 * PAGE + 11, 5);
        let words = [Call::VIRTUAL_WRITE_TO, first, second];
        assert_eq!(fixture.call(0, near, &bytes, words).0, Ok(0));
        assert_eq!(fixture.peek(to, theirs.address + 7, bytes.len()), bytes);
        let words = [Call::VIRTUAL_READ_FROM, first, second];
        let (result, found) = fixture.call(0, near, &vec![0; bytes.len()], words);
        assert_eq!((result, found == bytes), (Ok(0), true));

        let length = 10 * PAGE64;
        let offset = local as i64;
        let unregister = Call::Unregister { offset, length };
        assert_eq!(call(fixture, 0, near, unregister), Ok(0));
        assert_eq!(call(fixture, 0, near, unregister), error(ENXIO));
        assert_eq!(
            fixture.counter(0, "pinned_pages"),
            if to == 0 { 10 } else { 0 }
        );
        fixture.close(0, near);
        fixture.close(to, far);
        forget(fixture, 0, mine, 10);
        forget(fixture, to, theirs, 10);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn memory_is_for_its_user_and_root() {
    let mut fixture = Fixture::new(2);
    let (near, _) = ends(&mut fixture, 1);
    let stranger = Caller { uid: 1234, ..USER };
    let theirs = memory_of(&mut fixture, 0, 2, stranger);
    let own = memory(&mut fixture, 0, 2);
    let foreign = register(&mut fixture, 0, near, record(theirs, PAGE, 3));
    assert_eq!(foreign, error(EFAULT));
    assert!(register(&mut fixture, 0, near, record(own, PAGE, 3)).is_ok());
    let (root, _) = fixture.pair(0, 1, 2060);
    assert!(register(&mut fixture, 0, root, record(theirs, PAGE, 3)).is_ok());
    // Registered memory stays when its maker closes it; nothing new can be made of it.
    forget(&mut fixture, 0, theirs, 2);
    assert_eq!(
        register(&mut fixture, 0, root, record(theirs, PAGE, 3)),
        error(EFAULT)
    );
    assert_eq!(fixture.counter(0, "memory_objects"), 2);
    fixture.close(0, root);
    assert_eq!(fixture.counter(0, "memory_objects"), 1);
}

#[test]
fn pages_that_were_unmapped_are_not_registered() {
    let mut fixture = Fixture::new(2);
    let (near, _) = ends(&mut fixture, 1);
    let own = memory(&mut fixture, 0, 4);
    let before = state(&mut fixture);
    // The program maps something else in place of its last page.
    fixture.unmap(0, own.id, 3 * PAGE64, PAGE).unwrap();
    let whole = record(own, 4 * PAGE, 3);
    assert_eq!(register(&mut fixture, 0, near, whole), error(EFAULT));
    assert_eq!(state(&mut fixture), before);
    assert!(register(&mut fixture, 0, near, record(own, 3 * PAGE, 3)).is_ok());
}

#[test]
fn bad_registrations_leave_no_trace() {
    let mut fixture = Fixture::new(2);
    let (near, far) = ends(&mut fixture, 1);
    let own = memory(&mut fixture, 0, 4);
    let before = state(&mut fixture);
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
            register(&mut fixture, 0, near, record),
            error(errno),
            "{record:?}"
        );
        assert_eq!(state(&mut fixture), before);
    }
    // Not connected, and no longer connected.
    let fresh = fixture.open_with(0, "endpoint", O_RDWR, USER).unwrap();
    assert_eq!(register(&mut fixture, 0, fresh, good), error(ENOTCONN));
    // Arguments are checked first, then the state, then whether there is such memory.
    for (record, errno) in table {
        let expected = if errno == EINVAL { EINVAL } else { ENOTCONN };
        let found = register(&mut fixture, 0, fresh, record);
        assert_eq!(found, error(expected), "{record:?}");
    }
    fixture.close(0, fresh);
    // At the limit.
    fixture.nodes[0]
        .scif
        .engine()
        .0
        .set_limit(Resource::Pages, Scope::User, 1);
    let two = record(own, 2 * PAGE, 3);
    assert_eq!(register(&mut fixture, 0, near, two), error(EAGAIN));
    assert_eq!(state(&mut fixture), before);
    fixture.close(1, far);
    assert_eq!(register(&mut fixture, 0, near, good), error(ECONNRESET));
    fixture.close(0, near);
    forget(&mut fixture, 0, own, 4);
    assert_eq!(fixture.counter(0, "memory_pages"), 0);
}

#[test]
fn transfers_are_checked() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 2);
        let theirs = memory(fixture, to, 2);
        let first = fixed(mine, 0x10000, 1);
        register(fixture, 0, near, first).unwrap();
        register(fixture, to, far, fixed(theirs, 0x20000, 1)).unwrap();
        let write_only = RegisterRecord {
            memory_offset: PAGE64.into(),
            protection: 2.into(),
            ..fixed(theirs, 0x21000, 1)
        };
        register(fixture, to, far, write_only).unwrap();
        assert_eq!(register(fixture, 0, near, first), error(EADDRINUSE));
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
            let found = call(fixture, 0, near, Call::ReadFrom { record });
            assert_eq!(found, expected(read), "{record:?}");
            let found = call(fixture, 0, near, Call::WriteTo { record });
            assert_eq!(found, expected(write), "{record:?}");
        }
        let mut virtually = |length: usize, remote: i64, flags: u32| {
            let words = [Call::VIRTUAL_READ_FROM, remote as u64, u64::from(flags)];
            fixture.call(0, near, &vec![0; length], words).0
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
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 6);
        let theirs = memory(fixture, to, 6);
        register(fixture, to, far, fixed(theirs, 0, 6)).unwrap();
        fixture.poke(0, mine.address, &pattern(6 * PAGE, 3));
        let record = |memory: Memory, offset: usize, length: usize| CachedRecord {
            memory: memory.token.into(),
            memory_offset: (offset as u64).into(),
            length: (length as u64).into(),
            remote_offset: 100.into(),
            flags: SYNC.into(),
            reserved: 0.into(),
        };
        let write = |fixture: &mut Fixture, offset, length| {
            let record = record(mine, offset, length);
            call(fixture, 0, near, Call::CachedWriteTo { record })
        };
        let uses = "memory_objects";
        assert_eq!(write(fixture, 5, 5 * PAGE), Ok(0));
        let data = pattern(6 * PAGE, 3);
        assert_eq!(
            fixture.peek(to, theirs.address + 100, 5 * PAGE),
            data[5..5 + 5 * PAGE]
        );
        let back = record(mine, 9000, 3000);
        assert_eq!(
            call(fixture, 0, near, Call::CachedReadFrom { record: back }),
            Ok(0)
        );
        assert_eq!(fixture.peek(0, mine.address + 9000, 3000), data[5..3005]);
        assert_eq!(write(fixture, 0, 0), error(EINVAL));
        // The peer's range goes before the caller's memory.
        assert_eq!(write(fixture, 0, 6 * PAGE + 1), error(ENXIO));
        assert_eq!(write(fixture, usize::MAX, 2), error(EFAULT));
        let foreign = Memory { token: 999, ..mine };
        let unknown = Call::CachedWriteTo {
            record: record(foreign, 0, 1),
        };
        assert_eq!(call(fixture, 0, near, unknown), error(EFAULT));
        // The program maps something else in place of two pages.
        fixture.unmap(0, mine.id, 2 * PAGE64, 2 * PAGE).unwrap();
        assert_eq!(write(fixture, 0, 2 * PAGE), Ok(0));
        assert_eq!(write(fixture, 0, 2 * PAGE + 1), error(EFAULT));
        assert_eq!(write(fixture, 3 * PAGE, 5), error(EFAULT));
        assert_eq!(write(fixture, 4 * PAGE, 2 * PAGE), Ok(0));
        let flags = shared(MapFlags::PROT_READ);
        fixture
            .map(0, mine.id, 2 * PAGE64, 2 * PAGE, flags)
            .unwrap();
        assert_eq!(write(fixture, 0, 5 * PAGE), Ok(0));
        // None of this leaves a use behind.
        fixture.close(0, near);
        fixture.close(to, far);
        for _ in 0..2 {
            fixture.unmap(0, mine.id, 0, 6 * PAGE).unwrap();
        }
        fixture.close(0, mine.id);
        forget(fixture, to, theirs, 6);
        assert_eq!(fixture.counter(0, uses), 0);
    });
}

#[test]
fn fences() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 1);
        let theirs = memory(fixture, to, 1);
        register(fixture, 0, near, fixed(mine, 0, 1)).unwrap();
        register(fixture, to, far, fixed(theirs, 0, 1)).unwrap();
        let (own, peer) = (FenceFlags::INIT_SELF, FenceFlags::INIT_PEER);
        for initiator in [own, peer] {
            let flags = initiator.bits();
            let mark = call(fixture, 0, near, Call::FenceMark { flags }).unwrap();
            let wait = Call::FenceWait { mark: mark as i32 };
            assert_eq!(call(fixture, 0, near, wait), Ok(0));
        }
        let wait = |mark| Call::FenceWait { mark };
        assert_eq!(call(fixture, 0, near, wait(-1)), error(EINVAL));
        assert_eq!(call(fixture, 0, near, wait(12345)), error(EINVAL));
        for flags in [0, 3, 4, own.bits() | 16] {
            let mark = Call::FenceMark { flags };
            assert_eq!(call(fixture, 0, near, mark), error(EINVAL));
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
            assert_eq!(call(fixture, 0, near, Call::FenceSignal { record }), Ok(0));
            assert_eq!(fixture.peek(0, mine.address + 8, 8), value.to_le_bytes());
            assert_eq!(
                fixture.peek(to, theirs.address + 16, 8),
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
                let found = call(fixture, 0, near, Call::FenceSignal { record });
                assert_eq!(found, error(errno), "{record:?}");
            }
        }
    });
}

#[test]
fn waiting_calls_can_be_given_up() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 64);
        let theirs = memory(fixture, to, 64);
        register(fixture, 0, near, fixed(mine, 0, 64)).unwrap();
        register(fixture, to, far, fixed(theirs, 0, 64)).unwrap();
        let spare = memory(fixture, 0, 1);
        let before = state(fixture);
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
            let request = fixture.submit_only(0, op.clone());
            if let Some((result, _)) = fixture.answer(0, request) {
                // Longer than the windows are: answered at once.
                assert_eq!(result, error(ENXIO));
                continue;
            }
            assert_eq!(fixture.cancel(0, request), error(ECANCELED), "{op:?}");
            // A request that cannot be undone runs to its end; then everything is as it was.
            assert_eq!(state(fixture), before);
        }
        // A payload that is moved in slices, given up after the first.
        let op = Op::Call {
            id: near,
            payload: vec![1; 64 * PAGE],
            metadata: vec![Call::VIRTUAL_WRITE_TO, 0, u64::from(RmaFlags::SYNC.bits())],
        };
        let request = fixture.submit_only(0, op);
        if fixture.is_kept(0, request) {
            assert_eq!(fixture.cancel(0, request), error(ECANCELED));
        }
        assert_eq!(state(fixture), before);
    });
}

fn record_of(memory: Memory) -> RegisterRecord {
    record(memory, PAGE, 3)
}

#[test]
fn waiting_calls_end_when_the_endpoint_is_shut_down() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 64);
        let theirs = memory(fixture, to, 64);
        register(fixture, 0, near, fixed(mine, 0, 64)).unwrap();
        register(fixture, to, far, fixed(theirs, 0, 64)).unwrap();
        let record = rma(0, 64 * PAGE, 0, SYNC);
        let transfer = fixture.submit_only(0, op(near, Call::WriteTo { record }));
        let receive = fixture.start_read(0, near, 10);
        if to == 1 {
            // The transfer has run meanwhile; another one waits now.
            assert!(fixture.answer(0, transfer).is_some());
        }
        let transfer = fixture.submit_only(0, op(near, Call::WriteTo { record }));
        let waits = fixture.is_kept(0, transfer);
        let shut = fixture.submit_only(0, op(near, Call::Shutdown));
        fixture.run();
        assert_eq!(fixture.answer(0, shut).unwrap().0, Ok(0));
        assert_eq!(fixture.answer(0, receive).unwrap().0, error(ECANCELED));
        if waits {
            assert!(fixture.answer(0, transfer).unwrap().0.is_err());
        }
        assert_eq!(fixture.kept(0), 0);
        assert_eq!(fixture.counter(0, "waiting"), 0);
        // A listener too.
        let listener = fixture.open_with(0, "listen/2070", O_RDWR, USER).unwrap();
        let accept = fixture.start_accept(0, listener);
        assert!(fixture.is_kept(0, accept));
        assert_eq!(call(fixture, 0, listener, Call::Shutdown), Ok(0));
        assert_eq!(fixture.answer(0, accept).unwrap().0, error(ECANCELED));
        let again = fixture.open_with(0, "listen/2070", O_RDWR, USER);
        assert!(again.is_ok(), "the port is free again");
        assert_eq!(call(fixture, 0, listener, Call::LocalPort), error(EBADF));
    });
}

#[test]
fn pinned_pages_are_registered_and_released() {
    let mut fixture = Fixture::new(2);
    let (near, far) = ends(&mut fixture, 1);
    let theirs = memory(&mut fixture, 1, 2);
    register(&mut fixture, 1, far, fixed(theirs, 0, 2)).unwrap();
    // Pages of a program on node 0.
    let program = memory(&mut fixture, 0, 2);
    fixture.poke(0, program.address, &pattern(2 * PAGE, 4));
    let view = fixture.nodes[0].scif.engine().1.local(program.address);
    let pages = space(&[(view, 2)]);
    let pinned = |fixture: &mut Fixture, protection| {
        let id = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
        let token = pin(fixture, id, &pages, own(2, protection)).unwrap() as u64;
        Memory {
            id,
            token,
            ..program
        }
    };
    let mine = pinned(&mut fixture, 3);
    register(&mut fixture, 0, near, fixed(mine, 0, 2)).unwrap();
    let record = rma(0, 2 * PAGE, 0, SYNC);
    assert_eq!(call(&mut fixture, 0, near, Call::WriteTo { record }), Ok(0));
    let data = pattern(2 * PAGE, 4);
    assert_eq!(fixture.peek(1, theirs.address, 2 * PAGE), data);
    let cached = |memory: Memory, offset: u64| CachedRecord {
        memory: memory.token.into(),
        memory_offset: offset.into(),
        length: 8.into(),
        ..CachedRecord::default()
    };
    let record = cached(mine, 5);
    let write = Call::CachedWriteTo { record };
    assert_eq!(call(&mut fixture, 0, near, write), Ok(0));
    assert_eq!(fixture.peek(1, theirs.address, 8), data[5..13]);
    // Pages pinned for reading are not written, by windows or by transfers.
    let constant = pinned(&mut fixture, 1);
    let writable = fixed(constant, 0x20000, 2);
    assert_eq!(register(&mut fixture, 0, near, writable), error(EFAULT));
    let record = cached(constant, 0);
    let read = Call::CachedReadFrom { record };
    assert_eq!(call(&mut fixture, 0, near, read), error(EFAULT));
    let write = Call::CachedWriteTo { record };
    assert_eq!(call(&mut fixture, 0, near, write), Ok(0));
    let mut readable = fixed(constant, 0x20000, 2);
    readable.protection = 1.into();
    assert!(register(&mut fixture, 0, near, readable).is_ok());
    fixture.close(0, constant.id);
    // The object is given up: nothing new, but the window and the pages stay.
    fixture.close(0, mine.id);
    let again = fixed(mine, 0x10000, 1);
    assert_eq!(register(&mut fixture, 0, near, again), error(EFAULT));
    let record = rma(0, 2 * PAGE, 0, SYNC);
    assert_eq!(call(&mut fixture, 0, near, Call::WriteTo { record }), Ok(0));
    assert_eq!(fixture.text(0, "pins").lines().count(), 3);
    fixture.close(0, near);
    assert_eq!(fixture.text(0, "pins").lines().count(), 1);
    assert_eq!(Rc::strong_count(&pages), 1);
}
