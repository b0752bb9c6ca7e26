//! Ends the requests of a scheme whose daemon has died, on kernels that do not do so
//! (`hal::kernel::ends_abandoned_requests`): on Redox's kernel the callers would wait for ever.
//!
//! Every process that holds a scheme's socket can answer its requests. So the daemon starts a
//! second process, the keeper, which has a descriptor of the socket and the reading end of a pipe.
//! Only the daemon has the other end. The keeper sleeps until the pipe ends, which means that the
//! daemon has ended. Then it answers every request that is left with `ENODEV`, and exits. It does
//! not touch the socket before, so a living daemon does not notice it.
//!
//! By then there are two kinds of requests. Those that the daemon has not read come out of the
//! socket. Those that it had read are known only to the kernel, by their tags. Tags are small
//! numbers that are used again and again, and the kernel refuses an answer to an unused tag, which
//! then does nothing. So the keeper tries all tags from 0 on, until a long row of them was unused.
//!
//! When a request of a killed caller is answered, the kernel unmaps the memory that the caller had
//! lent: at the daemon's addresses, but in the memory of the process that answers. The keeper is
//! the same program as its daemon and has mapped only its image, its stack and the beginning of
//! its heap. At these addresses the daemon has its own image, stack and heap, never lent memory.

use alloc::rc::Rc;

use libredox::Fd;
use redox_scheme::Socket;
use syscall::error::{EBADFD, EINTR, ENODEV, Error, Result};
use syscall::schemev2::{Cqe, CqeOpcode, Sqe, SqeFlags};

use crate::event_loop::{SocketTransport, Transport};

/// The search for tags ends after this many unused ones in a row. No more requests than this ever
/// wait at once.
const FREE_TAGS: u32 = 4096;
/// Pauses without a request after which the keeper exits. As long as it is there, its daemon's
/// successor cannot have the scheme's name; afterwards the kernel refuses requests itself.
const QUIET_PAUSES: u32 = 5;
/// Pauses after which the keeper exits in any case.
const MOST_PAUSES: u32 = 100;
/// Length of one pause, in milliseconds.
pub const PAUSE_MS: u64 = 10;

/// Waits until the other end of the pipe `daemon` is closed, then ends all requests of the scheme
/// behind `socket`. Returns how many it ended. `pause` sleeps for [`PAUSE_MS`].
///
/// # Errors
/// Those of the pipe and of reading the socket, which must be non-blocking.
pub fn keep(daemon: &Fd, socket: Fd, pause: impl FnMut()) -> Result<usize> {
    wait_for_end(daemon)?;
    // SAFETY: the descriptor is ours alone, and nothing but answers goes into it. Were it no
    // scheme socket, reading and writing it would be errors.
    let socket = unsafe { Socket::from_fd(socket) };
    end_requests(&mut SocketTransport::new(Rc::new(socket), false), pause)
}

