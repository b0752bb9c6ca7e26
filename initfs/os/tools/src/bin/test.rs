//! `test expression`: the status is 0 if the expression is true, 1 if it is false, 2 if it is
//! malformed.
#![no_std]
#![no_main]

use runtime::fs;
use tools::condition::{Facts, Files, Kind, evaluate};

tools::main!(main);

struct System;

impl Files for System {
    fn facts(&self, path: &str) -> Option<Facts> {
        let data = fs::metadata(path).ok()?;
        let kind = match data.mode() & 0xF000 {
            0x4000 => Kind::Directory,
            0x8000 => Kind::File,
            0x1000 => Kind::Pipe,
            _ => Kind::Other,
        };
        let stat = data.stat();
        let modified = stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(stat.st_mtime_nsec));
        Some(Facts {
            kind,
            size: data.len(),
            mode: u32::from(data.mode() & 0o7777),
            modified,
        })
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
