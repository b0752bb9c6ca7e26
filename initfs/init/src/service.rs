//! Starting programs for init: daemons that report readiness, and others.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use libredox::Fd;
use runtime::process::{Child, Command, ExitStatus, Stdio};
use runtime::{Error, Result, abi, fd, path, process, state};

use crate::watchdog::Watchdog;
use syscall::error::ECHILD;
use syscall::flag::O_RDWR;

/// Number at which a daemon finds the pipe for its readiness.
const NOTIFY_FD: usize = 3;

/// How a daemon says that it is ready.
pub enum Ready {
    /// It sends the root of its scheme, which gets this name.
    Scheme(String),
    /// It writes a byte.
    Byte,
}

/// The started programs and where their output goes.
pub struct Services {
    running: BTreeMap<u32, String>,
    /// The log, once its daemon runs; until then init's own output.
    log: Option<Fd>,
    watchdog: Watchdog,
}

impl Services {
    /// Nothing started yet.
    pub fn new() -> Self {
        Services {
            running: BTreeMap::new(),
            log: None,
            watchdog: Watchdog::start(),
        }
    }

    /// All start scripts have run.
    pub fn all_started(&mut self) {
        self.watchdog.stop();
    }

    /// A message of init itself: to the log, or to the console before there is one.
    pub fn say(&self, level: &str, text: &str) {
        match &self.log {
            Some(log) => {
                let line = format!("{level} init: {text}\n");
                let _ = runtime::io::write_all(log.raw(), line.as_bytes());
            }
            None => runtime::println!("init: {text}"),
        }
    }

    /// Prepares a program: no input, output to the log.
    fn command(&self, words: &[String], variables: &[(String, String)]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::Closed);
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

    /// Starts a daemon and waits until it is ready (EPIPE when it ends before, also when it is
    /// killed because it takes too long).
    pub fn start_daemon(
        &mut self,
        words: &[String],
        variables: &[(String, String)],
        ready: Ready,
    ) -> Result<()> {
        let read = Fd::new(path::open_upper("/scheme/pipe", O_RDWR)?);
        let write = Fd::new(fd::dup_upper(read.raw(), b"write")?);
        let mut command = self.command(words, variables);
        command
            .fd(NOTIFY_FD, write.raw())
            .env("INIT_NOTIFY", format!("{NOTIFY_FD}"));
        let child = command.spawn()?;
        self.running.insert(child.pid(), words[0].clone());
        // Only the daemon may hold the write end now, so that its death ends the wait.
        drop(write);
        self.watchdog.watch(child.pid());
        let result = self.wait_ready(&read, ready);
        self.watchdog.release();
        result
    }

    fn wait_ready(&mut self, read: &Fd, ready: Ready) -> Result<()> {
        match ready {
            Ready::Scheme(name) => {
                let root = fd::receive_fd_upper(read.raw(), &[])?;
                abi::register_scheme(state::namespace_fd(), &name, root)?;
                if name == "log" {
                    let log = path::open_upper("/scheme/log", syscall::O_WRONLY);
                    self.log = log.ok().map(Fd::new);
                }
                Ok(())
            }
            Ready::Byte => match fd::read(read.raw(), &mut [0])? {
                0 => Err(Error::new(syscall::error::EPIPE)),
                _ => Ok(()),
            },
        }
    }

    /// Waits for this child; others that end meanwhile, services and orphans, are reaped.
    pub fn wait_for(&mut self, child: &Child) -> Result<ExitStatus> {
        loop {
            match process::wait_any(false)? {
                Some((pid, status)) if pid == child.pid() => return Ok(status),
                Some((pid, status)) => self.ended(pid, status),
                None => return Err(Error::new(ECHILD)),
            }
        }
    }

    /// Reaps whatever ends, for ever.
    pub fn reap_for_ever(&mut self) -> ! {
        loop {
            match process::wait_any(false) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                _ => runtime::time::sleep(runtime::time::Duration::from_secs(1)),
            }
        }
    }

    fn ended(&mut self, pid: u32, status: ExitStatus) {
        // What is not in the table is an orphan that was passed on to init.
        if let Some(name) = self.running.remove(&pid) {
            let level = if status.success() { "INFO" } else { "ERROR" };
            self.say(
                level,
                &format!("service {name} (process {pid}) ended: {status}"),
            );
        }
    }
}
