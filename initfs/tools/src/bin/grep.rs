//! `grep [-cqvF] pattern [file…]`: lines that match a basic regular expression (with -F: hold a
//! fixed text); status 0 when there are some.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;

use tools::io::{self, CopyError};
use tools::lines::Lines;
use tools::pattern::Pattern;

runtime::main!(main);

const USAGE: &str = "grep [-cqvF] pattern [file…]";

fn main() -> i32 {
    let arguments = io::arguments();
    let (mut count_only, mut quiet, mut invert, mut fixed) = (false, false, false, false);
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
                'F' => fixed = true,
                _ => return io::usage(Some(first), USAGE),
            }
        }
    }
    let Some((text, paths)) = words.split_first() else {
        return io::usage(None, USAGE);
    };
    let pattern = match fixed {
        true => Some(Pattern::fixed(text.as_bytes())),
        false => Pattern::parse(text.as_bytes()),
    };
    let Some(pattern) = pattern else {
        runtime::eprintln!("grep: {text}: an unclosed [ or a \\ at the end; try -F");
        return 2;
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
            if pattern.matches(line.strip_suffix(b"\n").unwrap_or(line)) != invert {
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
