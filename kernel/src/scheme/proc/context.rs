//! Handles of one context: status, registers, attributes, start and end.

use alloc::sync::Arc;

use ::syscall::{
    EnvRegisters, FloatRegisters, IntRegisters, ProcSchemeAttrs, SetSighandlerData,
    error::{EINVAL, ENOENT, EOPNOTSUPP, EOWNERDEAD, EPERM, Error, Result},
    flag::{ContextStatus, ContextVerb, ProcSchemeVerb},
};

use super::{Kind, ROOT, Registers, filetable, number_of_fd, open};
use crate::{
    mm::{UserBuf, space::SpaceHandle},
    proc::{self, Affinity},
    sched::{self, Context, ContextRef, State},
    scheme::{self, OpenResult, notify_unmapped},
};

/// Bytes of `FloatRegisters`; the processor's own layout is longer and starts with them.
const FLOAT_SIZE: usize = size_of::<FloatRegisters>();

/// Opens a part of a context by name: `EINVAL` for an unknown one.
pub fn open_part(context: ContextRef, name: &str) -> Result<OpenResult> {
    let kind = match name {
        "open_via_dup" => Kind::OpenViaDup,
        "addrspace" => {
            let space = context.space().ok_or(Error::new(ENOENT))?;
            Kind::AddrSpace(SpaceHandle::new(space))
        }
        "mmap-min-addr" => Kind::MmapMinAddr(context.space().ok_or(Error::new(ENOENT))?),
        "current-addrspace" => Kind::CurrentAddrSpace,
        "filetable" => filetable::of_context(&context, false)?,
        "filetable-binary" => filetable::of_context(&context, true)?,
        "current-filetable" => Kind::CurrentFileTable,
        "regs/int" => Kind::Registers(Registers::Int),
        "regs/float" => Kind::Registers(Registers::Float),
        "regs/env" => Kind::Registers(Registers::Env),
        "sighandler" => Kind::Sighandler,
        "start" => Kind::Start,
        "status" => Kind::Status { privileged: false },
        "sched-affinity" => Kind::Affinity,
        _ => match name.strip_prefix("auth-") {
            Some(rest) => with_authority(rest)?,
            None => return Err(Error::new(EINVAL)),
        },
    };
    open(context, kind)
}

/// `<fd>-attrs` and `<fd>-status`, where `fd` is the caller's descriptor of the authority.
fn with_authority(name: &str) -> Result<Kind> {
    let missing = Error::new(ENOENT);
    let (fd, part) = name.split_once('-').ok_or(missing)?;
    let kind = match part {
        "attrs" => Kind::Attributes,
        "status" => Kind::Status { privileged: true },
        _ => return Err(missing),
    };
    let fd = fd.parse().map_err(|_| missing)?;
    if number_of_fd(fd)? == ROOT {
        Ok(kind)
    } else {
        Err(missing)
    }
}

/// Stores the status word, followed by the exception that ended the context.
pub fn read_status(context: &Context, buf: UserBuf) -> Result<usize> {
    let exception = proc::exception(context);
    let was_killed = context.is_killed() && !proc::ended_itself(context);
    let status = match (context.state(), &exception) {
        (State::Dead, Some(_)) => ContextStatus::UnhandledExcp,
        (State::Dead | State::Runnable, _) if was_killed => ContextStatus::ForceKilled,
        (State::Dead, None) => ContextStatus::Dead,
        (State::Runnable, _) => ContextStatus::Runnable,
        (State::Blocked, _) => ContextStatus::Blocked,
        (State::New, _) => ContextStatus::NotYetStarted,
        (State::Stopped, _) => ContextStatus::Stopped,
    };
    let word = (status as usize).to_ne_bytes();
    let Some(exception) = exception.filter(|_| status == ContextStatus::UnhandledExcp) else {
        return buf.write(&word);
    };
    buf.write_all(&word)?;
    Ok(word.len() + buf.skip(word.len()).write(&exception)?)
}

/// Handles a verb written to a status handle.
pub fn control(context: &ContextRef, privileged: bool, buf: UserBuf) -> Result<usize> {
    match ContextVerb::try_from_raw(buf.word(0)?).ok_or(Error::new(EINVAL))? {
        ContextVerb::Stop | ContextVerb::Unstop if !privileged => return Err(Error::new(EPERM)),
        ContextVerb::Stop if context.state() == State::Dead => return Err(Error::new(EOWNERDEAD)),
        ContextVerb::Stop => sched::stop(context),
        ContextVerb::Unstop => sched::unstop(context),
        ContextVerb::Interrupt => sched::interrupt(context),
        ContextVerb::ForceKill if is_current(context) => return end_current(buf),
        ContextVerb::ForceKill => {
            if context.state() != State::Dead {
                scheme::kill(context);
            }
        }
    }
    Ok(size_of::<usize>())
}

