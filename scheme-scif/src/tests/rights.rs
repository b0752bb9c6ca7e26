//! Tests of rights and limits: which state of other users a user sees, and how much each may have.

use std::vec::Vec;

use scif_abi::call::MemoryCall;
use scif_abi::codec::Operation;
use scif_abi::limits::QUOTAS;
use syscall::error::{EACCES, EINVAL, ENOMEM, Error};
use syscall::flag::{MapFlags, O_RDONLY, O_RDWR};

use super::fixture::{ADMIN, Fixture, Op, PAGE, USER};
use crate::Caller;
use crate::ROOT;

const OTHER: Caller = Caller {
    pid: 99,
    uid: 1001,
    gid: 1001,
};

#[test]
fn others_objects_are_shown_to_root_only() {
    let mut fixture = Fixture::new(1);
    let listener = fixture.open_with(0, "listen/2000", O_RDWR, USER).unwrap();
    let (_, _) = fixture.pair(0, 0, 3000);
    let memory = fixture.open_with(0, "memory", O_RDWR, USER).unwrap();
    let provide = MemoryCall::Provide { pages: 1 };
    let [pages, _] = provide.words();
    assert!(
        fixture
            .call(0, memory, &[], [provide.number(), pages, 0])
            .0
            .is_ok()
    );
    let shared = MapFlags::MAP_SHARED | MapFlags::PROT_READ;
    fixture.map(0, memory, 0, PAGE, shared).unwrap();
    let lines =
        |fixture: &mut Fixture, file, caller| fixture.text_for(0, file, caller).lines().count() - 1;
    // Root sees its own connection and the user's things; the user its own; the other nothing.
    for (file, counts) in [
        ("ports", [2, 1, 0]),
        ("connections", [2, 0, 0]),
        ("mappings", [1, 1, 0]),
        ("windows", [0, 0, 0]),
    ] {
        let seen = [ADMIN, USER, OTHER].map(|caller| lines(&mut fixture, file, caller));
        assert_eq!(seen, counts, "{file}");
    }
    for (caller, ports) in [(ADMIN, 1), (USER, 1), (OTHER, 0)] {
        let directory = fixture.open_with(0, "listen", O_RDONLY, caller).unwrap();
        let names = fixture.nodes[0].scif.list(directory).unwrap();
        assert_eq!(names.len(), ports, "{caller:?}");
    }
    // Nor can the other user take its connections or change everybody's limits.
    let shared = fixture.open_with(0, "accept/2000", O_RDWR, OTHER);
    assert_eq!(shared, Err(Error::new(EINVAL)));
    let limits = fixture.open_with(0, "limits", O_RDWR, OTHER);
    assert_eq!(limits, Err(Error::new(EACCES)));
    fixture.close(0, listener);
}

#[test]
fn all_limits_are_in_the_file_and_can_be_set() {
    let mut fixture = Fixture::new(1);
    let names: Vec<_> = QUOTAS
        .iter()
        .flat_map(|quota| ["user", "process"].map(|scope| format!("{}_per_{scope}", quota.name)))
        .collect();
    let file = fixture.open(0, "limits").unwrap();
    for (value, name) in names.iter().enumerate() {
        let line = format!("{name} {value}\n");
        assert_eq!(fixture.write(0, file, line.as_bytes()), Ok(line.len()));
    }
    let text = fixture.text(0, "limits");
    for (value, name) in names.iter().enumerate() {
        assert!(
            text.lines().any(|line| line == format!("{name} {value}")),
            "{name}"
        );
    }
}

/// Sets a limit.
fn set(fixture: &mut Fixture, line: &str) {
    let file = fixture.open(0, "limits").unwrap();
    assert_eq!(fixture.write(0, file, line.as_bytes()), Ok(line.len()));
    fixture.close(0, file);
}

#[test]
fn endpoints_and_backlogs_are_limited() {
    let mut fixture = Fixture::new(1);
    set(&mut fixture, "endpoints_per_user 2\n");
    let mut open = |path, caller| fixture.open_with(0, path, O_RDWR, caller);
    let first = open("endpoint", USER).unwrap();
    open("endpoint", Caller { pid: 78, ..USER }).unwrap();
    assert_eq!(open("endpoint", USER), Err(Error::new(ENOMEM)));
    assert!(open("endpoint", OTHER).is_ok());
    fixture.close(0, first);
    assert!(fixture.open_with(0, "endpoint", O_RDWR, USER).is_ok());
    set(&mut fixture, "backlog_per_process 200\n");
    let listener = fixture.open_with(0, "listen/0", O_RDWR, OTHER).unwrap();
    let refused = fixture.open_with(0, "listen/0", O_RDWR, OTHER);
    assert_eq!(refused, Err(Error::new(ENOMEM)));
    fixture.close(0, listener);
    assert!(fixture.open_with(0, "listen/0", O_RDWR, OTHER).is_ok());
}

