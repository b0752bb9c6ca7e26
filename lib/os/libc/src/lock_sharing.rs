//! The attribute "shared by processes" of the locks of `pthread.h`, and the attributes that have
//! nothing else.

use core::ffi::c_int;

use syscall::error::EINVAL;

use crate::locks::{ConditionAttributes, MutexAttributes};

/// Defines `set` and `get` for the attribute "shared by processes" of one kind of lock. All of
/// them work between processes whatever it says, as they are words on which the kernel lets
/// threads of any process wait.
macro_rules! shared_attribute {
    ($set:ident, $get:ident, $attributes:ty) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(attributes: *mut $attributes, shared: c_int) -> c_int {
            if !matches!(shared, 0 | 1) {
                return EINVAL;
            }
            // SAFETY: the caller's attributes, which were initialised before.
            unsafe { (*attributes).shared = shared };
            0
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $get(attributes: *const $attributes, place: *mut c_int) -> c_int {
            // SAFETY: the caller's attributes and place.
            unsafe { place.write((*attributes).shared) };
            0
        }
    };
}

/// `pthread_rwlockattr_t` and `pthread_barrierattr_t`.
#[repr(C)]
struct OnlyShared {
    shared: c_int,
}

shared_attribute!(
    pthread_mutexattr_setpshared,
    pthread_mutexattr_getpshared,
    MutexAttributes
);
shared_attribute!(
    pthread_condattr_setpshared,
    pthread_condattr_getpshared,
    ConditionAttributes
);
shared_attribute!(
    pthread_rwlockattr_setpshared,
    pthread_rwlockattr_getpshared,
    OnlyShared
);
shared_attribute!(
    pthread_barrierattr_setpshared,
    pthread_barrierattr_getpshared,
    OnlyShared
);

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlockattr_init(place: *mut OnlyShared) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write(OnlyShared { shared: 0 }) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_rwlockattr_destroy(_place: *mut OnlyShared) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrierattr_init(place: *mut OnlyShared) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write(OnlyShared { shared: 0 }) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_barrierattr_destroy(_place: *mut OnlyShared) -> c_int {
    0
}
