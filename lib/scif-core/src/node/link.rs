//! The link to one other node: its node queue pair and its state.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use scif_abi::limits::{CLIENT_RETRY_NS, MAX_QUEUED_MESSAGES, NODE_RING_RETRY_NS};
use scif_abi::message::{Extensions, MESSAGE_BYTES, Message, NodeMessage};
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};
use zerocopy::{FromZeros, IntoBytes};

use super::down::DownReason;
use crate::base::memory::{Memory, Place};
use crate::queue_pair::block::{Block, RemoteQueuePair};
use crate::queue_pair::rings::{RingError, Rings};

/// Why a link cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The node number is our own or above the limit.
    BadNode,
    /// No memory for the node queue pair.
    NoMemory,
    /// The calls came in the wrong order: attach twice, or link_up without attach.
    WrongState,
    /// There is no usable queue pair at that address.
    BadQueuePair,
}

impl core::fmt::Display for LinkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            LinkError::BadNode => "the node number is our own or too large",
            LinkError::NoMemory => "no memory for the node queue pair",
            LinkError::WrongState => "the link is not in the state for this step",
            LinkError::BadQueuePair => "no usable queue pair at the address the peer published",
        })
    }
}

impl core::error::Error for LinkError {}

/// For this time (ns) a doorbell counts as received after it was rung, even if the peer has not
/// asked for another. Doorbells can be lost: without this limit, one lost doorbell would suppress
/// all later ones.
const DOORBELL_TRUST_NS: u64 = 10_000_000;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Our queue pair is published; the peer's is not known.
    Attached,
    /// INIT was sent; the peer's has not arrived.
    Greeting,
    /// Both sides have sent INIT.
    Online,
    /// One side has sent EXIT, and the exchange is not complete.
    Leaving,
    /// One side has left in order. We do not use the peer's memory any more.
    Left,
    /// The peer broke the protocol or was stuck. We do not use its memory any more.
    Failed,
}

impl LinkState {
    /// One word for the text files.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Attached => "attached",
            LinkState::Greeting => "greeting",
            LinkState::Online => "online",
            LinkState::Leaving => "leaving",
            LinkState::Left => "left",
            LinkState::Failed => "failed",
        }
    }
}

/// A message that found no room in the ring.
struct Waiting {
    message: Message,
    /// When (ns) the message becomes void: from then on it must not be sent.
    void_at: Option<u64>,
}

/// One link.
pub(crate) struct Link {
    pub(super) state: LinkState,
    pub(super) block: Block,
    rings: Option<Rings>,
    /// The extensions that both sides offer.
    pub(super) extensions: Extensions,
    /// Messages that found no room in the ring.
    waiting: VecDeque<Waiting>,
    /// When (ns) the first of them becomes void.
    void_at: Option<u64>,
    /// Since when (ns) messages wait for room and none has come; `None`: nothing waits.
    pub(super) stuck_since: Option<u64>,
    /// When (ns) an unanswered EXIT counts as answered.
    pub(super) exit_deadline: Option<u64>,
    /// When (ns) the link's timer expires; `None`: it does not run.
    pub(super) timer: Option<u64>,
    /// Whether `NodeUp` was reported and `NodeDown` was not.
    pub(super) is_reported: bool,
    /// EXIT or EXIT_ACK, which must wait until the copy engine is done with the peer's memory.
    pub(super) exit_message: Option<NodeMessage>,
    /// Whether the peer has sent EXIT, so that only the answer remains to be sent.
    pub(super) is_dismissed: bool,
    /// Whether messages were put for which the doorbell has not been rung.
    pub(super) owes_doorbell: bool,
    /// When (ns) the doorbell was last rung.
    rung_at: u64,
    /// When (ns) the inbound ring was last read.
    looked_at: u64,
    /// When (ns) it had been read before that: the messages that are received now came later.
    pub(super) came_after: u64,
    /// Whether the inbound ring was left before it was empty.
    pub(super) has_unread: bool,
    /// Whether the inbound ring was found empty and the peer was not asked to ring, because the
    /// driver polls.
    pub(super) is_doorbell_suppressed: bool,
    /// How many bytes of whole messages the inbound ring had when it was last read.
    unread: usize,
    pub(super) messages_sent: u64,
    pub(super) messages_received: u64,
}

