//! Bytes: large writes in pieces, lanes, partial progress, giving up in the middle.

use scif_abi::call::Call;
use scif_abi::codec::Operation;
use syscall::error::{EAGAIN, EBADF, ECANCELED, ECONNRESET, Error};
use syscall::flag::{EventFlags, O_NONBLOCK, O_RDONLY, O_WRONLY};

use super::bed::{Bed, EMPTY, Op, PAGE, USER};
use super::programs::{fixed, memory, register};

fn error<T>(errno: i32) -> Result<T, Error> {
    Err(Error::new(errno))
}

fn on_one_and_two_nodes(test: impl Fn(Bed, usize)) {
    test(Bed::new(1), 0);
    test(Bed::new(2), 1);
}

/// Bytes that tell their position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect()
}

#[test]
fn a_large_write_streams_through_a_small_ring() {
    on_one_and_two_nodes(|mut bed, to| {
        for chunk in [1, 7, 4095, 4096, 10_000, 1 << 20] {
            let (client, server) = bed.pair(0, to, 2050);
            let length = if chunk == 1 { 20_000 } else { 300_007 };
            let data = pattern(length);
            let write = bed.start_write(0, client, &data);
            assert!(bed.answer(0, write).is_none(), "it cannot have fitted");
            let mut received = Vec::new();
            while received.len() < length {
                received.extend(bed.read(to, server, chunk).unwrap());
            }
            assert_eq!(bed.answer(0, write).unwrap().0, Ok(length));
            assert!(received == data, "chunk {chunk}");
            bed.close(0, client);
            assert_eq!(bed.read(to, server, 1), error(ECONNRESET));
            bed.close(to, server);
        }
    });
}

#[test]
fn a_waiting_read_is_woken_by_the_first_byte() {
    on_one_and_two_nodes(|mut bed, to| {
        let (client, server) = bed.pair(0, to, 2050);
        assert_eq!(bed.ready(to, server), EventFlags::EVENT_WRITE);
        let read = bed.start_read(to, server, 100);
        assert!(bed.answer(to, read).is_none());
        bed.write(0, client, b"abc").unwrap();
        let (result, bytes) = bed.answer(to, read).unwrap();
        assert_eq!((result, &bytes[..3]), (Ok(3), &b"abc"[..]));
        let read = bed.start_read(to, server, 100);
        bed.close(0, client);
        assert_eq!(bed.answer(to, read).unwrap().0, error(ECONNRESET));
        assert_eq!(
            bed.ready(to, server),
            EventFlags::EVENT_READ | EventFlags::EVENT_WRITE
        );
    });
}

