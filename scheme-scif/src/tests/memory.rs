//! Memory objects: making, mapping, rights, limits, and that nothing is left.

use std::rc::Rc;

use scif_abi::call::{MemoryCall, PinRecord, SEND_SPACE};
use scif_abi::codec::Operation;
use scif_core::{Resource, Run, Scope};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR, O_WRONLY};

use super::bed::{ADMIN, Bed, LATE, Op, PAGE, Space, USER};
use crate::HandleId;

fn error<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

pub fn words(call: MemoryCall) -> [u64; 3] {
    let [first, second] = call.words();
    [call.number(), first, second]
}

#[track_caller]
fn call(bed: &mut Bed, id: HandleId, operation: MemoryCall) -> Result<usize> {
    bed.call(0, id, &[], words(operation)).0
}

pub fn shared(prot: MapFlags) -> MapFlags {
    MapFlags::MAP_SHARED | prot
}

const READ_WRITE: MapFlags = MapFlags::PROT_READ.union(MapFlags::PROT_WRITE);

/// The state that must be the same before and after.
fn state(bed: &mut Bed) -> [u64; 4] {
    [
        bed.counter(0, "handles"),
        bed.counter(0, "waiting"),
        bed.counter(0, "memory_objects"),
        bed.counter(0, "memory_pages"),
    ]
}

#[test]
fn pages_are_provided_and_mapped() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let token = call(&mut bed, memory, MemoryCall::Provide { pages: 2 });
    assert_eq!(token, Ok(1));
    let again = MemoryCall::Provide { pages: 1 };
    assert_eq!(call(&mut bed, memory, again), error(EINVAL));
    let address = bed.map(0, memory, 0, 2 * PAGE, shared(READ_WRITE)).unwrap();
    let second = bed.map(0, memory, PAGE as u64, 100, shared(MapFlags::PROT_READ));
    assert_eq!(second, Ok(address + PAGE));
    bed.poke(0, address + PAGE, b"hello");
    assert_eq!(bed.peek(0, second.unwrap(), 6), b"hello\0");
    let mappings = bed.text(0, "mappings");
    assert!(mappings.contains("memory  0x0     2\n"), "{mappings}");
    assert!(mappings.contains("memory  0x1000  1\n"), "{mappings}");
    bed.unmap(0, memory, 0, 2 * PAGE).unwrap();
    bed.unmap(0, memory, PAGE as u64, 100).unwrap();
    assert_eq!(bed.text(0, "mappings").lines().count(), 1);
    assert_eq!(bed.counter(0, "memory_pages"), 2);
    bed.close(0, memory);
    assert_eq!(state(&mut bed), before);
}

#[test]
fn a_token_is_what_chance_says_and_no_other_object_s() {
    let mut bed = Bed::new(1);
    let chance = [0, 1 << 40, 1 << 40, u64::MAX, (-12_i64) as u64];
    bed.nodes[0].scif.engine().1.random = chance.into();
    let mut memories = Vec::new();
    // 0 is no token, none comes twice, and none looks like an error to who is answered with it.
    for expected in [1 << 40, 0x7fff_ffff_7fff_ffff, 0x7fff_ffff_7fff_fff4] {
        let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
        let token = call(&mut bed, memory, MemoryCall::Provide { pages: 1 });
        assert_eq!(token, Ok(expected));
        assert_eq!(Error::demux(Error::mux(token)), Ok(expected));
        memories.push(memory);
    }
    memories.into_iter().for_each(|id| bed.close(0, id));
}

#[test]
fn large_objects_come_step_by_step_and_can_be_given_up() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    let left = bed.nodes[0].scif.engine().1.pages_left;
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let provide = words(MemoryCall::Provide { pages: 100 });
    let op = Op::Call {
        id: memory,
        payload: Vec::new(),
        metadata: provide.to_vec(),
    };
    let request = bed.submit_only(0, op.clone());
    assert!(bed.is_kept(0, request));
    // While it is being made it cannot be mapped, and is no second one.
    assert_eq!(bed.call_only(0, memory, provide), error(EINVAL));
    let flags = shared(MapFlags::PROT_READ);
    assert_eq!(bed.nodes[0].scif.map(memory, 0, PAGE, flags), error(ENXIO));
    assert_eq!(bed.cancel(0, request), error(ECANCELED));
    assert_eq!(bed.counter(0, "memory_objects"), 0);
    assert_eq!(bed.nodes[0].scif.engine().1.pages_left, left);
    // The handle is as new.
    let request = bed.submit(0, op);
    assert_eq!(bed.answer(0, request).unwrap().0, Ok(2));
    assert_eq!(bed.nodes[0].scif.engine().1.pages_left, left - 100);
    bed.close(0, memory);
    assert_eq!(state(&mut bed), before);
    assert_eq!(bed.nodes[0].scif.engine().1.pages_left, left);
}

