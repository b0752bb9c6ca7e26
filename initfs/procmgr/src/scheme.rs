//! The scheme `proc`: handles, calls and the table of processes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::protocol::{ProcCall, ProcKillTarget, WaitFlags};
use platform::scheme::{Changes, SchemeDaemon, read_at};
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult, SendFdRequest, Socket};
use runtime::{Error, Result, fd};
use syscall::data::Stat;
use syscall::error::{
    EACCES, EAGAIN, EBADF, ECHILD, EEXIST, EINVAL, ENOENT, ENOTDIR, EOPNOTSUPP, EPERM, ESRCH,
    EWOULDBLOCK,
};
use syscall::flag::{FobtainFdFlags, MODE_FILE};
use syscall::schemev2::NewFdFlags;

use crate::kernel::{End, Kernel};
use crate::process::{Ids, Pid, Process, State, meta_bytes};

/// Process 1: ancestor of all, inherits orphans.
const INIT: Pid = 1;
/// Processes and threads at one time; a loop of spawns gets EAGAIN instead of all memory.
const MAX_PROCESSES: usize = 4096;
/// Longest name of a process, in bytes.
const MAX_NAME: usize = 32;

enum Handle {
    Root,
    Process(Pid),
    Thread(Pid, usize),
    /// Text that was made when it was opened.
    Text(Vec<u8>),
    /// The right to look up credentials of any process.
    Credentials,
}

/// The daemon's state.
pub struct ProcScheme {
    socket: Rc<Socket>,
    kernel: Kernel,
    processes: BTreeMap<Pid, Process>,
    last_pid: Pid,
    /// Threads by their token in the event queue. Tokens are never used twice, so a late event
    /// cannot meet another thread.
    tokens: BTreeMap<usize, (Pid, usize)>,
    last_token: usize,
    handles: BTreeMap<usize, Handle>,
    last_handle: usize,
    /// Handles whose waiting requests are to be tried again.
    changed: BTreeSet<usize>,
}

impl ProcScheme {
    /// A manager without processes.
    pub fn new(socket: Rc<Socket>, kernel: Kernel) -> Self {
        ProcScheme {
            socket,
            kernel,
            processes: BTreeMap::new(),
            last_pid: 0,
            tokens: BTreeMap::new(),
            last_token: 0,
            handles: BTreeMap::new(),
            last_handle: 0,
            changed: BTreeSet::new(),
        }
    }

    /// Waits for an event: the token of the socket or of a thread.
    pub fn wait_event(&self) -> Result<Option<usize>> {
        self.kernel.wait_event()
    }

