//! Records that announce the peer's state, and its answers to what was sent.

use super::requester::Step;
use super::{Inquiry, Peer, QueuePair, Send, Stage, is_before};
use crate::objects::Objects;
use crate::record::{Ack, Broken, Ready, Refusal};
use crate::types::WcStatus;

impl QueuePair {
    /// Handles an acknowledgement: the peer has received messages, and has receives for more.
    #[inline(always)]
    pub fn acknowledged(
        &mut self,
        objects: &mut Objects,
        Ack { taken, limit }: Ack,
    ) -> Result<(), Broken> {
        self.take_over(taken)?;
        if let Peer::Ready(ready) = &mut self.peer {
            // A peer cannot take a receive back.
            if is_before(limit, ready.limit) {
                return Err(Broken);
            }
            ready.limit = limit;
            // The receive for which the next message waits is there.
            if is_before(self.sent, limit) {
                self.rnr.take_if(|rnr| !rnr.is_refused);
            }
        }
        self.complete_sends(objects);
        Ok(())
    }

    #[inline]
    fn take_over(&mut self, taken: u32) -> Result<(), Broken> {
        if is_before(taken, self.acked) || is_before(self.sent, taken) {
            return Err(Broken);
        }
        if taken != self.acked {
            self.rnr = None;
        }
        self.acked = taken;
        Ok(())
    }

    /// Handles the refusal of a message. The peer has received those before it.
    pub fn refused(
        &mut self,
        objects: &mut Objects,
        number: u32,
        refusal: Refusal,
        now: u64,
    ) -> Result<(), Broken> {
        if number == self.sent
            && self
                .sends
                .get(self.cursor)
                .is_none_or(|send| send.way.moved == 0)
        {
            return Err(Broken);
        }
        self.take_over(number)?;
        let Peer::Ready(ready) = self.peer else {
            return Ok(());
        };
        // The oldest message that was not received; it may have been sent only in part.
        let is_it = |Send { way, .. }: &Send| match way.stage {
            Stage::Sent(of) => of == number,
            Stage::Waiting => way.moved > 0 || way.is_written,
            Stage::Done(_) => false,
        };
        let Some(at) = self.sends.iter().position(is_it) else {
            return Err(Broken);
        };
        self.cursor = at;
        self.sent = number;
        // A failed send behind it is noted again when its turn comes.
        self.is_failing = false;
        for send in self.sends.iter_mut_from(at) {
            if !matches!(send.way.stage, Stage::Done(_)) {
                let way = &mut send.way;
                way.stage = Stage::Waiting;
                (way.moved, way.copied, way.is_written) = (0, 0, false);
                send.lengthen();
            }
        }
        match refusal {
            Refusal::NotReady => {
                if let Step::Over(status) = self.not_ready(now, &ready, true) {
                    self.set_over(status);
                }
            }
            Refusal::TooLong | Refusal::NoQueue => {
                self.finish_current(WcStatus::RemInvReqErr);
            }
            Refusal::Unusable => {
                self.finish_current(WcStatus::RemOpErr);
            }
        }
        self.complete_sends(objects);
        Ok(())
    }

    /// Notes that the peer no longer answers.
    pub fn peer_gone(&mut self, objects: &mut Objects) {
        self.peer = Peer::Gone;
        self.return_incoming(objects);
        let is_under_way = self.sends.front().is_some_and(|send| send.way.has_begun);
        if is_under_way && self.is_reliable() {
            self.cursor = 0;
            self.finish_current(WcStatus::RetryExcErr);
            self.complete_sends(objects);
        }
    }

    /// Handles the peer's announcement, and answers it if the peer asks for that.
    pub fn meet(&mut self, objects: &mut Objects, ready: Ready) {
        let is_same = match self.peer {
            Peer::Ready(known) => known.generation == ready.generation,
            Peer::Unknown | Peer::Gone => false,
        };
        if !is_same {
            // The peer has begun anew, and knows nothing of what was sent to its former life.
            if matches!(self.peer, Peer::Ready(_)) {
                self.peer_gone(objects);
            }
            (self.sent, self.acked, self.expected) = (0, 0, 0);
            (self.rnr, self.inquiry) = (None, None);
            // An unreliable copy that has been begun begins anew.
            if let Some(send) = self.sends.get_mut(0) {
                (send.way.copied, send.way.is_written) = (0, false);
            }
        }
        self.peer_deadline = None;
        self.peer = Peer::Ready(ready);
        // What asks for an answer is none.
        if let Some(Inquiry::Asked(number)) = self.inquiry.filter(|_| !ready.wants_answer) {
            self.inquiry = Some(Inquiry::Answered(number));
        }
        if ready.wants_answer && self.is_receiving() {
            self.introduce(objects, false);
        } else if !is_same {
            // Receives that were posted before the peer was known have not been announced to it.
            self.owe_ack(objects);
        }
    }
}
