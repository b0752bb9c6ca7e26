//! The commands of user verbs: a table of their sizes and functions, and their execution.

mod address;
mod completion;
mod device;
mod memory;
mod post;
mod queue_pair;
pub mod report;
mod srq;

use alloc::vec::Vec;

use client_memory::borrow::Wanted;
use syscall::error::{EINVAL, EOPNOTSUPP, Error, Result};
use verbs_abi::command::Command;
use verbs_abi::frame::Frame;
use verbs_abi::records::{self as abi};
use verbs_core::types::QpState;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::context::Context;
use crate::error::{fail, malformed};
use crate::limits::Kind;
use crate::object::Object;
use crate::shared::Shared;

pub use completion::{abandon_channel, add_channel};

/// A command that is being executed.
struct Call<'a> {
    shared: &'a mut Shared,
    context: &'a mut Context,
    frame: Frame<'a>,
    answer: Vec<u8>,
}

/// The outcome of a command: the answer, which even a refused command may have, and the result.
pub type Outcome = (Vec<u8>, Result<()>);

impl Call<'_> {
    /// Reads a copy of the request's structure.
    fn request<T: FromBytes>(&self) -> Result<T> {
        self.frame.request().map_err(malformed)
    }

    /// Adds a structure to the answer, or as much of it as there is room for.
    fn answer<T: IntoBytes + Immutable>(&mut self, answer: &T) {
        let bytes = answer.as_bytes();
        let room = self.frame.room().saturating_sub(self.answer.len());
        let count = bytes.len().min(room);
        self.answer.extend(bytes.iter().take(count));
    }

    /// The length of an extended answer of type `T`, cut to the room that there is.
    fn response_length<T>(&self) -> u32 {
        size_of::<T>().min(self.frame.room()) as u32
    }

    /// Refuses an extended command with bytes other than 0 behind the request as known here.
    fn refuse_more<T>(&self) -> Result<()> {
        match self.frame.behind::<T>().iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => fail(EOPNOTSUPP),
        }
    }

    /// Reads the data of the provider (the program's verbs library) behind the request `R`, if
    /// there is any.
    fn provider<R, T: FromBytes>(&self) -> Option<T> {
        T::read_from_prefix(self.frame.provider::<R>())
            .ok()
            .map(|(data, _)| data)
    }

    /// Puts an object into the table and charges the user for it.
    fn insert(&mut self, object: Object) -> Result<u32> {
        let uid = self.context.owner.uid;
        self.shared.accounts.charge(uid, Kind::Objects, 1)?;
        let inserted = self.context.objects.insert(object);
        if inserted.is_err() {
            self.shared.accounts.release(uid, Kind::Objects, 1);
        }
        inserted
    }

    /// Charges the user for places for completions and scatter/gather elements.
    fn charge_slots(&mut self, count: u64) -> Result<()> {
        let uid = self.context.owner.uid;
        self.shared.accounts.charge(uid, Kind::Slots, count)
    }

    /// Releases `count` of the places that the user was charged.
    fn release_slots(&mut self, count: u64) {
        release_slots(self.shared, self.context, count);
    }

    /// Whether the context is root's.
    fn is_root(&self) -> bool {
        self.context.owner.uid == 0
    }
}

/// The state with this number.
fn state_of(number: u8) -> Result<QpState> {
    let mut states = QpState::ALL.into_iter();
    let found = states.find(|state| *state as u32 == u32::from(number));
    found.ok_or(Error::new(EINVAL))
}

/// Takes an object out of the table and releases its charge.
fn remove(shared: &mut Shared, context: &mut Context, handle: u32) -> Option<Object> {
    let object = context.objects.remove(handle)?;
    shared.accounts.release(context.owner.uid, Kind::Objects, 1);
    Some(object)
}

/// Releases `count` places for completions and scatter/gather elements.
fn release_slots(shared: &mut Shared, context: &Context, count: u64) {
    shared
        .accounts
        .release(context.owner.uid, Kind::Slots, count);
}

