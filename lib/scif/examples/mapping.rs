//! Using the peer's memory as if it were own memory: mapped, with loads and stores both ways,
//! words that both sides change, and what becomes of a mapping when its window goes.
#![no_std]
#![no_main]

use core::time::Duration;

use runtime::time::sleep;
use scif::{Endpoint, Memory, Protection, View};
use scif_examples::{Result, ensure, hear, play, tell};

runtime::main!(main);

const PAGE: usize = 4096;
/// Bytes of each window.
const BYTES: usize = 16 * PAGE;
/// The place in the window by which the client says that it has written.
const FLAG: usize = 0;
/// The place of the number to which both sides add.
const COUNTER: usize = 64;
/// Additions of each side.
const ROUNDS: u64 = 10_000;
/// The place of the text.
const TEXT: usize = PAGE - 10;

fn main() -> i32 {
    play(5006, server, client)
}

/// Waits for a value that the other side stores, at most 20 s.
fn wait_for(view: &View, offset: usize, wanted: u64) -> Result {
    for _ in 0..20_000 {
        // Acquire: what was stored before the value is visible after it.
        if view.load_acquire_u64(offset)? == wanted {
            return Ok(());
        }
        sleep(Duration::from_millis(1));
    }
    Err("the value did not come".into())
}

fn add(view: &View) -> Result {
    for _ in 0..ROUNDS {
        view.fetch_add_u64(COUNTER, 1)?;
    }
    Ok(())
}

fn server(endpoint: &Endpoint) -> Result {
    let memory = Memory::new(BYTES)?;
    let window = endpoint.register(&memory)?;
    tell(endpoint, window.offset())?;

    wait_for(&memory, FLAG, 1)?;
    let mut text = [0; 26];
    memory.copy_out(TEXT, &mut text)?;
    ensure(&text == b"stored through the mapping", "wrong text")?;
    memory.copy_in(TEXT, b"stored by the memory's own")?;
    memory.store_release_u64(FLAG, 2)?;

    // Locked instructions work across the link: nothing is lost.
    add(&memory)?;
    hear(endpoint)?;
    let sum = memory.read::<u64>(COUNTER)?;
    ensure(sum == 2 * ROUNDS, "additions are lost")?;
    runtime::println!("both sides added: {sum}");

    // No new mapping can be made from here on, but the client's stays.
    window.unregister()?;
    tell(endpoint, 0)?;
    wait_for(&memory, FLAG, 3)
}

fn client(endpoint: &Endpoint) -> Result {
    let offset = hear(endpoint)?;
    let mapping = endpoint.map(offset, BYTES, Protection::READ | Protection::WRITE)?;

    mapping.copy_in(TEXT, b"stored through the mapping")?;
    mapping.store_release_u64(FLAG, 1)?;
    wait_for(&mapping, FLAG, 2)?;
    let mut text = [0; 26];
    mapping.copy_out(TEXT, &mut text)?;
    ensure(&text == b"stored by the memory's own", "wrong text")?;

    add(&mapping)?;
    tell(endpoint, 0)?;

    hear(endpoint)?;
    let gone = endpoint.map(offset, PAGE, Protection::READ);
    ensure(gone.is_err(), "an unregistered window was mapped")?;
    // A part can be unmapped alone.
    let Ok((first, rest)) = mapping.split(PAGE) else {
        return Err("it has more than one page".into());
    };
    drop(rest);
    first.store_release_u64(FLAG, 3)?;
    Ok(())
}
