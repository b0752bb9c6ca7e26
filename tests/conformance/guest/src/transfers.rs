//! The places `node`, `pair` and `cards` of the rows of Scheduled Transfers: C programs
//! (`st-agent`) make the calls.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use conformance::st::bench::{Checked, Driver, NodeFailure, Place, Side, Ticket};
use conformance::st::call::{Call, Reply};
use runtime::println;
use runtime::process::{Child, Command};
use runtime::time::{Duration, Instant, sleep};
use scif::raw;
use scif_abi::{Error, PortId};

use crate::control::{Control, text};

/// The ports of the agents of A, B and the user.
const PORTS: [u16; 3] = [3910, 3911, 3912];
/// The id of the user.
const USER: u32 = 1000;
/// Number of attempts to reach an agent, at intervals of a twentieth of a second.
const TRIES: usize = 1200;

/// Messages to an agent.
const CALL: u64 = 1;
const BEGIN: u64 = 2;
const IS_DONE: u64 = 3;
const FINISH: u64 = 4;
const QUIT: u64 = 5;

/// The driver.
pub struct Guest {
    place: Place,
    many: u64,
    seed: u64,
    own: u16,
    nodes: [u16; 2],
    /// Control connections of A, B and the user.
    agents: [Agent; 3],
    user: Child,
}

/// An agent's control connection.
struct Agent {
    at: PortId,
    endpoint: usize,
    control: Control,
}

impl Agent {
    fn reach(at: PortId) -> Checked<Agent> {
        for _ in 0..TRIES {
            // After the death of the driver no endpoint can be made for a while.
            let Ok(endpoint) = raw::open() else {
                sleep(Duration::from_millis(50));
                continue;
            };
            match raw::connect(endpoint, at) {
                Ok(_) => {
                    let control = Control::new(endpoint);
                    return Ok(Agent {
                        at,
                        endpoint,
                        control,
                    });
                }
                Err(error) => {
                    let _ = raw::close(endpoint);
                    let again = [
                        Error::ConnectionRefused,
                        Error::NoDevice,
                        Error::ConnectionReset,
                    ];
                    if !again.iter().any(|known| known.errno() == error) {
                        return Err(text("connecting to an agent", error));
                    }
                }
            }
            sleep(Duration::from_millis(50));
        }
        Err(format!("no agent listens at {at}"))
    }

    fn ask(&mut self, words: &[u64]) -> Checked<Reply> {
        self.control.send(words)?;
        let answer = self.control.receive()?;
        Reply::decode(&answer).ok_or_else(|| format!("no reply: {answer:?}"))
    }

    /// Makes another connection to the agent, or to the one that has taken its place.
    fn again(&mut self) -> Checked {
        // The old connection has ended, or will not be used.
        let _ = raw::close(self.endpoint);
        *self = Agent::reach(self.at)?;
        Ok(())
    }
}

fn message(verb: u64, call: &Call) -> Vec<u64> {
    let mut words = alloc::vec![verb];
    words.extend(call.encode());
    words
}

