//! The first instructions: 32-bit entry points for PVH and multiboot2, up to long mode in the
//! higher half.
//!
//! Both loaders leave the processor in 32-bit protected mode without paging, with interrupts off,
//! and with a pointer to their information in ebx. The boot page tables map the first 4 GiB twice,
//! identity (until the jump) and at the physical map, and the first GiB at the kernel's address.

use core::arch::global_asm;

/// The loader's protocol, as passed to `start`.
pub const LOADER_PVH: u32 = 1;
/// See `LOADER_PVH`.
pub const LOADER_MULTIBOOT2: u32 = 2;

global_asm!(
    r#"
    .set OFFSET, 0xFFFFFFFF80000000
    .set CR4_BITS, (1 << 5) | (1 << 7) | (1 << 9) | (1 << 10) # PAE, PGE, OSFXSR, OSXMMEXCPT
    .set CR0_SET, (1 << 31) | (1 << 16) | (1 << 5) | (1 << 1) | 1 # PG, WP, NE, MP, PE
    .set CR0_CLEAR, (1 << 2) | (1 << 3) | (1 << 29) | (1 << 30) # EM, TS, NW, CD
    .set EFER, 0xC0000080
    .set EFER_BITS, (1 << 8) | (1 << 11) # LME, NXE

    # PVH: an ELF note names the 32-bit entry.
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad pvh_entry - OFFSET

    # Multiboot2: header with entry address and page-aligned modules.
    .section .multiboot2, "a"
    .balign 8
mb2_header:
    .long 0xE85250D6, 0, mb2_header_end - mb2_header
    .long -(0xE85250D6 + (mb2_header_end - mb2_header))
    .short 3, 0 # entry address
    .long 12
    .long mb2_entry - OFFSET
    .balign 8
    .short 4, 1 # console, if there is one: text modes are understood
    .long 12
    .long 2
    .balign 8
    .short 5, 1 # screen, if there is one: any size (and depth: GRUB heeds it with a size only)
    .long 20
    .long 0, 0, 32
    .balign 8
    .short 6, 0 # modules on page boundaries
    .long 8
    .balign 8
    .short 0, 0
    .long 8
mb2_header_end:

    .section .text.boot, "ax"
    .code32
    .global pvh_entry
pvh_entry:
    movl ${pvh}, %edi
    jmp 1f
mb2_entry:
    movl ${multiboot2}, %edi
1:
    cli
    cld
    movl %ebx, %esi
    movl $(boot_stack_top - OFFSET), %esp

    # Without long mode and NX nothing below can work; say so and stop.
    movl $0x80000000, %eax
    cpuid
    cmpl $0x80000001, %eax
    jb 2f
    movl $0x80000001, %eax
    cpuid
    testl $(1 << 29), %edx
    jz 2f
    testl $(1 << 20), %edx
    jz 2f

    movl %cr4, %eax
    orl $CR4_BITS, %eax
    movl %eax, %cr4
    movl $(boot_pml4 - OFFSET), %eax
    movl %eax, %cr3
    movl $EFER, %ecx
    rdmsr
    orl $EFER_BITS, %eax
    wrmsr
    movl %cr0, %eax
    andl $~(CR0_CLEAR), %eax
    orl $CR0_SET, %eax
    movl %eax, %cr0
    lgdt boot_gdt_pointer - OFFSET
    ljmp $0x08, $(3f - OFFSET)

2:  # "KERNEL PANIC: ..." on COM1, then halt.
    movl $(boot_no_long_mode - OFFSET), %esi
4:
    movw $0x3FD, %dx
    inb %dx, %al
    testb $0x20, %al
    jz 4b
    lodsb
    testb %al, %al
    jz 5f
    movw $0x3F8, %dx
    outb %al, %dx
    jmp 4b
5:
    hlt
    jmp 5b

    .code64
3:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorl %eax, %eax
    movw %ax, %fs
    movw %ax, %gs
    movabsq $6f, %rax
    jmp *%rax
6:
    movabsq $boot_stack_top, %rsp
    xorl %ebp, %ebp
    movl %edi, %edi
    movl %esi, %esi
    call {start}
    ud2

    .section .rodata, "a"
boot_no_long_mode:
    .asciz "KERNEL PANIC: this processor has no 64-bit mode with NX; an x86-64 is needed\r\n"

    .section .data.boot, "aw"
    .balign 4096
    .global boot_pml4
boot_pml4:
    .quad boot_pdpt_low - OFFSET + 3
    .fill 255, 8, 0
    .quad boot_pdpt_low - OFFSET + 3
    .fill 254, 8, 0
    .quad boot_pdpt_high - OFFSET + 3
boot_pdpt_low:
    .quad boot_pd - OFFSET + 0x0003
    .quad boot_pd - OFFSET + 0x1003
    .quad boot_pd - OFFSET + 0x2003
    .quad boot_pd - OFFSET + 0x3003
    .fill 508, 8, 0
boot_pdpt_high:
    .fill 510, 8, 0
    .quad boot_pd - OFFSET + 3
    .quad 0
boot_pd: # 2048 large pages: present, writable, 2 MiB
    .set page, 0
    .rept 2048
    .quad (page << 21) + 0x83
    .set page, page + 1
    .endr
boot_gdt:
    .quad 0
    .quad 0x00AF9B000000FFFF
    .quad 0x00CF93000000FFFF
boot_gdt_pointer:
    .short 23
    .long boot_gdt - OFFSET

    .section .bss.stack.boot, "aw", @nobits
    .balign 4096
    .skip 65536
    .global boot_stack_top
boot_stack_top:
    .text
    "#,
    pvh = const LOADER_PVH,
    multiboot2 = const LOADER_MULTIBOOT2,
    start = sym crate::start,
    options(att_syntax)
);
