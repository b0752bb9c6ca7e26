//! Tests the loop against a fake socket and a scheme of byte queues.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, Id, OpenResult};
use syscall::data::Stat;
use syscall::error::*;
use syscall::flag::{EventFlags, F_GETFL, MapFlags, MunmapFlags, O_NONBLOCK, StdFsCallKind};
use syscall::schemev2::{Cqe, CqeOpcode, NewFdFlags, Opcode, Sqe};

use super::{Changes, NO_ID, SchemeDaemon, SchemeLoop, Status, Transport, WAITS};
use crate::locks::Locks;
use hal::testing::counting::{Heap, allocations};

#[global_allocator]
static HEAP: Heap = Heap;

#[derive(Default)]
struct FakeSocket {
    requests: VecDeque<Sqe>,
    answers: Vec<Cqe>,
    closed: bool,
    refuse_first: bool,
}

impl Transport for FakeSocket {
    fn blocking(&self) -> bool {
        false
    }
    fn read(&mut self, requests: &mut [Sqe]) -> Result<Option<usize>> {
        let count = self.requests.len().min(requests.len());
        if count == 0 {
            return Ok(if self.closed { Some(0) } else { None });
        }
        for slot in requests.iter_mut().take(count) {
            *slot = self.requests.pop_front().unwrap();
        }
        Ok(Some(count))
    }
    fn write(&mut self, answers: &[Cqe]) -> Result<usize> {
        if core::mem::take(&mut self.refuse_first) {
            return Err(Error::new(EBADFD));
        }
        // One at a time, as a kernel may.
        self.answers.push(answers[0]);
        Ok(1)
    }
}

/// Handle 0 is the root; every other handle is a queue of bytes.
#[derive(Default)]
struct Queues {
    bytes: BTreeMap<usize, VecDeque<u8>>,
    changed: Vec<usize>,
    cancelled: Vec<Id>,
    closed: Vec<usize>,
    last_uid: u32,
    endless: bool,
    progress: bool,
    gone: Vec<usize>,
    asked: Vec<usize>,
    mapped: Vec<(usize, u64, usize)>,
    locks: Locks,
}

impl SchemeSync for Queues {
    fn openat(
        &mut self,
        _dir: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        let number = path.parse().map_err(|_| Error::new(ENOENT))?;
        if number == 99 && self.bytes.is_empty() {
            return Ok(OpenResult::WouldBlock);
        }
        self.bytes.entry(number).or_default();
        Ok(OpenResult::ThisScheme {
            number,
            flags: NewFdFlags::empty(),
        })
    }
    fn read(&mut self, id: usize, buf: &mut [u8], _: u64, _: u32, _: &CallerCtx) -> Result<usize> {
        let queue = self.bytes.get_mut(&id).ok_or(Error::new(EBADF))?;
        if queue.is_empty() {
            return Err(Error::new(EWOULDBLOCK));
        }
        let count = buf.len().min(queue.len());
        buf.iter_mut()
            .zip(queue.drain(..count))
            .for_each(|(to, from)| *to = from);
        Ok(count)
    }
    fn write(&mut self, id: usize, buf: &[u8], _: u64, _: u32, ctx: &CallerCtx) -> Result<usize> {
        self.last_uid = ctx.uid;
        self.bytes
            .get_mut(&id)
            .ok_or(Error::new(EBADF))?
            .extend(buf);
        self.changed.push(id);
        Ok(buf.len())
    }
    fn call(&mut self, _: usize, _: &mut [u8], meta: &[u64], ctx: &CallerCtx) -> Result<usize> {
        self.last_uid = ctx.uid;
        Ok(meta[0] as usize)
    }
    fn fevent(&mut self, id: usize, flags: EventFlags, _: &CallerCtx) -> Result<EventFlags> {
        let ready = !self.bytes.get(&id).ok_or(Error::new(EBADF))?.is_empty();
        Ok(if ready {
            flags & EventFlags::EVENT_READ
        } else {
            EventFlags::empty()
        })
    }
    fn mmap_prep(
        &mut self,
        id: usize,
        offset: u64,
        size: usize,
        flags: MapFlags,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        if flags.contains(MapFlags::PROT_WRITE) {
            return Err(Error::new(EACCES));
        }
        self.last_uid = ctx.uid;
        self.mapped.push((id, offset, size));
        Ok(0x7000_0000 + offset as usize)
    }
    fn munmap(
        &mut self,
        id: usize,
        offset: u64,
        size: usize,
        _: MunmapFlags,
        _: &CallerCtx,
    ) -> Result<()> {
        self.mapped.retain(|&mapped| mapped != (id, offset, size));
        Ok(())
    }
    fn fstat(&mut self, id: usize, stat: &mut Stat, _: &CallerCtx) -> Result<()> {
        stat.st_size = self.bytes.get(&id).ok_or(Error::new(EBADF))?.len() as u64;
        Ok(())
    }
    fn on_close(&mut self, id: usize) {
        self.closed.push(id);
    }
}

