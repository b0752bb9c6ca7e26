//! The table of processes: parents and children, their rights over each other, their ends.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::protocol::{ProcKillTarget, SIGCHLD};
use syscall::error::{EAGAIN, ECHILD, EEXIST, EINVAL, EPERM, ESRCH, EWOULDBLOCK, Error, Result};

use crate::process::{Attributes, Ids, Pid, Process, State};
use crate::signals::{self, Arrival, Choice, Effect, Runs, SIGKILL, Sender, Signals};

/// Process 1, the ancestor of all, which inherits orphans.
pub const INIT: Pid = 1;
/// Most processes, and most threads. Beyond that a loop of spawns gets EAGAIN, and does not use up
/// the memory.
pub const MAX_PROCESSES: usize = 4096;
/// How many of them only root may use: init has to start a daemon again however many others there
/// are.
pub const FOR_ROOT: usize = 64;
/// Longest name of a process, in bytes.
pub const MAX_NAME: usize = 32;

/// How a context ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Ended,
    /// It was killed, by this daemon or by whoever has a handle of it.
    Killed,
    /// By an exception that counts as this signal.
    Exception(usize),
}

/// The kernel's contexts, or fake ones in tests.
pub trait Contexts {
    /// Handle of a context. When it is dropped, the kernel forgets a context that has ended. It
    /// holds whatever `kill` and `end` need, so that neither asks for memory.
    type Context;
    /// Handle of a context that another process has made.
    type Given;

    /// Makes a stopped context, whose end is reported under `token`.
    fn create(&self, token: usize) -> Result<Self::Context>;
    /// Takes over an existing context, whose end is reported under `token`.
    fn adopt(&self, given: Self::Given, token: usize) -> Result<Self::Context>;
    /// Sets identity and name.
    fn set_attributes(&self, context: &Self::Context, attributes: &Attributes<'_>) -> Result<()>;
    /// Kills a context, running or not.
    fn kill(&self, context: &Self::Context) -> Result<()>;
    /// How a context ended; `None` while it has not.
    fn end(&self, context: &Self::Context) -> Option<End>;
    /// Whether a context was started.
    fn has_begun(&self, context: &Self::Context) -> bool;
}

/// The children that a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Any child.
    Any,
    /// The child with this process id.
    Child(u64),
    /// Any child in this group.
    Group(u64),
}

/// The table.
pub struct Table<C: Contexts> {
    contexts: C,
    pub(crate) processes: BTreeMap<Pid, Process<C::Context>>,
    last_pid: Pid,
    /// Threads by their tokens. A token is never reused, so a late event cannot be taken for
    /// another thread's.
    tokens: BTreeMap<usize, (Pid, usize)>,
    last_token: usize,
    /// Processes whose waits must be tried again.
    pub(crate) changed: BTreeSet<Pid>,
    init_status: Option<usize>,
}

impl<C: Contexts> Table<C> {
    /// A table without processes.
    pub fn new(contexts: C) -> Self {
        Table {
            contexts,
            processes: BTreeMap::new(),
            last_pid: 0,
            tokens: BTreeMap::new(),
            last_token: 0,
            changed: BTreeSet::new(),
            init_status: None,
        }
    }

    /// The status with which process 1 has ended, if it has; it should never end.
    pub fn init_status(&self) -> Option<usize> {
        self.init_status
    }

    /// The contexts behind the table.
    pub fn contexts(&self) -> &C {
        &self.contexts
    }

    /// Returns a process. ESRCH: it does not exist.
    pub fn process(&self, pid: Pid) -> Result<&Process<C::Context>> {
        self.processes.get(&pid).ok_or(Error::new(ESRCH))
    }

    fn process_mut(&mut self, pid: Pid) -> Result<&mut Process<C::Context>> {
        self.processes.get_mut(&pid).ok_or(Error::new(ESRCH))
    }

    /// Returns the kernel's handle of a thread. ESRCH: it does not exist.
    pub fn thread(&self, pid: Pid, number: usize) -> Result<&C::Context> {
        let threads = &self.process(pid)?.threads;
        threads.get(&number).ok_or(Error::new(ESRCH))
    }

    /// Takes the handles of the processes whose waits must be tried again.
    pub fn take_changed(&mut self) -> Vec<usize> {
        core::mem::take(&mut self.changed)
            .iter()
            .filter_map(|pid| self.processes.get(pid))
            .flat_map(|process| process.handles.iter().copied())
            .collect()
    }

