//! The processor: features, descriptor tables, and the block of data to which `gs` points.
//!
//! Data that the entry code or the processor itself needs for one processor is in its `Block`,
//! which is accessed through `gs`. The rest of the kernel keeps such data in arrays, by [`index`].

use alloc::boxed::Box;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ptr::{NonNull, addr_of_mut};
use core::sync::atomic::{AtomicBool, Ordering};

use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, FS, GS, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};
use x86_64::registers::model_specific::{GsBase, KernelGsBase};
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::{
    Descriptor, DescriptorFlags, GlobalDescriptorTable, SegmentSelector,
};
use x86_64::structures::tss::TaskStateSegment;

use crate::mm::stack::KernelStack;

/// Code selector of user mode (the value that programs see in cs).
pub const USER_CS: u64 = 0x2B;
/// Stack selector of user mode.
pub const USER_SS: u64 = 0x23;
/// Index of the double fault stack in the TSS (counted from 0).
pub const DOUBLE_FAULT_IST: u16 = 0;
/// Index of the stack for non-maskable interrupts and machine checks.
pub const NMI_IST: u16 = 1;

const IST_SIZE: usize = 16 * 1024;

/// Most processors that are used; others stay as the firmware left them.
pub const MAX: usize = 64;

/// The data of one processor. `gs` points to it, and `entry.rs` uses the first two offsets.
#[repr(C)]
pub(super) struct Block {
    /// 0: where the kernel stack of the running context begins.
    stack_top: u64,
    /// 8: the program's stack pointer while the entry code switches stacks.
    user_stack: u64,
    /// 16: the processor's number.
    index: u64,
    tss: TaskStateSegment,
    gdt: GlobalDescriptorTable,
}

impl Block {
    const fn new(index: usize) -> Self {
        Block {
            stack_top: 0,
            user_stack: 0,
            index: index as u64,
            tss: TaskStateSegment::new(),
            gdt: GlobalDescriptorTable::new(),
        }
    }

    /// Makes the block of a processor that is about to start; it stays for ever. `None` without
    /// memory for its stacks.
    pub(super) fn prepare(index: usize) -> Option<NonNull<Block>> {
        let (double_fault, nmi) = (KernelStack::new()?, KernelStack::new()?);
        let mut block = Box::new(Block::new(index));
        block.set_fault_stacks(double_fault.top(), nmi.top());
        // A processor is never stopped, so its stacks are never freed.
        core::mem::forget((double_fault, nmi));
        NonNull::new(Box::into_raw(block))
    }

    fn set_fault_stacks(&mut self, double_fault: usize, nmi: usize) {
        let tss = &mut self.tss;
        tss.interrupt_stack_table[DOUBLE_FAULT_IST as usize] = VirtAddr::new(double_fault as u64);
        tss.interrupt_stack_table[NMI_IST as usize] = VirtAddr::new(nmi as u64);
    }
}

#[repr(align(4096))]
struct Stack(UnsafeCell<[u8; IST_SIZE]>);
// SAFETY: only the boot processor touches it, by address.
unsafe impl Sync for Stack {}

impl Stack {
    fn top(&self) -> usize {
        self.0.get() as usize + IST_SIZE
    }
}

/// The boot processor's block.
static mut BOOT_BLOCK: Block = Block::new(0);
#[unsafe(link_section = ".bss.stack.fault")]
static DOUBLE_FAULT_STACK: Stack = Stack(UnsafeCell::new([0; IST_SIZE]));
#[unsafe(link_section = ".bss.stack.nmi")]
static NMI_STACK: Stack = Stack(UnsafeCell::new([0; IST_SIZE]));

/// The features for which the kernel checks `CPUID`.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Supervisor mode execution prevention.
    pub smep: bool,
    /// Supervisor mode access prevention.
    pub smap: bool,
    /// User mode instruction prevention: programs cannot read the addresses of the kernel's
    /// tables.
    pub umip: bool,
    /// XSAVE and related instructions.
    pub xsave: bool,
    /// The x2APIC.
    pub x2apic: bool,
}

