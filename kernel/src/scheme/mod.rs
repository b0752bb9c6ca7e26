//! Schemes: the objects behind descriptors.
//!
//! A scheme is an implementation of [`Scheme`]. The kernel's schemes have fixed ids and one file
//! each in this folder; a daemon's scheme is a [`user::UserScheme`], made through [`manager`].
//! Every default method gives Redox's answer for an operation that a scheme does not have.

mod acpi;
mod bytes;
mod debug;
mod dirents;
mod dtb;
pub mod event;
mod exit;
mod handles;
mod input;
mod irq;
mod manager;
mod memory;
mod pipe;
mod proc;
mod reaper;
mod serio;
mod sys;
mod time;
mod user;

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use ::syscall::{
    CallFlags, EventFlags, MapFlags, MunmapFlags, StdFsCallKind,
    data::{GlobalSchemes, Map, Stat, StatVfs},
    error::{EBADF, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, ESPIPE, Error, Result},
};
use spin::Mutex;

use crate::{
    mm::{
        UserBuf,
        space::{AddrSpace, Piece, Pieces, Placement, Prot},
    },
    object::{
        Description, DescriptionState, InternalFlags, SchemeId,
        deferred::{Entry, Message},
    },
    proc::{Caller, FileTable},
    sched,
};

pub use event::{counts as event_counts, trigger};
pub use exit::{exit_current, kill};
pub use memory::map_anonymous;
pub use sys::set_environment;

/// The offset for "no position", which unpositioned descriptions pass.
pub const NO_OFFSET: u64 = u64::MAX;

/// Most bytes that a kernel scheme handles in one call where it works record by record. The rest
/// is left for the next call, so that a huge buffer cannot keep the kernel busy.
pub const MAX_IO: usize = 64 * 1024;

/// The result of an open or dup.
#[derive(Debug)]
pub enum OpenResult {
    /// A new object of the same scheme.
    SchemeLocal(usize, InternalFlags),
    /// Any description.
    External(Arc<Description>),
}

impl OpenResult {
    /// An object of the same scheme without a position kept by the kernel.
    pub fn plain(number: usize) -> Result<Self> {
        Ok(Self::SchemeLocal(number, InternalFlags::empty()))
    }

    /// An object of the same scheme with a position kept by the kernel.
    pub fn positioned(number: usize) -> Result<Self> {
        Ok(Self::SchemeLocal(number, InternalFlags::POSITIONED))
    }

    /// The description of the result: a new one with `flags` for an object of `scheme`.
    pub fn into_description(self, scheme: SchemeId, flags: u32) -> Arc<Description> {
        match self {
            Self::External(description) => description,
            Self::SchemeLocal(number, internal) => {
                let state = DescriptionState {
                    offset: 0,
                    flags,
                    internal,
                };
                Arc::new(Description::new(scheme, number, state))
            }
        }
    }
}

/// A request to unmap, for a scheme.
#[derive(Clone, Copy, Debug)]
pub struct MunmapRequest {
    /// Offset in the object, in bytes.
    pub offset: u64,
    /// Bytes.
    pub size: usize,
    /// Flags.
    pub flags: MunmapFlags,
}

fn unsupported<T>() -> Result<T> {
    Err(Error::new(EOPNOTSUPP))
}

fn bad_fd<T>() -> Result<T> {
    Err(Error::new(EBADF))
}

/// The operations on the objects of one scheme. `number` is the scheme's own number for an object.
/// Buffers belong to the current program. Everything but `close` and `fevent_without_waiting` may
/// block.
pub trait Scheme: Send + Sync {
    /// Opens `path` below an object.
    fn open(
        &self,
        _number: usize,
        _path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        _caller: Caller,
    ) -> Result<OpenResult> {
        unsupported()
    }

    /// Makes a new object from an object and a name.
    fn dup(&self, _number: usize, _name: UserBuf, _caller: Caller) -> Result<OpenResult> {
        unsupported()
    }

