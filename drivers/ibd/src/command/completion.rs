//! Completion channels and completion queues.

use syscall::error::{EBADF, EINVAL, EMFILE, ENOSPC, EOPNOTSUPP, Error, Result};
use verbs_abi::records as abi;
use verbs_core::table::Id;
use verbs_core::work::WorkCompletion;

use super::{Call, release_slots, remove};
use crate::context::Context;
use crate::error::{fail, refused};
use crate::identity::{COMPLETION_VECTORS, PORT};
use crate::limits::Kind;
use crate::object::{Cq, Object};
use crate::shared::Shared;

/// The channel of a completion queue that has none.
const NO_CHANNEL: i32 = -1;
/// Most completion channels of a context.
const MAX_CHANNELS: usize = 1024;

/// Answers with the number of a new channel; the program gets its descriptor by `dup`. `EMFILE`:
/// the context has too many channels, or the user too many files.
pub fn create_channel(call: &mut Call<'_>) -> Result<()> {
    let fd = add_channel(call.shared, call.context)?;
    call.answer(&abi::CreateCompChannelAnswer { fd });
    Ok(())
}

/// Makes a channel and returns its number.
///
/// # Errors
/// `EMFILE`: the context has too many channels, or the user too many files.
pub fn add_channel(shared: &mut Shared, context: &mut Context) -> Result<u32> {
    if context.channels.len() >= MAX_CHANNELS {
        return fail(EMFILE);
    }
    let counted = shared.accounts.charge(context.owner.uid, Kind::Files, 1);
    counted.map_err(|_| Error::new(EMFILE))?;
    let number = shared.channels.take();
    context
        .channels
        .insert(number, crate::events::SharedQueue::default());
    Ok(number)
}

/// Notes that a channel has no descriptor any more. It ends now, or with the last completion queue
/// that uses it.
pub fn abandon_channel(shared: &mut Shared, context: &mut Context, number: u32) {
    if let Some(queue) = context.channel(number) {
        queue.borrow_mut().is_abandoned = true;
        end_abandoned(shared, context, number);
    }
}

/// Ends a channel that has neither a descriptor nor a completion queue any more.
fn end_abandoned(shared: &mut Shared, context: &mut Context, number: u32) {
    let channel = context.channel(number);
    let is_used = || {
        let mut objects = context.objects.newest_first();
        objects.any(|(_, object)| matches!(object, Object::Cq(cq) if cq.channel == Some(number)))
    };
    if channel.is_some_and(|queue| queue.borrow().is_abandoned) && !is_used() {
        context.channels.remove(&number);
        shared.channels.give_back(number);
        shared.accounts.release(context.owner.uid, Kind::Files, 1);
    }
}

/// The properties of the completion queue that a request asks for.
struct Wanted {
    user_handle: u64,
    cqe: u32,
    vector: u32,
    channel: i32,
}

/// `EINVAL`: the vector or the size. `EBADF`: the channel.
fn create(call: &mut Call<'_>, wanted: &Wanted) -> Result<abi::CreateCqAnswer> {
    if wanted.vector >= COMPLETION_VECTORS {
        return fail(EINVAL);
    }
    let channel = match wanted.channel {
        NO_CHANNEL => None,
        number => {
            let number = u32::try_from(number).map_err(|_| Error::new(EBADF))?;
            call.context.channel(number).ok_or(Error::new(EBADF))?;
            Some(number)
        }
    };
    let id = call
        .context
        .engine
        .core
        .create_cq(wanted.cqe)
        .map_err(refused)?;
    let slots = u64::from(wanted.cqe);
    let counted = call.charge_slots(slots);
    let inserted = counted.and_then(|()| insert_cq(call, wanted, id, channel));
    match inserted {
        Ok(cq_handle) => Ok(abi::CreateCqAnswer {
            cq_handle,
            cqe: wanted.cqe,
        }),
        Err(error) => {
            call.context.engine.core.destroy_cq(id).map_err(refused)?;
            Err(error)
        }
    }
}

/// Puts a completion queue, whose places the user was charged for, into the table.
fn insert_cq(call: &mut Call<'_>, wanted: &Wanted, id: Id, channel: Option<u32>) -> Result<u32> {
    let inserted = call.insert(Object::Cq(Cq {
        id,
        user_handle: wanted.user_handle,
        channel,
        cqe: wanted.cqe,
        report: abi::CqReport::default(),
    }));
    if inserted.is_err() {
        call.release_slots(wanted.cqe.into());
    }
    inserted
}

