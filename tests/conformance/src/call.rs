//! The calls that a case makes on one side, and their results, as words that can be sent to
//! another process or node.
//!
//! A side numbers its objects by *slots*, which the case chooses: endpoints in one set of slots,
//! memory (allocated or mapped) in another.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use crate::errno::Errno;

/// A number that fits into a word.
trait Word: Copy {
    fn to_word(self) -> u64;
    fn of_word(word: u64) -> Self;
}

macro_rules! words {
    ($($kind:ty),*) => { $(impl Word for $kind {
        fn to_word(self) -> u64 {
            self as u64
        }
        fn of_word(word: u64) -> Self {
            word as $kind
        }
    })* };
}

words!(u16, i16, u32, i32, u64, i64);

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $number:literal { $($field:ident: $kind:ty,)* })*) => {
        /// One call. Fields have the names of SCIF's arguments; `slot` is the endpoint, `memory` a
        /// slot of memory, `at` a position in it in bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the words are named as in SCIF's calls")]
        pub enum Call { $($(#[$doc])* $name { $($field: $kind,)* },)* }

        impl Call {
            /// Encodes the call as words.
            pub fn encode(&self) -> Vec<u64> {
                match *self {
                    $(Call::$name { $($field,)* } => {
                        #[allow(unused_mut, reason = "calls without words")]
                        let mut words = alloc::vec![$number];
                        $(words.push(Word::to_word($field));)*
                        words
                    })*
                }
            }

            /// Decodes a call; `None` if the words are none.
            pub fn decode(words: &[u64]) -> Option<Call> {
                let (number, rest) = words.split_first()?;
                #[allow(unused_mut, unused_variables, reason = "calls without words")]
                let mut rest = rest.iter().copied();
                let call = match *number {
                    $($number => Call::$name { $($field: Word::of_word(rest.next()?),)* },)*
                    _ => return None,
                };
                rest.next().is_none().then_some(call)
            }
        }

        #[cfg(test)]
        fn samples() -> Vec<Call> {
            let mut next = 0_u64;
            let mut word = || { next += 1; next };
            alloc::vec![$(Call::$name { $($field: Word::of_word(word()),)* },)*]
        }
    };
}

calls! {
    /// `scif_open` into the slot.
    Open = 1 { slot: u32, }
    /// `scif_close`. The slot stays known, like a descriptor that is closed.
    Close = 2 { slot: u32, }
    /// `scif_bind`.
    Bind = 3 { slot: u32, port: u16, }
    /// `scif_listen`.
    Listen = 4 { slot: u32, backlog: i32, }
    /// Sets (1) or clears (0) `O_NONBLOCK`.
    Nonblocking = 5 { slot: u32, on: u32, }
    /// `scif_connect`.
    Connect = 6 { slot: u32, node: u16, port: u16, }
    /// `scif_accept` into the slot `into`. Extra words: node and port of the peer.
    Accept = 7 { slot: u32, into: u32, flags: u32, }
    /// `scif_send` of `length` bytes of the pattern `seed` from position `from`.
    Send = 8 { slot: u32, length: u64, flags: u32, seed: u64, from: u64, }
    /// `scif_recv` of `length` bytes. Extra word: position of the first byte that differs from the
    /// pattern, -1 if none does.
    Recv = 9 { slot: u32, length: u64, flags: u32, seed: u64, from: u64, }
    /// `scif_register` of memory from `at`, which need not be valid.
    Register = 10 {
        slot: u32, memory: u32, at: i64, length: u64, offset: i64, protection: u32, flags: u32,
    }
    /// `scif_unregister`.
    Unregister = 11 { slot: u32, offset: i64, length: u64, }
    /// `scif_readfrom`.
    ReadFrom = 12 { slot: u32, local: i64, length: u64, remote: i64, flags: u32, }
    /// `scif_writeto`.
    WriteTo = 13 { slot: u32, local: i64, length: u64, remote: i64, flags: u32, }
    /// `scif_vreadfrom`.
    VirtualReadFrom = 14 { slot: u32, memory: u32, at: i64, length: u64, remote: i64, flags: u32, }
    /// `scif_vwriteto`.
    VirtualWriteTo = 15 { slot: u32, memory: u32, at: i64, length: u64, remote: i64, flags: u32, }
    /// `scif_fence_mark`. Result: the mark.
    FenceMark = 16 { slot: u32, flags: u32, }
    /// `scif_fence_wait`.
    FenceWait = 17 { slot: u32, mark: i32, }
    /// `scif_fence_signal`.
    FenceSignal = 18 {
        slot: u32, local: i64, local_value: u64, remote: i64, remote_value: u64, flags: u32,
    }
    /// `scif_mmap` of the peer's windows into a slot of memory.
    Map = 19 { slot: u32, memory: u32, offset: i64, length: u64, protection: u32, }
    /// `scif_munmap` of a part of a mapping.
    Unmap = 20 { memory: u32, at: i64, length: u64, }
    /// `scif_poll` of one endpoint without waiting. Result: the bits.
    Poll = 21 { slot: u32, events: u32, }
    /// `scif_poll` of two endpoints with the same events; a negative time-out is infinite. Extra
    /// words: the bits of each.
    PollTwo = 22 { slot: u32, other: u32, events: u32, timeout_ms: i32, }
    /// `scif_get_node_ids` with room for `room` ids. Extra words: the own node, then the stored
    /// ids.
    NodeIds = 23 { room: u32, }
    /// Allocates zeroed memory of this number of pages, which can be registered.
    Allocate = 24 { memory: u32, pages: u32, }
    /// Frees memory. Registered parts of it stay registered.
    Free = 25 { memory: u32, }
    /// Stores the pattern `seed` from position `from`.
    Fill = 26 { memory: u32, at: i64, length: u64, seed: u64, from: u64, }
    /// Result: position of the first byte that differs from the pattern; -1 if none does.
    Check = 27 { memory: u32, at: i64, length: u64, seed: u64, from: u64, }
    /// Result: the 64-bit word at `at`.
    Load = 28 { memory: u32, at: i64, }
    /// Stores a 64-bit word.
    Store = 29 { memory: u32, at: i64, value: u64, }
    /// `scif_get_pages`; `into` names the reference. Extra words: the number of pages, the
    /// protection, and the 64-bit word at the start of the first page, read through its physical
    /// address.
    GetPages = 30 { slot: u32, into: u32, offset: i64, length: u64, }
    /// `scif_put_pages`.
    PutPages = 31 { into: u32, }
    /// Limits the pinned pages of each user of the node.
    LimitPinned = 32 { pages: u64, }
    /// Result: the limit on pinned pages.
    PinnedLimit = 33 { }
    /// Extra words: the [`Counts`] of the node.
    Count = 34 { }
    /// Cuts the link to the other node, as if that had lost power.
    LoseNode = 35 { }
    /// Closes every endpoint, frees all memory, and releases all references.
    Reset = 36 { }
    /// Ends the side's program.
    Exit = 37 { }
    /// Opens a file that is no endpoint into the slot.
    OpenFile = 39 { slot: u32, }
    /// The second half of an accept on its own: registers the endpoint behind the handle.
    AcceptRegister = 38 { slot: u32, handle: u64, }
}

/// The memory slot that stands for address 0.
pub const NULL: u32 = u32::MAX;
/// The memory slot that stands for an address, on a page boundary, where nothing is mapped.
pub const NOWHERE: u32 = u32::MAX - 1;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The return value, or the errno.
    pub result: Result<i64, Errno>,
    /// Further results.
    pub extra: Vec<i64>,
}

impl Reply {
    /// A reply with only a result.
    pub fn plain(result: Result<i64, Errno>) -> Reply {
        Reply {
            result,
            extra: Vec::new(),
        }
    }

    /// Encodes the reply as words.
    pub fn encode(&self) -> Vec<u64> {
        let (kind, value) = match self.result {
            Ok(value) => (0, value as u64),
            Err(Errno(number)) => (1, number as u64),
        };
        let extra = self.extra.iter().map(|word| *word as u64);
        [kind, value].into_iter().chain(extra).collect()
    }

    /// Decodes a reply; `None` if the words are none.
    pub fn decode(words: &[u64]) -> Option<Reply> {
        let (&[kind, value], extra) = words.split_first_chunk()?;
        Some(Reply {
            result: match kind {
                0 => Ok(value as i64),
                1 => Err(Errno(value as i32)),
                _ => return None,
            },
            extra: extra.iter().map(|word| *word as i64).collect(),
        })
    }

    /// Returns an extra word.
    ///
    /// # Errors
    /// There is no such word.
    pub fn word(&self, index: usize) -> Result<i64, String> {
        let word = self.extra.get(index).copied();
        word.ok_or_else(|| alloc::format!("no extra word {index}: {self:?}"))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.result {
            Ok(value) => write!(f, "{value}")?,
            Err(errno) => write!(f, "{errno}")?,
        }
        match self.extra.is_empty() {
            true => Ok(()),
            false => write!(f, " {:?}", self.extra),
        }
    }
}

/// The counts of a node. A call that fails does not change them, and a case restores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open endpoints.
    pub endpoints: i64,
    /// Connections, including those that wait for the peer's last message.
    pub connections: i64,
    /// Ports in use.
    pub ports: i64,
    /// Windows: own ones, and those of peers.
    pub windows: i64,
    /// Pages of mappings of peers' windows, and pages that `scif_get_pages` has given out.
    pub mappings: i64,
    /// Pages of registered windows.
    pub pinned_pages: i64,
    /// Pages of memory that connections and links share with peers. In guests rings are not
    /// counted, because their lengths depend on how many other rings existed when each was made. A
    /// connection has one page.
    pub pages: i64,
}

