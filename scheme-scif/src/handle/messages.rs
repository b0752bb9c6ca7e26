//! Messages of Scheduled Transfers in the stream of an endpoint: the set-up of the connection, and
//! the state of the frame that is arriving. `st-core` defines the records and frames. The other
//! end may be a `SOCK_SEQPACKET` socket whose bypass is off.

use st_core::frame::{Frame, HEAD_BYTES};
use st_core::record::{Parameters, RECORD_BYTES, Record};
use st_core::setup::{self, Refused};
use syscall::error::{ECONNREFUSED, ECONNRESET, EPROTO, Error, Result};

/// The messages of an endpoint.
pub(crate) struct Messages {
    stage: Stage,
    arriving: Arriving,
    /// Whether a frame was begun and will never be completed.
    is_cut: bool,
}

/// The stage of the set-up.
enum Stage {
    /// This end's request is still unsent.
    Calling(Parameters),
    /// The peer's record is arriving.
    Greeting {
        own: Parameters,
        is_server: bool,
        record: [u8; RECORD_BYTES],
        filled: usize,
    },
    /// Messages may go both ways.
    Open,
    /// There is no connection: every transfer fails with this error.
    Failed(i32),
}

/// The part of a message that is arriving.
#[derive(Clone, Copy)]
enum Arriving {
    /// The head of the next frame, and the number of its bytes that are there.
    Head([u8; HEAD_BYTES], usize),
    /// Bytes of a message that have not arrived.
    Data(usize),
    /// Nothing: the stream has ended in order.
    Nothing,
}

/// The bytes to receive next.
pub(crate) enum Wanted<'a> {
    /// Bytes of this head.
    Head(&'a mut [u8]),
    /// Bytes of a message, at most this number.
    Data(usize),
    /// Nothing: the stream has ended.
    Nothing,
}

impl Messages {
    /// The messages of an endpoint: `is_server` for the end that accepted the connection.
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

    /// This end's request, once. An empty ring has room for it.
    pub fn request(&mut self) -> Option<[u8; RECORD_BYTES]> {
        let Stage::Calling(own) = self.stage else {
            return None;
        };
        self.stage = Stage::greeting(own, false);
        Some(Record::Request(own).encode())
    }

    /// The bytes of the peer's record that have not arrived. `None` when the set-up is complete.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub fn missing(&mut self) -> Result<Option<&mut [u8]>> {
        match &mut self.stage {
            Stage::Greeting { record, filled, .. } => Ok(record.get_mut(*filled..)),
            Stage::Calling(_) => Ok(Some(&mut [])),
            Stage::Open => Ok(None),
            Stage::Failed(error) => Err(Error::new(*error)),
        }
    }

    /// Takes `count` more bytes of the peer's record. Returns the answer once the record is
    /// complete, if it needs one. An empty ring has room for the answer.
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
                // Without the bypass, channels have no meaning.
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

    /// The bytes to receive next, once the set-up is complete.
    pub fn wanted(&mut self) -> Wanted<'_> {
        match &mut self.arriving {
            Arriving::Head(head, filled) => {
                Wanted::Head(head.get_mut(*filled..).unwrap_or(&mut []))
            }
            Arriving::Data(rest) => Wanted::Data(*rest),
            Arriving::Nothing => Wanted::Nothing,
        }
    }

    /// Counts `count` of the wanted bytes as arrived.
    ///
    /// # Errors
    /// `EPROTO` when they are no frame. Every transfer fails from now on.
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

    /// Checks that a message can be begun.
    ///
    /// # Errors
    /// `ECONNRESET` when another message was begun and never completed.
    pub fn may_begin(&self) -> Result<()> {
        match self.is_cut {
            true => Err(Error::new(ECONNRESET)),
            false => Ok(()),
        }
    }

    /// Records that a message was begun and will not be completed: the peer can receive nothing
    /// after it.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Whether to send the peer the frame that ends the stream: the peer knows this end, or will.
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
    /// The rest of a message; an empty rest leads to the next head.
    fn data(rest: usize) -> Self {
        match rest {
            0 => Self::Head([0; HEAD_BYTES], 0),
            rest => Self::Data(rest),
        }
    }
}
