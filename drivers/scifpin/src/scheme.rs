//! The `scifpin` scheme: descriptors for ranges, and the list of them.
//!
//! ```text
//! /scheme/scifpin/         directory: range, ranges
//! /scheme/scifpin/range    a new range; `platform::pin` says what to do with it
//! /scheme/scifpin/ranges   text: one line per range; its user's own, or all for root
//! ```

use alloc::collections::BTreeMap;
use alloc::string::String;

use platform::pin::{PIN, PinRecord, SEND_SPACE, UNCHARGED};
use platform::scheme::{SchemeDaemon, list_directory, read_at};
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult, SendFdRequest};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{
    EACCES, EBADF, EBUSY, EINVAL, EISDIR, EMFILE, ENFILE, ENOENT, ENOTDIR, EOPNOTSUPP, EPERM,
    Error, Result,
};
use syscall::flag::{MODE_CHR, MODE_DIR, MODE_FILE, O_DIRECTORY, O_STAT, O_WRONLY};
use syscall::schemev2::NewFdFlags;

use crate::ledger::{Entry, Freed, Ledger};

/// Bytes of a page.
const PAGE: usize = platform::mem::PAGE;
/// Handles of one user at most.
const HANDLES_PER_USER: usize = 1024;
/// Handles of all users together at most.
const HANDLES: usize = 16 * HANDLES_PER_USER;
/// Names in the root directory.
const NAMES: [&str; 2] = ["range", "ranges"];

/// What the SCIF daemon is asked to take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// First byte in the client's address space.
    pub address: usize,
    /// Bytes.
    pub length: usize,
    /// `platform::pin::READ` and `WRITE`.
    pub protection: u32,
    /// The user whose the pages are; `None` counts them against nobody.
    pub owner: Option<u32>,
}

/// Where pages go.
pub trait Pages {
    /// A client's address space.
    type Space;
    /// Pages the SCIF daemon has.
    type Held;

    /// Takes the address space that a client sent.
    ///
    /// # Errors
    /// Those of taking the descriptor.
    fn take_space(&mut self, request: &SendFdRequest) -> Result<Self::Space>;

    /// Gives the pages to the SCIF daemon and lets go of the address space. Returns what to hold
    /// on to and the token; `freed` is set once the SCIF daemon has released the pages.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`, `EAGAIN`, `ENODEV`.
    fn pin(
        &mut self,
        space: Self::Space,
        wanted: Wanted,
        freed: Freed,
    ) -> Result<(Self::Held, u64)>;

    /// Gives pages up: they are released when the last window on them is gone.
    fn release(&mut self, held: Self::Held);
}

/// A descriptor for one range.
enum Range<P: Pages> {
    New,
    /// The address space has come.
    Ready(P::Space),
    Pinned {
        held: P::Held,
        entry: Entry,
    },
}

enum Kind<P: Pages> {
    Root,
    /// Opened to ask about it only.
    Name,
    Range(Range<P>),
    Text(String),
}

struct Handle<P: Pages> {
    kind: Kind<P>,
    uid: u32,
    pid: usize,
}

/// The scheme's state.
pub struct PinScheme<P: Pages> {
    pages: P,
    ledger: Ledger,
    handles: BTreeMap<usize, Handle<P>>,
    last: usize,
}

impl<P: Pages> PinScheme<P> {
    /// A scheme without ranges.
    pub fn new(pages: P) -> Self {
        Self {
            pages,
            ledger: Ledger::default(),
            handles: BTreeMap::new(),
            last: 0,
        }
    }

    fn insert(&mut self, handle: Handle<P>) -> usize {
        self.last += 1;
        self.handles.insert(self.last, handle);
        self.last
    }

    fn handle(&mut self, id: usize) -> Result<&mut Handle<P>> {
        self.handles.get_mut(&id).ok_or(Error::new(EBADF))
    }

    /// Fails when the user, or all of them, have too many handles.
    fn check_room(&self, uid: u32) -> Result<()> {
        if self.handles.len() >= HANDLES {
            return Err(Error::new(ENFILE));
        }
        let own = self.handles.values().filter(|handle| handle.uid == uid);
        if own.count() >= HANDLES_PER_USER {
            return Err(Error::new(EMFILE));
        }
        Ok(())
    }

    /// The list of ranges as `uid` may see it.
    fn list(&mut self, uid: u32) -> String {
        let all = self.ledger.text();
        let own = |line: &str| uid == 0 || line.split(' ').nth(1) == Some(&alloc::format!("{uid}"));
        all.lines()
            .enumerate()
            .filter(|(number, line)| *number == 0 || own(line))
            .map(|(_, line)| alloc::format!("{line}\n"))
            .collect()
    }

    /// The descriptor of an address space came for a range.
    fn keep_space(&mut self, request: &SendFdRequest, metadata: u64) -> Result<()> {
        let handle = self
            .handles
            .get_mut(&request.id())
            .ok_or(Error::new(EBADF))?;
        let Kind::Range(range) = &mut handle.kind else {
            return Err(Error::new(EOPNOTSUPP));
        };
        if metadata != SEND_SPACE || request.num_fds() != 1 {
            return Err(Error::new(EINVAL));
        }
        if matches!(range, Range::Pinned { .. }) {
            return Err(Error::new(EBUSY));
        }
        *range = Range::Ready(self.pages.take_space(request)?);
        Ok(())
    }

