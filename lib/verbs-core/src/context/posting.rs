//! Requests that a program posts, and what they do at once.

use super::Context;
use super::taking::{Taken, activate};
use crate::host::Host;
use crate::queue_pair::Pause;
use crate::record::HEADER_BYTES;
use crate::types::{Error, Result};
use crate::work::{ReceiveRequest, SendRequest, ShortSend};

/// What the short way has done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// It is posted.
    Posted {
        /// Nothing is left to be done.
        is_whole: bool,
    },
    /// It is not, and may go the long way.
    Refused {
        /// [`progress`](Context::progress) has to do what records ask for that were taken before.
        is_left: bool,
    },
}

impl Context {
    /// Posts a send. It begins with the next [`progress`](Context::progress).
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, the operation, too many segments or bytes. `NoMemory`: the
    /// queue is full.
    pub fn post_send(&mut self, number: u32, request: SendRequest) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        qp.post_send(&mut self.objects, request)?;
        activate(&mut self.active, qp);
        self.fail_overrun();
        Ok(())
    }

    /// As [`post_send`](Context::post_send), and begins at once if that takes neither a look at a
    /// clock nor room that is not there; whether nothing is left to be done.
    ///
    /// # Errors
    /// As there.
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

    /// The same for a request of one segment or of inline bytes.
    ///
    /// # Errors
    /// As there.
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
        // What has arrived comes first: it may say that the peer is another one by now.
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

    /// Posts a request by the fewest instructions, if it can go this way: between reliable queue
    /// pairs, when nothing is in its way.
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
        // What has arrived comes first: it may say that the peer is another one by now.
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

    /// As [`post_recv`](Context::post_recv), and tells the peer at once if it should know; whether
    /// nothing is left to be done.
    ///
    /// # Errors
    /// As there.
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
        // What was left before is known to be left.
        Ok(is_whole && (!is_told || self.send_records(host, lane)))
    }

    /// Posts a receive. Its peer learns of it with the next [`progress`](Context::progress), if it
    /// waits for one.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, a shared receive queue, too many segments. `NoMemory`: the
    /// queue is full.
    pub fn post_recv(&mut self, number: u32, request: ReceiveRequest) -> Result<()> {
        let qp = self.qps.get_mut(number).ok_or(Error::NotFound)?;
        qp.post_receive(&mut self.objects, request)?;
        self.fail_overrun();
        Ok(())
    }

    /// Queue pairs fail that complete into a queue that was overrun; whether there was one. Their
    /// peers are told with the next [`progress`](Context::progress).
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
