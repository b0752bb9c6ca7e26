//! The bypass against a simulated system: both ends of a connection, whose pages are the test's.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use client_memory::pages::Pages;
use client_memory::rights::Rights;
use hal::copy::Side as MemorySide;
use hal::testing::host::{self, Request};
use libredox::flag::PROT_WRITE;
use scif_abi::bypass::{
    BYPASS_GATHERED, BypassRecord, EPOCH_OFFSET, Part, RECEIVE_LOCK_OFFSET, SEND_LOCK_OFFSET,
    STATE_CONNECTED, STATE_DISCONNECTED, STATE_FINISHED, STATE_OFFSET, TRANSFERS_OFFSET,
    rma_busy_offset,
};
use scif_abi::call::Call;
use scif_abi::codec::Operation;
use scif_abi::flags::Kicks;
use scif_abi::qp::{
    BYTES_ARMED_OFFSET, LOCAL_WRITE_OFFSET, MAGIC_OFFSET, QP_MAGIC, ROOM_ARMED_OFFSET,
};
use scif_ring::validity::ValidityMemory;
use scif_ring::{RingMemory, Side};
use syscall::error::{
    EACCES, EAGAIN, EBUSY, ECONNRESET, EINTR, EINVAL, EMFILE, ENODEV, ENOTCONN, ENXIO, EOPNOTSUPP,
    Error, Result as SystemResult,
};
use syscall::flag::{F_DUPFD, F_GETFL, F_SETFD, O_NONBLOCK, UPPER_FDTBL_TAG};
use zerocopy::IntoBytes;

use super::busy_poll::Waiting;
use super::control::Control;
use super::transfer::{Sending, Waited};
use super::*;

const PAGE: usize = hal::mem::PAGE;
const RING: u32 = 4096;
/// Descriptors of the two endpoints; of their bypass handles 100 more, of windows 200 and 300
/// more.
const LEFT: usize = 3;
const RIGHT: usize = 4;
const BYPASS: usize = 100;
/// The number of the left one's handle.
const BYPASS_LEFT: u32 = (BYPASS + LEFT) as u32;
const WINDOWS: usize = 200;
/// An event queue.
const EVENTS: usize = 900;
const OWN_WINDOWS: usize = 300;
/// Bytes of the memory registered at offset 0 on each side.
const WINDOW_BYTES: u64 = 64 * 1024;
const BLOCK: u32 = 1;
/// An address at which nothing is.
const UNUSED_ADDRESSES: usize = 1 << 40;

const CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;

type Bytes = &'static [AtomicU8];

/// One end's memory.
struct End {
    control: Bytes,
    own: Bytes,
    window: Bytes,
}

impl End {
    fn new() -> Self {
        let pages = |bytes| host::pages(bytes).unwrap();
        let end = Self {
            control: pages(PAGE),
            own: pages(Part::Own.bytes(RING, RING)),
            window: pages(WINDOW_BYTES as usize),
        };
        put(end.control, STATE_OFFSET, STATE_CONNECTED);
        put(end.own, MAGIC_OFFSET, QP_MAGIC as u32);
        put(end.own, MAGIC_OFFSET + 4, (QP_MAGIC >> 32) as u32);
        end
    }
}

fn put(place: Bytes, offset: u64, value: u32) {
    for (at, byte) in value.to_le_bytes().into_iter().enumerate() {
        place[offset as usize + at].store(byte, Relaxed);
    }
}

fn get(place: Bytes, offset: u64) -> u32 {
    let byte = |at: usize| place[offset as usize + at].load(Relaxed);
    u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
}

type Action = Box<dyn FnOnce() -> SystemResult<usize>>;

struct World {
    ends: [End; 2],
    log: Vec<String>,
    /// The error of `dup(…, "bypass")`, if it fails.
    refusal: Option<i32>,
    /// Answers of the daemon to transfers.
    answers: VecDeque<SystemResult<usize>>,
    /// The events during sleeps, and the readiness after each.
    sleeps: VecDeque<Action>,
    /// The descriptors have `O_NONBLOCK`.
    is_nonblocking: bool,
    /// Descriptors that a program executed by this one would inherit.
    inherited: BTreeSet<usize>,
    /// The library's descriptors that the program may close or replace.
    lower: BTreeSet<usize>,
    /// Bytes that were unmapped.
    unmapped: Rc<Cell<usize>>,
    /// Whether the peer is on another node.
    is_far: bool,
    /// Whether stores to the peer are gathered on their way.
    gathers: bool,
    /// The length of both rings, at most that of their page.
    ring_bytes: u32,
    /// The daemon has died.
    is_dead: bool,
    /// An action while a window is mapped.
    on_map: Option<Box<dyn FnOnce()>>,
    /// The peer's window is the left end's control page, so that a copy there changes it.
    is_control: bool,
    /// The peer's window may be read only.
    is_read_only: bool,
    /// Another thread still uses a former window that it has mapped through the descriptor for
    /// windows.
    is_former_mapped: bool,
    /// Descriptors for windows so far.
    window_files: usize,
}

impl World {
    fn end(&self, fd: usize) -> (&End, &End) {
        let [left, right] = &self.ends;
        match fd % 100 {
            LEFT => (left, right),
            _ => (right, left),
        }
    }

