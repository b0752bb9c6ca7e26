//! `cmp [-s] file file`: compares byte by byte. The status is 0 for equal files, 1 for different
//! ones, 2 for an error.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use tools::io::{self, Buffer, Input};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut silent = false;
    while let Some((letter, _)) = words.next() {
        match letter {
            's' => silent = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    let [first, second] = words.rest() else {
        return io::usage(words.rest().get(2).map(String::as_str));
    };
    match compare(first, second) {
        Ok(None) => 0,
        Ok(Some(message)) => {
            if !silent && let Err(error) = io::output(format!("{message}\n").as_bytes()) {
                io::output_failed("cmp", error);
                return 2;
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
