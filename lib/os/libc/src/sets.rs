//! The sets of `epoll`: their members, and the operations of `epoll_ctl`.
//!
//! With `EPOLLET`, what was reported is not reported again until the program has used the
//! descriptor, as [`stamp`] shows.

use alloc::vec::Vec;
use core::ffi::{c_int, c_short};

use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EEXIST, EINVAL, ELOOP, ENOENT, EPERM};

use crate::own::Kind;
use crate::sync::Shared;
use crate::{descriptor, own, watch};

/// EPOLL_CTL_ADD, EPOLL_CTL_DEL and EPOLL_CTL_MOD.
const ADD: c_int = 1;
pub const DELETE: c_int = 2;
const MODIFY: c_int = 3;

/// EPOLLERR and EPOLLHUP, which are always reported.
const ALWAYS: u32 = 0x18;
/// The bits that `poll` can report; flags are above them.
pub const EVENTS: u32 = 0x7fff;
const EXCLUSIVE: u32 = 1 << 28;
const ONESHOT: u32 = 1 << 30;
/// EPOLLET.
pub const EDGE: u32 = 1 << 31;
/// EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLWAKEUP and EPOLLET: the bits allowed with
/// EPOLLEXCLUSIVE.
const WITH_EXCLUSIVE: u32 = 0x1d | 1 << 29 | EDGE;

/// How many sets may be nested, as on Linux.
const DEEPEST: usize = 5;

/// A descriptor in a set.
#[derive(Clone, Copy)]
pub struct Member {
    /// The descriptor.
    pub number: c_int,
    /// Which of the files that the number has meant over time is the member.
    turn: u64,
    /// The events that the program asks for, and flags.
    pub events: u32,
    /// The program's data.
    pub data: u64,
    /// Changes with each `epoll_ctl` for the number.
    pub round: u32,
    /// EPOLLONESHOT: its events have been reported.
    pub is_spent: bool,
    /// EPOLLET: the events last reported, and the stamp at that time.
    told: u32,
    stamp: Option<u64>,
}

/// A set.
pub struct Set {
    id: usize,
    /// Sorted by their numbers.
    pub members: Vec<Member>,
    /// The number at which the next wait begins: the one after the member that was reported last.
    pub first: c_int,
}

/// The sets of the process. Their lock is taken before those of `own` and `descriptor`.
pub struct Sets {
    sets: Vec<Set>,
    next: usize,
    /// Counts the calls of `epoll_ctl`.
    rounds: u32,
    /// The number of waiting threads.
    pub waiting: usize,
}

pub static SETS: Shared<Sets> = Shared::new(Sets {
    sets: Vec::new(),
    next: 0,
    rounds: 0,
    waiting: 0,
});

impl Sets {
    /// Finds a set by its id.
    ///
    /// # Errors
    /// `EBADF`: it has been closed.
    pub fn find(&mut self, id: usize) -> Result<&mut Set> {
        let found = self.sets.iter_mut().find(|set| set.id == id);
        found.ok_or(Error::new(EBADF))
    }

    /// The depth of nesting from this set downwards. Checks that `id` is not among the nested
    /// sets.
    ///
    /// # Errors
    /// `ELOOP`: it is, or the depth is beyond `limit`.
    fn depth(&self, from: usize, id: usize, limit: usize) -> Result<usize> {
        if from == id || limit == 0 {
            return Err(Error::new(ELOOP));
        }
        let mut depth = 0;
        for set in self.sets.iter().filter(|set| set.id == from) {
            let inner = set.members.iter().filter_map(|member| member.is_there());
            for inner in inner.filter_map(own::set_of) {
                depth = depth.max(self.depth(inner, id, limit - 1)?);
            }
        }
        Ok(depth + 1)
    }

    /// The depth of nesting from this set upwards.
    fn height(&self, id: usize, limit: usize) -> usize {
        let has = |set: &&Set| {
            let mut members = set.members.iter().filter_map(|member| member.is_there());
            members.any(|number| own::set_of(number) == Some(id))
        };
        match limit {
            0 => 1,
            _ => {
                let above = self.sets.iter().filter(has);
                1 + above
                    .map(|set| self.height(set.id, limit - 1))
                    .max()
                    .unwrap_or(0)
            }
        }
    }
}

impl Set {
    /// The index of a number among the members, or where to insert it.
    pub fn place(&self, number: c_int) -> core::result::Result<usize, usize> {
        let numbers = |member: &Member| member.number;
        self.members.binary_search_by_key(&number, numbers)
    }

    /// The member with a number, if its round and its file are the same and it is not spent.
    pub fn member(&mut self, number: c_int, round: u32) -> Option<&mut Member> {
        let index = self.place(number).ok()?;
        let member = &mut self.members[index];
        let is_it = member.round == round && !member.is_spent && !member.has_left();
        is_it.then_some(member)
    }
}

impl Member {
    /// Its number, if that still means the same file for sure.
    pub fn is_there(&self) -> Option<c_int> {
        descriptor::is_turn(self.number as usize, self.turn).then_some(self.number)
    }

    /// Whether its number certainly means another file or none. While `dup2` replaces the file,
    /// this is unknown, and the member stays.
    pub fn has_left(&self) -> bool {
        descriptor::means(self.number as usize, self.turn) == Some(false)
    }

    /// The events to report when `found` is ready.
    pub fn report(&self, found: c_short, stamp: Option<u64>) -> u32 {
        let found = found as u16 as u32 & (self.events & EVENTS | ALWAYS);
        let is_news = found & !self.told != 0 || stamp.is_none() || stamp != self.stamp;
        match self.events & EDGE != 0 && !is_news {
            true => 0,
            false => found,
        }
    }

