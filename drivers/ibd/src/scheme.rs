//! The scheme `infiniband` (docs/infiniband.md): paths, descriptors, requests.
//!
//! ```text
//! /scheme/infiniband/uverbs0      a context for each open: commands by `call`, or by `write`
//! /scheme/infiniband/umad0        management datagrams
//! /scheme/infiniband/issm0        the bit of a subnet manager, while it is open
//! /scheme/infiniband/class/…      the class tree
//! /scheme/infiniband/contexts …   tables
//! ```

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use client_memory::borrow_thread::Orders;
use libredox::Fd;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, Id, OpenResult, SendFdRequest, Socket};
use scheme::{Changes, Handles, NO_ID, SchemeDaemon, list_directory, read_at, tree};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{
    EACCES, EAGAIN, EBADF, ECANCELED, EFAULT, EINVAL, EISDIR, ENOENT, ENOTDIR, ENOTTY, EOPNOTSUPP,
    Error, Result,
};
use syscall::flag::{
    EventFlags, FobtainFdFlags, MODE_CHR, O_ACCMODE, O_NONBLOCK, O_RDONLY, O_WRONLY,
};
use verbs_abi::call;
use verbs_abi::frame::Frame;

use crate::SCHEME;
use crate::context::Owner;
use crate::device::{ContextId, Device};
use crate::error::fail;
use crate::events::SharedQueue;
use crate::files::{self, Found, Viewer};
use crate::limits::{Kind, files_for};
use crate::mad::{ISSM, UMAD};
use crate::pages::Borrowings;

/// The argument of `dup` that makes a completion channel of a context.
const NEW_CHANNEL: &str = "channel";
/// Name of the file whose open makes a context.
const UVERBS: &str = "uverbs0";
/// All files of the root that are devices.
const DEVICES: [&str; 3] = [ISSM, UMAD, UVERBS];

struct Handle {
    /// The user whose limit it counts for.
    uid: u32,
    /// Number of files that it counts as.
    files: u64,
    kind: What,
}

enum What {
    /// The directory with this path.
    Directory(String),
    /// A text file by its index, its content, and whether root opened it to write (only `limits`).
    Text(usize, String, bool),
    /// A context, and the answer to the last command that was written to it.
    Context(ContextId, Vec<u8>),
    /// A queue of events: the asynchronous events of a context, or its channel with this number.
    Events(SharedQueue, ContextId, Option<u32>),
    /// An open `umad0`, by its number in the node.
    Mads(u64),
    /// The open `issm0`.
    Manager,
    /// A path that was opened with `O_STAT` only.
    Name(String, Found),
}

/// The scheme: its device, and its open handles.
pub struct InfinibandScheme {
    device: Device,
    handles: Handles<Handle>,
    woken: BTreeSet<usize>,
    borrowings: Borrowings,
    /// The socket from which descriptors that programs send are taken.
    socket: Option<Rc<Socket>>,
    /// The time in nanoseconds, by a clock that only goes forward.
    now: fn() -> u64,
}

impl InfinibandScheme {
    /// The scheme of this device. `now` gives nanoseconds of a clock that only goes forward.
    pub fn new(device: Device, now: fn() -> u64) -> Self {
        Self {
            device,
            handles: Handles::default(),
            woken: BTreeSet::new(),
            borrowings: Borrowings::default(),
            socket: None,
            now,
        }
    }

    /// The device, for changes from outside the scheme.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Sets the thread that borrows pages, and the socket from which programs' address spaces are
    /// taken.
    pub fn borrow_by(&mut self, orders: Orders<u64>, socket: Rc<Socket>) {
        self.borrowings.start(orders);
        self.socket = Some(socket);
    }

    /// Takes the results of borrowings that the thread has ended.
    pub fn take_borrowed(&mut self) {
        self.borrowings.take_ended(&mut self.device.shared.accounts);
    }

