//! `false`: fails.
#![no_std]
#![no_main]

runtime::main!(main);

fn main() -> i32 {
    1
}
