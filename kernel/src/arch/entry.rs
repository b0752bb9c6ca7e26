//! The ways into the kernel and back: interrupt stubs, the SYSCALL entry, the return to user mode.
//!
//! Every entry from user mode leaves the same `Frame` at the top of the context's kernel stack.

use core::arch::global_asm;

use x86_64::VirtAddr;
use x86_64::registers::model_specific::{LStar, Msr, SFMask};
use x86_64::registers::rflags::RFlags;
use x86_64::structures::idt::InterruptDescriptorTable;

use super::frame::SYSCALL;
use super::{cpu, machine};

unsafe extern "C" {
    static interrupt_stubs: [u64; 256];
    fn syscall_entry();
    fn context_start();
}

#[unsafe(link_section = ".data.tables")]
static mut IDT: InterruptDescriptorTable = InterruptDescriptorTable::new();

/// Fills the interrupt descriptor table and loads it; makes new contexts begin here.
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
    machine::init(context_start as *const () as usize);
}

/// Loads the interrupt descriptor table, which all processors share, and sets this processor's
/// SYSCALL entry.
pub fn load() {
    // SAFETY: `init` has filled the table before any other processor was started, and nothing
    // writes to it afterwards. The selectors are those that `cpu::load` has set, and every 64-bit
    // processor has these registers.
    unsafe {
        (*core::ptr::addr_of!(IDT)).load();
        // SYSCALL: kernel code 0x08; SYSRET: base 0x18, so stack 0x23 and code 0x2B.
        Msr::new(0xC000_0081).write(0x08 << 32 | 0x18 << 48);
        LStar::write(VirtAddr::new(syscall_entry as *const () as u64));
        SFMask::write(
            RFlags::INTERRUPT_FLAG
                | RFlags::DIRECTION_FLAG
                | RFlags::TRAP_FLAG
                | RFlags::ALIGNMENT_CHECK
                | RFlags::NESTED_TASK
                | RFlags::CARRY_FLAG
                | RFlags::PARITY_FLAG
                | RFlags::AUXILIARY_CARRY_FLAG
                | RFlags::ZERO_FLAG
                | RFlags::SIGN_FLAG
                | RFlags::OVERFLOW_FLAG,
        );
    }
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

    .text
    "#,
    interrupt = sym super::exception::interrupt,
    guarded = sym crate::mm::user::GUARDED,
    system_call = sym super::exception::system_call,
    first_run = sym super::exception::first_run,
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
