//! Tests without threads: contents, wrapping, bad indices, positions that several clients share.

use std::cell::RefCell;

use scif_ring::demo::{End, pair};
use scif_ring::{Consumer, Moved, Producer, RingError, RingMemory, Side, Word};

const ME: u32 = 2;

fn moved(bytes: usize) -> Moved {
    Moved {
        bytes,
        notify: false,
    }
}

fn receive(consumer: &Consumer, end: &mut End, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    let moved = consumer.receive(end, ME, &mut buffer).unwrap();
    buffer.truncate(moved.bytes);
    buffer
}

#[test]
fn bytes_come_out_as_they_went_in_round_and_round() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    let mut next_in = (0..=250_u8).cycle();
    let mut next_out = (0..=250_u8).cycle();
    for turn in 0..1000 {
        let bytes: Vec<u8> = next_in.by_ref().take(turn % 64).collect();
        assert_eq!(producer.send(&mut left, ME, &bytes), Ok(moved(bytes.len())));
        let first = receive(&consumer, &mut right, bytes.len() / 2);
        let second = receive(&consumer, &mut right, 64);
        assert_eq!(first.len() + second.len(), bytes.len());
        for byte in first.into_iter().chain(second) {
            assert_eq!(Some(byte), next_out.next());
        }
    }
}

/// The short ways of `put_with` and `take_with` move the same bytes or none, at every place of the
/// ring and however much of it is filled.
#[test]
fn short_ways_do_what_the_long_ones_do_or_nothing() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut short = [0_u32; 2];
    for turn in 0..20_000 {
        let bytes: Vec<u8> = (0..1 + next(30)).map(|byte| (turn + byte) as u8).collect();
        let position = left.position(Side::Send);
        let place = producer.place_short(&left, bytes.len());
        let count = match place.and_then(|place| Some((place, producer.offset(place)?))) {
            Some((place, offset)) => {
                short[0] += 1;
                assert!(offset + bytes.len() <= 64, "beyond the ring's end");
                left.write_peer(offset, &bytes).unwrap();
                producer.put_placed(&mut left, place).unwrap();
                bytes.len()
            }
            None => {
                assert_eq!(left.position(Side::Send), position);
                producer.put(&mut left, &bytes).unwrap()
            }
        };
        sent.extend_from_slice(&bytes[..count]);
        let mut buffer = vec![0; 1 + next(40)];
        let (least, most, limit) = (1 + next(buffer.len()), buffer.len(), 1 + next(40));
        let there = sent.len() - received.len();
        let wanted =
            |there: usize| Some(there.min(most)).filter(|count| (least..=limit).contains(count));
        let mut is_room_due = None;
        let found = consumer.find_short(&right, wanted).unwrap();
        let count = match found.and_then(|found| Some((found, consumer.offset(found)?))) {
            Some((found, offset)) => {
                short[1] += 1;
                let count = found.bytes;
                assert!(offset + count <= 64, "beyond the ring's end");
                assert!(count >= least && count <= limit && count == there.min(most));
                right.read(offset, &mut buffer[..count]);
                is_room_due = Some(consumer.take_found(&mut right, found));
                count
            }
            _ => consumer.take(&mut right, &mut buffer).unwrap(),
        };
        assert_eq!(count, there.min(most));
        received.extend_from_slice(&buffer[..count]);
        if count > 0 {
            let given = consumer.give_back(&mut right).unwrap();
            assert_eq!(given, is_room_due.unwrap_or(given));
        }
    }
    assert_eq!(received, sent[..received.len()]);
    assert!(short.into_iter().all(|count| count > 5000), "{short:?}");
}

#[test]
fn short_ways_find_bad_indices() {
    let (_, right) = pair(64);
    let consumer = Consumer::new(64);
    right.scribble(Word::LocalWrite, 64);
    let found = consumer.find_short(&right, |_| panic!("nothing is there"));
    assert_eq!(found, Err(RingError::BadIndex));
}

#[test]
fn one_byte_stays_free() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    assert_eq!(producer.peek(&left), Ok(Some(63)));
    assert_eq!(producer.send(&mut left, ME, &[7; 100]), Ok(moved(63)));
    assert_eq!(producer.send(&mut left, ME, &[7; 100]), Ok(moved(0)));
    assert_eq!(consumer.peek(&right), Ok(Some(63)));
    assert_eq!(receive(&consumer, &mut right, 100), [7; 63]);
    assert_eq!(producer.room(&left), Ok(63));
    assert_eq!(producer.send(&mut left, ME, &[]), Ok(moved(0)));
}

