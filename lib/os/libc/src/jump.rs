//! `setjmp` and `longjmp`, and the way to leave a thread from any depth.

use core::arch::naked_asm;

/// Stores the caller's preserved registers in the eight words at `rdi`. Returns 0, and once more
/// with the value of a `longjmp`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn setjmp(_buffer: *mut usize) -> i32 {
    naked_asm!(
        "mov [rdi], rbx",
        "mov [rdi + 8], rbp",
        "mov [rdi + 16], r12",
        "mov [rdi + 24], r13",
        "mov [rdi + 32], r14",
        "mov [rdi + 40], r15",
        "lea rax, [rsp + 8]",
        "mov [rdi + 48], rax",
        "mov rax, [rsp]",
        "mov [rdi + 56], rax",
        "xor eax, eax",
        "ret",
    )
}

/// Returns from the `setjmp` that filled the buffer; a value of 0 becomes 1.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn longjmp(_buffer: *const usize, _value: i32) -> ! {
    naked_asm!(
        "mov eax, esi",
        "test eax, eax",
        "jnz 2f",
        "inc eax",
        "2:",
        "mov rbx, [rdi]",
        "mov rbp, [rdi + 8]",
        "mov r12, [rdi + 16]",
        "mov r13, [rdi + 24]",
        "mov r14, [rdi + 32]",
        "mov r15, [rdi + 40]",
        "mov rsp, [rdi + 48]",
        "jmp [rdi + 56]",
    )
}

/// Calls `function(argument)` and returns its value. Code that it calls may instead return a value
/// from here by [`leave`], with the stack pointer that is stored at `place`.
#[unsafe(naked)]
pub unsafe extern "C" fn enter(
    _function: unsafe extern "C" fn(*mut u8) -> *mut u8,
    _argument: *mut u8,
    _place: *mut usize,
) -> *mut u8 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Returns `value` from the [`enter`] that stored `stack`.
#[unsafe(naked)]
pub unsafe extern "C" fn leave(_stack: usize, _value: *mut u8) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "mov rax, rsi",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}
