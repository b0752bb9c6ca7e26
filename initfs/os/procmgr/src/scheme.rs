//! The scheme `proc`: handles and calls, over the table of processes.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::protocol::{ProcCall, WaitFlags};
use procmgr::process::{Pid, State, meta_bytes};
use procmgr::signals::{ARRIVAL_BYTES, Choice, Runs, arrival_bytes};
use procmgr::table::{MAX_NAME, Table, Wanted};
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult, SendFdRequest, Socket};
use runtime::{Error, Result, fd};
use scheme::{Changes, Handles, SchemeDaemon, read_at, tree};
use syscall::data::Stat;
use syscall::error::{
    EACCES, EBADF, EINVAL, EMFILE, ENFILE, ENOENT, ENOTDIR, EOPNOTSUPP, EPERM, ESRCH, EWOULDBLOCK,
};
use syscall::flag::FobtainFdFlags;
use syscall::schemev2::NewFdFlags;

use crate::kernel::Kernel;

/// Longest name of a part of a process or thread, in bytes: that of the kernel.
const MAX_PART: usize = 64;

/// The call of a thread that ends the others of its process.
const END_OTHERS: u64 = 0;

/// Most handles of one process. The end of each is looked for among all.
const MAX_HANDLES: usize = 64;

/// Most bytes of lists of processes that the open files of users other than root hold.
const MAX_HELD: usize = 1 << 20;

enum Handle {
    Root,
    Process(Pid),
    Thread(Pid, usize),
    /// The signals of a process.
    Signals(Pid),
    /// Text, made when the file was opened, and its bytes that count against [`MAX_HELD`].
    Text(Vec<u8>, usize),
    /// The right to read the credentials of any process.
    Credentials,
}

/// The state of the scheme.
pub struct ProcScheme {
    socket: Rc<Socket>,
    /// The processes.
    pub table: Table<Kernel>,
    handles: Handles<Handle>,
    /// Bytes that count against [`MAX_HELD`].
    held: usize,
}

impl ProcScheme {
    /// A manager without processes.
    pub fn new(socket: Rc<Socket>, kernel: Kernel) -> Self {
        ProcScheme {
            socket,
            table: Table::new(kernel),
            handles: Handles::default(),
            held: 0,
        }
    }

    fn add(&mut self, handle: Handle) -> OpenResult {
        let (process, thread) = match handle {
            Handle::Process(pid) | Handle::Signals(pid) => (Some(pid), None),
            Handle::Thread(pid, number) => (None, Some((pid, number))),
            _ => (None, None),
        };
        let flags = match handle {
            Handle::Text(..) => NewFdFlags::POSITIONED,
            _ => NewFdFlags::empty(),
        };
        let number = self.handles.add(handle);
        if let Some(pid) = process {
            self.table.opened(pid, number);
        }
        if let Some((pid, thread)) = thread {
            self.table.thread_opened(pid, thread);
        }
        OpenResult::ThisScheme { number, flags }
    }

    fn process_of(&self, handle: usize) -> Result<Pid> {
        match self.handles.get(handle) {
            Ok(Handle::Process(pid)) => self.table.process(*pid).map(|process| process.pid),
            _ => Err(Error::new(EBADF)),
        }
    }

    fn wait(&mut self, pid: Pid, wanted: Wanted, flags: u64, payload: &mut [u8]) -> Result<usize> {
        let poll = flags & WaitFlags::WNOHANG.bits() as u64 != 0;
        let Some((child, status)) = self.table.wait(pid, wanted, poll)? else {
            return Ok(0);
        };
        let bytes = status.to_ne_bytes();
        let count = bytes.len().min(payload.len());
        payload[..count].copy_from_slice(&bytes[..count]);
        Ok(child as usize)
    }

