//! The entries, the name and the status of a handle.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use syscall::data::Stat;
use syscall::dirent::DirentKind;
use syscall::error::{EINVAL, ENOTDIR, Error, Result};
use syscall::flag::{F_GETFL, F_SETFL, O_NONBLOCK};

use crate::handle::Kind;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::path::{Content, Path, TextFile};
use crate::scif::Scif;

/// One line of a directory listing.
pub type DirectoryEntry = (String, DirentKind);

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// The entries of a directory.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn list(&self, id: HandleId) -> Result<Vec<DirectoryEntry>> {
        let handle = self.handles.get(id)?;
        if !matches!(handle.kind(), Kind::Directory) {
            return Err(Error::new(ENOTDIR));
        }
        let device = |port: u16| (port.to_string(), DirentKind::CharDev);
        Ok(match handle.path() {
            Path::Root => {
                let directory = |name: String| (name, DirentKind::Directory);
                let nodes = self
                    .engine
                    .online_nodes()
                    .map(|node| directory(node.to_string()));
                let files =
                    TextFile::ALL.map(|file| (file.name().to_string(), DirentKind::Regular));
                let devices = ["endpoint", "memory", "peers"];
                let ends = [directory("accept".into()), directory("listen".into())];
                if handle.content() == Content::Messages {
                    return Ok(nodes.chain(ends).collect());
                }
                nodes
                    .chain(ends)
                    .chain([directory("stp".into())])
                    .chain(devices.map(|name| (name.to_string(), DirentKind::CharDev)))
                    .chain(files)
                    .collect()
            }
            // This node does not know the listeners of other nodes.
            Path::Node(node) if node != self.engine.node() => Vec::new(),
            Path::AcceptDirectory => self
                .listeners
                .own_shared()
                .filter(|(_, owner)| handle.caller().sees(owner.uid))
                .map(|(port, _)| device(port))
                .collect(),
            _ => {
                let viewer = handle.caller();
                let owner = |id| self.handles.caller(id);
                let seen = |id| owner(id).is_ok_and(|owner| viewer.sees(owner.uid));
                let seen = self.listeners.ports().filter(|&(_, id)| seen(id));
                seen.map(|(port, _)| device(port)).collect()
            }
        })
    }

    /// The full name of a handle's object: for a connection its peer, for a listener its port.
    pub fn name(&self, id: HandleId) -> Result<String> {
        let handle = self.handles.get(id)?;
        let opened = handle.name();
        let path = match handle.kind() {
            Kind::Endpoint(endpoint) => {
                let local = self.engine.local_port(endpoint.id()).unwrap_or_default();
                match self.engine.peer(endpoint.id()) {
                    Some(peer) => Path::Connect {
                        node: peer.node(),
                        port: peer.port(),
                    },
                    None if endpoint.is_listening() => Path::Listen(local.port()),
                    None => opened.path,
                }
            }
            _ => opened.path,
        };
        Ok(alloc::format!("/scheme/scif{}", opened.with(path)))
    }

    /// Whether the kernel should keep a position for the handle.
    pub fn is_positioned(&self, id: HandleId) -> bool {
        self.handles
            .get(id)
            .is_ok_and(|handle| matches!(handle.kind(), Kind::Text(_)))
    }

    /// Fills in the status of a handle.
    pub fn status(&self, id: HandleId, stat: &mut Stat) -> Result<()> {
        let handle = self.handles.get(id)?;
        *stat = Stat {
            st_ino: id as u64,
            st_mode: handle.mode(),
            st_nlink: 1,
            st_uid: handle.caller().uid,
            st_gid: handle.caller().gid,
            st_size: handle.size(),
            st_blksize: 4096,
            ..Stat::default()
        };
        Ok(())
    }

    /// `F_GETFL` and `F_SETFL`. The kernel keeps the flags; the scheme needs `O_NONBLOCK`, because
    /// only reads and writes carry it in their requests.
    ///
    /// # Errors
    /// `EINVAL` for every other command.
    pub fn control(&mut self, id: HandleId, command: usize, argument: usize) -> Result<usize> {
        self.handles.get(id)?;
        match command {
            F_GETFL => Ok(0),
            F_SETFL => {
                if let Ok(endpoint) = self.handles.endpoint(id) {
                    endpoint.set_nonblocking(argument & O_NONBLOCK != 0);
                }
                Ok(0)
            }
            _ => Err(Error::new(EINVAL)),
        }
    }
}
