//! Two ends of a ring for the models: memory that loom watches, and calls that sleep.

use std::convert::Infallible;

use loom::model::Builder;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, fence};
use loom::sync::{Arc, Notify};
use loom::thread;

use scif_ring::{Consumer, Producer, RingError, RingMemory, Side, Word};

/// The state of one side.
pub struct Own {
    pub words: [AtomicU32; 4],
    pub ring: Vec<AtomicU8>,
    pub locks: [AtomicU32; 2],
    pub positions: [AtomicU64; 2],
    /// The doorbell, on which this side sleeps.
    pub bell: Notify,
}

impl Own {
    fn new(ring_bytes: usize) -> Arc<Own> {
        Arc::new(Own {
            words: [(); 4].map(|()| AtomicU32::new(0)),
            ring: (0..ring_bytes).map(|_| AtomicU8::new(0)).collect(),
            locks: [(); 2].map(|()| AtomicU32::new(0)),
            positions: [(); 2].map(|()| AtomicU64::new(0)),
            bell: Notify::new(),
        })
    }
}

/// One end. `FENCES` is false in the models that must fail.
pub struct End<const FENCES: bool> {
    pub own: Arc<Own>,
    pub peer: Arc<Own>,
}

impl<const FENCES: bool> Clone for End<FENCES> {
    fn clone(&self) -> Self {
        End {
            own: Arc::clone(&self.own),
            peer: Arc::clone(&self.peer),
        }
    }
}

pub fn pair<const FENCES: bool>(ring_bytes: usize) -> (End<FENCES>, End<FENCES>) {
    let (left, right) = (Own::new(ring_bytes), Own::new(ring_bytes));
    let end = |own: &Arc<Own>, peer: &Arc<Own>| End {
        own: Arc::clone(own),
        peer: Arc::clone(peer),
    };
    (end(&left, &right), end(&right, &left))
}

impl<const FENCES: bool> RingMemory for End<FENCES> {
    type Error = Infallible;

    fn load(&self, word: Word) -> u32 {
        self.own.words[word as usize].load(Acquire)
    }

    fn clear(&mut self, word: Word) -> u32 {
        self.own.words[word as usize].swap(0, AcqRel)
    }

    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Infallible> {
        self.peer.words[word as usize].store(value, Release);
        Ok(())
    }

    fn flush_peer(&mut self, _word: Word) -> Result<(), Infallible> {
        Ok(())
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = self.own.ring[offset + at].load(Relaxed);
        }
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Infallible> {
        for (at, byte) in bytes.iter().enumerate() {
            self.peer.ring[offset + at].store(*byte, Relaxed);
        }
        Ok(())
    }

    fn fence(&self) {
        if FENCES {
            fence(SeqCst);
        }
    }

    fn position(&self, side: Side) -> u64 {
        self.own.positions[side as usize].load(Acquire)
    }

    fn set_position(&mut self, side: Side, position: u64) {
        self.own.positions[side as usize].store(position, Release);
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        let lock = &self.own.locks[side as usize];
        lock.compare_exchange(0, holder, Acquire, Relaxed).is_ok()
    }

    fn unlock(&mut self, side: Side) {
        self.own.locks[side as usize].store(0, Release);
    }
}

pub type Outcome = Result<(), RingError<Infallible>>;

/// Puts all bytes. Sleeps while there is no room.
pub fn send_all<const F: bool>(
    mut end: End<F>,
    ring: u32,
    holder: u32,
    mut bytes: &[u8],
) -> Outcome {
    let producer = Producer::new(ring);
    while !bytes.is_empty() {
        let moved = match producer.send(&mut end, holder, bytes) {
            Err(RingError::Locked) => {
                thread::yield_now();
                continue;
            }
            moved => moved?,
        };
        if moved.notify {
            end.peer.bell.notify();
        }
        bytes = &bytes[moved.bytes..];
        if moved.bytes == 0 && producer.arm(&mut end)? == Some(0) {
            end.own.bell.wait();
        }
    }
    Ok(())
}

/// Takes this number of bytes, `at_once` at a time. Sleeps while there are none.
pub fn receive_all<const F: bool>(
    mut end: End<F>,
    ring: u32,
    count: usize,
    at_once: usize,
) -> Result<Vec<u8>, RingError<Infallible>> {
    let consumer = Consumer::new(ring);
    let mut received = Vec::new();
    while received.len() < count {
        let mut buffer = vec![0; at_once.min(count - received.len())];
        let moved = consumer.receive(&mut end, 9, &mut buffer)?;
        if moved.notify {
            end.peer.bell.notify();
        }
        received.extend_from_slice(&buffer[..moved.bytes]);
        if moved.bytes == 0 && consumer.arm(&mut end)? == Some(0) {
            end.own.bell.wait();
        }
    }
    Ok(received)
}

/// Runs a model with a limit of preemptions; the limit of steps is a guard against endless runs.
pub fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
