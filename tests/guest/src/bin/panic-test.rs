//! Panics on purpose, to show that a program's panic fails a run.
#![no_std]
#![no_main]

runtime::main!(main);

fn main() -> i32 {
    panic!(
        "on purpose, with {} arguments",
        runtime::env::args().count()
    );
}
