//! Starts the other processors: from real mode to the idle loop.
//!
//! A started processor begins in real mode in a page below 1 MiB. A few instructions copied there
//! lead into the kernel's own text, at its physical address. The page tables of the boot
//! processor's first steps, which map the text there too, lead to the rest.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::handlers::handlers;
use super::{acpi, apic, cpu, entry, fpu, pit, smp};
use crate::mm::stack::KernelStack;
use crate::mm::{PAGE_SIZE, paging, phys};

/// Milliseconds that a processor may take to begin before it is started again, and to come online.
const FIRST_WAIT_MS: u64 = 10;
const LAST_WAIT_MS: u64 = 2000;

/// The address of the next processor's stack, whose topmost word is the address of its block. The
/// processor takes both with one exchange. So one that begins after it was given up finds nothing
/// and halts, or takes the stack for the next.
static STACK: AtomicUsize = AtomicUsize::new(0);
static ROOT: AtomicUsize = AtomicUsize::new(0);
/// The time stamp counter of the processor that came online last.
static STAMP: AtomicU64 = AtomicU64::new(0);

// SAFETY: both labels are in the assembly below; only their addresses are taken, as the ends of
// the code between them.
unsafe extern "C" {
    static start_vector: u8;
    static start_vector_end: u8;
}

global_asm!(
    r#"
    .set START_OFFSET, 0xFFFFFFFF80000000
    .set START_CR4_BITS, (1 << 5) | (1 << 7) | (1 << 9) | (1 << 10) # PAE, PGE, OSFXSR, OSXMMEXCPT
    .set START_CR0_SET, (1 << 31) | (1 << 16) | (1 << 5) | (1 << 1) | 1 # PG, WP, NE, MP, PE
    .set START_CR0_CLEAR, (1 << 2) | (1 << 3) | (1 << 29) | (1 << 30) # EM, TS, NW, CD
    .set START_EFER, 0xC0000080
    .set START_EFER_BITS, (1 << 8) | (1 << 11) # LME, NXE

    .section .rodata, "a"
    # Copied to the page where processors begin.
    .code16
    .global start_vector
start_vector:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    lgdtl start_gdt_pointer - start_vector
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $(start_protected - START_OFFSET)
    .balign 8
start_gdt_pointer:
    .short 31
    .long start_gdt - START_OFFSET
    .global start_vector_end
start_vector_end:

    .balign 8
start_gdt: # 64-bit code, data, 32-bit code
    .quad 0
    .quad 0x00AF9B000000FFFF
    .quad 0x00CF93000000FFFF
    .quad 0x00CF9B000000FFFF

    .section .text.boot, "ax"
    .code32
start_protected:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl %cr4, %eax
    orl $START_CR4_BITS, %eax
    movl %eax, %cr4
    movl $(boot_pml4 - START_OFFSET), %eax
    movl %eax, %cr3
    movl $START_EFER, %ecx
    rdmsr
    orl $START_EFER_BITS, %eax
    wrmsr
    movl %cr0, %eax
    andl $~(START_CR0_CLEAR), %eax
    orl $START_CR0_SET, %eax
    movl %eax, %cr0
    ljmp $0x08, $(1f - START_OFFSET)

    .code64
1:
    movabsq $2f, %rax
    jmp *%rax
2:
    xorl %eax, %eax
    movw %ax, %fs
    movw %ax, %gs
    movq {root}(%rip), %rax
    movq %rax, %cr3
    xorl %eax, %eax
    xchgq %rax, {stack}(%rip)
    testq %rax, %rax
    jz 3f
    movq %rax, %rsp
    popq %rdi
    xorl %ebp, %ebp
    call {begin}
3:
    cli
    hlt
    jmp 3b
    .text
    "#,
    root = sym ROOT,
    stack = sym STACK,
    begin = sym begin,
    options(att_syntax)
);

