//! A program of the simulator: a context, its part of the memory, its lanes.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use conformance::verbs::bench::Side;
use conformance::verbs::end::Verbs;
use sim::verbs::net::{BASE, Net, Port};
use verbs_core::address::{AddressVector, FIRST_MULTICAST_LID, Gid};
use verbs_core::attributes::Attributes;
use verbs_core::context::{Context, Counts, QpView};
use verbs_core::host::{Host, LaneId, Place};
use verbs_core::keys::{Region, WindowType};
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::{AttributeMask as M, EventType, QpState, Result};
use verbs_core::work::{QpInit, ReceiveRequest, SendRequest, WorkCompletion};
use verbs_core::{Destination, Event, Subject};

use super::is_connected;

/// Rounds in which a peer can receive a last message.
const LAST_ROUNDS: usize = 4;

/// A program of the simulator, with its context.
pub struct End {
    pub context: Context,
    pub port: Port,
    side: Side,
    pub pds: Vec<Id>,
    /// Lanes of protection domains.
    pub lanes: Vec<(LaneId, Option<Id>)>,
    /// Queue pairs that need a lane to a queue pair of a port.
    pub wants: Vec<(u32, u16, u32)>,
    /// Datagrams that need a lane.
    pub wanted: Vec<Destination>,
    events: VecDeque<(EventType, Subject)>,
    told: BTreeMap<Id, u64>,
    /// Numbers of objects in each protection domain.
    users: BTreeMap<Id, i32>,
    next_number: u32,
    now: u64,
}

impl End {
    pub fn new(net: &Rc<RefCell<Net>>, program: usize, side: Side) -> End {
        let net = Rc::clone(net);
        End {
            context: Context::new((program as u32) << 16),
            port: Port { net, program },
            side,
            pds: Vec::new(),
            lanes: Vec::new(),
            wants: Vec::new(),
            wanted: Vec::new(),
            events: VecDeque::new(),
            told: BTreeMap::new(),
            users: BTreeMap::new(),
            // The numbers of one side are invalid at the other.
            next_number: 0x1_0000 << side as u32,
            now: 0,
        }
    }

    /// Makes one step. Returns whether there was work.
    pub fn advance(&mut self, now: u64) -> bool {
        self.now = now;
        let progress = self.context.progress(&mut self.port, now);
        while let Some(event) = self.context.next_event() {
            match event {
                Event::Async(kind, subject) => self.events.push_back((kind, subject)),
                Event::Completion(cq) => *self.told.entry(cq).or_default() += 1,
                Event::LaneOver(lane) => {
                    self.lanes.retain(|(of, _)| *of != lane);
                    self.port.net.borrow_mut().close(lane);
                }
                Event::LaneWanted(destination) => self.wanted.push(destination),
            }
        }
        progress.is_busy
    }

    fn count(&mut self, pd: Id, change: i32) {
        *self.users.entry(pd).or_default() += change;
    }

    fn forget(&mut self, subject: Subject) {
        self.events.retain(|(_, of)| *of != subject);
    }
}

impl Verbs for End {
    fn base(&self) -> u64 {
        BASE
    }

    fn lid(&self) -> u16 {
        self.side as u16 + 1
    }

