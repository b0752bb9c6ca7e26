//! `sys/epoll.h`: sets of descriptors, built on what `poll` does.
//!
//! A set is a list. Each wait makes entries for `poll` from it; if a member is a set, the entries
//! of its own members follow. The wait then reports what was found, as far as the program asked
//! for it. Nothing is subscribed between two waits, so nothing has to be kept in step with the
//! system.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_short, c_void};
use core::time::Duration;

use runtime::time::Instant;
use runtime::{Error, Result};
use syscall::error::{EBADF, EFAULT, EINVAL};

use crate::bell::Bell;
use crate::own::{self, Kind};
use crate::sets::{self, EDGE, EVENTS, SETS, Sets, stamp};
use crate::watch::{self, Entry, IN, IN_NORMAL, NVAL};
use crate::{descriptor, errno, points};

const CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;

/// The most entries of a wait, as in `poll`.
const MOST: usize = 65_536;

/// C's `struct epoll_event`, with relibc's layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    events: u32,
    data: u64,
    padding: u64,
}

/// The set and the member for which an entry of a wait was made.
#[derive(Clone, Copy)]
struct Place {
    set: usize,
    /// The number of the member, and its round, which each `epoll_ctl` for it changes.
    number: c_int,
    round: u32,
    is_edge: bool,
    /// The index of the set's own entry.
    parent: usize,
}

/// The entries of a wait: first those that the caller asks for, then the members of those that are
/// sets. Members come behind the entry of their set.
struct Plan {
    entries: Vec<Entry>,
    places: Vec<Place>,
    asked: usize,
    version: u32,
}

impl Plan {
    fn new(asked: &[Entry]) -> Result<Self> {
        let mut plan = Self {
            entries: Vec::from(asked),
            places: Vec::new(),
            asked: asked.len(),
            version: own::version(),
        };
        let mut next = 0;
        while let Some(entry) = plan.entries.get(next) {
            if let Some(set) = own::set_of(entry.number) {
                plan.add_members(set, next)?;
            }
            next += 1;
        }
        Ok(plan)
    }

    fn add_members(&mut self, id: usize, parent: usize) -> Result<()> {
        SETS.with(|sets| {
            let set = sets.find(id)?;
            set.members.retain(|member| !member.has_left());
            let first = set.place(set.first).unwrap_or_else(|place| place);
            let (before, behind) = set.members.split_at(first);
            for member in behind
                .iter()
                .chain(before)
                .filter(|member| !member.is_spent)
            {
                if self.entries.len() >= MOST {
                    return Err(Error::new(EINVAL));
                }
                let events = (member.events & EVENTS) as c_short;
                self.entries.push(Entry::new(member.number, events));
                self.places.push(Place {
                    set: id,
                    number: member.number,
                    round: member.round,
                    is_edge: member.events & EDGE != 0,
                    parent,
                });
            }
            Ok(())
        })
    }

    /// The [`stamp`]s of the edge-triggered members that are ready. They are taken after the look
    /// at the members, so a later use changes the stamp.
    fn stamps(&self, entries: &[Entry]) -> Vec<Option<u64>> {
        let found = entries.iter().skip(self.asked).zip(&self.places);
        found
            .map(|(entry, place)| match place.is_edge && entry.revents != 0 {
                true => stamp(place.number),
                false => None,
            })
            .collect()
    }

    /// Marks the entry of each set as readable in which a member has something to report. Goes
    /// backwards, as members come behind their set.
    fn lift(&self, sets: &mut Sets, entries: &mut [Entry], stamps: &[Option<u64>]) {
        for (index, place) in self.places.iter().enumerate().rev() {
            let found = entries[self.asked + index].revents;
            let set = sets.find(place.set).ok();
            let member = set.and_then(|set| set.member(place.number, place.round));
            if found & NVAL == 0
                && member.is_some_and(|member| member.report(found, stamps[index]) != 0)
            {
                let parent = &mut entries[place.parent];
                parent.revents |= parent.events & (IN | IN_NORMAL);
            }
        }
    }

    /// Whether the members that are ready but not reported are unchanged, so that the wait can
    /// sleep. If another thread uses one of them later, that ends the sleep.
    fn can_sleep(&self, entries: &[Entry], stamps: &[Option<u64>]) -> bool {
        let found = entries.iter().skip(self.asked).zip(&self.places);
        found.zip(stamps).all(|((entry, place), stamp)| {
            let is_held_back = place.is_edge && entry.revents != 0;
            match stamp {
                Some(stamp) if is_held_back => descriptor::tell_of_use(place.number, *stamp),
                _ => true,
            }
        })
    }
}

/// How a wait continues.
enum Verdict {
    Done(usize),
    /// The sets have changed, or a member was used whose report is held back.
    Again,
}

/// Counts a waiting thread while it exists.
struct Waiter;

impl Waiter {
    fn new() -> Self {
        SETS.with(|sets| sets.waiting += 1);
        Self
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        SETS.with(|sets| sets.waiting = sets.waiting.saturating_sub(1));
    }
}

