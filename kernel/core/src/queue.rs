//! Queues whose entries bring their memory along: what has its entry beforehand can be queued when
//! memory is used up.

use alloc::boxed::Box;

/// A value with its place in a [`Queue`].
#[derive(Debug)]
pub struct Entry<T>(Box<Node<T>>);

#[derive(Debug)]
struct Node<T> {
    value: T,
    next: Option<Entry<T>>,
}

impl<T> Entry<T> {
    /// Takes the memory for a place.
    pub fn new(value: T) -> Self {
        Self(Box::new(Node { value, next: None }))
    }

    /// The value.
    pub fn value(&self) -> &T {
        &self.0.value
    }

    /// The value, to change it.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

/// A queue. To move an entry into it or out of it takes no memory.
#[derive(Debug)]
pub struct Queue<T> {
    /// The oldest entries, the oldest first.
    old: Option<Entry<T>>,
    /// The others, the youngest first.
    new: Option<Entry<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Queue<T> {
    /// Makes an empty queue.
    pub const fn new() -> Self {
        Self {
            old: None,
            new: None,
        }
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }

    /// Adds an entry at the end.
    pub fn push(&mut self, mut entry: Entry<T>) {
        entry.0.next = self.new.take();
        self.new = Some(entry);
    }

    /// Makes sure that the oldest entry is the first of `old`.
    fn turn(&mut self) {
        if self.old.is_some() {
            return;
        }
        let mut new = self.new.take();
        while let Some(mut entry) = new {
            new = entry.0.next.take();
            entry.0.next = self.old.take();
            self.old = Some(entry);
        }
    }

    /// The value that is queued longest.
    pub fn first(&mut self) -> Option<&T> {
        self.turn();
        self.old.as_ref().map(Entry::value)
    }

    /// Removes the entry that is queued longest.
    pub fn pop(&mut self) -> Option<Entry<T>> {
        self.turn();
        let mut entry = self.old.take()?;
        self.old = entry.0.next.take();
        Some(entry)
    }

    /// Removes the first entry whose value is `wanted`.
    pub fn take(&mut self, wanted: impl Fn(&T) -> bool) -> Option<Entry<T>> {
        let (mut others, mut found) = (Self::new(), None);
        while let Some(entry) = self.pop() {
            match found {
                None if wanted(entry.value()) => found = Some(entry),
                _ => others.push(entry),
            }
        }
        *self = others;
        found
    }

    /// Moves all entries of another queue to the end.
    pub fn append(&mut self, other: &mut Self) {
        while let Some(entry) = other.pop() {
            self.push(entry);
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T> Drop for Queue<T> {
    /// One by one: entries that drop each other would need a stack for all of them.
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_move_from_queue_to_queue_in_order() {
        let (mut from, mut to) = (Queue::new(), Queue::new());
        for value in ['a', 'b', 'c'] {
            from.push(Entry::new(value));
        }
        assert_eq!(from.first(), Some(&'a'));
        to.extend_from(&mut from, 2);
        from.push(Entry::new('d'));
        to.extend_from(&mut from, 2);
        assert!(from.is_empty() && from.pop().is_none() && from.first().is_none());
        let moved = core::iter::from_fn(|| to.pop().map(|entry| *entry.value()));
        assert!(moved.eq(['a', 'b', 'c', 'd']));
    }

    #[test]
    fn the_first_wanted_entry_is_taken_out() {
        let mut queue = Queue::new();
        for (value, number) in [('a', 0), ('b', 1), ('c', 2), ('b', 3)] {
            queue.push(Entry::new((value, number)));
        }
        let mut number_of = |value| {
            let entry = queue.take(|&(other, _)| other == value)?;
            Some(entry.value().1)
        };
        assert_eq!(
            ['b', 'd', 'b', 'b'].map(&mut number_of),
            [Some(1), None, Some(3), None]
        );
        let rest = core::iter::from_fn(|| queue.pop().map(|entry| entry.value().0));
        assert!(rest.eq(['a', 'c']));
    }

    #[test]
    fn a_queue_takes_the_entries_of_another() {
        let (mut from, mut to) = (Queue::new(), Queue::new());
        to.push(Entry::new(1));
        for value in [2, 3] {
            let mut entry = Entry::new(0);
            *entry.value_mut() = value;
            from.push(entry);
        }
        to.append(&mut from);
        assert!(from.is_empty());
        let moved = core::iter::from_fn(|| to.pop().map(|entry| *entry.value()));
        assert!(moved.eq([1, 2, 3]));
    }

    #[test]
    fn entries_keep_their_memory() {
        let (mut from, mut to) = (Queue::new(), Queue::new());
        let entry = Entry::new(1);
        let place: *const i32 = entry.value();
        from.push(entry);
        to.extend_from(&mut from, 1);
        let moved = to.pop().expect("an entry");
        assert!(core::ptr::eq(moved.value(), place));
        // A pointer, so that it makes its owner hardly larger.
        assert_eq!(size_of::<Option<Entry<[u64; 9]>>>(), size_of::<usize>());
    }

    #[test]
    fn long_queues_end_without_a_deep_stack() {
        let mut queue = Queue::new();
        for number in 0..1_000_000 {
            queue.push(Entry::new(number));
        }
        queue.turn();
        drop(queue);
    }

    impl<T> Queue<T> {
        fn extend_from(&mut self, other: &mut Queue<T>, count: usize) {
            for _ in 0..count {
                other.pop().into_iter().for_each(|entry| self.push(entry));
            }
        }
    }
}