#[test]
fn whoever_comes_later_goes_on_at_the_position() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    for _ in 0..100 {
        producer.send(&mut left, ME, &[1; 40]).unwrap();
        assert_eq!(receive(&consumer, &mut right, 40).len(), 40);
    }
    // Neither of these has loaded an index yet.
    let (late_producer, late_consumer) = (Producer::new(64), Consumer::new(64));
    assert_eq!(late_consumer.peek(&right), Ok(Some(0)));
    assert_eq!(late_producer.send(&mut left, 3, b"new"), Ok(moved(3)));
    producer.send(&mut left, ME, b"old").unwrap();
    assert_eq!(receive(&late_consumer, &mut right, 4), b"newo");
    assert_eq!(receive(&consumer, &mut right, 4), b"ld");
    assert_eq!(left.position(Side::Send), 4006);
    // The index that one client saw last is far behind: it must load it again, not guess.
    for _ in 0..100 {
        producer.send(&mut left, ME, &[1; 40]).unwrap();
        assert_eq!(receive(&consumer, &mut right, 40).len(), 40);
    }
    assert_eq!(receive(&late_consumer, &mut right, 4), b"");
    assert_eq!(late_producer.send(&mut left, 3, &[1; 100]), Ok(moved(63)));
}

#[test]
fn a_lock_is_one_holders() {
    let (mut left, _right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    assert!(left.try_lock(Side::Send, 9));
    assert_eq!(producer.send(&mut left, ME, b"x"), Err(RingError::Locked));
    assert_eq!(consumer.receive(&mut left, ME, &mut [0]), Ok(moved(0)));
    // The holder of the lock works on, and others may peek.
    assert_eq!(producer.put(&mut left, b"x"), Ok(1));
    assert_eq!(producer.peek(&left), Ok(Some(62)));
    left.unlock(Side::Send);
    assert_eq!(producer.send(&mut left, ME, b"x"), Ok(moved(1)));
    // After a bad index the lock is free again.
    left.scribble(Word::LocalRead, 64);
    assert_eq!(
        producer.send(&mut left, ME, &[0; 64]),
        Err(RingError::BadIndex)
    );
    assert!(left.try_lock(Side::Send, ME));
}

#[test]
fn who_asked_is_told_once() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    assert_eq!(consumer.arm(&mut right), Ok(Some(0)));
    let told = Moved {
        bytes: 1,
        notify: true,
    };
    assert_eq!(producer.send(&mut left, ME, &[1]), Ok(told));
    assert_eq!(producer.send(&mut left, ME, &[1]), Ok(moved(1)));
    assert_eq!(producer.arm(&mut left), Ok(Some(61)));
    assert_eq!(consumer.receive(&mut right, ME, &mut [0]), Ok(told));
    assert_eq!(consumer.receive(&mut right, ME, &mut [0]), Ok(moved(1)));
    // Nothing was moved: the other side is not notified, and its request stays.
    consumer.arm(&mut right).unwrap();
    assert_eq!(producer.send(&mut left, ME, &[]), Ok(moved(0)));
    assert!(producer.must_notify(&mut left) && !producer.must_notify(&mut left));
}

#[test]
fn room_is_kept_back_while_there_is_plenty_and_nobody_waits() {
    const RING: u32 = 16384;
    let (mut left, mut right) = pair(RING as usize);
    let (producer, consumer) = (Producer::new(RING), Consumer::new(RING));
    let send = |left: &mut _, bytes: usize| {
        let bytes = vec![1; bytes];
        producer.send(left, ME, &bytes).unwrap().bytes
    };
    let take = |right: &mut _, bytes: usize| {
        let mut buffer = vec![0; bytes];
        consumer.receive(right, ME, &mut buffer).unwrap()
    };
    assert_eq!(send(&mut left, 4095), 4095);
    assert_eq!(take(&mut right, 1000), moved(1000));
    assert_eq!(producer.peek(&left), Ok(Some(12288)));
    // The writer sees more than a quarter filled: it gets all room back, and from now on at once.
    assert_eq!(send(&mut left, 1), 1);
    assert_eq!(take(&mut right, 1), moved(1));
    assert_eq!(producer.peek(&left), Ok(Some(13288)));
    assert_eq!(send(&mut left, 20000), 13288);
    for _ in 0..3 {
        assert_eq!(send(&mut left, 1), 0);
        assert_eq!(take(&mut right, 2), moved(2));
        assert_eq!(send(&mut left, 100), 2);
    }
    // A writer that asks for room gets all there is.
    assert_eq!(take(&mut right, 16380), moved(16380));
    assert_eq!(take(&mut right, 1), moved(1));
    assert_eq!(producer.arm(&mut left), Ok(Some(16380)));
    assert!(take(&mut right, 1).notify);
    assert_eq!(producer.peek(&left), Ok(Some(16382)));
    // A client that gives room back does not know what others have given: too early is harmless.
    let other = Consumer::new(RING);
    assert_eq!(other.receive(&mut right, ME, &mut [0]), Ok(moved(1)));
    assert_eq!(producer.peek(&left), Ok(Some(RING - 1)));
}