/// A row of the table of commands.
struct Row {
    command: Command,
    is_extended: bool,
    /// Bytes of the request, and of the fixed part of the answer.
    request: usize,
    answer: usize,
    /// The function that executes it.
    run: fn(&mut Call<'_>) -> Result<()>,
}

const fn plain<R, A>(command: Command, run: fn(&mut Call<'_>) -> Result<()>) -> Row {
    Row {
        command,
        is_extended: false,
        request: size_of::<R>(),
        answer: size_of::<A>(),
        run,
    }
}

const fn extended<R>(command: Command, answer: usize, run: fn(&mut Call<'_>) -> Result<()>) -> Row {
    Row {
        command,
        is_extended: true,
        request: size_of::<R>(),
        answer,
        run,
    }
}

/// The answer of a command that has none.
type Nothing = ();

/// All commands. Those for which Linux has a number and no function are missing.
const TABLE: &[Row] = &[
    plain::<abi::GetContext, abi::GetContextAnswer>(Command::GetContext, device::get_context),
    plain::<abi::QueryDevice, abi::QueryDeviceAnswer>(Command::QueryDevice, device::query_device),
    extended::<abi::QueryDeviceEx>(
        Command::QueryDevice,
        size_of::<abi::QueryDeviceAnswer>() + 8,
        device::query_device_ex,
    ),
    plain::<abi::QueryPort, abi::QueryPortAnswer>(Command::QueryPort, device::query_port),
    plain::<abi::AllocPd, abi::AllocPdAnswer>(Command::AllocPd, memory::alloc_pd),
    plain::<abi::DeallocPd, Nothing>(Command::DeallocPd, memory::dealloc_pd),
    plain::<abi::RegMr, abi::RegMrAnswer>(Command::RegMr, memory::reg_mr),
    plain::<abi::ReregMr, abi::ReregMrAnswer>(Command::ReregMr, memory::rereg_mr),
    plain::<abi::DeregMr, Nothing>(Command::DeregMr, memory::dereg_mr),
    plain::<abi::AllocMw, abi::AllocMwAnswer>(Command::AllocMw, memory::alloc_mw),
    plain::<abi::DeallocMw, Nothing>(Command::DeallocMw, memory::dealloc_mw),
    plain::<abi::CreateCompChannel, abi::CreateCompChannelAnswer>(
        Command::CreateCompChannel,
        completion::create_channel,
    ),
    plain::<abi::CreateCq, abi::CreateCqAnswer>(Command::CreateCq, completion::create_cq),
    extended::<abi::CreateCqEx>(
        Command::CreateCq,
        size_of::<abi::CreateCqExAnswer>(),
        completion::create_cq_ex,
    ),
    // Room for the reserved field of the answer is not required.
    plain::<abi::ResizeCq, u32>(Command::ResizeCq, completion::resize_cq),
    plain::<abi::PollCq, abi::PollCqAnswer>(Command::PollCq, completion::poll_cq),
    plain::<abi::ReqNotifyCq, Nothing>(Command::ReqNotifyCq, completion::req_notify_cq),
    plain::<abi::DestroyCq, abi::DestroyCqAnswer>(Command::DestroyCq, completion::destroy_cq),
    plain::<abi::CreateQp, abi::CreateQpAnswer>(Command::CreateQp, queue_pair::create_qp),
    extended::<abi::CreateQpEx>(
        Command::CreateQp,
        size_of::<abi::CreateQpExAnswer>(),
        queue_pair::create_qp_ex,
    ),
    plain::<abi::OpenQp, abi::CreateQpAnswer>(Command::OpenQp, queue_pair::open_qp),
    plain::<abi::QueryQp, abi::QueryQpAnswer>(Command::QueryQp, queue_pair::query_qp),
    plain::<abi::ModifyQp, Nothing>(Command::ModifyQp, queue_pair::modify_qp),
    extended::<abi::ModifyQpEx>(Command::ModifyQp, 0, queue_pair::modify_qp_ex),
    plain::<abi::DestroyQp, abi::DestroyQpAnswer>(Command::DestroyQp, queue_pair::destroy_qp),
    plain::<abi::PostSend, abi::PostAnswer>(Command::PostSend, post::send),
    plain::<abi::PostRecv, abi::PostAnswer>(Command::PostRecv, post::receive),
    plain::<abi::PostRecv, abi::PostAnswer>(Command::PostSrqRecv, post::srq_receive),
    plain::<abi::CreateSrq, abi::CreateSrqAnswer>(Command::CreateSrq, srq::create_srq),
    plain::<abi::CreateXsrq, abi::CreateSrqAnswer>(Command::CreateXsrq, srq::create_xsrq),
    plain::<abi::ModifySrq, Nothing>(Command::ModifySrq, srq::modify_srq),
    plain::<abi::QuerySrq, abi::QuerySrqAnswer>(Command::QuerySrq, srq::query_srq),
    plain::<abi::DestroySrq, abi::DestroySrqAnswer>(Command::DestroySrq, srq::destroy_srq),
    plain::<abi::CreateAh, abi::CreateAhAnswer>(Command::CreateAh, address::create_ah),
    plain::<abi::DestroyAh, Nothing>(Command::DestroyAh, address::destroy_ah),
    plain::<abi::Multicast, Nothing>(Command::AttachMcast, address::attach),
    plain::<abi::Multicast, Nothing>(Command::DetachMcast, address::detach),
    plain::<abi::OpenXrcd, abi::OpenXrcdAnswer>(Command::OpenXrcd, srq::open_xrcd),
    plain::<abi::CloseXrcd, Nothing>(Command::CloseXrcd, srq::close_xrcd),
];

/// The table, for tests: each command, whether it is extended, and the bytes of its request and of
/// its answer.
#[cfg(test)]
pub fn table() -> impl Iterator<Item = (Command, bool, usize, usize)> {
    let rows = TABLE.iter();
    rows.map(|row| (row.command, row.is_extended, row.request, row.answer))
}

/// Executes a command of a context. With `is_exact`, `bytes` is the command and nothing more.
///
/// # Errors
/// `EINVAL`, `EOPNOTSUPP`, `ENOSPC`: the bytes are no command. `EINVAL`: GET_CONTEXT was not
/// executed yet, or is executed a second time. Those of the command.
pub fn execute(
    shared: &mut Shared,
    context: &mut Context,
    bytes: &[u8],
    is_exact: bool,
) -> Outcome {
    let (frame, row) = match find(context, bytes, is_exact) {
        Ok(found) => found,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let room = frame.room();
    let mut call = Call {
        shared,
        context,
        frame,
        answer: Vec::new(),
    };
    let result = (row.run)(&mut call);
    let mut answer = call.answer;
    // Room of an extended command that the answer does not fill is set to zero.
    if row.is_extended && result.is_ok() {
        answer.resize(room, 0);
    }
    (answer, result)
}

/// Returns the pages that a command is about to register, if it registers memory and can succeed.
pub fn wanted_pages(context: &Context, bytes: &[u8], is_exact: bool) -> Option<Wanted> {
    let (frame, _) = find(context, bytes, is_exact).ok()?;
    memory::wanted(context, &frame)
}

/// Reads the frame of a command and finds its row in the table.
fn find<'a>(
    context: &Context,
    bytes: &'a [u8],
    is_exact: bool,
) -> Result<(Frame<'a>, &'static Row)> {
    let frame = Frame::read(bytes, is_exact).map_err(malformed)?;
    let command = Command::from_number(frame.number);
    let is_its = |row: &&Row| Some(row.command) == command && row.is_extended == frame.is_extended;
    let row = TABLE.iter().find(is_its).ok_or(Error::new(EOPNOTSUPP))?;
    frame.check(row.request, row.answer).map_err(malformed)?;
    if context.is_begun == (row.command == Command::GetContext) {
        return fail(EINVAL);
    }
    Ok((frame, row))
}

/// Destroys all objects, those made last first, in rounds until none is left.
pub fn destroy_all(shared: &mut Shared, context: &mut Context) {
    loop {
        let newest: Vec<u32> = context
            .objects
            .newest_first()
            .map(|(handle, _)| handle)
            .collect();
        let before = newest.len();
        for handle in newest {
            // An object in use is destroyed in a later round, once its users have gone.
            let _ = destroy(shared, context, handle);
        }
        if context.objects.is_empty() || context.objects.len() == before {
            break;
        }
    }
    for number in context.channels.keys() {
        shared.channels.give_back(*number);
        shared.accounts.release(context.owner.uid, Kind::Files, 1);
    }
}

/// Destroys an object, whatever its type.
fn destroy(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<()> {
    match context.objects.get(handle)?.clone() {
        Object::Pd(..) => memory::end_pd(shared, context, handle),
        Object::Mr(_) => memory::end_mr(shared, context, handle),
        Object::Cq(_) => completion::end_cq(shared, context, handle).map(|_| ()),
        Object::Qp(qp) => {
            for (gid, lid) in qp.groups {
                address::leave(shared, context, handle, &gid, lid)?;
            }
            queue_pair::end_qp(shared, context, handle).map(|_| ())
        }
        Object::Srq(_) => srq::end_srq(shared, context, handle).map(|_| ()),
        Object::Ah(_) => address::end_ah(shared, context, handle),
        Object::Xrcd(_) => srq::end_xrcd(shared, context, handle),
        Object::Mw(_) => memory::end_mw(shared, context, handle),
    }
}
