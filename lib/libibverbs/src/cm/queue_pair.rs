//! The queue pairs of ids.

use core::ffi::c_int;
use core::ptr::null_mut;

use syscall::error::EINVAL;
use verbs::{Access, AttributeMask as M, QpState, address};

use super::port_space::{UD, qkey};
use super::structures::{Id, shared_pd};
use crate::Result;
use crate::completion::{
    ibv_create_comp_channel, ibv_create_cq, ibv_destroy_comp_channel, ibv_destroy_cq,
};
use crate::place::{get, get_mut};
use crate::queue_pair::{ibv_create_qp_ex, ibv_destroy_qp, ibv_modify_qp};
use crate::shared::{ibv_create_srq_ex, ibv_destroy_srq};
use crate::types::{
    AhAttr, CompChannel, Cq, Pd, QpAttr, QpInitAttr, QpInitAttrEx, SrqInitAttr, SrqInitAttrEx,
};

/// Code for packets of 4096 bytes.
const MTU: u32 = 5;
/// Code for 0.64 ms.
const RNR_TIMER: u8 = 12;
/// Code for 67 ms.
const TIMEOUT: u8 = 14;

fn modify(id: &Id, attr: &QpAttr, mask: M) -> Result<()> {
    match ibv_modify_qp(id.qp, attr, mask.bits() as c_int) {
        0 => Ok(()),
        number => Err(number),
    }
}

/// Makes a completion queue of an id for `size` completions, and its channel. The id is the queue's
/// context, so that the queue's events lead to it.
fn create_queue(id: &mut Id, size: u32) -> Result<(*mut CompChannel, *mut Cq)> {
    let context = id.verbs;
    let channel = ibv_create_comp_channel(context);
    if channel.is_null() {
        return Err(skiff_libc::errno::get());
    }
    let size = size.max(1) as c_int;
    let queue = ibv_create_cq(context, size, (&raw mut *id).cast(), channel, 0);
    if queue.is_null() {
        let number = skiff_libc::errno::get();
        // SAFETY: it was just made, and nothing uses it.
        unsafe { ibv_destroy_comp_channel(channel) };
        return Err(number);
    }
    Ok((channel, queue))
}

/// Makes a queue pair for an id, and completion queues if `attr` has none. A queue pair for
/// datagrams can send and receive at once; another is in the state INIT.
///
/// # Errors
/// `EINVAL` if the id has one, or no device yet, or if the type does not fit; those of making
/// them.
pub fn create(id: &mut Id, pd: *mut Pd, attr: &mut QpInitAttr) -> Result<()> {
    let mut of = QpInitAttrEx::new(attr, choose_domain(id, pd)?);
    create_extended(id, &mut of)?;
    (attr.send_cq, attr.recv_cq, attr.srq) = (of.send_cq, of.recv_cq, of.srq);
    attr.cap = of.cap;
    Ok(())
}

/// Chooses the protection domain for the objects of an id: the program's, or a shared one.
fn choose_domain(id: &Id, pd: *mut Pd) -> Result<*mut Pd> {
    match (pd.is_null(), id.pd.is_null()) {
        (false, _) => Ok(pd),
        (true, false) => Ok(id.pd),
        (true, true) => shared_pd(),
    }
}

fn create_extended(id: &mut Id, attr: &mut QpInitAttrEx) -> Result<()> {
    if !id.qp.is_null() || id.verbs.is_null() || attr.qp_type != id.qp_type {
        return Err(EINVAL);
    }
    if attr.comp_mask & QpInitAttrEx::WITH_PD == 0 {
        attr.pd = null_mut();
    }
    attr.comp_mask |= QpInitAttrEx::WITH_PD;
    attr.pd = choose_domain(id, attr.pd)?;
    check_domain(id, attr.pd)?;
    let given = (attr.send_cq, attr.recv_cq, attr.srq);
    fill(id, attr).inspect_err(|_| {
        destroy(id);
        (attr.send_cq, attr.recv_cq, attr.srq) = given;
    })?;
    id.pd = attr.pd;
    Ok(())
}

