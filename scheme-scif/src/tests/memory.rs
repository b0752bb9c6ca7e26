//! Memory objects: making, mapping, rights, limits, and that nothing is left behind.

use scif_abi::call::{MemoryCall, PinRecord};
use scif_abi::codec::Operation;
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR, O_WRONLY};

use super::fixture::{ADMIN, Fixture, Op, PAGE, USER};
use super::own_pages::{own, pin, space};
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
    assert_eq!(pin(&mut fixture, root, &nine, own(9, 3)), error(EAGAIN));
    let uncharged = PinRecord {
        flags: PinRecord::UNCHARGED.into(),
        ..own(9, 3)
    };
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