#[test]
fn a_cancelled_write_leaves_exactly_what_it_counted() {
    on_one_and_two_nodes(|mut bed, to| {
        let (client, server) = bed.pair(0, to, 2050);
        let data = pattern(50_000);
        let write = bed.start_write(0, client, &data);
        let mut received = bed.read(to, server, 1234).unwrap();
        let counted = bed.cancel(0, write).unwrap();
        assert!(counted > 1234 && counted < data.len());
        bed.close(0, client);
        loop {
            match bed.read(to, server, 999) {
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
    on_one_and_two_nodes(|mut bed, to| {
        let (client, server) = bed.pair(0, to, 2050);
        let data = pattern(50_000);
        let write = bed.start_write(0, client, &data);
        bed.close(0, client);
        let counted = bed.answer(0, write).unwrap().0.unwrap();
        let mut received = Vec::new();
        while let Ok(bytes) = bed.read(to, server, 4096) {
            received.extend(bytes);
        }
        assert!(received == data[..counted] && counted > 0);
        assert_eq!(bed.read(to, server, 4096), error(ECONNRESET));
        assert_eq!(bed.nodes[0].scif.requests().len(), 0);
    });
}

#[test]
fn writes_do_not_mix() {
    on_one_and_two_nodes(|mut bed, to| {
        let (client, server) = bed.pair(0, to, 2050);
        let first = bed.start_write(0, client, &[1; 30_000]);
        let second = bed.start_write(0, client, &[2; 30_000]);
        let third = bed.start_write(0, client, &[3; 10]);
        // One that does not wait finds the ring busy, even when there is room for a moment.
        let op = Op::Write {
            id: client,
            bytes: vec![9; 5],
            flags: O_NONBLOCK,
        };
        assert_eq!(bed.now(0, op).0, error(EAGAIN));
        assert_eq!(bed.cancel(0, third), error(ECANCELED));
        let mut received = Vec::new();
        while received.len() < 60_000 {
            received.extend(bed.read(to, server, 777).unwrap());
        }
        assert!(received[..30_000].iter().all(|&byte| byte == 1));
        assert!(received[30_000..].iter().all(|&byte| byte == 2));
        assert_eq!(bed.answer(0, first).unwrap().0, Ok(30_000));
        assert_eq!(bed.answer(0, second).unwrap().0, Ok(30_000));
    });
}

#[test]
fn reads_are_served_in_order() {
    let mut bed = Bed::new(1);
    let (client, server) = bed.pair(0, 0, 2050);
    let first = bed.start_read(0, server, 2);
    let second = bed.start_read(0, server, 2);
    let third = bed.start_read(0, server, 2);
    assert_eq!(bed.cancel(0, first), error(ECANCELED));
    bed.write(0, client, b"abcd").unwrap();
    assert_eq!(bed.answer(0, second).unwrap().1, b"ab");
    assert_eq!(bed.answer(0, third).unwrap().1, b"cd");
}

#[test]
fn transfers_that_do_not_wait() {
    on_one_and_two_nodes(|mut bed, to| {
        let (client, server) = bed.pair(0, to, 2050);
        let read = Op::Read {
            id: server,
            length: 10,
            flags: O_NONBLOCK,
        };
        assert_eq!(bed.now(to, read.clone()).0, error(EAGAIN));
        let write = Op::Write {
            id: client,
            bytes: vec![5; 10_000],
            flags: O_NONBLOCK,
        };
        let fitted = bed.now(0, write.clone()).0.unwrap();
        assert!(fitted > 0 && fitted < 10_000);
        assert_eq!(bed.now(0, write.clone()).0, error(EAGAIN));
        assert_eq!(bed.ready(0, client), EMPTY);
        assert_eq!(bed.now(to, read).0, Ok(10));
        assert!(bed.ready(0, client).contains(EventFlags::EVENT_WRITE));
        assert_eq!(bed.now(0, write).0, Ok(10));
    });
}

#[test]
fn the_access_mode_is_kept() {
    let mut bed = Bed::new(1);
    let _listener = bed.open(0, "listen/2050").unwrap();
    let reader = bed
        .open_with(0, "0/2050", O_RDONLY | O_NONBLOCK, USER)
        .unwrap();
    let writer = bed
        .open_with(0, "0/2050", O_WRONLY | O_NONBLOCK, USER)
        .unwrap();
    assert_eq!(bed.write(0, reader, b"x"), error(EBADF));
    assert_eq!(bed.read(0, writer, 1), error(EBADF));
    assert_eq!(bed.read(0, 12345, 1), error(EBADF));
}

#[test]
fn transfers_beside_their_calls_take_turns_by_process() {
    const PAGES: usize = 80;
    let mut bed = Bed::new(2);
    // More than is copied at the first look at each. Five of one process, then one of another.
    let transfers: Vec<Op> = (0..6)
        .map(|at| {
            let (near, far) = bed.pair(0, 1, 2100 + at);
            let theirs = memory(&mut bed, 1, PAGES);
            assert_eq!(register(&mut bed, 1, far, fixed(theirs, 0, PAGES)), Ok(0));
            let process = if at < 5 { 7 } else { 8 };
            let handle = bed.nodes[0].scif.handles().get_mut(near).unwrap();
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
    let submit = |op| bed.submit_only(0, op);
    let requests: Vec<u32> = transfers.into_iter().map(submit).collect();
    // An iteration has its share of them.
    let scif = &mut bed.nodes[0].scif;
    scif.requests().changes().requests.clear();
    scif.begin_iteration();
    assert_eq!(
        scif.requests().changes().requests,
        [0, 5, 1, 2].map(|at| requests[at]).to_vec()
    );
    assert!(scif.is_busy());
    bed.run();
    for request in requests {
        let (result, _) = bed.answer(0, request).expect("it is not done");
        assert_eq!(result, Ok(0));
    }
    assert!(!bed.nodes[0].scif.is_busy());
}
