//! Management datagrams for Rust programs, through the file `umad0` (docs/mad.md).
//!
//! A [`Port`] is an open `umad0`. A program registers [agents](Port::register), sends messages
//! with them, and receives answers and the requests that it has registered for. Datagrams are
//! those of `mad_core::mad`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use hal::event::Queue;
use libredox::Fd;
use libredox::flag::{CLOCK_MONOTONIC, O_CLOEXEC, O_NONBLOCK, O_RDWR};
use mad_core::agents::Registration;
use mad_core::mad::{GSI_QKEY, MAD_BYTES, Mad, OPENIB_OUI, PERMISSIVE_LID, class, method};
use mad_core::packet::Destination;
use mad_core::rmpp;
use syscall::error::{EAGAIN, EINTR, EINVAL, EIO, ENODEV, ENOSPC, EPIPE, Error, Result};
use syscall::flag::EventFlags;
use verbs_abi::mad::{RegisterAgent2, USER_RMPP, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

pub use mad_core;

/// The path of the file.
const UMAD: &str = "/scheme/infiniband/umad0";
/// The attribute NodeInfo, which says what a node is.
const NODE_INFO: u16 = 0x11;

/// The number of an agent of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent(pub u32);

/// A message that has arrived, or the report of a send that was not answered.
#[derive(Clone, Debug)]
pub struct Received {
    /// The agent that it is for.
    pub agent: Agent,
    /// Whether it reports a send that was not answered; then the message is the header that was
    /// sent.
    pub has_timed_out: bool,
    /// Where it comes from, as the destination of an answer.
    pub from: Destination,
    /// All headers and the data.
    pub message: Vec<u8>,
}

impl Received {
    /// The first datagram of the message.
    pub fn mad(&self) -> Mad {
        Mad::padded(&self.message)
    }

    /// Whether it is the answer to a request, or the report that none came. The port passes on
    /// what others make up, too, for programs that segment long messages themselves (docs/mad.md).
    fn is_about(&self, asked: &Mad, to: &Destination) -> bool {
        let (header, of_request) = (self.mad().header, asked.header);
        // The upper half names the agent.
        let is_same = header.tid.get() as u32 == of_request.tid.get() as u32
            && header.class == of_request.class;
        // The ends of a directed route have no local identifiers.
        let is_from_there = of_request.class == class::SUBNET_DIRECTED || self.from.lid == to.lid;
        is_same && (self.has_timed_out || header.is_response() && is_from_there)
    }
}

/// How long a send waits for an answer, and how often it is repeated.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Milliseconds; 0: no answer is expected.
    pub timeout_ms: u32,
    /// Further attempts.
    pub retries: u32,
}

impl RetryPolicy {
    /// No answer is expected.
    pub const NONE: RetryPolicy = RetryPolicy {
        timeout_ms: 0,
        retries: 0,
    };
    /// The policy of InfiniBand's tools: a second, and three more attempts.
    pub const USUAL: RetryPolicy = RetryPolicy {
        timeout_ms: 1000,
        retries: 3,
    };
}

/// An error of the file. If the device has gone because its daemon has ended, it becomes `number`,
/// which Linux gives then.
fn when_gone(error: Error, number: i32) -> Error {
    match error.errno {
        ENODEV => Error::new(number),
        _ => error,
    }
}

/// An open `umad0`.
pub struct Port {
    file: Fd,
}

impl Port {
    /// Opens the port.
    ///
    /// # Errors
    /// Those of the open: `EACCES` for others than root, `ENXIO` before the node has its number.
    pub fn open() -> Result<Port> {
        let file = Fd::open(UMAD, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0)?;
        Ok(Port { file })
    }

    /// The descriptor, for event queues.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }

    /// Makes a request of `ioctl`.
    ///
    /// # Errors
    /// Those of the request. `EPIPE`: the device has gone.
    pub fn control(&self, number: u64, payload: &mut [u8]) -> Result<()> {
        let flags = syscall::CallFlags::READ | syscall::CallFlags::WRITE;
        let done = self.file.call_rw(payload, flags, &[number]);
        done.map(drop)
            .map_err(|error| when_gone(error.into(), EPIPE))
    }

    /// Registers an agent.
    ///
    /// # Errors
    /// `EINVAL`: a value is not possible, or a method belongs to another agent. `ENOMEM`: there
    /// are 32 agents already.
    pub fn register(&self, asked: &Registration) -> Result<Agent> {
        let [a, b, c] = asked.oui;
        let asked = RegisterAgent2 {
            qpn: asked.qpn,
            mgmt_class: asked.class,
            mgmt_class_version: asked.class_version,
            flags: if asked.user_rmpp { USER_RMPP } else { 0 },
            method_mask: [asked.methods as u64, (asked.methods >> 64) as u64],
            oui: u32::from_be_bytes([0, a, b, c]),
            rmpp_version: asked.rmpp_version,
            ..RegisterAgent2::default()
        };
        let mut payload: [u8; size_of::<RegisterAgent2>()] = zerocopy::transmute!(asked);
        self.control(request::REGISTER_AGENT2, &mut payload)?;
        let [a, b, c, d, ..] = payload;
        Ok(Agent(u32::from_ne_bytes([a, b, c, d])))
    }

