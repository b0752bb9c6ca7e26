//! The two rings of a connection. As long as both ends keep to the rules, bytes come out as they
//! went in and whoever sleeps is woken; when an end finds any numbers in the words that the other
//! side stores, or in its own control page, it says so or does harmless things, but stays inside
//! the rings (the memory itself notices what lies outside).
#![no_main]

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use scif_ring::demo::{End, pair};
use scif_ring::{Consumer, Producer, RingMemory, Side, Word};

const HOLDER: u32 = 2;
const WORDS: [Word; 4] = [
    Word::LocalWrite,
    Word::LocalRead,
    Word::BytesArmed,
    Word::RoomArmed,
];

/// One direction: its producer, its consumer, and the bytes between them.
struct Stream {
    producers: [Producer; 2],
    consumers: [Consumer; 2],
    between: VecDeque<u8>,
    next: u8,
    /// A reader found nothing and sleeps, a writer found no room and sleeps.
    reader_sleeps: bool,
    writer_sleeps: bool,
}

impl Stream {
    fn new(bytes: u32) -> Self {
        Self {
            // Two of each share positions and locks, as processes with the same endpoint do.
            producers: [Producer::new(bytes), Producer::new(bytes)],
            consumers: [Consumer::new(bytes), Consumer::new(bytes)],
            between: VecDeque::new(),
            next: 0,
            reader_sleeps: false,
            writer_sleeps: false,
        }
    }

    /// One step by the rules, from `from` to `to`.
    fn step(
        &mut self,
        from: &mut End,
        to: &mut End,
        ring: u32,
        input: &mut Unstructured<'_>,
    ) -> Result<()> {
        let producer = &self.producers[usize::from(bool::arbitrary(input)?)];
        let consumer = &self.consumers[usize::from(bool::arbitrary(input)?)];
        let count = usize::from(u16::arbitrary(input)?) % (2 * ring as usize);
        match u8::arbitrary(input)? % 7 {
            0 | 1 => {
                let first = self.next;
                let bytes: Vec<u8> = (0..count).map(|at| first.wrapping_add(at as u8)).collect();
                let moved = producer
                    .send(from, HOLDER, &bytes)
                    .expect("all by the rules");
                assert!(moved.bytes <= count && self.between.len() + moved.bytes < ring as usize);
                self.between.extend(&bytes[..moved.bytes]);
                self.next = first.wrapping_add(moved.bytes as u8);
                if moved.bytes > 0 {
                    assert_eq!(
                        moved.notify, self.reader_sleeps,
                        "a wake-up lost or too many"
                    );
                    self.reader_sleeps = false;
                }
            }
            2 | 3 => {
                let mut buffer = vec![0; count];
                let moved = consumer.receive(to, HOLDER, &mut buffer);
                let moved = moved.expect("all by the rules");
                // A notification is due only for a side that has polled.
                assert!(moved.bytes <= count.min(self.between.len()));
                assert!(moved.bytes > 0 || count == 0 || self.between.is_empty());
                let expected: Vec<u8> = self.between.drain(..moved.bytes).collect();
                assert_eq!(buffer[..moved.bytes], expected);
                assert!(!moved.notify || self.writer_sleeps, "woken for nothing");
                if moved.bytes > 0 && self.writer_sleeps {
                    assert!(moved.notify, "a sleeping writer was not told of room");
                    self.writer_sleeps = false;
                }
            }
            4 => {
                let there = consumer.arm(to).expect("all by the rules");
                assert_eq!(there, Some(self.between.len() as u32));
                self.reader_sleeps = true;
            }
            5 => {
                let room = producer.arm(from).expect("all by the rules");
                // Room may be kept back; a writer that waits for it gets it with the next bytes.
                assert!(
                    room.is_some_and(|room| room as usize + self.between.len() < ring as usize)
                );
                self.writer_sleeps = true;
            }
            _ => {
                assert_eq!(consumer.peek(to), Ok(Some(self.between.len() as u32)));
                assert_eq!(consumer.is_empty(to), self.between.is_empty());
                let room = producer.peek(from).expect("all by the rules");
                assert!(
                    room.is_some_and(|room| room as usize + self.between.len() < ring as usize)
                );
            }
        }
        Ok(())
    }
}

