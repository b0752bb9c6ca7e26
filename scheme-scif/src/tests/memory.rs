//! Memory objects: making, mapping, rights, limits, and that nothing is left behind.

use std::rc::Rc;

use scif_abi::call::{MemoryCall, PinRecord, SEND_SPACE};
use scif_abi::codec::Operation;
use scif_core::{Resource, Run, Scope};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR, O_WRONLY};

use super::fixture::{ADMIN, Fixture, LATE, Op, PAGE, Space, USER};
use crate::HandleId;

fn error<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

pub fn words(call: MemoryCall) -> [u64; 3] {
    let [first, second] = call.words();
    [call.number(), first, second]
}

#[track_caller]
fn call(fixture: &mut Fixture, id: HandleId, operation: MemoryCall) -> Result<usize> {
    fixture.call(0, id, &[], words(operation)).0
}

pub fn shared(prot: MapFlags) -> MapFlags {
    MapFlags::MAP_SHARED | prot
}

const READ_WRITE: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE);

/// The state that must be the same before and after.
fn state(fixture: &mut Fixture) -> [u64; 4] {
    [
        fixture.counter(0, "handles"),
        fixture.counter(0, "waiting"),
        fixture.counter(0, "memory_objects"),
        fixture.counter(0, "memory_pages"),
    ]
}

#[test]
fn pages_are_provided_and_mapped() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let token = call(&mut fixture, memory, MemoryCall::Provide { pages: 2 });
    assert_eq!(token, Ok(1));
    let again = MemoryCall::Provide { pages: 1 };
    assert_eq!(call(&mut fixture, memory, again), error(EINVAL));
    let address = fixture
        .map(0, memory, 0, 2 * PAGE, shared(READ_WRITE))
        .unwrap();
    let second = fixture.map(0, memory, PAGE as u64, 100, shared(MapFlags::PROT_READ));
    assert_eq!(second, Ok(address + PAGE));
    fixture.poke(0, address + PAGE, b"hello");
    assert_eq!(fixture.peek(0, second.unwrap(), 6), b"hello\0");
    let mappings = fixture.text(0, "mappings");
    assert!(mappings.contains("memory  0x0     2\n"), "{mappings}");
    assert!(mappings.contains("memory  0x1000  1\n"), "{mappings}");
    fixture.unmap(0, memory, 0, 2 * PAGE).unwrap();
    fixture.unmap(0, memory, PAGE as u64, 100).unwrap();
    assert_eq!(fixture.text(0, "mappings").lines().count(), 1);
    assert_eq!(fixture.counter(0, "memory_pages"), 2);
    fixture.close(0, memory);
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn a_token_is_what_chance_says_and_no_other_object_s() {
    let mut fixture = Fixture::new(1);
    let chance = [0, 1 << 40, 1 << 40, u64::MAX, (-12_i64) as u64];
    fixture.nodes[0].scif.engine().1.random = chance.into();
    let mut memories = Vec::new();
    // 0 is no token, none comes twice, and none looks like an error as the result of a call.
    for expected in [1 << 40, 0x7fff_ffff_7fff_ffff, 0x7fff_ffff_7fff_fff4] {
        let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
        let token = call(&mut fixture, memory, MemoryCall::Provide { pages: 1 });
        assert_eq!(token, Ok(expected));
        assert_eq!(Error::demux(Error::mux(token)), Ok(expected));
        memories.push(memory);
    }
    memories.into_iter().for_each(|id| fixture.close(0, id));
}

#[test]
fn large_objects_come_step_by_step_and_can_be_given_up() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let left = fixture.nodes[0].scif.engine().1.pages_left;
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let provide = words(MemoryCall::Provide { pages: 100 });
    let op = Op::Call {
        id: memory,
        payload: Vec::new(),
        metadata: provide.to_vec(),
    };
    let request = fixture.submit_only(0, op.clone());
    assert!(fixture.is_kept(0, request));
    // While it is being made it cannot be mapped, and no second one can be made.
    assert_eq!(fixture.call_only(0, memory, provide), error(EINVAL));
    let flags = shared(MapFlags::PROT_READ);
    assert_eq!(
        fixture.nodes[0].scif.map(memory, 0, PAGE, flags),
        error(ENXIO)
    );
    assert_eq!(fixture.cancel(0, request), error(ECANCELED));
    assert_eq!(fixture.counter(0, "memory_objects"), 0);
    assert_eq!(fixture.nodes[0].scif.engine().1.pages_left, left);
    // The handle is as new.
    let request = fixture.submit(0, op);
    assert_eq!(fixture.answer(0, request).unwrap().0, Ok(2));
    assert_eq!(fixture.nodes[0].scif.engine().1.pages_left, left - 100);
    fixture.close(0, memory);
    assert_eq!(state(&mut fixture), before);
    assert_eq!(fixture.nodes[0].scif.engine().1.pages_left, left);
}

