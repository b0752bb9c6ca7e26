//! The scheme `disk.scif`: a file for each disk, named by the number of the node that offers it.
//!
//! ```text
//! /scheme/disk.scif/      directory of the disks that are there
//! /scheme/disk.scif/1     the disk of node 1: read, write, seek, size, fsync; blocks of 512 bytes
//! ```
//!
//! A descriptor belongs to the disk that its node offered when it was opened. Once that disk has
//! gone, the descriptor gives `ENODEV` for good, even if the node offers a disk again.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use scheme::{Handles, SchemeDaemon, list_directory, read_at};
use syscall::data::Stat;
use syscall::dirent::{DirentBuf, DirentKind};
use syscall::error::{EACCES, EBADF, EISDIR, ENFILE, ENODEV, ENOENT, ENOTDIR, Error, Result};
use syscall::flag::{EventFlags, MODE_DIR, MODE_FILE, O_DIRECTORY, O_RDONLY, O_STAT, O_WRONLY};

use crate::disk::{BLOCK, Disk, Store};
use crate::{Node, SCHEME};

/// Most open handles, beyond which users other than root get no more.
const MAX_HANDLES: usize = 4096;

enum Handle {
    Root,
    Disk {
        node: Node,
        /// Which of the disks that the node has offered, by [`Slot::life`].
        life: u64,
        flags: usize,
    },
}

struct Slot<S> {
    life: u64,
    disk: Disk<S>,
}

/// The scheme: the disks, and the open handles.
pub struct DiskScheme<S> {
    disks: BTreeMap<Node, Slot<S>>,
    lives: u64,
    handles: Handles<Handle>,
}

impl<S: Store> Default for DiskScheme<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Store> DiskScheme<S> {
    /// No disks yet.
    pub fn new() -> Self {
        Self {
            disks: BTreeMap::new(),
            lives: 0,
            handles: Handles::default(),
        }
    }

    /// Adds the disk of a node.
    pub fn add(&mut self, node: Node, disk: Disk<S>) {
        self.lives += 1;
        let life = self.lives;
        self.disks.insert(node, Slot { life, disk });
    }

    /// Removes the disk of a node. Returns whether there was one.
    pub fn remove(&mut self, node: Node) -> bool {
        self.disks.remove(&node).is_some()
    }

    /// The disk behind a handle that was opened with at least one of the flags `access`.
    fn disk(&self, id: usize, access: usize) -> Result<&Disk<S>> {
        match *self.handles.get(id)? {
            Handle::Root => Err(Error::new(EISDIR)),
            Handle::Disk { flags, .. } if flags & access == 0 => Err(Error::new(EBADF)),
            Handle::Disk { node, life, .. } => match self.disks.get(&node) {
                Some(slot) if slot.life == life => Ok(&slot.disk),
                _ => Err(Error::new(ENODEV)),
            },
        }
    }
}

/// The flags of all ways to open a file.
const ANY: usize = O_RDONLY | O_WRONLY | O_STAT;

impl<S: Store> SchemeDaemon for DiskScheme<S> {}

impl<S: Store> SchemeSync for DiskScheme<S> {
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
        // Users may list the disks, but not keep root from them.
        if ctx.uid != 0 && self.handles.len() >= MAX_HANDLES {
            return Err(Error::new(ENFILE));
        }
        let name = path.trim_matches('/');
        if name.is_empty() {
            if flags & O_WRONLY != 0 {
                return Err(Error::new(EISDIR));
            }
            return Ok(self.handles.open(Handle::Root));
        }
        let named = |node: &&Node| node.to_string() == name;
        let node = *self.disks.keys().find(named).ok_or(Error::new(ENOENT))?;
        // A user who may write to a disk could read and change all files on it.
        if ctx.uid != 0 {
            return Err(Error::new(EACCES));
        }
        if flags & O_DIRECTORY != 0 {
            return Err(Error::new(ENOTDIR));
        }
        let life = self.disks.get(&node).map_or(0, |slot| slot.life);
        let handle = Handle::Disk { node, life, flags };
        Ok(self.handles.open_positioned(handle))
    }

    fn read(
        &mut self,
        id: usize,
        buf: &mut [u8],
        offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        self.disk(id, O_RDONLY)?.read(offset, buf)
    }

    fn write(
        &mut self,
        id: usize,
        buf: &[u8],
        offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        self.disk(id, O_WRONLY)?.write(offset, buf)
    }

    fn fsize(&mut self, id: usize, _ctx: &CallerCtx) -> Result<u64> {
        Ok(self.disk(id, ANY)?.bytes())
    }

    fn fsync(&mut self, id: usize, _ctx: &CallerCtx) -> Result<()> {
        self.disk(id, ANY)?.flush()
    }

    fn fevent(&mut self, id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        self.handles.get(id)?;
        Ok(flags & (EventFlags::EVENT_READ | EventFlags::EVENT_WRITE))
    }

    fn fstat(&mut self, id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        let size = match self.handles.get(id)? {
            Handle::Root => None,
            Handle::Disk { .. } => Some(self.disk(id, ANY)?.bytes()),
        };
        *stat = Stat {
            st_mode: size.map_or(MODE_DIR | 0o555, |_| MODE_FILE | 0o600),
            st_nlink: 1,
            st_size: size.unwrap_or(0),
            st_blksize: BLOCK as u32,
            st_blocks: size.unwrap_or(0) / BLOCK as u64,
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
        let Handle::Root = self.handles.get(id)? else {
            return Err(Error::new(ENOTDIR));
        };
        let names: Vec<String> = self.disks.keys().map(Node::to_string).collect();
        let entries = names
            .iter()
            .map(|name| (name.as_str(), DirentKind::Regular));
        list_directory(buf, opaque, entries)
    }

    fn fpath(&mut self, id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let name = match self.handles.get(id)? {
            Handle::Root => String::new(),
            Handle::Disk { node, .. } => node.to_string(),
        };
        let path = alloc::format!("/scheme/{SCHEME}/{name}");
        Ok(read_at(path.as_bytes(), buf, 0))
    }

    fn on_close(&mut self, id: usize) {
        self.handles.remove(id);
    }
}

#[cfg(test)]
mod tests;
