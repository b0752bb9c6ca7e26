//! `bench-linux`: the program of the Linux guests of `make bench`. See the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    bench_linux::run(&words)
}
