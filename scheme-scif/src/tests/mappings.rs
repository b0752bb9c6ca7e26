//! The peer's windows in programs' address spaces, and how long each object outlives the others.

use scif_abi::call::{Call, PagesHeader, RegisterRecord};
use syscall::error::*;
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR};
use zerocopy::FromBytes;

use super::fixture::{ADMIN, Fixture, Op, PAGE, PHYSICAL, USER};
use super::memory::shared;
use super::own_pages::{own, pin, space};
use super::programs::*;
use crate::HandleId;

#[test]
fn windows_are_mapped_and_outlive_everything() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let theirs = memory(fixture, to, 8);
        let offset = register(fixture, to, far, record(theirs, 8 * PAGE, 3)).unwrap() as u64;
        // An object of the test fixture has runs of three pages.
        let run = |fixture: &mut Fixture, page: u64, length: u64| {
            let remote_offset = (offset + page * PAGE64) as i64;
            call(
                fixture,
                0,
                near,
                Call::MapRun {
                    remote_offset,
                    length,
                },
            )
        };
        // They are joined for one mapping.
        assert_eq!(run(fixture, 0, 8 * PAGE64), Ok(8 * PAGE));
        assert_eq!(run(fixture, 1, 8 * PAGE64 - PAGE64), Ok(7 * PAGE));
        assert_eq!(run(fixture, 6, PAGE64), Ok(PAGE));
        assert_eq!(run(fixture, 7, 2 * PAGE64), error(ENXIO));
        assert_eq!(run(fixture, 0, 1), error(EINVAL));
        let flags = shared(READ_WRITE);
        let name = b"window".to_vec();
        let dup = Op::Dup {
            id: near,
            name,
            caller: USER,
        };
        let window = fixture.now(0, dup).0.unwrap();
        let all = fixture.map(0, window, offset, 8 * PAGE, flags).unwrap();
        let joined = |fixture: &mut Fixture| fixture.nodes[0].scif.engine().1.joined();
        // An object of the own node is one range already.
        assert_eq!(joined(fixture), to);
        for page in 0..8 {
            fixture.poke(0, all + page * PAGE + 9, &[page as u8 + 1]);
            let place = theirs.address + page * PAGE + 9;
            assert_eq!(fixture.peek(to, place, 1), [page as u8 + 1]);
        }
        fixture
            .unmap(0, window, offset + 3 * PAGE64, 5 * PAGE)
            .unwrap();
        assert_eq!(joined(fixture), to);
        fixture.unmap(0, window, offset, 3 * PAGE).unwrap();
        assert_eq!(joined(fixture), 0);
        let address = fixture.map(0, window, offset, 3 * PAGE, flags).unwrap();
        let direct = fixture
            .map(0, near, offset + 3 * PAGE64, PAGE, flags)
            .unwrap();
        assert_eq!(fixture.counter(0, "mapped_pages"), 4);
        let mappings = fixture.text(0, "mappings");
        assert_eq!(mappings.matches("window").count(), 2, "{mappings}");

        // Loads and stores: no copy is made.
        let copied = fixture.counter(0, "rma_bytes_cpu");
        fixture.poke(0, address + 2 * PAGE, b"stored");
        assert_eq!(fixture.peek(to, theirs.address + 2 * PAGE, 6), b"stored");
        fixture.poke(to, theirs.address + 3 * PAGE, b"loaded");
        assert_eq!(fixture.peek(0, direct, 6), b"loaded");
        assert_eq!(fixture.counter(0, "rma_bytes_cpu"), copied);

        // The window is unregistered, the connection closed, the owner's memory given up: the
        // mapping stays.
        let length = 8 * PAGE64;
        let unregister = Call::Unregister {
            offset: offset as i64,
            length,
        };
        assert_eq!(call(fixture, to, far, unregister), Ok(0));
        assert_eq!(fixture.map(0, window, offset, PAGE, flags), error(ENXIO));
        assert_eq!(call(fixture, 0, near, Call::Shutdown), Ok(0));
        assert_eq!(call(fixture, 0, near, Call::Shutdown), error(EBADF));
        assert_eq!(fixture.read(0, near, 1), error(EBADF));
        fixture.close(to, far);
        forget(fixture, to, theirs, 8);
        fixture.poke(0, address, b"still there");
        assert_eq!(fixture.peek(0, address, 11), b"still there");
        assert_eq!(fixture.counter(to, "memory_pages"), 8);
        assert!(fixture.map(0, window, offset, PAGE, flags).is_err());

        // Piece by piece.
        fixture.unmap(0, window, offset + PAGE64, PAGE).unwrap();
        fixture.unmap(0, window, offset, PAGE).unwrap();
        assert_eq!(fixture.counter(0, "mapped_pages"), 2);
        fixture.unmap(0, near, offset + 3 * PAGE64, PAGE).unwrap();
        assert_eq!(fixture.counter(to, "memory_pages"), 8);
        fixture.unmap(0, window, offset + 2 * PAGE64, PAGE).unwrap();
        assert_eq!(fixture.counter(to, "memory_pages"), 0);
        fixture.close(0, window);
        fixture.close(0, near);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn rights_of_windows_and_handles_hold_for_mappings() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let theirs = memory(fixture, to, 3);
        let read_only = RegisterRecord {
            protection: 1.into(),
            ..fixed(theirs, 0x10000, 1)
        };
        register(fixture, to, far, read_only).unwrap();
        let write_only = RegisterRecord {
            protection: 2.into(),
            memory_offset: PAGE64.into(),
            ..fixed(theirs, 0x20000, 1)
        };
        register(fixture, to, far, write_only).unwrap();
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
        let before = fixture.counter(0, "mapped_pages");
        for (offset, flags, errno) in table {
            match fixture.map(0, near, offset, PAGE, flags) {
                Ok(_) => {
                    assert_eq!(errno, 0, "{offset:#x} {flags:?}");
                    fixture.unmap(0, near, offset, PAGE).unwrap();
                }
                Err(found) => assert_eq!(found.errno, errno, "{offset:#x} {flags:?}"),
            }
            assert_eq!(fixture.counter(0, "mapped_pages"), before);
        }
        let unconnected = fixture.open_with(0, "endpoint", O_RDONLY, USER).unwrap();
        let found = fixture.map(0, unconnected, 0, PAGE, shared(read));
        assert_eq!(found, error(ENOTCONN));
        let found = fixture.map(0, unconnected, 0, PAGE, shared(write));
        assert_eq!(found, error(EACCES));
    });
}

