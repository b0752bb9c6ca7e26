//! Protection domains, memory regions and memory windows.

use client_memory::borrow::Wanted;
use syscall::error::{EBUSY, EFAULT, EINVAL, Result};
use verbs::engine::Engine;
use verbs::raw::Backing;
use verbs_abi::command::Command;
use verbs_abi::frame::Frame;
use verbs_abi::records as abi;
use verbs_core::keys::{self, Region, WindowType};
use verbs_core::table::Id;
use verbs_core::types::Access;

use super::{Call, remove};
use crate::context::Context;
use crate::error::{fail, refused};
use crate::limits::Kind;
use crate::object::{Mr, Object};
use crate::pages::{self, Pages};
use crate::shared::Shared;

pub fn alloc_pd(call: &mut Call<'_>) -> Result<()> {
    let pd = call.context.engine.core.alloc_pd().map_err(refused)?;
    match call.insert(Object::Pd(pd)) {
        Ok(pd_handle) => {
            call.answer(&abi::AllocPdAnswer { pd_handle });
            Ok(())
        }
        Err(error) => {
            call.context.engine.core.dealloc_pd(pd).map_err(refused)?;
            Err(error)
        }
    }
}

/// `EBUSY`: an object belongs to the domain.
pub fn dealloc_pd(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DeallocPd = call.request()?;
    end_pd(call.shared, call.context, request.pd_handle)
}

pub fn end_pd(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    let pd = context.objects.pd(handle)?;
    let engine = &mut context.engine;
    if engine.core.has_users(pd).map_err(refused)? || engine.is_used(pd) {
        return fail(EBUSY);
    }
    for port in engine.close(pd) {
        shared.return_port(context.owner.uid, port);
    }
    engine.core.dealloc_pd(pd).map_err(refused)?;
    remove(shared, context, handle);
    Ok(())
}

/// Returns the pages that a command is about to register, if it registers memory and can succeed.
pub fn wanted(context: &Context, frame: &Frame<'_>) -> Option<Wanted> {
    if frame.is_extended {
        return None;
    }
    let region = match Command::from_number(frame.number)? {
        Command::RegMr => {
            let request: abi::RegMr = frame.request().ok()?;
            let pd = context.objects.pd(request.pd_handle).ok()?;
            new_region(pd, &request)
        }
        Command::ReregMr => {
            let request: abi::ReregMr = frame.request().ok()?;
            changed_region(context, &request).ok()?.0
        }
        _ => return None,
    };
    keys::check(&region).ok()?;
    Some(pages::around(&region))
}

fn new_region(pd: Id, request: &abi::RegMr) -> Region {
    Region {
        pd,
        start: request.start,
        length: request.length,
        iova: request.hca_va,
        access: Access::from_bits_retain(request.access_flags),
    }
}

/// The region to register with `verbs-core`. If the daemon has no access to its memory, peers and
/// memory windows get no access either.
fn usable(region: Region, has_memory: bool) -> Region {
    match has_memory {
        true => region,
        false => Region {
            access: region.access & (Access::LOCAL_WRITE | Access::ZERO_BASED),
            ..region
        },
    }
}

/// Takes the pages that were borrowed for the command. `EFAULT`: the region is not in them,
/// because the program has changed the command meanwhile.
fn take_pages(call: &mut Call<'_>, region: &Region) -> Result<Option<Pages>> {
    match call.context.pages.take() {
        Some(pages) if !pages.hold(region) => fail(EFAULT),
        pages => Ok(pages),
    }
}

/// Keeps the borrowed memory of a region.
fn keep(context: &mut Context, key: u32, pages: Pages) {
    let memory = &mut context.engine.lanes.memory;
    memory.insert(key, pages.first as usize, Backing::Borrowed(pages.memory));
}

/// Registers a region and charges the user for its pages. Returns its key and the number of pages.
fn register(call: &mut Call<'_>, region: Region, has_memory: bool) -> Result<(u32, u64)> {
    keys::check(&region).map_err(refused)?;
    let registered = usable(region, has_memory);
    let key = call.context.engine.core.register(registered);
    let key = key.map_err(refused)?;
    let pages = pages::count(region.start, region.length);
    let uid = call.context.owner.uid;
    match call.shared.accounts.charge(uid, Kind::LockedPages, pages) {
        Ok(()) => Ok((key, pages)),
        Err(error) => {
            unregister(call, key)?;
            Err(error)
        }
    }
}

fn unregister(call: &mut Call<'_>, key: u32) -> Result<()> {
    let Engine { core, lanes, .. } = &mut call.context.engine;
    core.deregister(lanes, key).map_err(refused)
}

/// The key that the library has chosen, from the data of the provider; `key` if it has chosen
/// none.
fn shown<R>(call: &Call<'_>, key: u32) -> u32 {
    let given = call.provider::<R, [u32; 2]>();
    given
        .map(|[key, _]| key)
        .filter(|key| *key != 0)
        .unwrap_or(key)
}

/// `EINVAL`: the range or the access. `ENOMEM`: too many regions, or the limit of the user's
/// pages. `EFAULT`: the memory is not mapped, or the program has not the rights that it asks for.
pub fn reg_mr(call: &mut Call<'_>) -> Result<()> {
    let request: abi::RegMr = call.request()?;
    let pd = call.context.objects.pd(request.pd_handle)?;
    let region = new_region(pd, &request);
    let memory = take_pages(call, &region)?;
    let (key, pages) = register(call, region, memory.is_some())?;
    let shown = shown::<abi::RegMr>(call, key);
    let inserted = call.insert(Object::Mr(Mr {
        key,
        shown,
        region,
        pd: request.pd_handle,
        pages,
    }));
    match inserted {
        Ok(mr_handle) => {
            if let Some(memory) = memory {
                keep(call.context, key, memory);
            }
            call.answer(&abi::RegMrAnswer {
                mr_handle,
                lkey: shown,
                rkey: shown,
            });
            Ok(())
        }
        Err(error) => {
            release(call.shared, call.context, pages);
            unregister(call, key)?;
            Err(error)
        }
    }
}

