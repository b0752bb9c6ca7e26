//! Queue pairs: creates, modifies, queries and destroys them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use runtime::sync::Mutex;
use syscall::error::{EINVAL, EOPNOTSUPP};
use verbs::context::{MAX_INLINE, QpView};
use verbs::table::Id;
use verbs::{Access, AttributeMask, Attributes, Capacity, QpInit, QpState, QpType};

use crate::address::{check_source, lid_of};
use crate::place::{Region, get, get_mut};
use crate::shared::Xrcd;
use crate::types::{
    AhAttr, Context, Cq, EventCounts, Pd, Qp, QpAttr, QpCap, QpInitAttr, QpInitAttrEx, Srq,
};
use crate::{Result, errno_of, number};

/// Types of Linux that are not supported: raw packets, and those of drivers.
const OTHER_TYPES: [u32; 2] = [8, 255];

fn kind_of(number: u32) -> Result<QpType> {
    let found = QpType::ALL.into_iter().find(|kind| *kind as u32 == number);
    match found {
        Some(kind) => Ok(kind),
        None if OTHER_TYPES.contains(&number) => Err(EOPNOTSUPP),
        None => Err(EINVAL),
    }
}

/// Bytes of a segment in a request of hardware. There, inline data takes the place of segments.
const SEGMENT: u32 = 16;

/// Returns how many bytes of inline data a queue pair takes: at least as many as its segments have
/// space for. On hardware, programs that ask for none can still send that many.
fn inline_of(cap: &QpCap) -> u32 {
    let place = cap.max_send_sge.saturating_mul(SEGMENT).min(MAX_INLINE);
    cap.max_inline_data.max(place)
}

/// The objects that a queue pair belongs to and that its attributes do not name.
struct Domains {
    pd: *mut Pd,
    xrcd: Option<Id>,
}

fn create(
    context: *mut Context,
    of: &Domains,
    attr: &QpInitAttr,
    is_extended: bool,
) -> Result<*mut Qp> {
    let kind = kind_of(attr.qp_type)?;
    let is_target = kind == QpType::XrcRecv;
    // SAFETY: objects of ours, or none.
    let (owner, pd, send, receive, srq) = unsafe {
        (
            get(context)?,
            of.pd.as_ref(),
            attr.send_cq.as_ref(),
            attr.recv_cq.as_ref(),
            attr.srq.as_ref(),
        )
    };
    let none = is_target.then_some(Id(0));
    let id = |cq: Option<&Cq>| cq.map(|cq| cq.id);
    let send_id = id(send).or(none).ok_or(EINVAL)?;
    // The sending half of an extended connection receives nothing.
    let spare = (kind == QpType::XrcSend).then_some(send_id);
    let init = QpInit {
        kind,
        pd: pd.map(Pd::id).or(none).ok_or(EINVAL)?,
        send_cq: send_id,
        recv_cq: id(receive).or(none).or(spare).ok_or(EINVAL)?,
        srq: srq.map(|srq: &Srq| srq.id),
        xrcd: of.xrcd,
        capacity: Capacity {
            send_wr: attr.cap.max_send_wr,
            recv_wr: attr.cap.max_recv_wr,
            send_sge: attr.cap.max_send_sge,
            recv_sge: attr.cap.max_recv_sge,
            inline: inline_of(&attr.cap),
        },
        signal_all: attr.sq_sig_all != 0,
    };
    // The queue pair's address identifies it in its events, so its memory is allocated first.
    let mut qp = Box::new(Qp {
        context,
        qp_context: attr.qp_context,
        pd: of.pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        handle: 0,
        qp_num: 0,
        state: QpState::Reset as u32,
        qp_type: attr.qp_type,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        is_extended,
        address: Mutex::new(None),
        building: Mutex::new((Vec::new(), Ok(()))),
        posting: Region::default(),
        events: EventCounts::default(),
    });
    let word = (&raw const *qp).expose_provenance() as u64;
    qp.qp_num = owner.raw.create_qp(init, word).map_err(errno_of)?;
    qp.handle = qp.qp_num;
    pd.into_iter().for_each(Pd::join);
    Ok(Box::into_raw(qp))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut Pd, attr: *mut QpInitAttr) -> *mut Qp {
    let created = || {
        // SAFETY: a domain of ours and the caller's structure.
        let (domain, attr) = unsafe { (get(pd)?, get_mut(attr)?) };
        let of = Domains { pd, xrcd: None };
        let qp = create(domain.context, &of, attr, false)?;
        attr.cap.max_inline_data = inline_of(&attr.cap);
        Ok(qp)
    };
    created().unwrap_or_else(crate::none)
}

