//! One end: a queue pair with memory, and the rules for its completions.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use runtime::{println, thread};
use scif::{Endpoint, Memory};
use syscall::error::EAGAIN;
use syscall::flag::F_SETFL;
use verbs::context::Counts;
use verbs::{
    Access, CompletionQueue, Context, Error, EventType, MemoryRegion, QpState, QpType, QueuePair,
    Segment, Settings, WcStatus, WorkCompletion,
};

use super::{Deadline, Step, Trouble, wrong};

/// Slots of the memory, each for the data of one message, and their bytes.
pub const SLOTS: u32 = 16;
pub const SLOT: usize = 2048;
/// Receives that are posted.
pub const RECEIVES: u64 = 32;
/// Where receives lie, behind the slots.
const RECEIVES_AT: usize = SLOTS as usize * SLOT;
/// Bytes of a message.
pub const MESSAGE: usize = 16;
/// Where a message is put together, a word to count with, and what is only read.
pub const OUT: usize = RECEIVES_AT + RECEIVES as usize * MESSAGE;
pub const WORD: usize = OUT + RECEIVES as usize * MESSAGE;
pub const CONSTANT: usize = WORD + 64;
const BYTES: usize = 64 * 1024;

/// Whether an error says that somebody or the driver has gone.
pub fn gone(error: &Error) -> Trouble {
    match error {
        Error::Scif(_) => Trouble::Gone,
        error => Trouble::Wrong(alloc::format!("{error}")),
    }
}

/// Events of the device and its port, which come when their daemon or the SCIF driver dies.
const DEVICE_EVENTS: [EventType; 3] = [
    EventType::DeviceFatal,
    EventType::PortErr,
    EventType::PortActive,
];

/// One end of a session.
pub struct End {
    pub pair: QueuePair,
    pub region: MemoryRegion,
    sends: CompletionQueue,
    receives: CompletionQueue,
    pub context: Context,
    /// Numbers of sends and receives that have not completed, oldest first.
    posted: VecDeque<u64>,
    waiting: VecDeque<u64>,
    next: u64,
    /// The newest send after which the queue pair still sent: it was posted before any failure.
    newest_live: u64,
    /// Messages that have arrived.
    pub arrived: u64,
    has_failed: bool,
    has_flushed: bool,
}

/// The byte of a pattern.
pub fn byte(number: u32, at: usize) -> u8 {
    (number as usize)
        .wrapping_mul(31)
        .wrapping_add(at.wrapping_mul(7)) as u8
}

impl End {
    /// Makes it and connects it with the one at the other end of a connection.
    pub fn new(endpoint: &Endpoint) -> Step<End> {
        let gone = |error: Error| gone(&error);
        let device = verbs::devices().map_err(gone)?.remove(0);
        let start = |worker: verbs::Worker| {
            let run = move || {
                if let Err(error) = worker.run() {
                    println!("verbs-storm: the progress thread ends: {error}");
                }
            };
            thread::spawn(run).map(drop).map_err(Error::from)
        };
        let context = device.open(start).map_err(gone)?;
        let flags = libredox::flag::O_NONBLOCK as usize;
        let set = libredox::call::fcntl(context.event_fd(), F_SETFL, flags);
        set.map_err(|error| Trouble::Wrong(alloc::format!("fcntl: {error}")))?;
        let domain = context.protection_domain().map_err(gone)?;
        let memory = Memory::new(BYTES).map_err(|_| Trouble::Gone)?;
        let access = Access::REMOTE | Access::LOCAL_WRITE;
        let region = domain.register(memory, access).map_err(gone)?;
        let sends = context.completion_queue(256).map_err(gone)?;
        let receives = context.completion_queue(256).map_err(gone)?;
        let builder = domain.queue_pair(QpType::Rc, &sends, &receives);
        let pair = builder.build().map_err(gone)?;
        let settings = Settings::default();
        pair.init(&settings).map_err(gone)?;
        let mut end = End {
            pair,
            region,
            sends,
            receives,
            context,
            posted: VecDeque::new(),
            waiting: VecDeque::new(),
            next: 0,
            newest_live: 0,
            arrived: 0,
            has_failed: false,
            has_flushed: false,
        };
        for number in 0..RECEIVES {
            end.post_receive(number)?;
        }
        for at in 0..SLOT {
            end.store(CONSTANT + at, &[byte(7, at)])?;
        }
        let met = end.pair.meet(endpoint, &settings);
        met.map_err(|error| end.why_not_met(&error))?;
        Ok(end)
    }