/// Starts all processors that the firmware lists as usable. Each begins in `page`, an unused page
/// below 1 MiB. They join when the boot processor first goes idle.
pub fn start_others(page: Option<u64>) {
    smp::come_online();
    let this = apic::local_id();
    let others: alloc::vec::Vec<u32> = acpi::processors()
        .iter()
        .copied()
        .filter(|&id| id != this)
        .collect();
    if others.is_empty() {
        return;
    }
    let Some(page) = page.and_then(|page| u8::try_from(page / PAGE_SIZE as u64).ok()) else {
        log::error!("no free page below 1 MiB: the other processors are not used");
        return;
    };
    write_vector(page);
    let mut index = 1;
    let mut place = None;
    for id in others {
        if index == cpu::MAX {
            log::warn!("more than {} processors: the rest is not used", cpu::MAX);
            break;
        }
        let Some(free) = place.take().or_else(|| Place::new(index)) else {
            log::error!("no memory for the stacks of processor {index}: the rest is not used");
            break;
        };
        place = start(id, page, free);
        if place.is_none() {
            index += 1;
        }
    }
    log::info!("{} processors", smp::online().count_ones());
}

/// The stack and the block for a processor that is about to start.
struct Place {
    index: usize,
    stack: KernelStack,
}

impl Place {
    /// `None` without memory.
    fn new(index: usize) -> Option<Place> {
        let stack = KernelStack::new()?;
        let block = cpu::Block::prepare(index)?;
        let top: *mut usize = core::ptr::with_exposed_provenance_mut(stack.top());
        // SAFETY: the topmost word of a stack that is ours and not in use.
        unsafe { top.sub(1).write(block.as_ptr().expose_provenance()) };
        Some(Place { index, stack })
    }

    fn is_online(&self) -> bool {
        smp::online() >> self.index & 1 != 0
    }

    fn comes_online(&self, ms: u64) -> bool {
        for _ in 0..ms {
            if self.is_online() {
                return true;
            }
            pit::wait_ms(1);
        }
        self.is_online()
    }
}

/// Copies the first instructions to the page where processors begin.
fn write_vector(page: u8) {
    let (start, end) = (&raw const start_vector, &raw const start_vector_end);
    // SAFETY: the bytes between the two labels are constants of the kernel's image.
    let code = unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) };
    phys::write(usize::from(page) * PAGE_SIZE, code);
    // The page tables as the real-mode code needs them: they are below 4 GiB.
    let root = paging::kernel_root().expect("kernel tables exist");
    ROOT.store(root, Ordering::Relaxed);
}

/// Starts one processor and waits until it is online. Returns the place if the processor did not
/// take it.
fn start(id: u32, page: u8, place: Place) -> Option<Place> {
    if !apic::is_reachable(id) {
        log::error!("the processor with APIC id {id} is not used: the xAPIC cannot reach it");
        return Some(place);
    }
    STACK.store(place.stack.top() - size_of::<usize>(), Ordering::Release);
    apic::send_init(id);
    pit::wait_ms(10);
    let before = cpu::time_stamp();
    apic::send_start(id, page);
    if !place.comes_online(FIRST_WAIT_MS) {
        // Some processors need the message twice; one that already runs ignores it.
        apic::send_start(id, page);
        if !place.comes_online(LAST_WAIT_MS) && STACK.swap(0, Ordering::Acquire) != 0 {
            log::error!("the processor with APIC id {id} is not used: it did not begin");
            return Some(place);
        }
    }
    // Also for a late processor, which may still come online.
    cpu::expect_several();
    if !place.is_online() {
        log::error!("the processor with APIC id {id} began, but did not come online");
    } else {
        let (stamp, after) = (STAMP.load(Ordering::Relaxed), cpu::time_stamp());
        if !(before..=after).contains(&stamp) {
            log::warn!(
                "the time stamp counter of processor {} is off: {stamp} between {before} and \
                 {after}; times will be wrong there",
                place.index
            );
        }
    }
    // The place is in use for ever.
    core::mem::forget(place);
    None
}

/// The first step of another processor on its stack, without the lock. Until it waits for the lock
/// it touches only its own data.
extern "C" fn begin(block: *mut cpu::Block) -> ! {
    // SAFETY: `Place::new` has prepared the block for the processor that takes the stack with its
    // address, and that is this processor alone.
    unsafe { cpu::load(block) };
    entry::load();
    fpu::enable();
    apic::init_other();
    STAMP.store(cpu::time_stamp(), Ordering::Relaxed);
    smp::come_online();
    smp::enter();
    (handlers().run)()
}
