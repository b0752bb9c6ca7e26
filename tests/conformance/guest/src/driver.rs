//! The places `loopback` and `pair`: this process and two agents.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use conformance::bench::{Driver, Place, Side, Ticket};
use conformance::call::{Call, Reply};
use runtime::process::{Child, Command};
use runtime::time::{Duration, sleep};
use scif::raw;
use scif_abi::{Error, PortId};

use crate::agent::Remote;
use crate::control::text;
use crate::executor::Executor;

/// The port of the second node's agent.
pub const PORT: u16 = 3900;
/// The port of the agent of a user other than root, on the first node.
const USER_PORT: u16 = 3901;
/// The id of that user.
const USER: u32 = 1000;
/// Number of attempts to reach an agent, at intervals of a tenth of a second.
const TRIES: usize = 600;

/// A call that was begun: its side, and its number there.
struct Begun {
    side: Side,
    number: u32,
}

/// The driver.
pub struct Guest {
    place: Place,
    nodes: [u16; 2],
    local: Executor,
    other: Remote,
    user: Remote,
    children: Vec<Child>,
    begun: Vec<Begun>,
}

impl Guest {
    /// The place `pair` with an agent on `node`; `loopback` without one.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn new(node: Option<u16>) -> Result<Guest, String> {
        let own = raw::get_node_ids(&mut [])
            .map_err(|error| text("node ids", error))?
            .1;
        let mut children = Vec::new();
        if node.is_none() {
            children.push(start(PORT, None)?);
        }
        children.push(start(USER_PORT, Some(USER))?);
        let other = node.unwrap_or(own);
        Ok(Guest {
            place: match node {
                Some(_) => Place::Pair,
                None => Place::Loopback,
            },
            nodes: [own, other],
            local: Executor::default(),
            other: reach(PortId::new(other, PORT))?,
            user: reach(PortId::new(own, USER_PORT))?,
            children,
            begun: Vec::new(),
        })
    }

    /// Ends the agents.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn dismiss(mut self) -> Result<(), String> {
        self.other.dismiss()?;
        self.user.dismiss()?;
        for child in &mut self.children {
            let status = child.wait().map_err(|error| format!("an agent: {error}"))?;
            if !status.success() {
                return Err(format!("an agent: {status}"));
            }
        }
        Ok(())
    }

    fn remote(&mut self, side: Side) -> Option<&mut Remote> {
        match side {
            Side::A => None,
            Side::B => Some(&mut self.other),
            Side::User => Some(&mut self.user),
        }
    }
}

fn start(port: u16, user: Option<u32>) -> Result<Child, String> {
    let mut command = Command::new("scif-conformance");
    command.arg("agent").arg(port.to_string());
    if let Some(user) = user {
        command.uid(user);
    }
    command
        .spawn()
        .map_err(|error| format!("starting an agent: {error}"))
}

/// Connects to an agent, which may not listen yet.
fn reach(at: PortId) -> Result<Remote, String> {
    let endpoint = raw::open().map_err(|error| text("open", error))?;
    for _ in 0..TRIES {
        match raw::connect(endpoint, at) {
            Ok(_) => return Ok(Remote::new(endpoint)),
            Err(error)
                if error == Error::ConnectionRefused.errno()
                    || error == Error::NoDevice.errno() => {}
            Err(error) => return Err(text("connecting to an agent", error)),
        }
        sleep(Duration::from_millis(100));
    }
    Err(format!("no agent listens at {at}"))
}

impl Driver for Guest {
    fn place(&self) -> Place {
        self.place
    }

    fn node(&self, side: Side) -> u16 {
        match side {
            Side::A | Side::User => self.nodes[0],
            Side::B => self.nodes[1],
        }
    }

    fn call(&mut self, side: Side, call: &Call) -> Result<Reply, String> {
        match self.remote(side) {
            Some(remote) => remote.call(call),
            None => Ok(self.local.call(call)),
        }
    }

    fn begin(&mut self, side: Side, call: &Call) -> Result<Ticket, String> {
        let number = match self.remote(side) {
            Some(remote) => remote.begin(call)?,
            None => self.local.begin(call)?,
        };
        self.begun.push(Begun { side, number });
        Ok(Ticket(self.begun.len() as u32 - 1))
    }

    fn is_done(&mut self, ticket: Ticket) -> Result<bool, String> {
        let begun = self.begun.get(ticket.0 as usize).ok_or("no such call")?;
        let (side, number) = (begun.side, begun.number);
        match self.remote(side) {
            Some(remote) => remote.is_done(number),
            None => Ok(self.local.is_done(number)),
        }
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Reply, String> {
        let begun = self.begun.get(ticket.0 as usize).ok_or("no such call")?;
        let (side, number) = (begun.side, begun.number);
        match self.remote(side) {
            Some(remote) => remote.finish(number),
            None => self.local.finish(number),
        }
    }

    fn pause(&mut self) -> bool {
        sleep(Duration::from_millis(10));
        true
    }
}