/// Handles a verb that was written to the context handle itself: a context may end itself.
pub fn end_self(context: &ContextRef, buf: UserBuf) -> Result<usize> {
    match ContextVerb::try_from_raw(buf.word(0)?) {
        Some(ContextVerb::ForceKill) if is_current(context) => end_current(buf),
        Some(ContextVerb::ForceKill) => Err(Error::new(EPERM)),
        _ => Err(Error::new(EINVAL)),
    }
}

fn is_current(context: &ContextRef) -> bool {
    Arc::ptr_eq(context, &sched::current())
}

/// Ends the current context at the end of this system call. First unmaps its stack if the second
/// and third word describe one.
fn end_current(buf: UserBuf) -> Result<usize> {
    if let Some(base) = buf.optional_word(1)? {
        let size = buf.word(2)?;
        if size > 0 {
            notify_unmapped(sched::current_space()?.unmap(base, size)?);
        }
    }
    let current = sched::current();
    proc::set_ended_itself(&current);
    scheme::kill(&current);
    Ok(size_of::<usize>())
}

/// Sets the identity of the context.
pub fn write_attributes(context: &Context, buf: UserBuf) -> Result<usize> {
    let mut attributes = ProcSchemeAttrs::default();
    buf.read_exact(&mut attributes)?;
    proc::set_attributes(context, &attributes)?;
    Ok(size_of::<ProcSchemeAttrs>())
}

/// The bytes of a CPU set of Redox's kernel, which supports fewer processors: the shortest that is
/// accepted.
const MIN_AFFINITY: usize = 16;

/// Stores the CPU set, or as much of it as fits.
pub fn read_affinity(context: &Context, buf: UserBuf) -> Result<usize> {
    if buf.len() < MIN_AFFINITY {
        return Err(Error::new(EINVAL));
    }
    buf.write(&proc::affinity(context).0)
}

/// Sets the CPU set; one that is shorter has no processors beyond its end.
pub fn write_affinity(context: &ContextRef, buf: UserBuf) -> Result<usize> {
    if buf.len() < MIN_AFFINITY {
        return Err(Error::new(EINVAL));
    }
    let mut affinity = Affinity([0; size_of::<Affinity>()]);
    let count = buf.read(&mut affinity.0)?;
    proc::set_affinity(context, affinity);
    Ok(count)
}

/// Stores registers.
pub fn read_registers(context: &Context, kind: Registers, buf: UserBuf) -> Result<usize> {
    match kind {
        Registers::Int => buf.write(&context.registers()),
        Registers::Float => {
            let state = context.float_state();
            buf.write(state.get(..FLOAT_SIZE).unwrap_or(&[]))
        }
        Registers::Env => {
            let (fs, gs) = context.bases();
            buf.write(&EnvRegisters {
                fsbase: fs as u64,
                gsbase: gs as u64,
            })
        }
    }
}

/// Replaces registers.
pub fn write_registers(context: &Context, kind: Registers, buf: UserBuf) -> Result<usize> {
    match kind {
        Registers::Int => {
            let mut registers = IntRegisters::default();
            buf.read_exact(&mut registers)?;
            context.set_registers(&registers);
            Ok(size_of::<IntRegisters>())
        }
        Registers::Float => {
            let mut state = context.float_state();
            if let Some(part) = state.get_mut(..FLOAT_SIZE) {
                buf.read_exact(part)?;
            }
            context.set_float_state(&state);
            Ok(FLOAT_SIZE)
        }
        Registers::Env => {
            let mut registers = EnvRegisters::default();
            buf.read_exact(&mut registers)?;
            let EnvRegisters { fsbase, gsbase } = registers;
            context.set_bases(fsbase as usize, gsbase as usize)?;
            Ok(size_of::<EnvRegisters>())
        }
    }
}

/// Programs get no signals: the handler data reads as unset.
pub fn read_sighandler(buf: UserBuf) -> Result<usize> {
    buf.write(&SetSighandlerData::default())
}

/// Programs get no signals: only unsetting the handler succeeds.
pub fn write_sighandler(buf: UserBuf) -> Result<usize> {
    let mut data = SetSighandlerData::default();
    buf.read_exact(&mut data)?;
    if data.thread_control_addr != 0 && data.proc_control_addr != 0 {
        return Err(Error::new(EOPNOTSUPP));
    }
    Ok(size_of::<SetSighandlerData>())
}

/// Calls on a context handle. Only root gets port access; Redox does not check that.
pub fn call(metadata: &[u64]) -> Result<usize> {
    let verb = metadata.first().and_then(|&verb| u8::try_from(verb).ok());
    match verb.and_then(ProcSchemeVerb::try_from_raw) {
        Some(ProcSchemeVerb::Iopl) if proc::caller().uid != 0 => Err(Error::new(EPERM)),
        Some(ProcSchemeVerb::Iopl) => {
            sched::current().allow_ports();
            Ok(0)
        }
        _ => Err(Error::new(EINVAL)),
    }
}
