//! Protection domains, memory regions and memory windows.

use syscall::error::{EINVAL, Result};
use verbs_abi::records as abi;
use verbs_core::keys::{Region, WindowType};
use verbs_core::types::Access;

use super::{Call, remove};
use crate::context::Context;
use crate::error::{fail, refused};
use crate::lanes::Unconnected;
use crate::limits::Kind;
use crate::object::{Mr, Object};
use crate::shared::Shared;

/// Bytes of a page.
const PAGE: u64 = 4096;

pub fn alloc_pd(call: &mut Call<'_>) -> Result<()> {
    let pd = call.context.core.alloc_pd().map_err(refused)?;
    match call.insert(Object::Pd(pd)) {
        Ok(pd_handle) => {
            call.answer(&abi::AllocPdAnswer { pd_handle });
            Ok(())
        }
        Err(error) => {
            call.context.core.dealloc_pd(pd).map_err(refused)?;
            Err(error)
        }
    }
}

/// `EBUSY`: something belongs to it.
pub fn dealloc_pd(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DeallocPd = call.request()?;
    end_pd(call.shared, call.context, request.pd_handle)
}

pub fn end_pd(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    let pd = context.objects.pd(handle)?;
    context.core.dealloc_pd(pd).map_err(refused)?;
    remove(shared, context, handle);
    Ok(())
}

/// Pages that a range touches.
fn pages(start: u64, length: u64) -> u64 {
    (start % PAGE + length).div_ceil(PAGE)
}

/// Registers a region and counts its pages; its key.
fn register(call: &mut Call<'_>, region: Region) -> Result<(u32, u64)> {
    let key = call.context.core.register(region).map_err(refused)?;
    let pages = pages(region.start, region.length);
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
    let core = &mut call.context.core;
    core.deregister(&mut Unconnected, key).map_err(refused)
}

/// The key that the library has given, in the provider's data; else the one of the rules here.
fn shown<R>(call: &Call<'_>, key: u32) -> u32 {
    let given = call.provider::<R, [u32; 2]>();
    given
        .map(|[key, _]| key)
        .filter(|key| *key != 0)
        .unwrap_or(key)
}

/// `EINVAL`: the range or the access. `ENOMEM`: too many regions, or the limit of the user's pages.
pub fn reg_mr(call: &mut Call<'_>) -> Result<()> {
    let request: abi::RegMr = call.request()?;
    let region = Region {
        pd: call.context.objects.pd(request.pd_handle)?,
        start: request.start,
        length: request.length,
        iova: request.hca_va,
        access: Access::from_bits_retain(request.access_flags),
    };
    let (key, pages) = register(call, region)?;
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

/// Changes a region, which gets another key. `EINVAL`: no change, an unknown one, or as for REG_MR.
/// `EBUSY`: a memory window is bound to it. `ENOMEM`: the limit of the user's pages; those of
/// before count as well.
pub fn rereg_mr(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ReregMr = call.request()?;
    let known = abi::REREG_TRANSLATION | abi::REREG_PD | abi::REREG_ACCESS;
    if request.flags == 0 || request.flags & !known != 0 {
        return fail(EINVAL);
    }
    let has = |flag| request.flags & flag != 0;
    let before = *call.context.objects.mr(request.mr_handle)?;
    let (mut region, mut pd) = (before.region, before.pd);
    if has(abi::REREG_TRANSLATION) {
        (region.start, region.length) = (request.start, request.length);
        region.iova = request.hca_va;
    }
    if has(abi::REREG_PD) {
        pd = request.pd_handle;
        region.pd = call.context.objects.pd(pd)?;
    }
    if has(abi::REREG_ACCESS) {
        region.access = Access::from_bits_retain(request.access_flags);
    }
    let (uid, pages) = (call.context.owner.uid, pages(region.start, region.length));
    call.shared.accounts.charge(uid, Kind::LockedPages, pages)?;
    let core = &mut call.context.core;
    let key = match core.reregister(&mut Unconnected, before.key, region) {
        Ok(key) => key,
        Err(error) => {
            release(call.shared, call.context, pages);
            return Err(refused(error));
        }
    };
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
    let core = &mut context.core;
    core.deregister(&mut Unconnected, mr.key).map_err(refused)?;
    release(shared, context, mr.pages);
    remove(shared, context, handle);
    Ok(())
}

fn release(shared: &mut Shared, context: &Context, pages: u64) {
    let uid = context.owner.uid;
    shared.accounts.release(uid, Kind::LockedPages, pages);
}

/// `EINVAL`: the type is neither 1 nor 2. `ENOMEM`: too many.
pub fn alloc_mw(call: &mut Call<'_>) -> Result<()> {
    let request: abi::AllocMw = call.request()?;
    let pd = call.context.objects.pd(request.pd_handle)?;
    let kind = match request.mw_type {
        1 => WindowType::One,
        2 => WindowType::Two,
        _ => return fail(EINVAL),
    };
    let rkey = call.context.core.alloc_mw(pd, kind).map_err(refused)?;
    match call.insert(Object::Mw(rkey)) {
        Ok(mw_handle) => {
            call.answer(&abi::AllocMwAnswer { mw_handle, rkey });
            Ok(())
        }
        Err(error) => {
            let core = &mut call.context.core;
            core.dealloc_mw(&mut Unconnected, rkey).map_err(refused)?;
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
    let core = &mut context.core;
    core.dealloc_mw(&mut Unconnected, key).map_err(refused)?;
    remove(shared, context, handle);
    Ok(())
}
