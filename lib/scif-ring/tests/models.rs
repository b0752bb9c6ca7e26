//! The protocols of this crate under every interleaving, and with every stale value that a load
//! may see, up to a few preemptions: loom runs each model as often as it takes.
//!
//! Rings are as small as possible, because the cost of a model grows exponentially with its size.
//! A sleeper that is never woken is a deadlock, which loom reports.

mod model;

use std::convert::Infallible;

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;

use model::{End, check, pair, receive_all, send_all};

use scif_ring::validity::{self, EpochOwner, ValidityMemory};
use scif_ring::{Consumer, Producer, RingError, RingMemory, Side, Word};

/// A producer that never waits for room, a consumer that sleeps for bytes.
fn bytes_wake() {
    let (left, right) = pair::<true>(4);
    let sender = thread::spawn(move || send_all(left, 4, 2, &[1]));
    assert_eq!(receive_all(right, 4, 1, 1), Ok(vec![1]));
    assert_eq!(sender.join().unwrap(), Ok(()));
}

/// A ring of one byte: the producer sleeps for room.
fn room_wakes() {
    let (left, right) = pair::<true>(2);
    let sender = thread::spawn(move || send_all(left, 2, 2, &[1, 2]));
    assert_eq!(receive_all(right, 2, 2, 1), Ok(vec![1, 2]));
    assert_eq!(sender.join().unwrap(), Ok(()));
}

/// The last step before a consumer sleeps, beside a producer. Neither really sleeps, so that a
/// mistake is a failed assertion.
fn bytes_or_notice<const FENCES: bool>() {
    let (mut left, mut right) = pair::<FENCES>(2);
    let sender = thread::spawn(move || Producer::new(2).send(&mut left, 2, &[1]).unwrap());
    let would_sleep = Consumer::new(2).arm(&mut right) == Ok(Some(0));
    let is_told = sender.join().unwrap().notify;
    assert!(is_told || !would_sleep, "sleeps beside bytes");
}

/// As `bytes_or_notice`, for a producer that waits for room.
fn room_or_notice<const FENCES: bool>() {
    let (mut left, mut right) = pair::<FENCES>(2);
    let producer = Producer::new(2);
    producer.send(&mut left, 2, &[1]).unwrap();
    let receiver = thread::spawn(move || {
        let consumer = Consumer::new(2);
        consumer.receive(&mut right, 2, &mut [0]).unwrap()
    });
    let would_sleep = producer.arm(&mut left) == Ok(Some(0));
    let is_told = receiver.join().unwrap().notify;
    assert!(is_told || !would_sleep, "sleeps beside room");
}

/// A consumer keeps room back, while the producer fills the ring and decides to sleep: the next
/// byte taken wakes it.
fn kept_room_or_notice() {
    const RING: u32 = 16;
    let (mut left, right) = pair::<true>(RING as usize);
    let producer = Producer::new(RING);
    producer.send(&mut left, 2, &[1; 3]).unwrap();
    let consumer = Arc::new(Consumer::new(RING));
    let take = |consumer: &Consumer, mut right: End<true>| {
        consumer.receive(&mut right, 2, &mut [0]).unwrap().notify
    };
    let (same, other) = (Arc::clone(&consumer), right.clone());
    let receiver = thread::spawn(move || take(&same, other));
    let sent = producer.send(&mut left, 2, &[1; 20]).unwrap().bytes;
    assert!(sent == 12 || sent == 13);
    let would_sleep = producer.arm(&mut left) == Ok(Some(0));
    let is_told = receiver.join().unwrap();
    if would_sleep && !is_told {
        assert!(take(&consumer, right), "sleeps beside room");
    }
}

#[test]
fn no_wake_up_for_bytes_is_lost() {
    check(4, bytes_wake);
    check(4, bytes_or_notice::<true>);
}

#[test]
fn no_wake_up_for_room_is_lost() {
    check(3, room_wakes);
    check(4, room_or_notice::<true>);
    check(4, kept_room_or_notice);
}

#[test]
#[should_panic(expected = "sleeps beside bytes")]
fn without_the_fence_a_wake_up_for_bytes_is_lost() {
    check(4, bytes_or_notice::<false>);
}

#[test]
#[should_panic(expected = "sleeps beside room")]
fn without_the_fence_a_wake_up_for_room_is_lost() {
    check(4, room_or_notice::<false>);
}

