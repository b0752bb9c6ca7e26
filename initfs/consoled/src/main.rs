//! `consoled`: the scheme `console` on the debug port.
//!
//! Reading gives one edited line at a time; `dup(fd, "raw")` gives a handle whose reads deliver
//! bytes as they come, without echo. Writing passes through with line ends for a terminal.
//! `dup(fd, "pgrp")` gives a handle that takes process ids (one `usize` each, the whole list in one
//! write; none: nobody): the interrupt key ^C ends those of all such handles by SIGINT, and closing
//! a handle drops its list, so that shells within shells need not know of each other. An interrupt
//! that finds no process and no reader is kept: the next process that is put there ends at once, or
//! a read of such a handle takes it (one byte; 0 bytes when there was none). ^D on an empty line is
//! the end of the input for one read. What root writes to a handle of `dup(fd, "keyboard")` counts
//! as typed: drivers of keyboards do so.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use consoled::editor::Action;
use consoled::terminal::{Terminal, line_bytes};
use libredox::Fd;
use platform::daemon::{self, Mode, NOTIFY_VARIABLE};
use platform::event::Queue;
use platform::scheme::{Changes, SchemeDaemon, Status};
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, Id, OpenResult};
use runtime::{Error, Result, env, process};
use syscall::data::Stat;
use syscall::error::{
    EAGAIN, EBADF, ECANCELED, EINTR, EINVAL, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EWOULDBLOCK,
};
use syscall::flag::{EventFlags, MODE_CHR, O_DIRECTORY, O_NONBLOCK};
use syscall::schemev2::NewFdFlags;

runtime::main!(main);

/// Bytes typed before somebody reads; what is beyond is dropped.
const TYPE_AHEAD: usize = 64 * 1024;
/// Processes that one interrupt ends.
const MAX_FOREGROUND: usize = 64;
/// The interrupt key, ^C.
const INTERRUPT: u8 = 3;
const SIGINT: u32 = 2;