#[test]
fn own_windows_are_mapped_and_keep_their_pages() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 8);
        let offset = register(fixture, 0, near, record(mine, 8 * PAGE, 1)).unwrap() as u64;
        let dup = |fixture: &mut Fixture, id| {
            let name = b"own-window".to_vec();
            let caller = USER;
            fixture.now(0, Op::Dup { id, name, caller }).0
        };
        let own = dup(fixture, near).unwrap();
        assert_eq!(dup(fixture, mine.id), error(ENOTTY));
        // An object of the test fixture has runs of three pages.
        for id in [near, own] {
            let run = |fixture: &mut Fixture, page: u64, length: u64| {
                let offset = (offset + page * PAGE64) as i64;
                call(fixture, 0, id, Call::MapRunOwn { offset, length })
            };
            assert_eq!(run(fixture, 0, 8 * PAGE64), Ok(8 * PAGE));
            assert_eq!(run(fixture, 7, 2 * PAGE64), error(ENXIO));
            assert_eq!(run(fixture, 0, 1), error(EINVAL));
        }
        let window = Call::MapRunOwn {
            offset: 0,
            length: PAGE64,
        };
        assert_eq!(call(fixture, 0, mine.id, window), error(EINVAL));
        // The handle can only map.
        assert_eq!(call(fixture, 0, own, Call::LocalPort), error(ENOTTY));
        assert_eq!(fixture.read(0, own, 1), error(EINVAL));

        let read = shared(MapFlags::PROT_READ);
        // A mapping holds one window only.
        let behind = memory(fixture, 0, 1);
        let next = fixed(behind, offset + 8 * PAGE64, 1);
        register(fixture, 0, near, next).unwrap();
        let both = fixture.map(0, own, offset + 7 * PAGE64, 2 * PAGE, read);
        assert_eq!(both, error(EXDEV));
        let unregister = Call::Unregister {
            offset: (offset + 8 * PAGE64) as i64,
            length: PAGE64,
        };
        assert_eq!(call(fixture, 0, near, unregister), Ok(0));
        forget(fixture, 0, behind, 1);
        assert_eq!(
            fixture.map(0, own, offset + 8 * PAGE64, PAGE, read),
            error(ENXIO)
        );
        assert_eq!(
            fixture.map(0, own, offset, PAGE, shared(READ_WRITE)),
            error(EACCES)
        );
        let address = fixture
            .map(0, own, offset + PAGE64, 2 * PAGE, read)
            .unwrap();
        let mappings = fixture.text(0, "mappings");
        assert!(mappings.contains("own-window"), "{mappings}");
        fixture.poke(0, mine.address + 2 * PAGE, b"mine");
        assert_eq!(fixture.peek(0, address + PAGE, 4), b"mine");

        // The mapping does not count as a use of the window and does not delay its end, but keeps
        // the pages.
        let length = 8 * PAGE64;
        let unregister = Call::Unregister {
            offset: offset as i64,
            length,
        };
        assert_eq!(call(fixture, 0, near, unregister), Ok(0));
        assert_eq!(fixture.counter(0, "windows"), 0);
        assert_eq!(fixture.map(0, own, offset, PAGE, read), error(ENXIO));
        fixture.close(0, near);
        fixture.close(to, far);
        assert!(fixture.map(0, own, offset, PAGE, read).is_err());
        forget(fixture, 0, mine, 8);
        assert_eq!(fixture.counter(0, "memory_pages"), 8);
        fixture.unmap(0, own, offset + PAGE64, PAGE).unwrap();
        assert_eq!(fixture.counter(0, "memory_pages"), 8);
        assert_eq!(fixture.peek(0, address + PAGE, 4), b"mine");
        fixture.unmap(0, own, offset + 2 * PAGE64, PAGE).unwrap();
        fixture.close(0, own);
        assert_eq!(state(fixture), before);
    });
}

