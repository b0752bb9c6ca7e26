//! The place `sim`: two engines with simulated memory, a link between them, and the work of a
//! daemon and a client library around them (arguments, waiting calls, turns of transfers).

mod jobs;
mod memory;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use conformance::bench::{Driver, Place, Side, Ticket};
use conformance::call::{Call, Counts, Errno, Reply};
use scif_abi::flags::Readiness;
use scif_abi::{Error, PortId};
use scif_core::{EndpointId, Owner, Resource, Scope};

use jobs::{Job, Work};
use memory::Region;
use world::World;

/// The objects of one side.
struct Holder {
    node: usize,
    owner: Owner,
    endpoints: BTreeMap<u32, EndpointId>,
    nonblocking: BTreeSet<u32>,
    memory: BTreeMap<u32, Region>,
}

/// The driver.
pub struct Simulated {
    world: World,
    holders: [Holder; 3],
    jobs: Vec<Job>,
    last_ticket: u32,
    last_pin: u64,
}

/// The index of a side.
fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
        Side::User => 2,
    }
}

/// A call's result as a reply.
pub(crate) type Answer = Result<i64, Error>;

fn reply(answer: Answer) -> Reply {
    Reply::plain(answer.map_err(Errno::from))
}

impl Simulated {
    /// Two nodes that are online.
    pub fn new() -> Simulated {
        let holder = |node, process, user| Holder {
            node,
            owner: Owner { process, user },
            endpoints: BTreeMap::new(),
            nonblocking: BTreeSet::new(),
            memory: BTreeMap::new(),
        };
        Simulated {
            world: World::new(),
            holders: [holder(0, 1, 0), holder(1, 2, 0), holder(0, 3, 1000)],
            jobs: Vec::new(),
            last_ticket: 0,
            last_pin: 0,
        }
    }

    /// Makes steps until nothing is left to do.
    fn run_until_idle(&mut self) {
        loop {
            let mut busy = self.world.pump();
            for index in 0..self.jobs.len() {
                busy |= self.step(index);
            }
            if !busy {
                return;
            }
        }
    }

    fn endpoint(&self, side: Side, slot: u32) -> Result<EndpointId, Error> {
        let known = self.holders[index(side)].endpoints.get(&slot);
        known.copied().ok_or(Error::BadDescriptor)
    }

    /// Makes a call, or turns it into work that may have to wait.
    fn start(&mut self, side: Side, call: &Call) -> Result<Reply, Work> {
        let holder = index(side);
        let number = self.holders[holder].node;
        let answer = match *call {
            Call::Open { slot } => {
                let owner = self.holders[holder].owner;
                self.world.nodes[number].engine.open(owner).map(|id| {
                    self.holders[holder].endpoints.insert(slot, id);
                    0
                })
            }
            Call::Close { slot } => self.endpoint(side, slot).and_then(|id| {
                let node = &mut self.world.nodes[number];
                node.engine.state(id).ok_or(Error::BadDescriptor)?;
                node.engine.close(&mut node.memory, id);
                self.holders[holder].nonblocking.remove(&slot);
                while self.world.nodes[number].engine.is_departing(id) {
                    assert!(self.world.pump(), "the close does not end");
                }
                Ok(0)
            }),
            Call::Bind { slot, port } => self.with(side, slot, |node, id| {
                node.engine.bind(id, port).map(i64::from)
            }),
            Call::Listen { slot, backlog } => self.with(side, slot, |node, id| {
                node.engine.listen(id, backlog).map(|()| 0)
            }),
            Call::Nonblocking { slot, on } => {
                let set = &mut self.holders[holder].nonblocking;
                match on {
                    0 => set.remove(&slot),
                    _ => set.insert(slot),
                };
                Ok(0)
            }
            Call::Connect { slot, node, port } => {
                return self.connect(side, slot, PortId::new(node, port));
            }
            Call::Accept { slot, into, flags } => return self.accept(side, slot, into, flags),
            Call::Send { slot, .. } | Call::Recv { slot, .. } => {
                return self.transfer(side, slot, call);
            }
            Call::Poll { slot, events } => Ok(self.readiness(side, slot, events)),
            Call::PollTwo { .. } => return Err(Work::Poll(*call)),
            Call::NodeIds { room } => {
                let engine = &self.world.nodes[number].engine;
                let online: Vec<i64> = engine.online_nodes().map(i64::from).collect();
                let stored = online.iter().take(room as usize);
                let own = i64::from(engine.node());
                return Ok(Reply {
                    result: Ok(online.len() as i64),
                    extra: std::iter::once(own).chain(stored.copied()).collect(),
                });
            }
            Call::Count {} => {
                return Ok(Reply {
                    result: Ok(0),
                    extra: self.counts(number).words(),
                });
            }
            Call::LoseNode {} => {
                self.world.cut();
                Ok(0)
            }
            Call::Reset {} => {
                self.reset(holder);
                Ok(0)
            }
            Call::LimitPinned { pages } => {
                let engine = &mut self.world.nodes[number].engine;
                engine.set_limit(Resource::Pages, Scope::User, pages);
                Ok(0)
            }
            Call::PinnedLimit {} => Ok(self.world.nodes[number]
                .engine
                .limit(Resource::Pages, Scope::User) as i64),
            Call::Exit {} | Call::AcceptRegister { .. } | Call::OpenFile { .. } => {
                panic!("the simulator cannot do {call:?}")
            }
            _ => return self.on_memory(side, call),
        };
        Ok(reply(answer))
    }