/// `enum ibv_qp_init_attr_mask`.
const PD: u32 = QpInitAttrEx::WITH_PD;
const XRCD: u32 = 1 << 1;
const CREATE_FLAGS: u32 = 1 << 2;
const SEND_OPS: u32 = 1 << 6;
/// `IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`, the only creation flag that is supported: the queue pair
/// does not receive what it sends to a group.
const DROP_OWN: u32 = 1 << 1;
/// The supported `IBV_QP_EX_WITH_…`: all up to `SEND_WITH_INV`.
const KNOWN_OPS: u64 = (1 << 10) - 1;

fn create_extended(context: *mut Context, attr: *mut QpInitAttrEx) -> Result<*mut Qp> {
    // SAFETY: the caller's structure.
    let of = unsafe { get_mut(attr)? };
    if of.comp_mask & !(PD | XRCD | CREATE_FLAGS | SEND_OPS) != 0 {
        return Err(EOPNOTSUPP);
    }
    if of.comp_mask & CREATE_FLAGS != 0 && of.create_flags & !DROP_OWN != 0 {
        return Err(EOPNOTSUPP);
    }
    let is_extended = of.comp_mask & SEND_OPS != 0;
    if is_extended && of.send_ops_flags & !KNOWN_OPS != 0 {
        return Err(EOPNOTSUPP);
    }
    let xrcd = match of.comp_mask & XRCD {
        0 => None,
        // SAFETY: a domain of ours.
        _ => Some(unsafe { get(of.xrcd.cast::<Xrcd>())? }.id),
    };
    let pd = match of.comp_mask & PD {
        0 if of.qp_type != QpType::XrcRecv as u32 => return Err(EINVAL),
        0 => core::ptr::null_mut(),
        _ => of.pd,
    };
    let base = QpInitAttr {
        qp_context: of.qp_context,
        send_cq: of.send_cq,
        recv_cq: of.recv_cq,
        srq: of.srq,
        cap: of.cap,
        qp_type: of.qp_type,
        sq_sig_all: of.sq_sig_all,
    };
    let qp = create(context, &Domains { pd, xrcd }, &base, is_extended)?;
    if of.comp_mask & CREATE_FLAGS != 0 && of.create_flags & DROP_OWN != 0 {
        let dropped = find(qp).and_then(|(made, owner)| {
            let dropped = owner.raw.drop_own(made.qp_num);
            dropped.map_err(errno_of)
        });
        if let Err(number) = dropped {
            // It is new, and is in no group.
            let _ = destroy(qp);
            return Err(number);
        }
    }
    of.cap.max_inline_data = inline_of(&of.cap);
    Ok(qp)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_qp_ex(context: *mut Context, attr: *mut QpInitAttrEx) -> *mut Qp {
    create_extended(context, attr).unwrap_or_else(crate::none)
}

/// Returns a queue pair and its context.
///
/// # Errors
/// `EINVAL` if it is null.
pub fn find<'a>(qp: *const Qp) -> Result<(&'a Qp, &'a Context)> {
    // SAFETY: a queue pair of ours, whose context lives as long.
    unsafe {
        let qp = get(qp)?;
        Ok((qp, get(qp.context)?))
    }
}

fn destroy(qp: *mut Qp) -> Result<()> {
    let (of, context) = find(qp)?;
    context.raw.destroy_qp(of.qp_num).map_err(errno_of)?;
    of.events.wait_acknowledged();
    // SAFETY: the queue pair's domain, or none, which lives as long as it has the queue pair.
    unsafe { Pd::leave(of.pd) };
    // SAFETY: made by `create`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(qp)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_qp(qp: *mut Qp) -> c_int {
    number(destroy(qp))
}

// ---- Attributes ----

fn state_of(number: u32) -> Result<QpState> {
    let mut all = QpState::ALL.into_iter();
    all.find(|state| *state as u32 == number).ok_or(EINVAL)
}

