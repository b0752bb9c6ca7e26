//! `env [name=value…] [program argument…]`: prints the environment or runs a program with another.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use runtime::process::Command;
use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let count = arguments
        .iter()
        .take_while(|word| word.contains('='))
        .count();
    let (assignments, program) = arguments.split_at(count);
    for word in assignments {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        runtime::env::set_var(name, value);
    }
    let Some((name, rest)) = program.split_first() else {
        let text: String = runtime::env::vars()
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        return match io::output(text.as_bytes()) {
            Ok(()) => 0,
            Err(error) => io::output_failed("env", error),
        };
    };
    let ended = Command::new(name)
        .args(rest)
        .spawn()
        .and_then(|mut child| child.wait());
    match ended {
        Ok(status) => status.shell_code(),
        Err(error) => {
            io::report("env", name, error);
            if error.errno == syscall::ENOENT {
                127
            } else {
                126
            }
        }
    }
}
