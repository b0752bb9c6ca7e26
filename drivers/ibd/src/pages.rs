//! Pages of programs that register memory: borrowed from the address space that a program sends
//! before the command, by a thread of the daemon, while the command waits.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use client_memory::borrow::{Borrowed, Wanted};
use client_memory::borrow_thread::Orders;
use libredox::Fd;
use redox_scheme::Id;
use syscall::error::{EWOULDBLOCK, Result};
use verbs_core::keys::Region;
use verbs_core::types::Access;

use crate::error::fail;
use crate::limits::{Accounts, Kind};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Pages of a program, mapped in the daemon.
pub struct Pages {
    /// The program's address of the first byte.
    pub first: u64,
    bytes: u64,
    is_writable: bool,
    /// The pages here.
    pub memory: Borrowed,
}

impl Pages {
    /// Whether a region lies in them, with the rights that its owner has.
    pub fn hold(&self, region: &Region) -> bool {
        let ahead = region.start.checked_sub(self.first);
        let end = ahead.and_then(|ahead| ahead.checked_add(region.length));
        let is_inside = end.is_some_and(|end| end <= self.bytes);
        is_inside && (self.is_writable || !region.access.contains(Access::LOCAL_WRITE))
    }
}

/// The number of pages that a range touches.
pub fn count(start: u64, length: u64) -> u64 {
    (start % PAGE + length).div_ceil(PAGE)
}

/// The pages of a region, for which there is room in the address space.
pub fn around(region: &Region) -> Wanted {
    Wanted {
        address: (region.start - region.start % PAGE) as usize,
        bytes: (count(region.start, region.length) * PAGE) as usize,
        writable: region.access.contains(Access::LOCAL_WRITE),
    }
}

/// A command that waits for pages.
struct Waiting {
    /// The request; `None`: it was given up.
    request: Option<Id>,
    /// The descriptor that it came by, and the user by whose limit the pages are counted.
    handle: usize,
    uid: u32,
    wanted: Wanted,
    /// What has come of it.
    ended: Option<Result<Borrowed>>,
}

impl Waiting {
    fn pages(&self) -> u64 {
        self.wanted.bytes as u64 / PAGE
    }
}

/// All borrowings.
#[derive(Default)]
pub struct Borrowings {
    /// The thread. Without it no address space is taken.
    orders: Option<Orders<u64>>,
    /// Address spaces for the next command, by the descriptor that they were sent over.
    spaces: BTreeMap<usize, Fd>,
    waiting: BTreeMap<u64, Waiting>,
    last: u64,
    /// Requests that can go on.
    ready: Vec<Id>,
}

impl Borrowings {
    /// The daemon has a thread for it.
    pub fn start(&mut self, orders: Orders<u64>) {
        self.orders = Some(orders);
    }

    /// A program has sent its address space over a descriptor. One that was sent before goes.
    pub fn put_space(&mut self, handle: usize, space: Fd) {
        if let Some(former) = self.spaces.insert(handle, space) {
            self.release(former);
        }
    }

    /// Whether an address space was sent over a descriptor, for the next command that registers
    /// memory.
    pub fn has_space(&self, handle: usize) -> bool {
        self.spaces.contains_key(&handle)
    }

    /// Lets go of a descriptor that may be an address space.
    pub fn release(&self, space: Fd) {
        match &self.orders {
            Some(orders) => orders.release(space),
            None => drop(space),
        }
    }

    /// The pages for a command that came by a descriptor of a user, if it wants some and its
    /// program has sent its address space. They are counted while they are on their way.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: they are on their way. Those of borrowing: `EFAULT`, `EINVAL`, `ENOMEM`.
    pub fn pages(
        &mut self,
        accounts: &mut Accounts,
        (handle, uid, request): (usize, u32, Id),
        wanted: Option<Wanted>,
    ) -> Result<Option<Pages>> {
        let is_its = |waiting: &Waiting| {
            waiting.handle == handle && waiting.request.as_ref() == Some(&request)
        };
        let begun = self.waiting.iter().find(|(_, waiting)| is_its(waiting));
        if let Some((&name, waiting)) = begun {
            if waiting.ended.is_none() {
                return fail(EWOULDBLOCK);
            }
            return self.finish(accounts, name).transpose();
        }
        let (Some(wanted), Some(orders)) = (wanted, &self.orders) else {
            return Ok(None);
        };
        let Some(space) = self.spaces.remove(&handle) else {
            return Ok(None);
        };
        let pages = wanted.bytes as u64 / PAGE;
        if accounts.charge(uid, Kind::LockedPages, pages).is_err() {
            // The command is refused for that, if not for something else.
            orders.release(space);
            return Ok(None);
        }
        self.last += 1;
        if let Err(error) = orders.borrow(self.last, space, wanted) {
            accounts.release(uid, Kind::LockedPages, pages);
            return Err(error);
        }
        let waiting = Waiting {
            request: Some(request),
            handle,
            uid,
            wanted,
            ended: None,
        };
        self.waiting.insert(self.last, waiting);
        fail(EWOULDBLOCK)
    }

    /// Ends a borrowing that has its result, and no longer counts the pages.
    fn finish(&mut self, accounts: &mut Accounts, name: u64) -> Option<Result<Pages>> {
        let waiting = self.waiting.remove(&name)?;
        accounts.release(waiting.uid, Kind::LockedPages, waiting.pages());
        let ended = waiting.ended?;
        Some(ended.map(|memory| Pages {
            first: waiting.wanted.address as u64,
            bytes: waiting.wanted.bytes as u64,
            is_writable: waiting.wanted.writable,
            memory,
        }))
    }

    /// Takes what the thread has borrowed.
    pub fn take_ended(&mut self, accounts: &mut Accounts) {
        while let Some((name, ended)) = self.orders.as_ref().and_then(Orders::take_ended) {
            let Some(waiting) = self.waiting.get_mut(&name) else {
                continue;
            };
            waiting.ended = Some(ended);
            match waiting.request {
                Some(request) => self.ready.push(request),
                None => drop(self.finish(accounts, name)),
            }
        }
    }

    /// The requests that can go on.
    pub fn take_ready(&mut self) -> Vec<Id> {
        core::mem::take(&mut self.ready)
    }

    /// A request was given up. Its pages are counted until they have come.
    pub fn give_up(&mut self, accounts: &mut Accounts, request: Id) {
        self.end(accounts, |waiting| {
            waiting.request.as_ref() == Some(&request)
        });
    }

    /// A descriptor was closed.
    pub fn close(&mut self, accounts: &mut Accounts, handle: usize) {
        if let Some(space) = self.spaces.remove(&handle) {
            self.release(space);
        }
        self.end(accounts, |waiting| waiting.handle == handle);
    }

    fn end(&mut self, accounts: &mut Accounts, which: impl Fn(&Waiting) -> bool) {
        let mut over = Vec::new();
        for (name, waiting) in &mut self.waiting {
            if which(waiting) {
                waiting.request = None;
                if waiting.ended.is_some() {
                    over.push(*name);
                }
            }
        }
        for name in over {
            drop(self.finish(accounts, name));
        }
    }
}
