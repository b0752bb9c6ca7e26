//! The memory and the byte streams of one connection of Scheduled Transfers, with stores that are
//! on their way for as long as the memory model allows.
//!
//! A store that is no release store may arrive at any time and in any order. A release store, or a
//! byte of the stream, arrives after everything that was stored before it. The two kinds of
//! connection differ in what makes stores arrive:
//!
//! | kind | a full fence | reading from the peer |
//! | --- | --- | --- |
//! | shared memory | all own stores arrive | not needed |
//! | a bus with posted writes | nothing | the own stores arrive, then the peer's |
//!
//! Between two loads, some of the peer's stores may arrive. An end that dies stops between two
//! stores; the peer sees the end of the connection after the last store that arrives.

mod access;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use st_core::queue::{BODY_BYTES, LINE, Layout};

pub(super) use self::access::Access;

use crate::rng::Rng;

/// Most accesses that one call may make. Each call polls a few slots at most.
const MOST_ACCESSES: u64 = 200;

/// A bug planted in memory or programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A fence makes no stores arrive.
    NoFence,
    /// A read from the peer makes no stores arrive.
    NoFlush,
    /// Release stores overtake other stores.
    NoRelease,
    /// A program does not wake its peer.
    NoWake,
    /// A program sends the header, then puts the data.
    HeaderFirst,
    /// A program polls for headers first, then for the end of the connection.
    LookFirst,
    /// Data that the daemon puts is still on its way when the header is sent.
    LateData,
}

/// The kind of memory between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory that both ends share.
    Shared,
    /// A bus with posted writes.
    Bus,
}

/// The destination of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// An offset in the queue window.
    Queue(usize),
    /// Memory registered at an offset, and the distance from its beginning in bytes.
    Region(i64, usize),
}

#[derive(Debug)]
enum Store {
    Plain(Target, Vec<u8>),
    Release(Target, Vec<u8>),
    Stream(Vec<u8>),
    Down,
}

impl Store {
    /// Returns whether both stores write some of the same bytes.
    fn meets(&self, other: &Store) -> bool {
        let place = |store: &Store| match store {
            Store::Plain(target, bytes) | Store::Release(target, bytes) => {
                let (region, start) = match *target {
                    Target::Queue(offset) => (None, offset),
                    Target::Region(region, at) => (Some(region), at),
                };
                Some((region, start, start + bytes.len()))
            }
            Store::Stream(_) | Store::Down => None,
        };
        match (place(self), place(other)) {
            (Some(one), Some(two)) => one.0 == two.0 && one.1 < two.2 && two.1 < one.2,
            _ => false,
        }
    }
}

/// The state of an end.
#[derive(Default)]
struct Side {
    /// The end's queue window.
    queue: Vec<u8>,
    /// The end's registered memory, by offset.
    regions: BTreeMap<i64, Vec<u8>>,
    /// The bytes of the stream that have arrived.
    inbox: VecDeque<u8>,
    /// The stores on their way to the end.
    coming: VecDeque<Store>,
    /// Whether the end has seen that the connection is down.
    is_down: bool,
    /// Whether the end's program has died.
    is_dead: bool,
    /// The number of stores that the program makes before it dies.
    left: Option<u64>,
}

/// A connection.
pub(super) struct Link {
    sides: [Side; 2],
    kind: Kind,
    bug: Option<Bug>,
    /// The layouts of both queue windows.
    layouts: [Layout; 2],
    /// Whether the connection was cut, while both programs survived.
    is_cut: bool,
    rng: Rng,
    /// In one of this number of accesses some stores arrive.
    delay: u64,
    /// For a bug: stores that arrive at an unknown time, each with its destination.
    late: Vec<(usize, Store)>,
    /// Number of accesses of the call in progress.
    accesses: u64,
    /// Number of stores so far, by side.
    pub stores: [u64; 2],
    /// The rule that was broken, if any.
    pub fault: Option<String>,
}

/// The end's own program has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead;

/// The reason why data did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// The memory is not registered, or not all of it.
    Gone,
    /// The end's own program has died.
    Dead,
}

impl Link {
    /// Makes a connection whose ends have queue windows of these layouts.
    pub(super) fn new(
        kind: Kind,
        layouts: [Layout; 2],
        seed: u64,
        bug: Option<Bug>,
    ) -> Rc<RefCell<Link>> {
        let sides = layouts.map(|layout| Side {
            queue: vec![0; layout.bytes()],
            ..Side::default()
        });
        let mut rng = Rng::new(seed);
        Rc::new(RefCell::new(Link {
            sides,
            kind,
            bug,
            layouts,
            is_cut: false,
            delay: 2 << rng.below(6),
            rng,
            late: Vec::new(),
            accesses: 0,
            stores: [0; 2],
            fault: None,
        }))
    }

