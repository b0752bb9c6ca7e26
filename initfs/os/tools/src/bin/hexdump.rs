//! `hexdump [file…]`: prints bytes as numbers and characters, 16 on a line.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use tools::io::{self, CopyError};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let paths = match io::operands(&arguments) {
        Ok(paths) => paths,
        Err(status) => return status,
    };
    let mut row = [0; 16];
    io::for_each_input("hexdump", paths, |_, input| {
        let mut offset = 0u64;
        loop {
            let count = input.fill(&mut row).map_err(CopyError::Input)?;
            if count == 0 {
                return Ok(());
            }
            let mut text = format!("{offset:08x} ");
            for index in 0..16 {
                match row[..count].get(index) {
                    Some(byte) => text.push_str(&format!(" {byte:02x}")),
                    None => text.push_str("   "),
                }
            }
            let shown: String = row[..count]
                .iter()
                .map(|byte| {
                    if (32..127).contains(byte) {
                        char::from(*byte)
                    } else {
                        '.'
                    }
                })
                .collect();
            text.push_str(&format!("  |{shown}|\n"));
            io::output(text.as_bytes()).map_err(CopyError::Output)?;
            offset += count as u64;
        }
    })
}
