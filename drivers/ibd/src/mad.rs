//! User access to management datagrams (MADs): `umad0` and `issm0` (docs/mad.md). The rules are
//! those of `mad-core`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use mad_core::error::Error as Refusal;
use mad_core::frame::FRAME_BYTES;
use mad_core::node::{Event, Node};
use mad_core::pma::Traffic;
use redox_scheme::Id;
use syscall::error::{
    EAGAIN, EINVAL, EIO, ENOMEM, ENOSPC, ENOTTY, ENXIO, EWOULDBLOCK, Error, Result,
};
use syscall::flag::EventFlags;

use crate::context::Owner;
use crate::error::fail;

/// Name of the file for management datagrams.
pub const UMAD: &str = "umad0";
/// Name of the file that sets the bit of a subnet manager.
pub const ISSM: &str = "issm0";

/// An open `umad0`.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The user and process that opened it.
    pub owner: Owner,
    /// Its handle in the scheme.
    pub handle: usize,
}

/// The port's management datagrams, and who has `umad0` and `issm0` open.
#[derive(Debug, Default)]
pub struct Mads {
    /// The node in the fabric, once its number is known.
    node: Option<Node>,
    /// Open files `umad0`, by their numbers in the node.
    users: BTreeMap<u64, User>,
    /// The handles of files `umad0` that have ended with their node and are to be told so.
    ended: Vec<usize>,
    /// Whether `issm0` is open.
    is_sm_taken: bool,
    /// Opens of `issm0` that wait, in the order in which they came.
    waiting: VecDeque<Id>,
    /// Whether to try the first of them again.
    is_sm_free: bool,
}

/// The error number for a refusal by `mad-core`.
fn refused(refusal: Refusal) -> Error {
    Error::new(match refusal {
        Refusal::Invalid => EINVAL,
        Refusal::Io => EIO,
        Refusal::WouldBlock => EWOULDBLOCK,
        Refusal::NoMemory => ENOMEM,
        Refusal::NoSpace => ENOSPC,
        Refusal::Unknown => ENOTTY,
    })
}

impl Mads {
    /// Sets the number of the node. It changes while the daemon runs if a SCIF driver finds other
    /// links than the one before it: without any, a node has the number of the host. What is open
    /// then belongs to a port that is no more: each use gives `EIO`.
    pub fn place(&mut self, own: u16) {
        let node = match &self.node {
            Some(node) if node.fabric().own() == own => return,
            Some(before) => Node::after(before, own),
            None => Node::new(own),
        };
        self.node = Some(node);
        let users = core::mem::take(&mut self.users).into_values();
        self.ended.extend(users.map(|user| user.handle));
    }

    /// The node in the fabric, once its number is known.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Sets the port up or down. `now` is in nanoseconds.
    pub fn set_up(&mut self, is_up: bool, now: u64) {
        if let Some(node) = &mut self.node {
            node.set_up(is_up, now);
        }
    }

    /// Notes that another node has come or gone.
    pub fn set_online(&mut self, peer: u16, is_online: bool, now: u64) {
        if let Some(node) = &mut self.node {
            node.set_online(peer, is_online, now);
        }
    }

