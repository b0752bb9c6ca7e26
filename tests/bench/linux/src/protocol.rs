//! The protocol between client and server: the client sends a job of four words, and both do their
//! part of it over the same connection.

use crate::rdma::Program;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PORT: u16 = 7000;
/// The port for connections that are only made and closed.
const SECOND_PORT: u16 = 7001;
/// Longest time that the server's guest may take to boot.
const BOOT: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(20);

/// A job for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Send back `count` messages of `bytes` bytes each.
    Echo {
        /// Bytes in a message.
        bytes: u64,
        /// Number of messages.
        count: u64,
    },
    /// Receive `bytes` bytes in all, then send one byte.
    Sink {
        /// Number of bytes.
        bytes: u64,
    },
    /// Set the MTU, then send one byte.
    Mtu {
        /// Bytes in a packet.
        bytes: u64,
    },
    /// Send one byte, then answer `count` words in the shared memory.
    Words {
        /// Number of words.
        count: u64,
    },
    /// Run a program of RDMA verbs. Send one byte when it listens, and another one when it has
    /// ended.
    Verbs {
        /// The program.
        program: Program,
        /// Bytes in a message.
        bytes: u64,
        /// Number of messages.
        count: u64,
    },
    /// Send one byte after listening on another port, accept and close `count` connections there,
    /// and send another byte.
    Accept {
        /// Number of connections.
        count: u64,
    },
    /// End.
    End,
}

/// Bytes in a job on the wire.
const JOB_BYTES: usize = 32;

impl Job {
    fn words(self) -> [u64; 4] {
        match self {
            Self::Echo { bytes, count } => [1, bytes, count, 0],
            Self::Sink { bytes } => [2, bytes, 0, 0],
            Self::Mtu { bytes } => [3, bytes, 0, 0],
            Self::Words { count } => [4, count, 0, 0],
            Self::End => [5, 0, 0, 0],
            Self::Verbs {
                program,
                bytes,
                count,
            } => [6, bytes, count, program.number()],
            Self::Accept { count } => [7, count, 0, 0],
        }
    }

    fn of_words(words: [u64; 4]) -> Option<Self> {
        Some(match words {
            [1, bytes, count, _] => Self::Echo { bytes, count },
            [2, bytes, ..] => Self::Sink { bytes },
            [3, bytes, ..] => Self::Mtu { bytes },
            [4, count, ..] => Self::Words { count },
            [5, ..] => Self::End,
            [6, bytes, count, number] => Self::Verbs {
                program: Program::of_number(number)?,
                bytes,
                count,
            },
            [7, count, ..] => Self::Accept { count },
            _ => return None,
        })
    }

    /// Receives the next job of a connection.
    pub fn receive(stream: &mut TcpStream) -> Result<Self> {
        let mut record = [0; JOB_BYTES];
        stream.read_exact(&mut record)?;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(record.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self::of_words(words).ok_or_else(|| Error::new(ErrorKind::InvalidData, "unknown job"))
    }

    fn send(self, stream: &mut TcpStream) -> Result<()> {
        let mut record = Vec::with_capacity(JOB_BYTES);
        for word in self.words() {
            record.extend_from_slice(&word.to_le_bytes());
        }
        stream.write_all(&record)
    }
}

/// The client's connection to the server's guest.
pub struct Server {
    address: String,
    /// Carries jobs, messages and answers, without Nagle's delay.
    pub stream: TcpStream,
}

impl Server {
    /// Connects as soon as the other guest listens.
    pub fn connect(address: &str) -> Result<Self> {
        let start = Instant::now();
        loop {
            match connected(address) {
                Ok(stream) => {
                    return Ok(Self {
                        address: address.to_string(),
                        stream,
                    });
                }
                Err(error) if start.elapsed() > BOOT => return Err(error),
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Sets the MTU on both sides, and connects again so that the connection uses it.
    pub fn set_mtu(&mut self, bytes: u64) -> Result<()> {
        self.start(Job::Mtu { bytes })?;
        self.wait()?;
        mtu(bytes)?;
        self.stream = connected(&self.address)?;
        Ok(())
    }

    /// Returns the server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends the server a job.
    pub fn start(&mut self, job: Job) -> Result<()> {
        job.send(&mut self.stream)
    }

    /// Waits for the next byte that the server sends during a job.
    pub fn wait(&mut self) -> Result<()> {
        self.stream.read_exact(&mut [0])
    }

    /// Connects to the second port, and closes the connection.
    pub fn connect_and_close(&self) -> Result<()> {
        TcpStream::connect((self.address.as_str(), SECOND_PORT)).map(drop)
    }

    /// Ends the server.
    pub fn end(mut self) -> Result<()> {
        self.start(Job::End)
    }
}

fn connected(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect((address, PORT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Listens on the second port.
pub fn listen_second() -> Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", SECOND_PORT))
}

/// Listens as the server.
pub fn listen() -> Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", PORT))
}

/// Sets the MTU of this guest's network card.
pub fn mtu(bytes: u64) -> Result<()> {
    let status = std::process::Command::new("/bin/busybox")
        .args(["ip", "link", "set", "dev", "eth0", "mtu"])
        .arg(bytes.to_string())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::other(format!("the MTU {bytes} was refused")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_survive_the_wire() {
        let jobs = [
            Job::Echo {
                bytes: 64,
                count: 1000,
            },
            Job::Sink { bytes: 1 << 30 },
            Job::Mtu { bytes: 65535 },
            Job::Words { count: 7 },
            Job::Verbs {
                program: Program::Write,
                bytes: 1 << 20,
                count: 9,
            },
            Job::Accept { count: 8 },
            Job::End,
        ];
        for job in jobs {
            assert_eq!(Job::of_words(job.words()), Some(job));
        }
        assert_eq!(Job::of_words([0, 1, 2, 3]), None);
        assert_eq!(Job::of_words([6, 1, 2, 3]), None);
    }
}
