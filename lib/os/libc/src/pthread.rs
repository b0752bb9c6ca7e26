//! Threads of `pthread.h`; `locks.rs` and `waits.rs` have the rest.

mod keys;

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use runtime::process::Fork;
use runtime::sys::NO_FD;
use runtime::thread::{Builder, JoinHandle};
use runtime::{Result, process, state};
use syscall::error::{EAGAIN, EDEADLK, EINVAL, EPERM, ESRCH, Error};

pub use keys::{
    DESTRUCTOR_ROUNDS, KEYS, KEYS_IN_USE, pthread_getspecific, pthread_key_create,
    pthread_key_delete, pthread_setspecific,
};
use keys::{KeyValue, run_destructors};

use crate::points::{self, Notices};
use crate::sync::{self, Lock, Shared};
use crate::thread_attributes::Attributes;
use crate::tls::{self, Block};
use crate::{affinity, jump, masks};

type Main = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The structure behind a `pthread_t`, owned by the thread and the thread that may join it.
pub struct Record {
    /// Taken by the thread that joins or detaches this one; `None` for the first thread.
    handle: Shared<Option<JoinHandle<Value>>>,
    /// The thread's descriptor; [`NO_FD`] before it is known and after the thread has run.
    thread: AtomicUsize,
    /// The name that the program gave the thread, padded with zero bytes.
    pub name: Shared<[u8; NAME_BYTES]>,
    values: Shared<[KeyValue; KEYS]>,
    /// The result of `gettid`.
    id: AtomicI32,
    /// What other threads want of this one.
    pub notices: Notices,
}

/// Bytes of a thread's name, the zero byte at its end included.
pub const NAME_BYTES: usize = 16;

/// A thread's result.
struct Value(*mut c_void);

// SAFETY: the pointer is a value of the C program, which passes it on as it likes.
unsafe impl Send for Value {}

impl Record {
    fn new(thread: usize, id: c_int) -> Arc<Record> {
        Arc::new(Record {
            handle: Shared::new(None),
            thread: AtomicUsize::new(thread),
            name: Shared::new([0; NAME_BYTES]),
            values: Shared::new([KeyValue::NONE; KEYS]),
            id: AtomicI32::new(id),
            notices: Notices::default(),
        })
    }

    /// The result of `gettid` in the thread.
    pub fn id(&self) -> c_int {
        self.id.load(Ordering::Relaxed)
    }

    /// Whether the thread has not run yet.
    pub fn runs(&self) -> bool {
        // The lock waits until `pthread_create` has stored the descriptor.
        self.handle.with(|_| self.thread.load(Ordering::Relaxed)) != NO_FD
    }

    /// Has the kernel end the wait of the thread, if it sleeps.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`, `ESRCH`.
    pub fn interrupt(&self) -> Result<()> {
        // The lock keeps the thread from closing its descriptor meanwhile.
        self.handle
            .with(|_| match self.thread.load(Ordering::Relaxed) {
                NO_FD => Err(Error::new(ESRCH)),
                thread => runtime::thread::interrupt(thread),
            })
    }
}

/// The first thread, once it is known.
static FIRST: AtomicPtr<Record> = AtomicPtr::new(null_mut());

/// Notes which thread is the first one, and keeps its record for the rest of the process.
fn set_first(record: &Arc<Record>) {
    FIRST.store(
        Arc::into_raw(Arc::clone(record)).cast_mut(),
        Ordering::Release,
    );
}

/// The first thread.
pub fn first() -> Option<Arc<Record>> {
    let first = FIRST.load(Ordering::Acquire);
    // SAFETY: `set_first` has kept the record.
    (!first.is_null()).then(|| unsafe { share(first) })
}

/// Shares the record of a thread.
///
/// # Safety
/// The thread exists, or can still be joined.
pub unsafe fn share(thread: *const Record) -> Arc<Record> {
    // SAFETY: the caller's promise: somebody else has a share.
    unsafe {
        Arc::increment_strong_count(thread);
        Arc::from_raw(thread)
    }
}

/// Threads that run, the first included.
static RUNNING: AtomicU32 = AtomicU32::new(1);

/// Records the first thread.
pub fn adopt_main(block: Block) {
    let record = Record::new(state::thread_fd(), process::id() as c_int);
    set_first(&record);
    introduce(&block, record);
}