    /// Sets the traffic of the port other than management datagrams.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        if let Some(node) = &mut self.node {
            node.set_traffic(traffic);
        }
    }

    /// Does the work of the node whose time has come.
    pub fn progress(&mut self, now: u64) {
        if let Some(node) = &mut self.node
            && node.deadline().is_some_and(|until| until <= now)
        {
            node.progress(now);
        }
    }

    /// When [`progress`](Self::progress) has work to do, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.node.as_ref().and_then(Node::deadline)
    }

    /// Takes the next record for another node, and the number of that node.
    pub fn next_frame(&mut self) -> Option<(u16, [u8; FRAME_BYTES])> {
        self.node.as_mut().and_then(Node::next_frame)
    }

    /// Counts a record that could not be sent.
    pub fn count_discarded(&mut self) {
        if let Some(node) = &mut self.node {
            node.count_discarded();
        }
    }

    /// Receives a record from the daemon of another node. Returns whether it is valid.
    pub fn receive(&mut self, peer: u16, frame: &[u8; FRAME_BYTES], now: u64) -> bool {
        let node = self.node.as_mut();
        node.is_some_and(|node| node.receive(peer, frame, now).is_ok())
    }

    /// Takes the next event for all contexts of verbs.
    pub fn next_event(&mut self) -> Option<Event> {
        self.node.as_mut().and_then(Node::next_event)
    }

    // ---- umad0 ----

    /// Opens `umad0` and returns its number in the node. Call [`set_handle`](Self::set_handle)
    /// next.
    ///
    /// # Errors
    /// `ENXIO`: the number of the node is not known.
    pub fn open(&mut self, owner: Owner) -> Result<u64> {
        let number = self.node.as_mut().ok_or(Error::new(ENXIO))?.open();
        let handle = usize::MAX;
        self.users.insert(number, User { owner, handle });
        Ok(number)
    }

    /// Sets the scheme's handle of an open `umad0`.
    pub fn set_handle(&mut self, number: u64, handle: usize) {
        if let Some(user) = self.users.get_mut(&number) {
            user.handle = handle;
        }
    }

    /// Closes `umad0`.
    pub fn close(&mut self, number: u64) {
        self.users.remove(&number);
        if let Some(node) = &mut self.node {
            node.close(number);
        }
    }

    /// Iterates over the open files `umad0`.
    pub fn users(&self) -> impl Iterator<Item = (u64, User)> + '_ {
        self.users.iter().map(|(number, user)| (*number, *user))
    }

    fn node_mut(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or(Error::new(EIO))
    }

    /// Reads a message.
    ///
    /// # Errors
    /// `EINVAL`, `EWOULDBLOCK`, `ENOSPC`: docs/mad.md.
    pub fn read(&mut self, number: u64, buffer: &mut [u8]) -> Result<usize> {
        self.node_mut()?.read(number, buffer).map_err(refused)
    }

    /// Writes a message.
    ///
    /// # Errors
    /// `EINVAL`, `EIO`, `ENOMEM`: docs/mad.md.
    pub fn write(&mut self, number: u64, bytes: &[u8], now: u64) -> Result<usize> {
        let written = self.node_mut()?.write(number, bytes, now);
        written.map_err(refused)
    }

    /// Executes a request of `ioctl`, which changes its structure in place.
    ///
    /// # Errors
    /// `EINVAL`, `ENOMEM`, `ENOTTY`: docs/mad.md.
    pub fn control(&mut self, number: u64, request: u64, payload: &mut [u8]) -> Result<()> {
        let node = self.node_mut()?;
        node.control(number, request, payload).map_err(refused)
    }

    /// The events for which an open `umad0` is ready.
    pub fn readiness(&self, number: u64) -> EventFlags {
        let node = self.node.as_ref();
        let descriptor = node.and_then(|node| node.descriptor(number));
        // A read of one that has ended gives an error at once.
        match descriptor.is_none_or(|of| of.waiting() > 0) {
            true => EventFlags::EVENT_READ | EventFlags::EVENT_WRITE,
            false => EventFlags::EVENT_WRITE,
        }
    }

    // ---- issm0 ----

    /// Opens `issm0` for this request, which sets the bit of a subnet manager.
    ///
    /// # Errors
    /// `ENXIO`: the number of the node is not known. If the file is open, or other requests wait
    /// for it: `EAGAIN`, or `EWOULDBLOCK` if the request `waits`. A waiting request is tried again
    /// when the file is free.
    pub fn take_sm(&mut self, request: Id, waits: bool) -> Result<()> {
        let node = self.node.as_mut().ok_or(Error::new(ENXIO))?;
        let is_first = self.waiting.front().is_none_or(|first| *first == request);
        if self.is_sm_taken || !is_first {
            if !waits {
                return fail(EAGAIN);
            }
            if !self.waiting.contains(&request) {
                self.waiting.push_back(request);
            }
            return fail(EWOULDBLOCK);
        }
        self.waiting.pop_front();
        self.is_sm_taken = true;
        node.set_sm_bit(true);
        Ok(())
    }

    /// Closes `issm0`, which clears the bit of a subnet manager.
    pub fn release_sm(&mut self) {
        self.is_sm_taken = false;
        self.is_sm_free = true;
        if let Some(node) = &mut self.node {
            node.set_sm_bit(false);
        }
    }

    /// Gives up an open of `issm0` that waits.
    pub fn give_up_sm(&mut self, request: Id) {
        self.waiting.retain(|waiting| *waiting != request);
        // The next one may be the first now.
        self.is_sm_free |= !self.is_sm_taken;
    }

    // ---- Changes ----

    /// Takes the handles of files that have got something to read, and the open of `issm0` to try
    /// again.
    pub fn take_woken(&mut self) -> (Vec<usize>, Option<Id>) {
        let woken = self.node.as_mut().map(Node::take_woken).unwrap_or_default();
        let users = woken.iter().filter_map(|number| self.users.get(number));
        let mut handles = core::mem::take(&mut self.ended);
        handles.extend(users.map(|user| user.handle));
        let is_free = core::mem::take(&mut self.is_sm_free) && !self.is_sm_taken;
        let request = self.waiting.front().copied().filter(|_| is_free);
        (handles, request)
    }

    /// Whether `issm0` is open.
    pub fn is_sm_taken(&self) -> bool {
        self.is_sm_taken
    }

    /// Number of opens of `issm0` that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
