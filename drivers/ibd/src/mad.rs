//! User access to management datagrams: `umad0` and `issm0`. The rules are those of `mad-core`.

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

/// Names of the files.
pub const UMAD: &str = "umad0";
/// As above.
pub const ISSM: &str = "issm0";

/// An open `umad0`.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The user and process that opened it.
    pub owner: Owner,
    /// The descriptor of the scheme.
    pub handle: usize,
}

/// The port's side of management datagrams, and who has it open.
#[derive(Debug, Default)]
pub struct Mads {
    /// The node in the fabric, once its number is known.
    node: Option<Node>,
    /// Open files by their numbers in the node.
    users: BTreeMap<u64, User>,
    /// Whether `issm0` is open.
    is_sm_taken: bool,
    /// Opens of `issm0` that wait, the first one first.
    waiting: VecDeque<Id>,
    /// Whether one of them is to be tried again.
    is_sm_free: bool,
}

/// The error of a call, by its number.
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
    /// The number of the node is known.
    pub fn place(&mut self, own: u16) {
        if self
            .node
            .as_ref()
            .is_none_or(|node| node.fabric().own() != own)
        {
            self.node = Some(Node::new(own));
        }
    }

    /// The node in the fabric.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// The port goes up or down. `now`: nanoseconds.
    pub fn set_up(&mut self, is_up: bool, now: u64) {
        if let Some(node) = &mut self.node {
            node.set_up(is_up, now);
        }
    }

    /// Another node comes or goes.
    pub fn set_online(&mut self, peer: u16, is_online: bool, now: u64) {
        if let Some(node) = &mut self.node {
            node.set_online(peer, is_online, now);
        }
    }

    /// Sets the traffic of the port besides management datagrams.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        if let Some(node) = &mut self.node {
            node.set_traffic(traffic);
        }
    }

    /// Does what is due.
    pub fn progress(&mut self, now: u64) {
        if let Some(node) = &mut self.node
            && node.deadline().is_some_and(|until| until <= now)
        {
            node.progress(now);
        }
    }

    /// When [`progress`](Self::progress) has something to do.
    pub fn deadline(&self) -> Option<u64> {
        self.node.as_ref().and_then(Node::deadline)
    }

    /// The next record for another node.
    pub fn next_frame(&mut self) -> Option<(u16, [u8; FRAME_BYTES])> {
        self.node.as_mut().and_then(Node::next_frame)
    }

    /// A record could not be carried.
    pub fn count_discarded(&mut self) {
        if let Some(node) = &mut self.node {
            node.count_discarded();
        }
    }

    /// A record from the daemon of another node; whether it is one.
    pub fn receive(&mut self, peer: u16, frame: &[u8; FRAME_BYTES], now: u64) -> bool {
        let node = self.node.as_mut();
        node.is_some_and(|node| node.receive(peer, frame, now).is_ok())
    }

    /// The next event for all contexts of verbs.
    pub fn next_event(&mut self) -> Option<Event> {
        self.node.as_mut().and_then(Node::next_event)
    }

    // ---- umad0 ----

    /// Opens `umad0`; its number in the node. [`set_handle`](Self::set_handle) follows.
    ///
    /// # Errors
    /// `ENXIO`: the number of the node is not known.
    pub fn open(&mut self, owner: Owner) -> Result<u64> {
        let number = self.node.as_mut().ok_or(Error::new(ENXIO))?.open();
        let handle = usize::MAX;
        self.users.insert(number, User { owner, handle });
        Ok(number)
    }

    /// The descriptor of the scheme of an open `umad0`.
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

    /// Open files.
    pub fn users(&self) -> impl Iterator<Item = (u64, User)> + '_ {
        self.users.iter().map(|(number, user)| (*number, *user))
    }

    fn node_mut(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or(Error::new(EIO))
    }

    /// A message is read.
    ///
    /// # Errors
    /// `EINVAL`, `EWOULDBLOCK`, `ENOSPC`: docs/mad.md.
    pub fn read(&mut self, number: u64, buffer: &mut [u8]) -> Result<usize> {
        self.node_mut()?.read(number, buffer).map_err(refused)
    }

    /// A message is written.
    ///
    /// # Errors
    /// `EINVAL`, `EIO`, `ENOMEM`: docs/mad.md.
    pub fn write(&mut self, number: u64, bytes: &[u8], now: u64) -> Result<usize> {
        let written = self.node_mut()?.write(number, bytes, now);
        written.map_err(refused)
    }

    /// A request of `ioctl`, whose structure is changed in place.
    ///
    /// # Errors
    /// `EINVAL`, `ENOMEM`, `ENOTTY`: docs/mad.md.
    pub fn control(&mut self, number: u64, request: u64, payload: &mut [u8]) -> Result<()> {
        let node = self.node_mut()?;
        node.control(number, request, payload).map_err(refused)
    }

    /// The readiness of an open `umad0`.
    pub fn readiness(&self, number: u64) -> EventFlags {
        let node = self.node.as_ref();
        let descriptor = node.and_then(|node| node.descriptor(number));
        match descriptor.is_some_and(|of| of.waiting() > 0) {
            true => EventFlags::EVENT_READ | EventFlags::EVENT_WRITE,
            false => EventFlags::EVENT_WRITE,
        }
    }

    // ---- issm0 ----

    /// Opens `issm0`, which sets the bit of a subnet manager, for this request.
    ///
    /// # Errors
    /// `ENXIO`: the number of the node is not known. It is open, or others wait for it: `EAGAIN`,
    /// or `EWOULDBLOCK` if the request `waits`, which is tried again when it is free.
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

    /// Closes `issm0`, which clears the bit.
    pub fn release_sm(&mut self) {
        self.is_sm_taken = false;
        self.is_sm_free = true;
        if let Some(node) = &mut self.node {
            node.set_sm_bit(false);
        }
    }

    /// An open of `issm0` does not wait any more.
    pub fn give_up_sm(&mut self, request: Id) {
        self.waiting.retain(|waiting| *waiting != request);
        // The next one may be the first now.
        self.is_sm_free |= !self.is_sm_taken;
    }

    // ---- Changes ----

    /// Descriptors that have got something to read, and the open of `issm0` to be tried again.
    pub fn take_woken(&mut self) -> (Vec<usize>, Option<Id>) {
        let woken = self.node.as_mut().map(Node::take_woken).unwrap_or_default();
        let users = woken.iter().filter_map(|number| self.users.get(number));
        let handles = users.map(|user| user.handle).collect();
        let is_free = core::mem::take(&mut self.is_sm_free) && !self.is_sm_taken;
        let request = self.waiting.front().copied().filter(|_| is_free);
        (handles, request)
    }

    /// Whether `issm0` is open.
    pub fn is_sm_taken(&self) -> bool {
        self.is_sm_taken
    }

    /// Opens of `issm0` that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
