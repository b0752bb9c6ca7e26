//! Put with a header, and credits: a producer fills the consumer's memory block by block, and waits
//! when all blocks are full.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec;

use st::{Deadline, Error, Listener, Memory, Port, PortId, connect};
use st_examples::{Result, ensure, patient, play};
use zerocopy::{FromBytes, Immutable, IntoBytes};

runtime::main!(main);

const BLOCK: usize = 4096;
const BLOCKS: u64 = 8;
const COUNT: u64 = 100;

/// To the consumer: a block is full. To the producer: it may be filled again.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct Block {
    number: u64,
    at: u64,
}

fn main() -> i32 {
    play(5402, consumer, producer)
}

fn consumer(port: Port) -> Result {
    let link = Listener::bind(port)?.accept()?;
    let (mut tx, mut rx) = link.channel(0)?.split();
    // From now on the producer reaches this memory; dropping the region takes it back.
    let region = tx.map(Memory::new(BLOCKS as usize * BLOCK)?)?;
    let mut bytes = vec![0; BLOCK];
    for number in 0..COUNT {
        let block: Block = rx.pull()?;
        ensure(block.number == number, "another block")?;
        // Data that was put before the header is there when the header is.
        region.copy_out(block.at as usize, &mut bytes)?;
        ensure(bytes == content(number), "not what was put")?;
        tx.push(&block)?;
    }
    runtime::println!("{COUNT} blocks of {BLOCK} bytes");
    // The producer closes when it has all credits back.
    let end = rx.pull::<Block>().err();
    ensure(end == Some(Error::Ended), "another end")
}

fn producer(consumer: PortId) -> Result {
    let link = connect(consumer, &patient())?;
    let (mut tx, mut rx) = link.channel(0)?.split();
    // Waits until the consumer has mapped its memory.
    let memory = tx.remote(Deadline::Never)?;
    let mut credits = BLOCKS;
    for number in 0..COUNT {
        if credits == 0 {
            rx.pull::<Block>()?;
            credits += 1;
        }
        credits -= 1;
        let at = number % BLOCKS * BLOCK as u64;
        tx.put_with(&content(number), memory.at(at)?, &Block { number, at })?;
    }
    for _ in credits..BLOCKS {
        rx.pull::<Block>()?;
    }
    Ok(())
}

fn content(number: u64) -> [u8; BLOCK] {
    [number as u8; BLOCK]
}
