//! The names in the tree: paths, and the entries of directories.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use syscall::dirent::{DirEntry, DirentBuf, DirentKind};
use syscall::error::{EINVAL, ENAMETOOLONG, Error, Result};

use super::{FileSystem, Inode, MAX_PATH, ROOT};
use crate::node::{Content, Node};

/// How far a directory was listed by one opening of it.
#[derive(Debug, Default)]
pub struct Listing {
    /// The position after the last entry that was listed.
    position: u64,
    /// The name of that entry.
    last: String,
}

impl FileSystem {
    /// The absolute path of a file or directory, without a leading slash; `None` if it was
    /// removed.
    ///
    /// # Errors
    /// ENAMETOOLONG: it is longer than any path that can be opened. Directories may be nested so
    /// deeply.
    pub fn path(&self, inode: Inode) -> Result<Option<String>> {
        let mut names = Vec::new();
        let mut length = 0;
        let mut current = inode;
        while current != ROOT {
            let Some((name, parent)) = self.link(current) else {
                return Ok(None);
            };
            length += name.len() + 1;
            if length > MAX_PATH {
                return Err(Error::new(ENAMETOOLONG));
            }
            names.push(name);
            current = parent;
        }
        names.reverse();
        Ok(Some(names.join("/")))
    }

    /// The directory entry that leads to a file or directory: its name, and the directory.
    fn link(&self, inode: Inode) -> Option<(&str, Inode)> {
        // A directory has a link to its parent; the one of a file must be searched for.
        let parent = match &self.nodes.get(&inode)?.content {
            Content::Directory { parent, .. } => *parent,
            _ => self.parent_of(inode)?,
        };
        let mut entries = self.entries(parent).ok()?.iter();
        let (name, _) = entries.find(|(_, child)| **child == inode)?;
        Some((name, parent))
    }

    fn parent_of(&self, inode: Inode) -> Option<Inode> {
        self.nodes
            .iter()
            .find(|(_, node)| match &node.content {
                Content::Directory { entries, .. } => entries.values().any(|child| *child == inode),
                _ => false,
            })
            .map(|(parent, _)| *parent)
    }

    /// Fills `buffer` with as many entries of a directory as fit, in the order of their names.
    /// `opaque` is the position after the last entry that the caller has got, 0 at first.
    ///
    /// A caller that goes on where `listing` ended gets the entries behind that name, also if
    /// entries were removed meanwhile, and without a walk over those before. Any other position is
    /// the number of entries to leave out.
    ///
    /// # Errors
    /// ENOTDIR: it is no directory. EINVAL: not even one entry fits.
    pub fn list<'b>(
        &self,
        directory: Inode,
        listing: &mut Listing,
        opaque: u64,
        mut buffer: DirentBuf<&'b mut [u8]>,
    ) -> Result<DirentBuf<&'b mut [u8]>> {
        let (after, left_out) = match opaque {
            0 => (Bound::Unbounded, 0),
            _ if opaque == listing.position => (Bound::Excluded(listing.last.as_str()), 0),
            _ => (Bound::Unbounded, opaque),
        };
        let left_out = usize::try_from(left_out).map_err(|_| Error::new(EINVAL))?;
        let entries = self.entries(directory)?;
        let entries = entries.range::<str, _>((after, Bound::Unbounded));
        let (mut position, mut last) = (opaque, None);
        for (name, &inode) in entries.skip(left_out) {
            let next = position + 1;
            let entry = DirEntry {
                inode,
                next_opaque_id: next,
                name,
                kind: kind(self.node(inode)?),
            };
            match buffer.entry(entry) {
                Ok(()) => (position, last) = (next, Some(name)),
                // Full: the caller asks again from the last entry it got.
                Err(_) if last.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        if let Some(name) = last {
            let last = name.clone();
            *listing = Listing { position, last };
        }
        Ok(buffer)
    }
}

fn kind(node: &Node) -> DirentKind {
    match node.content {
        Content::Directory { .. } => DirentKind::Directory,
        Content::Device(_) => DirentKind::CharDev,
        Content::File(_) => DirentKind::Regular,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    use syscall::dirent::DirentHeader;
    use syscall::flag::{O_CREAT, O_RDWR};

    use crate::fs::User;

    const OWNER: User = User { uid: 0, gid: 0 };

    /// The names that one call lists, and the position after them.
    fn list(fs: &FileSystem, listing: &mut Listing, opaque: u64) -> (Vec<String>, u64) {
        const HEADER: usize = size_of::<DirentHeader>();
        let mut bytes = [0; 500];
        let buffer = DirentBuf::new(&mut bytes[..], HEADER as u16).unwrap();
        let count = fs.list(ROOT, listing, opaque, buffer).unwrap().finalize();
        let (mut rest, mut names, mut position) = (&bytes[..count], Vec::new(), opaque);
        while !rest.is_empty() {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            position = u64::from_ne_bytes(*rest[8..].first_chunk().unwrap());
            let name = rest[HEADER..length].split(|byte| *byte == 0).next();
            names.push(String::from_utf8_lossy(name.unwrap()).into_owned());
            rest = &rest[length..];
        }
        (names, position)
    }

    fn with_files(count: usize) -> (FileSystem, Vec<String>) {
        let mut fs = FileSystem::new(1 << 20);
        let names: Vec<String> = (0..count).map(|number| format!("{number:03}")).collect();
        for name in &names {
            let file = fs.open(ROOT, name, O_CREAT | O_RDWR, OWNER).unwrap();
            fs.close(file);
        }
        (fs, names)
    }

    #[test]
    fn all_names_are_listed_although_entries_are_removed_meanwhile() {
        for removes in [false, true] {
            let (mut fs, names) = with_files(200);
            let (mut listing, mut position) = (Listing::default(), 0);
            let mut found = Vec::new();
            loop {
                let (some, next) = list(&fs, &mut listing, position);
                if some.is_empty() {
                    break;
                }
                for name in some.iter().filter(|_| removes) {
                    fs.remove(ROOT, name, false, OWNER).unwrap();
                }
                found.extend(some);
                position = next;
            }
            assert_eq!(found, names, "removed: {removes}");
        }
    }

    #[test]
    fn any_position_can_be_listed_from() {
        let (fs, names) = with_files(40);
        let mut listing = Listing::default();
        for position in [0, 7, 3, 39, 0] {
            let (some, _) = list(&fs, &mut listing, position);
            assert_eq!(some.first(), names.get(position as usize));
        }
        assert_eq!(list(&fs, &mut listing, 40).0, [""; 0]);
        assert_eq!(list(&fs, &mut listing, u64::MAX).0, [""; 0]);
    }
}