impl Guest {
    /// A on the first node and B on the second, where agents run or will run, and the user on this
    /// one. `many` is the number of repetitions in rows that repeat very often. `seed` is that of
    /// random numbers; without one the clock gives it.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn new(
        place: Place,
        nodes: [u16; 2],
        many: Option<u64>,
        seed: Option<u64>,
    ) -> Checked<Guest> {
        let ids = raw::get_node_ids(&mut []);
        let own = ids.map_err(|error| text("node ids", error))?.1;
        let user = Command::new("st-agent")
            .arg(PORTS[2].to_string())
            .uid(USER)
            .spawn()
            .map_err(|error| format!("starting the user's agent: {error}"))?;
        let reach = |node: u16, port: u16| Agent::reach(PortId::new(node, port));
        Ok(Guest {
            place,
            many: many.unwrap_or(place.many()),
            seed: seed.unwrap_or_else(|| Instant::now().as_nanos()),
            own,
            nodes,
            agents: [
                reach(nodes[0], PORTS[0])?,
                reach(nodes[1], PORTS[1])?,
                reach(own, PORTS[2])?,
            ],
            user,
        })
    }

    /// Ends the agents.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn dismiss(mut self) -> Checked {
        for agent in &self.agents {
            agent.control.send(&[QUIT])?;
        }
        let status = self.user.wait();
        let status = status.map_err(|error| format!("the user's agent: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the user's agent: {status}")),
        }
    }

    /// Sends a message that ends the agent or its connection.
    fn end(&mut self, side: Side, words: &[u64]) -> Checked {
        let agent = self.agent(side);
        agent.control.send(words)?;
        match agent.control.receive() {
            Ok(answer) => Err(format!("a dead agent answers {answer:?}")),
            Err(_) => agent.again(),
        }
    }

    fn agent(&mut self, side: Side) -> &mut Agent {
        &mut self.agents[side as usize]
    }

    /// Tells the launcher what to do with B's node, or with the link to it.
    fn launch(&self, verb: &str) {
        println!("LAUNCHER {verb}");
    }
}

impl Driver for Guest {
    fn place(&self) -> Place {
        self.place
    }

    fn node(&self, side: Side) -> u16 {
        match side {
            Side::A => self.nodes[0],
            Side::B => self.nodes[1],
            Side::User => self.own,
        }
    }

    fn many(&self) -> u64 {
        self.many
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn call(&mut self, side: Side, call: &Call) -> Checked<Reply> {
        self.agent(side).ask(&message(CALL, call))
    }

    fn begin(&mut self, side: Side, call: &Call) -> Checked<Ticket> {
        let reply = self.agent(side).ask(&message(BEGIN, call))?;
        match reply.result {
            Ok(number) => Ok(Ticket {
                side,
                number: number as u32,
            }),
            Err(errno) => Err(format!("begin: {errno}")),
        }
    }

    fn is_done(&mut self, ticket: Ticket) -> Checked<bool> {
        let words = [IS_DONE, ticket.number.into()];
        Ok(self.agent(ticket.side).ask(&words)?.result == Ok(1))
    }

    fn finish(&mut self, ticket: Ticket) -> Checked<Reply> {
        let words = [FINISH, ticket.number.into()];
        self.agent(ticket.side).ask(&words)
    }

    fn pause(&mut self) {
        sleep(Duration::from_millis(5));
    }

    fn kill(&mut self, side: Side) -> Checked {
        let words = message(CALL, &Call::Die { milliseconds: 0 });
        self.end(side, &words)
    }

    fn kill_later(&mut self, side: Side, when: u64) -> Checked {
        self.call(side, &Call::Die { milliseconds: when })?;
        // The program lives as long as it answers.
        while self.call(side, &Call::Sleep { milliseconds: 1 }).is_ok() {}
        self.agent(side).again()
    }

    fn kill_driver(&mut self) -> Checked {
        // All control connections may end with the driver, which the agents notice themselves.
        let words = message(CALL, &Call::KillDriver {});
        let agent = self.agent(Side::A);
        agent.control.send(&words)?;
        // The answer may still come, since it needs no driver.
        let _ = agent.control.receive();
        for agent in &mut self.agents {
            agent.again()?;
        }
        Ok(())
    }

    fn lose(&mut self, loss: NodeFailure) -> Checked {
        let [a, b] = self.nodes;
        self.launch(&match loss {
            NodeFailure::Power => format!("kill {b}"),
            NodeFailure::Freeze => format!("freeze {b}"),
            NodeFailure::Cut => format!("cut {a} {b}"),
        });
        Ok(())
    }

    fn restore(&mut self, loss: NodeFailure) -> Checked {
        let [a, b] = self.nodes;
        self.launch(&match loss {
            NodeFailure::Power => format!("start {b}"),
            NodeFailure::Freeze => format!("thaw {b}"),
            NodeFailure::Cut => format!("heal {a} {b}"),
        });
        self.agent(Side::B).again()
    }
}
