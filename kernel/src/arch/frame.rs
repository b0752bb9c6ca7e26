//! The registers of interrupted code as the entry code saves them.

use x86_64::registers::rflags::RFlags;

/// The registers of the interrupted code, in the order they are pushed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// Interrupt vector, or `SYSCALL`.
    pub vector: u64,
    /// Error code of an exception, otherwise 0.
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// `Frame::vector` of a system call.
pub const SYSCALL: u64 = 0x100;

/// The flags that a program may set: arithmetic, DF, TF, AC, ID. Interrupts are always on.
pub fn user_flags(wanted: u64) -> u64 {
    const FREE: u64 = RFlags::CARRY_FLAG
        .union(RFlags::PARITY_FLAG)
        .union(RFlags::AUXILIARY_CARRY_FLAG)
        .union(RFlags::ZERO_FLAG)
        .union(RFlags::SIGN_FLAG)
        .union(RFlags::TRAP_FLAG)
        .union(RFlags::DIRECTION_FLAG)
        .union(RFlags::OVERFLOW_FLAG)
        .union(RFlags::ALIGNMENT_CHECK)
        .union(RFlags::ID)
        .bits();
    wanted & FREE | RFlags::INTERRUPT_FLAG.bits() | 2
}