    /// Removes an agent.
    ///
    /// # Errors
    /// `EINVAL`: there is no such agent.
    pub fn unregister(&self, agent: Agent) -> Result<()> {
        let mut payload = agent.0.to_ne_bytes();
        self.control(request::UNREGISTER_AGENT, &mut payload)
    }

    /// Sends a message with all its headers.
    ///
    /// # Errors
    /// `EINVAL`, `EIO`, `ENOMEM`: docs/mad.md.
    pub fn send(
        &self,
        agent: Agent,
        to: &Destination,
        message: &[u8],
        retry: RetryPolicy,
    ) -> Result<()> {
        let route = to.global.unwrap_or_default();
        let header = UserMad {
            id: agent.0,
            timeout_ms: retry.timeout_ms,
            retries: retry.retries,
            qpn: to.qpn.to_be_bytes(),
            qkey: to.qkey.to_be_bytes(),
            lid: to.lid.to_be_bytes(),
            sl: to.service_level,
            grh_present: to.global.is_some().into(),
            hop_limit: route.hop_limit,
            traffic_class: route.traffic_class,
            gid: route.gid,
            flow_label: route.flow_label.to_be_bytes(),
            ..UserMad::default()
        };
        let written = self.file.write(&[header.as_bytes(), message].concat());
        written
            .map(drop)
            .map_err(|error| when_gone(error.into(), EIO))
    }

    /// Reads a header and a message into a buffer, as the file gives them.
    ///
    /// # Errors
    /// `EAGAIN`, `EINVAL`, `EIO`, `ENOSPC`: docs/mad.md.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.file.read(buffer);
        read.map_err(|error| when_gone(error.into(), EIO))
    }

    /// Takes the next message that has arrived, of any length.
    ///
    /// # Errors
    /// `EAGAIN`: there is none. Those of [`read`](Self::read).
    pub fn take(&self) -> Result<Received> {
        let mut buffer = vec![0; size_of::<UserMad>() + MAD_BYTES];
        // Another thread may take the message whose length was found; the next one may be longer.
        let length = loop {
            match self.read(&mut buffer) {
                Err(Error { errno: ENOSPC }) => {
                    let (header, _) = UserMad::read_from_prefix(&buffer).unwrap_or_default();
                    buffer.resize(buffer.len().max(header.length as usize), 0);
                }
                result => break result?,
            }
        };
        buffer.truncate(length);
        let (header, message) = UserMad::read_from_prefix(&buffer).unwrap_or_default();
        let qpn = u32::from_be_bytes(header.qpn);
        Ok(Received {
            agent: Agent(header.id),
            has_timed_out: header.status != 0,
            from: Destination {
                lid: u16::from_be_bytes(header.lid),
                qpn,
                qkey: GSI_QKEY,
                service_level: header.sl,
                global: None,
            },
            message: message.to_vec(),
        })
    }

    /// Receives the next message; waits for it, at most for `limit` (`None`: without limit).
    /// Returns `None` if no message came.
    ///
    /// # Errors
    /// Those of the file and of event queues.
    pub fn receive(&self, limit: Option<Duration>) -> Result<Option<Received>> {
        let mut queue = Queue::new()?;
        let watched = queue.subscribe(self.fd(), EventFlags::EVENT_READ, ());
        watched.map_err(|error| when_gone(error, EIO))?;
        let mut ready = Vec::new();
        // Waits that an interruption or an event for nothing has ended count together.
        let end = match limit {
            Some(limit) => now()?.checked_add(limit),
            None => None,
        };
        loop {
            match self.take() {
                Ok(received) => return Ok(Some(received)),
                Err(Error {
                    errno: EAGAIN | EINTR,
                }) => {}
                Err(error) => return Err(error),
            }
            let left = match end {
                None => None,
                Some(end) => match end.checked_sub(now()?) {
                    None | Some(Duration::ZERO) => return Ok(None),
                    left => left,
                },
            };
            queue.wait(left, &mut ready)?;
        }
    }

    /// Sends a request and waits for its answer; `None`: none came in time. Other messages that
    /// arrive meanwhile are dropped, so a program that also serves requests needs another port for
    /// them. An answer has the request's transaction and class and comes from the port that was
    /// asked.
    ///
    /// # Errors
    /// `EINVAL`: `retry` has no time limit, as [`RetryPolicy::NONE`] has none, so that the wait for
    /// an answer that does not come would never end. Those of [`send`](Self::send) and
    /// [`receive`](Self::receive).
    pub fn ask(
        &self,
        agent: Agent,
        to: &Destination,
        message: &[u8],
        retry: RetryPolicy,
    ) -> Result<Option<Received>> {
        if retry.timeout_ms == 0 {
            return Err(Error::new(EINVAL));
        }
        self.send(agent, to, message, retry)?;
        let asked = Mad::padded(message);
        let end = match longest_wait(&asked, message.len(), retry) {
            Some(limit) => now()?.checked_add(limit),
            None => None,
        };
        loop {
            let left = match end {
                Some(end) => Some(end.saturating_sub(now()?)),
                None => None,
            };
            let Some(received) = self.receive(left)? else {
                return Ok(None);
            };
            if received.agent == agent && received.is_about(&asked, to) {
                return Ok((!received.has_timed_out).then_some(received));
            }
        }
    }
}