    fn with(
        &mut self,
        side: Side,
        slot: u32,
        call: impl FnOnce(&mut world::Node, EndpointId) -> Answer,
    ) -> Answer {
        let id = self.endpoint(side, slot)?;
        call(&mut self.world.nodes[self.holders[index(side)].node], id)
    }

    fn readiness(&mut self, side: Side, slot: u32, events: u32) -> i64 {
        let Ok(id) = self.endpoint(side, slot) else {
            return Readiness::NVAL.bits().into();
        };
        let node = &mut self.world.nodes[self.holders[index(side)].node];
        let always = Readiness::ERR | Readiness::HUP | Readiness::NVAL;
        let wanted = Readiness::from_bits_truncate(events as u16) | always;
        (node.engine.poll(&mut node.memory, id) & wanted)
            .bits()
            .into()
    }

    fn counts(&self, number: usize) -> Counts {
        let engine = &self.world.nodes[number].engine;
        let stats = engine.stats();
        Counts {
            endpoints: stats.endpoints as i64,
            connections: stats.connections as i64,
            ports: engine.ports().count() as i64,
            windows: (stats.windows + stats.remote_windows) as i64,
            mappings: stats.mapped_pages as i64,
            pinned_pages: stats.pinned_pages as i64,
            pages: stats.pages as i64,
        }
    }

    fn reset(&mut self, holder: usize) {
        let node = &mut self.world.nodes[self.holders[holder].node];
        for id in std::mem::take(&mut self.holders[holder].endpoints).into_values() {
            node.engine.close(&mut node.memory, id);
        }
        self.holders[holder].nonblocking.clear();
        for slot in self.slots(holder) {
            self.drop_region(holder, slot);
        }
        self.world.join();
    }
}

impl Driver for Simulated {
    fn place(&self) -> Place {
        Place::Sim
    }

    fn node(&self, side: Side) -> u16 {
        self.holders[index(side)].node as u16
    }

    fn call(&mut self, side: Side, call: &Call) -> Result<Reply, String> {
        let ticket = self.begin(side, call)?;
        self.finish(ticket)
    }

    fn begin(&mut self, side: Side, call: &Call) -> Result<Ticket, String> {
        let (done, work) = match self.start(side, call) {
            Ok(reply) => (Some(reply), Work::None),
            Err(work) => (None, work),
        };
        self.last_ticket += 1;
        self.jobs.push(Job {
            ticket: self.last_ticket,
            side,
            work,
            done,
        });
        self.run_until_idle();
        self.world.check()?;
        Ok(Ticket(self.last_ticket))
    }

    fn is_done(&mut self, ticket: Ticket) -> Result<bool, String> {
        self.run_until_idle();
        let job = self.jobs.iter().find(|job| job.ticket == ticket.0);
        Ok(job.is_none_or(|job| job.done.is_some()))
    }

    fn finish(&mut self, ticket: Ticket) -> Result<Reply, String> {
        self.run_until_idle();
        let found = self.jobs.iter().position(|job| job.ticket == ticket.0);
        let index = found.ok_or("an unknown ticket")?;
        let job = self.jobs.remove(index);
        let waited = || format!("it waits for ever: {:?}", job.work);
        job.done.ok_or_else(waited)
    }

    fn pause(&mut self) -> bool {
        self.run_until_idle();
        false
    }
}
