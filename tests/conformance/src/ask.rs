//! The calls of a case as methods of a side, an endpoint or a window, and the first steps of most
//! cases.

use alloc::format;

use scif_abi::{Error, PortId};

use crate::bench::{Ask, Bench, Checked, Ep, Mem, Side};
use crate::call::Call;

/// `SCIF_ACCEPT_SYNC`.
pub const SYNC: u32 = 1;
/// `SCIF_SEND_BLOCK` and `SCIF_RECV_BLOCK`.
pub const BLOCK: u32 = 1;
/// `SCIF_PROT_READ`.
pub const READ: u32 = 1;
/// `SCIF_PROT_WRITE`.
pub const WRITE: u32 = 2;
/// `SCIF_MAP_FIXED`.
pub const FIXED: u32 = 0x10;
/// `SCIF_RMA_USECPU`.
pub const USECPU: u32 = 1;
/// `SCIF_RMA_USECACHE`.
pub const USECACHE: u32 = 2;
/// `SCIF_RMA_SYNC`.
pub const RMA_SYNC: u32 = 4;
/// `SCIF_RMA_ORDERED`.
pub const ORDERED: u32 = 8;
/// `SCIF_FENCE_INIT_SELF`.
pub const SELF: u32 = 1;
/// `SCIF_FENCE_INIT_PEER`.
pub const PEER: u32 = 2;
/// `SCIF_SIGNAL_LOCAL`.
pub const LOCAL: u32 = 0x10;
/// `SCIF_SIGNAL_REMOTE`.
pub const REMOTE: u32 = 0x20;
/// `SCIF_POLLIN`.
pub const IN: u32 = 1;
/// `SCIF_POLLOUT`.
pub const OUT: u32 = 4;
/// `SCIF_POLLERR`.
pub const ERR: u32 = 8;
/// `SCIF_POLLHUP`.
pub const HUP: u32 = 16;
/// Bytes in a page.
pub const PAGE: i64 = 4096;

macro_rules! asks {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) =
        $call:ident { $($field:ident: $value:expr),* };)*) => {
        impl Ep {
            $($(#[$doc])* pub fn $name(self, $($arg: $kind),*) -> Ask {
                let call = Call::$call { slot: self.slot, $($field: $value),* };
                Ask { side: self.side, call }
            })*
        }
    };
}

