//! The calls that a row makes at one end, as words that an agent in any place can execute: a name
//! of at most eight letters, then numbers.
//!
//! An end numbers its sockets and its handles (`st_peer_t`) by *slots*, which the row chooses.
//! Memory is named by its address at that end; 0 is NULL.

pub use crate::call::Reply;
use alloc::vec::Vec;

/// The value for a slot or a place that is NULL, and for a header that is missing.
pub const NOTHING: u64 = u64::MAX;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $word:literal ($($field:ident),*);)*) => {
        /// One call. Fields have the names of the C functions' arguments; `socket`, `into` and
        /// `handle` are slots.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the words are named as in the C functions")]
        pub enum Call { $($(#[$doc])* $name { $($field: u64,)* },)* }

        impl Call {
            /// The name of the call.
            pub const fn name(&self) -> &'static str {
                match self { $(Call::$name { .. } => $word,)* }
            }

            /// The numbers of the call.
            pub fn words(&self) -> Vec<u64> {
                match *self { $(Call::$name { $($field,)* } => alloc::vec![$($field,)*],)* }
            }
        }

        #[cfg(test)]
        const NAMES: &[&str] = &[$($word,)*];
    };
}

calls! {
    // ---- Sockets ----
    /// `socket`.
    Socket = "socket" (socket, domain, kind, protocol);
    /// A file that is no socket, in a socket's slot.
    File = "file" (socket);
    /// `close`.
    Close = "close" (socket);
    /// `setsockopt` of an int, `length` bytes of it.
    SetOption = "setopt" (socket, level, name, value, length);
    /// `getsockopt` of an int. Extra word: its value.
    GetOption = "getopt" (socket, level, name);
    /// `bind`; the address in the host's order.
    Bind = "bind" (socket, address, port);
    /// `listen`.
    Listen = "listen" (socket, backlog);
    /// `accept` into another slot.
    Accept = "accept" (socket, into);
    /// `connect`.
    Connect = "connect" (socket, address, port);
    /// Sets (1) or clears (0) `O_NONBLOCK`.
    Nonblocking = "nonblock" (socket, on);
    /// `getsockname`, or `getpeername` with `of_peer` 1. Extra words: address and port.
    Name = "name" (socket, of_peer);
    /// `poll` of one socket. Result: its events.
    Poll = "poll" (socket, events, timeout_ms);
    /// `send`.
    Send = "send" (socket, address, length, flags);
    /// `recvmsg` with one buffer. Extra word: the flags of the message.
    Recv = "recv" (socket, address, length, flags);

    // ---- SCIF, for peers that do not use the library ----
    /// An endpoint in a socket's slot, which listens at `port` unless that is 0.
    Scif = "scif" (socket, port);
    /// `scif_accept`.
    ScifAccept = "scifacpt" (socket, into);
    /// `scif_connect`.
    ScifConnect = "scifconn" (socket, node, port);
    /// `scif_send` of nine words.
    ScifSend = "scifsend" (socket, w0, w1, w2, w3, w4, w5, w6, w7, w8);
    /// `scif_recv` of nine words, which are the extra words.
    ScifRecv = "scifrecv" (socket);
    /// `scif_register` of new memory. Result: the offset.
    ScifRegister = "scifreg" (socket, length);
    /// `scif_mmap`. Result: the address. [`Reset`](Call::Reset) unmaps it.
    ScifMap = "scifmap" (socket, offset, length);
    /// Stores a word into the peer's queue window (in the simulator; elsewhere that is mapped
    /// memory).
    Scribble = "scribble" (socket, offset, value);

    // ---- st.h ----
    /// `st_attach`.
    Attach = "attach" (socket, channel, flags, handle);
    /// `st_detach`. Extra word: 1 if the handle is NULL then.
    Detach = "detach" (handle);
    /// `st_fence`, or `st_flush` with `flush` 1.
    Fence = "fence" (handle, flush);
    /// Result: whether `st_flush` and `st_fence` are one function.
    Symbols = "symbols" ();
    /// `st_map`. If `address` is [`NOTHING`], the place for the address is NULL. Extra word: the
    /// address.
    Map = "map" (handle, address, length);
    /// `st_unmap`. Extra word: the address.
    Unmap = "unmap" (handle, address, length);
    /// `st1_push` of the header with a number.
    Push = "push" (handle, header, local, remote, length);
    /// `st1_pull`, with a header if `header` is 1. Extra word: its number, -1 if it is damaged.
    Pull = "pull" (handle, header, local, remote, length);
    /// `st_tx` of the 40 bytes `w0` to `w4`; the header is NULL if `given` is 0. `payload` is the
    /// number of the payload's content.
    Transmit = "tx" (handle, given, w0, w1, w2, w3, w4, payload, length, buffer, offset);
    /// `st_rx`. Extra words: the header's 40 bytes, the length, the number of the payload's
    /// content (-1 if it is damaged), and whether bytes after the payload were changed.
    Receive = "rx" (handle, given, payload);
    /// Extra words: the size of a header, and the offsets of its fields.
    Layout = "layout" ();
    /// A push that uses only `st_tx`; memory is named by its offsets in both ranges.
    Push0 = "push0" (handle, header, local, remote, length);
    /// A pull that uses only `st_rx` and `st_tx`.
    Pull0 = "pull0" (handle, header, local, remote, length);

    // ---- Many calls in a row. Extra word: the error of the last ----
    /// Pushes `count` headers, numbered from `first` on. Result: the number of headers pushed.
    Pushes = "pushes" (handle, first, count);
    /// Pulls `count` headers. Result: the number of headers that came in order.
    Pulls = "pulls" (handle, first, count);
    /// Rounds of headers, of data and of both with the other end. Result: the number of rounds.
    /// Extra words: requests to the node's driver meanwhile, milliseconds, the error.
    Rounds = "rounds" (handle, begins, count, local, remote, length);
    /// PUTs with headers, of all lengths and alignments. Result: the number of PUTs.
    PutLoop = "putloop" (handle, first, count, remote);
    /// Pulls and compares the data of `PutLoop`. Result: the number of pulls that were right.
    GetLoop = "getloop" (handle, first, count, local);
    /// PUTs until a call fails, each with a header if `header` is 1. Result: the number of PUTs.
    Storm = "storm" (handle, local, remote, length, header);
    /// Pulls headers until a call fails, and checks the data of each. Result: the number that was
    /// right.
    Calm = "calm" (handle, local);
    /// Calls `st_map` and `st_unmap` repeatedly. Result: the number of rounds.
    Maps = "maps" (handle, length, count);
    /// Locked operations on a word of the peer's range. The old values go to the beginning of the
    /// own range, which is `local`. Result: the sum of the old values. Extra words: their number,
    /// the error.
    Fetches = "fetches" (handle, ahead, count, flags, local);

    /// Adds 1 to a word of the own memory, `count` times.
    Adds = "adds" (address, count);

    // ---- Memory ----
    /// `malloc`, into a slot. Result: the address.
    Allocate = "alloc" (memory, length);
    /// Stores the pattern of a seed.
    Fill = "fill" (address, length, seed);
    /// Stores one value into all bytes.
    Set = "set" (address, length, value);
    /// Result: the number of bytes from `address` on that have this value.
    Same = "same" (address, length, value);
    /// Extra word: the position of the first byte that differs from the pattern; -1 if none does.
    Check = "check" (address, length, seed);
    /// Extra word: a double word.
    Load = "load" (address);
    /// Stores a double word.
    Store = "store" (address, value);
    /// Stores a word.
    Store4 = "store4" (address, value);

    // ---- The program and its node ----
    /// Extra words: the counts of the node.
    Counts = "counts" ();
    /// Sets the limit on pinned pages. Extra word: the former limit.
    Limit = "limit" (pages);
    /// Sets the time without a heartbeat after which a node counts as lost. Extra word: the former
    /// time.
    Silence = "silence" (milliseconds);
    /// Waits.
    Sleep = "sleep" (milliseconds);
    /// Kills the program, at once if `milliseconds` is 0.
    Die = "die" (milliseconds);
    /// A child that has inherited the socket attaches channel 0.
    Child = "child" (socket);
    /// Kills the node's driver; there is no answer.
    KillDriver = "driver" ();
    /// Closes and frees everything.
    Reset = "reset" ();
}

impl Call {
    /// Encodes the call as words.
    pub fn encode(&self) -> Vec<u64> {
        let mut name = [0; 8];
        for (to, from) in name.iter_mut().zip(self.name().bytes()) {
            *to = from;
        }
        let mut words = alloc::vec![u64::from_le_bytes(name)];
        words.extend(self.words());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn names_fit_into_a_word_and_are_unique() {
        for (index, name) in NAMES.iter().enumerate() {
            assert!(name.len() <= 8 && !NAMES[..index].contains(name), "{name}");
        }
    }
}
