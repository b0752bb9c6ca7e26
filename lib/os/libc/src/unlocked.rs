//! Streams that a thread reserves for several calls (`flockfile`), and the calls that leave the
//! locking to the program (`getc_unlocked`). Here these calls lock the stream too. In a thread
//! that has reserved it, that costs a look at the owner; a program that does not reserve it is
//! safe all the same.

use core::ffi::{c_char, c_int, c_void};

use crate::stream::{self, File};

#[unsafe(no_mangle)]
unsafe extern "C" fn flockfile(file: *mut File) {
    // SAFETY: the caller's open stream.
    unsafe { stream::keep(file) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftrylockfile(file: *mut File) -> c_int {
    // SAFETY: the caller's open stream.
    let is_kept = unsafe { stream::try_keep(file) };
    c_int::from(!is_kept)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn funlockfile(file: *mut File) {
    // SAFETY: the caller's open stream.
    unsafe { stream::release(file) };
}

unsafe extern "C" {
    safe fn getchar() -> c_int;
    safe fn putchar(byte: c_int) -> c_int;
}

#[unsafe(no_mangle)]
extern "C" fn getchar_unlocked() -> c_int {
    getchar()
}

#[unsafe(no_mangle)]
extern "C" fn putchar_unlocked(byte: c_int) -> c_int {
    putchar(byte)
}

/// Defines functions with the arguments and the result of another one, which they call.
macro_rules! same {
    ($($name:ident = $other:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                unsafe extern "C" {
                    fn $other($($argument: $type),*) $(-> $result)?;
                }
                // SAFETY: the same contract.
                unsafe { $other($($argument),*) }
            }
        )*
    };
}

same! {
    getc_unlocked = fgetc(file: *mut c_void) -> c_int;
    fgetc_unlocked = fgetc(file: *mut c_void) -> c_int;
    putc_unlocked = fputc(byte: c_int, file: *mut c_void) -> c_int;
    fputc_unlocked = fputc(byte: c_int, file: *mut c_void) -> c_int;
    fputs_unlocked = fputs(text: *const c_char, file: *mut c_void) -> c_int;
    fgets_unlocked = fgets(place: *mut c_char, size: c_int, file: *mut c_void) -> *mut c_char;
    fread_unlocked =
        fread(place: *mut c_void, size: usize, count: usize, file: *mut c_void) -> usize;
    fwrite_unlocked =
        fwrite(place: *const c_void, size: usize, count: usize, file: *mut c_void) -> usize;
    fflush_unlocked = fflush(file: *mut c_void) -> c_int;
    feof_unlocked = feof(file: *mut c_void) -> c_int;
    ferror_unlocked = ferror(file: *mut c_void) -> c_int;
    fileno_unlocked = fileno(file: *mut c_void) -> c_int;
    clearerr_unlocked = clearerr(file: *mut c_void);
}
