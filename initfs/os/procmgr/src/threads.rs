//! Threads that end without a status of their process: those of a program that is replaced, and
//! those that nobody can start any more.

use syscall::error::Result;

use crate::process::{Pid, Process, State};
use crate::table::{Contexts, Table};

/// The number of the thread with which a process begins.
const FIRST: usize = 0;

impl<C: Contexts> Table<C> {
    /// Notes that a client has got a handle of a process.
    pub fn opened(&mut self, pid: Pid, handle: usize) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.handles.push(handle);
        }
    }

    /// Notes that a handle of a process was closed.
    pub fn closed(&mut self, pid: Pid, handle: usize) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.handles.retain(|&known| known != handle);
        if process.handles.is_empty() && self.is_unstarted(pid) {
            self.forget_unstarted(pid);
        }
    }

    /// Notes that a client has got a handle of a thread.
    pub fn thread_opened(&mut self, pid: Pid, number: usize) {
        if let Some(process) = self.processes.get_mut(&pid) {
            *process.thread_handles.entry(number).or_default() += 1;
        }
    }

    /// Notes that a handle of a thread was closed.
    pub fn thread_closed(&mut self, pid: Pid, number: usize) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if let Some(count) = process.thread_handles.get_mut(&number)
            && *count > 1
        {
            *count -= 1;
            return;
        }
        process.thread_handles.remove(&number);
        // Whoever has a handle of the process can get another one of its first thread. Other
        // threads are started by who has made them, and one that is not would count for ever.
        if number != FIRST
            && let Ok(context) = self.thread(pid, number)
            && !self.contexts().has_begun(context)
        {
            let _ = self.contexts().kill(context); // It reports its end.
        }
    }

    /// Whether no thread of a process has begun to run, and none is to end.
    fn is_unstarted(&self, pid: Pid) -> bool {
        let has_begun = |process: &Process<C::Context>| {
            let mut threads = process.threads.values();
            threads.any(|context| self.contexts().has_begun(context))
        };
        self.process(pid).is_ok_and(|process| {
            matches!(process.state, State::New | State::Running) && !has_begun(process)
        })
    }

    /// Ends a process that nobody can start.
    fn forget_unstarted(&mut self, pid: Pid) {
        if let Some(process) = self.processes.get_mut(&pid) {
            // None waits for it; its parent may wait for any child.
            self.changed.insert(process.parent);
            process.parent = 0;
            self.end(pid, 0);
        }
    }

    /// Ends the children of a process that have not begun, when whoever was making them is gone.
    /// Their own descriptors include handles of themselves, so those are never all closed.
    pub(crate) fn end_unstarted(&mut self, parent: Pid) {
        let next = |table: &Self, from: Pid| {
            let mut children = table.processes.range(from..).map(|(_, process)| process);
            let found = children.find(|it| it.parent == parent && table.is_unstarted(it.pid));
            found.map(|child| child.pid)
        };
        // One by one, as a list takes memory; each is asked once, as that is a system call.
        let mut from = 0;
        while let Some(child) = next(self, from) {
            self.forget_unstarted(child);
            from = child.saturating_add(1);
        }
    }

    /// Kills all threads of a process but one. Returns how many of the others have not ended yet:
    /// one of them may have started another thread before it ended, so the caller asks again until
    /// there are none. Then the children that the others were making are ended, too.
    ///
    /// # Errors
    /// `ESRCH`: there is no such process or thread.
    pub fn end_others(&mut self, pid: Pid, number: usize) -> Result<usize> {
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
        if left == 0 {
            self.end_unstarted(pid);
        }
        Ok(left)
    }
}
