//! `pthread.h`: threads, mutexes, conditions, keys.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::thread::{Builder, JoinHandle};
use syscall::error::{
    EAGAIN, EBUSY, EDEADLK, EINTR, EINVAL, ENOMEM, EPERM, ESRCH, ETIMEDOUT, Error,
};

use crate::files::Timespec;
use crate::sync::{self, Shared};
use crate::tls::{self, Block};
use crate::{jump, time};

type Main = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Destructor = unsafe extern "C" fn(*mut c_void);

/// Keys a process can have.
const KEYS: usize = 64;
/// How often the destructors of a thread's values are called while they set new ones.
const DESTRUCTOR_ROUNDS: usize = 4;

/// What `pthread_t` points to: shared by the thread itself and whoever may join it.
pub struct Record {
    /// Taken by the one that joins or detaches; none for the first thread.
    handle: Shared<Option<JoinHandle<Value>>>,
    values: Shared<[*mut c_void; KEYS]>,
}

/// A thread's result.
struct Value(*mut c_void);

// SAFETY: the pointer is a value of the C program, which passes it on as it likes.
unsafe impl Send for Value {}

impl Record {
    fn new() -> Arc<Record> {
        Arc::new(Record {
            handle: Shared::new(None),
            values: Shared::new([null_mut(); KEYS]),
        })
    }
}

/// Threads that run, the first included.
static RUNNING: AtomicU32 = AtomicU32::new(1);

/// Makes the first thread known.
pub fn adopt_main(block: Block) {
    // SAFETY: the calling thread's own block, just made.
    unsafe { (*block.control()).record = Arc::into_raw(Record::new()) };
}

/// Runs the C program's `main`; returns its status, which is 0 after `pthread_exit`.
pub fn run_main(main: impl FnOnce() -> c_int) -> c_int {
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
            // The first thread ended by itself: the process goes on until the others have.
            run_destructors();
            RUNNING.fetch_sub(1, Ordering::AcqRel);
            loop {
                let running = RUNNING.load(Ordering::Acquire);
                if running == 0 {
                    return 0;
                }
                // Any answer leads to another look.
                let _ = sync::wait(&RUNNING, running, None);
            }
        }
    }
}

fn own() -> *const Record {
    // SAFETY: the calling thread's own control block.
    unsafe { (*tls::control()).record }
}

/// Ends a thread's part in the count.
fn ended() {
    RUNNING.fetch_sub(1, Ordering::AcqRel);
    sync::wake(&RUNNING, usize::MAX >> 1);
}

/// `pthread_attr_t`: what there is to choose.
#[repr(C)]
pub struct Attributes {
    stack_size: usize,
    detached: c_int,
    reserved: c_int,
}

const DEFAULT_STACK: usize = 1024 * 1024;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_init(attributes: *mut Attributes) -> c_int {
    let initial = Attributes {
        stack_size: DEFAULT_STACK,
        detached: 0,
        reserved: 0,
    };
    // SAFETY: the caller's place for the structure.
    unsafe { attributes.write(initial) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_destroy(_attributes: *mut Attributes) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setstacksize(attributes: *mut Attributes, size: usize) -> c_int {
    const SMALLEST: usize = 16 * 1024;
    if size < SMALLEST {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*attributes).stack_size = size };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setdetachstate(
    attributes: *mut Attributes,
    detached: c_int,
) -> c_int {
    if !(0..=1).contains(&detached) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*attributes).detached = detached };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    place: *mut *const Record,
    attributes: *const Attributes,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: null or initialised before.
    let (stack_size, detached) = match unsafe { attributes.as_ref() } {
        Some(attributes) => (attributes.stack_size, attributes.detached != 0),
        None => (DEFAULT_STACK, false),
    };
    let Some(block) = Block::new() else {
        return ENOMEM;
    };
    let record = Record::new();
    let argument = Value(argument);
    // SAFETY: the block is not in use yet.
    unsafe { (*block.control()).record = Arc::into_raw(Arc::clone(&record)) };
    // Until the handle is in the record the lock keeps the new thread from being joined.
    let started = record.handle.with(|handle| {
        RUNNING.fetch_add(1, Ordering::AcqRel);
        let thread = Builder::new()
            .stack_size(stack_size)
            .fs_base(block.address())
            .spawn(move || run(main, argument, block));
        match thread {
            Ok(thread) => {
                *handle = (!detached).then_some(thread);
                Ok(())
            }
            Err(error) => Err(error),
        }
    });
    match started {
        Ok(()) => {
            let shared = Arc::into_raw(record);
            // SAFETY: the caller's place. A detached thread's record has no other owner than the
            // thread; the number given out is then only good for comparing.
            unsafe {
                *place = shared;
                if detached {
                    drop(Arc::from_raw(shared));
                }
            }
            0
        }
        Err(error) => {
            ended();
            // SAFETY: the thread does not run; the record in the block was made above.
            unsafe {
                drop(Arc::from_raw((*block.control()).record));
                block.free();
            }
            match error {
                Error { errno: ENOMEM } => ENOMEM,
                _ => EAGAIN,
            }
        }
    }
}

