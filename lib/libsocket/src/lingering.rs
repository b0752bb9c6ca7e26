//! Threads that send what sockets of messages (Scheduled Transfers without the bypass) have not
//! sent yet, one for each such socket, so that `close` and `shutdown` need not wait for room.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use runtime::sync::Mutex;
use runtime::thread;
use runtime::time::{Instant, sleep};

use crate::messages;
use crate::socket::Socket;
use crate::transfer::Waiting;

/// How long the end of a process, which ends its threads, waits for them.
const LONGEST: Duration = Duration::from_secs(30);
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(2);

/// A socket whose unsent bytes a thread sends.
struct Rest {
    socket: Arc<Socket>,
    /// After that, this process no longer counts as an owner of the socket.
    leaves: bool,
}

/// The sockets of all such threads.
static RESTS: Mutex<Vec<Rest>> = Mutex::new(Vec::new());

/// The number of threads that may still use a socket.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Finds the index of a socket in the list.
fn place(rests: &[Rest], socket: &Arc<Socket>) -> Option<usize> {
    let mut rests = rests.iter();
    rests.position(|rest| Arc::ptr_eq(&rest.socket, socket))
}

/// Sends what a socket has not sent yet, without waiting: what does not fit is left to a thread.
pub fn send_rest(socket: &Arc<Socket>) {
    if !messages::drain(socket, Waiting::No) {
        start(socket, false);
    }
}

/// Removes this process from a socket's owners once it has sent what is unsent. Until then, no
/// other process is the last owner, so none ends the connection. Returns whether this process was
/// the last owner. If a thread still has to send, returns `false`, and the thread ends the
/// connection if this process is the last owner then.
pub fn leave(socket: &Arc<Socket>) -> bool {
    if messages::drain(socket, Waiting::No) {
        return socket.owners.leave();
    }
    start(socket, true);
    false
}

/// Starts a thread that sends a socket's unsent bytes, unless there is one.
fn start(socket: &Arc<Socket>, leaves: bool) {
    let mut rests = RESTS.lock();
    if let Some(place) = place(&rests, socket) {
        rests[place].leaves |= leaves;
        return;
    }
    let own = Arc::clone(socket);
    rests.push(Rest {
        socket: Arc::clone(socket),
        leaves,
    });
    drop(rests);
    RUNNING.fetch_add(1, Ordering::AcqRel);
    let started = thread::spawn(move || {
        finish_one(&own, Waiting::Yes);
        drop(own);
        // The thread's last action: after it, the thread uses nothing that waiters may take down.
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    });
    if started.is_err() {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        // No thread could be started: the bytes are sent here, or lost.
        finish_one(socket, Waiting::limited(LONGEST));
    }
}

/// Sends the unsent bytes, then does what had to wait for that.
fn finish_one(socket: &Arc<Socket>, waiting: Waiting) {
    loop {
        // Draining fails if the program has no free descriptor for the event queue.
        while !messages::drain(socket, waiting) && !waiting.is_over() {
            sleep(PAUSE);
        }
        let mut rests = RESTS.lock();
        let Some(place) = place(&rests, socket) else {
            break;
        };
        if !core::mem::take(&mut rests[place].leaves) {
            // Removed before the state is read: whoever changes the state checks `is_under_way`
            // afterwards.
            rests.swap_remove(place);
            break;
        }
        drop(rests);
        if messages::has_unsent(socket) {
            // The time is up. Other processes must not wait for the rest of a message.
            socket.owners.break_off();
        }
        if socket.owners.leave() {
            socket.update(|state| state.is_over = true);
            messages::close(socket);
        }
    }
    let state = socket.state();
    if state.is_over || state.is_read_shut && state.is_write_shut {
        socket.end_endpoint();
    }
}

/// Whether a thread sends a socket's unsent bytes; it also ends the endpoint, if that has to end.
pub fn is_under_way(socket: &Arc<Socket>) -> bool {
    place(&RESTS.lock(), socket).is_some()
}

/// Locks the list until [`open`].
pub fn hold() {
    core::mem::forget(RESTS.lock());
}

/// Unlocks what [`hold`] locked. The child of a fork has none of the threads: there, the list is
/// emptied, and its sockets are returned.
///
/// # Safety
/// The list was held, in this process or in the parent of the fork that made this one.
pub unsafe fn open(in_child: bool) -> Vec<Arc<Socket>> {
    // SAFETY: the caller's promise.
    unsafe { RESTS.force_unlock() };
    match in_child {
        true => {
            RUNNING.store(0, Ordering::Release);
            let rests = core::mem::take(&mut *RESTS.lock());
            rests.into_iter().map(|rest| rest.socket).collect()
        }
        false => Vec::new(),
    }
}

/// Waits for the threads, for at most `LONGEST`, as the process is about to end.
pub fn finish() {
    let end = Instant::now() + LONGEST;
    while RUNNING.load(Ordering::Acquire) > 0 && Instant::now() < end {
        sleep(PAUSE);
    }
}