    /// Reads without position.
    fn read(&self, _number: usize, _buf: UserBuf, _flags: u32) -> Result<usize> {
        bad_fd()
    }

    /// Writes without position.
    fn write(&self, _number: usize, _buf: UserBuf, _flags: u32) -> Result<usize> {
        bad_fd()
    }

    /// Reads at `offset`, which is [`NO_OFFSET`] for unpositioned descriptions.
    fn read_at(&self, number: usize, buf: UserBuf, offset: u64, flags: u32) -> Result<usize> {
        if offset != NO_OFFSET {
            return Err(Error::new(ESPIPE));
        }
        self.read(number, buf, flags)
    }

    /// Writes at `offset`, which is [`NO_OFFSET`] for unpositioned descriptions.
    fn write_at(&self, number: usize, buf: UserBuf, offset: u64, flags: u32) -> Result<usize> {
        if offset != NO_OFFSET {
            return Err(Error::new(ESPIPE));
        }
        self.write(number, buf, flags)
    }

    /// Size in bytes, for seeks from the end.
    fn fsize(&self, _number: usize) -> Result<u64> {
        Err(Error::new(ESPIPE))
    }

    /// The path of a kernel object, without any request.
    fn path(&self, _number: usize) -> Result<String> {
        unsupported()
    }

    /// Stores the path of an object.
    fn fpath(&self, number: usize, buf: UserBuf) -> Result<usize> {
        buf.write(self.path(number)?.as_bytes())
    }

    /// Describes an object of the kernel.
    fn stat(&self, _number: usize) -> Result<Stat> {
        bad_fd()
    }

    /// Stores the description of an object.
    fn fstat(&self, number: usize, buf: UserBuf) -> Result<()> {
        buf.write_all(&bytes::stat(&self.stat(number)?))
    }

    /// Describes the file system of an object.
    fn statvfs(&self, _number: usize) -> Result<StatVfs> {
        bad_fd()
    }

    /// Stores directory entries from the opaque position `start` on.
    fn getdents(&self, _number: usize, _buf: UserBuf, _header: u16, _start: u64) -> Result<usize> {
        unsupported()
    }

    /// Changes the owner.
    fn fchown(&self, _number: usize, _uid: u32, _gid: u32) -> Result<()> {
        bad_fd()
    }

    /// Offers every fcntl on the description to the scheme; an error aborts the call.
    fn fcntl(&self, _number: usize, _command: usize, _argument: usize) -> Result<usize> {
        Ok(0)
    }

    /// Records interest in `flags`. Returns the ones that hold now.
    fn fevent(&self, _number: usize, _flags: EventFlags) -> Result<EventFlags> {
        Ok(EventFlags::empty())
    }

    /// Tells the scheme that only `flags` are still of interest, unless memory is short. Never
    /// waits.
    fn fevent_without_waiting(&self, _number: usize, _flags: EventFlags) {}

    /// Writes an object through to its storage.
    fn fsync(&self, _number: usize) -> Result<()> {
        Ok(())
    }

    /// Links an object at a path.
    fn flink(&self, _number: usize, _path: &str) -> Result<()> {
        bad_fd()
    }

    /// Moves an object to a path.
    fn frename(&self, _number: usize, _path: &str) -> Result<()> {
        bad_fd()
    }

    /// Removes a path below an object.
    fn unlink(&self, _number: usize, _path: &str, _flags: usize) -> Result<()> {
        Err(Error::new(ENOENT))
    }

    /// The scheme's own operations; `numbers` holds one object, or two.
    fn call(
        &self,
        _numbers: &[usize],
        _payload: UserBuf,
        _flags: CallFlags,
        _metadata: &[u64],
    ) -> Result<usize> {
        unsupported()
    }

