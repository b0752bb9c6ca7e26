//! `memory-test MIB`: takes MIB MiB of memory in contiguous pieces, some of them below and some
//! above 4 GiB, and checks that each page keeps what was stored there: no two are the same, and
//! none goes to devices.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hal::dma::{Allocator, Buffer, MAX_CONTIGUOUS};
use runtime::env;

runtime::main!(main);

const PAGE: usize = hal::mem::PAGE;
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
        each_word(buffer, |offset, word| write(buffer, offset, word))?;
    }
    for buffer in &buffers {
        each_word(buffer, |offset, word| {
            let found = read(buffer, offset)?;
            if found == word {
                return Ok(());
            }
            Err(format!(
                "physical address {word:#x} holds {found:#x} in place of its own address, which \
                 was stored there: another page, or a device, is there"
            ))
        })?;
    }
    let is_high = |buffer: &&Buffer| buffer.physical() >= FOUR_GIB;
    let high = buffers.iter().filter(is_high).count();
    let mib = |pieces: usize| pieces * (MAX_CONTIGUOUS >> 20);
    let (above, below) = (mib(high), mib(buffers.len() - high));
    runtime::println!("memory-test: {below} MiB below 4 GiB, {above} MiB above");
    if above == 0 || below == 0 {
        return Err(format!(
            "{below} MiB were below 4 GiB and {above} MiB above: some must be on both sides. Ask \
             for more, on a machine with more"
        ));
    }
    Ok(())
}

/// Calls `work` with offset and physical address of the first and the last word of each page.
fn each_word(
    buffer: &Buffer,
    work: impl Fn(usize, u64) -> Result<(), String>,
) -> Result<(), String> {
    for page in (0..buffer.region().len()).step_by(PAGE) {
        for offset in [page, page + PAGE - 8] {
            work(offset, buffer.physical() + offset as u64)?;
        }
    }
    Ok(())
}

fn read(buffer: &Buffer, offset: usize) -> Result<u64, String> {
    let word = buffer.region().read(offset);
    word.map_err(|error| format!("{error:?}"))
}

fn write(buffer: &Buffer, offset: usize, word: u64) -> Result<(), String> {
    let done = buffer.region().write(offset, word);
    done.map_err(|error| format!("{error:?}"))
}
