//! The order in which requests are served: processes take turns, so that one that asks for much at
//! a time, with many threads, does not keep another waiting for all of it.
//!
//! Requests wait here in order of arrival. Each round takes a few of every process. Between two
//! rounds the socket is read, so that a process that asks again has a turn in the next one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use syscall::schemev2::{Opcode, Sqe};

/// Most requests of one process in one round.
const PER_ROUND: u32 = 8;

/// The requests that wait for their turn. It keeps the memory it once needed.
#[derive(Default)]
pub(super) struct RequestQueue {
    waiting: VecDeque<Waiting>,
    /// Processes of a round, each with the number of its requests in it.
    processes: Vec<(u64, u32)>,
    /// Requests that have had their turn.
    served: u64,
    /// See [`Counters::others_first`](super::Counters::others_first).
    others_first: u64,
}

struct Waiting {
    request: Sqe,
    /// The value of [`RequestQueue::served`] when the request came.
    served: u64,
    /// Whether no other request of its process waited at that time.
    is_only: bool,
}

/// The caller of a request that the kernel makes on its own behalf.
pub(super) const NOBODY: u64 = 0;

/// Whether a request reports an end. It is then served at once: it is little work, and later
/// requests may rely on it. The kernel reports the end of an event queue by an `Fevent` of
/// [`NOBODY`].
pub(super) fn is_notice(request: &Sqe) -> bool {
    match Opcode::try_from_raw(request.opcode) {
        Some(Opcode::Cancel | Opcode::CloseMsg | Opcode::Detach | Opcode::Munmap) => true,
        Some(Opcode::Fevent) => request.caller == NOBODY,
        _ => false,
    }
}

impl RequestQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, request: Sqe) {
        let is_ones = |other: &Waiting| other.request.caller == request.caller;
        let is_only = !self.waiting.iter().any(is_ones);
        self.waiting.push_back(Waiting {
            request,
            served: self.served,
            is_only,
        });
    }

    /// See [`Counters::others_first`](super::Counters::others_first).
    pub(super) fn others_first(&self) -> u64 {
        self.others_first
    }

    /// Takes out the request that a cancellation concerns, if it still waits here: it must be
    /// served before the cancellation.
    pub(super) fn take_cancelled(&mut self, cancellation: &Sqe) -> Option<Sqe> {
        if cancellation.opcode != Opcode::Cancel as u8 {
            return None;
        }
        let is_it = |waiting: &Waiting| waiting.request.tag == cancellation.tag;
        let index = self.waiting.iter().position(is_it)?;
        self.waiting.remove(index).map(|waiting| waiting.request)
    }

    /// Moves the requests of the next round to `round`, which is empty.
    pub(super) fn next_round(&mut self, round: &mut Vec<Sqe>) {
        let processes = &mut self.processes;
        processes.clear();
        let (served, others_first) = (&mut self.served, &mut self.others_first);
        self.waiting.retain(|waiting| {
            let request = &waiting.request;
            let known = processes
                .iter_mut()
                .find(|(process, _)| *process == request.caller);
            let count = match known {
                Some((_, count)) => count,
                None => {
                    processes.push((request.caller, 0));
                    let Some((_, count)) = processes.last_mut() else {
                        return true;
                    };
                    count
                }
            };
            *count += 1;
            let is_in = *count <= PER_ROUND;
            if is_in {
                if waiting.is_only {
                    *others_first = (*others_first).max(*served - waiting.served);
                }
                *served += 1;
                round.push(*request);
            }
            !is_in
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(caller: u64, tag: u32) -> Sqe {
        Sqe {
            opcode: Opcode::Read as u8,
            caller,
            tag,
            ..Sqe::default()
        }
    }

    fn round(queue: &mut RequestQueue) -> Vec<u32> {
        let mut round = Vec::new();
        queue.next_round(&mut round);
        round.iter().map(|request| request.tag).collect()
    }

    #[test]
    fn processes_take_turns() {
        let mut queue = RequestQueue::default();
        (0..20).for_each(|tag| queue.push(request(7, tag)));
        queue.push(request(8, 100));
        queue.push(request(9, 200));
        queue.push(request(8, 101));
        let first: Vec<u32> = (0..8).chain([100, 200, 101]).collect();
        assert_eq!(round(&mut queue), first);
        // A process that asks again is in the next round, before most of the first one's.
        queue.push(request(8, 102));
        let second: Vec<u32> = (8..16).chain([102]).collect();
        assert_eq!(round(&mut queue), second);
        assert_eq!(round(&mut queue), [16, 17, 18, 19]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_cancellation_finds_its_request() {
        let mut queue = RequestQueue::default();
        (0..20).for_each(|tag| queue.push(request(7, tag)));
        let cancel = Sqe {
            opcode: Opcode::Cancel as u8,
            ..request(0, 15)
        };
        assert!(is_notice(&cancel) && !is_notice(&request(7, 1)));
        assert_eq!(
            queue.take_cancelled(&cancel).map(|found| found.tag),
            Some(15)
        );
        assert!(queue.take_cancelled(&cancel).is_none());
        let close = Sqe {
            opcode: Opcode::CloseMsg as u8,
            ..request(0, 3)
        };
        assert!(is_notice(&close) && queue.take_cancelled(&close).is_none());
        let watched_by = |caller| Sqe {
            opcode: Opcode::Fevent as u8,
            ..request(caller, 4)
        };
        assert!(is_notice(&watched_by(NOBODY)) && !is_notice(&watched_by(7)));
    }
}
