//! Programs that use the device of RDMA verbs by its commands (docs/infiniband.md).

use alloc::string::String;
use alloc::vec::Vec;

use client_memory::mappings::own_space;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use runtime::{fd, fs};
use verbs_abi::call;
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Where the scheme is.
pub const ROOT: &str = "/scheme/infiniband";

/// The number of an error.
pub type Errno = i32;

/// A context: an open `uverbs0`.
pub struct Context(pub Fd);

/// A plain command with room for an answer of this length.
pub fn command(command: Command, request: &[u8], room: usize) -> Vec<u8> {
    let header = abi::Header {
        command: command.number(),
        in_words: ((size_of::<abi::Header>() + request.len()) / 4) as u16,
        out_words: (room / 4) as u16,
    };
    [header.as_bytes(), request].concat()
}

/// A request's bytes.
pub fn bytes<T: IntoBytes + Immutable>(request: &T) -> &[u8] {
    request.as_bytes()
}

impl Context {
    /// Opens the device.
    ///
    /// # Errors
    /// Those of the open.
    pub fn open() -> Result<Context, Errno> {
        let path = alloc::format!("{ROOT}/uverbs0");
        let opened = Fd::open(&path, O_RDWR | O_CLOEXEC, 0);
        opened.map(Context).map_err(|error| error.errno())
    }

    /// The same, with GET_CONTEXT done.
    ///
    /// # Errors
    /// Those of both.
    pub fn begun() -> Result<Context, Errno> {
        let context = Context::open()?;
        let request = abi::GetContext::default();
        context.raw(Command::GetContext, bytes(&request), 8)?;
        Ok(context)
    }

    /// Executes bytes as a command; the answer.
    ///
    /// # Errors
    /// Those of the command.
    pub fn execute(&self, bytes: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
        let mut payload = bytes.to_vec();
        payload.resize(bytes.len().max(room), 0);
        let length = fd::call_rw(self.0.raw(), &mut payload, &[call::EXECUTE]);
        payload.truncate(length.map_err(|error| error.errno)?);
        Ok(payload)
    }

    /// The same for a command with a request in bytes.
    ///
    /// # Errors
    /// Those of the command.
    pub fn raw(&self, number: Command, request: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
        self.execute(&command(number, request, room), room)
    }

    /// The same for a command without an answer.
    ///
    /// # Errors
    /// Those of the command.
    pub fn give<T: IntoBytes + Immutable>(
        &self,
        number: Command,
        request: &T,
    ) -> Result<(), Errno> {
        self.raw(number, bytes(request), 0).map(|_| ())
    }

    /// The same with an answer.
    ///
    /// # Errors
    /// Those of the command.
    pub fn ask<T: IntoBytes + Immutable, A: FromBytes>(
        &self,
        number: Command,
        request: &T,
    ) -> Result<A, Errno> {
        let answer = self.raw(number, bytes(request), size_of::<A>())?;
        let answer = A::read_from_bytes(&answer);
        answer.map_err(|_| syscall::error::EPROTO)
    }

    /// Sends the own address space, for the next command that registers memory.
    ///
    /// # Errors
    /// Those of the call.
    pub fn send_space(&self) -> Result<(), Errno> {
        let space = own_space().map_err(|error| error.errno)?;
        let sent = fd::send_fd(self.0.raw(), space.into_raw(), false, &[call::SEND_SPACE]);
        sent.map(|_| ()).map_err(|error| error.errno)
    }

    /// A descriptor of events.
    ///
    /// # Errors
    /// Those of the dup.
    pub fn events(&self, name: &str) -> Result<Fd, Errno> {
        let copied = fd::dup(self.0.raw(), name.as_bytes());
        copied.map(Fd::new).map_err(|error| error.errno)
    }
}

/// A text file of the scheme.
///
/// # Errors
/// Those of reading it.
pub fn text(path: &str) -> Result<String, Errno> {
    let path = alloc::format!("{ROOT}/{path}");
    fs::read_to_string(&path).map_err(|error| error.errno)
}

/// A counter of `stats`.
///
/// # Errors
/// Those of reading it; `ENOENT`: there is none of this name.
pub fn counter(name: &str) -> Result<u64, Errno> {
    let text = text("stats")?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let value = lines.find_map(|(counter, value)| (counter == name).then(|| value.parse().ok()));
    value.flatten().ok_or(syscall::error::ENOENT)
}

/// The counters of `stats` that count what there is now, not what has been.
///
/// # Errors
/// Those of reading it.
pub fn present() -> Result<Vec<(String, u64)>, Errno> {
    const SINCE_START: [&str; 11] = [
        "commands",
        "refused",
        "async_events",
        "completion_events",
        "posted",
        "polled",
        "sends",
        "sent_bytes",
        "receives",
        "received_bytes",
        "errors",
    ];
    let text = text("stats")?;
    let lines = text.lines().skip(1).filter_map(|line| {
        let (counter, value) = line.split_once(' ')?;
        Some((String::from(counter), value.parse().ok()?))
    });
    Ok(lines
        .filter(|(counter, _)| !SINCE_START.contains(&counter.as_str()))
        .collect())
}