#[test]
fn two_producers_share_a_ring_and_its_position() {
    check(2, || {
        let (left, right) = pair::<true>(4);
        let second = left.clone();
        let first = thread::spawn(move || send_all(left, 4, 2, &[11, 12]));
        let second = thread::spawn(move || send_all(second, 4, 3, &[21]));
        let received = receive_all(right, 4, 3, 2).unwrap();
        assert_eq!(first.join().unwrap(), Ok(()));
        assert_eq!(second.join().unwrap(), Ok(()));
        // Nothing is lost or doubled, and what one of them sent stays in order.
        let orders = [[11, 12, 21], [11, 21, 12], [21, 11, 12]];
        assert!(orders.iter().any(|order| received == order), "{received:?}");
    });
}

#[test]
fn two_consumers_share_a_ring_and_its_position() {
    check(2, || {
        let (mut left, right) = pair::<true>(4);
        let producer = Producer::new(4);
        assert_eq!(producer.send(&mut left, 2, &[1, 2]).unwrap().bytes, 2);
        let take = |mut end: End<true>, holder| {
            let (consumer, mut buffer) = (Consumer::new(4), [0]);
            loop {
                match consumer.receive(&mut end, holder, &mut buffer) {
                    Ok(moved) => break assert_eq!(moved.bytes, 1),
                    Err(RingError::Locked) => thread::yield_now(),
                    Err(error) => panic!("{error:?}"),
                }
            }
            buffer[0]
        };
        let other = right.clone();
        let other = thread::spawn(move || take(other, 3));
        let mut both = [take(right, 2), other.join().unwrap()];
        both.sort();
        assert_eq!(both, [1, 2]);
    });
}

#[test]
fn a_look_without_the_lock_misses_nothing() {
    // Another producer and the consumer are at work. A client that only peeks must never believe
    // that the ring is broken, nor that there is more room than there can be.
    check(3, || {
        let (left, mut right) = pair::<true>(2);
        let other = left.clone();
        let sender = thread::spawn(move || {
            send_all(left.clone(), 2, 2, &[1]).map(|()| {
                // Take it out again as the peer would, so that the position and the index move on.
                let (consumer, mut buffer) = (Consumer::new(2), [0]);
                assert_eq!(
                    consumer.receive(&mut right, 2, &mut buffer).unwrap().bytes,
                    1
                );
                send_all(left, 2, 2, &[2])
            })
        });
        let producer = Producer::new(2);
        assert!(matches!(producer.peek(&other), Ok(None | Some(0 | 1))));
        assert_eq!(sender.join().unwrap(), Ok(Ok(())));
        assert_eq!(producer.peek(&other), Ok(Some(0)));
    });
}

/// An end whose program dies in a call: the positions of its control page are still stored, but
/// the words of the other side's page are not.
struct Dying(End<true>);

impl RingMemory for Dying {
    type Error = Infallible;

    fn load(&self, word: Word) -> u32 {
        self.0.load(word)
    }

    fn clear(&mut self, word: Word) -> u32 {
        self.0.clear(word)
    }

    fn store_peer(&mut self, _word: Word, _value: u32) -> Result<(), Infallible> {
        Ok(())
    }

    fn flush_peer(&mut self, word: Word) -> Result<(), Infallible> {
        self.0.flush_peer(word)
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        self.0.read(offset, buffer);
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.write_peer(offset, bytes)
    }

    fn fence(&self) {
        self.0.fence();
    }

    fn position(&self, side: Side) -> u64 {
        self.0.position(side)
    }

    fn set_position(&mut self, side: Side, position: u64) {
        self.0.set_position(side, position);
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        self.0.try_lock(side, holder)
    }

    fn unlock(&mut self, side: Side) {
        self.0.unlock(side);
    }
}

/// A sender dies between position and index, holding the lock. The daemon takes the lock away,
/// stores the index if it is `careful`, and wakes the other side if it sleeps. Meanwhile the other
/// side receives.
fn a_dead_senders_bytes(careful: bool) {
    let (left, mut right) = pair::<true>(4);
    let sender = thread::spawn(move || {
        let mut dying = Dying(left.clone());
        assert!(dying.try_lock(Side::Send, 2));
        assert_eq!(Producer::new(4).put(&mut dying, &[1]), Ok(1));
        // From here on the sender is seen as dead: its handle is closed.
        let (mut daemon, producer) = (left, Producer::new(4));
        daemon.unlock(Side::Send);
        if careful {
            producer.publish(&mut daemon).unwrap();
        }
        producer.must_notify(&mut daemon)
    });
    let would_sleep = Consumer::new(4).arm(&mut right) == Ok(Some(0));
    let is_told = sender.join().unwrap();
    assert!(is_told || !would_sleep, "sleeps beside bytes");
    let taken = receive_all(right, 4, usize::from(careful), 4).unwrap();
    assert_eq!(taken, vec![1; usize::from(careful)]);
    assert!(careful, "the bytes of the dead are not seen");
}

