//! `kernel.proc`: contexts, their address spaces and file tables, as handles.
//!
//! The root is the *authority* of the process manager: it makes contexts and may set their
//! identity. All else is opened by name with dup from the handle of a context; having that handle
//! is the right to do so.

mod context;
mod filetable;
mod space;

use alloc::{
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};

use ::syscall::{
    CallFlags, EventFlags, MODE_FILE,
    data::{GlobalSchemes, Map, Stat},
    error::{EBADF, EINVAL, ENOENT, Error, Result},
};
use spin::Mutex;

use super::{
    Caller, OpenResult, Scheme,
    handles::{Handles, ROOT},
    kernel_id, trigger,
};
use crate::{
    mm::{
        UserBuf,
        space::{AddrSpace, SpaceHandle},
    },
    object::Description,
    proc::{self, FileTable},
    sched::{self, ContextRef},
};

/// Longest name for dup, in bytes.
const MAX_NAME: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registers {
    Int,
    Float,
    Env,
}

/// A change of the address space, which happens when the handle is closed.
#[derive(Clone)]
struct NewSpace {
    space: SpaceHandle,
    sp: usize,
    ip: usize,
    argument: usize,
}

/// A handle's reference to a file table: it keeps its own copies alive, but not tables of
/// contexts.
#[derive(Clone)]
enum TableRef {
    Owned(Arc<FileTable>),
    Borrowed(Weak<FileTable>),
}

#[derive(Clone)]
enum Kind {
    /// The context itself; everything else is a dup of it.
    OpenViaDup,
    Attributes,
    Status {
        privileged: bool,
    },
    Registers(Registers),
    Sighandler,
    Start,
    FileTable {
        table: TableRef,
        binary: bool,
        listing: Arc<Vec<u8>>,
    },
    CurrentFileTable,
    AwaitingFileTable(TableRef),
    AddrSpace(SpaceHandle),
    CurrentAddrSpace,
    AwaitingAddrSpace(NewSpace),
    MmapMinAddr(Arc<AddrSpace>),
    Affinity,
}

#[derive(Clone)]
struct Handle {
    context: ContextRef,
    kind: Kind,
}

static HANDLES: Mutex<Handles<Handle>> = Mutex::new(Handles::new());

pub struct ProcScheme;

/// Makes the `new-context` handle of an ended context readable.
pub fn context_ended(owner: usize) {
    trigger(
        kernel_id(GlobalSchemes::Proc),
        owner,
        EventFlags::EVENT_READ,
    );
}

fn handle(number: usize) -> Result<Handle> {
    HANDLES.lock().get(number).cloned()
}

/// The copy of a file table that a handle keeps.
pub fn table_copy(number: usize) -> Option<Arc<FileTable>> {
    match handle(number).ok()?.kind {
        Kind::FileTable {
            table: TableRef::Owned(table),
            ..
        }
        | Kind::AwaitingFileTable(TableRef::Owned(table)) => Some(table),
        _ => None,
    }
}

/// The handle behind a descriptor of the caller, which must be of this scheme.
fn handle_of_fd(fd: usize) -> Result<Handle> {
    let number = number_of_fd(fd)?;
    handle(number)
}

fn number_of_fd(fd: usize) -> Result<usize> {
    let file = proc::file(fd)?;
    if file.scheme() != kernel_id(GlobalSchemes::Proc) {
        return Err(Error::new(EBADF));
    }
    Ok(file.number())
}

fn set_kind(number: usize, kind: Kind) -> Result<()> {
    // Drop the old kind after the lock: it may hold the last reference to a large object.
    let old = {
        let mut handles = HANDLES.lock();
        core::mem::replace(&mut handles.get_mut(number)?.kind, kind)
    };
    drop(old);
    Ok(())
}

/// Makes a handle. Readable ones are positioned.
fn open(context: ContextRef, kind: Kind) -> Result<OpenResult> {
    let positioned = matches!(
        kind,
        Kind::AddrSpace(_) | Kind::FileTable { .. } | Kind::Affinity | Kind::MmapMinAddr(_)
    );
    let number = HANDLES.lock().insert(Handle { context, kind });
    if positioned {
        OpenResult::positioned(number)
    } else {
        OpenResult::plain(number)
    }
}

/// Opens contexts by name, for the holder of the authority.
fn open_by_authority(name: &str) -> Result<OpenResult> {
    match name {
        "" => Err(Error::new(EINVAL)),
        "cur-context" => open(sched::current(), Kind::OpenViaDup),
        "new-context" => {
            let context = proc::create()?;
            let handle = Handle {
                context: context.clone(),
                kind: Kind::OpenViaDup,
            };
            let number = HANDLES.lock().insert(handle);
            proc::set_owner(&context, number);
            OpenResult::plain(number)
        }
        _ => Err(Error::new(ENOENT)),
    }
}

