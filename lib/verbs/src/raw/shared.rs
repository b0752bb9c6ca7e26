//! Shared receive queues, and XRC domains.

use syscall::flag::O_CREAT;
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use verbs_core::Subject;
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::work::ReceiveRequest;

use super::{Context, each};
use crate::daemon::Name;
use crate::error::Result;

/// The type of a shared receive queue that belongs to an XRC domain.
const XRC: u32 = 1;

/// The limit of each queue at the daemon, where the library's queues are always empty. Reports
/// tell the daemon the real one.
const NO_LIMIT: u32 = 0;

impl Context {
    /// Makes a shared receive queue. `user`: the value that its events carry.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range. `NotFound`: there is no such domain. `NoMemory`.
    pub fn create_srq(
        &self,
        pd: Id,
        (max_wr, max_sge): (u32, u32),
        limit: u32,
        user: u64,
    ) -> Result<Id> {
        let mut daemon = self.daemon();
        let request = abi::CreateSrq {
            response: 0,
            user_handle: user,
            pd_handle: daemon.handle(Name::Pd(pd))?,
            max_wr,
            max_sge,
            srq_limit: NO_LIMIT,
        };
        let srq = self
            .lock()
            .engine
            .core
            .create_srq(pd, max_wr, max_sge, limit)?;
        let name = Name::Srq(srq);
        let made = daemon.make::<_, abi::CreateSrqAnswer>(name, Command::CreateSrq, &request, &[]);
        self.keep_srq(srq, pd, user, made)
    }

    /// Keeps a new shared receive queue if the daemon has made it too, and destroys it otherwise.
    fn keep_srq(&self, srq: Id, pd: Id, user: u64, made: Result<()>) -> Result<Id> {
        let mut state = self.lock();
        if let Err(error) = made {
            state.engine.core.destroy_srq(srq)?;
            return Err(error);
        }
        state.srqs.insert(srq, user);
        state.count(pd, 1);
        Ok(srq)
    }

    /// Opens an XRC domain.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn open_xrcd(&self) -> Result<Id> {
        let mut daemon = self.daemon();
        let domain = self.lock().engine.core.open_xrcd()?;
        let request = abi::OpenXrcd {
            response: 0,
            fd: -1,
            oflags: O_CREAT as u32,
        };
        let name = Name::Xrcd(domain);
        let made = daemon.make::<_, abi::OpenXrcdAnswer>(name, Command::OpenXrcd, &request, &[]);
        if let Err(error) = made {
            self.lock().engine.core.close_xrcd(domain)?;
            return Err(error);
        }
        Ok(domain)
    }

    /// Closes an XRC domain.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs or shared receive queues belong to it.
    pub fn close_xrcd(&self, domain: Id) -> Result<()> {
        let mut daemon = self.daemon();
        self.lock().close_xrcd(domain)?;
        daemon.end(Name::Xrcd(domain));
        Ok(())
    }

    /// Makes a shared receive queue of an XRC domain. Peers name it by its number, which is the
    /// handle's.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range. `NotFound`: a domain or the completion queue. `NoMemory`.
    pub fn create_xrc_srq(
        &self,
        (pd, of): (Id, Xrc),
        (max_wr, max_sge): (u32, u32),
        limit: u32,
        user: u64,
    ) -> Result<Id> {
        let mut daemon = self.daemon();
        let request = abi::CreateXsrq {
            response: 0,
            user_handle: user,
            srq_type: XRC,
            pd_handle: daemon.handle(Name::Pd(pd))?,
            max_wr,
            max_sge,
            srq_limit: NO_LIMIT,
            max_num_tags: 0,
            xrcd_handle: daemon.handle(Name::Xrcd(of.domain))?,
            cq_handle: daemon.handle(Name::Cq(of.cq))?,
        };
        let made = {
            let mut state = self.lock();
            state
                .engine
                .core
                .create_xrc_srq(pd, of, max_wr, max_sge, limit)
        };
        let srq = made?;
        let (name, command) = (Name::Srq(srq), Command::CreateXsrq);
        let made = daemon.make::<_, abi::CreateSrqAnswer>(name, command, &request, &[]);
        self.keep_srq(srq, pd, user, made)?;
        Ok(srq)
    }

    /// Destroys a shared receive queue.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs use it.
    pub fn destroy_srq(&self, srq: Id) -> Result<()> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        let pd = state.engine.core.srq(srq)?.pd;
        state.engine.core.destroy_srq(srq)?;
        state.srqs.remove(&srq);
        state.count(pd, -1);
        // Peers that have chosen it for a message have to be told.
        self.advance(&mut state);
        drop(state);
        daemon.end(Name::Srq(srq));
        drop(daemon);
        self.forget(Subject::Srq(srq));
        Ok(())
    }

    /// Changes how many receives a shared receive queue can hold, its limit, or both. An event is
    /// raised once when it holds fewer receives than the limit, also if it does so already.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`, and nothing is changed: the size is out of range or less than the
    /// receives in the queue, or the limit is more than the size. `NoMemory`.
    pub fn modify_srq(&self, srq: Id, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        let mut daemon = self.daemon();
        let srq_handle = daemon.handle(Name::Srq(srq))?;
        let mut ask = |max_wr: u32| {
            let request = abi::ModifySrq {
                srq_handle,
                attr_mask: abi::SRQ_MAX_WR,
                max_wr,
                srq_limit: 0,
            };
            daemon.ask::<_, ()>(Command::ModifySrq, &request)
        };
        let (former, ..) = self.query_srq(srq)?;
        max_wr.map_or(Ok(()), &mut ask)?;
        let mut state = self.lock();
        if let Err(error) = state.engine.core.modify_srq(srq, max_wr, limit) {
            drop(state);
            // The daemon knows neither the receives in the queue nor the limit.
            max_wr.map_or(Ok(()), |_| ask(former))?;
            return Err(error.into());
        }
        state.tell();
        Ok(())
    }

    /// How many receives a shared receive queue can hold, the segments of each, and its limit.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn query_srq(&self, srq: Id) -> Result<(u32, u32, u32)> {
        let state = self.lock();
        Ok(state.engine.core.srq(srq)?.query())
    }

    /// Posts receives to a shared receive queue, up to the first one that is refused. Returns how
    /// many were posted.
    pub fn post_srq_recv(
        &self,
        srq: Id,
        requests: impl IntoIterator<Item = ReceiveRequest>,
    ) -> (usize, Result<()>) {
        let mut state = self.lock();
        let posted = each(requests, |request| {
            state.engine.core.post_srq_recv(srq, request)
        });
        self.advance(&mut state);
        posted
    }
}
