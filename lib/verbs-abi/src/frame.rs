//! The frame of a command: the header, the lengths of request and answer, and what follows the
//! structures.

use zerocopy::FromBytes;

use crate::records::{ExtendedHeader, Header};

/// The flag of an extended command.
const EXTENDED: u32 = 1 << 31;
/// The bits of a command's number.
const NUMBER: u32 = 0xff;
/// Bytes of a word of a command, and of an extended one.
const WORD: usize = 4;
const EXTENDED_WORD: usize = 8;

/// Why bytes are not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// `EINVAL`: too short for a header, unknown flags, lengths that do not agree with each other
    /// or with what was written, a reserved field that is not 0.
    Invalid,
    /// `EOPNOTSUPP`: no command has this number.
    Unknown,
    /// `ENOSPC`: shorter than the request of this command, or too little room for its answer.
    TooShort,
}

/// A command as a program wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number, which may be that of no command.
    pub number: u32,
    /// Whether it has the extended header.
    pub is_extended: bool,
    /// The address for the answer, of an extended command. A plain one has it in its request.
    response: Option<u64>,
    /// The structure of the request; of a plain command also the provider's data.
    request: &'a [u8],
    /// The provider's data of an extended command.
    provider: Option<&'a [u8]>,
    /// Room for the answer in bytes, and the part of it for the provider's answer, if that is
    /// counted separately.
    room: usize,
    provider_room: usize,
}

impl<'a> Frame<'a> {
    /// Reads a frame. `is_exact`: the bytes are the command and nothing more; otherwise more may
    /// follow, which is room for the answer.
    ///
    /// # Errors
    /// `Invalid`, `Unknown`.
    pub fn read(bytes: &'a [u8], is_exact: bool) -> Result<Frame<'a>, Malformed> {
        let (header, rest) = Header::read_from_prefix(bytes).map_err(|_| Malformed::Invalid)?;
        if header.command & !(EXTENDED | NUMBER) != 0 {
            return Err(Malformed::Invalid);
        }
        let number = header.command & NUMBER;
        let fits = |wanted: usize, found: usize| wanted == found || (wanted < found && !is_exact);
        if header.command & EXTENDED == 0 {
            let length = usize::from(header.in_words) * WORD;
            if !fits(length, bytes.len()) || length < size_of::<Header>() {
                return Err(Malformed::Invalid);
            }
            let request = rest.get(..length - size_of::<Header>());
            return Ok(Frame {
                number,
                is_extended: false,
                response: None,
                request: request.ok_or(Malformed::Invalid)?,
                provider: None,
                room: usize::from(header.out_words) * WORD,
                provider_room: 0,
            });
        }
        let (extension, rest) =
            ExtendedHeader::read_from_prefix(rest).map_err(|_| Malformed::Invalid)?;
        let core = usize::from(header.in_words) * EXTENDED_WORD;
        let provider = usize::from(extension.provider_in_words) * EXTENDED_WORD;
        let provider_room = usize::from(extension.provider_out_words) * EXTENDED_WORD;
        let room = usize::from(header.out_words) * EXTENDED_WORD + provider_room;
        // Room without an address for the answer, or an address without room, is an error.
        let has_place = extension.response != 0;
        if !fits(core + provider, rest.len())
            || extension.reserved != 0
            || (is_exact && has_place != (room > 0))
        {
            return Err(Malformed::Invalid);
        }
        let request = rest.get(..core).ok_or(Malformed::Invalid)?;
        let of_provider = rest.get(core..core + provider);
        Ok(Frame {
            number,
            is_extended: true,
            response: Some(extension.response),
            request,
            provider: Some(of_provider.ok_or(Malformed::Invalid)?),
            room,
            provider_room,
        })
    }

    /// The length of the whole command in bytes.
    pub fn length(&self) -> usize {
        let headers = match self.is_extended {
            true => size_of::<Header>() + size_of::<ExtendedHeader>(),
            false => size_of::<Header>(),
        };
        headers + self.request.len() + self.provider.map_or(0, <[u8]>::len)
    }

    /// The address at which the program wants the answer. In a plain command that has an answer it
    /// is the first field of the request.
    pub fn response(&self) -> u64 {
        let first = || u64::read_from_prefix(self.request).map_or(0, |(address, _)| address);
        self.response.unwrap_or_else(first)
    }

    /// Room for the answer in bytes, the provider's part included.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Checks that the request has at least `request` bytes, and the room for the answer `answer`
    /// bytes.
    ///
    /// # Errors
    /// `TooShort`.
    pub fn check(&self, request: usize, answer: usize) -> Result<(), Malformed> {
        let room = self.room - self.provider_room;
        match self.request.len() >= request && room >= answer {
            true => Ok(()),
            false => Err(Malformed::TooShort),
        }
    }

    /// A copy of the request's structure.
    ///
    /// # Errors
    /// `TooShort`.
    pub fn request<T: FromBytes>(&self) -> Result<T, Malformed> {
        let read = T::read_from_prefix(self.request);
        read.map(|(request, _)| request)
            .map_err(|_| Malformed::TooShort)
    }

    /// The bytes behind the structure `T` in the request: the provider's data of a plain command,
    /// lists of work requests, and fields of an extended request that this version does not know.
    pub fn behind<T>(&self) -> &'a [u8] {
        self.request.get(size_of::<T>()..).unwrap_or_default()
    }

