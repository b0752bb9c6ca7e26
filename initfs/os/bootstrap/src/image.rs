//! The boot image's file system: a table of inodes, directories and file data in one piece of
//! memory. Everything is checked before it is used; a damaged image yields errors, not panics.

use alloc::string::String;
use alloc::vec::Vec;

use syscall::error::{EIO, ENOENT, ENOTDIR, Error, Result};
use syscall::flag::{MODE_DIR, MODE_FILE, MODE_SYMLINK};

const INODE_SIZE: usize = 20;
const ENTRY_SIZE: usize = 8;

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Link,
}

/// One file or directory.
#[derive(Debug)]
pub struct Inode<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Permission bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Its bytes.
    pub data: &'a [u8],
    /// The path below the root, found when the image was read.
    pub path: String,
    /// The directory that contains it; the root contains itself.
    pub parent: usize,
    /// Names and inodes of the entries, if it is a directory.
    pub entries: Vec<(&'a str, usize)>,
}

impl Inode<'_> {
    /// Type and permission bits in the form of `Stat`.
    pub fn mode(&self) -> u16 {
        let kind = match self.kind {
            Kind::File => MODE_FILE,
            Kind::Dir => MODE_DIR,
            Kind::Link => MODE_SYMLINK,
        };
        kind | self.permissions
    }
}

/// The files of the image; inode 0 is the root.
#[derive(Debug)]
pub struct Image<'a> {
    inodes: Vec<Inode<'a>>,
    /// Seconds since 1970 when the image was made.
    pub created: u64,
}

fn bytes<const N: usize>(image: &[u8], at: usize) -> Result<[u8; N]> {
    let end = at.checked_add(N).ok_or(Error::new(EIO))?;
    let slice = image.get(at..end).ok_or(Error::new(EIO))?;
    slice.try_into().map_err(|_| Error::new(EIO))
}

fn half(image: &[u8], at: usize) -> Result<usize> {
    Ok(usize::from(u16::from_le_bytes(bytes(image, at)?)))
}

fn int(image: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes(image, at)?))
}

impl<'a> Image<'a> {
    /// Reads the table and the directories. EIO: something points outside of the image.
    pub fn read(image: &'a [u8]) -> Result<Image<'a>> {
        let table = int(image, 8)? as usize;
        let created = u64::from_le_bytes(bytes(image, 12)?);
        let count = half(image, 24)?;
        let mut inodes = Vec::with_capacity(count);
        for index in 0..count {
            // At most 65 535 inodes after a 32-bit offset: this cannot overflow.
            let at = table + index * INODE_SIZE;
            let mode = int(image, at)?;
            let length = int(image, at + 4)? as usize;
            let offset = int(image, at + 8)? as usize;
            let kind = match mode >> 28 {
                0 => Kind::File,
                1 => Kind::Dir,
                2 => Kind::Link,
                _ => return Err(Error::new(EIO)),
            };
            let data = image.get(offset..offset + length).ok_or(Error::new(EIO))?;
            let mut entries = Vec::new();
            if kind == Kind::Dir {
                for entry in data.chunks_exact(ENTRY_SIZE) {
                    let inode = half(entry, 0)?;
                    let (length, at) = (half(entry, 2)?, int(entry, 4)? as usize);
                    let name = image.get(at..at + length).ok_or(Error::new(EIO))?;
                    let name = core::str::from_utf8(name).map_err(|_| Error::new(EIO))?;
                    if inode >= count {
                        return Err(Error::new(EIO));
                    }
                    entries.push((name, inode));
                }
            }
            inodes.push(Inode {
                kind,
                permissions: (mode & 0o7777) as u16,
                uid: int(image, at + 12)?,
                gid: int(image, at + 16)?,
                data,
                path: String::new(),
                parent: 0,
                entries,
            });
        }
        if inodes.first().is_none_or(|root| root.kind != Kind::Dir) {
            return Err(Error::new(EIO));
        }
        let mut image = Image { inodes, created };
        image.find_paths();
        Ok(image)
    }

    /// Sets the path of every reachable inode. Each is visited only once, so a directory that
    /// contains itself is harmless.
    fn find_paths(&mut self) {
        let mut visited = alloc::vec![false; self.inodes.len()];
        visited[0] = true;
        let mut waiting = alloc::vec![0];
        while let Some(index) = waiting.pop() {
            for (name, child) in self.inodes[index].entries.clone() {
                if core::mem::replace(&mut visited[child], true) {
                    continue;
                }
                let mut path = self.inodes[index].path.clone();
                if !path.is_empty() {
                    path.push('/');
                }
                path.push_str(name);
                self.inodes[child].path = path;
                self.inodes[child].parent = index;
                waiting.push(child);
            }
        }
    }

    /// Returns the inode with this number, which came from [`lookup`](Self::lookup).
    pub fn inode(&self, index: usize) -> Result<&Inode<'a>> {
        self.inodes.get(index).ok_or(Error::new(EIO))
    }

