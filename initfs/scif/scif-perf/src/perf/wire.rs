//! The protocol between client and server: a request for a measurement, and answers of eight
//! bytes. Both ends are the same program, so no other program needs to read it.

use alloc::format;
use scif::{Endpoint, RecvFlags, SendFlags, Waiting};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

use super::{Failure, Path, Result};

/// The requests to the server. It answers each with one word, except where noted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, TryFromBytes)]
#[repr(u32)]
pub enum Verb {
    /// Send back `count` messages of `size` bytes; the answer is the checksum of the last one.
    Echo = 1,
    /// Send a word, then receive `count` messages of `size` bytes; the answer is the checksum of
    /// the last one, or of all if `offset` is not 0.
    Sink = 2,
    /// Send a word, then send `count` messages of `size` bytes. The client sends a word when it
    /// has received them all, and no answer follows.
    Source = 3,
    /// Register `size` bytes of new memory; the answer is its offset. Later requests concern the
    /// window that was registered last.
    Lend = 4,
    /// Fill the first `size` bytes of the window with the pattern of seed `count`.
    Fill = 5,
    /// The answer is the checksum of the first `size` bytes of the window.
    Sum = 6,
    /// Play `count` rounds of ping-pong with `size` bytes between the window and the client's
    /// window at `offset`; the answer is the checksum of the last ball's data.
    Ping = 7,
    /// Take back all windows.
    Release = 8,
    /// Register the first page of the window again until there are `count` windows; the answer is
    /// the offset of the last one.
    Multiply = 9,
    /// Close the connections of the idle port; the answer is their number.
    Forget = 10,
    /// End the server.
    Stop = 11,
    /// As `Lend`, but with memory of the server's own instead of the daemon's.
    LendOwn = 12,
    /// Start a thread that computes (`count` is 1), or stop it (`count` is 0).
    Spin = 13,
    /// The answer is the number of free bytes of memory on the server's node.
    Free = 14,
}

/// How a side waits for messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Polls.
    Poll = 0,
    /// Polls, and yields in between.
    Yield = 1,
    /// Sleeps.
    Block = 2,
    /// Waits as by default: polls for a while, then sleeps.
    Usual = 3,
}

impl Wait {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Yield => "yield",
            Self::Block => "block",
            Self::Usual => "usual",
        }
    }

    /// Pauses between two polls.
    #[inline]
    pub fn pause(self) {
        if self == Self::Yield {
            runtime::thread::yield_now();
        }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    verb: U32,
    wait: U32,
    path: U32,
    zero: U32,
    size: U64,
    count: U64,
    offset: U64,
}

/// A request to the server.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The work to do.
    pub verb: Verb,
    /// How to wait for messages.
    pub wait: Wait,
    /// The path that messages take.
    pub path: Path,
    /// A number of bytes.
    pub size: u64,
    /// A count, or another number that the request needs.
    pub count: u64,
    /// An offset in the client's registered address space.
    pub offset: i64,
}

impl Request {
    /// A request about `size` bytes. Its numbers are 0, and it waits by blocking, on the bypass.
    pub fn new(verb: Verb, size: u64) -> Self {
        Self {
            verb,
            wait: Wait::Block,
            path: Path::Bypass,
            size,
            count: 0,
            offset: 0,
        }
    }

    /// Sends the request to the server.
    pub fn say(&self, endpoint: &Endpoint) -> Result {
        let record = Record {
            verb: (self.verb as u32).into(),
            wait: (self.wait as u32).into(),
            path: u32::from(self.path == Path::File).into(),
            zero: 0.into(),
            size: self.size.into(),
            count: self.count.into(),
            offset: (self.offset as u64).into(),
        };
        let bytes = record.as_bytes();
        match endpoint.send(bytes, SendFlags::BLOCK)? {
            count if count == bytes.len() => Ok(()),
            _ => Err("the connection has ended".into()),
        }
    }

