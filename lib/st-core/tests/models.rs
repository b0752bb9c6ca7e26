//! The queues under every interleaving of two ends, and with every stale value that a load may see,
//! up to a few preemptions. A sleeper that is not woken is a deadlock, which loom reports.

use std::convert::Infallible;

use loom::model::Builder;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Arc, Notify};
use loom::thread;

use st_core::header::PAYLOAD_BYTES;
use st_core::queue::{Descriptor, Kind, LINE, Layout, Next, QueueMemory, Receiver, Sender};

/// One channel of two slots.
const SLOTS: u32 = 2;

/// One end's window: the channel's double word, its two other words, and of each slot its double
/// word (kind and sequence) and one byte of its body.
struct Window {
    taken: AtomicU64,
    wishes: [AtomicU32; 2],
    slots: [(AtomicU64, AtomicU32); SLOTS as usize],
    /// Records that have come, whether or not they were taken.
    records: AtomicU32,
    bell: Notify,
}

impl Window {
    fn new() -> Arc<Window> {
        Arc::new(Window {
            taken: AtomicU64::new(0),
            wishes: [(); 2].map(|()| AtomicU32::new(0)),
            slots: [(); SLOTS as usize].map(|()| (AtomicU64::new(0), AtomicU32::new(0))),
            records: AtomicU32::new(0),
            bell: Notify::new(),
        })
    }

    /// A record comes.
    fn tell(&self) {
        self.records.fetch_add(1, AcqRel);
        self.bell.notify();
    }

    /// The driver's part of a sleep past a mark.
    fn sleep_past(&self, mark: u32) {
        while self.records.load(Acquire) == mark {
            self.bell.wait();
        }
    }

    /// The word at an offset of the real layout.
    fn word(&self, offset: usize) -> &AtomicU32 {
        let (line, at) = (offset / LINE, offset % LINE);
        match (line, at) {
            (0, 8) => &self.wishes[0],
            (0, 12) => &self.wishes[1],
            _ => panic!("there is no word at {offset}"),
        }
    }

    /// The double word at an offset of the real layout.
    fn long(&self, offset: usize) -> &AtomicU64 {
        match (offset / LINE, offset % LINE) {
            (0, 0) => &self.taken,
            (line @ 1.., 56) => &self.slots[line - 1].0,
            _ => panic!("there is no double word at {offset}"),
        }
    }
}

/// One end. `FENCES` is false in the model that must fail.
struct End<const FENCES: bool> {
    own: Arc<Window>,
    peer: Arc<Window>,
}

impl<const FENCES: bool> QueueMemory for End<FENCES> {
    type Error = Infallible;

    fn load(&self, offset: usize) -> u32 {
        self.own.word(offset).load(Acquire)
    }

    fn load_long(&self, offset: usize) -> u64 {
        self.own.long(offset).load(Acquire)
    }

    fn clear(&mut self, offset: usize) -> u32 {
        self.own.word(offset).swap(0, AcqRel)
    }

    fn read(&self, offset: usize, body: &mut [u8]) {
        let value = self.own.slots[offset / LINE - 1].1.load(Relaxed);
        body[0] = value as u8;
    }

    fn store_peer(&mut self, offset: usize, value: u32) -> Result<(), Infallible> {
        self.peer.word(offset).store(value, Release);
        Ok(())
    }

    fn store_peer_long(&mut self, offset: usize, value: u64) -> Result<(), Infallible> {
        self.peer.long(offset).store(value, Release);
        Ok(())
    }

    fn write_peer(&mut self, offset: usize, body: &[u8]) -> Result<(), Infallible> {
        let slot = &self.peer.slots[offset / LINE - 1];
        slot.1.store(body[0].into(), Relaxed);
        Ok(())
    }

