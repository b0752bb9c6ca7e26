//! Where the system library's symbols come from when this crate is tested on another system: they
//! exist, so that programs link, and refuse everything.

use syscall::error::ENOSYS;

/// The library's encoding of `ENOSYS`.
const REFUSED: usize = (ENOSYS as usize).wrapping_neg();

macro_rules! refuse {
    ($($name:ident($($argument:ty),*);)*) => {
        $(
            // SAFETY: the name belongs to the Redox system library, which does not exist here, and
            // the function touches none of its arguments.
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $argument),*) -> usize {
                REFUSED
            }
        )*
    };
}

refuse! {
    redox_open_v1(*const u8, usize, u32, u16);
    redox_dup_v1(usize, *const u8, usize);
    redox_close_v1(usize);
    redox_read_v1(usize, *mut u8, usize);
    redox_write_v1(usize, *const u8, usize);
    redox_fcntl_v0(usize, usize, usize);
    redox_getdents_v0(usize, *mut u8, usize, u64);
    redox_mmap_v1(*mut (), usize, u32, u32, usize, u64);
    redox_munmap_v1(*mut (), usize);
    redox_sys_call_v0(usize, *mut u8, usize, usize, *const u64, usize);
    redox_setrens_v1(usize, usize);
    redox_get_ns_v0();
    redox_register_scheme_to_ns_v0(usize, *const u8, usize, usize);
    redox_strerror_v1(*mut u8, *mut usize, u32);
    redox_cur_thrfd_v0();
    redox_get_euid_v1();
    redox_futex_wait_v0(*mut u32, u32, *const ());
    redox_futex_wake_v0(*mut u32, u32);
}
