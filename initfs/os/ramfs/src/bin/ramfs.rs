//! `ramfs [limit]`: the scheme `file`, a file system in memory with the directories `/tmp`
//! and `/dev/shm` and the files `/dev/null` and `/dev/zero`.
//!
//! `limit` (bytes, or with `K`, `M`, `G`) bounds the memory it uses; the default is half of the
//! memory that is free at the start. It takes none of the last [`KEPT`] bytes that are free.
#![no_std]
#![no_main]

extern crate alloc;

use core::mem::offset_of;

use libredox::Fd;
use libredox::protocol::ProcMeta;
use ramfs::fs::{Device, FileSystem, Inode, Listing, ROOT, User, access};
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use runtime::{Error, Result, env};
use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};
use scheme::locks::Locks;
use scheme::{Changes, Handles, NO_ID, SchemeDaemon};
use syscall::data::{Stat, StatVfs, TimeSpec};
use syscall::dirent::DirentBuf;
use syscall::error::{EACCES, EBADF, EINVAL, ENAMETOOLONG, ENODEV, EPERM, ESRCH};
use syscall::flag::{
    AT_REMOVEDIR, EventFlags, MapFlags, MunmapFlags, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL,
    O_RDONLY, O_STAT, O_WRONLY,
};

runtime::main!(main);

/// Bytes of free memory that files never get. The kernel gives programs none of its last 4 MiB,
/// and daemons some of them; with as much again this daemon finds memory for its own records, and
/// for what it makes for a file between two looks at what is free.
const KEPT: u64 = 8 << 20;
/// Unit of the numbers in `fstatvfs`, in bytes.
const BLOCK: u64 = 4096;

fn main() -> i32 {
    let purpose = "keeps files in memory: the scheme `file`, with /tmp; limit as in 64M";
    if let Some(status) = runtime::env::answer_people("[limit]", purpose, 1) {
        return status;
    }
    let limit = match env::args().nth(1) {
        None => None,
        Some(text) => match size(&text) {
            Some(limit) => Some(limit),
            None => {
                runtime::eprintln!("ramfs: `{text}` is not a size (such as 67108864 or 64M)");
                return 2;
            }
        },
    };
    match run(limit) {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("ramfs: cannot serve the scheme file: {error}");
            1
        }
    }
}

/// Parses decimal digits with an optional `K`, `M` or `G`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The machine's memory.
struct Memory(Fd);

impl Memory {
    fn open() -> Result<Memory> {
        let flags = libredox::flag::O_CLOEXEC;
        Ok(Memory(Fd::open("/scheme/memory/zeroed", flags, 0)?))
    }

    /// Bytes that are free.
    fn free(&self) -> Result<u64> {
        let data = libredox::call::fstatvfs(self.0.raw())?;
        Ok(data.f_bfree.saturating_mul(data.f_bsize as u64))
    }
}

/// The users of processes.
struct Users(Fd);

impl Users {
    fn open() -> Result<Users> {
        let flags = libredox::flag::O_CLOEXEC;
        let path = "/scheme/proc/proc-creds-capability";
        Ok(Users(Fd::open(path, flags, 0)?))
    }

    /// The user for whom a process works.
    ///
    /// # Errors
    /// `EPERM`: it has ended.
    fn of(&self, process: usize) -> Result<User> {
        let mut bytes = [0; size_of::<ProcMeta>()];
        libredox::call::get_proc_credentials(self.0.raw(), process, &mut bytes).map_err(
            |error| match error.errno() {
                ESRCH => Error::new(EPERM),
                other => Error::new(other),
            },
        )?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_ne_bytes(words[at / 4]);
        Ok(User {
            uid: word(offset_of!(ProcMeta, euid)),
            gid: word(offset_of!(ProcMeta, egid)),
        })
    }
}

fn run(limit: Option<u64>) -> Result<()> {
    let memory = Memory::open()?;
    let limit = match limit {
        Some(limit) => limit,
        None => memory.free()? / 2,
    };
    let mut fs = FileSystem::new(limit);
    let root = User { uid: 0, gid: 0 };
    for (path, mode) in [("tmp", 0o1777), ("dev", 0o755), ("dev/shm", 0o1777)] {
        let directory = fs.open(ROOT, path, O_CREAT | O_EXCL | O_DIRECTORY | mode, root)?;
        fs.close(directory);
    }
    fs.make_device("dev/null", Device::Null)?;
    fs.make_device("dev/zero", Device::Zero)?;
    let mut scheme = RamFs {
        fs,
        memory,
        users: Users::open()?,
        handles: Handles::default(),
        locks: Locks::default(),
    };
    let notify = env::var(NOTIFY_VARIABLE);
    let mut requests = daemon::start("file", Mode::Blocking, notify.as_deref(), &mut scheme)?;
    daemon::seal()?;
    requests.run(&mut scheme)
}

