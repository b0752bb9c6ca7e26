//! The model's windows, memory and transfers.

use scif_abi::Error;

use super::{Expected, MEMORIES, MEMORY_PAGES, Model, Op, PAGE, Window, fails, node_of};

const READ: u32 = 1;
const WRITE: u32 = 2;

/// A byte: its piece of memory, and its position there.
type Byte = (usize, usize);

impl Model {
    pub(super) fn on_memory(&mut self, op: &Op) -> Expected {
        match *op {
            Op::Register {
                slot,
                memory,
                first,
                pages,
                at,
                protection,
            } => self.register(slot, at, {
                let memory = node_of(slot) * MEMORIES + memory;
                Window {
                    pages: pages.min(MEMORY_PAGES - first),
                    protection,
                    memory,
                    first,
                }
            }),
            Op::Unregister { slot, at, pages } => self.unregister(slot, at, pages),
            Op::Rma { .. } => self.rma(op),
            Op::Signal {
                slot,
                local,
                remote,
            } => self.signal(slot, local, remote),
            Op::Store {
                memory,
                word,
                value,
            } => {
                let at = word * 8;
                self.memories[memory][at..at + 8].copy_from_slice(&value.to_le_bytes());
                Expected::Value(0)
            }
            Op::Load { memory, word } => {
                let at = word * 8;
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.memories[memory][at..at + 8]);
                Expected::Value(i64::from_le_bytes(bytes))
            }
            _ => Expected::Skip,
        }
    }

    /// The error of a bad argument, which is checked before the state. On a closed endpoint both
    /// are wrong.
    fn bad_argument(&self, slot: usize) -> Expected {
        let mut errors = vec![Error::InvalidArgument];
        if self.endpoints[slot].state == super::State::Closed {
            errors.push(Error::BadDescriptor);
        }
        Expected::Fails(errors)
    }

    fn register(&mut self, slot: usize, at: usize, window: Window) -> Expected {
        if window.pages == 0 || !(1..=READ | WRITE).contains(&window.protection) {
            return self.bad_argument(slot);
        }
        if let Err(error) = self.verify(slot) {
            return error;
        }
        let windows = &mut self.endpoints[slot].windows;
        let overlaps =
            |(other, w): (&usize, &Window)| at < other + w.pages && *other < at + window.pages;
        if windows.iter().any(overlaps) {
            return fails(Error::AddressInUse);
        }
        windows.insert(at, window);
        Expected::Value((at * PAGE) as i64)
    }

    fn unregister(&mut self, slot: usize, at: usize, pages: usize) -> Expected {
        if pages == 0 {
            return self.bad_argument(slot);
        }
        if let Err(error) = self.verify(slot) {
            return error;
        }
        let windows = &mut self.endpoints[slot].windows;
        let end = at + pages;
        let cut = windows.iter().any(|(first, w)| {
            let last = first + w.pages;
            *first < end && at < last && (*first < at || end < last)
        });
        if cut {
            return fails(Error::InvalidArgument);
        }
        let inside: Vec<usize> = windows.range(at..end).map(|(first, _)| *first).collect();
        let covered: usize = inside.iter().map(|first| windows[first].pages).sum();
        if covered != pages {
            return fails(Error::NoSuchAddress);
        }
        for first in inside {
            windows.remove(&first);
        }
        Expected::Value(0)
    }

    /// The bytes of a range of a slot's windows, each of which must have the rights `need`.
    fn range(&self, slot: usize, at: usize, length: usize, need: u32) -> Result<Vec<Byte>, Error> {
        let windows = &self.endpoints[slot].windows;
        let mut bytes = Vec::new();
        let mut allowed = true;
        for position in at..at + length {
            let page = position / PAGE;
            let found = windows.range(..=page).next_back();
            let (first, window) = found
                .filter(|(first, window)| page < *first + window.pages)
                .ok_or(Error::NoSuchAddress)?;
            allowed &= window.protection & need != 0;
            let from = window.first * PAGE + position - first * PAGE;
            bytes.push((window.memory, from));
        }
        match allowed {
            true => Ok(bytes),
            false => Err(Error::AccessDenied),
        }
    }

    fn rma(&mut self, op: &Op) -> Expected {
        let Op::Rma {
            slot,
            reads,
            memory,
            local,
            length,
            remote,
            flags,
        } = *op
        else {
            return Expected::Skip;
        };
        let peer = match self.verify(slot) {
            Ok(peer) => peer,
            Err(error) => return error,
        };
        if length == 0 || flags & !15 != 0 {
            return fails(Error::InvalidArgument);
        }
        let (here, there) = if reads { (WRITE, READ) } else { (READ, WRITE) };
        let ours = match memory {
            Some(memory) => {
                let memory = node_of(slot) * MEMORIES + memory;
                Ok((local..local + length).map(|at| (memory, at)).collect())
            }
            None => self.range(slot, local, length, here),
        };
        let theirs = self.range(peer, remote, length, there);
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (ours, theirs) => {
                return Expected::Fails([ours.err(), theirs.err()].into_iter().flatten().collect());
            }
        };
        let (source, target) = if reads {
            (theirs, ours)
        } else {
            (ours, theirs)
        };
        // The result of a copy between overlapping ranges is not defined.
        let targets: std::collections::BTreeSet<Byte> = target.iter().copied().collect();
        if source.iter().any(|byte| targets.contains(byte)) || targets.len() < target.len() {
            return Expected::Skip;
        }
        for ((from, at), (to, place)) in source.into_iter().zip(target) {
            self.memories[to][place] = self.memories[from][at];
        }
        Expected::Value(0)
    }

    fn signal(&mut self, slot: usize, local: usize, remote: usize) -> Expected {
        let peer = match self.verify(slot) {
            Ok(peer) => peer,
            Err(error) => return error,
        };
        if !local.is_multiple_of(4) || !remote.is_multiple_of(4) {
            return fails(Error::InvalidArgument);
        }
        let one_window = |slot: usize, at: usize| {
            let windows = &self.endpoints[slot].windows;
            let found = windows.range(..=at / PAGE).next_back();
            found.is_some_and(|(first, window)| at + 8 <= (first + window.pages) * PAGE)
        };
        let place = |slot, at| match one_window(slot, at) {
            true => self.range(slot, at, 8, WRITE),
            false => Err(Error::NoSuchAddress),
        };
        let (ours, theirs) = match (place(slot, local), place(peer, remote)) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (ours, theirs) => {
                return Expected::Fails([ours.err(), theirs.err()].into_iter().flatten().collect());
            }
        };
        // Programs may not rely on the order of two stores to one place.
        if ours.iter().any(|byte| theirs.contains(byte)) {
            return Expected::Skip;
        }
        for (bytes, value) in [(ours, LOCAL_VALUE), (theirs, REMOTE_VALUE)] {
            for ((memory, at), byte) in bytes.into_iter().zip(value.to_le_bytes()) {
                self.memories[memory][at] = byte;
            }
        }
        Expected::Value(0)
    }
}

/// The word that a signal stores at the own side.
pub const LOCAL_VALUE: u64 = 0x0102_0304_0506_0708;
/// The word that a signal stores at the peer's side.
pub const REMOTE_VALUE: u64 = 0x1112_1314_1516_1718;