pub fn create_cq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateCq = call.request()?;
    let wanted = Wanted {
        user_handle: request.user_handle,
        cqe: request.cqe,
        vector: request.comp_vector,
        channel: request.comp_channel,
    };
    let answer = create(call, &wanted)?;
    call.answer(&answer);
    Ok(())
}

/// `EINVAL`: `comp_mask` or the reserved field. `EOPNOTSUPP`: flags.
pub fn create_cq_ex(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateCqEx = call.request()?;
    call.refuse_more::<abi::CreateCqEx>()?;
    if request.comp_mask != 0 || request.reserved != 0 {
        return fail(EINVAL);
    }
    if request.flags != 0 {
        return fail(EOPNOTSUPP);
    }
    let wanted = Wanted {
        user_handle: request.user_handle,
        cqe: request.cqe,
        vector: request.comp_vector,
        channel: request.comp_channel,
    };
    let base = create(call, &wanted)?;
    let response_length = call.response_length::<abi::CreateCqExAnswer>();
    call.answer(&abi::CreateCqExAnswer {
        base,
        comp_mask: 0,
        response_length,
    });
    Ok(())
}

/// `EINVAL`: the size, or the queue holds more completions.
pub fn resize_cq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ResizeCq = call.request()?;
    let before = *call.context.objects.cq(request.cq_handle)?;
    // Charges only the growth, so that a user at the limit can shrink a queue.
    let more = request.cqe.saturating_sub(before.cqe);
    call.charge_slots(more.into())?;
    let resized = call.context.engine.core.resize_cq(before.id, request.cqe);
    if let Err(error) = resized {
        call.release_slots(more.into());
        return Err(refused(error));
    }
    call.release_slots(before.cqe.saturating_sub(request.cqe).into());
    call.context.objects.cq_mut(request.cq_handle)?.cqe = request.cqe;
    call.answer(&abi::ResizeCqAnswer {
        cqe: request.cqe,
        reserved: 0,
    });
    Ok(())
}

/// `ENOSPC`: the answer has no room for as many completions.
pub fn poll_cq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::PollCq = call.request()?;
    let id = call.context.objects.cq(request.cq_handle)?.id;
    let wanted = request.ne as usize;
    let room = call.frame.room() - size_of::<abi::PollCqAnswer>();
    if wanted > room / size_of::<abi::Completion>() {
        return fail(ENOSPC);
    }
    let mut found = alloc::vec::Vec::new();
    while found.len() < wanted {
        match call.context.engine.core.poll_cq(id).map_err(refused)? {
            Some(completion) => found.push(completion),
            None => break,
        }
    }
    let count = found.len() as u32;
    call.answer(&abi::PollCqAnswer { count, reserved: 0 });
    for completion in &found {
        call.answer(&record(completion));
    }
    call.shared.totals.polled += u64::from(count);
    Ok(())
}

/// A completion in the format of the command's answer.
fn record(completion: &WorkCompletion) -> abi::Completion {
    abi::Completion {
        wr_id: completion.id,
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        byte_len: completion.byte_len,
        imm_data: completion.immediate,
        qp_num: completion.qp,
        src_qp: completion.src_qp,
        wc_flags: completion.flags.bits(),
        slid: completion.slid,
        sl: completion.service_level,
        port_num: PORT,
        ..abi::Completion::default()
    }
}

pub fn req_notify_cq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ReqNotifyCq = call.request()?;
    let id = call.context.objects.cq(request.cq_handle)?.id;
    let core = &mut call.context.engine.core;
    core.req_notify_cq(id, request.solicited_only != 0)
        .map_err(refused)
}

/// `EBUSY`: a queue pair uses it.
pub fn destroy_cq(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DestroyCq = call.request()?;
    let (completions, events) = end_cq(call.shared, call.context, request.cq_handle)?;
    call.answer(&abi::DestroyCqAnswer {
        comp_events_reported: completions,
        async_events_reported: events,
    });
    Ok(())
}

/// Destroys a completion queue. Returns how many of its completion events and how many of its
/// asynchronous events were read.
pub fn end_cq(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<(u32, u32)> {
    let cq = *context.objects.cq(handle)?;
    context.engine.core.destroy_cq(cq.id).map_err(refused)?;
    remove(shared, context, handle);
    release_slots(shared, context, cq.cqe.into());
    let reported = context.forget_events(handle, cq.channel);
    if let Some(number) = cq.channel {
        end_abandoned(shared, context, number);
    }
    Ok(reported)
}