/// Reads the features from the processor.
pub fn features() -> Features {
    let max = __cpuid(0).eax;
    let one = __cpuid(1);
    let (seven, seven_c) = if max >= 7 {
        let leaf = __cpuid_count(7, 0);
        (leaf.ebx, leaf.ecx)
    } else {
        (0, 0)
    };
    Features {
        smep: seven & 1 << 7 != 0,
        smap: seven & 1 << 20 != 0,
        umip: seven_c & 1 << 2 != 0,
        xsave: one.ecx & 1 << 26 != 0,
        x2apic: one.ecx & 1 << 21 != 0,
    }
}

/// Width of a physical address, in bits.
pub fn physical_address_bits() -> u32 {
    const SIZES: u32 = 0x8000_0008;
    // The width on processors that do not report it.
    const USUAL: u32 = 36;
    // Page tables can hold 52 bits.
    const MOST: u32 = 52;
    if __cpuid(0x8000_0000).eax < SIZES {
        return USUAL;
    }
    (__cpuid(SIZES).eax & 0xFF).clamp(USUAL, MOST)
}

/// Sets up the boot processor.
pub fn init() {
    // SAFETY: runs once at boot, when nothing else refers to the block; from here on it is the
    // boot processor's alone.
    unsafe {
        let block = addr_of_mut!(BOOT_BLOCK);
        (*block).set_fault_stacks(DOUBLE_FAULT_STACK.top(), NMI_STACK.top());
        load(block);
    }
}

/// Loads GDT, TSS and `gs` of this processor, and sets the control bits on which the kernel
/// relies.
///
/// # Safety
/// The block has its fault stacks, is used by this processor only, and exists for ever. Called
/// once on each processor, with interrupts off.
pub(super) unsafe fn load(block: *mut Block) {
    let features = features();
    // SAFETY: the block is ours, as the caller says.
    let (gdt, tss) = unsafe { (&mut *addr_of_mut!((*block).gdt), addr_of_mut!((*block).tss)) };
    // SAFETY: as above. The tables stay where they are for ever, and the selectors are those of
    // the descriptors just made. The control bits are there on all processors the kernel boots on,
    // or were asked for.
    unsafe {
        // No port may be used from user mode.
        (*tss).iomap_base = size_of::<TaskStateSegment>() as u16;
        // SYSRET needs 32-bit user code (unused), user stack and user code, in this order.
        let user_code32 = Descriptor::UserSegment(DescriptorFlags::USER_CODE32.bits());
        let code = gdt.append(Descriptor::kernel_code_segment());
        let data = gdt.append(Descriptor::kernel_data_segment());
        gdt.append(user_code32);
        gdt.append(Descriptor::user_data_segment());
        gdt.append(Descriptor::user_code_segment());
        let tss_selector = gdt.append(Descriptor::tss_segment_unchecked(tss));
        gdt.load_unsafe();
        CS::set_reg(code);
        SS::set_reg(data);
        // Programs start with null in all data selectors.
        DS::set_reg(SegmentSelector::NULL);
        ES::set_reg(SegmentSelector::NULL);
        FS::set_reg(SegmentSelector::NULL);
        GS::set_reg(SegmentSelector::NULL);
        load_tss(tss_selector);
        GsBase::write(VirtAddr::from_ptr(block));
        KernelGsBase::write(VirtAddr::zero());

        Cr0::update(|cr0| {
            cr0.insert(Cr0Flags::WRITE_PROTECT | Cr0Flags::NUMERIC_ERROR);
            cr0.insert(Cr0Flags::MONITOR_COPROCESSOR);
            cr0.remove(Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED);
        });
        Cr4::update(|cr4| {
            cr4.insert(Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE | Cr4Flags::PAGE_GLOBAL);
            // Otherwise programs could change fs and gs base behind the scheduler's back.
            cr4.remove(Cr4Flags::FSGSBASE);
            cr4.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, features.umip);
        });
        Efer::update(|efer| {
            efer.insert(EferFlags::NO_EXECUTE_ENABLE | EferFlags::SYSTEM_CALL_EXTENSIONS);
        });
    }
    crate::mm::paging::init_cpu(features.smep, features.smap);
    if features.smap {
        crate::mm::user::set_guarded();
    }
}