#[test]
fn a_handle_that_is_closed_while_its_object_is_made_leaves_nothing() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let op = Op::Call {
        id: memory,
        payload: Vec::new(),
        metadata: words(MemoryCall::Provide { pages: 100 }).to_vec(),
    };
    let request = fixture.submit_only(0, op);
    fixture.close(0, memory);
    assert_eq!(fixture.answer(0, request).unwrap().0, error(ECANCELED));
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn scarce_memory_and_limits() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    fixture.nodes[0].scif.engine().1.pages_left = 20;
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let provide = |fixture: &mut Fixture, id, pages| {
        let request = fixture.start_call(0, id, &[], words(MemoryCall::Provide { pages }));
        fixture.answer(0, request).unwrap().0
    };
    assert_eq!(provide(&mut fixture, memory, 21), error(ENOMEM));
    assert_eq!(fixture.nodes[0].scif.engine().1.pages_left, 20);
    assert_eq!(provide(&mut fixture, memory, 0), error(EINVAL));
    assert_eq!(provide(&mut fixture, memory, 1 << 60), error(EINVAL));
    assert_eq!(provide(&mut fixture, memory, u64::MAX), error(EINVAL));
    assert_eq!(fixture.counter(0, "memory_objects"), 0);

    // Limits are root's to change, and readable by everybody.
    assert!(
        fixture
            .text(0, "limits")
            .contains("\npinned_pages_per_user ")
    );
    assert_eq!(
        fixture.open_with(0, "limits", O_WRONLY, USER),
        error(EACCES)
    );
    let limits = fixture.open_with(0, "limits", O_WRONLY, ADMIN).unwrap();
    for bad in [
        "pinned_pages_per_user",
        "pinned_pages_per_user x\n",
        "pinned_pages_per_user 1 2\n",
        "pinned_pages_per_user -1\n",
        "pinned_pages_per_user 8\nother 9\n",
        "heartbeat_ms 0\n",
        "heartbeat_ms 86400001\n",
        "heartbeat_ms 100\nsilence_ms 199\n",
        "silence_ms 1999\n",
        "\u{0}",
    ] {
        assert_eq!(
            fixture.write(0, limits, bad.as_bytes()),
            error(EINVAL),
            "{bad}"
        );
    }
    assert_eq!(fixture.write(0, limits, &[0xff]), error(EINVAL));
    let line = b"\npinned_pages_per_user  8\nsilence_ms 500\nheartbeat_ms 250\n";
    assert_eq!(fixture.write(0, limits, line), Ok(line.len()));
    fixture.close(0, limits);
    let text = fixture.text(0, "limits");
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "pinned_pages_per_user 8",
        "heartbeat_ms 250",
        "silence_ms 500",
    ];
    assert!(expected.iter().all(|line| lines.contains(line)), "{text}");
    assert_eq!(fixture.nodes[0].scif.link_timing().silence_ns, 500_000_000);

    assert_eq!(provide(&mut fixture, memory, 9), error(EAGAIN));
    assert!(provide(&mut fixture, memory, 5).is_ok());
    let other = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    assert_eq!(provide(&mut fixture, other, 4), error(EAGAIN));
    // The limit is each user's, root's too, but not that of pinned memory.
    let root = fixture.open_with(0, "memory", O_RDWR, ADMIN).unwrap();
    assert_eq!(provide(&mut fixture, root, 9), error(EAGAIN));
    let nine = space(&[(0x10_0000, 9)]);
    let uncharged = PinRecord {
        flags: PinRecord::UNCHARGED.into(),
        ..record(9, 3)
    };
    assert_eq!(pin(&mut fixture, root, &nine, record(9, 3)), error(EAGAIN));
    assert!(pin(&mut fixture, root, &nine, uncharged).is_ok());
    fixture.close(0, memory);
    assert!(provide(&mut fixture, other, 8).is_ok());
    fixture.close(0, other);
    fixture.close(0, root);
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn mapping_is_checked() {
    let mut fixture = Fixture::new(1);
    let memory = fixture.open_with(0, "memory", O_RDONLY, USER).unwrap();
    let read = shared(MapFlags::PROT_READ);
    let page = PAGE as u64;
    assert_eq!(fixture.map(0, memory, 0, PAGE, read), error(ENXIO));
    assert!(call(&mut fixture, memory, MemoryCall::Provide { pages: 3 }).is_ok());
    let private = MapFlags::MAP_PRIVATE | MapFlags::PROT_READ;
    let table = [
        (0, 0, read, EINVAL),
        (1, PAGE, read, EINVAL),
        (0, PAGE, private, EINVAL),
        (0, PAGE, private | MapFlags::PROT_WRITE, EINVAL),
        (0, PAGE, shared(MapFlags::PROT_EXEC), EACCES),
        (0, PAGE, shared(MapFlags::PROT_WRITE), EACCES),
        (0, 3 * PAGE + 1, read, ENXIO),
        (3 * page, PAGE, read, ENXIO),
        (2 * page, 2 * PAGE, read, ENXIO),
        (u64::MAX - page + 1, PAGE, read, ENXIO),
        (0, usize::MAX, read, ENXIO),
    ];
    for (offset, size, flags, errno) in table {
        let mapped = fixture.map(0, memory, offset, size, flags);
        assert_eq!(mapped, error(errno), "{offset:#x} {size:#x} {flags:?}");
    }
    assert_eq!(fixture.text(0, "mappings").lines().count(), 1);
    assert!(fixture.map(0, memory, 0, 3 * PAGE, read).is_ok());
    // Pieces that were never mapped change nothing.
    assert_eq!(fixture.unmap(0, memory, 8 * page, PAGE), Ok(()));
    assert_eq!(fixture.unmap(0, memory, u64::MAX - 5, usize::MAX), Ok(()));
    assert_eq!(fixture.text(0, "mappings").lines().count(), 2);
    for path in ["nodes", "listen", "peers", "limits"] {
        let id = fixture.open_with(0, path, O_RDONLY, USER).unwrap();
        assert_eq!(fixture.map(0, id, 0, PAGE, read), error(ENODEV), "{path}");
    }
    assert_eq!(fixture.map(0, 9999, 0, PAGE, read), error(EBADF));
}

