//! Schemes of daemons: every operation becomes a request that the daemon reads from its socket.
//!
//! The client sleeps until its request is answered; meanwhile the daemon has its buffers
//! ([`request_buffer`]). The daemon is the context that made the socket: buffers appear in its
//! address space, and the scheme ends with it.

mod abandoned;
mod message;
mod munmaps;
mod request_buffer;
mod socket;

use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};

use ::syscall::{
    CallFlags, EventFlags, RecvFdFlags, SendFdFlags, StdFsCallKind,
    data::Map,
    error::{EAGAIN, EBUSY, EINTR, EINVAL, EIO, ENODEV, EPERM, Error, Result},
    schemev2::{Opcode, Sqe, SqeFlags},
};
use kernel_core::requests::{Answer, Requests};
use spin::Mutex;

use super::{
    Caller, MANAGER, MunmapRequest, OpenResult, Scheme, SchemeId, USER_SCHEMES, deliver_files,
    event, notify_unmapped, placement, prot, reaper, std_fs_metadata, trigger,
};
use crate::{
    mm::{
        PAGE_SIZE, UserBuf, frame,
        space::{AddrSpace, Piece, SchemeGrant},
    },
    object::{
        Description, InternalFlags,
        deferred::{Entry, Message, Queue},
    },
    proc,
    sched::{self, Context, ContextRef, WaitQueue},
};
use abandoned::{AbandonedRequest, Undo};
use message::{signed_sqe, sqe};
use munmaps::Munmaps;
use request_buffer::{Access, RequestBuffer};

type File = Arc<Description>;

/// A daemon may have so many unfinished requests when little memory is left.
const FEW_REQUESTS: usize = 256;

struct State {
    /// False once the daemon has ended.
    open: bool,
    /// Requests that the daemon has not read yet. There may be more than contiguous memory has
    /// room for: a program that ends closes all its files at once.
    todo: Queue<Message>,
    requests: Requests<ContextRef, File, AbandonedRequest>,
    munmaps: Munmaps,
}

/// A scheme served by a daemon.
pub struct UserScheme {
    id: SchemeId,
    daemon: Weak<Context>,
    state: Mutex<State>,
    readers: WaitQueue,
}

fn value(answer: Answer<File>) -> Result<usize> {
    match answer {
        Answer::Value { result, .. } => result.map_err(Error::new),
        Answer::Fd(_) | Answer::Fds(_) => Err(Error::new(EIO)),
    }
}

/// The number of bytes that were transferred. Programs rely on it that there are not more than they
/// have given room for.
fn count(answer: Answer<File>, most: usize) -> Result<usize> {
    let count = value(answer)?;
    (count <= most).then_some(count).ok_or(Error::new(EIO))
}

fn opened(answer: Answer<File>) -> Result<OpenResult> {
    match answer {
        Answer::Value { result, extra, .. } => {
            let number = result.map_err(Error::new)?;
            Ok(OpenResult::SchemeLocal(
                number,
                InternalFlags::from_extra(extra)?,
            ))
        }
        Answer::Fd(file) => Ok(OpenResult::External(file)),
        Answer::Fds(_) => Err(Error::new(EIO)),
    }
}

impl UserScheme {
    /// A scheme served by `daemon`.
    pub fn new(id: SchemeId, daemon: &ContextRef) -> Self {
        let state = State {
            open: true,
            todo: Queue::new(),
            requests: Requests::new(),
            munmaps: Munmaps::default(),
        };
        Self {
            id,
            daemon: Arc::downgrade(daemon),
            state: Mutex::new(state),
            readers: WaitQueue::new(),
        }
    }

    /// The scheme's id.
    pub fn id(&self) -> SchemeId {
        self.id
    }

    /// Whether `context` made the scheme.
    pub fn is_made_by(&self, context: &ContextRef) -> bool {
        core::ptr::eq(self.daemon.as_ptr(), Arc::as_ptr(context))
    }

