//! `date`: prints the time of day (UTC), as far as the machine knows it.
#![no_std]
#![no_main]

use tools::{io, number};

tools::main!(main);

fn main() -> i32 {
    if let Some(status) = io::no_arguments() {
        return status;
    }
    let text = number::show_date(runtime::time::unix_time().as_secs()) + " UTC\n";
    match io::output(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("date", error),
    }
}
