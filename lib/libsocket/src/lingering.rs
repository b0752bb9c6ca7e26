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

/// A socket whose rest a thread sends.
struct Rest {
    socket: Arc<Socket>,
    /// Behind the rest this process no longer has the socket.
    leaves: bool,
}

/// Those of the threads.
static RESTS: Mutex<Vec<Rest>> = Mutex::new(Vec::new());

/// The threads that have not done their last act.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The place of a socket among those of the threads.
fn place(rests: &[Rest], socket: &Arc<Socket>) -> Option<usize> {
    let mut rests = rests.iter();
    rests.position(|rest| Arc::ptr_eq(&rest.socket, socket))
}

/// Sends what a socket has not sent yet, without waiting for it.
pub fn send_rest(socket: &Arc<Socket>) {
    if !messages::drain(socket, Waiting::No) {
        start(socket, false);
    }
}

/// Counts this process less among those that have a socket, behind what it has not sent yet: while
/// that is on its way, another process is not the last one and does not end the connection.
/// Whether this process was the last one; if that turns out later, its thread ends the connection.
pub fn leave(socket: &Arc<Socket>) -> bool {
    if messages::drain(socket, Waiting::No) {
        return socket.owners.leave();
    }
    start(socket, true);
    false
}

/// Has a thread send the rest of a socket.
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
    loop {
        // The program may have no descriptor free for the event queue.
        while !messages::drain(socket, waiting) && !waiting.is_over() {
            sleep(PAUSE);
        }
        let mut rests = RESTS.lock();
        let Some(place) = place(&rests, socket) else {
            break;
        };
        if !core::mem::take(&mut rests[place].leaves) {
            // Before the state is looked at: whoever changes it looks afterwards whether this is
            // under way.
            rests.swap_remove(place);
            break;
        }
        drop(rests);
        if messages::has_unsent(socket) {
            // The time is up. The others are not to wait for the rest of a message.
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

/// Whether the rest of a socket is under way, which ends its endpoint if that is to end.
pub fn is_under_way(socket: &Arc<Socket>) -> bool {
    place(&RESTS.lock(), socket).is_some()
}

/// Keeps the list as it is until [`open`].
pub fn hold() {
    core::mem::forget(RESTS.lock());
}

/// Ends what [`hold`] began. In the child of a fork, which has none of the threads, the list is
/// empty afterwards: what was in it.
///
/// # Safety
/// It was held, here or in the process that this one is a copy of.
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

/// Waits for the threads, as the process is about to end.
pub fn finish() {
    let end = Instant::now() + LONGEST;
    while RUNNING.load(Ordering::Acquire) > 0 && Instant::now() < end {
        sleep(PAUSE);
    }
}