/// An address space whose pages are these.
pub fn space(runs: &[(u64, u32)]) -> Space {
    let run = |&(address, pages)| Run { address, pages };
    Rc::new(runs.iter().map(run).collect())
}

/// A record that pins this number of pages.
pub fn record(pages: u64, protection: u32) -> PinRecord {
    PinRecord {
        address: 0x40_0000.into(),
        length: (pages * PAGE as u64).into(),
        protection: protection.into(),
        flags: 0.into(),
    }
}

fn send(fixture: &mut Fixture, id: HandleId, word: u64, space: &Space) -> Result<usize> {
    let space = space.clone();
    fixture.now(0, Op::Send { id, word, space }).0
}

fn start_pin(fixture: &mut Fixture, id: HandleId, record: PinRecord) -> u32 {
    let call = MemoryCall::Pin { record };
    fixture.start_call(0, id, call.payload(), words(call))
}

/// Sends a program's space over a handle and pins pages of it.
pub fn pin(fixture: &mut Fixture, id: HandleId, space: &Space, record: PinRecord) -> Result<usize> {
    send(fixture, id, SEND_SPACE, space)?;
    let request = start_pin(fixture, id, record);
    fixture.answer(0, request).unwrap().0
}

#[test]
fn pinned_pages_last_as_long_as_their_handle() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let pages = space(&[(0x10_0000, 2), (0x20_0000, 1)]);
    assert!(pin(&mut fixture, memory, &pages, record(3, 1)).is_ok());
    assert_eq!(fixture.counter(0, "memory_pages"), 3);
    assert!(fixture.text(0, "pins").contains("1000  77   3      0\n"));
    // Their owner already maps them.
    let flags = shared(MapFlags::PROT_READ);
    assert_eq!(fixture.map(0, memory, 0, PAGE, flags), error(EACCES));
    assert_eq!(
        send(&mut fixture, memory, SEND_SPACE, &pages),
        error(EINVAL)
    );
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
        assert_eq!(send(&mut fixture, memory, SEND_SPACE, &pages), Ok(0));
        let call = MemoryCall::Pin {
            record: record(2, 3),
        };
        let op = Op::Call {
            id: memory,
            payload: call.payload().to_vec(),
            metadata: words(call).to_vec(),
        };
        let request = fixture.submit_only(0, op);
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

/// The task that serves the scheme must not drop the last reference to an address space, so the
/// memory releases a space that is not used for pinning.
#[test]
fn a_space_that_is_not_used_is_released_by_the_memory() {
    let mut fixture = Fixture::new(1);
    let released = |fixture: &mut Fixture| fixture.nodes[0].scif.engine().1.released_spaces;
    let engine = fixture.nodes[0].scif.engine().0;
    engine.set_limit(Resource::Pages, Scope::User, 2);
    let pages = space(&[(0x10_0000, 3)]);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    assert_eq!(
        pin(&mut fixture, memory, &pages, record(3, 1)),
        error(EAGAIN)
    );
    assert_eq!(released(&mut fixture), 1);
    // Meanwhile an object is made in another way.
    assert_eq!(send(&mut fixture, memory, SEND_SPACE, &pages), Ok(0));
    assert!(call(&mut fixture, memory, MemoryCall::Provide { pages: 1 }).is_ok());
    let request = start_pin(&mut fixture, memory, record(1, 1));
    assert_eq!(fixture.answer(0, request).unwrap().0, error(EINVAL));
    fixture.close(0, memory);
    assert_eq!(released(&mut fixture), 2);
    assert_eq!(Rc::strong_count(&pages), 1);
}

