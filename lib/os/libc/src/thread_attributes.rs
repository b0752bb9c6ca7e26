//! The attributes of new threads of `pthread.h`.

use core::ffi::c_int;

use runtime::spawn::STACK_SIZE;
use syscall::PAGE_SIZE;
use syscall::error::EINVAL;

use crate::affinity;

/// `PTHREAD_STACK_MIN`.
pub const SMALLEST_STACK: usize = 4096;

/// `SCHED_OTHER`, the policy of all threads.
pub const OTHER: c_int = 0;

/// `pthread_attr_t`: what a program can choose for a new thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attributes {
    stack_size: usize,
    detached: u8,
    /// `SCHED_…`, which the thread gets if [`is_explicit`](Self::is_explicit) is set, else its
    /// maker's.
    policy: u8,
    is_explicit: u8,
    reserved: u8,
    /// Whether the thread may run on `processors` only.
    is_bound: u16,
    /// The bytes without access beside the stack that the program has asked for.
    guard: u16,
    /// A set of the first processors, as large as the size of relibc's structure allows.
    processors: [u8; ATTRIBUTE_SET],
}

/// The bytes of the set of processors in a `pthread_attr_t`, for 128 of them.
const ATTRIBUTE_SET: usize = 16;
const _: () = assert!(size_of::<Attributes>() == 32);

impl Attributes {
    /// Those of a thread for which a program chooses nothing.
    pub const USUAL: Self = Self {
        stack_size: STACK_SIZE,
        detached: 0,
        policy: 0,
        is_explicit: 0,
        reserved: 0,
        is_bound: 0,
        guard: PAGE_SIZE as u16,
        processors: [u8::MAX; ATTRIBUTE_SET],
    };

    /// The bytes of the thread's stack.
    pub fn stack_size(&self) -> usize {
        self.stack_size
    }

    /// Whether nobody joins the thread.
    pub fn is_detached(&self) -> bool {
        self.detached != 0
    }

    /// Whether threads can have the policy that is asked for.
    pub fn can_be(&self) -> bool {
        !self.is_explicit() || self.chosen_policy() == OTHER
    }

    /// Whether the thread is to have the chosen policy, not its maker's.
    pub fn is_explicit(&self) -> bool {
        self.is_explicit != 0
    }

    /// The policy that was chosen.
    pub fn chosen_policy(&self) -> c_int {
        self.policy.into()
    }

    /// Chooses a policy, one of `SCHED_…`.
    pub fn set_policy(&mut self, policy: c_int) {
        self.policy = policy as u8;
    }

    /// Chooses whether the thread gets the chosen policy.
    pub fn set_explicit(&mut self, is_explicit: bool) {
        self.is_explicit = is_explicit.into();
    }

    /// The set of the processors on which the thread may run; `None`: all.
    pub fn processors(&self) -> Option<affinity::Set> {
        (self.is_bound != 0).then_some(affinity::widened(&self.processors))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_init(attributes: *mut Attributes) -> c_int {
    // SAFETY: the caller's place for the structure.
    unsafe { attributes.write(Attributes::USUAL) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_destroy(_attributes: *mut Attributes) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setstacksize(attributes: *mut Attributes, size: usize) -> c_int {
    /// The smallest stack in bytes; the library itself needs part of it.
    const USABLE: usize = 16 * 1024;
    if size < SMALLEST_STACK {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*attributes).stack_size = size.max(USABLE) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getstacksize(
    attributes: *const Attributes,
    size: *mut usize,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { *size = (*attributes).stack_size };
    0
}

/// A page without access lies on both sides of each stack; for more: `EINVAL`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setguardsize(attributes: *mut Attributes, size: usize) -> c_int {
    if size > PAGE_SIZE {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*attributes).guard = size as u16 };
    0
}

/// Stores what was asked for, as POSIX says, even if it is less than there is.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getguardsize(
    attributes: *const Attributes,
    size: *mut usize,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { *size = (*attributes).guard.into() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getdetachstate(
    attributes: *const Attributes,
    detached: *mut c_int,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { *detached = (*attributes).detached.into() };
    0
}

/// `EINVAL` if none of the first 128 processors is in the set.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setaffinity_np(
    attributes: *mut Attributes,
    size: usize,
    set: *const u8,
) -> c_int {
    // SAFETY: the caller's set of that size.
    match unsafe { affinity::read_set(size, set) } {
        Ok(set) => {
            let mut processors = [0; ATTRIBUTE_SET];
            processors.copy_from_slice(&set[..ATTRIBUTE_SET]);
            if processors == [0; ATTRIBUTE_SET] {
                return EINVAL;
            }
            // SAFETY: initialised before.
            unsafe {
                (*attributes).processors = processors;
                (*attributes).is_bound = 1;
            }
            0
        }
        Err(error) => error.errno,
    }
}

/// Stores all processors unless others were chosen.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getaffinity_np(
    attributes: *const Attributes,
    size: usize,
    set: *mut u8,
) -> c_int {
    // SAFETY: initialised before.
    let processors = unsafe { (*attributes).processors };
    // SAFETY: the caller's place of that size.
    let written = unsafe { affinity::write_set(affinity::widened(&processors), size, set) };
    written.err().map_or(0, |error| error.errno)
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
    unsafe { (*attributes).detached = detached as u8 };
    0
}
