//! One end of a stream of bytes. It has registered memory as well.

use scif_abi::flags::Readiness;
use scif_abi::{Error, PortId};
use scif_core::EndpointId;

use super::{Context, Ledger, StepResult};
use crate::rma::{Progress, RmaEnd};
use crate::rng::mix;

/// Returns the byte at `offset` of the stream with this seed: first the seed itself, then noise.
fn stream_byte(seed: u64, offset: u64) -> u8 {
    let word = if offset < 8 {
        seed
    } else {
        mix(seed ^ offset >> 3)
    };
    (word >> (8 * (offset % 8))) as u8
}

/// One end of a connection: sends its own bytes and checks the peer's.
#[derive(Debug)]
pub struct Stream {
    pub(super) endpoint: EndpointId,
    /// Whether this end connected. It closes first when neither end has more to send.
    active: bool,
    seed: u64,
    total: u64,
    sent: u64,
    /// The part of the peer's seed that has been received, in the end all of it.
    peer_seed: [u8; 8],
    received: u64,
    /// Whether this end announced the end of sending.
    is_finished: bool,
    /// Whether the peer announced the end of sending.
    is_peer_finished: bool,
    /// The end closes as soon as it has sent or received this number of bytes.
    close_at: u64,
    /// The end acts in one of this number of turns.
    laziness: u64,
    /// The registered memory.
    pub(super) rma: RmaEnd,
}

impl Stream {
    pub(super) fn start(
        context: &mut Context<'_>,
        endpoint: EndpointId,
        peer: PortId,
        active: bool,
    ) -> Stream {
        let seed = context.rng.number();
        let nodes = [context.node, usize::from(peer.node())];
        context.ledgers.insert(
            seed,
            Ledger {
                nodes,
                sent: 0,
                link_lost: false,
            },
        );
        let close_at = if !context.is_calm && context.rng.one_in(4) {
            context.rng.size(20_000)
        } else {
            u64::MAX
        };
        let long = context.rng.one_in(3);
        let total = if context.is_calm {
            8 + context.rng.size(5_000)
        } else if long {
            context.rng.below(60_000)
        } else {
            context.rng.size(5_000)
        };
        Stream {
            endpoint,
            active,
            seed,
            total,
            sent: 0,
            peer_seed: [0; 8],
            received: 0,
            is_finished: false,
            is_peer_finished: false,
            close_at,
            laziness: if context.is_calm {
                1
            } else {
                1 + context.rng.size(10)
            },
            rma: RmaEnd::new(context, endpoint, seed, usize::from(peer.node())),
        }
    }

    pub(super) fn turn(&mut self, context: &mut Context<'_>) -> StepResult {
        let peer = (self.received >= 8).then_some(u64::from_le_bytes(self.peer_seed));
        let progress = match self.rma.turn(context, peer) {
            Ok(progress) => progress,
            Err(what) => return StepResult::Broken(what),
        };
        let is_busy = matches!(progress, Progress::Some);
        match self.stream_turn(context) {
            StepResult::Sleep if is_busy => StepResult::Again,
            turn => turn,
        }
    }

    fn stream_turn(&mut self, context: &mut Context<'_>) -> StepResult {
        if self.sent + self.received >= self.close_at {
            return self.close(context);
        }
        let is_done = self.active && self.sent == self.total && self.rma.is_done();
        if is_done && (context.finishing || context.rng.one_in(8)) {
            return self.close(context);
        }
        if !context.finishing && !context.rng.one_in(self.laziness) {
            return StepResult::Again;
        }
        let send_first = context.rng.one_in(2);
        let first = if send_first {
            self.send(context)
        } else {
            self.recv(context)
        };
        match first {
            // A program sleeps only if it can neither send nor receive.
            StepResult::Sleep if send_first => self.recv(context),
            StepResult::Sleep => self.send(context),
            _ => first,
        }
    }

    fn close(&mut self, context: &mut Context<'_>) -> StepResult {
        context.engine.close(context.memory, self.endpoint);
        match self.rma.closed(context) {
            Ok(()) => StepResult::Done,
            Err(what) => StepResult::Broken(what),
        }
    }

