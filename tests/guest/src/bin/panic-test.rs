//! Panics on purpose, to show that a program's panic fails a run, and that the line about it needs
//! no memory: the program has taken all that there is.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

runtime::main!(main);

/// Takes all memory that the program can get, down to single bytes.
fn take_all_memory() {
    let mut bytes = 1 << 40;
    while bytes > 0 {
        let mut taken = Vec::<u8>::new();
        match taken.try_reserve_exact(bytes) {
            Ok(()) => core::mem::forget(taken),
            Err(_) => bytes /= 2,
        }
    }
}

fn main() -> i32 {
    let arguments = runtime::env::args().count();
    take_all_memory();
    // The end of so long a message is left out, but not the place.
    panic!("on purpose, with {arguments} arguments {:2000}", '.');
}
