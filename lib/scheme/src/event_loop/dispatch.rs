//! Handles one request: from the kernel's record through the daemon's handler to its answer.
//!
//! redox-scheme decodes most requests. Some buffers it turns into references to structures,
//! asserting on their length and trusting their alignment; the requests with those buffers are
//! served here, through copies, and those with names by [`names`].

use core::mem::size_of;

use redox_scheme::scheme::{Op, SchemeResponse, SchemeSync};
use redox_scheme::{CallerCtx, Id, OpenResult, Request, RequestKind};
use syscall::data::{Stat, StatVfs, TimeSpec};
use syscall::error::{EAGAIN, ECANCELED, EINVAL, ENOSYS, EOPNOTSUPP, EWOULDBLOCK, Error, Result};
use syscall::flag::{EventFlags, F_GETFL, F_SETFL, StdFsCallKind};
use syscall::schemev2::{CqeOpcode, Opcode, Sqe, SqeFlags};

use super::request_queue::NOBODY;
use super::{NO_ID, Parked, SchemeDaemon, SchemeLoop, Transport};
use super::{locking, names};
use crate::locks::Owner;

impl<T: Transport> SchemeLoop<T> {
    /// Serves one request from the socket.
    pub(super) fn request<S: SchemeDaemon>(&mut self, sqe: Sqe, scheme: &mut S) {
        // The first argument of every request, and of a close, is its handle.
        self.unclaimed.claim(sqe.args[0] as usize);
        // SAFETY: `Request` is a transparent wrapper of `Sqe`.
        let request = unsafe { core::mem::transmute::<Sqe, Request>(sqe) };
        match request.kind() {
            RequestKind::Cancellation(cancelled) => self.cancel(cancelled.id, scheme),
            RequestKind::OnClose { id } => self.close(id, scheme),
            RequestKind::OnDetach { id, pid } => self.unlock(id, Owner::Process(pid), scheme),
            // The kernel sends these for private writable mappings only, which schemes refuse.
            RequestKind::MsyncMsg | RequestKind::MunmapMsg | RequestKind::MmapMsg => {}
            RequestKind::SendFd(request) => {
                let result = scheme.on_sendfd(&request);
                self.answer(sqe.tag, result.map_err(would_block_is_again));
            }
            RequestKind::RecvFd(request) => {
                let caller = request.caller();
                self.operation(request.op(), caller, sqe.tag, scheme);
            }
            RequestKind::Call(request) => {
                let caller = caller(&sqe, request.caller());
                let result = structure_call(&sqe, &caller, scheme)
                    .or_else(|| names::serve(&sqe, &caller, scheme));
                if let Some(result) = result {
                    self.answer(sqe.tag, result.map_err(would_block_is_again));
                    return;
                }
                match request.op() {
                    Ok(op) => self.operation(op, caller, sqe.tag, scheme),
                    Err(_) if sqe.sqe_flags.contains(SqeFlags::ONEWAY) => {}
                    Err(_) => self.answer(sqe.tag, Err(Error::new(ENOSYS))),
                }
            }
        }
    }

    fn operation<S: SchemeDaemon>(&mut self, op: Op, caller: CallerCtx, tag: u32, scheme: &mut S) {
        let parked = Parked { op, caller, tag };
        if let Some(parked) = self.attempt(parked, false, scheme) {
            self.park(parked, scheme);
        }
    }

    /// Calls the handler of a kept request again, unless the request is gone.
    pub(super) fn retry<S: SchemeDaemon>(&mut self, request: Id, scheme: &mut S) {
        let Some(parked) = self.parked.take(request) else {
            return;
        };
        self.counters.retries += 1;
        match self.attempt(parked, true, scheme) {
            Some(parked) => self.parked.put_back(request, parked),
            None => {
                self.parked.remove(request);
                scheme.on_waited(request);
            }
        }
    }

