//! The calls that a row makes at one end, as words that an agent of any place can carry out: a name
//! of eight letters at most, then numbers.
//!
//! An end numbers its sockets and its handles (`st_peer_t`) by *slots* that the row chooses. Memory
//! is named by its address at that end, 0 is NULL.

pub use crate::call::Reply;
use alloc::vec::Vec;

/// The value passed for a slot or a place that is to be NULL, and for a header that is not given.
pub const NOTHING: u64 = u64::MAX;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $word:literal ($($field:ident),*);)*) => {
        /// One call. Fields have the names of the C functions' arguments; `socket`, `into` and
        /// `handle` are slots.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the words are named as in the C functions")]
        pub enum Call { $($(#[$doc])* $name { $($field: u64,)* },)* }

        impl Call {
            /// Its name.
            pub const fn name(&self) -> &'static str {
                match self { $(Call::$name { .. } => $word,)* }
            }

            /// Its numbers.
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
    /// `recvmsg` of one part. Extra word: the flags of the message.
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
    /// `scif_recv` of nine words, the extra ones.
    ScifRecv = "scifrecv" (socket);
    /// `scif_register` of new memory. Result: the offset.
    ScifRegister = "scifreg" (socket, length);
    /// `scif_mmap`. Result: the address. [`Reset`](Call::Reset) takes it back.
    ScifMap = "scifmap" (socket, offset, length);
    /// Stores a word into the peer's queue window (simulator; elsewhere that is mapped memory).
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
    /// `st_map`; the place of the address is NULL for [`NOTHING`]. Extra word: the address.
    Map = "map" (handle, address, length);
    /// `st_unmap`. Extra word: the address.
    Unmap = "unmap" (handle, address, length);
    /// `st1_push` of the header with a number.
    Push = "push" (handle, header, local, remote, length);
    /// `st1_pull`, with a header if that is 1. Extra word: its number, -1 when it is not whole.
    Pull = "pull" (handle, header, local, remote, length);
    /// `st_tx` of the 40 bytes `w0` to `w4`; the header is NULL when `given` is 0. `payload` is a
    /// number.
    Transmit = "tx" (handle, given, w0, w1, w2, w3, w4, payload, length, buffer, offset);
    /// `st_rx`. Extra words: the header's 40 bytes, the length, the payload's number (-1: it is
    /// not whole), and whether bytes behind the payload were changed.
    Receive = "rx" (handle, given, payload);
    /// Extra words: the size of a header, and where its fields are.
    Layout = "layout" ();
    /// A push written on `st_tx` alone; memory is named by where it is in both ranges.
    Push0 = "push0" (handle, header, local, remote, length);
    /// A pull written on `st_rx` and `st_tx` alone.
    Pull0 = "pull0" (handle, header, local, remote, length);

    // ---- Many calls in a row. Extra word: the error of the last ----
    /// Pushes `count` headers, numbered from `first` on. Result: how many.
    Pushes = "pushes" (handle, first, count);
    /// Pulls `count` headers. Result: how many came in order.
    Pulls = "pulls" (handle, first, count);
    /// Rounds of headers, data and both with the other end. Result: how many. Extra words: requests
    /// to the node's driver meanwhile, milliseconds, the error.
    Rounds = "rounds" (handle, begins, count, local, remote, length);
    /// PUTs with headers, of all lengths and alignments. Result: how many.
    PutLoop = "putloop" (handle, first, count, remote);
    /// Pulls and compares them. Result: how many were right.
    GetLoop = "getloop" (handle, first, count, local);
    /// PUTs until a call fails, each with a header if that is 1. Result: how many.
    Storm = "storm" (handle, local, remote, length, header);
    /// Pulls headers until that fails, and looks at the data of each. Result: how many were right.
    Calm = "calm" (handle, local);
    /// `st_map` and `st_unmap` again and again. Result: how often.
    Maps = "maps" (handle, length, count);
    /// Locked operations on a word of the peer's range; what comes back goes to the own range's
    /// beginning, which is `local`. Result: the sum of what came. Extra words: how many, error.
    Fetches = "fetches" (handle, ahead, count, flags, local);

    /// Adds 1 to a word of the own memory.
    Adds = "adds" (address, count);

    // ---- Memory ----
    /// `malloc`, in a slot. Result: the address.
    Allocate = "alloc" (memory, length);
    /// Stores the pattern of a seed.
    Fill = "fill" (address, length, seed);
    /// Stores one value into all bytes.
    Set = "set" (address, length, value);
    /// Result: how many bytes from there on have this value.
    Same = "same" (address, length, value);
    /// Extra word: where the first byte is that is not the pattern's; -1: nowhere.
    Check = "check" (address, length, seed);
    /// Extra word: a double word.
    Load = "load" (address);
    /// Stores a double word.
    Store = "store" (address, value);
    /// Stores a word.
    Store4 = "store4" (address, value);

    // ---- The program and its node ----
    /// Extra words: what the node holds.
    Counts = "counts" ();
    /// Sets the limit on pinned pages. Extra word: what it was.
    Limit = "limit" (pages);
    /// Sets the time without a heartbeat until a node is lost. Extra word: what it was.
    Silence = "silence" (milliseconds);
    /// Waits.
    Sleep = "sleep" (milliseconds);
    /// The program dies, at once for 0.
    Die = "die" (milliseconds);
    /// A child that has inherited the socket attaches channel 0.
    Child = "child" (socket);
    /// The node's driver dies; there is no answer.
    KillDriver = "driver" ();
    /// Closes and frees everything.
    Reset = "reset" ();
}

impl Call {
    /// The call as words.
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
