//! A queue in which processes take turns.
//!
//! Each process has a queue of its own things. So a process does not get more by having more
//! things in the queue.

use alloc::collections::{BTreeMap, VecDeque};

/// The queue of things `T`.
#[derive(Debug)]
pub struct FairQueue<T> {
    /// The processes, the next one first. Each is listed once, and has something in `of`.
    turns: VecDeque<u32>,
    of: BTreeMap<u32, VecDeque<T>>,
    /// The list of a process that has nothing left, reused for the next process that gets
    /// something: a process that works alone allocates no memory for each thing.
    spare: VecDeque<T>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        FairQueue {
            turns: VecDeque::new(),
            of: BTreeMap::new(),
            spare: VecDeque::new(),
        }
    }
}

impl<T: PartialEq> FairQueue<T> {
    /// Adds a thing of a process, behind the others of that process.
    pub fn push(&mut self, process: u32, thing: T) {
        let spare = || core::mem::take(&mut self.spare);
        let things = self.of.entry(process).or_insert_with(spare);
        if things.is_empty() {
            self.turns.push_back(process);
        }
        things.push_back(thing);
    }

    /// Takes the next thing. Its process then becomes the last in turn.
    pub fn pop(&mut self) -> Option<T> {
        let process = self.turns.pop_front()?;
        let things = self.of.get_mut(&process)?;
        let thing = things.pop_front();
        if things.is_empty() {
            self.spare = self.of.remove(&process).unwrap_or_default();
        } else {
            self.turns.push_back(process);
        }
        thing
    }

    /// Removes a thing of a process.
    pub fn remove(&mut self, process: u32, thing: &T) {
        let Some(things) = self.of.get_mut(&process) else {
            return;
        };
        things.retain(|other| other != thing);
        if things.is_empty() {
            self.of.remove(&process);
            self.turns.retain(|other| *other != process);
        }
    }

    /// Whether a thing is in the queue.
    pub fn contains(&self, thing: &T) -> bool {
        self.of.values().any(|things| things.contains(thing))
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::FairQueue;

    #[test]
    fn processes_take_turns_and_so_do_their_things() {
        let mut active = FairQueue::default();
        for (process, thing) in [(1, 10), (1, 11), (1, 12), (2, 20), (1, 13), (3, 30)] {
            active.push(process, thing);
        }
        for expected in [10, 20, 30, 11] {
            assert_eq!(active.pop(), Some(expected));
        }
        // A thing that comes back is behind those that are there.
        active.push(2, 21);
        active.push(1, 10);
        assert!(active.contains(&21) && !active.contains(&20));
        for expected in [12, 21, 13, 10] {
            assert_eq!(active.pop(), Some(expected));
        }
        assert!(active.is_empty());
        assert_eq!(active.pop(), None);
    }

    #[test]
    fn what_is_taken_out_gets_no_turn() {
        let mut active = FairQueue::default();
        for (process, thing) in [(1, 10), (2, 20), (2, 21)] {
            active.push(process, thing);
        }
        active.remove(1, &10);
        active.remove(2, &20);
        active.remove(3, &30);
        assert_eq!(active.pop(), Some(21));
        assert!(active.is_empty());
        active.push(1, 11);
        assert_eq!(active.pop(), Some(11));
    }
}
