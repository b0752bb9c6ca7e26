//! RMPP as a program with USER_RMPP does it, written independently of the project's own RMPP: it
//! sends one segment after the other, and resends everything after the last segment that was
//! acknowledged.

use std::collections::{BTreeMap, VecDeque};

use mad_core::mad::{MAD_BYTES, Mad, RmppHeader, method};
use mad_core::rmpp::{flag, kind};

use super::{HEADERS, Received};

/// Bytes of data in a segment.
const ROOM: usize = MAD_BYTES - HEADERS;
/// Bytes in the class's own header, which lengths include.
const OF_CLASS: u32 = 4;
/// Number of segments that the peer may send without an acknowledgement.
const WINDOW: u32 = 10;
/// Time in nanoseconds until segments are sent again, and how often that is done.
const PAUSE: u64 = 700_000_000;
const TRIES: u32 = 8;

/// A message that the program sends.
struct Sending {
    message: Vec<u8>,
    acknowledged: u32,
    next: u32,
    window: u32,
    until: u64,
    tries: u32,
}

impl Sending {
    fn segments(&self) -> u32 {
        ((self.message.len() - HEADERS).div_ceil(ROOM) as u32).max(1)
    }

    fn segment(&self, number: u32) -> Mad {
        let (headers, data) = self.message.split_at(HEADERS);
        let start = (number as usize - 1) * ROOM;
        let piece = &data[start..data.len().min(start + ROOM)];
        let mut mad = Mad::padded(&[headers, piece].concat());
        let (is_first, is_last) = (number == 1, number == self.segments());
        let length = match (is_first, is_last) {
            (_, true) => OF_CLASS + piece.len() as u32,
            (true, false) => self.segments() * OF_CLASS + data.len() as u32,
            _ => 0,
        };
        let first = if is_first { flag::FIRST } else { 0 };
        let last = if is_last { flag::LAST } else { 0 };
        mad.set_rmpp(RmppHeader {
            version: 1,
            kind: kind::DATA,
            flags: flag::ACTIVE | first | last,
            status: 0,
            segment: number.into(),
            length: length.into(),
        });
        mad
    }
}

/// A message that the program receives.
struct Receiving {
    message: Vec<u8>,
    next: u32,
    window: u32,
    is_whole: bool,
}

/// The name of a message: the other port, the transaction, and whether it is an answer.
type Name = (u16, u32, bool);

fn name_of_request(lid: u16, low: u32) -> Name {
    (lid, low, false)
}

/// The messages of a program.
#[derive(Default)]
pub struct ByHand {
    sending: BTreeMap<Name, Sending>,
    receiving: BTreeMap<Name, Receiving>,
    /// The datagrams to write, each with its destination port.
    pub outbox: VecDeque<(u16, Mad)>,
    /// Whether the program acknowledges segments that have not arrived (a bug).
    is_hasty: bool,
}

impl ByHand {
    /// Makes the state of a program that starts. `is_hasty` plants the bug.
    pub fn new(is_hasty: bool) -> ByHand {
        ByHand {
            is_hasty,
            ..ByHand::default()
        }
    }

    /// Sends a message to a port.
    pub fn send(&mut self, lid: u16, message: Vec<u8>, now: u64) {
        let header = Mad::padded(&message).header;
        let name = (lid, header.tid.get() as u32, header.is_response());
        let sending = Sending {
            message,
            acknowledged: 0,
            next: 1,
            window: 1,
            until: now + PAUSE,
            tries: 0,
        };
        self.sending.insert(name, sending);
        self.pump(name);
    }

    /// Returns whether the program still sends a message.
    pub fn is_busy(&self) -> bool {
        !self.sending.is_empty()
    }

    fn pump(&mut self, name: Name) {
        let Some(of) = self.sending.get_mut(&name) else {
            return;
        };
        while of.next <= of.segments().min(of.window) {
            self.outbox.push_back((name.0, of.segment(of.next)));
            of.next += 1;
        }
    }

