//! Waiting for messages, with a system whose clock goes on with each wait.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hal::testing::host::{self, Request};
use syscall::data::Event;
use syscall::flag::EVENT_TIMEOUT_ID;

use super::*;

const FILE: usize = 3;
const QUEUE: usize = 4;
const LIMIT: Duration = Duration::from_millis(100);

/// The end of a wait for events.
#[derive(Clone, Copy)]
enum Wake {
    /// After these milliseconds, and an event of the file without a message.
    Event(u64),
    /// After these milliseconds, and an event of the file with a message.
    Message(u64),
    /// After these milliseconds somebody interrupts the program.
    Interruption(u64),
    /// At the time limit.
    Limit,
}

/// A system whose waits end as `wakes` say.
#[derive(Default)]
struct Played {
    wakes: VecDeque<Wake>,
    milliseconds: u64,
    /// The limit of the next wait.
    limit: u64,
    has_message: bool,
}

impl Played {
    fn answer(&mut self, request: Request<'_>) -> Result<usize> {
        match request {
            Request::Open("/scheme/event") => Ok(QUEUE),
            Request::Open(_) => Ok(FILE),
            Request::Read(QUEUE, bytes) => {
                let wake = self.wakes.pop_front().expect("no further wait");
                let after = match wake {
                    Wake::Event(after) | Wake::Message(after) | Wake::Interruption(after) => after,
                    Wake::Limit => self.limit,
                };
                assert!(after <= self.limit, "a wait beyond the limit");
                self.milliseconds += after;
                self.has_message = matches!(wake, Wake::Message(_));
                if matches!(wake, Wake::Interruption(_)) {
                    return Err(Error::new(EINTR));
                }
                // The event of the file has 0 as its data, as the first source.
                let id = match wake {
                    Wake::Limit => EVENT_TIMEOUT_ID,
                    _ => FILE,
                };
                bytes[..8].copy_from_slice(&id.to_ne_bytes());
                bytes[8..size_of::<Event>()].fill(0);
                Ok(size_of::<Event>())
            }
            Request::Write(QUEUE, bytes) => {
                let words: Vec<usize> = bytes
                    .chunks(8)
                    .map(|word| usize::from_ne_bytes(word.try_into().expect("a word")))
                    .collect();
                if words[0] == EVENT_TIMEOUT_ID {
                    self.limit = words[2] as u64;
                }
                Ok(bytes.len())
            }
            Request::Read(FILE, bytes) if self.has_message => Ok(bytes.len()),
            Request::Read(FILE, _) => Err(Error::new(EAGAIN)),
            Request::Clock(_, time) => {
                time.tv_sec = 1;
                time.tv_nsec = (self.milliseconds * 1_000_000) as _;
                Ok(0)
            }
            _ => Ok(0),
        }
    }
}

/// Receives once. Returns whether a message came, and after how many milliseconds.
fn receive(wakes: &[Wake], limit: Option<Duration>) -> (bool, u64) {
    let played = Rc::new(RefCell::new(Played {
        wakes: wakes.iter().copied().collect(),
        limit: u64::MAX,
        ..Played::default()
    }));
    let system = played.clone();
    let answer = move |request: Request<'_>| system.borrow_mut().answer(request);
    let received = host::play(answer, || {
        let port = Port::open().expect("a port");
        port.receive(limit)
    });
    let played = played.borrow();
    assert!(played.wakes.is_empty(), "it has waited as often");
    (received.expect("no error").is_some(), played.milliseconds)
}

#[test]
fn an_interrupted_wait_goes_on() {
    let wakes = [Wake::Interruption(10), Wake::Message(50)];
    assert_eq!(receive(&wakes, Some(LIMIT)), (true, 60));
    assert_eq!(receive(&wakes, None), (true, 60));
}

#[test]
fn no_wake_up_makes_the_wait_longer() {
    let wakes = [Wake::Event(40), Wake::Interruption(40), Wake::Limit];
    assert_eq!(receive(&wakes, Some(LIMIT)), (false, 100));
    assert_eq!(receive(&[Wake::Event(100)], Some(LIMIT)), (false, 100));
    assert_eq!(receive(&[], Some(Duration::ZERO)), (false, 0));
}
