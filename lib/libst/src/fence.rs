//! `st_fence`, whose other name is `st_flush`.

use core::ffi::c_int;

use crate::{Peer, number, on};

#[unsafe(no_mangle)]
unsafe extern "C" fn st_fence(handle: *mut Peer) -> c_int {
    // SAFETY: the same contract.
    unsafe { on(handle, |call| call.0.sender.lock().fence().map_err(number)) }
}

// A second symbol of the same function, for programs that declare it themselves: `st.h` gives both
// names one symbol. The assembler must see the function, so this module holds nothing else.
core::arch::global_asm!(
    ".globl st_flush",
    ".type st_flush, @function",
    ".set st_flush, st_fence",
);
