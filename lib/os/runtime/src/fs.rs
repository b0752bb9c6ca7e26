//! Files and directories, after `std::fs`.

use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::protocol::O_CLOEXEC;
use syscall::data::Stat;
use syscall::dirent::{DirentHeader, DirentKind};
use syscall::error::{EINVAL, EIO, Error, Result};
use syscall::flag::*;

use crate::io::{Read, Write};
use crate::{fd, path};

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    flags: usize,
    mode: usize,
}

impl OpenOptions {
    /// No access and no flags.
    pub fn new() -> Self {
        OpenOptions {
            flags: 0,
            mode: 0o644,
        }
    }

    fn set(&mut self, flag: usize, on: bool) -> &mut Self {
        self.flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
        self
    }

    /// For reading.
    pub fn read(&mut self, on: bool) -> &mut Self {
        self.set(O_RDONLY, on)
    }

    /// For writing.
    pub fn write(&mut self, on: bool) -> &mut Self {
        self.set(O_WRONLY, on)
    }

    /// Every write goes to the end; implies writing.
    pub fn append(&mut self, on: bool) -> &mut Self {
        // Turning it off keeps the right to write, which may have been requested separately.
        self.set(if on { O_APPEND | O_WRONLY } else { O_APPEND }, on)
    }

    /// Empties the file.
    pub fn truncate(&mut self, on: bool) -> &mut Self {
        self.set(O_TRUNC, on)
    }

    /// Creates the file if it does not exist.
    pub fn create(&mut self, on: bool) -> &mut Self {
        self.set(O_CREAT, on)
    }

    /// Adds `O_*` flags.
    pub fn custom_flags(&mut self, flags: usize) -> &mut Self {
        self.set(flags, true)
    }

    /// Permission bits of a new file.
    pub fn mode(&mut self, mode: u16) -> &mut Self {
        self.mode = mode.into();
        self
    }

    /// Opens `path`.
    pub fn open(&self, path: &str) -> Result<File> {
        let mode = if self.flags & O_CREAT != 0 {
            self.mode & 0o7777
        } else {
            0
        };
        Ok(File {
            fd: Fd::new(path::open(path, self.flags | O_CLOEXEC | mode)?),
        })
    }
}

/// An open file; closed when dropped.
pub struct File {
    fd: Fd,
}

/// Where a position counts from.
#[derive(Clone, Copy, Debug)]
pub enum SeekFrom {
    /// The beginning.
    Start(u64),
    /// The present position.
    Current(i64),
    /// The end.
    End(i64),
}

impl File {
    /// Opens for reading.
    pub fn open(path: &str) -> Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens for writing; creates the file, or empties it.
    pub fn create(path: &str) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
    }

    /// Options to open a file in another way.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// The descriptor number.
    pub fn as_raw_fd(&self) -> usize {
        self.fd.raw()
    }

    /// Takes ownership of a descriptor number.
    pub fn from_raw_fd(fd: usize) -> File {
        File { fd: Fd::new(fd) }
    }

    /// Returns the descriptor number without closing it.
    pub fn into_raw_fd(self) -> usize {
        self.fd.into_raw()
    }

    /// The descriptor as a `libredox` type.
    pub fn as_fd(&self) -> &Fd {
        &self.fd
    }

    /// Moves the position. Returns the new position, counted from the beginning.
    pub fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let (offset, whence) = match to {
            SeekFrom::Start(n) => (i64::try_from(n).map_err(|_| Error::new(EINVAL))?, SEEK_SET),
            SeekFrom::Current(n) => (n, SEEK_CUR),
            SeekFrom::End(n) => (n, SEEK_END),
        };
        fd::lseek(self.fd.raw(), offset, whence).map(|position| position as u64)
    }

    /// The file's attributes.
    pub fn metadata(&self) -> Result<Metadata> {
        fd::fstat(self.fd.raw()).map(|stat| Metadata { stat })
    }

    /// A second descriptor for the same open file.
    pub fn try_clone(&self) -> Result<File> {
        fd::dup(self.fd.raw(), b"").map(File::from_raw_fd)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        fd::read(self.fd.raw(), buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        fd::write(self.fd.raw(), bytes)
    }
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    stat: Stat,
}

impl Metadata {
    /// Size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "named as in std")]
    pub fn len(&self) -> u64 {
        self.stat.st_size
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.stat.st_mode & MODE_TYPE == MODE_DIR
    }

    /// Whether it is a plain file.
    pub fn is_file(&self) -> bool {
        self.stat.st_mode & MODE_TYPE == MODE_FILE
    }

    /// Type and permission bits.
    pub fn mode(&self) -> u16 {
        self.stat.st_mode
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.stat.st_uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.stat.st_gid
    }

