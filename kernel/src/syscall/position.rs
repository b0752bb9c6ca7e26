//! The position of a description whose offset the kernel keeps. One call at a time has it, as POSIX
//! demands for calls of several threads or processes on one open file: each read or write begins
//! where the one before has ended.

use ::syscall::error::{EINTR, Error, Result};

use crate::object::{Description, InternalFlags};
use crate::sched::WaitQueue;
use crate::scheme::{NO_OFFSET, SchemeRef};

/// Contexts that wait for the position of any description. Calls on one file seldom meet.
static WAITERS: WaitQueue = WaitQueue::new();

/// The position of a description, until it is dropped.
pub struct Position<'a> {
    file: &'a Description,
    /// The kernel keeps the offset.
    is_kept: bool,
}

impl<'a> Position<'a> {
    /// Waits until no other call has the position.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn take(file: &'a Description) -> Result<Self> {
        let attempt = || {
            file.update(|state| {
                let internal = &mut state.internal;
                if !internal.contains(InternalFlags::POSITIONED) {
                    return Some(false);
                }
                let is_in_use = internal.contains(InternalFlags::IN_USE);
                internal.insert(match is_in_use {
                    true => InternalFlags::AWAITED,
                    false => InternalFlags::IN_USE,
                });
                (!is_in_use).then_some(true)
            })
        };
        let is_kept = WAITERS.wait(None, attempt).map_err(|_| Error::new(EINTR))?;
        Ok(Self { file, is_kept })
    }

    /// The offset at which a read or write starts; [`NO_OFFSET`] if the kernel keeps none.
    ///
    /// # Errors
    /// Those of [`present`](Self::present).
    pub fn offset(&self, scheme: &SchemeRef) -> Result<u64> {
        match self.is_kept {
            true => self.present(scheme),
            false => Ok(NO_OFFSET),
        }
    }

    /// The offset for data that is appended, on which it does not depend: the one before.
    pub fn former(&self) -> u64 {
        match self.is_kept {
            true => self.file.state().offset,
            false => NO_OFFSET,
        }
    }

    /// The present offset. Behind data that was appended it is the file's size, which only the
    /// scheme knows.
    ///
    /// # Errors
    /// Those of the scheme's `fsize`.
    pub fn present(&self, scheme: &SchemeRef) -> Result<u64> {
        let state = self.file.state();
        if !state.internal.contains(InternalFlags::AT_END) {
            return Ok(state.offset);
        }
        let end = scheme.fsize(self.file.number())?;
        self.set(end);
        Ok(end)
    }

    /// Sets the offset.
    pub fn set(&self, offset: u64) {
        self.file.update(|state| {
            state.internal.remove(InternalFlags::AT_END);
            state.offset = offset;
        });
    }

    /// Moves the offset behind `count` bytes that were read or written from it on.
    pub fn advance(&self, count: usize) {
        if self.is_kept {
            self.file
                .update(|state| state.offset = state.offset.saturating_add(count as u64));
        }
    }

    /// Moves the offset to the file's end, behind data that was appended.
    pub fn go_to_end(&self) {
        if self.is_kept {
            self.file
                .update(|state| state.internal.insert(InternalFlags::AT_END));
        }
    }
}

impl Drop for Position<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            return;
        }
        let is_awaited = self.file.update(|state| {
            let is_awaited = state.internal.contains(InternalFlags::AWAITED);
            let use_of_it = InternalFlags::IN_USE | InternalFlags::AWAITED;
            state.internal.remove(use_of_it);
            is_awaited
        });
        if is_awaited {
            WAITERS.wake_all();
        }
    }
}