    /// Sends again what was not acknowledged in time.
    pub fn progress(&mut self, now: u64) {
        self.sending.retain(|_, of| of.tries <= TRIES);
        let due = self.sending.iter_mut().filter(|(_, of)| of.until <= now);
        let mut again = Vec::new();
        for (name, of) in due {
            of.next = of.acknowledged + 1;
            // The next segment is sent even if the peer has not opened the window for it.
            of.window = of.window.max(of.next);
            of.tries += 1;
            of.until = now + PAUSE;
            again.push(*name);
        }
        for name in again {
            self.pump(name);
        }
    }

    /// Handles a datagram. Returns the message if it is complete now.
    pub fn take(&mut self, got: &Received, now: u64) -> Option<Vec<u8>> {
        let mad = Mad::padded(&got.message);
        let (header, rmpp) = (mad.header, mad.rmpp());
        let (low, is_response) = (header.tid.get() as u32, header.is_response());
        if header.status.get() != 0 {
            // Each segment of a request is refused, and the first refusal ends the request.
            let refused = self.sending.remove(&name_of_request(got.lid, low));
            return refused.map(|_| got.message.clone());
        }
        // Acknowledgements go in the other direction.
        let name = (got.lid, low, !is_response);
        match rmpp.kind {
            kind::DATA => {
                let whole = self.data((got.lid, low, is_response), &mad)?;
                if is_response {
                    // The request has arrived, whatever was acknowledged.
                    self.sending.remove(&name_of_request(got.lid, low));
                }
                return Some(whole);
            }
            kind::ACK => {
                let segment = rmpp.segment.get();
                if let Some(of) = self.sending.get_mut(&name)
                    && (segment > of.acknowledged || rmpp.length.get() > of.window)
                {
                    of.acknowledged = of.acknowledged.max(segment);
                    of.next = of.next.max(segment + 1);
                    of.window = of.window.max(rmpp.length.get());
                    (of.until, of.tries) = (now + PAUSE, 0);
                    if of.acknowledged >= of.segments() {
                        self.sending.remove(&name);
                    }
                }
                self.pump(name);
            }
            _ => {
                self.sending.remove(&name);
                self.receiving.remove(&(got.lid, low, is_response));
            }
        }
        None
    }

    fn data(&mut self, name: Name, mad: &Mad) -> Option<Vec<u8>> {
        let rmpp = mad.rmpp();
        let number = rmpp.segment.get();
        if number == 1 {
            self.receiving.entry(name).or_insert(Receiving {
                message: mad.bytes()[..HEADERS].to_vec(),
                next: 1,
                window: 1,
                is_whole: false,
            });
        }
        let of = self.receiving.get_mut(&name)?;
        let is_next = number == of.next || self.is_hasty && number > of.next;
        let mut whole = None;
        if !of.is_whole && is_next {
            let is_last = rmpp.flags & flag::LAST != 0;
            let length = match is_last {
                true => (rmpp.length.get() - OF_CLASS) as usize,
                false => ROOM,
            };
            of.message.extend(&mad.bytes()[HEADERS..HEADERS + length]);
            of.next = number + 1;
            if is_last {
                of.is_whole = true;
                whole = Some(std::mem::take(&mut of.message));
            }
        } else if number >= of.next {
            return None;
        }
        let acknowledged = of.next - 1;
        if of.is_whole || acknowledged == of.window || number < acknowledged {
            of.window = of.window.max(acknowledged + WINDOW);
            let mut ack = Mad::padded(&mad.bytes()[..HEADERS]);
            ack.header.method ^= method::RESPONSE;
            ack.set_rmpp(RmppHeader {
                version: 1,
                kind: kind::ACK,
                flags: flag::ACTIVE,
                status: 0,
                segment: acknowledged.into(),
                length: of.window.into(),
            });
            self.outbox.push_back((name.0, ack));
        }
        whole
    }
}