    /// Executes a command that came by a descriptor of a context. A command that registers memory
    /// waits for its pages first.
    fn execute(
        &mut self,
        (id, uid, request): (usize, u32, Id),
        bytes: &[u8],
        is_exact: bool,
    ) -> Result<(Vec<u8>, Result<()>)> {
        let context = self.context(id)?;
        let wanted = self.device.wanted_pages(context, bytes, is_exact);
        let accounts = &mut self.device.shared.accounts;
        let pages = self
            .borrowings
            .pages(accounts, (id, uid, request), wanted)?;
        if let Ok(context) = self.device.context_mut(context) {
            context.pages = pages;
        }
        let outcome = self.device.execute(context, bytes, is_exact, (self.now)());
        self.note_woken();
        Ok(outcome)
    }

    fn add(&mut self, uid: u32, kind: What) -> Result<OpenResult> {
        let files = match &kind {
            What::Context(..) => 0,
            What::Text(_, text, _) => files_for(text),
            _ => 1,
        };
        let accounts = &mut self.device.shared.accounts;
        match &kind {
            // Root can open `limits` even at its own limit, to raise it.
            What::Text(index, ..) if uid == 0 && files::path(*index) == "limits" => {
                accounts.charge_anyway(uid, Kind::Files, files);
            }
            _ => accounts.charge(uid, Kind::Files, files)?,
        }
        let is_positioned = matches!(kind, What::Text(..));
        let handle = Handle { uid, files, kind };
        Ok(if is_positioned {
            self.handles.open_positioned(handle)
        } else {
            self.handles.open(handle)
        })
    }

    /// Opens a text file.
    fn open_text(&mut self, index: usize, flags: usize, viewer: Viewer) -> Result<OpenResult> {
        let writes = flags & O_ACCMODE & !O_RDONLY != 0;
        let may_write = files::path(index) == "limits" && viewer.uid == 0;
        if writes && !may_write {
            return fail(EACCES);
        }
        let text = files::text(index, &self.device, viewer);
        self.add(viewer.uid, What::Text(index, text, writes))
    }

    /// Opens `umad0`.
    fn open_mads(&mut self, owner: Owner) -> Result<OpenResult> {
        if owner.uid != 0 {
            return fail(EACCES);
        }
        let number = self.device.mads.open(owner)?;
        let opened = self.add(owner.uid, What::Mads(number));
        match &opened {
            Ok(OpenResult::ThisScheme { number: handle, .. }) => {
                self.device.mads.set_handle(number, *handle);
            }
            _ => self.device.mads.close(number),
        }
        opened
    }

    /// Opens `issm0`.
    fn open_manager(&mut self, owner: Owner, request: Id, waits: bool) -> Result<OpenResult> {
        if owner.uid != 0 {
            return fail(EACCES);
        }
        self.device.mads.take_sm(request, waits)?;
        let opened = self.add(owner.uid, What::Manager);
        if opened.is_err() {
            self.device.mads.release_sm();
        }
        opened
    }

    /// Returns the context of a descriptor of `uverbs0`.
    fn context(&self, id: usize) -> Result<ContextId> {
        match self.handles.get(id)?.kind {
            What::Context(context, _) => Ok(context),
            _ => fail(ENOTTY),
        }
    }

    /// Returns the queue of events that `dup` of a context with this name opens.
    fn queue(&mut self, context: ContextId, name: &str) -> Result<(SharedQueue, Option<u32>)> {
        match name {
            "async" => {
                let context = self.device.context(context)?;
                match context.is_begun {
                    true => Ok((SharedQueue::clone(&context.events), None)),
                    false => fail(EINVAL),
                }
            }
            NEW_CHANNEL => {
                let number = self.device.add_channel(context)?;
                let channel = self.device.context(context)?.channel(number).cloned();
                Ok((channel.ok_or(Error::new(ENOENT))?, Some(number)))
            }
            name => {
                let number = name.strip_prefix("channel/").ok_or(Error::new(EINVAL))?;
                let number: u32 = number.parse().map_err(|_| Error::new(EINVAL))?;
                let channel = self.device.context(context)?.channel(number).cloned();
                Ok((channel.ok_or(Error::new(ENOENT))?, Some(number)))
            }
        }
    }