/// Waits for the end of the pipe. Nobody writes into it.
fn wait_for_end(daemon: &Fd) -> Result<()> {
    loop {
        match daemon.read(&mut [0; 8]).map_err(Error::from) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Error { errno: EINTR }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ends all requests, including those that arrive until none has arrived for some time.
fn end_requests<T: Transport>(transport: &mut T, mut pause: impl FnMut()) -> Result<usize> {
    let mut ended = end_unread(transport)?.ended;
    ended += end_read(transport);
    let mut quiet = 0;
    for _ in 0..MOST_PAUSES {
        pause();
        let found = end_unread(transport)?;
        ended += found.ended;
        quiet = if found.any { 0 } else { quiet + 1 };
        if quiet == QUIET_PAUSES {
            break;
        }
    }
    Ok(ended)
}

/// What a read of the socket found.
#[derive(Default)]
struct Found {
    /// Whether anything came, notices of closed files included.
    any: bool,
    /// Requests that were answered.
    ended: usize,
}

/// Ends the requests that nobody has read.
fn end_unread<T: Transport>(transport: &mut T) -> Result<Found> {
    let mut requests = [Sqe::default(); 32];
    let mut found = Found::default();
    loop {
        let count = match transport.read(&mut requests) {
            Ok(None | Some(0)) => return Ok(found),
            Ok(Some(count)) => count,
            Err(Error { errno: EINTR }) => continue,
            Err(error) => return Err(error),
        };
        found.any = true;
        for request in &requests[..count] {
            // Nobody waits for the answer to a notice, and its tag may be another request's.
            let waits = !request.sqe_flags.contains(SqeFlags::ONEWAY);
            if waits && end(transport, request.tag).is_ok() {
                found.ended += 1;
            }
        }
    }
}

/// Ends the requests that the daemon had read; returns how many.
fn end_read<T: Transport>(transport: &mut T) -> usize {
    let (mut ended, mut free) = (0, 0);
    for tag in 0.. {
        match end(transport, tag) {
            Ok(_) => (ended, free) = (ended + 1, 0),
            Err(Error { errno: EBADFD }) => free += 1,
            // There was a request, but its caller no longer takes the answer.
            Err(_) => free = 0,
        }
        if free == FREE_TAGS {
            break;
        }
    }
    ended
}

/// Answers one request with `ENODEV`. `EBADFD`: no request has this tag.
fn end<T: Transport>(transport: &mut T, tag: u32) -> Result<usize> {
    let answer = Cqe {
        flags: CqeOpcode::RespondRegular as u8,
        extra_raw: [0; 3],
        tag,
        result: Error::mux(Err(Error::new(ENODEV))) as u64,
    };
    transport.write(&[answer])
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeSet, VecDeque};
    use core::cell::RefCell;

    use syscall::error::{EINVAL, EIO};

    use super::*;

    /// A socket as Redox's kernel has it: it refuses an answer whose tag is unused.
    #[derive(Default)]
    struct Kernel {
        waiting: BTreeSet<u32>,
        /// Tags of requests that were answered, and whose callers were killed before.
        lost: BTreeSet<u32>,
        unread: VecDeque<Result<Sqe>>,
    }

    impl Kernel {
        fn ask(&mut self, tag: u32) {
            self.waiting.insert(tag);
            let request = Sqe {
                tag,
                ..Sqe::default()
            };
            self.unread.push_back(Ok(request));
        }
    }

    impl Transport for Kernel {
        fn blocking(&self) -> bool {
            false
        }

        fn read(&mut self, requests: &mut [Sqe]) -> Result<Option<usize>> {
            let request = self.unread.pop_front().transpose()?;
            Ok(request.map(|request| {
                requests[0] = request;
                1
            }))
        }

        fn write(&mut self, answers: &[Cqe]) -> Result<usize> {
            let [answer] = answers else {
                // The kernel stops at the first answer that it refuses.
                return Err(Error::new(EIO));
            };
            assert_eq!(answer.flags, CqeOpcode::RespondRegular as u8);
            assert_eq!(
                Error::demux(answer.result as usize),
                Err(Error::new(ENODEV))
            );
            if self.waiting.remove(&answer.tag) {
                return Ok(1);
            }
            let is_lost = self.lost.contains(&answer.tag);
            Err(Error::new(if is_lost { EINVAL } else { EBADFD }))
        }
    }

    #[test]
    fn requests_end_whether_the_daemon_had_read_them_or_not() {
        let mut kernel = Kernel::default();
        kernel.waiting.extend([0, 3, 40, 41 + FREE_TAGS - 1]);
        kernel.ask(7);
        // Beyond the tags that are tried.
        kernel.ask(3 * FREE_TAGS);
        assert_eq!(end_requests(&mut kernel, || {}), Ok(6));
        assert!(kernel.waiting.is_empty());
    }

    #[test]
    fn tags_of_killed_callers_hide_none_behind_them() {
        let mut kernel = Kernel::default();
        kernel.lost.extend(0..2 * FREE_TAGS);
        kernel.waiting.insert(2 * FREE_TAGS);
        assert_eq!(end_requests(&mut kernel, || {}), Ok(1));
    }

    #[test]
    fn a_notice_is_not_answered() {
        let mut kernel = Kernel::default();
        let notice = Sqe {
            sqe_flags: SqeFlags::ONEWAY,
            tag: 2 * FREE_TAGS,
            ..Sqe::default()
        };
        kernel.unread.push_back(Ok(notice));
        kernel.waiting.insert(2 * FREE_TAGS);
        assert_eq!(end_requests(&mut kernel, || {}), Ok(0));
    }

    #[test]
    fn an_interrupted_read_is_made_again() {
        let mut kernel = Kernel::default();
        kernel.unread.push_back(Err(Error::new(EINTR)));
        kernel.ask(2 * FREE_TAGS);
        assert_eq!(end_requests(&mut kernel, || {}), Ok(1));
    }

    #[test]
    fn the_keeper_goes_once_nobody_asks() {
        let mut pauses = 0;
        let ended = end_requests(&mut Kernel::default(), || pauses += 1);
        assert_eq!((ended, pauses), (Ok(0), QUIET_PAUSES));
    }

    #[test]
    fn requests_that_keep_coming_end_and_do_not_hold_the_keeper_for_ever() {
        let kernel = RefCell::new(Kernel::default());
        let ended = end_requests(&mut &kernel, || kernel.borrow_mut().ask(1));
        assert_eq!(ended, Ok(MOST_PAUSES as usize));
    }

    impl Transport for &RefCell<Kernel> {
        fn blocking(&self) -> bool {
            false
        }

        fn read(&mut self, requests: &mut [Sqe]) -> Result<Option<usize>> {
            self.borrow_mut().read(requests)
        }

        fn write(&mut self, answers: &[Cqe]) -> Result<usize> {
            self.borrow_mut().write(answers)
        }
    }
}