impl SchemeDaemon for Queues {
    fn changes(&mut self, changes: &mut Changes) {
        if self.locks.take_freed() {
            changes.everything();
        }
        self.changed.drain(..).for_each(|id| changes.handle(id));
        if self.endless {
            changes.handle(1);
            if self.progress {
                changes.progress();
            }
        }
    }
    /// All handles from 10 on are openings of one file.
    fn locks(&mut self, handle: usize) -> Result<(&mut Locks, u64)> {
        match handle {
            10.. => Ok((&mut self.locks, 5)),
            _ => Err(Error::new(EBADF)),
        }
    }
    fn is_gone(&mut self, pid: usize) -> bool {
        self.asked.push(pid);
        self.gone.contains(&pid)
    }
    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        self.cancelled.push(request);
        Err(Error::new(ECANCELED))
    }
}

struct Fixture {
    scheme: Queues,
    event_loop: SchemeLoop<FakeSocket>,
}

impl Fixture {
    fn new() -> Self {
        let mut scheme = Queues::default();
        scheme.bytes.insert(1, VecDeque::new());
        Self {
            scheme,
            event_loop: SchemeLoop::with_transport(FakeSocket::default()),
        }
    }
    fn send(&mut self, opcode: Opcode, tag: u32, args: [u64; 6]) {
        self.send_as(7, opcode, tag, args);
    }
    fn send_as(&mut self, caller: u64, opcode: Opcode, tag: u32, args: [u64; 6]) {
        self.event_loop.transport.requests.push_back(Sqe {
            opcode: opcode as u8,
            tag,
            args,
            caller,
            ..Sqe::default()
        });
    }
    fn poll(&mut self) -> Vec<Cqe> {
        assert_eq!(self.event_loop.poll(&mut self.scheme), Ok(Status::Idle));
        core::mem::take(&mut self.event_loop.transport.answers)
    }
    fn answers(&mut self) -> Vec<(u32, Result<usize>)> {
        self.poll()
            .iter()
            .map(|cqe| (cqe.tag, Error::demux(cqe.result as usize)))
            .collect()
    }
    fn read(&mut self, tag: u32, buf: &mut [u8], flags: usize) {
        let (address, length) = (buf.as_mut_ptr() as u64, buf.len() as u64);
        self.send(
            Opcode::Read,
            tag,
            [1, address, length, u64::MAX, flags as u64, 0],
        );
    }
    fn write(&mut self, tag: u32, buf: &[u8]) {
        let (address, length) = (buf.as_ptr() as u64, buf.len() as u64);
        self.send(Opcode::Write, tag, [1, address, length, u64::MAX, 0, 1000]);
    }
}

/// An exclusive lock, or one of an opening.
const HIGHEST: u64 = 1 << 63;

