//! The state of sockets of Scheduled Transfers (`docs/st.md`): their options, and the set-up of
//! their connections.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ffi::c_int;
use core::time::Duration;

use libredox::Fd;
use runtime::time::Instant;
use scif::raw::{self, PollFd};
use scif_abi::flags::{Readiness, SendFlags};
use st::{Connection, Handshake};
use st_core::record::{Parameters, RECORD_BYTES, Record};
use st_core::setup::{self, Refused};
use syscall::error::{ECONNREFUSED, ECONNRESET, EINVAL, ENOPROTOOPT, ENOTCONN, ENXIO, ETIMEDOUT};

use crate::Result;
use crate::packet::{Assembler, Unsent};

/// `IPPROTO_STP`.
pub const LEVEL: c_int = 118;

const BYPASS: c_int = 1000;
const LOCAL_KEY: c_int = 1001;
const REMOTE_KEY: c_int = 1002;
const LOCAL_SLOTS: c_int = 1003;
const REMOTE_SLOTS: c_int = 1004;
const TOLD_SLOTS: c_int = 1005;
const LOCAL_PORT: c_int = 1006;
const REMOTE_PORT: c_int = 1007;
const LOCAL_UNIT: c_int = 1008;
const REMOTE_UNIT: c_int = 1009;
const LOCAL_BUFFER: c_int = 1010;
const REMOTE_BUFFER: c_int = 1011;
/// Skiff's own option: the number of channels of a connection.
const CHANNELS: c_int = 2000;
/// Hints of the original system. They have no effect; only `VIRTUAL_CHANNEL` has bounds.
const HINTS: core::ops::RangeInclusive<c_int> = 1..=14;
const VIRTUAL_CHANNEL: c_int = 4;

/// Binary logarithms of the sizes of a data unit and of a buffer, for both ends.
const UNIT_BITS: c_int = 20;
const BUFFER_BITS: c_int = 12;

/// How long a client waits for the server's answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// A connection whose set-up is complete.
#[derive(Clone)]
pub struct Established {
    own: Parameters,
    peer: Parameters,
    has_bypass: bool,
    /// With the bypass: the connection of `st`, unless it belongs to the parent of this process.
    pub link: Option<Arc<Connection>>,
}

/// The state of a socket of Scheduled Transfers.
#[derive(Default)]
pub struct Transfers {
    options: Chosen,
    established: Option<Established>,
    /// Assembles the messages that are being received.
    pub assembler: Assembler,
    /// Bytes that did not fit into the ring, in the order in which they have to be sent.
    pub unsent: Unsent,
    /// The end of the messages is in `unsent`, or is sent.
    pub is_ended: bool,
}

/// The options that a program has chosen.
#[derive(Clone)]
pub struct Chosen {
    setup: setup::Options,
    hints: BTreeMap<c_int, c_int>,
}

impl Default for Chosen {
    fn default() -> Self {
        let setup = setup::Options {
            bypass: false,
            ..setup::Options::default()
        };
        Self {
            setup,
            hints: BTreeMap::new(),
        }
    }
}

impl Transfers {
    /// Returns the state of an accepted socket before its set-up: it has its listener's options.
    pub fn inherited(&self) -> Self {
        Self {
            options: self.options.clone(),
            ..Self::default()
        }
    }

    /// Whether the bypass is on.
    pub fn has_bypass(&self) -> bool {
        self.options.setup.bypass
    }