    /// Records that these events were reported.
    pub fn reported(&mut self, events: u32, stamp: Option<u64>) {
        self.told = events;
        self.stamp = stamp;
        self.is_spent = self.events & ONESHOT != 0;
    }

    /// Records that nothing was reported. An event that is no longer ready is news when it comes
    /// back.
    pub fn held_back(&mut self, found: c_short) {
        self.told &= u32::from(found as u16);
    }
}

/// A number that changes when the program has used the descriptor, or when more is known to have
/// arrived. `None` if that cannot be told, so that the descriptor is reported as long as it is
/// ready.
pub fn stamp(number: c_int) -> Option<u64> {
    match own::kind(number) {
        Some(Kind::Counter(counter)) => Some(counter.page().changes()),
        Some(Kind::Timer(timer)) => Some(timer.page().changes()),
        Some(Kind::Set(..)) => None,
        None => descriptor::uses(number),
    }
}

/// Whether a file can be in a set, as on Linux: plain files and directories cannot.
///
/// # Errors
/// `EBADF`, `EPERM`; those of event queues.
fn check_file(number: c_int) -> Result<()> {
    const KIND: u16 = 0o170_000;
    const FIFO: u16 = 0o010_000;
    const DIRECTORY: u16 = 0o040_000;
    const FILE: u16 = 0o100_000;
    let index = descriptor::check(number)?;
    fd::fcntl(index, syscall::F_GETFD, 0)?;
    if own::is_own(number) || descriptor::is_socket(number) {
        return Ok(());
    }
    match fd::fstat(index).map(|stat| stat.st_mode & KIND) {
        Ok(FIFO) => return Ok(()),
        Ok(DIRECTORY | FILE) => return Err(Error::new(EPERM)),
        // A driver's file may have any mode, so its scheme is asked.
        _ => {}
    }
    match watch::has_events(number)? {
        true => Ok(()),
        false => Err(Error::new(EPERM)),
    }
}

/// The id of the set that an open descriptor means.
///
/// # Errors
/// `EBADF`; `EINVAL` for another kind of file.
pub fn set_at(number: c_int) -> Result<usize> {
    match own::set_of(number) {
        Some(set) => Ok(set),
        None => {
            fd::fcntl(descriptor::check(number)?, syscall::F_GETFD, 0)?;
            Err(Error::new(EINVAL))
        }
    }
}

/// Changes a set as `epoll_ctl` does, with events and the program's data.
///
/// # Errors
/// `EBADF`, `EEXIST`, `EINVAL`, `ELOOP`, `ENOENT`, `EPERM`; those of event queues.
pub fn control(set: c_int, operation: c_int, number: c_int, event: (u32, u64)) -> Result<()> {
    fd::fcntl(descriptor::check(set)?, syscall::F_GETFD, 0)?;
    check_file(number)?;
    let id = set_at(set)?;
    let inner = own::set_of(number);
    if inner == Some(id) {
        return Err(Error::new(EINVAL));
    }
    let (events, data) = event;
    if events & EXCLUSIVE != 0
        && (operation != ADD || inner.is_some() || events & !(WITH_EXCLUSIVE | EXCLUSIVE) != 0)
    {
        return Err(Error::new(EINVAL));
    }
    let turn = descriptor::turn(number as usize)?;
    SETS.with(|sets| {
        // A set that was closed has no descriptor any more.
        let open = own::sets();
        sets.sets.retain(|set| open.contains(&set.id));
        sets.rounds = sets.rounds.wrapping_add(1);
        let round = sets.rounds;
        if let (ADD, Some(inner)) = (operation, inner)
            && sets.depth(inner, id, DEEPEST)? + sets.height(id, DEEPEST) > DEEPEST
        {
            return Err(Error::new(ELOOP));
        }
        let set = sets.find(id)?;
        let mut place = set.place(number);
        // If the number means another file now, the member's file has left the set.
        if let Ok(index) = place
            && set.members[index].turn != turn
        {
            set.members.remove(index);
            place = Err(index);
        }
        let member = Member {
            number,
            turn,
            events,
            data,
            round,
            is_spent: false,
            told: 0,
            stamp: None,
        };
        match (operation, place) {
            (ADD, Err(index)) => set.members.insert(index, member),
            (MODIFY, Ok(index)) if set.members[index].events & EXCLUSIVE != 0 => {
                return Err(Error::new(EINVAL));
            }
            (MODIFY, Ok(index)) => set.members[index] = member,
            (DELETE, Ok(index)) => drop(set.members.remove(index)),
            (ADD, Ok(_)) => return Err(Error::new(EEXIST)),
            (DELETE | MODIFY, Err(_)) => return Err(Error::new(ENOENT)),
            _ => return Err(Error::new(EINVAL)),
        }
        if events & EDGE != 0 {
            descriptor::count_uses(number);
        }
        own::changed();
        if sets.waiting > 0 {
            own::wake(Some(id));
        }
        Ok(())
    })
}

/// Makes a set. Calls `name` to give it a descriptor before any other thread removes sets without
/// one.
pub fn make(name: impl FnOnce(usize)) {
    SETS.with(|sets| {
        let id = sets.next;
        sets.next += 1;
        sets.sets.push(Set {
            id,
            members: Vec::new(),
            first: 0,
        });
        name(id);
    });
}

/// Called in the child of a fork: nothing was reported to the child, and none of its threads
/// waits.
pub fn forked() {
    SETS.with(|sets| {
        let members = sets.sets.iter_mut().flat_map(|set| &mut set.members);
        members.for_each(|member| member.told = 0);
        sets.waiting = 0;
    });
}
