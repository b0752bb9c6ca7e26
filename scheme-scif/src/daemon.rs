//! The scheme for the event loop of `scheme`: takes requests that redox-scheme has decoded and
//! returns answers. It only converts; [`Scif`] makes every decision.
//!
//! The memory of a client that is killed in the middle of a request stays until the request is
//! answered, and the task that drops the last reference to an address space tears it down. This
//! project's kernel does that by itself. On a kernel that leaves it to the daemon, requests with
//! whole-page buffers must not be kept for long.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use libredox::Fd;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, Id, OpenResult, SendFdRequest, Socket};
use scheme::{Changes, NO_ID, SchemeDaemon, list_directory};
use scif_core::CopyEngine;
use syscall::data::Stat;
use syscall::dirent::DirentBuf;
use syscall::error::{EINVAL, Error, Result};
use syscall::flag::{EventFlags, FobtainFdFlags, MapFlags, MunmapFlags};
use syscall::schemev2::NewFdFlags;

use crate::access::Caller;
use crate::handle::table::ROOT;
use crate::node_memory::NodeMemory;
use crate::scif::Scif;
use crate::scif::files::DirectoryEntry;

/// [`Scif`] behind the interface of a scheme daemon.
pub struct Daemon<M: NodeMemory, C> {
    scif: Scif<M, Id>,
    copier: C,
    /// The socket from which sent descriptors are received; `None` until the scheme has one.
    socket: Option<Rc<Socket>>,
    is_gone: fn(usize) -> bool,
}

impl<M: NodeMemory, C: CopyEngine> Daemon<M, C> {
    /// `copier` copies for transfers; `is_gone` tells whether a process has ended.
    pub fn new(scif: Scif<M, Id>, copier: C, is_gone: fn(usize) -> bool) -> Self {
        Self {
            scif,
            copier,
            socket: None,
            is_gone,
        }
    }

    /// Sets the scheme's socket.
    pub fn set_socket(&mut self, socket: Rc<Socket>) {
        self.socket = Some(socket);
    }

    /// The scheme's state, for the driver, which brings links up and down.
    pub fn scif(&mut self) -> &mut Scif<M, Id> {
        &mut self.scif
    }

    /// The changes that the event loop asks for with [`SchemeDaemon::changes`].
    pub fn take_changes(&mut self) -> &mut crate::Changes<Id> {
        self.scif.take_changes(&mut self.copier)
    }
}

fn caller(ctx: &CallerCtx) -> Caller {
    Caller {
        pid: ctx.pid,
        uid: ctx.uid,
        gid: ctx.gid,
    }
}

impl<M: NodeMemory<Space = Arc<Fd>>, C: CopyEngine> SchemeSync for Daemon<M, C> {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(ROOT)
    }

    fn openat(
        &mut self,
        directory: usize,
        path: &str,
        flags: usize,
        status: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        let status = status as usize;
        let number = self
            .scif
            .open(directory, path, flags, status, caller(ctx), ctx.id)?;
        let positioned = self.scif.is_positioned(number);
        let flags = if positioned {
            NewFdFlags::POSITIONED
        } else {
            NewFdFlags::empty()
        };
        Ok(OpenResult::ThisScheme { number, flags })
    }

    fn dup(&mut self, id: usize, name: &[u8], ctx: &CallerCtx) -> Result<OpenResult> {
        let number = self.scif.dup(id, name, caller(ctx), ctx.id)?;
        Ok(OpenResult::ThisScheme {
            number,
            flags: NewFdFlags::empty(),
        })
    }

    fn read(
        &mut self,
        id: usize,
        buffer: &mut [u8],
        offset: u64,
        flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        self.scif.read(id, buffer, offset, flags as usize, ctx.id)
    }

    fn write(
        &mut self,
        id: usize,
        bytes: &[u8],
        _offset: u64,
        flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        self.scif.write(id, bytes, flags as usize, ctx.id)
    }

    fn call(
        &mut self,
        id: usize,
        payload: &mut [u8],
        metadata: &[u64],
        ctx: &CallerCtx,
    ) -> Result<usize> {
        self.scif.call(id, payload, metadata, ctx.pid, ctx.id)
    }

    fn on_sendfd(&mut self, request: &SendFdRequest) -> Result<usize> {
        let socket = self.socket.as_ref().ok_or(Error::new(EINVAL))?;
        // Take all descriptors, wanted or not: this task would close the remaining ones with the
        // answer, and it must not be the one that releases an address space.
        let mut slots = alloc::vec![usize::MAX; request.num_fds()];
        request.obtain_fd(socket, FobtainFdFlags::UPPER_TBL, &mut slots)?;
        if let [slot] = slots[..] {
            let (process, space) = (request.caller().pid, Arc::new(Fd::new(slot)));
            let id = request.id();
            return self.scif.take_space(id, process, request.arg(), space);
        }
        for slot in slots {
            self.scif.refuse_space(Arc::new(Fd::new(slot)));
        }
        Err(Error::new(EINVAL))
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        self.scif.ready(id, flags)
    }

    fn fcntl(&mut self, id: usize, command: usize, arg: usize, _ctx: &CallerCtx) -> Result<usize> {
        self.scif.control(id, command, arg)
    }

    fn fpath(&mut self, id: usize, buffer: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let name = self.scif.name(id)?;
        let count = name.len().min(buffer.len());
        buffer[..count].copy_from_slice(&name.as_bytes()[..count]);
        Ok(count)
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        self.scif.status(id, stat)
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buffer: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        let entries: Vec<DirectoryEntry> = self.scif.list(id)?;
        let entries = entries.iter().map(|(name, kind)| (name.as_str(), *kind));
        list_directory(buffer, opaque, entries)
    }

    fn mmap_prep(
        &mut self,
        id: usize,
        offset: u64,
        size: usize,
        flags: MapFlags,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        self.scif.map(id, offset, size, flags)
    }

    fn munmap(
        &mut self,
        id: usize,
        offset: u64,
        size: usize,
        _flags: MunmapFlags,
        _ctx: &CallerCtx,
    ) -> Result<()> {
        self.scif.unmap(id, offset, size)
    }

    fn on_close(&mut self, id: usize) {
        self.scif.close(id);
    }
}

impl<M: NodeMemory<Space = Arc<Fd>>, C: CopyEngine> SchemeDaemon for Daemon<M, C> {
    fn changes(&mut self, changes: &mut Changes) {
        let taken = self.take_changes();
        taken.handles.drain(..).for_each(|id| changes.handle(id));
        taken
            .requests
            .drain(..)
            .for_each(|request| changes.request(request));
        if core::mem::take(&mut taken.progress) {
            changes.progress();
        }
    }

    fn on_wait(&mut self, handle: usize, ctx: &CallerCtx) -> Result<()> {
        let user = (ctx.uid != NO_ID).then_some(ctx.uid);
        self.scif.begin_wait(handle, ctx.pid, user, ctx.id)
    }

    fn on_waited(&mut self, request: Id) {
        self.scif.end_of_wait(request);
    }

    fn is_gone(&mut self, pid: usize) -> bool {
        (self.is_gone)(pid)
    }

    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        self.scif.cancel(request)
    }
}
