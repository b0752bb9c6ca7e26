//! File tables: descriptor numbers of a process.

use alloc::{sync::Arc, vec::Vec};

use ::syscall::error::{EBADF, EEXIST, EINVAL, EMFILE, Error, Result};
use kernel_core::slots::{SlotError, SlotTable};
use spin::Mutex;

use super::caller;
use crate::object::{
    Description, InternalFlags,
    deferred::{self, Work},
};

/// The descriptors of a process; its threads share one table. When the table goes away, all its
/// descriptors are closed.
#[derive(Debug, Default)]
pub struct FileTable {
    slots: Mutex<SlotTable<Arc<Description>>>,
}

fn list_error(error: SlotError) -> Error {
    Error::new(match error {
        SlotError::Limit => EMFILE,
        SlotError::Taken => EEXIST,
        SlotError::Empty => EBADF,
        SlotError::Duplicate | SlotError::Length => EINVAL,
    })
}

impl FileTable {
    /// The description behind `fd`, or `EBADF`.
    pub fn get(&self, fd: usize) -> Result<Arc<Description>> {
        self.slots.lock().get(fd).cloned().ok_or(Error::new(EBADF))
    }

    /// Puts `file` at `fd`; any refusal (taken or out of range) is `errno`.
    pub fn insert(&self, fd: usize, file: Arc<Description>, errno: i32) -> Result<usize> {
        // A refused description is dropped after the lock.
        let result = self.slots.lock().insert(fd, file);
        result.map(|()| fd).map_err(|_| Error::new(errno))
    }

    /// Takes a descriptor out without closing it, or `EBADF`.
    pub fn take(&self, fd: usize) -> Result<Arc<Description>> {
        self.slots.lock().remove(fd).ok_or(Error::new(EBADF))
    }

    /// Puts `file` at `fd` and closes what was there; `EMFILE` when `fd` is out of range.
    pub fn replace(&self, fd: usize, file: Arc<Description>) -> Result<()> {
        let mut slots = self.slots.lock();
        let old = slots.remove(fd);
        let result = slots.insert(fd, file);
        drop(slots);
        if let Some(old) = old {
            close(old);
        }
        result.map_err(|_| Error::new(EMFILE))
    }

    /// Takes several descriptors out, all or none. A number that is named twice or stands for
    /// nothing is `EBADF`, one out of range `EMFILE`.
    pub fn take_all(&self, fds: &[usize]) -> Result<Vec<Arc<Description>>> {
        self.slots.lock().remove_all(fds).map_err(taken_error)
    }

    /// Copies several descriptors, all or none; errors as [`FileTable::take_all`].
    pub fn get_all(&self, fds: &[usize]) -> Result<Vec<Arc<Description>>> {
        self.slots.lock().get_all(fds).map_err(taken_error)
    }

    /// Puts several descriptors in, all or none; refused ones are dropped. A number out of range
    /// is `EMFILE`, a taken one `EEXIST`, one named twice `EINVAL`.
    pub fn insert_all(&self, fds: &[usize], files: Vec<Arc<Description>>) -> Result<()> {
        let result = self.slots.lock().insert_all(fds, files);
        result.map_err(|(error, _)| list_error(error))
    }

    /// Makes the number space of `which` at least `size` long: `EMFILE`, `EINVAL` for less.
    pub fn resize(&self, which: usize, size: usize) -> Result<()> {
        self.slots.lock().resize(which, size).map_err(list_error)
    }

    /// Numbers in use, plain ones first.
    pub fn numbers(&self) -> Vec<usize> {
        self.slots.lock().iter().map(|(number, _)| number).collect()
    }

    /// All descriptors with their numbers.
    pub fn entries(&self) -> Vec<(usize, Arc<Description>)> {
        self.slots
            .lock()
            .iter()
            .map(|(number, file)| (number, file.clone()))
            .collect()
    }

    /// A table with the same descriptors under the same numbers.
    pub fn copy(&self) -> Self {
        Self {
            slots: Mutex::new(self.slots.lock().clone()),
        }
    }
}

fn taken_error(error: SlotError) -> Error {
    match error {
        SlotError::Duplicate => Error::new(EBADF),
        other => list_error(other),
    }
}

/// Closes one descriptor, and notifies its scheme if that asked for it.
pub fn close(file: Arc<Description>) {
    let internal = file.state().internal;
    if internal.contains(InternalFlags::NOTIFY_ON_DETACH) {
        let (scheme, number) = (file.scheme(), file.number());
        deferred::defer(Work::Detach {
            scheme,
            number,
            pid: caller().pid,
        });
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        self.slots.get_mut().drain().into_iter().for_each(close);
    }
}
