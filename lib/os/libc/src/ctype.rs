//! `ctype.h`, for ASCII; other values belong to no class.

use core::ffi::c_int;

use crate::number;

macro_rules! classes {
    ($($name:ident: $test:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(value: c_int) -> c_int {
                let test: fn(u8) -> bool = $test;
                c_int::from(u8::try_from(value).is_ok_and(test))
            }
        )*
    };
}

classes! {
    isalnum: |byte| byte.is_ascii_alphanumeric();
    isalpha: |byte| byte.is_ascii_alphabetic();
    isascii: |byte| byte.is_ascii();
    isblank: |byte| matches!(byte, b' ' | b'\t');
    iscntrl: |byte| byte.is_ascii_control();
    isdigit: |byte| byte.is_ascii_digit();
    isgraph: |byte| byte.is_ascii_graphic();
    islower: |byte| byte.is_ascii_lowercase();
    isprint: |byte| byte == b' ' || byte.is_ascii_graphic();
    ispunct: |byte| byte.is_ascii_punctuation();
    isspace: number::is_space;
    isupper: |byte| byte.is_ascii_uppercase();
    isxdigit: |byte| byte.is_ascii_hexdigit();
}

/// Values outside a byte (such as `EOF`) stay unchanged.
fn fold(value: c_int, fold: fn(&u8) -> u8) -> c_int {
    u8::try_from(value).map_or(value, |byte| c_int::from(fold(&byte)))
}

#[unsafe(no_mangle)]
extern "C" fn tolower(value: c_int) -> c_int {
    fold(value, u8::to_ascii_lowercase)
}

#[unsafe(no_mangle)]
extern "C" fn toupper(value: c_int) -> c_int {
    fold(value, u8::to_ascii_uppercase)
}