    fn add(&mut self, handle: Handle) -> OpenResult {
        self.last_handle += 1;
        let number = self.last_handle;
        if let Handle::Process(pid) = handle
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.handles.push(number);
        }
        let flags = match handle {
            Handle::Text(_) => NewFdFlags::POSITIONED,
            _ => NewFdFlags::empty(),
        };
        self.handles.insert(number, handle);
        OpenResult::ThisScheme { number, flags }
    }

    fn process_of(&self, handle: usize) -> Result<Pid> {
        match self.handles.get(&handle) {
            Some(Handle::Process(pid)) if self.processes.contains_key(pid) => Ok(*pid),
            Some(Handle::Process(_)) => Err(Error::new(ESRCH)),
            _ => Err(Error::new(EBADF)),
        }
    }

    fn process(&self, pid: Pid) -> Result<&Process> {
        self.processes.get(&pid).ok_or(Error::new(ESRCH))
    }

    fn process_mut(&mut self, pid: Pid) -> Result<&mut Process> {
        self.processes.get_mut(&pid).ok_or(Error::new(ESRCH))
    }

    fn new_pid(&mut self) -> Pid {
        loop {
            self.last_pid = self.last_pid.checked_add(1).unwrap_or(INIT + 1);
            if !self.processes.contains_key(&self.last_pid) {
                return self.last_pid;
            }
        }
    }

    fn new_token(&mut self) -> usize {
        self.last_token += 1;
        self.last_token
    }

    /// Makes process 1, without a thread; whoever asked sends the thread.
    fn open_init(&mut self) -> Result<OpenResult> {
        if self.last_pid != 0 {
            return Err(Error::new(EEXIST));
        }
        let pid = self.new_pid();
        self.processes.insert(
            pid,
            Process {
                pid,
                parent: 0,
                group: pid,
                session: pid,
                users: Ids::default(),
                groups: Ids::default(),
                name: String::from("init"),
                state: State::New,
                threads: BTreeMap::new(),
                next_thread: 0,
                handles: Vec::new(),
            },
        );
        Ok(self.add(Handle::Process(pid)))
    }

    /// Adds a thread to a process: a new stopped context, or the given one.
    fn add_thread(&mut self, pid: Pid, given: Option<Fd>) -> Result<usize> {
        if self.tokens.len() >= MAX_PROCESSES {
            return Err(Error::new(EAGAIN));
        }
        let token = self.new_token();
        let context = match given {
            Some(context) => {
                self.kernel.watch(&context, token)?;
                context
            }
            None => self.kernel.new_context(token)?,
        };
        self.kernel
            .set_attributes(&context, &self.process(pid)?.attributes())?;
        let process = self.process_mut(pid)?;
        let number = process.next_thread;
        process.next_thread += 1;
        process.threads.insert(number, context);
        self.tokens.insert(token, (pid, number));
        Ok(number)
    }

    /// Makes a child of `parent` with one stopped thread.
    fn fork(&mut self, parent: Pid) -> Result<OpenResult> {
        if self.processes.len() >= MAX_PROCESSES {
            return Err(Error::new(EAGAIN));
        }
        let pid = self.new_pid();
        let parent = self.process(parent)?;
        let child = Process {
            pid,
            parent: parent.pid,
            group: parent.group,
            session: parent.session,
            users: parent.users,
            groups: parent.groups,
            name: parent.name.clone(),
            state: State::New,
            threads: BTreeMap::new(),
            next_thread: 0,
            handles: Vec::new(),
        };
        self.processes.insert(pid, child);
        if let Err(error) = self.add_thread(pid, None) {
            self.processes.remove(&pid);
            return Err(error);
        }
        Ok(self.add(Handle::Process(pid)))
    }

    /// Decides the status of a process and kills its threads.
    fn end(&mut self, pid: Pid, status: usize) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if matches!(process.state, State::Ending(_) | State::Dead(_)) {
            return;
        }
        process.state = State::Ending(status);
        for context in process.threads.values() {
            // A context that is dead already reports its end anyway.
            let _ = self.kernel.kill(context);
        }
        if process.threads.is_empty() {
            self.bury(pid);
        }
    }

    /// Something happened to the thread with this token: look whether it ended.
    pub fn thread_event(&mut self, token: usize) {
        let Some(&(pid, number)) = self.tokens.get(&token) else {
            return;
        };
        let Some(process) = self.processes.get_mut(&pid) else {
            self.tokens.remove(&token);
            return;
        };
        let Some(context) = process.threads.get(&number) else {
            self.tokens.remove(&token);
            return;
        };
        let Some(end) = self.kernel.end(context) else {
            return;
        };
        // Closing the handle lets the kernel forget the context.
        process.threads.remove(&number);
        self.tokens.remove(&token);
        let last = process.threads.is_empty();
        match end {
            End::Exception(signal) => self.end(pid, signal),
            End::Ended if last => {
                if !matches!(process.state, State::Ending(_)) {
                    process.state = State::Ending(0);
                }
            }
            End::Ended => {}
        }
        if last {
            self.bury(pid);
        }
    }

    /// All threads of a process are gone: keep the status for the parent, pass children on.
    fn bury(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let State::Ending(status) = process.state else {
            return;
        };
        process.state = State::Dead(status);
        let parent = process.parent;
        let mut orphaned_dead = false;
        for child in self.processes.values_mut() {
            if child.parent == pid {
                child.parent = INIT;
                orphaned_dead |= matches!(child.state, State::Dead(_));
            }
        }
        if orphaned_dead {
            self.notify(INIT);
        }
        if self.processes.contains_key(&parent) && pid != INIT {
            self.notify(parent);
        } else {
            self.processes.remove(&pid);
        }
    }

    /// Lets the waiting requests of a process be tried again.
    fn notify(&mut self, pid: Pid) {
        if let Some(process) = self.processes.get(&pid) {
            self.changed.extend(process.handles.iter().copied());
        }
    }

    /// Fetches the status of a dead child that matches.
    fn wait(
        &mut self,
        pid: Pid,
        matches: impl Fn(&Process) -> bool,
        flags: u64,
        payload: &mut [u8],
    ) -> Result<usize> {
        let mut children = self
            .processes
            .values()
            .filter(|process| process.parent == pid && matches(process))
            .peekable();
        if children.peek().is_none() {
            return Err(Error::new(ECHILD));
        }
        let dead = children.find_map(|process| match process.state {
            State::Dead(status) => Some((process.pid, status)),
            _ => None,
        });
        match dead {
            Some((child, status)) => {
                let bytes = status.to_ne_bytes();
                let count = bytes.len().min(payload.len());
                payload[..count].copy_from_slice(&bytes[..count]);
                self.processes.remove(&child);
                Ok(child as usize)
            }
            None if flags as usize & WaitFlags::WNOHANG.bits() != 0 => Ok(0),
            None => Err(Error::new(EWOULDBLOCK)),
        }
    }

    /// Sends a signal to one process or to several.
    fn kill(&mut self, sender: Pid, target: usize, signal: u64) -> Result<usize> {
        let signal = usize::try_from(signal).map_err(|_| Error::new(EINVAL))?;
        let effect = effect_of(signal).ok_or(Error::new(EINVAL))?;
        let caller = self.process(sender)?;
        let (root, users, group) = (caller.users.effective == 0, caller.users, caller.group);
        let targets: Vec<Pid> = match ProcKillTarget::from_raw(target) {
            ProcKillTarget::SingleProc(pid) => Pid::try_from(pid)
                .ok()
                .filter(|pid| self.processes.contains_key(pid))
                .into_iter()
                .collect(),
            ProcKillTarget::ThisGroup => self.pids(|process| process.group == group),
            ProcKillTarget::ProcGroup(group) => {
                self.pids(|process| process.group as usize == group)
            }
            // All but init and the sender.
            ProcKillTarget::All => {
                self.pids(|process| process.pid != INIT && process.pid != sender)
            }
        };
        if targets.is_empty() {
            return Err(Error::new(ESRCH));
        }
        let mut permitted = false;
        for pid in targets {
            let users_of = self.process(pid)?.users;
            let may = root
                || [users.real, users.effective]
                    .iter()
                    .any(|id| [users_of.real, users_of.saved].contains(id));
            if !may {
                continue;
            }
            permitted = true;
            match effect {
                Effect::Nothing => {}
                Effect::Kill => self.end(pid, signal),
            }
        }
        match permitted {
            true => Ok(0),
            false => Err(Error::new(EPERM)),
        }
    }

    fn pids(&self, matches: impl Fn(&Process) -> bool) -> Vec<Pid> {
        self.processes
            .values()
            .filter(|process| matches(process))
            .map(|process| process.pid)
            .collect()
    }

    fn set_ids(&mut self, pid: Pid, payload: &[u8]) -> Result<usize> {
        let mut words = [0; 6];
        if payload.len() != size_of_val(&words) {
            return Err(Error::new(EINVAL));
        }
        for (word, bytes) in words.iter_mut().zip(payload.chunks_exact(4)) {
            *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [ruid, euid, suid, rgid, egid, sgid] = words;
        let process = self.process_mut(pid)?;
        let root = process.users.effective == 0;
        let users = process.users.change([ruid, euid, suid], root);
        let groups = process.groups.change([rgid, egid, sgid], root);
        match (users, groups) {
            (Some(users), Some(groups)) => {
                process.users = users;
                process.groups = groups;
            }
            _ => return Err(Error::new(EPERM)),
        }
        self.apply_attributes(pid)?;
        Ok(0)
    }

    fn rename(&mut self, pid: Pid, payload: &[u8]) -> Result<usize> {
        let name = &payload[..payload.len().min(MAX_NAME)];
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        let name = core::str::from_utf8(&name[..end]).map_err(|_| Error::new(EINVAL))?;
        // A listing has one line per process and columns by spaces.
        let name = name.replace(|c: char| c.is_control() || c == ' ', "_");
        self.process_mut(pid)?.name = name;
        self.apply_attributes(pid)?;
        Ok(0)
    }

    /// Tells the kernel the identity of a process for all its threads.
    fn apply_attributes(&self, pid: Pid) -> Result<()> {
        let process = self.process(pid)?;
        for context in process.threads.values() {
            self.kernel.set_attributes(context, &process.attributes())?;
        }
        Ok(())
    }

    fn set_group(&mut self, caller: Pid, target: u64, group: u64) -> Result<usize> {
        let target = match Pid::try_from(target).map_err(|_| Error::new(ESRCH))? {
            0 => caller,
            pid => pid,
        };
        if group == u64::MAX {
            return Ok(self.process(target)?.group as usize);
        }
        let process = self.process(target)?;
        if target != caller && process.parent != caller {
            return Err(Error::new(ESRCH));
        }
        let (session, leader) = (process.session, process.session == target);
        let group = match Pid::try_from(group).map_err(|_| Error::new(EINVAL))? {
            0 => target,
            group => group,
        };
        let joins = group == target
            || self
                .processes
                .values()
                .any(|process| process.group == group && process.session == session);
        if leader || !joins {
            return Err(Error::new(EPERM));
        }
        self.process_mut(target)?.group = group;
        Ok(0)
    }

    fn listing(&self) -> Vec<u8> {
        let mut text = String::from("pid ppid uid status name\n");
        for process in self.processes.values() {
            text.push_str(&format!(
                "{} {} {} {} {}\n",
                process.pid,
                process.parent,
                process.users.effective,
                process.state_name(),
                process.name
            ));
        }
        text.into_bytes()
    }

    fn call_process(&mut self, pid: Pid, payload: &mut [u8], metadata: &[u64]) -> Result<usize> {
        let argument = |index: usize| metadata.get(index).copied().unwrap_or(0);
        let call = usize::try_from(argument(0))
            .ok()
            .and_then(ProcCall::try_from_raw)
            .ok_or(Error::new(EINVAL))?;
        match call {
            ProcCall::Exit => {
                self.end(pid, (argument(1) as usize & 0xFF) << 8);
                // Never answered: the caller is being killed.
                Err(Error::new(EWOULDBLOCK))
            }
            ProcCall::Waitpid => {
                let wanted = argument(1);
                let matches = |process: &Process| wanted == 0 || u64::from(process.pid) == wanted;
                self.wait(pid, matches, argument(2), payload)
            }
            ProcCall::Waitpgid => {
                let group = match argument(1) {
                    0 => u64::from(self.process(pid)?.group),
                    group => group,
                };
                let matches = |process: &Process| u64::from(process.group) == group;
                self.wait(pid, matches, argument(2), payload)
            }
            ProcCall::Kill => self.kill(pid, argument(1) as usize, argument(2)),
            ProcCall::SetResugid => {
                let copy = Vec::from(payload);
                self.set_ids(pid, &copy)
            }
            ProcCall::Rename => {
                let copy = Vec::from(&payload[..payload.len().min(MAX_NAME)]);
                self.rename(pid, &copy)
            }
            ProcCall::Getppid => Ok(self.process(pid)?.parent as usize),
            ProcCall::Setpgid => self.set_group(pid, argument(1), argument(2)),
            ProcCall::Getsid => {
                let target = match argument(1) {
                    0 => pid,
                    target => Pid::try_from(target).map_err(|_| Error::new(ESRCH))?,
                };
                Ok(self.process(target)?.session as usize)
            }
            ProcCall::Setsid => {
                if self.processes.values().any(|other| other.group == pid) {
                    return Err(Error::new(EPERM));
                }
                let process = self.process_mut(pid)?;
                (process.session, process.group) = (pid, pid);
                Ok(0)
            }
            ProcCall::GetProcCredentials => {
                if self.process(pid)?.users.effective != 0 {
                    return Err(Error::new(EPERM));
                }
                self.credentials(argument(1), payload)
            }
            // There is nothing to forbid: groups may be set at any time.
            ProcCall::DisableSetpgid => Ok(0),
            _ => Err(Error::new(EOPNOTSUPP)),
        }
    }

    fn credentials(&self, target: u64, payload: &mut [u8]) -> Result<usize> {
        let target = Pid::try_from(target).map_err(|_| Error::new(ESRCH))?;
        let bytes = meta_bytes(&self.process(target)?.meta());
        payload
            .get_mut(..bytes.len())
            .ok_or(Error::new(EINVAL))?
            .copy_from_slice(&bytes);
        Ok(0)
    }
}

