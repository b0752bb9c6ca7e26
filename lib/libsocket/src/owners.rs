//! The processes that have a socket: each `fork` makes one more. Only the last one that closes it
//! ends what is behind it, one at a time sends a message, and one sets the connection up.

use alloc::vec::Vec;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicUsize, Ordering};

use runtime::sync::Mutex;
use runtime::{fd, process, sys};
use syscall::PAGE_SIZE;
use syscall::error::{ENOMEM, EPIPE};
use syscall::flag::MapFlags;

use crate::Result;
use crate::count::{Count, Holder, Sender, Turn};

/// The socket has not been in a process that forked.
const ALONE: usize = 0;
/// It is another process's, however many have it.
const FOREIGN: usize = 1;

/// What they share.
struct Shared {
    count: Count,
    sender: Sender,
    /// The one that sets the connection up, or has done so.
    setter: Sender,
}

/// Pages of it that this process shares with those that it was forked from and forks. A process
/// that was killed counts for ever.
static PAGES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
const PLACES: usize = PAGE_SIZE / size_of::<Shared>();

/// The processes that have a socket.
#[derive(Default)]
pub struct Owners(AtomicUsize);

fn shared_at(address: usize) -> &'static Shared {
    // SAFETY: aligned words of a page that is mapped for ever, and changed by atomic operations
    // only.
    unsafe { &*with_exposed_provenance(address) }
}

/// The address of a place with a count of one, and nobody who sends.
fn new_place() -> Result<usize> {
    let mut pages = PAGES.lock();
    let places = |page: usize| (0..PLACES).map(move |index| page + index * size_of::<Shared>());
    let take = |address: &usize| {
        let shared = shared_at(*address);
        let is_free = shared.count.take();
        if is_free {
            shared.sender.end();
            shared.setter.end();
        }
        is_free
    };
    if let Some(address) = pages.iter().copied().flat_map(places).find(take) {
        return Ok(address);
    }
    let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let page = unsafe { fd::mmap(sys::NO_FD, 0, PAGE_SIZE, 0, flags) };
    let page = page.map_err(|error| error.errno)?;
    pages.push(page);
    // The page is new, and the list is locked.
    shared_at(page).count.take();
    Ok(page)
}

impl Owners {
    fn shared(&self) -> Option<&'static Shared> {
        match self.0.load(Ordering::Acquire) {
            ALONE | FOREIGN => None,
            address => Some(shared_at(address)),
        }
    }

    fn count(&self) -> Option<&'static Count> {
        self.shared().map(|shared| &shared.count)
    }

    /// Counts a process more, which is about to be forked.
    ///
    /// # Errors
    /// `ENOMEM`, also when there are as many as can be counted.
    pub fn add(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) == ALONE {
            self.0.store(new_place()?, Ordering::Release);
        }
        match self.count().is_none_or(Count::add) {
            true => Ok(()),
            false => Err(ENOMEM),
        }
    }

    /// Counts a process less, which is not the last one: it was not forked after all.
    pub fn remove(&self) {
        if let Some(count) = self.count() {
            count.leave();
        }
    }

    /// Whether other processes have it. Once none has, none will: only a process that has it can
    /// fork.
    pub fn is_shared(&self) -> bool {
        match self.0.load(Ordering::Acquire) {
            ALONE => false,
            FOREIGN => true,
            address => shared_at(address).count.is_shared(),
        }
    }

    /// Counts this process less; whether it was the last one.
    pub fn leave(&self) -> bool {
        match self.0.swap(FOREIGN, Ordering::AcqRel) {
            ALONE => true,
            FOREIGN => false,
            address => shared_at(address).count.leave(),
        }
    }

    /// Counts this process less unless it is the only one.
    pub fn leave_to_others(&self) -> Option<Turn> {
        self.count()?.leave_to_others()
    }

    /// Ends what [`leave_to_others`](Self::leave_to_others) has done. If all others have closed the
    /// socket meanwhile, it has ended, and this process has nothing to end.
    pub fn come_back(&self, turn: Turn) {
        if self.count().is_some_and(|count| !count.come_back(turn)) {
            self.disown();
        }
    }

    /// Says that it is another process's.
    pub fn disown(&self) {
        self.0.store(FOREIGN, Ordering::Release);
    }

    /// Whether this process may send, and keeps the others from it until
    /// [`end_sending`](Self::end_sending). `false`: another one is in the middle of a message.
    ///
    /// # Errors
    /// `EPIPE`: another one has gone in the middle of a message, so nobody can send any more.
    pub fn begin_sending(&self) -> Result<bool> {
        let Some(shared) = self.shared() else {
            return Ok(true);
        };
        match shared.sender.begin(process::id()) {
            Holder::Own => Ok(true),
            // Its parent may be the one that waits here, and would never ask for its status.
            Holder::Other(other) => match process::has_ended(other) {
                true => Err(EPIPE),
                false => Ok(false),
            },
            Holder::Gone => Err(EPIPE),
        }
    }

    /// Whether another process is in the middle of a message.
    pub fn is_another_sending(&self) -> bool {
        let Some(shared) = self.shared() else {
            return false;
        };
        shared.sender.is_another(process::id())
    }

    /// The message is sent.
    pub fn end_sending(&self) {
        if let Some(shared) = self.shared() {
            shared.sender.end();
        }
    }

    /// Whether this process is the one that sets the connection up: the first one that asks. The
    /// others do not know what the peer has answered.
    pub fn begin_set_up(&self) -> bool {
        let own = |shared: &Shared| shared.setter.begin(process::id()) == Holder::Own;
        self.shared().is_none_or(own)
    }

    /// The process is about to turn into another program: a message that it has begun has no end.
    pub fn break_off(&self) {
        if let Some(shared) = self.shared() {
            shared.sender.break_off(process::id());
        }
    }

    /// Ends what [`break_off`](Self::break_off) has done: the process goes on as it was.
    pub fn resume(&self) {
        if let Some(shared) = self.shared() {
            shared.sender.resume(process::id());
        }
    }
}
