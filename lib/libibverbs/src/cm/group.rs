//! Groups of receivers that ids join by address.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use syscall::error::{EADDRNOTAVAIL, EINVAL, EOPNOTSUPP};
use verbs::address::{Gid, MULTICAST_QPN, group_lid, group_of_ipv4, group_of_ipv6, is_group};

use super::event::Awaited;
use super::id::with;
use super::link::{self, LinkEvent, LinkEventKind, Target};
use super::structures::{
    AF_INET6, Id, PS_UDP, SOCKADDR6_BYTES, Storage, UD, UdParam, own_node, qkey,
};
use crate::address::{ibv_attach_mcast, ibv_detach_mcast};
use crate::place::get;
use crate::types::{self, AhAttr};
use crate::{Result, minus_one};

/// C's `AF_INET`, and that of InfiniBand with its `struct sockaddr_ib`.
const AF_INET: u16 = 2;
const AF_IB: u16 = 27;
const SOCKADDR_BYTES: usize = 16;
const SOCKADDR_IB_BYTES: usize = 48;

/// `enum rdma_cm_join_mc_attr_mask`: both must be said, and there are no others.
const MASK_ADDRESS: u32 = 1 << 0;
const MASK_FLAGS: u32 = 1 << 1;
/// `enum rdma_cm_mc_join_flags`.
const MEMBER: u32 = 0;
const SENDER_ONLY: u32 = 1;

/// The signatures of groups, by version of IP: those of the port space UDP, and of IP over
/// InfiniBand.
const UDP_SIGNATURES: [u16; 2] = [0x4001, 0x6001];
const IP_SIGNATURES: [u16; 2] = [0x401b, 0x601b];
/// Of groups that are made for an id and have no address of IP, as subnet managers make them.
const MADE_SIGNATURE: u16 = 0xa01b;

/// A group that an id is in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    pub gid: Gid,
    /// The address by which it was joined.
    name: Name,
    /// The program's word for it.
    context: usize,
    /// It receives nothing.
    is_sender: bool,
}

/// `struct rdma_cm_join_mc_attr_ex`.
#[repr(C)]
pub struct JoinAttr {
    comp_mask: u32,
    join_flags: u32,
    addr: *const Storage,
}

/// An address of C's as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Name {
    bytes: [u8; SOCKADDR_IB_BYTES],
    family: u16,
}

impl Name {
    /// # Errors
    /// `EINVAL`: none, or of another family.
    ///
    /// # Safety
    /// The pointer is null or leads to an address of its family's length.
    unsafe fn read(place: *const Storage) -> Result<Name> {
        if place.is_null() {
            return Err(EINVAL);
        }
        let place = place.cast::<u8>();
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

    /// The 16 bytes of an address of IPv6 or InfiniBand, which stand at the same place.
    fn long(&self) -> Gid {
        let bytes = self.bytes.get(8..24).and_then(|bytes| bytes.try_into().ok());
        bytes.unwrap_or_default()
    }

    /// The group that it stands for; `None`: any, so one is to be made.
    ///
    /// # Errors
    /// `EINVAL`: it is no group's.
    fn gid(&self, space: u32) -> Result<Option<Gid>> {
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
            AF_INET6 if long[2..4] != MADE_SIGNATURE.to_be_bytes() => {
                Ok(Some(group_of_ipv6(&long, six)))
            }
            _ => Ok(Some(long)),
        }
    }
}

/// A group that nobody else has.
fn make() -> Result<Gid> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let count = LAST.fetch_add(1, Ordering::Relaxed) as u16;
    let mut gid = group_of_ipv4(0, MADE_SIGNATURE);
    let pid = libredox::call::getpid().map_err(|error| error.errno())? as u32;
    gid[8..10].copy_from_slice(&own_node()?.to_be_bytes());
    gid[10..14].copy_from_slice(&pid.to_be_bytes());
    gid[14..].copy_from_slice(&count.to_be_bytes());
    Ok(gid)
}

