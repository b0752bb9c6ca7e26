//! The tree of files and directories.

use alloc::collections::BTreeMap;
use alloc::string::String;

use syscall::error::{
    EACCES, EBUSY, EEXIST, EINVAL, EISDIR, ENAMETOOLONG, ENODEV, ENOENT, ENOSPC, ENOTDIR,
    ENOTEMPTY, EPERM, Error, Result,
};
use syscall::flag::{
    MODE_CHR, MODE_DIR, MODE_FILE, MODE_SOCK, MODE_TYPE, O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL,
    O_STAT, O_TRUNC,
};

use crate::data::{Data, Room};
pub use crate::fs::names::Listing;
pub use crate::node::Inode;
pub use crate::node::{Attributes, Device, User};
use crate::node::{Content, Node};

mod names;

/// The root directory.
pub const ROOT: Inode = 1;

/// Longest name of a directory entry, in bytes.
pub const MAX_NAME: usize = 255;

/// Longest path that is given, in bytes.
pub const MAX_PATH: usize = 4096;

/// What a file or directory costs besides its content, in bytes: about the size of its records.
const NODE_COST: u64 = 256;

/// A file system in memory.
pub struct FileSystem {
    nodes: BTreeMap<Inode, Node>,
    last_inode: Inode,
    used: u64,
    limit: u64,
    /// Bytes that the system can give still.
    free: u64,
    now: u64,
}

/// The flags by which a file that was opened with `flags` is read and written: [`O_RDONLY`] and
/// `O_WRONLY`, neither of them for a file that was opened for its status only.
///
/// [`O_RDONLY`]: syscall::O_RDONLY
pub fn access(flags: usize) -> usize {
    match flags & O_STAT {
        0 => flags & O_ACCMODE,
        _ => 0,
    }
}