fn attributes(attr: &QpAttr, mask: AttributeMask) -> Result<Attributes> {
    let mut new = Attributes::default();
    if mask.contains(AttributeMask::STATE) {
        new.state = state_of(attr.qp_state)?;
    }
    if mask.contains(AttributeMask::CUR_STATE) {
        new.cur_state = state_of(attr.cur_qp_state)?;
    }
    if mask.contains(AttributeMask::AV) {
        check_source(&attr.ah_attr)?;
        new.dlid = lid_of(&attr.ah_attr);
    }
    if mask.contains(AttributeMask::PATH_MTU) {
        new.path_mtu = u8::try_from(attr.path_mtu).map_err(|_| EINVAL)?;
    }
    Ok(Attributes {
        notify_drained: attr.en_sqd_async_notify != 0,
        access: Access::from_bits_retain(attr.qp_access_flags),
        pkey_index: attr.pkey_index,
        port: attr.port_num,
        qkey: attr.qkey,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        dest_qpn: attr.dest_qp_num,
        ..new
    })
}

fn modify(qp: *mut Qp, attr: *const QpAttr, mask: c_int) -> Result<()> {
    let (of, context) = find(qp)?;
    // SAFETY: the caller's structure.
    let attr = unsafe { get(attr)? };
    let mask = AttributeMask::from_bits(mask as u32).ok_or(EOPNOTSUPP)?;
    let new = attributes(attr, mask)?;
    let modified = context.raw.modify_qp(of.qp_num, &new, mask);
    modified.map_err(errno_of)?;
    if mask.contains(AttributeMask::AV) {
        *of.address.lock() = Some(attr.ah_attr);
    }
    if mask.contains(AttributeMask::STATE) {
        if new.state == QpState::Reset {
            *of.address.lock() = None;
        }
        // SAFETY: as above; the field is for the program to read.
        unsafe { (*qp).state = attr.qp_state };
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_modify_qp(qp: *mut Qp, attr: *const QpAttr, mask: c_int) -> c_int {
    number(modify(qp, attr, mask))
}

fn capacity(view: &QpView) -> QpCap {
    let capacity = &view.init.capacity;
    QpCap {
        max_send_wr: capacity.send_wr,
        max_recv_wr: capacity.recv_wr,
        max_send_sge: capacity.send_sge,
        max_recv_sge: capacity.recv_sge,
        max_inline_data: capacity.inline,
    }
}

fn query(qp: *mut Qp, to: *mut QpAttr, init: *mut QpInitAttr) -> Result<()> {
    let (of, context) = find(qp)?;
    let view = context.raw.query_qp(of.qp_num).map_err(errno_of)?;
    let attributes = &view.attributes;
    let found = QpAttr {
        qp_state: view.state as u32,
        cur_qp_state: view.state as u32,
        path_mtu: u32::from(attributes.path_mtu),
        qkey: attributes.qkey,
        rq_psn: attributes.rq_psn,
        sq_psn: attributes.sq_psn,
        dest_qp_num: attributes.dest_qpn,
        qp_access_flags: attributes.access.bits(),
        cap: capacity(&view),
        ah_attr: of.address.lock().unwrap_or(AhAttr {
            dlid: attributes.dlid,
            port_num: attributes.port,
            ..AhAttr::default()
        }),
        pkey_index: attributes.pkey_index,
        en_sqd_async_notify: u8::from(attributes.notify_drained),
        sq_draining: u8::from(view.is_draining),
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_cnt,
        rnr_retry: attributes.rnr_retry,
        ..QpAttr::default()
    };
    let made = QpInitAttr {
        qp_context: of.qp_context,
        send_cq: of.send_cq,
        recv_cq: of.recv_cq,
        srq: of.srq,
        cap: capacity(&view),
        qp_type: of.qp_type,
        sq_sig_all: c_int::from(view.init.signal_all),
    };
    // SAFETY: the caller's places, and a queue pair of ours, to which no reference is used from
    // here on.
    unsafe {
        (*qp).state = found.qp_state;
        if !to.is_null() {
            to.write(found);
        }
        if !init.is_null() {
            init.write(made);
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp(
    qp: *mut Qp,
    to: *mut QpAttr,
    _mask: c_int,
    init: *mut QpInitAttr,
) -> c_int {
    number(query(qp, to, init))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_modify_qp_rate_limit(_qp: *mut Qp, _attr: *const c_void) -> c_int {
    EOPNOTSUPP
}

#[unsafe(no_mangle)]
extern "C" fn ibv_set_ece(_qp: *mut Qp, _ece: *const c_void) -> c_int {
    EOPNOTSUPP
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_ece(_qp: *mut Qp, _ece: *mut c_void) -> c_int {
    EOPNOTSUPP
}