/// Stores a thread's number and one reference to its record in its block.
fn introduce(block: &Block, record: Arc<Record>) {
    // SAFETY: the block is not in use yet, or the calling thread's own.
    unsafe {
        let control = block.control();
        (*control).id = record.id();
        (*control).notices = (&raw const record.notices).cast();
        (*control).record = Arc::into_raw(record).cast();
    }
}

/// The record in a thread's block.
///
/// # Safety
/// The block's thread exists, or has just ended.
unsafe fn record_in(block: &Block) -> *const Record {
    // SAFETY: the caller's promise.
    unsafe { (*block.control()).record.cast() }
}

/// The numbers of threads.
pub struct Numbers {
    last: u32,
    /// Those of the threads that were made and have not ended.
    in_use: BTreeSet<c_int>,
}

pub static NUMBERS: Shared<Numbers> = Shared::new(Numbers {
    last: 0,
    in_use: BTreeSet::new(),
});

impl Numbers {
    /// Takes a number that no other thread of this process has, nor one of a process whose number
    /// is near: the lower half of the process id above 16 bits of a counter, which skips the
    /// numbers of long-lived threads when it begins again, and that of the first thread, which is
    /// the process id. `None`: all are in use.
    fn take(&mut self) -> Option<c_int> {
        const MOST: u32 = 0xffff;
        let above = process::id() << 16;
        for _ in 0..MOST {
            self.last = self.last % MOST + 1;
            let number = (above | self.last) as c_int;
            if number as u32 != process::id() && self.in_use.insert(number) {
                return Some(number);
            }
        }
        None
    }

    fn give(&mut self, number: c_int) {
        self.in_use.remove(&number);
    }
}

/// The descriptor of a thread.
///
/// # Errors
/// `ESRCH`: the thread has run.
pub fn handle_of(thread: *const Record) -> Result<usize> {
    // SAFETY: a thread that was neither joined nor detached, or the calling one.
    let record = unsafe { &*thread };
    // The lock waits until `pthread_create` has stored the descriptor.
    record.handle.with(|_| ());
    match record.thread.load(Ordering::Relaxed) {
        NO_FD => Err(Error::new(ESRCH)),
        thread => Ok(thread),
    }
}

/// Forks the process. The child gets the mappings of schemes in the ranges `shared`, too.
pub fn fork(shared: &[Range<usize>]) -> Result<Fork> {
    let thread = handle_of(own())?;
    // SAFETY: the child's thread is the copy of this one; the libraries' own tables are held by
    // the caller, and what the C program does there is its own matter.
    let forked = unsafe { process::fork(thread, shared) }?;
    if let Fork::Child(thread) = forked {
        RUNNING.store(1, Ordering::Relaxed);
        // SAFETY: the thread's own record, a copy of the parent's.
        let record = unsafe { share(own()) };
        // Another thread of the parent may have looked at this one just then. What the locks guard
        // is whole: a name, and a handle that only the thread that joins this one takes.
        // SAFETY: this process has one thread, which has neither of them.
        unsafe {
            record.handle.open();
            record.name.open();
        }
        record.thread.store(thread, Ordering::Relaxed);
        record.notices.forked();
        set_first(&record);
    }
    Ok(forked)
}

/// Called in the child of a fork. Its thread is the first one, whatever it was in the parent, so
/// its number is that of the process: no thread of another process has it.
pub fn forked() {
    let id = process::id() as c_int;
    NUMBERS.with(|numbers| {
        numbers.last = 0;
        numbers.in_use.clear();
    });
    // SAFETY: the thread's own record and control block.
    unsafe {
        share(own()).id.store(id, Ordering::Relaxed);
        (*tls::control()).id = id;
    }
}