impl Scheme for ProcScheme {
    fn dup(&self, number: usize, name: UserBuf, _caller: Caller) -> Result<OpenResult> {
        if name.len() > MAX_NAME {
            return Err(Error::new(EINVAL));
        }
        let name = name.read_vec()?;
        let text = core::str::from_utf8(&name).map_err(|_| Error::new(EINVAL))?;
        if number == ROOT {
            return open_by_authority(text);
        }
        let Handle { context, kind } = handle(number)?;
        match kind {
            Kind::OpenViaDup => context::open_part(context, text),
            Kind::FileTable {
                table,
                binary,
                listing,
            } => filetable::open_part(context, &table, binary, listing, text),
            Kind::AddrSpace(space) => space::open_part(context, &space, text),
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn read_at(&self, number: usize, buf: UserBuf, offset: u64, _flags: u32) -> Result<usize> {
        let Handle { context, kind } = handle(number)?;
        match kind {
            Kind::Registers(kind) => context::read_registers(&context, kind, buf),
            Kind::Status { .. } => context::read_status(&context, buf),
            Kind::Attributes => buf.write(&proc::attributes(&context)),
            Kind::Sighandler => context::read_sighandler(buf),
            Kind::Affinity => context::read_affinity(&context, buf),
            Kind::AddrSpace(space) => space::list(&space, buf, offset),
            Kind::MmapMinAddr(space) => space::read_min_address(&space, buf),
            Kind::FileTable { listing, .. } => {
                let offset = usize::try_from(offset).ok();
                let rest = offset.and_then(|offset| listing.get(offset..));
                buf.write(rest.unwrap_or(&[]))
            }
            _ => Err(Error::new(EBADF)),
        }
    }

    fn write_at(&self, number: usize, buf: UserBuf, _offset: u64, _flags: u32) -> Result<usize> {
        let Handle { context, kind } = handle(number)?;
        match kind {
            Kind::OpenViaDup => context::end_self(&context, buf),
            Kind::Status { privileged } => context::control(&context, privileged, buf),
            Kind::Start => crate::proc::start(&context).map(|()| buf.len()),
            Kind::Attributes => context::write_attributes(&context, buf),
            Kind::Registers(kind) => context::write_registers(&context, kind, buf),
            Kind::Sighandler => context::write_sighandler(buf),
            Kind::Affinity => context::write_affinity(&context, buf),
            Kind::AddrSpace(space) => space::change(&space, buf),
            Kind::CurrentAddrSpace => space::choose(number, buf),
            Kind::MmapMinAddr(space) => space::write_min_address(&space, buf),
            Kind::CurrentFileTable => filetable::choose(number, buf),
            Kind::FileTable { .. } | Kind::AwaitingAddrSpace(_) | Kind::AwaitingFileTable(_) => {
                Err(Error::new(EBADF))
            }
        }
    }

    fn call(
        &self,
        numbers: &[usize],
        payload: UserBuf,
        _flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        let &[number] = numbers else {
            return Err(Error::new(EINVAL));
        };
        let Handle { context, kind } = handle(number)?;
        match kind {
            Kind::OpenViaDup => context::call(metadata),
            Kind::FileTable {
                table: TableRef::Borrowed(table),
                ..
            } => filetable::call(&context, &table, payload, metadata),
            Kind::AddrSpace(_) => space::call(metadata),
            _ => Err(Error::new(EBADF)),
        }
    }

    fn send_files(
        &self,
        number: usize,
        files: Vec<Arc<Description>>,
        _flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        let Handle { context, kind } = handle(number)?;
        match kind {
            Kind::FileTable { .. } => filetable::insert(&context, files, metadata),
            _ => Err(Error::new(EBADF)),
        }
    }

    fn mmap(
        &self,
        file: &Arc<Description>,
        space: &Arc<AddrSpace>,
        map: &Map,
        transfer: bool,
    ) -> Result<usize> {
        match handle(file.number())?.kind {
            Kind::AddrSpace(source) => space::map_from(&source, space, map, transfer),
            _ => Err(Error::new(EBADF)),
        }
    }

    fn path(&self, _number: usize) -> Result<String> {
        Ok(String::from("/scheme/kernel.proc/"))
    }

    fn fsize(&self, number: usize) -> Result<u64> {
        Ok(match handle(number)?.kind {
            Kind::FileTable { listing, .. } => listing.len() as u64,
            _ => 0,
        })
    }

    fn stat(&self, number: usize) -> Result<Stat> {
        Ok(Stat {
            st_mode: MODE_FILE | 0o666,
            st_size: self.fsize(number)?,
            ..Stat::default()
        })
    }

    fn fevent(&self, number: usize, _flags: EventFlags) -> Result<EventFlags> {
        handle(number).map(|_| EventFlags::empty())
    }

    fn close(&self, number: usize) {
        // The handle is dropped after the lock.
        let removed = HANDLES.lock().remove(number);
        let Some(Handle { context, kind }) = removed else {
            return;
        };
        if !proc::is_alive(&context) {
            // The context could never give up the table.
            return;
        }
        match kind {
            Kind::AwaitingAddrSpace(new) => space::enter(&context, new),
            Kind::AwaitingFileTable(table) => filetable::enter(&context, &table),
            _ => {}
        }
    }
}
