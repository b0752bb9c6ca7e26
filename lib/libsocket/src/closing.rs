//! Closing: the end of a socket's descriptor.

use alloc::sync::Arc;

use libscif::table;
use runtime::sync::Mutex;
use scif::raw;

use crate::messages;
use crate::socket::{self, Phase};
use crate::transfers::Transfers;

/// Forgets a descriptor that is about to be closed. With the last one end the calls that other
/// threads are in.
pub fn close(index: usize) {
    let Some(socket) = socket::take(index) else {
        return;
    };
    if !socket.drop_descriptor() {
        return;
    }
    let number = socket.number();
    let state = socket.state();
    let is_connected = state.phase == Phase::Connected;
    if is_connected && !state.is_write_shut && socket.transfers.is_some() {
        messages::end(number, &socket);
    }
    socket.update(|state| state.is_closed = true);
    // A channel that is attached has memory of the peer mapped: SCIF's connection ends when it is
    // detached. The peer is to hear of it now.
    let established = |transfers: &Mutex<Transfers>| transfers.lock().established().ok();
    let established = socket.transfers.as_ref().and_then(established);
    let link = established.and_then(|established| established.link);
    if let Some(link) = &link {
        link.say_end();
    }
    let is_in_use = Arc::strong_count(&socket) > 1;
    let is_listening = state.phase == Phase::Listening;
    if is_listening || is_connected && (is_in_use || link.is_some()) {
        // Threads that are in calls, and the bypass, keep the file open, so closing alone would end
        // nothing. What has gone already needs nothing more.
        table::forget(number);
        let _ = raw::shutdown(number);
    }
}
