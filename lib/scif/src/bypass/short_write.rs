//! Short copies into the peer's windows, and the mapping that the last one of them used. A short
//! copy does not look at the list of mappings, whose lock takes two locked instructions.

use alloc::sync::Arc;

use client_memory::pages::{Pages, Readable};
use hal::pause::yield_now;
use scif_ring::validity::enter;

use super::control::{Control, StateWord};

/// A short copy into the peer's windows that has been made. It ends when this value is dropped: a
/// locked operation, which waits until its bytes have reached memory, and is a full fence. What is
/// stored before that is on its way at the same time.
///
/// The copy counts even if a window goes meanwhile: a second store would undo what the peer has
/// done since.
pub struct ShortWrite<'a> {
    control: &'a Control,
    place: Place<'a>,
}

impl<'a> ShortWrite<'a> {
    /// Copies to an offset in the peer's registered address space, which is in the mapping of
    /// `place`. `None`: a window has gone since that was found.
    #[inline(always)]
    pub fn new(
        control: &'a Control,
        state: StateWord,
        place: Place<'a>,
        (from, offset): (Readable<'_>, i64),
    ) -> Option<Self> {
        if !enter(&mut &*control, state.epoch()) {
            return None;
        }
        let write = Self { control, place };
        let Mapped { pages, start, .. } = write.place.as_ref()?;
        let at = offset.wrapping_sub(*start) as usize;
        pages.put_short(at, from).ok().map(|()| write)
    }
}

impl Drop for ShortWrite<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.control.leave_and_fence();
    }
}

/// A mapping of a part of the peer's windows.
pub struct Mapped {
    pub pages: Arc<Pages>,
    /// The offset of its first byte in the peer's registered address space.
    pub start: i64,
    /// The state word for which it is valid.
    pub state: StateWord,
}

impl Mapped {
    /// Whether it is valid in `state` and has all of a range.
    #[inline(always)]
    fn holds(&self, state: StateWord, offset: i64, bytes: usize) -> bool {
        // Before the mapping's beginning it is a large number, which is not inside.
        let ahead = offset.wrapping_sub(self.start) as usize;
        let rest = self.pages.len().checked_sub(ahead);
        self.state == state && rest.is_some_and(|rest| bytes <= rest)
    }
}

/// The recent mapping, locked, for one copy.
pub type Place<'a> = spin::MutexGuard<'a, Option<Mapped>>;

/// The mapping that the last short copy used. It is locked for as long as a short copy takes,
/// which never waits for it; a plain store frees it.
pub struct Recent(spin::Mutex<Option<Mapped>>);

impl Recent {
    /// No mapping.
    pub const fn new() -> Self {
        Self(spin::Mutex::new(None))
    }

    /// The mapping, if it is valid in `state` and has all of a range; else what `look_up` returns.
    /// `None` also if another thread makes a copy.
    #[inline(always)]
    pub fn find_or<'a>(
        &'a self,
        state: StateWord,
        (offset, bytes): (i64, usize),
        look_up: impl FnOnce() -> Option<Place<'a>>,
    ) -> Option<Place<'a>> {
        let recent = self.0.try_lock()?;
        match recent.as_ref() {
            Some(mapped) if mapped.holds(state, offset, bytes) => Some(recent),
            _ => {
                drop(recent);
                look_up()
            }
        }
    }

    /// Replaces the mapping. `None`: another thread makes a copy.
    pub fn note(&self, mapped: Mapped) -> Option<Place<'_>> {
        let mut recent = self.0.try_lock()?;
        *recent = Some(mapped);
        Some(recent)
    }

    /// Gives the mapping up, behind a copy that is under way: the memory's owner gets it back only
    /// when no program has it mapped. A copy takes some hundred instructions.
    pub fn forget(&self) {
        loop {
            match self.0.try_lock() {
                Some(mut recent) => return *recent = None,
                None => yield_now(),
            }
        }
    }
}