/// # Errors
/// `EINVAL` if the domain is another context's.
fn check_domain(id: &Id, pd: *const Pd) -> Result<()> {
    // SAFETY: a domain of ours.
    match unsafe { get(pd)? }.context == id.verbs {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

fn fill(id: &mut Id, attr: &mut QpInitAttrEx) -> Result<()> {
    if attr.send_cq.is_null() {
        let made = create_queue(id, attr.cap.max_send_wr)?;
        (id.send_cq_channel, id.send_cq) = made;
        attr.send_cq = id.send_cq;
    }
    if attr.recv_cq.is_null() {
        let made = create_queue(id, attr.cap.max_recv_wr)?;
        (id.recv_cq_channel, id.recv_cq) = made;
        attr.recv_cq = id.recv_cq;
    }
    if attr.srq.is_null() {
        attr.srq = id.srq;
    }
    id.qp = ibv_create_qp_ex(id.verbs, attr);
    if id.qp.is_null() {
        return Err(skiff_libc::errno::get());
    }
    let ready: &[QpState] = match id.qp_type {
        UD => &[QpState::Init, QpState::Rtr, QpState::Rts],
        _ => &[QpState::Init],
    };
    ready.iter().try_for_each(|state| enter(id, *state))
}

/// Destroys the queue pair of an id, and the completion queues that were made with it.
pub fn destroy(id: &mut Id) {
    if !id.qp.is_null() {
        // A member of a group could not be destroyed.
        id.groups.iter().for_each(|group| group.leave(id.qp));
        ibv_destroy_qp(core::mem::replace(&mut id.qp, null_mut()));
    }
    for (queue, channel) in [
        (&mut id.send_cq, &mut id.send_cq_channel),
        (&mut id.recv_cq, &mut id.recv_cq_channel),
    ] {
        // The id does not have those of the program.
        if !queue.is_null() && !channel.is_null() {
            ibv_destroy_cq(core::mem::replace(queue, null_mut()));
            // SAFETY: made with the queue, which has gone.
            unsafe { ibv_destroy_comp_channel(core::mem::replace(channel, null_mut())) };
        }
    }
}

/// Returns the attributes with which a queue pair of an id enters a state, and their mask.
///
/// # Errors
/// `EINVAL` for a state other than INIT, RTR and RTS.
fn attributes(id: &Id, state: QpState) -> Result<(QpAttr, M)> {
    let (own, peer) = (&id.own, &id.parameters);
    let access = Access::REMOTE | Access::LOCAL_WRITE;
    let attr = QpAttr {
        qp_state: state as u32,
        port_num: id.port_num,
        qp_access_flags: access.bits(),
        qkey: qkey(id.ps),
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
        retry_cnt: own.retry_count,
        // The peer, which posts the receives, decides how often this end retries.
        rnr_retry: peer.rnr_retry_count,
        max_rd_atomic: own.initiator_depth.min(peer.responder_resources),
        ..QpAttr::default()
    };
    let common = M::STATE;
    let mask = match (state, id.qp_type) {
        (QpState::Init, UD) => common | M::PKEY_INDEX | M::PORT | M::QKEY,
        (QpState::Rtr, UD) => common,
        (QpState::Rts, UD) => common | M::SQ_PSN,
        (QpState::Init, _) => common | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS,
        (QpState::Rtr, _) => {
            let path = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
            common | path | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER
        }
        (QpState::Rts, _) => {
            let tries = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
            common | M::SQ_PSN | tries | M::MAX_QP_RD_ATOMIC
        }
        _ => return Err(EINVAL),
    };
    Ok((attr, mask))
}

/// Moves the queue pair of an id to a state.
fn enter(id: &Id, state: QpState) -> Result<()> {
    let (attr, mask) = attributes(id, state)?;
    modify(id, &attr, mask)
}

/// Connects the queue pair of an id, if it has one, with that of its peer.
///
/// # Errors
/// Those of `ibv_modify_qp`.
pub fn connect(id: &Id) -> Result<()> {
    if id.qp.is_null() {
        return Ok(());
    }
    enter(id, QpState::Rtr)?;
    enter(id, QpState::Rts)
}

/// Flushes all requests posted to the queue pair of an id.
pub fn flush(id: &Id) {
    if !id.qp.is_null() {
        let attr = QpAttr {
            qp_state: QpState::Err as u32,
            ..QpAttr::default()
        };
        // It may be in the state already, or in the first one still.
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

#[unsafe(no_mangle)]
extern "C" fn rdma_create_qp_ex(id: *mut Id, attr: *mut QpInitAttrEx) -> c_int {
    // SAFETY: an id of ours and the caller's structure.
    let made = unsafe { get_mut(id) }.and_then(|id| create_extended(id, unsafe { get_mut(attr)? }));
    crate::minus_one(made)
}

/// For a queue pair that the program makes itself: returns the attributes for each state.
#[unsafe(no_mangle)]
extern "C" fn rdma_init_qp_attr(id: *const Id, attr: *mut QpAttr, mask: *mut c_int) -> c_int {
    let init = || {
        // SAFETY: an id of ours, the caller's structure and its place.
        let (id, attr, mask) = unsafe { (get(id)?, get_mut(attr)?, get_mut(mask)?) };
        if id.verbs.is_null() {
            return Err(EINVAL);
        }
        let states = [QpState::Init, QpState::Rtr, QpState::Rts];
        let state = states.into_iter().find(|of| *of as u32 == attr.qp_state);
        let (found, of) = attributes(id, state.ok_or(EINVAL)?)?;
        (*attr, *mask) = (found, of.bits() as c_int);
        Ok(())
    };
    crate::minus_one(init())
}

// ---- Shared receive queues ----

fn create_shared(id: &mut Id, attr: &mut SrqInitAttrEx) -> Result<()> {
    let is_basic =
        attr.comp_mask & SrqInitAttrEx::WITH_TYPE != 0 && attr.srq_type == SrqInitAttrEx::BASIC;
    if !id.srq.is_null() || id.verbs.is_null() || !is_basic {
        return Err(EINVAL);
    }
    if attr.comp_mask & SrqInitAttrEx::WITH_PD == 0 {
        attr.pd = null_mut();
    }
    attr.comp_mask |= SrqInitAttrEx::WITH_PD;
    attr.pd = choose_domain(id, attr.pd)?;
    check_domain(id, attr.pd)?;
    let made = ibv_create_srq_ex(id.verbs, attr);
    if made.is_null() {
        return Err(skiff_libc::errno::get());
    }
    if id.pd.is_null() {
        id.pd = attr.pd;
    }
    id.srq = made;
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_srq_ex(id: *mut Id, attr: *mut SrqInitAttrEx) -> c_int {
    // SAFETY: an id of ours and the caller's structure.
    let made = unsafe { get_mut(id) }.and_then(|id| create_shared(id, unsafe { get_mut(attr)? }));
    crate::minus_one(made)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_srq(id: *mut Id, pd: *mut Pd, attr: *mut SrqInitAttr) -> c_int {
    let create = || {
        // SAFETY: an id of ours and the caller's structure.
        let (id, attr) = unsafe { (get_mut(id)?, get_mut(attr)?) };
        create_shared(id, &mut SrqInitAttrEx::new(attr, choose_domain(id, pd)?))
    };
    crate::minus_one(create())
}

/// Destroys the shared receive queue of an id.
pub fn destroy_shared(id: &mut Id) {
    if !id.srq.is_null() {
        ibv_destroy_srq(core::mem::replace(&mut id.srq, null_mut()));
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_srq(id: *mut Id) {
    // SAFETY: an id of ours.
    if let Ok(id) = unsafe { get_mut(id) } {
        destroy_shared(id);
    }
}
