//! Packs and reads images in the format of Redox's initfs.
//!
//! Layout (little endian, packed): a header page, the bootstrap program as it lies in memory, the
//! inode table, directory entries, names, file data. The kernel maps the whole image at address
//! 0x1000 and jumps to the address in the entry word; the initfs daemon in the bootstrap reads the
//! tables. The image is padded to whole pages, because kernels count in whole pages.

use crate::elf::Flat;
use harness::base::report::{Context, Result};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const MAGIC: &[u8; 8] = b"RedoxFtw";
const PAGE_BYTES: usize = 4096;
/// Address at which kernels map the first byte of the image.
const MAP_ADDRESS: u64 = 0x1000;
/// Address of the bootstrap program, directly behind the header page.
pub const BOOTSTRAP_ADDRESS: u64 = MAP_ADDRESS + PAGE_BYTES as u64;
const INODE_BYTES: usize = 20;
const ENTRY_BYTES: usize = 8;
const TYPE_SHIFT: u32 = 28;
const TYPE_FILE: u32 = 0;
const TYPE_DIRECTORY: u32 = 1;
const MODE_MASK: u32 = (1 << TYPE_SHIFT) - 1;
/// Index of the root directory's inode.
const ROOT: usize = 0;
/// Alignment of files in the image, so that programs find their headers aligned.
const DATA_ALIGN: usize = 16;
/// Greatest depth of directories; deeper ones are a mistake (a link that points at its own
/// parent).
const MAX_DEPTH: usize = 32;

/// A directory to pack.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File { data: Vec<u8>, mode: u32 },
    Directory(Tree),
}

impl Tree {
    /// Adds a file and the directories of its path. It replaces an earlier file with that path.
    pub fn insert(&mut self, path: &str, data: Vec<u8>, mode: u32) -> Result<()> {
        let (first, rest) = match path.split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        if matches!(first, "" | "." | "..") {
            return Err(format!("'{path}' is not a path relative to the image's root").into());
        }
        let Some(rest) = rest else {
            if matches!(self.entries.get(first), Some(Entry::Directory(_))) {
                return Err(format!("'{path}' is a directory of the image already").into());
            }
            self.entries
                .insert(first.to_string(), Entry::File { data, mode });
            return Ok(());
        };
        let directory = self
            .entries
            .entry(first.to_string())
            .or_insert_with(|| Entry::Directory(Self::default()));
        match directory {
            Entry::Directory(tree) => tree.insert(rest, data, mode),
            Entry::File { .. } => Err(format!("'{first}' is a file of the image already").into()),
        }
    }

    /// Adds all files below a directory of this machine. `prefix` is empty or ends with a slash.
    pub fn overlay(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        self.overlay_below(directory, prefix, 0)
    }

    fn overlay_below(&mut self, directory: &Path, prefix: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            let shown = directory.display();
            return Err(format!("{shown}: more than {MAX_DEPTH} directories deep").into());
        }
        let shown = || format!("read the directory {}", directory.display());
        for item in std::fs::read_dir(directory).context(shown)? {
            let item = item.context(shown)?;
            let path = item.path();
            let Ok(name) = item.file_name().into_string() else {
                return Err(format!("{}: the name is not UTF-8", path.display()).into());
            };
            let read = || format!("read {}", path.display());
            let data = std::fs::metadata(&path).context(read)?;
            let inside = format!("{prefix}{name}");
            if data.is_dir() {
                self.overlay_below(&path, &format!("{inside}/"), depth + 1)?;
            } else if data.is_file() {
                let mode = data.permissions().mode() & 0o777;
                self.insert(&inside, std::fs::read(&path).context(read)?, mode)?;
            } else {
                let shown = path.display();
                return Err(format!("{shown}: neither a file nor a directory").into());
            }
        }
        Ok(())
    }

    /// Number of inodes below this directory.
    fn count(&self) -> usize {
        let below = |entry: &Entry| match entry {
            Entry::File { .. } => 0,
            Entry::Directory(tree) => tree.count(),
        };
        self.entries.values().map(|entry| 1 + below(entry)).sum()
    }
}

