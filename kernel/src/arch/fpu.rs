//! Floating point and vector state of programs. The kernel itself uses none of it, so the state
//! stays in the registers until the next context switch.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::ptr::NonNull;

use spin::Once;
use x86_64::registers::control::{Cr4, Cr4Flags};
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

use super::cpu;

/// The way of saving state.
#[derive(Clone, Copy, Debug)]
struct Method {
    xsave: bool,
    size: usize,
}

static METHOD: Once<Method> = Once::new();

/// Bytes of the FXSAVE layout, with which the XSAVE layout begins.
const FXSAVE_SIZE: usize = 512;
/// Offset of MXCSR.
const MXCSR: usize = 24;
/// Bits of MXCSR that every processor has; a reserved bit would fault in the kernel.
const MXCSR_MASK: u32 = 0xFFBF;
/// Offset of the first word after the FXSAVE layout: the components that the area holds.
const XSTATE_BV: usize = 512;
const X87_AND_SSE: u8 = 3;

/// Chooses XSAVE with all plain vector states, or FXSAVE, and enables it on the boot processor.
pub fn init() {
    let xsave = cpu::features().xsave;
    if xsave {
        enable_states();
    }
    let size = if xsave {
        // The size for the states that are enabled now.
        __cpuid_count(0xD, 0).ebx as usize
    } else {
        FXSAVE_SIZE
    };
    let method = METHOD.call_once(|| Method { xsave, size });
    log::info!(
        "floating point state: {} bytes by {}",
        method.size,
        if method.xsave { "XSAVE" } else { "FXSAVE" }
    );
}

/// Enables the chosen states on another processor.
pub fn enable() {
    if method().xsave {
        enable_states();
    }
}

/// Turns on all plain vector states that the processor has.
fn enable_states() {
    // SAFETY: the caller has seen that there is XSAVE; the states are those the processor says it
    // supports. All processors of a machine support the same.
    unsafe {
        Cr4::update(|cr4| cr4.insert(Cr4Flags::OSXSAVE));
        let supported = XCr0Flags::from_bits_truncate(__cpuid_count(0xD, 0).eax.into());
        let mut wanted = XCr0Flags::X87 | XCr0Flags::SSE;
        let avx = XCr0Flags::AVX;
        let avx512 = XCr0Flags::OPMASK | XCr0Flags::ZMM_HI256 | XCr0Flags::HI16_ZMM;
        if supported.contains(avx) {
            wanted |= avx;
            if supported.contains(avx512) {
                wanted |= avx512;
            }
        }
        XCr0::write(wanted);
    }
}

fn method() -> Method {
    *METHOD.get().expect("fpu::init ran at boot")
}

/// Alignment of the state, in bytes.
pub const ALIGN: usize = 64;

/// Bytes of the state.
pub fn size() -> usize {
    method().size
}

/// Saved state of one context. A new one is all zero, as on Redox: with XSAVE that means the
/// initial x87 state, but MXCSR 0.
#[derive(Debug)]
pub struct FpuState {
    area: NonNull<u8>,
}

// SAFETY: it alone refers to its memory.
unsafe impl Send for FpuState {}

impl FpuState {
    /// A zero state in the caller's memory.
    ///
    /// # Safety
    /// `area` leads to [`size`] bytes, aligned to [`ALIGN`], that nobody else uses as long as the
    /// state exists.
    pub unsafe fn at(area: NonNull<u8>) -> Self {
        // SAFETY: the caller vouches for the memory.
        unsafe { area.write_bytes(0, size()) };
        FpuState { area }
    }

    /// Saves the processor's state here.
    pub fn save(&mut self) {
        let area = self.area.as_ptr();
        // SAFETY: the area is aligned to 64 and as large as the instruction needs.
        unsafe {
            if method().xsave {
                asm!("xsave64 [{}]", in(reg) area, in("eax") u32::MAX, in("edx") u32::MAX);
            } else {
                asm!("fxsave64 [{}]", in(reg) area);
            }
        }
    }

    /// Loads the processor's state from here.
    pub fn load(&self) {
        let area = self.area.as_ptr();
        // SAFETY: as above; the contents were saved by the processor or checked by `set`.
        unsafe {
            if method().xsave {
                asm!("xrstor64 [{}]", in(reg) area, in("eax") u32::MAX, in("edx") u32::MAX);
            } else {
                asm!("fxrstor64 [{}]", in(reg) area);
            }
        }
    }

    /// The FXSAVE part.
    pub fn get(&self) -> [u8; FXSAVE_SIZE] {
        // SAFETY: the area begins with it.
        unsafe { self.area.cast::<[u8; FXSAVE_SIZE]>().read() }
    }

    /// Replaces the FXSAVE part; reserved MXCSR bits are cleared.
    pub fn set(&mut self, state: &[u8; FXSAVE_SIZE]) {
        let mut state = *state;
        let word = &mut state[MXCSR..MXCSR + 4];
        let mxcsr = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) & MXCSR_MASK;
        word.copy_from_slice(&mxcsr.to_le_bytes());
        // SAFETY: the area begins with the FXSAVE part; with XSAVE the header follows.
        unsafe {
            self.area.cast::<[u8; FXSAVE_SIZE]>().write(state);
            if method().xsave {
                *self.area.as_ptr().add(XSTATE_BV) |= X87_AND_SSE;
            }
        }
    }
}
