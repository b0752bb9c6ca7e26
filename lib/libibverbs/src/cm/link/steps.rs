//! What a connection does with the frames of its peer.

use alloc::vec::Vec;

use runtime::time::Instant;
use scif::Errno;
use syscall::error::ETIMEDOUT;

use super::{
    BY_PROGRAM, Frame, Kind, Link, LinkEvent, LinkEventKind, LinkId, NO_PLACE, NO_SERVICE,
    PLACE_REFUSED, Part, RC, Stage, Target, Transport, UD, type_in,
};

impl Link {
    /// Returns the event that the peer's frame causes, if any.
    fn understand(&mut self, frame: Frame) -> Option<LinkEventKind> {
        match self.part {
            Part::Client | Part::Server => self.understand_partner(frame),
            Part::Asker => self.understand_answer(frame),
            // The peer has sent more than its question.
            Part::Asked => self.over(),
        }
    }

    fn understand_partner(&mut self, frame: Frame) -> Option<LinkEventKind> {
        // Without the server's acceptance there is no connection, whatever its client sends.
        let is_asking = self.part == Part::Client && !self.is_answered;
        match frame.kind {
            Kind::Reply if is_asking => {
                (self.is_answered, self.is_established) = (true, true);
                Some(LinkEventKind::Reply(frame))
            }
            // A server has accepted, and its client does not want that.
            Kind::Reject if is_asking || self.part == Part::Server && !self.is_established => {
                self.stage = Stage::Over;
                Some(LinkEventKind::Rejected(BY_PROGRAM, frame.private))
            }
            Kind::NoService if is_asking => {
                self.stage = Stage::Over;
                Some(LinkEventKind::Rejected(NO_SERVICE, Vec::new()))
            }
            Kind::Ready if self.is_answered => {
                let is_new = !core::mem::replace(&mut self.is_established, true);
                if !self.is_leaving {
                    self.deadline = None;
                }
                is_new.then_some(LinkEventKind::Ready)
            }
            Kind::Disconnect => {
                self.send(&Frame::plain(Kind::Disconnected));
                self.over()
            }
            Kind::Disconnected if self.is_leaving => {
                self.stage = Stage::Over;
                Some(LinkEventKind::Disconnected(0))
            }
            // The frame has no meaning in this state.
            _ => self.over(),
        }
    }

    /// Ends a connection whose peer has not answered in time. Returns the event for its id.
    fn expire(&mut self) -> Option<LinkEventKind> {
        self.deadline.take_if(|end| *end <= Instant::now())?;
        self.stage = Stage::Over;
        if self.is_leaving {
            return Some(LinkEventKind::Disconnected(-ETIMEDOUT));
        }
        // A peer that takes the acceptance later learns that it was too late.
        self.send(&Frame::plain(Kind::Disconnect));
        Some(LinkEventKind::Unreachable(-ETIMEDOUT))
    }

    /// Handles the answer to a lookup.
    fn understand_answer(&mut self, frame: Frame) -> Option<LinkEventKind> {
        let kind = match frame.kind {
            Kind::Found => LinkEventKind::Found(frame),
            Kind::Reject => LinkEventKind::Unreachable(PLACE_REFUSED),
            Kind::NoService => LinkEventKind::Unreachable(NO_PLACE),
            _ => return self.over(),
        };
        self.stage = Stage::Over;
        Some(kind)
    }

    /// Handles the first frame of a peer that has connected. Returns whether it is for the
    /// listener, which listens in port space `space`.
    fn is_wanted(&mut self, frame: &Frame, space: u32) -> bool {
        let of = frame.parameters.port_space;
        self.part = match (frame.kind, type_in(of)) {
            (Kind::Request, RC) => Part::Server,
            (Kind::Lookup, UD) => Part::Asked,
            _ => return false,
        };
        let is_wanted = of == space;
        if !is_wanted {
            self.send(&Frame::plain(Kind::NoService));
        }
        is_wanted
    }

    /// Advances the link as far as possible. Returns its events, and whether it can be removed.
    pub(super) fn step(&mut self, id: LinkId) -> (Vec<LinkEvent>, bool) {
        let event = |kind| LinkEvent {
            target: Target::Link(id),
            kind,
        };
        let mut told = Vec::new();
        if let Stage::Connecting(to, request) = &self.stage {
            let Transport::Endpoint(endpoint) = &self.transport else {
                return (told, true);
            };
            let failed = match endpoint.connect(*to) {
                Err(scif::Error::Scif(Errno::InProgress)) => return (told, false),
                Err(error) => Some(error),
                Ok(_) => None,
            };
            let request = request.clone();
            match failed {
                None => {
                    self.stage = Stage::Open;
                    self.send(&request);
                }
                Some(error) => {
                    self.stage = Stage::Over;
                    told.push(event(self.failure(error)));
                    return (told, false);
                }
            }
        }
        let has_more = self.fill();
        loop {
            let taken = Frame::take(&mut self.arrived);
            match (&self.stage, taken) {
                (Stage::Over | Stage::Listening(..), _) => return (told, false),
                (Stage::Silent(listener, peer, space), Ok(Some(frame))) => {
                    let (listener, peer, space) = (*listener, *peer, *space);
                    if !self.is_wanted(&frame, space) {
                        return (told, true);
                    }
                    let target = Target::Link(listener);
                    let kind = LinkEventKind::Request(id, peer, frame);
                    told.push(LinkEvent { target, kind });
                    self.stage = Stage::Open;
                }
                (Stage::Silent(..), Err(())) => return (told, true),
                (Stage::Silent(..), Ok(None)) => return (told, !has_more),
                (_, Ok(Some(frame))) => told.extend(self.understand(frame).map(event)),
                (_, Ok(None)) if has_more => {
                    told.extend(self.expire().map(event));
                    return (told, false);
                }
                (_, Ok(None) | Err(())) => {
                    told.extend(self.over().map(event));
                    return (told, false);
                }
            }
        }
    }
}
