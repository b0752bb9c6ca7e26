//! The options that a program has set on a socket.

use alloc::collections::BTreeMap;
use core::ffi::c_int;
use core::time::Duration;

use syscall::error::{EDOM, EINVAL, ENOPROTOOPT};

use crate::Result;

/// The level of the options that all sockets have.
pub const SOL_SOCKET: c_int = 1;
const IPPROTO_IP: c_int = 0;
/// The level of TCP's options.
pub const IPPROTO_TCP: c_int = 6;

const SO_LINGER: c_int = 13;
const SO_RCVTIMEO: c_int = 20;
const SO_SNDTIMEO: c_int = 21;

/// `SO_BUSY_POLL`: whether calls of `st.h` poll instead of sleeping.
const BUSY_POLL: (c_int, c_int, c_int) = (SOL_SOCKET, 46, 0);

/// Options that are stored and have no effect, with their first values. Connections have no
/// segments, no congestion, no lost packets and no resting state after their end, so most of these
/// options ask for what is the case anyway.
const REMEMBERED: &[(c_int, c_int, c_int)] = &[
    // SO_DEBUG, SO_REUSEADDR, SO_DONTROUTE, SO_BROADCAST
    (SOL_SOCKET, 1, 0),
    (SOL_SOCKET, 2, 0),
    (SOL_SOCKET, 5, 0),
    (SOL_SOCKET, 6, 0),
    // SO_SNDBUF, SO_RCVBUF: the size of the rings is fixed.
    (SOL_SOCKET, 7, RING_BYTES),
    (SOL_SOCKET, 8, RING_BYTES),
    // SO_KEEPALIVE, SO_OOBINLINE, SO_PRIORITY, SO_REUSEPORT
    (SOL_SOCKET, 9, 0),
    (SOL_SOCKET, 10, 0),
    (SOL_SOCKET, 12, 0),
    (SOL_SOCKET, 15, 0),
    // This one has an effect: see `Options::polls`.
    BUSY_POLL,
    // SO_RCVLOWAT, SO_SNDLOWAT
    (SOL_SOCKET, 18, 1),
    (SOL_SOCKET, 19, 1),
    // IP_TOS, IP_TTL
    (IPPROTO_IP, 1, 0),
    (IPPROTO_IP, 2, 64),
    // TCP_NODELAY: data is never held back.
    (IPPROTO_TCP, 1, 0),
    // TCP_MAXSEG
    (IPPROTO_TCP, 2, RING_BYTES),
    // TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT, TCP_LINGER2,
    // TCP_DEFER_ACCEPT, TCP_QUICKACK, TCP_USER_TIMEOUT
    (IPPROTO_TCP, 3, 0),
    (IPPROTO_TCP, 4, 7200),
    (IPPROTO_TCP, 5, 75),
    (IPPROTO_TCP, 6, 9),
    (IPPROTO_TCP, 7, 6),
    (IPPROTO_TCP, 8, 60),
    (IPPROTO_TCP, 9, 0),
    (IPPROTO_TCP, 12, 1),
    (IPPROTO_TCP, 18, 0),
];

/// The first value of `SO_SNDBUF` and the like: the size of a connection's ring.
const RING_BYTES: c_int = 256 * 1024;

/// The options of a socket. Accepted sockets inherit those of their listener.
#[derive(Clone, Default)]
pub struct Options {
    numbers: BTreeMap<(c_int, c_int), c_int>,
    /// `SO_LINGER`: whether it is on, and the time in seconds.
    linger: [c_int; 2],
    /// `SO_RCVTIMEO`; `None` means no limit.
    pub receive_limit: Option<Duration>,
    /// `SO_SNDTIMEO`.
    pub send_limit: Option<Duration>,
}

impl Options {
    /// Whether calls of `st.h` that wait poll all the time instead of sleeping.
    pub fn polls(&self) -> bool {
        let (level, name, first) = BUSY_POLL;
        let value = self.numbers.get(&(level, name)).copied();
        value.unwrap_or(first) > 0
    }

