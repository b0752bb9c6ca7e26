//! The agents of one port at work: requests that wait for an answer, long messages in both
//! directions, and the dispatch of what arrives to agents.

mod segments;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::agents::{AgentId, Agents, Owner, Registration};
use crate::error::{Error, Result};
use crate::mad::{HEADER_BYTES, Header, MAD_BYTES, Mad, class};
use crate::packet::{Destination, Packet};
use crate::rmpp::{self, ACK_TIMEOUT_NS, Incoming, Outgoing};

/// Most sends of an owner that wait for an answer or an acknowledgement.
pub const MAX_SENDS: usize = 4096;
/// Most bytes of long messages that an owner sends.
pub const MAX_SEND_BYTES: usize = 64 << 20;
/// Bytes behind a single datagram that are cut off: some programs count the header in front of it
/// twice (`mcm_rereg_test` of rdma-core).
const SURPLUS: usize = size_of::<verbs_abi::mad::UserMad>();

/// A message that an agent sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The agent.
    pub agent: AgentId,
    /// The destination.
    pub to: Destination,
    /// The port where it really goes, if that is known. Only this port can answer.
    pub responder: u16,
    /// All headers and the data.
    pub message: Vec<u8>,
    /// Milliseconds to wait for an answer; 0: no answer is expected.
    pub timeout_ms: u32,
    /// How often it is sent again when there is no answer.
    pub retries: u32,
}

/// An event of an agent.
#[expect(
    clippy::large_enum_variant,
    reason = "most are of the larger kind, and each is handed over once"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A message has arrived.
    Received {
        /// The first datagram of the message, with its addresses.
        packet: Packet,
        /// The whole message: the first datagram, then the data of the others.
        message: Vec<u8>,
        /// Whether it answers a send, which has ended with it.
        is_asked: bool,
    },
    /// No answer has come in time.
    TimedOut {
        /// The request, without its message.
        request: Request,
        /// The header that was sent.
        header: Header,
    },
}

/// An event for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The owner of the agent.
    pub agent: AgentId,
    /// The owner.
    pub owner: Owner,
    /// The event.
    pub what: Happened,
}

/// Whether a datagram was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is for an agent, or an answer for which no agent waits.
    Yes,
    /// It is a request that no agent has registered for.
    No,
}

/// The key of a send that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    agent: AgentId,
    tid: u64,
    class: u8,
    /// For an answer: the port that it goes to.
    answers: Option<u16>,
    /// Tells apart segments of one transaction that a program sends itself.
    number: u32,
}

impl Key {
    fn first_of(agent: AgentId) -> Key {
        Key {
            agent,
            tid: 0,
            class: 0,
            answers: None,
            number: 0,
        }
    }

    /// The last key of the same transaction.
    fn last(self) -> Key {
        Key {
            number: u32::MAX,
            ..self
        }
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of the larger kind"
)]
#[derive(Clone, Debug)]
enum Body {
    Short(Mad),
    Long(Outgoing),
}

/// A send that is not finished.
#[derive(Clone, Debug)]
struct Sending {
    owner: Owner,
    request: Request,
    body: Body,
    retries_left: u32,
    deadline: u64,
    /// Bytes that are charged to the owner.
    bytes: usize,
}

impl Sending {
    fn header(&self) -> Header {
        match &self.body {
            Body::Short(mad) => mad.header,
            Body::Long(outgoing) => outgoing.first().header,
        }
    }

    /// Whether a datagram from this port can be the answer to it.
    fn is_from(&self, lid: u16) -> bool {
        self.request.responder == lid
    }
}

/// The account that a send is charged to: that of its owner. The built-in agents have two for each
/// port that they send to, so that a port which acknowledges nothing does not keep others from
/// being answered: one for answers, which the port has asked for, and one for reports, which
/// others may cause.
type Account = (Owner, u16, Purpose);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Any,
    Answer,
    Report,
}

fn account(owner: Owner, request: &Request, key: &Key) -> Account {
    match (owner, key.answers) {
        (Owner::User(_), _) => (owner, 0, Purpose::Any),
        (Owner::BuiltIn, Some(_)) => (owner, request.responder, Purpose::Answer),
        (Owner::BuiltIn, None) => (owner, request.responder, Purpose::Report),
    }
}

