//! Sorts an array of which only comparing and swapping two elements is known, for `qsort`. No
//! answer of the comparison makes it go wrong: the array always keeps its elements. (The standard
//! library's sort may panic if the answers contradict each other.)

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Compares two elements, by their places.
type Compare<'a> = &'a mut dyn FnMut(usize, usize) -> Ordering;
/// Swaps two different elements, by their places.
type Swap<'a> = &'a mut dyn FnMut(usize, usize);

/// The most elements whose places are sorted before they are moved, which takes 16 bytes for each.
/// More memory could be promised and then not be there when it is used.
const MOST: usize = 4 << 20;

/// Sorts `count` elements. The order of equal ones stays, unless there are more than [`MOST`] or
/// there is no memory.
pub fn sort(count: usize, compare: Compare<'_>, swap: Swap<'_>) {
    let mut places = Vec::new();
    let has_memory = count <= MOST && places.try_reserve_exact(2 * count).is_ok();
    if !has_memory {
        return heap_sort(count, compare, swap);
    }
    places.extend(0..count);
    places.resize(2 * count, 0);
    let (order, room) = places.split_at_mut(count);
    merge_sort(order, room, compare);
    // Each cycle of the order: the element that belongs to a place comes there, and the one that
    // was there moves on to the next place of the cycle.
    for first in 0..count {
        let mut place = first;
        loop {
            let from = core::mem::replace(&mut order[place], place);
            if from == first {
                break;
            }
            swap(place, from);
            place = from;
        }
    }
}

/// Sorts `order`, which stays a permutation whatever `compare` answers. `room` is as long.
fn merge_sort(order: &mut [usize], room: &mut [usize], compare: Compare<'_>) {
    if order.len() < 2 {
        return;
    }
    let middle = order.len() / 2;
    let (left, right) = order.split_at_mut(middle);
    merge_sort(left, &mut room[..middle], compare);
    merge_sort(right, &mut room[middle..], compare);
    let (mut a, mut b) = (
        left.iter().copied().peekable(),
        right.iter().copied().peekable(),
    );
    for place in room.iter_mut() {
        let takes_left = match (a.peek(), b.peek()) {
            (Some(first), Some(second)) => compare(*first, *second) != Ordering::Greater,
            (first, _) => first.is_some(),
        };
        let next = if takes_left { a.next() } else { b.next() };
        // Both together are as long as the room.
        *place = next.unwrap_or_default();
    }
    order.copy_from_slice(room);
}

/// Sorts without memory. The order of equal elements may change.
fn heap_sort(count: usize, compare: Compare<'_>, swap: Swap<'_>) {
    for root in (0..count / 2).rev() {
        sift(root, count, compare, swap);
    }
    for end in (1..count).rev() {
        swap(0, end);
        sift(0, end, compare, swap);
    }
}

/// Moves the element at `root` down the heap of the first `count` elements to its place.
fn sift(mut root: usize, count: usize, compare: Compare<'_>, swap: Swap<'_>) {
    while 2 * root + 1 < count {
        let mut child = 2 * root + 1;
        if child + 1 < count && compare(child, child + 1) == Ordering::Less {
            child += 1;
        }
        if compare(root, child) != Ordering::Less {
            return;
        }
        swap(root, child);
        root = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    type Sort = fn(usize, Compare<'_>, Swap<'_>);

    /// Numbers without an order, many of them equal, with their places.
    fn numbers(count: usize) -> Vec<(usize, usize)> {
        (0..count).map(|place| (place * 7919 % 31, place)).collect()
    }

    fn sorted(
        count: usize,
        by: Sort,
        compare: impl Fn(usize, usize) -> Ordering,
    ) -> Vec<(usize, usize)> {
        let array = RefCell::new(numbers(count));
        by(
            count,
            &mut |a, b| compare(array.borrow()[a].0, array.borrow()[b].0),
            &mut |a, b| {
                assert_ne!(a, b);
                array.borrow_mut().swap(a, b);
            },
        );
        array.into_inner()
    }

    #[test]
    fn arrays_of_every_length() {
        for count in 0..130 {
            let mut wanted = numbers(count);
            wanted.sort();
            assert_eq!(sorted(count, sort, |a, b| a.cmp(&b)), wanted);
            let by_heap = sorted(count, heap_sort, |a, b| a.cmp(&b));
            let values =
                |list: &[(usize, usize)]| list.iter().map(|each| each.0).collect::<Vec<_>>();
            assert_eq!(values(&by_heap), values(&wanted));
        }
    }

    #[test]
    fn contradictions_lose_no_element() {
        for by in [sort as Sort, heap_sort] {
            for answer in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                let mut found = sorted(100, by, |_, _| answer);
                found.sort_by_key(|each| each.1);
                assert_eq!(found, numbers(100));
            }
        }
    }
}
