//! Shared receive queues, and domains of extended reliable connections.

use alloc::boxed::Box;
use core::ffi::{c_int, c_void};

use syscall::error::{EAGAIN, EBADF, EINVAL, EOPNOTSUPP};
use syscall::flag::{O_CREAT, O_EXCL};
use verbs::Xrc;
use verbs::table::Id;

use crate::place::get;
use crate::types::{Context, EventCounts, Pd, Srq, SrqAttr, SrqInitAttr, SrqInitAttrEx};
use crate::{Result, errno_of, number, object};

/// `struct ibv_xrcd`.
#[repr(C)]
pub struct Xrcd {
    context: *mut Context,
    pub id: Id,
}

/// `struct ibv_xrcd_init_attr`.
#[repr(C)]
pub struct XrcdInitAttr {
    comp_mask: u32,
    fd: c_int,
    flags: c_int,
}

fn open_xrcd(context: *mut Context, attr: *const XrcdInitAttr) -> Result<Xrcd> {
    // SAFETY: a context of ours and the caller's structure.
    let (of, attr) = unsafe { (get(context)?, get(attr)?) };
    let (creates, is_new) = (attr.flags & O_CREAT as c_int, attr.flags & O_EXCL as c_int);
    // Both fields are required.
    if attr.comp_mask != 0b11 || attr.flags != creates | is_new {
        return Err(EINVAL);
    }
    let id = match attr.fd {
        NO_FILE if creates == 0 => return Err(EINVAL),
        NO_FILE => of.raw.open_xrcd().map_err(errno_of)?,
        fd => open_by_file(of, fd, creates != 0, is_new != 0)?,
    };
    Ok(Xrcd { context, id })
}

/// The descriptor of no file: the domain is new.
const NO_FILE: c_int = -1;

