//! Pages of programs that register memory. Before the command the program sends the descriptor of
//! its address space; while the command waits, a thread of the daemon borrows the pages from
//! there.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
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

/// Bytes in a page.
pub const PAGE: u64 = 4096;

/// Pages of a program, mapped in the daemon.
pub struct Pages {
    /// The program's address of the first byte.
    pub first: u64,
    bytes: u64,
    is_writable: bool,
    /// The mapping of the pages in the daemon.
    pub memory: Borrowed,
}

impl Pages {
    /// Whether a region lies in these pages, and they are writable if the region is.
    pub fn hold(&self, region: &Region) -> bool {
        let ahead = region.start.checked_sub(self.first);
        let end = ahead.and_then(|ahead| ahead.checked_add(region.length));
        let is_inside = end.is_some_and(|end| end <= self.bytes);
        is_inside && (self.is_writable || !region.access.contains(Access::LOCAL_WRITE))
    }
}

/// Number of pages that a range touches.
pub fn count(start: u64, length: u64) -> u64 {
    (start % PAGE + length).div_ceil(PAGE)
}

/// The pages of a region that fits into the address space.
pub fn around(region: &Region) -> Wanted {
    Wanted {
        address: (region.start - region.start % PAGE) as usize,
        bytes: (count(region.start, region.length) * PAGE) as usize,
        writable: region.access.contains(Access::LOCAL_WRITE),
    }
}

/// A command that waits for pages.
struct Waiting {
    /// The request; `None` if it was given up.
    request: Option<Id>,
    /// The descriptor that the command came by, and the user whose limit the pages count for.
    handle: usize,
    uid: u32,
    wanted: Wanted,
    /// The result of the borrowing, once it has ended.
    ended: Option<Result<Borrowed>>,
}

impl Waiting {
    fn pages(&self) -> u64 {
        self.wanted.bytes as u64 / PAGE
    }
}

/// All borrowings, and the address spaces for further ones.
#[derive(Default)]
pub struct Borrowings {
    /// The daemon's end of the borrowing thread. Without the thread nothing is borrowed.
    orders: Option<Orders<u64>>,
    /// Address spaces for the next command, by the descriptor over which they were sent.
    spaces: BTreeMap<usize, Fd>,
    waiting: BTreeMap<u64, Waiting>,
    last: u64,
    /// Requests that can be tried again.
    ready: Vec<Id>,
}

impl Borrowings {
    /// Sets the borrowing thread.
    pub fn start(&mut self, orders: Orders<u64>) {
        self.orders = Some(orders);
    }

    /// Keeps the address space that a program has sent over a descriptor, in place of an earlier
    /// one.
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

    /// Closes a descriptor that may be an address space, by the thread if there is one.
    pub fn release(&self, space: Fd) {
        match &self.orders {
            Some(orders) => orders.release(Arc::new(space)),
            None => drop(space),
        }
    }

    /// Returns the pages for a command that came by a descriptor of a user: `None` if the command
    /// needs none, or its program has not sent its address space. The pages are charged to the
    /// user while the borrowing is under way.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: the borrowing is under way. Those of borrowing: `EFAULT`, `EINVAL`,
    /// `ENOMEM`.
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
            // The command itself will be refused for the limit, unless it is refused for another
            // reason.
            orders.release(Arc::new(space));
            return Ok(None);
        }
        self.last += 1;
        if let Err(error) = orders.borrow(self.last, uid as usize, Arc::new(space), wanted) {
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

    /// Ends a borrowing that has its result, and releases the charge for its pages.
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

    /// Takes the results of borrowings that the thread has ended.
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

    /// Takes the requests that can be tried again.
    pub fn take_ready(&mut self) -> Vec<Id> {
        core::mem::take(&mut self.ready)
    }

    /// Gives up a request. Its pages stay charged until the borrowing has ended.
    pub fn give_up(&mut self, accounts: &mut Accounts, request: Id) {
        self.end(accounts, |waiting| {
            waiting.request.as_ref() == Some(&request)
        });
    }

    /// Ends the borrowings of a descriptor that was closed.
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