struct Handle {
    inode: Inode,
    /// What it was opened for: [`access`].
    access: usize,
    /// How far it was listed, if it is a directory.
    listing: Listing,
}

struct RamFs {
    fs: FileSystem,
    memory: Memory,
    users: Users,
    handles: Handles<Handle>,
    locks: Locks,
}

impl RamFs {
    /// The user who asks. A request that does not name its user says nothing about the rights of
    /// its caller: whoever has opened the handle may have passed it on, and everyone has that of
    /// the root.
    fn user(&self, ctx: &CallerCtx) -> Result<User> {
        if ctx.uid == NO_ID {
            return self.users.of(ctx.pid);
        }
        Ok(User {
            uid: ctx.uid,
            gid: ctx.gid,
        })
    }

    /// Tells the file system what time it is, and how much memory there is, before a change.
    fn prepare(&mut self) -> Result<()> {
        self.fs
            .set_time(runtime::time::unix_time().as_nanos() as u64);
        self.fs.set_free(self.memory.free()?.saturating_sub(KEPT));
        Ok(())
    }
}

/// A time in nanoseconds since 1970; `None` if it is not valid.
fn nanoseconds(time: &TimeSpec) -> Option<u64> {
    let rest = u64::try_from(time.tv_nsec).ok();
    let rest = rest.filter(|rest| *rest < 1_000_000_000)?;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

impl SchemeDaemon for RamFs {
    fn changes(&mut self, changes: &mut Changes) {
        if self.locks.take_freed() {
            // Nothing but locks is waited for here.
            changes.everything();
        }
    }

    fn locks(&mut self, handle: usize) -> Result<(&mut Locks, u64)> {
        let inode = self.handles.get(handle)?.inode;
        Ok((&mut self.locks, inode))
    }
}

impl SchemeSync for RamFs {
    fn scheme_root(&mut self) -> Result<usize> {
        let user = User { uid: 0, gid: 0 };
        self.fs.open(ROOT, "", O_STAT, user)?;
        Ok(self.handles.add(Handle {
            inode: ROOT,
            access: 0,
            listing: Listing::default(),
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
        let user = self.user(ctx)?;
        let start = self.handles.get(dir)?.inode;
        self.prepare()?;
        let inode = self.fs.open(start, path, flags, user)?;
        let access = access(flags);
        Ok(self.handles.open_positioned(Handle {
            inode,
            access,
            listing: Listing::default(),
        }))
    }

    fn unlinkat(&mut self, dir: usize, path: &str, flags: usize, ctx: &CallerCtx) -> Result<()> {
        let user = self.user(ctx)?;
        let start = self.handles.get(dir)?.inode;
        self.prepare()?;
        self.fs.remove(start, path, flags & AT_REMOVEDIR != 0, user)
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        let handle = self.handles.get(id)?;
        if handle.access & O_RDONLY == 0 {
            return Err(Error::new(EBADF));
        }
        self.fs.read(handle.inode, offset, buf)
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        offset: u64,
        fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        self.prepare()?;
        let handle = self.handles.get(id)?;
        if handle.access & O_WRONLY == 0 {
            return Err(Error::new(EBADF));
        }
        // `F_SETFL` may have changed what the file was opened with.
        let append = fcntl_flags as usize & O_APPEND != 0;
        self.fs
            .write(handle.inode, (!append).then_some(offset), buf)
    }

    /// Only memory that programs share with the file: a program that wants a copy of its own can
    /// read the file.
    fn mmap_prep(
        &mut self,
        id: usize,
        offset: u64,
        size: usize,
        flags: MapFlags,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        let handle = self.handles.get(id)?;
        if !flags.contains(MapFlags::MAP_SHARED) {
            return Err(Error::new(ENODEV));
        }
        let may_write = handle.access & O_WRONLY != 0 || !flags.contains(MapFlags::PROT_WRITE);
        if handle.access & O_RDONLY == 0 || !may_write {
            return Err(Error::new(EACCES));
        }
        let inode = handle.inode;
        self.prepare()?;
        self.fs.map(inode, offset, size)
    }

    fn munmap(
        &mut self,
        id: usize,
        _offset: u64,
        size: usize,
        _flags: MunmapFlags,
        _ctx: &CallerCtx,
    ) -> Result<()> {
        self.fs.unmap(self.handles.get(id)?.inode, size);
        Ok(())
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        Ok(self.fs.attributes(self.handles.get(id)?.inode)?.size)
    }

    fn ftruncate(&mut self, id: usize, length: u64, _ctx: &CallerCtx) -> Result<()> {
        self.prepare()?;
        let handle = self.handles.get(id)?;
        if handle.access & O_WRONLY == 0 {
            return Err(Error::new(EBADF));
        }
        self.fs.truncate(handle.inode, length)
    }

    fn fchmod(&mut self, id: usize, mode: u16, ctx: &CallerCtx) -> Result<()> {
        let user = self.user(ctx)?;
        self.fs
            .set_permissions(self.handles.get(id)?.inode, mode, user)
    }

    /// Sets the time of the last change; no time of the last access is kept.
    fn futimens(&mut self, id: usize, times: &[TimeSpec], ctx: &CallerCtx) -> Result<()> {
        let user = self.user(ctx)?;
        let modified = times.get(1).and_then(nanoseconds);
        let modified = modified.ok_or(Error::new(EINVAL))?;
        self.fs
            .set_modified(self.handles.get(id)?.inode, modified, user)
    }

    fn fcntl(&mut self, id: usize, _cmd: usize, _arg: usize, _ctx: &CallerCtx) -> Result<usize> {
        self.handles.get(id).map(|_| 0)
    }

    /// Files in memory are always ready, so they have no events.
    fn fevent(&mut self, id: usize, _flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        self.handles.get(id)?;
        Err(Error::new(EPERM))
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path = self.fs.path(self.handles.get(id)?.inode)?;
        let path = path.unwrap_or_default();
        let path = alloc::format!("/scheme/file/{path}");
        if buf.len() < path.len() {
            return Err(Error::new(ENAMETOOLONG));
        }
        buf[..path.len()].copy_from_slice(path.as_bytes());
        Ok(path.len())
    }

    fn frename(&mut self, id: usize, path: &str, ctx: &CallerCtx) -> Result<usize> {
        let user = self.user(ctx)?;
        let from = self.fs.path(self.handles.get(id)?.inode)?;
        let from = from.ok_or(Error::new(EINVAL))?;
        let path = path.strip_prefix("/scheme/file").unwrap_or(path);
        self.prepare()?;
        self.fs
            .rename((ROOT, &from), (ROOT, path), user)
            .map(|()| 0)
    }

    fn frenameat(
        &mut self,
        old_dir: usize,
        old_path: &str,
        new_dir: usize,
        new_path: &str,
        _flags: u32,
        ctx: &CallerCtx,
    ) -> Result<usize> {
        let user = self.user(ctx)?;
        let (old, new) = (
            self.handles.get(old_dir)?.inode,
            self.handles.get(new_dir)?.inode,
        );
        self.prepare()?;
        self.fs
            .rename((old, old_path), (new, new_path), user)
            .map(|()| 0)
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        let data = self.fs.attributes(self.handles.get(id)?.inode)?;
        let (seconds, nanoseconds) = (
            data.modified / 1_000_000_000,
            (data.modified % 1_000_000_000) as u32,
        );
        *stat = Stat {
            st_ino: data.inode,
            st_mode: data.mode,
            st_nlink: data.links,
            st_uid: data.uid,
            st_gid: data.gid,
            st_size: data.size,
            st_blksize: BLOCK as u32,
            // The unit is 512 bytes.
            st_blocks: data.memory.div_ceil(512),
            st_mtime: seconds,
            st_mtime_nsec: nanoseconds,
            st_atime: seconds,
            st_atime_nsec: nanoseconds,
            st_ctime: seconds,
            st_ctime_nsec: nanoseconds,
            ..Stat::default()
        };
        Ok(())
    }

    fn fstatvfs(&mut self, id: usize, stat: &mut StatVfs, _ctx: &CallerCtx) -> Result<()> {
        self.handles.get(id)?;
        self.prepare()?;
        let (used, room) = self.fs.usage();
        let free = room / BLOCK;
        *stat = StatVfs {
            f_bsize: BLOCK as u32,
            f_blocks: used / BLOCK + free,
            f_bfree: free,
            f_bavail: free,
        };
        Ok(())
    }

    fn getdents<'buf>(
        &mut self,
        id: usize,
        buf: DirentBuf<&'buf mut [u8]>,
        opaque_offset: u64,
    ) -> Result<DirentBuf<&'buf mut [u8]>> {
        let handle = self.handles.get_mut(id)?;
        // The rights were checked for what the directory was opened for.
        if handle.access & O_RDONLY == 0 {
            return Err(Error::new(EBADF));
        }
        let listing = &mut handle.listing;
        self.fs.list(handle.inode, listing, opaque_offset, buf)
    }

    fn on_close(&mut self, id: usize) {
        if let Some(handle) = self.handles.remove(id) {
            self.fs.close(handle.inode);
        }
    }
}
