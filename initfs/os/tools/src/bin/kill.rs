//! `kill [-signal] pid…`: sends a signal (TERM unless given by name or number).
#![no_std]
#![no_main]

use tools::{io, signal};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (number, pids) = match arguments.split_first() {
        Some((flag, rest)) if flag.starts_with('-') => match signal::number(&flag[1..]) {
            Some(number) => (number, rest),
            None => {
                runtime::eprintln!("kill: unknown signal `{}`", &flag[1..]);
                return 2;
            }
        },
        _ => (15, arguments.as_slice()),
    };
    if pids.is_empty() {
        return io::usage(None);
    }
    let mut status = 0;
    for word in pids {
        match word.parse() {
            Ok(pid) => {
                if let Err(error) = runtime::process::kill(pid, number) {
                    status = io::report("kill", word, error);
                }
            }
            Err(_) => {
                runtime::eprintln!("kill: `{word}` is not a process id");
                status = 2;
            }
        }
    }
    status
}
