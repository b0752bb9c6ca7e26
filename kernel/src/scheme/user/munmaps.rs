//! Munmaps that no client waits for.
//!
//! From when it is sent until it is answered, a request takes some of the kernel's memory, and a
//! program that ends may leave tens of thousands of pieces of mappings while memory is used up. So
//! only a few are sent at once. The others wait in the places that their areas had for them.

use alloc::vec::Vec;

use ::syscall::schemev2::{Opcode, Sqe};

use super::{UserScheme, message::signed_sqe};
use crate::{
    mm::space::{Piece, Pieces},
    object::deferred::Entry,
    scheme::{Caller, MunmapRequest, grant_of},
};

/// With so many unanswered requests that nobody waits for, a daemon is sent no more Munmaps.
const MOST_UNANSWERED: usize = 16;

/// The Munmaps of a scheme that no client waits for.
#[derive(Default)]
pub(super) struct Munmaps {
    /// Pieces of which the daemon is not told yet.
    waiting: Pieces,
    /// Requests, Munmaps and others, that the daemon has not answered and nobody waits for.
    pub(super) unanswered: usize,
}

/// A Munmap for a caller.
pub(super) fn sqe_of(number: usize, request: MunmapRequest, caller: Caller) -> Sqe {
    let MunmapRequest {
        offset,
        size,
        flags,
    } = request;
    let args = [number as u64, size as u64, flags.bits() as u64, offset];
    signed_sqe(Opcode::Munmap, &args, caller)
}

impl UserScheme {
    /// Tells the daemon of a piece that is gone, without waiting: now, or when it has answered
    /// others.
    pub fn post_unmapped(&self, piece: Entry<Piece>) {
        let mut state = self.state.lock();
        if state.open {
            state.munmaps.waiting.push(piece);
            drop(state);
            self.send_munmaps();
        }
    }

    /// Records the answer to a request that nobody waits for.
    pub(super) fn unattended_answered(&self) {
        let mut state = self.state.lock();
        let munmaps = &mut state.munmaps;
        // None is left when the scheme was removed meanwhile.
        munmaps.unanswered = munmaps.unanswered.saturating_sub(1);
        drop(state);
        self.send_munmaps();
    }

    fn send_munmaps(&self) {
        while let Some(piece) = self.next_munmap() {
            if let Some((file, request)) = grant_of(piece.value()) {
                // The daemon must answer every Munmap, so it needs a tag even without a waiting
                // client.
                let sqe = sqe_of(file.number(), request, Caller::default());
                let _ = self.begin(sqe, None, Vec::new());
            }
        }
    }

    fn next_munmap(&self) -> Option<Entry<Piece>> {
        let munmaps = &mut self.state.lock().munmaps;
        if munmaps.unanswered < MOST_UNANSWERED {
            munmaps.waiting.pop()
        } else {
            None
        }
    }
}
