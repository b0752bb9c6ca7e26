//! The scheme `namespace`: handles and requests.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult, SendFdRequest, Socket};
use runtime::abi::ns;
use runtime::{Error, Result, fd, path};
use scheme::{Handles, SchemeDaemon, Shares, list_directory, read_at, tree};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{
    EACCES, EBADF, EEXIST, EINVAL, EISDIR, ENFILE, ENODEV, ENOENT, ENOTDIR, EOPNOTSUPP,
};
use syscall::flag::FobtainFdFlags;

use crate::namespace::{Namespace, is_valid_name};

/// Rights of the holder of a namespace descriptor, besides opening names.
mod permission {
    /// List the names.
    pub const LIST: usize = 1;
    /// Register names.
    pub const INSERT: usize = 2;
    /// Remove names.
    pub const DELETE: usize = 4;
    /// Get the right to create schemes.
    pub const SCHEME_CREATE: usize = 8;
    /// All of them.
    pub const ALL: usize = LIST | INSERT | DELETE | SCHEME_CREATE;
}

/// The user whose programs may register names.
const ROOT: u32 = 0;
/// The resource of a namespace by which a program gets the right to create schemes.
const CREATION_CAPABILITY: &str = "scheme-creation-cap";

/// Longest request to a namespace, in bytes: a list of several hundred names at least.
const MAX_REQUEST: usize = 128 * 1024;

/// Most open handles of each user other than root: the daemon's memory is everybody's.
const MAX_HANDLES: usize = 8192;

#[derive(Clone)]
enum Kind {
    /// A namespace descriptor of a program.
    Namespace,
    /// The directory `/scheme`.
    Listing,
    /// The directory `/scheme/namespace`.
    Resources,
    /// Takes the root of the scheme to be registered under this name.
    Registration(String),
}

#[derive(Clone)]
struct Handle {
    kind: Kind,
    namespace: Rc<Namespace>,
    permissions: usize,
    /// The user whose program has opened it.
    owner: u32,
}

/// The state of the scheme.
pub struct NamespaceScheme {
    socket: Rc<Socket>,
    first: Rc<Namespace>,
    capability: Fd,
    handles: Handles<Handle>,
    shares: Shares,
}

impl NamespaceScheme {
    /// A manager whose first namespace is `first`.
    pub fn new(socket: Rc<Socket>, first: Rc<Namespace>, capability: Fd) -> Self {
        NamespaceScheme {
            socket,
            first,
            capability,
            handles: Handles::default(),
            shares: Shares::new(MAX_HANDLES),
        }
    }

    fn handle(&self, id: usize) -> Result<Handle> {
        self.handles.get(id).cloned()
    }

    /// Adds a handle for a program of the user `uid`.
    fn add(&mut self, handle: Handle, uid: u32) -> Result<OpenResult> {
        if !self.shares.take(uid, 1) {
            return Err(Error::new(ENFILE));
        }
        let owner = uid;
        Ok(self.handles.open(Handle { owner, ..handle }))
    }

    fn open_name(&mut self, handle: Handle, requested: &str, uid: u32) -> Result<OpenResult> {
        if !requested.starts_with('/') {
            return Err(Error::new(EINVAL));
        }
        match path::split(requested) {
            ("", _) => {
                if handle.permissions & permission::LIST == 0 {
                    return Err(Error::new(EACCES));
                }
                let kind = Kind::Listing;
                self.add(Handle { kind, ..handle }, uid)
            }
            ("namespace", _) => {
                let kind = Kind::Resources;
                self.add(Handle { kind, ..handle }, uid)
            }
            (name, _) => {
                let root = handle.namespace.root(name).ok_or(Error::new(ENODEV))?;
                Ok(OpenResult::OtherScheme {
                    fd: fd::dup_upper(root.raw(), b"")?,
                })
            }
        }
    }

    fn open_resource(&mut self, handle: Handle, name: &str, uid: u32) -> Result<OpenResult> {
        match name {
            "" => self.add(handle, uid),
            CREATION_CAPABILITY => {
                if handle.permissions & permission::SCHEME_CREATE == 0 {
                    return Err(Error::new(EACCES));
                }
                Ok(OpenResult::OtherScheme {
                    fd: fd::dup_upper(self.capability.raw(), b"")?,
                })
            }
            _ => Err(Error::new(ENOENT)),
        }
    }
}

/// Takes a word from the beginning of a request.
fn word(request: &[u8]) -> Result<(usize, &[u8])> {
    let (word, rest) = request
        .split_at_checked(size_of::<usize>())
        .ok_or(Error::new(EINVAL))?;
    let word = word.try_into().map_err(|_| Error::new(EINVAL))?;
    Ok((usize::from_ne_bytes(word), rest))
}

fn text(bytes: &[u8]) -> Result<&str> {
    core::str::from_utf8(bytes).map_err(|_| Error::new(EINVAL))
}

