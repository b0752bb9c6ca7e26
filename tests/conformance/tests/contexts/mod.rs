//! The place `sim` of the rows of RDMA verbs: two contexts of `verbs-core` on the simulator's
//! memory, whose stores are under way for some time.

mod end;

use std::cell::RefCell;
use std::rc::Rc;

use conformance::verbs::bench::{Checked, Driver, Job, Place, Reply, Side};
use sim::verbs::net::{Net, lane};
use verbs_core::address::{LanePeer, MULTICAST_QPN};
use verbs_core::host::LaneId;
use verbs_core::table::Id;
use verbs_core::types::QpType;

use end::End;

/// Most programs, one after the other.
const PROGRAMS: usize = 8;
/// The duration of a pause, in nanoseconds.
const PAUSE_NS: u64 = 200_000;
/// Rounds without work after which nothing is under way; messages may take some rounds to arrive.
const QUIET_ROUNDS: u32 = 12;

/// A lane between two protection domains: its link, and the domain of each side of it.
struct Joined {
    link: usize,
    domains: [(Side, Id); 2],
}

/// The driver.
pub struct Simulated {
    net: Rc<RefCell<Net>>,
    ends: [End; 2],
    joined: Vec<Joined>,
    datagrams: Option<usize>,
    programs: usize,
    now: u64,
}

const SIDES: [Side; 2] = [Side::A, Side::B];

impl Simulated {
    /// Two programs, whose stores arrive in the order of the seed.
    pub fn new(seed: u64) -> Simulated {
        let bytes = conformance::verbs::bench::MEMORY as usize;
        let mut net = Net::new(PROGRAMS, bytes, seed, None);
        for program in &mut net.programs {
            program.most_windows = usize::MAX;
        }
        // The number of a link decides whether it has atomic operations.
        for _ in 0..seed % 3 {
            net.join([0, 1]);
        }
        let net = Rc::new(RefCell::new(net));
        let make = |side: Side| End::new(&net, side as usize, side);
        Simulated {
            ends: SIDES.map(make),
            net,
            joined: Vec::new(),
            datagrams: None,
            programs: 2,
            now: 0,
        }
    }

    fn side_of(lid: u16) -> Option<Side> {
        SIDES.into_iter().find(|side| *side as u16 + 1 == lid)
    }

    /// Gives lanes to queue pairs that need one.
    fn link(&mut self) {
        for side in SIDES {
            for (number, lid, peer) in std::mem::take(&mut self.ends[side as usize].wants) {
                let Some(far) = Self::side_of(lid) else {
                    continue;
                };
                let Ok(view) = self.ends[side as usize].context.query_qp(number) else {
                    continue;
                };
                let there = &self.ends[far as usize];
                let known = there.context.query_qp(peer).map(|view| view.init.pd);
                let Some(pd) = known.ok().or(there.pds.first().copied()) else {
                    continue;
                };
                let lane = self.lane_between((side, view.init.pd), (far, pd));
                // The queue pair may have the lane already.
                let _ = self.ends[side as usize].context.attach(number, lane);
            }
        }
    }

    fn lane_between(&mut self, own: (Side, Id), far: (Side, Id)) -> LaneId {
        let of = |joined: &Joined| match joined.domains {
            domains if domains == [own, far] => Some(lane(joined.link, 0)),
            domains if domains == [far, own] => Some(lane(joined.link, 1)),
            _ => None,
        };
        if let Some(lane) = self.joined.iter().find_map(of) {
            return lane;
        }
        let programs = [own.0, far.0].map(|side| self.ends[side as usize].port.program);
        let link = self.net.borrow_mut().join(programs);
        for (index, (side, pd)) in [own, far].into_iter().enumerate() {
            let end = &mut self.ends[side as usize];
            end.context.open_lane(lane(link, index), pd).expect("lane");
            end.lanes.push((lane(link, index), Some(pd)));
        }
        let domains = [own, far];
        self.joined.push(Joined { link, domains });
        lane(link, 0)
    }

    /// Answers datagrams that need a lane.
    fn route(&mut self) {
        for side in SIDES {
            for destination in std::mem::take(&mut self.ends[side as usize].wanted) {
                let lane = match Self::side_of(destination.lid) {
                    Some(far) if far != side => Some(lane(self.datagram_link(), side as usize)),
                    // Members of groups are those of the own context.
                    None if destination.qpn == MULTICAST_QPN => Some(self.own_link(side)),
                    _ => None,
                };
                let context = &mut self.ends[side as usize].context;
                context.route(destination, lane).expect("route");
            }
        }
    }

    fn datagram_link(&mut self) -> usize {
        if let Some(link) = self.datagrams {
            return link;
        }
        let programs = SIDES.map(|side| self.ends[side as usize].port.program);
        let link = self.net.borrow_mut().join(programs);
        for side in SIDES {
            let own = lane(link, side as usize);
            let peer = LanePeer::Port(2 - side as u16);
            let context = &mut self.ends[side as usize].context;
            context.open_datagram_lane(own).expect("lane");
            context.set_lane_peer(own, peer).expect("lane");
        }
        self.datagrams = Some(link);
        link
    }

    /// Makes a lane for datagrams within a context.
    fn own_link(&mut self, side: Side) -> LaneId {
        let end = &mut self.ends[side as usize];
        let program = end.port.program;
        let link = self.net.borrow_mut().join([program; 2]);
        for index in 0..2 {
            let peer = LanePeer::Port(side as u16 + 1);
            let context = &mut end.context;
            context.open_datagram_lane(lane(link, index)).expect("lane");
            context
                .set_lane_peer(lane(link, index), peer)
                .expect("lane");
        }
        lane(link, 0)
    }

    /// Makes steps until nothing is left to do.
    fn run_until_idle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            self.link();
            let mut is_busy = false;
            for end in &mut self.ends {
                is_busy |= end.advance(self.now);
            }
            self.route();
            self.joined.retain(|joined| {
                let there = |index: usize| {
                    let (side, _) = joined.domains[index];
                    let lanes = &self.ends[side as usize].lanes;
                    lanes.iter().any(|(of, _)| *of == lane(joined.link, index))
                };
                there(0) && there(1)
            });
            quiet = if is_busy { 0 } else { quiet + 1 };
        }
        if let Some(fault) = self.net.borrow_mut().fault.take() {
            panic!("{fault}");
        }
    }
}

impl Driver for Simulated {
    fn place(&self) -> Place {
        Place::Sim
    }

    fn at(&mut self, side: Side, job: Job<'_>) -> Checked<Reply> {
        let reply = job(&mut self.ends[side as usize]);
        self.run_until_idle();
        Ok(reply)
    }

    fn pause(&mut self) {
        self.now += PAUSE_NS;
        self.run_until_idle();
    }

    fn now(&self) -> Option<u64> {
        Some(self.now)
    }

    fn kill(&mut self, side: Side) -> Checked {
        let end = &self.ends[side as usize];
        self.net.borrow_mut().kill(end.port.program, false);
        self.datagrams = None;
        self.joined
            .retain(|joined| joined.domains.iter().all(|(of, _)| *of != side));
        self.ends[side as usize] = End::new(&self.net, self.programs, side);
        self.programs += 1;
        self.run_until_idle();
        Ok(())
    }
}

/// Whether queue pairs of this type have one peer.
fn is_connected(kind: QpType) -> bool {
    kind != QpType::Ud
}
