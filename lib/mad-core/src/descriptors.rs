//! All open `umad0` of a node. One limit holds for everything that waits to be read.

use alloc::collections::BTreeMap;

use crate::agents::AgentId;
use crate::descriptor::{Descriptor, MAX_WAITING, datagrams};
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
    /// is full, the descriptor with the most datagrams drops its newest message.
    pub fn push(&mut self, number: u64, agent: AgentId, what: Happened) -> bool {
        let Some(own) = self.descriptors.get(&number) else {
            return false;
        };
        let (more, own) = (datagrams(&what), own.waiting());
        while self.waiting + more > MAX_WAITING {
            let fullest = self.descriptors.values_mut().max_by_key(|of| of.waiting());
            match fullest {
                Some(fullest) if fullest.waiting() > own + more => {
                    self.waiting -= fullest.drop_last();
                }
                _ => return false,
            }
        }
        let descriptor = self.descriptors.get_mut(&number);
        let is_taken = descriptor.is_some_and(|of| of.push(agent, what));
        self.waiting += if is_taken { more } else { 0 };
        is_taken
    }
}