#[test]
fn a_handle_that_is_closed_while_its_object_is_made_leaves_nothing() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let op = Op::Call {
        id: memory,
        payload: Vec::new(),
        metadata: words(MemoryCall::Provide { pages: 100 }).to_vec(),
    };
    let request = bed.submit_only(0, op);
    bed.close(0, memory);
    assert_eq!(bed.answer(0, request).unwrap().0, error(ECANCELED));
    assert_eq!(state(&mut bed), before);
}

#[test]
fn scarce_memory_and_limits() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    bed.nodes[0].scif.engine().1.pages_left = 20;
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let provide = |bed: &mut Bed, id, pages| {
        let request = bed.start_call(0, id, &[], words(MemoryCall::Provide { pages }));
        bed.answer(0, request).unwrap().0
    };
    assert_eq!(provide(&mut bed, memory, 21), error(ENOMEM));
    assert_eq!(bed.nodes[0].scif.engine().1.pages_left, 20);
    assert_eq!(provide(&mut bed, memory, 0), error(EINVAL));
    assert_eq!(provide(&mut bed, memory, 1 << 60), error(EINVAL));
    assert_eq!(provide(&mut bed, memory, u64::MAX), error(EINVAL));
    assert_eq!(bed.counter(0, "memory_objects"), 0);

    // Limits are root's to change, and readable by everybody.
    assert!(bed.text(0, "limits").contains("\npinned_pages_per_user "));
    assert_eq!(bed.open_with(0, "limits", O_WRONLY, USER), error(EACCES));
    let limits = bed.open_with(0, "limits", O_WRONLY, ADMIN).unwrap();
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
        assert_eq!(bed.write(0, limits, bad.as_bytes()), error(EINVAL), "{bad}");
    }
    assert_eq!(bed.write(0, limits, &[0xff]), error(EINVAL));
    let line = b"\npinned_pages_per_user  8\nsilence_ms 500\nheartbeat_ms 250\n";
    assert_eq!(bed.write(0, limits, line), Ok(line.len()));
    bed.close(0, limits);
    let text = bed.text(0, "limits");
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "pinned_pages_per_user 8",
        "heartbeat_ms 250",
        "silence_ms 500",
    ];
    assert!(expected.iter().all(|line| lines.contains(line)), "{text}");
    assert_eq!(bed.nodes[0].scif.link_timing().silence_ns, 500_000_000);

    assert_eq!(provide(&mut bed, memory, 9), error(EAGAIN));
    assert!(provide(&mut bed, memory, 5).is_ok());
    let other = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    assert_eq!(provide(&mut bed, other, 4), error(EAGAIN));
    // The limit is each user's, root's too, but not that of pinned memory.
    let root = bed.open_with(0, "memory", O_RDWR, ADMIN).unwrap();
    assert_eq!(provide(&mut bed, root, 9), error(EAGAIN));
    let nine = space(&[(0x10_0000, 9)]);
    let uncharged = PinRecord {
        flags: PinRecord::UNCHARGED.into(),
        ..record(9, 3)
    };
    assert_eq!(pin(&mut bed, root, &nine, record(9, 3)), error(EAGAIN));
    assert!(pin(&mut bed, root, &nine, uncharged).is_ok());
    bed.close(0, memory);
    assert!(provide(&mut bed, other, 8).is_ok());
    bed.close(0, other);
    bed.close(0, root);
    assert_eq!(state(&mut bed), before);
}