/// Opens the domain of a file in this context.
///
/// # Errors
/// `EBADF`: no file. `EAGAIN`: it has no domain, and none shall be made. `EINVAL`: it has one, and
/// a new one was to be made.
fn open_by_file(of: &Context, fd: c_int, creates: bool, is_new: bool) -> Result<Id> {
    let fd = usize::try_from(fd).map_err(|_| EBADF)?;
    let stat = runtime::fd::fstat(fd).map_err(|error| error.errno)?;
    let file = (stat.st_dev, stat.st_ino);
    let mut domains = of.file_domains.lock();
    if let Some((_, id, users)) = domains.iter_mut().find(|(of, ..)| *of == file) {
        if is_new {
            return Err(EINVAL);
        }
        *users += 1;
        return Ok(*id);
    }
    if !creates {
        return Err(EAGAIN);
    }
    let id = of.raw.open_xrcd().map_err(errno_of)?;
    domains.push((file, id, 1));
    Ok(id)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_xrcd(context: *mut Context, attr: *const XrcdInitAttr) -> *mut Xrcd {
    object(open_xrcd(context, attr))
}

fn close_xrcd(xrcd: *mut Xrcd) -> Result<()> {
    // SAFETY: a domain of ours, and its context.
    let (of, context) = unsafe {
        let of = get(xrcd)?;
        (of, get(of.context)?)
    };
    let mut domains = context.file_domains.lock();
    match domains.iter_mut().find(|(_, id, _)| *id == of.id) {
        Some((.., users)) if *users > 1 => *users -= 1,
        _ => {
            context.raw.close_xrcd(of.id).map_err(errno_of)?;
            domains.retain(|(_, id, _)| *id != of.id);
        }
    }
    drop(domains);
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(xrcd)) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_close_xrcd(xrcd: *mut Xrcd) -> c_int {
    number(close_xrcd(xrcd))
}

// ---- Shared receive queues ----

fn create(pd: *mut Pd, attr: &SrqInitAttr, xrc: Option<Xrc>) -> Result<*mut Srq> {
    // SAFETY: a domain of ours and its context.
    let (domain, context) = unsafe {
        let domain = get(pd)?;
        (domain, get(domain.context)?)
    };
    // The queue's address identifies it in its events, so its memory is allocated first.
    let mut srq = Box::new(Srq {
        context: domain.context,
        srq_context: attr.srq_context,
        pd,
        handle: 0,
        id: Id(0),
        events: EventCounts::default(),
    });
    let word = (&raw const *srq).expose_provenance() as u64;
    // A queue of 0 receives, or of 0 segments, could hold nothing: at least 1 is granted.
    let sizes = (attr.attr.max_wr.max(1), attr.attr.max_sge.max(1));
    // As with rdma-core the attributes' limit has no meaning here.
    let limit = 0;
    let made = match xrc {
        None => context.raw.create_srq(domain.id(), sizes, limit, word),
        Some(xrc) => {
            let of = (domain.id(), xrc);
            context.raw.create_xrc_srq(of, sizes, limit, word)
        }
    };
    srq.id = made.map_err(errno_of)?;
    srq.handle = srq.id.0;
    domain.join();
    Ok(Box::into_raw(srq))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_srq(pd: *mut Pd, attr: *mut SrqInitAttr) -> *mut Srq {
    // SAFETY: the caller's structure.
    let created = unsafe { get(attr) }.and_then(|attr| create(pd, attr, None));
    created.unwrap_or_else(crate::none)
}

/// `enum ibv_srq_init_attr_mask` and `enum ibv_srq_type`.
const TYPE: u32 = SrqInitAttrEx::WITH_TYPE;
const PD: u32 = SrqInitAttrEx::WITH_PD;
const XRC_BITS: u32 = 4 | 8;
const BASIC: u32 = SrqInitAttrEx::BASIC;
const XRC: u32 = 1;

fn create_extended(attr: *mut SrqInitAttrEx) -> Result<*mut Srq> {
    // SAFETY: the caller's structure.
    let of = unsafe { get(attr)? };
    let kind = if of.comp_mask & TYPE == 0 {
        BASIC
    } else {
        of.srq_type
    };
    if of.comp_mask & PD == 0 {
        return Err(EINVAL);
    }
    let base = SrqInitAttr {
        srq_context: of.srq_context,
        attr: of.attr,
    };
    match kind {
        BASIC => create(of.pd, &base, None),
        XRC if of.comp_mask & XRC_BITS == XRC_BITS => {
            // SAFETY: a domain and a completion queue of ours.
            let (domain, cq) = unsafe { (get(of.xrcd.cast::<Xrcd>())?, get(of.cq)?) };
            let xrc = Xrc {
                domain: domain.id,
                cq: cq.id,
            };
            create(of.pd, &base, Some(xrc))
        }
        XRC => Err(EINVAL),
        _ => Err(EOPNOTSUPP),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_srq_ex(_context: *mut Context, attr: *mut SrqInitAttrEx) -> *mut Srq {
    create_extended(attr).unwrap_or_else(crate::none)
}

/// Returns a shared receive queue and its context.
///
/// # Errors
/// `EINVAL` if it is null.
pub fn find<'a>(srq: *const Srq) -> Result<(&'a Srq, &'a Context)> {
    // SAFETY: a queue of ours, whose context lives as long.
    unsafe {
        let srq = get(srq)?;
        Ok((srq, get(srq.context)?))
    }
}

const MAX_WR: c_int = 1;
const LIMIT: c_int = 2;

fn modify(srq: *mut Srq, attr: *const SrqAttr, mask: c_int) -> Result<()> {
    let (of, context) = find(srq)?;
    // SAFETY: the caller's structure.
    let attr = unsafe { get(attr)? };
    if mask & !(MAX_WR | LIMIT) != 0 {
        return Err(EINVAL);
    }
    let max_wr = (mask & MAX_WR != 0).then_some(attr.max_wr);
    let limit = (mask & LIMIT != 0).then_some(attr.srq_limit);
    let modified = context.raw.modify_srq(of.id, max_wr, limit);
    modified.map_err(errno_of)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_modify_srq(srq: *mut Srq, attr: *const SrqAttr, mask: c_int) -> c_int {
    number(modify(srq, attr, mask))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_srq(srq: *mut Srq, to: *mut SrqAttr) -> c_int {
    let found = find(srq).and_then(|(of, context)| {
        let (max_wr, max_sge, srq_limit) = context.raw.query_srq(of.id).map_err(errno_of)?;
        let found = SrqAttr {
            max_wr,
            max_sge,
            srq_limit,
        };
        // SAFETY: the caller's place.
        unsafe { to.write(found) };
        Ok(())
    });
    number(found)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_srq_num(srq: *mut Srq, to: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    number(find(srq).map(|(of, _)| unsafe { to.write(of.id.0) }))
}

fn destroy(srq: *mut Srq) -> Result<()> {
    let (of, context) = find(srq)?;
    context.raw.destroy_srq(of.id).map_err(errno_of)?;
    of.events.wait_acknowledged();
    // SAFETY: the queue's domain, which lives as long as it has the queue.
    unsafe { Pd::leave(of.pd) };
    // SAFETY: made by `create`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(srq)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_srq(srq: *mut Srq) -> c_int {
    number(destroy(srq))
}

/// Not supported: two programs cannot share a queue pair.
#[unsafe(no_mangle)]
extern "C" fn ibv_open_qp(_context: *mut Context, _attr: *const c_void) -> *mut c_void {
    crate::none(EOPNOTSUPP)
}
