//! A context: the objects of a program that has opened the device, and the calls on them.

mod datagrams;
mod posting;
mod progress;
mod shared;
mod taking;

use alloc::vec::Vec;

use crate::attributes::Attributes;
use crate::completion::CompletionQueue;
use crate::host::{Host, LaneId};
use crate::keys::{Region, WindowType};
use crate::numbered::Numbered;
use crate::objects::{Event, Lane, Objects, Subject};
use crate::queue_pair::{QueuePair, Traffic};
use crate::record::Record;
use crate::table::{Id, Table};
use crate::types::{AttributeMask, Error, QpState, QpType, Result};
use crate::work::{QpInit, WorkCompletion};

pub use self::datagrams::{MAX_GROUPS, MAX_MEMBERS};
pub use self::posting::AtOnce;
pub use self::progress::Progress;
pub use self::taking::Taken;
use self::taking::activate;

/// Most protection domains of a context.
pub const MAX_PDS: u32 = 1024;
/// Most completion queues.
pub const MAX_CQS: u32 = 4096;
/// Most completions that a completion queue holds.
pub const MAX_CQE: u32 = 65536;
/// Most queue pairs.
pub const MAX_QPS: usize = 4096;
/// Most requests that a send or receive queue holds.
pub const MAX_WR: u32 = 16384;
/// Most segments of a request.
pub const MAX_SGE: u32 = 32;
/// Most bytes of inline data of a request.
pub const MAX_INLINE: u32 = 1024;
/// Most shared receive queues.
pub const MAX_SRQS: u32 = 1024;
/// Most XRC domains.
pub const MAX_XRCDS: u32 = 1024;
/// Most memory windows.
pub const MAX_MWS: usize = 4096;
/// Most address handles.
pub const MAX_AHS: u32 = 65536;

/// A protection domain, or an XRC domain.
#[derive(Debug)]
struct Domain {
    /// Objects that belong to it.
    users: u32,
}

/// The state of a queue pair as [`Context::query_qp`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpView {
    /// Its state.
    pub state: QpState,
    /// Its attributes; `state` and `cur_state` are those of the last modification.
    pub attributes: Attributes,
    /// The objects and sizes that it was created from.
    pub init: QpInit,
    /// Sends and receives that are queued.
    pub queued: (usize, usize),
    /// It is in SQD, and a send has begun and has not ended.
    pub is_draining: bool,
    /// Its traffic.
    pub traffic: Traffic,
}

/// The number of objects of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Protection domains.
    pub pds: usize,
    /// Memory regions.
    pub regions: usize,
    /// Memory windows.
    pub windows: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Queue pairs.
    pub qps: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Lanes.
    pub lanes: usize,
    /// Address handles.
    pub ahs: usize,
    /// XRC domains.
    pub xrcds: usize,
}

/// The objects of a program that has opened the device; see the module.
pub struct Context {
    objects: Objects,
    domains: Table<Domain>,
    xrc_domains: Table<Domain>,
    qps: Numbered<QueuePair>,
    /// Queue pairs that have requests to execute, or that wait for a time: all with `is_active`,
    /// and perhaps some that have been destroyed.
    active: Vec<u32>,
    /// The generation that was last given to a queue pair.
    generation: u32,
    /// Calls of [`progress`](Self::progress) in a row that received something.
    busy_turns: u32,
    /// Looks that [`owes`](Self::owes) has counted since the short way last received a record.
    looks: u32,
}

impl Context {
    /// A context without objects. `first_generation`: any number, preferably not the one of an
    /// earlier context at the same address.
    pub fn new(first_generation: u32) -> Context {
        Context {
            objects: Objects::new(
                Table::new(MAX_CQS),
                Table::new(MAX_SRQS),
                Table::new(MAX_AHS),
            ),
            domains: Table::new(MAX_PDS),
            xrc_domains: Table::new(MAX_XRCDS),
            qps: Numbered::new(),
            active: Vec::new(),
            generation: first_generation,
            busy_turns: 0,
            looks: 0,
        }
    }

