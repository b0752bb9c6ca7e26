//! The pages themselves: borrowed from the client, lent on to the SCIF daemon.
//!
//! The SCIF daemon has the pages as long as one request of ours is unanswered, so each range has a
//! thread that waits for the answer. Once the SCIF daemon has them, the client's own mappings and
//! its whole address space are of no concern any more.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, Ordering};
use core::time::Duration;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use platform::borrow::{Borrower, Space};
use platform::pin;
use platform::{Error, Result};
use redox_scheme::{SendFdRequest, Socket};
use runtime::thread;
use scif_abi::call::MemoryCall;
use scif_abi::codec::Operation as _;
use scifpin::ledger::Freed;
use scifpin::scheme::{Pages, Wanted};
use syscall::error::{EIO, ENOENT};
use syscall::flag::{CallFlags, FobtainFdFlags};

/// Between two looks whether the SCIF daemon has the pages.
const PATIENCE: Duration = Duration::from_millis(1);

/// Pages of this machine.
pub struct KernelPages {
    socket: Rc<Socket>,
    borrower: Borrower,
    /// Root of the SCIF daemon's scheme.
    scif: Fd,
}

/// The memory handle whose object the pages are.
pub struct Held {
    memory: Arc<Fd>,
    token: u64,
}

impl KernelPages {
    /// Takes what the daemon opened.
    pub fn new(socket: Rc<Socket>, borrower: Borrower, scif: Fd) -> Self {
        Self {
            socket,
            borrower,
            scif,
        }
    }
}

fn call(memory: &Fd, operation: &MemoryCall) -> Result<usize> {
    let [first, second] = operation.words();
    let metadata = [operation.number(), first, second];
    Ok(memory.call_rw(&mut [], CallFlags::empty(), &metadata)?)
}

impl Pages for KernelPages {
    type Space = Space;
    type Held = Held;

    fn take_space(&mut self, request: &SendFdRequest) -> Result<Space> {
        let mut slots = [usize::MAX];
        request.obtain_fd(&self.socket, FobtainFdFlags::UPPER_TBL, &mut slots)?;
        Space::new(Fd::new(slots[0]))
    }

    fn pin(&mut self, space: Space, wanted: Wanted, freed: Freed) -> Result<(Held, u64)> {
        let mappings = space.mappings()?;
        let Wanted {
            address, length, ..
        } = wanted;
        pin::check(&mappings, address, length, wanted.protection)?;
        let borrowed = Arc::new(self.borrower.borrow(&space, address, length)?);
        drop(space);

        let memory = self.scif.openat("memory", O_RDWR | O_CLOEXEC, 0)?;
        let memory = Arc::new(memory);
        let operation = match wanted.owner {
            Some(owner) => MemoryCall::Offer { owner },
            None => MemoryCall::Pin { pages: 0 },
        };
        let [first, second] = operation.words();
        let metadata = [operation.number(), first, second];
        // 0 while the request waits, then its error, or EIO for an answer that came too soon.
        let outcome = Arc::new(AtomicI32::new(0));
        let (lent, file, ended) = (borrowed.clone(), memory.clone(), outcome.clone());
        thread::spawn(move || {
            let result = lent.lend(&file, &metadata);
            // Otherwise the request would keep no pages any more but the mapping would.
            lent.unmap();
            let errno = result.err().map_or(EIO, |error| error.errno);
            ended.store(errno, Ordering::Release);
            freed.store(true, Ordering::Release);
        })?;
        let token = loop {
            match call(&memory, &MemoryCall::Token) {
                Ok(token) => break token as u64,
                Err(Error { errno: ENOENT }) => {}
                Err(error) => return Err(error),
            }
            match outcome.load(Ordering::Acquire) {
                0 => thread::sleep(PATIENCE),
                errno => return Err(Error::new(errno)),
            }
        };
        borrowed.unmap();
        Ok((Held { memory, token }, token))
    }

    fn release(&mut self, held: Held) {
        let Held { memory, token } = held;
        if let Err(error) = call(&memory, &MemoryCall::Unpin { token }) {
            log::warn!("token {token} was not released: {error}");
        }
    }
}
