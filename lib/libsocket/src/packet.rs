//! Messages that keep their boundaries, as frames in the byte stream of a connection.
//! `SOCK_SEQPACKET` sockets of Scheduled Transfers whose bypass is off use them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use st_core::frame::{Frame, HEAD_BYTES, Malformed};

/// Most bytes taken from the stream at once.
const STEP_BYTES: usize = 64 * 1024;

/// The progress of receiving a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// A message is complete.
    Message,
    /// The stream has ended in order.
    End,
    /// More bytes are needed.
    Incomplete,
}

/// Assembles messages from the bytes of a stream.
#[derive(Debug, Default)]
pub struct Assembler {
    /// The bytes of the current frame so far.
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Assembler {
    /// Takes bytes from the stream until a message is complete, the stream has no more bytes, or
    /// `most` bytes of the current frame are taken. `read` fills a buffer as far as it can and
    /// returns the count.
    ///
    /// # Errors
    /// Those of `read`; `broken` when the peer breaks the protocol or sends more than there is
    /// memory for.
    pub fn advance<E>(
        &mut self,
        broken: E,
        most: usize,
        mut read: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Progress, E> {
        loop {
            let wanted = match self.wanted() {
                Ok(_) if self.has_ended => return Ok(Progress::End),
                Ok(0) => return Ok(Progress::Message),
                Ok(wanted) => wanted,
                Err(Malformed) => return Err(broken),
            };
            let filled = self.bytes.len();
            let step = wanted.min(STEP_BYTES).min(most.saturating_sub(filled));
            if step == 0 {
                return Ok(Progress::Incomplete);
            }
            // A message that there is no memory for ends the connection, not the program.
            if self.bytes.try_reserve(step).is_err() {
                return Err(broken);
            }
            self.bytes.resize(filled + step, 0);
            let result = read(&mut self.bytes[filled..]);
            let count = *result.as_ref().unwrap_or(&0);
            self.bytes.truncate(filled + count);
            if result? == 0 {
                return Ok(Progress::Incomplete);
            }
        }
    }

    /// Returns how many bytes the current frame lacks.
    fn wanted(&mut self) -> Result<usize, Malformed> {
        let Some((head, data)) = self.bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(HEAD_BYTES - self.bytes.len());
        };
        match Frame::decode(*head)? {
            Frame::Message(length) => Ok(length - data.len()),
            Frame::End => {
                self.has_ended = true;
                Ok(0)
            }
        }
    }

    /// Returns how many bytes of the current frame have been taken.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The complete message.
    pub fn message(&self) -> &[u8] {
        self.bytes.get(HEAD_BYTES..).unwrap_or_default()
    }

    /// Drops the complete message.
    pub fn take(&mut self) {
        self.bytes = Vec::new();
    }
}

/// The unsent bytes of frames that were partly sent.
#[derive(Debug, Default)]
pub struct Unsent(VecDeque<u8>);

impl Unsent {
    /// Keeps bytes, which have to be sent before all others.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends bytes until `write` takes no more; `write` returns how many it took.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn flush<E>(&mut self, mut write: impl FnMut(&[u8]) -> Result<usize, E>) -> Result<(), E> {
        while !self.0.is_empty() {
            let count = write(self.0.as_slices().0)?;
            if count == 0 {
                break;
            }
            self.0.drain(..count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use st_core::frame::MOST_BYTES;

    use super::*;

    fn frame(message: &[u8]) -> Vec<u8> {
        [&Frame::Message(message.len()).encode(), message].concat()
    }

    /// Reads from a list of pieces, one piece at a time.
    fn by(pieces: &mut VecDeque<Vec<u8>>, buffer: &mut [u8]) -> Result<usize, &'static str> {
        let Some(mut piece) = pieces.pop_front() else {
            return Ok(0);
        };
        let count = piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&piece[..count]);
        if count < piece.len() {
            pieces.push_front(piece.split_off(count));
        }
        Ok(count)
    }