    fn answer(&mut self, request: Request<'_>) -> SystemResult<usize> {
        match request {
            Request::Dup(fd, name) => {
                let new = match name {
                    b"bypass" => fd + BYPASS,
                    b"cached-window" => {
                        self.window_files += 1;
                        self.is_former_mapped = false;
                        fd + WINDOWS
                    }
                    b"own-window" => fd + OWN_WINDOWS,
                    _ => return failure(EINVAL),
                };
                if name == b"bypass" {
                    self.log.push(String::from("bypass"));
                    self.refusal.map_or(Ok(()), failure)?;
                }
                self.inherited.insert(new);
                self.lower.insert(new);
                Ok(new)
            }
            Request::Control(fd, F_DUPFD, UPPER_FDTBL_TAG) => {
                self.lower.remove(&fd);
                Ok(fd)
            }
            Request::Control(fd, F_SETFD, CLOEXEC) => {
                self.inherited.remove(&fd);
                Ok(0)
            }
            Request::Control(LEFT | RIGHT, F_GETFL, 0) if self.is_nonblocking => Ok(O_NONBLOCK),
            Request::Control(LEFT | RIGHT, F_GETFL, 0) => Ok(0),
            Request::Open("/scheme/event") => Ok(EVENTS),
            Request::Write(EVENTS, bytes) => Ok(bytes.len()),
            Request::Read(EVENTS, _) => {
                let action = self.sleeps.pop_front().expect("no sleep");
                // A time-out.
                action().map(|_| 0)
            }
            Request::Look(words, None) => {
                // The write index is the right end's own, and has the value that it is given with.
                let index = self.ends[1].own.as_ptr() as usize + LOCAL_WRITE_OFFSET as usize;
                let value = get(self.ends[1].own, LOCAL_WRITE_OFFSET) as usize;
                assert_eq!((words.len(), words[0]), (2, [index, value]));
                self.log.push(String::from("look"));
                let action = self.sleeps.pop_front().expect("no sleep");
                action()
            }
            // No time passes.
            Request::Close(_) | Request::Clock(..) => Ok(0),
            Request::Unmap(_, bytes) => {
                self.unmapped.update(|unmapped| unmapped + bytes);
                Ok(0)
            }
            Request::Map {
                address,
                bytes,
                protection,
                fd,
                offset,
                ..
            } => {
                let is_window = fd / 100 * 100 == WINDOWS;
                if is_window && self.is_read_only && protection & PROT_WRITE != 0 {
                    return failure(EACCES);
                }
                if is_window && self.is_former_mapped {
                    return failure(EBUSY);
                }
                self.map(address, bytes, fd, offset)
            }
            Request::Call(fd, payload, metadata) => self.call(fd, payload, metadata),
            Request::Read(fd, buffer) => {
                self.log.push(format!("read {fd} {}", buffer.len()));
                self.answers.pop_front().unwrap_or(Ok(buffer.len()))
            }
            Request::Write(fd, bytes) => {
                self.log.push(format!("write {fd} {}", bytes.len()));
                self.answers.pop_front().unwrap_or(Ok(bytes.len()))
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    fn map(&mut self, address: usize, bytes: usize, fd: usize, offset: u64) -> SystemResult<usize> {
        if fd == usize::MAX {
            if address == 0 {
                // Addresses where something can be mapped: a lot of them, so without memory.
                return Ok(UNUSED_ADDRESSES);
            }
            // Something that is mapped is replaced by nobody's memory.
            self.log.push(String::from("let go"));
            return Ok(address);
        }
        let (own, peer) = self.end(fd);
        let place = match (fd / 100 * 100, Part::at(offset)) {
            (BYPASS, Some(Part::Control)) => own.control,
            (BYPASS, Some(Part::Own)) => own.own,
            (BYPASS, Some(Part::PeerQueuePair)) => &peer.own[..PAGE],
            (BYPASS, Some(Part::PeerRing)) => &peer.own[PAGE..],
            (WINDOWS, _) if self.is_control => own.control,
            (WINDOWS, _) => &peer.window[offset as usize..],
            (OWN_WINDOWS, _) => &own.window[offset as usize..],
            _ => return failure(EINVAL),
        };
        assert!(bytes <= place.len() || self.is_control);
        if fd >= WINDOWS {
            self.log.push(format!("map {bytes:#x} of {fd}"));
            if let Some(action) = self.on_map.take() {
                action();
            }
        }
        Ok(place.as_ptr() as usize)
    }

    fn call(&mut self, fd: usize, payload: &mut [u8], metadata: &[u64]) -> SystemResult<usize> {
        let words = [metadata[1], metadata[2]];
        match Call::decode(metadata[0], words, payload).expect("a call") {
            Call::PeerPort if self.is_far => Ok(2 << 16 | 2000),
            Call::LocalPort | Call::PeerPort => Ok(1 << 16 | 2000),
            Call::BypassInfo { .. } => {
                let record = BypassRecord {
                    handle: (fd as u32).into(),
                    own_ring_bytes: self.ring_bytes.into(),
                    peer_ring_bytes: self.ring_bytes.into(),
                    flags: if self.gathers { BYPASS_GATHERED } else { 0 }.into(),
                    reserved: [0; 16],
                };
                payload.copy_from_slice(record.as_bytes());
                Ok(0)
            }
            Call::Wait { events, kicks } => {
                self.log.push(format!("sleep {events} {kicks}"));
                let action = self.sleeps.pop_front().expect("no sleep");
                action()
            }
            Call::WaitBytes { written } => {
                self.log.push(format!("sleep past {written}"));
                let action = self.sleeps.pop_front().expect("no sleep");
                action()
            }
            // Whether the daemon is there, asked whenever the time for it has come.
            Call::Kick { kicks: 0 } if self.is_dead => failure(ENODEV),
            Call::Kick { kicks: 0 } => Ok(0),
            Call::Kick { kicks } => {
                self.log.push(format!("kick {kicks}"));
                Ok(0)
            }
            Call::MapRun {
                remote_offset: offset,
                length,
            }
            | Call::MapRunOwn { offset, length } => {
                let end = offset as u64 + length;
                if offset >= 0 && end <= WINDOW_BYTES {
                    Ok(length as usize)
                } else {
                    failure(ENXIO)
                }
            }
            call => {
                self.log
                    .push(format!("call {} {}", call.number(), payload.len()));
                self.answers.pop_front().unwrap_or(Ok(payload.len()))
            }
        }
    }
}

fn failure<T>(errno: i32) -> SystemResult<T> {
    Err(Error::new(errno))
}

#[derive(Clone)]
struct Stage(Rc<RefCell<World>>);

impl Stage {
    fn log(&self) -> String {
        core::mem::take(&mut self.0.borrow_mut().log).join(", ")
    }
    fn answer(&self, answer: SystemResult<usize>) {
        self.0.borrow_mut().answers.push_back(answer);
    }
    fn sleep(&self, action: impl FnOnce() -> usize + 'static) {
        let action = Box::new(|| Ok(action()));
        self.0.borrow_mut().sleeps.push_back(action);
    }
    /// A sleep that a signal ends.
    fn signal(&self) {
        let action = Box::new(|| failure(EINTR));
        self.0.borrow_mut().sleeps.push_back(action);
    }
    fn unmapped(&self) -> Rc<Cell<usize>> {
        self.0.borrow().unmapped.clone()
    }
    fn control(&self, fd: usize) -> Bytes {
        self.0.borrow().end(fd).0.control
    }
    fn own(&self, fd: usize) -> Bytes {
        self.0.borrow().end(fd).0.own
    }
    fn window(&self, fd: usize) -> Bytes {
        self.0.borrow().end(fd).0.window
    }
}

/// Runs a test with both ends of a connection.
fn play(test: impl FnOnce(&Stage, &Rc<Bypass>, &Rc<Bypass>)) {
    let world = World {
        ends: [End::new(), End::new()],
        log: Vec::new(),
        refusal: None,
        answers: VecDeque::new(),
        sleeps: VecDeque::new(),
        is_nonblocking: false,
        inherited: BTreeSet::new(),
        lower: BTreeSet::new(),
        unmapped: Rc::default(),
        is_far: false,
        gathers: false,
        ring_bytes: RING,
        is_dead: false,
        on_map: None,
        is_control: false,
        is_read_only: false,
        is_former_mapped: false,
        window_files: 0,
    };
    let stage = Stage(Rc::new(RefCell::new(world)));
    let system = stage.clone();
    let answer = move |request: Request<'_>| system.0.borrow_mut().answer(request);
    let [left, right] = [(); 2].map(|()| Rc::new(Bypass::new()));
    host::play(answer, || test(&stage, &left, &right));
}

/// Makes the calls after which the rings are mapped.
fn open(stage: &Stage, bypass: &Bypass, epd: usize) {
    for _ in 0..FIRST_CALLS {
        assert_eq!(bypass.recv(epd, [0; 8].as_mut_slice(), 0), Ok(8));
    }
    let calls = ["call 7 8"; FIRST_CALLS as usize].join(", ");
    assert_eq!(stage.log(), calls + ", bypass");
    assert_eq!(bypass.recv(epd, [0; 8].as_mut_slice(), 0), Ok(0));
    assert_eq!(stage.log(), "");
}

fn rings(test: impl FnOnce(&Stage, &Rc<Bypass>, &Rc<Bypass>)) {
    play(|stage, left, right| {
        open(stage, left, LEFT);
        open(stage, right, RIGHT);
        test(stage, left, right);
    });
}

#[test]
fn streams_of_all_sizes_arrive_without_the_daemon() {
    rings(|stage, left, right| {
        let mut state = 1_u64;
        let mut random = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            (state >> 33) % limit
        };
        for (from, from_epd, to, to_epd) in [(left, LEFT, right, RIGHT), (right, RIGHT, left, LEFT)]
        {
            let (mut sent, mut received) = (0_u64, 0_u64);
            while received < 200_000 {
                let data: Vec<u8> = (0..1 + random(5000)).map(|i| (sent + i) as u8).collect();
                let room = RING as u64 - 1 - (sent - received);
                let count = from.send(from_epd, data.as_slice(), 0).unwrap();
                // Nothing is kept back of a ring of the base protocol's size.
                assert_eq!(count as u64, room.min(data.len() as u64));
                sent += count as u64;
                let mut buffer = vec![0; 1 + random(5000) as usize];
                let count = to.recv(to_epd, buffer.as_mut_slice(), 0).unwrap();
                assert_eq!(count as u64, (sent - received).min(buffer.len() as u64));
                for byte in &buffer[..count] {
                    assert_eq!(*byte, received as u8);
                    received += 1;
                }
            }
            while to.recv(to_epd, [0; 4096].as_mut_slice(), 0).unwrap() > 0 {}
        }
        assert_eq!(stage.log(), "");
    });
}

/// The mapping of a ring is whole pages, the ring may be shorter: a peer chooses its own.
#[test]
fn rings_shorter_than_a_page_go_round_at_their_own_length() {
    for ring_bytes in [64, 256, 2048] {
        play(|stage, left, right| {
            stage.0.borrow_mut().ring_bytes = ring_bytes;
            open(stage, left, LEFT);
            open(stage, right, RIGHT);
            let (mut sent, mut received) = (0_u64, 0_u64);
            for turn in 0..600_u64 {
                let data: Vec<u8> = (0..1 + turn * 7 % 150).map(|i| (sent + i) as u8).collect();
                // By the short way where it is one, or by the general one alone.
                let count = match turn % 3 {
                    0 => left.send_at_once(data.as_slice(), 0),
                    _ => None,
                };
                let send = || left.send(LEFT, data.as_slice(), 0).unwrap();
                sent += count.unwrap_or_else(send) as u64;
                let mut buffer = vec![0; 1 + (turn * 11 % 150) as usize];
                let count = match turn % 5 {
                    0 => right.recv_at_once(buffer.as_mut_slice(), 0),
                    _ => None,
                };
                let count = match count {
                    Some(count) => count,
                    None => right.recv(RIGHT, buffer.as_mut_slice(), 0).unwrap(),
                };
                for byte in &buffer[..count] {
                    assert_eq!(
                        *byte, received as u8,
                        "byte {received}, rings of {ring_bytes}"
                    );
                    received += 1;
                }
            }
            assert!(received > 10_000, "{received} bytes, rings of {ring_bytes}");
            assert_eq!(stage.log(), "");
        });
    }
}

#[test]
fn who_sleeps_is_woken_once() {
    rings(|stage, left, right| {
        left.send(LEFT, b"one".as_slice(), 0).unwrap();
        assert_eq!(stage.log(), "");
        // The right side says that it sleeps.
        put(stage.own(LEFT), BYTES_ARMED_OFFSET, 1);
        left.send(LEFT, b"two".as_slice(), 0).unwrap();
        left.send(LEFT, b"three".as_slice(), 0).unwrap();
        assert_eq!(stage.log(), "kick 1");
        put(stage.own(RIGHT), ROOM_ARMED_OFFSET, 1);
        let mut buffer = [0; 11];
        assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), BLOCK), Ok(11));
        assert_eq!(&buffer, b"onetwothree");
        assert_eq!(stage.log(), "kick 2");
    });
}

