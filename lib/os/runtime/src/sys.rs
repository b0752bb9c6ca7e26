//! Raw system calls of the Redox ABI: one `syscall` instruction and the decoding of its result.
//!
//! Numbers and structures come from `redox_syscall`. That crate's stubs are not used, because they
//! decode errors from the low 32 bits only and have no sixth argument.

use core::time::Duration;

use syscall::TimeSpec;
use syscall::error::{Error, Result};

/// Value that stands for "no descriptor" in calls and in the auxiliary vector.
pub const NO_FD: usize = usize::MAX;

/// Executes one system call and returns the raw result word.
///
/// # Safety
/// Pointer arguments must be valid for what the call reads and writes, and a call that changes
/// memory mappings must not take away memory that Rust references still use.
pub unsafe fn raw(number: usize, args: [usize; 6]) -> usize {
    let result;
    // SAFETY: the register convention is the kernel's (rcx and r11 are destroyed by the CPU, the
    // vector registers are declared clobbered as the published crate does); the caller vouches for
    // the arguments.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            inlateout("r9") args[5] => _,
            lateout("rcx") _,
            lateout("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
    result
}

/// Executes one system call and decodes its result at full width (the top 4095 values are errors).
///
/// # Safety
/// That of [`raw`].
pub unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize> {
    // SAFETY: passed on to the caller.
    demux(unsafe { raw(number, args) })
}

/// Decodes a result word.
pub fn demux(word: usize) -> Result<usize> {
    if word > usize::MAX - 4095 {
        Err(Error::new(word.wrapping_neg() as i32))
    } else {
        Ok(word)
    }
}

/// Encodes a result as the word that system calls and `redox_*` symbols return.
pub fn mux(result: Result<usize>) -> usize {
    match result {
        Ok(value) => value,
        Err(error) => (error.errno as usize).wrapping_neg(),
    }
}

/// Ends the process by an invalid instruction, where no call can end it.
pub fn trap() -> ! {
    // SAFETY: the processor's exception is all that it does, and nothing runs after it.
    unsafe { core::arch::asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// Lets other contexts run.
pub fn yield_now() {
    // SAFETY: the call takes no arguments and touches no memory.
    let _ = unsafe { call(syscall::SYS_YIELD, [0; 6]) };
}

/// Reads a clock (`CLOCK_*`), in nanoseconds.
pub fn clock(clock: usize) -> Result<u64> {
    const NANOS_PER_SEC: u64 = 1_000_000_000;
    let mut time = TimeSpec::default();
    // SAFETY: `time` is exclusively ours and of the structure that the call writes.
    unsafe {
        call(
            syscall::SYS_CLOCK_GETTIME,
            [clock, (&raw mut time) as usize, 0, 0, 0, 0],
        )
    }?;
    Ok((time.tv_sec as u64) * NANOS_PER_SEC + time.tv_nsec as u64)
}

/// Sleeps for this time, or less if something interrupts.
pub fn sleep(duration: Duration) {
    let request = TimeSpec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos() as i32,
    };
    // SAFETY: `request` is live and only read; no remainder is asked for.
    let _ = unsafe {
        call(
            syscall::SYS_NANOSLEEP,
            [(&raw const request) as usize, 0, 0, 0, 0, 0],
        )
    };
}