fn main() -> i32 {
    match run() {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("consoled: cannot serve the scheme console: {error}");
            1
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    Requests,
    Keyboard,
}

fn run() -> Result<()> {
    let flags = libredox::flag::O_RDWR | libredox::flag::O_NONBLOCK | libredox::flag::O_CLOEXEC;
    let port = Fd::open("/scheme/debug", flags, 0)?;
    let mut queue = Queue::new()?;
    let mut console = Console::new(port);
    let notify = env::var(NOTIFY_VARIABLE);
    let mut requests = daemon::start(
        "console",
        Mode::EventDriven,
        notify.as_deref(),
        &mut console,
    )?;
    queue.subscribe(requests.fd(), EventFlags::EVENT_READ, Source::Requests)?;
    queue.subscribe(console.port.raw(), EventFlags::EVENT_READ, Source::Keyboard)?;
    daemon::seal()?;

    let mut ready = Vec::new();
    loop {
        // Events may be merged or lost to what was read already: both sources are always looked at.
        console.take_input();
        loop {
            match requests.poll(&mut console)? {
                Status::Closed => return Ok(()),
                Status::More => console.take_input(),
                Status::Idle => break,
            }
        }
        queue.wait(None, &mut ready)?;
    }
}

enum Handle {
    Root,
    /// Reads edited lines.
    Lines,
    /// Reads bytes.
    Raw,
    /// Takes foreground processes.
    Foreground(Vec<u32>),
    /// Takes keys.
    Keyboard,
}

struct Console {
    port: Fd,
    terminal: Terminal,
    /// From the keyboard, not yet looked at.
    typed: VecDeque<u8>,
    /// Lines that were read only in part, or not at all yet; an empty one is the end of the input.
    lines: VecDeque<Vec<u8>>,
    handles: BTreeMap<usize, Handle>,
    last_handle: usize,
    /// Reads that wait, by request: for a line, or (`true`) for bytes.
    waiting: BTreeMap<Id, bool>,
    changed: bool,
    /// An interrupt found nobody.
    interrupted: bool,
}

impl Console {
    fn new(port: Fd) -> Self {
        Console {
            port,
            terminal: Terminal::default(),
            typed: VecDeque::new(),
            lines: VecDeque::new(),
            handles: BTreeMap::new(),
            last_handle: 0,
            waiting: BTreeMap::new(),
            changed: false,
            interrupted: false,
        }
    }

    fn add(&mut self, handle: Handle) -> OpenResult {
        self.last_handle += 1;
        self.handles.insert(self.last_handle, handle);
        OpenResult::ThisScheme {
            number: self.last_handle,
            flags: NewFdFlags::empty(),
        }
    }

    fn screen(&self, bytes: &[u8]) {
        // A console that takes no output cannot be told about it.
        let _ = runtime::io::write_all(self.port.raw(), bytes);
    }

    /// Reads what the keyboard sent.
    fn take_input(&mut self) {
        let mut block = [0; 256];
        loop {
            match self.port.read(&mut block) {
                Ok(0) => break,
                Ok(count) => block[..count].iter().for_each(|byte| self.key(*byte)),
                Err(error) if error.errno() == EINTR => {}
                Err(error) => {
                    if !matches!(error.errno(), EAGAIN | EWOULDBLOCK) {
                        log_error("reading the debug port", error.into());
                    }
                    break;
                }
            }
        }
        self.work();
    }

    fn raw_reader(&self) -> bool {
        self.waiting.values().any(|raw| *raw)
    }

    /// Takes a byte. The interrupt key acts at once, unless somebody reads bytes or edits a line.
    fn key(&mut self, byte: u8) {
        let interrupt = byte == INTERRUPT && !self.raw_reader();
        if interrupt && (self.waiting.is_empty() || self.has_foreground()) {
            self.typed.clear();
            if self.terminal.waiting() {
                // The line that was begun goes with the program that asked for it.
                let mut out = Vec::new();
                self.terminal.input(INTERRUPT, &mut out);
                self.terminal.end();
                self.screen(&out);
            } else {
                self.show_output(b"^C\n");
            }
            self.interrupted = true;
            self.interrupt();
        } else if self.typed.len() < TYPE_AHEAD {
            self.typed.push_back(byte);
        }
    }

    fn has_foreground(&self) -> bool {
        self.handles
            .values()
            .any(|handle| matches!(handle, Handle::Foreground(pids) if !pids.is_empty()))
    }

    /// Ends the foreground processes after an interrupt.
    fn interrupt(&mut self) {
        for pid in self.take_foreground() {
            self.interrupted = false;
            if let Err(error) = process::kill(pid, SIGINT) {
                // It may have ended a moment ago.
                if error.errno != syscall::ESRCH {
                    log_error("interrupting a process", error);
                }
            }
        }
    }

    /// All foreground processes, which are none afterwards.
    fn take_foreground(&mut self) -> Vec<u32> {
        let mut all = Vec::new();
        for handle in self.handles.values_mut() {
            if let Handle::Foreground(pids) = handle {
                all.append(pids);
            }
        }
        all
    }

    fn show_output(&mut self, bytes: &[u8]) {
        let mut out = Vec::with_capacity(bytes.len() + 32);
        self.terminal.output(bytes, &mut out);
        self.screen(&out);
    }

    /// Lets keys through to those who wait.
    fn work(&mut self) {
        if self.raw_reader() {
            self.changed |= !self.typed.is_empty();
            return;
        }
        let mut out = Vec::new();
        while self.lines.is_empty() && !self.waiting.is_empty() && !self.typed.is_empty() {
            self.terminal.begin(&mut out);
            let Some(byte) = self.typed.pop_front() else {
                break;
            };
            let line = match self.terminal.input(byte, &mut out) {
                None => continue,
                Some(Action::Line(line)) => line_bytes(line),
                // An empty line, so that a shell shows its prompt again.
                Some(Action::Interrupt) => line_bytes(Default::default()),
                Some(Action::EndOfFile) => Vec::new(),
                Some(Action::Clear) => continue,
            };
            self.terminal.end();
            self.lines.push_back(line);
            self.changed = true;
        }
        self.screen(&out);
    }

    fn read_line(&mut self, buf: &mut [u8]) -> Option<usize> {
        let line = self.lines.front_mut()?;
        let count = line.len().min(buf.len());
        buf[..count].copy_from_slice(&line[..count]);
        line.drain(..count);
        if line.is_empty() {
            self.lines.pop_front();
        }
        Some(count)
    }
}

fn log_error(what: &str, error: Error) {
    runtime::eprintln!("consoled: {what} failed: {error}");
}

impl SchemeDaemon for Console {
    fn changes(&mut self, changes: &mut Changes) {
        if core::mem::take(&mut self.changed) {
            changes.everything();
            for id in self.handles.keys() {
                changes.handle(*id);
            }
        }
    }

    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        self.waiting.remove(&request);
        if self.waiting.is_empty() && self.terminal.waiting() {
            self.terminal.end();
        }
        Err(Error::new(ECANCELED))
    }
}

impl SchemeSync for Console {
    fn scheme_root(&mut self) -> Result<usize> {
        self.last_handle += 1;
        self.handles.insert(self.last_handle, Handle::Root);
        Ok(self.last_handle)
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        if !matches!(self.handles.get(&dir), Some(Handle::Root)) {
            return Err(Error::new(EBADF));
        }
        if !path.trim_matches('/').is_empty() {
            return Err(Error::new(ENOENT));
        }
        if flags & O_DIRECTORY != 0 {
            return Err(Error::new(ENOTDIR));
        }
        Ok(self.add(Handle::Lines))
    }