impl SchemeSync for NamespaceScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        let namespace = Rc::clone(&self.first);
        Ok(self.handles.add(Handle {
            kind: Kind::Namespace,
            namespace,
            permissions: permission::ALL,
            owner: ROOT,
        }))
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        let handle = self.handle(dir)?;
        match handle.kind {
            Kind::Namespace => self.open_name(handle, path, ctx.uid),
            Kind::Listing if path.is_empty() => self.add(handle, ctx.uid),
            Kind::Listing => Err(Error::new(ENOENT)),
            Kind::Resources => self.open_resource(handle, path, ctx.uid),
            Kind::Registration(_) => Err(Error::new(ENOTDIR)),
        }
    }

    fn dup(&mut self, id: usize, request: &[u8], ctx: &CallerCtx) -> Result<OpenResult> {
        let handle = self.handle(id)?;
        if !matches!(handle.kind, Kind::Namespace) {
            return Err(Error::new(EINVAL));
        }
        if request.len() > MAX_REQUEST {
            return Err(Error::new(EINVAL));
        }
        // The request lies in the caller's memory, so only this copy is checked and used.
        let request = Vec::from(request);
        let (operation, mut rest) = word(&request)?;
        let new = match operation {
            ns::FORK => {
                let mut names = Vec::new();
                while !rest.is_empty() {
                    let (length, tail) = word(rest)?;
                    let (name, tail) = tail.split_at_checked(length).ok_or(Error::new(EINVAL))?;
                    names.push(text(name)?);
                    rest = tail;
                }
                Handle {
                    namespace: handle.namespace.fork(names),
                    ..handle
                }
            }
            ns::SHRINK_PERMISSIONS => {
                let (permissions, _) = word(rest)?;
                Handle {
                    permissions: handle.permissions & permissions,
                    ..handle
                }
            }
            ns::ISSUE_REGISTER => {
                let name = text(rest)?;
                if !is_valid_name(name) {
                    return Err(Error::new(EINVAL));
                }
                // As for making a scheme: every program has the first namespace, and another
                // user must not take the name of a daemon that is about to start again.
                if handle.permissions & permission::INSERT == 0 || ctx.uid != ROOT {
                    return Err(Error::new(EACCES));
                }
                if handle.namespace.is_taken(name) {
                    return Err(Error::new(EEXIST));
                }
                Handle {
                    kind: Kind::Registration(name.into()),
                    ..handle
                }
            }
            _ => return Err(Error::new(EINVAL)),
        };
        self.add(new, ctx.uid)
    }

    fn on_sendfd(&mut self, request: &SendFdRequest) -> Result<usize> {
        let handle = self.handle(request.id())?;
        let Kind::Registration(name) = &handle.kind else {
            return Err(Error::new(EOPNOTSUPP));
        };
        if request.num_fds() != 1 {
            return Err(Error::new(EINVAL));
        }
        let mut slots = [usize::MAX];
        request.obtain_fd(&self.socket, FobtainFdFlags::UPPER_TBL, &mut slots)?;
        if !handle.namespace.insert(name, Fd::new(slots[0])) {
            return Err(Error::new(EEXIST));
        }
        Ok(0)
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        let handle = self.handle(id)?;
        match handle.kind {
            Kind::Namespace | Kind::Listing => {
                if handle.permissions & permission::LIST == 0 {
                    return Err(Error::new(EACCES));
                }
                let names = handle.namespace.names();
                let entries = names
                    .iter()
                    .map(|name| (name.as_str(), DirentKind::Directory));
                list_directory(buf, opaque, entries)
            }
            Kind::Resources => {
                let entries = [(CREATION_CAPABILITY, DirentKind::Unspecified)];
                list_directory(buf, opaque, entries)
            }
            Kind::Registration(_) => Err(Error::new(ENOTDIR)),
        }
    }

    fn read(
        &mut self,
        id: usize,
        _buf: &mut [u8],
        _offset: u64,
        _flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match self.handle(id)?.kind {
            Kind::Registration(_) => Err(Error::new(EBADF)),
            _ => Err(Error::new(EISDIR)),
        }
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path: &[u8] = match self.handle(id)?.kind {
            Kind::Namespace | Kind::Listing => b"/scheme",
            Kind::Resources => b"/scheme/namespace",
            Kind::Registration(_) => return Err(Error::new(EBADF)),
        };
        Ok(read_at(path, buf, 0))
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        match self.handle(id)?.kind {
            Kind::Registration(_) => return Err(Error::new(EBADF)),
            _ => tree::stat_directory(stat),
        }
        Ok(())
    }

    fn on_close(&mut self, id: usize) {
        if let Some(handle) = self.handles.remove(id) {
            self.shares.give_back(handle.owner, 1);
        }
    }
}

impl SchemeDaemon for NamespaceScheme {}
