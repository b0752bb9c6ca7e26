//! Descriptors of this library's making: the counters of `eventfd`, and the sets of `epoll`.
//!
//! To the system each is the reading end of a pipe, which is all that it has for telling event
//! queues that something has changed. What a descriptor is besides is known here alone, so a
//! program that is started anew does not get it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_int;

use runtime::{Error, Result, fd, path, sys};
use syscall::error::EINTR;
use syscall::flag::{O_NONBLOCK, RwFlags};

use crate::eventfd::Counter;
use crate::sync::Shared;
use crate::{descriptor, sets};

/// What a descriptor is.
#[derive(Clone)]
pub enum Kind {
    /// A counter of `eventfd`.
    Counter(Arc<Counter>),
    /// A set of `epoll`, by its number.
    Set(usize),
}

/// The descriptors, by their numbers.
pub static KINDS: Shared<Vec<(c_int, Kind)>> = Shared::new(Vec::new());

/// Gives a new descriptor to C.
pub fn give(number: usize, kind: Kind, close_on_exec: bool) -> c_int {
    let number = descriptor::opened(number, close_on_exec);
    KINDS.with(|kinds| kinds.push((number, kind)));
    descriptor::set_own(number, true);
    number
}

/// What a descriptor is, if it is one of these.
pub fn kind(number: c_int) -> Option<Kind> {
    if !descriptor::is_own(number) {
        return None;
    }
    KINDS.with(|kinds| find(kinds, number).map(|index| kinds[index].1.clone()))
}

/// The set that a descriptor is.
pub fn set_of(number: c_int) -> Option<usize> {
    match kind(number) {
        Some(Kind::Set(set)) => Some(set),
        _ => None,
    }
}

fn find(kinds: &[(c_int, Kind)], number: c_int) -> Option<usize> {
    kinds.iter().position(|(other, _)| *other == number)
}

/// The copy is the same as the descriptor.
pub fn copied(number: c_int, copy: c_int) {
    if let Some(kind) = kind(number) {
        KINDS.with(|kinds| kinds.push((copy, kind)));
        descriptor::set_own(copy, true);
    }
}

/// The number means, or is about to mean, something else.
pub fn forget(number: c_int) {
    if !descriptor::is_own(number) {
        return;
    }
    descriptor::set_own(number, false);
    let (gone, was_last) = KINDS.with(|kinds| {
        let gone = find(kinds, number).map(|index| kinds.swap_remove(index).1);
        let same = |set| {
            kinds
                .iter()
                .any(|(_, kind)| matches!(kind, Kind::Set(other) if *other == set))
        };
        let was_last = match gone {
            Some(Kind::Set(set)) if !same(set) => Some(set),
            _ => None,
        };
        (gone, was_last)
    });
    // A counter may end with this, its memory and its pipe.
    drop(gone);
    if let Some(set) = was_last {
        sets::end(set);
    }
}

/// What tells event queues that something has changed: both ends of the pipe, out of sight of the
/// program.
pub struct Bell {
    reader: usize,
    writer: usize,
}

impl Bell {
    /// A bell, and the descriptor that event queues watch, which is the program's.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new(is_nonblocking: bool) -> Result<(Self, usize)> {
        let flags = if is_nonblocking { O_NONBLOCK } else { 0 };
        let number = path::open("/scheme/pipe", flags)?;
        let ends =
            fd::dup_upper(number, b"write").and_then(|writer| match fd::dup_upper(number, b"") {
                Ok(reader) => Ok(Self { reader, writer }),
                Err(error) => {
                    let _ = fd::close(writer);
                    Err(error)
                }
            });
        match ends {
            Ok(bell) => Ok((bell, number)),
            Err(error) => {
                let _ = fd::close(number);
                Err(error)
            }
        }
    }

    /// Makes an event. The byte is taken out again: what counts is not in the pipe, which would be
    /// full otherwise when nobody listens.
    pub fn ring(&self) {
        if fd::write(self.writer, &[1]).is_err() {
            return;
        }
        // Some more than one: a process may have been killed in between.
        let mut bytes = [0_u8; 16];
        let flags = RwFlags::NONBLOCK.bits() as usize;
        loop {
            let place = bytes.as_mut_ptr() as usize;
            let arguments = [self.reader, place, bytes.len(), usize::MAX, flags, 0];
            // SAFETY: a local array, as long as that.
            let taken = unsafe { sys::call(syscall::SYS_READ2, arguments) };
            if !matches!(taken, Err(Error { errno: EINTR })) {
                return;
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // What was opened above.
        let _ = fd::close(self.writer);
        let _ = fd::close(self.reader);
    }
}
