//! `cmp [-s] file file`: compares byte by byte. The status is 0 for equal files, 1 for different
//! ones, 2 for an error.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use tools::io::{self, Buffer, Input};

tools::main!(main);

fn main() -> i32 {
    let mut arguments = io::arguments();
    let silent = arguments.first().is_some_and(|flag| flag == "-s");
    if silent {
        arguments.remove(0);
    }
    let [first, second] = arguments.as_slice() else {
        let wrong = arguments
            .iter()
            .find(|word| word.len() > 1 && word.starts_with('-'));
        let wrong = wrong.or(arguments.get(2)).map(|word| word.as_str());
        return io::usage(wrong);
    };
    match compare(first, second) {
        Ok(None) => 0,
        Ok(Some(message)) => {
            if !silent {
                runtime::println!("{message}");
            }
            1
        }
        Err((path, error)) => {
            io::report("cmp", path, error);
            2
        }
    }
}

fn compare<'a>(
    first: &'a str,
    second: &'a str,
) -> Result<Option<String>, (&'a str, runtime::Error)> {
    let open = |path: &'a str| Input::open(path).map_err(|error| (path, error));
    let (mut left, mut right) = (open(first)?, open(second)?);
    let (mut a, mut b) = (Buffer::new(io::BLOCK), Buffer::new(io::BLOCK));
    let (mut offset, mut line) = (0, 1);
    loop {
        let count_a = left.fill(a.bytes()).map_err(|error| (first, error))?;
        let count_b = right.fill(b.bytes()).map_err(|error| (second, error))?;
        let (bytes_a, bytes_b) = (&a.bytes()[..count_a], &b.bytes()[..count_b]);
        let same = bytes_a
            .iter()
            .zip(bytes_b)
            .take_while(|(a, b)| a == b)
            .count();
        line += bytes_a[..same]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        if same < count_a.min(count_b) {
            let byte = offset + same + 1;
            return Ok(Some(alloc::format!(
                "{first} {second} differ: byte {byte}, line {line}"
            )));
        }
        if count_a != count_b {
            let (path, end) = if count_a < count_b {
                (first, count_a)
            } else {
                (second, count_b)
            };
            return Ok(Some(alloc::format!(
                "{path} ends after byte {}",
                offset + end
            )));
        }
        if count_a == 0 {
            return Ok(None);
        }
        offset += count_a;
    }
}
