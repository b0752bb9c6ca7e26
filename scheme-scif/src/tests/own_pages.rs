//! Pages of a program's own: as the object of a memory handle, and as a window in one request.

use std::rc::Rc;

use scif_abi::call::{Call, MemoryCall, OwnRecord, OwnTransferRecord, PinRecord};
use scif_abi::codec::Operation;
use scif_core::{Resource, Run, Scope};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDWR};

use super::fixture::{Fixture, LATE, Op, PAGE, Space, USER};
use super::memory::{shared, words as memory_words};
use super::programs::*;
use crate::HandleId;

/// The number by which the tests name their spaces.
const NUMBER: u64 = 5;

/// An address space whose pages are these.
pub fn space(runs: &[(u64, u32)]) -> Space {
    let run = |&(address, pages)| Run { address, pages };
    Rc::new(runs.iter().map(run).collect())
}

/// A record that pins this number of pages.
pub fn own(pages: u64, protection: u32) -> PinRecord {
    PinRecord {
        space: NUMBER.into(),
        address: 0x40_0000.into(),
        length: (pages * PAGE64).into(),
        protection: protection.into(),
        flags: 0.into(),
    }
}

/// A record that registers this number of pages.
fn own_window(pages: u64, protection: u32) -> OwnRecord {
    OwnRecord {
        space: NUMBER.into(),
        address: 0x40_0000.into(),
        length: (pages * PAGE64).into(),
        offset: 0.into(),
        protection: protection.into(),
        flags: 0.into(),
    }
}

fn send(fixture: &mut Fixture, id: HandleId, space: &Space) -> Result<usize> {
    let (word, space) = (NUMBER, space.clone());
    fixture.now(0, Op::Send { id, word, space }).0
}

fn pinning(id: HandleId, record: PinRecord) -> Op {
    let call = MemoryCall::Pin { record };
    let (payload, metadata) = (call.payload().to_vec(), memory_words(call).to_vec());
    Op::Call {
        id,
        payload,
        metadata,
    }
}

/// Sends a program's space over a handle and pins pages of it.
#[track_caller]
pub fn pin(fixture: &mut Fixture, id: HandleId, space: &Space, record: PinRecord) -> Result<usize> {
    send(fixture, id, space)?;
    fixture.now(0, pinning(id, record)).0
}

fn register_own(
    fixture: &mut Fixture,
    id: HandleId,
    space: &Space,
    record: OwnRecord,
) -> Result<usize> {
    send(fixture, id, space)?;
    call(fixture, 0, id, Call::RegisterOwn { record })
}

#[track_caller]
fn unregister(
    fixture: &mut Fixture,
    node: usize,
    id: HandleId,
    offset: u64,
    pages: u64,
) -> Result<usize> {
    let (offset, length) = (offset as i64, pages * PAGE64);
    call(fixture, node, id, Call::Unregister { offset, length })
}

fn set_limit(fixture: &mut Fixture, pages: u64) {
    let engine = fixture.nodes[0].scif.engine().0;
    engine.set_limit(Resource::Pages, Scope::User, pages);
}

fn released(fixture: &mut Fixture) -> u32 {
    fixture.nodes[0].scif.engine().1.released_spaces
}

#[test]
fn pinned_pages_last_as_long_as_their_handle() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let pages = space(&[(0x10_0000, 2), (0x20_0000, 1)]);
    assert!(pin(&mut fixture, memory, &pages, own(3, 1)).is_ok());
    assert_eq!(fixture.counter(0, "memory_pages"), 3);
    assert!(fixture.text(0, "pins").contains("1000  77   3      0\n"));
    // Their owner already maps them.
    let flags = shared(MapFlags::PROT_READ);
    assert_eq!(fixture.map(0, memory, 0, PAGE, flags), error(EACCES));
    assert_eq!(pin(&mut fixture, memory, &pages, own(3, 1)), error(EINVAL));
    // Only the test keeps the space.
    fixture.close(0, memory);
    assert_eq!(Rc::strong_count(&pages), 1);
    assert_eq!(state(&mut fixture), before);
    assert_eq!(fixture.text(0, "pins").lines().count(), 1);
}