    fn call_process(&mut self, pid: Pid, payload: &mut [u8], metadata: &[u64]) -> Result<usize> {
        let argument = |index: usize| metadata.get(index).copied().unwrap_or(0);
        let call = usize::try_from(argument(0))
            .ok()
            .and_then(ProcCall::try_from_raw)
            .ok_or(Error::new(EINVAL))?;
        match call {
            ProcCall::Exit => {
                self.table.end(pid, (argument(1) as usize & 0xFF) << 8);
                // The call is never answered: its caller is being killed.
                Err(Error::new(EWOULDBLOCK))
            }
            ProcCall::Waitpid => {
                let wanted = match argument(1) {
                    0 => Wanted::Any,
                    child => Wanted::Child(child),
                };
                self.wait(pid, wanted, argument(2), payload)
            }
            ProcCall::Waitpgid => {
                let group = match argument(1) {
                    0 => u64::from(self.table.process(pid)?.group),
                    group => group,
                };
                self.wait(pid, Wanted::Group(group), argument(2), payload)
            }
            ProcCall::Kill => {
                let target = argument(1) as usize;
                self.table.kill(pid, target, argument(2)).map(|()| 0)
            }
            ProcCall::SetResugid => {
                let [ruid, euid, suid, rgid, egid, sgid] = ids(payload)?;
                self.table
                    .set_ids(pid, [ruid, euid, suid], [rgid, egid, sgid])
                    .map(|()| 0)
            }
            ProcCall::Rename => {
                // The name lies in the caller's memory, so only this copy is used.
                let copy = Vec::from(&payload[..payload.len().min(MAX_NAME)]);
                self.table.rename(pid, &copy).map(|()| 0)
            }
            ProcCall::Getppid => Ok(self.table.process(pid)?.parent as usize),
            ProcCall::Setpgid => {
                let target = to_pid(argument(1))?;
                // All ones as group asks for the present group.
                if argument(2) == u64::MAX {
                    return self.table.group(pid, target).map(|group| group as usize);
                }
                let group = Pid::try_from(argument(2)).map_err(|_| Error::new(EINVAL))?;
                self.table.set_group(pid, target, group).map(|()| 0)
            }
            ProcCall::Getsid => {
                let target = to_pid(argument(1))?;
                self.table
                    .session(pid, target)
                    .map(|session| session as usize)
            }
            ProcCall::Setsid => self.table.new_session(pid).map(|()| 0),
            ProcCall::GetProcCredentials => {
                if self.table.process(pid)?.users.effective != 0 {
                    return Err(Error::new(EPERM));
                }
                self.credentials(argument(1), payload)
            }
            // The call has no effect: groups may be set at any time.
            ProcCall::DisableSetpgid => Ok(0),
            _ => Err(Error::new(EOPNOTSUPP)),
        }
    }

    /// Handles a call of the signals of a process: 0 asks for the choice of what they do; 1 chooses
    /// anew, by the sets of those that are caught and ignored. Returns the former choice as bytes.
    fn call_signals(&mut self, pid: Pid, metadata: &[u64]) -> Result<[u8; 16]> {
        let former = match *metadata {
            [0, ..] => self.table.process(pid)?.signals.choice(),
            [1, caught, ignored, ..] => {
                let choice = Choice { caught, ignored };
                self.table.choose_signals(pid, choice)?
            }
            _ => return Err(Error::new(EINVAL)),
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&former.caught.to_ne_bytes());
        bytes[8..].copy_from_slice(&former.ignored.to_ne_bytes());
        Ok(bytes)
    }

    fn credentials(&self, target: u64, payload: &mut [u8]) -> Result<usize> {
        let bytes = meta_bytes(&self.table.process(to_pid(target)?)?.meta());
        payload
            .get_mut(..bytes.len())
            .ok_or(Error::new(EINVAL))?
            .copy_from_slice(&bytes);
        Ok(0)
    }

    fn dup_process(&mut self, pid: Pid, name: &str) -> Result<OpenResult> {
        match name {
            "fork" | "fork-signals" => {
                let runs = match name {
                    "fork" => Runs::Another,
                    _ => Runs::SameProgram,
                };
                let child = self.table.fork(pid, runs)?;
                Ok(self.add(Handle::Process(child)))
            }
            "signals" => {
                if self.table.process(pid)?.handles.len() >= MAX_HANDLES {
                    return Err(Error::new(EMFILE));
                }
                Ok(self.add(Handle::Signals(pid)))
            }
            "new-thread" => {
                let number = self.table.add_thread(pid, None)?;
                Ok(self.add(Handle::Thread(pid, number)))
            }
            _ => {
                let number: usize = name
                    .strip_prefix("thread-")
                    .and_then(|number| number.parse().ok())
                    .ok_or(Error::new(EINVAL))?;
                match self.table.thread(pid, number) {
                    Ok(_) => Ok(self.add(Handle::Thread(pid, number))),
                    Err(_) => Err(Error::new(ENOENT)),
                }
            }
        }
    }

    /// Passes a request for a part of a thread on to the kernel.
    fn dup_thread(&mut self, pid: Pid, number: usize, name: &str) -> Result<OpenResult> {
        // The kernel would resolve these names in the process that asks it, which is this daemon
        // with all its rights.
        if name.starts_with("auth-") {
            return Err(Error::new(EPERM));
        }
        let context = &self.table.thread(pid, number)?.context;
        let fd = fd::dup_upper(context.raw(), name.as_bytes())?;
        if name == "start" {
            self.table.started(pid);
        }
        Ok(OpenResult::OtherScheme { fd })
    }
}

fn to_pid(argument: u64) -> Result<Pid> {
    Pid::try_from(argument).map_err(|_| Error::new(ESRCH))
}