#[test]
fn a_blocking_receive_sleeps_until_all_is_there() {
    rings(|stage, left, right| {
        let control = stage.control(RIGHT);
        let is_locked = move || get(control, RECEIVE_LOCK_OFFSET) != 0;
        for way in [Waiting::Adaptive, Waiting::Sleep] {
            right.set_waiting(way);
            for part in [b"ab".as_slice(), b"cd", b"ef"] {
                let sender = left.clone();
                stage.sleep(move || {
                    // Until something has come, others may receive as well.
                    assert_eq!(is_locked(), part != b"ab");
                    sender.send(LEFT, part, 0).unwrap();
                    usize::from(Readiness::IN.bits())
                });
            }
            let mut buffer = [0; 6];
            assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), BLOCK), Ok(6));
            assert_eq!(&buffer, b"abcdef");
            assert_eq!(stage.log(), "sleep 1 0, sleep 1 0, sleep 1 0");
            assert!(!is_locked());
        }
    });
}

#[test]
fn a_receive_sleeps_where_the_kernel_looks_before_it_asks_the_daemon() {
    rings(|stage, left, right| {
        let (in_vain, seen) = (0, 1);
        let sends = |ready| {
            let sender = left.clone();
            stage.sleep(move || {
                sender.send(LEFT, b"ab".as_slice(), 0).unwrap();
                ready
            });
        };
        let receive = |bytes| right.recv(RIGHT, vec![0; bytes].as_mut_slice(), BLOCK);
        let daemon = usize::from(Readiness::IN.bits());
        right.set_waiting(Waiting::Sleep);
        host::beside_idle_processor(|| {
            sends(seen);
            assert_eq!(receive(2), Ok(2));
            assert_eq!(stage.log(), "look");
            // After one in vain the next sleep goes without.
            stage.sleep(move || in_vain);
            sends(daemon);
            assert_eq!(receive(2), Ok(2));
            assert_eq!(stage.log(), "look, sleep 1 0");
            sends(daemon);
            assert_eq!(receive(2), Ok(2));
            assert_eq!(stage.log(), "sleep 1 0");
            sends(seen);
            assert_eq!(receive(2), Ok(2));
            assert_eq!(stage.log(), "look");
            // It has seen something that does not concern the caller.
            stage.sleep(move || seen);
            sends(seen);
            assert_eq!(receive(2), Ok(2));
            assert_eq!(stage.log(), "look, look");
            stage.signal();
            assert_eq!(receive(2), Err(EINTR));
            assert_eq!(stage.log(), "look");
            // A peer that sleeps learns of its room before.
            left.send(LEFT, b"ab".as_slice(), 0).unwrap();
            put(stage.own(RIGHT), ROOM_ARMED_OFFSET, 1);
            sends(seen);
            assert_eq!(receive(4), Ok(4));
            assert_eq!(stage.log(), "kick 2, look");
            // The end of the connection.
            let control = stage.control(RIGHT);
            stage.sleep(move || {
                put(control, STATE_OFFSET, STATE_DISCONNECTED);
                seen
            });
            stage.answer(failure(ECONNRESET));
            assert_eq!(receive(2), Err(ECONNRESET));
            assert_eq!(stage.log(), "look, let go, let go, call 7 2");
        });
        // Elsewhere, and for room, nobody looks.
        let full = vec![7; RING as usize - 1];
        assert_eq!(left.send(LEFT, full.as_slice(), 0), Ok(full.len()));
        left.set_waiting(Waiting::Sleep);
        stage.signal();
        host::beside_idle_processor(|| {
            assert_eq!(left.send(LEFT, b"x".as_slice(), BLOCK), Err(EINTR));
        });
        assert_eq!(stage.log(), "sleep 4 0");
    });
}

#[test]
fn a_signal_gives_the_count_so_far() {
    rings(|stage, left, right| {
        let mut buffer = [0; 6];
        stage.signal();
        let result = right.recv(RIGHT, buffer.as_mut_slice(), BLOCK);
        assert_eq!(result, Err(EINTR));
        left.send(LEFT, b"ab".as_slice(), 0).unwrap();
        stage.signal();
        assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), BLOCK), Ok(2));
        // The daemon is not asked to wait on.
        assert_eq!(stage.log(), "sleep 1 0, sleep 1 0");
        assert_eq!(get(stage.control(RIGHT), RECEIVE_LOCK_OFFSET), 0);
    });
}

#[test]
fn a_wait_past_a_mark_sleeps_in_the_daemon() {
    play(|_, left, _| {
        assert_eq!(left.written(), None);
        assert_eq!(left.wait_past(0), Err(EOPNOTSUPP));
    });
    rings(|stage, left, right| {
        let mark = right.written().unwrap();
        let (sender, taker) = (left.clone(), right.clone());
        stage.sleep(move || {
            // Another thread takes them.
            sender.send(LEFT, b"record".as_slice(), 0).unwrap();
            assert_eq!(taker.recv(RIGHT, [0; 6].as_mut_slice(), 0), Ok(6));
            usize::from(Readiness::IN.bits())
        });
        assert_eq!(right.wait_past(mark), Ok(()));
        let next = right.written().unwrap();
        assert_eq!((mark, next), (0, 6));
        stage.signal();
        assert_eq!(right.wait_past(next), Err(EINTR));
        assert_eq!(stage.log(), "sleep past 0, sleep past 6");
        // On Redox no call waits in a daemon.
        host::on_redox(|| assert_eq!(right.written(), None));
        // The end gives no mark any more, and what was mapped of the peer goes with the sleep.
        let control = stage.control(RIGHT);
        stage.sleep(move || {
            put(control, STATE_OFFSET, STATE_DISCONNECTED);
            put(control, EPOCH_OFFSET, 1);
            usize::from(Readiness::HUP.bits())
        });
        assert_eq!(right.wait_past(next), Ok(()));
        assert_eq!(stage.log(), "sleep past 6, let go, let go");
        assert_eq!(right.written(), None);
        stage
            .0
            .borrow_mut()
            .sleeps
            .push_back(Box::new(|| failure(ENODEV)));
        assert_eq!(left.wait_past(0), Err(ENODEV));
    });
}

#[test]
fn a_blocking_send_tells_a_reader_that_sleeps_too() {
    rings(|stage, left, right| {
        left.set_waiting(Waiting::Sleep);
        put(stage.own(LEFT), BYTES_ARMED_OFFSET, 1);
        let reader = right.clone();
        stage.sleep(move || {
            let mut buffer = [0; 3000];
            assert_eq!(reader.recv(RIGHT, buffer.as_mut_slice(), 0), Ok(3000));
            usize::from(Readiness::OUT.bits())
        });
        let data = vec![7; 5000];
        assert_eq!(left.send(LEFT, data.as_slice(), BLOCK), Ok(5000));
        // The kick goes with the sleep.
        assert_eq!(stage.log(), "sleep 4 1");
    });
}

#[test]
fn what_is_unusual_goes_through_the_daemon() {
    rings(|stage, left, _| {
        assert_eq!(left.send(LEFT, b"x".as_slice(), 2), Ok(1));
        assert_eq!(left.send(LEFT, [].as_slice(), 0), Ok(0));
        assert_eq!(stage.log(), "call 6 1, call 6 0");
        // Somebody else is at it and does not come to an end.
        put(stage.control(LEFT), SEND_LOCK_OFFSET, 1);
        assert_eq!(left.send(LEFT, b"x".as_slice(), BLOCK), Ok(1));
        assert_eq!(stage.log(), "write 3 1");
        put(stage.control(LEFT), SEND_LOCK_OFFSET, 0);
        // An index that cannot be.
        put(stage.own(LEFT), LOCAL_WRITE_OFFSET, 5000);
        assert_eq!(left.recv(LEFT, [0; 4].as_mut_slice(), 0), Ok(4));
        assert_eq!(stage.log(), "call 7 4");
        assert_eq!(get(stage.control(LEFT), RECEIVE_LOCK_OFFSET), 0);
    });
}

