//! Asynchronous events, and their acknowledgements, which the destruction of an object waits for.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use runtime::time::{Duration, sleep};
use skiff_libc::points;
use verbs::Subject;

use crate::place::get;
use crate::types::{AsyncEvent, Context, Cq, EventCounts, Qp, Srq};
use crate::{Result, errno_of, minus_one};

/// Time between two checks for acknowledgements while an object is destroyed.
const LOOK: Duration = Duration::from_millis(1);

impl EventCounts {
    /// Counts an event that the program has received.
    pub fn report(&self) {
        self.reported.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts events that the program has acknowledged.
    pub fn acknowledge(&self, count: u32) {
        self.acknowledged.fetch_add(count, Ordering::SeqCst);
    }

    /// Waits until all received events are acknowledged.
    pub fn wait_acknowledged(&self) {
        let owed = || {
            let reported = self.reported.load(Ordering::SeqCst);
            reported.wrapping_sub(self.acknowledged.load(Ordering::SeqCst)) as i32
        };
        while owed() > 0 {
            sleep(LOOK);
        }
    }
}

/// Returns the counts of the object that an event is about.
fn of<'a>(element: *mut c_void, subject: Subject) -> Result<&'a EventCounts> {
    // SAFETY: events of an object go with it, and its word is its address.
    unsafe {
        Ok(match subject {
            Subject::Qp(_) => &get(element.cast::<Qp>())?.events,
            Subject::Cq(_) => &get(element.cast::<Cq>())?.events,
            Subject::Srq(_) => &get(element.cast::<Srq>())?.events,
        })
    }
}

fn next(context: *const Context, to: *mut AsyncEvent) -> Result<()> {
    // SAFETY: a context of ours.
    let context = unsafe { get(context)? };
    // The object's address, or the number of the port if the event is about the port.
    let element = |event: &verbs::AsyncEvent| {
        core::ptr::with_exposed_provenance_mut::<c_void>(event.user as usize)
    };
    let event = context.raw.events().next_with(|event| {
        // Destroying the object drops its events first, then waits for those that were counted.
        if let Some(Ok(counts)) = event.subject.map(|subject| of(element(event), subject)) {
            counts.report();
        }
    });
    let event = event.map_err(errno_of)?;
    let element = element(&event);
    let event = AsyncEvent {
        element,
        event_type: event.kind as u32,
    };
    // SAFETY: the caller's place.
    unsafe { to.write(event) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_async_event(context: *const Context, to: *mut AsyncEvent) -> c_int {
    minus_one(points::interruptible(|| next(context, to)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(event: *const AsyncEvent) {
    // SAFETY: an event that `ibv_get_async_event` gave.
    let Ok(event) = (unsafe { get(event) }) else {
        return;
    };
    let none = verbs::table::Id(0);
    let subject = match event.event_type {
        0 => Subject::Cq(none),
        1..=7 | 16 => Subject::Qp(0),
        14 | 15 => Subject::Srq(none),
        _ => return,
    };
    if let Ok(got) = of(event.element, subject) {
        got.acknowledge(1);
    }
}