#[test]
fn mapping_is_checked() {
    let mut bed = Bed::new(1);
    let memory = bed.open_with(0, "memory", O_RDONLY, USER).unwrap();
    let read = shared(MapFlags::PROT_READ);
    let page = PAGE as u64;
    assert_eq!(bed.map(0, memory, 0, PAGE, read), error(ENXIO));
    assert!(call(&mut bed, memory, MemoryCall::Provide { pages: 3 }).is_ok());
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
        let mapped = bed.map(0, memory, offset, size, flags);
        assert_eq!(mapped, error(errno), "{offset:#x} {size:#x} {flags:?}");
    }
    assert_eq!(bed.text(0, "mappings").lines().count(), 1);
    assert!(bed.map(0, memory, 0, 3 * PAGE, read).is_ok());
    // Pieces that were never mapped change nothing.
    assert_eq!(bed.unmap(0, memory, 8 * page, PAGE), Ok(()));
    assert_eq!(bed.unmap(0, memory, u64::MAX - 5, usize::MAX), Ok(()));
    assert_eq!(bed.text(0, "mappings").lines().count(), 2);
    for path in ["nodes", "listen", "peers", "limits"] {
        let id = bed.open_with(0, path, O_RDONLY, USER).unwrap();
        assert_eq!(bed.map(0, id, 0, PAGE, read), error(ENODEV), "{path}");
    }
    assert_eq!(bed.map(0, 9999, 0, PAGE, read), error(EBADF));
}

/// A program whose pages these are.
pub fn space(runs: &[(u64, u32)]) -> Space {
    let run = |&(address, pages)| Run { address, pages };
    Rc::new(runs.iter().map(run).collect())
}

/// A record that pins so many pages.
pub fn record(pages: u64, protection: u32) -> PinRecord {
    PinRecord {
        address: 0x40_0000.into(),
        length: (pages * PAGE as u64).into(),
        protection: protection.into(),
        flags: 0.into(),
    }
}

fn send(bed: &mut Bed, id: HandleId, word: u64, space: &Space) -> Result<usize> {
    let space = space.clone();
    bed.now(0, Op::Send { id, word, space }).0
}

fn start_pin(bed: &mut Bed, id: HandleId, record: PinRecord) -> u32 {
    let call = MemoryCall::Pin { record };
    bed.start_call(0, id, call.payload(), words(call))
}

/// Sends a program's space over a handle and pins pages of it.
pub fn pin(bed: &mut Bed, id: HandleId, space: &Space, record: PinRecord) -> Result<usize> {
    send(bed, id, SEND_SPACE, space)?;
    let request = start_pin(bed, id, record);
    bed.answer(0, request).unwrap().0
}

#[test]
fn pinned_pages_last_as_long_as_their_handle() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let pages = space(&[(0x10_0000, 2), (0x20_0000, 1)]);
    assert!(pin(&mut bed, memory, &pages, record(3, 1)).is_ok());
    assert_eq!(bed.counter(0, "memory_pages"), 3);
    assert!(bed.text(0, "pins").contains("1000  77   3      0\n"));
    // Whose they are has them mapped.
    let flags = shared(MapFlags::PROT_READ);
    assert_eq!(bed.map(0, memory, 0, PAGE, flags), error(EACCES));
    assert_eq!(send(&mut bed, memory, SEND_SPACE, &pages), error(EINVAL));
    // Nothing but the test keeps the space.
    bed.close(0, memory);
    assert_eq!(Rc::strong_count(&pages), 1);
    assert_eq!(state(&mut bed), before);
    assert_eq!(bed.text(0, "pins").lines().count(), 1);
}

#[test]
fn a_pin_may_wait_and_be_given_up_meanwhile() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    let pages = space(&[(LATE, 1), (LATE, 1), (0x10_0000, 2)]);
    for is_cancelled in [false, true] {
        let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
        assert_eq!(send(&mut bed, memory, SEND_SPACE, &pages), Ok(0));
        let call = MemoryCall::Pin {
            record: record(2, 3),
        };
        let op = Op::Call {
            id: memory,
            payload: call.payload().to_vec(),
            metadata: words(call).to_vec(),
        };
        let request = bed.submit_only(0, op);
        assert!(bed.is_kept(0, request));
        // The loop need not go on by itself: whoever is at work wakes it.
        assert!(!bed.nodes[0].scif.is_busy());
        if is_cancelled {
            assert_eq!(bed.cancel(0, request), error(ECANCELED));
        } else {
            assert_eq!(bed.text(0, "pins").lines().count(), 1);
            bed.run();
            assert!(bed.answer(0, request).unwrap().0.is_ok());
            assert_eq!(bed.text(0, "pins").lines().count(), 2);
        }
        bed.close(0, memory);
        assert_eq!(state(&mut bed), before);
    }
    assert_eq!(Rc::strong_count(&pages), 1);
}