/// A handle of `name` that maps windows of an endpoint.
#[track_caller]
fn mapper(fixture: &mut Fixture, id: HandleId, name: &str) -> HandleId {
    let dup = Op::Dup {
        id,
        name: name.into(),
        caller: USER,
    };
    fixture.now(0, dup).0.unwrap()
}

#[track_caller]
fn unregister(fixture: &mut Fixture, node: usize, id: HandleId, offset: u64, pages: u64) {
    let unregister = Call::Unregister {
        offset: offset as i64,
        length: pages * PAGE64,
    };
    assert_eq!(call(fixture, node, id, unregister), Ok(0));
}

#[test]
fn a_window_at_the_offset_of_a_former_one_is_in_use_until_its_own_mapping_goes() {
    const AT: u64 = 0x10000;
    on_both(|fixture, to| {
        let before = state(fixture);
        let flags = shared(READ_WRITE);
        let (near, far) = ends(fixture, to);
        let former = memory(fixture, to, 2);
        register(fixture, to, far, fixed(former, AT, 2)).unwrap();
        let old = mapper(fixture, near, "cached-window");
        fixture.map(0, old, AT, 2 * PAGE, flags).unwrap();
        unregister(fixture, to, far, AT, 2);

        // A cached mapping does not keep the offsets: another window gets them.
        let later = memory(fixture, to, 3);
        register(fixture, to, far, fixed(later, AT, 3)).unwrap();
        // What the kernel reports as unmapped could be of either window.
        assert_eq!(fixture.map(0, old, AT, PAGE, flags), error(EBUSY));
        assert_eq!(
            fixture.map(0, old, AT + PAGE64, 2 * PAGE, flags),
            error(EBUSY)
        );
        assert_eq!(fixture.counter(0, "mapped_pages"), 2);
        fixture.map(0, old, AT + 2 * PAGE64, PAGE, flags).unwrap();
        let new = mapper(fixture, near, "cached-window");
        let address = fixture.map(0, new, AT, 2 * PAGE, flags).unwrap();
        fixture.unmap(0, old, AT, 2 * PAGE).unwrap();
        fixture.unmap(0, old, AT + 2 * PAGE64, PAGE).unwrap();
        assert_eq!(
            fixture.counter(to, "windows"),
            1,
            "the former one has ended"
        );

        unregister(fixture, to, far, AT, 3);
        forget(fixture, to, later, 3);
        assert_eq!(fixture.counter(to, "windows"), 1, "in use");
        fixture.poke(0, address, b"mapped");
        assert_eq!(fixture.peek(to, later.address, 6), b"mapped");
        fixture.unmap(0, new, AT, 2 * PAGE).unwrap();
        assert_eq!(fixture.counter(to, "windows"), 0);
        forget(fixture, to, former, 2);
        for id in [old, new, near] {
            fixture.close(0, id);
        }
        fixture.close(to, far);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn an_own_window_at_the_offset_of_a_former_one_keeps_its_pages() {
    const AT: u64 = 0x10000;
    on_both(|fixture, to| {
        let before = state(fixture);
        let flags = shared(READ_WRITE);
        let (near, far) = ends(fixture, to);
        let former = memory(fixture, 0, 1);
        register(fixture, 0, near, fixed(former, AT, 1)).unwrap();
        let old = mapper(fixture, near, "own-window");
        fixture.map(0, old, AT, PAGE, flags).unwrap();
        unregister(fixture, 0, near, AT, 1);
        let later = memory(fixture, 0, 1);
        register(fixture, 0, near, fixed(later, AT, 1)).unwrap();
        assert_eq!(fixture.map(0, old, AT, PAGE, flags), error(EBUSY));
        let new = mapper(fixture, near, "own-window");
        fixture.map(0, new, AT, PAGE, flags).unwrap();
        // The same window any number of times.
        fixture.map(0, new, AT, PAGE, flags).unwrap();
        fixture.unmap(0, new, AT, PAGE).unwrap();
        unregister(fixture, 0, near, AT, 1);
        forget(fixture, 0, later, 1);
        forget(fixture, 0, former, 1);
        assert_eq!(fixture.counter(0, "memory_pages"), 2);
        fixture.unmap(0, old, AT, PAGE).unwrap();
        assert_eq!(fixture.counter(0, "memory_pages"), 1);
        fixture.unmap(0, new, AT, PAGE).unwrap();
        for id in [old, new, near] {
            fixture.close(0, id);
        }
        fixture.close(to, far);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn an_own_window_of_pinned_pages_is_mapped_and_keeps_them() {
    let mut fixture = Fixture::new(1);
    let before = state(&mut fixture);
    let (near, far) = fixture.pair(0, 0, 2050);
    let pages = space(&[(0x10_0000, 2)]);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let token = pin(&mut fixture, memory, &pages, own(2, 3)).unwrap();
    let pinned = Memory {
        id: memory,
        token: token as u64,
        address: 0,
    };
    register(&mut fixture, 0, near, fixed(pinned, 0, 2)).unwrap();
    let name = b"own-window".to_vec();
    let dup = Op::Dup {
        id: near,
        name,
        caller: USER,
    };
    let own = fixture.now(0, dup).0.unwrap();
    let address = fixture
        .map(0, own, 0, 2 * PAGE, shared(READ_WRITE))
        .unwrap();
    assert_eq!(fixture.nodes[0].scif.engine().1.local(address), 0x10_0000);
    fixture.close(0, memory);
    fixture.close(0, near);
    fixture.close(0, far);
    assert_eq!(fixture.counter(0, "memory_pages"), 2);
    fixture.unmap(0, own, 0, 2 * PAGE).unwrap();
    fixture.close(0, own);
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn pages_of_a_peer_for_drivers() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = fixture.pair(0, to, 2050);
        let theirs = memory_of(fixture, to, 5, ADMIN);
        let mut wanted = fixed(theirs, 0x10000, 5);
        wanted.protection = 1.into();
        register(fixture, to, far, wanted).unwrap();
        let get = |fixture: &mut Fixture, offset: u64, pages: usize, room: usize| {
            let metadata = [Call::GET_PAGES, offset, (pages * PAGE) as u64];
            fixture.call(0, near, &vec![0xee; room], metadata)
        };
        let room = size_of::<PagesHeader>() + 5 * 8;
        let (result, payload) = get(fixture, 0x10000, 5, room);
        assert_eq!(result, Ok(5));
        let (header, rest) = PagesHeader::read_from_prefix(&payload).unwrap();
        assert_eq!((header.pages.get(), header.protection.get()), (5, 1));
        let addresses: Vec<u64> = rest
            .chunks(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        // Bytes that the owner stores in its pages are at these addresses of its memory.
        for (page, address) in addresses.iter().enumerate() {
            fixture.poke(to, theirs.address + page * PAGE, &[page as u8 + 1]);
            let offset = address - PHYSICAL * to as u64;
            assert_eq!(fixture.raw(to, offset), page as u8 + 1);
        }
        assert_eq!(get(fixture, 0x10000, 5, room - 1).0, error(EINVAL));
        assert_eq!(get(fixture, 0x10000, 5, 3).0, error(EINVAL));
        assert_eq!(get(fixture, 0x10000, 0, room).0, error(EINVAL));
        assert_eq!(get(fixture, 0x10001, 1, room).0, error(EINVAL));
        assert_eq!(get(fixture, 0x10000, 6, 2 * room).0, error(ENXIO));
        assert_eq!(get(fixture, 0x20000, 1, room).0, error(ENXIO));
        let cookie = header.cookie.get();
        let put = |cookie| Call::PutPages { cookie };
        assert_eq!(call(fixture, 0, near, put(cookie + 1)), error(EINVAL));
        let length = 5 * PAGE64;
        let offset = 0x10000;
        assert_eq!(
            call(fixture, to, far, Call::Unregister { offset, length }),
            Ok(0)
        );
        assert_eq!(fixture.counter(to, "windows"), 1);
        assert_eq!(call(fixture, 0, near, put(cookie)), Ok(0));
        assert_eq!(fixture.counter(to, "windows"), 0);
        assert_eq!(call(fixture, 0, near, put(cookie)), error(EINVAL));

        let user = fixture.open_with(0, "endpoint", O_RDWR, USER).unwrap();
        assert_eq!(call(fixture, 0, user, put(1)), error(EACCES));
        let metadata = [Call::GET_PAGES, 0, PAGE64];
        assert_eq!(fixture.call(0, user, &[0; 64], metadata).0, error(EACCES));
        for id in [user, near] {
            fixture.close(0, id);
        }
        fixture.close(to, far);
        forget(fixture, to, theirs, 5);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn losing_the_node_ends_everything_but_the_mapping() {
    let mut fixture = Fixture::new(3);
    let before = [
        fixture.counter(0, "windows"),
        fixture.counter(0, "memory_pages"),
    ];
    let (near, far) = ends(&mut fixture, 1);
    let mine = memory(&mut fixture, 0, 64);
    let theirs = memory(&mut fixture, 1, 64);
    register(&mut fixture, 0, near, fixed(mine, 0, 64)).unwrap();
    register(&mut fixture, 1, far, fixed(theirs, 0, 64)).unwrap();
    fixture.map(0, near, 0, PAGE, shared(READ_WRITE)).unwrap();
    let record = rma(0, 64 * PAGE, 0, SYNC);
    let request = fixture.submit_only(0, op(near, Call::WriteTo { record }));
    let peers = fixture.open_with(0, "peers", O_RDONLY, USER).unwrap();
    assert_eq!(
        fixture.read(0, peers, 100),
        Ok(b"added 0\nadded 1\nadded 2\n".to_vec())
    );
    let waiting = fixture.start_read(0, peers, 100);
    assert!(fixture.is_kept(0, waiting));
    fixture.lose(1);
    assert!(fixture.answer(0, request).is_some());
    let (result, bytes) = fixture.answer(0, waiting).unwrap();
    assert_eq!((result, &bytes[..10]), (Ok(10), &b"removed 1\n"[..]));
    let record = rma(0, 8, 0, 0);
    let found = call(&mut fixture, 0, near, Call::WriteTo { record });
    assert!(
        found == error(ECONNRESET) || found == error(ENODEV),
        "{found:?}"
    );
    fixture.unmap(0, near, 0, PAGE).unwrap();
    fixture.close(0, near);
    forget(&mut fixture, 0, mine, 64);
    assert_eq!(
        [
            fixture.counter(0, "windows"),
            fixture.counter(0, "memory_pages")
        ],
        before
    );
    assert_eq!(fixture.counter(0, "mapped_pages"), 0);
}

/// The record that docs/scheme.md lists byte by byte; its first word is a token.
fn record_of_the_page() -> Vec<u8> {
    let page = include_str!("../../../docs/scheme.md");
    let lines = page.lines().filter(|line| line.starts_with(" byte "));
    let byte = |word: &str| u8::from_str_radix(word, 16).ok();
    lines
        .flat_map(|line| line.split_whitespace().skip(2).map_while(byte))
        .collect()
}

#[test]
fn the_bytes_of_the_page_register_a_window() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let mine = memory(fixture, 0, 1);
        let mut payload = record_of_the_page();
        let wrong = fixture.call(0, near, &payload, [8, 0, 0]).0;
        assert_eq!(wrong, error(EFAULT), "no object has the token of the page");
        let unmapped = fixture.open(0, "memory").unwrap();
        let token = fixture.call(0, unmapped, &[], [80, 1, 0]).0.unwrap() as u64;
        payload[..8].copy_from_slice(&token.to_le_bytes());
        let wrong = fixture.call(0, near, &payload, [8, 0, 0]).0;
        assert_eq!(wrong, error(EFAULT), "no program has mapped it");
        payload[..8].copy_from_slice(&mine.token.to_le_bytes());
        let (offset, answer) = fixture.call(0, near, &payload, [8, 0, 0]);
        assert_eq!(answer, payload);
        fixture.poke(0, mine.address, b"registered");
        let read = [12, offset.unwrap() as u64, 4];
        let (result, bytes) = fixture.call(to, far, &[0; 10], read);
        assert_eq!((result, &bytes[..]), (Ok(0), &b"registered"[..]));
    });
}