    /// All attributes.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }
}

/// One name of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    name: String,
    kind: u8,
    inode: u64,
}

impl DirEntry {
    /// The name within the directory.
    pub fn file_name(&self) -> &str {
        &self.name
    }

    /// Whether the scheme calls it a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == DirentKind::Directory as u8
    }

    /// Whether the scheme calls it a plain file.
    pub fn is_file(&self) -> bool {
        self.kind == DirentKind::Regular as u8
    }

    /// The `DirentKind` as a number; 0 if the scheme does not report it.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The inode number; 0 if the scheme has none.
    pub fn inode(&self) -> u64 {
        self.inode
    }
}

/// The names of a directory.
pub struct ReadDir {
    fd: Fd,
    buffer: Vec<u8>,
    filled: usize,
    at: usize,
    opaque: u64,
    failed: bool,
}

impl ReadDir {
    /// The names of an open directory, from the first one.
    pub fn from_raw_fd(fd: usize) -> ReadDir {
        ReadDir {
            fd: Fd::new(fd),
            buffer: alloc::vec![0; 4096],
            filled: 0,
            at: 0,
            opaque: 0,
            failed: false,
        }
    }

    /// The directory's descriptor.
    pub fn as_raw_fd(&self) -> usize {
        self.fd.raw()
    }

    /// The directory's descriptor, which stays open.
    pub fn into_raw_fd(self) -> usize {
        self.fd.into_raw()
    }

    /// Where the next name is. 0 is the beginning.
    pub fn position(&self) -> u64 {
        self.opaque
    }

    /// Goes on from a place that [`position`](Self::position) has given.
    pub fn seek(&mut self, position: u64) {
        (self.filled, self.at) = (0, 0);
        self.opaque = position;
        self.failed = false;
    }

    fn entry(&mut self) -> Result<Option<DirEntry>> {
        const HEADER: usize = size_of::<DirentHeader>();
        if self.at >= self.filled {
            self.filled = fd::getdents(self.fd.raw(), &mut self.buffer, self.opaque)?;
            self.at = 0;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        // Records come from a daemon, so every length is checked.
        let record = self
            .buffer
            .get(self.at..self.filled)
            .ok_or(Error::new(EIO))?;
        let word = |at: usize| -> Result<u64> {
            let bytes = record.get(at..at + 8).ok_or(Error::new(EIO))?;
            Ok(u64::from_le_bytes(
                bytes.try_into().map_err(|_| Error::new(EIO))?,
            ))
        };
        let (inode, next) = (word(0)?, word(8)?);
        let length = match record.get(16..18) {
            Some(bytes) => usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            None => return Err(Error::new(EIO)),
        };
        let kind = *record.get(18).ok_or(Error::new(EIO))?;
        let name = record.get(HEADER..length).ok_or(Error::new(EIO))?;
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        self.at += length;
        self.opaque = next;
        Ok(Some(DirEntry { name, kind, inode }))
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let entry = self.entry();
        self.failed = entry.is_err();
        entry.transpose()
    }
}

/// Reads a whole file.
pub fn read(path: &str) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut data = Vec::new();
    file.read_to_end(&mut data)?;
    Ok(data)
}

/// Reads a whole file as text; EILSEQ if it is not UTF-8.
pub fn read_to_string(path: &str) -> Result<String> {
    let mut file = File::open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a whole file, replacing its previous contents.
pub fn write(path: &str, data: impl AsRef<[u8]>) -> Result<()> {
    File::create(path)?.write_all(data.as_ref())
}

/// The names in a directory.
pub fn read_dir(path: &str) -> Result<ReadDir> {
    path::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC).map(ReadDir::from_raw_fd)
}

/// The attributes of the object at a path.
pub fn metadata(path: &str) -> Result<Metadata> {
    let fd = Fd::new(path::open(path, O_STAT | O_CLOEXEC)?);
    fd::fstat(fd.raw()).map(|stat| Metadata { stat })
}

/// Makes a directory.
pub fn create_dir(path: &str) -> Result<()> {
    let flags = O_CREAT | O_EXCL | O_DIRECTORY | O_CLOEXEC | 0o755;
    fd::close(path::open(path, flags)?)
}

/// Removes a file.
pub fn remove_file(path: &str) -> Result<()> {
    path::unlink(path, 0)
}

/// Removes an empty directory.
pub fn remove_dir(path: &str) -> Result<()> {
    path::unlink(path, syscall::AT_REMOVEDIR)
}

/// Moves a file or directory within its file system, replacing a file or empty directory of that
/// name; `EXDEV` if `to` is in another one.
pub fn rename(from: &str, to: &str) -> Result<()> {
    path::rename(from, to)
}
