//! Shared receive queues, and XRC domains, whose queue pairs choose among them.

use super::{Context, Domain, MAX_SGE, MAX_WR, check_between};
use crate::objects::Subject;
use crate::srq::{SharedReceiveQueue, Xrc};
use crate::table::Id;
use crate::types::{Error, EventType, Result};
use crate::work::ReceiveRequest;

impl Context {
    // ---- Shared receive queues ----

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range. `NotFound`: there is no such domain. `NoMemory`.
    pub fn create_srq(&mut self, pd: Id, max_wr: u32, max_sge: u32, limit: u32) -> Result<Id> {
        let domain = self.domains.get_mut(pd)?;
        check_between(1, max_wr, MAX_WR)?;
        check_between(1, max_sge, MAX_SGE)?;
        check_between(0, limit, max_wr)?;
        let queue = SharedReceiveQueue::new(pd, max_wr, max_sge, limit);
        let id = self.objects.srqs.insert(queue)?;
        domain.users += 1;
        Ok(id)
    }

    /// Makes a shared receive queue of an XRC domain, with a completion queue of its own for its
    /// receives. Peers name it by the number of the returned handle.
    ///
    /// # Errors
    /// Those of [`create_srq`](Context::create_srq). `NotFound`: the XRC domain or the completion
    /// queue.
    pub fn create_xrc_srq(
        &mut self,
        pd: Id,
        xrc: Xrc,
        max_wr: u32,
        max_sge: u32,
        limit: u32,
    ) -> Result<Id> {
        self.objects.cqs.get(xrc.cq)?;
        self.xrc_domains.get(xrc.domain)?;
        let id = self.create_srq(pd, max_wr, max_sge, limit)?;
        self.objects.srqs.get_mut(id)?.xrc = Some(xrc);
        self.objects.cqs.get_mut(xrc.cq)?.users += 1;
        self.xrc_domains.get_mut(xrc.domain)?.users += 1;
        Ok(id)
    }

    /// Destroys a shared receive queue. In an XRC domain, messages for it fail from now on
    /// together with their queue pairs, also those that have arrived in part.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs use it.
    pub fn destroy_srq(&mut self, srq: Id) -> Result<()> {
        let queue = self.objects.srqs.get(srq)?;
        if queue.users > 0 {
            return Err(Error::Busy);
        }
        let (pd, xrc) = (queue.pd, queue.xrc);
        self.objects.srqs.remove(srq)?;
        self.objects.forget(Subject::Srq(srq));
        self.leave_domain(pd);
        if let Some(Xrc { domain, cq }) = xrc {
            for qp in self.qps.values_mut() {
                qp.lose_queue(&mut self.objects, srq);
            }
            if let Ok(queue) = self.objects.cqs.get_mut(cq) {
                queue.users -= 1;
            }
            if let Ok(domain) = self.xrc_domains.get_mut(domain) {
                domain.users -= 1;
            }
            self.fail_overrun();
        }
        Ok(())
    }

    /// A shared receive queue.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn srq(&self, srq: Id) -> Result<&SharedReceiveQueue> {
        self.objects.srqs.get(srq)
    }

    /// Changes how many receives a shared receive queue can hold, its limit, or both. An event is
    /// raised once when it holds fewer receives than the limit, also if it does so already.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`, and nothing is changed: the size is out of range or less than the
    /// receives in the queue, or the limit is more than the size.
    pub fn modify_srq(&mut self, srq: Id, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        let queue = self.objects.srqs.get_mut(srq)?;
        check_between(1, max_wr.unwrap_or(1), MAX_WR)?;
        if queue.modify(max_wr, limit)? {
            let subject = Subject::Srq(srq);
            self.objects.event(EventType::SrqLimitReached, subject);
        }
        Ok(())
    }

    /// Posts a receive to a shared receive queue.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: too many segments. `NoMemory`: the queue is full.
    pub fn post_srq_recv(&mut self, srq: Id, request: ReceiveRequest) -> Result<()> {
        let (qps, cqs) = (&self.qps, &self.objects.cqs);
        let held = || {
            let completed = cqs.ids().filter_map(|id| cqs.get(id).ok());
            let completed = completed.map(|queue| queue.held_shared(srq));
            let arriving = qps.values().filter(|qp| qp.has_begun_with(srq));
            completed.sum::<u32>() + arriving.count() as u32
        };
        self.objects.srqs.get_mut(srq)?.post(request, held)
    }

    // ---- XRC domains ----

    /// Makes an XRC domain.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn open_xrcd(&mut self) -> Result<Id> {
        self.xrc_domains.insert(Domain { users: 0 })
    }

    /// The protection domain of the shared receive queues of an XRC domain, whose memory peers
    /// reach: that of the first one, if there is any now.
    ///
    /// # Errors
    /// `NotFound`: there is no such XRC domain.
    pub fn pd_of_xrcd(&self, xrcd: Id) -> Result<Option<Id>> {
        self.xrc_domains.get(xrcd)?;
        let srqs = &self.objects.srqs;
        let mut queues = srqs.ids().filter_map(|id| srqs.get(id).ok());
        let found = queues.find(|queue| queue.xrc.is_some_and(|xrc| xrc.domain == xrcd));
        Ok(found.map(|queue| queue.pd))
    }

    /// Closes an XRC domain.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs or shared receive queues belong to it.
    pub fn close_xrcd(&mut self, xrcd: Id) -> Result<()> {
        if self.xrc_domains.get(xrcd)?.users > 0 {
            return Err(Error::Busy);
        }
        self.xrc_domains.remove(xrcd).map(|_| ())
    }
}
