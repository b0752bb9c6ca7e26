//! A transfer that signals its own end: the flag arrives behind the data, and the waiter polls
//! only its own memory.
#![no_std]
#![no_main]

use core::time::Duration;

use runtime::time::sleep;
use scif::{Endpoint, Initiator, Memory, RmaFlags, Signal, View};
use scif_examples::{Result, ensure, hear, play, tell};

runtime::main!(main);

const DATA: usize = 1 << 20;
/// The flag lies behind the data, in a page of its own.
const FLAG: usize = DATA;
const BYTES: usize = DATA + 4096;
const ROUNDS: u64 = 10;

fn main() -> i32 {
    play(5010, server, client)
}

/// Polls own memory until the signal is there, at most 20 s.
fn wait_for(memory: &View, wanted: u64) -> Result {
    for _ in 0..20_000 {
        if memory.load_acquire_u64(FLAG)? == wanted {
            return Ok(());
        }
        sleep(Duration::from_millis(1));
    }
    Err("the signal did not come".into())
}

fn server(endpoint: &Endpoint) -> Result {
    let memory = Memory::new(BYTES)?;
    let window = endpoint.register(&memory)?;
    tell(endpoint, window.offset())?;
    for round in 1..=ROUNDS {
        wait_for(&memory, round)?;
        // The signal was written after the data.
        for offset in (0..DATA).step_by(4096) {
            ensure(
                memory.read::<u64>(offset)? == round,
                "the signal came before the data",
            )?;
        }
        tell(endpoint, round as i64)?;
    }
    runtime::println!("{ROUNDS} signals, each behind its data");
    hear(endpoint)?;
    Ok(())
}

fn client(endpoint: &Endpoint) -> Result {
    let remote = hear(endpoint)?;
    let memory = Memory::new(BYTES)?;
    let window = endpoint.register(&memory)?;
    for round in 1..=ROUNDS {
        for offset in (0..DATA).step_by(4096) {
            memory.write(offset, round)?;
        }
        endpoint.write_to(window.part(0..DATA)?, remote, RmaFlags::empty())?;
        // Writes a word on both sides once the data is there; the call returns before that.
        let here = Signal {
            offset: window.offset() + FLAG as i64,
            value: round,
        };
        let there = Signal {
            offset: remote + FLAG as i64,
            value: round,
        };
        endpoint.fence_signal(Initiator::Own, Some(here), Some(there))?;
        wait_for(&memory, round)?;
        ensure(hear(endpoint)? == round as i64, "another round")?;
    }
    tell(endpoint, 0)
}