#[test]
fn what_a_dying_sender_put_arrives() {
    check(4, || a_dead_senders_bytes(true));
}

#[test]
#[should_panic(expected = "the bytes of the dead are not seen")]
fn without_the_index_a_dying_senders_bytes_stay() {
    check(4, || a_dead_senders_bytes(false));
}

/// The peer sends and closes. Its daemon and ours pass that on, and ours stores the state into the
/// control page. A client may report the end only if it checked for bytes after it loaded the
/// state.
fn the_last_bytes<const STATE_FIRST: bool>() {
    let (mut left, mut right) = pair::<true>(4);
    let state = Arc::new(AtomicU32::new(1));
    let page = Arc::clone(&state);
    let peer = thread::spawn(move || {
        assert_eq!(Producer::new(4).send(&mut left, 2, &[1]).unwrap().bytes, 1);
        page.store(2, Release);
    });
    let consumer = Consumer::new(4);
    let there = |end: &End<true>| consumer.peek(end).unwrap().unwrap_or(1) > 0;
    let (bytes, has_ended) = if STATE_FIRST {
        let has_ended = state.load(Acquire) == 2;
        (there(&right), has_ended)
    } else {
        (there(&right), state.load(Acquire) == 2)
    };
    assert!(bytes || !has_ended, "the end is told before the last bytes");
    peer.join().unwrap();
    // Whatever was seen meanwhile, what the peer has sent can be taken after it is gone.
    let mut buffer = [0; 4];
    assert_eq!(consumer.drain(&mut right, 2, &mut buffer), Ok(1));
}

#[test]
fn bytes_before_the_end_are_seen() {
    check(4, the_last_bytes::<true>);
}

#[test]
#[should_panic(expected = "the end is told before the last bytes")]
fn whoever_looks_at_the_state_last_misses_bytes() {
    check(4, the_last_bytes::<false>);
}

/// The words of the control page.
struct Page<const FENCES: bool> {
    epoch: AtomicU32,
    busy: AtomicU32,
    /// Whether the window is still there, as a copy needs it.
    window: AtomicU32,
}

/// A client's or the daemon's access to the page.
struct Handle<const FENCES: bool>(Arc<Page<FENCES>>);

impl<const FENCES: bool> ValidityMemory for Handle<FENCES> {
    fn epoch(&self) -> u32 {
        self.0.epoch.load(Acquire)
    }

    fn add_busy(&mut self) {
        self.0.busy.fetch_add(1, AcqRel);
        if FENCES {
            fence(SeqCst);
        }
    }

    fn remove_busy(&mut self) {
        self.0.busy.fetch_sub(1, Release);
    }
}

impl<const FENCES: bool> EpochOwner for Handle<FENCES> {
    fn epoch(&self) -> u32 {
        self.0.epoch.load(Acquire)
    }

    fn set_epoch(&mut self, epoch: u32) {
        self.0.epoch.store(epoch, Release);
        if FENCES {
            fence(SeqCst);
        }
    }

    fn busy(&self) -> u32 {
        self.0.busy.load(Acquire)
    }
}

/// Two clients copy while the daemon lets the window go.
fn window_goes<const FENCES: bool>() {
    let page = Arc::new(Page::<FENCES> {
        epoch: AtomicU32::new(7),
        busy: AtomicU32::new(0),
        window: AtomicU32::new(1),
    });
    let client = |page: &Arc<Page<FENCES>>| {
        let mut handle = Handle(Arc::clone(page));
        move || {
            if validity::enter(&mut handle, 7) {
                let window = handle.0.window.load(Relaxed);
                assert_eq!(window, 1, "copied from a window that has gone");
                validity::leave(&mut handle, 7);
            }
        }
    };
    let first = thread::spawn(client(&page));
    let second = thread::spawn(client(&page));
    let mut daemon = Handle(Arc::clone(&page));
    validity::advance(&mut daemon);
    if validity::is_idle(&daemon) {
        page.window.store(0, Relaxed);
    }
    first.join().unwrap();
    second.join().unwrap();
    assert!(validity::is_idle(&daemon));
}

#[test]
fn a_window_goes_when_nobody_copies() {
    check(3, window_goes::<true>);
}

#[test]
#[should_panic(expected = "copied from a window that has gone")]
fn without_the_fence_a_window_goes_under_a_copy() {
    check(3, window_goes::<false>);
}
