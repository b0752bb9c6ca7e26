//! Raw system calls for programs that test the kernel (feature `probe`).
//!
//! A conformance test has to make calls that no library would make: bad pointers, bad lengths,
//! numbers in use. With these functions it needs no unsafe code of its own. They are *not* for
//! ordinary programs: a call with a wrong address can overwrite the caller's own memory, but
//! nothing else.

use core::arch::{asm, naked_asm};

/// Makes system call `number` with all six arguments; returns the raw register.
///
/// The kernel may read and write the caller's memory at addresses among the arguments. A test
/// passes addresses of buffers that it does not use meanwhile, or invalid ones.
pub fn syscall(number: usize, args: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the instruction itself only changes the registers named (r9 and the vector registers
    // are a call's to destroy); what the kernel writes is within this process and is the caller's
    // declared purpose (see the module's first lines). The asm block is assumed to touch any
    // memory, so the compiler keeps no copies across it.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, inlateout("r9") f => _,
            lateout("rcx") _, lateout("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _, options(nostack));
    }
    result
}

/// Makes system call `number` after loading its argument registers, and returns what they contain
/// afterwards: rdi, rsi, rdx, r10, r8, r9. Programs may rely on all but the last being preserved;
/// this project's kernel preserves that, too.
pub fn syscall_registers(number: usize, args: [usize; 6]) -> (usize, [usize; 6]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f] = args;
    let result;
    // SAFETY: as in `syscall`.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, inlateout("rdi") a, inlateout("rsi") b,
            inlateout("rdx") c, inlateout("r10") d, inlateout("r8") e, inlateout("r9") f,
            lateout("rcx") _, lateout("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _, options(nostack));
    }
    (result, [a, b, c, d, e, f])
}

/// Reads the byte at `address`. Raises an exception if nothing readable is mapped there.
pub fn peek(address: usize) -> u8 {
    // SAFETY: a volatile byte read has no alignment duty and invents no reference; an unmapped
    // address ends this context, which is what the caller tests or has excluded.
    unsafe { (address as *const u8).read_volatile() }
}

/// Writes the byte at `address`. The caller owns that memory, which it has mapped itself.
pub fn poke(address: usize, value: u8) {
    // SAFETY: as for `peek`; callers only write into mappings they made for the purpose.
    unsafe { (address as *mut u8).write_volatile(value) }
}

/// Reads the 64-bit word at `address` (any alignment).
pub fn peek_word(address: usize) -> u64 {
    let mut bytes = [0; 8];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = peek(address + i);
    }
    u64::from_le_bytes(bytes)
}

/// Loads the first word at the FS base, where a thread finds its TLS.
pub fn read_fs() -> u64 {
    let value;
    // SAFETY: reads 8 bytes at the FS base; callers set the base to a mapped word first.
    unsafe { asm!("mov {}, fs:[0]", out(reg) value, options(nostack, readonly)) };
    value
}

/// Writes two words below `top` so that a context started at [`context_entry`] with the returned
/// stack pointer calls `function(argument)`.
///
/// `top` is the end of a writable mapping in this address space (or in one this space was cloned
/// into); at least 4 KiB below it must be unused.
pub fn prepare_stack(top: usize, function: fn(usize) -> !, argument: usize) -> usize {
    let stack = (top & !0xf) - 32;
    for (slot, word) in [(0, function as usize), (8, argument)] {
        for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
            poke(stack + slot + i, byte);
        }
    }
    stack
}

/// The address at which a new context starts (see [`prepare_stack`]).
pub fn context_entry() -> usize {
    entry as *const () as usize
}

/// Relies on nothing but the stack pointer: a new context's MXCSR is 0, and its x87 state is
/// undefined.
#[unsafe(naked)]
extern "C" fn entry() -> ! {
    naked_asm!(
        "pop rax",
        "pop rdi",
        "sub rsp, 16",
        "mov dword ptr [rsp], 0x1f80",
        "ldmxcsr [rsp]",
        "fninit",
        "cld",
        "call rax",
        "ud2",
    )
}

/// Calls `address` as a function. Raises an exception if no code may run there.
pub fn execute(address: usize) {
    // SAFETY: a test passes the address of memory that must not be executed, or of one `ret`
    // instruction; both leave nothing changed.
    unsafe { asm!("call {}", in(reg) address, clobber_abi("C")) };
}

/// Reads a port. Raises an exception if this context may not use ports.
pub fn read_port(port: u16) -> u8 {
    let value;
    // SAFETY: touches no memory; a test names a port whose reading changes no device.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack));
    }
    value
}

/// Instructions that programs may not execute.
#[derive(Clone, Copy, Debug)]
pub enum Forbidden {
    /// `cli`: interrupts off.
    Cli,
    /// `hlt`: stop the processor.
    Halt,
    /// `out`: a port.
    Port,
    /// `mov rax, cr3`: where the page tables are.
    Control,
    /// `wrmsr`: the entry of system calls, for one.
    Register,
    /// `sgdt`: where a table of the kernel is (UMIP).
    Table,
}

/// Executes an instruction that raises an exception.
pub fn forbidden(instruction: Forbidden) {
    let mut bytes = [0u8; 16];
    // SAFETY: each instruction raises an exception before it changes anything; the one that does
    // not on a processor without the protection stores 10 bytes into a local.
    unsafe {
        match instruction {
            Forbidden::Cli => asm!("cli"),
            Forbidden::Halt => asm!("hlt"),
            Forbidden::Port => asm!("out 0x80, al", in("al") 0u8),
            Forbidden::Control => asm!("mov {}, cr3", out(reg) _),
            Forbidden::Register => {
                asm!("wrmsr", in("ecx") 0xC000_0082u32, in("eax") 0u32, in("edx") 0u32);
            }
            Forbidden::Table => asm!("sgdt [{}]", in(reg) bytes.as_mut_ptr()),
        }
    }
}
