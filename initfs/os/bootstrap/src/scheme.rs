//! The scheme `initfs`: the image's files, read-only.

use bootstrap::image::{Image, Inode, Kind};
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use runtime::{Error, Result};
use scheme::{Handles, SchemeDaemon, list_directory, read_at};
use syscall::data::{Stat, StatVfs};
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{EACCES, EBADF, EEXIST, EISDIR, ENOENT, ENOTDIR, EPERM, EROFS};
use syscall::flag::{
    EventFlags, O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_STAT, O_TRUNC, O_WRONLY,
};

struct Handle {
    inode: usize,
    readable: bool,
}

/// The state of the scheme.
pub struct InitfsScheme {
    image: Image<'static>,
    handles: Handles<Handle>,
}

impl InitfsScheme {
    /// Serves the files of `image`.
    pub fn new(image: Image<'static>) -> Self {
        InitfsScheme {
            image,
            handles: Handles::default(),
        }
    }

    fn inode(&self, id: usize) -> Result<(&Inode<'static>, &Handle)> {
        let handle = self.handles.get(id)?;
        Ok((self.image.inode(handle.inode)?, handle))
    }

    fn file(&self, id: usize) -> Result<&Inode<'static>> {
        let (inode, handle) = self.inode(id)?;
        match inode.kind {
            Kind::Dir => Err(Error::new(EISDIR)),
            _ if !handle.readable => Err(Error::new(EBADF)),
            _ => Ok(inode),
        }
    }
}

impl SchemeSync for InitfsScheme {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(self.handles.add(Handle {
            inode: 0,
            readable: false,
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
        let start = self.handles.get(dir)?.inode;
        let index = match self.image.lookup(start, path) {
            Err(Error { errno: ENOENT }) if flags & O_CREAT != 0 => {
                return Err(Error::new(EROFS));
            }
            result => result?,
        };
        let inode = self.image.inode(index)?;
        if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
            return Err(Error::new(EEXIST));
        }
        let stat_only = flags & O_STAT != 0;
        if inode.kind == Kind::Dir {
            if flags & O_WRONLY == O_WRONLY && !stat_only {
                return Err(Error::new(EISDIR));
            }
        } else if flags & O_DIRECTORY != 0 {
            return Err(Error::new(ENOTDIR));
        }
        if !stat_only && (flags & O_WRONLY != 0 || flags & O_TRUNC != 0) {
            return Err(Error::new(EROFS));
        }
        if !stat_only && ctx.uid != 0 && !may_read(inode, ctx) {
            return Err(Error::new(EACCES));
        }
        let readable = !stat_only && flags & O_ACCMODE != 0;
        Ok(self.handles.open_positioned(Handle {
            inode: index,
            readable,
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
        Ok(read_at(self.file(id)?.data, buf, offset))
    }

    fn write(
        &mut self,
        id: usize,
        _buf: &[u8],
        _offset: u64,
        _flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        self.inode(id)?;
        // No file here can be opened for writing.
        Err(Error::new(EBADF))
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        Ok(self.inode(id)?.0.data.len() as u64)
    }

    /// The files are always ready, so they have no events.
    fn fevent(&mut self, id: usize, _flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        self.inode(id)?;
        Err(Error::new(EPERM))
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path = alloc::format!("/scheme/initfs/{}", self.inode(id)?.0.path);
        Ok(read_at(path.as_bytes(), buf, 0))
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        let (inode, handle) = self.inode(id)?;
        stat.st_ino = handle.inode as u64;
        stat.st_mode = inode.mode();
        stat.st_nlink = 1;
        stat.st_uid = inode.uid;
        stat.st_gid = inode.gid;
        stat.st_size = inode.data.len() as u64;
        stat.st_blksize = syscall::PAGE_SIZE as u32;
        stat.st_blocks = stat.st_size.div_ceil(512);
        stat.st_mtime = self.image.created;
        stat.st_ctime = self.image.created;
        stat.st_atime = self.image.created;
        Ok(())
    }

    fn fstatvfs(&mut self, id: usize, stat: &mut StatVfs, _ctx: &CallerCtx) -> Result<()> {
        self.inode(id)?;
        stat.f_bsize = syscall::PAGE_SIZE as u32;
        Ok(())
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        let (inode, _) = self.inode(id)?;
        if inode.kind != Kind::Dir {
            return Err(Error::new(ENOTDIR));
        }
        let entries = inode.entries.iter().map(|(name, child)| {
            let kind = match self.image.inode(*child).map(|inode| inode.kind) {
                Ok(Kind::File) => DirentKind::Regular,
                Ok(Kind::Dir) => DirentKind::Directory,
                Ok(Kind::Link) => DirentKind::Symlink,
                Err(_) => DirentKind::Unspecified,
            };
            (*name, kind)
        });
        list_directory(buf, opaque, entries)
    }

    fn on_close(&mut self, id: usize) {
        self.handles.remove(id);
    }
}

fn may_read(inode: &Inode<'_>, ctx: &CallerCtx) -> bool {
    let bits = if inode.uid == ctx.uid {
        inode.permissions >> 6
    } else if inode.gid == ctx.gid {
        inode.permissions >> 3
    } else {
        inode.permissions
    };
    bits & 4 != 0
}

impl SchemeDaemon for InitfsScheme {}
