//! Bookkeeping of physical frames: a buddy allocator whose frames have reference counts.
//!
//! Blocks are powers of two up to 4 MiB. Once a block is allocated, every frame of it is
//! independent: it has its own count and is freed alone; freeing merges neighbours again.
//!
//! Single frames are taken from the lowest free address, runs from the highest. Otherwise frames
//! that are kept for long would end up in all large blocks, and one in each is enough to leave no
//! long run although nearly all memory is free.

use core::ops::Range;

use crate::bitset::{self, BitSet};

/// Largest block: 2^10 frames = 4 MiB.
pub const MAX_ORDER: u8 = 10;

const ORDERS: usize = MAX_ORDER as usize + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not RAM of the allocator.
    Hole,
    /// First frame of a free block of `order`.
    Free,
    /// Inside a free block.
    Tail,
    /// Allocated, `refs` ≥ 1.
    Used,
}

/// The record of one frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    refs: u32,
    state: State,
    order: u8,
    shared: bool,
}

impl Frame {
    /// A frame that is not RAM: the initial content of the table.
    pub const HOLE: Frame = Frame {
        refs: 0,
        state: State::Hole,
        order: 0,
        shared: false,
    };
}

/// The allocator: one entry per frame number from 0 up.
#[derive(Debug)]
pub struct Buddy<'a> {
    frames: &'a mut [Frame],
    /// The free blocks of each order: numbers of their first frames by the size of the block.
    blocks: [BitSet<'a>; ORDERS],
    total: usize,
    free: usize,
}

/// Most blocks of an order in a table of this many frames.
fn bound(frames: usize, order: usize) -> usize {
    (frames >> order) + 1
}

/// Words of bookkeeping beside a table of this many frames.
pub fn words_for(frames: usize) -> usize {
    (0..ORDERS)
        .map(|order| bitset::words_for(bound(frames, order)))
        .sum()
}

impl<'a> Buddy<'a> {
    /// An allocator without RAM. `frames` must be all `Frame::HOLE`, `words` as many as
    /// [`words_for`] says.
    pub fn new(frames: &'a mut [Frame], words: &'a mut [u64]) -> Self {
        let mut rest = words;
        let blocks = core::array::from_fn(|order| {
            let bound = bound(frames.len(), order);
            let (own, others) = core::mem::take(&mut rest).split_at_mut(bitset::words_for(bound));
            rest = others;
            BitSet::new(own, bound)
        });
        Buddy {
            frames,
            blocks,
            total: 0,
            free: 0,
        }
    }

    /// Adds frames `[first, end)` as free RAM. Skips frames beyond the table or already known.
    pub fn add_free(&mut self, first: u32, end: u32) {
        for number in first..end.min(self.frames.len() as u32) {
            if self.frames[number as usize].state == State::Hole {
                self.total += 1;
                self.release(number);
            }
        }
    }

    /// Adds frames `[first, end)` as RAM that is in use with one reference each.
    pub fn add_used(&mut self, first: u32, end: u32) {
        for number in first..end.min(self.frames.len() as u32) {
            if self.frames[number as usize].state == State::Hole {
                self.total += 1;
                self.frames[number as usize] = Frame {
                    refs: 1,
                    state: State::Used,
                    ..Frame::HOLE
                };
            }
        }
    }

    /// Frames managed.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Frames free.
    pub fn free(&self) -> usize {
        self.free
    }

    /// Frames of the largest free block: the longest run that `alloc` can give.
    pub fn largest(&self) -> usize {
        let is_there = |&order: &usize| self.blocks[order].first().is_some();
        (0..ORDERS).rev().find(is_there).map_or(0, |o| 1 << o)
    }

    /// Whether the frame is RAM of the allocator.
    pub fn is_ram(&self, number: u64) -> bool {
        usize::try_from(number)
            .ok()
            .and_then(|n| self.frames.get(n))
            .is_some_and(|f| f.state != State::Hole)
    }

    /// Whether any of the frames is RAM of the allocator.
    pub fn any_ram(&self, numbers: Range<u64>) -> bool {
        // Numbers beyond the table are holes: a range of them can be as long as a program likes.
        let end = numbers.end.min(self.frames.len() as u64);
        (numbers.start..end).any(|number| self.is_ram(number))
    }

