//! `pwd.h` and `grp.h`. The system has no list of users: only root has a name.

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use runtime::process as system;
use syscall::error::{EINVAL, EPERM, ERANGE};

use crate::sync::Shared;
use crate::{errno, strings};

/// C's `struct passwd`.
#[repr(C)]
pub struct User {
    name: *mut c_char,
    password: *mut c_char,
    user: c_uint,
    group: c_uint,
    comment: *mut c_char,
    directory: *mut c_char,
    shell: *mut c_char,
}

/// C's `struct group`.
#[repr(C)]
pub struct Group {
    name: *mut c_char,
    password: *mut c_char,
    group: c_uint,
    members: *mut *mut c_char,
}

/// The most groups of a process, as on Linux.
const MOST_GROUPS: usize = 65_536;

const NAME: &CStr = c"root";
/// Stands for a password, as none is stored.
const PASSWORD: &CStr = c"x";

/// A constant in the form of a text in C's structures; programs may not write to it.
const fn text(text: &'static CStr) -> *mut c_char {
    text.as_ptr().cast_mut()
}

const ROOT: User = User {
    name: text(NAME),
    password: text(PASSWORD),
    user: 0,
    group: 0,
    comment: text(NAME),
    directory: text(c"/"),
    shell: text(c"/scheme/initfs/bin/sh"),
};

pub static USER: Shared<User> = Shared::new(ROOT);
pub static MEMBERS: Shared<[*mut c_char; 1]> = Shared::new([null_mut()]);
pub static GROUP: Shared<Group> = Shared::new(ROOT_GROUP);

const ROOT_GROUP: Group = Group {
    name: text(NAME),
    password: text(PASSWORD),
    group: 0,
    members: null_mut(),
};

/// Whether a name is root's.
///
/// # Safety
/// `name` is a string.
unsafe fn is_root(name: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let name = unsafe { strings::bytes(name) };
    name == NAME.to_bytes()
}

fn user_if(known: bool) -> *mut User {
    // The structure is in memory that the next call overwrites, as POSIX allows.
    let fill = |user: &mut User| {
        *user = ROOT;
        &raw mut *user
    };
    if known { USER.with(fill) } else { null_mut() }
}

#[unsafe(no_mangle)]
extern "C" fn getpwuid(user: c_uint) -> *mut User {
    user_if(user == 0)
}

/// Whether `getpwent` and `getgrent` have given their only entry.
static IS_GIVEN: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

#[unsafe(no_mangle)]
extern "C" fn getpwent() -> *mut User {
    user_if(!IS_GIVEN[0].swap(true, Ordering::Relaxed))
}

#[unsafe(no_mangle)]
extern "C" fn setpwent() {
    IS_GIVEN[0].store(false, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn endpwent() {
    setpwent();
}

#[unsafe(no_mangle)]
extern "C" fn getgrent() -> *mut Group {
    group_if(!IS_GIVEN[1].swap(true, Ordering::Relaxed))
}

#[unsafe(no_mangle)]
extern "C" fn setgrent() {
    IS_GIVEN[1].store(false, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn endgrent() {
    setgrent();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpwnam(name: *const c_char) -> *mut User {
    // SAFETY: the caller's string.
    user_if(unsafe { is_root(name) })
}

/// Fills the caller's structure. The texts are constants, so the buffer only has to have some
/// bytes.
///
/// # Safety
/// The caller's places for the structure and for a pointer.
unsafe fn fill(known: bool, place: *mut User, size: usize, found: *mut *mut User) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        found.write(null_mut());
        if known {
            if size == 0 {
                return ERANGE;
            }
            place.write(ROOT);
            found.write(place);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpwuid_r(
    user: c_uint,
    place: *mut User,
    _buffer: *mut c_char,
    size: usize,
    found: *mut *mut User,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { fill(user == 0, place, size, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpwnam_r(
    name: *const c_char,
    place: *mut User,
    _buffer: *mut c_char,
    size: usize,
    found: *mut *mut User,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { fill(is_root(name), place, size, found) }
}

fn group_if(known: bool) -> *mut Group {
    if !known {
        return null_mut();
    }
    let members = MEMBERS.with(|members| members.as_mut_ptr());
    GROUP.with(|group| {
        group.members = members;
        &raw mut *group
    })
}

#[unsafe(no_mangle)]
extern "C" fn getgrgid(group: c_uint) -> *mut Group {
    group_if(group == 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getgrnam(name: *const c_char) -> *mut Group {
    // SAFETY: the caller's string.
    group_if(unsafe { is_root(name) })
}

/// Fills the caller's structure. The texts are constants; the list of members, which is empty, is
/// put into the buffer.
///
/// # Safety
/// The caller's places for the structure and for a pointer, and its buffer.
unsafe fn fill_group(
    known: bool,
    place: *mut Group,
    buffer: *mut c_char,
    size: usize,
    found: *mut *mut Group,
) -> c_int {
    // SAFETY: the caller's place.
    unsafe { found.write(null_mut()) };
    if !known {
        return 0;
    }
    if size < size_of::<*mut c_char>() {
        return ERANGE;
    }
    let members = buffer.cast::<*mut c_char>();
    // SAFETY: the buffer has room, as was checked, and the places are the caller's.
    unsafe {
        members.write_unaligned(null_mut());
        place.write(Group {
            members,
            ..ROOT_GROUP
        });
        found.write(place);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getgrgid_r(
    group: c_uint,
    place: *mut Group,
    buffer: *mut c_char,
    size: usize,
    found: *mut *mut Group,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { fill_group(group == 0, place, buffer, size, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getgrnam_r(
    name: *const c_char,
    place: *mut Group,
    buffer: *mut c_char,
    size: usize,
    found: *mut *mut Group,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { fill_group(is_root(name), place, buffer, size, found) }
}

/// The supplementary groups of a process: none.
#[unsafe(no_mangle)]
extern "C" fn getgroups(count: c_int, _groups: *mut c_uint) -> c_int {
    match count {
        0.. => 0,
        _ => errno::fail(EINVAL),
    }
}

/// Drops all supplementary groups, which no file here uses.
#[unsafe(no_mangle)]
extern "C" fn setgroups(count: usize, _groups: *const c_uint) -> c_int {
    if count > MOST_GROUPS {
        return errno::fail(EINVAL);
    }
    match system::own_meta().euid {
        0 => 0,
        _ => errno::fail(EPERM),
    }
}

#[unsafe(no_mangle)]
extern "C" fn initgroups(_user: *const c_char, group: c_uint) -> c_int {
    setgroups(1, &raw const group)
}