    /// A queue pair that has gone to the error state, as its peer died meanwhile, is not connected
    /// any more: `EINVAL`.
    fn why_not_met(&self, error: &Error) -> Trouble {
        match (error, self.state()) {
            (Error::Invalid, Some(QpState::Err)) => Trouble::Gone,
            (Error::Invalid, state) => {
                Trouble::Wrong(alloc::format!("connecting in {state:?}: {error}"))
            }
            _ => gone(error),
        }
    }

    /// The state of the queue pair; `None`: the device has gone.
    fn state(&self) -> Option<QpState> {
        self.pair.query().ok().map(|now| now.state)
    }

    pub fn store(&self, at: usize, bytes: &[u8]) -> Step {
        let stored = self.region.copy_in(at, bytes);
        stored.map_err(|error| Trouble::Wrong(alloc::format!("a store: {error}")))
    }

    pub fn load(&self, at: usize, count: usize) -> Step<Vec<u8>> {
        let mut bytes = alloc::vec![0; count];
        let loaded = self.region.copy_out(at, &mut bytes);
        loaded.map_err(|error| Trouble::Wrong(alloc::format!("a load: {error}")))?;
        Ok(bytes)
    }

    pub fn segment(&self, at: usize, count: usize) -> Step<Segment> {
        let segment = self.region.segment(at..at + count);
        segment.map_err(|error| Trouble::Wrong(alloc::format!("a segment: {error}")))
    }

    fn post_receive(&mut self, number: u64) -> Step {
        let at = RECEIVES_AT + (number % RECEIVES) as usize * MESSAGE;
        let segment = self.segment(at, MESSAGE)?;
        let posted = self.pair.receive(number, &[segment]);
        posted.map_err(|error| gone(&error))?;
        self.waiting.push_back(number);
        Ok(())
    }