    /// The daemon's address space; `ENODEV` when the daemon has ended.
    fn daemon_space(&self) -> Result<Arc<AddrSpace>> {
        self.daemon
            .upgrade()
            .and_then(|daemon| daemon.space())
            .ok_or(Error::new(ENODEV))
    }

    /// Removes the scheme. Callers that wait for an answer get `ENODEV`, and callers that wait for
    /// an event of a file are woken.
    pub fn shut_down(&self) {
        let munmaps = {
            let mut state = self.state.lock();
            state.open = false;
            state.todo.clear();
            core::mem::take(&mut state.munmaps)
        };
        drop(munmaps);
        let fail_next = |from| self.state.lock().requests.fail_next(from, ENODEV);
        let mut from = 0;
        // One by one: a list of all would be as long as programs like.
        while let Some((tag, request)) = fail_next(from) {
            from = tag.saturating_add(1);
            // Its files and memory are dropped with it.
            if let Some(waiter) = request.waiter {
                sched::wake(&waiter);
            }
            if let Some(abandoned) = request.abandoned {
                self.clear_up(abandoned, None);
            }
        }
        self.readers.wake_all();
        event::scheme_ended(self.id);
        // The list's reference is dropped after the lock.
        let removed = USER_SCHEMES.lock().list.remove(&self.id);
        drop(removed);
    }

    fn announce(&self) {
        self.readers.wake_all();
        trigger(MANAGER, self.id.0, EventFlags::EVENT_READ);
    }

    /// Queues a message without a waiting client.
    pub fn post(&self, message: Entry<Message>) {
        let mut state = self.state.lock();
        if !state.open {
            return;
        }
        state.todo.push(message);
        drop(state);
        self.announce();
    }

    fn begin(&self, mut sqe: Sqe, waiter: Option<ContextRef>, files: Vec<File>) -> Result<u32> {
        let mut state = self.state.lock();
        if !state.open {
            drop(state);
            return Err(Error::new(ENODEV));
        }
        let is_unattended = waiter.is_none();
        let tag = state
            .requests
            .begin(waiter, files)
            .ok_or(Error::new(EAGAIN))?;
        state.munmaps.unanswered += usize::from(is_unattended);
        sqe.tag = tag;
        state.todo.push(Entry::new(Message::Request(sqe)));
        drop(state);
        self.announce();
        Ok(tag)
    }

    /// Sends a request and waits for its answer. `EINTR` when the caller is killed meanwhile: the
    /// buffer then passes to the request and ends with the answer, which is undone.
    fn request_with(
        &self,
        sqe: Sqe,
        files: Vec<File>,
        buffer: &mut RequestBuffer,
        undo: Undo,
    ) -> Result<Answer<File>> {
        // Requests of clients that were killed stay until they are answered, perhaps never. A
        // Munmap that is not sent would be lost.
        if sqe.opcode != Opcode::Munmap as u8 && self.state.lock().requests.len() > FEW_REQUESTS {
            frame::check_room()?;
        }
        let tag = self.begin(sqe, Some(sched::current()), files)?;
        // Descriptors dropped by this call must reach their schemes before a wait that may be
        // long.
        reaper::run();
        loop {
            if let Ok(answer) = sched::wait_alone(|| self.state.lock().requests.take(tag)) {
                return Ok(answer);
            }
            self.cancel(tag);
            if sched::current().is_killed() {
                let mapping = buffer.abandon();
                let abandoned = AbandonedRequest { mapping, undo };
                let raced = self.state.lock().requests.abandon(tag, abandoned);
                if let Some((answer, abandoned)) = raced {
                    // A file in the answer is dropped here.
                    self.clear_up(abandoned, answer.and_then(|answer| value(answer).ok()));
                }
                return Err(Error::new(EINTR));
            }
        }
    }

    fn request(&self, sqe: Sqe) -> Result<Answer<File>> {
        self.request_with(sqe, Vec::new(), &mut RequestBuffer::empty(), Undo::Nothing)
    }

    /// A request without a buffer: opcode, arguments, and a value as the answer.
    fn simple(&self, opcode: Opcode, args: &[u64]) -> Result<usize> {
        value(self.request(signed_sqe(opcode, args, proc::caller()))?)
    }