    /// The provider's data behind the request `T`.
    pub fn provider<T>(&self) -> &'a [u8] {
        self.provider.unwrap_or_else(|| self.behind::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Malformed};
    use crate::records::{CreateCq, DeallocPd};

    /// A plain command of some words.
    fn plain(command: u32, in_words: u16, out_words: u16, rest: &[u8]) -> ([u8; 128], usize) {
        let mut bytes = [0; 128];
        bytes[..4].copy_from_slice(&command.to_ne_bytes());
        bytes[4..6].copy_from_slice(&in_words.to_ne_bytes());
        bytes[6..8].copy_from_slice(&out_words.to_ne_bytes());
        bytes[8..8 + rest.len()].copy_from_slice(rest);
        (bytes, 8 + rest.len())
    }

    #[test]
    fn lengths_must_agree() {
        let (bytes, length) = plain(4, 3, 0, &[1, 2, 3, 4]);
        let frame = Frame::read(&bytes[..length], true).unwrap();
        assert_eq!(
            (frame.number, frame.is_extended, frame.length()),
            (4, false, 12)
        );
        assert_eq!(frame.check(4, 0), Ok(()));
        assert_eq!(frame.check(8, 0), Err(Malformed::TooShort));
        assert_eq!(frame.check(4, 4), Err(Malformed::TooShort));
        assert_eq!(frame.request::<DeallocPd>().unwrap().pd_handle, 0x0403_0201);
        assert_eq!(frame.request::<CreateCq>(), Err(Malformed::TooShort));
        for short in 0..length {
            let read = Frame::read(&bytes[..short], true);
            assert_eq!(read, Err(Malformed::Invalid), "{short}");
            assert_eq!(Frame::read(&bytes[..short], false), read);
        }
        // Room for an answer may follow in a call only.
        assert_eq!(Frame::read(&bytes[..16], true), Err(Malformed::Invalid));
        assert_eq!(Frame::read(&bytes[..16], false), Ok(frame));
        for words in [0, 1] {
            let (bytes, length) = plain(4, words, 0, &[]);
            let read = Frame::read(&bytes[..length], false);
            assert_eq!(read, Err(Malformed::Invalid), "{words} words");
        }
    }

    #[test]
    fn unknown_flags_are_refused() {
        for flag in 8..31 {
            let (bytes, length) = plain(4 | 1 << flag, 3, 0, &[0; 4]);
            assert_eq!(Frame::read(&bytes[..length], true), Err(Malformed::Invalid));
        }
    }

    /// An extended command with a request of 8 bytes and provider's data of 16.
    fn extended(response: u64, words: [u16; 3], reserved: u32) -> ([u8; 128], usize) {
        let mut rest = [7; 40];
        rest[..8].copy_from_slice(&response.to_ne_bytes());
        rest[8..10].copy_from_slice(&words[1].to_ne_bytes());
        rest[10..12].copy_from_slice(&words[2].to_ne_bytes());
        rest[12..16].copy_from_slice(&reserved.to_ne_bytes());
        plain(18 | 1 << 31, 1, words[0], &rest)
    }

    #[test]
    fn extended_commands_count_the_providers_data_apart() {
        let (bytes, length) = extended(0x1000, [3, 2, 1], 0);
        let frame = Frame::read(&bytes[..length], true).unwrap();
        assert_eq!((frame.number, frame.is_extended), (18, true));
        assert_eq!(
            (frame.response(), frame.room(), frame.length()),
            (0x1000, 32, 48)
        );
        assert_eq!(frame.provider::<u64>(), [7; 16]);
        assert_eq!(frame.behind::<u32>(), [7; 4]);
        assert_eq!(frame.check(8, 24), Ok(()));
        assert_eq!(frame.check(8, 32), Err(Malformed::TooShort));
        assert_eq!(frame.check(16, 24), Err(Malformed::TooShort));
        for (bytes, length) in [
            extended(0x1000, [3, 2, 1], 1),
            extended(0x1000, [3, 1, 1], 0),
            extended(0x1000, [3, 3, 1], 0),
            // Room without an address, and an address without room.
            extended(0, [3, 2, 1], 0),
            extended(0x1000, [0, 2, 0], 0),
        ] {
            let read = Frame::read(&bytes[..length], true);
            assert_eq!(read, Err(Malformed::Invalid));
        }
        let (bytes, length) = extended(0, [0, 2, 0], 0);
        assert_eq!(
            Frame::read(&bytes[..length], true).map(|frame| frame.room()),
            Ok(0)
        );
        for short in 8..length {
            let read = Frame::read(&bytes[..short], false);
            assert_eq!(read, Err(Malformed::Invalid), "{short}");
        }
    }

    #[test]
    fn no_bytes_are_read_beyond_a_frame() {
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        for _ in 0..20_000 {
            let mut bytes = [0; 96];
            bytes.fill_with(|| if random() < 100 { 0 } else { random() });
            let length = usize::from(random()) % 97;
            for is_exact in [false, true] {
                if let Ok(frame) = Frame::read(&bytes[..length], is_exact) {
                    assert!(frame.length() <= length);
                    assert!(frame.provider::<u64>().len() <= length);
                    let _ = (frame.response(), frame.check(usize::MAX, usize::MAX));
                }
            }
        }
    }
}
