//! `memory-test MIB`: takes so much memory in contiguous pieces, more than there is below 4 GiB,
//! and checks that each page keeps what was stored there: no two are the same, and none goes to
//! devices.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use platform::dma::{Allocator, Buffer, MAX_CONTIGUOUS};
use runtime::env;

runtime::main!(main);

const PAGE: usize = 4096;
const FOUR_GIB: u64 = 1 << 32;

fn main() -> i32 {
    let mib = env::args().nth(1).and_then(|word| word.parse().ok());
    let Some(mib) = mib else {
        runtime::println!("usage: memory-test MIB");
        return 2;
    };
    match run(mib) {
        Ok(()) => {
            runtime::println!("STEP memory: ok");
            0
        }
        Err(wrong) => {
            runtime::println!("STEP memory: FAIL {wrong}");
            1
        }
    }
}

fn run(mib: usize) -> Result<(), String> {
    let allocator = Allocator::new().map_err(|error| format!("no contiguous memory: {error}"))?;
    let mut buffers: Vec<Buffer> = Vec::new();
    for _ in 0..(mib << 20) / MAX_CONTIGUOUS {
        let taken = buffers.len() * (MAX_CONTIGUOUS >> 20);
        let buffer = allocator.allocate(MAX_CONTIGUOUS);
        buffers.push(buffer.map_err(|error| format!("after {taken} MiB: {error}"))?);
    }
    // First all are written, then all are read: a page that is there twice holds the later word.
    for buffer in &buffers {
        each_word(buffer, |offset, word| buffer.region().write(offset, word))?;
    }
    for buffer in &buffers {
        each_word(buffer, |offset, word| {
            let found: u64 = buffer.region().read(offset)?;
            assert_eq!(found, word, "at physical address {word:#x}");
            Ok(())
        })?;
    }
    let high = |buffer: &&Buffer| buffer.physical() >= FOUR_GIB;
    let high = buffers.iter().filter(high).count() * (MAX_CONTIGUOUS >> 20);
    runtime::println!("memory-test: {mib} MiB, {high} MiB of them above 4 GiB");
    match high {
        0 => Err("nothing was above 4 GiB".into()),
        _ => Ok(()),
    }
}

/// Calls `work` with offset and physical address of the first and the last word of each page.
fn each_word(
    buffer: &Buffer,
    work: impl Fn(usize, u64) -> Result<(), platform::mem::BoundsError>,
) -> Result<(), String> {
    for page in (0..buffer.region().len()).step_by(PAGE) {
        for offset in [page, page + PAGE - 8] {
            work(offset, buffer.physical() + offset as u64)
                .map_err(|error| format!("{error:?}"))?;
        }
    }
    Ok(())
}
