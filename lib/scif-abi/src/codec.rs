//! The base of the derive macro `Operation`: words, payloads and the error of a decoder.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why a request or message could not be decoded. The sender is to blame, never the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No operation has this number.
    UnknownOperation {
        /// The number found.
        number: u64,
    },
    /// A word holds a value its field cannot hold.
    WordOutOfRange {
        /// Which word, from 0.
        index: usize,
        /// The value found.
        value: u64,
    },
    /// The payload has another length than the operation's structure.
    PayloadLength {
        /// Bytes the structure has.
        expected: usize,
        /// Bytes found.
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
    /// Where it begins, in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: usize,
}

/// A structure whose layout is fixed. Derived with `syscall_derive::Layout`, which checks it, too.
pub trait Layout {
    /// Name of the structure.
    const NAME: &'static str;
    /// Its fields, in order.
    const FIELDS: &'static [Field];
}

/// A set of operations, each with a number, `WORDS` words beside it and an optional structure.
/// Derived with `syscall_derive::Operation`.
pub trait Operation<const WORDS: usize>: Sized {
    /// Type of the operation number.
    type Number: Copy + Into<u64>;

    /// The number of this operation.
    fn number(&self) -> Self::Number;

    /// The name of the operation with this number, for logs and tables.
    fn name(number: Self::Number) -> Option<&'static str>;

    /// Bytes of the structure of the operation with this number: 0 when it has none, `None` when
    /// there is no such operation.
    fn payload_len(number: Self::Number) -> Option<usize>;

    /// The words to send; those no field claims are zero.
    fn words(&self) -> [u64; WORDS];

    /// The bytes of the structure to send; empty when the operation has none.
    fn payload(&self) -> &[u8];

    /// The operation that `number`, `words` and `payload` describe.
    ///
    /// # Errors
    /// The error of a decoder; see [`DecodeError`].
    fn decode(
        number: Self::Number,
        words: [u64; WORDS],
        payload: &[u8],
    ) -> Result<Self, DecodeError>;
}

/// A value that travels in a 64-bit word.
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
            /// Sign-extended, as a register holds a C `int` or `off_t`.
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

/// The value in word `index` of `words`. Called by generated decoders.
///
/// # Errors
/// `WordOutOfRange` when the value does not fit the type.
pub fn word<T: Word>(words: &[u64], index: usize) -> Result<T, DecodeError> {
    let value = words.get(index).copied().unwrap_or(0);
    T::from_word(value).ok_or(DecodeError::WordOutOfRange { index, value })
}

/// The structure in `bytes`, which must have exactly its length. Called by generated decoders.
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

/// The bytes of a structure. Called by generated encoders.
pub fn payload_bytes<T: IntoBytes + Immutable + KnownLayout>(value: &T) -> &[u8] {
    value.as_bytes()
}
