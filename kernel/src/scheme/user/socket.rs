//! The daemon's side of a scheme: reads requests, writes answers, and passes files in both
//! directions.

use ::syscall::{
    EventFlags,
    error::{EAGAIN, EBADFD, EINTR, EINVAL, ENODEV, ENOENT, ENOMEM, Error, Result},
    flag::O_NONBLOCK,
    schemev2::{Cqe, CqeOpcode, Sqe},
};
use kernel_core::requests::{Reply, TagError};

use super::{File, State, UserScheme, deliver_files, message::sqe_of};
use crate::{
    mm::UserBuf,
    object::deferred::{Entry, Message},
    proc, sched,
    scheme::{reaper, trigger},
};
use alloc::vec::Vec;

const SQE_SIZE: usize = size_of::<Sqe>();
const CQE_SIZE: usize = size_of::<Cqe>();

/// The error numbers end before this.
const MAX_ERRNO: i32 = 132;

/// Decodes a result word like the Redox libraries: the low half determines whether it is an error.
fn demux(word: u64) -> Result<usize, i32> {
    match (word as u32 as i32).checked_neg() {
        Some(errno @ 1..MAX_ERRNO) => Err(errno),
        _ => Ok(word as usize),
    }
}

fn answer_error(error: TagError) -> Error {
    Error::new(match error {
        TagError::Unknown => EBADFD,
        TagError::Answered => EINVAL,
    })
}

fn file_error(error: TagError) -> Error {
    Error::new(match error {
        TagError::Unknown => EINVAL,
        TagError::Answered => ENOENT,
    })
}

/// Stores waiting requests; `None` when none wait.
fn take_requests(state: &mut State, buf: UserBuf) -> Option<Result<usize>> {
    if !state.open {
        return Some(Err(Error::new(ENODEV)));
    }
    if state.todo.is_empty() {
        return None;
    }
    if buf.len() < SQE_SIZE {
        return Some(if buf.is_empty() {
            Ok(0)
        } else {
            Err(Error::new(EINVAL))
        });
    }
    let mut stored = 0;
    for chunk in buf.chunks(SQE_SIZE) {
        let Some(message) = state.todo.first() else {
            break;
        };
        if let Err(error) = chunk.write_all(&sqe_of(message)) {
            return Some(if stored > 0 { Ok(stored) } else { Err(error) });
        }
        if let Some(Message::Request(sqe)) = state.todo.pop().as_ref().map(Entry::value) {
            // Of a cancellation this says nothing new.
            state.requests.set_read(sqe.tag);
        }
        stored += SQE_SIZE;
    }
    Some(Ok(stored))
}

impl UserScheme {
    /// The events for which the socket is ready now.
    pub fn ready(&self) -> EventFlags {
        if self.state.lock().todo.is_empty() {
            EventFlags::empty()
        } else {
            EventFlags::EVENT_READ
        }
    }

    /// Copies as many requests to the daemon as fit; waits for the first unless the socket is
    /// non-blocking (`EAGAIN`).
    pub fn read_requests(&self, buf: UserBuf, flags: u32) -> Result<usize> {
        let take = || take_requests(&mut self.state.lock(), buf);
        if flags & O_NONBLOCK as u32 != 0 {
            let empty = match buf.len() {
                0 => Ok(0),
                1..SQE_SIZE => Err(Error::new(EINVAL)),
                _ => Err(Error::new(EAGAIN)),
            };
            return take().unwrap_or(empty);
        }
        if let Some(result) = take() {
            return result;
        }
        reaper::run();
        self.readers
            .wait(None, take)
            .unwrap_or(Err(Error::new(EINTR)))
    }

    /// Handles answers in order and stops at the first bad one. Reports its error only when it is
    /// the very first.
    pub fn write_answers(&self, buf: UserBuf) -> Result<usize> {
        let mut done = 0;
        for chunk in buf.chunks(CQE_SIZE) {
            match self.write_answer(chunk) {
                Ok(()) => done += CQE_SIZE,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_answer(&self, chunk: UserBuf) -> Result<()> {
        let mut cqe = Cqe::default();
        chunk.read_exact(&mut cqe)?;
        let opcode = CqeOpcode::try_from_raw(cqe.flags & 0b111).ok_or(Error::new(EINVAL))?;
        let [extra, ..] = cqe.extra_raw;
        let value = |notify_on_detach| {
            let result = demux(cqe.result);
            Reply::Value {
                result,
                extra,
                notify_on_detach,
            }
        };
        match opcode {
            CqeOpcode::RespondRegular => self.answer(cqe.tag, value(false)),
            CqeOpcode::RespondAndNotifyOnDetach => self.answer(cqe.tag, value(true)),
            CqeOpcode::RespondWithFd => {
                // The number leaves the daemon's table, even if the answer is refused.
                let file = proc::files().take(cqe.result as usize);
                self.answer(cqe.tag, Reply::Fd(file.map_err(|_| Error::new(EINVAL))?))
            }
            CqeOpcode::RespondWithMultipleFds => self.answer(cqe.tag, Reply::Fds),
            CqeOpcode::SendFevent => {
                let flags = EventFlags::from_bits(cqe.tag as usize).ok_or(Error::new(EINVAL))?;
                trigger(self.id(), cqe.result as usize, flags);
                Ok(())
            }
            CqeOpcode::ObtainFd => self.obtain_one(cqe.tag as usize, cqe.result as usize),
        }
    }

    fn answer(&self, tag: u32, reply: Reply<File>) -> Result<()> {
        let answered = {
            let mut state = self.state.lock();
            let answered = state.requests.answer(tag, reply);
            if matches!(&answered, Ok(completed) if completed.is_unread) {
                // They would use memory until the daemon reads them, which it may never do.
                let is_about =
                    |message: &_| matches!(message, Message::Request(sqe) if sqe.tag == tag);
                while state.todo.take(is_about).is_some() {}
            }
            answered
        };
        let completed = answered.map_err(|(error, _reply)| answer_error(error))?;
        match (completed.waiter, completed.abandoned) {
            (Some(waiter), _) => {
                sched::wake(&waiter);
            }
            (None, Some(abandoned)) => self.clear_up(abandoned, completed.unclaimed),
            (None, None) => self.unattended_answered(),
        }
        // Files that no client took are dropped here.
        Ok(())
    }

    /// Puts the next file that was sent with a request at `slot`. As on Redox, a file for a taken
    /// slot is lost, and so is one for whose slot there is no memory: `ENOMEM`.
    fn obtain_one(&self, tag: usize, slot: usize) -> Result<()> {
        let file = self
            .state
            .lock()
            .requests
            .take_first_file(tag)
            .map_err(file_error)?;
        match proc::files().insert(slot, file.ok_or(Error::new(ENOENT))?, EINVAL) {
            Err(Error { errno: ENOMEM }) => Err(Error::new(ENOMEM)),
            _ => Ok(()),
        }
    }

    /// Puts all files that were sent with a request into the slots that the payload lists.
    pub fn obtain_files(&self, tag: usize, payload: UserBuf) -> Result<usize> {
        let files = self
            .state
            .lock()
            .requests
            .take_files(tag)
            .map_err(file_error)?;
        // Refused files are lost, as in Redox.
        deliver_files(files, payload).map_err(|(error, _files)| error)
    }

    /// Passes files to a request that asks for some.
    pub fn move_files(&self, tag: usize, files: Vec<File>) -> Result<usize> {
        let count = files.len();
        let moved = self.state.lock().requests.put_files(tag, files);
        // Refused or replaced files are dropped after the lock.
        moved.map_err(|(error, _files)| file_error(error))?;
        Ok(count)
    }
}
