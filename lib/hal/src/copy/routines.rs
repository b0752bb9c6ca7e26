//! The copy routines. They are in assembly, because the compiler turns loops over plain accesses
//! into calls (perhaps of the routine itself) or vector code, and passes volatile ones through the
//! stack.
//!
//! Safety of all routines: the caller vouches, as for `copy::copy`, for `bytes` bytes at both
//! places, and a routine accesses exactly those. The processor needs no alignment except where
//! noted.

use core::arch::asm;

/// Whether the processor has AVX and the system keeps its registers for each program.
pub fn saves_avx() -> bool {
    const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
    const SSE_AND_AVX_STATE: u32 = 1 << 1 | 1 << 2;
    let features = core::arch::x86_64::__cpuid(1);
    if features.ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
        return false;
    }
    let enabled: u32;
    // SAFETY: OSXSAVE says that programs may read this register, which has no effect.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _,
            options(nomem, nostack, preserves_flags));
    }
    enabled & SSE_AND_AVX_STATE == SSE_AND_AVX_STATE
}

/// Prefetches the cache line at an address.
#[inline]
pub fn prefetch(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which never faults and changes nothing that a program sees.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Prefetches the cache line at an address for a store. Processors without the instruction take it
/// for one that does nothing.
#[inline]
pub fn prefetch_for_store(address: *const u8) {
    // SAFETY: as for `prefetch`.
    unsafe { asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// One load and one store of a given size, which the register's modifier determines.
macro_rules! move_one {
    ($from:ident, $to:ident, $register:literal, $class:ident) => {
        // SAFETY: see the module.
        unsafe {
            asm!(
                concat!("mov ", $register, ", [{from}]"),
                concat!("mov [{to}], ", $register),
                from = in(reg) $from,
                to = in(reg) $to,
                value = out($class) _,
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Uses only two registers for values, because it is part of the ways of small transfers, which
/// have none to spare.
#[inline]
pub unsafe fn words(from: *const u8, to: *mut u8, bytes: usize) {
    const ROUND_BYTES: usize = 64;
    let (mut source, mut target) = (from, to);
    if bytes >= ROUND_BYTES {
        // SAFETY: see the module.
        unsafe {
            asm!(
                "2:",
                "mov {a}, [{from}]",
                "mov {b}, [{from} + 8]",
                "mov [{to}], {a}",
                "mov [{to} + 8], {b}",
                "mov {a}, [{from} + 16]",
                "mov {b}, [{from} + 24]",
                "mov [{to} + 16], {a}",
                "mov [{to} + 24], {b}",
                "mov {a}, [{from} + 32]",
                "mov {b}, [{from} + 40]",
                "mov [{to} + 32], {a}",
                "mov [{to} + 40], {b}",
                "mov {a}, [{from} + 48]",
                "mov {b}, [{from} + 56]",
                "mov [{to} + 48], {a}",
                "mov [{to} + 56], {b}",
                "add {from}, 64",
                "add {to}, 64",
                "dec {rounds}",
                "jnz 2b",
                from = inout(reg) source,
                to = inout(reg) target,
                rounds = inout(reg) bytes / ROUND_BYTES => _,
                a = out(reg) _,
                b = out(reg) _,
                options(nostack)
            );
        }
    }
    if !bytes.is_multiple_of(ROUND_BYTES) {
        // SAFETY: the rest of the same ranges.
        unsafe { rest(source, target, bytes % ROUND_BYTES) };
    }
}

/// For copies of few bytes, and part of the short ways of messages: copies pieces of 64 bytes
/// through four registers of 16 bytes, then the rest.
#[inline(always)]
pub unsafe fn short(from: *const u8, to: *mut u8, bytes: usize) {
    const PIECE_BYTES: usize = 64;
    let (mut source, mut target, mut left) = (from, to, bytes);
    while left >= PIECE_BYTES {
        // SAFETY: see the module.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) source,
                to = in(reg) target,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
        left = left.wrapping_sub(PIECE_BYTES);
        if left == 0 {
            return;
        }
        source = source.wrapping_add(PIECE_BYTES);
        target = target.wrapping_add(PIECE_BYTES);
    }
    // SAFETY: the rest of the same ranges.
    unsafe { rest(source, target, left) };
}

/// Copies fewer than 64 bytes: at most one piece each of 32, 16 and 8 bytes, then the bytes that
/// do not fill a word. Always inlined: for a call, the short ways of messages would save
/// registers.
#[inline(always)]
unsafe fn rest(from: *const u8, to: *mut u8, bytes: usize) {
    let (mut source, mut target) = (from, to);
    if bytes & 32 != 0 {
        // SAFETY: see the module.
        unsafe {
            asm!(
                "mov {a}, [{from}]",
                "mov {b}, [{from} + 8]",
                "mov [{to}], {a}",
                "mov [{to} + 8], {b}",
                "mov {a}, [{from} + 16]",
                "mov {b}, [{from} + 24]",
                "mov [{to} + 16], {a}",
                "mov [{to} + 24], {b}",
                from = in(reg) source,
                to = in(reg) target,
                a = out(reg) _,
                b = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        (source, target) = (source.wrapping_add(32), target.wrapping_add(32));
    }
    if bytes & 16 != 0 {
        // SAFETY: see the module.
        unsafe {
            asm!(
                "mov {a}, [{from}]",
                "mov {b}, [{from} + 8]",
                "mov [{to}], {a}",
                "mov [{to} + 8], {b}",
                from = in(reg) source,
                to = in(reg) target,
                a = out(reg) _,
                b = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        (source, target) = (source.wrapping_add(16), target.wrapping_add(16));
    }
    if bytes & 8 != 0 {
        move_one!(source, target, "{value}", reg);
        (source, target) = (source.wrapping_add(8), target.wrapping_add(8));
    }
    if bytes & 7 == 0 {
        return;
    }
    if bytes & 4 != 0 {
        move_one!(source, target, "{value:e}", reg);
        (source, target) = (source.wrapping_add(4), target.wrapping_add(4));
    }
    if bytes & 2 != 0 {
        move_one!(source, target, "{value:x}", reg);
        (source, target) = (source.wrapping_add(2), target.wrapping_add(2));
    }
    if bytes & 1 != 0 {
        move_one!(source, target, "{value}", reg_byte);
    }
}

pub unsafe fn sse2(from: *const u8, to: *mut u8, bytes: usize) {
    const ROUND_BYTES: usize = 64;
    let (mut source, mut target) = (from, to);
    if bytes >= ROUND_BYTES {
        // SAFETY: see the module.
        unsafe {
            asm!(
                "2:",
                "movdqu xmm0, [{from}]",
                "movdqu xmm1, [{from} + 16]",
                "movdqu xmm2, [{from} + 32]",
                "movdqu xmm3, [{from} + 48]",
                "movdqu [{to}], xmm0",
                "movdqu [{to} + 16], xmm1",
                "movdqu [{to} + 32], xmm2",
                "movdqu [{to} + 48], xmm3",
                "add {from}, 64",
                "add {to}, 64",
                "dec {rounds}",
                "jnz 2b",
                from = inout(reg) source,
                to = inout(reg) target,
                rounds = inout(reg) bytes / ROUND_BYTES => _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                options(nostack)
            );
        }
    }
    // SAFETY: the rest of the same ranges.
    unsafe { rest(source, target, bytes % ROUND_BYTES) };
}

/// Only for processors and systems where [`saves_avx`] is true.
pub unsafe fn avx(from: *const u8, to: *mut u8, bytes: usize) {
    const ROUND_BYTES: usize = 128;
    let (mut source, mut target) = (from, to);
    if bytes >= ROUND_BYTES {
        // SAFETY: see the module. The upper halves are cleared, as other code expects them.
        unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, [{from}]",
                "vmovdqu ymm1, [{from} + 32]",
                "vmovdqu ymm2, [{from} + 64]",
                "vmovdqu ymm3, [{from} + 96]",
                "vmovdqu [{to}], ymm0",
                "vmovdqu [{to} + 32], ymm1",
                "vmovdqu [{to} + 64], ymm2",
                "vmovdqu [{to} + 96], ymm3",
                "add {from}, 128",
                "add {to}, 128",
                "dec {rounds}",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) source,
                to = inout(reg) target,
                rounds = inout(reg) bytes / ROUND_BYTES => _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                options(nostack)
            );
        }
    }
    // SAFETY: the rest of the same ranges.
    unsafe { words(source, target, bytes % ROUND_BYTES) };
}

pub unsafe fn streaming(from: *const u8, to: *mut u8, bytes: usize) {
    const ROUND_BYTES: usize = 64;
    // These stores need alignment, and only whole cache lines leave the processor in one piece.
    let head = to.align_offset(ROUND_BYTES).min(bytes);
    // SAFETY: see the module.
    unsafe { words(from, to, head) };
    let (mut source, mut target) = (from.wrapping_add(head), to.wrapping_add(head));
    let bytes = bytes - head;
    if bytes >= ROUND_BYTES {
        // SAFETY: see the module. The fence puts these stores in order with all others.
        unsafe {
            asm!(
                "2:",
                "movdqu xmm0, [{from}]",
                "movdqu xmm1, [{from} + 16]",
                "movdqu xmm2, [{from} + 32]",
                "movdqu xmm3, [{from} + 48]",
                "movntdq [{to}], xmm0",
                "movntdq [{to} + 16], xmm1",
                "movntdq [{to} + 32], xmm2",
                "movntdq [{to} + 48], xmm3",
                "add {from}, 64",
                "add {to}, 64",
                "dec {rounds}",
                "jnz 2b",
                "sfence",
                from = inout(reg) source,
                to = inout(reg) target,
                rounds = inout(reg) bytes / ROUND_BYTES => _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                options(nostack)
            );
        }
    }
    // SAFETY: the rest of the same ranges.
    unsafe { rest(source, target, bytes % ROUND_BYTES) };
}

pub unsafe fn string_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: see the module. The direction flag is clear by the calling convention.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

pub unsafe fn string_words(from: *const u8, to: *mut u8, bytes: usize) {
    let (source, target): (*const u8, *mut u8);
    // SAFETY: as above.
    unsafe {
        asm!(
            "rep movsq",
            inout("rcx") bytes / 8 => _,
            inout("rsi") from => source,
            inout("rdi") to => target,
            options(nostack, preserves_flags)
        );
        rest(source, target, bytes % 8);
    }
}