#[test]
fn the_end_of_a_connection_gives_the_count_so_far() {
    rings(|stage, left, right| {
        left.send(LEFT, b"last".as_slice(), 0).unwrap();
        let control = stage.control(RIGHT);
        stage.sleep(move || {
            put(control, STATE_OFFSET, STATE_DISCONNECTED);
            put(control, EPOCH_OFFSET, 1);
            usize::from(Readiness::HUP.bits())
        });
        stage.answer(failure(ECONNRESET));
        let mut buffer = [0; 8];
        assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), BLOCK), Ok(4));
        assert_eq!(&buffer[..4], b"last");
        // The peer's pages are unmapped, once; everything else is left to the daemon.
        assert_eq!(stage.log(), "sleep 1 0, let go, let go, call 7 4");
        stage.answer(failure(ECONNRESET));
        assert_eq!(right.send(RIGHT, b"x".as_slice(), BLOCK), Err(ECONNRESET));
        assert_eq!(stage.log(), "write 4 1");
        assert_eq!(right.readiness(RIGHT, 5), Ok(0));
        assert_eq!(stage.log(), "call 64 0");
    });
}

#[test]
fn a_peer_that_finishes_ends_receives_alone() {
    rings(|stage, left, right| {
        left.send(LEFT, b"last".as_slice(), 0).unwrap();
        let control = stage.control(RIGHT);
        stage.sleep(move || {
            put(control, STATE_OFFSET, STATE_FINISHED);
            put(control, EPOCH_OFFSET, 1);
            usize::from(Readiness::IN.bits())
        });
        stage.answer(failure(ECONNRESET));
        let mut buffer = [0; 8];
        assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), BLOCK), Ok(4));
        assert_eq!(&buffer[..4], b"last");
        assert_eq!(stage.log(), "sleep 1 0, call 7 4");
        // The daemon says which endpoints are not there and which are ready.
        stage.answer(failure(ECONNRESET));
        assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), 0), Err(ECONNRESET));
        assert_eq!(stage.log(), "call 7 8");
        assert_eq!(right.readiness(RIGHT, 5), Ok(0));
        assert_eq!(stage.log(), "call 64 0");
        // The other direction goes on without the daemon, and so do bytes that are there.
        assert_eq!(right.send(RIGHT, b"answer".as_slice(), BLOCK), Ok(6));
        assert_eq!(left.recv(LEFT, buffer.as_mut_slice(), 0), Ok(6));
        left.send(LEFT, b"more".as_slice(), 0).unwrap();
        assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), 0), Ok(4));
        assert_eq!(stage.log(), "");
    });
}

/// On Redox the bytes of a transfer through the daemon do not stay together.
#[test]
fn a_long_transfer_maps_the_rings_at_once_on_redox() {
    play(|stage, left, right| {
        open(stage, right, RIGHT);
        host::on_redox(|| {
            let data = vec![7; 4096];
            let right = right.clone();
            stage.sleep(move || right.recv(RIGHT, [0; 4000].as_mut_slice(), 0).unwrap());
            // It is not ready before it has slept.
            for ready in [0, 0, Readiness::OUT.bits()] {
                stage.answer(Ok(ready.into()));
            }
            assert_eq!(left.send(LEFT, data.as_slice(), BLOCK), Ok(4096));
            let looks = ["call 64 0"; 3].join(", ");
            assert_eq!(stage.log(), format!("bypass, {looks}"));
        });
    });
}

/// On Redox no call waits in a daemon, because nothing would end the wait when the daemon dies.
#[test]
fn a_dead_daemon_ends_a_sleep_on_redox() {
    rings(|stage, _, right| {
        host::on_redox(|| {
            stage.sleep(|| 0);
            let dead = || failure(ENODEV);
            for answer in [Ok(0), Ok(0), dead(), dead()] {
                stage.answer(answer);
            }
            let mut buffer = [0; 5000];
            assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), BLOCK), Err(ENODEV));
            let looks = ["call 64 0"; 3].join(", ");
            assert_eq!(stage.log(), format!("{looks}, call 7 4095"));
        });
    });
}

#[test]
fn a_receive_of_some_bytes_waits_for_the_first_one_only() {
    rings(|stage, left, right| {
        let mut buffer = [0; 64];
        for way in [Waiting::Adaptive, Waiting::Sleep] {
            right.set_waiting(way);
            let sender = left.clone();
            stage.sleep(move || {
                sender.send(LEFT, b"first".as_slice(), 0).unwrap();
                usize::from(Readiness::IN.bits())
            });
            assert_eq!(right.recv_some(RIGHT, buffer.as_mut_slice()), Ok(5));
            left.send(LEFT, b"second".as_slice(), 0).unwrap();
            assert_eq!(right.recv_some(RIGHT, buffer.as_mut_slice()), Ok(6));
            assert_eq!(&buffer[..6], b"second");
            assert_eq!(stage.log(), "sleep 1 0");
        }
    });
}

#[test]
fn files_are_read_and_written_on_the_rings() {
    rings(|stage, left, right| {
        let data: Vec<u8> = (0..3000).map(|i| i as u8).collect();
        let mut buffer = [0; 4000];
        for bytes in [1, 64, 3000] {
            assert_eq!(left.write(LEFT, &data[..bytes]), Ok(bytes));
            assert_eq!(right.read(RIGHT, buffer.as_mut_slice()), Ok(bytes));
            assert_eq!(buffer[..bytes], data[..bytes]);
        }
        assert_eq!(stage.log(), "");
        // A read waits for the first byte only.
        let sender = left.clone();
        stage.sleep(move || {
            sender.write(LEFT, b"first".as_slice()).unwrap();
            usize::from(Readiness::IN.bits())
        });
        assert_eq!(right.read(RIGHT, buffer.as_mut_slice()), Ok(5));
        assert_eq!(stage.log(), "sleep 1 0");
        // A write waits until all bytes are taken.
        let receiver = right.clone();
        stage.sleep(move || {
            let mut room = [0; 4000];
            assert_eq!(receiver.read(RIGHT, room.as_mut_slice()), Ok(4000));
            usize::from(Readiness::OUT.bits())
        });
        assert_eq!(left.write(LEFT, vec![3; 5000].as_slice()), Ok(5000));
        assert_eq!(stage.log(), "sleep 4 0");
        assert_eq!(right.read(RIGHT, buffer.as_mut_slice()), Ok(1000));
        stage.signal();
        assert_eq!(right.read(RIGHT, buffer.as_mut_slice()), Err(EINTR));
        assert_eq!(stage.log(), "sleep 1 0");
        // The daemon knows the errors of nothing, and of buffers that are no memory.
        assert_eq!(left.write(LEFT, [].as_slice()), Ok(0));
        assert_eq!(right.read(RIGHT, [].as_mut_slice()), Ok(0));
        assert_eq!(stage.log(), "write 3 0, read 4 0");
    });
}

#[test]
fn files_that_do_not_wait_move_what_can_be_moved() {
    rings(|stage, left, right| {
        stage.0.borrow_mut().is_nonblocking = true;
        let mut buffer = [0; 4096];
        assert_eq!(right.read(RIGHT, buffer.as_mut_slice()), Err(EAGAIN));
        assert_eq!(left.write(LEFT, vec![7; 5000].as_slice()), Ok(4095));
        for bytes in [1, 64, 1000] {
            assert_eq!(left.write(LEFT, vec![7; bytes].as_slice()), Err(EAGAIN));
        }
        assert_eq!(right.read(RIGHT, buffer.as_mut_slice()), Ok(4095));
        assert_eq!(stage.log(), "");
        // The end of the connection is the daemon's to report.
        put(stage.control(RIGHT), STATE_OFFSET, STATE_DISCONNECTED);
        put(stage.control(RIGHT), EPOCH_OFFSET, 1);
        for _ in 0..2 {
            stage.answer(failure(ECONNRESET));
        }
        let read = right.read(RIGHT, buffer.as_mut_slice());
        assert_eq!(read, Err(ECONNRESET));
        assert_eq!(right.write(RIGHT, b"x".as_slice()), Err(ECONNRESET));
        assert_eq!(stage.log(), "let go, let go, read 4 4096, write 4 1");
    });
}

#[test]
fn a_file_whose_connection_ends_gives_the_count_so_far() {
    rings(|stage, left, right| {
        let control = stage.control(LEFT);
        stage.sleep(move || {
            put(control, STATE_OFFSET, STATE_DISCONNECTED);
            put(control, EPOCH_OFFSET, 1);
            usize::from(Readiness::HUP.bits())
        });
        stage.answer(failure(ECONNRESET));
        assert_eq!(left.write(LEFT, vec![7; 5000].as_slice()), Ok(4095));
        assert_eq!(stage.log(), "sleep 4 0, let go, let go, write 3 905");
        // A descriptor that another thread has closed.
        right.detach();
        assert_eq!(right.read(RIGHT, [0; 4].as_mut_slice()), Err(EINTR));
        assert_eq!(right.write(RIGHT, b"x".as_slice()), Err(EINTR));
        assert_eq!(stage.log(), "");
    });
}

