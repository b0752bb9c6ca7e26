//! `head [-n lines | -c bytes] [file…]`: prints the beginning of files.
#![no_std]
#![no_main]

extern crate alloc;

use tools::io::{self, CopyError};
use tools::lines::Lines;

tools::main!(main);

fn main() -> i32 {
    let mut arguments = io::arguments();
    let (mut count, mut bytes) = (10, false);
    if let Some(flag) = arguments.first().cloned()
        && let Some(flag) = flag.strip_prefix('-').filter(|flag| !flag.is_empty())
    {
        arguments.remove(0);
        let mut wrong = alloc::format!("-{flag}");
        // -n 5, -n5 and -5 mean the same.
        let (letters, mut value) = match flag.find(|c: char| c.is_ascii_digit()) {
            Some(at) => (&flag[..at], flag[at..].into()),
            None => (flag, alloc::string::String::new()),
        };
        bytes = letters == "c";
        if value.is_empty() && !arguments.is_empty() {
            value = arguments.remove(0);
            wrong = alloc::format!("{wrong} {value}");
        }
        count = match tools::number::size(&value) {
            Some(count) if matches!(letters, "" | "n" | "c") => count,
            _ => return io::usage(Some(&wrong)),
        };
    }
    let mut buffer = io::Buffer::new(io::BLOCK);
    io::for_each_input("head", &arguments, |_, input| {
        let mut left = count;
        let mut lines = Lines::new();
        while left > 0 {
            let room = if bytes {
                left.min(io::BLOCK as u64) as usize
            } else {
                io::BLOCK
            };
            let length = input
                .read(&mut buffer.bytes()[..room])
                .map_err(CopyError::Input)?;
            if length == 0 {
                break;
            }
            let block = &buffer.bytes()[..length];
            if bytes {
                io::output(block).map_err(CopyError::Output)?;
                left -= length as u64;
                continue;
            }
            let mut result = Ok(());
            lines.push(block, |line| {
                result = io::output(line);
                left -= 1;
                left > 0 && result.is_ok()
            });
            result.map_err(CopyError::Output)?;
        }
        match lines.finish() {
            Some(rest) if left > 0 => io::output(&rest).map_err(CopyError::Output),
            _ => Ok(()),
        }
    })
}
