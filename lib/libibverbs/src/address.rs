//! Address handles, rates, and multicast groups.

use alloc::boxed::Box;
use core::ffi::c_int;

use syscall::error::EINVAL;
use verbs::table::Id;
use verbs::{AddressVector, GlobalRoute, address, device};

use crate::place::get;
use crate::types::{Ah, AhAttr, Context, Gid, Grh, Pd, Qp, Wc};
use crate::{Result, errno_of, number, object};

/// Returns the local identifier of a destination, or derives it from the global one.
pub fn lid_of(attr: &AhAttr) -> u16 {
    match attr.dlid {
        0 if attr.is_global != 0 => device::node_of(&attr.dgid.0).map_or(0, address::lid),
        lid => lid,
    }
}

/// Checks the port from which a destination is reached.
///
/// # Errors
/// `EINVAL` for another one than the only port, or another global identifier than its only one.
pub fn check_source(attr: &AhAttr) -> Result<()> {
    match attr.port_num != 1 || attr.is_global != 0 && attr.sgid_index != 0 {
        true => Err(EINVAL),
        false => Ok(()),
    }
}

fn create(pd: *mut Pd, attr: *const AhAttr) -> Result<Ah> {
    // SAFETY: a domain of ours, its context, and the caller's structure.
    let (domain, context, attr) = unsafe {
        let domain = get(pd)?;
        (domain, get(domain.context)?, get(attr)?)
    };
    check_source(attr)?;
    let global = (attr.is_global != 0).then_some(GlobalRoute {
        gid: attr.dgid.0,
        flow_label: attr.flow_label,
        traffic_class: attr.traffic_class,
        hop_limit: attr.hop_limit,
    });
    let vector = AddressVector {
        lid: lid_of(attr),
        service_level: attr.sl,
        global,
    };
    let id = context.raw.create_ah(domain.id(), vector);
    let handle = id.map_err(errno_of)?.0;
    domain.join();
    Ok(Ah {
        context: domain.context,
        pd,
        handle,
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_ah(pd: *mut Pd, attr: *const AhAttr) -> *mut Ah {
    object(create(pd, attr))
}

/// `IBV_WC_GRH`.
const WITH_GRH: u32 = 1;

fn answer_to(wc: *const Wc, grh: *const Grh, port: u8) -> Result<AhAttr> {
    // SAFETY: the caller's completion.
    let wc = unsafe { get(wc)? };
    let mut attr = AhAttr {
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        port_num: port,
        ..AhAttr::default()
    };
    if wc.wc_flags & WITH_GRH != 0 {
        // SAFETY: the caller's header, which the completion says is there.
        let grh = unsafe { get(grh)? };
        let first = u32::from_be(grh.version_tclass_flow);
        attr.is_global = 1;
        attr.dgid = grh.sgid;
        attr.flow_label = first & 0xf_ffff;
        attr.traffic_class = (first >> 20) as u8;
        attr.hop_limit = grh.hop_limit;
    }
    Ok(attr)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_init_ah_from_wc(
    _context: *mut Context,
    port: u8,
    wc: *const Wc,
    grh: *const Grh,
    to: *mut AhAttr,
) -> c_int {
    // SAFETY: the caller's place.
    number(answer_to(wc, grh, port).map(|attr| unsafe { to.write(attr) }))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_ah_from_wc(
    pd: *mut Pd,
    wc: *const Wc,
    grh: *const Grh,
    port: u8,
) -> *mut Ah {
    object(answer_to(wc, grh, port).and_then(|attr| create(pd, &attr)))
}

fn destroy(ah: *mut Ah) -> Result<()> {
    // SAFETY: a handle of ours, its domain and its context.
    let (of, domain, context) = unsafe {
        let of = get(ah)?;
        (of, get(of.pd)?, get(of.context)?)
    };
    let ended = context.raw.destroy_ah(domain.id(), Id(of.handle));
    ended.map_err(errno_of)?;
    // SAFETY: the handle's domain, which lives as long as it has the handle.
    unsafe { Pd::leave(of.pd) };
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(ah)) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_ah(ah: *mut Ah) -> c_int {
    number(destroy(ah))
}

// ---- Groups ----

fn group<'a>(qp: *const Qp, gid: *const Gid) -> Result<(&'a Qp, &'a Context, Gid)> {
    // SAFETY: a queue pair of ours, its context, and the caller's identifier.
    unsafe {
        let qp = get(qp)?;
        Ok((qp, get(qp.context)?, *get(gid)?))
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_attach_mcast(qp: *const Qp, gid: *const Gid, lid: u16) -> c_int {
    number(group(qp, gid).and_then(|(qp, context, gid)| {
        let done = context.raw.attach_multicast(qp.qp_num, gid.0, lid);
        done.map_err(errno_of)
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_detach_mcast(qp: *const Qp, gid: *const Gid, lid: u16) -> c_int {
    number(group(qp, gid).and_then(|(qp, context, gid)| {
        let done = context.raw.detach_multicast(qp.qp_num, gid.0, lid);
        done.map_err(errno_of)
    }))
}

// ---- Rates ----

/// Codes of rates, each with its multiple of 2.5 Gbit/s, if rdma-core has one for it, and its rate
/// in Mbit/s.
const RATES: [(c_int, Option<c_int>, c_int); 23] = [
    (2, Some(1), 2500),
    (5, Some(2), 5000),
    (3, Some(4), 10000),
    (6, Some(8), 20000),
    (4, Some(12), 30000),
    (7, Some(16), 40000),
    (8, Some(24), 60000),
    (9, Some(32), 80000),
    (10, Some(48), 120000),
    (11, None, 14062),
    (12, None, 56250),
    (13, None, 112500),
    (14, None, 168750),
    (15, None, 25781),
    (16, None, 103125),
    (17, None, 206250),
    (18, None, 309375),
    (19, Some(11), 28125),
    (20, Some(20), 53125),
    (21, Some(160), 425000),
    (22, Some(240), 637500),
    (23, Some(320), 850000),
    (24, Some(480), 1275000),
];

fn rate(rate: c_int) -> Option<&'static (c_int, Option<c_int>, c_int)> {
    RATES.iter().find(|(code, ..)| *code == rate)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mult(code: c_int) -> c_int {
    rate(code)
        .and_then(|(_, multiple, _)| *multiple)
        .unwrap_or(-1)
}

#[unsafe(no_mangle)]
extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_int {
    let found = RATES.iter().find(|(_, of, _)| *of == Some(multiple));
    found.map_or(0, |(code, ..)| *code)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mbps(code: c_int) -> c_int {
    rate(code).map_or(-1, |(.., mbps)| *mbps)
}

#[unsafe(no_mangle)]
extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    let found = RATES.iter().find(|(.., of)| *of == mbps);
    found.map_or(0, |(code, ..)| *code)
}