#[test]
fn readiness_is_seen_in_the_rings() {
    rings(|stage, left, right| {
        assert_eq!(right.readiness(RIGHT, 5), Ok(4));
        assert_eq!(left.send(LEFT, vec![1; 5000].as_slice(), 0), Ok(4095));
        assert_eq!(right.readiness(RIGHT, 5), Ok(5));
        assert_eq!(right.readiness(RIGHT, 0), Ok(0));
        assert_eq!(left.readiness(LEFT, 4), Ok(0));
        assert_eq!(stage.log(), "");
    });
}

#[test]
fn poll_says_out_while_another_send_waits_for_more_room() {
    rings(|stage, left, right| {
        assert_eq!(left.send(LEFT, vec![1; 5000].as_slice(), 0), Ok(4095));
        // A blocking send that has begun keeps the lock while it sleeps.
        put(stage.control(LEFT), SEND_LOCK_OFFSET, 1);
        assert_eq!(left.readiness(LEFT, 4), Ok(0));
        right.recv(RIGHT, [0; 2048].as_mut_slice(), BLOCK).unwrap();
        assert_eq!(left.readiness(LEFT, 4), Ok(4));
        stage.log();
        // The daemon finds the lock held, too.
        stage.answer(Ok(0));
        assert_eq!(left.send(LEFT, b"x".as_slice(), 0), Ok(0));
        assert_eq!(stage.log(), "call 6 1");
    });
}

#[test]
fn a_daemon_that_died_is_noticed_without_waiting() {
    rings(|stage, left, _| {
        stage.0.borrow_mut().is_dead = true;
        stage.answer(failure(ENODEV));
        let mut buffer = [0; 8];
        let result = loop {
            match left.recv(LEFT, buffer.as_mut_slice(), 0) {
                Ok(0) => {}
                other => break other,
            }
        };
        assert_eq!(result, Err(ENODEV));
    });
}

#[test]
fn a_daemon_that_died_is_noticed_by_who_only_sends() {
    rings(|stage, left, right| {
        stage.0.borrow_mut().is_dead = true;
        stage.answer(failure(ENODEV));
        let mut buffer = [0; 8];
        // The ring never gets full.
        let result = loop {
            match left.send(LEFT, b"x".as_slice(), 0) {
                Ok(1) => assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), 0), Ok(1)),
                other => break other,
            }
        };
        assert_eq!(result, Err(ENODEV));
    });
}

/// The short way of a send never drains stores, so it must not be taken where they are gathered.
#[test]
fn a_short_send_leaves_draining_to_the_general_path() {
    for gathers in [false, true] {
        play(|stage, left, right| {
            stage.0.borrow_mut().gathers = gathers;
            open(stage, left, LEFT);
            open(stage, right, RIGHT);
            let mut buffer = [0; 8];
            let is_sent = |sent: Option<usize>| match gathers {
                false => assert_eq!(sent, Some(1)),
                true => assert_eq!(sent, None),
            };
            // Room is known after the first one.
            assert_eq!(left.send(LEFT, b"x".as_slice(), 0), Ok(1));
            assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), 0), Ok(1));
            is_sent(left.send_at_once(b"y".as_slice(), 0));
            // The state changes when a window goes.
            let epoch = get(stage.control(LEFT), EPOCH_OFFSET);
            put(stage.control(LEFT), EPOCH_OFFSET, epoch + 1);
            assert_eq!(left.send(LEFT, b"z".as_slice(), 0), Ok(1));
            is_sent(left.send_at_once(b"!".as_slice(), 0));
            assert_eq!(left.can_store_at_once(), !gathers);
            let count = if gathers { 1 } else { 3 };
            assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), 0), Ok(count));
        });
    }
}

#[test]
fn a_daemon_that_died_is_noticed_by_who_sends_as_c_programs_do() {
    rings(|stage, left, right| {
        stage.0.borrow_mut().is_dead = true;
        stage.answer(failure(ENODEV));
        let mut buffer = [0; 8];
        let send = || match left.send_at_once(b"x".as_slice(), 0) {
            Some(sent) => Ok(sent),
            None => left.send(LEFT, b"x".as_slice(), 0),
        };
        left.rings.get().unwrap().liveness.expire();
        assert!((0..8).any(|_| !left.can_store_at_once()));
        // Few enough that the ring's end, at which the general path sends, is not reached.
        let noticed = (0..64).find(|_| match send() {
            Ok(_) => {
                assert_eq!(right.recv(RIGHT, buffer.as_mut_slice(), 0), Ok(1));
                false
            }
            Err(error) => error == ENODEV,
        });
        assert!(noticed.is_some());
    });
}

#[test]
fn who_need_not_sleep_after_all_tells_its_peer() {
    rings(|stage, left, _| {
        let rings = left.rings.get().unwrap();
        let mut memory = rings.memory().unwrap();
        assert!(memory.try_lock(Side::Send, rings.number));
        // The peer's request for a notification was taken back before; meanwhile there is room.
        let sleep = Waiting::Sleep;
        let waited = rings.wait::<Sending<'_>>(&mut memory, true, Kicks::BYTES, sleep);
        assert_eq!(waited, Waited::Ready);
        assert_eq!(stage.log(), "kick 1");
        memory.unlock(Side::Send);
    });
}

#[test]
fn who_gives_up_waiting_tells_its_peer() {
    rings(|stage, left, _| {
        let full = vec![7; RING as usize - 1];
        assert_eq!(left.send(LEFT, full.as_slice(), 0), Ok(full.len()));
        let rings = left.rings.get().unwrap();
        let mut memory = rings.memory().unwrap();
        assert!(memory.try_lock(Side::Send, rings.number));
        // The peer's request was taken back before; then another thread closes the descriptor. The
        // connection lives on, by other descriptors.
        left.detach();
        let sleep = Waiting::Sleep;
        let waited = rings.wait::<Sending<'_>>(&mut memory, true, Kicks::BYTES, sleep);
        assert_eq!(waited, Waited::Daemon);
        assert_eq!(stage.log(), "kick 1");
        assert_eq!(get(stage.control(LEFT), SEND_LOCK_OFFSET), 0);
    });
}

#[test]
fn a_refusal_is_final_or_not() {
    play(|stage, left, right| {
        let calls = |bypass: &Bypass, epd, count| {
            for _ in 0..count {
                assert_eq!(bypass.recv(epd, [0; 8].as_mut_slice(), 0), Ok(8));
            }
            stage.log().matches("bypass").count()
        };
        stage.0.borrow_mut().refusal = Some(EOPNOTSUPP);
        assert_eq!(calls(left, LEFT, 20), 1);
        stage.0.borrow_mut().refusal = Some(ENOTCONN);
        assert!(calls(right, RIGHT, 20) > 1);
        stage.0.borrow_mut().refusal = None;
        while right.recv(RIGHT, [0; 8].as_mut_slice(), 0) == Ok(8) {}
        assert!(stage.log().ends_with("bypass"));
    });
}

/// A program beyond its share of mapped connections does not ask for one more again and again.
#[test]
fn rings_that_cannot_be_had_are_asked_for_ever_more_rarely() {
    play(|stage, left, _| {
        let asked = |calls| {
            for _ in 0..calls {
                assert_eq!(left.recv(LEFT, [0; 8].as_mut_slice(), 0), Ok(8));
            }
            stage.log().matches("bypass").count()
        };
        stage.0.borrow_mut().refusal = Some(EMFILE);
        assert_eq!(asked(FIRST_CALLS), 1);
        assert_eq!(asked(2 * FIRST_CALLS), 1);
        assert_eq!(asked(4 * FIRST_CALLS), 1);
        // It never gives up.
        assert!(asked(40_000) >= 10);
        assert!(asked(40_000) <= 10);
        stage.0.borrow_mut().refusal = None;
        let calls = (0..).take_while(|_| left.recv(LEFT, [0; 8].as_mut_slice(), 0) == Ok(8));
        assert!(calls.count() <= FIRST_CALLS as usize * 1024);
        assert!(stage.log().ends_with("bypass"));
    });
}

