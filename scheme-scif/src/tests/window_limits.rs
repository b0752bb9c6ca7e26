//! The limits of registered memory and of windows.

use scif_abi::call::Call;
use scif_abi::limits::{MAX_WINDOWS, QUOTAS};
use syscall::error::ENOMEM;
use syscall::flag::O_RDWR;

use super::fixture::{Fixture, PAGE, USER};
use super::own_pages::{own, pin, space};
use super::programs::*;

#[test]
fn memory_that_is_registered_in_turn_never_counts_twice() {
    const PAGES: usize = 1024;
    let mut fixture = Fixture::new(2);
    let (near, _) = ends(&mut fixture, 1);
    let program = memory(&mut fixture, 0, PAGES);
    let view = fixture.nodes[0].scif.engine().1.local(program.address);
    let pages = space(&[(view, PAGES as u32)]);
    // More than the user's limit in all, one piece at a time.
    let limit = QUOTAS.iter().find(|quota| quota.name == "pinned_pages");
    let pieces = limit.unwrap().per_user as usize / PAGES + 4;
    for piece in 0..pieces {
        let id = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
        let token = pin(&mut fixture, id, &pages, own(PAGES as u64, 3)).unwrap() as u64;
        let piece_of_heap = Memory {
            id,
            token,
            ..program
        };
        let offset = (piece * PAGES * PAGE) as u64;
        let window = fixed(piece_of_heap, offset, PAGES);
        assert!(
            register(&mut fixture, 0, near, window).is_ok(),
            "piece {piece}"
        );
        let unregister = Call::Unregister {
            offset: offset as i64,
            length: (PAGES * PAGE) as u64,
        };
        assert_eq!(call(&mut fixture, 0, near, unregister), Ok(0));
        fixture.close(0, id);
    }
    assert_eq!(fixture.text(0, "pins").lines().count(), 1);
}

#[test]
fn an_engine_holds_no_more_windows_than_it_says() {
    let mut fixture = Fixture::new(3);
    let file = fixture.open(0, "limits").unwrap();
    for name in ["windows", "pinned_pages"] {
        for scope in ["user", "process"] {
            let line = format!("{name}_per_{scope} {}\n", 2 * MAX_WINDOWS);
            assert_eq!(fixture.write(0, file, line.as_bytes()), Ok(line.len()));
        }
    }
    // Half of them for each of two peers, so that neither reaches a limit of its own.
    let near = [1, 2].map(|to| ends(&mut fixture, to).0);
    let page = memory(&mut fixture, 0, 1);
    let at = |index: usize| (index * PAGE) as u64;
    for index in 0..MAX_WINDOWS {
        let (id, window) = (near[index % 2], fixed(page, at(index), 1));
        assert_eq!(
            register(&mut fixture, 0, id, window),
            Ok(at(index) as usize)
        );
    }
    let near = near[0];
    let more = fixed(page, at(MAX_WINDOWS), 1);
    assert_eq!(register(&mut fixture, 0, near, more), error(ENOMEM));
    let unregister = Call::Unregister {
        offset: 0,
        length: PAGE as u64,
    };
    assert_eq!(call(&mut fixture, 0, near, unregister), Ok(0));
    assert!(register(&mut fixture, 0, near, more).is_ok());
}