/// A new thread's life.
fn run(main: Main, argument: Value, block: Block) -> Value {
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
    let argument = argument;
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
    // SAFETY: made by `pthread_create`; nothing of this thread's C code runs any more, and what
    // the runtime still does in it looks neither at `errno` nor at the record.
    unsafe {
        drop(Arc::from_raw((*block.control()).record));
        block.free();
    }
    ended();
    Value(value.cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_exit(value: *mut c_void) -> ! {
    // SAFETY: every thread of a C program runs below `enter`, which stored the place.
    unsafe {
        let stack = (*tls::control()).leave;
        jump::leave(stack, value.cast())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(thread: *const Record, place: *mut *mut c_void) -> c_int {
    if thread == own() {
        return EDEADLK;
    }
    // SAFETY: a thread that was neither joined nor detached, so its record is there.
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
unsafe extern "C" fn pthread_detach(thread: *const Record) -> c_int {
    // SAFETY: as for `pthread_join`.
    match unsafe { &*thread }.handle.with(Option::take) {
        Some(handle) => {
            drop(handle);
            // SAFETY: the share of the one who could have joined.
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

/// `pthread_mutex_t`; all zero is a free one.
#[repr(C)]
pub struct Mutex {
    /// 0 free, 1 taken, 2 taken and somebody may wait.
    state: AtomicU32,
    kind: c_int,
    owner: *const Record,
    depth: usize,
}

const RECURSIVE: c_int = 1;
const CHECKED: c_int = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_init(kind: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    unsafe { *kind = 0 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_mutexattr_destroy(_kind: *mut c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_settype(place: *mut c_int, kind: c_int) -> c_int {
    if !(0..=CHECKED).contains(&kind) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { *place = kind };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_init(mutex: *mut Mutex, kind: *const c_int) -> c_int {
    // SAFETY: the caller's place; the attribute is null or initialised.
    unsafe {
        mutex.write(Mutex {
            state: AtomicU32::new(0),
            kind: kind.as_ref().copied().unwrap_or(0),
            owner: core::ptr::null(),
            depth: 0,
        });
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's mutex.
    match unsafe { &*mutex }.state.load(Ordering::Acquire) {
        0 => 0,
        _ => EBUSY,
    }
}

/// Takes a mutex, waiting at most until the deadline.
unsafe fn lock(mutex: *mut Mutex, deadline: Option<u64>, tries: bool) -> c_int {
    // SAFETY: the caller's mutex. Owner and depth are only written by the thread that has it, and
    // read here in a way that is right whatever another thread writes: equal only to our own.
    unsafe {
        let state = &(*mutex).state;
        let kind = (*mutex).kind;
        if kind != 0 && (&raw const (*mutex).owner).read_volatile() == own() {
            if kind == RECURSIVE {
                (*mutex).depth += 1;
                return 0;
            }
            return if tries { EBUSY } else { EDEADLK };
        }
        let taken = state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            if tries {
                return EBUSY;
            }
            while state.swap(2, Ordering::Acquire) != 0 {
                if let Err(Error { errno: ETIMEDOUT }) = sync::wait(state, 2, deadline) {
                    return ETIMEDOUT;
                }
            }
        }
        if kind != 0 {
            (&raw mut (*mutex).owner).write_volatile(own());
        }
        0
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    unsafe { lock(mutex, None, false) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    unsafe { lock(mutex, None, true) }
}

/// The deadline is one of the wall clock.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_timedlock(mutex: *mut Mutex, end: *const Timespec) -> c_int {
    // SAFETY: the caller's structure.
    let deadline = unsafe { &*end }
        .duration()
        .and_then(|end| time::monotonic(0, end));
    match deadline {
        // SAFETY: the same contract.
        Some(deadline) => unsafe { lock(mutex, Some(deadline), false) },
        None => EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's mutex; see `lock`.
    unsafe {
        if (*mutex).kind != 0 {
            if (&raw const (*mutex).owner).read_volatile() != own() {
                return EPERM;
            }
            if (*mutex).depth > 0 {
                (*mutex).depth -= 1;
                return 0;
            }
            (&raw mut (*mutex).owner).write_volatile(core::ptr::null());
        }
        if (*mutex).state.swap(0, Ordering::Release) == 2 {
            sync::wake(&(*mutex).state, 1);
        }
    }
    0
}

/// `pthread_cond_t`; all zero is a usable one.
#[repr(C)]
pub struct Condition {
    /// Changes with every signal.
    sequence: AtomicU32,
    /// Clock of the deadlines.
    clock: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_init(clock: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    unsafe { *clock = 0 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_condattr_destroy(_clock: *mut c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_setclock(place: *mut c_int, clock: c_int) -> c_int {
    if !(0..=1).contains(&clock) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { *place = clock };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_init(condition: *mut Condition, clock: *const c_int) -> c_int {
    // SAFETY: the caller's place; the attribute is null or initialised.
    unsafe {
        condition.write(Condition {
            sequence: AtomicU32::new(0),
            clock: clock.as_ref().copied().unwrap_or(0),
        });
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_cond_destroy(_condition: *mut Condition) -> c_int {
    0
}

unsafe fn wait(condition: *mut Condition, mutex: *mut Mutex, deadline: Option<u64>) -> c_int {
    // SAFETY: the caller's condition and mutex, which the calling thread has.
    unsafe {
        let sequence = &(*condition).sequence;
        let before = sequence.load(Ordering::Acquire);
        let unlocked = pthread_mutex_unlock(mutex);
        if unlocked != 0 {
            return unlocked;
        }
        let result = loop {
            match sync::wait(sequence, before, deadline) {
                Err(Error { errno: ETIMEDOUT }) => break ETIMEDOUT,
                Err(Error { errno: EINTR }) => {}
                _ => break 0,
            }
        };
        match lock(mutex, None, false) {
            0 => result,
            error => error,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_wait(condition: *mut Condition, mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    unsafe { wait(condition, mutex, None) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut Condition,
    mutex: *mut Mutex,
    end: *const Timespec,
) -> c_int {
    // SAFETY: the caller's structures.
    let (end, clock) = unsafe { ((*end).duration(), (*condition).clock) };
    match end.and_then(|end| time::monotonic(clock, end)) {
        // SAFETY: the same contract.
        Some(deadline) => unsafe { wait(condition, mutex, Some(deadline)) },
        None => EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_signal(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's condition.
    let sequence = &unsafe { &*condition }.sequence;
    sequence.fetch_add(1, Ordering::Release);
    sync::wake(sequence, 1);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_broadcast(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's condition.
    let sequence = &unsafe { &*condition }.sequence;
    sequence.fetch_add(1, Ordering::Release);
    sync::wake(sequence, usize::MAX >> 1);
    0
}

/// `pthread_once_t`: 0 not yet, 1 under way, 2 done.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_once(once: *mut u32, action: extern "C" fn()) -> c_int {
    // SAFETY: the caller's word.
    let once = unsafe { AtomicU32::from_ptr(once) };
    loop {
        match once.compare_exchange(0, 1, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                action();
                once.store(2, Ordering::Release);
                sync::wake(once, usize::MAX >> 1);
                return 0;
            }
            Err(2) => return 0,
            // Any answer leads to another look.
            Err(_) => drop(sync::wait(once, 1, None)),
        }
    }
}

/// Destructors of the keys in use.
static KEYS_IN_USE: Shared<Vec<Option<Option<Destructor>>>> = Shared::new(Vec::new());

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    let index = KEYS_IN_USE.with(|keys| {
        let free = keys.iter().position(Option::is_none);
        let index = free.unwrap_or(keys.len());
        if index == KEYS {
            return None;
        }
        if index == keys.len() {
            keys.push(None);
        }
        keys[index] = Some(destructor);
        Some(index)
    });
    match index {
        Some(index) => {
            // SAFETY: the caller's place.
            unsafe { *key = index as u32 };
            0
        }
        None => EAGAIN,
    }
}

#[unsafe(no_mangle)]
extern "C" fn pthread_key_delete(key: u32) -> c_int {
    let known = KEYS_IN_USE.with(|keys| keys.get_mut(key as usize).and_then(Option::take));
    if known.is_some() { 0 } else { EINVAL }
}

fn values<T>(action: impl FnOnce(&mut [*mut c_void; KEYS]) -> T) -> T {
    // SAFETY: the thread's own record lives as long as the thread.
    unsafe { &*own() }.values.with(action)
}

#[unsafe(no_mangle)]
extern "C" fn pthread_setspecific(key: u32, value: *const c_void) -> c_int {
    if !KEYS_IN_USE.with(|keys| keys.get(key as usize).is_some_and(Option::is_some)) {
        return EINVAL;
    }
    values(|values| values[key as usize] = value.cast_mut());
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_getspecific(key: u32) -> *mut c_void {
    values(|values| values.get(key as usize).copied().unwrap_or(null_mut()))
}

/// Calls the destructors of the calling thread's values.
fn run_destructors() {
    for _ in 0..DESTRUCTOR_ROUNDS {
        let mut called = false;
        for key in 0..KEYS {
            let destructor = KEYS_IN_USE.with(|keys| keys.get(key).copied().flatten().flatten());
            let value = values(|values| core::mem::replace(&mut values[key], null_mut()));
            if let Some(destructor) = destructor.filter(|_| !value.is_null()) {
                // SAFETY: the C program's function for values of this key.
                unsafe { destructor(value) };
                called = true;
            }
        }
        if !called {
            return;
        }
    }
}

/// Nothing is cancelled here; who asks for it finds out.
#[unsafe(no_mangle)]
extern "C" fn pthread_cancel(_thread: *const Record) -> c_int {
    syscall::error::ENOSYS
}

// The sizes that `pthread.h` promises.
const _: () = assert!(size_of::<Mutex>() == 24 && size_of::<Condition>() == 8);
