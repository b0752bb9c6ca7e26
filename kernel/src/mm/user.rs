//! Copies between the kernel and the memory of the *current* program.
//!
//! Every function answers `EFAULT` for ranges outside user space, unmapped pages and missing
//! rights; absent lazy pages are faulted in.
//!
//! The processor has the program's page tables loaded, so a copy is simply tried. Only the few
//! instructions of `user_copy` in the kernel may fault, and the handler continues behind them
//! ([`after_fault`]). Only then the address space makes the pages present, or reports the error.

use alloc::sync::Arc;
use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, Ordering};

use ::syscall::error::{EFAULT, Error, Result};
use spin::Once;

use super::USER_END;
use super::frame::FrameRef;
use super::space::AddrSpace;
use super::zeroes;

/// Whether the processor guards user pages (SMAP). `user_copy` must then lift the guard, and the
/// entry code must restore it, because a program can set the flag that lifts it.
pub(crate) static GUARDED: AtomicBool = AtomicBool::new(false);

global_asm!(
    r#"
    .text
    # user_copy(to, from, length): 0 when done, 1 after a page fault.
    .global user_copy
user_copy:
    # Read once: with the guard lifted, translations begin anew.
    movzx r8d, byte ptr [rip + {guarded}]
    test r8d, r8d
    jz 1f
    stac
1:
    mov rcx, rdx
    shr rcx, 3
    jz 3f
    .balign 8
    .global user_copy_access
user_copy_access:
2:
    mov rax, [rsi]
    mov [rdi], rax
    add rsi, 8
    add rdi, 8
    dec rcx
    jnz 2b
3:
    # A word of four bytes in one piece: other processors may store to a futex meanwhile.
    test edx, 4
    jz 8f
    mov eax, [rsi]
    mov [rdi], eax
    add rsi, 4
    add rdi, 4
8:
    and edx, 3
    jz 5f
4:
    mov al, [rsi]
    mov [rdi], al
    inc rsi
    inc rdi
    dec edx
    jnz 4b
5:
    xor eax, eax
    jmp 6f
    .global user_copy_failed
user_copy_failed:
    mov eax, 1
6:
    test r8d, r8d
    jz 7f
    clac
7:
    ret
    "#,
    guarded = sym GUARDED,
);

unsafe extern "C" {
    fn user_copy(to: usize, from: usize, len: usize) -> usize;
    static user_copy_access: u8;
    static user_copy_failed: u8;
}

/// Records that the processor keeps the kernel off user pages until the guard is lifted (SMAP).
pub fn set_guarded() {
    GUARDED.store(true, Ordering::Relaxed);
}

/// Where the kernel continues after a page fault at `address` by its instruction at `rip`; `None`
/// when that fault is a bug.
pub fn after_fault(rip: u64, address: usize) -> Option<u64> {
    let (access, failed) = (
        &raw const user_copy_access as u64,
        &raw const user_copy_failed as u64,
    );
    ((access..failed).contains(&rip) && address < USER_END).then_some(failed)
}

/// Tries a copy of which one side is the range `[user, user + len)` of the current program.
fn copy(to: usize, from: usize, user: usize, len: usize) -> Result<bool> {
    match user.checked_add(len) {
        Some(end) if end < USER_END => {}
        _ => return Err(Error::new(EFAULT)),
    }
    // SAFETY: the program's side lies in user space, where a fault ends the copy; callers see to
    // it that the other side is memory of the kernel's, valid for `len` bytes.
    Ok(unsafe { user_copy(to, from, len) } == 0)
}

/// The address space of the current program.
type CurrentSpace = fn() -> Result<Arc<AddrSpace>>;

static CURRENT_SPACE: Once<CurrentSpace> = Once::new();

/// Sets how to find the address space of the current program. Called once, before there is a
/// program.
pub fn init(current_space: CurrentSpace) {
    CURRENT_SPACE.call_once(|| current_space);
}

fn space() -> Result<Arc<AddrSpace>> {
    CURRENT_SPACE.get().ok_or(Error::new(EFAULT))?()
}

/// Fills `bytes` from the program's memory at `addr`.
pub fn copy_in(addr: usize, bytes: &mut [u8]) -> Result<()> {
    if copy(bytes.as_mut_ptr() as usize, addr, addr, bytes.len())? {
        return Ok(());
    }
    space()?.read(addr, bytes)
}

/// Stores `bytes` in the program's memory at `addr`.
pub fn copy_out(addr: usize, bytes: &[u8]) -> Result<()> {
    if copy(addr, bytes.as_ptr() as usize, addr, bytes.len())? {
        return Ok(());
    }
    space()?.write(addr, bytes)
}

/// Copies `len` bytes of the program's memory at `addr` into a frame, from `offset` on. Panics
/// when they exceed the frame.
pub fn copy_to_frame(addr: usize, frame: &FrameRef, offset: usize, len: usize) -> Result<()> {
    if copy(frame.address(offset, len), addr, addr, len)? {
        return Ok(());
    }
    let mut bytes = zeroes(len)?;
    space()?.read(addr, &mut bytes)?;
    frame.write(offset, &bytes);
    Ok(())
}

/// Copies `len` bytes of a frame, from `offset` on, to the program's memory at `addr`. Panics when
/// they exceed the frame.
pub fn copy_from_frame(addr: usize, frame: &FrameRef, offset: usize, len: usize) -> Result<()> {
    if copy(addr, frame.address(offset, len), addr, len)? {
        return Ok(());
    }
    let mut bytes = zeroes(len)?;
    frame.read(offset, &mut bytes);
    space()?.write(addr, &bytes)
}
