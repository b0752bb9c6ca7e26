//! `seq [first [step]] last`: writes numbers, one a line.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use core::fmt::Write;

use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let arguments = io::behind_dashes(&arguments);
    let numbers: Option<alloc::vec::Vec<i64>> =
        arguments.iter().map(|text| text.parse().ok()).collect();
    let (first, step, last) = match numbers.as_deref() {
        Some([last]) => (1, 1, *last),
        Some([first, last]) => (*first, 1, *last),
        Some([first, step, last]) if *step != 0 => (*first, *step, *last),
        _ => {
            let wrong = arguments.iter().find(|text| text.parse::<i64>().is_err());
            let wrong = wrong.or(arguments.get(if arguments.len() > 3 { 3 } else { 1 }));
            let wrong = wrong.map(String::as_str);
            return io::usage(wrong);
        }
    };
    let mut out = String::new();
    let mut next = Some(first);
    while let Some(number) = next.filter(|n| if step > 0 { *n <= last } else { *n >= last }) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{number}");
        if out.len() >= 4000 {
            if let Err(error) = io::output(out.as_bytes()) {
                return io::output_failed("seq", error);
            }
            out.clear();
        }
        next = number.checked_add(step);
    }
    match io::output(out.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("seq", error),
    }
}