    /// A file system operation in the form of a call: the metadata is kind and two arguments.
    fn std_fs_call(
        &self,
        _file: &Description,
        numbers: &[usize],
        payload: UserBuf,
        metadata: &[u64],
    ) -> Result<usize> {
        let (kind, arg1, arg2) = std_fs_metadata(metadata)?;
        if kind == StdFsCallKind::Relpathat {
            return unsupported();
        }
        let &[number] = numbers else {
            return Err(Error::new(EINVAL));
        };
        match kind {
            StdFsCallKind::Getdents => self.getdents(number, payload, arg2 as u16, arg1),
            StdFsCallKind::Fstat => self.fstat(number, payload).map(|()| 0),
            StdFsCallKind::Fstatvfs => payload
                .write_all(&bytes::statvfs(&self.statvfs(number)?))
                .map(|()| 0),
            StdFsCallKind::Fsync => self.fsync(number).map(|()| 0),
            StdFsCallKind::Ftruncate | StdFsCallKind::Futimens | StdFsCallKind::Fchmod => bad_fd(),
            _ => unsupported(),
        }
    }

    /// Takes files that were sent to an object.
    fn send_files(
        &self,
        _number: usize,
        _files: Vec<Arc<Description>>,
        _flags: CallFlags,
        _metadata: &[u64],
    ) -> Result<usize> {
        unsupported()
    }

    /// Gives files of an object to the caller, into the slots that the payload lists.
    fn receive_files(
        &self,
        _number: usize,
        _payload: UserBuf,
        _flags: CallFlags,
        _metadata: &[u64],
    ) -> Result<usize> {
        unsupported()
    }

    /// Maps an object into `space` and returns the address. With `transfer` the mappings of an
    /// address space object move instead of being borrowed.
    fn mmap(
        &self,
        _file: &Arc<Description>,
        _space: &Arc<AddrSpace>,
        _map: &Map,
        _transfer: bool,
    ) -> Result<usize> {
        unsupported()
    }

    /// Reports that a mapping is gone, and waits until the scheme has answered.
    fn unmapped(&self, _number: usize, _request: MunmapRequest) -> Result<()> {
        unsupported()
    }

    /// Reports that the last reference to an object of the kernel is gone. Must not block.
    fn close(&self, _number: usize) {}
}

/// Splits the metadata of a file system call: `EINVAL` when words are missing, `EOPNOTSUPP` for an
/// unknown kind.
fn std_fs_metadata(metadata: &[u64]) -> Result<(StdFsCallKind, u64, u64)> {
    let &[kind, arg1, arg2, ..] = metadata else {
        return Err(Error::new(EINVAL));
    };
    // Only the first byte holds the kind; the other seven are reserved.
    let kind = StdFsCallKind::try_from_raw(kind as u8).ok_or(Error::new(EOPNOTSUPP))?;
    Ok((kind, arg1, arg2))
}

/// Id of a scheme of the kernel.
pub const fn kernel_id(scheme: GlobalSchemes) -> SchemeId {
    SchemeId(scheme as usize)
}

/// Id of the scheme of scheme sockets and of the creation capability.
pub const MANAGER: SchemeId = SchemeId(16);

/// First id of the schemes of daemons.
const FIRST_USER: usize = 17;
/// Ids from here on are not allocated; lower ones are reused instead.
const MAX_SCHEMES: usize = 65_536;

struct UserSchemes {
    list: BTreeMap<SchemeId, Arc<user::UserScheme>>,
    next: usize,
}

static USER_SCHEMES: Mutex<UserSchemes> = Mutex::new(UserSchemes {
    list: BTreeMap::new(),
    next: FIRST_USER,
});

/// A reference to a scheme.
pub enum SchemeRef {
    /// A scheme of the kernel.
    Kernel(&'static dyn Scheme),
    /// A scheme of a daemon.
    User(Arc<user::UserScheme>),
}

impl core::ops::Deref for SchemeRef {
    type Target = dyn Scheme;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Kernel(scheme) => *scheme,
            Self::User(scheme) => &**scheme,
        }
    }
}

