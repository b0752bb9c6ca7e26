//! Posting requests, and the work that is done in the call that posts.

use super::Context;
use super::taking::{Taken, activate};
use crate::host::Host;
use crate::queue_pair::Pause;
use crate::record::HEADER_BYTES;
use crate::types::{Error, Result};
use crate::work::{ReceiveRequest, SendRequest, ShortSend};

/// The result of [`Context::post_short`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// It is posted.
    Posted {
        /// No work is left.
        is_whole: bool,
    },
    /// It is not posted; the long way may post it.
    Refused {
        /// [`progress`](Context::progress) has to handle records that were received in this call.
        is_left: bool,
    },
}

impl Context {
    /// Posts a send. The next [`progress`](Context::progress) begins to execute it.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, the operation, or too many segments or bytes. `NoMemory`:
    /// the queue is full.
    pub fn post_send(&mut self, number: u32, request: SendRequest) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        qp.post_send(&mut self.objects, request)?;
        activate(&mut self.active, qp);
        self.fail_overrun();
        Ok(())
    }

    /// Checks whether the send queue takes all of these requests, if they are posted at once.
    ///
    /// # Errors
    /// Those of [`post_send`](Context::post_send), for the list as a whole.
    pub fn check_sends(&mut self, number: u32, requests: &[SendRequest]) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        qp.check_sends(&self.objects, requests)
    }

    /// Posts a send as [`post_send`](Context::post_send) does, and executes it at once if that
    /// needs neither the time nor room that is missing. Returns whether no work is left.
    ///
    /// # Errors
    /// Those of [`post_send`](Context::post_send).
    pub fn post_send_now<H: Host>(
        &mut self,
        host: &mut H,
        number: u32,
        request: SendRequest,
    ) -> Result<bool> {
        let short = ShortSend::of(&request);
        match short.map(|short| self.post_short(host, number, &short)) {
            Some(AtOnce::Posted { is_whole }) => Ok(is_whole),
            Some(AtOnce::Refused { is_left }) => {
                Ok(self.post_long(host, number, request)? && !is_left)
            }
            None => self.post_long(host, number, request),
        }
    }

    /// [`post_send_now`](Context::post_send_now) for a request of one segment or of inline bytes.
    ///
    /// # Errors
    /// Those of [`post_send`](Context::post_send).
    #[inline(always)]
    pub fn post_short_now<H: Host>(
        &mut self,
        host: &mut H,
        number: u32,
        send: &ShortSend<'_>,
    ) -> Result<bool> {
        match self.post_short(host, number, send) {
            AtOnce::Posted { is_whole } => Ok(is_whole),
            AtOnce::Refused { is_left } => {
                Ok(self.post_long(host, number, send.to_request())? && !is_left)
            }
        }
    }

    fn post_long<H: Host>(
        &mut self,
        host: &mut H,
        number: u32,
        request: SendRequest,
    ) -> Result<bool> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        // Records that have arrived come first: one may say that the peer has begun anew.
        let has_news = |lane| {
            let there = host.available(lane, HEADER_BYTES);
            there.bytes > 0 || there.has_ended
        };
        if qp.lane.is_some_and(has_news) {
            qp.post_send(&mut self.objects, request)?;
            activate(&mut self.active, qp);
            self.fail_overrun();
            return Ok(false);
        }
        qp.post_send(&mut self.objects, request)?;
        if !qp.is_active && qp.advance(&mut self.objects, host, None) != Pause::Event {
            activate(&mut self.active, qp);
        }
        let (is_waiting, lane) = (qp.is_active, qp.lane);
        let is_whole = !self.fail_overrun();
        Ok(is_whole && !is_waiting && self.send_records(host, lane))
    }

    /// Posts a request by the short way (docs/verbs.md), which takes the fewest instructions, if
    /// it can: between reliable queue pairs, when nothing comes before it.
    #[inline(always)]
    pub fn post_short<H: Host>(
        &mut self,
        host: &mut H,
        number: u32,
        send: &ShortSend<'_>,
    ) -> AtOnce {
        let refused = AtOnce::Refused { is_left: false };
        let Some(mut qp) = self.qps.get_mut(number) else {
            return refused;
        };
        let Some(lane) = qp.lane else {
            return refused;
        };
        // Records that have arrived come first: one may say that the peer has begun anew.
        if !host.is_quiet(lane) {
            if self.take_before(host, lane) == Taken::More {
                return AtOnce::Refused { is_left: true };
            }
            match self.qps.get_mut(number) {
                Some(same) => qp = same,
                None => return refused,
            }
        }
        if !qp.post_short(&mut self.objects, host, send) {
            return refused;
        }
        let is_whole = !self.fail_overrun() && host.flush(lane);
        AtOnce::Posted { is_whole }
    }

    /// Posts a receive as [`post_recv`](Context::post_recv) does, and tells the peer at once if it
    /// waits for a receive or knows of too few. Returns whether no work is left.
    ///
    /// # Errors
    /// Those of [`post_recv`](Context::post_recv).
    #[inline(always)]
    pub fn post_recv_now<H: Host>(
        &mut self,
        host: &mut H,
        number: u32,
        request: ReceiveRequest,
    ) -> Result<bool> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        let is_told = qp.post_receive(&mut self.objects, request)?;
        let lane = qp.lane;
        let is_whole = !self.fail_overrun();
        // Work that was left earlier is not reported again: the caller knows of it.
        Ok(is_whole && (!is_told || self.send_records(host, lane)))
    }

    /// Posts a receive. The next [`progress`](Context::progress) tells the peer of it, if the peer
    /// waits for a receive or knows of too few.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, a queue pair with a shared receive queue, or too many
    /// segments. `NoMemory`: the queue is full.
    pub fn post_recv(&mut self, number: u32, request: ReceiveRequest) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        qp.post_receive(&mut self.objects, request)?;
        self.fail_overrun();
        Ok(())
    }

    /// Puts the queue pairs that use an overrun completion queue into the error state. Returns
    /// whether there was such a queue. The next [`progress`](Context::progress) tells their peers.
    #[inline]
    pub(super) fn fail_overrun(&mut self) -> bool {
        let has_failed = !self.objects.overrun.is_empty();
        if has_failed {
            self.fail_users();
        }
        has_failed
    }

    #[cold]
    fn fail_users(&mut self) {
        while let Some(cq) = self.objects.overrun.pop() {
            let domains = self.objects.xrc_domains_of(cq);
            for qp in self.qps.values_mut() {
                let completes = match qp.init.xrcd {
                    Some(xrcd) => domains.contains(&xrcd),
                    None => qp.init.send_cq == cq || qp.init.recv_cq == cq,
                };
                if completes {
                    qp.enter_error(&mut self.objects);
                }
            }
        }
    }
}
