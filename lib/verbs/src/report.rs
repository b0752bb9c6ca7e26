//! The reports of queue pairs that the device's daemon shows: those that a library or an engine of
//! the daemon runs by the rules of verbs.

use verbs_abi::records::QpReport;
use verbs_core::context::QpView;

/// The report of a queue pair. `qp_handle`: the daemon's handle of it; 0 if that is not needed.
pub fn qp_report(qp_handle: u32, view: &QpView) -> QpReport {
    QpReport {
        qp_handle,
        state: view.state as u32,
        queued_sends: view.queued.0 as u32,
        queued_receives: view.queued.1 as u32,
        sends: view.traffic.sends,
        sent_bytes: view.traffic.sent_bytes,
        receives: view.traffic.receives,
        received_bytes: view.traffic.received_bytes,
        errors: view.traffic.errors,
        stored_bytes: view.traffic.stored_bytes,
        loaded_bytes: view.traffic.loaded_bytes,
    }
}
