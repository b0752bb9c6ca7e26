//! An open `umad0`: its agents, and the messages that wait to be read.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use verbs_abi::mad::{
    MAX_AGENTS, OLD_HEADER_BYTES, RegisterAgent, RegisterAgent2, STATUS_TIMED_OUT, USER_RMPP,
    UserMad,
};
use verbs_core::address::{GlobalRoute, gid};
use zerocopy::{FromBytes, IntoBytes};

use crate::agents::{AgentId, Registration};
use crate::error::{Error, Result};
use crate::mad::{MAD_BYTES, PERMISSIVE_LID, class};
use crate::packet::{Destination, Packet};
use crate::port::{Happened, Request};

/// Most datagrams that wait to be read, of one descriptor and also of all together; a long message
/// counts as its segments.
pub const MAX_WAITING: usize = 200_000;

/// A message that waits to be read.
#[derive(Clone, Debug)]
struct Waiting {
    header: UserMad,
    message: Vec<u8>,
    is_owed: bool,
}

impl Waiting {
    fn segments(&self) -> usize {
        segments(&self.message)
    }
}

fn segments(message: &[u8]) -> usize {
    message.len().div_ceil(MAD_BYTES).max(1)
}

/// The number of datagrams as which an event counts while it waits.
pub fn datagrams(what: &Happened) -> usize {
    match what {
        Happened::Received { message, .. } => segments(message),
        Happened::TimedOut { .. } => 1,
    }
}

/// Whether an event ends a send of the program, as its answer or the report that none has come.
/// Other datagrams, which ports send as they like, must not take the place of these.
pub fn is_owed(what: &Happened) -> bool {
    match what {
        Happened::Received { is_asked, .. } => *is_asked,
        Happened::TimedOut { .. } => true,
    }
}

/// An open `umad0`.
#[derive(Clone, Debug, Default)]
pub struct Descriptor {
    /// Whether the header has a P_Key index.
    has_pkey: bool,
    /// Whether an agent was registered, after which the form of the header stays.
    is_used: bool,
    agents: [Option<AgentId>; MAX_AGENTS],
    waiting: VecDeque<Waiting>,
    segments: usize,
    /// The number of messages that wait and were not asked for.
    unasked: usize,
}

impl Descriptor {
    /// Bytes of the header in front of each message.
    pub fn header_bytes(&self) -> usize {
        match self.has_pkey {
            true => size_of::<UserMad>(),
            false => OLD_HEADER_BYTES,
        }
    }

    /// Executes ENABLE_PKEY.
    ///
    /// # Errors
    /// `Invalid`: an agent was registered before.
    pub fn enable_pkey(&mut self) -> Result<()> {
        if self.is_used {
            return Err(Error::Invalid);
        }
        self.has_pkey = true;
        Ok(())
    }

    /// The number that the next agent gets.
    ///
    /// # Errors
    /// `NoMemory`: there are 32 agents.
    pub fn free_number(&self) -> Result<usize> {
        let free = self.agents.iter().position(Option::is_none);
        free.ok_or(Error::NoMemory)
    }

    /// Adds an agent that was registered, by REGISTER_AGENT2 (`is_second`) or by the older
    /// request.
    pub fn add(&mut self, number: usize, agent: AgentId, is_second: bool) {
        self.agents[number] = Some(agent);
        if !self.is_used {
            self.is_used = true;
            self.has_pkey |= is_second;
        }
    }

    /// Removes an agent.
    ///
    /// # Errors
    /// `Invalid`: no agent has this number.
    pub fn remove(&mut self, number: u32) -> Result<AgentId> {
        let place = self.agents.get_mut(number as usize);
        place.and_then(Option::take).ok_or(Error::Invalid)
    }

