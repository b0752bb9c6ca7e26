//! The log daemon: scheme `log`.
//!
//! The daemon splits written text into lines. Each line gets the time since the boot, is kept (the
//! newest [`KEPT_BYTES`]), and is copied to the console unless its level is too low. Reading gives
//! all lines that were kept when the file was opened (a user other than root gets ENFILE if their
//! open files hold [`MAX_HELD`]). A line that begins with a level (`ERROR`,
//! `WARN`, `INFO`, `DEBUG`, `TRACE`) has that level, any other counts as `INFO`. What is written
//! without a line end waits for the rest, as long as all of its user's is not too much
//! ([`MAX_UNFINISHED`]).
//!
//! Lines for the console go to the debug port until a reader opens `console`, which only root may,
//! and one reader at a time. From then on the reader gets them: it is the daemon that keeps them
//! apart from what is typed (`consoled`). The log never waits for it. Lines that it has not read
//! when it ends, when it falls behind, or when a program calls `fsync`, go to the debug port.
//!
//! `trace/<name>` is memory that root maps to record events, and reads when needed, also after the
//! writer's end. Opening it with `O_CREAT` begins a new trace, and keeps the former one as
//! `trace/<name>.old`.
#![no_std]
#![no_main]

extern crate alloc;

mod console;
mod lines;
mod traces;

use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use runtime::{Error, Result, env, fs};
use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};
use scheme::{Changes, Handles, SchemeDaemon, Shares, list_directory, read_at};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{EACCES, EBADF, EBUSY, EISDIR, ENFILE, ENODEV, ENOENT, ENOTDIR, EWOULDBLOCK};
use syscall::flag::{
    EventFlags, MODE_DIR, MODE_FILE, MapFlags, MunmapFlags, O_ACCMODE, O_CREAT, O_RDONLY, O_RDWR,
    O_STAT,
};
use syscall::schemev2::NewFdFlags;

use crate::console::Console;
use crate::lines::{Level, Lines};
use crate::traces::Traces;

runtime::main!(main);

/// Lines kept for readers, in bytes; the oldest go first.
const KEPT_BYTES: usize = 256 * 1024;
/// Most bytes of lines that the open files of each user other than root hold.
const MAX_HELD: usize = 8 << 20;
/// Most bytes of unfinished lines of each user other than root. With more, a line of that user's
/// ends where its writer has stopped.
const MAX_UNFINISHED: usize = 1 << 20;
/// Length of the pieces, in bytes, into which a longer line is cut.
const MAX_LINE: usize = 2048;
/// Most lines, and most bytes, that one request writes; the writer has to send the rest again. The
/// console may be slow, and others have to wait meanwhile.
const LINES_AT_ONCE: usize = 64;
const WRITTEN_AT_ONCE: usize = 16 << 10;

fn main() -> i32 {
    let purpose = "keeps the log: the scheme `log`, which start scripts need first";
    if let Some(status) = runtime::env::answer_people("", purpose, 0) {
        return status;
    }
    match run() {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("logd: cannot serve the scheme log: {error}");
            1
        }
    }
}

fn run() -> Result<()> {
    let console = fs::OpenOptions::new()
        .write(true)
        .open("/scheme/debug")
        .ok();
    let level = env::var("LOG").and_then(|level| Level::parse(&level));
    let mut scheme = LogScheme {
        lines: Lines::new(KEPT_BYTES),
        console: Console::new(console.map(|file| Fd::new(file.into_raw_fd()))),
        console_reader: None,
        console_level: level.unwrap_or(Level::Info),
        traces: Traces::new(),
        handles: Handles::default(),
        held: Shares::new(MAX_HELD),
        unfinished: Shares::new(MAX_UNFINISHED),
    };
    let notify = env::var(NOTIFY_VARIABLE);
    let mut requests = daemon::start("log", Mode::Blocking, notify.as_deref(), &mut scheme)?;
    daemon::seal()?;
    requests.run(&mut scheme)
}

