//! Functions that compilers call on processors that lack an instruction, as far as the compiler's
//! own library does not have them.

use core::ffi::c_int;

macro_rules! bits {
    ($($popcount:ident $parity:ident $ffs:ident $clrsb:ident $signed:ty;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $popcount(value: $signed) -> c_int {
            value.count_ones() as c_int
        }

        #[unsafe(no_mangle)]
        extern "C" fn $parity(value: $signed) -> c_int {
            (value.count_ones() % 2) as c_int
        }

        #[unsafe(no_mangle)]
        extern "C" fn $ffs(value: $signed) -> c_int {
            match value {
                0 => 0,
                _ => value.trailing_zeros() as c_int + 1,
            }
        }

        /// The number of bits after the sign bit that are equal to it.
        #[unsafe(no_mangle)]
        extern "C" fn $clrsb(value: $signed) -> c_int {
            let ones = if value < 0 { !value } else { value };
            ones.leading_zeros() as c_int - 1
        }
    )* };
}

bits! {
    __popcountsi2 __paritysi2 __ffssi2 __clrsbsi2 i32;
    __popcountdi2 __paritydi2 __ffsdi2 __clrsbdi2 i64;
    __popcountti2 __parityti2 __ffsti2 __clrsbti2 i128;
}

#[unsafe(no_mangle)]
extern "C" fn __bswapsi2(value: i32) -> i32 {
    value.swap_bytes()
}

#[unsafe(no_mangle)]
extern "C" fn __bswapdi2(value: i64) -> i64 {
    value.swap_bytes()
}

#[unsafe(no_mangle)]
extern "C" fn ffs(value: c_int) -> c_int {
    __ffssi2(value)
}

#[unsafe(no_mangle)]
extern "C" fn ffsl(value: i64) -> c_int {
    __ffsdi2(value)
}

#[unsafe(no_mangle)]
extern "C" fn ffsll(value: i64) -> c_int {
    __ffsdi2(value)
}