impl Counts {
    /// The counts as extra words of a reply.
    pub fn words(&self) -> Vec<i64> {
        alloc::vec![
            self.endpoints,
            self.connections,
            self.ports,
            self.windows,
            self.mappings,
            self.pinned_pages,
            self.pages,
        ]
    }

    /// The counts in the extra words of a reply.
    pub fn of_words(words: &[i64]) -> Option<Counts> {
        let [
            endpoints,
            connections,
            ports,
            windows,
            mappings,
            pinned_pages,
            pages,
        ] = *words
        else {
            return None;
        };
        Some(Counts {
            endpoints,
            connections,
            ports,
            windows,
            mappings,
            pinned_pages,
            pages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, Counts, Errno, Reply, samples};

    #[test]
    fn words_make_the_same_call_again() {
        for call in samples() {
            let words = call.encode();
            assert_eq!(Call::decode(&words), Some(call));
            assert_eq!(Call::decode(&words[..words.len() - 1]), None);
            assert_eq!(Call::decode(&[words.as_slice(), &[0]].concat()), None);
        }
        assert_eq!(Call::decode(&[u64::MAX]), None);
    }

    #[test]
    fn words_make_the_same_reply_again() {
        let counts = Counts {
            endpoints: 3,
            ..Counts::default()
        };
        let replies = [
            Reply::plain(Err(Errno(22))),
            Reply {
                result: Ok(-1),
                extra: counts.words(),
            },
        ];
        for reply in replies {
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        assert_eq!(Counts::of_words(&counts.words()), Some(counts));
        assert_eq!(Reply::decode(&[2, 0]), None);
        let reply = Reply::decode(&[0, 3, u64::MAX]).unwrap();
        assert_eq!((reply.word(0), reply.word(1).is_err()), (Ok(-1), true));
    }
}