enum Handle {
    Root,
    /// The lines for the console.
    Console,
    /// The directory of traces.
    Traces,
    /// The contents of a trace when it was opened, and its name if it may be mapped.
    Trace {
        name: String,
        snapshot: Vec<u8>,
        may_map: bool,
    },
    Open {
        /// The lines at the time of opening, for readers.
        snapshot: Vec<u8>,
        /// The beginning of a line whose end has not been written yet.
        partial: Vec<u8>,
        /// The user who has written last. The bytes of `partial` are theirs.
        writer: u32,
        /// The user who has opened the file. The bytes of `snapshot` are theirs.
        reader: u32,
    },
}

struct LogScheme {
    lines: Lines,
    console: Console,
    /// The handle that reads the lines for the console.
    console_reader: Option<usize>,
    console_level: Level,
    traces: Traces,
    handles: Handles<Handle>,
    /// Bytes of snapshots by user.
    held: Shares,
    /// Bytes of unfinished lines by user.
    unfinished: Shares,
}

impl LogScheme {
    /// Opens a path below `trace`. All of them are root's: traces show the programs of all users.
    fn open_trace(&mut self, name: &str, flags: usize, uid: u32) -> Result<Handle> {
        if uid != 0 {
            return Err(Error::new(EACCES));
        }
        if name.is_empty() {
            return Ok(Handle::Traces);
        }
        if flags & O_CREAT != 0 {
            self.traces.create(name)?;
        }
        Ok(Handle::Trace {
            snapshot: self.traces.read(name)?,
            name: name.into(),
            may_map: flags & O_ACCMODE == O_RDWR,
        })
    }

    /// Opens the lines for the console.
    fn open_console(&mut self, uid: u32) -> Result<OpenResult> {
        if uid != 0 {
            return Err(Error::new(EACCES));
        }
        if self.console_reader.is_some() {
            return Err(Error::new(EBUSY));
        }
        let number = self.handles.add(Handle::Console);
        self.console_reader = Some(number);
        self.console.begin_reading();
        Ok(OpenResult::ThisScheme {
            number,
            flags: NewFdFlags::empty(),
        })
    }

    fn line(&mut self, line: &[u8]) {
        let (text, level) = self.lines.push(line);
        if level <= self.console_level {
            self.console.show(text.as_bytes());
        }
    }
}

