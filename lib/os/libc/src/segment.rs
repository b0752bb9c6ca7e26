//! The files of System V shared memory, and the notes in them.
//!
//! A segment is a file in `/dev/shm`. Its number is the file's inode, which is never used again.
//! Behind the bytes of the segment the file has a page of notes: who made it, and which processes
//! have it attached. Whoever reads or writes the notes holds the file's lock, which ends with its
//! process. A segment that is removed loses the name that its key finds, and its file stays, as on
//! Linux, until the last process has detached it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::c_int;

use runtime::fs::{self, File, SeekFrom};
use runtime::io::{Read, Write};
use runtime::{Error, Result, process, signals, time};
use syscall::PAGE_SIZE;
use syscall::error::{EACCES, EINTR, EINVAL, ENOENT, ENOMEM, ENOSPC, ESRCH};
use syscall::flag::{O_RDONLY, O_RDWR};

use crate::locking;

/// Where the files are.
pub const DIRECTORY: &str = "/dev/shm";
/// How the names of the files of keys begin.
pub const KEYED: &str = "sysv.shm.key.";
/// How those of files without a key begin.
pub const PRIVATE: &str = "sysv.shm.private.";
/// How those of files begin that were removed while a process had them attached.
const REMOVED: &str = "sysv.shm.removed.";

/// The page of notes behind a segment. Other programs can write it, so nothing in it is relied on
/// but for what the segment's own users get.
pub struct Notes {
    /// Its words, see the constants.
    pub words: [u64; PAGE_SIZE / 8],
}

impl Notes {
    /// The place of the segment's size in bytes.
    const SIZE: usize = 0;
    /// The place of the process that made it.
    pub const CREATOR: usize = 1;
    /// The place of the process that attached or detached it last.
    pub const LAST_USER: usize = 2;
    /// The place of the time when it was attached last.
    pub const ATTACHED_AT: usize = 3;
    /// The place of the time when it was detached last.
    pub const DETACHED_AT: usize = 4;
    /// The place of the time when it was made or changed.
    pub const CHANGED_AT: usize = 5;
    /// The place of its key.
    pub const KEY: usize = 6;
    /// The place of the word that is not zero when it was removed.
    pub const IS_REMOVED: usize = 7;
    /// From here on: a process in the lower half, and how often it has the segment attached.
    const USERS: usize = 8;

    /// The notes of a new segment.
    pub fn new(size: usize, key: c_int) -> Self {
        let mut words = [0; PAGE_SIZE / 8];
        words[Self::SIZE] = size as u64;
        words[Self::CREATOR] = process::id().into();
        words[Self::CHANGED_AT] = now();
        words[Self::KEY] = u64::from(key as u32);
        Self { words }
    }

    /// Whether it was removed.
    pub fn is_removed(&self) -> bool {
        self.words[Self::IS_REMOVED] != 0
    }

    fn users(&mut self) -> &mut [u64] {
        &mut self.words[Self::USERS..]
    }

    /// Forgets the processes that have ended, and counts what the others have attached.
    pub fn attached(&mut self) -> u64 {
        let mut count = 0;
        for user in self.users() {
            match *user != 0 && is_running(*user as u32) {
                true => count += *user >> 32,
                false => *user = 0,
            }
        }
        count
    }

    /// Notes one more attachment of this process, or one less.
    ///
    /// # Errors
    /// `ENOMEM`: more processes than the page has room for.
    pub fn count(&mut self, is_more: bool) -> Result<()> {
        const ONE: u64 = 1 << 32;
        let own = process::id();
        let mut find = |pid| {
            let mut users = self.users().iter();
            users.position(|user| *user as u32 == pid)
        };
        let place = match find(own) {
            None if is_more && find(0).is_none() => {
                self.attached();
                self.users().iter().position(|user| *user == 0)
            }
            None if is_more => find(0),
            own => own,
        };
        let Some(place) = place else {
            // What was never noted needs no end.
            return if is_more {
                Err(Error::new(ENOMEM))
            } else {
                Ok(())
            };
        };
        let user = &mut self.users()[place];
        *user = match (*user, is_more) {
            (0, _) => u64::from(own) | ONE,
            (known, true) => known.saturating_add(ONE),
            (known, false) if known >= 2 * ONE => known - ONE,
            (_, false) => 0,
        };
        let at = if is_more {
            Self::ATTACHED_AT
        } else {
            Self::DETACHED_AT
        };
        self.words[at] = now();
        self.words[Self::LAST_USER] = own.into();
        Ok(())
    }
}

/// The time in seconds.
pub fn now() -> u64 {
    time::unix_time().as_secs()
}

/// Whether there is such a process; one that may not be sent a signal is there, too.
fn is_running(process: u32) -> bool {
    match signals::send(process as isize, 0) {
        Ok(()) => true,
        Err(error) => error.errno != ESRCH,
    }
}

/// A segment whose file is open and locked.
pub struct Segment {
    /// The file.
    pub file: File,
    /// What its page of notes says.
    pub notes: Notes,
    /// Whether the file is open for writing.
    pub is_writable: bool,
}

