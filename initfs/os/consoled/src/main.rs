//! `consoled`: the scheme `console` on the debug port and the screen.
//!
//! Reading gives one edited line at a time. `dup(fd, …)` makes other handles:
//!
//! - `raw`: reads give bytes as they come, without echo.
//! - `complete`: reads give lines as the first handle does, and for the tab key the text before
//!   the cursor and a tab; text that is written is inserted at the cursor.
//! - `winsize`: reads give the terminal's rows and columns, a `u16` each.
//! - `pgrp`: takes process ids (one `usize` each, the whole list in one write, which may be
//!   empty). The interrupt key ^C sends SIGINT to the processes of all such handles, and closing a
//!   handle drops its list, so that nested shells need not know of each other. An interrupt that
//!   finds no process and no reader is kept: the next process in such a list gets it at once, or a
//!   read of such a handle takes the interrupt (one byte; 0 bytes if there was none). A user
//!   other than root may list own processes only (`EPERM`).
//! - `keyboard`: what root writes counts as typed; drivers of keyboards use it.
//!
//! A line is edited while a program waits for it: by a read, by an event queue that watches the
//! handle, or by reads that do not wait, until another reader waits.
//!
//! Written text passes through, with line ends for a terminal. ^D on an empty line is the end of
//! the input for one read. Lines of the log are shown above the line that is edited. While a
//! program reads bytes the screen is that program's, and they are not shown.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::offset_of;

use consoled::discipline::{Discipline, Reader};
use hal::event::Queue;
use libredox::Fd;
use libredox::protocol::ProcMeta;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, Id, OpenResult};
use runtime::{Error, Result, env, process};
use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};
use scheme::{Changes, Handles, SchemeDaemon, Status, read_at};
use syscall::data::Stat;
use syscall::error::{
    EAGAIN, EBADF, ECANCELED, EINTR, EINVAL, ENAMETOOLONG, ENFILE, ENOENT, ENOTDIR, EPERM,
    EWOULDBLOCK,
};
use syscall::flag::{EventFlags, MODE_CHR, O_DIRECTORY, O_NONBLOCK};

mod screen_port;

use screen_port::{SHOWN_AT_ONCE, ScreenPort};

runtime::main!(main);

/// The capability to look up the user of a process.
const CREDENTIALS: &str = "/scheme/proc/proc-creds-capability";
/// Most open handles, beyond which users other than root get no more.
const MAX_HANDLES: usize = 4096;
/// Most processes that one interrupt ends.
const MAX_FOREGROUND: usize = 64;
/// Bytes of one write that are shown; the writer has to send the rest again. What is shown is
/// copied, and a program may write as much as it has memory.
const WRITTEN_AT_ONCE: usize = 64 * 1024;
/// Most bytes that are inserted into a line by one write; no line is longer.
const INSERTED_AT_ONCE: usize = 16 * 1024;
/// Pieces of the log that are shown before others get their turn: programs may write lines as fast
/// as they are read here.
const LOG_PIECES: usize = 16;
/// The log's file of lines for the console.
const LOG: &str = "/scheme/log/console";
const SIGINT: u32 = 2;

fn main() -> i32 {
    let purpose = "edits lines: the scheme `console`";
    if let Some(status) = runtime::env::answer_people("", purpose, 0) {
        return status;
    }
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
    Log,
    Screen,
}

fn run() -> Result<()> {
    let flags = libredox::flag::O_RDWR | libredox::flag::O_NONBLOCK | libredox::flag::O_CLOEXEC;
    let port = Fd::open("/scheme/debug", flags, 0)?;
    let mut queue = Queue::new()?;
    // Without the file the log shows its lines itself.
    let log = Fd::open(
        LOG,
        libredox::flag::O_RDONLY | libredox::flag::O_NONBLOCK,
        0,
    )
    .ok();
    let credentials = Fd::open(CREDENTIALS, libredox::flag::O_CLOEXEC, 0)?;
    let mut console = Console::new(port, log, ScreenPort::open(), credentials);
    let notify = env::var(NOTIFY_VARIABLE);
    let mut requests = daemon::start(
        "console",
        Mode::EventDriven,
        notify.as_deref(),
        &mut console,
    )?;
    queue.subscribe(requests.fd(), EventFlags::EVENT_READ, Source::Requests)?;
    queue.subscribe(console.port.raw(), EventFlags::EVENT_READ, Source::Keyboard)?;
    if let Some(log) = &console.log {
        queue.subscribe(log.raw(), EventFlags::EVENT_READ, Source::Log)?;
    }
    if let Some(screen) = &console.screen {
        queue.subscribe(screen.port.raw(), EventFlags::EVENT_READ, Source::Screen)?;
    }
    daemon::seal()?;

    let mut ready = Vec::new();
    loop {
        // Events may be merged, or concern data that was read already, so all sources are checked
        // each time.
        console.take_input();
        console.take_log();
        console.refresh();
        loop {
            match requests.poll(&mut console)? {
                Status::Closed => return Ok(()),
                Status::More => console.take_input(),
                Status::Idle => break,
            }
        }
        if !console.has_more_log {
            queue.wait(None, &mut ready)?;
        }
    }
}