    /// Handles the close of a handle: cancels its requests and releases the locks of its owner.
    pub(super) fn close<S: SchemeDaemon>(&mut self, id: usize, scheme: &mut S) {
        self.subscriptions.remove(&id);
        self.counters.watched = self.subscriptions.len() as u64;
        let mut left = core::mem::take(&mut self.again);
        self.parked.of_handle(id, &mut left);
        for request in left.drain(..) {
            self.cancel(request, scheme);
        }
        self.again = left;
        self.unlock(id, Owner::Opening(id), scheme);
        scheme.on_close(id);
    }

    /// Releases the locks that an owner has on the file behind a handle.
    fn unlock<S: SchemeDaemon>(&mut self, id: usize, owner: Owner, scheme: &mut S) {
        if let Ok((table, file)) = scheme.locks(id) {
            table.release_all(file, owner);
        }
    }

    /// Records the events that the event queues watch a handle for, and the subscriber.
    fn subscribe(&mut self, fd: usize, flags: EventFlags, caller: &CallerCtx) {
        let is_nobody = caller.pid as u64 == NOBODY;
        match self.subscriptions.get_mut(&fd) {
            _ if flags.is_empty() => {
                self.subscriptions.remove(&fd);
            }
            Some(known) if is_nobody => known.0 = flags,
            _ => {
                self.subscriptions.insert(fd, (flags, copy(caller)));
            }
        }
        self.counters.watched = self.subscriptions.len() as u64;
    }

    /// Calls the handler and queues its answer, or returns the request when it has to wait.
    /// `has_waited`: it has waited before.
    fn attempt<S: SchemeDaemon>(
        &mut self,
        mut parked: Parked,
        has_waited: bool,
        scheme: &mut S,
    ) -> Option<Parked> {
        let Parked { op, caller, .. } = &mut parked;
        let (nonblocking, response) = match (locking::request(op, caller), &mut *op) {
            (Some(request), Op::StdFsCall(call)) => {
                let nonblocking = !request.waits;
                let response = locking::serve(request, call.payload(), scheme);
                (nonblocking, response)
            }
            (_, op) => (
                op.is_explicitly_nonblock(),
                op.handle_sync_dont_consume(caller, scheme, &mut self.state),
            ),
        };
        let (opcode, result, extra) = match response {
            SchemeResponse::Regular(result) => (CqeOpcode::RespondRegular, result, 0),
            SchemeResponse::RegularAndNotifyOnDetach(result) => {
                (CqeOpcode::RespondAndNotifyOnDetach, result, 0)
            }
            SchemeResponse::Opened(result) => {
                let is_ours = matches!(result, Ok(OpenResult::ThisScheme { .. }));
                let (opcode, result, extra) = opened(result);
                match result {
                    // A handle for a process that was killed while it waited would never be closed
                    // on a kernel that does not report the kill.
                    Ok(number) if is_ours && has_waited && scheme.is_gone(caller.pid) => {
                        scheme.on_close(number);
                        (opcode, Err(Error::new(ECANCELED)), 0)
                    }
                    result => {
                        if let (true, Ok(number)) = (is_ours, result) {
                            self.unclaimed.made(number, caller.pid);
                        }
                        (opcode, result, extra)
                    }
                }
            }
        };
        let result = match result {
            Err(Error { errno: EWOULDBLOCK }) if nonblocking => Err(Error::new(EAGAIN)),
            Err(Error { errno: EWOULDBLOCK }) => return Some(parked),
            Err(Error { errno: EOPNOTSUPP }) if is_flag_query(op) => Ok(0),
            result => result,
        };
        if let (Op::Fevent { fd, req_flags, .. }, Ok(_)) = (&*op, &result) {
            self.subscribe(*fd, *req_flags, caller);
        }
        let opcode = if result.is_err() {
            CqeOpcode::RespondRegular
        } else {
            opcode
        };
        self.finish(parked.tag, opcode, result, extra);
        None
    }
}

