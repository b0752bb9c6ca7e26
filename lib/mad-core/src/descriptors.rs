//! All open `umad0` of a node. One limit holds for everything that waits to be read.

use alloc::collections::BTreeMap;

use crate::agents::AgentId;
use crate::descriptor::{Descriptor, MAX_WAITING, datagrams, is_owed};
use crate::error::{Error, Result};
use crate::port::Happened;

/// The open descriptors of a node.
#[derive(Debug, Default)]
pub struct Descriptors {
    descriptors: BTreeMap<u64, Descriptor>,
    last: u64,
    /// Datagrams that wait to be read, in all of them.
    waiting: usize,
}

impl Descriptors {
    /// No descriptors; their numbers go on behind those of `before`.
    pub fn after(before: &Descriptors) -> Descriptors {
        Descriptors {
            last: before.last,
            ..Descriptors::default()
        }
    }

    /// Opens a descriptor. Returns its number, which is never used again.
    pub fn open(&mut self) -> u64 {
        self.last += 1;
        self.descriptors.insert(self.last, Descriptor::default());
        self.last
    }

    /// Closes a descriptor and drops what waits to be read.
    pub fn close(&mut self, number: u64) -> Option<Descriptor> {
        let descriptor = self.descriptors.remove(&number)?;
        self.waiting -= descriptor.waiting();
        Some(descriptor)
    }

    /// The descriptor with this number.
    pub fn get(&self, number: u64) -> Option<&Descriptor> {
        self.descriptors.get(&number)
    }

    /// The descriptor with this number, to change its agents.
    ///
    /// # Errors
    /// `Io`: no such descriptor.
    pub fn get_mut(&mut self, number: u64) -> Result<&mut Descriptor> {
        self.descriptors.get_mut(&number).ok_or(Error::Io)
    }

    /// Stores the next message of a descriptor. Returns its length.
    ///
    /// # Errors
    /// Those of [`Descriptor::read`]. `Io`: no such descriptor.
    pub fn read(&mut self, number: u64, buffer: &mut [u8]) -> Result<usize> {
        let descriptor = self.get_mut(number)?;
        let before = descriptor.waiting();
        let read = descriptor.read(buffer);
        let taken = before - descriptor.waiting();
        self.waiting -= taken;
        read
    }

    /// Queues an event of an agent for a descriptor. Returns whether there was room. If everything
    /// is full, the descriptor with the most datagrams drops its newest message, at first those
    /// that were not asked for. What ends a send of the program takes the place of such a message
    /// of the program, too.
    pub fn push(&mut self, number: u64, agent: AgentId, what: Happened) -> bool {
        if !self.descriptors.contains_key(&number) {
            return false;
        }
        let (more, is_owed) = (datagrams(&what), is_owed(&what));
        while self.waiting + more > MAX_WAITING {
            let own = self.descriptors.get(&number).map_or(0, Descriptor::waiting);
            let fullest = self.descriptors.values_mut().max_by_key(|of| of.waiting());
            let dropped = match fullest {
                Some(fullest) if fullest.waiting() > own + more => fullest.drop_last(),
                _ if is_owed => {
                    let own = self.descriptors.get_mut(&number);
                    own.map_or(0, Descriptor::drop_unasked)
                }
                _ => 0,
            };
            if dropped == 0 {
                return false;
            }
            self.waiting -= dropped;
        }
        let descriptor = self.descriptors.get_mut(&number);
        let is_taken = descriptor.is_some_and(|of| of.push(agent, what));
        self.waiting += if is_taken { more } else { 0 };
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::mad::{Mad, method};
    use crate::packet::{Destination, Packet};
    use crate::port::Request;

    const AGENT: AgentId = AgentId(7);

    fn message(method: u8, is_asked: bool) -> Happened {
        let mad = Mad::padded(&[1, 4, 1, method]);
        Happened::Received {
            packet: Packet {
                source: 2,
                source_qpn: 1,
                to: Destination::default(),
                mad,
            },
            message: mad.bytes().to_vec(),
            is_asked,
        }
    }

    fn report() -> Happened {
        Happened::TimedOut {
            request: Request {
                agent: AGENT,
                to: Destination::default(),
                responder: 2,
                message: Vec::new(),
                timeout_ms: 1,
                retries: 0,
            },
            header: Mad::padded(&[1, 4, 1, method::GET]).header,
        }
    }

    #[test]
    fn what_others_send_keeps_no_end_of_a_send_out() {
        let mut all = Descriptors::default();
        let number = all.open();
        all.get_mut(number).unwrap().add(0, AGENT, true);
        assert!(all.push(number, AGENT, message(method::SEND, false)));
        // Answers that nobody has asked for are no better than requests.
        while all.waiting < MAX_WAITING {
            assert!(all.push(number, AGENT, message(method::GET_RESPONSE, false)));
        }
        assert!(!all.push(number, AGENT, message(method::SEND, false)));
        assert!(all.push(number, AGENT, report()));
        assert!(all.push(number, AGENT, message(method::GET_RESPONSE, true)));
        assert_eq!(all.waiting, MAX_WAITING);
        assert_eq!(all.get(number).unwrap().waiting(), MAX_WAITING);
        // The newest ones have made room.
        let mut methods = Vec::new();
        let mut buffer = [0; 320];
        while let Ok(length) = all.read(number, &mut buffer) {
            let is_report = length < buffer.len();
            methods.push((buffer[64 + 3], is_report));
        }
        assert_eq!(methods.len(), MAX_WAITING);
        assert_eq!(methods[0], (method::SEND, false));
        assert_eq!(methods[MAX_WAITING - 2], (method::GET, true));
        assert_eq!(all.waiting, 0);
        // Without any of these, the limit holds for all.
        while all.waiting < MAX_WAITING {
            assert!(all.push(number, AGENT, report()));
        }
        assert!(!all.push(number, AGENT, report()));
    }
}