enum Handle {
    Root,
    /// Reads lines or bytes.
    Input(Reader),
    /// Takes process ids of the foreground, from this user.
    Foreground(Vec<u32>, u32),
    /// Takes keys of a keyboard.
    Keyboard,
    /// Gives the terminal's size.
    Size,
}

struct Console {
    port: Fd,
    screen: Option<ScreenPort>,
    log: Option<Fd>,
    /// See [`CREDENTIALS`].
    credentials: Fd,
    /// Whether lines of the log may be there that were not read yet.
    has_more_log: bool,
    discipline: Discipline,
    handles: Handles<Handle>,
    /// Reads that wait, by request.
    waiting: BTreeMap<Id, Reader>,
    /// Handles that event queues watch for input.
    watched: BTreeMap<usize, Reader>,
    /// The handle of the last read that did not wait, until another reader waits.
    peeked: Option<(usize, Reader)>,
}

impl Console {
    fn new(port: Fd, log: Option<Fd>, screen: Option<ScreenPort>, credentials: Fd) -> Self {
        Console {
            port,
            screen,
            log,
            credentials,
            has_more_log: false,
            discipline: Discipline::default(),
            handles: Handles::default(),
            waiting: BTreeMap::new(),
            watched: BTreeMap::new(),
            peeked: None,
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(SHOWN_AT_ONCE) {
            // A console that accepts no output cannot show the error either.
            let _ = runtime::io::write_all(self.port.raw(), bytes);
            self.refresh();
        }
    }

    /// Shows new output on the screen.
    fn refresh(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.refresh();
        }
    }

    /// Reads bytes from the keyboard.
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

    /// Shows new lines of the log, unless a program that reads bytes has the screen.
    fn take_log(&mut self) {
        self.has_more_log = false;
        let is_raw = |handle: &Handle| matches!(handle, Handle::Input(Reader::Raw));
        if self.handles.values().any(is_raw) {
            return;
        }
        for _ in 0..LOG_PIECES {
            let Some(log) = &self.log else { return };
            let mut block = [0; 4096];
            // Nothing more is there, or the log has ended.
            let Ok(count @ 1..) = log.read(&mut block) else {
                return;
            };
            let mut out = Vec::new();
            self.discipline.terminal().log(&block[..count], &mut out);
            self.show(&out);
        }
        self.has_more_log = true;
    }

    fn key(&mut self, byte: u8) {
        let mut out = Vec::new();
        let foreground = self.has_foreground();
        let interrupt = self.discipline.key(byte, foreground, &mut out);
        self.show(&out);
        if interrupt {
            self.interrupt();
        }
    }

    /// Checks whether a caller may get another handle.
    fn check_room(&self, ctx: &CallerCtx) -> Result<()> {
        match ctx.uid != 0 && self.handles.len() >= MAX_HANDLES {
            true => Err(Error::new(ENFILE)),
            false => Ok(()),
        }
    }

    fn has_foreground(&self) -> bool {
        self.handles
            .values()
            .any(|handle| matches!(handle, Handle::Foreground(pids, _) if !pids.is_empty()))
    }

    /// Interrupts the foreground processes. They stay there: they may live on.
    fn interrupt(&mut self) {
        for pid in self.foreground() {
            match process::kill(pid, SIGINT) {
                Ok(()) => {
                    self.discipline.take_interrupt();
                }
                // It ended a moment ago: the interrupt is kept for what follows it.
                Err(error) if error.errno == syscall::ESRCH => {}
                Err(error) => log_error("interrupting a process", error),
            }
        }
    }

    /// All foreground processes.
    fn foreground(&self) -> Vec<u32> {
        let lists = self.handles.values().map(|handle| match handle {
            Handle::Foreground(pids, _) => pids.as_slice(),
            _ => &[],
        });
        lists.flatten().copied().collect()
    }

    fn show_output(&mut self, bytes: &[u8]) {
        let mut out = Vec::with_capacity(bytes.len() + 32);
        self.discipline.terminal().output(bytes, &mut out);
        self.show(&out);
    }

