//! Messages by `scif_send` and `scif_recv` of the client library, as programs in Rust and in C
//! send and receive them. This module answers the library's few system calls in place of `micd`;
//! once the rings are mapped, messages need none.

use std::sync::atomic::{AtomicBool, Ordering};

use hal::testing::host::{self, Request};
use scif::bypass::{Bypass, Waiting};
use scif_abi::PortId;
use scif_abi::bypass::Part;
use scif_abi::call::Call;
use scif_abi::codec::Operation;
use scif_abi::flags::{RecvFlags, SendFlags};
use syscall::data::GrantFlags;
use syscall::error::{EINVAL, Error, Result as SystemResult};
use syscall::flag::F_DUPFD;
use zerocopy::IntoBytes;

use crate::Failure;
use crate::memory::Node;
use crate::messages::Messages;
use crate::rings::Handle;

/// The descriptors of an endpoint and of its bypass handle.
pub const ENDPOINT: usize = 3;
const BYPASS: usize = 4;
/// The descriptor of the program's address space.
const SPACE: usize = 5;
/// The port of both ends, for programs that query it.
const PORT: u16 = 2050;

/// The calls of a language.
pub trait Calls: Sized + Sync {
    /// Makes the library map the rings of an endpoint.
    fn open() -> Result<Self, i32>;

    /// Runs before any calls.
    fn begin() {}

    /// `scif_send`.
    fn send(&self, message: &[u8], flags: u32) -> Result<usize, i32>;

    /// `scif_recv`.
    fn recv(&self, buffer: &mut [u8], flags: u32) -> Result<usize, i32>;
}

/// An end of the connection, whose rings the library has mapped.
pub struct Client<C = Rust> {
    calls: C,
    system: System,
}

/// The calls of Rust programs.
pub struct Rust(Bypass);

impl Calls for Rust {
    fn open() -> Result<Self, i32> {
        let bypass = Bypass::new();
        bypass.set_waiting(Waiting::Poll);
        bypass.prepare(ENDPOINT)?;
        Ok(Self(bypass))
    }

    #[inline]
    fn send(&self, message: &[u8], flags: u32) -> Result<usize, i32> {
        self.0.send(ENDPOINT, message, flags)
    }

    #[inline]
    fn recv(&self, buffer: &mut [u8], flags: u32) -> Result<usize, i32> {
        self.0.recv(ENDPOINT, buffer, flags)
    }
}

/// The answers of `micd`.
#[derive(Clone, Copy)]
pub struct System {
    handle: Handle,
    own: PortId,
    peer: PortId,
}

impl System {
    /// Makes the system of a program that has this node's end of the connection.
    pub fn new(node: &mut Node, peer: &Node) -> Result<Self, Failure> {
        Ok(Self {
            handle: Handle::open(node, peer)?,
            own: PortId::new(peer.peer, PORT),
            peer: PortId::new(node.peer, PORT),
        })
    }

    /// Answers a request.
    pub fn answer(&self, request: Request<'_>) -> SystemResult<usize> {
        let refused = Error::new(EINVAL);
        match request {
            Request::Dup(_, b"bypass") => Ok(BYPASS),
            Request::Dup(_, b"addrspace") => Ok(SPACE),
            Request::Read(SPACE, buffer) => Ok(list_everything(buffer)),
            // A copy of a descriptor can have its number here: nothing is closed in this place.
            Request::Control(fd, F_DUPFD, _) => Ok(fd),
            Request::Control(..) | Request::Close(_) | Request::Unmap(..) => Ok(0),
            Request::Map {
                fd: BYPASS, offset, ..
            } => {
                let part = Part::at(offset).and_then(|part| self.handle.part(part));
                part.map(|(address, _)| address).ok_or(refused)
            }
            Request::Call(_, payload, [number, first, second]) => {
                match Call::decode(*number, [*first, *second], payload) {
                    Ok(Call::LocalPort) => Ok(word(self.own)),
                    Ok(Call::PeerPort) => Ok(word(self.peer)),
                    Ok(Call::BypassInfo { .. }) => {
                        payload.copy_from_slice(self.handle.record.as_bytes());
                        Ok(0)
                    }
                    // This call checks whether the daemon still has the connection.
                    Ok(Call::Kick { kicks: 0 }) => Ok(0),
                    _ => Err(refused),
                }
            }
            _ => Err(refused),
        }
    }
}

/// Returns the list of the program's mappings: where Linux puts programs and their heaps, and
/// where it puts other memory. The library remembers at most 2 TiB of memory in a row.
fn list_everything(buffer: &mut [u8]) -> usize {
    const TEBI: usize = 1 << 40;
    let rights = GrantFlags::GRANT_READ | GrantFlags::GRANT_WRITE;
    let grant = |start: usize| [start * TEBI, 2 * TEBI, rights.bits(), 0];
    let grants = [0, 0x55, 0x7e].map(grant);
    let bytes = grants.as_bytes();
    buffer[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

/// Returns an address as `micd` does in its answers.
fn word(port: PortId) -> usize {
    usize::from(port.node()) << 16 | usize::from(port.port())
}

fn failed(what: &str) -> impl Fn(i32) -> Failure {
    move |number| format!("{what}: error {number}").into()
}

impl<C: Calls> Messages for Client<C> {
    fn open(node: &mut Node, peer: &Node) -> Result<Self, Failure> {
        let system = System::new(node, peer)?;
        let calls = host::play(move |request| system.answer(request), C::open);
        let calls = calls.map_err(failed("mapping the rings"))?;
        Ok(Self { calls, system })
    }

    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let system = self.system;
        C::begin();
        host::play(move |request| system.answer(request), work)
    }

    #[inline]
    fn send(&self, message: &[u8]) -> Result<(), Failure> {
        let sent = self.calls.send(message, SendFlags::BLOCK.bits());
        match sent.map_err(failed("scif_send"))? {
            count if count == message.len() => Ok(()),
            count => Err(format!("scif_send took {count} bytes").into()),
        }
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8], stop: Option<&AtomicBool>) -> Result<bool, Failure> {
        let recv = |buffer: &mut [u8], flags| {
            let count = self.calls.recv(buffer, flags);
            count.map_err(failed("scif_recv"))
        };
        let Some(stop) = stop else {
            let count = recv(buffer, RecvFlags::BLOCK.bits())?;
            return Ok(count == buffer.len());
        };
        let (mut got, mut is_last_look) = (0, false);
        while got < buffer.len() {
            let count = recv(&mut buffer[got..], 0)?;
            if count == 0 {
                if is_last_look {
                    return Ok(false);
                }
                // Bytes sent before the sender stopped are there now.
                is_last_look = stop.load(Ordering::Acquire);
            }
            got += count;
        }
        Ok(true)
    }

    #[inline]
    fn look(&self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let count = self.calls.recv(buffer, 0);
        count.map_err(failed("scif_recv"))
    }
}
