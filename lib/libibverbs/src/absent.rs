//! Functions that are not supported: they return errors.

use core::ffi::{c_int, c_uint, c_void};

use syscall::error::{ENODATA, EOPNOTSUPP};

use crate::{minus_one, none};

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
    ibv_import_device(c_int);
    ibv_import_pd(*mut c_void, u32);
    ibv_import_mr(*mut c_void, u32);
    ibv_import_dm(*mut c_void, u32);
    ibv_alloc_dmah(*mut c_void, *const c_void);
    ibv_create_wq(*mut c_void, *const c_void);
    ibv_create_rwq_ind_table(*mut c_void, *const c_void);
    ibv_create_flow(*mut c_void, *const c_void);
    ibv_create_flow_action_esp(*mut c_void, *const c_void);
    ibv_create_counters(*mut c_void, *const c_void);
    ibv_create_comp_cntr(*mut c_void, *const c_void);
}

absent! {
    ibv_free_dm(*mut c_void);
    ibv_memcpy_to_dm(*mut c_void, u64, *const c_void, usize);
    ibv_memcpy_from_dm(*mut c_void, *mut c_void, u64, usize);
    ibv_advise_mr(*mut c_void, c_int, u32, *mut c_void, u32);
    ibv_query_comp_cntr_caps(*mut c_void, *mut c_void);
    ibv_dealloc_dmah(*mut c_void);
    ibv_query_rt_values_ex(*mut c_void, *mut c_void);
    ibv_modify_wq(*mut c_void, *mut c_void);
    ibv_destroy_wq(*mut c_void);
    ibv_post_wq_recv(*mut c_void, *mut c_void, *mut *mut c_void);
    ibv_destroy_rwq_ind_table(*mut c_void);
    ibv_destroy_flow(*mut c_void);
    ibv_modify_flow_action_esp(*mut c_void, *mut c_void);
    ibv_destroy_flow_action(*mut c_void);
    ibv_destroy_counters(*mut c_void);
    ibv_attach_counters_point_flow(*mut c_void, *mut c_void, *mut c_void);
    ibv_read_counters(*mut c_void, *mut u64, u32, u32);
    ibv_destroy_comp_cntr(*mut c_void);
    ibv_set_comp_cntr(*mut c_void, u64);
    ibv_set_err_comp_cntr(*mut c_void, u64);
    ibv_inc_comp_cntr(*mut c_void, u64);
    ibv_inc_err_comp_cntr(*mut c_void, u64);
    ibv_read_comp_cntr(*mut c_void, *mut u64);
    ibv_read_err_comp_cntr(*mut c_void, *mut u64);
    ibv_qp_attach_comp_cntr(*mut c_void, *mut c_void, *mut c_void);
}

/// Destructors of objects that cannot exist.
macro_rules! absent_ends {
    ($($name:ident;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(_: *mut c_void) {})*
    };
}

absent_ends! {
    ibv_unimport_pd;
    ibv_unimport_mr;
    ibv_unimport_dm;
}

/// Functions that return -1, with the reason in `errno`.
macro_rules! absent_with_errno {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> c_int {
            minus_one(Err(EOPNOTSUPP))
        })*
    };
}

absent_with_errno! {
    ibv_dm_export_dmabuf_fd(*mut c_void);
    rdma_set_local_ece(*mut c_void, *const c_void);
    rdma_get_remote_ece(*mut c_void, *mut c_void);
    rdma_reject_ece(*mut c_void, *const c_void, u8);
    rdma_resolve_addrinfo(*mut c_void, *const c_void, *const c_void, *const c_void);
    rdma_query_addrinfo(*mut c_void, *mut *mut c_void);
    rdma_write_cm_event(*mut c_void, c_uint, c_int, u64);
}

/// The library's memory has no file.
#[unsafe(no_mangle)]
extern "C" fn ibv_export_buf_dmabuf_fd(_: *mut c_void) -> c_int {
    minus_one(Err(ENODATA))
}

/// The only function that returns the negative error number.
#[unsafe(no_mangle)]
extern "C" fn ibv_resolve_eth_l2_from_gid(
    _: *mut c_void,
    _: *mut c_void,
    _: *mut u8,
    _: *mut u16,
) -> c_int {
    -EOPNOTSUPP
}

/// No order is guaranteed.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_: *mut c_void, _: c_int, _: u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_post_srq_ops(
    _: *mut c_void,
    operation: *mut c_void,
    bad: *mut *mut c_void,
) -> c_int {
    if !bad.is_null() {
        // SAFETY: the caller's place.
        unsafe { bad.write(operation) };
    }
    EOPNOTSUPP
}

/// `struct ibv_wc_tm_info`.
#[repr(C)]
struct TagInfo {
    tag: u64,
    private: u32,
}

/// Completions have no tags.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_wc_read_tm_info(_: *mut c_void, info: *mut TagInfo) {
    if !info.is_null() {
        let none = TagInfo { tag: 0, private: 0 };
        // SAFETY: the caller's place.
        unsafe { info.write(none) };
    }
}