    /// Passes keys on to waiting readers.
    fn work(&mut self) {
        let mut out = Vec::new();
        self.discipline.work(&mut out);
        self.show(&out);
    }

    /// Notes that a reader begins to wait. Bytes may have been typed before.
    fn begin_wait(&mut self, reader: Reader) {
        self.end_peek();
        let mut out = Vec::new();
        self.discipline.begin(reader, &mut out);
        self.show(&out);
        self.work();
    }

    /// Ends the wait of a read that is answered.
    fn end_wait(&mut self, request: Id, given_up: bool) {
        let reader = self.waiting.remove(&request);
        self.forget_reader(reader, given_up);
    }

    /// Notes that a program looks for input without waiting, and will do so again.
    fn peek(&mut self, id: usize, reader: Reader) {
        if self.peeked != Some((id, reader)) {
            self.begin_wait(reader);
            self.peeked = Some((id, reader));
        }
    }

    fn end_peek(&mut self) {
        let peeked = self.peeked.take();
        self.forget_reader(peeked.map(|(_, reader)| reader), true);
    }

    /// Notes that an event queue watches a handle for input.
    fn watch(&mut self, id: usize, reader: Reader) {
        if self.watched.insert(id, reader).is_none() {
            self.begin_wait(reader);
        }
    }

    /// Reverts [`watch`](Self::watch).
    fn unwatch(&mut self, id: usize) {
        let reader = self.watched.remove(&id);
        self.forget_reader(reader, true);
    }

    fn forget_reader(&mut self, reader: Option<Reader>, given_up: bool) {
        if let Some(reader) = reader {
            let mut out = Vec::new();
            self.discipline.end(reader, given_up, &mut out);
            self.show(&out);
        }
    }
}

/// Whether a process is this user's, who may thus end it. One that has ended is nobody's.
fn belongs_to(credentials: &Fd, pid: u32, user: u32) -> bool {
    let mut bytes = [0; size_of::<ProcMeta>()];
    let asked = libredox::call::get_proc_credentials(credentials.raw(), pid as usize, &mut bytes);
    let (words, _) = bytes.as_chunks::<4>();
    let word = |at: usize| words.get(at).map(|word| u32::from_ne_bytes(*word));
    let [real, saved] = [offset_of!(ProcMeta, ruid), offset_of!(ProcMeta, suid)];
    asked.is_ok() && [real, saved].iter().any(|at| word(at / 4) == Some(user))
}

fn log_error(what: &str, error: Error) {
    runtime::eprintln!("consoled: {what} failed: {error}");
}

impl SchemeDaemon for Console {
    fn changes(&mut self, changes: &mut Changes) {
        if self.discipline.take_changed() {
            changes.everything();
            self.handles.numbers().for_each(|id| changes.handle(id));
        }
    }

    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        self.end_wait(request, true);
        Err(Error::new(ECANCELED))
    }
}

