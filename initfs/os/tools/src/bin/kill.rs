//! `kill [-signal] pid…`: sends a signal (TERM unless given by name or number). A negative number
//! is a group; -1 is all processes of users.
#![no_std]
#![no_main]

use tools::{io, signal};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (number, pids) = match arguments.split_first() {
        Some((flag, rest)) if flag.starts_with('-') && flag != "--" => {
            match signal::number(&flag[1..]) {
                Some(number) => (number, rest),
                None => {
                    runtime::eprintln!("kill: unknown signal `{}`", &flag[1..]);
                    return 2;
                }
            }
        }
        _ => (15, arguments.as_slice()),
    };
    let pids = match pids.split_first() {
        Some((dashes, rest)) if dashes == "--" => rest,
        _ => pids,
    };
    if pids.is_empty() {
        return io::usage(None);
    }
    let mut status = 0;
    for word in pids {
        match word.parse() {
            Ok(target) => {
                if let Err(error) = signal::send(target, number) {
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
