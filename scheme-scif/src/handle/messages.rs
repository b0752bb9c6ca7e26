//! Messages of Scheduled Transfers in the stream of an endpoint: the set-up of the connection, and
//! what is known of the frame that is arriving. The records and frames are `st-core`'s; the other
//! end may be a `SOCK_SEQPACKET` socket whose bypass is off.

use st_core::frame::{Frame, HEAD_BYTES};
use st_core::record::{Parameters, RECORD_BYTES, Record};
use st_core::setup::{self, Refused};
use syscall::error::{ECONNREFUSED, ECONNRESET, EPROTO, Error, Result};

/// The messages of an endpoint.
pub(crate) struct Messages {
    stage: Stage,
    arriving: Arriving,
    /// A frame was begun and will never be completed.
    is_cut: bool,
}

/// How far the set-up has come.
enum Stage {
    /// The request of this end is still to be sent.
    Calling(Parameters),
    /// The peer's record, so far.
    Greeting {
        own: Parameters,
        is_server: bool,
        record: [u8; RECORD_BYTES],
        filled: usize,
    },
    /// Messages may go both ways.
    Open,
    /// There is no connection: every transfer fails with this.
    Failed(i32),
}

/// The part of a message that is arriving.
#[derive(Clone, Copy)]
enum Arriving {
    /// The head of the next frame, so far.
    Head([u8; HEAD_BYTES], usize),
    /// This number of further bytes of a message.
    Data(usize),
    /// Nothing, in order.
    Nothing,
}

/// The bytes to receive next.
pub(crate) enum Wanted<'a> {
    /// Bytes of this head.
    Head(&'a mut [u8]),
    /// A piece of a message, up to a number of bytes.
    Data(usize),
    /// Nothing any more.
    Nothing,
}

impl Messages {
    /// Of the end that has connected, or the one that has been connected to.
    pub fn new(is_server: bool, port: u16, key: u32) -> Self {
        let options = setup::Options::default();
        let own = Parameters {
            port,
            key: key.max(1),
            bypass: false,
            channels: options.channels,
            slots: options.slots,
            window: 0,
        };
        let stage = match is_server {
            true => Stage::greeting(own, true),
            false => Stage::Calling(own),
        };
        Self {
            stage,
            arriving: Arriving::Head([0; HEAD_BYTES], 0),
            is_cut: false,
        }
    }

    /// The request of this end, once; there is room for it in a ring that is empty.
    pub fn request(&mut self) -> Option<[u8; RECORD_BYTES]> {
        let Stage::Calling(own) = self.stage else {
            return None;
        };
        self.stage = Stage::greeting(own, false);
        Some(Record::Request(own).encode())
    }

    /// The bytes of the peer's record that have not arrived. `None`: the set-up is done.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn missing(&mut self) -> Result<Option<&mut [u8]>> {
        match &mut self.stage {
            Stage::Greeting { record, filled, .. } => Ok(record.get_mut(*filled..)),
            Stage::Calling(_) => Ok(Some(&mut [])),
            Stage::Open => Ok(None),
            Stage::Failed(error) => Err(Error::new(*error)),
        }
    }

    /// Takes `count` more bytes of the peer's record. Returns the answer to it, if it is complete
    /// and wants one; there is room for it in a ring that is empty.
    pub fn greet(&mut self, count: usize) -> Option<[u8; RECORD_BYTES]> {
        let Stage::Greeting {
            own,
            is_server,
            record,
            filled,
        } = &mut self.stage
        else {
            return None;
        };
        *filled += count;
        if *filled < RECORD_BYTES {
            return None;
        }
        let peer = Record::decode(record).map_err(|_| Refused::Protocol);
        if *is_server {
            let answer = peer.and_then(|request| {
                // Channels mean nothing without the bypass.
                if let Record::Request(peer) = request {
                    own.channels = peer.channels;
                }
                setup::accept(*own, request)
            });
            self.stage = match answer {
                Ok(_) => Stage::Open,
                Err(_) => Stage::Failed(EPROTO),
            };
            let answer = answer.map_or(Record::Reject, |(_, answer)| answer);
            return Some(answer.encode());
        }
        self.stage = match peer.and_then(|answer| setup::connected(*own, answer)) {
            Ok(_) => Stage::Open,
            Err(_) => Stage::Failed(ECONNREFUSED),
        };
        None
    }

    /// The bytes to receive, when the set-up is done.
    pub fn wanted(&mut self) -> Wanted<'_> {
        match &mut self.arriving {
            Arriving::Head(head, filled) => {
                Wanted::Head(head.get_mut(*filled..).unwrap_or(&mut []))
            }
            Arriving::Data(rest) => Wanted::Data(*rest),
            Arriving::Nothing => Wanted::Nothing,
        }
    }

    /// Counts `count` bytes of the wanted ones as arrived.
    ///
    /// # Errors
    /// `EPROTO`: they are no frame. Every transfer fails from now on.
    pub fn arrived(&mut self, count: usize) -> Result<()> {
        let next = match self.arriving {
            Arriving::Head(head, filled) if filled + count < HEAD_BYTES => {
                Arriving::Head(head, filled + count)
            }
            Arriving::Head(head, _) => match Frame::decode(head) {
                Ok(Frame::Message(length)) => Arriving::data(length),
                Ok(Frame::End) => Arriving::Nothing,
                Err(_) => {
                    self.stage = Stage::Failed(EPROTO);
                    return Err(Error::new(EPROTO));
                }
            },
            Arriving::Data(rest) => Arriving::data(rest.saturating_sub(count)),
            Arriving::Nothing => Arriving::Nothing,
        };
        self.arriving = next;
        Ok(())
    }

    /// A message can be begun.
    ///
    /// # Errors
    /// `ECONNRESET`: another was begun and never completed.
    pub fn may_begin(&self) -> Result<()> {
        match self.is_cut {
            true => Err(Error::new(ECONNRESET)),
            false => Ok(()),
        }
    }

    /// A message was begun and will not be completed: the peer can receive nothing behind it.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Whether the peer is to be told that nothing follows: it knows this end, or will.
    pub fn has_end(&self) -> bool {
        let is_known = match self.stage {
            Stage::Open => true,
            Stage::Greeting { is_server, .. } => !is_server,
            Stage::Calling(_) | Stage::Failed(_) => false,
        };
        is_known && !self.is_cut
    }
}

impl Stage {
    fn greeting(own: Parameters, is_server: bool) -> Self {
        Self::Greeting {
            own,
            is_server,
            record: [0; RECORD_BYTES],
            filled: 0,
        }
    }
}

impl Arriving {
    /// The rest of a message; an empty one is passed over.
    fn data(rest: usize) -> Self {
        match rest {
            0 => Self::Head([0; HEAD_BYTES], 0),
            rest => Self::Data(rest),
        }
    }
}