/// Programs rely on how much the base protocol's rings hold: two that both send 4095 bytes before
/// they receive anything must not wait for each other, whatever was sent before.
#[test]
fn what_a_base_ring_takes_is_never_kept_back() {
    for ring in [64_u32, 4096, 8192, 1 << 16] {
        let (mut left, mut right) = pair(ring as usize);
        let (producer, consumer) = (Producer::new(ring), Consumer::new(ring));
        for small in (1..40).cycle().take(3 * ring as usize) {
            let bytes = vec![1; small];
            assert_eq!(producer.send(&mut left, ME, &bytes).unwrap().bytes, small);
            assert_eq!(receive(&consumer, &mut right, small).len(), small);
            let room = producer.peek(&left).unwrap().unwrap();
            assert!(room >= 4095.min(ring - 1), "{room} of {ring}");
        }
    }
}

#[test]
fn impossible_indices_are_refused() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    producer.send(&mut left, ME, &[1; 10]).unwrap();
    assert_eq!(consumer.available(&right), Ok(10));
    // Outside of the ring, or bytes that were there are no longer.
    for index in [64, u32::MAX, 9, 0] {
        right.scribble(Word::LocalWrite, index);
        assert_eq!(consumer.available(&right), Err(RingError::BadIndex));
        assert_eq!(consumer.peek(&right), Err(RingError::BadIndex));
        let taken = consumer.take(&mut right, &mut [0; 64]);
        assert_eq!(taken, Err(RingError::BadIndex));
    }
    // More read than was written, or the reading undone.
    left.scribble(Word::LocalRead, 5);
    assert_eq!(producer.room(&left), Ok(58));
    for index in [64, u32::MAX, 11, 4] {
        left.scribble(Word::LocalRead, index);
        assert_eq!(producer.room(&left), Err(RingError::BadIndex));
        assert_eq!(producer.peek(&left), Err(RingError::BadIndex));
        assert_eq!(producer.put(&mut left, &[0; 64]), Err(RingError::BadIndex));
    }
}

#[test]
fn positions_that_cannot_be_do_not_leave_the_ring() {
    // A client that scribbles over its control page: errors or nonsense, never a byte elsewhere
    // (the memory of this test checks its bounds).
    let positions = [0, 1, 63, 64, 1 << 32, u64::MAX - 64, u64::MAX - 1, u64::MAX];
    for sent in positions {
        for received in positions {
            let (mut left, mut right) = pair(64);
            let (producer, consumer) = (Producer::new(64), Consumer::new(64));
            producer.send(&mut left, ME, &[1; 30]).unwrap();
            consumer.receive(&mut right, ME, &mut [0; 20]).unwrap();
            left.set_position(Side::Send, sent);
            right.set_position(Side::Receive, received);
            for _ in 0..4 {
                match producer.send(&mut left, ME, &[1; 100]) {
                    Ok(moved) => assert!(moved.bytes < 64),
                    Err(error) => assert_eq!(error, RingError::BadIndex),
                }
                match consumer.receive(&mut right, ME, &mut [0; 100]) {
                    Ok(moved) => assert!(moved.bytes < 64),
                    Err(error) => assert_eq!(error, RingError::BadIndex),
                }
            }
        }
    }
}

#[test]
fn a_sender_that_dies_before_the_index_has_sent() {
    let (mut left, mut right) = pair(64);
    let (producer, consumer) = (Producer::new(64), Consumer::new(64));
    // Stores what `put` stores, up to the position.
    left.write_peer(0, b"last").unwrap();
    left.set_position(Side::Send, 4);
    assert_eq!(consumer.available(&right), Ok(0));
    producer.publish(&mut left).unwrap();
    assert_eq!(receive(&consumer, &mut right, 9), b"last");
}

/// An end whose program dies after some stores, or for which something happens in the middle of a
/// `peek`.
struct Watched {
    end: End,
    /// How many more stores it makes before it dies; `None`: it does not die.
    life: Option<u32>,
    /// An action before the next load of an index.
    meanwhile: RefCell<Option<Box<dyn FnOnce()>>>,
}

#[derive(Debug, PartialEq)]
struct Dead;