    /// Whether there is an event.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.objects.events.is_empty()
    }

    /// The next event.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.objects.events.pop_front()
    }

    /// The number of objects of each kind.
    pub fn counts(&self) -> Counts {
        Counts {
            pds: self.domains.len(),
            regions: self.objects.keys.len() - self.objects.keys.windows(),
            windows: self.objects.keys.windows(),
            cqs: self.objects.cqs.len(),
            qps: self.qps.len(),
            srqs: self.objects.srqs.len(),
            lanes: self.objects.lanes.len(),
            ahs: self.objects.handles.len(),
            xrcds: self.xrc_domains.len(),
        }
    }

    // ---- Protection domains and memory regions ----

    /// Makes a protection domain.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn alloc_pd(&mut self) -> Result<Id> {
        self.domains.insert(Domain { users: 0 })
    }

    /// Frees a protection domain.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: an object belongs to it.
    pub fn dealloc_pd(&mut self, pd: Id) -> Result<()> {
        if self.domains.get(pd)?.users > 0 {
            return Err(Error::Busy);
        }
        self.domains.remove(pd).map(|_| ())
    }

    /// Whether any object other than lanes belongs to a protection domain.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn has_users(&self, pd: Id) -> Result<bool> {
        let users = self.domains.get(pd)?.users as usize;
        let lanes = self.objects.lanes.values();
        Ok(users > lanes.filter(|lane| lane.pd == Some(pd)).count())
    }

    fn leave_domain(&mut self, pd: Id) {
        if let Ok(domain) = self.domains.get_mut(pd) {
            domain.users -= 1;
        }
    }

    /// Registers memory. Returns its key, which is both the local and the remote one.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. Those of [`KeyTable::register`].
    pub fn register(&mut self, region: Region) -> Result<u32> {
        let domain = self.domains.get_mut(region.pd)?;
        let key = self.objects.keys.register(region)?;
        domain.users += 1;
        Ok(key)
    }

    /// Deregisters memory. Once this returns, no peer copies to or from it.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: memory windows are bound to it.
    pub fn deregister<H: Host>(&mut self, host: &mut H, key: u32) -> Result<()> {
        let region = self.objects.keys.deregister(key)?;
        self.objects.withdraw(host, key);
        self.leave_domain(region.pd);
        Ok(())
    }

    /// Changes a memory region and returns its new key. Once this returns, no peer copies by the
    /// old key.
    ///
    /// # Errors
    /// `NotFound`: the region or the domain. `Busy`: memory windows are bound to the region. Those
    /// of [`KeyTable::register`]. After an error nothing has changed.
    pub fn reregister<H: Host>(&mut self, host: &mut H, key: u32, new: Region) -> Result<u32> {
        let former = self.objects.keys.get(key).ok_or(Error::NotFound)?.pd;
        self.domains.get(new.pd)?;
        let new_key = self.objects.keys.reregister(key, new)?;
        self.objects.withdraw(host, key);
        self.domains.get_mut(new.pd)?.users += 1;
        self.leave_domain(former);
        Ok(new_key)
    }

    // ---- Memory windows ----

    /// Makes a memory window that is not bound yet. The returned key names it in
    /// [`Bind::window`](crate::work::Bind::window) and is not valid for peers.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. `NoMemory`.
    pub fn alloc_mw(&mut self, pd: Id, kind: WindowType) -> Result<u32> {
        let domain = self.domains.get_mut(pd)?;
        if self.objects.keys.windows() >= MAX_MWS {
            return Err(Error::NoMemory);
        }
        let key = self.objects.keys.allocate_window(pd, kind)?;
        domain.users += 1;
        Ok(key)
    }

    /// Frees a memory window, named by any of its keys. Once this returns, no peer copies by it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn dealloc_mw<H: Host>(&mut self, host: &mut H, key: u32) -> Result<()> {
        let (pd, former) = self.objects.keys.free_window(key)?;
        if let Some(former) = former {
            self.objects.withdraw(host, former);
        }
        self.leave_domain(pd);
        Ok(())
    }

    /// Checks that no memory window is bound to a memory region.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: one is.
    pub fn check_unbound(&self, key: u32) -> Result<()> {
        self.objects.keys.find_region(key).map(drop)
    }

    /// The memory region that has this key.
    pub fn region(&self, key: u32) -> Option<&Region> {
        self.objects.keys.get(key)
    }

    // ---- Completion queues ----

    /// Makes a completion queue.
    ///
    /// # Errors
    /// `Invalid`: the size is out of range. `NoMemory`.
    pub fn create_cq(&mut self, size: u32) -> Result<Id> {
        check_between(1, size, MAX_CQE)?;
        self.objects.cqs.insert(CompletionQueue::new(size as usize))
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs use it.
    pub fn destroy_cq(&mut self, cq: Id) -> Result<()> {
        if self.objects.cqs.get(cq)?.users > 0 {
            return Err(Error::Busy);
        }
        self.objects.cqs.remove(cq)?;
        self.objects.events.retain(|event| {
            let is_its = matches!(event, Event::Completion(of) if *of == cq);
            !is_its
        });
        self.objects.forget(Subject::Cq(cq));
        Ok(())
    }

    /// Changes the size of a completion queue.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the size is out of range, or the queue holds more completions.
    pub fn resize_cq(&mut self, cq: Id, size: u32) -> Result<()> {
        let queue = self.objects.cqs.get_mut(cq)?;
        check_between(1, size, MAX_CQE)?;
        match queue.resize(size as usize) {
            true => Ok(()),
            false => Err(Error::Invalid),
        }
    }

    /// Takes the next completion. [`progress`](Context::progress) adds new ones.
    ///
    /// # Errors
    /// `NotFound`.
    #[inline]
    pub fn poll_cq(&mut self, cq: Id) -> Result<Option<WorkCompletion>> {
        Ok(self.objects.cqs.get_mut(cq)?.poll())
    }

    /// Takes up to `most` completions, passes each to `sink`, and returns how many.
    ///
    /// # Errors
    /// `NotFound`.
    #[inline]
    pub fn take_completions(
        &mut self,
        cq: Id,
        most: usize,
        sink: &mut impl FnMut(WorkCompletion),
    ) -> Result<usize> {
        let queue = self.objects.cqs.get_mut(cq)?;
        let mut count = 0;
        while count < most
            && let Some(completion) = queue.poll()
        {
            sink(completion);
            count += 1;
        }
        Ok(count)
    }

    /// The number of completions that a queue holds, and of those that have been added since it
    /// was made.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn cq_traffic(&self, cq: Id) -> Result<(usize, u64)> {
        let queue = self.objects.cqs.get(cq)?;
        Ok((queue.len(), queue.added()))
    }

    /// Arms a completion queue: the next completion raises [`Event::Completion`]. With
    /// `solicited_only` only a solicited one or an error does.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn req_notify_cq(&mut self, cq: Id, solicited_only: bool) -> Result<()> {
        self.objects.cqs.get_mut(cq)?.arm(solicited_only);
        Ok(())
    }

    // ---- Queue pairs ----

    /// Creates a queue pair with this number, which no other queue pair of the node has.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range, objects of another domain, or a number that is in use.
    /// `NotFound`: an object. `NoMemory`.
    pub fn create_qp(&mut self, number: u32, init: QpInit) -> Result<()> {
        let capacity = &init.capacity;
        check_between(0, capacity.send_wr, MAX_WR)?;
        check_between(0, capacity.recv_wr, MAX_WR)?;
        check_between(0, capacity.send_sge, MAX_SGE)?;
        check_between(0, capacity.recv_sge, MAX_SGE)?;
        check_between(0, capacity.inline, MAX_INLINE)?;
        check_between(0, number, (1 << 24) - 1)?;
        if self.qps.get(number).is_some() {
            return Err(Error::Invalid);
        }
        if self.qps.len() >= MAX_QPS {
            return Err(Error::NoMemory);
        }
        self.check_parts(&init)?;
        self.count_users(&init, 1);
        self.qps.insert(number, QueuePair::new(number, init));
        Ok(())
    }

    /// Checks the objects that a queue pair is to use.
    fn check_parts(&self, init: &QpInit) -> Result<()> {
        let is_target = init.kind == QpType::XrcRecv;
        let is_xrc = is_target || init.kind == QpType::XrcSend;
        if is_target != init.xrcd.is_some() || is_xrc && init.srq.is_some() {
            return Err(Error::Invalid);
        }
        if let Some(xrcd) = init.xrcd {
            return self.xrc_domains.get(xrcd).map(|_| ());
        }
        self.domains.get(init.pd)?;
        self.objects.cqs.get(init.send_cq)?;
        self.objects.cqs.get(init.recv_cq)?;
        match init.srq.map(|srq| self.objects.srqs.get(srq)) {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(srq)) if srq.pd != init.pd || srq.xrc.is_some() => Err(Error::Invalid),
            Some(Ok(_)) => Ok(()),
        }
    }

    /// Adds `change` to the number of users of each object that a queue pair uses.
    fn count_users(&mut self, init: &QpInit, change: i32) {
        let count = |users: &mut u32| *users = users.saturating_add_signed(change);
        if let Some(xrcd) = init.xrcd {
            if let Ok(domain) = self.xrc_domains.get_mut(xrcd) {
                count(&mut domain.users);
            }
            return;
        }
        if let Ok(domain) = self.domains.get_mut(init.pd) {
            count(&mut domain.users);
        }
        for cq in [init.send_cq, init.recv_cq] {
            if let Ok(queue) = self.objects.cqs.get_mut(cq) {
                count(&mut queue.users);
            }
        }
        if let Some(queue) = init.srq.and_then(|srq| self.objects.srqs.get_mut(srq).ok()) {
            count(&mut queue.users);
        }
    }

    /// Destroys a queue pair, with its posted requests and its completions.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: it is a member of a group.
    pub fn destroy_qp(&mut self, number: u32) -> Result<()> {
        if self.is_in_group(number) {
            return Err(Error::Busy);
        }
        let mut qp = self.qps.remove(number).ok_or(Error::NotFound)?;
        qp.reset(&mut self.objects);
        // Windows that are bound to a queue pair can be used through that queue pair only.
        let stale = self.objects.keys.unbind_all(number);
        self.objects.stale.extend(stale);
        self.count_users(&qp.init, -1);
        self.objects.forget(Subject::Qp(number));
        Ok(())
    }

    /// Changes the state or the attributes of a queue pair.
    ///
    /// # Errors
    /// `NotFound`. `NotSupported`: the mask has unknown bits. `Invalid`: a value is out of range,
    /// or this change of state is not allowed with this mask. After an error nothing has changed.
    pub fn modify_qp(&mut self, number: u32, new: &Attributes, mask: AttributeMask) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        // 0 stands for an unknown generation.
        let generation = match self.generation.wrapping_add(1) {
            0 => 1,
            next => next,
        };
        qp.modify(&mut self.objects, new, mask, generation)?;
        self.generation = generation;
        activate(&mut self.active, qp);
        self.fail_overrun();
        Ok(())
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn query_qp(&self, number: u32) -> Result<QpView> {
        let qp = self.qps.get(number).ok_or(Error::NotFound)?;
        Ok(QpView {
            state: qp.state,
            attributes: qp.attributes,
            init: qp.init,
            queued: qp.queued(),
            is_draining: qp.is_draining(),
            traffic: qp.traffic,
        })
    }

    /// Takes over the state of a queue pair that works in another context, while this context only
    /// keeps its attributes: an error state that it has entered by itself. No request completes
    /// here.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: a queue pair does not enter this state by itself.
    pub fn follow_state(&mut self, number: u32, state: QpState) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        let is_possible = match state {
            QpState::Err => qp.state != QpState::Reset,
            QpState::Sqe => matches!(qp.state, QpState::Rts | QpState::Sqe),
            _ => qp.state == state,
        };
        if !is_possible {
            return Err(Error::Invalid);
        }
        qp.state = state;
        Ok(())
    }

    // ---- Lanes ----

    /// Adds a new connection as a lane of a protection domain.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. `Invalid`: the number is in use.
    pub fn open_lane(&mut self, lane: LaneId, pd: Id) -> Result<()> {
        let domain = self.domains.get_mut(pd)?;
        if self.objects.lanes.contains(lane) {
            return Err(Error::Invalid);
        }
        self.objects.lanes.insert(lane, Lane::new(Some(pd)));
        domain.users += 1;
        Ok(())
    }

    /// Makes a queue pair use a lane to its peer, until it is reset or the lane ends.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the lane is of another domain, or the queue pair has a lane or needs
    /// none. The receiving half of an XRC connection may use a lane of any domain; its peer then
    /// reaches the memory of that domain.
    pub fn attach(&mut self, number: u32, lane: LaneId) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        let of = self.objects.lanes.get(lane).ok_or(Error::NotFound)?;
        let is_its = match qp.init.kind {
            QpType::Ud => false,
            QpType::XrcRecv => of.pd.is_some(),
            _ => of.pd == Some(qp.init.pd),
        };
        if !is_its || qp.lane.is_some() {
            return Err(Error::Invalid);
        }
        qp.attach(&mut self.objects, lane);
        Ok(())
    }

    /// The lanes of a protection domain.
    pub fn lanes_of(&self, pd: Id) -> Vec<LaneId> {
        let lanes = self.objects.lanes.iter();
        let its = lanes.filter(|(_, lane)| lane.pd == Some(pd));
        its.map(|(id, _)| id).collect()
    }

    /// Whether a queue pair can receive, but has no lane and has never met its peer on one.
    pub fn awaits_lane(&self, number: u32) -> bool {
        self.qps.get(number).is_some_and(QueuePair::awaits_lane)
    }

    /// Tells the peer of a lane that nothing more will be sent, and moves the lane's queue pairs to
    /// the error state. The lane is over when the peer or [`end_lane`](Self::end_lane) ends it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn say_bye(&mut self, lane: LaneId) -> Result<()> {
        if !self.objects.lanes.contains(lane) {
            return Err(Error::NotFound);
        }
        for qp in self.qps.values_mut() {
            if qp.lane == Some(lane) {
                qp.enter_error(&mut self.objects);
            }
        }
        self.forget_routes(lane);
        self.objects.tell(lane, Record::Bye);
        Ok(())
    }
}

fn check_between(least: u32, value: u32, most: u32) -> Result<()> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::Invalid),
    }
}
