//! Files and directories: content, rights, attributes.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::data::Data;

/// The number of a file or directory.
pub type Inode = u64;

/// The user of a request.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// User id; 0 may do everything.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The file or directory.
    pub inode: Inode,
    /// Type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of directory entries that lead to it; 0 if it was removed but is open.
    pub links: u32,
    /// Length in bytes.
    pub size: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Last change of the content, nanoseconds since 1970.
    pub modified: u64,
}

/// A file without memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Reads as empty.
    Null,
    /// Reads as zero bytes without end.
    Zero,
}

pub(crate) enum Content {
    File(Data),
    Device(Device),
    Directory {
        entries: BTreeMap<String, Inode>,
        parent: Inode,
    },
}

pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) linked: bool,
    pub(crate) opened: u32,
    /// It is the name of a socket: its content says which one.
    pub(crate) is_socket: bool,
    pub(crate) modified: u64,
}

impl Node {
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.content, Content::Directory { .. })
    }

    /// Whether the user has all these rights (4 read, 2 write, 1 execute or search).
    pub(crate) fn allows(&self, user: User, rights: u16) -> bool {
        let shift = match () {
            () if user.uid == 0 => return true,
            () if user.uid == self.uid => 6,
            () if user.gid == self.gid => 3,
            () => 0,
        };
        self.permissions >> shift & rights == rights
    }
}
