//! `search.h`: hash tables, binary trees, linear search in arrays, and lists.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use syscall::error::{EINVAL, ESRCH};

use crate::sync::Shared;
use crate::{errno, strings};

type Compare = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;

// ---- Hash tables ----

/// C's `ENTRY`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    key: *mut c_char,
    data: *mut c_void,
}

/// C's `ENTER`; `FIND` is 0.
const ENTER: c_int = 1;

/// The entries of a table, by the bytes of their keys. A program may store to the data of an
/// entry, so each is allocated by itself.
pub struct Table {
    entries: BTreeMap<Vec<u8>, Box<Entry>>,
}

/// C's `struct hsearch_data`.
#[repr(C)]
struct TableOf {
    table: *mut Table,
}

/// The table of the functions that do not name one.
pub static TABLE: Shared<Option<Table>> = Shared::new(None);

impl Table {
    fn new() -> Table {
        Table {
            entries: BTreeMap::new(),
        }
    }

    /// Finds the entry of a key; with [`ENTER`] adds this one if there is none.
    ///
    /// # Safety
    /// The key is a string that does not change as long as it is in the table.
    unsafe fn search(&mut self, entry: Entry, action: c_int) -> Result<*mut Entry, c_int> {
        // SAFETY: the caller's promise.
        let key = unsafe { strings::bytes(entry.key) };
        if let Some(found) = self.entries.get_mut(key) {
            return Ok(&raw mut **found);
        }
        match action {
            ENTER => {
                let place = self.entries.entry(key.to_vec()).or_insert(Box::new(entry));
                Ok(&raw mut **place)
            }
            _ => Err(ESRCH),
        }
    }
}