    fn read(&mut self, at: u64, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; count as usize];
        let there = self.port.read(place(at, bytes.len()), &mut bytes);
        there.expect("all memory is there");
        bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let there = self.port.write(place(at, bytes.len()), bytes);
        there.expect("all memory is there");
    }

    fn alloc_pd(&mut self) -> Result<Id> {
        let pd = self.context.alloc_pd()?;
        self.pds.push(pd);
        Ok(pd)
    }

    fn dealloc_pd(&mut self, pd: Id) -> Result<()> {
        let mut lanes = self.lanes.clone();
        lanes.retain(|(_, of)| *of == Some(pd));
        // Only a domain without users has lanes that can be ended.
        if self.users.get(&pd).is_some_and(|users| *users > 0) {
            return self.context.dealloc_pd(pd);
        }
        for (lane, _) in &lanes {
            self.context.say_bye(*lane)?;
        }
        for _ in 0..LAST_ROUNDS {
            self.advance(self.now);
        }
        for (lane, _) in lanes {
            // The lane may have ended by itself.
            let _ = self.context.end_lane(&mut self.port, lane);
        }
        self.advance(self.now);
        self.context.dealloc_pd(pd)?;
        self.pds.retain(|of| *of != pd);
        Ok(())
    }

    fn register(&mut self, region: Region) -> Result<u32> {
        let key = self.context.register(region)?;
        self.count(region.pd, 1);
        Ok(key)
    }

    fn reregister(&mut self, key: u32, region: Region) -> Result<u32> {
        let old = self.context.region(key).map(|region| region.pd);
        let fresh = self.context.reregister(&mut self.port, key, region)?;
        self.count(old.unwrap_or(region.pd), -1);
        self.count(region.pd, 1);
        Ok(fresh)
    }

    fn deregister(&mut self, key: u32) -> Result<()> {
        let pd = self.context.region(key).map(|region| region.pd);
        self.context.deregister(&mut self.port, key)?;
        pd.into_iter().for_each(|pd| self.count(pd, -1));
        Ok(())
    }

    fn alloc_mw(&mut self, pd: Id, kind: WindowType) -> Result<u32> {
        let key = self.context.alloc_mw(pd, kind)?;
        self.count(pd, 1);
        Ok(key)
    }

    fn dealloc_mw(&mut self, pd: Id, key: u32) -> Result<()> {
        self.context.dealloc_mw(&mut self.port, key)?;
        self.count(pd, -1);
        Ok(())
    }

    fn create_cq(&mut self, size: u32) -> Result<Id> {
        self.context.create_cq(size)
    }

    fn destroy_cq(&mut self, cq: Id) -> Result<()> {
        self.context.destroy_cq(cq)?;
        self.told.remove(&cq);
        self.forget(Subject::Cq(cq));
        Ok(())
    }

    fn resize_cq(&mut self, cq: Id, size: u32) -> Result<()> {
        self.context.resize_cq(cq, size)
    }

    fn poll_cq(&mut self, cq: Id) -> Result<Option<WorkCompletion>> {
        self.context.poll_cq(cq)
    }

    fn req_notify_cq(&mut self, cq: Id, solicited_only: bool) -> Result<()> {
        self.context.req_notify_cq(cq, solicited_only)
    }

    fn told(&mut self, cq: Id) -> u64 {
        self.told.remove(&cq).unwrap_or_default()
    }

    fn create_srq(&mut self, pd: Id, max_wr: u32, limit: u32) -> Result<Id> {
        let srq = self.context.create_srq(pd, max_wr, 2, limit)?;
        self.count(pd, 1);
        Ok(srq)
    }

    fn create_xrc_srq(&mut self, pd: Id, of: Xrc, max_wr: u32) -> Result<Id> {
        let srq = self.context.create_xrc_srq(pd, of, max_wr, 2, 0)?;
        self.count(pd, 1);
        Ok(srq)
    }

    fn destroy_srq(&mut self, srq: Id) -> Result<()> {
        let pd = self.context.srq(srq)?.pd;
        self.context.destroy_srq(srq)?;
        self.count(pd, -1);
        self.forget(Subject::Srq(srq));
        Ok(())
    }

    fn modify_srq(&mut self, srq: Id, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        self.context.modify_srq(srq, max_wr, limit)
    }

    fn query_srq(&mut self, srq: Id) -> Result<(u32, u32)> {
        let (max_wr, _, limit) = self.context.srq(srq)?.query();
        Ok((max_wr, limit))
    }

    fn post_srq_recv(&mut self, srq: Id, request: ReceiveRequest) -> Result<()> {
        self.context.post_srq_recv(srq, request)
    }

    fn open_xrcd(&mut self) -> Result<Id> {
        self.context.open_xrcd()
    }

    fn close_xrcd(&mut self, domain: Id) -> Result<()> {
        self.context.close_xrcd(domain)
    }

    fn create_qp(&mut self, init: QpInit) -> Result<u32> {
        self.next_number += 1;
        self.context.create_qp(self.next_number, init)?;
        self.count(init.pd, 1);
        Ok(self.next_number)
    }

    fn destroy_qp(&mut self, number: u32) -> Result<()> {
        let pd = self.context.query_qp(number)?.init.pd;
        self.context.destroy_qp(number)?;
        self.count(pd, -1);
        self.forget(Subject::Qp(number));
        Ok(())
    }

    fn modify_qp(&mut self, number: u32, new: &Attributes, mask: M) -> Result<()> {
        self.context.modify_qp(number, new, mask)?;
        let view = self.context.query_qp(number)?;
        let is_rtr = mask.contains(M::STATE) && new.state == QpState::Rtr;
        if is_rtr && is_connected(view.init.kind) {
            let of = view.attributes;
            self.wants.push((number, of.dlid, of.dest_qpn));
        }
        Ok(())
    }

    fn query_qp(&mut self, number: u32) -> Result<QpView> {
        self.context.query_qp(number)
    }

    fn post_send(&mut self, number: u32, request: SendRequest) -> Result<()> {
        self.context.post_send(number, request)
    }

    fn post_recv(&mut self, number: u32, request: ReceiveRequest) -> Result<()> {
        self.context.post_recv(number, request)
    }

    fn create_ah(&mut self, pd: Id, vector: AddressVector) -> Result<Id> {
        let ah = self.context.create_ah(pd, vector)?;
        self.count(pd, 1);
        Ok(ah)
    }

    fn destroy_ah(&mut self, pd: Id, ah: Id) -> Result<()> {
        self.context.destroy_ah(ah)?;
        self.count(pd, -1);
        Ok(())
    }

    fn attach_multicast(&mut self, number: u32, gid: Gid) -> Result<()> {
        self.context
            .attach_multicast(number, gid, FIRST_MULTICAST_LID)
    }

    fn detach_multicast(&mut self, number: u32, gid: Gid) -> Result<()> {
        self.context.detach_multicast(number, gid)
    }

    fn qkey_violations(&mut self) -> u32 {
        self.context.qkey_violations()
    }

    fn next_event(&mut self) -> Option<(EventType, u32)> {
        let (kind, subject) = self.events.pop_front()?;
        let about = match subject {
            Subject::Qp(number) => number,
            Subject::Cq(id) | Subject::Srq(id) => id.0,
        };
        Some((kind, about))
    }

    fn counts(&mut self) -> Counts {
        self.context.counts()
    }

    fn exposed(&mut self) -> u64 {
        self.port.net.borrow().windows_of(self.port.program) as u64
    }
}

/// Bytes of the program's memory.
fn place(at: u64, length: usize) -> Place {
    Place {
        key: 0,
        address: BASE + at,
        length,
    }
}