/// How long the end of a request can take; `None`: the port says when it ends. That it does not
/// when the receiver refuses a message of several segments. Each window of those may have to be
/// sent as often as the policy says, and as often again while the answer is waited for and comes.
fn longest_wait(asked: &Mad, bytes: usize, retry: RetryPolicy) -> Option<Duration> {
    let class = asked.header.class;
    if !class::has_rmpp(class) || !rmpp::is_active(asked) {
        return None;
    }
    let data = bytes.saturating_sub(class::header_bytes(class));
    let segments = data.div_ceil(MAD_BYTES - class::header_bytes(class));
    // The first one is a window of its own.
    let windows = 1 + segments.div_ceil(rmpp::WINDOW as usize) as u64;
    let timeout = Duration::from_millis(retry.timeout_ms.into());
    let of_window = timeout.min(Duration::from_nanos(rmpp::ACK_TIMEOUT_NS));
    let attempts = u64::from(retry.retries) + 1;
    let times = |time: Duration, count: u64| {
        let nanoseconds = (time.as_nanos() as u64).saturating_mul(count);
        Duration::from_nanos(nanoseconds)
    };
    let sending = times(of_window, attempts.saturating_mul(windows));
    let answering = times(timeout, attempts);
    let arriving = Duration::from_nanos(rmpp::MESSAGE_TIMEOUT_NS);
    Some(sending.saturating_add(answering).saturating_add(arriving))
}

/// Monotonic time.
fn now() -> Result<Duration> {
    let time = libredox::call::clock_gettime(CLOCK_MONOTONIC).map_err(Error::from)?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// The address of the agent of subnet management at a port.
pub fn subnet(lid: u16) -> Destination {
    Destination {
        lid,
        ..Destination::default()
    }
}

/// The address of the agents of all other classes at a port.
pub fn general(lid: u16) -> Destination {
    Destination {
        lid,
        qpn: 1,
        qkey: GSI_QKEY,
        ..Destination::default()
    }
}

/// The registration of an agent that sends requests of a class, and receives only answers.
pub fn client(class: u8, class_version: u8) -> Registration {
    Registration {
        qpn: if class::is_subnet(class) { 0 } else { 1 },
        class,
        class_version,
        oui: if class::is_vendor(class) {
            OPENIB_OUI
        } else {
            [0; 3]
        },
        rmpp_version: class::has_rmpp(class).into(),
        ..Registration::default()
    }
}

/// Makes a Get of an attribute.
pub fn get(class: u8, class_version: u8, attribute: u16, modifier: u32, tid: u32) -> Mad {
    let mut mad = Mad::padded(&[1, class, class_version, method::GET]);
    mad.header.attribute = attribute.into();
    mad.header.modifier = modifier.into();
    mad.header.tid = u64::from(tid).into();
    mad
}

/// Makes a Get of subnet management by a directed route, whose ports are `path`.
pub fn directed(attribute: u16, modifier: u32, path: &[u8], tid: u32) -> Mad {
    let mut smp = get(class::SUBNET_DIRECTED, 1, attribute, modifier, tid).smp();
    let hops = path.len().min(smp.initial_path.len() - 1);
    smp.header.hops = [0, hops as u8];
    smp.directed_source = PERMISSIVE_LID.into();
    smp.directed_destination = PERMISSIVE_LID.into();
    smp.initial_path[1..=hops].copy_from_slice(&path[..hops]);
    Mad::from_smp(smp)
}

/// Makes a Get of NodeInfo, which every port answers.
pub fn node_info(tid: u32) -> Mad {
    get(class::SUBNET_LID, 1, NODE_INFO, 0, tid)
}

#[cfg(test)]
mod tests;