fn kernel_scheme(id: GlobalSchemes) -> &'static dyn Scheme {
    match id {
        GlobalSchemes::Debug => &debug::DebugScheme,
        GlobalSchemes::Event => &event::EventScheme,
        GlobalSchemes::Memory => &memory::MemoryScheme,
        GlobalSchemes::Pipe => &pipe::PipeScheme,
        GlobalSchemes::Serio => &serio::SerioScheme,
        GlobalSchemes::Irq => &irq::IrqScheme,
        GlobalSchemes::Time => &time::TimeScheme,
        GlobalSchemes::Sys => &sys::SysScheme,
        GlobalSchemes::Proc => &proc::ProcScheme,
        GlobalSchemes::Acpi => &acpi::AcpiScheme,
        GlobalSchemes::Dtb => &dtb::DtbScheme,
    }
}

/// The scheme with this id, or `ENODEV`.
pub fn get(id: SchemeId) -> Result<SchemeRef> {
    if id == MANAGER {
        return Ok(SchemeRef::Kernel(&manager::Manager));
    }
    if let Some(id) = u8::try_from(id.0)
        .ok()
        .and_then(GlobalSchemes::try_from_raw)
    {
        return Ok(SchemeRef::Kernel(kernel_scheme(id)));
    }
    user_scheme(id)
        .map(SchemeRef::User)
        .ok_or(Error::new(ENODEV))
}

fn user_scheme(id: SchemeId) -> Option<Arc<user::UserScheme>> {
    USER_SCHEMES.lock().list.get(&id).cloned()
}

/// Tells a scheme of a dropped descriptor, if the scheme still exists.
fn deliver(message: Entry<Message>) {
    let id = match *message.value() {
        Message::Close { scheme, number, .. } => {
            event::forget_file(scheme, number);
            scheme
        }
        Message::Detach { scheme, .. } => scheme,
        // Requests do not come through the queue of drops.
        Message::Request(_) => return,
    };
    match (get(id), message.value()) {
        (Ok(SchemeRef::User(scheme)), _) => scheme.post(message),
        (Ok(SchemeRef::Kernel(scheme)), &Message::Close { number, .. }) => scheme.close(number),
        // No scheme of the kernel asks for notices of closed descriptors.
        _ => {}
    }
}

/// Ends all daemons' schemes that a context has made.
fn creator_ended(context: &crate::sched::ContextRef) {
    let is_its = |scheme: &&Arc<user::UserScheme>| scheme.is_made_by(context);
    let next = |from: usize| {
        let schemes = USER_SCHEMES.lock();
        let mut others = schemes.list.range(SchemeId(from)..);
        others.find_map(|(_, scheme)| Some(scheme).filter(is_its).cloned())
    };
    let is_faulty = crate::proc::exception(context).is_some();
    let mut from = FIRST_USER;
    while let Some(scheme) = next(from) {
        if from == FIRST_USER
            && let Some(space) = context.space()
            // If a thread faults, the process manager ends the others.
            && (is_faulty || !crate::proc::lives_on(&space, context))
        {
            space.keep_requests();
        }
        from = scheme.id().0 + 1;
        scheme.shut_down();
    }
}

fn grant_of(piece: &Piece) -> Option<(&Description, MunmapRequest)> {
    let file = piece.grant.description().downcast_ref::<Description>()?;
    let flags = MapFlags::from_bits_truncate(piece.grant.flags());
    let synced = flags.contains(MapFlags::MAP_SHARED | MapFlags::PROT_WRITE);
    let flags = if synced {
        MunmapFlags::NEEDS_SYNC
    } else {
        MunmapFlags::empty()
    };
    Some((
        file,
        MunmapRequest {
            offset: piece.grant.offset,
            size: piece.len,
            flags,
        },
    ))
}

/// Notifies schemes of mappings that are gone and waits for their answers, unless the caller is
/// killed. Errors in them are ignored.
pub fn notify_unmapped(mut pieces: Pieces) {
    while let Some(piece) = pieces.pop() {
        if sched::current().is_killed() {
            // Nobody would wait, and very many requests would be sent at once.
            post_unmapped(piece);
        } else if let Some((file, request)) = grant_of(piece.value())
            && let Ok(scheme) = get(file.scheme())
        {
            let _ = scheme.unmapped(file.number(), request);
        }
    }
}