/// The region as the request changes it, with the handle of its domain. `EINVAL`: no change, or an
/// unknown one. `ENOENT`, `EINVAL`: the handle of the region or of the domain.
fn changed_region(context: &Context, request: &abi::ReregMr) -> Result<(Region, u32)> {
    let known = abi::REREG_TRANSLATION | abi::REREG_PD | abi::REREG_ACCESS;
    if request.flags == 0 || request.flags & !known != 0 {
        return fail(EINVAL);
    }
    let has = |flag| request.flags & flag != 0;
    let Mr {
        mut region, mut pd, ..
    } = *context.objects.mr(request.mr_handle)?;
    if has(abi::REREG_TRANSLATION) {
        (region.start, region.length) = (request.start, request.length);
        region.iova = request.hca_va;
    }
    if has(abi::REREG_PD) {
        pd = request.pd_handle;
        region.pd = context.objects.pd(pd)?;
    }
    if has(abi::REREG_ACCESS) {
        region.access = Access::from_bits_retain(request.access_flags);
    }
    Ok((region, pd))
}

/// Whether the borrowed memory of a region also serves the changed region.
fn is_enough(before: &Region, after: &Region) -> bool {
    let is_same = (before.start, before.length) == (after.start, after.length);
    let writes = |region: &Region| region.access.contains(Access::LOCAL_WRITE);
    is_same && (writes(before) || !writes(after))
}

/// Changes a region, which gets a new key. `EINVAL`: no change, an unknown one, or as for REG_MR.
/// `EBUSY`: a memory window is bound to the region. `ENOMEM`: the limit of the user's pages, among
/// which the region's former pages still count. `EFAULT`: as for REG_MR.
pub fn rereg_mr(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ReregMr = call.request()?;
    let (region, pd) = changed_region(call.context, &request)?;
    let before = *call.context.objects.mr(request.mr_handle)?;
    keys::check(&region).map_err(refused)?;
    let memory = take_pages(call, &region)?;
    let (uid, pages) = (
        call.context.owner.uid,
        pages::count(region.start, region.length),
    );
    call.shared.accounts.charge(uid, Kind::LockedPages, pages)?;
    let Engine { core, lanes, .. } = &mut call.context.engine;
    let stays = lanes.memory.holds(before.key) && is_enough(&before.region, &region);
    let registered = usable(region, memory.is_some() || stays);
    let key = match core.reregister(lanes, before.key, registered) {
        Ok(key) => key,
        Err(error) => {
            release(call.shared, call.context, pages);
            return Err(refused(error));
        }
    };
    let former = lanes.memory.remove(before.key).filter(|_| stays);
    match (memory, former) {
        (Some(memory), _) => keep(call.context, key, memory),
        (None, Some(former)) => {
            let first = before.region.start - before.region.start % pages::PAGE;
            lanes.memory.insert(key, first as usize, former);
        }
        (None, None) => {}
    }
    release(call.shared, call.context, before.pages);
    let shown = shown::<abi::ReregMr>(call, key);
    *call.context.objects.mr_mut(request.mr_handle)? = Mr {
        key,
        shown,
        region,
        pd,
        pages,
    };
    call.answer(&abi::ReregMrAnswer {
        lkey: shown,
        rkey: shown,
    });
    Ok(())
}

pub fn dereg_mr(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DeregMr = call.request()?;
    end_mr(call.shared, call.context, request.mr_handle)
}

pub fn end_mr(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    let mr = *context.objects.mr(handle)?;
    let Engine { core, lanes, .. } = &mut context.engine;
    core.deregister(lanes, mr.key).map_err(refused)?;
    lanes.memory.remove(mr.key);
    release(shared, context, mr.pages);
    remove(shared, context, handle);
    Ok(())
}

fn release(shared: &mut Shared, context: &Context, pages: u64) {
    let uid = context.owner.uid;
    shared.accounts.release(uid, Kind::LockedPages, pages);
}

/// `EINVAL`: the type is neither 1 nor 2. `ENOMEM`: too many memory windows.
pub fn alloc_mw(call: &mut Call<'_>) -> Result<()> {
    let request: abi::AllocMw = call.request()?;
    let pd = call.context.objects.pd(request.pd_handle)?;
    let kind = match request.mw_type {
        1 => WindowType::One,
        2 => WindowType::Two,
        _ => return fail(EINVAL),
    };
    let rkey = call
        .context
        .engine
        .core
        .alloc_mw(pd, kind)
        .map_err(refused)?;
    match call.insert(Object::Mw(rkey)) {
        Ok(mw_handle) => {
            call.answer(&abi::AllocMwAnswer { mw_handle, rkey });
            Ok(())
        }
        Err(error) => {
            let Engine { core, lanes, .. } = &mut call.context.engine;
            core.dealloc_mw(lanes, rkey).map_err(refused)?;
            Err(error)
        }
    }
}

pub fn dealloc_mw(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DeallocMw = call.request()?;
    end_mw(call.shared, call.context, request.mw_handle)
}

pub fn end_mw(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    let key = context.objects.mw(handle)?;
    let Engine { core, lanes, .. } = &mut context.engine;
    core.dealloc_mw(lanes, key).map_err(refused)?;
    remove(shared, context, handle);
    Ok(())
}
