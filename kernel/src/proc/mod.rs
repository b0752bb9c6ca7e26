//! Processes: the identity of a context, and its descriptors.

mod table;

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    format,
    string::String,
    sync::{Arc, Weak},
};
use core::sync::atomic::{AtomicUsize, Ordering};

use ::syscall::{
    Exception, ProcSchemeAttrs,
    error::{EBADF, EINVAL, Error, Result},
    flag::UPPER_FDTBL_TAG,
};
use spin::Mutex;

use crate::{
    mm::space::AddrSpace,
    object::Description,
    sched::{self, Context, ContextRef, State},
};

pub use table::FileTable;

/// Descriptor slots in each number space of the first program.
const FIRST_TABLE_SIZE: usize = 64;

/// The highest priority; the lowest is 0.
const MAX_PRIORITY: u32 = 39;

/// The identity of a context, as the process manager set it.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Effective user.
    pub euid: u32,
    /// Effective group.
    pub egid: u32,
    /// Priority, 0 to 39.
    pub priority: u32,
    /// Name for people.
    pub name: String,
}

/// The process behind a system call, with its rights.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    /// Process id as set by the process manager.
    pub pid: usize,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Data of the process model for one context.
#[derive(Default)]
pub struct ProcData {
    identity: Identity,
    files: Arc<FileTable>,
    /// Number of the `new-context` handle, which becomes readable when the context ends.
    owner: Option<usize>,
    /// The exception that ended the context.
    exception: Option<Exception>,
    /// Whether the context asked for its own end.
    ended_itself: bool,
    /// The CPU set as the program set it; the scheduler gets the part that can matter.
    affinity: Affinity,
}

/// A set of CPUs, 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct Affinity(pub [u8; 32]);

impl Default for Affinity {
    fn default() -> Self {
        Self([u8::MAX; 32])
    }
}

static CONTEXTS: Mutex<BTreeMap<u64, Weak<Context>>> = Mutex::new(BTreeMap::new());
static CREATED: AtomicUsize = AtomicUsize::new(0);

fn data(context: &Context) -> &Mutex<ProcData> {
    let data = context.extension();
    data.expect("contexts are made by `new_context` of this module")
}

/// A stopped context without address space, with an empty file table.
fn new_context() -> Result<ContextRef> {
    sched::new_context(Box::new(Mutex::new(ProcData::default())))
}

/// Makes a stopped context that belongs to process 0 and user 0, with an empty address space and
/// an empty file table.
pub fn create() -> Result<ContextRef> {
    let context = new_context()?;
    context.set_space(Some(AddrSpace::new()?));
    enlist(&context);
    Ok(context)
}

fn enlist(context: &ContextRef) {
    let mut contexts = CONTEXTS.lock();
    // Remove contexts that were never started and are gone: they have no end.
    contexts.retain(|_, context| context.strong_count() > 0);
    contexts.insert(context.id, Arc::downgrade(context));
    CREATED.fetch_add(1, Ordering::Relaxed);
}

/// All contexts that exist now and have not ended when their turn comes, in the order in which
/// they were made. There is no list of them, which would be as long as programs like.
pub fn contexts() -> impl Iterator<Item = ContextRef> {
    let mut from = 0;
    // Programs may make contexts as fast as the caller comes to them.
    let newest = CONTEXTS.lock().last_key_value().map(|(id, _)| *id);
    core::iter::from_fn(move || {
        let contexts = CONTEXTS.lock();
        let end = newest.filter(|end| from <= *end)?;
        let mut others = contexts.range(from..=end);
        let context = others.find_map(|(_, context)| context.upgrade())?;
        from = context.id + 1;
        Some(context)
    })
}

/// Whether a context other than this one goes on in an address space. One that is killed does not.
pub fn lives_on(space: &Arc<AddrSpace>, without: &Context) -> bool {
    contexts().any(|other| {
        let is_there = other.space().is_some_and(|its| Arc::ptr_eq(&its, space));
        is_there && other.id != without.id && !other.is_killed()
    })
}

/// The number of contexts made so far.
pub fn created() -> usize {
    CREATED.load(Ordering::Relaxed)
}

/// The identity of a context.
pub fn identity(context: &Context) -> Identity {
    data(context).lock().identity.clone()
}

/// The name of a context.
pub fn name(context: &Context) -> String {
    identity(context).name
}

/// Sets the identity of a context: `EINVAL` when the name is not UTF-8.
pub fn set_attributes(context: &Context, attributes: &ProcSchemeAttrs) -> Result<()> {
    let name = attributes
        .debug_name
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or(&[]);
    let name = core::str::from_utf8(name).map_err(|_| Error::new(EINVAL))?;
    let identity = Identity {
        pid: attributes.pid,
        euid: attributes.euid,
        egid: attributes.egid,
        priority: attributes.prio.min(MAX_PRIORITY),
        name: String::from(name),
    };
    data(context).lock().identity = identity;
    Ok(())
}