impl Watched {
    fn new(end: &End) -> Watched {
        Watched {
            end: end.clone(),
            life: None,
            meanwhile: RefCell::new(None),
        }
    }

    /// One more store; false when it is dead.
    fn lives(&mut self) -> bool {
        let is_alive = self.life != Some(0);
        self.life = self.life.map(|life| life.saturating_sub(1));
        is_alive
    }
}

impl RingMemory for Watched {
    type Error = Dead;

    fn load(&self, word: Word) -> u32 {
        if let Some(action) = self.meanwhile.take() {
            action();
        }
        self.end.load(word)
    }

    fn clear(&mut self, word: Word) -> u32 {
        if self.lives() {
            self.end.clear(word)
        } else {
            0
        }
    }

    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Dead> {
        if !self.lives() {
            return Err(Dead);
        }
        self.end
            .store_peer(word, value)
            .map_err(|never| match never {})
    }

    fn flush_peer(&mut self, _word: Word) -> Result<(), Dead> {
        Ok(())
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) {
        self.end.read(offset, buffer);
    }

    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Dead> {
        if !self.lives() {
            return Err(Dead);
        }
        self.end
            .write_peer(offset, bytes)
            .map_err(|never| match never {})
    }

    fn fence(&self) {}

    fn position(&self, side: Side) -> u64 {
        self.end.position(side)
    }

    fn set_position(&mut self, side: Side, position: u64) {
        if self.lives() {
            self.end.set_position(side, position);
        }
    }

    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        !self.lives() || self.end.try_lock(side, holder)
    }

    fn unlock(&mut self, side: Side) {
        if self.lives() {
            self.end.unlock(side);
        }
    }
}

/// Between the death and the clean-up the other side goes on: bytes that it has taken then must
/// not be taken away again, nor be put a second time.
#[test]
fn a_sender_dies_between_any_two_stores_and_the_reader_reads_on() {
    for life in 0..8 {
        let (left, mut right) = pair(64);
        let (producer, consumer) = (Producer::new(64), Consumer::new(64));
        let mut dying = Watched::new(&left);
        dying.life = Some(life);
        let _ = producer.send(&mut dying, ME, b"dead");
        let mut taken = receive(&consumer, &mut right, 9);
        // Cleans up as the daemon does.
        let mut left = left;
        producer.publish(&mut left).unwrap();
        left.unlock(Side::Send);
        assert_eq!(producer.send(&mut left, 3, b"next"), Ok(moved(4)), "{life}");
        taken.extend(receive(&consumer, &mut right, 9));
        let expected: &[u8] = match left.position(Side::Send) {
            4 => b"next",
            _ => b"deadnext",
        };
        assert_eq!(taken, expected, "{life}");
    }
}

#[test]
fn a_look_beside_another_reader_sees_what_is_there() {
    let (left, right) = pair(4);
    let (producer, consumer) = (Producer::new(4), Consumer::new(4));
    producer.send(&mut left.clone(), ME, &[1, 2, 3]).unwrap();
    assert_eq!(consumer.peek(&right), Ok(Some(3)));
    let looking = Watched::new(&right);
    let (mut left, mut right) = (left, right);
    // At least two bytes are there at any time; the index comes round to where the position was.
    let meanwhile = move || {
        let (producer, other) = (Producer::new(4), Consumer::new(4));
        assert_eq!(receive(&other, &mut right, 1), [1]);
        assert_eq!(producer.send(&mut left, ME, &[4]), Ok(moved(1)));
    };
    looking.meanwhile.replace(Some(Box::new(meanwhile)));
    assert_eq!(consumer.peek(&looking), Ok(Some(3)));
}

#[test]
fn a_look_beside_another_writer_sees_the_room_there_is() {
    let (left, right) = pair(4);
    let (producer, consumer) = (Producer::new(4), Consumer::new(4));
    producer.send(&mut left.clone(), ME, &[1]).unwrap();
    assert_eq!(producer.peek(&left), Ok(Some(2)));
    let looking = Watched::new(&left);
    let (mut left, mut right) = (left, right);
    // Everything is taken, and more is put than the other client knew of.
    let meanwhile = move || {
        let other = Producer::new(4);
        assert_eq!(receive(&consumer, &mut right, 1), [1]);
        assert_eq!(other.send(&mut left, 3, &[2, 3]), Ok(moved(2)));
        assert_eq!(receive(&consumer, &mut right, 2), [2, 3]);
        assert_eq!(other.send(&mut left, 3, &[4]), Ok(moved(1)));
    };
    looking.meanwhile.replace(Some(Box::new(meanwhile)));
    assert_eq!(producer.peek(&looking), Ok(Some(2)));
}
