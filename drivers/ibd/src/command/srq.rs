//! Shared receive queues and XRC domains.

use syscall::error::{EBADF, EINVAL, EOPNOTSUPP, Result};
use syscall::flag::{O_CREAT, O_EXCL};
use verbs_abi::records as abi;
use verbs_core::srq::Xrc;

use super::{Call, release_slots, remove};
use crate::context::Context;
use crate::error::{fail, refused};
use crate::object::{Object, Srq};
use crate::shared::Shared;

/// Types of shared receive queues.
const BASIC: u32 = 0;
const XRC: u32 = 1;

/// The descriptor in a request for an XRC domain without a file.
const NO_FILE: i32 = -1;

/// The properties of the shared receive queue that a request asks for.
struct Wanted {
    user_handle: u64,
    pd: u32,
    xrc: Option<Xrc>,
    max_wr: u32,
    max_sge: u32,
    limit: u32,
}

/// `EINVAL`: sizes. `ENOMEM`.
fn create(call: &mut Call<'_>, wanted: &Wanted) -> Result<()> {
    let pd = call.context.objects.pd(wanted.pd)?;
    let core = &mut call.context.engine.core;
    let (max_wr, max_sge) = (wanted.max_wr, wanted.max_sge);
    let id = match wanted.xrc {
        Some(xrc) => core.create_xrc_srq(pd, xrc, max_wr, max_sge, wanted.limit),
        None => core.create_srq(pd, max_wr, max_sge, wanted.limit),
    };
    let id = id.map_err(refused)?;
    let slots = u64::from(wanted.max_wr) * u64::from(wanted.max_sge);
    let inserted = call.charge_slots(slots).and_then(|()| {
        let srq = Srq {
            id,
            user_handle: wanted.user_handle,
            pd: wanted.pd,
            slots,
            report: abi::SrqReport::default(),
        };
        let inserted = call.insert(Object::Srq(srq));
        if inserted.is_err() {
            call.release_slots(slots);
        }
        inserted
    });
    match inserted {
        Ok(srq_handle) => {
            call.answer(&abi::CreateSrqAnswer {
                srq_handle,
                max_wr: wanted.max_wr,
                max_sge: wanted.max_sge,
                srqn: id.0,
            });
            Ok(())
        }
        Err(error) => {
            call.context.engine.core.destroy_srq(id).map_err(refused)?;
            Err(error)
        }
    }
}

pub fn create_srq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateSrq = call.request()?;
    let wanted = Wanted {
        user_handle: request.user_handle,
        pd: request.pd_handle,
        xrc: None,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        limit: request.srq_limit,
    };
    create(call, &wanted)
}

/// Creates a shared receive queue by its newer request, also one for an XRC domain. `EOPNOTSUPP`:
/// other types.
pub fn create_xsrq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateXsrq = call.request()?;
    let objects = &call.context.objects;
    let xrc = match request.srq_type {
        BASIC => None,
        XRC => {
            objects.pd(request.pd_handle)?;
            Some(Xrc {
                domain: objects.xrcd(request.xrcd_handle)?,
                cq: objects.cq(request.cq_handle)?.id,
            })
        }
        _ => return fail(EOPNOTSUPP),
    };
    let wanted = Wanted {
        user_handle: request.user_handle,
        pd: request.pd_handle,
        xrc,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        limit: request.srq_limit,
    };
    create(call, &wanted)
}

/// `EINVAL`: unknown bits of the mask, a limit above the size, a size that is too small for the
/// limit or for the posted receives. `ENOMEM`. An error changes nothing.
pub fn modify_srq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ModifySrq = call.request()?;
    let srq = *call.context.objects.srq(request.srq_handle)?;
    if request.attr_mask & !(abi::SRQ_MAX_WR | abi::SRQ_LIMIT) != 0 {
        return fail(EINVAL);
    }
    let max_wr = (request.attr_mask & abi::SRQ_MAX_WR != 0).then_some(request.max_wr);
    let limit = (request.attr_mask & abi::SRQ_LIMIT != 0).then_some(request.srq_limit);
    let core = &call.context.engine.core;
    let (_, max_sge, _) = core.srq(srq.id).map_err(refused)?.query();
    let slots = max_wr.map_or(srq.slots, |max_wr| u64::from(max_wr) * u64::from(max_sge));
    // Charges only the growth, so that a user at the limit can shrink a queue.
    let more = slots.saturating_sub(srq.slots);
    call.charge_slots(more)?;
    let core = &mut call.context.engine.core;
    if let Err(error) = core.modify_srq(srq.id, max_wr, limit) {
        call.release_slots(more);
        return Err(refused(error));
    }
    call.release_slots(srq.slots.saturating_sub(slots));
    call.context.objects.srq_mut(request.srq_handle)?.slots = slots;
    Ok(())
}

pub fn query_srq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::QuerySrq = call.request()?;
    let id = call.context.objects.srq(request.srq_handle)?.id;
    let queue = call.context.engine.core.srq(id).map_err(refused)?;
    let (max_wr, max_sge, srq_limit) = queue.query();
    call.answer(&abi::QuerySrqAnswer {
        max_wr,
        max_sge,
        srq_limit,
        reserved: 0,
    });
    Ok(())
}

/// `EBUSY`: a queue pair uses it.
pub fn destroy_srq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DestroySrq = call.request()?;
    let events_reported = end_srq(call.shared, call.context, request.srq_handle)?;
    call.answer(&abi::DestroySrqAnswer { events_reported });
    Ok(())
}

/// Destroys a shared receive queue. Returns how many of its events were read.
pub fn end_srq(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<u32> {
    let Srq { id, slots, .. } = *context.objects.srq(handle)?;
    context.engine.core.destroy_srq(id).map_err(refused)?;
    remove(shared, context, handle);
    release_slots(shared, context, slots);
    let (_, events) = context.forget_events(handle, None);
    Ok(events)
}

/// `EBADF`: a file was given, but the daemon does not see the program's descriptors. `EINVAL`:
/// unknown flags, or no file and no `O_CREAT`.
pub fn open_xrcd(call: &mut Call<'_>) -> Result<()> {
    let request: abi::OpenXrcd = call.request()?;
    let flags = request.oflags as usize;
    if flags & !(O_CREAT | O_EXCL) != 0 {
        return fail(EINVAL);
    }
    if request.fd != NO_FILE {
        return fail(EBADF);
    }
    if flags & O_CREAT == 0 {
        return fail(EINVAL);
    }
    let xrcd = call.context.engine.core.open_xrcd().map_err(refused)?;
    match call.insert(Object::Xrcd(xrcd)) {
        Ok(xrcd_handle) => {
            call.answer(&abi::OpenXrcdAnswer { xrcd_handle });
            Ok(())
        }
        Err(error) => {
            call.context.engine.core.close_xrcd(xrcd).map_err(refused)?;
            Err(error)
        }
    }
}

/// `EBUSY`: a queue pair or a shared receive queue belongs to it.
pub fn close_xrcd(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CloseXrcd = call.request()?;
    end_xrcd(call.shared, call.context, request.xrcd_handle)
}

pub fn end_xrcd(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    let xrcd = context.objects.xrcd(handle)?;
    context.engine.core.close_xrcd(xrcd).map_err(refused)?;
    remove(shared, context, handle);
    Ok(())
}
