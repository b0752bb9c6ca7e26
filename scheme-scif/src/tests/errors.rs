//! Bad input: each gives its documented error and leaves nothing behind.

use scif_abi::call::{CachedRecord, Call};
use syscall::error::*;
use syscall::flag::{F_GETFL, F_SETFL, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};

use super::fixture::{ADMIN, Fixture, Op, USER};
use super::programs::{call, ends, error, fixed, memory, on_both, register};
use crate::ROOT;

#[test]
fn opens_that_fail() {
    let mut fixture = Fixture::new(2);
    let _taken = fixture.open(0, "listen/2050").unwrap();
    let table = [
        ("foo", O_RDONLY, ENOENT),
        ("1/x", O_RDWR, EINVAL),
        ("1/65536", O_RDWR, EINVAL),
        ("1/0", O_RDWR, EINVAL),
        ("accept/0", O_RDWR, EINVAL),
        ("5/2050", O_RDWR, ENODEV),
        ("5", O_RDONLY, ENODEV),
        ("65535/1", O_RDWR, ENODEV),
        ("1/2050", O_RDWR, ECONNREFUSED),
        ("0/2051", O_RDWR, ECONNREFUSED),
        ("listen/2050", O_RDWR, EINVAL),
        ("listen/80", O_RDWR, EACCES),
        ("accept/80", O_RDWR, EACCES),
        ("accept/3000", O_RDWR | O_NONBLOCK, EINVAL),
        ("nodes", O_WRONLY, EACCES),
        ("stats", O_RDWR, EACCES),
        ("", O_WRONLY, EISDIR),
        ("listen", O_RDWR, EISDIR),
    ];
    for (path, flags, errno) in table {
        assert_eq!(
            fixture.open_with(0, path, flags, USER),
            Err(Error::new(errno)),
            "{path}"
        );
    }
    assert_eq!(fixture.nodes[0].scif.handles().len(), 2);
    assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
    assert_eq!(fixture.counter(0, "endpoints"), 1);
}

#[test]
fn a_backlog_that_is_full_refuses() {
    let mut fixture = Fixture::new(2);
    let endpoint = fixture.open(1, "endpoint").unwrap();
    let bind = Call::BIND;
    let listen = Call::LISTEN;
    assert_eq!(fixture.call(1, endpoint, &[], [bind, 2050, 0]).0, Ok(2050));
    assert_eq!(fixture.call(1, endpoint, &[], [listen, 1, 0]).0, Ok(0));
    let first = fixture.start_open(0, "1/2050");
    assert_eq!(fixture.open(0, "1/2050"), Err(Error::new(ECONNREFUSED)));
    let accept = fixture.start_accept(1, endpoint);
    assert!(fixture.answer(1, accept).unwrap().0.is_ok());
    assert!(fixture.answer(0, first).unwrap().0.is_ok());
    let third = fixture.start_open(0, "1/2050");
    assert!(
        fixture.answer(0, third).is_none(),
        "there is room in the backlog again"
    );
}

#[test]
fn operations_on_the_wrong_thing() {
    let mut fixture = Fixture::new(1);
    let nodes = fixture.open_with(0, "nodes", O_RDONLY, USER).unwrap();
    let root = fixture.open_with(0, "", O_RDONLY, USER).unwrap();
    let endpoint = fixture.open(0, "endpoint").unwrap();
    let poll = Call::POLL;
    let missing = 999;
    assert_eq!(fixture.read(0, root, 10), Err(Error::new(EISDIR)));
    assert_eq!(fixture.write(0, nodes, b"x"), Err(Error::new(EBADF)));
    assert_eq!(
        fixture.call(0, nodes, &[], [poll, 0, 0]).0,
        Err(Error::new(ENOTTY))
    );
    assert_eq!(
        fixture.call(0, missing, &[], [poll, 0, 0]).0,
        Err(Error::new(EBADF))
    );
    let dup = |id| Op::Dup {
        id,
        name: b"accept".to_vec(),
        caller: USER,
    };
    assert_eq!(fixture.now(0, dup(nodes)).0, Err(Error::new(ENOTTY)));
    assert_eq!(fixture.now(0, dup(endpoint)).0, Err(Error::new(EINVAL)));
    assert_eq!(fixture.now(0, dup(missing)).0, Err(Error::new(EBADF)));
    assert_eq!(fixture.read(0, endpoint, 10), Err(Error::new(ENOTCONN)));
    assert_eq!(fixture.write(0, endpoint, b"x"), Err(Error::new(ENOTCONN)));
    assert_eq!(fixture.read(0, endpoint, 0), Ok(Vec::new()));
    let scif = &mut fixture.nodes[0].scif;
    assert_eq!(scif.control(endpoint, F_GETFL, 0), Ok(0));
    assert_eq!(scif.control(endpoint, F_SETFL, O_NONBLOCK), Ok(0));
    assert_eq!(scif.control(endpoint, 1234, 0), Err(Error::new(EINVAL)));
    assert_eq!(scif.control(missing, F_GETFL, 0), Err(Error::new(EBADF)));
    assert_eq!(scif.list(nodes).map(|_| ()), Err(Error::new(ENOTDIR)));
    assert_eq!(scif.name(missing), Err(Error::new(EBADF)));
    scif.close(missing);
    scif.close(ROOT);
    assert_eq!(scif.cancel(4242), Err(Error::new(ECANCELED)));
    assert!(
        fixture.open(0, "nodes").is_err(),
        "root may not write a text file either"
    );
    assert!(fixture.open_with(0, "nodes", O_RDONLY, ADMIN).is_ok());
}