#[test]
fn a_closed_descriptor_s_number_is_not_used() {
    rings(|stage, left, _| {
        let data = [5; 64];
        (0..2).for_each(|_| left.vwriteto(LEFT, data.as_slice(), 0, 0).unwrap());
        stage.window(RIGHT)[0].store(1, Relaxed);
        stage.log();
        left.detach();
        assert_eq!(left.send(LEFT, b"x".as_slice(), BLOCK), Err(EINTR));
        assert_eq!(left.recv(LEFT, [0].as_mut_slice(), 0), Err(EINTR));
        assert_eq!(left.read(LEFT, [0].as_mut_slice()), Err(EINTR));
        assert_eq!(left.readiness(LEFT, 5), Err(EINTR));
        assert_eq!(left.vwriteto(LEFT, data.as_slice(), 0, 0), Err(EINTR));
        assert_eq!(left.writeto(LEFT, 0, 8000, 9000, 0), Err(EINTR));
        assert_eq!(stage.window(RIGHT)[0].load(Relaxed), 1);
        // Neither told the daemon of, nor mapped.
        assert_eq!(stage.log(), "");
    });
}

#[test]
fn what_is_closed_in_the_middle_of_a_call_moves_nothing_more() {
    rings(|stage, left, right| {
        left.set_waiting(Waiting::Sleep);
        let (closed, reader) = (left.clone(), right.clone());
        stage.sleep(move || {
            closed.detach();
            assert_eq!(reader.recv(RIGHT, [0; 3000].as_mut_slice(), 0), Ok(3000));
            usize::from(Readiness::OUT.bits())
        });
        let data = vec![7; 5000];
        assert_eq!(left.send(LEFT, data.as_slice(), BLOCK), Ok(4095));
        assert_eq!(stage.log(), "sleep 4 0");
        assert_eq!(get(stage.control(LEFT), SEND_LOCK_OFFSET), 0);
        // All that was counted arrives, and nothing else.
        assert_eq!(right.recv(RIGHT, [0; 4096].as_mut_slice(), 0), Ok(1095));
        assert_eq!(right.recv(RIGHT, [0; 4096].as_mut_slice(), 0), Ok(0));
    });
}

#[test]
fn what_is_closed_in_the_middle_of_a_transfer_is_not_copied() {
    rings(|stage, left, _| {
        let data = [5; 64];
        left.vwriteto(LEFT, data.as_slice(), 0, 0).unwrap();
        // Another thread closes the descriptor while this one maps: it may be of another endpoint.
        let closed = left.clone();
        stage.0.borrow_mut().on_map = Some(Box::new(move || closed.detach()));
        stage.log();
        let result = left.vwriteto(LEFT, data.as_slice(), 0, 0);
        assert_eq!(result, Err(EINTR));
        assert_eq!(stage.log(), "map 0x10000 of 203");
        assert_eq!(stage.window(RIGHT)[0].load(Relaxed), 0);
    });
}

#[test]
fn a_copy_whose_window_goes_meanwhile_does_not_count() {
    rings(|stage, left, _| {
        stage.0.borrow_mut().is_control = true;
        // The copy itself stores another epoch, as the daemon does when a window goes.
        let epoch = [9_u8, 0, 0, 0];
        let place = EPOCH_OFFSET as i64;
        left.vwriteto(LEFT, epoch.as_slice(), place, 0).unwrap();
        assert_eq!(stage.log(), "call 13 4");
        // It is made, and then asked of the daemon all the same.
        left.vwriteto(LEFT, epoch.as_slice(), place, 0).unwrap();
        assert_eq!(get(stage.control(LEFT), EPOCH_OFFSET), 9);
        assert_eq!(stage.log(), "map 0x10000 of 203, call 13 4");
    });
}

#[test]
fn transfers_copy_what_is_registered() {
    rings(|stage, left, right| {
        let data: Vec<u8> = (0..20_000_u32).map(|i| (i * 7) as u8).collect();
        let window = stage.window(RIGHT);
        // The first one tells that the place is used at all.
        assert_eq!(left.vwriteto(LEFT, data.as_slice(), 100, 0), Ok(()));
        assert_eq!(stage.log(), "call 13 20000");
        assert_eq!(left.vwriteto(LEFT, data.as_slice(), 100, 0), Ok(()));
        assert_eq!(stage.log(), "map 0x10000 of 203");
        let there: Vec<u8> = window[100..20_100]
            .iter()
            .map(|b| b.load(Relaxed))
            .collect();
        assert!(there == data);
        let mut back = vec![0; 20_000];
        assert_eq!(left.vreadfrom(LEFT, back.as_mut_slice(), 100, 0), Ok(()));
        assert!(back == data);
        // From window to window.
        left.readfrom(LEFT, 5000, 1000, 200, 0).unwrap();
        assert_eq!(stage.log(), "call 10 32");
        left.readfrom(LEFT, 5000, 1000, 200, 0).unwrap();
        assert_eq!(stage.log(), "map 0x10000 of 303");
        assert_eq!(stage.window(LEFT)[5999].load(Relaxed), data[1099]);
        left.writeto(LEFT, 5000, 1000, 60_000, 7).unwrap();
        assert_eq!(window[60_999].load(Relaxed), data[1099]);
        // Neither in order, nor beyond the end, nor nothing.
        left.writeto(LEFT, 0, 8, 0, 8).unwrap();
        left.writeto(LEFT, 0, 8, WINDOW_BYTES as i64 - 4, 0)
            .unwrap();
        left.writeto(LEFT, WINDOW_BYTES as i64, 8, 0, 0).unwrap();
        left.writeto(LEFT, 0, 0, 0, 0).unwrap();
        assert_eq!(stage.log(), ["call 11 32"; 4].join(", "));
        assert_eq!(get(stage.control(LEFT), rma_busy_offset(BYPASS_LEFT)), 0);
        drop(right.clone());
    });
}

#[test]
fn copies_are_counted_in_the_word_of_the_handle() {
    play(|stage, _, _| {
        for handle in [2, 33, 34, BYPASS_LEFT] {
            let fd = BYPASS + LEFT;
            let pages = Pages::map(fd, 0, PAGE, Rights::ALL, MemorySide::Own, None).unwrap();
            let control = &mut &Control::new(pages, handle);
            let word = || get(stage.control(LEFT), rma_busy_offset(handle));
            control.add_busy();
            assert_eq!(word(), 1);
            control.remove_busy();
            assert_eq!(word(), 0);
        }
    });
}

#[test]
fn windows_that_have_gone_are_not_touched() {
    rings(|stage, left, _| {
        let data = [5; 64];
        for _ in 0..2 {
            left.vwriteto(LEFT, data.as_slice(), 0, 0).unwrap();
        }
        stage.log();
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        stage.window(RIGHT)[0].store(1, Relaxed);
        // The mapping is released, and has to be used often again before it is made again.
        left.vwriteto(LEFT, data.as_slice(), 0, 0).unwrap();
        assert_eq!(stage.log(), "call 13 64");
        assert_eq!(stage.window(RIGHT)[0].load(Relaxed), 1);
        left.vwriteto(LEFT, data.as_slice(), 0, 0).unwrap();
        assert_eq!(stage.log(), "map 0x10000 of 203");
        assert_eq!(stage.window(RIGHT)[0].load(Relaxed), 5);
        put(stage.control(LEFT), STATE_OFFSET, STATE_DISCONNECTED);
        stage.answer(failure(ECONNRESET));
        let result = left.vwriteto(LEFT, data.as_slice(), 0, 0);
        assert_eq!(result, Err(ECONNRESET));
        assert_eq!(get(stage.control(LEFT), rma_busy_offset(BYPASS_LEFT)), 0);
    });
}

#[test]
fn hidden_descriptors_are_out_of_the_program_s_way_and_closed_on_exec() {
    rings(|stage, left, _| {
        (0..3).for_each(|_| left.readfrom(LEFT, 5000, 1000, 200, 0).unwrap());
        let log = stage.log();
        assert!(log.contains("of 203") && log.contains("of 303"), "{log}");
        let world = stage.0.borrow();
        assert_eq!(
            (&world.inherited, &world.lower),
            (&BTreeSet::new(), &BTreeSet::new())
        );
    });
}

#[test]
fn who_looks_lets_go_of_windows_that_have_gone() {
    rings(|stage, left, _| {
        (0..3).for_each(|_| left.readfrom(LEFT, 5000, 1000, 200, 0).unwrap());
        let log = stage.log();
        assert!(log.contains("of 203") && log.contains("of 303"), "{log}");
        let looking_unmaps = || {
            let before = stage.unmapped().get();
            left.release_stale();
            stage.unmapped().get() - before
        };
        assert_eq!(looking_unmaps(), 0);
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        assert_eq!(looking_unmaps(), 2 * WINDOW_BYTES as usize);
    });
}

