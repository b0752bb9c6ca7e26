//! The memory of a daemon that ended, kept as long as other machines may still store into it.
//!
//! The daemon's successor gets a pipe, and writes a byte into it once no peer can reach the old
//! memory any more. If it ends before that, the memory is kept for the next successor, together
//! with its own.

use alloc::sync::Arc;
use alloc::vec::Vec;

use libredox::Fd;
use runtime::sync::Mutex;
use runtime::thread::{self, JoinHandle};
use runtime::{Result, fd, path};
use syscall::error::EINTR;
use syscall::flag::O_RDWR;

/// Address spaces of ended daemons.
pub type Memory = Vec<Fd>;

/// The pipe by which a successor frees memory, and the thread that waits for its byte.
pub struct Lease {
    memory: Arc<Mutex<Memory>>,
    waiting: JoinHandle<()>,
}

impl Lease {
    /// Takes `memory` and keeps it until a byte comes out of the pipe whose other end is returned.
    /// On an error `memory` is unchanged.
    pub fn new(memory: &mut Memory) -> Result<(Self, Fd)> {
        let read = Fd::new(path::open_upper("/scheme/pipe", O_RDWR)?);
        let write = Fd::new(fd::dup_upper(read.raw(), b"write")?);
        let kept = Arc::new(Mutex::new(core::mem::take(memory)));
        let own = Arc::clone(&kept);
        let waiting = thread::spawn(move || {
            loop {
                match fd::read(read.raw(), &mut [0]) {
                    Ok(0) => return,
                    Ok(_) => return own.lock().clear(),
                    Err(error) if error.errno == EINTR => {}
                    Err(_) => return,
                }
            }
        });
        match waiting {
            Ok(waiting) => {
                let memory = kept;
                Ok((Lease { memory, waiting }, write))
            }
            Err(error) => {
                *memory = core::mem::take(&mut kept.lock());
                Err(error)
            }
        }
    }

    /// Ends the lease and returns the memory that was not freed. The holder of the pipe must have
    /// ended.
    pub fn end(self) -> Memory {
        let Lease { memory, waiting } = self;
        // The thread returns no result.
        let _ = waiting.join();
        core::mem::take(&mut memory.lock())
    }
}