fn opened(result: Result<OpenResult>) -> (CqeOpcode, Result<usize>, u8) {
    match result {
        Ok(OpenResult::ThisScheme { number, flags }) => {
            (CqeOpcode::RespondRegular, Ok(number), flags.bits())
        }
        Ok(OpenResult::OtherScheme { fd }) => (CqeOpcode::RespondWithFd, Ok(fd), 0),
        Ok(OpenResult::OtherSchemeMultiple { num_fds }) => {
            (CqeOpcode::RespondWithMultipleFds, Ok(num_fds), 0)
        }
        Ok(OpenResult::WouldBlock) => (CqeOpcode::RespondRegular, Err(Error::new(EWOULDBLOCK)), 0),
        Err(error) => (CqeOpcode::RespondRegular, Err(error), 0),
    }
}

fn would_block_is_again(error: Error) -> Error {
    if error.errno == EWOULDBLOCK {
        Error::new(EAGAIN)
    } else {
        error
    }
}

fn is_flag_query(op: &Op) -> bool {
    matches!(op, Op::Fcntl { cmd, .. } if *cmd == F_GETFL || *cmd == F_SETFL)
}

fn copy(caller: &CallerCtx) -> CallerCtx {
    let (pid, uid, gid, id): (usize, u32, u32, Id) =
        (caller.pid, caller.uid, caller.gid, caller.id);
    CallerCtx { pid, uid, gid, id }
}

/// The caller, with [`NO_ID`] where the request does not name its user and group.
fn caller(sqe: &Sqe, mut caller: CallerCtx) -> CallerCtx {
    let opcode = Opcode::try_from_raw(sqe.opcode);
    if matches!(opcode, Some(Opcode::Call | Opcode::StdFsCall)) {
        caller.uid = NO_ID;
        caller.gid = NO_ID;
    }
    caller
}

/// The structure in a request's buffer.
enum Structure {
    Stat,
    StatVfs,
    Times,
}

/// Serves the requests whose buffer is a structure. `None` for all others.
fn structure_call<S: SchemeSync>(
    sqe: &Sqe,
    caller: &CallerCtx,
    scheme: &mut S,
) -> Option<Result<usize>> {
    let structure = match Opcode::try_from_raw(sqe.opcode)? {
        Opcode::Fstat => Structure::Stat,
        Opcode::Fstatvfs => Structure::StatVfs,
        Opcode::Futimens => Structure::Times,
        Opcode::StdFsCall if !sqe.sqe_flags.contains(SqeFlags::MULTIPLE_IDS) => {
            match StdFsCallKind::try_from_raw(sqe.args[3] as u8)? {
                StdFsCallKind::Fstat => Structure::Stat,
                StdFsCallKind::Fstatvfs => Structure::StatVfs,
                StdFsCallKind::Futimens => Structure::Times,
                _ => return None,
            }
        }
        _ => return None,
    };
    let [id, address, length, ..] = sqe.args.map(|argument| argument as usize);
    Some(match structure {
        Structure::Stat => {
            if length < size_of::<Stat>() {
                return Some(Err(Error::new(EINVAL)));
            }
            let mut stat = Stat::default();
            scheme.fstat(id, &mut stat, caller).map(|()| {
                // SAFETY: the kernel mapped `length` writable bytes at `address` for this
                // request, which is not answered yet; the copy fits and needs no alignment.
                unsafe { (address as *mut Stat).write_unaligned(stat) };
                0
            })
        }
        Structure::StatVfs => {
            if length < size_of::<StatVfs>() {
                return Some(Err(Error::new(EINVAL)));
            }
            let mut stat = StatVfs::default();
            scheme.fstatvfs(id, &mut stat, caller).map(|()| {
                // SAFETY: as above.
                unsafe { (address as *mut StatVfs).write_unaligned(stat) };
                0
            })
        }
        Structure::Times => {
            if length != 2 * size_of::<TimeSpec>() {
                return Some(Err(Error::new(EINVAL)));
            }
            // SAFETY: the kernel mapped `length` readable bytes at `address` for this request;
            // two integers each, so any bytes are valid, and the copy needs no alignment.
            let times = unsafe { (address as *const [TimeSpec; 2]).read_unaligned() };
            scheme.futimens(id, &times, caller).map(|()| 0)
        }
    })
}