    fn send(&mut self, context: &mut Context<'_>) -> StepResult {
        let size = (1 + context.rng.size(10_000)).min(self.total - self.sent);
        if size == 0 {
            return self.finish(context);
        }
        let bytes: Vec<u8> = (self.sent..self.sent + size)
            .map(|at| stream_byte(self.seed, at))
            .collect();
        match context.engine.send(context.memory, self.endpoint, &bytes) {
            Ok(0) => StepResult::Sleep,
            Ok(count) => {
                self.sent += count as u64;
                if self.is_peer_finished {
                    context.half_closes.bytes += count as u64;
                }
                if let Some(ledger) = context.ledgers.get_mut(&self.seed) {
                    ledger.sent = self.sent;
                }
                StepResult::Again
            }
            Err(Error::ConnectionReset) => {
                // The peer is gone, so no more can be sent; the bytes that came may still be
                // received.
                self.sent = self.total;
                StepResult::Again
            }
            Err(error) => StepResult::Broken(format!("send: {error}")),
        }
    }

    /// With all bytes sent, announces the end of sending in some cases.
    fn finish(&mut self, context: &mut Context<'_>) -> StepResult {
        if self.is_finished || !context.rng.one_in(3) {
            return StepResult::Sleep;
        }
        match context.engine.end_sending(self.endpoint) {
            Ok(()) => {
                self.is_finished = true;
                context.half_closes.said += 1;
                StepResult::Again
            }
            // The receiving side notices the reset.
            Err(Error::ConnectionReset) => StepResult::Sleep,
            Err(error) => StepResult::Broken(format!("end_sending: {error}")),
        }
    }

    fn recv(&mut self, context: &mut Context<'_>) -> StepResult {
        let mut buffer = vec![0; 1 + context.rng.size(10_000) as usize];
        let result = context
            .engine
            .recv(context.memory, self.endpoint, &mut buffer);
        match result {
            Ok(0) => StepResult::Sleep,
            Ok(_) if self.is_peer_finished => {
                StepResult::Broken("bytes behind the last".to_string())
            }
            Ok(count) => match self.check(&buffer[..count]) {
                Ok(()) => match self.check_ledger(context) {
                    Ok(()) => StepResult::Again,
                    Err(what) => StepResult::Broken(what),
                },
                Err(what) => StepResult::Broken(what),
            },
            Err(Error::ConnectionReset) => match self.check_end(context) {
                Ok(()) => self.end(context),
                Err(what) => StepResult::Broken(what),
            },
            Err(error) => StepResult::Broken(format!("recv: {error}")),
        }
    }

    /// Handles the end of the peer's bytes: goes on sending if the peer only announced the end of
    /// sending, closes otherwise.
    fn end(&mut self, context: &mut Context<'_>) -> StepResult {
        let ready = context.engine.poll(context.memory, self.endpoint);
        if ready.contains(Readiness::HUP) {
            return self.close(context);
        }
        if !ready.contains(Readiness::READ_HUP) {
            return StepResult::Broken(format!("an end that poll does not know: {ready:?}"));
        }
        if !self.is_peer_finished {
            self.is_peer_finished = true;
            context.half_closes.heard += 1;
        }
        StepResult::Sleep
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), String> {
        for byte in bytes {
            if self.received < 8 {
                self.peer_seed[self.received as usize] = *byte;
            } else {
                let seed = u64::from_le_bytes(self.peer_seed);
                let expected = stream_byte(seed, self.received);
                if *byte != expected {
                    let at = self.received;
                    return Err(format!("byte {at} is {byte:#x}, sent was {expected:#x}"));
                }
            }
            self.received += 1;
        }
        Ok(())
    }

    /// Checks that no byte came that was not sent, and that what was sent and has not come is in a
    /// ring.
    fn check_ledger(&self, context: &Context<'_>) -> Result<(), String> {
        let seed = u64::from_le_bytes(self.peer_seed);
        let known = (self.received >= 8).then(|| context.ledgers.get(&seed));
        let Some(ledger) = known.flatten() else {
            return Ok(());
        };
        let Some(under_way) = ledger.sent.checked_sub(self.received) else {
            return Err("more bytes received than sent".into());
        };
        let ring = u64::from(context.engine.config().endpoint_ring_bytes);
        if under_way >= ring && !ledger.link_lost {
            return Err(format!("{under_way} bytes in a ring of {ring}"));
        }
        Ok(())
    }

    /// Checks at the end of the stream that everything sent was received.
    fn check_end(&self, context: &Context<'_>) -> Result<(), String> {
        if self.received < 8 {
            return Ok(());
        }
        let seed = u64::from_le_bytes(self.peer_seed);
        let Some(ledger) = context.ledgers.get(&seed) else {
            return Err(format!("a stream with the unknown seed {seed:#x}"));
        };
        let lost = ledger.sent.checked_sub(self.received);
        match lost {
            None => Err("more bytes received than sent".into()),
            Some(lost) if lost > 0 && !ledger.link_lost => {
                Err(format!("{lost} of {} bytes were lost", ledger.sent))
            }
            Some(_) => Ok(()),
        }
    }
}