/// The task that serves the scheme must not drop the last reference to an address space, so a space
/// of which nothing is pinned goes back to the memory.
#[test]
fn a_space_that_is_not_used_is_released_by_the_memory() {
    let mut bed = Bed::new(1);
    let released = |bed: &mut Bed| bed.nodes[0].scif.engine().1.released_spaces;
    let engine = bed.nodes[0].scif.engine().0;
    engine.set_limit(Resource::Pages, Scope::User, 2);
    let pages = space(&[(0x10_0000, 3)]);
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    assert_eq!(pin(&mut bed, memory, &pages, record(3, 1)), error(EAGAIN));
    assert_eq!(released(&mut bed), 1);
    // An object is made of something else meanwhile.
    assert_eq!(send(&mut bed, memory, SEND_SPACE, &pages), Ok(0));
    assert!(call(&mut bed, memory, MemoryCall::Provide { pages: 1 }).is_ok());
    let request = start_pin(&mut bed, memory, record(1, 1));
    assert_eq!(bed.answer(0, request).unwrap().0, error(EINVAL));
    bed.close(0, memory);
    assert_eq!(released(&mut bed), 2);
    assert_eq!(Rc::strong_count(&pages), 1);
}

#[test]
fn what_is_pinned_is_checked() {
    let mut bed = Bed::new(1);
    let before = state(&mut bed);
    let pages = space(&[(0x10_0000, 2)]);
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let good = record(2, 3);
    // Without a space there is nothing to pin; another word does not bring one.
    let request = start_pin(&mut bed, memory, good);
    assert_eq!(bed.answer(0, request).unwrap().0, error(EINVAL));
    assert_eq!(
        send(&mut bed, memory, SEND_SPACE + 1, &pages),
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
        // There are just two.
        (record(3, 3), EFAULT),
    ];
    for (record, errno) in table {
        assert_eq!(
            pin(&mut bed, memory, &pages, record),
            error(errno),
            "{record:?}"
        );
    }
    // A page that is not there, found late.
    let hole = space(&[(0x10_0000, 2), (u64::MAX, 1)]);
    assert_eq!(pin(&mut bed, memory, &hole, record(3, 3)), error(EFAULT));
    let endpoint = bed.open(0, "endpoint").unwrap();
    assert_eq!(send(&mut bed, endpoint, SEND_SPACE, &pages), error(ENOTTY));
    assert_eq!(send(&mut bed, 9999, SEND_SPACE, &pages), error(EBADF));
    // A space that is sent goes with the handle, or with the next one.
    assert_eq!(send(&mut bed, memory, SEND_SPACE, &pages), Ok(0));
    assert_eq!(send(&mut bed, memory, SEND_SPACE, &pages), Ok(0));
    assert_eq!(Rc::strong_count(&pages), 2);
    bed.close(0, memory);
    assert_eq!(Rc::strong_count(&pages), 1);
    // Its owner's limit counts.
    let limit = |bed: &mut Bed, pages| {
        let engine = bed.nodes[0].scif.engine().0;
        engine.set_limit(Resource::Pages, Scope::User, pages);
    };
    limit(&mut bed, 1);
    let dup = Op::Dup {
        id: endpoint,
        name: b"memory".to_vec(),
        caller: USER,
    };
    let memory = bed.now(0, dup).0.unwrap();
    assert_eq!(pin(&mut bed, memory, &pages, good), error(EAGAIN));
    limit(&mut bed, 2);
    assert!(pin(&mut bed, memory, &pages, good).is_ok());
    bed.close(0, memory);
    bed.close(0, endpoint);
    assert_eq!(state(&mut bed), before);
}

#[test]
fn memory_operations_are_for_memory_handles() {
    let mut bed = Bed::new(1);
    let memory = bed.open_with(0, "memory", O_RDWR, USER).unwrap();
    let endpoint = bed.open(0, "endpoint").unwrap();
    let provide = MemoryCall::Provide { pages: 1 };
    assert_eq!(call(&mut bed, endpoint, provide), error(EINVAL));
    assert_eq!(bed.call(0, memory, &[], [1, 2050, 0]).0, error(EINVAL));
    assert_eq!(bed.read(0, memory, 1), error(EINVAL));
    assert_eq!(bed.write(0, memory, &[1]), error(EINVAL));
    let name = b"window".to_vec();
    let dup = Op::Dup {
        id: memory,
        name,
        caller: USER,
    };
    assert_eq!(bed.now(0, dup).0, error(ENOTTY));
    let name = b"memory".to_vec();
    let dup = Op::Dup {
        id: memory,
        name,
        caller: USER,
    };
    assert_eq!(bed.now(0, dup).0, error(ENOTTY));
}