/// Runs the C program's `main`; returns its status, which is 0 after `pthread_exit`. Calls
/// `has_left` when the first thread has done that, and what it blocks concerns nobody any more.
pub fn run_main(main: impl FnOnce() -> c_int, has_left: fn()) -> c_int {
    struct Call<F> {
        main: Option<F>,
        status: Option<c_int>,
    }
    unsafe extern "C" fn call<F: FnOnce() -> c_int>(argument: *mut u8) -> *mut u8 {
        // SAFETY: the structure below, which outlives the call.
        let call = unsafe { &mut *argument.cast::<Call<F>>() };
        if let Some(main) = call.main.take() {
            call.status = Some(main());
        }
        null_mut()
    }
    fn entry<F: FnOnce() -> c_int>(_: &Call<F>) -> unsafe extern "C" fn(*mut u8) -> *mut u8 {
        call::<F>
    }
    let mut state = Call {
        main: Some(main),
        status: None,
    };
    let function = entry(&state);
    // SAFETY: the structure and the control block live across the call.
    unsafe {
        let place = &raw mut (*tls::control()).leave;
        jump::enter(function, (&raw mut state).cast(), place);
    }
    // SAFETY: `call` may have written it, behind the compiler's back when `leave` skipped its end.
    match unsafe { (&raw const state.status).read_volatile() } {
        Some(status) => status,
        None => {
            // The first thread called `pthread_exit`: the process stays until the others end.
            run_destructors();
            RUNNING.fetch_sub(1, Ordering::AcqRel);
            masks::leave();
            has_left();
            loop {
                let running = RUNNING.load(Ordering::Acquire);
                if running == 0 {
                    return 0;
                }
                // After any answer the loop looks at the count again.
                let _ = sync::wait(&RUNNING, running, None);
            }
        }
    }
}

/// The calling thread's record.
pub fn own() -> *const Record {
    // SAFETY: the calling thread's own control block.
    unsafe { (*tls::control()).record.cast() }
}

/// How many threads of the program run.
pub fn running() -> usize {
    RUNNING.load(Ordering::Acquire) as usize
}

/// Takes an ended thread out of the count.
fn ended() {
    RUNNING.fetch_sub(1, Ordering::AcqRel);
    sync::wake(&RUNNING, usize::MAX >> 1);
}

/// Whose thread it is that is to be started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The thread blocks the signals that its creator blocks, and the process lasts as long as it.
    Program,
    /// It blocks no signals and is not counted: neither does the process wait for it once all
    /// others have called `pthread_exit`, nor do signals to the process.
    Library,
}