/// Makes the image: header, bootstrap, tables and files. The same input gives the same bytes.
pub fn pack(bootstrap: &Flat, tree: &Tree) -> Result<Vec<u8>> {
    if bootstrap.base != BOOTSTRAP_ADDRESS {
        return Err(format!(
            "the bootstrap is linked for {:#x}, the image has it at {BOOTSTRAP_ADDRESS:#x}",
            bootstrap.base
        )
        .into());
    }
    let inodes = tree.count() + 1;
    if inodes > u16::MAX as usize {
        return Err(format!("{inodes} files: the format has room for {}", u16::MAX).into());
    }
    let mut image = vec![0; PAGE_BYTES];
    image.extend_from_slice(&bootstrap.bytes);
    image.resize(image.len().next_multiple_of(PAGE_BYTES), 0);
    let table = image.len();
    image.resize(table + inodes * INODE_BYTES, 0);
    let mut packer = Packer {
        image,
        table,
        next_inode: ROOT + 1,
    };
    packer.directory(ROOT, tree)?;
    let mut image = packer.image;
    image.resize(image.len().next_multiple_of(PAGE_BYTES), 0);

    image[..8].copy_from_slice(MAGIC);
    image[8..12].copy_from_slice(&offset_word(table)?);
    // 12..24, the creation time, stays 0, so that the same input gives the same image.
    image[24..26].copy_from_slice(&(inodes as u16).to_le_bytes());
    image[26..34].copy_from_slice(&bootstrap.entry.to_le_bytes());
    let size = image.len() as u64;
    image[34..42].copy_from_slice(&size.to_le_bytes());
    image[42..44].copy_from_slice(&(PAGE_BYTES as u16).to_le_bytes());
    Ok(image)
}

/// Removes the entry address from an image, so that a kernel has nothing to start. It is for a
/// test in which the kernel must panic.
pub fn spoil(image: &mut [u8]) {
    image[26..34].fill(0);
}

fn offset_word(offset: usize) -> Result<[u8; 4]> {
    let word = u32::try_from(offset);
    Ok(word
        .context(|| format!("pack {offset:#x} bytes: the format ends at 4 GiB"))?
        .to_le_bytes())
}

struct Packer {
    image: Vec<u8>,
    table: usize,
    next_inode: usize,
}

impl Packer {
    fn inode(&mut self, index: usize, kind: u32, mode: u32, bytes: usize, at: usize) -> Result<()> {
        let start = self.table + index * INODE_BYTES;
        let record = &mut self.image[start..start + INODE_BYTES];
        record[..4].copy_from_slice(&(kind << TYPE_SHIFT | mode).to_le_bytes());
        record[4..8].copy_from_slice(&offset_word(bytes)?);
        record[8..12].copy_from_slice(&offset_word(at)?);
        // 12..20, user and group, stay 0: all files in the image belong to root.
        Ok(())
    }