#[test]
fn open_files_and_their_texts_are_limited() {
    let mut fixture = Fixture::new(1);
    let full = Err(Error::new(ENOMEM));
    let endpoint = fixture.open(0, "endpoint").unwrap();
    set(&mut fixture, "files_per_process 3\nfiles_per_user 4\n");
    // All kinds of files count, from all calls.
    let mut files: Vec<_> = ["version", "memory"]
        .map(|path| fixture.open_with(0, path, O_RDONLY, USER).unwrap())
        .into();
    let dup = |fixture: &mut Fixture, name: &[u8], caller| {
        let (id, name) = (endpoint, name.to_vec());
        fixture.now(0, Op::Dup { id, name, caller }).0
    };
    files.push(dup(&mut fixture, b"window", USER).unwrap());
    for path in ["version", "memory", "peers", "listen"] {
        assert_eq!(fixture.open_with(0, path, O_RDONLY, USER), full, "{path}");
    }
    assert_eq!(dup(&mut fixture, b"own-window", USER), full);
    // Endpoints are counted separately; the user has one more file in another process.
    let second = fixture.open_with(0, "endpoint", O_RDWR, USER).unwrap();
    let sister = Caller { pid: 78, ..USER };
    files.push(fixture.open_with(0, "version", O_RDONLY, sister).unwrap());
    assert_eq!(fixture.open_with(0, "version", O_RDONLY, sister), full);
    assert!(fixture.open_with(0, "version", O_RDONLY, OTHER).is_ok());
    // An endpoint that was shut down stays a file, even if there are too many then.
    let shut = scif_abi::call::Call::Shutdown;
    assert_eq!(super::programs::call(&mut fixture, 0, second, shut), Ok(0));
    for id in files {
        fixture.close(0, id);
    }
    let more = [(); 2].map(|()| fixture.open_with(0, "version", O_RDONLY, USER).unwrap());
    assert_eq!(fixture.open_with(0, "version", O_RDONLY, USER), full);
    fixture.close(0, second);
    assert!(fixture.open_with(0, "version", O_RDONLY, USER).is_ok());
    for id in more {
        fixture.close(0, id);
    }
    // A text counts by its length: the one of the counters has more than 512 bytes.
    set(&mut fixture, "files_per_process 2\n");
    assert_eq!(fixture.open_with(0, "stats", O_RDONLY, OTHER), full);
    set(&mut fixture, "files_per_process 30\nfiles_per_user 30\n");
    assert!(fixture.open_with(0, "stats", O_RDONLY, OTHER).is_ok());
    // Root can always undo it.
    set(&mut fixture, "files_per_user 0\n");
    assert_eq!(fixture.open_with(0, "version", O_RDONLY, ADMIN), full);
    set(&mut fixture, "files_per_user 10\n");
    assert!(fixture.open_with(0, "version", O_RDONLY, ADMIN).is_ok());
}

#[test]
fn shutting_endpoints_down_gets_around_no_limit() {
    let mut fixture = Fixture::new(1);
    set(
        &mut fixture,
        "endpoints_per_process 1\nfiles_per_process 2\n",
    );
    let open = |fixture: &mut Fixture| fixture.open_with(0, "endpoint", O_RDWR, USER);
    let mut shut_down = Vec::new();
    for _ in 0..3 {
        let endpoint = open(&mut fixture).unwrap();
        let shut = scif_abi::call::Call::Shutdown;
        assert_eq!(
            super::programs::call(&mut fixture, 0, endpoint, shut),
            Ok(0)
        );
        shut_down.push(endpoint);
    }
    // Of files it has one more than it may by now.
    assert_eq!(open(&mut fixture), Err(Error::new(ENOMEM)));
    assert!(fixture.open_with(0, "endpoint", O_RDWR, OTHER).is_ok());
    for id in shut_down.drain(..1) {
        fixture.close(0, id);
    }
    assert!(open(&mut fixture).is_ok());
}

#[test]
fn requests_that_wait_are_limited() {
    let mut fixture = Fixture::new(1);
    set(
        &mut fixture,
        "requests_per_process 2\nrequests_per_user 3\n",
    );
    let scif = &mut fixture.nodes[0].scif;
    let full = Err(Error::new(ENOMEM));
    assert_eq!(scif.begin_wait(ROOT, 10, Some(1000), 1), Ok(()));
    assert_eq!(scif.begin_wait(ROOT, 10, Some(1000), 2), Ok(()));
    assert_eq!(scif.begin_wait(ROOT, 10, Some(1000), 3), full);
    assert_eq!(scif.begin_wait(ROOT, 11, Some(1000), 4), Ok(()));
    assert_eq!(scif.begin_wait(ROOT, 12, Some(1000), 5), full);
    assert_eq!(scif.begin_wait(ROOT, 13, Some(1001), 6), Ok(()));
    scif.end_of_wait(2);
    // One that was not counted.
    scif.end_of_wait(3);
    assert_eq!(scif.begin_wait(ROOT, 11, Some(1000), 7), Ok(()));
    assert_eq!(scif.begin_wait(ROOT, 10, Some(1000), 8), full);
    // A call does not name the user: then the handle's opener counts.
    let endpoint = fixture.open_with(0, "endpoint", O_RDWR, USER).unwrap();
    let scif = &mut fixture.nodes[0].scif;
    assert_eq!(scif.begin_wait(endpoint, 14, None, 9), full);
}

#[test]
fn connects_are_limited() {
    let mut fixture = Fixture::new(1);
    let listener = fixture.open(0, "listen/2000").unwrap();
    set(&mut fixture, "connects_per_process 1\n");
    let first = fixture.start_open(0, "0/2000");
    assert!(fixture.is_kept(0, first));
    assert_eq!(fixture.open(0, "0/2000"), Err(Error::new(ENOMEM)));
    assert!(fixture.cancel(0, first).is_err());
    // The request was withdrawn and answered, so it no longer counts.
    let again = fixture.start_open(0, "0/2000");
    assert!(fixture.is_kept(0, again));
    assert!(fixture.cancel(0, again).is_err());
    fixture.close(0, listener);
}
