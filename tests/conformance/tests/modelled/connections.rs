//! The model's endpoints, connections and streams.

use std::collections::VecDeque;

use scif_abi::Error;
use scif_abi::flags::Readiness;

use super::{Attempt, Endpoint, Expected, Model, SLOTS, State, fails, node_of};

/// Bytes that a stream holds without a reader.
const RING: usize = 4095;
/// The first port that is given out.
const FIRST_PORT: u16 = 1088;

impl Model {
    pub(super) fn open(&mut self, slot: usize) -> Expected {
        if self.endpoints[slot].state != State::Closed {
            return Expected::Skip;
        }
        self.endpoints[slot] = Endpoint::new(State::Unbound);
        Expected::Value(0)
    }

    pub(super) fn close(&mut self, slot: usize) -> Expected {
        let endpoint = std::mem::replace(&mut self.endpoints[slot], Endpoint::new(State::Closed));
        match endpoint.state {
            State::Closed => return fails(Error::BadDescriptor),
            State::Listening { queue, .. } => queue.into_iter().for_each(|c| self.refuse(c)),
            State::Requesting(listener) => {
                if let State::Listening { queue, .. } = &mut self.endpoints[listener].state {
                    queue.retain(|waiting| *waiting != slot);
                }
            }
            State::Connected(peer) => self.endpoints[peer].state = State::Disconnected,
            State::Unbound | State::Bound | State::Disconnected => {}
        }
        Expected::Value(0)
    }

    fn refuse(&mut self, slot: usize) {
        self.endpoints[slot].state = State::Bound;
        self.endpoints[slot].attempt = Some(Attempt::Refused);
    }

    fn is_taken(&self, node: usize, port: u16) -> bool {
        let slots = &self.endpoints[node * SLOTS..(node + 1) * SLOTS];
        slots.iter().any(|e| e.owns_port && e.port == port)
    }

    fn bind_any(&mut self, slot: usize) -> u16 {
        let node = node_of(slot);
        let free = (FIRST_PORT..).find(|port| !self.is_taken(node, *port));
        self.take_port(slot, free.expect("there are more ports than slots"))
    }

    fn take_port(&mut self, slot: usize, port: u16) -> u16 {
        let endpoint = &mut self.endpoints[slot];
        endpoint.port = port;
        endpoint.owns_port = true;
        endpoint.state = State::Bound;
        port
    }

    pub(super) fn bind(&mut self, slot: usize, port: u16) -> Expected {
        match self.endpoints[slot].state {
            State::Closed => fails(Error::BadDescriptor),
            State::Bound => fails(Error::InvalidArgument),
            State::Unbound if port == 0 => Expected::Value(self.bind_any(slot).into()),
            State::Unbound if self.is_taken(node_of(slot), port) => fails(Error::InvalidArgument),
            State::Unbound => Expected::Value(self.take_port(slot, port).into()),
            _ => fails(Error::IsConnected),
        }
    }

    pub(super) fn listen(&mut self, slot: usize, backlog: i32) -> Expected {
        let endpoint = &mut self.endpoints[slot];
        match endpoint.state {
            State::Closed => fails(Error::BadDescriptor),
            _ if backlog <= 0 => fails(Error::InvalidArgument),
            State::Bound => {
                endpoint.attempt = None;
                endpoint.state = State::Listening {
                    backlog: backlog as usize + usize::from(self.is_wrong),
                    queue: VecDeque::new(),
                };
                Expected::Value(0)
            }
            State::Unbound | State::Disconnected => fails(Error::InvalidArgument),
            _ => fails(Error::IsConnected),
        }
    }

