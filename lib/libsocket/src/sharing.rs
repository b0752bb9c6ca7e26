//! Sockets that processes share: what `fork` and `exec` do to them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use skiff_libc::descriptor;

use crate::count::Turn;
use crate::socket::{HIDDEN, Phase, Socket, TABLE, Table};
use crate::{Result, lingering, messages};

/// The outcome of a fork, as seen by the calling process.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Outcome {
    /// This is the parent.
    Parent,
    /// This is the child.
    Child,
    /// The fork has failed.
    Failed,
}

/// Returns the sockets of a table, each once.
fn distinct(table: &Table) -> Vec<&Arc<Socket>> {
    let mut sockets: Vec<_> = table.iter().flatten().collect();
    sockets.sort_by_key(|socket| Arc::as_ptr(socket));
    sockets.dedup_by_key(|socket| Arc::as_ptr(socket));
    sockets
}

/// Locks all sockets until [`after_fork`], and counts the child among their owners.
///
/// # Errors
/// `ENOMEM`; nothing is changed then.
pub fn before_fork() -> Result<()> {
    let table = TABLE.lock();
    let sockets = distinct(&table);
    for (index, socket) in sockets.iter().enumerate() {
        if !socket.has_link()
            && let Err(error) = socket.owners.add()
        {
            sockets[..index]
                .iter()
                .for_each(|socket| not_forked(socket));
            return Err(error);
        }
        // Either the thread that sets up the connection has seen the count, or this thread sees
        // it.
        fence(Ordering::SeqCst);
        if socket.is_establishing() {
            // The child has no such thread, and must not send the request again.
            let _ = socket.owners.begin_set_up();
        }
        // No process shared the socket when the message was begun. From now on, senders mark one.
        if messages::has_unsent(socket) {
            // If another process has gone in the middle of a message, no process can send anyway.
            let _ = socket.owners.begin_sending();
        }
    }
    lingering::hold();
    sockets.iter().for_each(|socket| socket.hold());
    core::mem::forget(HIDDEN.lock());
    core::mem::forget(table);
    Ok(())
}

/// Removes the count of a child that was not forked.
fn not_forked(socket: &Socket) {
    if !socket.has_link() {
        socket.owners.remove();
    }
}

/// Undoes the locks of [`before_fork`].
///
/// # Safety
/// `before_fork` has succeeded, in this process or in the parent of the fork that made this one.
pub unsafe fn after_fork(outcome: Outcome) {
    // SAFETY: `before_fork` has taken the lock of the table, and nobody else opens it.
    let table = unsafe { &mut *TABLE.as_mut_ptr() };
    // SAFETY: `before_fork` has taken this lock, too, and no guard of it was dropped.
    unsafe { HIDDEN.force_unlock() };
    for socket in distinct(table) {
        // SAFETY: `before_fork` has held it.
        unsafe { socket.open() };
        match outcome {
            Outcome::Parent => {}
            Outcome::Child => socket.forked(),
            Outcome::Failed => not_forked(socket),
        }
    }
    // SAFETY: `before_fork` has taken it.
    let sending = unsafe { lingering::open(outcome == Outcome::Child) };
    if outcome == Outcome::Child {
        drop_lost(table, &sending);
    }
    drop(sending);
    if outcome == Outcome::Child {
        close_lost(table);
    }
    // SAFETY: as above; no guard was dropped.
    unsafe { TABLE.force_unlock() };
}

/// In the child: drops the references that the parent's other threads had, which would keep files
/// open for ever.
fn drop_lost(table: &Table, sending: &[Arc<Socket>]) {
    let known = || table.iter().flatten().chain(sending);
    let mut sockets: Vec<_> = known().collect();
    sockets.sort_by_key(|socket| Arc::as_ptr(socket));
    sockets.dedup_by_key(|socket| Arc::as_ptr(socket));
    for socket in sockets {
        // The program's handles of the bypass hold references as well.
        if socket.has_link() {
            continue;
        }
        let here = known().filter(|other| Arc::ptr_eq(other, socket)).count();
        for _ in here..Arc::strong_count(socket) {
            // SAFETY: those counted above are of the table, the list and threads that are not
            // here: this thread, the only one, is in no call on the socket.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(socket)) };
        }
    }
}

/// In the child: closes the files of sockets that only other threads of the parent used, in a call
/// that continued after a close, or in the close itself.
fn close_lost(table: &Table) {
    let mut hidden = HIDDEN.lock();
    let mut known: Vec<usize> = table.iter().flatten().map(|known| known.number()).collect();
    known.sort_unstable();
    hidden.retain(|number| {
        let is_known = known.binary_search(number).is_ok();
        if !is_known {
            libscif::table::forget(*number);
            // The descriptor is closed even on an error.
            let _ = runtime::fd::close(*number);
        }
        is_known
    });
}

/// Whether a program that replaces this one cannot use a socket: its descriptors are closed by
/// `exec`, or it carries messages, whose state that program does not have.
fn is_left_behind(table: &Table, socket: &Arc<Socket>) -> bool {
    let is_messages = socket.transfers.is_some() && socket.state().phase == Phase::Connected;
    let mut descriptors = table.iter().enumerate();
    is_messages
        || descriptors.all(|(index, other)| {
            let is_it = other
                .as_ref()
                .is_some_and(|other| Arc::ptr_eq(other, socket));
            !is_it || descriptor::close_on_exec(index)
        })
}

/// Removes this process from the owners of sockets that `exec` leaves behind. Returns those
/// sockets, each with the turn of its count, for [`exec_failed`].
pub fn before_exec() -> Vec<(Arc<Socket>, Turn)> {
    let table = TABLE.lock();
    let sockets = distinct(&table).into_iter();
    let left_behind = sockets.filter(|socket| is_left_behind(&table, socket));
    let left = left_behind.filter_map(|socket| {
        let turn = socket.owners.leave_to_others()?;
        socket.owners.break_off();
        Some((Arc::clone(socket), turn))
    });
    left.collect()
}

/// Undoes [`before_exec`] when the program was not replaced.
pub fn exec_failed(left: Vec<(Arc<Socket>, Turn)>) {
    for (socket, turn) in left {
        socket.owners.come_back(turn);
        socket.owners.resume();
    }
}
