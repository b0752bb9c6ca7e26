//! The owners of a socket: the processes that share it. Each `fork` adds one. Only the last one
//! that closes it ends the connection, one at a time sends a message, and only one sets up the
//! connection.

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

/// The socket was never shared by a fork.
const ALONE: usize = 0;
/// The socket belongs to other processes only, however many they are.
const FOREIGN: usize = 1;

/// The state that the owners share.
struct Shared {
    count: Count,
    sender: Sender,
    /// The process that sets up the connection, or has done so.
    setter: Sender,
}

/// Pages with [`Shared`] states, which this process shares with its ancestors and children. A
/// process that was killed stays counted for ever.
static PAGES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
const PLACES: usize = PAGE_SIZE / size_of::<Shared>();

/// The owners of a socket: `ALONE`, `FOREIGN`, or the address of their `Shared` state.
#[derive(Default)]
pub struct Owners(AtomicUsize);

fn shared_at(address: usize) -> &'static Shared {
    // SAFETY: aligned words of a page that is mapped for ever, and changed by atomic operations
    // only.
    unsafe { &*with_exposed_provenance(address) }
}

/// Returns the address of a shared state with a count of one and no sender.
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

    /// Counts a process that is about to be forked.
    ///
    /// # Errors
    /// `ENOMEM`, also when the count is at its maximum.
    pub fn add(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) == ALONE {
            self.0.store(new_place()?, Ordering::Release);
        }
        match self.count().is_none_or(Count::add) {
            true => Ok(()),
            false => Err(ENOMEM),
        }
    }

    /// Takes back [`add`](Self::add): the process was not forked. It is never the last one.
    pub fn remove(&self) {
        if let Some(count) = self.count() {
            count.leave();
        }
    }

    /// Whether other processes own the socket. Once it is `false`, only a fork of this process
    /// makes it `true` again.
    pub fn is_shared(&self) -> bool {
        match self.0.load(Ordering::Acquire) {
            ALONE => false,
            FOREIGN => true,
            address => shared_at(address).count.is_shared(),
        }
    }

    /// Removes this process. Returns whether it was the last owner.
    pub fn leave(&self) -> bool {
        match self.0.swap(FOREIGN, Ordering::AcqRel) {
            ALONE => true,
            FOREIGN => false,
            address => shared_at(address).count.leave(),
        }
    }

    /// Removes this process unless it is the only owner.
    pub fn leave_to_others(&self) -> Option<Turn> {
        self.count()?.leave_to_others()
    }

    /// Undoes [`leave_to_others`](Self::leave_to_others). If all others have closed the socket
    /// meanwhile, it has ended, and this process has nothing to end.
    pub fn come_back(&self, turn: Turn) {
        if self.count().is_some_and(|count| !count.come_back(turn)) {
            self.disown();
        }
    }

    /// Marks the socket as one of other processes only.
    pub fn disown(&self) {
        self.0.store(FOREIGN, Ordering::Release);
    }

    /// Tries to make this process the one that sends, until [`end_sending`](Self::end_sending).
    /// Returns `false` if another one is in the middle of a message.
    ///
    /// # Errors
    /// `EPIPE` if another one has gone in the middle of a message, so that nobody can send any
    /// more.
    pub fn begin_sending(&self) -> Result<bool> {
        let Some(shared) = self.shared() else {
            return Ok(true);
        };
        match shared.sender.begin(process::id()) {
            Holder::Own => Ok(true),
            // A sender that has ended counts as gone: the process that waits here may be its
            // parent, and would never collect its status.
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

    /// Ends the message of this process.
    pub fn end_sending(&self) {
        if let Some(shared) = self.shared() {
            shared.sender.end();
        }
    }

    /// Whether this process sets up the connection: the first one that asks does. The others do
    /// not have the peer's answer.
    pub fn begin_set_up(&self) -> bool {
        let own = |shared: &Shared| shared.setter.begin(process::id()) == Holder::Own;
        self.shared().is_none_or(own)
    }

    /// The process is about to become another program: a message that it has begun stays
    /// incomplete.
    pub fn break_off(&self) {
        if let Some(shared) = self.shared() {
            shared.sender.break_off(process::id());
        }
    }

    /// Undoes [`break_off`](Self::break_off): the program was not replaced.
    pub fn resume(&self) {
        if let Some(shared) = self.shared() {
            shared.sender.resume(process::id());
        }
    }
}
