//! The ways into the kernel and back: interrupt stubs, the SYSCALL entry, the return to user mode,
//! and the switch between kernel stacks.
//!
//! Every entry from user mode leaves the same `Frame` at the top of the context's kernel stack.

use core::arch::global_asm;

use x86_64::VirtAddr;
use x86_64::structures::idt::InterruptDescriptorTable;

use super::cpu;

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

unsafe extern "C" {
    static interrupt_stubs: [u64; 256];
    fn syscall_entry();
    /// First instruction of a new kernel stack; see `machine`.
    pub fn context_start();
    /// Saves the callee-saved registers, stores the stack pointer at `*save` and continues on
    /// `next`.
    ///
    /// # Safety
    /// `next` must have been saved by this function or prepared like it, and its stack be mapped.
    pub fn switch_stacks(save: *mut usize, next: usize);
}

/// Address of the SYSCALL entry.
pub fn syscall_address() -> u64 {
    syscall_entry as *const () as u64
}

#[unsafe(link_section = ".data.tables")]
static mut IDT: InterruptDescriptorTable = InterruptDescriptorTable::new();

/// Fills the interrupt descriptor table and loads it.
pub fn init() {
    // SAFETY: once at boot, before another processor runs, interrupts off; nobody else refers to
    // the table, and each stub follows the calling convention of its vector.
    unsafe {
        let idt = &mut *core::ptr::addr_of_mut!(IDT);
        let stub = |vector: usize| VirtAddr::new(interrupt_stubs[vector]);
        idt.divide_error.set_handler_addr(stub(0));
        idt.debug.set_handler_addr(stub(1));
        idt.non_maskable_interrupt
            .set_handler_addr(stub(2))
            .set_stack_index(cpu::NMI_IST);
        let user = x86_64::PrivilegeLevel::Ring3;
        idt.breakpoint
            .set_handler_addr(stub(3))
            .set_privilege_level(user);
        idt.overflow
            .set_handler_addr(stub(4))
            .set_privilege_level(user);
        idt.bound_range_exceeded.set_handler_addr(stub(5));
        idt.invalid_opcode.set_handler_addr(stub(6));
        idt.device_not_available.set_handler_addr(stub(7));
        idt.double_fault
            .set_handler_addr(stub(8))
            .set_stack_index(cpu::DOUBLE_FAULT_IST);
        idt.invalid_tss.set_handler_addr(stub(10));
        idt.segment_not_present.set_handler_addr(stub(11));
        idt.stack_segment_fault.set_handler_addr(stub(12));
        idt.general_protection_fault.set_handler_addr(stub(13));
        idt.page_fault.set_handler_addr(stub(14));
        idt.x87_floating_point.set_handler_addr(stub(16));
        idt.alignment_check.set_handler_addr(stub(17));
        idt.machine_check
            .set_handler_addr(stub(18))
            .set_stack_index(cpu::NMI_IST);
        idt.simd_floating_point.set_handler_addr(stub(19));
        idt.virtualization.set_handler_addr(stub(20));
        idt.cp_protection_exception.set_handler_addr(stub(21));
        for vector in 32..=255u8 {
            idt[vector].set_handler_addr(stub(usize::from(vector)));
        }
    }
    load();
}

/// Loads the interrupt descriptor table, which all processors share.
pub fn load() {
    // SAFETY: `init` has filled the table before any other processor was started, and nothing
    // writes to it afterwards.
    unsafe { (*core::ptr::addr_of!(IDT)).load() };
}

global_asm!(
    r#"
    .macro save_registers
        push rdi
        push rsi
        push rdx
        push rcx
        push rax
        push r8
        push r9
        push r10
        push r11
        push rbx
        push rbp
        push r12
        push r13
        push r14
        push r15
    .endm
    .macro restore_registers
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbp
        pop rbx
        pop r11
        pop r10
        pop r9
        pop r8
        pop rax
        pop rcx
        pop rdx
        pop rsi
        pop rdi
    .endm

    .text
    .global interrupt_common
interrupt_common:
    save_registers
    cld
    # SYSCALL clears the flag that lifts the guard of user pages, an interrupt does not.
    cmp byte ptr [rip + {guarded}], 0
    je 3f
    clac
3:
    test byte ptr [rsp + 18 * 8], 3 # cs
    jz 1f
    swapgs
1:
    mov rdi, rsp
    xor ebp, ebp
    call {interrupt}
    test byte ptr [rsp + 18 * 8], 3
    jnz return_to_user
    restore_registers
    add rsp, 16
    iretq

    .global syscall_entry
syscall_entry:
    swapgs
    mov gs:[8], rsp
    mov rsp, gs:[0]
    push {user_ss}
    push qword ptr gs:[8]
    push r11
    push {user_cs}
    push rcx
    push 0
    push {syscall}
    save_registers
    mov rdi, rsp
    xor ebp, ebp
    call {system_call}

# rsp points to the frame; interrupts are off.
return_to_user:
    # SYSRET takes rip from rcx and rflags from r11; it may be used when the frame agrees, the
    # selectors are the usual ones and single stepping is off. rip below 2^47 was checked.
    mov rax, [rsp + 17 * 8]
    cmp rax, [rsp + 11 * 8]
    jne 2f
    mov rax, [rsp + 19 * 8]
    cmp rax, [rsp + 6 * 8]
    jne 2f
    test eax, 0x10100 # RF, TF
    jnz 2f
    cmp qword ptr [rsp + 18 * 8], {user_cs}
    jne 2f
    restore_registers
    mov rsp, [rsp + 5 * 8]
    swapgs
    sysretq
2:
    restore_registers
    add rsp, 16
    swapgs
    iretq

    .global context_start
context_start:
    mov rdi, rsp
    xor ebp, ebp
    call {first_run}
    jmp return_to_user

    .global switch_stacks
switch_stacks:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, rsi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret

    .text
    "#,
    interrupt = sym super::exception::interrupt,
    guarded = sym crate::mm::user::GUARDED,
    system_call = sym super::exception::system_call,
    first_run = sym super::machine::first_run,
    user_cs = const cpu::USER_CS,
    user_ss = const cpu::USER_SS,
    syscall = const SYSCALL,
);

// Repeated code counts with a symbol, which Intel syntax would mistake for a memory operand.
global_asm!(
    r#"
    .section .text.stubs,"ax",@progbits
    # One stub per vector: error code (pushed here where the processor does not), vector.
    .set ERRORS, 1 << 8 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 17 | 1 << 21
    .balign 16
stub_base:
    .set vector, 0
    .rept 256
    .balign 16
        .if vector > 31 || ((ERRORS >> vector) & 1) == 0
        pushq $0
        .endif
        pushq $vector
        jmp interrupt_common
    .set vector, vector + 1
    .endr

    .section .rodata
    .balign 8
    .global interrupt_stubs
interrupt_stubs:
    .set vector, 0
    .rept 256
    .quad stub_base + vector * 16
    .set vector, vector + 1
    .endr
    .text
    "#,
    options(att_syntax)
);
