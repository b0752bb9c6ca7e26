//! The table of a C program's endpoint descriptors: it has the data path of each, a [`Bypass`].
//!
//! C has only numbers, so the table is indexed by them. After `close` and `dup2` a number names
//! something else; the C library reports that ([`skiff_scif_forget`]) before the number becomes
//! free. Another thread may still be in a call then, perhaps asleep. The data path that it uses is
//! kept until no thread is in a call on that number.

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use client_memory::range::Range;
use client_memory::retire::Retired;
use scif::bypass::{Bypass, Waiting};
use syscall::flag::UPPER_FDTBL_TAG;

use crate::system::is_alone;

/// Descriptors in a row of the table.
const ROW: usize = 256;
/// Rows, allocated on first use: enough for all descriptors that a process can have in a table.
const ROWS: usize = 256;

/// Says how blocking calls wait: `poll` or `sleep`; anything else lets them poll for a while
/// first, then sleep.
const WAITING_VARIABLE: &CStr = c"SKIFF_SCIF_WAITING";

unsafe extern "C" {
    /// A function of the C library.
    fn getenv(name: *const c_char) -> *const c_char;
}

/// Has its own cache line, so that threads in calls on different numbers do not slow each other
/// down, and a slot is found by a shift.
#[repr(align(64))]
struct Slot {
    /// From a box; null if there is none yet.
    bypass: AtomicPtr<Bypass>,
    /// Counts threads in calls on the number, and holds the addresses of boxes closed meanwhile.
    retired: Retired<usize>,
}

type Row = [Slot; ROW];
/// From boxes that are never dropped; null while none of a row's numbers was used.
type Table = [AtomicPtr<Row>; ROWS];

/// The table of the numbers that programs see.
static TABLE: Table = [const { AtomicPtr::new(null_mut()) }; ROWS];
/// The table of the numbers that libraries keep to themselves.
static UPPER: Table = [const { AtomicPtr::new(null_mut()) }; ROWS];

/// Returns the table that a number is in, and its index there.
fn place(number: usize) -> (&'static Table, usize) {
    match number & UPPER_FDTBL_TAG {
        0 => (&TABLE, number),
        tag => (&UPPER, number & !tag),
    }
}

