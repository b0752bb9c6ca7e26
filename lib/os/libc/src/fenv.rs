//! `fenv.h`: rounding and exceptions of floating point numbers, in the control register of SSE
//! (MXCSR), which all arithmetic of `float` and `double` uses.

use core::arch::asm;
use core::ffi::c_int;

/// The flags of exceptions: invalid, denormal operand, division by 0, overflow, underflow,
/// inexact.
const EXCEPTIONS: u32 = 0x3f;
/// The distance in bits from the flags to the masks. A masked exception does not stop the program.
const MASKS: u32 = 7;
/// The two bits of the rounding mode in the x87 control word, whose values C programs use; and by
/// how many bits they are higher in the SSE register.
const ROUNDING: u32 = 0xc00;
const ROUNDING_SHIFT: u32 = 3;
/// All exceptions masked, rounding to nearest: the value with which programs begin.
const INITIAL: u32 = 0x1f80;

fn get() -> u32 {
    let mut word = 0_u32;
    // SAFETY: stores the register into a local.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

fn set(word: u32) {
    // SAFETY: only bits that exist are set in all the callers below, or the register would fault.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

/// The bits that the register has.
const KNOWN: u32 = 0xffff;

fn excepts(mask: c_int) -> u32 {
    mask as u32 & EXCEPTIONS
}

#[unsafe(no_mangle)]
extern "C" fn feclearexcept(mask: c_int) -> c_int {
    set(get() & !excepts(mask));
    0
}

#[unsafe(no_mangle)]
extern "C" fn fetestexcept(mask: c_int) -> c_int {
    (get() & excepts(mask)) as c_int
}

/// Sets the flags only. This stops no program, whatever is masked.
#[unsafe(no_mangle)]
extern "C" fn feraiseexcept(mask: c_int) -> c_int {
    set(get() | excepts(mask));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fegetexceptflag(place: *mut u16, mask: c_int) -> c_int {
    // SAFETY: the caller's place for a number.
    unsafe { place.write((get() & excepts(mask)) as u16) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fesetexceptflag(place: *const u16, mask: c_int) -> c_int {
    // SAFETY: what the function above stored.
    let flags = u32::from(unsafe { place.read() });
    set(get() & !excepts(mask) | flags & excepts(mask));
    0
}

#[unsafe(no_mangle)]
extern "C" fn fegetround() -> c_int {
    (get() >> ROUNDING_SHIFT & ROUNDING) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fesetround(mode: c_int) -> c_int {
    if mode as u32 & !ROUNDING != 0 {
        return 1;
    }
    set(get() & !(ROUNDING << ROUNDING_SHIFT) | (mode as u32) << ROUNDING_SHIFT);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fegetenv(place: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write(get()) };
    0
}

/// `FE_DFL_ENV` is the address -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn fesetenv(place: *const u32) -> c_int {
    let word = match place as usize {
        usize::MAX => INITIAL,
        // SAFETY: what `fegetenv` or `feholdexcept` stored.
        _ => unsafe { place.read() },
    };
    set(word & KNOWN);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn feholdexcept(place: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    unsafe { fegetenv(place) };
    set(get() & !EXCEPTIONS | EXCEPTIONS << MASKS);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn feupdateenv(place: *const u32) -> c_int {
    let raised = get() & EXCEPTIONS;
    // SAFETY: the same contract.
    unsafe { fesetenv(place) };
    set(get() | raised);
    0
}

/// As on Linux: these exceptions will stop the program. Returns those that did so before.
#[unsafe(no_mangle)]
extern "C" fn feenableexcept(mask: c_int) -> c_int {
    let before = get();
    set(before & !(excepts(mask) << MASKS));
    (!before >> MASKS & EXCEPTIONS) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fedisableexcept(mask: c_int) -> c_int {
    let before = get();
    set(before | excepts(mask) << MASKS);
    (!before >> MASKS & EXCEPTIONS) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fegetexcept() -> c_int {
    (!get() >> MASKS & EXCEPTIONS) as c_int
}
