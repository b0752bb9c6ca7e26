//! Closing: the end of a socket's descriptor.

use runtime::sync::Mutex;
use scif::raw;

use crate::messages;
use crate::socket::{self, Phase};
use crate::transfers::Transfers;

/// Forgets a descriptor that is about to be closed. Calls of other threads go on with what they
/// have, but a listener's end, and a connection's with the bypass.
pub fn close(index: usize) {
    let Some(socket) = socket::get(index) else {
        return;
    };
    let is_last = socket.drop_descriptor();
    if is_last {
        let state = socket.state();
        let is_open = state.phase == Phase::Connected && !state.is_write_shut;
        if is_open && socket.transfers.is_some() {
            messages::end(index, &socket);
        }
        socket.update(|state| state.is_closed = true);
    }
    socket::take(index);
    let has_bypass = |transfers: &Mutex<Transfers>| transfers.lock().has_bypass();
    let is_shared = match socket.state().phase {
        Phase::Listening => true,
        Phase::Connected => socket.transfers.as_ref().is_some_and(has_bypass),
        _ => false,
    };
    if is_last && is_shared {
        // A channel that is attached has memory of the peer mapped: SCIF's connection ends when it
        // is detached. The peer is to hear of it now.
        let established = |transfers: &Mutex<Transfers>| transfers.lock().established().ok();
        let established = socket.transfers.as_ref().and_then(established);
        if let Some(link) = established.and_then(|established| established.link) {
            link.say_end();
        }
        // Threads that wait in `accept`, and the bypass, keep the file open, so closing alone would
        // end nothing. What has gone already needs nothing more.
        let _ = raw::shutdown(index);
    }
}
