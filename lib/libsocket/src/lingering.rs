//! Sockets of messages whose end waits for room: a thread of each sends what is left, so that
//! `close` and `shutdown` need not wait.

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

/// How long the end of a process, which is the end of its threads, waits for them.
const LONGEST: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// The sockets of the threads.
static SOCKETS: Mutex<Vec<Arc<Socket>>> = Mutex::new(Vec::new());

/// The threads that have not done their last act.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

fn is_one_of(sockets: &[Arc<Socket>], socket: &Arc<Socket>) -> bool {
    sockets.iter().any(|other| Arc::ptr_eq(other, socket))
}

/// Sends what a socket has not sent yet, without waiting for it.
pub fn send_rest(socket: &Arc<Socket>) {
    if messages::drain(socket, Waiting::No) {
        return;
    }
    let mut sockets = SOCKETS.lock();
    if is_one_of(&sockets, socket) {
        return;
    }
    sockets.push(Arc::clone(socket));
    drop(sockets);
    let own = Arc::clone(socket);
    RUNNING.fetch_add(1, Ordering::AcqRel);
    let started = thread::spawn(move || {
        finish_one(&own, Waiting::Yes);
        drop(own);
        // Last: who waits for this uses nothing that the thread uses afterwards.
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    });
    if started.is_err() {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        // There is no room for a thread: it is sent here, or lost.
        finish_one(socket, Waiting::limited(LONGEST));
    }
}

/// Sends the rest, then ends what was to end behind it.
fn finish_one(socket: &Arc<Socket>, waiting: Waiting) {
    messages::drain(socket, waiting);
    // Before the state is looked at: whoever changes it looks afterwards whether this is under way.
    SOCKETS.lock().retain(|other| !Arc::ptr_eq(other, socket));
    let state = socket.state();
    if state.is_over || state.is_read_shut && state.is_write_shut {
        socket.end_endpoint();
    }
}

/// Whether the rest of a socket is under way, which ends its endpoint if that is to end.
pub fn is_under_way(socket: &Arc<Socket>) -> bool {
    is_one_of(&SOCKETS.lock(), socket)
}

/// Keeps the list as it is until [`open`].
pub fn hold() {
    core::mem::forget(SOCKETS.lock());
}

/// Ends what [`hold`] began. In the child of a fork, which has none of the threads, the list is
/// empty afterwards: what was in it.
///
/// # Safety
/// It was held, here or in the process that this one is a copy of.
pub unsafe fn open(in_child: bool) -> Vec<Arc<Socket>> {
    // SAFETY: the caller's promise.
    unsafe { SOCKETS.force_unlock() };
    match in_child {
        true => {
            RUNNING.store(0, Ordering::Release);
            core::mem::take(&mut *SOCKETS.lock())
        }
        false => Vec::new(),
    }
}

/// Waits for the threads, as the process is about to end.
pub fn finish() {
    let end = Instant::now() + LONGEST;
    while RUNNING.load(Ordering::Acquire) > 0 && Instant::now() < end {
        sleep(PAUSE);
    }
}