    fn dup(&mut self, id: usize, buf: &[u8], ctx: &CallerCtx) -> Result<OpenResult> {
        match self.handles.get(&id) {
            Some(Handle::Lines | Handle::Raw) => {}
            _ => return Err(Error::new(EBADF)),
        }
        let handle = match buf {
            b"" => Handle::Lines,
            b"raw" => Handle::Raw,
            b"pgrp" => Handle::Foreground(Vec::new()),
            b"keyboard" if ctx.uid != 0 => return Err(Error::new(EPERM)),
            b"keyboard" => Handle::Keyboard,
            _ => return Err(Error::new(EINVAL)),
        };
        Ok(self.add(handle))
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        _offset: u64,
        fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let raw = match self.handles.get(&id) {
            Some(Handle::Lines) => false,
            Some(Handle::Raw) => true,
            Some(Handle::Foreground(_)) if !buf.is_empty() => {
                buf[0] = INTERRUPT;
                return Ok(usize::from(core::mem::take(&mut self.interrupted)));
            }
            _ => return Err(Error::new(EBADF)),
        };
        if buf.is_empty() {
            return Ok(0);
        }
        let done = if raw {
            let count = self.typed.len().min(buf.len());
            buf.iter_mut()
                .zip(self.typed.drain(..count))
                .for_each(|(to, from)| *to = from);
            (count > 0).then_some(count)
        } else {
            self.read_line(buf)
        };
        if let Some(count) = done {
            self.waiting.remove(&ctx.id);
            return Ok(count);
        }
        if fcntl_flags as usize & O_NONBLOCK == 0 && self.waiting.insert(ctx.id, raw).is_none() {
            if !raw {
                // Whoever asks for a line is not busy: what came before is over.
                self.interrupted = false;
                let mut out = Vec::new();
                self.terminal.begin(&mut out);
                self.screen(&out);
            }
            // Something may have been typed before anybody read.
            self.work();
            if !raw && let Some(count) = self.read_line(buf) {
                self.waiting.remove(&ctx.id);
                return Ok(count);
            }
        }
        Err(Error::new(EWOULDBLOCK))
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        _offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match self.handles.get_mut(&id) {
            Some(Handle::Lines | Handle::Raw) => self.show_output(buf),
            Some(Handle::Keyboard) => {
                buf.iter().for_each(|byte| self.key(*byte));
                self.work();
            }
            Some(Handle::Foreground(foreground)) => {
                let (pids, rest) = buf.as_chunks::<{ size_of::<usize>() }>();
                if !rest.is_empty() || pids.len() > MAX_FOREGROUND {
                    return Err(Error::new(EINVAL));
                }
                let pids = pids
                    .iter()
                    .map(|bytes| u32::try_from(usize::from_ne_bytes(*bytes)));
                let pids: core::result::Result<Vec<u32>, _> = pids.collect();
                *foreground = pids.map_err(|_| Error::new(EINVAL))?;
                foreground.retain(|pid| *pid != 0);
                if self.interrupted {
                    self.interrupt();
                }
            }
            _ => return Err(Error::new(EBADF)),
        }
        Ok(buf.len())
    }

    fn fcntl(&mut self, id: usize, _cmd: usize, _arg: usize, _ctx: &CallerCtx) -> Result<usize> {
        self.handles.get(&id).map(|_| 0).ok_or(Error::new(EBADF))
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        let readable = match self.handles.get(&id) {
            Some(Handle::Lines) => !self.lines.is_empty(),
            Some(Handle::Raw) => !self.typed.is_empty(),
            _ => false,
        };
        let mut ready = EventFlags::EVENT_WRITE;
        if readable {
            ready |= EventFlags::EVENT_READ;
        }
        Ok(ready & flags)
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path: &[u8] = match self.handles.get(&id) {
            Some(Handle::Root | Handle::Lines) => b"/scheme/console",
            Some(Handle::Raw) => b"/scheme/console/raw",
            Some(Handle::Foreground(_)) => b"/scheme/console/pgrp",
            Some(Handle::Keyboard) => b"/scheme/console/keyboard",
            None => return Err(Error::new(EBADF)),
        };
        if buf.len() < path.len() {
            return Err(Error::new(ENAMETOOLONG));
        }
        buf[..path.len()].copy_from_slice(path);
        Ok(path.len())
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        self.handles.get(&id).ok_or(Error::new(EBADF))?;
        *stat = Stat {
            st_mode: MODE_CHR | 0o620,
            st_nlink: 1,
            ..Stat::default()
        };
        Ok(())
    }

    fn on_close(&mut self, id: usize) {
        self.handles.remove(&id);
    }
}