/// Notifies a scheme of a mapping that is gone, without waiting.
fn post_unmapped(piece: Entry<Piece>) {
    let file = grant_of(piece.value());
    if let Some(scheme) = file.and_then(|(file, _)| user_scheme(file.scheme())) {
        scheme.post_unmapped(piece);
    }
}

/// The placement that a map request asks for: the address matters only with one of the fixed
/// flags.
pub fn placement(map: &Map) -> Placement {
    if map.flags.contains(MapFlags::MAP_FIXED_NOREPLACE) {
        Placement::FixedNoReplace(map.address)
    } else if map.flags.contains(MapFlags::MAP_FIXED) {
        Placement::Fixed(map.address)
    } else {
        Placement::Any
    }
}

/// The protection part of map flags. This is the only place where the rights that a program asks
/// for enter the kernel. `EOPNOTSUPP` for a page that would be writable and executable at once,
/// the error that POSIX has for an unsupported combination.
pub fn prot(flags: MapFlags) -> Result<Prot> {
    let mut prot = Prot::empty();
    prot.set(Prot::READ, flags.contains(MapFlags::PROT_READ));
    prot.set(Prot::WRITE, flags.contains(MapFlags::PROT_WRITE));
    prot.set(Prot::EXEC, flags.contains(MapFlags::PROT_EXEC));
    if prot.contains(Prot::WRITE | Prot::EXEC) {
        return Err(Error::new(EOPNOTSUPP));
    }
    Ok(prot)
}

/// Puts received files into the slots that the payload lists; it must list exactly as many.
/// Returns files that are not delivered with the error.
fn deliver_files(
    files: Vec<Arc<Description>>,
    payload: UserBuf,
) -> core::result::Result<usize, (Error, Vec<Arc<Description>>)> {
    let count = files.len();
    if count.checked_mul(size_of::<usize>()) != Some(payload.len()) {
        return Err((Error::new(EINVAL), files));
    }
    match payload.words(count) {
        Ok(slots) => crate::proc::files()
            .insert_all(&slots, files)
            .map(|()| count),
        Err(error) => Err((error, files)),
    }
}

/// Puts the root objects of the kernel's schemes and the scheme creation capability into `table`,
/// in the upper number space. Returns the content of the page that describes them to the first
/// program: count, then count × (id, padding, descriptor), then the descriptor of the capability.
pub fn publish_roots(table: &FileTable) -> Vec<u8> {
    use ::syscall::flag::{O_CREAT, O_RDWR, UPPER_FDTBL_TAG};
    let insert = |scheme: SchemeId, number: usize| {
        let fd = UPPER_FDTBL_TAG | scheme.0;
        let flags = (O_CREAT | O_RDWR) as u32;
        let file =
            OpenResult::SchemeLocal(number, InternalFlags::empty()).into_description(scheme, flags);
        // The table is new and the numbers differ, so there is room.
        table.insert(fd, file, EINVAL).unwrap_or(usize::MAX)
    };
    let ids: Vec<_> = (1..=u8::MAX)
        .map_while(GlobalSchemes::try_from_raw)
        .collect();
    let mut page = Vec::from(ids.len().to_ne_bytes());
    for id in ids {
        page.extend(u64::from(id as u8).to_ne_bytes());
        page.extend(insert(kernel_id(id), root_number(id)).to_ne_bytes());
    }
    page.extend(insert(MANAGER, manager::CAPABILITY).to_ne_bytes());
    page
}

fn root_number(id: GlobalSchemes) -> usize {
    match id {
        GlobalSchemes::Acpi => acpi::ROOT,
        _ => handles::ROOT,
    }
}

/// Called at the end of each system call: does the deferred work.
pub fn after_call() {
    reaper::run();
    debug::announce_output();
}

/// Called once at boot: connects interrupts and console input to their schemes.
pub fn init() {
    irq::init();
    debug::init();
    reaper::run();
}