    fn complain(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    /// Returns whether some stores arrive now.
    fn is_time(&mut self) -> bool {
        self.rng.one_in(self.delay)
    }

    /// Counts a store of a side that begins.
    fn tick(&mut self, side: usize) -> Result<(), Dead> {
        self.accesses += 1;
        if self.sides[side].is_dead {
            return Err(Dead);
        }
        if let Some(left) = &mut self.sides[side].left {
            if *left == 0 {
                self.kill(side);
                return Err(Dead);
            }
            *left -= 1;
        }
        self.stores[side] += 1;
        Ok(())
    }

    fn send(&mut self, from: usize, store: Store) {
        // Nothing leaves a side after the end of the connection.
        let coming = &mut self.sides[1 - from].coming;
        if !self.is_cut && !matches!(coming.back(), Some(Store::Down)) {
            coming.push_back(store);
        }
    }

    fn put_down(&mut self, to: usize, target: Target, bytes: &[u8]) {
        if let Target::Queue(offset) = target {
            self.spoil_returned(to, offset, bytes);
        }
        let side = &mut self.sides[to];
        let place = match target {
            Target::Queue(offset) => side.queue.get_mut(offset..offset + bytes.len()),
            // A store to memory that is gone has no effect.
            Target::Region(region, at) => match side.regions.get_mut(&region) {
                Some(memory) => memory.get_mut(at..at + bytes.len()),
                None => return,
            },
        };
        match place {
            Some(place) => place.copy_from_slice(bytes),
            None => self.complain(format!("a store outside of memory: {target:?}")),
        }
    }

    /// Spoils the slots whose return arrives. They are the sender's again, so the receiver must
    /// not read them any more.
    fn spoil_returned(&mut self, sender: usize, offset: usize, bytes: &[u8]) {
        let layout = self.layouts[1 - sender];
        let (channels, slots) = (layout.channels() as usize, u64::from(layout.places()));
        let channel = offset / LINE;
        let former = self.sides[sender].queue.get(offset..offset + 8);
        let words = [former.unwrap_or_default(), bytes].map(<[u8; 8]>::try_from);
        let [Ok(from), Ok(to)] = words.map(|word| word.map(u64::from_le_bytes)) else {
            return;
        };
        if channel >= channels || !offset.is_multiple_of(LINE) || from > to || to - from > slots {
            return;
        }
        for count in from..to {
            let slot = channel * slots as usize + (count % slots) as usize;
            let place = LINE * (channels + slot);
            let body = self.sides[1 - sender]
                .queue
                .get_mut(place..place + BODY_BYTES);
            body.unwrap_or_default().fill(0xee);
        }
    }

    fn arrive(&mut self, to: usize, store: Store) {
        match store {
            Store::Plain(target, bytes) | Store::Release(target, bytes) => {
                self.put_down(to, target, &bytes);
            }
            Store::Stream(bytes) => self.sides[to].inbox.extend(bytes),
            Store::Down => self.sides[to].is_down = true,
        }
    }

    /// Lets the first stores on their way to a side arrive.
    fn land(&mut self, to: usize, count: usize) {
        for _ in 0..count {
            let Some(store) = self.sides[to].coming.pop_front() else {
                return;
            };
            self.arrive(to, store);
        }
    }

    /// Lets everything on its way to a side arrive.
    pub(super) fn land_all(&mut self, to: usize) {
        self.land(to, usize::MAX);
    }

    /// Returns whether nothing is on its way, and every byte of the streams was taken.
    pub(super) fn is_still(&self) -> bool {
        let mut sides = self.sides.iter();
        sides.all(|side| side.coming.is_empty() && side.inbox.is_empty())
    }

    /// Lets some store on its way to a side arrive, if possible before earlier ones.
    pub(super) fn land_some(&mut self, to: usize) {
        let count = self.sides[to].coming.len();
        if count == 0 {
            return;
        }
        let which = self.rng.below(count as u64) as usize;
        let coming = &self.sides[to].coming;
        let is_free = match &coming[which] {
            Store::Plain(..) => true,
            Store::Release(..) => self.bug == Some(Bug::NoRelease),
            Store::Stream(_) | Store::Down => false,
        };
        let meets = |before: &Store| before.meets(&coming[which]);
        if is_free && !coming.iter().take(which).any(meets) {
            if let Some(store) = self.sides[to].coming.remove(which) {
                self.arrive(to, store);
            }
        } else {
            self.land(to, which + 1);
        }
    }

    /// Lets the late stores arrive.
    pub(super) fn land_late(&mut self) {
        for (to, store) in std::mem::take(&mut self.late) {
            self.arrive(to, store);
        }
    }

    /// Kills a side's program: what it has stored arrives, then the peer sees the end.
    pub(super) fn kill(&mut self, side: usize) {
        self.sides[side].is_dead = true;
        self.send(side, Store::Down);
    }

    /// Cuts the power of a side's node: some of what it has stored never arrives.
    pub(super) fn cut_power(&mut self, side: usize) {
        self.sides[side].is_dead = true;
        let count = match self.rng.one_in(2) {
            true => 0,
            false => self.sides[1 - side].coming.len() as u64,
        };
        for _ in 0..self.rng.below(count) {
            self.land_some(1 - side);
        }
        self.sides[1 - side].coming.clear();
        self.send(side, Store::Down);
    }

    /// Cuts the connection, while both programs survive: some stores never arrive.
    pub(super) fn cut(&mut self) {
        for side in 0..2 {
            self.cut_power(side);
        }
        self.is_cut = true;
        for side in &mut self.sides {
            side.is_dead = false;
            side.left = None;
        }
    }

    /// Kills a side's program after this number of further stores.
    pub(super) fn kill_after(&mut self, side: usize, stores: u64) {
        self.sides[side].left = Some(stores);
    }

    /// Cancels the planned death of a side's program.
    pub(super) fn spare(&mut self, side: usize) {
        self.sides[side].left = None;
    }

    /// Returns the number of bytes of registered memory that a side has.
    pub(super) fn registered(&self, side: usize) -> usize {
        self.sides[side].regions.values().map(Vec::len).sum()
    }

    /// Takes all registered memory away from a dead or closed side.
    pub(super) fn release(&mut self, side: usize) {
        self.sides[side].regions.clear();
    }
}
