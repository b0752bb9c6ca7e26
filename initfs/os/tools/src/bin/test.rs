//! `test expression`: the status is 0 if the expression is true, 1 if it is false, 2 if it is
//! malformed.
#![no_std]
#![no_main]

use tools::condition::{Facts, Files, evaluate};

tools::main!(main);

struct System;

impl Files for System {
    fn facts(&self, path: &str) -> Option<Facts> {
        Facts::of(path)
    }

    fn is_terminal(&self, fd: u8) -> bool {
        let mut path = [0; 64];
        libredox::call::fpath(usize::from(fd), &mut path)
            .is_ok_and(|length| path[..length.min(64)].starts_with(b"/scheme/console"))
    }
}

fn main() -> i32 {
    match evaluate(&tools::io::arguments(), &System) {
        Ok(value) => i32::from(!value),
        Err(message) => {
            runtime::eprintln!("test: {message}");
            2
        }
    }
}
