//! Bulk copies to and from shared memory.
//!
//! Which routine is fastest depends on what runs the code, not on what the processor says it can
//! do: under QEMU's translator a loop of 8-byte accesses moves 4 to 6 GB/s where `rep movsb` moves
//! half a gigabyte and vector code two; on hardware the string instruction is at least as fast as
//! any loop. So the choice is measured, once, at start-up ([`calibrate`]); before that, and on
//! other processors, the loop is used.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether large copies use the string instruction.
static STRING_COPY: AtomicBool = AtomicBool::new(false);

/// Copies below this many bytes always use the loop: starting the string instruction costs more.
const STRING_COPY_MIN_BYTES: usize = 512;

/// An unaligned 64-bit word.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word64(u64);

/// Copies `bytes` bytes; neither side needs alignment and both may change meanwhile.
///
/// # Safety
/// Both ranges are mapped and nobody holds references into them, save for one that is the
/// caller's own slice.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes >= STRING_COPY_MIN_BYTES && STRING_COPY.load(Ordering::Relaxed) {
        // SAFETY: passed on.
        unsafe { copy_string(from, to, bytes) };
    } else {
        // SAFETY: passed on.
        unsafe { copy_words(from, to, bytes) };
    }
}

/// The loop: eight 8-byte loads and stores per round, then words and bytes. In assembly, because
/// the compiler turns loops over plain accesses into calls or vector code, and takes volatile ones
/// through the stack.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_words(from: *const u8, to: *mut u8, bytes: usize) {
    const ROUND_BYTES: usize = 64;
    let rounds = bytes / ROUND_BYTES;
    let (mut source, mut target) = (from, to);
    if rounds > 0 {
        // SAFETY: reads and writes exactly `rounds` times 64 of the bytes the caller vouches for;
        // the processor needs no alignment.
        unsafe {
            core::arch::asm!(
                "2:",
                "mov {a}, [{from}]",
                "mov {b}, [{from} + 8]",
                "mov {c}, [{from} + 16]",
                "mov {d}, [{from} + 24]",
                "mov [{to}], {a}",
                "mov [{to} + 8], {b}",
                "mov [{to} + 16], {c}",
                "mov [{to} + 24], {d}",
                "mov {a}, [{from} + 32]",
                "mov {b}, [{from} + 40]",
                "mov {c}, [{from} + 48]",
                "mov {d}, [{from} + 56]",
                "mov [{to} + 32], {a}",
                "mov [{to} + 40], {b}",
                "mov [{to} + 48], {c}",
                "mov [{to} + 56], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "dec {rounds}",
                "jnz 2b",
                from = inout(reg) source,
                to = inout(reg) target,
                rounds = inout(reg) rounds => _,
                a = out(reg) _,
                b = out(reg) _,
                c = out(reg) _,
                d = out(reg) _,
                options(nostack)
            );
        }
    }
    // SAFETY: the rest of the same ranges.
    unsafe { copy_tail(source, target, bytes % ROUND_BYTES) };
}

#[cfg(not(target_arch = "x86_64"))]
use copy_tail as copy_words;

/// The loop in the language: words, then bytes. Volatile, so that the compiler makes no call of it
/// (this may be the code behind that call).
///
/// # Safety
/// As for [`copy`].
unsafe fn copy_tail(mut from: *const u8, mut to: *mut u8, mut bytes: usize) {
    // SAFETY: every access stays below the `bytes` the caller vouches for; `Word64` needs no
    // alignment.
    unsafe {
        while bytes >= 8 {
            to.cast::<Word64>()
                .write_volatile(from.cast::<Word64>().read_volatile());
            from = from.add(8);
            to = to.add(8);
            bytes -= 8;
        }
        while bytes > 0 {
            to.write_volatile(from.read_volatile());
            from = from.add(1);
            to = to.add(1);
            bytes -= 1;
        }
    }
}

/// The processor's string copy.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_string(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: reads and writes exactly the `bytes` the caller vouches for; the direction flag is
    // clear by the calling convention.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
use copy_words as copy_string;

/// What [`calibrate`] found, in processor ticks for the same copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Calibration {
    /// The loop of 8-byte accesses.
    pub loop_ticks: u64,
    /// The string instruction.
    pub string_ticks: u64,
}

/// Measures both routines and chooses the faster one for all later copies. Takes well under a
/// millisecond on slow machines.
#[cfg(target_arch = "x86_64")]
pub fn calibrate() -> Calibration {
    const BYTES: usize = 16 * 1024;
    const ROUNDS: usize = 4;
    // The target lies an odd number of lines further on: distances of a large power of two
    // between the two sides are slow under an emulator and would measure that instead.
    let mut memory = alloc::vec![0_u8; 2 * BYTES + 4160];
    let base = memory.as_mut_ptr();
    let time = |routine: unsafe fn(*const u8, *mut u8, usize)| {
        let mut best = u64::MAX;
        for _ in 0..ROUNDS {
            // SAFETY: reading the time stamp counter has no effect on memory.
            let start = unsafe { core::arch::x86_64::_rdtsc() };
            // SAFETY: both halves lie inside `memory`, which only this function knows.
            unsafe { routine(base, base.add(BYTES + 4160), BYTES) };
            // SAFETY: as above.
            let end = unsafe { core::arch::x86_64::_rdtsc() };
            best = best.min(end.wrapping_sub(start));
        }
        best
    };
    let result = Calibration {
        loop_ticks: time(copy_words),
        string_ticks: time(copy_string),
    };
    STRING_COPY.store(result.string_ticks < result.loop_ticks, Ordering::Relaxed);
    result
}

/// Other processors have the loop only.
#[cfg(not(target_arch = "x86_64"))]
pub fn calibrate() -> Calibration {
    Calibration {
        loop_ticks: 0,
        string_ticks: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_routines_copy() {
        let source: alloc::vec::Vec<u8> = (0..5000).map(|i| (i * 13) as u8).collect();
        for routine in [copy_words, copy_string] {
            let mut target = alloc::vec![0; 5001];
            // SAFETY: 4990 bytes from 7 and to 3 are inside both vectors.
            unsafe { routine(source.as_ptr().add(7), target.as_mut_ptr().add(3), 4990) };
            assert_eq!(target[3..4993], source[7..4997]);
            assert_eq!((target[2], target[4993]), (0, 0));
        }
    }

    #[test]
    fn calibration_measures() {
        let result = calibrate();
        assert!(result.loop_ticks > 0 && result.string_ticks > 0);
    }
}