#[test]
fn a_pin_may_wait_and_be_given_up_meanwhile() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let pages = space(&[(LATE, 1), (LATE, 1), (0x10_0000, 2)]);
    for is_cancelled in [false, true] {
        let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
        assert_eq!(send(&mut fixture, memory, &pages), Ok(0));
        let request = fixture.submit_only(0, pinning(memory, own(2, 3)));
        assert!(fixture.is_kept(0, request));
        // The loop need not continue by itself: the thread at work wakes it.
        assert!(!fixture.nodes[0].scif.is_busy());
        if is_cancelled {
            assert_eq!(fixture.cancel(0, request), error(ECANCELED));
        } else {
            assert_eq!(fixture.text(0, "pins").lines().count(), 1);
            fixture.run();
            assert!(fixture.answer(0, request).unwrap().0.is_ok());
            assert_eq!(fixture.text(0, "pins").lines().count(), 2);
        }
        fixture.close(0, memory);
        assert_eq!(state(&mut fixture), before);
    }
    assert_eq!(Rc::strong_count(&pages), 1);
}

/// The task that serves the scheme must not drop the last reference to an address space, so it
/// gives every reference back to the memory.
#[test]
fn a_space_is_kept_for_its_number_until_its_handle_goes_or_it_is_idle() {
    let mut fixture = Fixture::new(1);
    let pages = space(&[(0x10_0000, 1)]);
    let (near, far) = fixture.pair(0, 0, 2050);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let again = |fixture: &mut Fixture, record| {
        let request = fixture.now(0, pinning(memory, record)).0;
        request.map(drop)
    };
    assert_eq!(again(&mut fixture, own(1, 1)), error(ESRCH));
    assert_eq!(send(&mut fixture, near, &pages), Ok(0));
    let other_number = PinRecord {
        space: (NUMBER + 1).into(),
        ..own(1, 1)
    };
    assert_eq!(again(&mut fixture, other_number), error(ESRCH));
    assert_eq!(released(&mut fixture), 0);
    // Another process has a number of its own, though it may be the same.
    let scif = &mut fixture.nodes[0].scif;
    let strange = space(&[(0x20_0000, 1)]);
    assert_eq!(scif.take_space(near, 78, NUMBER, strange.clone()), Ok(0));
    assert_eq!(Rc::strong_count(&pages), 2);
    // Another space replaces it, over any handle.
    assert_eq!(send(&mut fixture, far, &pages), Ok(0));
    assert_eq!(released(&mut fixture), 1);
    fixture.close(0, near);
    assert_eq!(released(&mut fixture), 2);
    assert_eq!(Rc::strong_count(&strange), 1);
    assert!(fixture.nodes[0].scif.holds_spaces());
    fixture.close(0, far);
    assert_eq!(released(&mut fixture), 3);
    assert_eq!(again(&mut fixture, own(1, 1)), error(ESRCH));
    // It stays as long as it is used.
    assert_eq!(send(&mut fixture, memory, &pages), Ok(0));
    fixture.nodes[0].scif.release_idle_spaces();
    assert_eq!(again(&mut fixture, own(1, 1)), Ok(()));
    fixture.nodes[0].scif.release_idle_spaces();
    assert_eq!(released(&mut fixture), 3);
    fixture.nodes[0].scif.release_idle_spaces();
    assert_eq!(released(&mut fixture), 4);
    assert!(!fixture.nodes[0].scif.holds_spaces());
    // Over a handle of another kind, and over none.
    let limits = fixture.open(0, "limits").unwrap();
    assert_eq!(send(&mut fixture, limits, &pages), error(ENOTTY));
    assert_eq!(send(&mut fixture, 9999, &pages), error(EBADF));
    assert_eq!(released(&mut fixture), 6);
    fixture.close(0, memory);
    assert_eq!(Rc::strong_count(&pages), 1);
}