#[test]
fn who_sleeps_lets_go_of_windows_that_have_gone() {
    rings(|stage, left, right| {
        left.set_waiting(Waiting::Sleep);
        (0..3).for_each(|_| left.readfrom(LEFT, 5000, 1000, 200, 0).unwrap());
        stage.log();
        // A window goes. The daemon ends the sleep so that the sleeper notices, though nothing
        // else has come.
        let control = stage.control(LEFT);
        stage.sleep(move || {
            put(control, EPOCH_OFFSET, 1);
            0
        });
        let (unmapped, writer) = (stage.unmapped(), right.clone());
        let before = unmapped.get();
        stage.sleep(move || {
            assert_eq!(unmapped.get() - before, 2 * WINDOW_BYTES as usize);
            assert_eq!(writer.send(RIGHT, b"now".as_slice(), 0), Ok(3));
            usize::from(Readiness::IN.bits())
        });
        let mut buffer = [0; 3];
        assert_eq!(left.recv(LEFT, buffer.as_mut_slice(), BLOCK), Ok(3));
        assert_eq!(
            (&buffer, stage.log().as_str()),
            (b"now", "sleep 1 0, sleep 1 0")
        );
    });
}

/// A lost node's memory moves away from its mappings before any program is notified.
#[test]
fn a_copy_from_memory_that_moved_away_is_none() {
    play(|stage, left, right| {
        stage.0.borrow_mut().is_far = true;
        open(stage, left, LEFT);
        open(stage, right, RIGHT);
        stage.log();
        let mut buffer = [0; 64];
        let read = |buffer: &mut [u8]| left.vreadfrom(LEFT, buffer, 0, 0);
        (0..3).for_each(|_| read(&mut buffer).unwrap());
        stage.log();
        assert_eq!(read(&mut buffer), Ok(()));
        assert_eq!(stage.log(), "");
        for empty in [u32::MAX, 0] {
            put(stage.own(RIGHT), MAGIC_OFFSET, empty);
            put(stage.own(RIGHT), MAGIC_OFFSET + 4, empty);
            stage.answer(failure(ECONNRESET));
            assert_eq!(read(&mut buffer), Err(ECONNRESET));
            stage.answer(failure(ECONNRESET));
            assert_eq!(
                left.vwriteto(LEFT, b"lost".as_slice(), 0, 0),
                Err(ECONNRESET)
            );
        }
    });
}

#[test]
fn a_prepared_window_is_written_without_the_daemon_from_the_first_byte_on() {
    rings(|stage, left, _| {
        assert_eq!(left.prepare_window(LEFT, 4096, 8192), Ok(()));
        assert_eq!(stage.log(), "map 0x10000 of 203");
        left.vwriteto(LEFT, [7; 8].as_slice(), 4100, 4).unwrap();
        assert_eq!(stage.log(), "");
        assert_eq!(stage.window(RIGHT)[4107].load(Relaxed), 7);
        // Some other window goes: no request for the transfer after it either.
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        left.vwriteto(LEFT, [8; 8].as_slice(), 8192, 4).unwrap();
        assert_eq!(stage.log(), "map 0x10000 of 203");
        assert_eq!(stage.window(RIGHT)[8192].load(Relaxed), 8);
        // As any other again.
        left.forget_window(4096);
        put(stage.control(LEFT), EPOCH_OFFSET, 2);
        left.vwriteto(LEFT, [9; 8].as_slice(), 8192, 4).unwrap();
        assert_eq!(stage.log(), "call 13 8");
    });
}

#[test]
fn a_short_copy_lasts_until_its_end_is_asked_for() {
    let nothing = |left: &Bypass, bytes: &[u8], offset: i64| {
        assert!(left.begin_short_write(bytes, offset).is_none());
    };
    play(|_, left, _| nothing(left, &[7; 8], 4100));
    rings(|stage, left, _| {
        let busy = || get(stage.control(LEFT), rma_busy_offset(BYPASS_LEFT));
        // It is not mapped.
        nothing(left, &[7; 8], 4100);
        assert_eq!(left.prepare_window(LEFT, 4096, 8192), Ok(()));
        left.vwriteto(LEFT, [6; 8].as_slice(), 4100, 4).unwrap();
        stage.log();
        // The first copy finds the mapping, the later ones know it.
        for value in 7..10 {
            let write = left.begin_short_write([value; 8].as_slice(), 4100).unwrap();
            assert_eq!(stage.window(RIGHT)[4107].load(Relaxed), value);
            assert_eq!(busy(), 1);
            // A second one at the same time has to go the long way.
            nothing(left, &[1; 8], 5000);
            drop(write);
            assert_eq!((busy(), stage.log().as_str()), (0, ""));
        }
        nothing(left, &[8; 4000], 4100);
        nothing(left, &[], 4100);
        // Before the mapping, across its end, and behind it; then at its last byte.
        let end = WINDOW_BYTES as i64;
        for offset in [-4, i64::MIN, end - 4, end, i64::MAX] {
            nothing(left, &[9; 8], offset);
        }
        drop(left.begin_short_write([5].as_slice(), end - 1).unwrap());
        // Some window goes.
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        nothing(left, &[9; 8], 4100);
        assert_eq!(busy(), 0);
        assert_eq!(stage.window(RIGHT)[4107].load(Relaxed), 9);
        // Its owner gets the memory back with the next call of this program.
        let before = stage.unmapped().get();
        left.release_stale();
        assert_eq!(stage.unmapped().get() - before, WINDOW_BYTES as usize);
        nothing(left, &[9; 8], 4100);
    });
}

#[test]
fn no_short_copy_is_made_where_stores_are_gathered() {
    play(|stage, left, right| {
        stage.0.borrow_mut().gathers = true;
        open(stage, left, LEFT);
        open(stage, right, RIGHT);
        assert_eq!(left.prepare_window(LEFT, 4096, 8192), Ok(()));
        left.vwriteto(LEFT, [6; 8].as_slice(), 4100, 4).unwrap();
        assert_eq!(stage.window(RIGHT)[4107].load(Relaxed), 6);
        assert!(left.begin_short_write([7; 8].as_slice(), 4100).is_none());
    });
}

#[test]
fn a_window_that_may_be_read_only_can_be_prepared() {
    rings(|stage, left, _| {
        stage.0.borrow_mut().is_read_only = true;
        assert_eq!(left.prepare_window(LEFT, 4096, 8192), Ok(()));
        assert_eq!(stage.log(), "map 0x10000 of 203");
        stage.window(RIGHT)[5000].store(7, Relaxed);
        let mut byte = [0];
        left.vreadfrom(LEFT, byte.as_mut_slice(), 5000, 4).unwrap();
        assert_eq!((byte, stage.log().as_str()), ([7], ""));
    });
}

#[test]
fn a_window_whose_offset_is_still_mapped_as_another_one_gets_a_descriptor_of_its_own() {
    rings(|stage, left, _| {
        let world = || stage.0.borrow_mut();
        assert_eq!(left.fetch(LEFT, 64, |word| word.load(Relaxed)), Ok(0));
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        world().is_former_mapped = true;
        assert_eq!(left.fetch(LEFT, 64, |word| word.load(Relaxed)), Ok(0));
        assert_eq!(stage.log(), ["map 0x10000 of 203"; 2].join(", "));
        assert_eq!(world().window_files, 2);
        // As long as nothing is in the way, one descriptor does.
        put(stage.control(LEFT), EPOCH_OFFSET, 2);
        assert_eq!(left.fetch(LEFT, 64, |word| word.load(Relaxed)), Ok(0));
        assert_eq!(world().window_files, 2);
    });
}

#[test]
fn what_cannot_be_prepared_says_why() {
    play(|_, left, _| assert_eq!(left.prepare_window(LEFT, 0, 4096), Err(EOPNOTSUPP)));
    rings(|stage, left, _| {
        let end = WINDOW_BYTES as i64;
        assert_eq!(left.prepare_window(LEFT, end - 4096, 8192), Err(ENXIO));
        // It is not remembered.
        left.vwriteto(LEFT, [1; 8].as_slice(), end - 8, 0).unwrap();
        assert_eq!(stage.log(), "call 13 8");
    });
}

#[test]
fn locked_operations_reach_the_peer_s_window() {
    let add = |bypass: &Bypass, offset: i64, value: u64| {
        bypass.fetch(LEFT, offset, |word| word.fetch_add(value, Relaxed))
    };
    play(|_, left, _| assert_eq!(add(left, 0, 1), Err(EOPNOTSUPP)));
    rings(|stage, left, _| {
        assert_eq!(add(left, 64, 5), Ok(0));
        assert_eq!(stage.log(), "map 0x10000 of 203");
        assert_eq!(add(left, 64, 1), Ok(5));
        let swapped = left.fetch(LEFT, 64, |word| word.swap(0, Relaxed));
        assert_eq!(swapped, Ok(6));
        assert_eq!(get(stage.window(RIGHT), 64), 0);
        assert_eq!(stage.log(), "");
        assert_eq!(get(stage.control(LEFT), rma_busy_offset(BYPASS_LEFT)), 0);
        assert_eq!(add(left, 4, 1), Err(EINVAL));
        // A range that is prepared and begins there stays so.
        left.prepare_window(LEFT, 64, 4096).unwrap();
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        assert_eq!(add(left, 64, 1), Ok(0));
        put(stage.control(LEFT), EPOCH_OFFSET, 2);
        left.vwriteto(LEFT, [9; 8].as_slice(), 128, 0).unwrap();
        assert_eq!(stage.log(), ["map 0x10000 of 203"; 2].join(", "));
        assert_eq!(add(left, WINDOW_BYTES as i64, 1), Err(ENXIO));
        assert_eq!(add(left, i64::MAX - 7, 1), Err(ENXIO));
    });
}

