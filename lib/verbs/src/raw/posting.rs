//! Posting requests.

use alloc::vec::Vec;

use verbs_core::work::{ReceiveRequest, SendRequest, ShortSend};

use super::{Context, each};
use crate::error::Result;

impl Context {
    /// Posts sends, up to the first one that is refused. Returns how many were posted.
    pub fn post_send(
        &self,
        number: u32,
        requests: impl IntoIterator<Item = SendRequest>,
    ) -> (usize, Result<()>) {
        let mut state = self.lock();
        let mut is_left = false;
        let posted = each(requests, |request| {
            is_left |= state.engine.post_send(number, request)?;
            Ok(())
        });
        self.finish(&mut state, is_left || posted.1.is_err());
        posted
    }

    /// Posts all of these sends, or none if one would be refused.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, or for one of them the operation, or too many segments or
    /// bytes. `NoMemory`: the queue has not as many free places.
    pub fn post_all(&self, number: u32, requests: Vec<SendRequest>) -> Result<()> {
        let mut state = self.lock();
        state.engine.core.check_sends(number, &requests)?;
        let mut is_left = false;
        let posted = each(requests, |request| {
            is_left |= state.engine.post_send(number, request)?;
            Ok(())
        });
        self.finish(&mut state, is_left || posted.1.is_err());
        posted.1
    }

    /// Posts a send of one segment or of inline bytes. It does what [`post_send`](Self::post_send)
    /// does for one request, in fewer instructions.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, the operation, or too many bytes. `NoMemory`: the queue
    /// is full.
    pub fn post_short(&self, number: u32, send: &ShortSend<'_>) -> Result<()> {
        let mut state = self.lock();
        let posted = state.engine.post_short(number, send);
        self.finish(&mut state, posted.unwrap_or(true));
        posted.map(drop).map_err(Into::into)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the state, a queue pair with a shared receive queue, or too many
    /// segments. `NoMemory`: the queue is full.
    pub fn post_receive(&self, number: u32, request: ReceiveRequest) -> Result<()> {
        let mut state = self.lock();
        let posted = state.engine.post_recv(number, request);
        self.finish(&mut state, posted.unwrap_or(false));
        posted.map(drop).map_err(Into::into)
    }

    /// Posts receives, up to the first one that is refused. Returns how many were posted.
    pub fn post_recv(
        &self,
        number: u32,
        requests: impl IntoIterator<Item = ReceiveRequest>,
    ) -> (usize, Result<()>) {
        let mut state = self.lock();
        let mut is_left = false;
        let posted = each(requests, |request| {
            is_left |= state.engine.post_recv(number, request)?;
            Ok(())
        });
        self.finish(&mut state, is_left);
        posted
    }
}
