//! The queue pairs of ids.

use core::ffi::c_int;
use core::ptr::null_mut;

use syscall::error::EINVAL;
use verbs::{Access, AttributeMask as M, QpState, address};

use super::frame::ConnectionParameters;
use super::structures::{Id, RC, shared_pd};
use crate::Result;
use crate::completion::{
    ibv_create_comp_channel, ibv_create_cq, ibv_destroy_comp_channel, ibv_destroy_cq,
};
use crate::place::{get, get_mut};
use crate::queue_pair::{ibv_create_qp, ibv_destroy_qp, ibv_modify_qp};
use crate::types::{AhAttr, CompChannel, Context, Cq, Pd, QpAttr, QpInitAttr};

/// Packets of 4096 bytes, as a code.
const MTU: u32 = 5;
/// 0.64 ms, as a code.
const RNR_TIMER: u8 = 12;
/// 67 ms, as a code.
const TIMEOUT: u8 = 14;

fn modify(id: &Id, attr: &QpAttr, mask: M) -> Result<()> {
    match ibv_modify_qp(id.qp, attr, mask.bits() as c_int) {
        0 => Ok(()),
        number => Err(number),
    }
}

/// A completion queue for `size` completions, and its channel.
fn create_queue(context: *mut Context, size: u32) -> Result<(*mut CompChannel, *mut Cq)> {
    let channel = ibv_create_comp_channel(context);
    if channel.is_null() {
        return Err(skiff_libc::errno::get());
    }
    let size = size.max(1) as c_int;
    let queue = ibv_create_cq(context, size, null_mut(), channel, 0);
    if queue.is_null() {
        let number = skiff_libc::errno::get();
        // SAFETY: it was just made, and nothing uses it.
        unsafe { ibv_destroy_comp_channel(channel) };
        return Err(number);
    }
    Ok((channel, queue))
}

/// Makes a queue pair for an id, in the state INIT; and completion queues if `attr` has none.
///
/// # Errors
/// `EINVAL`: it has one, or no device yet, or another type is wanted. Those of making them.
pub fn create(id: &mut Id, pd: *mut Pd, attr: &mut QpInitAttr) -> Result<()> {
    if !id.qp.is_null() || id.verbs.is_null() || attr.qp_type != RC {
        return Err(EINVAL);
    }
    id.pd = match pd.is_null() {
        true => shared_pd()?,
        false => pd,
    };
    // SAFETY: a domain of ours.
    if unsafe { get(id.pd)? }.context != id.verbs {
        return Err(EINVAL);
    }
    let made = fill(id, attr);
    if made.is_err() {
        destroy(id);
    }
    made
}

fn fill(id: &mut Id, attr: &mut QpInitAttr) -> Result<()> {
    if attr.send_cq.is_null() {
        let made = create_queue(id.verbs, attr.cap.max_send_wr)?;
        (id.send_cq_channel, id.send_cq) = made;
        attr.send_cq = id.send_cq;
    }
    if attr.recv_cq.is_null() {
        let made = create_queue(id.verbs, attr.cap.max_recv_wr)?;
        (id.recv_cq_channel, id.recv_cq) = made;
        attr.recv_cq = id.recv_cq;
    }
    // SAFETY: a domain of ours and a structure of the caller's.
    id.qp = unsafe { ibv_create_qp(id.pd, attr) };
    if id.qp.is_null() {
        return Err(skiff_libc::errno::get());
    }
    id.srq = attr.srq;
    let access = Access::REMOTE | Access::LOCAL_WRITE;
    let attr = QpAttr {
        qp_state: QpState::Init as u32,
        port_num: id.port_num,
        qp_access_flags: access.bits(),
        ..QpAttr::default()
    };
    modify(
        id,
        &attr,
        M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS,
    )
}

/// Ends the queue pair of an id, and the completion queues that were made with it.
pub fn destroy(id: &mut Id) {
    if !id.qp.is_null() {
        ibv_destroy_qp(core::mem::replace(&mut id.qp, null_mut()));
    }
    for (queue, channel) in [
        (&mut id.send_cq, &mut id.send_cq_channel),
        (&mut id.recv_cq, &mut id.recv_cq_channel),
    ] {
        // Those of the program are not in the id.
        if !queue.is_null() && !channel.is_null() {
            ibv_destroy_cq(core::mem::replace(queue, null_mut()));
            // SAFETY: made with the queue, which has gone.
            unsafe { ibv_destroy_comp_channel(core::mem::replace(channel, null_mut())) };
        }
    }
}

/// Connects the queue pair of an id, if it has one, with that of its peer; `own` is what the peer
/// is told, or was.
///
/// # Errors
/// Those of `ibv_modify_qp`.
pub fn connect(id: &mut Id, own: &ConnectionParameters) -> Result<()> {
    if id.qp.is_null() {
        return Ok(());
    }
    let peer = id.parameters;
    let mut attr = QpAttr {
        qp_state: QpState::Rtr as u32,
        path_mtu: MTU,
        dest_qp_num: peer.qp_num,
        ah_attr: AhAttr {
            dlid: address::lid(id.peer),
            port_num: id.port_num,
            ..AhAttr::default()
        },
        max_dest_rd_atomic: own.responder_resources,
        min_rnr_timer: RNR_TIMER,
        timeout: TIMEOUT,
        retry_cnt: own.retry_count.max(peer.retry_count),
        // How often the own end tries again is the peer's to say, who has the receives.
        rnr_retry: peer.rnr_retry_count,
        max_rd_atomic: own.initiator_depth.min(peer.responder_resources),
        ..QpAttr::default()
    };
    let mask = M::STATE
        | M::AV
        | M::PATH_MTU
        | M::DEST_QPN
        | M::RQ_PSN
        | M::MAX_DEST_RD_ATOMIC
        | M::MIN_RNR_TIMER;
    modify(id, &attr, mask)?;
    attr.qp_state = QpState::Rts as u32;
    let mask =
        M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    modify(id, &attr, mask)
}

/// Has what is posted to the queue pair of an id end.
pub fn flush(id: &Id) {
    if !id.qp.is_null() {
        let attr = QpAttr {
            qp_state: QpState::Err as u32,
            ..QpAttr::default()
        };
        // It may be in the state already, or never have left the first one.
        let _ = modify(id, &attr, M::STATE);
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_qp(id: *mut Id, pd: *mut Pd, attr: *mut QpInitAttr) -> c_int {
    // SAFETY: an id of ours and the caller's structure.
    let made = unsafe { get_mut(id) }.and_then(|id| create(id, pd, unsafe { get_mut(attr)? }));
    crate::minus_one(made)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_qp(id: *mut Id) {
    // SAFETY: an id of ours.
    if let Ok(id) = unsafe { get_mut(id) } {
        destroy(id);
    }
}