    /// A request with a buffer of the caller as its second and third argument.
    fn with_buffer(
        &self,
        opcode: Opcode,
        number: usize,
        buf: UserBuf,
        access: Access,
        rest: &[u64],
        caller: Caller,
    ) -> Result<Answer<File>> {
        let buffer = RequestBuffer::of_buffer(&self.daemon_space()?, buf, access)?;
        self.with_request_buffer(opcode, number, buffer, rest, caller)
    }

    /// A request with a path as its second and third argument.
    fn with_path(
        &self,
        opcode: Opcode,
        number: usize,
        path: &str,
        rest: &[u64],
        caller: Caller,
    ) -> Result<Answer<File>> {
        let buffer = RequestBuffer::of_bytes(&self.daemon_space()?, path.as_bytes())?;
        self.with_request_buffer(opcode, number, buffer, rest, caller)
    }

    fn with_request_buffer(
        &self,
        opcode: Opcode,
        number: usize,
        mut buffer: RequestBuffer,
        rest: &[u64],
        caller: Caller,
    ) -> Result<Answer<File>> {
        let (address, len) = buffer.range();
        let mut args = [number as u64, address as u64, len as u64, 0, 0, 0];
        for (place, arg) in args.iter_mut().skip(3).zip(rest) {
            *place = *arg;
        }
        let sqe = signed_sqe(opcode, &args, caller);
        let answer = self.request_with(sqe, Vec::new(), &mut buffer, Undo::of(opcode));
        if let Err(error) = buffer.end() {
            // The client gets the error instead of an object that the daemon has made.
            let (mapping, undo) = (None, Undo::of(opcode));
            let made = answer.and_then(value).ok();
            self.clear_up(AbandonedRequest { mapping, undo }, made);
            return Err(error);
        }
        answer
    }

    /// Call or StdFsCall: a buffer that both sides may read and write, three words of metadata,
    /// and in place of user and group the third word or a second object.
    fn call_request(
        &self,
        opcode: Opcode,
        numbers: &[usize],
        payload: UserBuf,
        metadata: &[u64],
    ) -> Result<Answer<File>> {
        let (number, second) = match *numbers {
            [number] => (number, None),
            [number, second] => (number, Some(second)),
            _ => return Err(Error::new(EINVAL)),
        };
        let mut buffer =
            RequestBuffer::of_buffer(&self.daemon_space()?, payload, Access::READ | Access::WRITE)?;
        let (address, len) = buffer.range();
        let word = |index: usize| metadata.get(index).copied().unwrap_or(0);
        let last = second.map_or(word(2), |second| second as u64);
        let args = [
            number as u64,
            address as u64,
            len as u64,
            word(0),
            word(1),
            last,
        ];
        let mut sqe = sqe(opcode, &args, proc::caller());
        sqe.sqe_flags.set(SqeFlags::MULTIPLE_IDS, second.is_some());
        let answer = self.request_with(sqe, Vec::new(), &mut buffer, Undo::Nothing);
        buffer.end()?;
        answer
    }
}