/// Returns a row, if it exists.
#[inline]
fn known_row(place: &'static AtomicPtr<Row>) -> Option<&'static Row> {
    // SAFETY: null, or from a box that is never dropped and only shared.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

fn slot(number: usize) -> Option<&'static Slot> {
    let (table, number) = place(number);
    let place = table.get(number / ROW)?;
    let row = match known_row(place) {
        Some(row) => row,
        None => new_row(place)?,
    };
    Some(&row[number % ROW])
}

/// Allocates a row, unless another thread does so first.
#[cold]
fn new_row(place: &'static AtomicPtr<Row>) -> Option<&'static Row> {
    let empty = |_| Slot {
        bypass: AtomicPtr::new(null_mut()),
        retired: Retired::default(),
    };
    // A whole row is never on the stack, which may be small.
    let new = (0..ROW).map(empty).collect::<Box<[Slot]>>();
    let new = Box::into_raw(Box::<Row>::try_from(new).ok()?);
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    if place
        .compare_exchange(null_mut(), new, success, failure)
        .is_err()
    {
        // SAFETY: made above, and no other thread has it.
        drop(unsafe { Box::from_raw(new) });
    }
    known_row(place)
}

/// Returns the slot of a number, if its row exists.
#[inline]
fn known_slot(table: &'static Table, number: usize) -> Option<&'static Slot> {
    Some(&known_row(table.get(number / ROW)?)?[number % ROW])
}

/// Marks that a thread is in a call on a number.
struct User(&'static Slot);

impl User {
    fn enter(slot: &'static Slot) -> Self {
        match is_alone() {
            true => slot.retired.enter_alone(),
            false => slot.retired.enter(),
        }
        Self(slot)
    }
}

impl Drop for User {
    #[inline]
    fn drop(&mut self) {
        // A call that began alone ends alone; if there is another thread, the call was counted.
        let may_be_unused = match is_alone() {
            true => self.0.retired.leave_alone(),
            false => self.0.retired.leave(),
        };
        if may_be_unused {
            reclaim_unused(self.0);
        }
    }
}

/// Drops data paths that were closed on a number and are no longer used.
#[cold]
#[inline(never)]
fn reclaim_unused(slot: &Slot) {
    reclaim(slot.retired.take_unused());
}

/// Drops data paths that were closed and are no longer used.
fn reclaim(boxes: Vec<usize>) {
    for address in boxes {
        // SAFETY: from `Box::into_raw` below, taken out of the slot once and given back once, when
        // no thread that entered before that is in a call any more.
        drop(unsafe { Box::from_raw(with_exposed_provenance_mut::<Bypass>(address)) });
    }
}

/// Returns how blocking calls of this program wait, according to the environment.
pub fn waiting() -> Waiting {
    static KNOWN: spin::Once<Waiting> = spin::Once::new();
    *KNOWN.call_once(|| {
        // SAFETY: the name is a C string.
        let value = unsafe { getenv(WAITING_VARIABLE.as_ptr()) };
        if value.is_null() {
            return Waiting::Adaptive;
        }
        // SAFETY: `getenv` returns a C string, which the program does not change meanwhile.
        match unsafe { CStr::from_ptr(value) }.to_bytes() {
            b"poll" => Waiting::Poll,
            b"sleep" => Waiting::Sleep,
            _ => Waiting::Adaptive,
        }
    })
}

/// Runs `action` with the data path of an endpoint.
pub fn with<T>(number: usize, action: impl FnOnce(&Bypass) -> T) -> T {
    let Some(slot) = slot(number) else {
        // No process has that many descriptors, so the data path is not kept.
        return action(&Bypass::new());
    };
    let _user = User::enter(slot);
    let mut bypass = slot.bypass.load(Ordering::SeqCst);
    if bypass.is_null() {
        let new = Bypass::new();
        new.set_waiting(waiting());
        let new = Box::into_raw(Box::new(new));
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        bypass = match slot
            .bypass
            .compare_exchange(null_mut(), new, order.0, order.1)
        {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and no other thread has it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
    // SAFETY: from a box that is not dropped while `_user` exists.
    action(unsafe { &*bypass })
}

/// Runs `action` with the data path of a number, if it has one: then it was a file of the scheme
/// when a call made the path, and calls on another file there fail. Otherwise returns `None`, and
/// the caller has to find out what the number is. Unlike the list of all descriptors, this takes no
/// lock.
#[inline]
pub fn with_known<T>(number: c_int, action: impl FnOnce(usize, &Bypass) -> T) -> Option<T> {
    let number = usize::try_from(number).ok()?;
    let slot = known_slot(&TABLE, number)?;
    let _user = User::enter(slot);
    let bypass = slot.bypass.load(Ordering::SeqCst);
    if bypass.is_null() {
        return None;
    }
    // SAFETY: as in `with`.
    Some(action(number, unsafe { &*bypass }))
}

/// As [`with_known`], for an action that does not wait, start a thread or close a number. So the
/// only thread of a process does not record that it is in a call.
#[inline(always)]
pub fn at_once<T>(number: c_int, action: impl FnOnce(&Bypass) -> T) -> Option<T> {
    // A negative number becomes greater than all that are in the table.
    let slot = known_slot(&TABLE, number as u32 as usize)?;
    let is_noted = !is_alone();
    if is_noted {
        slot.retired.enter();
    }
    let bypass = slot.bypass.load(Ordering::SeqCst);
    // SAFETY: as in `with`; or there is no other thread to drop it.
    let result = unsafe { bypass.as_ref() }.map(action);
    if is_noted && slot.retired.leave() {
        reclaim_unused(slot);
    }
    result
}

/// As [`at_once`], if the calling thread is the only one of the process.
#[inline(always)]
pub fn at_once_alone<T>(number: c_int, action: impl FnOnce(&Bypass) -> T) -> Option<T> {
    if !is_alone() {
        return None;
    }
    let slot = known_slot(&TABLE, number as u32 as usize)?;
    let bypass = slot.bypass.load(Ordering::SeqCst);
    // SAFETY: there is no other thread to drop it.
    unsafe { bypass.as_ref() }.map(action)
}

/// Unmaps the memory that an endpoint's data path, if there is one, has mapped of ended windows.
#[cfg(target_os = "redox")]
pub fn release_stale(number: usize) {
    let Some(slot) = slot(number) else {
        return;
    };
    let _user = User::enter(slot);
    let bypass = slot.bypass.load(Ordering::SeqCst);
    if !bypass.is_null() {
        // SAFETY: as in `with`.
        unsafe { &*bypass }.release_stale();
    }
}

/// For the C library: the number is about to name something else.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_forget(number: c_int) {
    if let Ok(number) = usize::try_from(number) {
        forget(number);
    }
}

/// For the C library: whether all of these bytes, at least one, can be read.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_can_read(start: *const c_void, length: usize) -> bool {
    // SAFETY: nothing is read.
    let range = unsafe { Range::new(start.addr(), length) };
    range.readable().is_some()
}

/// Retires the data path of a number that is about to name something else. Calls of other threads
/// on it end.
pub fn forget(number: usize) {
    let (table, number) = place(number);
    let Some(slot) = known_slot(table, number) else {
        return;
    };
    let old = slot.bypass.swap(null_mut(), Ordering::SeqCst);
    if old.is_null() {
        return;
    }
    // SAFETY: from a box, which is dropped by `reclaim` alone, and that only below.
    unsafe { &*old }.detach();
    reclaim(slot.retired.retire(old.expose_provenance()));
}

/// Cleans up in the child of a fork, which has neither the mappings nor the threads that were in
/// calls; its only thread is in no call.
#[cfg(target_os = "redox")]
pub fn close_in_child() {
    for row in TABLE.iter().chain(&UPPER).filter_map(known_row) {
        for slot in row.iter() {
            let bypass = slot.bypass.swap(null_mut(), Ordering::SeqCst);
            if !bypass.is_null() {
                // The box and its mappings are the parent's, so it is not dropped.
                // SAFETY: from a box that nobody drops here.
                unsafe { &*bypass }.close_in_child();
            }
            slot.retired.forget_users();
        }
    }
}