#[test]
fn what_is_pinned_is_checked() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let pages = space(&[(0x10_0000, 2)]);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let good = own(2, 3);
    let with = |change: &dyn Fn(&mut PinRecord)| {
        let mut record = good;
        change(&mut record);
        record
    };
    let table = [
        (with(&|record| record.length = 0.into()), EINVAL),
        (with(&|record| record.length = 100.into()), EINVAL),
        (with(&|record| record.address = 1.into()), EINVAL),
        (with(&|record| record.protection = 0.into()), EINVAL),
        (with(&|record| record.protection = 4.into()), EINVAL),
        (with(&|record| record.flags = 2.into()), EINVAL),
        (
            with(&|record| record.flags = PinRecord::UNCHARGED.into()),
            EPERM,
        ),
        (with(&|record| record.length = (1 << 63).into()), EAGAIN),
        // The space has only two pages.
        (own(3, 3), EFAULT),
    ];
    for (record, errno) in table {
        let result = pin(&mut fixture, memory, &pages, record);
        assert_eq!(result, error(errno), "{record:?}");
    }
    // A page that is not there and is found late.
    let hole = space(&[(0x10_0000, 2), (u64::MAX, 1)]);
    assert_eq!(pin(&mut fixture, memory, &hole, own(3, 3)), error(EFAULT));
    // Its owner's limit counts.
    set_limit(&mut fixture, 1);
    assert_eq!(pin(&mut fixture, memory, &pages, good), error(EAGAIN));
    set_limit(&mut fixture, 2);
    assert!(pin(&mut fixture, memory, &pages, good).is_ok());
    // An object that was made in another way.
    let other = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    set_limit(&mut fixture, 4);
    let provide = memory_words(MemoryCall::Provide { pages: 1 });
    assert!(fixture.call(0, other, &[], provide).0.is_ok());
    assert_eq!(pin(&mut fixture, other, &pages, good), error(EINVAL));
    fixture.close(0, other);
    fixture.close(0, memory);
    assert_eq!(Rc::strong_count(&pages), 1);
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn a_window_of_own_pages_is_made_by_one_request() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        // The program's pages are memory that the test can see.
        let program = memory(fixture, 0, 3);
        let view = fixture.nodes[0].scif.engine().1.local(program.address);
        let (idle, objects) = (state(fixture), fixture.counter(0, "memory_objects"));
        for late in [false, true] {
            let mut runs = vec![(view, 3)];
            if late {
                runs.insert(0, (LATE, 1));
            }
            let pages = space(&runs);
            let offset = register_own(fixture, near, &pages, own_window(3, 3)).unwrap() as u64;
            assert_eq!(fixture.counter(0, "memory_objects"), objects + 1);

            let theirs = memory(fixture, to, 3);
            let remote = register(fixture, to, far, record(theirs, 3 * PAGE, 3)).unwrap() as u64;
            let data = pattern(3 * PAGE, 5);
            fixture.poke(0, program.address, &data);
            let copy = rma(remote, 3 * PAGE, offset, SYNC);
            assert_eq!(
                call(fixture, to, far, Call::ReadFrom { record: copy }),
                Ok(0)
            );
            assert_eq!(fixture.peek(to, theirs.address, 3 * PAGE), data);
            unregister(fixture, to, far, remote, 3).unwrap();
            forget(fixture, to, theirs, 3);

            unregister(fixture, 0, near, offset, 3).unwrap();
            fixture.run();
            assert_eq!(state(fixture), idle);
        }
        // Of pages that may only be read.
        let offset = register_own(fixture, near, &space(&[(view, 3)]), own_window(3, 1));
        let offset = offset.unwrap() as u64;
        let into = memory(fixture, to, 3);
        let from = register(fixture, to, far, record(into, 3 * PAGE, 3)).unwrap() as u64;
        let record = rma(from, 3 * PAGE, offset, SYNC);
        assert_eq!(call(fixture, to, far, Call::ReadFrom { record }), Ok(0));
        assert_eq!(
            call(fixture, to, far, Call::WriteTo { record }),
            error(EACCES)
        );
        fixture.close(0, near);
        fixture.close(to, far);
        forget(fixture, to, into, 3);
        forget(fixture, 0, program, 3);
        fixture.run();
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn a_window_of_own_pages_is_refused_as_register_refuses_it() {
    let mut fixture = Fixture::new(2);
    let before = state(&mut fixture);
    let pages = space(&[(0x10_0000, 2)]);
    let good = own_window(2, 3);
    let unbound = fixture.open(0, "endpoint").unwrap();
    let (near, far) = ends(&mut fixture, 1);
    let with = |change: &dyn Fn(&mut OwnRecord)| {
        let mut record = good;
        change(&mut record);
        record
    };
    let fixed = |offset: i64| OwnRecord {
        offset: offset.into(),
        flags: FIXED.into(),
        ..good
    };
    let taken = register_own(&mut fixture, near, &pages, fixed(0x8000));
    assert_eq!(taken, Ok(0x8000));
    let other_space = with(&|record| record.space = (NUMBER + 1).into());
    let table = [
        // Bad arguments, then the endpoint's state, then the address.
        (unbound, with(&|record| record.length = 0.into()), EINVAL),
        (unbound, fixed(1), EINVAL),
        (unbound, fixed(i64::MAX - 4095), EINVAL),
        (unbound, good, ENOTCONN),
        (unbound, other_space, ENOTCONN),
        (near, other_space, ESRCH),
        (near, with(&|record| record.length = 9.into()), EINVAL),
        (near, with(&|record| record.address = 9.into()), EINVAL),
        (near, with(&|record| record.protection = 0.into()), EINVAL),
        (near, with(&|record| record.protection = 4.into()), EINVAL),
        (near, with(&|record| record.flags = 1.into()), EINVAL),
        (near, with(&|record| record.offset = (-4096).into()), EINVAL),
        (near, fixed(1), EINVAL),
        (near, fixed(0x9000), EADDRINUSE),
        (near, own_window(3, 3), EFAULT),
        (near, own_window(1 << 40, 3), EAGAIN),
    ];
    for (id, record, errno) in table {
        let result = register_own(&mut fixture, id, &pages, record);
        assert_eq!(result, error(errno), "{record:?}");
    }
    assert_eq!(fixture.counter(0, "memory_objects"), 1);
    fixture.close(1, far);
    fixture.run();
    assert_eq!(
        register_own(&mut fixture, near, &pages, good),
        error(ECONNRESET)
    );
    fixture.close(0, near);
    fixture.close(0, unbound);
    assert_eq!(state(&mut fixture), before);
    assert_eq!(Rc::strong_count(&pages), 1);
}