    pub(super) fn connect(&mut self, slot: usize, node: usize, port: u16) -> Expected {
        let endpoint = &mut self.endpoints[slot];
        if endpoint.state == State::Closed {
            return fails(Error::BadDescriptor);
        }
        match endpoint.attempt {
            Some(Attempt::Refused) => {
                endpoint.attempt = None;
                return fails(Error::ConnectionRefused);
            }
            Some(Attempt::Succeeded) => {
                endpoint.attempt = None;
                return Expected::Value(endpoint.port.into());
            }
            Some(Attempt::UnderWay) | None => {}
        }
        match endpoint.state {
            State::Unbound => {
                self.bind_any(slot);
            }
            State::Bound => {}
            State::Listening { .. } => return fails(Error::NotSupported),
            State::Requesting(_) => return fails(Error::InProgress),
            State::Disconnected => return fails(Error::InvalidArgument),
            State::Connected(_) | State::Closed => return fails(Error::IsConnected),
        }
        let slots = node * SLOTS..(node + 1) * SLOTS;
        let mut listeners = slots.filter(|other| {
            let other = &self.endpoints[*other];
            other.port == port && matches!(other.state, State::Listening { .. })
        });
        match listeners.next() {
            Some(listener) if self.queue(listener, slot) => {
                self.endpoints[slot].state = State::Requesting(listener);
                self.endpoints[slot].attempt = Some(Attempt::UnderWay);
            }
            _ => self.refuse(slot),
        }
        fails(Error::InProgress)
    }

    /// Queues a request. Returns false if the backlog is full.
    fn queue(&mut self, listener: usize, slot: usize) -> bool {
        let State::Listening { backlog, queue } = &mut self.endpoints[listener].state else {
            return false;
        };
        let has_room = queue.len() < *backlog;
        if has_room {
            queue.push_back(slot);
        }
        has_room
    }

    pub(super) fn accept(&mut self, slot: usize) -> Expected {
        let Some(new) = self.free_slot(node_of(slot)) else {
            return Expected::Skip;
        };
        let port = self.endpoints[slot].port;
        let connector = match &mut self.endpoints[slot].state {
            State::Closed => return fails(Error::BadDescriptor),
            State::Listening { queue, .. } => queue.pop_front(),
            _ => return fails(Error::InvalidArgument),
        };
        let Some(connector) = connector else {
            return fails(Error::WouldBlock);
        };
        self.endpoints[new] = Endpoint::new(State::Connected(connector));
        self.endpoints[new].port = port;
        self.endpoints[connector].state = State::Connected(new);
        self.endpoints[connector].attempt = Some(Attempt::Succeeded);
        Expected::Value(0)
    }

    pub(super) fn send(&mut self, slot: usize, length: usize) -> Expected {
        if length == 0 && self.endpoints[slot].state != State::Closed {
            return Expected::Value(0);
        }
        let peer = match self.verify(slot) {
            Ok(peer) => &mut self.endpoints[peer],
            Err(error) => return error,
        };
        let count = length.min(RING - (peer.arrived - peer.received));
        peer.arrived += count;
        Expected::Value(count as i64)
    }

    pub(super) fn recv(&mut self, slot: usize, length: usize) -> Expected {
        let endpoint = &mut self.endpoints[slot];
        let left = endpoint.arrived - endpoint.received;
        match endpoint.state {
            State::Closed => fails(Error::BadDescriptor),
            _ if length == 0 => Expected::Value(0),
            State::Disconnected if left == 0 => fails(Error::ConnectionReset),
            State::Connected(_) | State::Disconnected => {
                let count = left.min(length);
                endpoint.received += count;
                Expected::Value(count as i64)
            }
            _ => fails(Error::NotConnected),
        }
    }

    /// The events that poll reports if IN and OUT are requested.
    pub(super) fn poll(&self, slot: usize) -> i64 {
        let endpoint = &self.endpoints[slot];
        let readable = endpoint.arrived > endpoint.received;
        let when = |condition, bits: Readiness| match condition {
            true => bits,
            false => Readiness::empty(),
        };
        let bits = match (endpoint.attempt, &endpoint.state) {
            (_, State::Closed) => Readiness::NVAL,
            (Some(Attempt::UnderWay), _) => Readiness::empty(),
            (Some(_), _) => Readiness::OUT,
            (None, State::Listening { queue, .. }) => when(!queue.is_empty(), Readiness::IN),
            (None, State::Connected(peer)) => {
                let peer = &self.endpoints[*peer];
                let has_room = peer.arrived - peer.received < RING;
                when(readable, Readiness::IN) | when(has_room, Readiness::OUT)
            }
            (None, State::Disconnected) => when(readable, Readiness::IN) | Readiness::HUP,
            (None, _) => Readiness::ERR,
        };
        bits.bits().into()
    }
}