    /// Executes a command that was written. Returns the length of the command.
    fn write_command(
        &mut self,
        id: usize,
        bytes: &[u8],
        flags: usize,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let uid = self.handles.get(id)?.uid;
        if ctx.uid != NO_ID && ctx.uid != uid {
            return fail(EACCES);
        }
        // The daemon cannot store into the program: the answer is for the next `read`.
        let frame = Frame::read(bytes, true);
        let wants = frame.is_ok_and(|frame| frame.room() > 0 && frame.response() != 0);
        if wants {
            return fail(EFAULT);
        }
        let context = self.context(id)?;
        let waits = self.borrowings.has_space(id)
            && self.device.wanted_pages(context, bytes, true).is_some();
        if waits && flags & O_NONBLOCK != 0 {
            return fail(EAGAIN);
        }
        let (new, result) = self.execute((id, uid, ctx.id), bytes, true)?;
        if let What::Context(_, answer) = &mut self.handles.get_mut(id)?.kind {
            *answer = new;
        }
        result.map(|()| bytes.len())
    }

    /// Notes the handles that have got events.
    fn note_woken(&mut self) {
        self.woken.extend(self.device.take_woken());
    }
}

impl SchemeSync for InfinibandScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.handles.add(Handle {
            uid: NO_ID,
            files: 0,
            kind: What::Directory(String::new()),
        }))
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        let What::Directory(directory) = &self.handles.get(dir)?.kind else {
            return fail(ENOTDIR);
        };
        let path = path.trim_matches('/');
        let path = match (directory.as_str(), path) {
            ("", path) => String::from(path),
            (directory, "") => String::from(directory),
            (directory, path) => format!("{directory}/{path}"),
        };
        let viewer = Viewer { uid: ctx.uid };
        let is_device = DEVICES.contains(&path.as_str());
        let found = match files::find(&path) {
            _ if is_device => Found::Text(usize::MAX),
            Some(found) => found,
            None if is_below_file(&path) => return fail(ENOTDIR),
            None => return fail(ENOENT),
        };
        let is_directory = found == Found::Directory;
        if tree::check_open(is_directory, flags)? {
            return self.add(viewer.uid, What::Name(path, found));
        }
        if is_directory {
            return match flags & O_ACCMODE & O_WRONLY {
                0 => self.add(viewer.uid, What::Directory(path)),
                _ => fail(EISDIR),
            };
        }
        let owner = Owner {
            pid: ctx.pid,
            uid: ctx.uid,
        };
        match found {
            Found::Text(index) if !is_device => self.open_text(index, flags, viewer),
            _ if path == UMAD => self.open_mads(owner),
            _ if path == ISSM => self.open_manager(owner, ctx.id, flags & O_NONBLOCK == 0),
            _ => {
                let context = self.device.open(owner)?;
                self.add(viewer.uid, What::Context(context, Vec::new()))
            }
        }
    }

    fn dup(&mut self, id: usize, name: &[u8], ctx: &CallerCtx) -> Result<OpenResult> {
        let context = match self.context(id) {
            Err(Error { errno: ENOTTY }) => return fail(EOPNOTSUPP),
            context => context?,
        };
        let name = core::str::from_utf8(name).map_err(|_| Error::new(EINVAL))?;
        let (queue, number) = self.queue(context, name)?;
        let what = What::Events(SharedQueue::clone(&queue), context, number);
        let opened = self.add(ctx.uid, what);
        let mut events = queue.borrow_mut();
        match (&opened, number) {
            (Ok(OpenResult::ThisScheme { number, .. }), _) => {
                events.descriptors.push(*number);
                events.is_abandoned = false;
            }
            // The channel was made for this descriptor.
            (Err(_), Some(number)) if name == NEW_CHANNEL => {
                drop(events);
                self.device.abandon_channel(context, number);
            }
            _ => {}
        }
        opened
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match &mut self.handles.get_mut(id)?.kind {
            What::Directory(_) => fail(EISDIR),
            What::Text(_, text, _) => Ok(read_at(text.as_bytes(), buf, offset)),
            What::Context(_, answer) => {
                let count = read_at(answer, buf, 0);
                answer.drain(..count);
                Ok(count)
            }
            What::Events(queue, ..) => queue.borrow_mut().read(buf),
            What::Mads(number) => self.device.mads.read(*number, buf),
            What::Manager => fail(EINVAL),
            What::Name(..) => fail(EBADF),
        }
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        _offset: u64,
        flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let now = (self.now)();
        let is_context = matches!(self.handles.get(id)?.kind, What::Context(..));
        if is_context {
            return self.write_command(id, buf, flags as usize, ctx);
        }
        let handle = self.handles.get_mut(id)?;
        match &mut handle.kind {
            What::Directory(_) => fail(EISDIR),
            What::Text(_, _, true) => {
                let text = core::str::from_utf8(buf).map_err(|_| Error::new(EINVAL))?;
                self.device.shared.accounts.set(text)?;
                Ok(buf.len())
            }
            What::Mads(number) => {
                let written = self.device.mads.write(*number, buf, now);
                self.device.pass_mad_events();
                self.note_woken();
                written
            }
            What::Events(..) | What::Manager => fail(EINVAL),
            What::Text(..) | What::Name(..) | What::Context(..) => fail(EBADF),
        }
    }

    fn call(
        &mut self,
        id: usize,
        payload: &mut [u8],
        metadata: &[u64],
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let operation = metadata.first().copied().unwrap_or(0);
        if let What::Mads(number) = self.handles.get(id)?.kind {
            let done = self.device.mads.control(number, operation, payload);
            return done.map(|()| 0);
        }
        if let What::Events(.., Some(number)) = self.handles.get(id)?.kind {
            return match operation {
                call::CHANNEL_NUMBER => Ok(number as usize),
                _ => fail(EINVAL),
            };
        }
        let context = self.context(id)?;
        if operation != call::EXECUTE {
            return self.device.report(context, operation, payload);
        }
        // Room beyond the payload could not be filled after the command was executed.
        let frame = Frame::read(payload, false);
        if frame.is_ok_and(|frame| frame.room() > payload.len()) {
            return fail(EFAULT);
        }
        // A call does not say which user makes it.
        let uid = self.device.context(context)?.owner.uid;
        let (answer, result) = self.execute((id, uid, ctx.id), payload, false)?;
        let place = payload.get_mut(..answer.len()).ok_or(Error::new(EFAULT))?;
        place.copy_from_slice(&answer);
        result.map(|()| answer.len())
    }

    fn on_sendfd(&mut self, request: &SendFdRequest) -> Result<usize> {
        let socket = self.socket.as_ref().ok_or(Error::new(EOPNOTSUPP))?;
        // Takes all descriptors, even those that will be refused. If they were not taken, this
        // task would close them, and it must not be the one that releases an address space.
        let mut slots = vec![usize::MAX; request.num_fds()];
        request.obtain_fd(socket, FobtainFdFlags::UPPER_TBL, &mut slots)?;
        let word = request.metadata().first().copied().unwrap_or(0);
        let is_for_context = word == call::SEND_SPACE && self.context(request.id()).is_ok();
        if let ([slot], true) = (&slots[..], is_for_context) {
            self.borrowings.put_space(request.id(), Fd::new(*slot));
            return Ok(0);
        }
        for slot in slots {
            self.borrowings.release(Fd::new(slot));
        }
        fail(EINVAL)
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        let ready = match &self.handles.get(id)?.kind {
            What::Events(queue, ..) => {
                let (is_ready, _) = queue.borrow().readiness();
                if is_ready {
                    EventFlags::EVENT_READ
                } else {
                    EventFlags::empty()
                }
            }
            What::Mads(number) => self.device.mads.readiness(*number),
            _ => EventFlags::EVENT_READ | EventFlags::EVENT_WRITE,
        };
        Ok(flags & ready)
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        match &self.handles.get(id)?.kind {
            What::Text(_, text, _) => Ok(text.len() as u64),
            _ => Ok(0),
        }
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        *stat = Stat {
            st_nlink: 1,
            ..Stat::default()
        };
        match &self.handles.get(id)?.kind {
            What::Directory(_) | What::Name(_, Found::Directory) => tree::stat_directory(stat),
            What::Text(_, text, _) => tree::stat_file(stat, text.len()),
            What::Name(path, Found::Text(_)) if !DEVICES.contains(&path.as_str()) => {
                tree::stat_file(stat, 0);
            }
            // The files for management datagrams are root's.
            What::Mads(_) | What::Manager => stat.st_mode = MODE_CHR | 0o600,
            What::Name(path, _) if path != UVERBS => stat.st_mode = MODE_CHR | 0o600,
            _ => stat.st_mode = MODE_CHR | 0o666,
        }
        Ok(())
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        let What::Directory(path) = &self.handles.get(id)?.kind else {
            return fail(ENOTDIR);
        };
        let mut entries: Vec<(&str, DirentKind)> = files::list(path)
            .into_iter()
            .map(|(name, is_directory)| match is_directory {
                true => (name, DirentKind::Directory),
                false => (name, DirentKind::Regular),
            })
            .collect();
        if path.is_empty() {
            entries.extend(DEVICES.map(|name| (name, DirentKind::CharDev)));
        }
        list_directory(buf, opaque, entries)
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let name = match &self.handles.get(id)?.kind {
            What::Directory(path) | What::Name(path, _) => path.clone(),
            What::Text(index, ..) => String::from(files::path(*index)),
            What::Context(..) => String::from(UVERBS),
            What::Mads(_) => String::from(UMAD),
            What::Manager => String::from(ISSM),
            What::Events(.., None) => format!("{UVERBS}/async"),
            What::Events(.., Some(number)) => format!("{UVERBS}/channel/{number}"),
        };
        let path = format!("/scheme/{SCHEME}/{name}");
        Ok(read_at(path.as_bytes(), buf, 0))
    }

    fn on_close(&mut self, id: usize) {
        let Some(handle) = self.handles.remove(id) else {
            return;
        };
        match handle.kind {
            What::Context(context, _) => {
                let accounts = &mut self.device.shared.accounts;
                self.borrowings.close(accounts, id);
                self.woken.extend(self.device.close(context));
                return;
            }
            What::Events(queue, context, number) => {
                let mut events = queue.borrow_mut();
                events.descriptors.retain(|of| *of != id);
                let is_last = events.descriptors.is_empty();
                drop(events);
                if let Some(number) = number.filter(|_| is_last) {
                    self.device.abandon_channel(context, number);
                }
            }
            What::Mads(number) => self.device.mads.close(number),
            What::Manager => self.device.mads.release_sm(),
            _ => {}
        }
        if handle.uid != NO_ID {
            let accounts = &mut self.device.shared.accounts;
            accounts.release(handle.uid, Kind::Files, handle.files);
        }
    }
}

/// Whether a file precedes a slash of the path.
fn is_below_file(path: &str) -> bool {
    let cuts = path.match_indices('/');
    cuts.map(|(at, _)| &path[..at]).any(|before| {
        DEVICES.contains(&before) || matches!(files::find(before), Some(Found::Text(_)))
    })
}

impl SchemeDaemon for InfinibandScheme {
    fn changes(&mut self, changes: &mut Changes) {
        self.note_woken();
        let (handles, request) = self.device.mads.take_woken();
        for id in core::mem::take(&mut self.woken).into_iter().chain(handles) {
            changes.handle(id);
        }
        for request in self.borrowings.take_ready().into_iter().chain(request) {
            changes.request(request);
        }
    }

    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        self.device.mads.give_up_sm(request);
        let accounts = &mut self.device.shared.accounts;
        self.borrowings.give_up(accounts, request);
        fail(ECANCELED)
    }
}
