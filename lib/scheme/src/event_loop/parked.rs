//! Requests that are not answered yet, found by their id, and for each handle in order of arrival.
//! The table allocates memory only when more requests wait than ever before.

use alloc::vec::Vec;

use hashbrown::HashMap;
use redox_scheme::scheme::Op;
use redox_scheme::{CallerCtx, Id};

/// A request that is not answered yet.
pub(super) struct Parked {
    pub(super) op: Op,
    pub(super) caller: CallerCtx,
    pub(super) tag: u32,
}

/// Index of a request in the table.
type Slot = u32;

/// An entry of the table. `previous` and `next` are requests of the same handle.
struct Entry<T> {
    /// `None` while the request is being retried.
    parked: Option<T>,
    request: Id,
    handle: usize,
    arrival: u64,
    previous: Option<Slot>,
    next: Option<Slot>,
}

/// First and last request of a handle.
struct Ends {
    first: Slot,
    last: Slot,
}

/// The requests that wait; `T` is what the table keeps of each.
pub(super) struct ParkedRequests<T = Parked> {
    entries: Vec<Option<Entry<T>>>,
    free: Vec<Slot>,
    by_request: HashMap<Id, Slot>,
    by_handle: HashMap<usize, Ends>,
    arrivals: u64,
    /// Room for [`sort`](Self::sort): requests with their arrival.
    order: Vec<(u64, Id)>,
}