    /// Allocates `count` contiguous frames with one reference each (`count` from 1 to
    /// 2^MAX_ORDER). The run is aligned to the next power of two of its length.
    pub fn alloc(&mut self, count: usize) -> Option<u32> {
        if count == 0 || count > 1 << MAX_ORDER {
            return None;
        }
        let order = count.next_power_of_two().trailing_zeros() as u8;
        let (block, from) = match count {
            1 => self.lowest()?,
            _ => self.highest(order)?,
        };
        self.unlink(block, from);
        let mut first = block;
        for o in (order..from).rev() {
            // One half is split further, the other stays free.
            let upper = first + (1 << o);
            match count {
                1 => self.push(upper, o),
                _ => {
                    self.push(first, o);
                    first = upper;
                }
            }
        }
        self.free -= 1 << order;
        for number in first..first + (1 << order) {
            self.frames[number as usize] = Frame {
                refs: 1,
                state: State::Used,
                ..Frame::HOLE
            };
        }
        for number in first + count as u32..first + (1 << order) {
            self.release(number);
        }
        Some(first)
    }

    /// The number of references to a used frame (0 for any other frame).
    pub fn refs(&self, number: u32) -> u32 {
        match self.frames.get(number as usize) {
            Some(frame) if frame.state == State::Used => frame.refs,
            _ => 0,
        }
    }

    /// Adds a reference. Panics when the frame is not in use: that is a bug of the kernel.
    pub fn retain(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        assert!(
            frame.state == State::Used,
            "reference to frame {number:#x}, which is not in use"
        );
        frame.refs += 1;
    }

    /// Removes a reference and frees the frame with the last one; true when it was the last.
    /// Panics when the frame is not in use.
    pub fn drop_ref(&mut self, number: u32) -> bool {
        let frame = &mut self.frames[number as usize];
        assert!(
            frame.state == State::Used,
            "frame {number:#x} given back, but not in use"
        );
        frame.refs -= 1;
        if frame.refs > 0 {
            return false;
        }
        self.release(number);
        true
    }

    /// Whether several mappings are meant to see stores to the frame (so a store must not copy
    /// it).
    pub fn is_shared(&self, number: u32) -> bool {
        self.frames[number as usize].shared
    }

    /// Sets `is_shared`.
    pub fn set_shared(&mut self, number: u32, shared: bool) {
        self.frames[number as usize].shared = shared;
    }

    /// Puts one frame back, merging it with its buddies.
    fn release(&mut self, mut number: u32) {
        self.free += 1;
        let mut order = 0;
        self.frames[number as usize] = Frame {
            state: State::Tail,
            ..Frame::HOLE
        };
        while order < MAX_ORDER {
            let buddy = number ^ (1 << order);
            match self.frames.get(buddy as usize) {
                Some(b) if b.state == State::Free && b.order == order => {}
                _ => break,
            }
            self.unlink(buddy, order);
            self.frames[buddy as usize].state = State::Tail;
            number = number.min(buddy);
            order += 1;
        }
        self.push(number, order);
    }

    /// The free block at the lowest address, and its order.
    fn lowest(&self) -> Option<(u32, u8)> {
        let of = |order: u8| {
            let first = self.blocks[order as usize].first()?;
            Some(((first as u32) << order, order))
        };
        (0..=MAX_ORDER).filter_map(of).min()
    }

    /// The free block at the highest address with this order or a larger one, and its order.
    fn highest(&self, order: u8) -> Option<(u32, u8)> {
        let of = |order: u8| {
            let last = self.blocks[order as usize].last()?;
            Some(((last as u32) << order, order))
        };
        (order..=MAX_ORDER).filter_map(of).max()
    }

    fn push(&mut self, number: u32, order: u8) {
        self.blocks[order as usize].insert((number >> order) as usize);
        self.frames[number as usize] = Frame {
            order,
            state: State::Free,
            ..Frame::HOLE
        };
    }

