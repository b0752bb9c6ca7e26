//! Starts programs for init: daemons that report when they are ready and are restarted when they
//! end, and other programs.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use init::deaths::{self, Deaths, State, Turn};
use init::script::{Line, Restart};
use libredox::Fd;
use runtime::process::{Child, Command, ExitStatus, Stdio};
use runtime::time::{Duration, Instant, sleep};
use runtime::{Error, Result, abi, fd, path, process, state};

use crate::lease::{Lease, Memory};
use crate::watchdog::Watchdog;
use syscall::error::{EAGAIN, ECHILD, EEXIST, ENOMEM, EPIPE};
use syscall::flag::O_RDWR;

/// Descriptor number of the pipe by which a daemon reports that it is ready.
const NOTIFY_FD: usize = 3;
/// Descriptor number of the pipe by which a successor frees memory.
const LEASE_FD: usize = 4;

/// How a daemon reports that it is ready.
#[derive(Clone)]
pub enum Ready {
    /// It sends the root of its scheme, which is registered under this name.
    Scheme(String),
    /// It writes a byte.
    Byte,
}

/// A daemon: its line in a script, and its state.
pub struct Daemon {
    /// Name of its script. The daemons behind it in the same script depend on it.
    script: String,
    words: Vec<String>,
    variables: Vec<(String, String)>,
    ready: Ready,
    restart: Restart,
    deaths: Deaths,
    state: State,
    /// When it ended.
    down: Duration,
    /// Whether the last attempt to start it failed for a shortage of memory or processes.
    short: bool,
    /// Process id, while it runs.
    pid: Option<u32>,
    /// The memory of the processes that ran before it, as long as it can still free that.
    lease: Option<Lease>,
    /// Its own memory, and that of earlier processes that must stay. Used with [`Restart::Lease`]
    /// only.
    memory: Memory,
}

impl Daemon {
    /// The daemon that a line of a script starts by `command`.
    pub fn new(script: &str, line: &Line, command: &[String], ready: Ready) -> Self {
        Daemon {
            script: script.into(),
            words: command.into(),
            variables: line.variables.clone(),
            ready,
            restart: line.restart,
            deaths: Deaths::default(),
            state: State::Runs,
            down: Duration::ZERO,
            short: false,
            pid: None,
            lease: None,
            memory: Memory::new(),
        }
    }

    fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// Time between two looks for ended children while a daemon waits for its start.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a line of a script waits for a daemon that could not be made known, or for the memory
/// for it. Later the daemon is still started, but the boot goes on.
const BOOT_LIMIT: Duration = Duration::from_secs(30);

/// The time that the states of daemons go by.
fn now() -> Duration {
    Duration::from_nanos(Instant::now().as_nanos())
}

/// How long the registration of a dead daemon may still block the name of its scheme.
const NAME_LIMIT: Duration = Duration::from_secs(2);

/// Registers a scheme under its name.
fn register(name: &str, root: usize) -> Result<()> {
    let start = Instant::now();
    loop {
        match abi::register_scheme(state::namespace_fd(), name, root) {
            Err(Error { errno: EEXIST }) if start.elapsed() < NAME_LIMIT => {
                sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// Describes why a daemon could not be started.
pub fn reason(error: Error) -> String {
    match error.errno {
        EPIPE => "ended, or was killed, before it was ready".into(),
        _ => format!("{error}"),
    }
}

/// The programs that were started, and the log for their output.
pub struct Services {
    running: BTreeMap<u32, String>,
    /// Daemons that are restarted when they end, in the order of the scripts.
    daemons: Vec<Daemon>,
    /// The log, once its daemon runs; until then programs share init's own output.
    log: Option<Fd>,
}

impl Services {
    /// Nothing started yet.
    pub fn new() -> Self {
        Services {
            running: BTreeMap::new(),
            daemons: Vec::new(),
            log: None,
        }
    }

    /// Writes a message of init itself: to the log, or to the console while there is no log.
    pub fn say(&self, level: &str, text: &str) {
        match &self.log {
            Some(log) => {
                let line = format!("{level} init: {text}\n");
                let _ = runtime::io::write_all(log.raw(), line.as_bytes());
            }
            None => runtime::println!("init: {text}"),
        }
    }

    /// Has the log write all lines it has got so far to the console.
    pub fn show_log(&self) {
        if let Some(log) = &self.log {
            // Lines that cannot be shown are kept in the log.
            let _ = libredox::call::fsync(log.raw());
        }
    }

    /// Prepares a program: no input, output to the log. A signal to its group meets no other
    /// service.
    fn command(&self, words: &[String], variables: &[(String, String)]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::Closed).own_group();
        if let Some(log) = &self.log {
            command.stdout(log).stderr(log);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        command
    }

    /// Starts a program and goes on.
    pub fn start(&mut self, words: &[String], variables: &[(String, String)]) -> Result<()> {
        let child = self.command(words, variables).spawn()?;
        self.running.insert(child.pid(), words[0].clone());
        Ok(())
    }

    /// Runs a program to its end.
    pub fn run(&mut self, words: &[String], variables: &[(String, String)]) -> Result<ExitStatus> {
        let child = self.command(words, variables).spawn()?;
        self.wait_for(&child)
    }

    /// Starts a daemon and waits until it is ready. The error is EPIPE if it ends before that,
    /// also if it is killed because it takes too long. From then on it is restarted when it ends,
    /// if its line says so; and so is one that was ready, but could not be made known.
    pub fn start_daemon(&mut self, mut daemon: Daemon) -> Result<()> {
        let result = self.launch(&mut daemon);
        let failed = match &result {
            Ok(()) => false,
            Err(error) if error.errno != EPIPE && daemon.pid.is_some() => {
                self.discard(&mut daemon);
                true
            }
            Err(_) => return result,
        };
        if daemon.restart == Restart::Never {
            return result;
        }
        if failed {
            self.note_end(&mut daemon);
        }
        let place = self.daemons.len();
        self.daemons.push(daemon);
        // What the script starts next may need it.
        let limit = now() + BOOT_LIMIT;
        while matches!(self.daemons[place].state, State::Waits(_)) && now() < limit {
            self.start_due();
            while let Ok(Some((pid, status))) = process::wait_any(true) {
                self.ended(pid, status);
            }
            sleep(LOOK_INTERVAL);
        }
        match self.daemons[place].state {
            State::Runs => Ok(()),
            State::Waits(_) => result,
            State::Ended => {
                self.daemons.remove(place);
                result
            }
        }
    }

    /// Ends the process of a daemon that could not be started: it is of no use, and holds what its
    /// successor needs.
    fn discard(&mut self, daemon: &mut Daemon) {
        let Some(pid) = daemon.pid.take() else {
            return;
        };
        // It may have ended already; waiting for it works in any case.
        let _ = process::kill(pid, 9);
        if let Err(error) = process::wait_pid(pid, false) {
            let name = daemon.name();
            self.say("ERROR", &format!("{name} (process {pid}): {error}"));
        }
        self.running.remove(&pid);
    }

    fn launch(&mut self, daemon: &mut Daemon) -> Result<()> {
        let read = Fd::new(path::open_upper("/scheme/pipe", O_RDWR)?);
        let write = Fd::new(fd::dup_upper(read.raw(), b"write")?);
        let mut command = self.command(&daemon.words, &daemon.variables);
        command
            .fd(NOTIFY_FD, write.raw())
            .env("INIT_NOTIFY", format!("{NOTIFY_FD}"));
        let mut give_free = None;
        if !daemon.memory.is_empty() {
            let (lease, write) = Lease::new(&mut daemon.memory)?;
            command
                .fd(LEASE_FD, write.raw())
                .env("INIT_LEASE", format!("{LEASE_FD}"));
            daemon.lease = Some(lease);
            give_free = Some(write);
        }
        let spawned = if daemon.restart == Restart::Lease {
            let spawned = command.spawn_keeping_memory();
            spawned.map(|(child, memory)| (child, Some(memory)))
        } else {
            command.spawn().map(|child| (child, None))
        };
        // Only the daemon may hold the write ends now, so that its death ends the waits.
        drop((write, give_free));
        let (child, memory) = spawned?;
        daemon.memory.extend(memory);
        daemon.pid = Some(child.pid());
        self.running.insert(child.pid(), daemon.name().into());
        let _watchdog = Watchdog::over(child.pid());
        self.wait_ready(&read, daemon.ready.clone())
    }

    fn wait_ready(&mut self, read: &Fd, ready: Ready) -> Result<()> {
        match ready {
            Ready::Scheme(name) => {
                let root = fd::receive_fd_upper(read.raw(), &[])?;
                register(&name, root).inspect_err(|_| {
                    // It was not moved, or there is nothing to close.
                    let _ = fd::close(root);
                })?;
                if name == "log" {
                    let log = path::open_upper("/scheme/log", syscall::O_WRONLY);
                    self.log = log.ok().map(Fd::new);
                }
                Ok(())
            }
            Ready::Byte => match fd::read(read.raw(), &mut [0])? {
                0 => Err(Error::new(EPIPE)),
                _ => Ok(()),
            },
        }
    }

    /// Waits for this child. Other children that end meanwhile, services and orphans, are reaped.
    pub fn wait_for(&mut self, child: &Child) -> Result<ExitStatus> {
        loop {
            match self.next_ended()? {
                (pid, status) if pid == child.pid() => return Ok(status),
                (pid, status) => self.ended(pid, status),
            }
        }
    }

    /// Reaps all children that end, for ever.
    pub fn reap_for_ever(&mut self) -> ! {
        loop {
            match self.next_ended() {
                Ok((pid, status)) => self.ended(pid, status),
                Err(_) => sleep(Duration::from_secs(1)),
            }
        }
    }

    /// Waits for the next child that ends. Daemons are started meanwhile when their time comes.
    fn next_ended(&mut self) -> Result<(u32, ExitStatus)> {
        loop {
            let waiting = self.start_due();
            match process::wait_any(waiting) {
                Ok(Some(ended)) => return Ok(ended),
                // Also without any child: the daemons that wait may be all there is.
                Ok(None) | Err(_) if waiting => sleep(LOOK_INTERVAL),
                Ok(None) => return Err(Error::new(ECHILD)),
                Err(error) => return Err(error),
            }
        }
    }

    fn ended(&mut self, pid: u32, status: ExitStatus) {
        // A process that is not in the table is an orphan that was reparented to init.
        if let Some(name) = self.running.remove(&pid) {
            let level = if status.success() { "INFO" } else { "ERROR" };
            self.say(
                level,
                &format!("service {name} (process {pid}) ended: {status}"),
            );
        }
        let index = self.daemons.iter().position(|one| one.pid == Some(pid));
        if let Some(index) = index {
            self.plan_restart(index);
        }
    }

    /// Notes that a daemon has ended, and ends those that depend on it: without it they would end
    /// at once. They are started again behind it.
    fn plan_restart(&mut self, index: usize) {
        // The list is taken out, as it does not change meanwhile.
        let mut daemons = core::mem::take(&mut self.daemons);
        let (_, rest) = daemons.split_at_mut(index);
        if let Some((ended, behind)) = rest.split_first_mut() {
            ended.pid = None;
            let same_script = |daemon: &&mut Daemon| daemon.script == ended.script;
            for dependant in behind.iter_mut().filter(same_script).rev() {
                self.end(dependant, ended.name());
            }
            self.note_end(ended);
        }
        self.daemons = daemons;
    }

    /// Ends a daemon because one that it depends on has ended. This is no end that counts, because
    /// it is not the daemon's own fault.
    fn end(&mut self, daemon: &mut Daemon, cause: &str) {
        if daemon.pid.is_some() {
            let name = daemon.name();
            self.say("INFO", &format!("{name} is ended, as it builds on {cause}"));
            self.discard(daemon);
        }
        if !matches!(daemon.state, State::Waits(_)) {
            daemon.down = now();
            daemon.state = State::Waits(daemon.down);
        }
    }

    /// Notes that a daemon has ended by itself, and when it is to be started again.
    fn note_end(&mut self, daemon: &mut Daemon) {
        daemon.down = now();
        let state = daemon.deaths.failed(daemon.down, false);
        self.set_state(daemon, state);
    }

    fn set_state(&mut self, daemon: &mut Daemon, state: State) {
        daemon.state = state;
        if state == State::Ended {
            let (name, seconds) = (daemon.name(), deaths::WINDOW.as_secs());
            let times = deaths::LIMIT;
            let text = format!("{name} ended {times} times in {seconds} s: it stays ended");
            self.say("ERROR", &text);
        }
    }

    /// Starts the daemons whose time has come. Returns whether others still wait.
    fn start_due(&mut self) -> bool {
        // The list is taken out, as it does not change meanwhile.
        let mut daemons = core::mem::take(&mut self.daemons);
        loop {
            let states = daemons.iter().map(|one| (one.script.as_str(), one.state));
            match deaths::next(states, now()) {
                Some(Turn::Start(place)) => self.revive(&mut daemons[place]),
                Some(Turn::GiveUp(place)) => daemons[place].state = State::Ended,
                None => break,
            }
        }
        let waits = |one: &Daemon| matches!(one.state, State::Waits(_));
        let waiting = daemons.iter().any(waits);
        self.daemons = daemons;
        waiting
    }

    /// Tries once to restart a daemon whose process has ended.
    fn revive(&mut self, daemon: &mut Daemon) {
        if let Some(lease) = daemon.lease.take() {
            daemon.memory.extend(lease.end());
        }
        match self.launch(daemon) {
            Ok(()) => {
                daemon.state = State::Runs;
                daemon.short = false;
                let took = now().saturating_sub(daemon.down).as_millis();
                let text = format!("{} runs again, after {took} ms", daemon.name());
                self.say("INFO", &text);
            }
            Err(error) => {
                // Other programs may have taken the memory or all processes.
                let shortage = daemon.pid.is_none() && matches!(error.errno, ENOMEM | EAGAIN);
                // A shortage may last, and the log has more to keep.
                if !core::mem::replace(&mut daemon.short, shortage) || !shortage {
                    let reason = reason(error);
                    let text = format!("{} was not started again: {reason}", daemon.name());
                    self.say("ERROR", &text);
                }
                self.discard(daemon);
                let state = daemon.deaths.failed(now(), shortage);
                self.set_state(daemon, state);
            }
        }
    }
}