asks! {
    /// `scif_open` into this name.
    open() = Open {};
    /// Opens a file that is no endpoint into this name.
    open_file() = OpenFile {};
    /// `scif_close`.
    close() = Close {};
    /// `scif_bind`.
    bind(port: u16) = Bind { port: port };
    /// `scif_listen`.
    listen(backlog: i32) = Listen { backlog: backlog };
    /// Sets `O_NONBLOCK`.
    nonblocking() = Nonblocking { on: 1 };
    /// `scif_connect`.
    connect(to: PortId) = Connect { node: to.node(), port: to.port() };
    /// `scif_accept`.
    accept(into: Ep, flags: u32) = Accept { into: into.slot, flags: flags };
    /// `scif_send` of the pattern with seed 0 from its beginning.
    send(length: u64, flags: u32) = Send { length: length, flags: flags, seed: 0, from: 0 };
    /// `scif_send` of the pattern with seed 0 from a position.
    send_from(from: u64, length: u64, flags: u32) = Send {
        length: length, flags: flags, seed: 0, from: from
    };
    /// `scif_recv` of the pattern with seed 0 from its beginning.
    recv(length: u64, flags: u32) = Recv { length: length, flags: flags, seed: 0, from: 0 };
    /// `scif_recv` of the pattern with seed 0 from a position.
    recv_from(from: u64, length: u64, flags: u32) = Recv {
        length: length, flags: flags, seed: 0, from: from
    };
    /// `scif_register` of memory from its position `at`.
    register(memory: Mem, at: i64, length: i64, offset: i64, protection: u32, flags: u32) =
        Register {
            memory: memory.slot, at: at, length: length as u64, offset: offset,
            protection: protection, flags: flags
        };
    /// `scif_unregister`.
    unregister(offset: i64, length: i64) = Unregister { offset: offset, length: length as u64 };
    /// `scif_readfrom`.
    read_from(local: i64, length: i64, remote: i64, flags: u32) = ReadFrom {
        local: local, length: length as u64, remote: remote, flags: flags
    };
    /// `scif_writeto`.
    write_to(local: i64, length: i64, remote: i64, flags: u32) = WriteTo {
        local: local, length: length as u64, remote: remote, flags: flags
    };
    /// `scif_vreadfrom`.
    virtual_read(memory: Mem, at: i64, length: i64, remote: i64, flags: u32) = VirtualReadFrom {
        memory: memory.slot, at: at, length: length as u64, remote: remote, flags: flags
    };
    /// `scif_vwriteto`.
    virtual_write(memory: Mem, at: i64, length: i64, remote: i64, flags: u32) = VirtualWriteTo {
        memory: memory.slot, at: at, length: length as u64, remote: remote, flags: flags
    };
    /// `scif_fence_mark`.
    fence_mark(flags: u32) = FenceMark { flags: flags };
    /// `scif_fence_wait`.
    fence_wait(mark: i64) = FenceWait { mark: mark as i32 };
    /// `scif_fence_signal`.
    fence_signal(local: (i64, u64), remote: (i64, u64), flags: u32) = FenceSignal {
        local: local.0, local_value: local.1, remote: remote.0, remote_value: remote.1, flags: flags
    };
    /// `scif_mmap` into memory with this name.
    map(memory: Mem, offset: i64, length: i64, protection: u32) = Map {
        memory: memory.slot, offset: offset, length: length as u64, protection: protection
    };
    /// `scif_poll` without waiting.
    poll(events: u32) = Poll { events: events };
    /// `scif_poll` of this and another endpoint.
    poll_two(other: Ep, events: u32, timeout_ms: i32) = PollTwo {
        other: other.slot, events: events, timeout_ms: timeout_ms
    };
    /// `scif_get_pages`.
    get_pages(into: Mem, offset: i64, length: i64) = GetPages {
        into: into.slot, offset: offset, length: length as u64
    };
}

macro_rules! memory_asks {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) =
        $call:ident { $($field:ident: $value:expr),* };)*) => {
        impl Mem {
            $($(#[$doc])* pub fn $name(self, $($arg: $kind),*) -> Ask {
                let call = Call::$call { memory: self.slot, $($field: $value),* };
                Ask { side: self.side, call }
            })*
        }
    };
}

memory_asks! {
    /// Allocates the memory.
    allocate(pages: u32) = Allocate { pages: pages };
    /// Frees the memory.
    free() = Free {};
    /// Stores the pattern `seed` from its beginning.
    fill(at: i64, length: i64, seed: u64) = Fill {
        at: at, length: length as u64, seed: seed, from: 0
    };
    /// Gives the position of the first byte that differs from the pattern, -1 if none does.
    check(at: i64, length: i64, seed: u64) = Check {
        at: at, length: length as u64, seed: seed, from: 0
    };
    /// Compares as `check` does, with the pattern from a position.
    check_from(at: i64, length: i64, seed: u64, from: i64) = Check {
        at: at, length: length as u64, seed: seed, from: from as u64
    };
    /// Gives the word at a position.
    load(at: i64) = Load { at: at };
    /// Stores a word.
    store(at: i64, value: u64) = Store { at: at, value: value };
    /// `scif_munmap`.
    unmap(at: i64, length: i64) = Unmap { at: at, length: length as u64 };
}

impl Mem {
    /// `scif_put_pages` of the pages that this names.
    pub fn put_pages(self) -> Ask {
        let call = Call::PutPages { into: self.slot };
        Ask {
            side: self.side,
            call,
        }
    }
}

/// `scif_get_node_ids` by a side.
pub fn node_ids(side: Side, room: u32) -> Ask {
    let call = Call::NodeIds { room };
    Ask { side, call }
}