    /// Whether an option of this name exists and can be set.
    pub fn can_set(name: c_int) -> bool {
        HINTS.contains(&name) || [BYPASS, LOCAL_SLOTS, TOLD_SLOTS, CHANNELS].contains(&name)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EINVAL` for a bad value.
    pub fn set_option(&mut self, name: c_int, value: c_int) -> Result<()> {
        let options = &mut self.options;
        match name {
            BYPASS if matches!(value, 0 | 1) => options.setup.bypass = value == 1,
            // `connect` and `accept` refuse values out of range.
            LOCAL_SLOTS | TOLD_SLOTS if value > 0 => options.setup.slots = value as u32,
            CHANNELS if value > 0 => options.setup.channels = value as u32,
            VIRTUAL_CHANNEL if !(1..=3).contains(&value) => return Err(EINVAL),
            _ if HINTS.contains(&name) => {
                options.hints.insert(name, value);
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }

    /// Returns an option's value; `number` is a descriptor of the socket.
    ///
    /// # Errors
    /// `ENOPROTOOPT`; `ENOTCONN` for values that come from the peer.
    pub fn option(&self, number: usize, name: c_int) -> Result<c_int> {
        let setup = self.options.setup;
        let established = self.established();
        let value = match name {
            BYPASS => setup.bypass.into(),
            LOCAL_SLOTS | TOLD_SLOTS => setup.slots as c_int,
            CHANNELS => setup.channels as c_int,
            LOCAL_KEY => established?.own.key as c_int,
            REMOTE_KEY => established?.peer.key as c_int,
            REMOTE_SLOTS => established?.peer.slots as c_int,
            LOCAL_PORT => raw::local(number)?.port().into(),
            REMOTE_PORT => established?.peer.port.into(),
            LOCAL_UNIT => UNIT_BITS,
            LOCAL_BUFFER => BUFFER_BITS,
            REMOTE_UNIT => established.map(|_| UNIT_BITS)?,
            REMOTE_BUFFER => established.map(|_| BUFFER_BITS)?,
            name if HINTS.contains(&name) => self.options.hints.get(&name).copied().unwrap_or(0),
            _ => return Err(ENOPROTOOPT),
        };
        Ok(value)
    }

    /// Whether a connection with the bypass is set up.
    pub fn has_link(&self) -> bool {
        let established = self.established.as_ref();
        established.is_some_and(|established| established.has_bypass)
    }

    /// In the child of a fork: closes what the child has of a connection with the bypass, which
    /// belongs to the parent. Returns whether there is one.
    pub fn give_up_link(&mut self) -> bool {
        let link = self
            .established
            .as_mut()
            .and_then(|established| established.link.take());
        let is_there = link.is_some();
        if let Some(link) = link {
            link.close_in_child();
            core::mem::forget(link);
        }
        is_there
    }

    /// Records a connection whose set-up is complete.
    pub fn set_established(&mut self, established: Established) {
        self.established = Some(established);
    }

    /// Returns the connection.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn established(&self) -> Result<Established> {
        self.established.clone().ok_or(ENOTCONN)
    }
}

/// Sets up a connection over an endpoint that has connected.
///
/// # Errors
/// `ECONNREFUSED` if the ends do not agree; `EINVAL` if our own options are bad; `ETIMEDOUT`.
pub fn establish(number: usize, transfers: &Transfers) -> Result<Established> {
    let options = transfers.options.setup;
    let result = match options.bypass {
        true => with_bypass(number, options),
        false => without_bypass(number, options),
    };
    result.map_err(|error| match error {
        st::Error::Refused(Refused::OwnOptions) => EINVAL,
        st::Error::TimedOut => ETIMEDOUT,
        st::Error::Refused(_) | st::Error::Ended | st::Error::Broken => ECONNREFUSED,
        // The server has closed the connection before its memory was mapped.
        error if matches!(error.errno(), ENXIO | ECONNRESET | ENOTCONN) => ECONNREFUSED,
        error => error.errno(),
    })
}

/// Makes an endpoint with a descriptor of its own: the program's stays open and its own.
fn endpoint_of(number: usize) -> st::Result<scif::Endpoint> {
    let file = Fd::new(libredox::call::dup(number, b"")?);
    file.fcntl(syscall::flag::F_SETFD, libredox::flag::O_CLOEXEC as usize)?;
    Ok(scif::Endpoint::from_file(file))
}

fn options_of(options: setup::Options) -> st::Options {
    st::Options::new()
        .channels(options.channels)
        .slots(options.slots)
}

fn with_bypass(number: usize, options: setup::Options) -> st::Result<Established> {
    let link = Connection::request(endpoint_of(number)?, &options_of(options))?;
    Ok(Established::with(link))
}

impl Established {
    /// Wraps a connection with the bypass.
    pub fn with(link: Connection) -> Self {
        Self {
            own: link.own(),
            peer: link.peer(),
            has_bypass: true,
            link: Some(Arc::new(link)),
        }
    }
}

fn own_parameters(number: usize, options: setup::Options) -> st::Result<Parameters> {
    setup::layout(options)?;
    Ok(Parameters {
        port: raw::local(number).map_err(scif::Error::from)?.port(),
        key: (hal::random::word() as u32).max(1),
        bypass: false,
        channels: options.channels,
        slots: options.slots,
        window: 0,
    })
}

fn without_bypass(number: usize, options: setup::Options) -> st::Result<Established> {
    let own = own_parameters(number, options)?;
    send(number, &Record::Request(own))?;
    let agreed = setup::connected(own, receive_answer(number)?)?;
    Ok(Established {
        own,
        peer: agreed.parameters,
        has_bypass: false,
        link: None,
    })
}

/// The server's side: answers on a connection that a listener with these options has accepted.
impl Transfers {
    /// Begins the set-up with the bypass. Returns `None` without the bypass, where
    /// [`answer`](Self::answer) is the whole set-up.
    ///
    /// # Errors
    /// `Refused(OwnOptions)`.
    pub fn begin_answer(&self, number: usize) -> st::Result<Option<Handshake>> {
        let options = self.options.setup;
        match options.bypass {
            true => Handshake::answer(endpoint_of(number)?, &options_of(options)).map(Some),
            false => setup::layout(options).map(|_| None).map_err(Into::into),
        }
    }

    /// Answers the request of a client without the bypass.
    ///
    /// # Errors
    /// `Refused`; those of sending.
    pub fn answer(&self, number: usize, request: Record) -> st::Result<Established> {
        let own = own_parameters(number, self.options.setup)?;
        match setup::accept(own, request) {
            Ok((agreed, answer)) => {
                send(number, &answer)?;
                Ok(Established {
                    own,
                    peer: agreed.parameters,
                    has_bypass: false,
                    link: None,
                })
            }
            Err(refused) => {
                // This end returns the reason; the peer gets the refusal, or finds the connection
                // ended.
                let _ = send(number, &Record::Reject);
                Err(refused.into())
            }
        }
    }
}

fn send(number: usize, record: &Record) -> st::Result<()> {
    let bytes = record.encode();
    let sent = raw::send(number, bytes.as_slice(), SendFlags::BLOCK.bits());
    match sent.map_err(scif::Error::from)? {
        RECORD_BYTES => Ok(()),
        _ => Err(st::Error::Ended),
    }
}

fn receive_answer(number: usize) -> st::Result<Record> {
    let end = Instant::now() + ANSWER_TIME;
    let mut bytes = [0; RECORD_BYTES];
    let mut filled = 0;
    while filled < RECORD_BYTES {
        let count = raw::recv(number, &mut bytes[filled..], 0).map_err(|error| match error {
            ECONNRESET => st::Error::Ended,
            error => scif::Error::from(error).into(),
        })?;
        filled += count;
        if count == 0 {
            let left = end.as_nanos().saturating_sub(Instant::now().as_nanos());
            if left == 0 {
                return Err(st::Error::TimedOut);
            }
            let mut entry = [PollFd::new(number, Readiness::IN.bits())];
            let left = Duration::from_nanos(left);
            raw::poll(&mut entry, Some(left)).map_err(scif::Error::from)?;
        }
    }
    Record::decode(&bytes).map_err(|_| Refused::Protocol.into())
}