    /// How long `close` waits until everything is sent; `None` if it does not wait. With a time of
    /// 0, unsent bytes are dropped.
    pub fn linger(&self) -> Option<Duration> {
        let [is_on, seconds] = self.linger;
        (is_on != 0).then(|| Duration::from_secs(seconds.max(0) as u64))
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EINVAL` if `value` is too short; `EDOM`; `ENOPROTOOPT`.
    pub fn set(&mut self, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
        match (level, name) {
            (SOL_SOCKET, SO_LINGER) => {
                let seconds = int_of(value.get(4..).unwrap_or_default())?;
                self.linger = [int_of(value)?, seconds];
            }
            (SOL_SOCKET, SO_RCVTIMEO) => self.receive_limit = limit_of(value)?,
            (SOL_SOCKET, SO_SNDTIMEO) => self.send_limit = limit_of(value)?,
            (level, name) if first_value(level, name).is_some() => {
                self.numbers.insert((level, name), int_of(value)?);
            }
            _ => return Err(ENOPROTOOPT),
        }
        Ok(())
    }

    /// Returns an option's value and how many of its bytes count.
    ///
    /// # Errors
    /// `ENOPROTOOPT`.
    pub fn get(&self, level: c_int, name: c_int) -> Result<([u8; 16], usize)> {
        match (level, name) {
            (SOL_SOCKET, SO_LINGER) => {
                let mut bytes = [0; 16];
                let [on, seconds] = self.linger.map(c_int::to_ne_bytes);
                bytes[..4].copy_from_slice(&on);
                bytes[4..8].copy_from_slice(&seconds);
                Ok((bytes, 8))
            }
            (SOL_SOCKET, SO_RCVTIMEO) => Ok((limit_bytes(self.receive_limit), 16)),
            (SOL_SOCKET, SO_SNDTIMEO) => Ok((limit_bytes(self.send_limit), 16)),
            (level, name) => {
                let first = first_value(level, name).ok_or(ENOPROTOOPT)?;
                let value = self.numbers.get(&(level, name)).copied();
                Ok(number_bytes(value.unwrap_or(first)))
            }
        }
    }
}

/// Encodes a number as `getsockopt` returns it.
pub fn number_bytes(value: c_int) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&value.to_ne_bytes());
    (bytes, 4)
}

/// Decodes the number that `setsockopt` was given.
///
/// # Errors
/// `EINVAL` if there are fewer than 4 bytes.
pub fn int_of(bytes: &[u8]) -> Result<c_int> {
    let first = bytes.first_chunk().ok_or(EINVAL)?;
    Ok(c_int::from_ne_bytes(*first))
}

/// Decodes a `struct timeval`. 0 means no limit; a negative time is over at once, as on Linux.
fn limit_of(bytes: &[u8]) -> Result<Option<Duration>> {
    let (seconds, rest) = bytes.split_first_chunk().ok_or(EINVAL)?;
    // Only 32 bits of the microseconds count, as with relibc: that is what Rust's standard library
    // fills in. The bytes after them may be anything.
    let micros = rest.first_chunk().ok_or(EINVAL)?;
    let seconds = i64::from_ne_bytes(*seconds);
    let micros = i32::from_ne_bytes(*micros);
    if !(0..1_000_000).contains(&micros) {
        return Err(EDOM);
    }
    let Ok(seconds) = u64::try_from(seconds) else {
        return Ok(Some(Duration::ZERO));
    };
    let limit = Duration::from_secs(seconds) + Duration::from_micros(micros as u64);
    Ok((!limit.is_zero()).then_some(limit))
}

fn limit_bytes(limit: Option<Duration>) -> [u8; 16] {
    let limit = limit.unwrap_or_default();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&limit.as_secs().to_ne_bytes());
    bytes[8..].copy_from_slice(&u64::from(limit.subsec_micros()).to_ne_bytes());
    bytes
}

fn first_value(level: c_int, name: c_int) -> Option<c_int> {
    let is_it = |option: &&(c_int, c_int, c_int)| (option.0, option.1) == (level, name);
    REMEMBERED.iter().find(is_it).map(|option| option.2)
}
