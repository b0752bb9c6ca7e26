//! Code that the examples share: two roles, and the report of a failure.
//!
//! Every example is one program with two roles. `example-st-x serve` plays the server's part;
//! `example-st-x NODE` plays the other against the server on that node.
#![no_std]

extern crate alloc;

use alloc::string::String;
use core::time::Duration;

use st::{NodeId, Options, Port, PortId};

/// Why an example did not work, for people.
#[derive(Debug)]
pub struct Failure(String);

/// The result of an example.
pub type Result<T = (), E = Failure> = core::result::Result<T, E>;

impl From<st::Error> for Failure {
    fn from(error: st::Error) -> Self {
        Self(alloc::format!("a call failed: {error}"))
    }
}

/// Accesses to memory fail with the system's errors.
impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        Self(alloc::format!("a call of the system failed: {error}"))
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Fails with `what` unless `condition` holds.
///
/// # Errors
/// As said.
pub fn ensure(condition: bool, what: &str) -> Result {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Options of a client that waits for its server for 20 s.
pub fn patient() -> Options {
    Options::new().retry_for(Duration::from_secs(20))
}

/// Plays the role that the first argument names; the exit status.
pub fn play(port: Port, server: fn(Port) -> Result, client: fn(PortId) -> Result) -> i32 {
    let mut words = runtime::env::args();
    let name = words.next().unwrap_or_default();
    let result = match words.next().as_deref() {
        Some("serve") => server(port),
        Some(node) => match node.parse::<NodeId>() {
            Ok(node) => client(PortId::new(node, port)),
            Err(_) => Err(Failure(alloc::format!(
                "'{node}' is no node number; `scifctl nodes` lists them"
            ))),
        },
        None => Err("say `serve`, or the node where it serves".into()),
    };
    match result {
        Ok(()) => 0,
        Err(Failure(text)) => {
            runtime::eprintln!("{name}: {text}");
            1
        }
    }
}