impl FileSystem {
    /// An empty file system that uses at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let root = Node {
            content: Content::Directory {
                entries: BTreeMap::new(),
                parent: ROOT,
            },
            permissions: 0o755,
            uid: 0,
            gid: 0,
            linked: true,
            opened: 0,
            is_socket: false,
            modified: 0,
        };
        FileSystem {
            nodes: BTreeMap::from([(ROOT, root)]),
            last_inode: ROOT,
            used: NODE_COST,
            limit,
            free: u64::MAX,
            now: 0,
        }
    }

    /// Sets the time for changes, in nanoseconds since 1970.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Sets the number of bytes that the system can give still, which bounds the next change as the
    /// limit does: other programs may have taken what was free when the limit was chosen.
    pub fn set_free(&mut self, free: u64) {
        self.free = free;
    }

    /// What a change may take more.
    fn room(&self) -> Room {
        Room {
            limit: self.limit.saturating_sub(self.used),
            free: self.free,
        }
    }

    /// Checks that this many bytes may be taken. `ENOSPC`.
    fn check_room(&self, bytes: u64) -> Result<()> {
        match self.room().bytes() < bytes {
            true => Err(Error::new(ENOSPC)),
            false => Ok(()),
        }
    }

    /// Number of bytes in use, and of those that may be taken still.
    pub fn usage(&self) -> (u64, u64) {
        (self.used, self.room().bytes())
    }

    /// Number of files and directories.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, inode: Inode) -> Result<&Node> {
        self.nodes.get(&inode).ok_or(Error::new(ENOENT))
    }

    fn node_mut(&mut self, inode: Inode) -> Result<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(Error::new(ENOENT))
    }

    fn entries(&self, directory: Inode) -> Result<&BTreeMap<String, Inode>> {
        match &self.node(directory)?.content {
            Content::Directory { entries, .. } => Ok(entries),
            _ => Err(Error::new(ENOTDIR)),
        }
    }

    fn entries_mut(&mut self, directory: Inode) -> Result<&mut BTreeMap<String, Inode>> {
        let now = self.now;
        let node = self.node_mut(directory)?;
        node.modified = now;
        match &mut node.content {
            Content::Directory { entries, .. } => Ok(entries),
            _ => Err(Error::new(ENOTDIR)),
        }
    }

    /// Looks up a name in a directory.
    fn step(&self, directory: Inode, name: &str, user: User) -> Result<Inode> {
        let node = self.node(directory)?;
        let Content::Directory { entries, parent } = &node.content else {
            return Err(Error::new(ENOTDIR));
        };
        if !node.allows(user, 1) {
            return Err(Error::new(EACCES));
        }
        match name {
            "." => Ok(directory),
            ".." => Ok(*parent),
            _ => entries.get(name).copied().ok_or(Error::new(ENOENT)),
        }
    }

    /// Splits a path into the directory that it ends in and the last name; `None` if it is the
    /// start itself.
    fn parent<'p>(
        &self,
        start: Inode,
        path: &'p str,
        user: User,
    ) -> Result<Option<(Inode, &'p str)>> {
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        let mut directory = start;
        while let Some(name) = names.next() {
            if name.len() > MAX_NAME {
                return Err(Error::new(ENAMETOOLONG));
            }
            if names.peek().is_none() {
                return Ok(Some((directory, name)));
            }
            directory = self.step(directory, name, user)?;
        }
        Ok(None)
    }

    /// Looks a path up.
    pub fn lookup(&self, start: Inode, path: &str, user: User) -> Result<Inode> {
        match self.parent(start, path, user)? {
            None => Ok(start),
            Some((directory, name)) => self.step(directory, name, user),
        }
    }

    /// Opens or makes a file or directory. `flags` are those of `open`, with the permissions of a
    /// new file in the low bits. Every success needs a [`FileSystem::close`] later.
    pub fn open(&mut self, start: Inode, path: &str, flags: usize, user: User) -> Result<Inode> {
        let inode = match self.parent(start, path, user)? {
            None => {
                if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
                    return Err(Error::new(EEXIST));
                }
                start
            }
            Some((directory, name)) => match self.step(directory, name, user) {
                Ok(_) if flags & O_CREAT != 0 && flags & O_EXCL != 0 => {
                    return Err(Error::new(EEXIST));
                }
                Ok(inode) => inode,
                Err(Error { errno: ENOENT }) if flags & O_CREAT != 0 => {
                    let inode = self.create(directory, name, flags, user)?;
                    self.node_mut(inode)?.opened += 1;
                    return Ok(inode);
                }
                Err(error) => return Err(error),
            },
        };
        let must_be_directory = flags & O_DIRECTORY != 0 || path.ends_with('/');
        let empties = flags & (O_TRUNC | O_STAT) == O_TRUNC;
        let writes = empties || access(flags) & syscall::O_WRONLY != 0;
        let reads = access(flags) & syscall::O_RDONLY != 0;
        let node = self.node(inode)?;
        if node.is_directory() {
            // Directories cannot be written to, emptied or executed.
            if writes {
                return Err(Error::new(EISDIR));
            }
        } else if must_be_directory {
            return Err(Error::new(ENOTDIR));
        }
        let rights = if reads { 4 } else { 0 } | if writes { 2 } else { 0 };
        if !node.allows(user, rights) {
            return Err(Error::new(EACCES));
        }
        if empties {
            self.truncate(inode, 0)?;
        }
        self.node_mut(inode)?.opened += 1;
        Ok(inode)
    }

    fn create(&mut self, directory: Inode, name: &str, flags: usize, user: User) -> Result<Inode> {
        let parent = self.node(directory)?;
        if !parent.linked {
            return Err(Error::new(ENOENT));
        }
        if !parent.allows(user, 2) {
            return Err(Error::new(EACCES));
        }
        let cost = NODE_COST + name.len() as u64;
        self.check_room(cost)?;
        let make_directory = flags & O_DIRECTORY != 0;
        let content = if make_directory {
            Content::Directory {
                entries: BTreeMap::new(),
                parent: directory,
            }
        } else {
            Content::File(Data::default())
        };
        self.last_inode += 1;
        let inode = self.last_inode;
        let node = Node {
            content,
            permissions: flags as u16 & 0o7777,
            uid: user.uid,
            gid: user.gid,
            linked: true,
            opened: 0,
            is_socket: false,
            modified: self.now,
        };
        self.entries_mut(directory)?.insert(name.into(), inode);
        self.nodes.insert(inode, node);
        self.used += cost;
        Ok(inode)
    }

    /// Makes a device file that all users may read and write.
    pub fn make_device(&mut self, path: &str, device: Device) -> Result<()> {
        let root = User { uid: 0, gid: 0 };
        let inode = self.open(ROOT, path, O_CREAT | O_EXCL | 0o666, root)?;
        self.node_mut(inode)?.content = Content::Device(device);
        self.close(inode);
        Ok(())
    }

    /// Ends one opening. A removed file is freed with its last one.
    pub fn close(&mut self, inode: Inode) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.opened = node.opened.saturating_sub(1);
            self.collect(inode);
        }
    }

    /// Frees a file that has no directory entry and is not open.
    fn collect(&mut self, inode: Inode) {
        let Some(node) = self.nodes.get(&inode) else {
            return;
        };
        if node.linked || node.opened > 0 {
            return;
        }
        let memory = match &node.content {
            Content::File(data) => data.memory(),
            _ => 0,
        };
        self.used = self.used.saturating_sub(NODE_COST + memory);
        self.nodes.remove(&inode);
    }

    /// Removes a file, or with `directory` an empty directory.
    pub fn remove(&mut self, start: Inode, path: &str, directory: bool, user: User) -> Result<()> {
        let Some((parent, name)) = self.parent(start, path, user)? else {
            return Err(Error::new(EBUSY));
        };
        if matches!(name, "." | "..") {
            return Err(Error::new(EINVAL));
        }
        let inode = self.step(parent, name, user)?;
        let node = self.node(inode)?;
        match (&node.content, directory) {
            (Content::Directory { .. }, false) => return Err(Error::new(EISDIR)),
            (Content::Directory { entries, .. }, true) if !entries.is_empty() => {
                return Err(Error::new(ENOTEMPTY));
            }
            (Content::File(_) | Content::Device(_), true) => return Err(Error::new(ENOTDIR)),
            _ => {}
        }
        self.may_take(parent, inode, user)?;
        self.unlink(parent, name);
        Ok(())
    }

    /// Checks that the user may take this entry out of the directory.
    fn may_take(&self, parent: Inode, inode: Inode, user: User) -> Result<()> {
        let directory = self.node(parent)?;
        if !directory.allows(user, 2) {
            return Err(Error::new(EACCES));
        }
        // In a sticky directory such as /tmp only owners may do so.
        let owner = user.uid == 0 || user.uid == directory.uid || user.uid == self.node(inode)?.uid;
        if directory.permissions & 0o1000 != 0 && !owner {
            return Err(Error::new(EPERM));
        }
        Ok(())
    }

    fn unlink(&mut self, parent: Inode, name: &str) {
        let Ok(entries) = self.entries_mut(parent) else {
            return;
        };
        let Some(inode) = entries.remove(name) else {
            return;
        };
        self.used = self.used.saturating_sub(name.len() as u64);
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.linked = false;
        }
        self.collect(inode);
    }

    /// Moves a file or directory to another path, replacing a file (or an empty directory) there.
    pub fn rename(
        &mut self,
        (from_start, from): (Inode, &str),
        (to_start, to): (Inode, &str),
        user: User,
    ) -> Result<()> {
        let ends = (
            self.parent(from_start, from, user)?,
            self.parent(to_start, to, user)?,
        );
        let (Some((from_dir, from_name)), Some((to_dir, to_name))) = ends else {
            return Err(Error::new(EBUSY));
        };
        if [from_name, to_name]
            .iter()
            .any(|name| matches!(*name, "." | ".."))
        {
            return Err(Error::new(EINVAL));
        }
        let inode = self.step(from_dir, from_name, user)?;
        self.may_take(from_dir, inode, user)?;
        let moving_directory = self.node(inode)?.is_directory();
        // A directory must not become its own descendant.
        if moving_directory && self.is_below(to_dir, inode) {
            return Err(Error::new(EINVAL));
        }
        match self.step(to_dir, to_name, user) {
            Ok(existing) if existing == inode => return Ok(()),
            Ok(existing) => {
                match (&self.node(existing)?.content, moving_directory) {
                    (Content::Directory { .. }, false) => return Err(Error::new(EISDIR)),
                    (Content::File(_) | Content::Device(_), true) => {
                        return Err(Error::new(ENOTDIR));
                    }
                    (Content::Directory { entries, .. }, true) if !entries.is_empty() => {
                        return Err(Error::new(ENOTEMPTY));
                    }
                    _ => {}
                }
                self.may_take(to_dir, existing, user)?;
                self.unlink(to_dir, to_name);
            }
            Err(Error { errno: ENOENT }) => {
                let directory = self.node(to_dir)?;
                if !directory.allows(user, 2) {
                    return Err(Error::new(EACCES));
                }
                if !directory.linked {
                    return Err(Error::new(ENOENT));
                }
                // An entry that is replaced leaves its room to the new one.
                let more = to_name.len().saturating_sub(from_name.len());
                self.check_room(more as u64)?;
            }
            Err(error) => return Err(error),
        }
        self.entries_mut(to_dir)?.insert(to_name.into(), inode);
        self.entries_mut(from_dir)?.remove(from_name);
        self.used = (self.used + to_name.len() as u64).saturating_sub(from_name.len() as u64);
        if let Content::Directory { parent, .. } = &mut self.node_mut(inode)?.content {
            *parent = to_dir;
        }
        Ok(())
    }

    /// Whether `directory` is `above`, or lies somewhere below it.
    fn is_below(&self, directory: Inode, above: Inode) -> bool {
        let mut current = directory;
        loop {
            if current == above {
                return true;
            }
            match self.nodes.get(&current).map(|node| &node.content) {
                Some(Content::Directory { parent, .. }) if current != ROOT => current = *parent,
                _ => return false,
            }
        }
    }

    /// Reads from a file.
    ///
    /// # Errors
    /// EISDIR: it is a directory.
    pub fn read(&self, inode: Inode, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &self.node(inode)?.content {
            Content::File(data) => Ok(data.read(offset, buffer)),
            Content::Device(Device::Null) => Ok(0),
            Content::Device(Device::Zero) => {
                buffer.fill(0);
                Ok(buffer.len())
            }
            Content::Directory { .. } => Err(Error::new(EISDIR)),
        }
    }

    /// Writes to a file, at its end if there is no offset. ENOSPC: the limit is reached, or the
    /// system has no memory.
    pub fn write(&mut self, inode: Inode, offset: Option<u64>, bytes: &[u8]) -> Result<usize> {
        let written = self.change(inode, |data, room| {
            data.write(offset.unwrap_or(data.size()), bytes, room.bytes())
        })?;
        self.mark_modified(inode)?;
        Ok(written.unwrap_or(bytes.len()))
    }

    /// Cuts or lengthens a file.
    pub fn truncate(&mut self, inode: Inode, size: u64) -> Result<()> {
        self.change(inode, |data, _| data.truncate(size))?;
        self.mark_modified(inode)
    }

    /// Takes a mapping of a file into account. Returns the address of its first byte here.
    ///
    /// # Errors
    /// `ENODEV`: it is no file. `ENOMEM`: as ENOSPC of a write. `EOVERFLOW`: the file goes, or the
    /// mapping would go, further than the limit.
    pub fn map(&mut self, inode: Inode, offset: u64, size: usize) -> Result<usize> {
        if self.node(inode)?.is_directory() {
            return Err(Error::new(ENODEV));
        }
        let limit = self.limit;
        let address = self.change(inode, |data, room| {
            data.map(offset, size as u64, limit, room)
        })?;
        address.ok_or(Error::new(ENODEV))
    }

    /// Takes the end of a mapping, or of a part of it, into account.
    pub fn unmap(&mut self, inode: Inode, size: usize) {
        if let Ok(node) = self.node_mut(inode)
            && let Content::File(data) = &mut node.content
        {
            data.unmap(size as u64);
        }
    }

    /// Changes the content of a file, with the memory that it may take more. `None`: it
    /// is a device.
    ///
    /// # Errors
    /// EISDIR: it is a directory. Those of the change.
    fn change<T>(
        &mut self,
        inode: Inode,
        change: impl FnOnce(&mut Data, Room) -> Result<T>,
    ) -> Result<Option<T>> {
        let room = self.room();
        let data = match &mut self.node_mut(inode)?.content {
            Content::File(data) => data,
            Content::Device(_) => return Ok(None),
            Content::Directory { .. } => return Err(Error::new(EISDIR)),
        };
        let before = data.memory();
        let result = change(data, room);
        let after = data.memory();
        self.used = (self.used + after).saturating_sub(before);
        result.map(Some)
    }

    fn mark_modified(&mut self, inode: Inode) -> Result<()> {
        self.node_mut(inode)?.modified = self.now;
        Ok(())
    }

    /// Changes the permission bits (owner and root only). A mode of the type `MODE_SOCK` makes a
    /// file the name of a socket for good; other types change nothing.
    pub fn set_permissions(&mut self, inode: Inode, mode: u16, user: User) -> Result<()> {
        let node = self.owned(inode, user)?;
        node.permissions = mode & 0o7777;
        node.is_socket |= mode & MODE_TYPE == MODE_SOCK && matches!(node.content, Content::File(_));
        Ok(())
    }

    /// Sets the time of the last change of the content (owner and root only).
    pub fn set_modified(&mut self, inode: Inode, modified: u64, user: User) -> Result<()> {
        self.owned(inode, user)?.modified = modified;
        Ok(())
    }

    /// Returns a node for changes that only its owner and root may make.
    fn owned(&mut self, inode: Inode, user: User) -> Result<&mut Node> {
        let node = self.node_mut(inode)?;
        if user.uid != 0 && user.uid != node.uid {
            return Err(Error::new(EPERM));
        }
        Ok(node)
    }

    /// The attributes.
    pub fn attributes(&self, inode: Inode) -> Result<Attributes> {
        let node = self.node(inode)?;
        let (kind, size, memory) = match &node.content {
            Content::File(data) => {
                let kind = if node.is_socket { MODE_SOCK } else { MODE_FILE };
                (kind, data.size(), data.memory())
            }
            Content::Device(_) => (MODE_CHR, 0, 0),
            Content::Directory { .. } => (MODE_DIR, 0, 0),
        };
        Ok(Attributes {
            inode,
            mode: kind | node.permissions,
            uid: node.uid,
            gid: node.gid,
            links: u32::from(node.linked),
            size,
            memory,
            modified: node.modified,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use syscall::error::ENOMEM;
    use syscall::flag::{O_RDONLY, O_RDWR, O_WRONLY};

    const OWNER: User = User { uid: 0, gid: 0 };
    const GUEST: User = User { uid: 7, gid: 7 };
    const OTHER: User = User { uid: 8, gid: 8 };
    const NEW: usize = O_CREAT | O_RDWR | 0o644;

    fn fs() -> FileSystem {
        let mut fs = FileSystem::new(10 << 20);
        mkdir(&mut fs, "tmp", 0o1777, OWNER).unwrap();
        fs
    }

    fn mkdir(fs: &mut FileSystem, path: &str, mode: usize, user: User) -> Result<()> {
        let inode = fs.open(ROOT, path, O_CREAT | O_EXCL | O_DIRECTORY | mode, user)?;
        fs.close(inode);
        Ok(())
    }

    fn fails<T>(result: Result<T>, errno: i32) {
        assert_eq!(result.err(), Some(Error::new(errno)));
    }

    #[test]
    fn files_become_names_of_sockets_and_stay_so() {
        let mut fs = fs();
        let file = fs.open(ROOT, "tmp/s", NEW, GUEST).unwrap();
        fs.set_permissions(file, MODE_FILE | 0o600, GUEST).unwrap();
        assert_eq!(fs.attributes(file).unwrap().mode, MODE_FILE | 0o600);
        fails(fs.set_permissions(file, MODE_SOCK | 0o777, OTHER), EPERM);
        fs.set_permissions(file, MODE_SOCK | 0o755, GUEST).unwrap();
        assert_eq!(fs.attributes(file).unwrap().mode, MODE_SOCK | 0o755);
        fs.set_permissions(file, 0o700, GUEST).unwrap();
        assert_eq!(fs.attributes(file).unwrap().mode, MODE_SOCK | 0o700);
        let directory = fs.lookup(ROOT, "tmp", OWNER).unwrap();
        fs.set_permissions(directory, MODE_SOCK | 0o1777, OWNER)
            .unwrap();
        assert_eq!(fs.attributes(directory).unwrap().mode, MODE_DIR | 0o1777);
    }

    #[test]
    fn files_keep_what_is_written() {
        let mut fs = fs();
        fs.set_time(5);
        let file = fs.open(ROOT, "tmp/a", NEW, OWNER).unwrap();
        assert_eq!(fs.write(file, Some(0), b"hello"), Ok(5));
        assert_eq!(fs.write(file, None, b" world"), Ok(6));
        let again = fs.open(ROOT, "/tmp//./a", O_RDONLY, OWNER).unwrap();
        assert_eq!(again, file);
        let mut buffer = [0; 20];
        assert_eq!(fs.read(file, 6, &mut buffer), Ok(5));
        assert_eq!(&buffer[..5], b"world");
        let data = fs.attributes(file).unwrap();
        assert_eq!(
            (data.size, data.mode, data.links, data.modified),
            (11, MODE_FILE | 0o644, 1, 5)
        );
        fs.open(ROOT, "tmp/a", O_WRONLY | O_TRUNC, OWNER).unwrap();
        assert_eq!(fs.attributes(file).unwrap().size, 0);
        assert_eq!(fs.path(file).unwrap().as_deref(), Some("tmp/a"));
        assert_eq!(fs.path(ROOT).unwrap().as_deref(), Some(""));
    }

    #[test]
    fn open_checks_kind_and_existence() {
        let mut fs = fs();
        let file = fs.open(ROOT, "f", NEW, OWNER).unwrap();
        fs.close(file);
        fails(fs.open(ROOT, "none", O_RDONLY, OWNER), ENOENT);
        fails(fs.open(ROOT, "none/x", NEW, OWNER), ENOENT);
        fails(fs.open(ROOT, "f/x", NEW, OWNER), ENOTDIR);
        fails(fs.open(ROOT, "f/", O_RDONLY, OWNER), ENOTDIR);
        fails(fs.open(ROOT, "f", O_DIRECTORY | O_RDONLY, OWNER), ENOTDIR);
        fails(fs.open(ROOT, "f", NEW | O_EXCL, OWNER), EEXIST);
        fails(fs.open(ROOT, "", NEW | O_EXCL, OWNER), EEXIST);
        fails(fs.open(ROOT, "tmp", O_WRONLY, OWNER), EISDIR);
        fails(fs.open(ROOT, "tmp", O_RDONLY | O_TRUNC, OWNER), EISDIR);
        fails(
            fs.open(ROOT, &"x".repeat(MAX_NAME + 1), NEW, OWNER),
            ENAMETOOLONG,
        );
        fs.open(ROOT, &"x".repeat(MAX_NAME), NEW, OWNER).unwrap();
        let directory = fs.open(ROOT, "tmp/..//tmp/", O_RDONLY, OWNER).unwrap();
        fails(fs.read(directory, 0, &mut [0; 4]), EISDIR);
        fails(fs.write(directory, None, b"x"), EISDIR);
        assert!(fs.open(directory, "below", NEW, OWNER).is_ok());
        assert!(fs.lookup(ROOT, "tmp/below", OWNER).is_ok());
    }

    #[test]
    fn removed_files_live_until_they_are_closed() {
        let mut fs = fs();
        let before = fs.usage().0;
        let file = fs.open(ROOT, "tmp/a", NEW, OWNER).unwrap();
        fs.write(file, None, &[1; 100_000]).unwrap();
        assert!(fs.usage().0 > before + 100_000);
        fs.remove(ROOT, "tmp/a", false, OWNER).unwrap();
        fails(fs.lookup(ROOT, "tmp/a", OWNER), ENOENT);
        assert_eq!(fs.read(file, 0, &mut [0; 10]), Ok(10));
        assert_eq!(
            (fs.attributes(file).unwrap().links, fs.path(file)),
            (0, Ok(None))
        );
        fs.close(file);
        assert_eq!(fs.usage().0, before);
        assert_eq!(fs.count(), 2);
    }

    #[test]
    fn directories_are_removed_only_when_empty() {
        let mut fs = fs();
        mkdir(&mut fs, "d", 0o755, OWNER).unwrap();
        fails(mkdir(&mut fs, "d", 0o755, OWNER), EEXIST);
        mkdir(&mut fs, "d/e", 0o755, OWNER).unwrap();
        fails(fs.remove(ROOT, "d", false, OWNER), EISDIR);
        fails(fs.remove(ROOT, "d", true, OWNER), ENOTEMPTY);
        fails(fs.remove(ROOT, "", true, OWNER), EBUSY);
        fails(fs.remove(ROOT, "d/..", true, OWNER), EINVAL);
        let open = fs.open(ROOT, "d/e", O_RDONLY, OWNER).unwrap();
        fs.remove(ROOT, "d/e", true, OWNER).unwrap();
        // Nothing can be made in a directory that is gone.
        fails(fs.open(open, "x", NEW, OWNER), ENOENT);
        fs.close(open);
        fs.remove(ROOT, "d", true, OWNER).unwrap();
        let names: Vec<_> = fs.entries(ROOT).unwrap().keys().collect();
        assert_eq!(names, ["tmp"]);
    }

    #[test]
    fn renaming() {
        let mut fs = fs();
        mkdir(&mut fs, "d", 0o755, OWNER).unwrap();
        mkdir(&mut fs, "d/e", 0o755, OWNER).unwrap();
        let file = fs.open(ROOT, "f", NEW, OWNER).unwrap();
        let count = fs.count();
        let mut rename = |from, to| fs.rename((ROOT, from), (ROOT, to), OWNER);
        assert_eq!(rename("f", "d/g"), Ok(()));
        assert_eq!(rename("d/g", "d/g"), Ok(()));
        fails(rename("f", "x"), ENOENT);
        fails(rename("d", "d/e/x"), EINVAL);
        fails(rename("d", "d/g"), EINVAL);
        fails(rename("d/g", "tmp"), EISDIR);
        fails(rename("tmp", "d/g"), ENOTDIR);
        fails(rename("tmp", "d"), ENOTEMPTY);
        assert_eq!(rename("d/e", "tmp"), Ok(()));
        assert_eq!(fs.path(file).unwrap().as_deref(), Some("d/g"));
        assert_eq!(fs.count(), count - 1);
        assert_eq!(fs.lookup(ROOT, "tmp/..", OWNER), Ok(ROOT));
    }

    #[test]
    fn a_path_that_nobody_can_name_is_an_error() {
        let mut fs = fs();
        // Each directory is opened below the one before, so that no path limits the depth.
        let mut last = ROOT;
        for _ in 0..20_000 {
            last = fs
                .open(last, "d", O_CREAT | O_DIRECTORY | 0o755, OWNER)
                .unwrap();
        }
        fails(fs.path(last), ENAMETOOLONG);
        let file = fs.open(last, "f", NEW, OWNER).unwrap();
        fails(fs.path(file), ENAMETOOLONG);
        let mut deep = ROOT;
        for _ in 0..MAX_PATH / 2 - 1 {
            deep = fs.open(deep, "d", O_DIRECTORY | O_RDONLY, OWNER).unwrap();
        }
        let path = fs.path(deep).unwrap().unwrap();
        assert_eq!(fs.lookup(ROOT, &path, OWNER), Ok(deep));
    }

    #[test]
    fn permissions_bind_all_but_root() {
        let mut fs = fs();
        let secret = fs
            .open(ROOT, "secret", O_CREAT | O_RDWR | 0o600, OWNER)
            .unwrap();
        fs.open(ROOT, "public", NEW, OWNER).unwrap();
        fails(fs.open(ROOT, "secret", O_RDONLY, GUEST), EACCES);
        assert!(fs.open(ROOT, "secret", O_STAT, GUEST).is_ok());
        // Who opens a file for its status only gets no right by other flags.
        fs.write(secret, None, b"hidden").unwrap();
        let all = O_STAT | O_RDWR | O_TRUNC;
        assert_eq!(fs.open(ROOT, "secret", all, GUEST), Ok(secret));
        assert_eq!(fs.attributes(secret).unwrap().size, 6);
        assert_eq!(access(all), 0);
        assert_eq!(access(O_RDONLY | O_CREAT | 0o644), O_RDONLY);
        assert!(fs.open(ROOT, "public", O_RDONLY, GUEST).is_ok());
        fails(fs.open(ROOT, "public", O_WRONLY, GUEST), EACCES);
        fails(fs.open(ROOT, "public", O_RDONLY | O_TRUNC, GUEST), EACCES);
        fails(fs.open(ROOT, "mine", NEW, GUEST), EACCES);
        fails(fs.remove(ROOT, "public", false, GUEST), EACCES);
        fs.open(ROOT, "tmp/mine", NEW, GUEST).unwrap();
        fails(fs.remove(ROOT, "tmp/mine", false, OTHER), EPERM);
        fails(
            fs.rename((ROOT, "tmp/mine"), (ROOT, "tmp/yours"), OTHER),
            EPERM,
        );
        assert_eq!(fs.remove(ROOT, "tmp/mine", false, GUEST), Ok(()));
        mkdir(&mut fs, "closed", 0o700, OWNER).unwrap();
        fails(fs.lookup(ROOT, "closed/x", GUEST), EACCES);
        fails(fs.set_permissions(secret, 0o666, GUEST), EPERM);
        fails(fs.set_modified(secret, 5, GUEST), EPERM);
        fs.set_modified(secret, 5, OWNER).unwrap();
        assert_eq!(fs.attributes(secret).unwrap().modified, 5);
        fs.set_permissions(secret, 0o666, OWNER).unwrap();
        assert!(fs.open(ROOT, "secret", O_WRONLY, GUEST).is_ok());
    }

    #[test]
    fn devices() {
        let mut fs = fs();
        mkdir(&mut fs, "dev", 0o755, OWNER).unwrap();
        fs.make_device("dev/null", Device::Null).unwrap();
        fs.make_device("dev/zero", Device::Zero).unwrap();
        let null = fs.open(ROOT, "dev/null", NEW | O_TRUNC, GUEST).unwrap();
        assert_eq!(fs.write(null, None, &[1; 5000]), Ok(5000));
        assert_eq!(fs.read(null, 0, &mut [1; 9]), Ok(0));
        assert_eq!(fs.attributes(null).unwrap().mode, MODE_CHR | 0o666);
        let zero = fs.open(ROOT, "dev/zero", O_RDONLY, GUEST).unwrap();
        let mut buffer = [1; 9];
        assert_eq!(
            (fs.read(zero, 1 << 50, &mut buffer), buffer),
            (Ok(9), [0; 9])
        );
        fails(fs.open(ROOT, "dev/null/x", O_RDONLY, OWNER), ENOTDIR);
        fails(
            fs.open(ROOT, "dev/null", O_RDONLY | O_DIRECTORY, OWNER),
            ENOTDIR,
        );
        fails(fs.remove(ROOT, "dev/null", true, OWNER), ENOTDIR);
        fails(fs.remove(ROOT, "dev/null", false, GUEST), EACCES);
        fs.close(null);
        assert_eq!(fs.remove(ROOT, "dev/null", false, OWNER), Ok(()));
    }

    #[test]
    fn the_limit_holds_and_space_comes_back() {
        let mut fs = FileSystem::new(200_000);
        let start = fs.usage().0;
        let file = fs.open(ROOT, "f", NEW, OWNER).unwrap();
        let mut total = 0;
        while let Ok(count) = fs.write(file, None, &[7; 10_000]) {
            total += count;
        }
        assert!((180_000..200_000).contains(&total), "{total}");
        assert!(fs.usage().0 <= 200_000);
        assert_eq!(fs.attributes(file).unwrap().size, total as u64);
        fails(fs.write(file, None, b"x"), ENOSPC);
        fs.truncate(file, 0).unwrap();
        assert_eq!(fs.write(file, None, b"x"), Ok(1));
        fs.remove(ROOT, "f", false, OWNER).unwrap();
        fs.close(file);
        assert_eq!(fs.usage().0, start);
        // So does what the system has no more.
        let file = fs.open(ROOT, "f", NEW, OWNER).unwrap();
        fs.set_free(100);
        fails(fs.write(file, None, &[7; 10_000]), ENOSPC);
        fails(fs.open(ROOT, "g", NEW, OWNER), ENOSPC);
        fails(
            fs.rename((ROOT, "f"), (ROOT, &"n".repeat(102)), OWNER),
            ENOSPC,
        );
        // A rename that makes nothing longer needs no room.
        fs.set_free(0);
        let other = fs.open(ROOT, "f", O_RDWR, OWNER).unwrap();
        fs.close(other);
        for name in ["f", "h"] {
            fs.rename((ROOT, "f"), (ROOT, name), OWNER).unwrap();
        }
        fails(fs.rename((ROOT, "h"), (ROOT, "ff"), OWNER), ENOSPC);
        fs.rename((ROOT, "h"), (ROOT, "f"), OWNER).unwrap();
        fs.set_free(100);
        fails(fs.map(file, 0, 4096), ENOMEM);
        assert_eq!(fs.usage().1, 100);
        fs.set_free(u64::MAX);
        assert_eq!(fs.write(file, None, &[7; 10_000]), Ok(10_000));
        // Empty files count, too.
        let mut made = 0;
        while fs.open(ROOT, &alloc::format!("{made}"), NEW, OWNER).is_ok() {
            made += 1;
        }
        assert!(made < 1000);
    }
}
