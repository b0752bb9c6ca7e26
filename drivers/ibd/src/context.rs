//! A context: what belongs to one open `uverbs0`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use verbs::engine::Engine;
use verbs_abi::events::{AsyncRecord, CompletionRecord};
use verbs_core::table::Id;
use verbs_core::types::EventType;
use verbs_core::{Event, Subject};

use crate::events::{Record, SharedQueue};
use crate::object::{Cq, Name, Object, Table};
use crate::pages::Pages;

/// Most turns of the engine in one call of [`Context::progress`] while there is work; then other
/// contexts have their turns.
const TURNS: usize = 16;
/// Bytes that the requests of a context copy in each half of a turn.
const HALF_TURN: u64 = 1 << 19;

/// A program that opened the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its process.
    pub pid: usize,
    /// Its user, whose limits apply to it.
    pub uid: u32,
}

/// One open `uverbs0`: its objects, its event queues, and the state of its queue pairs.
pub struct Context {
    /// The user and process that opened it.
    pub owner: Owner,
    /// The rules of verbs with the state of all objects, and the lanes (docs/verbs.md) of the
    /// queue pairs that commands post to.
    pub engine: Engine,
    /// Pages of the program for the command that is being executed.
    pub pages: Option<Pages>,
    /// The objects, by handle.
    pub objects: Table,
    /// Whether GET_CONTEXT was executed.
    pub is_begun: bool,
    /// The asynchronous events.
    pub events: SharedQueue,
    /// The completion channels, by number.
    pub channels: BTreeMap<u32, SharedQueue>,
    /// The queues that have got events since the last [`Context::take_woken`].
    woken: Vec<SharedQueue>,
}

impl Context {
    /// A context on this node, without objects. `generation` is any number, preferably a different
    /// one each time.
    pub fn new(owner: Owner, node: u16, generation: u32) -> Context {
        let mut engine = Engine::new(node, generation);
        engine.core.limit_turns(HALF_TURN);
        Context {
            owner,
            engine,
            pages: None,
            objects: Table::default(),
            is_begun: false,
            events: SharedQueue::default(),
            channels: BTreeMap::new(),
            woken: Vec::new(),
        }
    }

    /// Returns the channel with this number.
    pub fn channel(&self, number: u32) -> Option<&SharedQueue> {
        self.channels.get(&number)
    }

    /// Makes progress on the queue pairs, and puts the resulting events into the queues of their
    /// descriptors. Returns how many asynchronous events and how many completion events there
    /// were. `now` is in nanoseconds of a clock that only goes forward.
    pub fn progress(&mut self, now: u64) -> (u64, u64) {
        let (mut asynchronous, mut completions) = (0, 0);
        for _ in 0..TURNS {
            self.engine.turn(now);
            while let Some(event) = self.engine.next_event() {
                match event {
                    Event::Async(kind, subject) => {
                        asynchronous += 1;
                        self.pass_async(kind, subject);
                    }
                    Event::Completion(cq) => {
                        completions += 1;
                        self.pass_completion(cq);
                    }
                    // The engine handles its lanes itself.
                    Event::LaneOver(_) | Event::LaneWanted(_) => {}
                }
            }
            if !self.engine.left.is_busy {
                break;
            }
        }
        (asynchronous, completions)
    }

    /// When [`progress`](Context::progress) has work to do, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.engine.left.until
    }

    fn pass_async(&mut self, kind: EventType, subject: Subject) {
        let name = match subject {
            Subject::Qp(number) => Name::Qp(number),
            Subject::Cq(id) => Name::Cq(id),
            Subject::Srq(id) => Name::Srq(id),
        };
        let Some(handle) = self.objects.handle_of(name) else {
            return;
        };
        let element = match self.objects.get(handle) {
            Ok(Object::Qp(qp)) => qp.user_handle,
            Ok(Object::Cq(cq)) => cq.user_handle,
            Ok(Object::Srq(srq)) => srq.user_handle,
            _ => return,
        };
        self.push_async(Some(handle), element, kind as u32);
    }

    fn pass_completion(&mut self, id: Id) {
        let Some(handle) = self.objects.handle_of(Name::Cq(id)) else {
            return;
        };
        let Ok(&Cq {
            user_handle,
            channel: Some(number),
            ..
        }) = self.objects.cq(handle)
        else {
            return;
        };
        if let Some(queue) = self.channel(number).cloned() {
            let record = Record::Completion(CompletionRecord { user_handle });
            queue.borrow_mut().push(Some(handle), record);
            self.woken.push(queue);
        }
    }

    /// Queues an asynchronous event about an object, or about the port.
    pub fn push_async(&mut self, handle: Option<u32>, element: u64, event_type: u32) {
        let record = AsyncRecord {
            element,
            event_type,
            reserved: 0,
        };
        self.events.borrow_mut().push(handle, Record::Async(record));
        self.woken.push(SharedQueue::clone(&self.events));
    }

    /// Takes the descriptors whose queues have got events since the last call.
    pub fn take_woken(&mut self) -> Vec<usize> {
        let mut descriptors = Vec::new();
        for queue in self.woken.drain(..) {
            descriptors.extend(&queue.borrow().descriptors);
        }
        descriptors
    }

    /// Drops the events of an object that was destroyed. Returns how many of its completion events
    /// and how many of its asynchronous events were read.
    pub fn forget_events(&mut self, handle: u32, channel: Option<u32>) -> (u32, u32) {
        let of_channel = |queue: &SharedQueue| queue.borrow_mut().forget(handle);
        let completions = channel
            .and_then(|number| self.channel(number))
            .map(of_channel);
        (
            completions.unwrap_or(0),
            self.events.borrow_mut().forget(handle),
        )
    }

    /// Ends the queues of events and returns their descriptors.
    pub fn end_queues(&mut self) -> Vec<usize> {
        let queues = self.channels.values().chain([&self.events]);
        for queue in queues {
            queue.borrow_mut().end();
            self.woken.push(SharedQueue::clone(queue));
        }
        self.take_woken()
    }

    /// Number of events that wait to be read.
    pub fn waiting_events(&self) -> usize {
        let queues = self.channels.values().chain([&self.events]);
        queues.map(|queue| queue.borrow().len()).sum()
    }
}
