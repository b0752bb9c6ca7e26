//! Protection domains, parent domains and thread domains.

use alloc::boxed::Box;
use core::ffi::c_int;
use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering};

use syscall::error::{EBUSY, EINVAL, EOPNOTSUPP};
use verbs::table::Id;

use crate::place::get;
use crate::types::{Context, Pd, Td};
use crate::{Result, errno_of, none, number, object};

impl Pd {
    /// The handle of the domain.
    pub fn id(&self) -> Id {
        Id(self.handle)
    }

    /// An object keeps the address of the domain from now on.
    pub fn join(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// An object that has kept the address of a domain, or of none, does so no more.
    ///
    /// # Safety
    /// The pointer is null or leads to a domain of ours, which [`join`](Self::join) was called for.
    pub unsafe fn leave(pd: *const Pd) {
        // SAFETY: the caller's promise.
        if let Some(pd) = unsafe { pd.as_ref() } {
            pd.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn alloc_pd(context: *mut Context) -> Result<Pd> {
    // SAFETY: a context of ours.
    let of = unsafe { get(context)? };
    let id = of.raw.alloc_pd().map_err(errno_of)?;
    Ok(Pd {
        context,
        handle: id.0,
        users: AtomicU32::new(0),
        of: null(),
        td: null(),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_pd(context: *mut Context) -> *mut Pd {
    object(alloc_pd(context))
}

fn dealloc_pd(pd: *mut Pd) -> Result<()> {
    // SAFETY: a domain of ours, and its context.
    let (domain, context) = unsafe {
        let domain = get(pd)?;
        (domain, get(domain.context)?)
    };
    if domain.users.load(Ordering::Relaxed) > 0 {
        return Err(EBUSY);
    }
    if domain.of.is_null() {
        context.raw.dealloc_pd(domain.id()).map_err(errno_of)?;
    } else {
        // SAFETY: the domains that this one was made of, which cannot go before.
        unsafe {
            Pd::leave(domain.of);
            if let Some(td) = domain.td.as_ref() {
                td.users.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(pd)) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_pd(pd: *mut Pd) -> c_int {
    number(dealloc_pd(pd))
}

/// `struct ibv_parent_domain_init_attr`, up to the last field that is read.
#[repr(C)]
struct ParentDomainAttr {
    pd: *mut Pd,
    td: *mut Td,
    comp_mask: u32,
}

/// The bits of the mask that need no support by the library.
const PARENT_MASK: u32 = 0b111;

fn alloc_parent_domain(context: *mut Context, attr: *const ParentDomainAttr) -> Result<Pd> {
    // SAFETY: the caller's structure, a domain of ours, and a thread domain of ours or none.
    let (attr, of, td) = unsafe {
        let attr = get(attr)?;
        (attr, get(attr.pd)?, attr.td.as_ref())
    };
    if attr.comp_mask & !PARENT_MASK != 0 {
        return Err(EOPNOTSUPP);
    }
    of.join();
    if let Some(td) = td {
        td.users.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Pd {
        context,
        handle: of.handle,
        users: AtomicU32::new(0),
        of,
        td: attr.td,
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_parent_domain(
    context: *mut Context,
    attr: *const ParentDomainAttr,
) -> *mut Pd {
    object(alloc_parent_domain(context, attr))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_td(context: *mut Context, mask: *const u32) -> *mut Td {
    // SAFETY: the caller's structure of one number.
    match unsafe { get(mask) } {
        Ok(0) => object(Ok(Td {
            context,
            users: AtomicU32::new(0),
        })),
        _ => none(EINVAL),
    }
}

fn dealloc_td(td: *mut Td) -> Result<()> {
    // SAFETY: a thread domain of ours.
    if unsafe { get(td)? }.users.load(Ordering::Relaxed) > 0 {
        return Err(EBUSY);
    }
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(td)) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_td(td: *mut Td) -> c_int {
    number(dealloc_td(td))
}