    /// Receives the next request; `None` if the client has gone.
    pub fn hear(endpoint: &Endpoint) -> Result<Option<Self>> {
        let mut bytes = [0; size_of::<Record>()];
        match endpoint.recv(&mut bytes, RecvFlags::BLOCK) {
            Ok(count) if count == bytes.len() => {}
            _ => return Ok(None),
        }
        let record = Record::read_from_bytes(&bytes).map_err(|_| Failure::from("no request"))?;
        let verb = Verb::try_read_from_bytes(record.verb.as_bytes());
        Ok(Some(Self {
            verb: verb.map_err(|_| Failure::from("no request has that number"))?,
            wait: match record.wait.get() {
                0 => Wait::Poll,
                1 => Wait::Yield,
                3 => Wait::Usual,
                _ => Wait::Block,
            },
            path: match record.path.get() {
                0 => Path::Bypass,
                _ => Path::File,
            },
            size: record.size.get(),
            count: record.count.get(),
            offset: record.offset.get() as i64,
        }))
    }
}

/// Sends a word.
pub fn tell(endpoint: &Endpoint, word: u64) -> Result {
    match endpoint.send(&word.to_le_bytes(), SendFlags::BLOCK)? {
        8 => Ok(()),
        _ => Err("the connection has ended".into()),
    }
}

/// Receives a word.
pub fn hear(endpoint: &Endpoint) -> Result<u64> {
    let mut bytes = [0; 8];
    match endpoint.recv(&mut bytes, RecvFlags::BLOCK)? {
        8 => Ok(u64::from_le_bytes(bytes)),
        _ => Err("the connection has ended".into()),
    }
}

/// A channel that sends and receives whole messages.
#[derive(Clone, Copy, Debug)]
pub struct Channel<'a> {
    /// The connection.
    pub endpoint: &'a Endpoint,
    /// How to wait for messages.
    pub wait: Wait,
    /// The path that messages take.
    pub path: Path,
}

impl Channel<'_> {
    /// Prepares for round trips. A blocking call polls for a while before it sleeps, and would see
    /// the answer of a peer that polls, too. So a test that measures sleeping must sleep at once.
    pub fn begin_echo(&self) {
        self.endpoint.set_waiting(match self.wait {
            Wait::Block => Waiting::Sleep,
            Wait::Poll | Wait::Yield | Wait::Usual => Waiting::Adaptive,
        });
    }

    /// Whether the library waits, rather than the loops here.
    fn sleeps(&self) -> bool {
        matches!(self.wait, Wait::Block | Wait::Usual)
    }

    /// Sends a whole message.
    #[inline]
    pub fn send(&self, message: &[u8]) -> Result {
        if self.path == Path::File {
            return self.write(message);
        }
        if self.sleeps() {
            return whole(
                self.endpoint.send(message, SendFlags::BLOCK)?,
                message.len(),
            );
        }
        let mut sent = self.endpoint.send(message, SendFlags::empty())?;
        while sent < message.len() {
            self.wait.pause();
            sent += self.endpoint.send(&message[sent..], SendFlags::empty())?;
        }
        Ok(())
    }

    /// Receives a whole message.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result {
        if self.path == Path::File {
            return self.read(buffer);
        }
        if self.sleeps() {
            let length = buffer.len();
            return whole(self.endpoint.recv(buffer, RecvFlags::BLOCK)?, length);
        }
        let mut got = self.endpoint.recv(buffer, RecvFlags::empty())?;
        while got < buffer.len() {
            self.wait.pause();
            got += self.endpoint.recv(&mut buffer[got..], RecvFlags::empty())?;
        }
        Ok(())
    }

    fn write(&self, message: &[u8]) -> Result {
        let mut sent = 0;
        while sent < message.len() {
            match runtime::fd::write(self.endpoint.fd(), &message[sent..])? {
                0 => return Err("the file takes no bytes".into()),
                count => sent += count,
            }
        }
        Ok(())
    }

    fn read(&self, buffer: &mut [u8]) -> Result {
        let mut got = 0;
        while got < buffer.len() {
            match runtime::fd::read(self.endpoint.fd(), &mut buffer[got..])? {
                0 => {
                    return Err(format!(
                        "the file has ended after {got} bytes of {}",
                        buffer.len()
                    )
                    .into());
                }
                count => got += count,
            }
        }
        Ok(())
    }
}

fn whole(count: usize, wanted: usize) -> Result {
    match count == wanted {
        true => Ok(()),
        false => Err("the connection has ended in a message".into()),
    }
}