#[test]
fn what_is_pinned_is_checked() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let pages = space(&[(0x10_0000, 2)]);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let good = record(2, 3);
    // Without a space there is nothing to pin; another word does not bring one.
    let request = start_pin(&mut fixture, memory, good);
    assert_eq!(fixture.answer(0, request).unwrap().0, error(EINVAL));
    assert_eq!(
        send(&mut fixture, memory, SEND_SPACE + 1, &pages),
        error(EINVAL)
    );
    let table = [
        (
            PinRecord {
                length: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            PinRecord {
                length: 100.into(),
                ..good
            },
            EINVAL,
        ),
        (
            PinRecord {
                address: 1.into(),
                ..good
            },
            EINVAL,
        ),
        (
            PinRecord {
                protection: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            PinRecord {
                protection: 4.into(),
                ..good
            },
            EINVAL,
        ),
        (
            PinRecord {
                flags: 2.into(),
                ..good
            },
            EINVAL,
        ),
        (
            PinRecord {
                flags: PinRecord::UNCHARGED.into(),
                ..good
            },
            EPERM,
        ),
        (
            PinRecord {
                length: (1_u64 << 63).into(),
                ..good
            },
            EAGAIN,
        ),
        // The space has only two pages.
        (record(3, 3), EFAULT),
    ];
    for (record, errno) in table {
        assert_eq!(
            pin(&mut fixture, memory, &pages, record),
            error(errno),
            "{record:?}"
        );
    }
    // A page that is not there and is found late.
    let hole = space(&[(0x10_0000, 2), (u64::MAX, 1)]);
    assert_eq!(
        pin(&mut fixture, memory, &hole, record(3, 3)),
        error(EFAULT)
    );
    let endpoint = fixture.open(0, "endpoint").unwrap();
    assert_eq!(
        send(&mut fixture, endpoint, SEND_SPACE, &pages),
        error(ENOTTY)
    );
    assert_eq!(send(&mut fixture, 9999, SEND_SPACE, &pages), error(EBADF));
    // A space that was sent is released with the handle, or when another is sent.
    assert_eq!(send(&mut fixture, memory, SEND_SPACE, &pages), Ok(0));
    assert_eq!(send(&mut fixture, memory, SEND_SPACE, &pages), Ok(0));
    assert_eq!(Rc::strong_count(&pages), 2);
    fixture.close(0, memory);
    assert_eq!(Rc::strong_count(&pages), 1);
    // Its owner's limit counts.
    let limit = |fixture: &mut Fixture, pages| {
        let engine = fixture.nodes[0].scif.engine().0;
        engine.set_limit(Resource::Pages, Scope::User, pages);
    };
    limit(&mut fixture, 1);
    let dup = Op::Dup {
        id: endpoint,
        name: b"memory".to_vec(),
        caller: USER,
    };
    let memory = fixture.now(0, dup).0.unwrap();
    assert_eq!(pin(&mut fixture, memory, &pages, good), error(EAGAIN));
    limit(&mut fixture, 2);
    assert!(pin(&mut fixture, memory, &pages, good).is_ok());
    fixture.close(0, memory);
    fixture.close(0, endpoint);
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn memory_operations_are_for_memory_handles() {
    let mut fixture = Fixture::new(1);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let endpoint = fixture.open(0, "endpoint").unwrap();
    let provide = MemoryCall::Provide { pages: 1 };
    assert_eq!(call(&mut fixture, endpoint, provide), error(EINVAL));
    assert_eq!(fixture.call(0, memory, &[], [1, 2050, 0]).0, error(EINVAL));
    assert_eq!(fixture.read(0, memory, 1), error(EINVAL));
    assert_eq!(fixture.write(0, memory, &[1]), error(EINVAL));
    let name = b"window".to_vec();
    let dup = Op::Dup {
        id: memory,
        name,
        caller: USER,
    };
    assert_eq!(fixture.now(0, dup).0, error(ENOTTY));
    let name = b"memory".to_vec();
    let dup = Op::Dup {
        id: memory,
        name,
        caller: USER,
    };
    assert_eq!(fixture.now(0, dup).0, error(ENOTTY));
}
