//! The end of a program's other threads, when one of them replaces the program.

use syscall::error::Result;

use crate::process::Pid;
use crate::table::{Contexts, Table};

impl<C: Contexts> Table<C> {
    /// Kills all threads of a process but one. Returns how many of the others have not ended yet:
    /// one of them may have started another thread before it ended, so the caller asks again until
    /// there are none.
    ///
    /// # Errors
    /// `ESRCH`: there is no such process or thread.
    pub fn end_others(&self, pid: Pid, number: usize) -> Result<usize> {
        self.thread(pid, number)?;
        let threads = self.process(pid)?.threads.iter();
        let others = threads.filter(|(other, _)| **other != number);
        let mut left = 0;
        for (_, context) in others {
            if self.contexts().end(context).is_none() {
                self.contexts().kill(context)?;
                left += 1;
            }
        }
        Ok(left)
    }
}
