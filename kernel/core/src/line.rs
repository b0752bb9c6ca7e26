//! Waiters for the same thing, in the order of their arrival.

use alloc::collections::BTreeMap;

/// A place in a line. No place is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

/// A line of waiters. Programs decide how long it gets, so it needs no contiguous memory. With a
/// single waiter, the most frequent case, it allocates nothing.
#[derive(Debug)]
pub struct Line<T> {
    /// The waiter that came when the line was empty. Later ones are in `behind`.
    first: Option<(Place, T)>,
    behind: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Line<T> {
    /// Makes an empty line.
    pub const fn new() -> Self {
        Self {
            first: None,
            behind: BTreeMap::new(),
            next: 0,
        }
    }

    /// Adds a waiter at the end.
    pub fn join(&mut self, who: T) -> Place {
        let place = Place(self.next);
        self.next += 1;
        if self.is_empty() {
            self.first = Some((place, who));
        } else {
            self.behind.insert(place.0, who);
        }
        place
    }

    /// Removes the waiter that has waited longest.
    pub fn take_first(&mut self) -> Option<T> {
        match self.first.take() {
            Some((_, who)) => Some(who),
            None => self.behind.pop_first().map(|(_, who)| who),
        }
    }

    /// Removes the waiter at a place, if it is still there.
    pub fn leave(&mut self, place: Place) -> Option<T> {
        match self.first.take_if(|(first, _)| *first == place) {
            Some((_, who)) => Some(who),
            None => self.behind.remove(&place.0),
        }
    }

    /// Whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.behind.is_empty()
    }

    /// The number of waiters.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.behind.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_is_taken_first() {
        let mut line = Line::new();
        assert_eq!(line.take_first(), None::<char>);
        for who in ['a', 'b', 'c'] {
            line.join(who);
        }
        assert_eq!(line.take_first(), Some('a'));
        line.join('d');
        let rest: std::string::String = core::iter::from_fn(|| line.take_first()).collect();
        assert_eq!(rest, "bcd");
        assert!(line.is_empty());
        line.join('e');
        line.join('f');
        assert_eq!(line.len(), 2);
        assert_eq!(line.take_first(), Some('e'));
    }

    #[test]
    fn a_place_is_left_once() {
        let mut line = Line::new();
        let places = ['a', 'b', 'c'].map(|who| line.join(who));
        assert_eq!(line.leave(places[1]), Some('b'));
        assert_eq!(line.leave(places[1]), None);
        assert_eq!(line.leave(places[0]), Some('a'));
        assert_eq!(line.leave(places[0]), None);
        // Once taken, it can no longer leave.
        assert_eq!(line.take_first(), Some('c'));
        assert_eq!(line.leave(places[2]), None);
        line.join('d');
        assert_eq!(line.leave(places[0]), None);
        assert_eq!((line.len(), line.is_empty()), (1, false));
    }
}