    fn new_pid(&mut self) -> Pid {
        loop {
            self.last_pid = self.last_pid.checked_add(1).unwrap_or(INIT + 1);
            if !self.processes.contains_key(&self.last_pid) {
                return self.last_pid;
            }
        }
    }

    /// Makes process 1, without a thread. EEXIST: it was made before.
    pub fn create_init(&mut self) -> Result<Pid> {
        if self.last_pid != 0 {
            return Err(Error::new(EEXIST));
        }
        let pid = self.new_pid();
        let process = Process {
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
            thread_handles: BTreeMap::new(),
            signals: Signals::default(),
        };
        self.processes.insert(pid, process);
        Ok(pid)
    }

    /// Makes a child of `parent` with one stopped thread.
    pub fn fork(&mut self, parent: Pid, runs: Runs) -> Result<Pid> {
        self.check_alive(parent)?;
        let users = self.process(parent)?.users;
        if self.processes.len() >= most(users) {
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
            thread_handles: BTreeMap::new(),
            signals: parent.signals.of_child(runs),
        };
        self.processes.insert(pid, child);
        self.add_thread(pid, None).inspect_err(|_| {
            self.processes.remove(&pid);
        })?;
        Ok(pid)
    }

    /// ESRCH if a process has ended or is ending.
    fn check_alive(&self, pid: Pid) -> Result<()> {
        match self.process(pid)?.state {
            State::New | State::Running => Ok(()),
            State::Ending(_) | State::Dead(_) => Err(Error::new(ESRCH)),
        }
    }

    /// Adds a thread to a process: a new stopped context, or the given one. Returns its number.
    pub fn add_thread(&mut self, pid: Pid, given: Option<C::Given>) -> Result<usize> {
        self.check_alive(pid)?;
        if self.tokens.len() >= most(self.process(pid)?.users) {
            return Err(Error::new(EAGAIN));
        }
        self.last_token += 1;
        let token = self.last_token;
        let context = match given {
            Some(given) => self.contexts.adopt(given, token)?,
            None => self.contexts.create(token)?,
        };
        self.contexts
            .set_attributes(&context, &self.process(pid)?.attributes())?;
        let process = self.process_mut(pid)?;
        let number = process.next_thread;
        process.next_thread += 1;
        process.threads.insert(number, context);
        self.tokens.insert(token, (pid, number));
        Ok(number)
    }

    /// Notes that the first thread of a process is about to run.
    pub fn started(&mut self, pid: Pid) {
        if let Some(process) = self.processes.get_mut(&pid)
            && process.state == State::New
        {
            process.state = State::Running;
        }
    }