/// Six ids from the caller's memory, read once.
fn ids(payload: &[u8]) -> Result<[u32; 6]> {
    let mut ids = [0; 6];
    if payload.len() != size_of_val(&ids) {
        return Err(Error::new(EINVAL));
    }
    for (id, bytes) in ids.iter_mut().zip(payload.chunks_exact(4)) {
        *id = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Ok(ids)
}

impl SchemeSync for ProcScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.handles.add(Handle::Root))
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        if !matches!(self.handles.get(dir)?, Handle::Root) {
            return Err(Error::new(ENOTDIR));
        }
        match path {
            "" => Ok(self.add(Handle::Root)),
            "ps" => {
                let text = self.table.listing().into_bytes();
                let held = if ctx.uid == 0 { 0 } else { text.len() };
                if self.held + held > MAX_HELD {
                    return Err(Error::new(ENFILE));
                }
                self.held += held;
                Ok(self.add(Handle::Text(text, held)))
            }
            "init" | "proc-creds-capability" if ctx.uid != 0 => Err(Error::new(EACCES)),
            "init" => {
                let init = self.table.create_init()?;
                Ok(self.add(Handle::Process(init)))
            }
            "proc-creds-capability" => Ok(self.add(Handle::Credentials)),
            _ => Err(Error::new(ENOENT)),
        }
    }

    fn dup(&mut self, id: usize, name: &[u8], _ctx: &CallerCtx) -> Result<OpenResult> {
        if name.len() > MAX_PART {
            return Err(Error::new(EINVAL));
        }
        // The name lies in the caller's memory, so only this copy is used.
        let name = Vec::from(name);
        let name = core::str::from_utf8(&name).map_err(|_| Error::new(EINVAL))?;
        match *self.handles.get(id)? {
            Handle::Process(pid) => self.dup_process(pid, name),
            Handle::Thread(pid, number) => self.dup_thread(pid, number, name),
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        offset: u64,
        _flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match self.handles.get(id)? {
            Handle::Process(pid) => {
                let bytes = meta_bytes(&self.table.process(*pid)?.meta());
                Ok(read_at(&bytes, buf, 0))
            }
            Handle::Text(text, _) => Ok(read_at(text, buf, offset)),
            Handle::Signals(pid) => {
                if buf.len() < ARRIVAL_BYTES {
                    return Err(Error::new(EINVAL));
                }
                let arrival = self.table.fetch_signal(*pid)?;
                Ok(arrival.map_or(0, |arrival| read_at(&arrival_bytes(&arrival), buf, 0)))
            }
            _ => Err(Error::new(EBADF)),
        }
    }

    fn call(
        &mut self,
        id: usize,
        payload: &mut [u8],
        metadata: &[u64],
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        if matches!(self.handles.get(id), Ok(Handle::Credentials)) {
            return match metadata {
                [verb, target, ..] if *verb == ProcCall::GetProcCredentials as u64 => {
                    self.credentials(*target, payload)
                }
                _ => Err(Error::new(EINVAL)),
            };
        }
        if let Ok(Handle::Signals(pid)) = self.handles.get(id) {
            let former = self.call_signals(*pid, metadata)?;
            return Ok(read_at(&former, payload, 0));
        }
        if let Ok(&Handle::Thread(pid, number)) = self.handles.get(id) {
            return match metadata {
                [END_OTHERS, ..] => self.table.end_others(pid, number),
                _ => Err(Error::new(EINVAL)),
            };
        }
        let pid = self.process_of(id)?;
        self.call_process(pid, payload, metadata)
    }

    fn on_sendfd(&mut self, request: &SendFdRequest) -> Result<usize> {
        let pid = self.process_of(request.id())?;
        let process = self.table.process(pid)?;
        if process.state != State::New || !process.threads.is_empty() || request.num_fds() != 1 {
            return Err(Error::new(EINVAL));
        }
        let mut slots = [usize::MAX];
        request.obtain_fd(&self.socket, FobtainFdFlags::UPPER_TBL, &mut slots)?;
        self.table.add_thread(pid, Some(Fd::new(slots[0])))?;
        Ok(0)
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        match self.handles.get(id)? {
            Handle::Text(text, _) => Ok(text.len() as u64),
            _ => Ok(0),
        }
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, ctx: &CallerCtx) -> Result<()> {
        tree::stat_file(stat, self.fsize(id, ctx)? as usize);
        Ok(())
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path = match self.handles.get(id)? {
            Handle::Root => String::from("/scheme/proc"),
            Handle::Process(pid) => format!("/scheme/proc/{pid}"),
            Handle::Thread(pid, number) => format!("/scheme/proc/{pid}/thread-{number}"),
            Handle::Signals(pid) => format!("/scheme/proc/{pid}/signals"),
            Handle::Text(..) => String::from("/scheme/proc/ps"),
            Handle::Credentials => String::from("/scheme/proc/proc-creds-capability"),
        };
        Ok(read_at(path.as_bytes(), buf, 0))
    }

    fn on_close(&mut self, id: usize) {
        match self.handles.remove(id) {
            Some(Handle::Process(pid) | Handle::Signals(pid)) => self.table.closed(pid, id),
            Some(Handle::Thread(pid, number)) => self.table.thread_closed(pid, number),
            Some(Handle::Text(_, held)) => self.held -= held,
            _ => {}
        }
    }
}

impl SchemeDaemon for ProcScheme {
    fn changes(&mut self, changes: &mut Changes) {
        for handle in self.table.take_changed() {
            changes.handle(handle);
        }
    }
}
