//! Closes the descriptors of sockets.

use alloc::sync::Arc;

use libscif::table;
use runtime::sync::Mutex;
use scif::raw;

use crate::socket::{self, Phase, Socket, Taken};
use crate::transfer::Waiting;
use crate::transfers::Transfers;
use crate::{lingering, messages};

/// Removes a descriptor that is about to be closed. Returns whether it was a socket's.
pub fn close(index: usize) -> bool {
    match socket::take(index) {
        Taken::Nothing => return false,
        Taken::Copy => {}
        Taken::Last(socket) => let_go(&socket),
    }
    true
}

/// Releases a socket whose last descriptor is about to be closed or replaced. Calls in which other
/// threads use the socket end.
pub fn let_go(socket: &Arc<Socket>) {
    let is_in_use = Arc::strong_count(socket) > 1;
    let phase = socket.state().phase;
    socket.update(|state| state.is_closed = true);
    // An attached channel maps memory of the peer, and SCIF's connection ends only when the
    // channel is detached. The peer has to learn of the end now.
    let established = |transfers: &Mutex<Transfers>| transfers.lock().established().ok();
    let established = socket.transfers.as_ref().and_then(established);
    let link = established.and_then(|established| established.link);
    let is_connected = phase == Phase::Connected;
    if !leave(socket) {
        return;
    }
    socket.update(|state| state.is_over = true);
    if let Some(link) = &link {
        link.say_end();
    }
    if is_connected && link.is_none() && socket.transfers.is_some() {
        end_messages(socket);
    }
    // Threads in calls, and the bypass, keep the file open, so closing the descriptor would not
    // end the endpoint.
    let is_set_up = is_connected || socket.is_establishing();
    let is_kept = is_set_up && is_in_use || link.is_some();
    if phase == Phase::Listening || is_kept {
        match lingering::is_under_way(socket) {
            false => socket.end_endpoint(),
            // The rest is still sent, but threads that sleep in a receive wake up. If the peer has
            // gone, they wake up anyway.
            true => drop(raw::finish_receiving(socket.number())),
        }
    }
}

/// Removes this process from a socket's owners. Returns whether it was the last one, which then
/// ends the connection.
fn leave(socket: &Arc<Socket>) -> bool {
    if !socket.owners.is_shared() {
        return socket.owners.leave();
    }
    // The socket stays open in another process. This process sends its unsent bytes through the
    // driver, and gives up its use of the rings, which must not be in the middle of those bytes.
    table::forget(socket.number());
    lingering::leave(socket)
}

/// Ends a socket of messages, and waits as long as `SO_LINGER` says.
fn end_messages(socket: &Arc<Socket>) {
    messages::close(socket);
    let linger = socket.options.lock().linger();
    if let Some(limit) = linger {
        messages::drain(socket, Waiting::limited(limit));
    }
    lingering::send_rest(socket);
}

/// Closes all sockets at the end of the process: those of messages end as if by `close`.
pub fn close_all() {
    for index in 0..socket::numbers() {
        let Taken::Last(socket) = socket::take(index) else {
            continue;
        };
        if leave(&socket) && socket.state().phase == Phase::Connected {
            messages::close(&socket);
            lingering::send_rest(&socket);
        }
    }
    lingering::finish();
}
