//! Shared receive queues, and domains of extended reliable connections.

use verbs_core::Subject;
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::work::ReceiveRequest;

use super::{Context, each};
use crate::error::Result;

impl Context {
    /// Makes a shared receive queue. `user`: the program's word for it.
    ///
    /// # Errors
    /// `Invalid`: sizes. `NotFound`: the domain. `NoMemory`.
    pub fn create_srq(
        &self,
        pd: Id,
        (max_wr, max_sge): (u32, u32),
        limit: u32,
        user: u64,
    ) -> Result<Id> {
        let mut state = self.lock();
        let srq = state.core.create_srq(pd, max_wr, max_sge, limit)?;
        state.srqs.insert(srq, user);
        state.count(pd, 1);
        Ok(srq)
    }

    /// Opens a domain of extended reliable connections.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn open_xrcd(&self) -> Result<Id> {
        let mut state = self.lock();
        let domain = state.core.open_xrcd()?;
        state.xrcds.insert(domain, None);
        Ok(domain)
    }

    /// Ends such a domain.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs or shared receive queues belong to it.
    pub fn close_xrcd(&self, domain: Id) -> Result<()> {
        let mut state = self.lock();
        state.core.close_xrcd(domain)?;
        state.xrcds.remove(&domain);
        Ok(())
    }

    /// Makes a shared receive queue of such a domain; peers name it by its number, the handle's.
    ///
    /// # Errors
    /// `Invalid`: sizes. `NotFound`: the domains, the completion queue. `NoMemory`.
    pub fn create_xrc_srq(
        &self,
        (pd, of): (Id, Xrc),
        (max_wr, max_sge): (u32, u32),
        limit: u32,
        user: u64,
    ) -> Result<Id> {
        let mut state = self.lock();
        let srq = state.core.create_xrc_srq(pd, of, max_wr, max_sge, limit)?;
        state.srqs.insert(srq, user);
        state.count(pd, 1);
        if let Some(domain) = state.xrcds.get_mut(&of.domain) {
            domain.get_or_insert(pd);
        }
        Ok(srq)
    }

    /// Ends a shared receive queue.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs take from it.
    pub fn destroy_srq(&self, srq: Id) -> Result<()> {
        let mut state = self.lock();
        let pd = state.core.srq(srq)?.pd;
        state.core.destroy_srq(srq)?;
        state.srqs.remove(&srq);
        state.count(pd, -1);
        drop(state);
        self.forget(Subject::Srq(srq));
        Ok(())
    }

    /// Sets the limit of a shared receive queue, below which an event tells once.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: more than it holds.
    pub fn set_srq_limit(&self, srq: Id, limit: u32) -> Result<()> {
        Ok(self.lock().core.set_srq_limit(srq, limit)?)
    }

    /// Changes how many receives a shared receive queue holds.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the size, or more are there, or the limit is above it.
    pub fn resize_srq(&self, srq: Id, max_wr: u32) -> Result<()> {
        Ok(self.lock().core.resize_srq(srq, max_wr)?)
    }

    /// Receives that a shared receive queue holds, segments of each, and the limit.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn query_srq(&self, srq: Id) -> Result<(u32, u32, u32)> {
        let state = self.lock();
        Ok(state.core.srq(srq)?.query())
    }

    /// Posts receives to a shared receive queue, up to the first that is refused; how many were
    /// posted.
    pub fn post_srq_recv(
        &self,
        srq: Id,
        requests: impl IntoIterator<Item = ReceiveRequest>,
    ) -> (usize, Result<()>) {
        let mut state = self.lock();
        let posted = each(requests, |request| state.core.post_srq_recv(srq, request));
        self.advance(&mut state);
        posted
    }
}
