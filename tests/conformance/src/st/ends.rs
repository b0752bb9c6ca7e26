//! Sockets, handles and memory of a side, and the calls on them.

use super::bench::Side;
use super::call::{Call, NOTHING};
use super::number::IPPROTO_STP;

/// A call, and the side that makes it.
pub type Ask = (Side, Call);

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The side it belongs to.
    pub side: Side,
    /// Its number at that side.
    pub slot: u64,
}

/// One end of a connection's channel: a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The side it belongs to.
    pub side: Side,
    /// Its number at that side; [`NOTHING`] for NULL.
    pub slot: u64,
    /// The connection's socket.
    pub socket: Socket,
}

/// Both ends of a connection, channel 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// A's end.
    pub a: End,
    /// B's end.
    pub b: End,
}

/// Memory at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The side it belongs to.
    pub side: Side,
    /// Its address at that side.
    pub at: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl Memory {
    /// The same memory from an offset on.
    pub const fn from(self, ahead: u64) -> Memory {
        Memory {
            at: self.at + ahead,
            length: self.length.saturating_sub(ahead),
            ..self
        }
    }

    /// The call that stores the pattern of a seed into the first bytes.
    pub const fn fill(self, length: u64, seed: u64) -> Ask {
        let address = self.at;
        (
            self.side,
            Call::Fill {
                address,
                length,
                seed,
            },
        )
    }

    /// The call that stores a value into all bytes.
    pub const fn set(self, value: u64) -> Ask {
        let Memory { at, length, side } = self;
        (
            side,
            Call::Set {
                address: at,
                length,
                value,
            },
        )
    }
}

impl End {
    /// The handle NULL at a side.
    pub const fn null(side: Side) -> End {
        let socket = Socket { side, slot: 0 };
        End {
            side,
            slot: NOTHING,
            socket,
        }
    }

    /// `st1_push` with these arguments; 0 is NULL.
    pub const fn push(self, header: Option<u64>, local: u64, remote: u64, length: i64) -> Ask {
        let header = match header {
            Some(number) => number,
            None => NOTHING,
        };
        let handle = self.slot;
        let length = length as u64;
        (
            self.side,
            Call::Push {
                handle,
                header,
                local,
                remote,
                length,
            },
        )
    }

    /// `st1_pull` with these arguments; 0 is NULL.
    pub const fn pull(self, header: bool, local: u64, remote: u64, length: i64) -> Ask {
        let (handle, header, length) = (self.slot, header as u64, length as u64);
        (
            self.side,
            Call::Pull {
                handle,
                header,
                local,
                remote,
                length,
            },
        )
    }

    /// `st_map` of own memory; of new memory if the address is 0.
    pub const fn map(self, address: u64, length: i64) -> Ask {
        let (handle, length) = (self.slot, length as u64);
        (
            self.side,
            Call::Map {
                handle,
                address,
                length,
            },
        )
    }

    /// `st_unmap`.
    pub const fn unmap(self, address: u64, length: i64) -> Ask {
        let (handle, length) = (self.slot, length as u64);
        (
            self.side,
            Call::Unmap {
                handle,
                address,
                length,
            },
        )
    }

    /// `st_fence`.
    pub const fn fence(self) -> Ask {
        let handle = self.slot;
        (self.side, Call::Fence { handle, flush: 0 })
    }

    /// `st_detach`.
    pub const fn detach(self) -> Ask {
        (self.side, Call::Detach { handle: self.slot })
    }
}

impl Socket {
    /// `close`.
    pub const fn close(self) -> Ask {
        (self.side, Call::Close { socket: self.slot })
    }

    /// `setsockopt` of an int of the level IPPROTO_STP.
    pub const fn set(self, name: u64, value: i64) -> Ask {
        let call = Call::SetOption {
            socket: self.slot,
            level: IPPROTO_STP,
            name,
            value: value as u64,
            length: 4,
        };
        (self.side, call)
    }

    /// `getsockopt` of an int of the level IPPROTO_STP.
    pub const fn get(self, name: u64) -> Ask {
        let call = Call::GetOption {
            socket: self.slot,
            level: IPPROTO_STP,
            name,
        };
        (self.side, call)
    }

    /// `send` of memory.
    pub const fn send(self, memory: Memory) -> Ask {
        let call = Call::Send {
            socket: self.slot,
            address: memory.at,
            length: memory.length,
            flags: 0,
        };
        (self.side, call)
    }

    /// `recvmsg` into memory.
    pub const fn recv(self, memory: Memory) -> Ask {
        let call = Call::Recv {
            socket: self.slot,
            address: memory.at,
            length: memory.length,
            flags: 0,
        };
        (self.side, call)
    }

    /// `getsockname`, or `getpeername`. Extra words: the address and the port.
    pub const fn name(self, of_peer: bool) -> Ask {
        let (socket, of_peer) = (self.slot, of_peer as u64);
        (self.side, Call::Name { socket, of_peer })
    }

    /// Sets or clears `O_NONBLOCK`.
    pub const fn nonblocking(self, on: bool) -> Ask {
        let (socket, on) = (self.slot, on as u64);
        (self.side, Call::Nonblocking { socket, on })
    }

    /// `st_attach` into a slot of handles.
    pub const fn attach(self, channel: i64, flags: u64, handle: u64) -> Ask {
        let call = Call::Attach {
            socket: self.slot,
            channel: channel as u64,
            flags,
            handle,
        };
        (self.side, call)
    }
}
