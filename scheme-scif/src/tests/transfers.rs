//! Bytes: large writes in pieces, lanes, partial progress, giving up in the middle.

use scif_abi::call::Call;
use scif_abi::codec::Operation;
use syscall::error::{EAGAIN, EBADF, ECANCELED, ECONNRESET, Error};
use syscall::flag::{EventFlags, O_NONBLOCK, O_RDONLY, O_WRONLY};

use super::fixture::{EMPTY, Fixture, Op, PAGE, USER};
use super::programs::{fixed, memory, register};

fn error<T>(errno: i32) -> Result<T, Error> {
    Err(Error::new(errno))
}

fn on_one_and_two_nodes(test: impl Fn(Fixture, usize)) {
    test(Fixture::new(1), 0);
    test(Fixture::new(2), 1);
}

/// Bytes that depend on their position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect()
}

#[test]
fn a_large_write_streams_through_a_small_ring() {
    on_one_and_two_nodes(|mut fixture, to| {
        for chunk in [1, 7, 4095, 4096, 10_000, 1 << 20] {
            let (client, server) = fixture.pair(0, to, 2050);
            let length = if chunk == 1 { 20_000 } else { 300_007 };
            let data = pattern(length);
            let write = fixture.start_write(0, client, &data);
            assert!(fixture.answer(0, write).is_none(), "it cannot have fitted");
            let mut received = Vec::new();
            while received.len() < length {
                received.extend(fixture.read(to, server, chunk).unwrap());
            }
            assert_eq!(fixture.answer(0, write).unwrap().0, Ok(length));
            assert!(received == data, "chunk {chunk}");
            fixture.close(0, client);
            assert_eq!(fixture.read(to, server, 1), error(ECONNRESET));
            fixture.close(to, server);
        }
    });
}

#[test]
fn a_waiting_read_is_woken_by_the_first_byte() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = fixture.pair(0, to, 2050);
        assert_eq!(fixture.ready(to, server), EventFlags::EVENT_WRITE);
        let read = fixture.start_read(to, server, 100);
        assert!(fixture.answer(to, read).is_none());
        fixture.write(0, client, b"abc").unwrap();
        let (result, bytes) = fixture.answer(to, read).unwrap();
        assert_eq!((result, &bytes[..3]), (Ok(3), &b"abc"[..]));
        let read = fixture.start_read(to, server, 100);
        fixture.close(0, client);
        assert_eq!(fixture.answer(to, read).unwrap().0, error(ECONNRESET));
        assert_eq!(
            fixture.ready(to, server),
            EventFlags::EVENT_READ | EventFlags::EVENT_WRITE
        );
    });
}

#[test]
fn a_cancelled_write_leaves_exactly_what_it_counted() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = fixture.pair(0, to, 2050);
        let data = pattern(50_000);
        let write = fixture.start_write(0, client, &data);
        let mut received = fixture.read(to, server, 1234).unwrap();
        let counted = fixture.cancel(0, write).unwrap();
        assert!(counted > 1234 && counted < data.len());
        fixture.close(0, client);
        loop {
            match fixture.read(to, server, 999) {
                Ok(bytes) => received.extend(bytes),
                Err(end) => {
                    assert_eq!(end, Error::new(ECONNRESET));
                    break;
                }
            }
        }
        assert!(received == data[..counted]);
    });
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_write() {
    // Its descriptor is closed while the request waits: the loop cancels and closes.
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = fixture.pair(0, to, 2050);
        let data = pattern(50_000);
        let write = fixture.start_write(0, client, &data);
        fixture.close(0, client);
        let counted = fixture.answer(0, write).unwrap().0.unwrap();
        let mut received = Vec::new();
        while let Ok(bytes) = fixture.read(to, server, 4096) {
            received.extend(bytes);
        }
        assert!(received == data[..counted] && counted > 0);
        assert_eq!(fixture.read(to, server, 4096), error(ECONNRESET));
        assert_eq!(fixture.nodes[0].scif.requests().len(), 0);
    });
}

#[test]
fn writes_do_not_mix() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = fixture.pair(0, to, 2050);
        let first = fixture.start_write(0, client, &[1; 30_000]);
        let second = fixture.start_write(0, client, &[2; 30_000]);
        let third = fixture.start_write(0, client, &[3; 10]);
        // A write that does not wait finds the ring busy, even when there is room for a moment.
        let op = Op::Write {
            id: client,
            bytes: vec![9; 5],
            flags: O_NONBLOCK,
        };
        assert_eq!(fixture.now(0, op).0, error(EAGAIN));
        assert_eq!(fixture.cancel(0, third), error(ECANCELED));
        let mut received = Vec::new();
        while received.len() < 60_000 {
            received.extend(fixture.read(to, server, 777).unwrap());
        }
        assert!(received[..30_000].iter().all(|&byte| byte == 1));
        assert!(received[30_000..].iter().all(|&byte| byte == 2));
        assert_eq!(fixture.answer(0, first).unwrap().0, Ok(30_000));
        assert_eq!(fixture.answer(0, second).unwrap().0, Ok(30_000));
    });
}