/// The identity of a context, for its attribute handle.
pub fn attributes(context: &Context) -> ProcSchemeAttrs {
    let identity = identity(context);
    let mut attributes = ProcSchemeAttrs {
        pid: identity.pid,
        euid: identity.euid,
        egid: identity.egid,
        prio: identity.priority,
        ..ProcSchemeAttrs::default()
    };
    for (place, byte) in attributes.debug_name.iter_mut().zip(identity.name.bytes()) {
        *place = byte;
    }
    attributes
}

/// The caller of the current system call; process 0 in the idle loop.
pub fn caller() -> Caller {
    sched::with_current(caller_of).unwrap_or_default()
}

fn caller_of(context: &Context) -> Caller {
    let data = data(context).lock();
    let Identity {
        pid, euid, egid, ..
    } = data.identity;
    Caller {
        pid: pid as usize,
        uid: euid,
        gid: egid,
    }
}

/// The description behind a descriptor of the current context, or `EBADF`.
pub fn file(fd: usize) -> Result<Arc<Description>> {
    sched::with_current(|context| data(context).lock().files.get(fd))
        .unwrap_or(Err(Error::new(EBADF)))
}

/// The file table of the current context.
pub fn files() -> Arc<FileTable> {
    files_of(&sched::current())
}

/// The file table of a context.
pub fn files_of(context: &Context) -> Arc<FileTable> {
    data(context).lock().files.clone()
}

/// Lets a new context run for the first time. `EINVAL` when it was started before or has no space.
pub fn start(context: &ContextRef) -> Result<()> {
    sched::start(context)?;
    files_of(context).set_used();
    Ok(())
}

/// Gives a context another file table.
pub fn set_files(context: &Context, files: Arc<FileTable>) {
    if context.state() != State::New {
        files.set_used();
    }
    // Drop the old table after the lock: dropping it may ask for the caller.
    let old = core::mem::replace(&mut data(context).lock().files, files);
    drop(old);
}

/// Records the handle that becomes readable when the context ends.
pub fn set_owner(context: &Context, owner: usize) {
    data(context).lock().owner = Some(owner);
}

/// The handle that becomes readable when the context ends.
pub fn owner(context: &Context) -> Option<usize> {
    data(context).lock().owner
}

/// The exception that ended the context.
pub fn exception(context: &Context) -> Option<Exception> {
    data(context).lock().exception
}

/// Records that a context asked for its own end, so that it is not reported as killed.
pub fn set_ended_itself(context: &Context) {
    data(context).lock().ended_itself = true;
}

/// Whether the context asked for its own end.
pub fn ended_itself(context: &Context) -> bool {
    data(context).lock().ended_itself
}

/// The CPU set of a context.
pub fn affinity(context: &Context) -> Affinity {
    data(context).lock().affinity
}

/// Sets the CPU set of a context.
pub fn set_affinity(context: &ContextRef, affinity: Affinity) {
    data(context).lock().affinity = affinity;
    let (first, _) = affinity.0.as_chunks();
    sched::set_processors(
        context,
        first.first().map_or(0, |set| u64::from_le_bytes(*set)),
    );
}

/// Makes the first context, without address space, with room in both number spaces of its file
/// table.
pub fn create_first() -> Result<ContextRef> {
    let first = new_context()?;
    enlist(&first);
    data(&first).lock().identity.name = String::from("[bootstrap]");
    let files = files_of(&first);
    for space in [0, UPPER_FDTBL_TAG] {
        // A new table is empty, so it can only grow.
        let _ = files.resize(space, FIRST_TABLE_SIZE);
    }
    Ok(first)
}

/// Name and pid for reports, e.g. `[bootstrap] (pid 0)`.
pub fn describe(context: &Context) -> String {
    let Identity { pid, name, .. } = identity(context);
    let name = if name.is_empty() { "[unnamed]" } else { &name };
    format!("{name} (pid {pid})")
}

/// Whether the end of a context has not begun.
pub fn is_alive(context: &Context) -> bool {
    CONTEXTS.lock().contains_key(&context.id)
}

/// Removes a context that ends from the list of all contexts, and passes its run time on.
pub fn forget(context: &Context) {
    CONTEXTS.lock().remove(&context.id);
    bequeath_run_time(context);
}

/// Passes the run time of a context on to another context of its process: the time of a process is
/// the sum over its contexts.
fn bequeath_run_time(context: &Context) {
    let pid_of = |context: &Context| data(context).lock().identity.pid;
    let pid = pid_of(context);
    let is_heir = |other: &ContextRef| pid != 0 && pid_of(other) == pid;
    if let Some(heir) = contexts().find(is_heir) {
        sched::charge_all();
        heir.inherit_run_time(context);
    }
}

/// Records an unhandled exception in user mode, as the status of a context that is about to end.
/// `address` is the faulting address of a page fault, otherwise 0.
pub fn on_exception(context: &ContextRef, vector: u8, code: u64, address: usize) {
    let exception = Exception {
        kind: usize::from(vector),
        code: code as usize,
        address,
    };
    data(context).lock().exception = Some(exception);
}