impl Segment {
    /// Opens and locks a file. It may have no notes yet.
    pub fn lock(file: File) -> Result<File> {
        const EXCLUSIVE: c_int = 2;
        loop {
            match locking::lock(file.as_raw_fd() as c_int, EXCLUSIVE) {
                Ok(()) => return Ok(file),
                Err(error) if error.errno == EINTR => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the notes; `None` if nobody has written them yet.
    ///
    /// # Errors
    /// `EINVAL`: the file is no segment.
    pub fn read(mut file: File, is_writable: bool) -> Result<core::result::Result<Self, File>> {
        let mut notes = Notes::new(0, 0);
        let length = file.metadata()?.len();
        let Some(size) = length.checked_sub(PAGE_SIZE as u64) else {
            return Ok(Err(file));
        };
        file.seek(SeekFrom::Start(size))?;
        let mut bytes = [0; PAGE_SIZE];
        file.read_exact(&mut bytes)?;
        for (word, bytes) in notes.words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        match notes.words[Notes::SIZE] {
            0 => Ok(Err(file)),
            noted if noted.checked_next_multiple_of(PAGE_SIZE as u64) == Some(size) => {
                Ok(Ok(Self {
                    file,
                    notes,
                    is_writable,
                }))
            }
            _ => Err(Error::new(EINVAL)),
        }
    }

    /// The number of its bytes.
    pub fn size(&self) -> usize {
        self.notes.words[Notes::SIZE] as usize
    }

    /// The number of bytes of its pages.
    pub fn pages(&self) -> usize {
        self.size().next_multiple_of(PAGE_SIZE)
    }

    /// The number by which programs know it.
    pub fn id(&self) -> Result<c_int> {
        id_of(self.file.metadata()?.stat().st_ino)
    }

    /// Writes the notes, if the file is open for writing. A process that may only read a segment
    /// leaves no notes.
    pub fn write(&mut self) -> Result<()> {
        if !self.is_writable {
            return Ok(());
        }
        let mut bytes = [0; PAGE_SIZE];
        for (word, place) in self.notes.words.iter().zip(bytes.as_chunks_mut().0) {
            *place = word.to_le_bytes();
        }
        self.file.seek(SeekFrom::Start(self.pages() as u64))?;
        self.file.write_all(&bytes)
    }

    /// Deletes the file of a segment that was removed and that nobody has attached.
    pub fn end_if_unused(&mut self, path: &str) -> Result<bool> {
        if !self.notes.is_removed() || self.notes.attached() > 0 {
            return Ok(false);
        }
        match fs::remove_file(path) {
            // Another process was quicker.
            Err(error) if error.errno != ENOENT => Err(error),
            _ => Ok(true),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        const NONE: c_int = 8;
        // A mapping of the file would keep the lock beyond the end of the descriptor.
        // The only error is that there is no such lock any more.
        let _ = locking::lock(self.file.as_raw_fd() as c_int, NONE);
    }
}

/// The number of a file as C has it.
fn id_of(inode: u64) -> Result<c_int> {
    c_int::try_from(inode).map_err(|_| Error::new(ENOSPC))
}

/// Opens a file, with the mode if that makes it.
pub fn open(path: &str, flags: usize, mode: u32) -> Result<File> {
    File::options()
        .custom_flags(flags)
        .mode(mode as u16)
        .open(path)
}

/// Opens for reading and writing, or for reading alone if only that is allowed and is enough.
pub fn open_for(path: &str, reading_is_enough: bool) -> Result<(File, bool)> {
    match open(path, O_RDWR, 0) {
        Err(error) if error.errno == EACCES && reading_is_enough => {
            open(path, O_RDONLY, 0).map(|file| (file, false))
        }
        file => file.map(|file| (file, true)),
    }
}

/// The paths of the files whose names begin in one of these ways.
fn paths(kinds: &[&str]) -> Result<Vec<String>> {
    let path = |entry: Result<fs::DirEntry>| match entry {
        Ok(entry) => {
            let name = entry.file_name();
            let is_one = kinds.iter().any(|kind| name.starts_with(kind));
            is_one.then(|| Ok(format!("{DIRECTORY}/{name}")))
        }
        Err(error) => Some(Err(error)),
    };
    fs::read_dir(DIRECTORY)?.filter_map(path).collect()
}

fn inode_of(path: &str) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    Some(found.stat().st_ino)
}

/// The name of a segment, known by its inode, after it was removed.
pub fn removed_path(inode: u64) -> String {
    format!("{DIRECTORY}/{REMOVED}{inode}")
}

/// Finds and locks the segment with a number.
///
/// # Errors
/// `EINVAL`: there is none. `EACCES`.
pub fn find(id: c_int, reading_is_enough: bool) -> Result<(Segment, String)> {
    /// A segment changes its name once, when it is removed.
    const ATTEMPTS: usize = 3;
    let none = Error::new(EINVAL);
    let id = u64::try_from(id).map_err(|_| none)?;
    for _ in 0..ATTEMPTS {
        let is_it = |path: &String| inode_of(path) == Some(id);
        let named = paths(&[KEYED, PRIVATE])?.into_iter().find(is_it);
        // Last, as a segment may be removed while the other names are looked at.
        let removed = || Some(removed_path(id)).filter(is_it);
        let path = named.or_else(removed).ok_or(none)?;
        let (file, is_writable) = match open_for(&path, reading_is_enough) {
            Err(error) if error.errno == ENOENT => continue,
            opened => opened?,
        };
        let file = Segment::lock(file)?;
        let is_same = file.metadata()?.stat().st_ino == id;
        // After waiting for the lock it may have another name.
        if is_same && inode_of(&path) == Some(id) {
            let segment = Segment::read(file, is_writable)?.map_err(|_| none)?;
            return Ok((segment, path));
        }
    }
    Err(none)
}

/// Deletes the segments that were removed and whose last users were killed.
pub fn clean_up() -> Result<()> {
    for path in paths(&[REMOVED])? {
        let id = inode_of(&path).and_then(|inode| id_of(inode).ok());
        // Those of other users are for them to delete.
        if let Some(Ok((mut segment, path))) = id.map(|id| find(id, false)) {
            let _ = segment.end_if_unused(&path);
        }
    }
    Ok(())
}
