//! The smallest program of its kind: its size and start are measured beside those of other kinds.
#![no_std]
#![no_main]

runtime::main!(main);

fn main() -> i32 {
    runtime::println!("hello");
    0
}