fn by_the_rules(ring: u32, input: &mut Unstructured<'_>) -> Result<()> {
    let (mut left, mut right) = pair(ring as usize);
    let (mut forth, mut back) = (Stream::new(ring), Stream::new(ring));
    while !input.is_empty() {
        if bool::arbitrary(input)? {
            forth.step(&mut left, &mut right, ring, input)?;
        } else {
            back.step(&mut right, &mut left, ring, input)?;
        }
    }
    // Whatever happened, all of it comes out.
    for (stream, from, mut to) in [
        (&mut forth, left.clone(), right.clone()),
        (&mut back, right, left),
    ] {
        let mut buffer = vec![0; ring as usize];
        let moved = stream.consumers[0].receive(&mut to, HOLDER, &mut buffer);
        let count = moved.expect("all by the rules").bytes;
        assert_eq!(buffer[..count], Vec::from(stream.between.clone()));
        stream.consumers[0]
            .publish(&mut to)
            .expect("the peer is reachable");
        assert_eq!(stream.producers[1].room(&from), Ok(ring - 1));
    }
    Ok(())
}

/// A number an index may be, or any.
fn index(input: &mut Unstructured<'_>, ring: u32) -> Result<u32> {
    Ok(match u8::arbitrary(input)? % 4 {
        0 => u32::arbitrary(input)?,
        1 => ring - 1 + u32::from(u8::arbitrary(input)? & 1),
        _ => u32::from(u16::arbitrary(input)?) % ring,
    })
}

fn against_the_rules(ring: u32, input: &mut Unstructured<'_>) -> Result<()> {
    let (mut end, _peer) = pair(ring as usize);
    let (producer, consumer) = (Producer::new(ring), Consumer::new(ring));
    while !input.is_empty() {
        let count = usize::from(u16::arbitrary(input)?) % (2 * ring as usize);
        let mut buffer = vec![0; count];
        match u8::arbitrary(input)? % 12 {
            0..3 => {
                let word = *input.choose(&WORDS)?;
                end.scribble(word, index(input, ring)?);
            }
            3 => {
                let side = *input.choose(&[Side::Send, Side::Receive])?;
                let position = if bool::arbitrary(input)? {
                    u64::arbitrary(input)?
                } else {
                    let near = end.position(side);
                    near.wrapping_add_signed(i8::arbitrary(input)?.into())
                };
                end.set_position(side, position);
            }
            4 => {
                let side = *input.choose(&[Side::Send, Side::Receive])?;
                if !end.try_lock(side, 1 + u32::from(u16::arbitrary(input)?)) {
                    end.unlock(side);
                }
            }
            5 | 6 => {
                if let Ok(moved) = producer.send(&mut end, HOLDER, &buffer) {
                    assert!(moved.bytes <= count.min(ring as usize - 1));
                }
            }
            7 | 8 => {
                if let Ok(moved) = consumer.receive(&mut end, HOLDER, &mut buffer) {
                    assert!(moved.bytes <= count.min(ring as usize - 1));
                }
            }
            9 => {
                let put = producer.put_whole(&mut end, &buffer);
                assert!(put != Ok(true) || count < ring as usize);
                if let Ok(count) = consumer.drain(&mut end, HOLDER, &mut buffer) {
                    assert!(count < ring as usize);
                }
            }
            10 => {
                for seen in [producer.peek(&end), producer.arm(&mut end)] {
                    assert!(!matches!(seen, Ok(Some(bytes)) if bytes >= ring));
                }
                for seen in [consumer.peek(&end), consumer.arm(&mut end)] {
                    assert!(!matches!(seen, Ok(Some(bytes)) if bytes >= ring));
                }
            }
            _ => {
                assert!(!matches!(producer.room(&end), Ok(bytes) if bytes >= ring));
                assert!(!matches!(consumer.available(&end), Ok(bytes) if bytes >= ring));
                let _ = (
                    producer.must_notify(&mut end),
                    consumer.must_notify(&mut end),
                );
                let _ = (producer.publish(&mut end), consumer.give_back(&mut end));
                let _ = consumer.is_empty(&end);
            }
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let mut input = Unstructured::new(rest);
    // From a few messages of the node's ring to a small ring of a connection.
    let ring = 64 << ((first >> 1) % 7);
    // Input that ends early is an input like any other.
    let _ = match first & 1 {
        0 => by_the_rules(ring, &mut input),
        _ => against_the_rules(ring, &mut input),
    };
});