/// Requests of all kinds with arbitrary arguments give errors but never a panic, and after
/// everything is closed nothing is left.
#[test]
fn arbitrary_requests_do_no_harm() {
    for seed in 1..60_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = move |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % limit
        };
        let mut fixture = Fixture::new(2);
        let baseline: Vec<usize> = fixture
            .nodes
            .iter_mut()
            .map(|node| node.scif.engine().1.allocated)
            .collect();
        let mut pending: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..400 {
            let node = random(2) as usize;
            let newest = fixture.nodes[node]
                .scif
                .handles()
                .iter()
                .last()
                .map_or(0, |(id, _)| id);
            let id = random(newest as u64 + 2) as usize;
            let paths = [
                "listen/2050",
                "listen/0",
                "accept/2050",
                "accept/2051",
                "0/2050",
                "1/2050",
                "1/2051",
                "stp",
                "stp/0/2050",
                "stp/1/2050",
                "stp/listen/2050",
                "stp/accept/2051",
                "endpoint",
                "nodes",
                "stats",
                "",
                "listen",
                "connections",
                "ports",
            ];
            let caller = if random(2) == 0 { USER } else { ADMIN };
            let flags = if random(3) == 0 {
                O_NONBLOCK | O_RDWR
            } else {
                O_RDWR
            };
            let flags = if random(4) == 0 { O_RDONLY } else { flags };
            let op = match random(10) {
                0..3 => {
                    let path = paths[random(paths.len() as u64) as usize].into();
                    Op::Open {
                        directory: ROOT,
                        path,
                        flags,
                        caller,
                    }
                }
                3 => Op::Read {
                    id,
                    length: random(9000) as usize,
                    flags,
                },
                4 => Op::Write {
                    id,
                    bytes: vec![1; random(9000) as usize],
                    flags,
                },
                5 => Op::Dup {
                    id,
                    name: b"accept".to_vec(),
                    caller,
                },
                6 | 7 => {
                    let number = [1, 2, 3, 4, 5, 6, 7, 14, 64, 65, 66, 99][random(12) as usize];
                    let payload = vec![0; [0, 16, 100, 5000][random(4) as usize]];
                    let metadata = vec![
                        number,
                        random(3),
                        [0, 1, 2050, 2051, 1 << 40][random(5) as usize],
                    ];
                    Op::Call {
                        id,
                        payload,
                        metadata,
                    }
                }
                8 => {
                    if id != ROOT {
                        fixture.close(node, id);
                    }
                    continue;
                }
                _ => {
                    if let Some(request) = pending[node].pop()
                        && fixture.answer(node, request).is_none()
                        && fixture.is_kept(node, request)
                    {
                        let _ = fixture.cancel(node, request);
                    }
                    continue;
                }
            };
            let request = fixture.submit(node, op);
            pending[node].push(request);
        }
        for node in 0..2 {
            for request in fixture.all_kept(node) {
                if fixture.is_kept(node, request) {
                    let _ = fixture.cancel(node, request);
                }
            }
        }
        for node in 0..2 {
            let open: Vec<usize> = fixture.nodes[node]
                .scif
                .handles()
                .iter()
                .map(|(id, _)| id)
                .collect();
            open.into_iter()
                .filter(|&id| id != ROOT)
                .for_each(|id| fixture.close(node, id));
        }
        fixture.run();
        let left: Vec<usize> = fixture
            .nodes
            .iter_mut()
            .map(|node| node.scif.engine().1.allocated)
            .collect();
        assert_eq!(baseline, left, "seed {seed}");
        for node in 0..2 {
            assert_eq!(fixture.counter(node, "endpoints"), 0, "seed {seed}");
            assert_eq!(fixture.nodes[node].scif.requests().len(), 0, "seed {seed}");
            assert!(
                fixture.nodes[node].scif.listeners().is_empty(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn missing_memory_of_a_cached_transfer_is_reported_last() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let theirs = memory(fixture, to, 2);
        let mut readable = fixed(theirs, 0x20000, 2);
        readable.protection = 1.into();
        register(fixture, to, far, readable).unwrap();
        let write = |fixture: &mut Fixture, id, length: u64, remote: i64, flags: u32| {
            let record = CachedRecord {
                length: length.into(),
                remote_offset: remote.into(),
                flags: flags.into(),
                ..CachedRecord::default()
            };
            call(fixture, 0, id, Call::CachedWriteTo { record })
        };
        let unbound = fixture.open(0, "endpoint").unwrap();
        assert_eq!(write(fixture, unbound, 8, 0, 64), error(ENOTCONN));
        assert_eq!(write(fixture, near, 8, 0, 64), error(EINVAL));
        assert_eq!(write(fixture, near, 0, 0x20000, 0), error(EINVAL));
        assert_eq!(write(fixture, near, 8, 0x40000, 0), error(ENXIO));
        assert_eq!(write(fixture, near, 8, 0x20000, 0), error(EACCES));
        register(fixture, to, far, fixed(theirs, 0, 2)).unwrap();
        assert_eq!(write(fixture, near, 8, 0, 0), error(EFAULT));
        fixture.close(to, far);
        assert_eq!(write(fixture, near, 8, 0, 0), error(ECONNRESET));
    });
}
