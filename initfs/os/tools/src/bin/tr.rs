//! `tr`: replaces characters of standard input by others.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

use tools::io::{self, CopyError};
use tools::tr::Translation;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let (mut complement, mut delete, mut squeeze) = (false, false, false);
    while let Some((letter, _)) = words.next() {
        match letter {
            'c' | 'C' => complement = true,
            'd' => delete = true,
            's' => squeeze = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    let mut translation = match Translation::new(complement, delete, squeeze, words.rest()) {
        Ok(translation) => translation,
        Err(wrong) => {
            runtime::eprintln!("tr: {wrong}");
            return io::usage(None);
        }
    };
    let mut buffer = io::Buffer::new(io::BLOCK);
    // The bytes of a character whose end did not come yet.
    let mut pending = Vec::new();
    io::for_each_input("tr", &[], |_, input| {
        io::blocks(input, &mut buffer, |block| {
            pending.extend_from_slice(block);
            let whole = match core::str::from_utf8(&pending) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => pending.len(),
            };
            let text = translation.apply(&pending[..whole]);
            pending.drain(..whole);
            io::output(&text)
        })?;
        let text = translation.apply(&pending);
        io::output(&text).map_err(CopyError::Output)
    })
}