    /// Pins what the record says, in the address space that came before. That is gone afterwards,
    /// whatever the outcome.
    fn pin(&mut self, id: usize, payload: &[u8]) -> Result<u64> {
        let record = PinRecord::from_bytes(payload).ok_or(Error::new(EINVAL))?;
        let handle = self.handles.get_mut(&id).ok_or(Error::new(EBADF))?;
        let (uid, pid) = (handle.uid, handle.pid);
        let Kind::Range(range) = &mut handle.kind else {
            return Err(Error::new(EOPNOTSUPP));
        };
        let space = match core::mem::replace(range, Range::New) {
            Range::New => return Err(Error::new(EINVAL)),
            Range::Ready(space) => space,
            pinned => {
                *range = pinned;
                return Err(Error::new(EBUSY));
            }
        };
        let (address, length) = record.range()?;
        let uncharged = record.flags & UNCHARGED != 0;
        if uncharged && uid != 0 {
            return Err(Error::new(EPERM));
        }
        let wanted = Wanted {
            address,
            length,
            protection: record.protection,
            owner: (!uncharged).then_some(uid),
        };
        let (entry, freed) = self.ledger.enter(uid, pid, (length / PAGE) as u64)?;
        let (held, token) = self
            .pages
            .pin(space, wanted, freed)
            .inspect_err(|_| self.ledger.forget(entry))?;
        self.ledger.pinned(entry, token);
        *range = Range::Pinned { held, entry };
        Ok(token)
    }
}

impl<P: Pages> SchemeDaemon for PinScheme<P> {}

impl<P: Pages> SchemeSync for PinScheme<P> {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.insert(Handle {
            kind: Kind::Root,
            uid: 0,
            pid: 0,
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
        if !matches!(self.handle(dir)?.kind, Kind::Root) {
            return Err(Error::new(ENOTDIR));
        }
        self.check_room(ctx.uid)?;
        let name = path.trim_matches('/');
        if !name.is_empty() {
            if !NAMES.contains(&name) {
                return Err(Error::new(ENOENT));
            }
            if flags & O_DIRECTORY != 0 {
                return Err(Error::new(ENOTDIR));
            }
        }
        let kind = match name {
            "" if flags & O_WRONLY != 0 => return Err(Error::new(EISDIR)),
            "" => Kind::Root,
            _ if flags & O_STAT != 0 => Kind::Name,
            "range" => Kind::Range(Range::New),
            _ if flags & O_WRONLY != 0 => return Err(Error::new(EACCES)),
            _ => Kind::Text(self.list(ctx.uid)),
        };
        let flags = match kind {
            Kind::Text(_) => NewFdFlags::POSITIONED,
            _ => NewFdFlags::empty(),
        };
        let (uid, pid) = (ctx.uid, ctx.pid);
        let number = self.insert(Handle { kind, uid, pid });
        Ok(OpenResult::ThisScheme { number, flags })
    }

    fn on_sendfd(&mut self, request: &SendFdRequest) -> Result<usize> {
        let metadata = request.metadata().first().copied().unwrap_or(0);
        self.keep_space(request, metadata).map(|()| 0)
    }

    fn call(
        &mut self,
        id: usize,
        payload: &mut [u8],
        metadata: &[u64],
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        if metadata.first() != Some(&PIN) {
            return Err(Error::new(EINVAL));
        }
        // The payload lies in the client's memory; look at one copy only.
        let mut copy = [0; PinRecord::BYTES];
        if payload.len() != copy.len() {
            return Err(Error::new(EINVAL));
        }
        copy.copy_from_slice(payload);
        self.pin(id, &copy).map(|token| token as usize)
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match &self.handle(id)?.kind {
            Kind::Root => Err(Error::new(EISDIR)),
            Kind::Name => Err(Error::new(EBADF)),
            Kind::Range(_) => Err(Error::new(EINVAL)),
            Kind::Text(text) => Ok(read_at(text.as_bytes(), buf, offset)),
        }
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        match &self.handle(id)?.kind {
            Kind::Text(text) => Ok(text.len() as u64),
            _ => Ok(0),
        }
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        let (mode, size) = match &self.handle(id)?.kind {
            Kind::Root => (MODE_DIR | 0o555, 0),
            Kind::Range(_) | Kind::Name => (MODE_CHR | 0o666, 0),
            Kind::Text(text) => (MODE_FILE | 0o444, text.len() as u64),
        };
        *stat = Stat {
            st_mode: mode,
            st_nlink: 1,
            st_size: size,
            ..Stat::default()
        };
        Ok(())
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        match self.handle(id)?.kind {
            Kind::Root => {
                let kinds = [DirentKind::CharDev, DirentKind::Regular];
                list_directory(buf, opaque, NAMES.into_iter().zip(kinds))
            }
            _ => Err(Error::new(ENOTDIR)),
        }
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let name = match self.handle(id)?.kind {
            Kind::Root | Kind::Name => "",
            Kind::Range(_) => "range",
            Kind::Text(_) => "ranges",
        };
        let path = alloc::format!("/scheme/{}/{name}", platform::pin::SCHEME);
        let count = path.len().min(buf.len());
        buf[..count].copy_from_slice(&path.as_bytes()[..count]);
        Ok(count)
    }

    fn on_close(&mut self, id: usize) {
        if let Some(handle) = self.handles.remove(&id)
            && let Kind::Range(Range::Pinned { held, entry }) = handle.kind
        {
            self.pages.release(held);
            self.ledger.ended(entry);
        }
    }
}

#[cfg(test)]
mod tests;