/// A transfer of this many bytes from the fifth byte of the program's pages on.
fn own_transfer(bytes: usize, remote: u64) -> OwnTransferRecord {
    OwnTransferRecord {
        space: NUMBER.into(),
        address: 0x40_0005.into(),
        length: (bytes as u64).into(),
        remote_offset: (remote as i64).into(),
        flags: SYNC.into(),
        reserved: 0.into(),
    }
}

#[test]
fn own_memory_is_copied_from_and_to_by_one_request() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let program = memory(fixture, 0, 3);
        let view = fixture.nodes[0].scif.engine().1.local(program.address);
        let theirs = memory(fixture, to, 3);
        let remote = register(fixture, to, far, record(theirs, 3 * PAGE, 3)).unwrap() as u64;
        let idle = state(fixture);
        for (late, bytes) in [(0, 10), (1, 2 * PAGE + 100), (1, 3 * PAGE - 5)] {
            let pages = (bytes + 5).div_ceil(PAGE) as u32;
            let mut runs = vec![(LATE, 1); late];
            runs.push((view, pages));
            let pages = space(&runs);
            let record = own_transfer(bytes, remote);
            let data = pattern(3 * PAGE, bytes);
            fixture.poke(to, theirs.address, &data);
            fixture.poke(0, program.address, &vec![7; 3 * PAGE]);
            send(fixture, near, &pages).unwrap();
            let read = Call::OwnReadFrom { record };
            assert_eq!(call(fixture, 0, near, read), Ok(0));
            let mut wanted = vec![7; 3 * PAGE];
            wanted[5..5 + bytes].copy_from_slice(&data[..bytes]);
            assert_eq!(fixture.peek(0, program.address, 3 * PAGE), wanted);

            let back = pattern(3 * PAGE, bytes + 1);
            fixture.poke(0, program.address, &back);
            send(fixture, near, &pages).unwrap();
            let write = Call::OwnWriteTo { record };
            assert_eq!(call(fixture, 0, near, write), Ok(0));
            let mut wanted = data;
            wanted[..bytes].copy_from_slice(&back[5..5 + bytes]);
            assert_eq!(fixture.peek(to, theirs.address, 3 * PAGE), wanted);
            fixture.run();
            assert_eq!(state(fixture), idle);
        }
        // Bad arguments, what is not there, and what the peer does not have.
        let pages = space(&[(view, 1)]);
        let good = own_transfer(10, remote);
        let refused = [
            (own_transfer(0, remote), EINVAL),
            (own_transfer(usize::MAX, remote), EFAULT),
            (own_transfer(2 * PAGE, remote), EFAULT),
            (own_transfer(10, remote + 3 * PAGE64), ENXIO),
            (
                OwnTransferRecord {
                    flags: 0x40.into(),
                    ..good
                },
                EINVAL,
            ),
            (
                OwnTransferRecord {
                    space: 1.into(),
                    ..good
                },
                ESRCH,
            ),
        ];
        for (record, errno) in refused {
            send(fixture, near, &pages).unwrap();
            let read = Call::OwnReadFrom { record };
            assert_eq!(call(fixture, 0, near, read), error(errno), "{record:?}");
            assert_eq!(state(fixture), idle);
        }
        let unbound = fixture.open(0, "endpoint").unwrap();
        for (record, errno) in [
            (own_transfer(0, remote), EINVAL),
            (own_transfer(usize::MAX, remote), ENOTCONN),
            (good, ENOTCONN),
        ] {
            let write = Call::OwnWriteTo { record };
            assert_eq!(call(fixture, 0, unbound, write), error(errno));
        }
        fixture.close(0, unbound);
        fixture.close(0, near);
        fixture.close(to, far);
        forget(fixture, to, theirs, 3);
        forget(fixture, 0, program, 3);
        fixture.run();
        assert_eq!(state(fixture), before);
    });
}

