//! Functions for what there is not: they say so.

use core::ffi::{c_int, c_uint, c_void};

use syscall::error::EOPNOTSUPP;

use crate::none;

macro_rules! absent_objects {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> *mut c_void {
            none(EOPNOTSUPP)
        })*
    };
}

macro_rules! absent {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> c_int {
            EOPNOTSUPP
        })*
    };
}

absent_objects! {
    ibv_reg_dmabuf_mr(*mut c_void, u64, usize, u64, c_int, c_int);
    ibv_alloc_dm(*mut c_void, *const c_void);
    ibv_reg_dm_mr(*mut c_void, *mut c_void, u64, usize, c_uint);
    ibv_alloc_null_mr(*mut c_void);
}

absent! {
    ibv_free_dm(*mut c_void);
    ibv_memcpy_to_dm(*mut c_void, u64, *const c_void, usize);
    ibv_memcpy_from_dm(*mut c_void, *mut c_void, u64, usize);
    ibv_advise_mr(*mut c_void, c_int, u32, *mut c_void, u32);
    ibv_query_comp_cntr_caps(*mut c_void, *mut c_void);
}