impl Link {
    pub(super) fn new(block: Block) -> Link {
        Link {
            state: LinkState::Attached,
            block,
            rings: None,
            extensions: Extensions::empty(),
            waiting: VecDeque::new(),
            void_at: None,
            stuck_since: None,
            exit_deadline: None,
            timer: None,
            is_reported: false,
            exit_message: None,
            is_dismissed: false,
            owes_doorbell: false,
            rung_at: 0,
            looked_at: 0,
            came_after: 0,
            has_unread: false,
            is_doorbell_suppressed: false,
            unread: 0,
            messages_sent: 0,
            messages_received: 0,
        }
    }

    /// Begins to use the peer's queue pair, in both directions, from `now` (ns) on.
    pub(super) fn connect(
        &mut self,
        remote: &RemoteQueuePair,
        own_extensions: Extensions,
        now: u64,
    ) {
        let offered = Extensions::from_word(remote.extensions());
        self.extensions = offered & own_extensions;
        let is_armable = self.extensions.contains(Extensions::ARMED);
        self.rings = Some(Rings::new(&self.block, remote, is_armable));
        self.state = LinkState::Greeting;
        self.looked_at = now;
    }

    /// Bus address of the peer's queue pair; 0 if it is not known, or no longer known.
    pub(super) fn peer_queue_pair(&self) -> u64 {
        match self.rings.as_ref().map(Rings::peer_place) {
            Some(Place::Own(address) | Place::Peer(_, address)) => address,
            None => 0,
        }
    }

    /// Whether to ring the peer's doorbell for messages that were put. A peer polls until it has
    /// found its ring empty and has armed its word. A peer of the base protocol is always rung,
    /// and so is any peer when the last doorbell is old enough to have been lost.
    pub(super) fn must_ring(&mut self, mem: &mut dyn Memory, now: u64) -> bool {
        let is_asked = match self.rings.as_mut().filter(|rings| rings.is_armable()) {
            Some(rings) => rings.wants_bytes(mem),
            None => true,
        };
        let rings = is_asked || now.saturating_sub(self.rung_at) >= DOORBELL_TRUST_NS;
        if rings {
            self.rung_at = now;
        }
        rings
    }

    /// Asks the peer to ring when messages come, after the inbound ring was found empty. Returns
    /// true if some have come meanwhile.
    ///
    /// # Errors
    /// The peer's memory cannot be reached, or its index is bad.
    pub(super) fn enable_doorbell(&mut self, mem: &mut dyn Memory) -> Result<bool, RingError> {
        match self.rings.as_mut().filter(|rings| rings.is_armable()) {
            Some(rings) => Ok(rings.arm_bytes(mem)? != Some(false)),
            None => Ok(false),
        }
    }

    /// Whether the inbound ring holds messages, or is broken.
    pub(super) fn has_messages(&mut self, mem: &mut dyn Memory) -> bool {
        let rings = self.rings.as_mut();
        rings.is_some_and(|rings| rings.available(mem) != Ok(0))
    }

    /// Ends the link in `state`: from now on nothing is read or written. A doorbell that is still
    /// due may be rung.
    pub(super) fn end(&mut self, state: LinkState) {
        self.state = state;
        self.rings = None;
        self.waiting.clear();
        self.void_at = None;
        self.stuck_since = None;
        self.exit_deadline = None;
        self.exit_message = None;
        self.has_unread = false;
        self.is_doorbell_suppressed = false;
    }

    /// Whether too many messages wait for the peer to read. Then nothing more should be received
    /// from it, because that would only produce more answers.
    pub(super) fn is_congested(&self) -> bool {
        self.waiting.len() > MAX_QUEUED_MESSAGES / 2
    }

    /// How long (ns) to wait before a retry of what cannot be done now; `None`: nothing waits.
    pub(super) fn retry_after(&self) -> Option<u64> {
        let ring = self.stuck_since.map(|_| NODE_RING_RETRY_NS);
        // No notification reports that a client's copy has ended.
        let exit = self.exit_message.map(|_| CLIENT_RETRY_NS);
        ring.into_iter().chain(exit).min()
    }

