//! `top`: shows the processes again and again.
#![no_std]
#![no_main]

use core::time::Duration;

use tools::{io, number};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let pause = match arguments.as_slice() {
        [] => Duration::from_secs(2),
        [word] => match number::seconds(word).map(Duration::from_nanos) {
            Some(pause) => pause,
            None => return io::usage(Some(word)),
        },
        [_, word, ..] => return io::usage(Some(word)),
    };
    io::repeat("top", &["ps".into()], pause)
}
