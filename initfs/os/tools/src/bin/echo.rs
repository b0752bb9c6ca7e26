//! `echo [-n] [-e] [word…]`.
#![no_std]
#![no_main]

tools::main!(main);

fn main() -> i32 {
    match tools::io::output(&tools::echo::text(&tools::io::arguments())) {
        Ok(()) => 0,
        Err(error) => tools::io::output_failed("echo", error),
    }
}