    fn pieces(bytes: &[u8], size: usize) -> VecDeque<Vec<u8>> {
        bytes.chunks(size).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn messages_come_as_they_were_sent_however_the_stream_is_cut() {
        let messages: [&[u8]; 4] = [b"one", b"", b"three", &[7; 5000]];
        let mut stream = Vec::new();
        for message in messages {
            stream.extend(frame(message));
        }
        stream.extend(Frame::End.encode());
        for size in [1, 3, 8, 11, 4096, usize::MAX] {
            let mut input = pieces(&stream, size.min(stream.len()));
            let mut assembler = Assembler::default();
            let mut next = || {
                let progress =
                    assembler.advance("broken", usize::MAX, |buffer| by(&mut input, buffer));
                let message = assembler.message().to_vec();
                if progress == Ok(Progress::Message) {
                    assembler.take();
                }
                (progress, message)
            };
            for message in messages {
                assert_eq!(next(), (Ok(Progress::Message), message.to_vec()));
            }
            assert_eq!(next().0, Ok(Progress::End));
            assert_eq!(next().0, Ok(Progress::End));
        }
    }

    #[test]
    fn a_message_is_not_there_before_its_last_byte() {
        let bytes = frame(b"abc");
        let mut assembler = Assembler::default();
        for piece in bytes.chunks(1).take(bytes.len() - 1) {
            let mut input = pieces(piece, 1);
            let progress = assembler.advance("broken", usize::MAX, |buffer| by(&mut input, buffer));
            assert_eq!(progress, Ok(Progress::Incomplete));
        }
        let mut input = pieces(&bytes[bytes.len() - 1..], 1);
        let progress = assembler.advance("broken", usize::MAX, |buffer| by(&mut input, buffer));
        assert_eq!(progress, Ok(Progress::Message));
        assert_eq!(assembler.message(), b"abc");
    }

    #[test]
    fn no_more_than_a_bound_is_taken_until_somebody_wants_the_message() {
        let bytes = frame(&[7; 5000]);
        let mut input = pieces(&bytes, 600);
        let mut assembler = Assembler::default();
        let mut advance = |assembler: &mut Assembler, most| {
            assembler.advance("broken", most, |buffer| by(&mut input, buffer))
        };
        for _ in 0..3 {
            assert_eq!(advance(&mut assembler, 1000), Ok(Progress::Incomplete));
            assert_eq!(assembler.bytes(), 1000);
        }
        assert_eq!(advance(&mut assembler, usize::MAX), Ok(Progress::Message));
        assert_eq!(assembler.message(), [7; 5000]);
    }

    #[test]
    fn what_is_no_frame_ends_the_stream() {
        let too_long = Frame::Message(MOST_BYTES + 1).encode();
        for bad in [too_long, [1, 0, 0, 0, 1, 0, 0, 0], [0xff; 8]] {
            let mut input = pieces(&bad, 8);
            let mut assembler = Assembler::default();
            let progress = assembler.advance("broken", usize::MAX, |buffer| by(&mut input, buffer));
            assert_eq!(progress, Err("broken"));
        }
    }

    #[test]
    fn an_error_of_the_stream_loses_nothing() {
        let bytes = frame(b"abc");
        let mut assembler = Assembler::default();
        let mut input = pieces(&bytes[..5], 5);
        let _ = assembler.advance("broken", usize::MAX, |buffer| by(&mut input, buffer));
        assert_eq!(
            assembler.advance("broken", usize::MAX, |_| Err("reset")),
            Err("reset")
        );
        let mut input = pieces(&bytes[5..], 9);
        let progress = assembler.advance("broken", usize::MAX, |buffer| by(&mut input, buffer));
        assert_eq!(
            (progress, assembler.message()),
            (Ok(Progress::Message), b"abc".as_slice())
        );
    }

    #[test]
    fn what_did_not_fit_goes_first() {
        let mut unsent = Unsent::default();
        unsent.keep(b"abcdef");
        let mut sent = Vec::new();
        let mut room = 4;
        let mut write = |bytes: &[u8]| {
            let count = bytes.len().min(room);
            sent.extend_from_slice(&bytes[..count]);
            room -= count;
            Ok::<_, ()>(count)
        };
        unsent.flush(&mut write).unwrap();
        assert!(!unsent.is_empty());
        unsent
            .flush(|bytes| {
                sent.extend_from_slice(bytes);
                Ok::<_, ()>(bytes.len())
            })
            .unwrap();
        assert!(unsent.is_empty());
        assert_eq!(sent, b"abcdef");
    }
}
