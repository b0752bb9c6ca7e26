//! Multicast groups that ids join by address.

use core::sync::atomic::{AtomicU32, Ordering};

use hal::lock::Mutex;
use scif::NodeId;
use syscall::error::EINVAL;
use verbs::address::{Gid, group_lid, group_of_ipv4, group_of_ipv6, is_group};

use super::port_space::PS_UDP;
use crate::Result;
use crate::address::{ibv_attach_mcast, ibv_detach_mcast};
use crate::types::{self, Qp};

/// C's `AF_INET`, and the bytes of its addresses.
const AF_INET: u16 = 2;
const SOCKADDR_BYTES: usize = 16;
/// C's `AF_INET6`.
pub const AF_INET6: u16 = 10;
pub const SOCKADDR6_BYTES: usize = 28;
/// The family of InfiniBand, with the bytes of its `struct sockaddr_ib`.
const AF_IB: u16 = 27;
const SOCKADDR_IB_BYTES: usize = 48;

/// The signatures of groups, for IPv4 and IPv6: those of the port space UDP, and those of IP over
/// InfiniBand.
const UDP_SIGNATURES: [u16; 2] = [0x4001, 0x6001];
const IP_SIGNATURES: [u16; 2] = [0x401b, 0x601b];
/// The signature of new groups without an IP address, as subnet managers make them.
const MADE_SIGNATURE: u16 = 0xa01b;

/// Held while an id joins or leaves, as another thread may take the event of a join meanwhile.
pub static TURN: Mutex<()> = Mutex::new(());

/// A group that an id is in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    pub gid: Gid,
    /// The address by which it was joined.
    pub name: Name,
    /// The program's context value for the group.
    pub context: usize,
    /// The id only sends to the group.
    pub is_sender: bool,
}

/// A C address in its original form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name {
    bytes: [u8; SOCKADDR_IB_BYTES],
    family: u16,
}

impl Name {
    /// Copies C's address.
    ///
    /// # Errors
    /// `EINVAL` if it is null or of another family.
    ///
    /// # Safety
    /// The pointer is null or leads to an address of its family's length.
    pub unsafe fn read(place: *const u8) -> Result<Name> {
        if place.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: the caller's promise: each address begins with its family.
        let family = unsafe { place.cast::<u16>().read_unaligned() };
        let length = match family {
            AF_INET => SOCKADDR_BYTES,
            AF_INET6 => SOCKADDR6_BYTES,
            AF_IB => SOCKADDR_IB_BYTES,
            _ => return Err(EINVAL),
        };
        let mut bytes = [0; SOCKADDR_IB_BYTES];
        // SAFETY: addresses of this family have this number of bytes, and the array no fewer.
        unsafe { place.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
        Ok(Name { bytes, family })
    }

    /// Returns the 16 bytes of an IPv6 or InfiniBand address, which are at the same place in both.
    fn long(&self) -> Gid {
        let bytes = self
            .bytes
            .get(8..24)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.unwrap_or_default()
    }

    /// Whether it is the address of a group.
    pub fn is_group(&self) -> bool {
        matches!(self.gid(PS_UDP), Ok(Some(_)))
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the group of the address; `None` if the address means any group: then a new one is
    /// made.
    ///
    /// # Errors
    /// `EINVAL` if it is not the address of a group.
    pub fn gid(&self, space: u32) -> Result<Option<Gid>> {
        let [four, six] = match space {
            PS_UDP => UDP_SIGNATURES,
            _ => IP_SIGNATURES,
        };
        if self.family == AF_INET {
            let [.., a, b, c, d] = self.bytes.first_chunk::<8>().copied().unwrap_or_default();
            return match u32::from_be_bytes([a, b, c, d]) {
                0 => Ok(None),
                address if address >> 28 == 0xe => Ok(Some(group_of_ipv4(address, four))),
                _ => Err(EINVAL),
            };
        }
        let long = self.long();
        match self.family {
            _ if long == [0; 16] => Ok(None),
            _ if !is_group(&long) => Err(EINVAL),
            AF_INET6 if !is_made(&long) => Ok(Some(group_of_ipv6(&long, six))),
            _ => Ok(Some(long)),
        }
    }
}

/// Whether an identifier is of the kind that [`make`] makes.
fn is_made(gid: &Gid) -> bool {
    gid[1] & 0xf0 == 0x10 && gid[2..4] == MADE_SIGNATURE.to_be_bytes()
}

/// Makes the identifier of a new group, different from all others made on any node.
///
/// # Errors
/// That of asking for the process's number.
pub fn make(node: NodeId) -> Result<Gid> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let [high, low] = split(LAST.fetch_add(1, Ordering::Relaxed));
    let mut gid = group_of_ipv4(0, MADE_SIGNATURE);
    let pid = libredox::call::getpid().map_err(|error| error.errno())? as u32;
    gid[6..8].copy_from_slice(&high);
    gid[8..10].copy_from_slice(&node.to_be_bytes());
    gid[10..14].copy_from_slice(&pid.to_be_bytes());
    gid[14..].copy_from_slice(&low);
    Ok(gid)
}

/// Splits a number into its upper and lower half, big endian.
fn split(number: u32) -> [[u8; 2]; 2] {
    let [a, b, c, d] = number.to_be_bytes();
    [[a, b], [c, d]]
}

impl Group {
    /// Attaches the queue pair, unless it is null or the id only sends to the group.
    ///
    /// # Errors
    /// Those of `ibv_attach_mcast`.
    pub fn enter(&self, qp: *const Qp) -> Result<()> {
        if qp.is_null() || self.is_sender {
            return Ok(());
        }
        match ibv_attach_mcast(qp, &types::Gid(self.gid), group_lid(&self.gid)) {
            0 => Ok(()),
            number => Err(number),
        }
    }

    /// Detaches the queue pair from the group.
    pub fn leave(&self, qp: *const Qp) {
        if !qp.is_null() && !self.is_sender {
            // It may not be attached, if the program has not taken the event.
            let _ = ibv_detach_mcast(qp, &types::Gid(self.gid), group_lid(&self.gid));
        }
    }
}
