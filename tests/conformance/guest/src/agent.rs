//! An agent: executes the calls that arrive over a control connection.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use conformance::call::{Call, Reply};
use scif::raw;
use scif_abi::flags::AcceptFlags;

use crate::control::{Control, text};
use crate::executor::Executor;

/// Make the call in this message.
pub const CALL: u64 = 1;
/// Begin the call in this message; the answer is its ticket.
pub const BEGIN: u64 = 2;
/// Answer whether the call with this ticket has ended: 1, or 0.
pub const IS_DONE: u64 = 3;
/// Wait for the end of the call with this ticket.
pub const FINISH: u64 = 4;

/// Listens on a port, and serves the first client until it ends the agent or the connection ends.
///
/// # Errors
/// A text that names the failure.
pub fn serve(port: u16) -> Result<(), String> {
    let listener = raw::open().map_err(|error| text("open", error))?;
    raw::bind(listener, port).map_err(|error| text("bind", error))?;
    raw::listen(listener, 1).map_err(|error| text("listen", error))?;
    let accepted = raw::accept(listener, AcceptFlags::SYNC.bits());
    let (endpoint, _) = accepted.map_err(|error| text("accept", error))?;
    raw::close(listener).map_err(|error| text("close", error))?;
    let mut control = Control::new(endpoint);
    let mut executor = Executor::default();
    loop {
        let message = control.receive()?;
        let Some(answer) = handle(&mut executor, &message)? else {
            return Ok(());
        };
        control.send(&answer.encode())?;
    }
}

/// The reply to a message; `None` if the message ends the agent.
fn handle(executor: &mut Executor, message: &[u64]) -> Result<Option<Reply>, String> {
    let (&verb, rest) = message.split_first().ok_or("an empty message")?;
    let call = || Call::decode(rest).ok_or_else(|| format!("no call: {rest:?}"));
    let ticket = || rest.first().map_or(0, |ticket| *ticket as u32);
    Ok(Some(match verb {
        CALL => match call()? {
            Call::Exit {} => return Ok(None),
            call => executor.call(&call),
        },
        BEGIN => Reply::plain(Ok(executor.begin(&call()?)?.into())),
        IS_DONE => Reply::plain(Ok(executor.is_done(ticket()).into())),
        FINISH => executor.finish(ticket())?,
        _ => return Err(format!("no verb: {verb}")),
    }))
}

/// An agent, as its client uses it.
pub struct Remote {
    control: Control,
}

impl Remote {
    /// The agent at the other end of a connected endpoint.
    pub fn new(endpoint: usize) -> Remote {
        Remote {
            control: Control::new(endpoint),
        }
    }

    fn ask(&mut self, verb: u64, words: &[u64]) -> Result<Reply, String> {
        let message: Vec<u64> = core::iter::once(verb)
            .chain(words.iter().copied())
            .collect();
        self.control.send(&message)?;
        let answer = self.control.receive()?;
        Reply::decode(&answer).ok_or_else(|| format!("no reply: {answer:?}"))
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The connection fails.
    pub fn call(&mut self, call: &Call) -> Result<Reply, String> {
        self.ask(CALL, &call.encode())
    }

    /// Begins a call and returns its ticket.
    ///
    /// # Errors
    /// The connection fails.
    pub fn begin(&mut self, call: &Call) -> Result<u32, String> {
        let reply = self.ask(BEGIN, &call.encode())?;
        reply
            .result
            .map(|ticket| ticket as u32)
            .map_err(|errno| format!("begin: {errno}"))
    }

    /// Whether a call has ended.
    ///
    /// # Errors
    /// The connection fails.
    pub fn is_done(&mut self, ticket: u32) -> Result<bool, String> {
        Ok(self.ask(IS_DONE, &[ticket.into()])?.result == Ok(1))
    }

    /// Waits for the end of a call.
    ///
    /// # Errors
    /// The connection fails.
    pub fn finish(&mut self, ticket: u32) -> Result<Reply, String> {
        self.ask(FINISH, &[ticket.into()])
    }

    /// Ends the agent.
    ///
    /// # Errors
    /// The connection fails.
    pub fn dismiss(&self) -> Result<(), String> {
        let message: Vec<u64> = core::iter::once(CALL)
            .chain(Call::Exit {}.encode())
            .collect();
        self.control.send(&message)
    }
}
