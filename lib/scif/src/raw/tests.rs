//! Tests of the calls against a simulated system: which requests each makes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::AtomicU8;

use client_memory::memory::Memory;
use hal::testing::host::{self, Request, THREAD};
use libredox::Fd;
use scif_abi::call::{CachedRecord, OwnRecord, OwnTransferRecord};
use syscall::error::{
    EACCES, EBADF, ECONNRESET, EMFILE, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOTCONN, ENOTTY, ENXIO,
    ESRCH, Error,
};
use syscall::flag::{F_DUPFD, UPPER_FDTBL_TAG};
use zerocopy::{FromBytes, IntoBytes};

use super::*;

const PAGE: usize = hal::mem::PAGE;
const EPD: usize = 3;
/// The descriptor of the program's address space.
const SPACE: usize = 50;
const PROVIDE: u64 = 80;
const FIXED: u32 = 4;
/// Flags of a mapping's description: read and write.
const GRANT_RW: usize = 3;

/// A system with one endpoint, whose answers are prepared.
#[derive(Default)]
struct World {
    /// The calls that were made, in words.
    log: Vec<String>,
    /// Payloads of the calls on the endpoint.
    payloads: Vec<Vec<u8>>,
    /// The answers of the endpoint; `Ok(0)` when none is left.
    answers: VecDeque<syscall::error::Result<usize>>,
    /// The results of writes to a pipe.
    pipe: VecDeque<syscall::error::Result<usize>>,
    /// The results of reads of an event queue; no event when none is left.
    queue: VecDeque<syscall::error::Result<usize>>,
    /// Why descriptors of the endpoint are refused; none when nothing is left.
    dups: VecDeque<i32>,
    /// Mappings of the process: base and bytes.
    grants: Vec<(usize, usize)>,
    /// Flags of their descriptions.
    rights: usize,
    listed: bool,
    /// Memory objects by descriptor.
    objects: Vec<(usize, &'static [AtomicU8])>,
    last_fd: usize,
    /// Which mapping with a fixed address fails, counted from 1.
    bad_map: usize,
    fixed_maps: usize,
    /// What was unmapped: address and bytes.
    unmapped: Vec<(usize, usize)>,
}

impl World {
    fn answer(&mut self, request: Request<'_>) -> syscall::error::Result<usize> {
        match request {
            Request::Open(path) => {
                self.log.push(format!("open {path}"));
                self.last_fd += 1;
                Ok(100 + self.last_fd)
            }
            Request::Dup(THREAD, b"addrspace") => {
                self.listed = false;
                Ok(SPACE)
            }
            Request::Dup(fd, name) => {
                let name = String::from_utf8_lossy(name);
                self.log.push(format!("dup {fd} {name}"));
                match self.dups.pop_front() {
                    Some(failure) => Err(Error::new(failure)),
                    None => Ok(60),
                }
            }
            Request::Control(60, F_DUPFD, UPPER_FDTBL_TAG) => Ok(61),
            // The other end of a pipe.
            Request::Control(fd @ 100.., F_DUPFD, UPPER_FDTBL_TAG) => Ok(fd),
            // Close-on-exec.
            Request::Control(60 | 61, _, _) => Ok(0),
            Request::Read(SPACE, to) => {
                let mut count = 0;
                if !self.listed {
                    for (place, grant) in to.chunks_exact_mut(32).zip(&self.grants) {
                        let words = [grant.0, grant.1, self.rights, 0];
                        place.copy_from_slice(words.map(usize::to_ne_bytes).as_flattened());
                        count += 32;
                    }
                }
                self.listed = true;
                Ok(count)
            }
            Request::Call(fd, space, [_]) => {
                assert_eq!(*space, SPACE.to_ne_bytes());
                self.log.push(format!("send on {fd}"));
                Ok(1)
            }
            Request::Call(EPD, payload, metadata) => {
                let number = metadata[0];
                self.log.push(format!("call {number}"));
                let mut kept = metadata[1..].as_bytes().to_vec();
                kept.extend_from_slice(payload);
                self.payloads.push(kept);
                self.answers.pop_front().unwrap_or(Ok(0))
            }
            Request::Call(fd, _, [PROVIDE, pages, _]) => {
                self.log.push(format!("provide {pages}"));
                self.objects
                    .push((fd, host::pages(*pages as usize * PAGE)?));
                Ok(1000 + fd)
            }
            Request::Call(fd, _, metadata) => {
                self.log.push(format!("call {} on {fd}", metadata[0]));
                self.answers.pop_front().unwrap_or(Ok(0))
            }
            Request::Write(60 | 61, bytes) => {
                self.log.push("pipe".to_string());
                self.pipe.pop_front().unwrap_or(Ok(bytes.len()))
            }
            Request::Read(_, to) if !self.pipe.is_empty() => Ok(to.len()),
            // An event queue that stays empty until its time is over.
            Request::Write(101.., bytes) => Ok(bytes.len()),
            Request::Read(101.., _) => self.queue.pop_front().unwrap_or(Ok(0)),
            Request::Write(EPD, bytes) => {
                self.log.push(format!("write {}", bytes.len()));
                self.answers.pop_front().unwrap_or(Ok(bytes.len()))
            }
            Request::Map {
                address,
                bytes,
                flags,
                fd,
                offset,
                ..
            } => self.map(address, bytes, flags, fd, offset),
            Request::Unmap(address, bytes) => {
                self.unmapped.push((address, bytes));
                self.log.push(format!("unmap {bytes:#x}"));
                Ok(0)
            }
            Request::Control(..) | Request::Clock(..) | Request::Close(SPACE) => Ok(0),
            Request::Close(fd) => {
                self.log.push(format!("close {fd}"));
                Ok(0)
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    fn map(
        &mut self,
        address: usize,
        bytes: usize,
        flags: u32,
        fd: usize,
        offset: u64,
    ) -> syscall::error::Result<usize> {
        let object = self.objects.iter().find(|(known, ..)| *known == fd);
        let object = object.map(|(_, content)| &content[offset as usize..]);
        if flags & FIXED == 0 {
            self.log.push(format!("map {bytes:#x}"));
            let place = match object {
                Some(content) => content,
                None => host::pages(bytes)?,
            };
            return Ok(place.as_ptr() as usize);
        }
        self.fixed_maps += 1;
        self.log.push(format!("fixed {bytes:#x} from {offset:#x}"));
        if self.fixed_maps == self.bad_map {
            return Err(Error::new(ENOMEM));
        }
        Ok(address)
    }
}

type Stage = Rc<RefCell<World>>;

/// Runs a test in a new world.
fn play(test: impl FnOnce(&Stage)) {
    let stage = Stage::default();
    stage.borrow_mut().rights = GRANT_RW;
    let system = stage.clone();
    let answer = move |request: Request<'_>| system.borrow_mut().answer(request);
    host::play(answer, || test(&stage));
}

/// Ordinary memory of the program.
fn ordinary(stage: &Stage, bytes: usize) -> Memory {
    let memory = Memory::ordinary(bytes).unwrap();
    let mut world = stage.borrow_mut();
    world.grants.push((memory.address(), bytes));
    world.log.clear();
    drop(world);
    memory
}

/// The calls that were made since `log` was called last.
fn log(stage: &Stage) -> String {
    core::mem::take(&mut stage.borrow_mut().log).join(", ")
}

fn answers(stage: &Stage, answers: &[syscall::error::Result<usize>]) {
    stage.borrow_mut().answers = answers.iter().copied().collect();
}

fn failure(errno: i32) -> syscall::error::Result<usize> {
    Err(Error::new(errno))
}

/// The words and the structure of the last call on the endpoint.
fn last_payload<T: FromBytes>(stage: &Stage) -> T {
    let world = stage.borrow();
    let payload = world.payloads.last().unwrap();
    T::read_from_bytes(&payload[16..]).unwrap()
}

/// Has the program send its address space, as its first pinning does.
fn send_space(stage: &Stage) {
    let memory = ordinary(stage, PAGE);
    register(EPD, memory.range(), 0, 3, 0).unwrap();
    stage.borrow_mut().grants.clear();
    drop(memory);
    log(stage);
}

#[test]
fn registering_pins_pages_where_they_are() {
    play(|stage| {
        send_space(stage);
        let memory = ordinary(stage, 4 * PAGE);
        let part = memory.range().part(PAGE, 2 * PAGE).unwrap();
        answers(stage, &[Ok(0x7000)]);
        assert_eq!(register(EPD, part, 0x5000, 3, 0x10), Ok(0x7000));
        assert_eq!(log(stage), "call 26");
        let record: OwnRecord = last_payload(stage);
        assert_ne!(record.space.get(), 0);
        assert_eq!(record.address.get(), (memory.address() + PAGE) as u64);
        assert_eq!(record.length.get(), 2 * PAGE as u64);
        assert_eq!(record.offset.get(), 0x5000);
        assert_eq!((record.protection.get(), record.flags.get()), (3, 0x10));
        // Once more, and with other rights: the pages are asked for theirs each time.
        let second = part.part(PAGE, PAGE).unwrap();
        answers(stage, &[Ok(0)]);
        assert_eq!(register(EPD, second, 0, 1, 0), Ok(0));
        assert_eq!(log(stage), "call 26");
        assert_eq!(last_payload::<OwnRecord>(stage).protection.get(), 1);
    });
}

#[test]
fn a_bad_fixed_offset_is_reported_before_bad_memory() {
    play(|stage| {
        let fixed = MapFlags::FIXED.bits();
        for offset in [0x800, i64::MAX & !0xfff] {
            let absent = Range::absent(2 * PAGE);
            assert_eq!(register(EPD, absent, offset, 3, fixed), Err(EINVAL));
            assert_eq!(log(stage), "");
        }
    });
}

#[test]
fn the_address_space_is_sent_when_the_daemon_does_not_have_it() {
    play(|stage| {
        send_space(stage);
        let memory = ordinary(stage, PAGE);
        answers(stage, &[failure(ESRCH), Ok(0x7000)]);
        assert_eq!(register(EPD, memory.range(), 0, 3, 0), Ok(0x7000));
        assert_eq!(log(stage), "call 26, send on 3, call 26");
        // Somebody else has it given up again and again.
        answers(stage, &[failure(ESRCH); 4]);
        assert_eq!(register(EPD, memory.range(), 0, 3, 0), Err(EAGAIN));
        let again = ["call 26, send on 3"; 4].join(", ");
        assert_eq!(log(stage), again);
    });
}

/// Not every unmapping is reported, so memory that was writable once may be a constant by now: a
/// store to it, as before pinning, would end the program.
#[test]
fn what_is_only_read_is_looked_up_each_time() {
    play(|stage| {
        send_space(stage);
        let memory = ordinary(stage, 20 * PAGE);
        assert_eq!(register(EPD, memory.range(), 0, 3, 0), Ok(0));
        let is_listed = |call: &dyn Fn()| {
            stage.borrow_mut().listed = false;
            call();
            stage.borrow().listed
        };
        assert!(is_listed(&|| {
            register(EPD, memory.range(), 0, 1, 0).unwrap();
        }));
        assert!(is_listed(&|| vwriteto(EPD, memory.range(), 0, 0).unwrap()));
        let again = is_listed(&|| {
            register(EPD, memory.range(), 0, 3, 0).unwrap();
        });
        assert!(!again, "what is to be written is known from before");
    });
}

#[test]
fn what_cannot_be_pinned_is_refused() {
    play(|stage| {
        send_space(stage);
        let memory = ordinary(stage, 20 * PAGE);
        answers(stage, &[failure(ENOMEM)]);
        assert_eq!(register(EPD, memory.range(), 0, 3, 0), Err(ENOMEM));
        assert_eq!(log(stage), "call 26");
        // Rights that the program itself does not have.
        shared::changed(memory.range());
        stage.borrow_mut().rights = 1;
        answers(stage, &[failure(EFAULT)]);
        assert_eq!(register(EPD, memory.range(), 0, 2, 0), Err(EFAULT));
        assert_eq!(log(stage), "call 8", "only to ask for the endpoint's state");
    });
}

#[test]
fn daemon_memory_that_was_unmapped_behind_our_back_is_pinned() {
    play(|stage| {
        send_space(stage);
        let memory = Memory::new(PAGE).unwrap();
        stage.borrow_mut().grants.push((memory.address(), PAGE));
        log(stage);
        answers(stage, &[failure(EFAULT), Ok(0x1000)]);
        assert_eq!(register(EPD, memory.range(), 0, 3, 0), Ok(0x1000));
        assert_eq!(log(stage), "call 8, call 26");
    });
}

#[test]
fn bad_arguments_pin_nothing() {
    play(|stage| {
        let memory = ordinary(stage, 2 * PAGE);
        let all = memory.range();
        for (range, protection, flags) in [
            (all.part(1, PAGE).unwrap(), 3, 0),
            (all.part(0, PAGE + 1).unwrap(), 3, 0),
            (all.part(0, 0).unwrap(), 3, 0),
            (all, 0, 0),
            (all, 4, 0),
            (all, 3, 1),
            (all, 3, 0x20),
        ] {
            assert_eq!(register(EPD, range, 0, protection, flags), Err(EINVAL));
        }
        assert_eq!(register(EPD, all, -4096, 3, 0), Err(EINVAL));
        assert_eq!(log(stage), "");
        // Memory that is not there: an error of the endpoint itself goes first.
        answers(stage, &[failure(ENOTCONN), failure(EFAULT)]);
        let absent = Range::absent(PAGE);
        assert_eq!(register(EPD, absent, 0, 3, 0), Err(ENOTCONN));
        assert_eq!(register(EPD, absent, 0, 3, 0), Err(EFAULT));
        let record: RegisterRecord = last_payload(stage);
        assert_eq!(record.memory.get(), NO_TOKEN);
    });
}

#[test]
fn the_daemon_s_own_memory_is_known_from_the_start() {
    play(|stage| {
        let memory = Memory::new(3 * PAGE).unwrap();
        assert_eq!(
            log(stage),
            "open /scheme/scif/memory, provide 3, map 0x3000, close 101"
        );
        let part = memory.range().part(2 * PAGE, PAGE).unwrap();
        register(EPD, part, 0, 3, 0).unwrap();
        assert_eq!(log(stage), "call 8");
        // Any alignment will do for a cached transfer.
        let odd = memory.range().part(5, 100).unwrap();
        vwriteto(EPD, odd, 0x9000, 2).unwrap();
        assert_eq!(log(stage), "call 19");
        let record: CachedRecord = last_payload(stage);
        assert_eq!(record.memory_offset.get(), 5);
        assert_eq!(record.length.get(), 100);
        assert_eq!(record.remote_offset.get(), 0x9000);
        vreadfrom(EPD, odd, 0x9000, 2).unwrap();
        assert_eq!(log(stage), "call 18");
        drop(memory);
        assert_eq!(log(stage), "unmap 0x3000");
    });
}

#[test]
fn caching_is_a_hint() {
    play(|stage| {
        let memory = ordinary(stage, 2 * PAGE);
        let odd = memory.range().part(1, 100).unwrap();
        vreadfrom(EPD, odd, 0, 2).unwrap();
        assert_eq!(log(stage), "call 12", "the daemon does not know it");
        let mut slice = [0; 8];
        vreadfrom(EPD, &mut slice[..], 0, 2).unwrap();
        assert_eq!(log(stage), "call 12", "a slice is not shared");
    });
    play(|stage| {
        let memory = Memory::new(2 * PAGE).unwrap();
        stage.borrow_mut().grants.push((memory.address(), 2 * PAGE));
        log(stage);
        vreadfrom(EPD, memory.range(), 0, 0).unwrap();
        assert_eq!(log(stage), "call 12", "nobody asked for it");
        vreadfrom(EPD, memory.range(), 0, 2).unwrap();
        assert_eq!(log(stage), "call 18");
        answers(stage, &[failure(EFAULT), failure(ENXIO)]);
        assert_eq!(vreadfrom(EPD, memory.range(), 0, 2), Err(ENXIO));
        assert_eq!(log(stage), "call 18, call 12", "it is the daemon's no more");
    });
}

#[test]
fn large_transfers_pin_their_pages() {
    play(|stage| {
        send_space(stage);
        let memory = ordinary(stage, 32 * PAGE);
        let odd = memory.range().part(PAGE + 5, 20 * PAGE).unwrap();
        vwriteto(EPD, odd, 0x9000, 0).unwrap();
        assert_eq!(log(stage), "call 28");
        let record: OwnTransferRecord = last_payload(stage);
        let address = (memory.address() + PAGE + 5) as u64;
        assert_eq!(record.address.get(), address);
        assert_eq!(record.length.get(), 20 * PAGE as u64);
        assert_eq!(record.remote_offset.get(), 0x9000);
        assert_eq!(record.flags.get(), 4, "complete on return");
        vreadfrom(EPD, odd, 0x9000, 2).unwrap();
        assert_eq!(log(stage), "call 27");
        let record: OwnTransferRecord = last_payload(stage);
        assert_eq!(record.address.get(), address);
        assert_eq!(
            record.flags.get(),
            2,
            "it may go on behind the caller's back"
        );
        // For memory that cannot be pinned another call is made.
        for errno in [EAGAIN, EFAULT, EMFILE, ENOMEM] {
            answers(stage, &[Err(Error::new(errno)), Ok(0)]);
            vwriteto(EPD, odd, 0x9000, 0).unwrap();
            assert_eq!(log(stage), "call 28, call 13");
        }
        answers(stage, &[failure(ENXIO)]);
        assert_eq!(vwriteto(EPD, odd, 0x9000, 0), Err(ENXIO));
        assert_eq!(log(stage), "call 28");
    });
}

#[test]
fn large_transfers_pin_daemon_memory_that_was_unmapped_behind_our_back() {
    play(|stage| {
        send_space(stage);
        let bytes = 20 * PAGE;
        let memory = Memory::new(bytes).unwrap();
        stage.borrow_mut().grants.push((memory.address(), bytes));
        log(stage);
        vwriteto(EPD, memory.range(), 0x9000, 0).unwrap();
        assert_eq!(log(stage), "call 19");
        let record: CachedRecord = last_payload(stage);
        assert_eq!(record.flags.get(), 4, "complete on return");
        answers(stage, &[failure(EFAULT), Ok(0)]);
        assert_eq!(vwriteto(EPD, memory.range(), 0x9000, 0), Ok(()));
        assert_eq!(log(stage), "call 19, call 28");
        assert_eq!(vwriteto(EPD, memory.range(), 0x9000, 0), Ok(()));
        assert_eq!(log(stage), "call 28", "it is the daemon's no more");
    });
}

#[test]
fn small_sources_are_copied() {
    play(|stage| {
        assert_eq!(vwriteto(EPD, &b"constant"[..], 0x3000, 4), Ok(()));
        let memory = ordinary(stage, PAGE);
        memory.copy_in(9, b"range").unwrap();
        let range = memory.range().part(9, 5).unwrap();
        assert_eq!(vwriteto(EPD, range, 0x3000, 4), Ok(()));
        assert_eq!(log(stage), "call 13");
        let world = stage.borrow();
        for (payload, data) in world.payloads.iter().zip([&b"constant"[..], b"range"]) {
            assert_eq!(payload[..8], 0x3000_u64.to_le_bytes());
            assert_eq!(payload[8..16], 4_u64.to_le_bytes());
            assert_eq!(&payload[16..], data);
        }
        assert_eq!(world.payloads.len(), 2);
    });
}

#[test]
fn a_payload_that_is_not_there_is_efault_whatever_the_kernel_says() {
    play(|stage| {
        let memory = ordinary(stage, 3 * PAGE);
        let range = memory.range();
        answers(stage, &[failure(EPERM)]);
        assert_eq!(
            recv(EPD, range, 1),
            Err(EFAULT),
            "without the right to write"
        );
        answers(stage, &[failure(EPERM)]);
        assert_eq!(
            send(EPD, range, 1),
            Err(EFAULT),
            "without the right to read"
        );
        // The second page is not there.
        for _ in 0..2 {
            answers(stage, &[failure(EINVAL)]);
            stage.borrow_mut().pipe = [Ok(1), failure(EFAULT), Ok(1)].into();
            assert_eq!(recv(EPD, range, 1), Err(EFAULT));
            answers(stage, &[failure(EINVAL)]);
            stage.borrow_mut().pipe = [Ok(1), failure(EFAULT), Ok(1)].into();
            assert_eq!(send(EPD, range, 1), Err(EFAULT));
        }
        // All pages are there: it is the daemon that says so.
        answers(stage, &[failure(EINVAL)]);
        stage.borrow_mut().pipe = [Ok(1), Ok(1), Ok(1), Ok(1)].into();
        assert_eq!(recv(EPD, range, 9), Err(EINVAL));
        answers(stage, &[failure(ENOTCONN)]);
        assert_eq!(recv(EPD, range, 1), Err(ENOTCONN));
    });
}

/// Has the kernel find that a source is not there.
fn source_is_absent(stage: &Stage) {
    stage.borrow_mut().pipe = [failure(EFAULT)].into();
}

/// The documented order is flags, state, buffer.
#[test]
fn a_bad_buffer_is_reported_after_flags_and_state() {
    let check = |stage: &Stage, send_flags: &[u32]| {
        let absent = Range::absent(10);
        for error in [ENOTCONN, ECONNRESET, EFAULT] {
            // The endpoint's state, from a call that has no memory.
            for flags in [0, 1] {
                answers(stage, &[failure(error)]);
                assert_eq!(recv(EPD, absent, flags), Err(error));
                assert_eq!(log(stage), "call 8");
            }
            for flags in send_flags {
                source_is_absent(stage);
                answers(stage, &[failure(error)]);
                assert_eq!(send(EPD, absent, *flags), Err(error));
                assert!(log(stage).ends_with("call 8"));
            }
        }
        assert_eq!(recv(EPD, absent, 2), Err(EINVAL));
        source_is_absent(stage);
        assert_eq!(send(EPD, absent, 2), Err(EINVAL));
    };
    play(|stage| check(stage, &[0]));
    play(|stage| host::on_redox(|| check(stage, &[0, 1])));
    play(|stage| {
        // The kernel looks at the memory first.
        answers(stage, &[failure(EFAULT), failure(ENOTCONN)]);
        assert_eq!(send(EPD, Range::absent(10), 1), Err(ENOTCONN));
        assert_eq!(log(stage), "write 10, call 8");
    });
}

/// The documented order is state, flags, length, ranges, protections, memory.
#[test]
fn bad_memory_of_a_transfer_is_reported_last() {
    play(|stage| {
        let sizes = [10, 1 << 46];
        let errors = [ENOTCONN, ECONNRESET, EINVAL, ENXIO, EACCES, EFAULT];
        // To read so much data takes no memory for them before the rest has been checked.
        let cases = sizes.map(|bytes| errors.map(|error| (bytes, error)));
        for (bytes, error) in cases.into_iter().flatten() {
            let absent = Range::absent(bytes);
            for number in [18, 19] {
                if (bytes, error, number) == (1 << 46, EFAULT, 19) {
                    continue;
                }
                source_is_absent(stage);
                answers(stage, &[failure(error)]);
                let result = match number {
                    18 => vreadfrom(EPD, absent, 0x3000, 4),
                    _ => vwriteto(EPD, absent, 0x3000, 4),
                };
                assert_eq!(result, Err(error));
                assert!(log(stage).ends_with(&format!("call {number}")));
                let record: CachedRecord = last_payload(stage);
                assert_eq!(record.memory.get(), NO_TOKEN);
                assert_eq!((record.length.get(), record.flags.get()), (bytes as u64, 4));
                assert_eq!(record.remote_offset.get(), 0x3000);
            }
        }
    });
}

#[test]
fn blocking_sends_write_and_others_call() {
    play(|stage| {
        let data = vec![1; 10_000];
        answers(stage, &[Ok(4000), Ok(6000)]);
        assert_eq!(send(EPD, &data[..], 1), Ok(10_000));
        assert_eq!(log(stage), "write 10000, write 6000");
        // Bytes taken before an error count.
        answers(stage, &[Ok(4000), failure(ECONNRESET)]);
        assert_eq!(send(EPD, &data[..], 1), Ok(4000));
        answers(stage, &[failure(ECONNRESET)]);
        assert_eq!(send(EPD, &data[..], 1), Err(ECONNRESET));
        log(stage);
        answers(stage, &[Ok(4095)]);
        assert_eq!(send(EPD, &data[..], 0), Ok(4095));
        // Unknown flags and empty data are the daemon's business.
        answers(stage, &[failure(EINVAL), Ok(0)]);
        assert_eq!(send(EPD, &data[..3], 2), Err(EINVAL));
        assert_eq!(send(EPD, &data[..0], 1), Ok(0));
        assert_eq!(log(stage), "call 6, call 6, call 6");
    });
}

/// The caller repeats a call that fails with `EINTR`: bytes that were sent would go twice.
#[test]
fn an_interrupted_blocking_send_counts_what_was_sent() {
    play(|stage| {
        let data = vec![1; 10_000];
        // The descriptor does not wait; nor is there room when the call asks for it.
        let full = [failure(EAGAIN), Ok(0), Ok(0)];
        answers(stage, &full);
        stage.borrow_mut().answers.push_front(Ok(4000));
        stage.borrow_mut().queue = [failure(EINTR)].into();
        assert_eq!(send(EPD, &data[..], 1), Ok(4000));
        answers(stage, &full);
        stage.borrow_mut().queue = [failure(EINTR)].into();
        assert_eq!(send(EPD, &data[..], 1), Err(EINTR));
    });
}

/// The payload bytes of each call on the endpoint.
fn sizes(stage: &Stage) -> Vec<usize> {
    let payloads = core::mem::take(&mut stage.borrow_mut().payloads);
    payloads.iter().map(|payload| payload.len() - 16).collect()
}

#[test]
fn no_whole_page_is_beside_a_request_on_redox() {
    play(|stage| {
        let memory = ordinary(stage, 3 * PAGE);
        let mut slice = vec![0; 9000];
        host::on_redox(|| {
            answers(stage, &[Ok(4095), Ok(4095), Ok(810)]);
            assert_eq!(send(EPD, &slice[..], 1), Ok(9000));
            assert_eq!(sizes(stage), [4095, 4095, 810]);
            answers(stage, &[Ok(4095), Ok(4095), Ok(4095), Ok(3)]);
            assert_eq!(recv(EPD, memory.range(), 1), Ok(3 * PAGE));
            assert_eq!(sizes(stage), [4095, 4095, 4095, 3]);
            // As much as there is.
            answers(stage, &[Ok(4095), Ok(5)]);
            assert_eq!(recv(EPD, &mut slice[..], 0), Ok(4100));
            answers(stage, &[Ok(9)]);
            assert_eq!(read(EPD, memory.range()), Ok(9));
            assert_eq!(sizes(stage), [4095, 4095, 4095]);
            assert!(!log(stage).contains("write"));
            // Bytes moved before an error count.
            answers(stage, &[Ok(4095), failure(ECONNRESET)]);
            assert_eq!(send(EPD, &slice[..], 1), Ok(4095));
            answers(stage, &[Ok(4095), failure(ECONNRESET)]);
            assert_eq!(recv(EPD, &mut slice[..], 1), Ok(4095));
            answers(stage, &[failure(ENOTCONN)]);
            assert_eq!(recv(EPD, &mut slice[..], 1), Err(ENOTCONN));
        });
    });
}

#[test]
fn transfers_go_in_pieces_on_redox_once_all_is_registered() {
    play(|stage| {
        let mut slice = vec![0; 5000];
        host::on_redox(|| {
            // Two runs, then the pieces.
            answers(stage, &[Ok(PAGE), Ok(PAGE)]);
            assert_eq!(vreadfrom(EPD, &mut slice[..], 0x3010, 4), Ok(()));
            assert_eq!(sizes(stage), [0, 0, 4095, 905]);
            answers(stage, &[Ok(2 * PAGE)]);
            assert_eq!(vwriteto(EPD, &slice[..], 0x3010, 4), Ok(()));
            assert_eq!(sizes(stage), [0, 4095, 905]);
            // Nothing is copied when the end is not there.
            answers(stage, &[Ok(PAGE), failure(ENXIO)]);
            assert_eq!(vwriteto(EPD, &slice[..], 0x3010, 4), Err(ENXIO));
            assert_eq!(sizes(stage), [0, 0]);
            // A short one is one call.
            assert_eq!(vwriteto(EPD, &slice[..4095], 0x3010, 4), Ok(()));
            assert_eq!(sizes(stage), [4095]);
        });
    });
}

#[test]
fn an_accept_waits_in_an_event_queue_on_redox() {
    play(|stage| {
        host::on_redox(|| {
            stage.borrow_mut().dups.push_back(EAGAIN);
            // Not ready, twice; then ready, and the peer's name.
            answers(stage, &[Ok(0), Ok(0), Ok(1), Ok(1 << 16 | 2000)]);
            assert_eq!(accept(EPD, 1), Ok((60, PortId::new(1, 2000))));
            let first = "dup 3 accept-now, call 64, open /scheme/event, call 64, call 64";
            assert!(log(stage).starts_with(first));
            // Another thread closes the listener meanwhile.
            stage.borrow_mut().dups.extend([EAGAIN, EBADF]);
            answers(stage, &[Ok(0), Ok(0), Ok(1)]);
            assert_eq!(accept(EPD, 1), Err(EINTR));
            stage.borrow_mut().dups.push_back(EBADF);
            assert_eq!(accept(EPD, 1), Err(EBADF));
        });
    });
}

#[test]
fn an_accept_that_fails_leaves_no_descriptor_and_takes_no_connection() {
    play(|stage| {
        stage.borrow_mut().dups.push_back(EAGAIN);
        assert_eq!(accept(EPD, 0), Err(EAGAIN));
        assert_eq!(log(stage), "dup 3 accept-now");
        answers(stage, &[failure(ENODEV)]);
        assert_eq!(accept(EPD, 1), Err(ENODEV));
        assert_eq!(log(stage), "dup 3 accept-wait, call 66 on 60, close 60");
        // The connection and its descriptor come by one call.
        answers(stage, &[Ok(1 << 16 | 2050)]);
        assert_eq!(accept(EPD, 1), Ok((60, PortId::new(1, 2050))));
        assert_eq!(log(stage), "dup 3 accept-wait, call 66 on 60");
        // The daemon refuses unknown flags.
        answers(stage, &[failure(EINVAL)]);
        assert_eq!(accept(EPD, 6), Err(EINVAL));
        assert_eq!(log(stage), "call 4");
    });
}

#[test]
fn a_close_waits_for_what_is_under_way() {
    play(|stage| {
        // Also when it is interrupted.
        answers(stage, &[failure(EINTR), failure(ECANCELED), Ok(0)]);
        assert_eq!(close(EPD), Ok(()));
        assert_eq!(
            log(stage),
            "dup 3 end, close 60, close 3, call 67 on 61, call 67 on 61, call 67 on 61, close 61"
        );
        // The daemon dies meanwhile.
        answers(stage, &[failure(ENODEV)]);
        assert_eq!(close(EPD), Ok(()));
        assert_eq!(
            log(stage),
            "dup 3 end, close 60, close 3, call 67 on 61, close 61"
        );
        // No descriptor is left, or the endpoint was shut down: it is closed all the same.
        for (error, calls) in [(EMFILE, "call 65, "), (ENOMEM, "call 65, "), (EBADF, "")] {
            stage.borrow_mut().dups.push_back(error);
            assert_eq!(close(EPD), Ok(()));
            assert_eq!(log(stage), format!("dup 3 end, {calls}close 3"));
        }
        // A file that is no endpoint stays open.
        for error in [ENOTTY, EINVAL] {
            stage.borrow_mut().dups.push_back(error);
            answers(stage, &[failure(ENOTTY)]);
            assert_eq!(close(EPD), Err(ENOTTY));
            assert_eq!(log(stage), "dup 3 end, call 65");
        }
    });
}

#[test]
fn mappings_are_made_of_runs() {
    play(|stage| {
        answers(stage, &[Ok(2 * PAGE), Ok(PAGE)]);
        let address = mmap(EPD, None, 3 * PAGE, 1, 0x4000).unwrap();
        assert!(address.is_multiple_of(PAGE));
        assert_eq!(
            log(stage),
            "call 68, call 68, dup 3 window, map 0x3000, fixed 0x2000 from 0x4000, \
             fixed 0x1000 from 0x6000, close 60"
        );
        answers(stage, &[Ok(3 * PAGE)]);
        mmap(EPD, None, 3 * PAGE, 3, 0x4000).unwrap();
        assert_eq!(log(stage), "call 68, dup 3 window, map 0x3000, close 60");

        // Mapped over memory of the daemon: that is known no more.
        let memory = Memory::new(2 * PAGE).unwrap();
        log(stage);
        answers(stage, &[Ok(PAGE)]);
        let first = memory.range().part(0, PAGE).unwrap();
        let replaced = mmap(EPD, Some(first), PAGE, 3, 0x4000);
        assert_eq!(replaced, Ok(memory.address()));
        assert_eq!(
            log(stage),
            "call 68, dup 3 window, fixed 0x1000 from 0x4000, close 60"
        );
        assert!(client_memory::shared::known(first).is_none());
        let second = memory.range().part(PAGE, PAGE).unwrap();
        assert!(client_memory::shared::known(second).is_some());

        // A hole is found before anything is mapped.
        answers(stage, &[Ok(PAGE), failure(ENXIO)]);
        assert_eq!(mmap(EPD, None, 2 * PAGE, 3, 0), Err(ENXIO));
        assert_eq!(log(stage), "call 68, call 68");

        // The reserved addresses are freed when a run cannot be mapped.
        answers(stage, &[Ok(PAGE), Ok(PAGE)]);
        let made = stage.borrow().fixed_maps;
        stage.borrow_mut().bad_map = made + 2;
        assert_eq!(mmap(EPD, None, 2 * PAGE, 3, 0), Err(ENOMEM));
        assert!(log(stage).ends_with("unmap 0x2000, close 60"));
        assert_eq!(mmap(EPD, None, PAGE, 4, 0), Err(EINVAL), "unknown rights");
    });
}

/// A later run may be refused for its rights.
#[test]
fn a_mapping_that_fails_leaves_what_it_was_to_replace() {
    for pages in [1, 2] {
        play(|stage| {
            let memory = Memory::new(pages * PAGE).unwrap();
            log(stage);
            answers(stage, &vec![Ok(PAGE); pages]);
            stage.borrow_mut().bad_map = pages;
            let replaced = mmap(EPD, Some(memory.range()), pages * PAGE, 3, 0x4000);
            assert_eq!(replaced, Err(ENOMEM));
            let world = stage.borrow();
            let is_there = |(address, bytes): &(usize, usize)| {
                memory.address() < address + bytes && *address < memory.address() + pages * PAGE
            };
            assert!(!world.unmapped.iter().any(is_there), "{:?}", world.log);
            drop(world);
            assert!(client_memory::shared::known(memory.range()).is_some());
        });
    }
    // Without an error the runs are mapped elsewhere, and then there.
    play(|stage| {
        let memory = Memory::new(2 * PAGE).unwrap();
        log(stage);
        answers(stage, &[Ok(PAGE), Ok(PAGE)]);
        let replaced = mmap(EPD, Some(memory.range()), 2 * PAGE, 3, 0x4000);
        assert_eq!(replaced, Ok(memory.address()));
        let twice = "fixed 0x1000 from 0x4000, fixed 0x1000 from 0x5000, ".repeat(2);
        let expected =
            format!("call 68, call 68, dup 3 window, map 0x2000, {twice}unmap 0x2000, close 60");
        assert_eq!(log(stage), expected);
        assert!(client_memory::shared::known(memory.range()).is_none());
    });
}

#[test]
fn transfers_and_signals_travel_whole() {
    play(|stage| {
        readfrom(EPD, 0x1000, 5, -1, 9).unwrap();
        let record: RmaRecord = last_payload(stage);
        assert_eq!(record.local_offset.get(), 0x1000);
        assert_eq!(record.length.get(), 5);
        assert_eq!(record.remote_offset.get(), -1);
        assert_eq!(record.flags.get(), 9);
        writeto(EPD, 0, 1, 2, 4).unwrap();
        fence_signal(EPD, 8, 77, 16, 88, 0x31).unwrap();
        let record: SignalRecord = last_payload(stage);
        assert_eq!(record.local_offset.get(), 8);
        assert_eq!(record.local_value.get(), 77);
        assert_eq!(record.remote_offset.get(), 16);
        assert_eq!(record.remote_value.get(), 88);
        answers(stage, &[Ok(5), Ok(0), failure(ENODEV)]);
        assert_eq!(fence_mark(EPD, 1), Ok(5));
        assert_eq!(fence_wait(EPD, 5), Ok(()));
        assert_eq!(unregister(EPD, 0x1000, 0x1000), Err(ENODEV));
        assert_eq!(
            log(stage),
            "call 10, call 11, call 17, call 15, call 16, call 9"
        );
    });
}

#[test]
fn descriptors_that_are_none_are_reported_by_poll() {
    play(|stage| {
        answers(stage, &[failure(ENOENT), Ok(4), Ok(0)]);
        let mut entries = [
            PollFd::new(EPD, 1),
            PollFd::new(EPD, 4),
            PollFd::new(EPD, 1),
        ];
        assert_eq!(poll(&mut entries, None), Ok(2));
        let found = entries.map(|entry| entry.revents);
        assert_eq!(found, [Readiness::NVAL.bits(), 4, 0]);
    });
}

#[test]
fn root_gets_one_of_its_own_ports() {
    play(|stage| {
        let endpoint = crate::Endpoint::from_file(Fd::new(EPD));
        answers(stage, &[failure(EINVAL), failure(EINVAL), Ok(1021)]);
        assert_eq!(endpoint.bind_as_root(), Ok(1021));
        assert_eq!(log(stage), "call 1, call 1, call 1");
        answers(stage, &[failure(EACCES)]);
        assert_eq!(endpoint.bind_as_root().unwrap_err().errno(), EACCES);
        answers(stage, &[failure(EINVAL); 512]);
        assert_eq!(endpoint.bind_as_root().unwrap_err().errno(), ENOSPC);
        answers(stage, &[Ok(7)]);
        assert_eq!(endpoint.bind_as_root(), Ok(7), "only 512 were tried");
    });
}
