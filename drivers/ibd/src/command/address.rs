//! Address handles and multicast groups.

use syscall::error::{EINVAL, Result};
use verbs_abi::records as abi;
use verbs_core::address::{AddressVector, Gid, GlobalRoute};
use verbs_core::types::QpType;

use super::{Call, remove};
use crate::context::Context;
use crate::error::{fail, refused};
use crate::identity::PORT;
use crate::object::Object;
use crate::shared::{FIRST_LIBRARY_QPN, Shared};

/// The local identifiers (LIDs) of multicast groups. 0xffff, behind them, is for all ports.
const MULTICAST_LIDS: core::ops::Range<u16> = verbs_core::address::FIRST_MULTICAST_LID..0xffff;

/// `EINVAL`: the port, `sgid_index`, a LID of 0, values out of range.
pub fn create_ah(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateAh = call.request()?;
    let attributes = request.attr;
    let pd = call.context.objects.pd(request.pd_handle)?;
    let is_global = attributes.is_global != 0;
    if attributes.port_num != PORT || (is_global && attributes.sgid_index != 0) {
        return fail(EINVAL);
    }
    let vector = AddressVector {
        lid: attributes.dlid,
        service_level: attributes.sl,
        global: is_global.then_some(GlobalRoute {
            gid: attributes.dgid,
            flow_label: attributes.flow_label,
            traffic_class: attributes.traffic_class,
            hop_limit: attributes.hop_limit,
        }),
    };
    let id = call
        .context
        .engine
        .core
        .create_ah(pd, vector)
        .map_err(refused)?;
    match call.insert(Object::Ah(id)) {
        Ok(ah_handle) => {
            call.answer(&abi::CreateAhAnswer { ah_handle });
            Ok(())
        }
        Err(error) => {
            call.context.engine.core.destroy_ah(id).map_err(refused)?;
            Err(error)
        }
    }
}

pub fn destroy_ah(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DestroyAh = call.request()?;
    end_ah(call.shared, call.context, request.ah_handle)
}

pub fn end_ah(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    let id = context.objects.ah(handle)?;
    context.engine.core.destroy_ah(id).map_err(refused)?;
    remove(shared, context, handle);
    Ok(())
}

/// Reads a request about a group. `EINVAL`: the queue pair is not for datagrams, or the LID is not
/// one of a group.
fn group(call: &Call<'_>) -> Result<(abi::Multicast, u32)> {
    let request: abi::Multicast = call.request()?;
    let number = call.context.objects.qp(request.qp_handle)?.number;
    let view = call.context.engine.core.query_qp(number).map_err(refused)?;
    if view.init.kind != QpType::Ud || !MULTICAST_LIDS.contains(&request.mlid) {
        return fail(EINVAL);
    }
    Ok((request, number))
}

/// `EINVAL`: no group, or already in it by another LID. `ENOMEM`: too many groups, members or
/// memberships.
/// Attaching a second time does nothing.
pub fn attach(call: &mut Call<'_>) -> Result<()> {
    let (request, number) = group(call)?;
    let qp = call.context.objects.qp(request.qp_handle)?;
    match qp.groups.get(&request.gid) {
        Some(lid) if *lid == request.mlid => return Ok(()),
        Some(_) => return fail(EINVAL),
        None => {}
    }
    let core = &mut call.context.engine.core;
    let attached = core.attach_multicast(number, request.gid, request.mlid);
    attached.map_err(refused)?;
    if let Err(error) = call.shared.join(call.context.owner.uid) {
        let core = &mut call.context.engine.core;
        core.detach_multicast(number, request.gid)
            .map_err(refused)?;
        return Err(error);
    }
    let qp = call.context.objects.qp_mut(request.qp_handle)?;
    qp.groups.insert(request.gid, request.mlid);
    if number < FIRST_LIBRARY_QPN {
        call.context.engine.want_relay();
    }
    Ok(())
}

/// `EINVAL`: the queue pair is not in the group by this LID.
pub fn detach(call: &mut Call<'_>) -> Result<()> {
    let (request, _) = group(call)?;
    let handle = request.qp_handle;
    leave(
        call.shared,
        call.context,
        handle,
        &request.gid,
        request.mlid,
    )
}

/// Takes a queue pair out of a group.
pub fn leave(
    shared: &mut Shared,
    context: &mut Context,
    handle: u32,
    gid: &Gid,
    lid: u16,
) -> Result<()> {
    let qp = context.objects.qp_mut(handle)?;
    if qp.groups.get(gid) != Some(&lid) {
        return fail(EINVAL);
    }
    qp.groups.remove(gid);
    let number = qp.number;
    context
        .engine
        .core
        .detach_multicast(number, *gid)
        .map_err(refused)?;
    shared.leave(context.owner.uid);
    Ok(())
}
