//! `grep [-c] [-q] [-v] text [file…]`: lines that hold a fixed text; 0 when there are some.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;

use tools::io::{self, CopyError};
use tools::lines::Lines;

runtime::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (mut count_only, mut quiet, mut invert) = (false, false, false);
    let mut words = arguments.as_slice();
    while let Some((first, rest)) = words.split_first()
        && let Some(letters) = first
            .strip_prefix('-')
            .filter(|letters| !letters.is_empty())
    {
        words = rest;
        if letters == "-" {
            break;
        }
        for letter in letters.chars() {
            match letter {
                'c' => count_only = true,
                'q' => quiet = true,
                'v' => invert = true,
                // The text is always a fixed one.
                'F' => {}
                _ => return io::usage("grep [-c] [-q] [-v] text [file…]"),
            }
        }
    }
    let Some((text, paths)) = words.split_first() else {
        return io::usage("grep [-c] [-q] [-v] text [file…]");
    };
    let mut found = false;
    let mut buffer = io::Buffer::new(io::BLOCK);
    let status = io::for_each_input("grep", paths, |path, input| {
        let prefix = if paths.len() > 1 {
            format!("{path}:")
        } else {
            Default::default()
        };
        let mut matches = 0u64;
        let mut out = Vec::new();
        let mut line = |line: &[u8], out: &mut Vec<u8>| {
            if holds(line, text.as_bytes()) != invert {
                matches += 1;
                if !count_only && !quiet {
                    out.extend_from_slice(prefix.as_bytes());
                    out.extend_from_slice(line);
                }
            }
        };
        let mut lines = Lines::new();
        io::blocks(input, &mut buffer, |block| {
            lines.push(block, |text| {
                line(text, &mut out);
                true
            });
            io::output(&out)?;
            out.clear();
            Ok(())
        })?;
        if let Some(mut rest) = lines.finish() {
            rest.push(b'\n');
            line(&rest, &mut out);
        }
        found |= matches > 0;
        if count_only && !quiet {
            out = format!("{prefix}{matches}\n").into_bytes();
        }
        io::output(&out).map_err(CopyError::Output)
    });
    match status {
        0 => i32::from(!found),
        _ => 2,
    }
}

fn holds(line: &[u8], text: &[u8]) -> bool {
    text.is_empty() || line.windows(text.len()).any(|window| window == text)
}