/// Logs which memory guards are on, from the control registers.
pub fn log_guards() {
    let on = |there: bool| if there { "on" } else { "off" };
    let (cr0, cr4, efer) = (Cr0::read(), Cr4::read(), Efer::read());
    log::info!(
        "processor guards: NX {}, WP {}, SMEP {}, SMAP {}, UMIP {}",
        on(efer.contains(EferFlags::NO_EXECUTE_ENABLE)),
        on(cr0.contains(Cr0Flags::WRITE_PROTECT)),
        on(cr4.contains(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION)),
        on(cr4.contains(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION)),
        on(cr4.contains(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION))
    );
}

/// The number of this processor: 0 is the boot processor, all are below [`MAX`]. After every
/// switch a context may be on another processor.
#[inline]
pub fn index() -> usize {
    let index: usize;
    // SAFETY: in the kernel `gs` points to this processor's block, whose number never changes. Not
    // marked as pure: after a switch of stacks the answer is another one.
    unsafe {
        asm!(
            "mov {}, gs:[{offset}]",
            out(reg) index,
            offset = const offset_of!(Block, index),
            options(nostack, preserves_flags, readonly)
        );
    }
    index
}

/// Whether more processors than the boot processor run, or are about to.
static SEVERAL: AtomicBool = AtomicBool::new(false);

/// Whether more than one processor runs. Code that saves work on a single processor checks this.
pub fn several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

/// Makes [`several`] true from now on. Called before any program runs.
pub(super) fn expect_several() {
    SEVERAL.store(true, Ordering::Relaxed);
}

/// Sets the stack on which the kernel is entered from user mode.
pub fn set_kernel_stack(top: usize) {
    // SAFETY: plain stores to this processor's block. Nobody has references into it, and the
    // processor itself reads them only when it comes from user mode.
    unsafe {
        asm!(
            "mov gs:[{stack_top}], {top}",
            "mov gs:[{privilege_stack}], {top}",
            top = in(reg) top,
            stack_top = const offset_of!(Block, stack_top),
            privilege_stack =
                const offset_of!(Block, tss) + offset_of!(TaskStateSegment, privilege_stack_table),
            options(nostack, preserves_flags)
        );
    }
}

/// Whether a processor's user bases are all zero, because no program uses them there. Then
/// programs cannot change them either: all segments that they can load begin at 0.
static NO_BASES: [AtomicBool; MAX] = [const { AtomicBool::new(false) }; MAX];

/// Sets the bases that a program sees in fs and gs on this processor. Both must be canonical.
pub fn set_user_bases(fs: usize, gs: usize) {
    use x86_64::registers::model_specific::FsBase;
    let none = fs == 0 && gs == 0;
    if NO_BASES[index()].swap(none, Ordering::Relaxed) && none {
        return;
    }
    FsBase::write(VirtAddr::new(fs as u64));
    // While the kernel runs, the program's gs base waits in the swap register.
    KernelGsBase::write(VirtAddr::new(gs as u64));
}

/// The time stamp counter.
pub fn time_stamp() -> u64 {
    // SAFETY: every 64-bit processor has the counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Resets the machine by force: an exception without a table to handle it.
pub fn triple_fault() -> ! {
    let empty = DescriptorTablePointer {
        limit: 0,
        base: VirtAddr::zero(),
    };
    // SAFETY: this is meant to fail.
    unsafe {
        x86_64::instructions::tables::lidt(&empty);
        core::arch::asm!("int3");
    }
    halt()
}

/// Waits for ever with interrupts off.
pub fn halt() -> ! {
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}

/// Sleeps until an interrupt has been handled. Returns with interrupts off.
pub(super) fn wait_for_interrupt() {
    // An interrupt between the two instructions is held off until `hlt` runs.
    x86_64::instructions::interrupts::enable_and_hlt();
    x86_64::instructions::interrupts::disable();
}

/// Calls `action` with interrupts on. Returns with interrupts off.
pub(super) fn with_interrupts(action: impl FnOnce()) {
    x86_64::instructions::interrupts::enable();
    action();
    x86_64::instructions::interrupts::disable();
}