    /// All agents.
    pub fn agents(&self) -> impl Iterator<Item = AgentId> + '_ {
        self.agents.iter().flatten().copied()
    }

    /// The number of datagrams that wait to be read.
    pub fn waiting(&self) -> usize {
        self.segments
    }

    /// The bytes that a program has written, as a request of its agent.
    ///
    /// # Errors
    /// `Invalid`: too few bytes, no such number, or a P_Key or GID index other than 0. `Io`: no
    /// agent has the number.
    pub fn request(&self, bytes: &[u8]) -> Result<Request> {
        let header_bytes = self.header_bytes();
        if bytes.len() < header_bytes + crate::mad::RMPP_HEADER_BYTES {
            return Err(Error::Invalid);
        }
        let (given, message) = bytes.split_at(header_bytes);
        let mut place = [0; size_of::<UserMad>()];
        place[..header_bytes].copy_from_slice(given);
        let header = UserMad::read_from_bytes(&place).map_err(|_| Error::Invalid)?;
        let agent = self.agents.get(header.id as usize).ok_or(Error::Invalid)?;
        let agent = agent.ok_or(Error::Io)?;
        let is_global = header.grh_present != 0;
        if header.pkey_index != 0 || (is_global && header.gid_index != 0) {
            return Err(Error::Invalid);
        }
        let global = GlobalRoute {
            gid: header.gid,
            flow_label: u32::from_be_bytes(header.flow_label) & 0xf_ffff,
            traffic_class: header.traffic_class,
            hop_limit: header.hop_limit,
        };
        let lid = u16::from_be_bytes(header.lid);
        Ok(Request {
            agent,
            to: Destination {
                lid,
                qpn: u32::from_be_bytes(header.qpn),
                qkey: u32::from_be_bytes(header.qkey),
                service_level: header.sl & 15,
                global: is_global.then_some(global),
            },
            responder: lid,
            message: message.to_vec(),
            timeout_ms: header.timeout_ms,
            retries: header.retries,
        })
    }

    /// Queues an event of an agent of this descriptor. Returns whether there was room.
    pub fn push(&mut self, agent: AgentId, what: Happened) -> bool {
        let Some(id) = self.agents.iter().position(|of| *of == Some(agent)) else {
            return false;
        };
        let is_owed = is_owed(&what);
        let waiting = match what {
            Happened::Received {
                packet, message, ..
            } => {
                let length = self.header_bytes() + message.len();
                Waiting {
                    header: received(id as u32, length as u32, &packet),
                    message,
                    is_owed,
                }
            }
            Happened::TimedOut { request, header } => {
                let message = header.as_bytes().to_vec();
                let length = self.header_bytes() + message.len();
                Waiting {
                    header: timed_out(id as u32, length as u32, &request),
                    message,
                    is_owed,
                }
            }
        };
        let segments = waiting.segments();
        if self.segments + segments > MAX_WAITING {
            return false;
        }
        self.segments += segments;
        self.unasked += usize::from(!is_owed);
        self.waiting.push_back(waiting);
        true
    }

    /// Drops the newest message that was not asked for. Returns the number of datagrams that it
    /// counted as: 0 if there is none.
    pub fn drop_unasked(&mut self) -> usize {
        if self.unasked == 0 {
            return 0;
        }
        let newest = self.waiting.iter().rposition(|waiting| !waiting.is_owed);
        self.dropped(newest)
    }

    /// Drops the newest message that was not asked for, or if there is none the newest message.
    /// Returns the number of datagrams that it counted as.
    pub fn drop_last(&mut self) -> usize {
        match self.drop_unasked() {
            0 => self.dropped(self.waiting.len().checked_sub(1)),
            segments => segments,
        }
    }

    fn dropped(&mut self, index: Option<usize>) -> usize {
        let Some(dropped) = index.and_then(|index| self.waiting.remove(index)) else {
            return 0;
        };
        self.unasked -= usize::from(!dropped.is_owed);
        self.segments -= dropped.segments();
        dropped.segments()
    }

    /// Stores the next message in a buffer. Returns its length.
    ///
    /// # Errors
    /// `Invalid`: no room for the header and the first datagram; the message stays. `WouldBlock`.
    /// `NoSpace`: no room for all of a long message; its header and first datagram were stored,
    /// and the message stays.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let header_bytes = self.header_bytes();
        if buffer.len() < header_bytes {
            return Err(Error::Invalid);
        }
        let next = self.waiting.front().ok_or(Error::WouldBlock)?;
        let length = header_bytes + next.message.len();
        let first = length.min(header_bytes + MAD_BYTES);
        if buffer.len() < first {
            return Err(Error::Invalid);
        }
        let header = &next.header.as_bytes()[..header_bytes];
        buffer[..header_bytes].copy_from_slice(header);
        let fits = buffer.len().min(length);
        let stored = if fits < length { first } else { length };
        buffer[header_bytes..stored].copy_from_slice(&next.message[..stored - header_bytes]);
        if fits < length {
            return Err(Error::NoSpace);
        }
        self.segments -= next.segments();
        self.unasked -= usize::from(!next.is_owed);
        self.waiting.pop_front();
        Ok(length)
    }
}