    fn unlink(&mut self, number: u32, order: u8) {
        self.blocks[order as usize].remove((number >> order) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_as_large_blocks() {
        let mut table = vec![Frame::HOLE; 4096];
        let mut words = vec![0; words_for(table.len())];
        let mut buddy = Buddy::new(&mut table, &mut words);
        buddy.add_free(0, 4096);
        assert_eq!((buddy.total(), buddy.free()), (4096, 4096));
        let mut taken = Vec::new();
        while let Some(n) = buddy.alloc(1) {
            taken.push(n);
        }
        assert_eq!((taken.len(), buddy.free()), (4096, 0));
        // Free in an order that mixes neighbours.
        taken.sort_by_key(|n| n.wrapping_mul(2654435761));
        for n in taken {
            assert!(buddy.drop_ref(n));
        }
        for _ in 0..4 {
            let n = buddy.alloc(1024).expect("all blocks merged");
            assert_eq!(n % 1024, 0);
        }
        assert_eq!(buddy.free(), 0);
    }

    #[test]
    fn odd_runs_keep_only_what_was_asked() {
        let mut table = vec![Frame::HOLE; 2100];
        let mut words = vec![0; words_for(table.len())];
        let mut buddy = Buddy::new(&mut table, &mut words);
        buddy.add_free(3, 2048);
        let free = buddy.free();
        let n = buddy.alloc(700).unwrap();
        assert_eq!(buddy.free(), free - 700);
        for i in n..n + 700 {
            assert_eq!(buddy.refs(i), 1);
            buddy.drop_ref(i);
        }
        assert_eq!(buddy.free(), free);
        assert_eq!(buddy.alloc(0), None);
        assert_eq!(buddy.alloc(1025), None);
    }

    #[test]
    fn counts() {
        let mut table = vec![Frame::HOLE; 64];
        let mut words = vec![0; words_for(table.len())];
        let mut buddy = Buddy::new(&mut table, &mut words);
        buddy.add_free(0, 16);
        buddy.add_used(16, 32);
        assert!(buddy.is_ram(31) && !buddy.is_ram(32) && !buddy.is_ram(1 << 40));
        assert!(buddy.any_ram(31..33) && buddy.any_ram(0..u64::MAX));
        assert!(!buddy.any_ram(32..u64::MAX) && !buddy.any_ram(1 << 40..1 << 41));
        let n = buddy.alloc(1).unwrap();
        buddy.retain(n);
        buddy.set_shared(n, true);
        assert!(!buddy.drop_ref(n));
        assert!(buddy.is_shared(n));
        assert!(buddy.drop_ref(n));
        assert_eq!(buddy.refs(n), 0);
        // The flag does not outlive the frame's use.
        let again = buddy.alloc(1).unwrap();
        assert!(!buddy.is_shared(again));
        // Used frames can be given to the allocator.
        let before = buddy.free();
        assert!(buddy.drop_ref(20));
        assert_eq!(buddy.free(), before + 1);
    }

    #[test]
    #[should_panic(expected = "not in use")]
    fn double_free_is_caught() {
        let mut table = vec![Frame::HOLE; 16];
        let mut words = vec![0; words_for(table.len())];
        let mut buddy = Buddy::new(&mut table, &mut words);
        buddy.add_free(0, 16);
        let n = buddy.alloc(1).unwrap();
        buddy.drop_ref(n);
        buddy.drop_ref(n);
    }

    #[test]
    fn random_use_keeps_blocks_disjoint() {
        let mut table = vec![Frame::HOLE; 1500];
        let mut words = vec![0; words_for(table.len())];
        let mut buddy = Buddy::new(&mut table, &mut words);
        buddy.add_free(7, 1490);
        let total = buddy.free();
        let mut seed = 12345u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut held: Vec<(u32, usize)> = Vec::new();
        let mut owner = vec![false; 1500];
        for _ in 0..20_000 {
            if next() % 2 == 0 {
                let count = (next() % 40 + 1) as usize;
                if let Some(n) = buddy.alloc(count) {
                    for taken in &mut owner[n as usize..n as usize + count] {
                        assert!(!*taken);
                        *taken = true;
                    }
                    held.push((n, count));
                }
            } else if !held.is_empty() {
                let (n, count) = held.swap_remove(next() as usize % held.len());
                for i in n..n + count as u32 {
                    owner[i as usize] = false;
                    buddy.drop_ref(i);
                }
            }
            let used: usize = held.iter().map(|h| h.1).sum();
            assert_eq!(buddy.free() + used, total);
        }
    }

    /// Programs come and go, each with pages and a ring, and leave a page behind now and then;
    /// most of the memory is free all the time.
    #[test]
    fn long_runs_stay_to_be_had() {
        const FRAMES: u32 = 16384;
        let mut table = vec![Frame::HOLE; FRAMES as usize];
        let mut words = vec![0; words_for(table.len())];
        let mut buddy = Buddy::new(&mut table, &mut words);
        buddy.add_free(0, FRAMES);
        let mut seed = 1u64;
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut programs: Vec<Vec<u32>> = Vec::new();
        let mut left = 0;
        for round in 0..4000 {
            let mut frames: Vec<u32> = (0..next(300))
                .map(|_| buddy.alloc(1).expect("pages are free"))
                .collect();
            let ring = buddy.alloc(65).unwrap_or_else(|| {
                panic!("round {round}: {} free, {left} left behind", buddy.free())
            });
            frames.extend(ring..ring + 65);
            programs.push(frames);
            if programs.len() > 20 {
                let mut ended = programs.swap_remove(next(20) as usize);
                if round % 8 == 0 && ended[0] != ring {
                    ended.swap_remove(0);
                    left += 1;
                }
                for frame in ended {
                    buddy.drop_ref(frame);
                }
            }
        }
    }
}
