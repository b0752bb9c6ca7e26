//! Reports of libraries that move data themselves about their objects.

use alloc::vec::Vec;

use syscall::error::{EINVAL, Result};
use verbs::report::qp_report;
use verbs_abi::call;
use verbs_abi::records::{CqReport, QpReport, SrqReport};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::state_of;
use crate::context::Context;
use crate::error::fail;
use crate::object::Object;
use crate::shared::{FIRST_LIBRARY_QPN, Totals};

/// Takes reports of this kind. Returns how many of their objects exist. If a library makes up
/// numbers, only its own user and root see them.
///
/// # Errors
/// `EINVAL`: there is no such kind, or the bytes are not a whole number of reports.
pub fn take(context: &mut Context, totals: &mut Totals, kind: u64, bytes: &[u8]) -> Result<usize> {
    match kind {
        call::REPORT_QPS => each(bytes, |report| qp(context, totals, report)),
        call::REPORT_CQS => each(bytes, |report: &CqReport| {
            let cq = context.objects.cq_mut(report.cq_handle);
            cq.map(|cq| cq.report = *report).is_ok()
        }),
        call::REPORT_SRQS => each(bytes, |report: &SrqReport| {
            let srq = context.objects.srq_mut(report.srq_handle);
            srq.map(|srq| srq.report = *report).is_ok()
        }),
        _ => fail(EINVAL),
    }
}

/// Passes each report of a list to `take`. Returns how many times that returned true.
fn each<T: FromBytes + Immutable + KnownLayout>(
    bytes: &[u8],
    mut take: impl FnMut(&T) -> bool,
) -> Result<usize> {
    let mut count = 0;
    for piece in bytes.chunks(size_of::<T>()) {
        let Ok(report) = T::read_from_bytes(piece) else {
            return fail(EINVAL);
        };
        count += usize::from(take(&report));
    }
    Ok(count)
}

fn qp(context: &mut Context, totals: &mut Totals, report: &QpReport) -> bool {
    let Ok(qp) = context.objects.qp_mut(report.qp_handle) else {
        return false;
    };
    if qp.number < FIRST_LIBRARY_QPN {
        return false;
    }
    let number = qp.number;
    let before = core::mem::replace(&mut qp.report, *report);
    count(totals, &before, report);
    // A library moves its queue pair to the error states itself, to other states only by
    // MODIFY_QP.
    if let Ok(Ok(state)) = u8::try_from(report.state).map(state_of) {
        let _ = context.engine.core.follow_state(number, state);
    }
    true
}

/// Adds to the totals what a queue pair has done between two reports.
fn count(totals: &mut Totals, before: &QpReport, report: &QpReport) {
    let add = |total: &mut u64, now: u64, then: u64| {
        *total = total.wrapping_add(now.saturating_sub(then));
    };
    add(&mut totals.sends, report.sends, before.sends);
    add(&mut totals.sent_bytes, report.sent_bytes, before.sent_bytes);
    add(&mut totals.receives, report.receives, before.receives);
    let (now, then) = (report.received_bytes, before.received_bytes);
    add(&mut totals.received_bytes, now, then);
    add(&mut totals.errors, report.errors, before.errors);
    let (now, then) = (report.stored_bytes, before.stored_bytes);
    add(&mut totals.stored_bytes, now, then);
    let (now, then) = (report.loaded_bytes, before.loaded_bytes);
    add(&mut totals.loaded_bytes, now, then);
}

/// Adds to the totals what a queue pair that the daemon runs has done since the last call.
pub fn note(context: &mut Context, totals: &mut Totals, handle: u32) {
    let Ok(qp) = context.objects.qp_mut(handle) else {
        return;
    };
    let view = context.engine.core.query_qp(qp.number);
    if let (true, Ok(view)) = (qp.number < FIRST_LIBRARY_QPN, view) {
        let now = qp_report(0, &view);
        count(totals, &core::mem::replace(&mut qp.report, now), &now);
    }
}

/// Calls [`note`] for all queue pairs of a context that the daemon runs.
pub fn note_all(context: &mut Context, totals: &mut Totals) {
    let objects = context.objects.iter();
    let handles = objects.filter_map(|(handle, object)| match object {
        Object::Qp(qp) if qp.number < FIRST_LIBRARY_QPN => Some(handle),
        _ => None,
    });
    let handles: Vec<u32> = handles.collect();
    for handle in handles {
        note(context, totals, handle);
    }
}