/// Sends of an account that are not finished, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    sends: usize,
    bytes: usize,
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that agents have sent, segments and acknowledgements included.
    pub sent: u64,
    /// Datagrams that agents have received.
    pub received: u64,
    /// Answers for which no agent waited, and datagrams that fit no agent.
    pub dropped: u64,
    /// Sends to which no answer came.
    pub timed_out: u64,
    /// Datagrams that were sent again.
    pub sent_again: u64,
}

/// A port and its agents.
#[derive(Debug)]
pub struct Port {
    lid: u16,
    agents: Agents,
    sends: BTreeMap<Key, Sending>,
    /// The use of each account.
    used: BTreeMap<Account, Used>,
    timers: BTreeSet<(u64, Key)>,
    incoming: Incoming,
    outbox: VecDeque<Packet>,
    deliveries: VecDeque<Delivery>,
    /// The counters since the start.
    pub counters: Counters,
}

impl Port {
    /// The port with this local identifier.
    pub fn new(lid: u16) -> Port {
        Port {
            lid,
            agents: Agents::default(),
            sends: BTreeMap::new(),
            used: BTreeMap::new(),
            timers: BTreeSet::new(),
            incoming: Incoming::default(),
            outbox: VecDeque::new(),
            deliveries: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The agents of the port.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// Registers an agent.
    ///
    /// # Errors
    /// `Invalid`, `NoMemory`.
    pub fn register(&mut self, owner: Owner, registration: Registration) -> Result<AgentId> {
        self.agents.register(owner, registration)
    }

    /// Removes an agent. Its sends are cancelled, and nobody is told.
    pub fn unregister(&mut self, agent: AgentId) {
        if self.agents.remove(agent).is_none() {
            return;
        }
        let of_agent = self.sends.range(Key::first_of(agent)..);
        let of_agent = of_agent.map(|(key, _)| *key);
        let keys: Vec<Key> = of_agent.take_while(|key| key.agent == agent).collect();
        for key in keys {
            self.end(key);
        }
        self.incoming.forget_agent(agent);
    }

    /// The number of sends that are not finished.
    pub fn sends(&self) -> usize {
        self.sends.len()
    }

    /// The messages that are being reassembled.
    pub fn incoming(&self) -> rmpp::Kept {
        self.incoming.kept()
    }

    /// The next datagram to send.
    pub fn next_packet(&mut self) -> Option<Packet> {
        self.outbox.pop_front()
    }

    /// The next event for an agent.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    // ---- Sending ----

    /// Sends a message. `now`: nanoseconds of a clock that never goes back.
    ///
    /// # Errors
    /// `Io`: no such agent. `Invalid`: the length, or a send of this transaction is not finished.
    /// `NoMemory`: too many sends of the owner are not finished.
    pub fn send(&mut self, mut request: Request, now: u64) -> Result<()> {
        let agent = *self.agents.get(request.agent).ok_or(Error::Io)?;
        let mut message = core::mem::take(&mut request.message);
        let mut mad = Mad::padded(&message);
        let class = mad.header.class;
        if message.len() < class::header_bytes(class) {
            return Err(Error::Invalid);
        }
        let is_active = class::has_rmpp(class) && rmpp::is_active(&mad);
        let is_long = is_active && agent.registration.has_kernel_rmpp();
        let limit = if is_long {
            rmpp::MAX_MESSAGE
        } else {
            MAD_BYTES
        };
        let surplus = if is_long { 0 } else { SURPLUS };
        if message.len() > limit + surplus {
            return Err(Error::Invalid);
        }
        message.truncate(limit);
        let is_response = mad.header.is_response();
        if !is_response {
            // Answers find the agent by it, and no agent may use the name of another one.
            let low = mad.header.tid.get() & u64::from(u32::MAX);
            mad.header.tid = (u64::from(request.agent.0) << 32 | low).into();
            message[..HEADER_BYTES].copy_from_slice(&mad.bytes()[..HEADER_BYTES]);
        }
        let mut key = Key {
            agent: request.agent,
            tid: mad.header.tid.get(),
            class,
            answers: is_response.then_some(request.responder),
            number: 0,
        };
        // All segments that a program makes itself have the same transaction.
        let is_segment = is_active && !is_long;
        if let Some((last, _)) = self.sends.range(key..=key.last()).next_back() {
            let next = last.number.checked_add(1).filter(|_| is_segment);
            key.number = next.ok_or(Error::Invalid)?;
        }
        let is_over = request.timeout_ms == 0 && !is_long;
        if is_over {
            self.post(request.agent, request.to, mad);
            return Ok(());
        }
        let bytes = message.len();
        self.charge(account(agent.owner, &request, &key), bytes)?;
        let body = match is_long {
            true => Body::Long(Outgoing::new(message)),
            false => Body::Short(mad),
        };
        let deadline = now.saturating_add(wait(&request, is_long));
        let sending = Sending {
            owner: agent.owner,
            retries_left: request.retries,
            request,
            body,
            deadline,
            bytes,
        };
        self.sends.insert(key, sending);
        self.timers.insert((deadline, key));
        match is_long {
            true => self.pump(key),
            false => self.post(key.agent, self.sends[&key].request.to, mad),
        }
        Ok(())
    }

    /// Charges a send to an account.
    fn charge(&mut self, account: Account, bytes: usize) -> Result<()> {
        let used = self.used.get(&account).copied().unwrap_or_default();
        if used.sends >= MAX_SENDS || used.bytes + bytes > MAX_SEND_BYTES {
            return Err(Error::NoMemory);
        }
        let now = Used {
            sends: used.sends + 1,
            bytes: used.bytes + bytes,
        };
        self.used.insert(account, now);
        Ok(())
    }

    /// Releases a send from an account.
    fn release(&mut self, account: Account, bytes: usize) {
        if let Some(used) = self.used.get_mut(&account) {
            used.sends -= 1;
            used.bytes -= bytes;
            if used.sends == 0 {
                self.used.remove(&account);
            }
        }
    }

    /// Queues a datagram of an agent to be sent.
    fn post(&mut self, agent: AgentId, to: Destination, mad: Mad) {
        let qpn = self.agents.get(agent).map_or(1, |of| of.registration.qpn);
        self.counters.sent += 1;
        self.outbox.push_back(Packet {
            source: self.lid,
            source_qpn: qpn,
            to,
            mad,
        });
    }

    /// Sends the segments for which the window has room.
    fn pump(&mut self, key: Key) {
        while let Some(sending) = self.sends.get_mut(&key)
            && let Body::Long(outgoing) = &mut sending.body
            && let Some(mad) = outgoing.next_segment()
        {
            let to = sending.request.to;
            self.post(key.agent, to, mad);
        }
    }

    /// Removes a send that is finished.
    fn end(&mut self, key: Key) -> Option<Sending> {
        let sending = self.sends.remove(&key)?;
        self.timers.remove(&(sending.deadline, key));
        let account = account(sending.owner, &sending.request, &key);
        self.release(account, sending.bytes);
        Some(sending)
    }

    /// Changes the deadline of a send.
    fn set_deadline(&mut self, key: Key, deadline: u64) {
        if let Some(sending) = self.sends.get_mut(&key) {
            self.timers.remove(&(sending.deadline, key));
            sending.deadline = deadline;
            self.timers.insert((deadline, key));
        }
    }

    // ---- Time ----

    /// Does what is due. `now`: nanoseconds.
    pub fn progress(&mut self, now: u64) {
        while let Some((deadline, key)) = self.timers.first().copied()
            && deadline <= now
        {
            self.retry(key, now);
        }
        for (transfer, mad) in self.incoming.expire(now) {
            self.tell_sender(&transfer, mad);
        }
    }

    /// When [`progress`](Self::progress) has something to do, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let sends = self.timers.first().map(|(deadline, _)| *deadline);
        sends.into_iter().chain(self.incoming.deadline()).min()
    }

    /// Sends again, or gives up, because nothing has come for a send in time.
    fn retry(&mut self, key: Key, now: u64) {
        let Some(sending) = self.sends.get_mut(&key) else {
            return;
        };
        let again = match &mut sending.body {
            _ if sending.retries_left == 0 => None,
            Body::Short(mad) => Some(*mad),
            Body::Long(outgoing) => outgoing.again(),
        };
        let Some(mad) = again else {
            self.time_out(key);
            return;
        };
        sending.retries_left -= 1;
        let is_long = matches!(sending.body, Body::Long(_));
        let wait = wait(&sending.request, is_long);
        let to = sending.request.to;
        self.counters.sent_again += 1;
        self.post(key.agent, to, mad);
        self.pump(key);
        self.set_deadline(key, now.saturating_add(wait));
    }

    fn time_out(&mut self, key: Key) {
        let Some(sending) = self.end(key) else {
            return;
        };
        self.counters.timed_out += 1;
        let what = Happened::TimedOut {
            header: sending.header(),
            request: sending.request,
        };
        self.deliver(key.agent, what);
    }

    // ---- Receiving ----

    /// Handles a datagram for this port, which fits its queue pair.
    pub fn receive(&mut self, packet: &Packet, now: u64) -> Claimed {
        let mad = &packet.mad;
        let is_response = mad.header.is_response();
        let agent = match is_response {
            true => self.agents.for_response(mad),
            false => self.agents.for_request(mad),
        };
        let Some(id) = agent else {
            self.counters.dropped += u64::from(is_response);
            return if is_response {
                Claimed::Yes
            } else {
                Claimed::No
            };
        };
        let registration = self.agents.get(id).map(|agent| agent.registration);
        let registration = registration.unwrap_or_default();
        if registration.qpn != packet.to.qpn {
            self.counters.dropped += 1;
            return Claimed::Yes;
        }
        self.counters.received += 1;
        let has_rmpp = class::has_rmpp(mad.header.class) && rmpp::is_active(mad);
        if has_rmpp && registration.has_kernel_rmpp() {
            self.receive_segment(id, packet, now);
        } else {
            let is_for_program = has_rmpp && !registration.has_kernel_rmpp();
            self.hand_over(id, packet, mad.bytes().to_vec(), is_for_program);
        }
        Claimed::Yes
    }

    /// Delivers a complete message to an agent, and finishes the send that it answers. `always`:
    /// delivers an answer even if no send waits for it.
    fn hand_over(&mut self, agent: AgentId, packet: &Packet, message: Vec<u8>, always: bool) {
        let is_response = packet.mad.header.is_response();
        let asked = match is_response {
            true => self.waiting_for(agent, packet),
            false => None,
        };
        if is_response && asked.is_none() && !always {
            self.counters.dropped += 1;
            return;
        }
        if let Some(key) = asked {
            self.end(key);
        }
        let what = Happened::Received {
            packet: *packet,
            message,
            is_asked: asked.is_some(),
        };
        self.deliver(agent, what);
    }

    fn deliver(&mut self, agent: AgentId, what: Happened) {
        if let Some(of) = self.agents.get(agent) {
            let owner = of.owner;
            self.deliveries.push_back(Delivery { agent, owner, what });
        }
    }

    /// The send of an agent that an answer is for.
    fn waiting_for(&self, agent: AgentId, packet: &Packet) -> Option<Key> {
        self.find(agent, packet, None)
    }

    /// The send that a datagram from the other end refers to.
    fn find(&self, agent: AgentId, packet: &Packet, answers: Option<u16>) -> Option<Key> {
        let first = Key {
            agent,
            tid: packet.mad.header.tid.get(),
            class: packet.mad.header.class,
            answers,
            number: 0,
        };
        let of_transaction = self.sends.range(first..=first.last());
        let mut from_there = of_transaction.filter(|(_, of)| of.is_from(packet.source));
        from_there.next().map(|(key, _)| *key)
    }

    /// The long message that an acknowledgement refers to.
    fn sending_of(&self, agent: AgentId, packet: &Packet) -> Option<Key> {
        // The acknowledgement of a request has the bit of answers, that of an answer does not.
        let answers = match packet.mad.header.is_response() {
            true => None,
            false => Some(packet.source),
        };
        self.find(agent, packet, answers)
    }
}

/// Nanoseconds to wait for an answer, or for an acknowledgement of a long message.
fn wait(request: &Request, is_long: bool) -> u64 {
    let timeout = u64::from(request.timeout_ms) * 1_000_000;
    match (is_long, timeout) {
        (true, 0) => ACK_TIMEOUT_NS,
        (true, timeout) => timeout.min(ACK_TIMEOUT_NS),
        (false, timeout) => timeout,
    }
}