    /// Fixes the status of a process and kills its threads.
    pub fn end(&mut self, pid: Pid, status: usize) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if matches!(process.state, State::Ending(_) | State::Dead(_)) {
            return;
        }
        process.state = State::Ending(status);
        // The first thread is killed last: the kernel keeps the pages of a daemon's requests for
        // whoever keeps its memory, unless other threads seem to go on.
        for context in process.threads.values().rev() {
            let _ = self.contexts.kill(context); // A dead one reports its end in any case.
        }
        if process.threads.is_empty() {
            self.bury(pid);
        }
    }

    /// Handles an event of the thread with this token: checks whether the thread has ended.
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
        let Some(end) = self.contexts.end(context) else {
            return;
        };
        process.threads.remove(&number);
        self.tokens.remove(&token);
        let last = process.threads.is_empty();
        if last && !matches!(process.state, State::Ending(_)) {
            // The last thread ended without the process giving a status.
            match end {
                End::Ended => process.state = State::Ending(0),
                End::Killed => process.state = State::Ending(SIGKILL),
                End::Exception(_) => {}
            }
        }
        if let End::Exception(signal) = end {
            // One thread's exception ends the process.
            self.end(pid, signal);
        }
        if last {
            self.bury(pid);
        }
    }

    /// Completes the end of a process whose threads have all ended: keeps the status for the
    /// parent and gives its children to init, except those that it has not started.
    fn bury(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let State::Ending(status) = process.state else {
            return;
        };
        process.state = State::Dead(status);
        let parent = process.parent;
        let from = Sender {
            pid,
            uid: process.users.real,
            status: Some(status),
        };
        if pid == INIT {
            self.init_status = Some(status);
        }
        self.end_unstarted(pid);
        for child in self.processes.values_mut() {
            if child.parent == pid {
                child.parent = INIT;
                if matches!(child.state, State::Dead(_)) {
                    self.changed.insert(INIT);
                }
            }
        }
        let signals = self.processes.get(&parent).map(|parent| &parent.signals);
        // No process will fetch the status of one whose parent is gone.
        let is_forgotten = signals.is_none_or(Signals::forgets_children);
        let effect = signals.and_then(|signals| signals.effect(SIGCHLD));
        if is_forgotten {
            self.processes.remove(&pid);
        }
        self.changed.insert(parent);
        self.signal(parent, SIGCHLD, effect.unwrap_or(Effect::Nothing), from);
    }

    /// Fetches the status of a dead child. `Ok(None)`: none is dead yet and `poll` is set.
    /// EWOULDBLOCK: none is dead yet. ECHILD: there is no such child.
    pub fn wait(&mut self, pid: Pid, wanted: Wanted, poll: bool) -> Result<Option<(Pid, usize)>> {
        let mut children = self
            .processes
            .values()
            .filter(|child| child.parent == pid)
            .filter(|child| match wanted {
                Wanted::Any => true,
                Wanted::Child(wanted) => u64::from(child.pid) == wanted,
                Wanted::Group(group) => u64::from(child.group) == group,
            })
            .peekable();
        if children.peek().is_none() {
            return Err(Error::new(ECHILD));
        }
        let dead = children.find_map(|child| match child.state {
            State::Dead(status) => Some((child.pid, status)),
            _ => None,
        });
        match dead {
            Some((child, status)) => {
                self.processes.remove(&child);
                Ok(Some((child, status)))
            }
            None if poll => Ok(None),
            None => Err(Error::new(EWOULDBLOCK)),
        }
    }

    /// Sends a signal to one or several processes. ESRCH: there is none. EPERM: `sender` may not
    /// send to any of them. EINVAL: there is no such signal, or it would stop each of them. Of
    /// several, those that it would stop are left out.
    pub fn kill(&mut self, sender: Pid, target: usize, signal: u64) -> Result<()> {
        let signal = usize::try_from(signal).map_err(|_| Error::new(EINVAL))?;
        if signal > signals::HIGHEST {
            return Err(Error::new(EINVAL));
        }
        let caller = self.process(sender)?;
        let (users, group) = (caller.users, caller.group);
        let from = Sender {
            pid: sender,
            uid: users.real,
            status: None,
        };
        let targets: Vec<Pid> = match ProcKillTarget::from_raw(target) {
            ProcKillTarget::SingleProc(pid) => Pid::try_from(pid)
                .ok()
                .filter(|pid| self.processes.contains_key(pid))
                .into_iter()
                .collect(),
            // Init stays when its group is ended.
            ProcKillTarget::ThisGroup => {
                self.pids(|process| process.group == group && process.pid != INIT)
            }
            ProcKillTarget::ProcGroup(group) => {
                self.pids(|process| process.group as usize == group && process.pid != INIT)
            }
            // All processes but the sender and those of the system: init and its services, which
            // are in its session.
            ProcKillTarget::All => {
                let system = self.session(INIT, INIT).unwrap_or(INIT);
                self.pids(|process| process.session != system && process.pid != sender)
            }
        };
        if targets.is_empty() {
            return Err(Error::new(ESRCH));
        }
        let (mut permitted, mut would_stop) = (false, false);
        for pid in targets {
            let Ok(target) = self.process(pid) else {
                continue;
            };
            if !may_signal(users, target.users) {
                continue;
            }
            let Some(effect) = target.signals.effect(signal) else {
                would_stop = true;
                continue;
            };
            permitted = true;
            self.signal(pid, signal, effect, from);
        }
        match (permitted, would_stop) {
            (true, _) => Ok(()),
            (false, true) => Err(Error::new(EINVAL)),
            (false, false) => Err(Error::new(EPERM)),
        }
    }

    fn signal(&mut self, pid: Pid, number: usize, effect: Effect, from: Sender) {
        match effect {
            Effect::Nothing => {}
            Effect::Kill => self.end(pid, number),
            Effect::Wait => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.signals.arrive(number, from);
                    self.changed.insert(pid);
                }
            }
        }
    }

    /// Chooses what signals do to a process. Returns the former choice.
    pub fn choose_signals(&mut self, pid: Pid, choice: Choice) -> Result<Choice> {
        let former = self.process_mut(pid)?.signals.choose(choice);
        // A fetch must learn that nothing is caught any more.
        self.changed.insert(pid);
        Ok(former)
    }

    /// Fetches a signal that waits for a process. `Ok(None)`: it catches none. EWOULDBLOCK: none
    /// waits yet.
    pub fn fetch_signal(&mut self, pid: Pid) -> Result<Option<Arrival>> {
        let signals = &mut self.process_mut(pid)?.signals;
        match signals.fetch() {
            None if signals.choice().caught != 0 => Err(Error::new(EWOULDBLOCK)),
            arrival => Ok(arrival),
        }
    }

    fn pids(&self, matches: impl Fn(&Process<C::Context>) -> bool) -> Vec<Pid> {
        self.processes
            .values()
            .filter(|process| matches(process))
            .map(|process| process.pid)
            .collect()
    }

    /// Sets the real, effective and saved ids; all ones keep an id. EPERM: the process may not
    /// take one of them.
    pub fn set_ids(&mut self, pid: Pid, users: [u32; 3], groups: [u32; 3]) -> Result<()> {
        let process = self.process_mut(pid)?;
        let root = process.users.effective == 0;
        let users = process.users.change(users, root);
        let groups = process.groups.change(groups, root);
        let (Some(users), Some(groups)) = (users, groups) else {
            return Err(Error::new(EPERM));
        };
        process.users = users;
        process.groups = groups;
        self.apply_attributes(pid)
    }

    /// Sets the name, which is given as bytes that may end with zeros. It is cut after [`MAX_NAME`]
    /// bytes, without the part of a character that this leaves.
    pub fn rename(&mut self, pid: Pid, name: &[u8]) -> Result<()> {
        let name = &name[..name.len().min(MAX_NAME)];
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        let name = match core::str::from_utf8(&name[..end]) {
            Err(error) if error.error_len().is_none() && end == MAX_NAME => {
                core::str::from_utf8(&name[..error.valid_up_to()])
            }
            whole => whole,
        };
        let name = name.map_err(|_| Error::new(EINVAL))?;
        // A listing has a line for each process and spaces between columns.
        let name = name.replace(|c: char| c.is_control() || c == ' ', "_");
        self.process_mut(pid)?.name = name;
        self.apply_attributes(pid)
    }

    /// Sets the identity of a process in the kernel, for all its threads.
    fn apply_attributes(&self, pid: Pid) -> Result<()> {
        let process = self.process(pid)?;
        for context in process.threads.values() {
            self.contexts
                .set_attributes(context, &process.attributes())?;
        }
        Ok(())
    }

    /// Returns the group of a process; that of the caller if `target` is 0.
    pub fn group(&self, caller: Pid, target: Pid) -> Result<Pid> {
        Ok(self.process(or_self(target, caller))?.group)
    }

    /// Moves a process to a group of its session. The process is the caller (`target` may be 0) or
    /// one of its children; if `group` is 0, it gets a group of its own.
    pub fn set_group(&mut self, caller: Pid, target: Pid, group: Pid) -> Result<()> {
        let target = or_self(target, caller);
        let process = self.process(target)?;
        if target != caller && process.parent != caller {
            return Err(Error::new(ESRCH));
        }
        let (session, leader) = (process.session, process.session == target);
        let group = or_self(group, target);
        let joins = group == target
            || self
                .processes
                .values()
                .any(|process| process.group == group && process.session == session);
        if leader || !joins {
            return Err(Error::new(EPERM));
        }
        self.process_mut(target)?.group = group;
        Ok(())
    }

    /// Returns the session of a process; that of the caller if `target` is 0.
    pub fn session(&self, caller: Pid, target: Pid) -> Result<Pid> {
        Ok(self.process(or_self(target, caller))?.session)
    }

    /// Makes the caller the leader of a new session. EPERM: it leads a group.
    pub fn new_session(&mut self, caller: Pid) -> Result<()> {
        if self.processes.values().any(|other| other.group == caller) {
            return Err(Error::new(EPERM));
        }
        let process = self.process_mut(caller)?;
        (process.session, process.group) = (caller, caller);
        Ok(())
    }

    /// All processes, one per line; the first line names the columns.
    pub fn listing(&self) -> String {
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
        text
    }
}

fn or_self(pid: Pid, own: Pid) -> Pid {
    if pid == 0 { own } else { pid }
}

/// Most processes, and most threads, when one of this user's is to be made.
fn most(users: Ids) -> usize {
    match users.effective {
        0 => MAX_PROCESSES,
        _ => MAX_PROCESSES - FOR_ROOT,
    }
}

fn may_signal(sender: Ids, target: Ids) -> bool {
    sender.effective == 0
        || [sender.real, sender.effective]
            .iter()
            .any(|id| [target.real, target.saved].contains(id))
}
