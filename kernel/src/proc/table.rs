//! File tables: the descriptor numbers of a process.

use alloc::{sync::Arc, vec::Vec};

use core::sync::atomic::{AtomicBool, Ordering};

use ::syscall::error::{EBADF, EEXIST, EINVAL, EMFILE, ENOMEM, Error, Result};
use kernel_core::slots::{SlotError, SlotTable};
use spin::Mutex;

use super::caller;
use crate::{
    mm,
    object::{Description, deferred},
};

/// The descriptors of a process; its threads share one table. Dropping the table closes all its
/// descriptors.
#[derive(Debug, Default)]
pub struct FileTable {
    slots: Mutex<SlotTable<Arc<Description>>>,
    /// Whether a context has run with it. Until then it is no process that has these descriptors,
    /// but a copy of one's, and the locks of that process do not end with the copy.
    is_used: AtomicBool,
}

fn list_error(error: SlotError) -> Error {
    Error::new(match error {
        SlotError::Limit => EMFILE,
        SlotError::Taken => EEXIST,
        SlotError::Empty => EBADF,
        SlotError::Duplicate | SlotError::Length => EINVAL,
        SlotError::Memory => ENOMEM,
    })
}

impl FileTable {
    /// The description behind `fd`, or `EBADF`.
    pub fn get(&self, fd: usize) -> Result<Arc<Description>> {
        self.slots.lock().get(fd).cloned().ok_or(Error::new(EBADF))
    }

    /// Puts `file` at `fd`. A refusal (taken or out of range) gives `errno`, except for `ENOMEM`.
    pub fn insert(&self, fd: usize, file: Arc<Description>, errno: i32) -> Result<usize> {
        // A refused description is dropped after the lock is released.
        let result = self.slots.lock().insert(fd, file);
        match result {
            Ok(()) => Ok(fd),
            Err((SlotError::Memory, _)) => Err(Error::new(ENOMEM)),
            Err(_) => Err(Error::new(errno)),
        }
    }

    /// The refusal of [`insert`](Self::insert), or with `replaces` of
    /// [`replace`](Self::replace), if it came now: before a call that has an effect elsewhere.
    pub fn check(&self, fd: usize, replaces: bool, errno: i32) -> Result<()> {
        match self.slots.lock().check_insert(fd) {
            Err(SlotError::Taken) if replaces => Ok(()),
            checked => checked.map_err(|_| Error::new(errno)),
        }
    }

    /// Takes a descriptor out without closing it, or `EBADF`.
    pub fn take(&self, fd: usize) -> Result<Arc<Description>> {
        self.slots.lock().remove(fd).ok_or(Error::new(EBADF))
    }

    /// Puts `file` at `fd` and closes the one before; `EMFILE` when `fd` is out of range,
    /// `ENOMEM`.
    pub fn replace(&self, fd: usize, file: Arc<Description>) -> Result<()> {
        let mut slots = self.slots.lock();
        let old = slots.remove(fd);
        let result = slots.insert(fd, file);
        drop(slots);
        if let Some(old) = old {
            self.close(old);
        }
        result.map_err(|(error, _)| list_error(error))
    }

    /// Takes several descriptors out, all or none. `EBADF` for an unused number or one named
    /// twice, `EMFILE` for one out of range.
    pub fn take_all(&self, fds: &[usize]) -> Result<Vec<Arc<Description>>> {
        self.slots.lock().remove_all(fds).map_err(taken_error)
    }

    /// Copies several descriptors, all or none; errors as [`FileTable::take_all`].
    pub fn get_all(&self, fds: &[usize]) -> Result<Vec<Arc<Description>>> {
        self.slots.lock().get_all(fds).map_err(taken_error)
    }

    /// Puts several descriptors in, all or none; returns refused ones. `EMFILE` for a number out
    /// of range, `EEXIST` for a taken one, `EINVAL` for one named twice.
    pub fn insert_all(
        &self,
        fds: &[usize],
        files: Vec<Arc<Description>>,
    ) -> core::result::Result<(), (Error, Vec<Arc<Description>>)> {
        let result = self.slots.lock().insert_all(fds, files);
        result.map_err(|(error, files)| (list_error(error), files))
    }

    /// Makes the number space of `which` at least `size` long: `EMFILE`, `EINVAL` for less,
    /// `ENOMEM`.
    pub fn resize(&self, which: usize, size: usize) -> Result<()> {
        self.slots.lock().resize(which, size).map_err(list_error)
    }

    /// The numbers in use, plain ones first; `ENOMEM`.
    pub fn numbers(&self) -> Result<Vec<usize>> {
        let slots = self.slots.lock();
        let mut numbers = mm::list_for(slots.len())?;
        numbers.extend(slots.iter().map(|(number, _)| number));
        Ok(numbers)
    }

    /// All descriptors with their numbers; `ENOMEM`.
    pub fn entries(&self) -> Result<Vec<(usize, Arc<Description>)>> {
        let slots = self.slots.lock();
        let mut entries = mm::list_for(slots.len())?;
        entries.extend(slots.iter().map(|(number, file)| (number, file.clone())));
        Ok(entries)
    }

    /// Calls `visit` with the description of each descriptor, up to the first error; `visit` must
    /// not use the table.
    pub fn visit(&self, mut visit: impl FnMut(&Arc<Description>) -> Result<()>) -> Result<()> {
        let slots = self.slots.lock();
        slots.iter().try_for_each(|(_, file)| visit(file))
    }

    /// A table with the same descriptors under the same numbers; `ENOMEM`.
    pub fn copy(&self) -> Result<Self> {
        let slots = self.slots.lock().copy().map_err(list_error)?;
        Ok(Self {
            slots: Mutex::new(slots),
            is_used: AtomicBool::new(false),
        })
    }

    /// Records that a context runs with it.
    pub fn set_used(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Closes a descriptor that was taken out, and notifies its scheme if it asked for that.
    pub fn close(&self, file: Arc<Description>) {
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        if let Some(notice) = file.take_notice(|| caller().pid) {
            deferred::defer(notice);
        }
    }
}

fn taken_error(error: SlotError) -> Error {
    match error {
        SlotError::Duplicate => Error::new(EBADF),
        other => list_error(other),
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        let mut slots = core::mem::take(self.slots.get_mut());
        slots.drain().for_each(|file| self.close(file));
    }
}
