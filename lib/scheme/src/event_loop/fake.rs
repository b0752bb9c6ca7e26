//! A scheme's socket without a kernel, for tests on the development machine.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use syscall::error::Result;
use syscall::schemev2::{Cqe, Sqe};

use super::Transport;

/// Both ends of the socket: the loop gets a clone, and the test keeps the other.
#[derive(Clone, Debug, Default)]
pub struct FakeSocket {
    requests: Rc<RefCell<VecDeque<Sqe>>>,
    answers: Rc<RefCell<Vec<Cqe>>>,
}

impl FakeSocket {
    /// Sends a request, which the loop finds at its next poll.
    pub fn send(&self, request: Sqe) {
        self.requests.borrow_mut().push_back(request);
    }

    /// Takes the last answer; `None` if the request still waits.
    pub fn answer(&self) -> Option<Cqe> {
        self.answers.borrow_mut().pop()
    }
}

impl Transport for FakeSocket {
    fn blocking(&self) -> bool {
        false
    }

    fn read(&mut self, requests: &mut [Sqe]) -> Result<Option<usize>> {
        Ok(self.requests.borrow_mut().pop_front().map(|request| {
            requests[0] = request;
            1
        }))
    }

    fn write(&mut self, answers: &[Cqe]) -> Result<usize> {
        self.answers.borrow_mut().extend(answers);
        Ok(answers.len())
    }
}