impl<T> ParkedRequests<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_request: HashMap::new(),
            by_handle: HashMap::new(),
            arrivals: 0,
            order: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_request.len()
    }

    fn entry(&mut self, slot: Slot) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// Adds a request behind those of the same handle.
    pub(super) fn insert(&mut self, request: Id, handle: usize, parked: T) {
        // Ids are the kernel's, one for each request. Should one come twice, the newer request
        // counts.
        self.remove(request);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as Slot
        });
        let ends = self.by_handle.get_mut(&handle);
        let previous = match ends {
            Some(ends) => Some(core::mem::replace(&mut ends.last, slot)),
            None => {
                let ends = Ends {
                    first: slot,
                    last: slot,
                };
                self.by_handle.insert(handle, ends);
                None
            }
        };
        if let Some(entry) = previous.and_then(|slot| self.entry(slot)) {
            entry.next = Some(slot);
        }
        self.arrivals += 1;
        let entry = Entry {
            parked: Some(parked),
            request,
            handle,
            arrival: self.arrivals,
            previous,
            next: None,
        };
        if let Some(place) = self.entries.get_mut(slot as usize) {
            *place = Some(entry);
        }
        self.by_request.insert(request, slot);
    }

    /// Takes a request for a retry. It keeps its place until [`put_back`](Self::put_back) or
    /// [`remove`](Self::remove).
    pub(super) fn take(&mut self, request: Id) -> Option<T> {
        let slot = *self.by_request.get(&request)?;
        self.entry(slot)?.parked.take()
    }

    /// Puts back a request that was taken.
    pub(super) fn put_back(&mut self, request: Id, parked: T) {
        let slot = self.by_request.get(&request).copied();
        if let Some(entry) = slot.and_then(|slot| self.entry(slot)) {
            entry.parked = Some(parked);
        }
    }

    /// Removes a request. Returns what was kept of it, unless it is taken.
    pub(super) fn remove(&mut self, request: Id) -> Option<T> {
        let slot = self.by_request.remove(&request)?;
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        let (previous, next) = (entry.previous, entry.next);
        if let Some(entry) = previous.and_then(|slot| self.entry(slot)) {
            entry.next = next;
        }
        if let Some(entry) = next.and_then(|slot| self.entry(slot)) {
            entry.previous = previous;
        }
        match (previous, next, self.by_handle.get_mut(&entry.handle)) {
            (None, None, _) => {
                self.by_handle.remove(&entry.handle);
            }
            (None, Some(next), Some(ends)) => ends.first = next,
            (Some(previous), None, Some(ends)) => ends.last = previous,
            _ => {}
        }
        entry.parked
    }

    /// Adds the requests of a handle to `requests`, in order of arrival.
    pub(super) fn of_handle(&self, handle: usize, requests: &mut Vec<Id>) {
        let mut at = self.by_handle.get(&handle).map(|ends| ends.first);
        while let Some(entry) = at.and_then(|slot| self.entries.get(slot as usize)?.as_ref()) {
            requests.push(entry.request);
            at = entry.next;
        }
    }

    /// The value kept for each request, in no particular order, except for requests that are
    /// taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let waiting = self.entries.iter().flatten();
        waiting.filter_map(|entry| entry.parked.as_ref())
    }

    /// Adds all requests, in no particular order.
    pub(super) fn all(&self, requests: &mut Vec<Id>) {
        requests.extend(self.by_request.keys());
    }

    /// Sorts requests in order of arrival, and removes duplicates and those that wait no more.
    pub(super) fn sort(&mut self, requests: &mut Vec<Id>) {
        // Each request is looked up once, not in every comparison.
        let mut order = core::mem::take(&mut self.order);
        order.extend(requests.drain(..).filter_map(|request| {
            let slot = self.by_request.get(&request)?;
            Some((self.entries.get(*slot as usize)?.as_ref()?.arrival, request))
        }));
        order.sort_unstable_by_key(|(arrival, _)| *arrival);
        order.dedup_by_key(|(arrival, _)| *arrival);
        requests.extend(order.drain(..).map(|(_, request)| request));
        self.order = order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> Id {
        // The library offers no other way to make an id.
        // SAFETY: `Id` is a structure of one `u32`.
        unsafe { core::mem::transmute::<u32, Id>(number) }
    }

    fn of_handle(parked: &ParkedRequests<char>, handle: usize) -> Vec<Id> {
        let mut requests = Vec::new();
        parked.of_handle(handle, &mut requests);
        requests
    }

    #[test]
    fn requests_of_a_handle_keep_their_order_when_some_leave() {
        let mut parked = ParkedRequests::new();
        for (request, handle, what) in [(1, 5, 'a'), (2, 6, 'b'), (3, 5, 'c'), (4, 5, 'd')] {
            parked.insert(id(request), handle, what);
        }
        assert_eq!(of_handle(&parked, 5), [id(1), id(3), id(4)]);
        assert_eq!(parked.remove(id(3)), Some('c'));
        assert_eq!(of_handle(&parked, 5), [id(1), id(4)]);
        assert_eq!(parked.remove(id(4)), Some('d'));
        parked.insert(id(9), 5, 'e');
        assert_eq!(of_handle(&parked, 5), [id(1), id(9)]);
        assert_eq!(parked.remove(id(1)), Some('a'));
        assert_eq!(of_handle(&parked, 5), [id(9)]);
        assert_eq!(parked.remove(id(9)), Some('e'));
        assert_eq!(of_handle(&parked, 5), []);
        assert_eq!((parked.len(), parked.remove(id(9))), (1, None));
        assert_eq!(of_handle(&parked, 6), [id(2)]);
    }

    #[test]
    fn a_request_that_is_looked_at_keeps_its_place() {
        let mut parked = ParkedRequests::new();
        parked.insert(id(1), 5, 'a');
        parked.insert(id(2), 5, 'b');
        assert_eq!(parked.take(id(1)), Some('a'));
        assert_eq!(parked.take(id(1)), None);
        assert_eq!(of_handle(&parked, 5), [id(1), id(2)]);
        parked.put_back(id(1), 'a');
        let mut all = Vec::from([id(2), id(7)]);
        parked.all(&mut all);
        parked.sort(&mut all);
        assert_eq!(all, [id(1), id(2)]);
        // Taken and ended.
        assert_eq!(parked.take(id(1)), Some('a'));
        assert_eq!(parked.remove(id(1)), None);
        parked.put_back(id(1), 'x');
        assert_eq!((parked.len(), parked.take(id(1))), (1, None));
    }
}