/// The header for a message that has arrived.
fn received(id: u32, length: u32, packet: &Packet) -> UserMad {
    // The ends of a directed route have no local identifiers.
    let is_directed = packet.mad.header.class == class::SUBNET_DIRECTED;
    let lid = if is_directed {
        PERMISSIVE_LID
    } else {
        packet.source
    };
    let route = packet.to.global.unwrap_or_default();
    let source = packet.to.global.map_or([0; 16], |_| gid(packet.source));
    UserMad {
        id,
        length,
        qpn: packet.source_qpn.to_be_bytes(),
        lid: lid.to_be_bytes(),
        sl: packet.to.service_level,
        grh_present: packet.to.global.is_some().into(),
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
        gid: source,
        flow_label: route.flow_label.to_be_bytes(),
        ..UserMad::default()
    }
}

/// The header for a send that was not answered: what the program wrote, with the status.
fn timed_out(id: u32, length: u32, request: &Request) -> UserMad {
    let route = request.to.global.unwrap_or_default();
    UserMad {
        id,
        status: STATUS_TIMED_OUT,
        timeout_ms: request.timeout_ms,
        retries: request.retries,
        length,
        qpn: request.to.qpn.to_be_bytes(),
        qkey: request.to.qkey.to_be_bytes(),
        lid: request.to.lid.to_be_bytes(),
        sl: request.to.service_level,
        grh_present: request.to.global.is_some().into(),
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
        gid: route.gid,
        flow_label: route.flow_label.to_be_bytes(),
        ..UserMad::default()
    }
}

/// The registration that REGISTER_AGENT asks for.
pub fn registration(asked: &RegisterAgent) -> Registration {
    let words = asked.method_mask.iter().rev();
    let methods = words.fold(0, |mask, word| mask << 32 | u128::from(*word));
    Registration {
        qpn: asked.qpn.into(),
        class: asked.mgmt_class,
        class_version: asked.mgmt_class_version,
        oui: asked.oui,
        methods,
        rmpp_version: asked.rmpp_version,
        user_rmpp: false,
    }
}

/// The registration that REGISTER_AGENT2 asks for.
///
/// # Errors
/// `Invalid`: the organisation has more than 24 bits.
pub fn registration2(asked: &RegisterAgent2) -> Result<Registration> {
    let [high, oui @ ..] = asked.oui.to_be_bytes();
    if high != 0 && asked.mgmt_class != 0 {
        return Err(Error::Invalid);
    }
    let [low, upper] = asked.method_mask.map(u128::from);
    Ok(Registration {
        qpn: asked.qpn,
        class: asked.mgmt_class,
        class_version: asked.mgmt_class_version,
        oui,
        methods: upper << 64 | low,
        rmpp_version: asked.rmpp_version,
        user_rmpp: asked.flags & USER_RMPP != 0,
    })
}
