//! Frames: messages that keep their boundaries in the byte stream of a connection, for ends whose
//! bypass is off.
//!
//! A frame is a length and a kind, four bytes each, and the data. A frame of the kind *end* says
//! that nothing more will be sent; a stream that ends without one was cut off.

/// Bytes of a frame before its data.
pub const HEAD_BYTES: usize = 8;
/// Most bytes of a message.
pub const MOST_BYTES: usize = 1 << 30;

const DATA: u32 = 0;
const END: u32 = 1;

/// The decoded head of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Frame {
    /// A message of this number of bytes follows; at most [`MOST_BYTES`].
    Message(usize),
    /// Nothing follows.
    End,
}

/// The peer has broken the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Malformed;

impl Frame {
    /// Encodes the head of the frame.
    pub fn encode(self) -> [u8; HEAD_BYTES] {
        let (length, kind) = match self {
            Frame::Message(length) => (length as u32, DATA),
            Frame::End => (0, END),
        };
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..].copy_from_slice(&kind.to_le_bytes());
        head
    }

    /// Decodes the head of a frame.
    ///
    /// # Errors
    /// [`Malformed`]: an unknown kind, a message that is too long, an end with a length.
    pub fn decode(head: [u8; HEAD_BYTES]) -> Result<Frame, Malformed> {
        let [l0, l1, l2, l3, k0, k1, k2, k3] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        match u32::from_le_bytes([k0, k1, k2, k3]) {
            DATA if length <= MOST_BYTES => Ok(Frame::Message(length)),
            END if length == 0 => Ok(Frame::End),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_mean_the_same_after_a_journey() {
        for frame in [
            Frame::Message(0),
            Frame::Message(1),
            Frame::Message(MOST_BYTES),
            Frame::End,
        ] {
            assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }
        assert_eq!(Frame::Message(0x0102).encode(), [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Frame::End.encode(), [0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_frame_is_malformed() {
        let too_long = Frame::Message(MOST_BYTES + 1).encode();
        for bad in [
            too_long,
            [1, 0, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 2, 0, 0, 0],
            [0xff; 8],
        ] {
            assert_eq!(Frame::decode(bad), Err(Malformed));
        }
    }
}