    fn directory(&mut self, index: usize, tree: &Tree) -> Result<()> {
        let entries_at = self.image.len().next_multiple_of(DATA_ALIGN);
        let entries_bytes = tree.entries.len() * ENTRY_BYTES;
        self.image.resize(entries_at + entries_bytes, 0);
        self.inode(index, TYPE_DIRECTORY, 0o755, entries_bytes, entries_at)?;
        let first = self.next_inode;
        self.next_inode += tree.entries.len();
        for (position, name) in tree.entries.keys().enumerate() {
            let length = u16::try_from(name.len()).context(|| format!("pack the name '{name}'"))?;
            let name_at = offset_word(self.image.len())?;
            self.image.extend_from_slice(name.as_bytes());
            let at = entries_at + position * ENTRY_BYTES;
            let record = &mut self.image[at..at + ENTRY_BYTES];
            record[..2].copy_from_slice(&((first + position) as u16).to_le_bytes());
            record[2..4].copy_from_slice(&length.to_le_bytes());
            record[4..8].copy_from_slice(&name_at);
        }
        for (position, entry) in tree.entries.values().enumerate() {
            match entry {
                Entry::Directory(tree) => self.directory(first + position, tree)?,
                Entry::File { data, mode } => {
                    let at = self.image.len().next_multiple_of(DATA_ALIGN);
                    self.image.resize(at, 0);
                    self.image.extend_from_slice(data);
                    self.inode(first + position, TYPE_FILE, *mode, data.len(), at)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the files of an image; used to check what was packed.
pub fn unpack(image: &[u8]) -> Result<Tree> {
    if image.get(..8) != Some(MAGIC) {
        return Err("not an initfs image: the first eight bytes are not 'RedoxFtw'".into());
    }
    let reader = Reader {
        image,
        table: word(image, 8)? as usize,
        count: half(image, 24)? as usize,
    };
    match reader.entry(ROOT, 0)? {
        Entry::Directory(tree) => Ok(tree),
        Entry::File { .. } => Err("the root inode is not a directory".into()),
    }
}

struct Reader<'a> {
    image: &'a [u8],
    table: usize,
    count: usize,
}

fn slice(image: &[u8], at: usize, bytes: usize) -> Result<&[u8]> {
    at.checked_add(bytes)
        .and_then(|end| image.get(at..end))
        .ok_or_else(|| format!("{bytes} bytes at {at:#x} lie outside the image").into())
}

fn half(image: &[u8], at: usize) -> Result<u16> {
    let bytes = slice(image, at, 2)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn word(image: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from(half(image, at)?) | u32::from(half(image, at + 2)?) << 16)
}

impl Reader<'_> {
    fn entry(&self, inode: usize, depth: usize) -> Result<Entry> {
        if inode >= self.count || depth > MAX_DEPTH {
            return Err(format!("inode {inode} of {} at depth {depth}", self.count).into());
        }
        let at = self.table + inode * INODE_BYTES;
        let kind = word(self.image, at)?;
        let bytes = word(self.image, at + 4)? as usize;
        let data = slice(self.image, word(self.image, at + 8)? as usize, bytes)?;
        if kind >> TYPE_SHIFT == TYPE_FILE {
            return Ok(Entry::File {
                data: data.to_vec(),
                mode: kind & MODE_MASK,
            });
        }
        if kind >> TYPE_SHIFT != TYPE_DIRECTORY {
            return Err(
                format!("inode {inode} has the unknown type {}", kind >> TYPE_SHIFT).into(),
            );
        }
        let mut tree = Tree::default();
        for record in data.chunks_exact(ENTRY_BYTES) {
            let (length, name_at) = (half(record, 2)? as usize, word(record, 4)? as usize);
            let name = std::str::from_utf8(slice(self.image, name_at, length)?)
                .context(|| format!("read a name in inode {inode}"))?;
            let child = self.entry(half(record, 0)? as usize, depth + 1)?;
            tree.entries.insert(name.to_string(), child);
        }
        Ok(Entry::Directory(tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf;

    fn sample() -> (Flat, Tree) {
        let program = elf::tests::tiny(BOOTSTRAP_ADDRESS, BOOTSTRAP_ADDRESS);
        let mut tree = Tree::default();
        tree.insert("bin/cat", vec![7; 5000], 0o755).unwrap();
        tree.insert("bin/init", b"init".to_vec(), 0o755).unwrap();
        tree.insert("lib/init.d/00_base", b"start".to_vec(), 0o644)
            .unwrap();
        tree.insert("empty", Vec::new(), 0o644).unwrap();
        (elf::flatten(&program, BOOTSTRAP_ADDRESS).unwrap(), tree)
    }

    #[test]
    fn what_is_packed_is_read_back() {
        let (bootstrap, tree) = sample();
        let image = pack(&bootstrap, &tree).unwrap();
        assert_eq!(unpack(&image).unwrap(), tree);
        assert_eq!(image.len() % PAGE_BYTES, 0);
        assert_eq!(image[34..42], (image.len() as u64).to_le_bytes());
        assert_eq!(image[0x1A..0x22], BOOTSTRAP_ADDRESS.to_le_bytes());
        assert_eq!(&image[PAGE_BYTES..PAGE_BYTES + 4], b"code");
        assert_eq!(image, pack(&bootstrap, &tree).unwrap(), "not reproducible");
    }

    #[test]
    fn later_files_replace_earlier_ones_but_not_directories() {
        let (_, mut tree) = sample();
        tree.insert("bin/cat", b"new".to_vec(), 0o700).unwrap();
        assert!(tree.insert("bin", b"x".to_vec(), 0o644).is_err());
        assert!(tree.insert("empty/x", b"x".to_vec(), 0o644).is_err());
        for path in ["", "/x", "../x", "a//b", "a/"] {
            assert!(tree.insert(path, Vec::new(), 0o644).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_damaged_image_is_an_error_not_a_panic() {
        let (bootstrap, tree) = sample();
        let image = pack(&bootstrap, &tree).unwrap();
        for length in 0..image.len() {
            let _ = unpack(&image[..length]);
        }
        let tables = 2 * PAGE_BYTES..2 * PAGE_BYTES + 400;
        for at in (8..44).chain(tables) {
            let mut broken = image.clone();
            broken[at] ^= 0xff;
            let _ = unpack(&broken);
        }
    }
}