/// What may happen while a window's pages are being pinned.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Cancelled,
    ShutDown,
    Closed,
    PeerClosed,
    PeerLost,
}

#[test]
fn a_window_that_is_given_up_while_its_pages_are_pinned_leaves_nothing() {
    use Meanwhile::*;
    for meanwhile in [Cancelled, ShutDown, Closed, PeerClosed, PeerLost] {
        let mut fixture = Fixture::new(2);
        let before = state(&mut fixture);
        let (near, far) = ends(&mut fixture, 1);
        let pages = space(&[(LATE, 1), (LATE, 1), (LATE, 1), (0x10_0000, 2)]);
        assert_eq!(send(&mut fixture, near, &pages), Ok(0));
        let record = own_window(2, 3);
        let request = fixture.submit_only(0, op(near, Call::RegisterOwn { record }));
        assert!(fixture.is_kept(0, request));
        let errno = match meanwhile {
            Cancelled => {
                assert_eq!(fixture.cancel(0, request), error(ECANCELED));
                None
            }
            ShutDown => {
                assert_eq!(call(&mut fixture, 0, near, Call::Shutdown), Ok(0));
                Some(ECANCELED)
            }
            Closed => {
                fixture.close(0, near);
                None
            }
            PeerClosed => {
                fixture.close(1, far);
                Some(ECONNRESET)
            }
            PeerLost => {
                fixture.lose(1);
                Some(ECONNRESET)
            }
        };
        fixture.run();
        let answer = fixture.answer(0, request).map(|(result, _)| result);
        if let Some(errno) = errno {
            assert_eq!(answer, Some(error(errno)), "{meanwhile:?}");
        }
        assert_eq!(fixture.counter(0, "memory_objects"), 0, "{meanwhile:?}");
        assert_eq!(fixture.counter(0, "waiting"), 0, "{meanwhile:?}");
        if !matches!(meanwhile, Closed) {
            fixture.close(0, near);
        }
        assert_eq!(Rc::strong_count(&pages), 1);
        if matches!(meanwhile, PeerLost) {
            continue;
        }
        if !matches!(meanwhile, PeerClosed) {
            fixture.close(1, far);
        }
        fixture.run();
        assert_eq!(state(&mut fixture), before, "{meanwhile:?}");
    }
}
