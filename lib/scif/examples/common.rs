//! Code that the examples share: two roles, messages between them, and the report of a failure.
//!
//! Every example is one program with two roles. `example-x serve` waits for one connection and
//! plays the server's part; `example-x NODE` plays the other against the server on that node.
#![no_std]

extern crate alloc;

use alloc::string::String;
use core::time::Duration;

use scif::{Endpoint, Error, Listener, NodeId, Options, Port, PortId, RecvFlags, SendFlags};

/// Why an example failed, as text for people.
#[derive(Debug)]
pub struct Failure(String);

/// The result of an example.
pub type Result<T = (), E = Failure> = core::result::Result<T, E>;

impl From<scif::Error> for Failure {
    fn from(error: scif::Error) -> Self {
        Self(alloc::format!("a SCIF call failed with {error}"))
    }
}

/// Accesses to memory fail with the system's errors.
impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Fails with `what` unless `condition` holds.
///
/// # Errors
/// `what`, if the condition does not hold.
pub fn ensure(condition: bool, what: &str) -> Result {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Plays the role that the first argument names, over one connection to `port`.
pub fn play(port: Port, server: fn(&Endpoint) -> Result, client: fn(&Endpoint) -> Result) -> i32 {
    let serve = || server(&Listener::bind(port)?.accept()?.0);
    let visit = |node| client(&connect(PortId::new(node, port))?);
    match runtime::env::args().nth(1).as_deref() {
        Some("serve") => report(serve()),
        Some(node) => report(node_number(node).and_then(visit)),
        None => report(Err("say `serve`, or the node where it serves".into())),
    }
}

/// Prints a failure. Returns the exit status.
pub fn report(result: Result) -> i32 {
    let name = runtime::env::args().next().unwrap_or_default();
    match result {
        Ok(()) => 0,
        Err(Failure(text)) => {
            runtime::eprintln!("{name}: {text}");
            1
        }
    }
}

/// A node's number from an argument.
///
/// # Errors
/// When the word is no number of a node.
pub fn node_number(word: &str) -> Result<NodeId> {
    let number = word.parse();
    number.map_err(|_| {
        alloc::format!("'{word}' is no node number; `scifctl nodes` lists them").into()
    })
}

/// Connects. Retries for 20 s while no endpoint listens there yet.
///
/// # Errors
/// That of the last try.
pub fn connect(to: PortId) -> scif::Result<Endpoint> {
    let time_limit = Duration::from_secs(20);
    Options::new().retry_for(time_limit).connect(to)
}

/// Sends a number to the other side: the offset of a window, or a sign that something is done.
///
/// # Errors
/// Those of sending.
pub fn tell(endpoint: &Endpoint, number: i64) -> Result {
    let sent = endpoint.send(&number.to_le_bytes(), SendFlags::BLOCK)?;
    ensure(sent == size_of::<i64>(), "the other side has gone")
}

/// Receives a number that the other side [tells](tell).
///
/// # Errors
/// Those of receiving.
pub fn hear(endpoint: &Endpoint) -> Result<i64> {
    let mut bytes = [0; size_of::<i64>()];
    let count = endpoint.recv(&mut bytes, RecvFlags::BLOCK)?;
    ensure(count == bytes.len(), "the other side has gone")?;
    Ok(i64::from_le_bytes(bytes))
}
