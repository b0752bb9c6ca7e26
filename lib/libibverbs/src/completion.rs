//! Completion channels and completion queues.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::sync::Mutex;
use skiff_libc::points;
use syscall::error::{EBUSY, EINVAL, ENOENT, EOPNOTSUPP};
use verbs::raw::Channel;
use verbs::{WcStatus, WorkCompletion};

use crate::place::{Region, get};
use crate::types::{CompChannel, Context, Cq, CqInitAttrEx, EventCounts, Wc};
use crate::{Result, errno_of, minus_one, number, object};

fn create_channel(context: *mut Context) -> Result<CompChannel> {
    // SAFETY: a context of ours.
    unsafe { get(context)? };
    let events = Arc::new(Channel::new().map_err(errno_of)?);
    Ok(CompChannel {
        context,
        fd: events.fd() as c_int,
        refcnt: 0,
        events,
        users: AtomicU32::new(0),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_comp_channel(context: *mut Context) -> *mut CompChannel {
    object(create_channel(context))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    // SAFETY: a channel of ours.
    match unsafe { get(channel) } {
        Err(error) => return error,
        Ok(of) if of.users.load(Ordering::Relaxed) > 0 => return EBUSY,
        Ok(_) => {}
    }
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(channel)) };
    0
}

// ---- Making and ending ----

fn create(
    context: *mut Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: u32,
) -> Result<*mut Cq> {
    // SAFETY: a context and a channel of ours, or none.
    let (of, events) = unsafe { (get(context)?, channel.as_ref()) };
    let size = u32::try_from(cqe).map_err(|_| EINVAL)?;
    if vector >= of.num_comp_vectors as u32 {
        return Err(EINVAL);
    }
    // The queue's address identifies it in the channel, so its memory is allocated first.
    let mut cq = Box::new(Cq {
        context,
        channel,
        cq_context,
        handle: 0,
        cqe,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        id: verbs::table::Id(0),
        current: Mutex::new(None),
        polling: Region::default(),
        completions: EventCounts::default(),
        events: EventCounts::default(),
    });
    let name = (&raw const *cq).expose_provenance() as u64;
    let made = of.raw.create_cq(size, events.map(|of| &of.events), name);
    cq.id = made.map_err(errno_of)?;
    cq.handle = cq.id.0;
    if let Some(events) = events {
        events.users.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Box::into_raw(cq))
}

fn pointer(result: Result<*mut Cq>) -> *mut Cq {
    result.unwrap_or_else(crate::none)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_cq(
    context: *mut Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: c_int,
) -> *mut Cq {
    let vector = u32::try_from(vector).unwrap_or(u32::MAX);
    pointer(create(context, cqe, cq_context, channel, vector))
}

/// `IBV_WC_STANDARD_FLAGS`.
const STANDARD_FLAGS: u64 = (1 << 7) - 1;
/// Known bits of `comp_mask` and of `flags`.
const KNOWN_BITS: u32 = 0b11;
/// `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`.
const IGNORE_OVERRUN: u32 = 1 << 1;

fn create_extended(context: *mut Context, attr: *const CqInitAttrEx) -> Result<*mut Cq> {
    // SAFETY: the caller's structure.
    let attr = unsafe { get(attr)? };
    let flags = match attr.comp_mask & 1 {
        0 => 0,
        _ => attr.flags,
    };
    if attr.comp_mask & !KNOWN_BITS != 0 || flags & !KNOWN_BITS != 0 {
        return Err(EINVAL);
    }
    // An overrun puts the queue into error, which no program can turn off.
    if flags & IGNORE_OVERRUN != 0 {
        return Err(EOPNOTSUPP);
    }
    if attr.wc_flags & !STANDARD_FLAGS != 0 {
        return Err(EOPNOTSUPP);
    }
    let cqe = c_int::try_from(attr.cqe).map_err(|_| EINVAL)?;
    create(
        context,
        cqe,
        attr.cq_context,
        attr.channel,
        attr.comp_vector,
    )
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq_ex(context: *mut Context, attr: *const CqInitAttrEx) -> *mut Cq {
    pointer(create_extended(context, attr))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_cq_ex_to_cq(cq: *mut Cq) -> *mut Cq {
    cq
}

/// Returns a completion queue and its context.
///
/// # Errors
/// `EINVAL` if it is null.
fn find<'a>(cq: *const Cq) -> Result<(&'a Cq, &'a Context)> {
    // SAFETY: a queue of ours, whose context lives as long.
    unsafe {
        let cq = get(cq)?;
        Ok((cq, get(cq.context)?))
    }
}

fn destroy(cq: *mut Cq) -> Result<()> {
    let (of, context) = find(cq)?;
    context.raw.destroy_cq(of.id).map_err(errno_of)?;
    of.completions.wait_acknowledged();
    of.events.wait_acknowledged();
    // SAFETY: a channel of ours, or none.
    if let Some(channel) = unsafe { of.channel.as_ref() } {
        channel.users.fetch_sub(1, Ordering::Relaxed);
    }
    // SAFETY: made by `create`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(cq)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_cq(cq: *mut Cq) -> c_int {
    number(destroy(cq))
}

fn resize(cq: *mut Cq, cqe: c_int) -> Result<()> {
    let (of, context) = find(cq)?;
    let size = u32::try_from(cqe).map_err(|_| EINVAL)?;
    context.raw.resize_cq(of.id, size).map_err(errno_of)?;
    // SAFETY: as above; the field is for the program to read.
    unsafe { (*cq).cqe = cqe };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_resize_cq(cq: *mut Cq, cqe: c_int) -> c_int {
    number(resize(cq, cqe))
}

/// Not supported: moderation, the only attribute, would delay events.
#[unsafe(no_mangle)]
extern "C" fn ibv_modify_cq(_cq: *mut Cq, _attr: *const c_void) -> c_int {
    EOPNOTSUPP
}

// ---- Polling ----

fn to_c(from: &WorkCompletion) -> Wc {
    Wc {
        wr_id: from.id,
        status: from.status as u32,
        opcode: from.opcode as u32,
        vendor_err: 0,
        byte_len: from.byte_len,
        imm_data: from.immediate,
        qp_num: from.qp,
        src_qp: from.src_qp,
        wc_flags: from.flags.bits(),
        pkey_index: 0,
        slid: from.slid,
        sl: from.service_level,
        dlid_path_bits: 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_poll_cq(cq: *mut Cq, most: c_int, to: *mut Wc) -> c_int {
    let Ok((of, context)) = find(cq) else {
        return -EINVAL;
    };
    let Ok(most) = usize::try_from(most) else {
        return -EINVAL;
    };
    let mut index = 0;
    let polled = context.raw.poll_cq(of.id, most, |completion| {
        // SAFETY: the caller's array of `most` structures; no more are given.
        unsafe { to.add(index).write(to_c(&completion)) };
        index += 1;
    });
    match polled {
        Ok(count) => count as c_int,
        Err(error) => -errno_of(error),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_req_notify_cq(cq: *mut Cq, solicited_only: c_int) -> c_int {
    let asked = find(cq).and_then(|(of, context)| {
        let asked = context.raw.req_notify_cq(of.id, solicited_only != 0);
        asked.map_err(errno_of)
    });
    number(asked)
}

// ---- Reading in place ----

/// Takes the next completion, for the program to read in place.
fn next(cq: *mut Cq) -> Result<()> {
    let (of, context) = find(cq)?;
    let mut taken = None;
    let polled = context.raw.poll_cq(of.id, 1, |next| taken = Some(next));
    polled.map_err(errno_of)?;
    let next = taken.ok_or(ENOENT)?;
    *of.current.lock() = Some(next);
    // SAFETY: a queue of ours; one thread reads in place at a time.
    unsafe { ((*cq).wr_id, (*cq).status) = (next.id, next.status as u32) };
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_start_poll(cq: *mut Cq, mask: *const u32) -> c_int {
    // SAFETY: the caller's structure of one number, if there is one.
    match unsafe { mask.as_ref() } {
        Some(mask) if *mask != 0 => EINVAL,
        _ => number(start(cq)),
    }
}

/// Begins to read completions in place. If there is no completion, there is nothing to end.
fn start(cq: *mut Cq) -> Result<()> {
    let (of, _) = find(cq)?;
    of.polling.enter();
    next(cq).inspect_err(|_| of.polling.leave())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_next_poll(cq: *mut Cq) -> c_int {
    number(next(cq))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_end_poll(cq: *mut Cq) {
    if let Ok((of, _)) = find(cq) {
        *of.current.lock() = None;
        of.polling.leave();
    }
}

/// Returns the completion that is being read in place.
fn current(cq: *const Cq) -> Wc {
    let found = find(cq).ok().and_then(|(of, _)| *of.current.lock());
    let flushed = WcStatus::WrFlushErr;
    let none = WorkCompletion::new(0, 0, verbs::WcOpcode::Send, flushed);
    to_c(&found.unwrap_or(none))
}

macro_rules! read {
    ($($name:ident: $field:ident, $type:ty;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(cq: *const Cq) -> $type {
            current(cq).$field.into()
        })*
    };
}

read! {
    ibv_wc_read_opcode: opcode, u32;
    ibv_wc_read_vendor_err: vendor_err, u32;
    ibv_wc_read_byte_len: byte_len, u32;
    ibv_wc_read_imm_data: imm_data, u32;
    ibv_wc_read_invalidated_rkey: imm_data, u32;
    ibv_wc_read_qp_num: qp_num, u32;
    ibv_wc_read_src_qp: src_qp, u32;
    ibv_wc_read_wc_flags: wc_flags, c_uint;
    ibv_wc_read_slid: slid, u32;
    ibv_wc_read_sl: sl, u8;
    ibv_wc_read_dlid_path_bits: dlid_path_bits, u8;
}

macro_rules! not_recorded {
    ($($name:ident: $type:ty;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(_cq: *const Cq) -> $type {
            0
        })*
    };
}

// Queues that record these cannot be created.
not_recorded! {
    ibv_wc_read_completion_ts: u64;
    ibv_wc_read_completion_wallclock_ns: u64;
    ibv_wc_read_cvlan: u16;
    ibv_wc_read_flow_tag: u32;
}

// ---- Events ----

fn next_event(
    channel: *const CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: a channel of ours.
    let channel = unsafe { get(channel)? };
    // SAFETY: a channel's context lives as long as the channel.
    let context = unsafe { get(channel.context)? };
    let queue = |name: u64| core::ptr::with_exposed_provenance_mut::<Cq>(name as usize);
    let name = context.raw.next_event_with(&channel.events, |name| {
        // SAFETY: the end of a queue drops its events first, then waits for those that were
        // counted.
        if let Ok(of) = unsafe { get(queue(*name)) } {
            of.completions.report();
        }
    });
    let found = queue(name.map_err(errno_of)?);
    // SAFETY: a queue whose end waits for this event; the places are the caller's.
    unsafe {
        let of = get(found)?;
        if !cq.is_null() {
            cq.write(found);
        }
        if !cq_context.is_null() {
            cq_context.write(of.cq_context);
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_cq_event(
    channel: *const CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    minus_one(points::interruptible(|| {
        next_event(channel, cq, cq_context)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_cq_events(cq: *mut Cq, count: c_uint) {
    if let Ok((of, _)) = find(cq) {
        of.completions.acknowledge(count);
    }
}