/// Returns 0 if there is a table already, as in glibc. The caller's estimate of the size is not
/// needed.
#[unsafe(no_mangle)]
extern "C" fn hcreate(_size: usize) -> c_int {
    TABLE.with(|table| match table {
        Some(_) => {
            errno::set(EINVAL);
            0
        }
        None => {
            *table = Some(Table::new());
            1
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hdestroy() {
    TABLE.with(|table| *table = None);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hsearch(entry: Entry, action: c_int) -> *mut Entry {
    let found = TABLE.with(|table| match table {
        // SAFETY: the same contract.
        Some(table) => unsafe { table.search(entry, action) },
        None => Err(EINVAL),
    });
    found.unwrap_or_else(|error| {
        errno::set(error);
        null_mut()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hcreate_r(_size: usize, place: *mut TableOf) -> c_int {
    // SAFETY: the caller's structure, which is zero or was ended.
    let place = unsafe { &mut *place };
    if !place.table.is_null() {
        errno::set(EINVAL);
        return 0;
    }
    place.table = Box::into_raw(Box::new(Table::new()));
    1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hdestroy_r(place: *mut TableOf) {
    // SAFETY: the caller's structure, with what `hcreate_r` has made or null.
    unsafe {
        let table = core::mem::replace(&mut (*place).table, null_mut());
        if !table.is_null() {
            drop(Box::from_raw(table));
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hsearch_r(
    entry: Entry,
    action: c_int,
    result: *mut *mut Entry,
    place: *mut TableOf,
) -> c_int {
    // SAFETY: the caller's structure, with what `hcreate_r` has made or null, and its place.
    let found = unsafe {
        match (*place).table.as_mut() {
            Some(table) => table.search(entry, action),
            None => Err(EINVAL),
        }
    };
    let (found, status) = match found {
        Ok(found) => (found, 1),
        Err(error) => {
            errno::set(error);
            (null_mut(), 0)
        }
    };
    // SAFETY: the caller's place.
    unsafe { *result = found };
    status
}

// ---- Trees ----

/// A node of a tree. C gets its address, and reads the key at its start; both stay valid as long
/// as the node is in the tree.
#[repr(C)]
struct Node {
    key: *const c_void,
    /// The nodes with smaller keys, and those with larger ones.
    below: [Tree; 2],
    /// The number of nodes on the longest way down from here, including this one.
    height: u8,
}

/// A tree in which the heights of both sides of each node differ by at most one (AVL). C holds the
/// root as a pointer, which is null for an empty tree.
type Tree = Option<Box<Node>>;

const SMALLER: usize = 0;
const LARGER: usize = 1;

fn height(tree: &Tree) -> u8 {
    tree.as_ref().map_or(0, |node| node.height)
}

impl Node {
    fn measure(&mut self) {
        self.height = 1 + height(&self.below[SMALLER]).max(height(&self.below[LARGER]));
    }

    /// By how much one side is higher than the other.
    fn excess(&self, side: usize) -> i16 {
        i16::from(height(&self.below[side])) - i16::from(height(&self.below[1 - side]))
    }
}

/// Makes the top node of one side the top of the tree.
fn rotate(tree: &mut Tree, side: usize) {
    let Some(mut top) = tree.take() else {
        return;
    };
    *tree = match top.below[side].take() {
        None => Some(top),
        Some(mut rising) => {
            top.below[side] = rising.below[1 - side].take();
            top.measure();
            rising.below[1 - side] = Some(top);
            rising.measure();
            Some(rising)
        }
    };
}

/// Restores the balance of a tree after the height of one side has changed by one.
fn balance(tree: &mut Tree) {
    for side in [SMALLER, LARGER] {
        let Some(top) = tree else {
            return;
        };
        if top.excess(side) > 1 {
            if top.below[side]
                .as_ref()
                .is_some_and(|below| below.excess(1 - side) > 0)
            {
                rotate(&mut top.below[side], 1 - side);
            }
            rotate(tree, side);
        }
    }
    if let Some(top) = tree {
        top.measure();
    }
}

/// The side of a node to which a key belongs; `None` if the key is the node's.
///
/// # Safety
/// `compare` accepts both keys.
unsafe fn side_of(node: &Node, key: *const c_void, compare: Compare) -> Option<usize> {
    // SAFETY: the caller's promise.
    match unsafe { compare(key, node.key) } {
        0 => None,
        1.. => Some(LARGER),
        _ => Some(SMALLER),
    }
}

/// The node of a key, which is added to the tree if it is not there.
///
/// # Safety
/// `compare` accepts the keys of the tree and this one.
unsafe fn enter(tree: &mut Tree, key: *const c_void, compare: Compare) -> *mut Node {
    let Some(top) = tree else {
        let node = tree.insert(Box::new(Node {
            key,
            below: [None, None],
            height: 1,
        }));
        return &raw mut **node;
    };
    // SAFETY: the caller's promise.
    let Some(side) = (unsafe { side_of(top, key, compare) }) else {
        return &raw mut **top;
    };
    // SAFETY: the caller's promise.
    let node = unsafe { enter(&mut top.below[side], key, compare) };
    balance(tree);
    node
}

/// Removes the smallest node of a tree and returns it.
fn take_smallest(tree: &mut Tree) -> Tree {
    let top = tree.as_mut()?;
    if top.below[SMALLER].is_some() {
        let smallest = take_smallest(&mut top.below[SMALLER]);
        balance(tree);
        return smallest;
    }
    let mut smallest = tree.take()?;
    *tree = smallest.below[LARGER].take();
    Some(smallest)
}

/// Removes the node of a key from a tree. Returns the node above it, `above` for the top; `None`
/// if the key is not there.
///
/// # Safety
/// `compare` accepts the keys of the tree and this one.
unsafe fn remove(
    tree: &mut Tree,
    key: *const c_void,
    compare: Compare,
    above: *mut Node,
) -> Option<*mut Node> {
    let top = tree.as_mut()?;
    // SAFETY: the caller's promise.
    let side = unsafe { side_of(top, key, compare) };
    let above = match side {
        Some(side) => {
            let top_at = &raw mut **top;
            // SAFETY: the caller's promise.
            unsafe { remove(&mut top.below[side], key, compare, top_at) }?
        }
        None => {
            let [smaller, mut larger] = core::mem::take(&mut top.below);
            *tree = match take_smallest(&mut larger) {
                None => smaller,
                Some(mut next) => {
                    next.below = [smaller, larger];
                    Some(next)
                }
            };
            above
        }
    };
    balance(tree);
    Some(above)
}

/// The tree behind a root that C holds.
///
/// # Safety
/// `root` is null or points to a root that only these functions have changed.
unsafe fn tree_of<'a>(root: *mut *mut c_void) -> Option<&'a mut Tree> {
    // A `Tree` is a pointer, null for `None`.
    const _: () = assert!(size_of::<Tree>() == size_of::<*mut c_void>());
    // SAFETY: the caller's promise.
    unsafe { root.cast::<Tree>().as_mut() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tsearch(
    key: *const c_void,
    root: *mut *mut c_void,
    compare: Compare,
) -> *mut c_void {
    // SAFETY: the caller's root, key and function.
    unsafe {
        match tree_of(root) {
            Some(tree) => enter(tree, key, compare).cast(),
            None => null_mut(),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tfind(
    key: *const c_void,
    root: *const *mut c_void,
    compare: Compare,
) -> *mut c_void {
    // SAFETY: the caller's root, key and function; nothing is changed.
    unsafe {
        let mut next = tree_of(root.cast_mut()).map_or(&None, |tree| &*tree);
        while let Some(node) = next {
            match side_of(node, key, compare) {
                Some(side) => next = &node.below[side],
                None => return (&raw const **node).cast_mut().cast(),
            }
        }
    }
    null_mut()
}

/// Returns a node above the removed one, or the place of the root if the root was removed; null if
/// the key is not there.
#[unsafe(no_mangle)]
unsafe extern "C" fn tdelete(
    key: *const c_void,
    root: *mut *mut c_void,
    compare: Compare,
) -> *mut c_void {
    // SAFETY: the caller's root, key and function.
    let removed = unsafe {
        let tree = tree_of(root);
        tree.and_then(|tree| remove(tree, key, compare, root.cast()))
    };
    removed.unwrap_or(null_mut()).cast()
}

/// When a walk calls the function for a node: C's `VISIT`.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Visit {
    Before = 0,
    Between = 1,
    After = 2,
    Leaf = 3,
}

/// Calls a function for each node of a tree.
fn walk(tree: &Tree, level: c_int, call: &mut impl FnMut(*const c_void, Visit, c_int)) {
    let Some(node) = tree else {
        return;
    };
    let at = (&raw const **node).cast();
    let [smaller, larger] = &node.below;
    if smaller.is_none() && larger.is_none() {
        return call(at, Visit::Leaf, level);
    }
    call(at, Visit::Before, level);
    walk(smaller, level + 1, call);
    call(at, Visit::Between, level);
    walk(larger, level + 1, call);
    call(at, Visit::After, level);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn twalk(
    root: *const c_void,
    action: unsafe extern "C" fn(*const c_void, c_int, c_int),
) {
    let mut root = root.cast_mut();
    // SAFETY: the caller's tree and function.
    unsafe {
        if let Some(tree) = tree_of(&raw mut root) {
            walk(tree, 0, &mut |node, visit, level| {
                action(node, visit as c_int, level)
            });
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn twalk_r(
    root: *const c_void,
    action: unsafe extern "C" fn(*const c_void, c_int, *mut c_void),
    closure: *mut c_void,
) {
    let mut root = root.cast_mut();
    // SAFETY: the caller's tree and function.
    unsafe {
        if let Some(tree) = tree_of(&raw mut root) {
            walk(tree, 0, &mut |node, visit, _| {
                action(node, visit as c_int, closure)
            });
        }
    }
}

/// Frees a tree, and calls `end` with each key.
fn take_apart(tree: Tree, end: &mut impl FnMut(*const c_void)) {
    if let Some(mut node) = tree {
        let [smaller, larger] = core::mem::take(&mut node.below);
        take_apart(smaller, end);
        end(node.key);
        take_apart(larger, end);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tdestroy(root: *mut c_void, end: unsafe extern "C" fn(*mut c_void)) {
    let mut root = root;
    // SAFETY: the caller's tree, which it gives up, and its function.
    unsafe {
        if let Some(tree) = tree_of(&raw mut root) {
            take_apart(tree.take(), &mut |key| end(key.cast_mut()));
        }
    }
}

// ---- Arrays ----

#[unsafe(no_mangle)]
unsafe extern "C" fn lfind(
    key: *const c_void,
    start: *const c_void,
    count: *const usize,
    size: usize,
    compare: Compare,
) -> *mut c_void {
    // SAFETY: the caller's array of `*count` elements, and its function.
    unsafe {
        let elements = (0..*count).map(|place| start.byte_add(place * size));
        let mut found = elements.filter(|element| compare(key, *element) == 0);
        found.next().map_or(null_mut(), <*const c_void>::cast_mut)
    }
}

/// As `lfind`; adds an element that is not there at the end.
#[unsafe(no_mangle)]
unsafe extern "C" fn lsearch(
    key: *const c_void,
    start: *mut c_void,
    count: *mut usize,
    size: usize,
    compare: Compare,
) -> *mut c_void {
    // SAFETY: the same contract, and room for one element more.
    unsafe {
        let found = lfind(key, start, count, size, compare);
        if !found.is_null() {
            return found;
        }
        let place = start.byte_add(*count * size);
        place
            .cast::<u8>()
            .copy_from_nonoverlapping(key.cast(), size);
        *count += 1;
        place
    }
}

// ---- Lists ----

/// The beginning of each element of a list.
#[repr(C)]
struct Link {
    next: *mut Link,
    previous: *mut Link,
}

/// Inserts an element after another one, or begins a list if that is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn insque(element: *mut Link, behind: *mut Link) {
    // SAFETY: the caller's elements, in lists of these functions.
    unsafe {
        let next = behind.as_ref().map_or(null_mut(), |behind| behind.next);
        *element = Link {
            next,
            previous: behind,
        };
        if let Some(next) = next.as_mut() {
            next.previous = element;
        }
        if let Some(behind) = behind.as_mut() {
            behind.next = element;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn remque(element: *mut Link) {
    // SAFETY: the caller's element, and those beside it.
    unsafe {
        let Link { next, previous } = *element;
        if let Some(next) = next.as_mut() {
            next.previous = previous;
        }
        if let Some(previous) = previous.as_mut() {
            previous.next = next;
        }
    }
}
