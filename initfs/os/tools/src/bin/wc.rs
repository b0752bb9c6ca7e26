//! `wc [-l] [-w] [-c] [file…]`: counts lines, words and bytes.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use tools::io::{self, CopyError};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut show = [false; 3];
    while let Some((letter, _)) = words.next() {
        match "lwc".find(letter) {
            Some(index) => show[index] = true,
            None => return io::usage(Some(words.word())),
        }
    }
    let paths = words.rest();
    if show == [false; 3] {
        show = [true; 3];
    }
    let print = |counts: &[u64; 3], path: &str| {
        let mut text = String::new();
        for (count, _) in counts.iter().zip(show).filter(|(_, show)| *show) {
            let space = if text.is_empty() { "" } else { " " };
            text.push_str(&format!("{space}{count}"));
        }
        if path != "-" {
            text.push_str(&format!(" {path}"));
        }
        text.push('\n');
        io::output(text.as_bytes()).map_err(CopyError::Output)
    };
    let mut total = [0; 3];
    let mut buffer = io::Buffer::new(io::BLOCK);
    let status = io::for_each_input("wc", paths, |path, input| {
        let mut counts = [0u64; 3];
        let mut in_word = false;
        io::blocks(input, &mut buffer, |block| {
            for byte in block {
                let space = byte.is_ascii_whitespace() || *byte == 11;
                counts[0] += u64::from(*byte == b'\n');
                counts[1] += u64::from(in_word && space);
                in_word = !space;
            }
            counts[2] += block.len() as u64;
            Ok(())
        })?;
        counts[1] += u64::from(in_word);
        total
            .iter_mut()
            .zip(counts)
            .for_each(|(total, count)| *total += count);
        print(&counts, path)
    });
    if paths.len() > 1
        && let Err(CopyError::Output(error)) = print(&total, "total")
    {
        return io::output_failed("wc", error);
    }
    status
}