    /// The number of the next send.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.posted.push_back(self.next);
        self.next
    }

    /// Sends a message of four words.
    pub fn send(&mut self, words: [u32; 4]) -> Step {
        let number = self.number();
        let at = OUT + (number % RECEIVES) as usize * MESSAGE;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.store(at, &bytes)?;
        let segment = self.segment(at, MESSAGE)?;
        let sent = self.pair.send(number, &[segment]);
        sent.map_err(|error| gone(&error))
    }

    /// Sends that have not completed.
    pub fn outstanding(&self) -> usize {
        self.posted.len()
    }

    fn poll(&self, queue: &CompletionQueue) -> Step<Vec<WorkCompletion>> {
        let mut found = Vec::new();
        queue.poll(16, &mut found).map_err(|error| gone(&error))?;
        Ok(found)
    }

    /// Takes completions of sends. `false`: one has failed. The first to fail was lost with the
    /// peer, unless all that were posted before had arrived: then it is one that was posted
    /// afterwards, which is flushed.
    pub fn finish_sends(&mut self) -> Step<bool> {
        if self.state() == Some(QpState::Rts) {
            self.newest_live = self.next;
        }
        for wc in self.poll(&self.sends)? {
            let expected = self.posted.pop_front();
            if expected != Some(wc.id) {
                return wrong(alloc::format!("send {} completes, not {expected:?}", wc.id));
            }
            match (wc.status, self.has_failed) {
                (WcStatus::Success, false) => {}
                (WcStatus::RetryExcErr, false) => self.has_failed = true,
                (WcStatus::WrFlushErr, true) => {}
                (WcStatus::WrFlushErr, false) if wc.id > self.newest_live => self.has_failed = true,
                (status, after) => {
                    return wrong(alloc::format!("a send ends {status:?}, after one: {after}"));
                }
            }
        }
        Ok(!self.has_failed)
    }

    /// Takes messages that have arrived. `None`: a receive was flushed.
    pub fn messages(&mut self) -> Step<Option<Vec<[u32; 4]>>> {
        let mut messages = Vec::new();
        for wc in self.poll(&self.receives)? {
            let expected = self.waiting.pop_front();
            if expected != Some(wc.id) {
                return wrong(alloc::format!(
                    "receive {} completes, not {expected:?}",
                    wc.id
                ));
            }
            match (wc.status, self.has_flushed) {
                (WcStatus::Success, false) => {}
                (WcStatus::WrFlushErr, _) => {
                    self.has_flushed = true;
                    continue;
                }
                (status, _) => return wrong(alloc::format!("a receive ends {status:?}")),
            }
            let at = RECEIVES_AT + (wc.id % RECEIVES) as usize * MESSAGE;
            let bytes = self.load(at, MESSAGE)?;
            let word = |index: usize| {
                let word = bytes.get(4 * index..4 * index + 4);
                word.and_then(|word| word.try_into().ok())
                    .map_or(0, u32::from_le_bytes)
            };
            messages.push([word(0), word(1), word(2), word(3)]);
            self.arrived += 1;
            self.post_receive(wc.id + RECEIVES)?;
        }
        match self.has_flushed && messages.is_empty() {
            true => Ok(None),
            false => Ok(Some(messages)),
        }
    }

    /// The peer has died: everything completes as documented. `had_traffic`: the queue pairs were
    /// connected.
    pub fn is_lost(&mut self, had_traffic: bool) -> Step {
        let deadline = Deadline::from_now();
        while !self.posted.is_empty() || !self.waiting.is_empty() {
            self.finish_sends()?;
            // Messages that had arrived are delivered before the flush.
            self.messages()?;
            if deadline.has_passed() {
                let (sends, receives) = (self.posted.len(), self.waiting.len());
                return wrong(alloc::format!("{sends} sends and {receives} receives hang"));
            }
        }
        let state = self.pair.query().map_err(|error| gone(&error))?.state;
        if state != QpState::Err {
            return wrong(alloc::format!("the state is {state:?}"));
        }
        let mut events = Vec::new();
        let deadline = Deadline::from_now();
        while had_traffic && events.is_empty() && !deadline.has_passed() {
            self.take_events(&mut events)?;
        }
        self.take_events(&mut events)?;
        match (&events[..], had_traffic) {
            ([], false) | ([EventType::QpFatal], _) => Ok(()),
            _ => wrong(alloc::format!("events: {events:?}")),
        }
    }

    /// Takes the events of queue pairs that are there.
    fn take_events(&self, into: &mut Vec<EventType>) -> Step {
        loop {
            match self.context.next_event() {
                // Of a daemon or a driver that is killed as well.
                Ok(event) if DEVICE_EVENTS.contains(&event.kind) => {}
                Ok(event) => into.push(event.kind),
                Err(Error::Scif(error)) if error.errno() == EAGAIN => return Ok(()),
                Err(error) => return wrong(alloc::format!("the events: {error}")),
            }
        }
    }

    /// Nothing is left when all has gone.
    pub fn close(self) -> Step {
        let End {
            pair,
            region,
            sends,
            receives,
            context,
            ..
        } = self;
        drop((pair, region));
        drop((sends, receives));
        let deadline = Deadline::from_now();
        while context.raw().counts() != Counts::default() {
            if deadline.has_passed() {
                return wrong(alloc::format!("left: {:?}", context.raw().counts()));
            }
        }
        Ok(())
    }
}