    fn flush_peer(&mut self, _offset: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn fence(&self) {
        if FENCES {
            fence(SeqCst);
        }
    }
}

fn pair<const FENCES: bool>() -> (End<FENCES>, End<FENCES>, Layout) {
    let (left, right) = (Window::new(), Window::new());
    let end = |own: &Arc<Window>, peer: &Arc<Window>| End {
        own: Arc::clone(own),
        peer: Arc::clone(peer),
    };
    let layout = Layout::new(1, SLOTS).unwrap();
    (end(&left, &right), end(&right, &left), layout)
}

/// Sends, and sleeps while there is no room.
fn send_all<const FENCES: bool>(mem: &mut End<FENCES>, layout: Layout, values: &[u8]) {
    let mut sender = Sender::new(layout, 0);
    for value in values {
        let mut message = [0; PAYLOAD_BYTES];
        message[0] = *value;
        loop {
            if let Some(sent) = sender.send_message(mem, &message).unwrap() {
                if sent.wake {
                    mem.peer.bell.notify();
                }
                break;
            }
            if sender.arm(mem).unwrap() == 0 {
                mem.own.bell.wait();
            }
        }
    }
}

/// The same by calls that send as many as there is room for.
fn send_in_one<const FENCES: bool>(mem: &mut End<FENCES>, layout: Layout, values: &[u8]) {
    let mut sender = Sender::new(layout, 0);
    let mut messages = values.iter().map(|value| {
        let mut message = [0; PAYLOAD_BYTES];
        message[0] = *value;
        message
    });
    while messages.len() > 0 {
        let (count, sent) = sender.send_messages(mem, &mut messages).unwrap();
        if sent.wake {
            mem.peer.bell.notify();
        }
        if count == 0 && sender.arm(mem).unwrap() == 0 {
            mem.own.bell.wait();
        }
    }
}

/// Receives by calls that take what is there, and sleeps while that is nothing.
fn receive_in_one<const FENCES: bool>(mem: &mut End<FENCES>, layout: Layout, values: &[u8]) {
    let mut receiver = Receiver::new(layout, 0);
    let mut taken = Vec::new();
    while taken.len() < values.len() {
        let mut message = [[0]; 2];
        let places = message.iter_mut().map(|message| &mut message[..]);
        let (count, wake) = receiver.receive_messages(mem, places).unwrap();
        taken.extend(message.as_flattened()[..count as usize].iter().copied());
        if wake {
            mem.peer.bell.notify();
        }
        if count > 0 {
            continue;
        }
        let armed = receiver.arm(mem).unwrap();
        if armed.wake {
            mem.peer.bell.notify();
        }
        if !armed.is_ready {
            mem.own.bell.wait();
        }
    }
    assert_eq!(taken, values);
}

/// Receives, and sleeps past a mark that it makes before it arms.
fn receive_past_marks(mem: &mut End<true>, layout: Layout, values: &[u8]) {
    let mut receiver = Receiver::new(layout, 0);
    for value in values {
        loop {
            let mut message = [0];
            if let Next::Message { .. } = receiver.receive_message(mem, &mut message).unwrap() {
                assert_eq!(message, [*value]);
                break;
            }
            let mark = mem.own.records.load(Acquire);
            if !receiver.arm(mem).unwrap().is_ready {
                mem.own.sleep_past(mark);
            }
        }
    }
}

/// Receives, and sleeps while there is nothing.
fn receive_all<const FENCES: bool>(mem: &mut End<FENCES>, layout: Layout, values: &[u8]) {
    let mut receiver = Receiver::new(layout, 0);
    for value in values {
        loop {
            let mut message = [0];
            if let Next::Message { wake } = receiver.receive_message(mem, &mut message).unwrap() {
                assert_eq!(message, [*value]);
                if wake {
                    mem.peer.bell.notify();
                }
                break;
            }
            let armed = receiver.arm(mem).unwrap();
            if armed.wake {
                mem.peer.bell.notify();
            }
            if !armed.is_ready {
                mem.own.bell.wait();
            }
        }
    }
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn stream<const FENCES: bool>(values: &'static [u8]) {
    let (mut left, mut right, layout) = pair::<FENCES>();
    let sender = thread::spawn(move || send_all(&mut left, layout, values));
    receive_all(&mut right, layout, values);
    sender.join().unwrap();
}

/// The last step before a receiver sleeps, beside a sender; neither sleeps really, so that a
/// mistake is a failed assertion.
fn header_or_wish<const FENCES: bool>() {
    let (mut left, mut right, layout) = pair::<FENCES>();
    let sender = thread::spawn(move || {
        let descriptor = Descriptor::new(Kind::Message, &[1]);
        Sender::new(layout, 0).send(&mut left, &descriptor).unwrap()
    });
    let would_sleep = !Receiver::new(layout, 0).arm(&mut right).unwrap().is_ready;
    let is_woken = sender.join().unwrap().is_some_and(|sent| sent.wake);
    assert!(is_woken || !would_sleep, "sleeps beside a header");
}

/// The same for a sender and room.
fn room_or_wish<const FENCES: bool>() {
    let (mut left, mut right, layout) = pair::<FENCES>();
    let mut sender = Sender::new(layout, 0);
    for value in 0..SLOTS {
        let descriptor = Descriptor::new(Kind::Message, &[value as u8]);
        sender.send(&mut left, &descriptor).unwrap().unwrap();
    }
    let receiver = thread::spawn(move || {
        let mut receiver = Receiver::new(layout, 0);
        receiver.receive(&mut right).unwrap().unwrap().wake
    });
    let would_sleep = sender.arm(&mut left) == Ok(0);
    let is_woken = receiver.join().unwrap();
    assert!(is_woken || !would_sleep, "sleeps beside room");
}

/// The last step before a receiver sleeps past a mark, which it makes before it arms if `is_first`.
fn record_or_mark(is_first: bool) {
    let (mut left, mut right, layout) = pair::<true>();
    let sender = thread::spawn(move || {
        let descriptor = Descriptor::new(Kind::Message, &[1]);
        let sent = Sender::new(layout, 0).send(&mut left, &descriptor);
        if sent.unwrap().unwrap().wake {
            left.peer.tell();
        }
    });
    let before = right.own.records.load(Acquire);
    let would_sleep = !Receiver::new(layout, 0).arm(&mut right).unwrap().is_ready;
    let mark = match is_first {
        true => before,
        false => right.own.records.load(Acquire),
    };
    sender.join().unwrap();
    let is_woken = right.own.records.load(Acquire) != mark;
    assert!(is_woken || !would_sleep, "sleeps beside a record");
}

/// The last step before a receiver sleeps that takes records itself, before it arms if `is_first`:
/// only those that come later wake it. The peer may see the wish beside the header before.
fn record_or_wish(is_first: bool) {
    let (mut left, mut right, layout) = pair::<true>();
    let sender = thread::spawn(move || {
        let mut sender = Sender::new(layout, 0);
        for value in [1, 2] {
            let descriptor = Descriptor::new(Kind::Message, &[value]);
            if sender.send(&mut left, &descriptor).unwrap().unwrap().wake {
                left.peer.tell();
            }
        }
    });
    let mut receiver = Receiver::new(layout, 0);
    receiver.arm(&mut right).unwrap();
    if receiver.receive(&mut right).unwrap().is_some() {
        let before = right.own.records.load(Acquire);
        receiver.arm(&mut right).unwrap();
        let taken = match is_first {
            true => before,
            false => right.own.records.load(Acquire),
        };
        let would_sleep = !receiver.is_ready(&right);
        sender.join().unwrap();
        let is_woken = right.own.records.load(Acquire) != taken;
        assert!(is_woken || !would_sleep, "sleeps beside a header");
    }
}

#[test]
fn a_sleeper_that_took_the_records_before_its_wish_is_woken() {
    check(4, || record_or_wish(true));
}

#[test]
#[should_panic(expected = "sleeps beside a header")]
fn records_that_are_taken_behind_the_wish_are_missed() {
    check(4, || record_or_wish(false));
}

#[test]
fn a_sleeper_past_a_mark_is_woken() {
    check(4, || record_or_mark(true));
    check(2, || {
        let (mut left, mut right, layout) = pair::<true>();
        let sender = thread::spawn(move || {
            let mut sender = Sender::new(layout, 0);
            // As many as there is room for.
            for value in [7, 8] {
                let mut message = [0; PAYLOAD_BYTES];
                message[0] = value;
                let sent = sender.send_message(&mut left, &message).unwrap();
                if sent.unwrap().wake {
                    left.peer.tell();
                }
            }
        });
        receive_past_marks(&mut right, layout, &[7, 8]);
        sender.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "sleeps beside a record")]
fn a_mark_behind_the_wish_is_too_late() {
    check(4, || record_or_mark(false));
}

#[test]
fn headers_arrive_once_in_order_and_sleepers_are_woken() {
    check(2, || stream::<true>(&[7, 8, 9]));
}

#[test]
fn headers_of_one_call_arrive_once_in_order_and_sleepers_are_woken() {
    check(2, || {
        let (mut left, mut right, layout) = pair::<true>();
        let sender = thread::spawn(move || send_in_one(&mut left, layout, &[7, 8, 9]));
        receive_in_one(&mut right, layout, &[7, 8, 9]);
        sender.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost() {
    check(4, header_or_wish::<true>);
    check(4, room_or_wish::<true>);
}

#[test]
#[should_panic(expected = "sleeps beside a header")]
fn without_the_fence_a_wake_up_for_a_header_is_lost() {
    check(4, header_or_wish::<false>);
}

#[test]
#[should_panic(expected = "sleeps beside room")]
fn without_the_fence_a_wake_up_for_room_is_lost() {
    check(4, room_or_wish::<false>);
}