impl SchemeSync for Console {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.handles.add(Handle::Root))
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        if !matches!(self.handles.get(dir), Ok(Handle::Root)) {
            return Err(Error::new(EBADF));
        }
        self.check_room(ctx)?;
        if !path.trim_matches('/').is_empty() {
            return Err(Error::new(ENOENT));
        }
        if flags & O_DIRECTORY != 0 {
            return Err(Error::new(ENOTDIR));
        }
        Ok(self.handles.open(Handle::Input(Reader::Line)))
    }

    fn dup(&mut self, id: usize, buf: &[u8], ctx: &CallerCtx) -> Result<OpenResult> {
        if !matches!(self.handles.get(id)?, Handle::Input(_)) {
            return Err(Error::new(EBADF));
        }
        self.check_room(ctx)?;
        let handle = match buf {
            b"" => Handle::Input(Reader::Line),
            b"raw" => {
                self.end_peek();
                Handle::Input(Reader::Raw)
            }
            b"complete" => Handle::Input(Reader::Completer),
            b"winsize" => Handle::Size,
            b"pgrp" => Handle::Foreground(Vec::new(), ctx.uid),
            b"keyboard" if ctx.uid != 0 => return Err(Error::new(EPERM)),
            b"keyboard" => Handle::Keyboard,
            _ => return Err(Error::new(EINVAL)),
        };
        Ok(self.handles.open(handle))
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        _offset: u64,
        fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let reader = match self.handles.get(id)? {
            Handle::Input(reader) => *reader,
            Handle::Foreground(..) => {
                return Ok(usize::from(self.discipline.take_interrupt()));
            }
            Handle::Size => {
                let (columns, rows) = self.discipline.terminal().size();
                let bytes = [rows.to_ne_bytes(), columns.to_ne_bytes()];
                return Ok(read_at(bytes.as_flattened(), buf, 0));
            }
            _ => return Err(Error::new(EBADF)),
        };
        if buf.is_empty() {
            return Ok(0);
        }
        if let Some(count) = self.discipline.read(reader, buf) {
            self.end_wait(ctx.id, false);
            return Ok(count);
        }
        if fcntl_flags as usize & O_NONBLOCK != 0 {
            self.peek(id, reader);
        } else if self.waiting.insert(ctx.id, reader).is_none() {
            self.begin_wait(reader);
        }
        match self.discipline.read(reader, buf) {
            Some(count) => {
                self.end_wait(ctx.id, false);
                Ok(count)
            }
            None => Err(Error::new(EWOULDBLOCK)),
        }
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        _offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match self.handles.get_mut(id)? {
            Handle::Input(Reader::Completer) => {
                if buf.len() > INSERTED_AT_ONCE {
                    return Err(Error::new(EINVAL));
                }
                // The text lies in the caller's memory, so only this copy is checked and used.
                let text = String::from_utf8(buf.into()).map_err(|_| Error::new(EINVAL))?;
                let mut out = Vec::new();
                self.discipline.terminal().insert(&text, &mut out);
                self.show(&out);
            }
            Handle::Input(_) => {
                let shown = &buf[..buf.len().min(WRITTEN_AT_ONCE)];
                self.show_output(shown);
                return Ok(shown.len());
            }
            Handle::Keyboard => {
                buf.iter().for_each(|byte| self.key(*byte));
                self.work();
            }
            Handle::Foreground(foreground, user) => {
                let (pids, rest) = buf.as_chunks::<{ size_of::<usize>() }>();
                if !rest.is_empty() || pids.len() > MAX_FOREGROUND {
                    return Err(Error::new(EINVAL));
                }
                let pids = pids
                    .iter()
                    .map(|bytes| u32::try_from(usize::from_ne_bytes(*bytes)));
                let pids: core::result::Result<Vec<u32>, _> = pids.collect();
                let mut pids = pids.map_err(|_| Error::new(EINVAL))?;
                pids.retain(|pid| *pid != 0);
                let user = *user;
                // This daemon may end all processes, but the user may not.
                if user != 0
                    && !pids
                        .iter()
                        .all(|pid| belongs_to(&self.credentials, *pid, user))
                {
                    return Err(Error::new(EPERM));
                }
                *foreground = pids;
                if self.discipline.interrupted() {
                    self.interrupt();
                }
            }
            _ => return Err(Error::new(EBADF)),
        }
        Ok(buf.len())
    }

    fn fcntl(&mut self, id: usize, _cmd: usize, _arg: usize, _ctx: &CallerCtx) -> Result<usize> {
        self.handles.get(id).map(|_| 0)
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        let mut readable = false;
        if let Ok(Handle::Input(reader)) = self.handles.get(id) {
            let reader = *reader;
            // The flags are those that all event queues want of the handle.
            match flags.contains(EventFlags::EVENT_READ) {
                true => self.watch(id, reader),
                false => self.unwatch(id),
            }
            readable = self.discipline.readable(reader);
        }
        let mut ready = EventFlags::EVENT_WRITE;
        if readable {
            ready |= EventFlags::EVENT_READ;
        }
        Ok(ready & flags)
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path: &[u8] = match self.handles.get(id)? {
            Handle::Root | Handle::Input(Reader::Line) => b"/scheme/console",
            Handle::Input(Reader::Raw) => b"/scheme/console/raw",
            Handle::Input(Reader::Completer) => b"/scheme/console/complete",
            Handle::Size => b"/scheme/console/winsize",
            Handle::Foreground(..) => b"/scheme/console/pgrp",
            Handle::Keyboard => b"/scheme/console/keyboard",
        };
        if buf.len() < path.len() {
            return Err(Error::new(ENAMETOOLONG));
        }
        buf[..path.len()].copy_from_slice(path);
        Ok(path.len())
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        self.handles.get(id)?;
        *stat = Stat {
            st_mode: MODE_CHR | 0o620,
            st_nlink: 1,
            ..Stat::default()
        };
        Ok(())
    }

    fn on_close(&mut self, id: usize) {
        self.unwatch(id);
        if self.peeked.is_some_and(|(of, _)| of == id) {
            self.end_peek();
        }
        let closed = self.handles.remove(id);
        match closed {
            Some(Handle::Input(Reader::Completer)) => self.discipline.forget_completer(),
            // The screen belongs to the shell again.
            Some(Handle::Input(Reader::Raw)) => self.take_log(),
            _ => {}
        }
    }
}
