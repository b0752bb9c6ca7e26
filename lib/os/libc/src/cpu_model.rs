//! What gcc and clang ask about the processor: the words behind `__builtin_cpu_supports` and
//! `__builtin_cpu_is`, in libgcc's layout.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};

/// libgcc's `struct __processor_model`. The type and subtype of the processor are not filled in.
#[repr(C)]
struct Model {
    maker: c_uint,
    kind: c_uint,
    subtype: c_uint,
    features: [c_uint; 1],
}

#[repr(transparent)]
struct Written<T>(UnsafeCell<T>);

// SAFETY: written by the first thread before the program begins, and with the same values by
// `__cpu_indicator_init`; compiled code reads words.
unsafe impl<T> Sync for Written<T> {}

#[unsafe(no_mangle)]
static __cpu_model: Written<Model> = Written(UnsafeCell::new(Model {
    maker: 0,
    kind: 0,
    subtype: 0,
    features: [0],
}));

/// The features that gcc numbers from 32 on; none is reported.
#[unsafe(no_mangle)]
static __cpu_features2: Written<[c_uint; 4]> = Written(UnsafeCell::new([0; 4]));

/// A register that `cpuid` returns.
#[derive(Clone, Copy)]
enum Register {
    Ecx1,
    Edx1,
    Ebx7,
    Ecx7,
    Edx7,
    EcxExtended,
}

/// The registers that the kernel must save for each thread before a feature can be used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Sse,
    Avx,
    Avx512,
}

/// The bit of each feature in its register, in gcc's order.
const FEATURES: [(Register, u32, State); 32] = {
    use Register::{Ebx7, Ecx1, Ecx7, EcxExtended, Edx1, Edx7};
    use State::{Avx, Avx512, Sse};
    [
        (Edx1, 15, Sse),        // cmov
        (Edx1, 23, Sse),        // mmx
        (Ecx1, 23, Sse),        // popcnt
        (Edx1, 25, Sse),        // sse
        (Edx1, 26, Sse),        // sse2
        (Ecx1, 0, Sse),         // sse3
        (Ecx1, 9, Sse),         // ssse3
        (Ecx1, 19, Sse),        // sse4.1
        (Ecx1, 20, Sse),        // sse4.2
        (Ecx1, 28, Avx),        // avx
        (Ebx7, 5, Avx),         // avx2
        (EcxExtended, 6, Sse),  // sse4a
        (EcxExtended, 16, Avx), // fma4
        (EcxExtended, 11, Avx), // xop
        (Ecx1, 12, Avx),        // fma
        (Ebx7, 16, Avx512),     // avx512f
        (Ebx7, 3, Sse),         // bmi
        (Ebx7, 8, Sse),         // bmi2
        (Ecx1, 25, Sse),        // aes
        (Ecx1, 1, Sse),         // pclmul
        (Ebx7, 31, Avx512),     // avx512vl
        (Ebx7, 30, Avx512),     // avx512bw
        (Ebx7, 17, Avx512),     // avx512dq
        (Ebx7, 28, Avx512),     // avx512cd
        (Ebx7, 27, Avx512),     // avx512er
        (Ebx7, 26, Avx512),     // avx512pf
        (Ecx7, 1, Avx512),      // avx512vbmi
        (Ebx7, 21, Avx512),     // avx512ifma
        (Edx7, 2, Avx512),      // avx5124vnniw
        (Edx7, 3, Avx512),      // avx5124fmaps
        (Ecx7, 14, Avx512),     // avx512vpopcntdq
        (Ecx7, 6, Avx512),      // avx512vbmi2
    ]
};

/// The registers that the kernel saves.
fn saved(ecx: u32) -> State {
    const OSXSAVE: u32 = 1 << 27;
    if ecx & OSXSAVE == 0 {
        return State::Sse;
    }
    // SAFETY: the processor has the instruction, as the bit says.
    let states = unsafe { extended_states() };
    match (states & 0xE6, states & 0x06) {
        (0xE6, _) => State::Avx512,
        (_, 0x06) => State::Avx,
        _ => State::Sse,
    }
}

/// # Safety
/// The processor has XSAVE, and the kernel uses it.
#[target_feature(enable = "xsave")]
unsafe fn extended_states() -> u64 {
    // SAFETY: the caller's promise.
    unsafe { _xgetbv(0) }
}

/// Asks the processor. Called before the program's own code runs.
pub fn look() {
    const EXTENDED: u32 = 0x8000_0000;
    let first = __cpuid(0);
    let one = __cpuid(1);
    let (ebx, ecx, edx) = match first.eax {
        7.. => {
            let seven = __cpuid_count(7, 0);
            (seven.ebx, seven.ecx, seven.edx)
        }
        _ => (0, 0, 0),
    };
    let extended = match __cpuid(EXTENDED).eax {
        0x8000_0001.. => __cpuid(EXTENDED + 1).ecx,
        _ => 0,
    };
    let saved = saved(one.ecx);
    let mut features = 0;
    for (index, (register, bit, state)) in FEATURES.into_iter().enumerate() {
        let word = match register {
            Register::Ecx1 => one.ecx,
            Register::Edx1 => one.edx,
            Register::Ebx7 => ebx,
            Register::Ecx7 => ecx,
            Register::Edx7 => edx,
            Register::EcxExtended => extended,
        };
        if word >> bit & 1 != 0 && state <= saved {
            features |= 1 << index;
        }
    }
    let model = Model {
        // "Genu", "Auth": Intel is 1, AMD is 2, others are 3.
        maker: match &first.ebx.to_le_bytes() {
            b"Genu" => 1,
            b"Auth" => 2,
            _ => 3,
        },
        kind: 0,
        subtype: 0,
        features: [features],
    };
    // SAFETY: see `Written`.
    unsafe { __cpu_model.0.get().write_volatile(model) };
}

/// Called by `__builtin_cpu_init`.
#[unsafe(no_mangle)]
extern "C" fn __cpu_indicator_init() -> c_int {
    look();
    0
}