/// The numbers of the calls for fences.
const MARK: &str = "call 15 0";
const WAIT: &str = "call 16 0";
const SIGNAL: &str = "call 17 40";

#[test]
fn fences_ask_the_daemon_only_for_its_own_transfers() {
    const SELF: u32 = 1;
    const PEER: u32 = 2;
    rings(|stage, left, _| {
        // The first mark is the daemon's.
        stage.answer(Ok(7));
        assert_eq!(left.fence_mark(LEFT, SELF), Ok(7));
        assert_eq!(stage.log(), MARK);
        assert_eq!(left.fence_mark(LEFT, SELF), Ok(7));
        assert_eq!(left.fence_wait(LEFT, 7), Ok(()));
        assert_eq!(stage.log(), "");
        // The peer's transfers, other marks, what is no flag.
        stage.answer(Ok(1 << 30 | 7));
        assert_eq!(left.fence_mark(LEFT, PEER), Ok(1 << 30 | 7));
        for mark in [6, 8, 0, -1, 1 << 30 | 7] {
            stage.answer(failure(EINVAL));
            assert_eq!(left.fence_wait(LEFT, mark), Err(EINVAL));
        }
        stage.answer(failure(EINVAL));
        assert_eq!(left.fence_mark(LEFT, SELF | PEER), Err(EINVAL));
        let calls = [MARK, WAIT, WAIT, WAIT, WAIT, WAIT, MARK];
        assert_eq!(stage.log(), calls.join(", "));
        // Something of the daemon's is under way: a mark from before does not stand for it.
        put(stage.control(LEFT), TRANSFERS_OFFSET, 1);
        stage.answer(Ok(8));
        assert_eq!(left.fence_mark(LEFT, SELF), Ok(8));
        stage.answer(Ok(0));
        assert_eq!(left.fence_wait(LEFT, 8), Ok(()));
        assert_eq!(stage.log(), [MARK, WAIT].join(", "));
        put(stage.control(LEFT), TRANSFERS_OFFSET, 0);
        assert_eq!(left.fence_wait(LEFT, 8), Ok(()));
        assert_eq!(stage.log(), "");
        // The end of a connection is the daemon's to report.
        put(stage.control(LEFT), STATE_OFFSET, STATE_DISCONNECTED);
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        for _ in 0..2 {
            stage.answer(failure(ECONNRESET));
        }
        assert_eq!(left.fence_mark(LEFT, SELF), Err(ECONNRESET));
        assert_eq!(left.fence_wait(LEFT, 8), Err(ECONNRESET));
        assert_eq!(stage.log(), format!("let go, let go, {MARK}, {WAIT}"));
    });
}

#[test]
fn signals_are_stored_where_the_windows_are_mapped() {
    const SELF: u32 = 1;
    const LOCAL: u32 = 16;
    const REMOTE: u32 = 32;
    rings(|stage, left, _| {
        let both = SELF | LOCAL | REMOTE;
        let values = |stage: &Stage| {
            let word = |fd, at| get(stage.window(fd), at);
            [word(LEFT, 8), word(RIGHT, 16), word(RIGHT, 20)]
        };
        let signal = |value: u64, flags| {
            left.fence_signal(LEFT, (8, value), (16, value << 32 | value), flags)
        };
        // The first one goes through the daemon, as it may be the only one.
        stage.answer(Ok(0));
        assert_eq!(signal(1, both), Ok(()));
        assert_eq!(stage.log(), SIGNAL);
        assert_eq!(values(stage), [0, 0, 0]);
        // The second one maps the own window, and counts its first use of the peer's.
        stage.answer(Ok(0));
        assert_eq!(signal(2, both), Ok(()));
        assert_eq!(stage.log(), format!("map 0x10000 of 303, {SIGNAL}"));
        assert_eq!(values(stage), [0, 0, 0]);
        // The third one maps the peer's, and stores both values.
        assert_eq!(signal(3, both), Ok(()));
        assert_eq!(stage.log(), "map 0x10000 of 203");
        assert_eq!(values(stage), [3, 3, 3]);
        assert_eq!(signal(4, both), Ok(()));
        assert_eq!(values(stage), [4, 4, 4]);
        assert_eq!(signal(5, SELF | LOCAL), Ok(()));
        assert_eq!(values(stage), [5, 4, 4]);
        assert_eq!(signal(6, SELF | REMOTE), Ok(()));
        assert_eq!(values(stage), [5, 6, 6]);
        assert_eq!(stage.log(), "");
        let busy = rma_busy_offset(BYPASS_LEFT);
        assert_eq!(get(stage.control(LEFT), busy), 0);
        // What only the daemon can do stores nothing here.
        for (own, flags) in [(4, both), (8, SELF), (8, 2 | LOCAL), (8, both | 64)] {
            assert_eq!(left.fence_signal(LEFT, (own, 9), (16, 9), flags), Ok(()));
            assert_eq!(stage.log(), SIGNAL);
        }
        put(stage.control(LEFT), TRANSFERS_OFFSET, 1);
        assert_eq!(signal(9, both), Ok(()));
        assert_eq!(stage.log(), SIGNAL);
        put(stage.control(LEFT), TRANSFERS_OFFSET, 0);
        // A window that may not be written, or is none.
        stage.answer(failure(ENXIO));
        let outside = left.fence_signal(LEFT, (8, 9), (WINDOW_BYTES as i64, 9), both);
        assert_eq!(outside, Err(ENXIO));
        assert_eq!(values(stage), [5, 6, 6]);
        // Windows go: nothing is stored through mappings from before.
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        stage.log();
        stage.answer(Ok(0));
        assert_eq!(signal(9, both), Ok(()));
        assert!(stage.log().ends_with(SIGNAL));
        assert_eq!(values(stage), [5, 6, 6]);
    });
}

#[test]
fn gathered_stores_are_no_signals() {
    play(|stage, left, _| {
        stage.0.borrow_mut().gathers = true;
        open(stage, left, LEFT);
        for _ in 0..5 {
            assert_eq!(
                left.fence_signal(LEFT, (8, 1), (16, 1), 1 | 16 | 32),
                Ok(())
            );
            assert_eq!(stage.log(), SIGNAL);
        }
    });
}

#[test]
fn a_locked_operation_is_not_made_through_a_descriptor_closed_meanwhile() {
    rings(|stage, left, _| {
        // Another thread closes the descriptor while this one maps: it may be of another endpoint.
        let closed = left.clone();
        stage.0.borrow_mut().on_map = Some(Box::new(move || closed.detach()));
        let result = left.fetch(LEFT, 64, |word| word.fetch_add(1, Relaxed));
        assert_eq!(result, Err(EINTR));
        assert_eq!(get(stage.window(RIGHT), 64), 0);
    });
}

/// The word is in the control page itself: the operation changes the epoch, as if the window went.
#[test]
fn a_locked_operation_that_was_made_counts_whatever_goes_meanwhile() {
    rings(|stage, left, _| {
        stage.0.borrow_mut().is_control = true;
        let state = STATE_OFFSET as i64;
        let next = left.fetch(LEFT, state, |word| word.fetch_add(1 << 32, Relaxed));
        assert!(next.is_ok(), "{next:?}");
        assert_eq!(get(stage.control(LEFT), EPOCH_OFFSET), 1, "made once");
        assert_eq!(get(stage.control(LEFT), rma_busy_offset(BYPASS_LEFT)), 0);
    });
}

#[test]
fn who_works_on_mappings_alone_learns_of_the_end() {
    rings(|stage, left, right| {
        assert!(left.is_live(LEFT) && !left.may_be_readable());
        put(stage.control(LEFT), EPOCH_OFFSET, 1);
        assert!(left.is_live(LEFT) && !left.may_be_readable());
        right.send(RIGHT, [1; 8].as_slice(), 0).unwrap();
        assert!(left.may_be_readable());
        left.recv(LEFT, [0; 8].as_mut_slice(), 0).unwrap();
        assert!(!left.may_be_readable());
        put(stage.control(LEFT), STATE_OFFSET, STATE_DISCONNECTED);
        assert!(!left.is_live(LEFT) && left.may_be_readable());
    });
}