/// What a signal does to a process, as nobody handles signals.
#[derive(Clone, Copy)]
enum Effect {
    Nothing,
    Kill,
}

/// The effect of a signal, `None` when there is no such signal or it would stop the process, which
/// is not offered.
fn effect_of(signal: usize) -> Option<Effect> {
    use libredox::protocol::{SIGCHLD, SIGCONT};
    const SIGSTOP: usize = 19;
    const SIGTTOU: usize = 22;
    const SIGURG: usize = 23;
    const SIGWINCH: usize = 28;
    match signal {
        0 | SIGCHLD | SIGCONT | SIGURG | SIGWINCH => Some(Effect::Nothing),
        SIGSTOP..=SIGTTOU => None,
        1..=64 => Some(Effect::Kill),
        _ => None,
    }
}

impl SchemeSync for ProcScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        match self.add(Handle::Root) {
            OpenResult::ThisScheme { number, .. } => Ok(number),
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        match self.handles.get(&dir) {
            Some(Handle::Root) => {}
            Some(_) => return Err(Error::new(ENOTDIR)),
            None => return Err(Error::new(EBADF)),
        }
        match path {
            "" => Ok(self.add(Handle::Root)),
            "ps" => {
                let text = self.listing();
                Ok(self.add(Handle::Text(text)))
            }
            "init" | "proc-creds-capability" if ctx.uid != 0 => Err(Error::new(EACCES)),
            "init" => self.open_init(),
            "proc-creds-capability" => Ok(self.add(Handle::Credentials)),
            _ => Err(Error::new(ENOENT)),
        }
    }

    fn dup(&mut self, id: usize, name: &[u8], _ctx: &CallerCtx) -> Result<OpenResult> {
        // The name lies in the caller's memory; look at one copy only.
        let name = Vec::from(name);
        let name = core::str::from_utf8(&name).map_err(|_| Error::new(EINVAL))?;
        match self.handles.get(&id) {
            Some(&Handle::Process(pid)) => {
                if matches!(self.process(pid)?.state, State::Ending(_) | State::Dead(_)) {
                    return Err(Error::new(ESRCH));
                }
                if name == "fork" {
                    return self.fork(pid);
                }
                if name == "new-thread" {
                    let number = self.add_thread(pid, None)?;
                    return Ok(self.add(Handle::Thread(pid, number)));
                }
                let number: usize = name
                    .strip_prefix("thread-")
                    .and_then(|number| number.parse().ok())
                    .ok_or(Error::new(EINVAL))?;
                if !self.process(pid)?.threads.contains_key(&number) {
                    return Err(Error::new(ENOENT));
                }
                Ok(self.add(Handle::Thread(pid, number)))
            }
            Some(&Handle::Thread(pid, number)) => {
                // These names refer to descriptors of the one who asks the kernel, which is this
                // daemon with all its rights.
                if name.starts_with("auth-") {
                    return Err(Error::new(EPERM));
                }
                let process = self.process_mut(pid)?;
                let context = process.threads.get(&number).ok_or(Error::new(ESRCH))?;
                let fd = fd::dup_upper(context.raw(), name.as_bytes())?;
                if name == "start" && process.state == State::New {
                    process.state = State::Running;
                }
                Ok(OpenResult::OtherScheme { fd })
            }
            Some(_) => Err(Error::new(EINVAL)),
            None => Err(Error::new(EBADF)),
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
        match self.handles.get(&id).ok_or(Error::new(EBADF))? {
            Handle::Process(pid) => {
                let bytes = meta_bytes(&self.process(*pid)?.meta());
                Ok(read_at(&bytes, buf, 0))
            }
            Handle::Text(text) => Ok(read_at(text, buf, offset)),
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
        if matches!(self.handles.get(&id), Some(Handle::Credentials)) {
            return match metadata {
                [verb, target, ..] if *verb == ProcCall::GetProcCredentials as u64 => {
                    self.credentials(*target, payload)
                }
                _ => Err(Error::new(EINVAL)),
            };
        }
        let pid = self.process_of(id)?;
        self.call_process(pid, payload, metadata)
    }

    fn on_sendfd(&mut self, request: &SendFdRequest) -> Result<usize> {
        let pid = self.process_of(request.id())?;
        let process = self.process(pid)?;
        if process.state != State::New || !process.threads.is_empty() || request.num_fds() != 1 {
            return Err(Error::new(EINVAL));
        }
        let mut slots = [usize::MAX];
        request.obtain_fd(&self.socket, FobtainFdFlags::UPPER_TBL, &mut slots)?;
        self.add_thread(pid, Some(Fd::new(slots[0])))?;
        Ok(0)
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        match self.handles.get(&id).ok_or(Error::new(EBADF))? {
            Handle::Text(text) => Ok(text.len() as u64),
            _ => Ok(0),
        }
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, ctx: &CallerCtx) -> Result<()> {
        stat.st_size = self.fsize(id, ctx)?;
        stat.st_mode = MODE_FILE | 0o444;
        Ok(())
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path = match self.handles.get(&id).ok_or(Error::new(EBADF))? {
            Handle::Root => String::from("/scheme/proc"),
            Handle::Process(pid) => format!("/scheme/proc/{pid}"),
            Handle::Thread(pid, number) => format!("/scheme/proc/{pid}/thread-{number}"),
            Handle::Text(_) => String::from("/scheme/proc/ps"),
            Handle::Credentials => String::from("/scheme/proc/proc-creds-capability"),
        };
        let count = path.len().min(buf.len());
        buf[..count].copy_from_slice(&path.as_bytes()[..count]);
        Ok(count)
    }

    fn on_close(&mut self, id: usize) {
        let Some(Handle::Process(pid)) = self.handles.remove(&id) else {
            return;
        };
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.handles.retain(|&handle| handle != id);
        if process.handles.is_empty() && process.state == State::New {
            // Whoever wanted to start it is gone; nobody can any more, and nobody waits for it.
            process.parent = 0;
            self.end(pid, 0);
        }
    }
}

impl SchemeDaemon for ProcScheme {
    fn changes(&mut self, changes: &mut Changes) {
        for handle in core::mem::take(&mut self.changed) {
            changes.handle(handle);
        }
    }
}
