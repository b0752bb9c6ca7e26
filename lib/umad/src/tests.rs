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
    /// Messages with their headers. Another thread takes one that this thread has no room for.
    messages: VecDeque<Vec<u8>>,
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
            Request::Read(FILE, bytes) if !self.messages.is_empty() => {
                let message = self.messages.pop_front().unwrap_or_default();
                let count = message.len().min(bytes.len());
                bytes[..count].copy_from_slice(&message[..count]);
                match count == message.len() {
                    true => Ok(count),
                    false => Err(Error::new(ENOSPC)),
                }
            }
            Request::Write(FILE, bytes) => Ok(bytes.len()),
            Request::Read(FILE, bytes) if self.has_message => Ok(bytes.len()),
            Request::Read(FILE, _) => Err(Error::new(EAGAIN)),
            Request::Clock(_, time) => {
                time.tv_sec = (1 + self.milliseconds / 1000) as _;
                time.tv_nsec = (self.milliseconds % 1000 * 1_000_000) as _;
                Ok(0)
            }
            _ => Ok(0),
        }
    }
}

/// Runs a test on a port, with these messages and wakes. Returns its result, and after how many
/// milliseconds.
fn with<T>(
    messages: impl IntoIterator<Item = Vec<u8>>,
    wakes: &[Wake],
    test: impl FnOnce(&Port) -> T,
) -> (T, u64) {
    let played = Rc::new(RefCell::new(Played {
        wakes: wakes.iter().copied().collect(),
        limit: u64::MAX,
        messages: messages.into_iter().collect(),
        ..Played::default()
    }));
    let system = played.clone();
    let answer = move |request: Request<'_>| system.borrow_mut().answer(request);
    let result = host::play(answer, || test(&Port::open().expect("a port")));
    let played = played.borrow();
    assert!(played.wakes.is_empty() && played.messages.is_empty());
    (result, played.milliseconds)
}

/// A message from a port to agent 0, as the file gives it, of this many bytes.
fn arriving(lid: u16, status: u32, mad: &Mad, bytes: usize) -> Vec<u8> {
    let header = UserMad {
        status,
        length: (size_of::<UserMad>() + bytes) as u32,
        lid: lid.to_be_bytes(),
        ..UserMad::default()
    };
    let mut message = [header.as_bytes(), mad.bytes()].concat();
    message.resize(size_of::<UserMad>() + bytes, 0);
    message
}

/// A request of subnet administration, and its answer.
fn request_and_answer() -> (Mad, Mad) {
    let asked = get(class::SUBNET_ADMINISTRATION, 2, 0x11, 0, 7);
    let mut answer = asked;
    answer.header.method = method::GET_RESPONSE;
    answer.header.tid = (5 << 32 | 7).into();
    (asked, answer)
}

#[test]
fn a_message_that_another_thread_takes_makes_no_error() {
    let (_, answer) = request_and_answer();
    let lengths = [500, 1000, 256];
    let messages = lengths.map(|bytes| arriving(2, 0, &answer, bytes));
    let (received, _) = with(messages, &[], Port::take);
    assert_eq!(received.expect("no error").message.len(), 256);
}

#[test]
fn only_an_answer_of_the_port_that_was_asked_is_one() {
    let (asked, answer) = request_and_answer();
    let mut of_other_class = answer;
    of_other_class.header.class = class::PERFORMANCE;
    let mut other = answer;
    other.header.tid = (5 << 32 | 8).into();
    let mut last = answer;
    last.header.attribute = 0x12.into();
    let messages = [
        arriving(3, 0, &answer, 256),
        arriving(2, 0, &of_other_class, 256),
        arriving(2, 0, &other, 256),
        arriving(2, 0, &asked, 256),
        arriving(2, 0, &last, 256),
    ];
    let ask = |port: &Port| port.ask(Agent(0), &general(2), asked.bytes(), RetryPolicy::USUAL);
    let (answered, _) = with(messages, &[], ask);
    let answered = answered.expect("no error").expect("an answer");
    assert_eq!(answered.mad().header.attribute.get(), 0x12);
    // The report that none came has the request's header.
    let report = [arriving(2, 110, &asked, 256)];
    assert!(matches!(with(report, &[], ask).0, Ok(None)));
    // The ends of a directed route have no local identifiers.
    let asked = directed(NODE_INFO, 0, &[1], 7);
    let mut answer = asked;
    answer.header.method = method::GET_RESPONSE;
    let messages = [arriving(PERMISSIVE_LID, 0, &answer, 256)];
    let ask = |port: &Port| port.ask(Agent(0), &subnet(0), asked.bytes(), RetryPolicy::USUAL);
    assert!(with(messages, &[], ask).0.expect("no error").is_some());
}

#[test]
fn a_request_of_several_segments_that_is_refused_has_an_end() {
    let (asked, _) = request_and_answer();
    let mut message = asked.bytes().to_vec();
    message[26] = rmpp::flag::ACTIVE;
    message.resize(56 + 200 * 3, 0);
    let policy = RetryPolicy {
        timeout_ms: 100,
        retries: 3,
    };
    let ask = |port: &Port| port.ask(Agent(0), &general(2), &message, policy);
    let (answered, after) = with([], &[Wake::Event(50), Wake::Limit], ask);
    assert!(matches!(answered, Ok(None)));
    // Two windows and the answer four times each, and the time in which an answer may come.
    assert_eq!(after, 3 * 4 * 100 + 40_000);
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