impl Bench<'_> {
    /// Opens an endpoint.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn open(&mut self, side: Side) -> Checked<Ep> {
        let endpoint = self.new_endpoint(side);
        self.ok(endpoint.open())?;
        Ok(endpoint)
    }

    /// Makes a bound endpoint, and returns it with its address.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn bound(&mut self, side: Side) -> Checked<(Ep, PortId)> {
        let endpoint = self.open(side)?;
        let port = self.ok(endpoint.bind(0))?;
        Ok((endpoint, self.at(side, port as u16)))
    }

    /// Makes a listener, and returns it with its address.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn listener(&mut self, side: Side, backlog: i32) -> Checked<(Ep, PortId)> {
        let (endpoint, at) = self.bound(side)?;
        self.ok(endpoint.listen(backlog))?;
        Ok((endpoint, at))
    }

    /// Finds a free port of a side's node, without a listener.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn free_port(&mut self, side: Side) -> Checked<PortId> {
        let (endpoint, at) = self.bound(side)?;
        self.ok(endpoint.close())?;
        Ok(at)
    }

    /// Accepts a connection, which must come.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn accept(&mut self, listener: Ep) -> Checked<Ep> {
        let new = self.new_endpoint(listener.side);
        self.ok(listener.accept(new, SYNC))?;
        Ok(new)
    }

    /// Makes a connection from `from` to `to`. Returns the connector and the acceptor.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn connection(&mut self, from: Side, to: Side) -> Checked<(Ep, Ep)> {
        let (listener, at) = self.listener(to, 5)?;
        let active = self.open(from)?;
        let connect = self.begin(active.connect(at))?;
        let passive = self.accept(listener)?;
        self.finish_ok(connect)?;
        self.ok(listener.close())?;
        Ok((active, passive))
    }

    /// Makes a connection from A to B.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn pair(&mut self) -> Checked<(Ep, Ep)> {
        self.connection(Side::A, Side::B)
    }

    /// Sends until the ring is full, and returns how many bytes fitted. A ring of the base
    /// protocol holds 4095 bytes, but a node may offer more.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn fill_ring(&mut self, endpoint: Ep) -> Checked<i64> {
        let mut sent = 0;
        loop {
            match self.ok(endpoint.send_from(sent as u64, 4096, 0))? {
                0 => return Ok(sent),
                count => sent += count,
            }
        }
    }

    /// Allocates memory.
    ///
    /// # Errors
    /// The errors of the allocation.
    pub fn memory(&mut self, side: Side, pages: u32) -> Checked<Mem> {
        let memory = self.new_memory(side);
        self.ok(memory.allocate(pages))?;
        Ok(memory)
    }

    /// Allocates memory, and registers all of it at a chosen offset.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn window(&mut self, ep: Ep, pages: u32, offset: i64, protection: u32) -> Checked<Mem> {
        let memory = self.memory(ep.side, pages)?;
        let length = i64::from(pages) * PAGE;
        self.gives(
            ep.register(memory, 0, length, offset, protection, FIXED),
            offset,
        )?;
        Ok(memory)
    }

    /// Checks that memory holds the pattern `seed` from its beginning.
    ///
    /// # Errors
    /// It does not.
    pub fn holds_pattern(&mut self, memory: Mem, at: i64, length: i64, seed: u64) -> Checked {
        self.gives(memory.check(at, length, seed), -1)
    }

    /// Makes `active` a connector whose request is not answered. Returns the listener with the
    /// request.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn request(&mut self, active: Ep) -> Checked<Ep> {
        let (listener, at) = self.listener(Side::B, 5)?;
        self.ok(active.nonblocking())?;
        self.in_progress(active.connect(at))?;
        Ok(listener)
    }

    /// Makes a non-blocking connect, which must give EINPROGRESS.
    ///
    /// # Errors
    /// It does not.
    pub fn in_progress(&mut self, connect: Ask) -> Checked {
        match self.call(connect)?.result {
            Err(errno) if errno == Error::InProgress.into() => Ok(()),
            result => Err(format!(
                "{:?} gave {result:?}, not EINPROGRESS",
                connect.call
            )),
        }
    }
}