impl Group {
    /// Has the queue pair of an id receive what is sent to the group, if it has one, and shall.
    ///
    /// # Errors
    /// Those of `ibv_attach_mcast`.
    fn enter(&self, id: &Id) -> Result<()> {
        if id.qp.is_null() || self.is_sender {
            return Ok(());
        }
        match ibv_attach_mcast(id.qp, &types::Gid(self.gid), group_lid(&self.gid)) {
            0 => Ok(()),
            number => Err(number),
        }
    }

    fn leave(&self, id: &Id) {
        if !id.qp.is_null() && !self.is_sender {
            // It may not be in the group, if the program has not taken the event.
            let _ = ibv_detach_mcast(id.qp, &types::Gid(self.gid), group_lid(&self.gid));
        }
    }

    /// Where datagrams for the group go.
    fn param(&self, id: &Id) -> UdParam {
        UdParam {
            private_data: core::ptr::with_exposed_provenance(self.context),
            private_data_len: 0,
            ah_attr: AhAttr {
                dgid: types::Gid(self.gid),
                dlid: group_lid(&self.gid),
                hop_limit: 1,
                is_global: 1,
                port_num: id.port_num,
                ..AhAttr::default()
            },
            qp_num: MULTICAST_QPN,
            qkey: qkey(id.ps),
        }
    }
}

/// What the event of a join does; how the id's peers are reached, and whether it went well.
pub fn joined(id: &Id, group: &Group) -> (UdParam, Result<()>) {
    (group.param(id), group.enter(id))
}

impl Id {
    fn join(&mut self, name: Name, is_sender: bool, context: usize) -> Result<()> {
        if self.verbs.is_null() || self.qp_type != UD {
            return Err(EINVAL);
        }
        let gid = match name.gid(self.ps)? {
            Some(gid) => gid,
            None => make()?,
        };
        let group = Group {
            gid,
            name,
            context,
            is_sender,
        };
        self.groups.push(group.clone());
        self.link_events()?.push(LinkEvent {
            target: Target::Id(self.place()),
            kind: LinkEventKind::Joined(group),
        });
        Ok(())
    }

    fn leave(&mut self, name: Name) -> Result<()> {
        let found = self.groups.iter().position(|group| group.name == name);
        let group = self.groups.remove(found.ok_or(EADDRNOTAVAIL)?);
        link::forget_group(self.place(), &group.gid, self.link_events()?);
        group.leave(self);
        Ok(())
    }

    /// Leaves all groups.
    pub fn leave_all(&mut self) {
        for group in core::mem::take(&mut self.groups) {
            group.leave(self);
        }
    }
}

fn join(id: *mut Id, to: *const Storage, is_sender: bool, context: *mut c_void) -> c_int {
    with(id, Some(Awaited::Answer), |id| {
        // SAFETY: the caller's address.
        let name = unsafe { Name::read(to)? };
        id.join(name, is_sender, context.expose_provenance())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast(
    id: *mut Id,
    to: *const Storage,
    context: *mut c_void,
) -> c_int {
    join(id, to, false, context)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast_ex(
    id: *mut Id,
    attr: *const JoinAttr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's structure.
    let attr = match unsafe { get(attr) } {
        Ok(attr) => attr,
        Err(number) => return minus_one(Err(number)),
    };
    if attr.comp_mask & !(MASK_ADDRESS | MASK_FLAGS) != 0 {
        return minus_one(Err(EOPNOTSUPP));
    }
    let is_whole = attr.comp_mask == MASK_ADDRESS | MASK_FLAGS;
    match attr.join_flags {
        MEMBER if is_whole => join(id, attr.addr, false, context),
        SENDER_ONLY if is_whole => join(id, attr.addr, true, context),
        _ => minus_one(Err(EINVAL)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_leave_multicast(id: *mut Id, to: *const Storage) -> c_int {
    with(id, None, |id| {
        // SAFETY: the caller's address.
        let name = unsafe { Name::read(to)? };
        id.leave(name)
    })
}
