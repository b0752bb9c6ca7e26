//! `rdma_join_multicast` and its kin.

use core::ffi::{c_int, c_void};

use syscall::error::{EADDRNOTAVAIL, EINVAL, EOPNOTSUPP};

use super::event::Awaited;
use super::group::{self, Group, Name};
use super::id::with;
use super::link::{self, LinkEvent, LinkEventKind, Target};
use super::port_space::UD;
use super::structures::{Id, Storage, own_node};
use crate::place::get;
use crate::{Result, minus_one};

/// `enum rdma_cm_join_mc_attr_mask`: both are required, and there are no others.
const MASK_ADDRESS: u32 = 1 << 0;
const MASK_FLAGS: u32 = 1 << 1;
/// `enum rdma_cm_mc_join_flags`.
const MEMBER: u32 = 0;
const SENDER_ONLY: u32 = 1;

/// `struct rdma_cm_join_mc_attr_ex`.
#[repr(C)]
pub struct JoinAttr {
    comp_mask: u32,
    join_flags: u32,
    addr: *const Storage,
}

impl Id {
    fn join(&mut self, name: Name, is_sender: bool, context: usize) -> Result<()> {
        if self.verbs.is_null() || self.qp_type != UD {
            return Err(EINVAL);
        }
        let gid = match name.gid(self.ps)? {
            Some(gid) => gid,
            None => group::make(own_node()?)?,
        };
        let group = Group {
            gid,
            name,
            context,
            is_sender,
        };
        let _turn = group::TURN.lock();
        self.groups.push(group.clone());
        self.link_events()?.push(LinkEvent {
            target: Target::Id(self.place()),
            kind: LinkEventKind::Joined(group),
        });
        Ok(())
    }

    fn leave(&mut self, name: Name) -> Result<()> {
        let _turn = group::TURN.lock();
        let found = self.groups.iter().position(|group| group.name == name);
        let group = self.groups.remove(found.ok_or(EADDRNOTAVAIL)?);
        link::forget_group(self.place(), &group, self.link_events()?);
        group.leave(self.qp);
        Ok(())
    }
}

fn join(id: *mut Id, to: *const Storage, is_sender: bool, context: *mut c_void) -> c_int {
    with(id, Some(Awaited::Answer), |id| {
        // SAFETY: the caller's address.
        let name = unsafe { Name::read(to.cast())? };
        id.join(name, is_sender, context.expose_provenance())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast(id: *mut Id, to: *const Storage, context: *mut c_void) -> c_int {
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
        let name = unsafe { Name::read(to.cast())? };
        id.leave(name)
    })
}
