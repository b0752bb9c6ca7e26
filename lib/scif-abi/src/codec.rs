//! What the derive macro `Operation` builds on: words, payloads and the error of a decoder.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why a request or message could not be decoded. The fault is the sender's, never the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No operation has this number.
    UnknownOperation {
        /// The number that was found.
        number: u64,
    },
    /// A word holds a value that its field cannot hold.
    WordOutOfRange {
        /// The index of the word, from 0.
        index: usize,
        /// The value that was found.
        value: u64,
    },
    /// The payload has another length than the operation's structure.
    PayloadLength {
        /// How many bytes the structure has.
        expected: usize,
        /// How many bytes were found.
        found: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownOperation { number } => write!(f, "no operation {number}"),
            DecodeError::WordOutOfRange { index, value } => {
                write!(f, "word {index} holds {value:#x}, which is out of range")
            }
            DecodeError::PayloadLength { expected, found } => {
                write!(
                    f,
                    "the structure has {found} bytes, it must have {expected}"
                )
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// One field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its offset in the structure, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: usize,
}

/// A structure whose layout is fixed. `syscall_derive::Layout` derives it, and checks the layout.
pub trait Layout {
    /// Name of the structure.
    const NAME: &'static str;
    /// Its fields, in order.
    const FIELDS: &'static [Field];
}

/// A set of operations, each with a number, `WORDS` words and an optional structure.
/// `syscall_derive::Operation` derives it.
pub trait Operation<const WORDS: usize>: Sized {
    /// Type of the operation number.
    type Number: Copy + Into<u64>;

    /// The number of this operation.
    fn number(&self) -> Self::Number;

    /// The name of the operation with this number, for logs and tables.
    fn name(number: Self::Number) -> Option<&'static str>;

    /// How many bytes the structure of the operation with this number has: 0 if it has no
    /// structure, `None` if there is no such operation.
    fn payload_len(number: Self::Number) -> Option<usize>;

    /// The words to send. Words that no field uses are zero.
    fn words(&self) -> [u64; WORDS];

    /// The bytes of the structure to send; empty if the operation has no structure.
    fn payload(&self) -> &[u8];

    /// Decodes the operation that `number`, `words` and `payload` describe.
    ///
    /// # Errors
    /// See [`DecodeError`].
    fn decode(
        number: Self::Number,
        words: [u64; WORDS],
        payload: &[u8],
    ) -> Result<Self, DecodeError>;
}

/// A value that is sent in a 64-bit word.
pub trait Word: Copy {
    /// The word for this value.
    fn to_word(self) -> u64;

    /// The value in this word, unless it is out of range.
    fn from_word(word: u64) -> Option<Self>;
}

macro_rules! unsigned_words {
    ($($word:ty),*) => {
        $(impl Word for $word {
            fn to_word(self) -> u64 {
                u64::from(self)
            }

            fn from_word(word: u64) -> Option<Self> {
                word.try_into().ok()
            }
        })*
    };
}

unsigned_words!(u8, u16, u32, u64);

macro_rules! signed_words {
    ($($word:ty),*) => {
        $(impl Word for $word {
            /// Extends the sign, as a register holds a C `int` or `off_t`.
            fn to_word(self) -> u64 {
                i64::from(self) as u64
            }

            fn from_word(word: u64) -> Option<Self> {
                (word as i64).try_into().ok()
            }
        })*
    };
}

signed_words!(i32, i64);

/// Decodes the value in word `index` of `words`. Generated decoders call it.
///
/// # Errors
/// `WordOutOfRange` when the value does not fit the type.
pub fn word<T: Word>(words: &[u64], index: usize) -> Result<T, DecodeError> {
    let value = words.get(index).copied().unwrap_or(0);
    T::from_word(value).ok_or(DecodeError::WordOutOfRange { index, value })
}

/// Decodes the structure in `bytes`, which must have exactly its length. Generated decoders call
/// it.
///
/// # Errors
/// `PayloadLength` when there are more or fewer bytes.
pub fn payload<T: FromBytes>(bytes: &[u8]) -> Result<T, DecodeError> {
    let wrong = DecodeError::PayloadLength {
        expected: size_of::<T>(),
        found: bytes.len(),
    };
    T::read_from_bytes(bytes).map_err(|_| wrong)
}

/// The bytes of a structure. Generated encoders call it.
pub fn payload_bytes<T: IntoBytes + Immutable + KnownLayout>(value: &T) -> &[u8] {
    value.as_bytes()
}