#[test]
fn reads_are_served_in_order() {
    let mut fixture = Fixture::new(1);
    let (client, server) = fixture.pair(0, 0, 2050);
    let first = fixture.start_read(0, server, 2);
    let second = fixture.start_read(0, server, 2);
    let third = fixture.start_read(0, server, 2);
    assert_eq!(fixture.cancel(0, first), error(ECANCELED));
    fixture.write(0, client, b"abcd").unwrap();
    assert_eq!(fixture.answer(0, second).unwrap().1, b"ab");
    assert_eq!(fixture.answer(0, third).unwrap().1, b"cd");
}

#[test]
fn transfers_that_do_not_wait() {
    on_one_and_two_nodes(|mut fixture, to| {
        let (client, server) = fixture.pair(0, to, 2050);
        let read = Op::Read {
            id: server,
            length: 10,
            flags: O_NONBLOCK,
        };
        assert_eq!(fixture.now(to, read.clone()).0, error(EAGAIN));
        let write = Op::Write {
            id: client,
            bytes: vec![5; 10_000],
            flags: O_NONBLOCK,
        };
        let fitted = fixture.now(0, write.clone()).0.unwrap();
        assert!(fitted > 0 && fitted < 10_000);
        assert_eq!(fixture.now(0, write.clone()).0, error(EAGAIN));
        assert_eq!(fixture.ready(0, client), EMPTY);
        assert_eq!(fixture.now(to, read).0, Ok(10));
        assert!(fixture.ready(0, client).contains(EventFlags::EVENT_WRITE));
        assert_eq!(fixture.now(0, write).0, Ok(10));
    });
}

#[test]
fn the_access_mode_is_kept() {
    let mut fixture = Fixture::new(1);
    let _listener = fixture.open(0, "listen/2050").unwrap();
    let reader = fixture
        .open_with(0, "0/2050", O_RDONLY | O_NONBLOCK, USER)
        .unwrap();
    let writer = fixture
        .open_with(0, "0/2050", O_WRONLY | O_NONBLOCK, USER)
        .unwrap();
    assert_eq!(fixture.write(0, reader, b"x"), error(EBADF));
    assert_eq!(fixture.read(0, writer, 1), error(EBADF));
    assert_eq!(fixture.read(0, 12345, 1), error(EBADF));
}

#[test]
fn transfers_beside_their_calls_take_turns_by_process() {
    const PAGES: usize = 80;
    let mut fixture = Fixture::new(2);
    // More than one step copies of each transfer. Five are one process's, one is another's.
    let transfers: Vec<Op> = (0..6)
        .map(|at| {
            let (near, far) = fixture.pair(0, 1, 2100 + at);
            let theirs = memory(&mut fixture, 1, PAGES);
            assert_eq!(
                register(&mut fixture, 1, far, fixed(theirs, 0, PAGES)),
                Ok(0)
            );
            let process = if at < 5 { 7 } else { 8 };
            let handle = fixture.nodes[0].scif.handles().get_mut(near).unwrap();
            handle.set_process(process);
            let [first, second] = Call::VirtualWriteTo {
                remote_offset: 0,
                flags: 0,
            }
            .words();
            Op::Call {
                id: near,
                payload: pattern(PAGES * PAGE),
                metadata: vec![Call::VIRTUAL_WRITE_TO, first, second],
            }
        })
        .collect();
    let submit = |op| fixture.submit_only(0, op);
    let requests: Vec<u32> = transfers.into_iter().map(submit).collect();
    // An iteration does its share of them.
    let scif = &mut fixture.nodes[0].scif;
    scif.requests().changes().requests.clear();
    scif.begin_iteration();
    assert_eq!(
        scif.requests().changes().requests,
        [0, 5, 1, 2].map(|at| requests[at]).to_vec()
    );
    assert!(scif.is_busy());
    fixture.run();
    for request in requests {
        let (result, _) = fixture.answer(0, request).expect("it is not done");
        assert_eq!(result, Ok(0));
    }
    assert!(!fixture.nodes[0].scif.is_busy());
}