impl Scheme for UserScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        flags: usize,
        fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        let rest = [flags as u64, u64::from(fcntl_flags)];
        opened(self.with_path(Opcode::OpenAt, number, path, &rest, caller)?)
    }

    fn dup(&self, number: usize, name: UserBuf, caller: Caller) -> Result<OpenResult> {
        opened(self.with_buffer(Opcode::Dup, number, name, Access::READ, &[], caller)?)
    }

    fn read_at(&self, number: usize, buf: UserBuf, offset: u64, flags: u32) -> Result<usize> {
        let (rest, caller) = ([offset, u64::from(flags)], proc::caller());
        let answer = self.with_buffer(Opcode::Read, number, buf, Access::WRITE, &rest, caller)?;
        count(answer, buf.len())
    }

    fn write_at(&self, number: usize, buf: UserBuf, offset: u64, flags: u32) -> Result<usize> {
        let (rest, caller) = ([offset, u64::from(flags)], proc::caller());
        let answer = self.with_buffer(Opcode::Write, number, buf, Access::READ, &rest, caller)?;
        count(answer, buf.len())
    }

    fn fsize(&self, number: usize) -> Result<u64> {
        self.simple(Opcode::Fsize, &[number as u64])
            .map(|size| size as u64)
    }

    fn fpath(&self, number: usize, buf: UserBuf) -> Result<usize> {
        let caller = proc::caller();
        let answer = self.with_buffer(Opcode::Fpath, number, buf, Access::WRITE, &[], caller)?;
        count(answer, buf.len())
    }

    fn fstat(&self, number: usize, buf: UserBuf) -> Result<()> {
        let caller = proc::caller();
        value(self.with_buffer(Opcode::Fstat, number, buf, Access::WRITE, &[], caller)?).map(drop)
    }

    fn fchown(&self, number: usize, uid: u32, gid: u32) -> Result<()> {
        let caller = proc::caller();
        if caller.uid != 0 && (uid != caller.uid || gid != caller.gid) {
            return Err(Error::new(EPERM));
        }
        let args = [number as u64, u64::from(uid), u64::from(gid)];
        self.simple(Opcode::Fchown, &args).map(drop)
    }

    fn fcntl(&self, number: usize, command: usize, argument: usize) -> Result<usize> {
        self.simple(
            Opcode::Fcntl,
            &[number as u64, command as u64, argument as u64],
        )
    }

    fn fevent(&self, number: usize, flags: EventFlags) -> Result<EventFlags> {
        let ready = self.simple(Opcode::Fevent, &[number as u64, flags.bits() as u64])?;
        Ok(EventFlags::from_bits_truncate(ready))
    }

    fn fevent_without_waiting(&self, number: usize, flags: EventFlags) {
        // As for Munmap, a request that must be answered takes memory, and a queue that ends may
        // have watched very many files. A daemon that is not told, or has too many requests,
        // continues to report unwanted events.
        if frame::check_room().is_ok() {
            let args = [number as u64, flags.bits() as u64];
            let request = sqe(Opcode::Fevent, &args, Caller::default());
            let _ = self.begin(request, None, Vec::new());
        }
    }

    fn fsync(&self, number: usize) -> Result<()> {
        self.simple(Opcode::Fsync, &[number as u64]).map(drop)
    }

    fn flink(&self, number: usize, path: &str) -> Result<()> {
        value(self.with_path(Opcode::Flink, number, path, &[], proc::caller())?).map(drop)
    }

    fn frename(&self, number: usize, path: &str) -> Result<()> {
        value(self.with_path(Opcode::Frename, number, path, &[], proc::caller())?).map(drop)
    }

    fn unlink(&self, number: usize, path: &str, flags: usize) -> Result<()> {
        let rest = [flags as u64];
        value(self.with_path(Opcode::UnlinkAt, number, path, &rest, proc::caller())?).map(drop)
    }

    fn call(
        &self,
        numbers: &[usize],
        payload: UserBuf,
        _flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        value(self.call_request(Opcode::Call, numbers, payload, metadata)?)
    }

    fn std_fs_call(
        &self,
        file: &Description,
        numbers: &[usize],
        payload: UserBuf,
        metadata: &[u64],
    ) -> Result<usize> {
        let (kind, arg1, arg2) = std_fs_metadata(metadata)?;
        let metadata = [u64::from(kind as u8), arg1, arg2];
        // Only a lock ends when its process closes a descriptor, so the scheme has to be told.
        let notice = match kind {
            StdFsCallKind::Lock => {
                frame::check_room()?;
                Some(file.notice(proc::caller().pid))
            }
            _ => None,
        };
        match self.call_request(Opcode::StdFsCall, numbers, payload, &metadata)? {
            Answer::Value {
                result,
                notify_on_detach,
                ..
            } => {
                if let Some(notice) = notice.filter(|_| notify_on_detach) {
                    file.keep(notice);
                }
                result.map_err(Error::new)
            }
            Answer::Fd(_) | Answer::Fds(_) => Err(Error::new(EIO)),
        }
    }

    fn send_files(
        &self,
        number: usize,
        files: Vec<File>,
        flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        let exclusive = flags.contains(CallFlags::FD_EXCLUSIVE);
        let flags = if exclusive {
            SendFdFlags::EXCLUSIVE
        } else {
            SendFdFlags::empty()
        };
        let word = metadata.first().copied().unwrap_or(0);
        let args = [number as u64, flags.bits() as u64, word, files.len() as u64];
        let sqe = signed_sqe(Opcode::Sendfd, &args, proc::caller());
        value(self.request_with(sqe, files, &mut RequestBuffer::empty(), Undo::Nothing)?)
    }

    fn receive_files(
        &self,
        number: usize,
        payload: UserBuf,
        flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        if !payload.len().is_multiple_of(size_of::<usize>()) {
            return Err(Error::new(EINVAL));
        }
        let upper = flags.contains(CallFlags::FD_UPPER);
        let flags = if upper {
            RecvFdFlags::UPPER_TBL
        } else {
            RecvFdFlags::empty()
        };
        let count = payload.len() / size_of::<usize>();
        let word = |index: usize| metadata.get(index).copied().unwrap_or(0);
        let args = [
            number as u64,
            flags.bits() as u64,
            count as u64,
            word(0),
            word(1),
        ];
        match self.request(signed_sqe(Opcode::Recvfd, &args, proc::caller()))? {
            Answer::Value {
                result: Err(errno), ..
            } => Err(Error::new(errno)),
            Answer::Value { .. } | Answer::Fd(_) => Err(Error::new(EIO)),
            // Refused files are dropped here.
            Answer::Fds(files) => deliver_files(files, payload).map_err(|(error, _files)| error),
        }
    }

    fn mmap(
        &self,
        file: &Arc<Description>,
        space: &Arc<AddrSpace>,
        map: &Map,
        _transfer: bool,
    ) -> Result<usize> {
        let aligned = |value: usize| value.is_multiple_of(PAGE_SIZE);
        if map.size == 0 || !aligned(map.address) || !aligned(map.offset) {
            return Err(Error::new(EINVAL));
        }
        // The length in whole pages, which the Munmap of each mapping names.
        let len = map.size.checked_next_multiple_of(PAGE_SIZE);
        let len = len.ok_or(Error::new(EINVAL))?;
        let rights = prot(map.flags)?;
        let source = self.daemon_space()?;
        if Arc::ptr_eq(&source, space) {
            return Err(Error::new(EBUSY));
        }
        let args = [
            file.number() as u64,
            map.size as u64,
            map.flags.bits() as u64,
            map.offset as u64,
        ];
        // A daemon that answers no Munmaps could have ever more of them wait.
        frame::check_room()?;
        // The daemon counts the mappings that it has answered, so it needs a Munmap for a failed
        // one.
        let grant = SchemeGrant::new(file.clone(), map.offset as u64, map.flags.bits());
        let piece = || {
            Entry::new(Piece {
                grant: grant.clone(),
                len,
            })
        };
        let sqe = signed_sqe(Opcode::MmapPrep, &args, proc::caller());
        let undo = Undo::Unmap(piece());
        let address =
            value(self.request_with(sqe, Vec::new(), &mut RequestBuffer::empty(), undo)?)?;
        let failed = piece();
        let mapped = match aligned(address) {
            true => space.map_scheme(placement(map), len, rights, &source, address, grant),
            false => Err(Error::new(EINVAL)),
        };
        match mapped {
            Ok((address, replaced)) => {
                notify_unmapped(replaced);
                Ok(address)
            }
            Err(error) => {
                self.post_unmapped(failed);
                Err(error)
            }
        }
    }

    fn unmapped(&self, number: usize, request: MunmapRequest) -> Result<()> {
        let sqe = munmaps::sqe_of(number, request, proc::caller());
        value(self.request(sqe)?).map(drop)
    }
}
