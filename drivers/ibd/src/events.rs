//! The queues behind descriptors of events: a context's asynchronous events, and completion
//! channels.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use syscall::error::{EINVAL, EIO, EWOULDBLOCK, Result};
use verbs_abi::events::{AsyncRecord, CompletionRecord};
use zerocopy::IntoBytes;

use crate::error::fail;

/// Number of waiting events from which on an event that equals a waiting one is dropped.
const MANY: usize = 1024;

/// The record that one read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An asynchronous event.
    Async(AsyncRecord),
    /// An armed completion queue has a completion.
    Completion(CompletionRecord),
}

impl Record {
    fn bytes(&self) -> &[u8] {
        match self {
            Record::Async(record) => record.as_bytes(),
            Record::Completion(record) => record.as_bytes(),
        }
    }
}

/// A queue that a context and descriptors share.
pub type SharedQueue = Rc<RefCell<Queue>>;

/// A queue of events.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<(Option<u32>, Record)>,
    /// Events that were read, by the handle of their object.
    reported: BTreeMap<u32, u32>,
    /// Whether its context has gone, so that no more events come.
    is_over: bool,
    /// The scheme's descriptors of this queue.
    pub descriptors: Vec<usize>,
    /// Whether this is a completion channel whose descriptors were all closed. It ends with the
    /// last completion queue that uses it.
    pub is_abandoned: bool,
}

impl Queue {
    /// Adds an event about the object with this handle, or about no object.
    pub fn push(&mut self, handle: Option<u32>, record: Record) {
        let event = (handle, record);
        if self.waiting.len() < MANY || !self.waiting.contains(&event) {
            self.waiting.push_back(event);
        }
    }

    /// Reads the next event: one record.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: no event waits. `EIO`: no event waits and none will come. `EINVAL`: the
    /// buffer is too small for the record; the event stays in the queue.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let Some((handle, record)) = self.waiting.front() else {
            return fail(if self.is_over { EIO } else { EWOULDBLOCK });
        };
        let bytes = record.bytes();
        let Some(place) = buffer.get_mut(..bytes.len()) else {
            return fail(EINVAL);
        };
        place.copy_from_slice(bytes);
        if let Some(handle) = handle {
            *self.reported.entry(*handle).or_default() += 1;
        }
        self.waiting.pop_front();
        Ok(place.len())
    }

    /// Drops the waiting events of an object that was destroyed. Returns how many of its events
    /// were read.
    pub fn forget(&mut self, handle: u32) -> u32 {
        self.waiting.retain(|(of, _)| *of != Some(handle));
        self.reported.remove(&handle).unwrap_or(0)
    }

    /// Ends the queue, as its context has gone: no more events come.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Whether a read would return at once, and whether no more events will come.
    pub fn readiness(&self) -> (bool, bool) {
        let is_ready = !self.waiting.is_empty() || self.is_over;
        (is_ready, self.is_over)
    }

    /// Number of events that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{MANY, Queue, Record};
    use syscall::error::{EINVAL, EIO, EWOULDBLOCK, Error};
    use verbs_abi::events::{AsyncRecord, CompletionRecord};

    fn completion(user_handle: u64) -> Record {
        Record::Completion(CompletionRecord { user_handle })
    }

    #[test]
    fn a_read_gives_one_record() {
        let mut queue = Queue::default();
        let mut buffer = [0; 64];
        assert_eq!(queue.read(&mut buffer), Err(Error::new(EWOULDBLOCK)));
        let record = AsyncRecord {
            element: 0x0102,
            event_type: 9,
            reserved: 0,
        };
        queue.push(Some(3), Record::Async(record));
        queue.push(Some(3), completion(7));
        assert_eq!(queue.read(&mut buffer[..15]), Err(Error::new(EINVAL)));
        assert_eq!(queue.read(&mut buffer), Ok(16));
        assert_eq!(buffer[..10], [2, 1, 0, 0, 0, 0, 0, 0, 9, 0]);
        assert_eq!((queue.len(), queue.read(&mut buffer[..8])), (1, Ok(8)));
        assert_eq!((queue.forget(3), queue.forget(3)), (2, 0));
    }

    #[test]
    fn events_go_with_their_object_and_end_with_the_context() {
        let mut queue = Queue::default();
        queue.push(Some(1), completion(1));
        queue.push(None, completion(2));
        assert_eq!((queue.forget(1), queue.len()), (0, 1));
        queue.end();
        assert_eq!(queue.readiness(), (true, true));
        assert_eq!(queue.read(&mut [0; 8]), Ok(8));
        assert_eq!(queue.read(&mut [0; 8]), Err(Error::new(EIO)));
    }

    #[test]
    fn a_program_that_reads_nothing_has_a_bounded_queue() {
        let mut queue = Queue::default();
        for _ in 0..10 * MANY {
            queue.push(Some(1), completion(1));
            queue.push(Some(2), completion(2));
        }
        assert_eq!(queue.len(), MANY);
    }
}
