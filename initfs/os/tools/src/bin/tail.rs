//! `tail [-n lines] [file…]`: prints the end of files.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::VecDeque;

use tools::io::{self, CopyError};
use tools::lines::Lines;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (mut words, mut wanted) = io::short_count(&arguments, "n");
    while let Some((letter, value)) = words.next() {
        match (letter, value) {
            ('n', Some(value)) => wanted = value,
            _ => return io::usage(Some(words.word())),
        }
    }
    let count = tools::number::size(wanted).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count else {
        return io::usage(Some(wanted));
    };
    let mut buffer = io::Buffer::new(io::BLOCK);
    io::for_each_input("tail", words.rest(), |_, input| {
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
