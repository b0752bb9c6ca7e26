//! `sleep seconds`: waits; fractions are allowed.
#![no_std]
#![no_main]

use core::time::Duration;

use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let arguments = io::behind_dashes(&arguments);
    let time = match arguments {
        [text] => tools::number::seconds(text),
        _ => None,
    };
    // The first one, or what is behind a good one.
    let first = arguments.first();
    let wrong = first.filter(|text| tools::number::seconds(text).is_none());
    let wrong = wrong.or(arguments.get(1)).map(|text| text.as_str());
    match time {
        Some(time) => {
            runtime::time::sleep(Duration::from_nanos(time));
            0
        }
        None => io::usage(wrong),
    }
}