/// Waits until `take` has a result. Makes a new plan whenever the sets have changed. With `root`,
/// the first entry has to stay that set.
fn wait_with(
    asked: &[Entry],
    root: Option<usize>,
    limit: Option<Duration>,
    mut take: impl FnMut(&Plan, &mut Sets, &mut [Entry], &[Option<u64>]) -> Option<usize>,
) -> Result<usize> {
    let start = Instant::now();
    let _waiter = Waiter::new();
    loop {
        let mut plan = Plan::new(asked)?;
        if root.is_some() && own::set_of(asked[0].number) != root {
            // Another thread has closed it.
            return Err(Error::new(EBADF));
        }
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let mut entries = core::mem::take(&mut plan.entries);
        let verdict = watch::watch(&mut entries, left, |entries| {
            let stamps = plan.stamps(entries);
            let taken = SETS.with(|sets| match own::version() == plan.version {
                true => take(&plan, sets, entries, &stamps).map(Verdict::Done),
                false => Some(Verdict::Again),
            });
            match taken {
                None if !plan.can_sleep(entries, &stamps) => Some(Verdict::Again),
                taken => taken,
            }
        })?;
        match verdict {
            Some(Verdict::Done(count)) => return Ok(count),
            None => return Ok(0),
            Some(Verdict::Again) => {}
        }
    }
}

/// `poll` for entries among which are sets.
///
/// # Errors
/// `EINVAL` for too many entries, and those of [`watch::watch`].
pub fn wait_among(entries: &mut [Entry], limit: Option<Duration>) -> Result<usize> {
    let asked = entries.to_vec();
    let mut found = asked.clone();
    let ready = wait_with(&asked, None, limit, |plan, sets, all, stamps| {
        plan.lift(sets, all, stamps);
        found.copy_from_slice(&all[..asked.len()]);
        match watch::count(&found) {
            0 => None,
            ready => Some(ready),
        }
    })?;
    entries.copy_from_slice(&found);
    Ok(ready)
}

/// Reports the ready members of the set whose entry is the first one, until `report` returns
/// false.
fn collect(
    plan: &Plan,
    sets: &mut Sets,
    entries: &mut [Entry],
    stamps: &[Option<u64>],
    mut report: impl FnMut(u32, u64) -> bool,
) -> usize {
    plan.lift(sets, entries, stamps);
    let mut count = 0;
    for ((index, place), stamp) in plan.places.iter().enumerate().zip(stamps) {
        let found = entries[plan.asked + index].revents;
        if place.parent != 0 || found & NVAL != 0 {
            continue;
        }
        let Ok(set) = sets.find(place.set) else { break };
        let Some(member) = set.member(place.number, place.round) else {
            continue;
        };
        let events = member.report(found, *stamp);
        if events == 0 {
            member.held_back(found);
            continue;
        }
        if !report(events, member.data) {
            set.first = place.number;
            break;
        }
        count += 1;
        member.reported(events, *stamp);
        set.first = place.number.saturating_add(1);
    }
    count
}

/// Waits for members of a set to become ready, and stores their events.
///
/// # Safety
/// There are `count` places.
pub unsafe fn wait(
    number: c_int,
    places: *mut Event,
    count: c_int,
    limit: Option<Duration>,
) -> Result<usize> {
    let most = usize::try_from(count).ok().filter(|most| *most > 0);
    let most = most.ok_or(Error::new(EINVAL))?;
    if places.is_null() {
        return Err(Error::new(EFAULT));
    }
    let root = sets::set_at(number)?;
    let asked = [Entry::new(number, IN)];
    wait_with(&asked, Some(root), limit, |plan, sets, entries, stamps| {
        let mut stored = 0;
        let report = |events, data| {
            if stored == most {
                return false;
            }
            let padding = 0;
            let event = Event {
                events,
                data,
                padding,
            };
            // SAFETY: the caller's promise.
            unsafe { places.add(stored).write(event) };
            stored += 1;
            true
        };
        match collect(plan, sets, entries, stamps, report) {
            0 => None,
            count => Some(count),
        }
    })
}

fn create(flags: usize) -> Result<c_int> {
    if flags & !CLOEXEC != 0 {
        return Err(Error::new(EINVAL));
    }
    let (bell, number) = Bell::new()?;
    let bell = Arc::new(bell);
    let number = descriptor::opened(number, flags & CLOEXEC != 0);
    sets::make(|set| own::insert(number, Kind::Set(set, bell)));
    Ok(number)
}

#[unsafe(no_mangle)]
extern "C" fn epoll_create(size: c_int) -> c_int {
    match size > 0 {
        true => errno::give(create(0)),
        false => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
extern "C" fn epoll_create1(flags: c_int) -> c_int {
    errno::give(create(flags as u32 as usize))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    number: c_int,
    event: *const c_void,
) -> c_int {
    let event = match operation {
        sets::DELETE => (0, 0),
        // SAFETY: null, or the caller's structure.
        _ => match unsafe { event.cast::<Event>().as_ref() } {
            Some(event) => (event.events, event.data),
            None => return errno::fail(EFAULT),
        },
    };
    errno::done(sets::control(set, operation, number, event))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(
    set: c_int,
    places: *mut c_void,
    count: c_int,
    milliseconds: c_int,
) -> c_int {
    let limit = watch::limit_of(milliseconds);
    // SAFETY: the same contract.
    let ready = points::ended_by_handlers(|| unsafe { wait(set, places.cast(), count, limit) });
    errno::small(ready)
}