impl Fixture {
    fn lock(&mut self, caller: u64, handle: u64, kind: StdFsCallKind, start: u64, length: u64) {
        // As from the kernel: an empty buffer has an address.
        let args = [handle, 8, 0, kind as u64, start, length];
        self.send_as(caller, Opcode::StdFsCall, handle as u32, args);
    }
    fn close(&mut self, handle: u64) {
        self.send(Opcode::CloseMsg, 0, [handle, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn locks_are_waited_for_until_their_owner_gives_them_back() {
    let mut fixture = Fixture::new();
    fixture.lock(1, 10, StdFsCallKind::Lock, 0, 5 | HIGHEST);
    let answers = fixture.poll();
    assert_eq!(answers[0].flags, CqeOpcode::RespondAndNotifyOnDetach as u8);
    // Another process: at once, and waiting; other bytes are free.
    fixture.lock(2, 11, StdFsCallKind::Lock, 4, 1);
    fixture.lock(2, 12, StdFsCallKind::Lock, 4, 1 | WAITS);
    fixture.lock(3, 13, StdFsCallKind::Lock, 5 | HIGHEST, 0);
    assert_eq!(fixture.answers(), [(11, error(EAGAIN)), (13, Ok(0))]);
    fixture.lock(1, 10, StdFsCallKind::Unlock, 0, 0);
    assert_eq!(fixture.answers(), [(10, Ok(0)), (12, Ok(0))]);

    // Of a process that closes a descriptor of the file; of an opening that goes.
    fixture.lock(1, 10, StdFsCallKind::Lock, 4, 1 | HIGHEST | WAITS);
    fixture.lock(4, 14, StdFsCallKind::Lock, 7, 1 | HIGHEST | WAITS);
    assert_eq!(fixture.answers(), []);
    fixture.send_as(2, Opcode::Detach, 0, [12, 0, 0, 0, 0, 0]);
    assert_eq!(fixture.answers(), [(10, Ok(0))]);
    fixture.close(13);
    assert_eq!(fixture.answers(), [(14, Ok(0))]);
}

#[test]
fn a_lock_in_the_way_is_told() {
    let mut fixture = Fixture::new();
    fixture.lock(1, 10, StdFsCallKind::Lock, 3, HIGHEST);
    assert_eq!(fixture.answers(), [(10, Ok(0))]);
    let mut found = [0u64; 2];
    let ask = |caller, start, bytes: &mut [u64; 2], size: u64| Sqe {
        opcode: Opcode::StdFsCall as u8,
        tag: 9,
        args: [
            11,
            bytes.as_mut_ptr() as u64,
            size,
            StdFsCallKind::GetLock as u64,
            start,
            1,
        ],
        caller,
        ..Sqe::default()
    };
    for (caller, start, size, answer) in [
        (2, 9, 16, Ok(1)),
        (1, 9, 16, error(ESRCH)),
        (2, 2, 16, error(ESRCH)),
        (2, 9, 8, error(EINVAL)),
    ] {
        let request = ask(caller, start, &mut found, size);
        fixture.event_loop.transport.requests.push_back(request);
        assert_eq!(fixture.answers(), [(9, answer)]);
    }
    assert_eq!(found, [3, HIGHEST]);
    // Where no locks are kept.
    fixture.lock(1, 1, StdFsCallKind::Lock, 0, 0);
    assert_eq!(fixture.answers(), [(1, error(EBADF))]);
}

fn error(errno: i32) -> Result<usize> {
    Err(Error::new(errno))
}

#[test]
fn a_read_waits_until_the_handle_changes() {
    let mut fixture = Fixture::new();
    let mut buf = [0; 8];
    fixture.read(3, &mut buf, 0);
    assert_eq!(fixture.answers(), []);
    assert_eq!(fixture.event_loop.parked(), 1);
    fixture.write(4, b"hello");
    assert_eq!(fixture.answers(), [(4, Ok(5)), (3, Ok(5))]);
    assert_eq!(&buf[..5], b"hello");
    assert_eq!(fixture.event_loop.parked(), 0);
    assert_eq!(fixture.scheme.last_uid, 1000);
}

#[test]
fn waiting_reads_are_served_in_order() {
    let mut fixture = Fixture::new();
    let (mut first, mut second) = ([0; 2], [0; 2]);
    fixture.read(1, &mut first, 0);
    fixture.read(2, &mut second, 0);
    assert_eq!(fixture.answers(), []);
    fixture.write(3, b"ab");
    assert_eq!(fixture.answers(), [(3, Ok(2)), (1, Ok(2))]);
    fixture.write(3, b"cd");
    assert_eq!(fixture.answers(), [(3, Ok(2)), (2, Ok(2))]);
    assert_eq!((&first, &second), (b"ab", b"cd"));
}

#[test]
fn nonblocking_requests_are_never_kept() {
    let mut fixture = Fixture::new();
    let mut buf = [0; 8];
    fixture.read(3, &mut buf, O_NONBLOCK);
    assert_eq!(fixture.answers(), [(3, error(EAGAIN))]);
    let path = b"99";
    fixture.scheme.bytes.clear();
    let args = [0, path.as_ptr() as u64, 2, 0, O_NONBLOCK as u64, 0];
    fixture.send(Opcode::OpenAt, 4, args);
    assert_eq!(fixture.answers(), [(4, error(EAGAIN))]);
    assert_eq!(fixture.event_loop.parked(), 0);
}

#[test]
fn an_open_can_wait_too() {
    let mut fixture = Fixture::new();
    fixture.scheme.bytes.clear();
    let path = b"99";
    fixture.send(Opcode::OpenAt, 4, [0, path.as_ptr() as u64, 2, 0, 0, 0]);
    assert_eq!(fixture.answers(), []);
    fixture.scheme.bytes.insert(5, VecDeque::new());
    fixture.scheme.changed.push(0);
    assert_eq!(fixture.answers(), [(4, Ok(99))]);
}

/// Processes 7, 8 and 9 wait in opens, 8 in two; 8 is gone.
#[test]
fn opens_of_killed_processes_are_given_up() {
    let mut fixture = Fixture::new();
    fixture.scheme.bytes.clear();
    let path = b"99";
    let args = [0, path.as_ptr() as u64, 2, 0, 0, 0];
    for (tag, caller) in [(1, 7), (2, 8), (3, 9), (4, 8)] {
        fixture.send_as(caller, Opcode::OpenAt, tag, args);
    }
    while fixture.event_loop.parked() < 4 {
        assert_eq!(
            fixture.event_loop.poll(&mut fixture.scheme).map(|_| ()),
            Ok(())
        );
    }
    fixture.scheme.gone.push(8);
    // Two are asked about at a time, the others at the next call.
    fixture.event_loop.give_up_the_gone(2, &mut fixture.scheme);
    assert_eq!(fixture.scheme.asked, [7, 8]);
    let mut answers = fixture.answers();
    answers.sort_unstable_by_key(|(tag, _)| *tag);
    assert_eq!(answers, [(2, error(ECANCELED)), (4, error(ECANCELED))]);
    assert_eq!(
        (fixture.scheme.cancelled.len(), fixture.event_loop.parked()),
        (2, 2)
    );
    fixture.event_loop.give_up_the_gone(2, &mut fixture.scheme);
    fixture.event_loop.give_up_the_gone(9, &mut fixture.scheme);
    assert_eq!(fixture.scheme.asked, [7, 8, 9, 7, 9, 7]);
    assert_eq!(fixture.answers(), []);
}

#[test]
fn only_opens_are_asked_about() {
    let mut fixture = Fixture::new();
    let mut buf = [0; 8];
    fixture.read(3, &mut buf, 0);
    assert_eq!(fixture.answers(), []);
    fixture.scheme.gone.push(7);
    fixture.event_loop.give_up_the_gone(9, &mut fixture.scheme);
    assert_eq!(
        (fixture.scheme.asked.len(), fixture.event_loop.parked()),
        (0, 1)
    );
}

#[test]
fn what_is_opened_for_a_killed_process_is_closed() {
    let path = b"99";
    for is_gone in [false, true] {
        let mut fixture = Fixture::new();
        fixture.scheme.bytes.clear();
        fixture.send(Opcode::OpenAt, 4, [0, path.as_ptr() as u64, 2, 0, 0, 0]);
        assert_eq!(fixture.answers(), []);
        fixture.scheme.gone.extend(is_gone.then_some(7));
        fixture.scheme.bytes.insert(5, VecDeque::new());
        fixture.scheme.changed.push(0);
        let (answer, closed) = match is_gone {
            true => (error(ECANCELED), vec![99]),
            false => (Ok(99), vec![]),
        };
        assert_eq!(
            (fixture.answers(), fixture.scheme.closed),
            (vec![(4, answer)], closed)
        );
        assert_eq!(fixture.scheme.asked, [7]);
    }
}

/// The fixture after processes 7, 8 and 9 have opened handles 99, 8 and 9.
fn opened_by_three() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.event_loop.look_for_unclaimed_handles();
    for (caller, path) in [(7, b"99"), (8, b"08"), (9, b"09")] {
        let args = [0, path.as_ptr() as u64, 2, 0, 0, 0];
        fixture.send_as(caller, Opcode::OpenAt, caller as u32, args);
    }
    assert_eq!(fixture.answers(), [(7, Ok(99)), (8, Ok(8)), (9, Ok(9))]);
    fixture
}

/// Looks `looks` times and returns the handles that were closed.
fn closed_after(fixture: &mut Fixture, looks: usize) -> Vec<usize> {
    for _ in 0..looks {
        fixture.event_loop.give_up_the_gone(9, &mut fixture.scheme);
    }
    core::mem::take(&mut fixture.scheme.closed)
}

#[test]
fn a_handle_that_no_request_was_for_is_closed_with_its_maker() {
    let mut fixture = opened_by_three();
    fixture.scheme.gone.extend([7, 8]);
    // This handle is in use.
    fixture.send_as(20, Opcode::Fevent, 1, [8, 1, 0, 0, 0, 0]);
    fixture.answers();
    assert_eq!(closed_after(&mut fixture, 4), []);
    assert_eq!(closed_after(&mut fixture, 20), [99]);
    assert!(fixture.event_loop.awaits_the_gone());
    // The third process has lived long enough to have used its handle.
    assert_eq!(closed_after(&mut fixture, 60), []);
    fixture.scheme.gone.push(9);
    assert_eq!(closed_after(&mut fixture, 60), []);
    assert!(!fixture.event_loop.awaits_the_gone());
}

#[test]
fn a_handle_that_its_maker_closed_is_not_closed_again() {
    let mut fixture = opened_by_three();
    for handle in [99, 8, 9] {
        fixture.send(Opcode::CloseMsg, 0, [handle, 0, 0, 0, 0, 0]);
    }
    fixture.answers();
    fixture.scheme.gone.extend([7, 8, 9]);
    assert_eq!(closed_after(&mut fixture, 60), [99, 8, 9]);
}

#[test]
fn cancellation_answers_a_kept_request_once() {
    let mut fixture = Fixture::new();
    let mut buf = [0; 8];
    fixture.read(3, &mut buf, 0);
    fixture.send(Opcode::Cancel, 3, [0; 6]);
    fixture.send(Opcode::Cancel, 3, [0; 6]);
    fixture.send(Opcode::Cancel, 77, [0; 6]);
    assert_eq!(fixture.answers(), [(3, error(ECANCELED))]);
    assert_eq!(fixture.scheme.cancelled.len(), 1);
    fixture.write(4, b"x");
    assert_eq!(fixture.answers(), [(4, Ok(1))]);
}

#[test]
fn closing_a_handle_gives_up_its_requests() {
    let mut fixture = Fixture::new();
    let mut buf = [0; 8];
    fixture.read(3, &mut buf, 0);
    fixture.send(Opcode::CloseMsg, 0, [1, 0, 0, 0, 0, 0]);
    assert_eq!(fixture.answers(), [(3, error(ECANCELED))]);
    assert_eq!(fixture.scheme.closed, [1]);
}

#[test]
fn a_handle_that_no_queue_watches_any_more_is_not_looked_at() {
    let mut fixture = Fixture::new();
    let both = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    let read = EventFlags::EVENT_READ;
    let wanted = |flags: EventFlags| [1, flags.bits() as u64, 0, 0, 0, 0];
    fixture.send(Opcode::Fevent, 3, wanted(both));
    assert_eq!(fixture.answers(), [(3, Ok(0))]);
    // One of its queues has ended, and another one watches for less.
    fixture.send_as(0, Opcode::Fevent, 4, wanted(read));
    assert_eq!(fixture.answers(), [(4, Ok(0))]);
    assert_eq!(fixture.event_loop.counters().watched, 1);
    fixture.write(5, b"x");
    assert_eq!(fixture.poll().len(), 2);
    // The last queue ends. The notice of that comes before all that waits for its turn.
    fixture.write(6, b"x");
    fixture.send_as(0, Opcode::Fevent, 7, wanted(EventFlags::empty()));
    assert_eq!(fixture.answers(), [(7, Ok(0)), (6, Ok(1))]);
    assert_eq!(fixture.event_loop.counters().watched, 0);
}

#[test]
fn subscribers_hear_of_changes_until_the_handle_is_closed() {
    let mut fixture = Fixture::new();
    let wanted = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
    fixture.send(Opcode::Fevent, 3, [1, wanted.bits() as u64, 0, 0, 0, 0]);
    assert_eq!(fixture.answers(), [(3, Ok(0))]);
    assert_eq!(fixture.event_loop.counters().watched, 1);
    fixture.write(4, b"x");
    let answers = fixture.poll();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].flags, CqeOpcode::SendFevent as u8);
    assert_eq!(
        (answers[1].tag as usize, answers[1].result),
        (EventFlags::EVENT_READ.bits(), 1)
    );
    fixture.send(Opcode::CloseMsg, 0, [1, 0, 0, 0, 0, 0]);
    fixture.write(5, b"x");
    assert_eq!(fixture.answers(), [(5, Ok(1))]);
    assert_eq!(fixture.event_loop.counters().watched, 0);
}

#[test]
fn structures_are_checked_and_copied() {
    let mut fixture = Fixture::new();
    fixture
        .scheme
        .bytes
        .insert(1, [1, 2, 3].into_iter().collect());
    let mut space = [0_u8; size_of::<Stat>() + 1];
    let unaligned = space.as_mut_ptr().wrapping_add(1) as u64;
    let length = size_of::<Stat>() as u64;
    fixture.send(Opcode::Fstat, 3, [1, unaligned, length, 0, 0, 0]);
    fixture.send(Opcode::Fstat, 4, [1, unaligned, length - 1, 0, 0, 0]);
    fixture.send(Opcode::Fstatvfs, 5, [1, unaligned, 8, 0, 0, 0]);
    fixture.send(Opcode::Futimens, 6, [1, unaligned, 1000, 0, 0, 0]);
    fixture.send(Opcode::StdFsCall, 7, [1, unaligned, 4, 4, 0, 0]);
    fixture.send(Opcode::StdFsCall, 8, [1, unaligned, length, 4, 0, 0]);
    fixture.send(Opcode::StdFsCall, 9, [1, unaligned, length, 200, 0, 0]);
    let invalid = error(EINVAL);
    assert_eq!(
        fixture.answers(),
        [
            (3, Ok(0)),
            (4, invalid),
            (5, invalid),
            (6, invalid),
            (7, invalid),
            (8, Ok(0)),
            (9, error(EOPNOTSUPP))
        ]
    );
    // SAFETY: the buffer holds a whole `Stat` at this address, written just now.
    let stat = unsafe { (unaligned as *const Stat).read_unaligned() };
    assert_eq!(stat.st_size, 3);
}

#[test]
fn defaults_and_unknown_requests() {
    let mut fixture = Fixture::new();
    fixture.send(Opcode::Fcntl, 1, [1, F_GETFL as u64, 0, 0, 0, 0]);
    fixture.send(Opcode::Fcntl, 2, [1, 0x1234, 0, 0, 0, 0]);
    fixture.send(Opcode::Call, 3, [1, 1 << 62, 0, 42, 0, 0]);
    fixture.event_loop.transport.requests.push_back(Sqe {
        opcode: 250,
        tag: 4,
        ..Sqe::default()
    });
    assert_eq!(
        fixture.answers(),
        [
            (1, Ok(0)),
            (2, error(EOPNOTSUPP)),
            (3, Ok(42)),
            (4, error(ENOSYS))
        ]
    );
    assert_eq!(fixture.scheme.last_uid, NO_ID);
}

#[test]
fn a_refused_answer_does_not_stop_the_others() {
    let mut fixture = Fixture::new();
    fixture.event_loop.transport.refuse_first = true;
    fixture.write(1, b"a");
    fixture.write(2, b"b");
    assert_eq!(fixture.answers(), [(2, Ok(1))]);
}

#[test]
fn endless_changes_do_not_hang_the_loop() {
    let mut fixture = Fixture::new();
    fixture.scheme.endless = true;
    fixture.write(1, b"a");
    assert_eq!(fixture.answers(), [(1, Ok(1))]);
}

#[test]
fn endless_progress_lets_others_in() {
    let mut fixture = Fixture::new();
    fixture.scheme.endless = true;
    fixture.scheme.progress = true;
    fixture.write(1, b"a");
    assert_eq!(
        fixture.event_loop.poll(&mut fixture.scheme),
        Ok(Status::More)
    );
    fixture.scheme.endless = false;
    assert_eq!(fixture.answers(), [(1, Ok(1))]);
}

#[test]
fn a_closed_socket_ends_the_loop() {
    let mut fixture = Fixture::new();
    fixture.event_loop.transport.closed = true;
    assert_eq!(
        fixture.event_loop.poll(&mut fixture.scheme),
        Ok(Status::Closed)
    );
    assert_eq!(fixture.event_loop.run(&mut fixture.scheme), Ok(()));
}

#[test]
fn mapping_requests_reach_the_daemon() {
    let mut fixture = Fixture::new();
    let read = MapFlags::PROT_READ | MapFlags::MAP_SHARED;
    let write = read | MapFlags::PROT_WRITE;
    fixture.send(
        Opcode::MmapPrep,
        1,
        [1, 100, read.bits() as u64, 8192, 0, 1000],
    );
    fixture.send(
        Opcode::MmapPrep,
        2,
        [1, 100, write.bits() as u64, 8192, 0, 1000],
    );
    assert_eq!(
        fixture.answers(),
        [(1, Ok(0x7000_2000)), (2, error(EACCES))]
    );
    assert_eq!(fixture.scheme.last_uid, 1000);
    assert_eq!(fixture.scheme.mapped, [(1, 8192, 100)]);
    fixture.send(Opcode::Munmap, 3, [1, 100, 0, 8192, 0, 0]);
    assert_eq!(fixture.answers(), [(3, Ok(0))]);
    assert_eq!(fixture.scheme.mapped, []);
}

#[test]
fn many_requests_are_taken_at_once_and_answered_at_once() {
    let mut fixture = Fixture::new();
    for tag in 0..20 {
        fixture.write(tag, b"x");
    }
    assert_eq!(fixture.answers().len(), 20);
    let counters = fixture.event_loop.counters();
    assert_eq!((counters.requests, counters.answers), (20, 20));
    // A short read has found all there were.
    assert_eq!(counters.reads, 1);
}

#[test]
fn many_processes_that_ask_for_much_leave_another_its_turn() {
    const OTHERS: u64 = 6;
    const EACH: u32 = 48;
    let mut fixture = Fixture::new();
    let byte = b"x";
    let write = [1, byte.as_ptr() as u64, byte.len() as u64, 0, 0, 0];
    for tag in 0..OTHERS as u32 * EACH {
        let other = 100 + u64::from(tag) % OTHERS;
        fixture.send_as(other, Opcode::Write, tag, write);
    }
    fixture.send_as(7, Opcode::Write, 9999, write);
    let answers = fixture.answers();
    let before = answers.iter().position(|(tag, _)| *tag == 9999);
    assert!(before.is_some_and(|before| before <= 8 * OTHERS as usize));
    let first = fixture.event_loop.counters().others_first;
    assert_eq!(Some(first as usize), before);
}

#[test]
fn a_message_allocates_nothing() {
    let mut fixture = Fixture::new();
    let mut buf = [0; 8];
    // A read that waits, a write that ends it, a subscriber that gets an event, a cancellation.
    let wanted = EventFlags::EVENT_READ.bits() as u64;
    fixture.send(Opcode::Fevent, 3, [1, wanted, 0, 0, 0, 0]);
    let mut round = |fixture: &mut Fixture| {
        for tag in 10..18 {
            fixture.read(tag, &mut buf, 0);
        }
        fixture.event_loop.poll(&mut fixture.scheme).unwrap();
        fixture.write(4, b"abcdefghijk");
        fixture.event_loop.poll(&mut fixture.scheme).unwrap();
        for tag in 12..18 {
            fixture.send(Opcode::Cancel, tag, [0; 6]);
        }
        fixture.event_loop.poll(&mut fixture.scheme).unwrap();
        assert_eq!(fixture.event_loop.parked(), 0);
        fixture.event_loop.transport.answers.clear();
        fixture.scheme.cancelled.clear();
        assert!(fixture.scheme.bytes[&1].is_empty());
    };
    // Tables and lists grow to the size that is needed, once.
    round(&mut fixture);
    round(&mut fixture);
    let before = allocations();
    for _ in 0..1000 {
        round(&mut fixture);
    }
    assert_eq!(allocations() - before, 0);
}