impl SchemeSync for LogScheme {
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
        if !matches!(self.handles.get(dir)?, Handle::Root) {
            return Err(Error::new(ENOTDIR));
        }
        if let Some(below) = path.strip_prefix("trace") {
            let name = match below.strip_prefix('/') {
                Some(name) => name,
                None if below.is_empty() => below,
                None => return Err(Error::new(ENOENT)),
            };
            let handle = self.open_trace(name, flags, ctx.uid)?;
            return Ok(self.handles.open_positioned(handle));
        }
        if path == "console" {
            return self.open_console(ctx.uid);
        }
        if !path.is_empty() {
            return Err(Error::new(ENOENT));
        }
        let readable = flags & O_RDONLY != 0 && flags & O_STAT == 0;
        let bytes = if readable { self.lines.bytes() } else { 0 };
        if !self.held.take(ctx.uid, bytes) {
            return Err(Error::new(ENFILE));
        }
        let snapshot = if readable {
            self.lines.text()
        } else {
            Vec::new()
        };
        Ok(self.handles.open_positioned(Handle::Open {
            snapshot,
            partial: Vec::new(),
            writer: ctx.uid,
            reader: ctx.uid,
        }))
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
            Handle::Root | Handle::Traces => Err(Error::new(EISDIR)),
            Handle::Console => match self.console.read(buf) {
                0 => Err(Error::new(EWOULDBLOCK)),
                count => Ok(count),
            },
            Handle::Open { snapshot, .. } | Handle::Trace { snapshot, .. } => {
                Ok(read_at(snapshot, buf, offset))
            }
        }
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        _offset: u64,
        _flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let Ok(Handle::Open {
            partial, writer, ..
        }) = self.handles.get_mut(id)
        else {
            return Err(Error::new(EBADF));
        };
        let mut pending = core::mem::take(partial);
        self.unfinished.give_back(*writer, pending.len());
        let (mut lines, mut written) = (0, 0);
        // The part ends with a line if one ends in it: another process may write to the file next.
        let part = &buf[..buf.len().min(WRITTEN_AT_ONCE)];
        let ends_in = part.iter().rposition(|&byte| byte == b'\n');
        let part = match ends_in {
            Some(last) if part.len() < buf.len() => &part[..=last],
            _ => part,
        };
        for &byte in part {
            if byte != b'\n' {
                pending.push(byte);
            }
            written += 1;
            if byte == b'\n' || pending.len() >= MAX_LINE {
                self.line(&pending);
                pending.clear();
                lines += 1;
            }
            if lines == LINES_AT_ONCE {
                break;
            }
        }
        if !self.unfinished.take(ctx.uid, pending.len()) {
            self.line(&pending);
            pending.clear();
        }
        // What is not counted must not stay.
        pending.shrink_to_fit();
        if let Ok(Handle::Open {
            partial, writer, ..
        }) = self.handles.get_mut(id)
        {
            (*partial, *writer) = (pending, ctx.uid);
        }
        Ok(written)
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        match self.handles.get(id)? {
            Handle::Root | Handle::Console | Handle::Traces => Ok(0),
            Handle::Open { snapshot, .. } | Handle::Trace { snapshot, .. } => {
                Ok(snapshot.len() as u64)
            }
        }
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, ctx: &CallerCtx) -> Result<()> {
        stat.st_size = self.fsize(id, ctx)?;
        stat.st_mode = match self.handles.get(id)? {
            Handle::Traces => MODE_DIR | 0o700,
            Handle::Trace { .. } | Handle::Console => MODE_FILE | 0o600,
            _ => MODE_FILE | 0o666,
        };
        Ok(())
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let below = match self.handles.get(id)? {
            Handle::Root | Handle::Open { .. } => ["", ""],
            Handle::Console => ["/console", ""],
            Handle::Traces => ["/trace", ""],
            Handle::Trace { name, .. } => ["/trace/", name],
        };
        let path = alloc::format!("/scheme/log{}{}", below[0], below[1]);
        Ok(read_at(path.as_bytes(), buf, 0))
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        match self.handles.get(id)? {
            Handle::Traces => {
                let entries = self.traces.names().map(|name| (name, DirentKind::Regular));
                list_directory(buf, opaque, entries)
            }
            _ => Err(Error::new(ENOTDIR)),
        }
    }

    fn mmap_prep(
        &mut self,
        id: usize,
        offset: u64,
        size: usize,
        _flags: MapFlags,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match self.handles.get(id)? {
            Handle::Trace {
                name,
                may_map: true,
                ..
            } => self.traces.map(name, offset, size),
            Handle::Trace { .. } => Err(Error::new(EACCES)),
            _ => Err(Error::new(ENODEV)),
        }
    }

    fn munmap(
        &mut self,
        _id: usize,
        _offset: u64,
        _size: usize,
        _flags: MunmapFlags,
        _ctx: &CallerCtx,
    ) -> Result<()> {
        // The memory of a trace stays.
        Ok(())
    }

    fn fsync(&mut self, id: usize, _ctx: &CallerCtx) -> Result<()> {
        self.handles.get(id)?;
        self.console.flush();
        Ok(())
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        match self.handles.get(id)? {
            Handle::Console if self.console.is_empty() => Ok(EventFlags::empty()),
            Handle::Open { .. } => Ok(flags & (EventFlags::EVENT_READ | EventFlags::EVENT_WRITE)),
            _ => Ok(flags & EventFlags::EVENT_READ),
        }
    }

    fn on_close(&mut self, id: usize) {
        if self.console_reader == Some(id) {
            self.console_reader = None;
            self.console.end_reading();
        }
        if let Some(Handle::Open {
            snapshot,
            partial,
            writer,
            reader,
        }) = self.handles.remove(id)
        {
            self.held.give_back(reader, snapshot.len());
            self.unfinished.give_back(writer, partial.len());
            if !partial.is_empty() {
                self.line(&partial);
            }
        }
    }
}

impl SchemeDaemon for LogScheme {
    fn changes(&mut self, changes: &mut Changes) {
        if let Some(reader) = self.console_reader
            && self.console.take_changed()
        {
            changes.handle(reader);
        }
    }
}
