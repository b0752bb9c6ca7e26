//! `tail [-n lines] [file…]`: prints the end of files.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::VecDeque;

use tools::io::{self, CopyError};
use tools::lines::Lines;

tools::main!(main);

fn main() -> i32 {
    let mut arguments = io::arguments();
    let mut count = 10;
    if let Some(flag) = arguments.first().cloned()
        && let Some(flag) = flag.strip_prefix('-').filter(|flag| !flag.is_empty())
    {
        arguments.remove(0);
        let mut wrong = alloc::format!("-{flag}");
        let mut value: alloc::string::String = flag.strip_prefix('n').unwrap_or(flag).into();
        if value.is_empty() && !arguments.is_empty() {
            value = arguments.remove(0);
            wrong = alloc::format!("{wrong} {value}");
        }
        count = match tools::number::size(&value).and_then(|count| usize::try_from(count).ok()) {
            Some(count) => count,
            None => return io::usage(Some(&wrong)),
        };
    }
    let mut buffer = io::Buffer::new(io::BLOCK);
    io::for_each_input("tail", &arguments, |_, input| {
        let mut lines = Lines::new();
        let mut last = VecDeque::new();
        io::blocks(input, &mut buffer, |block| {
            lines.push(block, |line| {
                last.push_back(line.to_vec());
                if last.len() > count {
                    last.pop_front();
                }
                true
            });
            Ok(())
        })?;
        last.extend(lines.finish());
        let skip = last.len().saturating_sub(count);
        for line in last.iter().skip(skip) {
            io::output(line).map_err(CopyError::Output)?;
        }
        Ok(())
    })
}