/// Starts a thread of this library itself. Returns its record, with which it can be joined.
///
/// # Errors
/// `EAGAIN`.
pub fn start_own(main: Main) -> Result<*const Record> {
    let (mut thread, usual) = (null(), &Attributes::USUAL);
    // SAFETY: a local place; the function takes nothing.
    match unsafe { create(&raw mut thread, usual, main, null_mut(), Owner::Library) } {
        0 => Ok(thread),
        number => Err(Error::new(number)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    place: *mut *const Record,
    attributes: *const Attributes,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: null or initialised before.
    let attributes = unsafe { attributes.as_ref() }.unwrap_or(&Attributes::USUAL);
    if !attributes.can_be() {
        return EPERM;
    }
    // SAFETY: the same contract.
    unsafe { create(place, attributes, main, argument, Owner::Program) }
}

/// # Safety
/// `place` is valid, and `main` can be called with the argument.
unsafe fn create(
    place: *mut *const Record,
    attributes: &Attributes,
    main: Main,
    argument: *mut c_void,
    owner: Owner,
) -> c_int {
    let (detached, processors) = (attributes.is_detached(), attributes.processors());
    // Whatever a new thread lacks, POSIX has this one error for it.
    let Some(block) = Block::new() else {
        return EAGAIN;
    };
    let Some(id) = NUMBERS.with(Numbers::take) else {
        // SAFETY: nothing uses the block yet.
        unsafe { block.free() };
        return EAGAIN;
    };
    let record = Record::new(NO_FD, id);
    let argument = Value(argument);
    // Before the thread starts, as it may look there.
    // SAFETY: the caller's place.
    unsafe { *place = Arc::as_ptr(&record) };
    introduce(&block, Arc::clone(&record));
    if owner == Owner::Program {
        masks::inherit(&block);
        RUNNING.fetch_add(1, Ordering::AcqRel);
    }
    // The lock keeps other threads from joining the new one until the handle is in the record.
    let started = record.handle.with(|handle| {
        let thread = Builder::new()
            .stack_size(attributes.stack_size())
            .fs_base(block.address())
            .spawn(move || {
                if let Some(processors) = processors {
                    // The set was checked before; a thread that cannot be bound runs anywhere.
                    let _ = handle_of(own()).and_then(|own| affinity::bind(own, &processors));
                }
                run(main, argument, block, owner)
            });
        match thread {
            Ok(thread) => {
                record.thread.store(thread.thread_fd(), Ordering::Relaxed);
                *handle = (!detached).then_some(thread);
                Ok(())
            }
            Err(error) => Err(error),
        }
    });
    match started {
        Ok(()) => {
            // A detached thread's record has no other owner than the thread; the number given out
            // is then only good for comparing.
            if !detached {
                core::mem::forget(record);
            }
            0
        }
        Err(_) => {
            if owner == Owner::Program {
                ended();
                masks::end(&block);
            }
            NUMBERS.with(|numbers| numbers.give(id));
            // SAFETY: the thread does not run; the record in the block was made above.
            unsafe {
                drop(Arc::from_raw(record_in(&block)));
                block.free();
            }
            EAGAIN
        }
    }
}

/// Runs a new thread from its first function to its end.
fn run(main: Main, argument: Value, block: Block, owner: Owner) -> Value {
    struct Call {
        main: Main,
        argument: *mut c_void,
    }
    unsafe extern "C" fn call(argument: *mut u8) -> *mut u8 {
        // SAFETY: the structure below; the C program vouches for its function and argument.
        unsafe {
            let call = &*argument.cast::<Call>();
            (call.main)(call.argument).cast()
        }
    }
    let mut state = Call {
        main,
        argument: argument.0,
    };
    // SAFETY: the structure and the control block live across the call.
    let value = unsafe {
        let place = &raw mut (*block.control()).leave;
        jump::enter(call, (&raw mut state).cast(), place)
    };
    run_destructors();
    masks::end(&block);
    // SAFETY: the thread's own record, which is dropped below.
    NUMBERS.with(|numbers| numbers.give(unsafe { &*own() }.id()));
    // The runtime is about to close the thread's descriptor.
    // SAFETY: the thread's own record, which is dropped below.
    unsafe { &*own() }.handle.with(|_| {
        // SAFETY: as above.
        unsafe { &*own() }.thread.store(NO_FD, Ordering::Relaxed);
    });
    // SAFETY: made by `pthread_create`; nothing of this thread's C code runs any more, and what
    // the runtime still does in it looks neither at `errno` nor at the record.
    unsafe {
        drop(Arc::from_raw(record_in(&block)));
        block.free();
    }
    if owner == Owner::Program {
        ended();
    }
    Value(value.cast())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: *const Record, place: *mut *mut c_void) -> c_int {
    if thread == own() {
        return EDEADLK;
    }
    // The handle is taken after the wait: a thread that is cancelled here has joined nobody.
    let waited = points::lasting(|| {
        // SAFETY: a thread that was neither joined nor detached, so its record is there.
        let done = unsafe { &*thread }
            .handle
            .with(|handle| handle.as_ref().map(JoinHandle::done));
        done.ok_or(Error::new(EINVAL))?.wait_once()
    });
    if let Err(error) = waited {
        return error.errno;
    }
    // SAFETY: as above.
    let Some(handle) = (unsafe { &*thread }).handle.with(Option::take) else {
        return EINVAL;
    };
    match handle.join() {
        Ok(Value(value)) => {
            // SAFETY: the caller's place or null; the share of the record is the joiner's.
            unsafe {
                if !place.is_null() {
                    *place = value;
                }
                drop(Arc::from_raw(thread));
            }
            0
        }
        Err(_) => ESRCH,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: *const Record) -> c_int {
    // SAFETY: as for `pthread_join`.
    match unsafe { &*thread }.handle.with(Option::take) {
        Some(handle) => {
            drop(handle);
            // SAFETY: the share of the thread that could have joined.
            drop(unsafe { Arc::from_raw(thread) });
            0
        }
        None => EINVAL,
    }
}

#[unsafe(no_mangle)]
extern "C" fn pthread_self() -> *const Record {
    own()
}

#[unsafe(no_mangle)]
extern "C" fn pthread_equal(a: *const Record, b: *const Record) -> c_int {
    (a == b).into()
}