    /// Finds a path below a directory.
    pub fn lookup(&self, start: usize, path: &str) -> Result<usize> {
        let mut index = start;
        for part in path.split('/') {
            let inode = self.inode(index)?;
            match part {
                "" => continue,
                _ if inode.kind != Kind::Dir => return Err(Error::new(ENOTDIR)),
                "." => {}
                ".." => index = inode.parent,
                _ => {
                    index = inode
                        .entries
                        .iter()
                        .find(|(name, _)| *name == part)
                        .map(|(_, child)| *child)
                        .ok_or(Error::new(ENOENT))?;
                }
            }
        }
        Ok(index)
    }

    /// Returns the bytes of the file at `path`.
    pub fn file(&self, path: &str) -> Result<&'a [u8]> {
        Ok(self.inode(self.lookup(0, path)?)?.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with `a` and `d/b`, built by hand: inodes 0 root, 1 `a`, 2 `d`, 3 `d/b`.
    fn image() -> Vec<u8> {
        let mut image = alloc::vec![0; 44];
        let mut put = |bytes: &[u8]| {
            let at = image.len() as u32;
            image.extend_from_slice(bytes);
            at
        };
        let names = put(b"adb");
        let (first, second) = (put(b"first"), put(b"second file"));
        let entry = |inode: u16, name: u32| {
            let mut entry = Vec::from(inode.to_le_bytes());
            entry.extend_from_slice(&1_u16.to_le_bytes());
            entry.extend_from_slice(&name.to_le_bytes());
            entry
        };
        let root = put(&[entry(1, names), entry(2, names + 1)].concat());
        let directory = put(&entry(3, names + 2));
        let mut table = Vec::new();
        for (mode, length, offset) in [
            (1 << 28 | 0o755, 16, root),
            (0o644, 5, first),
            (1 << 28 | 0o755, 8, directory),
            (0o600, 11, second),
        ] {
            for word in [mode, length, offset, 0, 0] {
                table.extend_from_slice(&u32::to_le_bytes(word));
            }
        }
        let table = put(&table);
        image[8..12].copy_from_slice(&table.to_le_bytes());
        image[24..26].copy_from_slice(&4_u16.to_le_bytes());
        image
    }

    fn read(image: Vec<u8>) -> Result<Image<'static>> {
        Image::read(Vec::leak(image))
    }

    #[test]
    fn finds_files_by_path() {
        let image = read(image()).unwrap();
        assert_eq!(image.file("a").unwrap(), b"first");
        assert_eq!(image.file("/d//b").unwrap(), b"second file");
        assert_eq!(image.lookup(2, "b").unwrap(), 3);
        assert_eq!(image.lookup(2, "../a").unwrap(), 1);
        assert_eq!(image.lookup(0, "../../d/.").unwrap(), 2);
        assert_eq!(image.inode(3).unwrap().path, "d/b");
        assert_eq!(image.inode(3).unwrap().mode(), MODE_FILE | 0o600);
    }

    #[test]
    fn names_what_is_wrong_with_a_path() {
        let image = read(image()).unwrap();
        let errno = |path| image.lookup(0, path).err().map(|error| error.errno);
        assert_eq!(errno("x"), Some(ENOENT));
        assert_eq!(errno("d/x"), Some(ENOENT));
        assert_eq!(errno("a/x"), Some(ENOTDIR));
        assert_eq!(errno("a/.."), Some(ENOTDIR));
        assert!(image.inode(99).is_err());
    }

    #[test]
    fn damage_is_an_error_or_harmless() {
        let whole = image();
        for length in 0..whole.len() {
            let _ = read(Vec::from(&whole[..length]));
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Ok(image) = read(damaged) {
                    let _ = image.lookup(0, "d/b/../../d/b");
                }
            }
        }
    }

    #[test]
    fn a_directory_may_contain_itself() {
        let mut image = image();
        let table = u32::from_le_bytes([image[8], image[9], image[10], image[11]]) as usize;
        // `d` gets the entries of the root, so it contains itself.
        let root: Vec<u8> = image[table + 4..table + 12].into();
        image[table + 44..table + 52].copy_from_slice(&root);
        let image = read(image).unwrap();
        assert_eq!(image.lookup(0, "d/d/d/a").unwrap(), 1);
    }
}