    /// Whether the link has been given up, or left in order.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, LinkState::Failed | LinkState::Left)
    }

    /// Whether the link's rings can be used.
    pub(super) fn is_usable(&self) -> bool {
        self.rings.is_some()
    }

    /// Whether there may be messages without a doorbell.
    pub(super) fn has_unpolled_messages(&mut self, mem: &mut dyn Memory) -> bool {
        // Messages that were seen and left there belong to the next iteration.
        let looks = self.is_doorbell_suppressed && !self.has_unread && !self.is_dismissed;
        looks && self.has_messages(mem)
    }

    /// The reason for giving the link up, from the error of its rings.
    pub(super) fn reason(&self, mem: &dyn Memory, error: RingError) -> DownReason {
        let own = self.block.address();
        match error {
            RingError::BadIndex => DownReason::BadIndex {
                write: mem.load_index(own + LOCAL_WRITE_OFFSET),
                read: mem.load_index(own + LOCAL_READ_OFFSET),
            },
            RingError::BadAddress => DownReason::BadAddress(self.peer_queue_pair()),
            RingError::Flooded => DownReason::Stuck(self.waiting_len()),
        }
    }

    /// How many messages wait for room.
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a message, at once or when there is room, unless that is after `void_at` (ns), when
    /// it is void.
    ///
    /// # Errors
    /// The peer's index is bad, or too many messages wait: the link must be given up.
    pub(super) fn send(
        &mut self,
        mem: &mut dyn Memory,
        message: Message,
        void_at: Option<u64>,
    ) -> Result<(), RingError> {
        if self.rings.is_none() {
            return Ok(());
        }
        if self.waiting.is_empty() && self.try_send(mem, &message)? {
            return Ok(());
        }
        if self.waiting.len() >= MAX_QUEUED_MESSAGES {
            return Err(RingError::Flooded);
        }
        self.waiting.push_back(Waiting { message, void_at });
        self.void_at = self.void_at.into_iter().chain(void_at).min();
        Ok(())
    }

    /// Removes and returns the messages that wait and are void at `now` (ns).
    pub(super) fn take_void(&mut self, now: u64) -> Vec<Message> {
        if self.void_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_void = |waiting: &Waiting| waiting.void_at.is_some_and(|at| at <= now);
        let void = self.waiting.iter().filter(|waiting| is_void(waiting));
        let void = void.map(|waiting| waiting.message).collect();
        self.waiting.retain(|waiting| !is_void(waiting));
        self.void_at = self.waiting.iter().filter_map(|w| w.void_at).min();
        void
    }

    /// Sends a message now if there is room and no other waits. Returns whether it was sent.
    pub(super) fn send_now(
        &mut self,
        mem: &mut dyn Memory,
        message: &Message,
    ) -> Result<bool, RingError> {
        if !self.waiting.is_empty() {
            return Ok(false);
        }
        self.try_send(mem, message)
    }

    fn try_send(&mut self, mem: &mut dyn Memory, message: &Message) -> Result<bool, RingError> {
        let Some(rings) = &mut self.rings else {
            return Ok(false);
        };
        if !rings.put_whole(mem, message.as_bytes())? {
            return Ok(false);
        }
        self.messages_sent += 1;
        self.owes_doorbell = true;
        Ok(true)
    }

    /// Sends waiting messages as far as there is room. Returns whether any was sent.
    pub(super) fn send_waiting(&mut self, mem: &mut dyn Memory) -> Result<bool, RingError> {
        let mut progress = false;
        while let Some(message) = self.waiting.front().map(|waiting| waiting.message) {
            if !self.try_send(mem, &message)? {
                break;
            }
            self.waiting.pop_front();
            progress = true;
        }
        if self.waiting.is_empty() {
            self.void_at = None;
        }
        Ok(progress)
    }

    /// Receives the next message from the ring, without giving its room back. `now` (ns) tells how
    /// old a message can be.
    pub(super) fn receive(
        &mut self,
        mem: &mut dyn Memory,
        now: u64,
    ) -> Result<Option<Message>, RingError> {
        let Some(rings) = &mut self.rings else {
            return Ok(None);
        };
        if self.unread == 0 {
            self.came_after = core::mem::replace(&mut self.looked_at, now);
            self.unread = rings.available(mem)? as usize;
            // Writers make whole messages visible, never parts.
            if !self.unread.is_multiple_of(MESSAGE_BYTES) {
                return Err(RingError::BadIndex);
            }
        }
        if self.unread == 0 {
            return Ok(None);
        }
        let mut message = Message::new_zeroed();
        self.unread -= rings.take_quietly(mem, message.as_mut_bytes())?;
        self.messages_received += 1;
        Ok(Some(message))
    }

    /// Gives the room of all messages received back to the peer.
    pub(super) fn publish(&mut self, mem: &mut dyn Memory) -> Result<(), RingError> {
        match &mut self.rings {
            Some(rings) => rings.publish(mem),
            None => Ok(()),
        }
    }
}
