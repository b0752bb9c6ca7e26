//! `head [-n lines | -c bytes] [file…]`: prints the beginning of files.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;

use tools::io::{self, CopyError};
use tools::lines::Lines;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (mut words, mut wanted) = io::short_count(&arguments, "nc");
    let mut bytes = false;
    while let Some((letter, value)) = words.next() {
        match (letter, value) {
            ('n' | 'c', Some(value)) => (wanted, bytes) = (value, letter == 'c'),
            _ => return io::usage(Some(words.word())),
        }
    }
    let Some(count) = tools::number::size(wanted) else {
        return io::usage(Some(wanted));
    };
    let paths = words.rest();
    let mut first = true;
    let mut buffer = io::Buffer::new(io::BLOCK);
    io::for_each_input("head", paths, |path, input| {
        if paths.len() > 1 {
            let space = if first { "" } else { "\n" };
            first = false;
            let title = format!("{space}==> {path} <==\n");
            io::output(title.as_bytes()).map_err(CopyError::Output)?;
        }
        let mut left = count;
        let mut lines = Lines::new();
        let (mut read, mut used) = (0, 0);
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
            read += length;
            let block = &buffer.bytes()[..length];
            if bytes {
                io::output(block).map_err(CopyError::Output)?;
                left -= length as u64;
                continue;
            }
            let mut result = Ok(());
            lines.push(block, |line| {
                result = io::output(line);
                used += line.len();
                left -= 1;
                left > 0 && result.is_ok()
            });
            result.map_err(CopyError::Output)?;
        }
        if left == 0 && !bytes {
            input.give_back(read - used);
        }
        match lines.finish() {
            Some(rest) if left > 0 => io::output(&rest).map_err(CopyError::Output),
            _ => Ok(()),
        }
    })
}
