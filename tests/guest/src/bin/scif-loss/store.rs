//! A program that maps the memory of another node and stores there for ever. When the node is lost
//! the stores go nowhere and the loads find nothing, whatever becomes of the node.

use alloc::string::String;

use guest_tests::peer::Peer;
use guest_tests::text;
use guest_tests::windows::Remote;
use runtime::time::{Duration, sleep};
use scif::{Mapping, PortId, Protection};

use crate::load::STORE_PORT;

const BEGUN: &str = "/tmp/loss-begun";
const STOP: &str = "/tmp/loss-stop";
const BYTES: usize = 256 * 1024;
const WORD: usize = 8;
/// The value of loads where nothing answers: all ones on a bus; the emulator may give zeros.
const EMPTY: [u64; 2] = [u64::MAX, 0];

/// Forgets earlier runs.
pub fn clear() {
    // They may not be there.
    let _ = runtime::fs::remove_file(BEGUN);
    let _ = runtime::fs::remove_file(STOP);
}

fn exists(path: &str) -> bool {
    runtime::fs::metadata(path).is_ok()
}

/// Whether the program stores.
pub fn has_begun() -> bool {
    exists(BEGUN)
}

/// Has it end.
pub fn stop() {
    if let Err(error) = runtime::fs::write(STOP, b"stop") {
        runtime::println!("STEP scif-loss stop file: FAIL {error}");
    }
}

/// The program: status 0 when the memory was lost and nothing but emptiness was there since.
pub fn main(node: u16) -> i32 {
    match run(node) {
        Ok(()) => 0,
        Err(error) => {
            runtime::println!("STEP scif-loss store: FAIL {error}");
            1
        }
    }
}

fn run(node: u16) -> Result<(), String> {
    let remote = Remote::new(&Peer::known(PortId::new(node, STORE_PORT)), BYTES)?;
    let both = Protection::READ | Protection::WRITE;
    let offset = remote
        .register(0, BYTES, 0, both.bits(), 0)
        .map_err(text("register"))?;
    let mapping = remote
        .endpoint
        .map(offset, BYTES, both)
        .map_err(text("map"))?;
    let mut round = 1;
    let found = loop {
        let found = store_and_load(&mapping, round)?;
        if found != round {
            break found;
        }
        if round == 1 {
            runtime::fs::write(BEGUN, b"begun").map_err(text("begun"))?;
        }
        if exists(STOP) {
            return Err("the memory was there until the end".into());
        }
        round += 1;
    };
    if !EMPTY.contains(&found) {
        return Err(alloc::format!("{found:#x} was read from lost memory"));
    }
    runtime::println!("scif-loss: lost after {round} rounds, reads {found:#x}");
    let mut empty_rounds = 0_u64;
    while !exists(STOP) || empty_rounds < 10 {
        round += 1;
        let again = store_and_load(&mapping, round)?;
        if again != found {
            return Err(alloc::format!(
                "{again:#x} after {found:#x} was read from lost memory"
            ));
        }
        empty_rounds += 1;
        if empty_rounds.is_multiple_of(16) {
            sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Stores `value` all over the mapping and loads it again: the first value that is another one.
fn store_and_load(mapping: &Mapping, value: u64) -> Result<u64, String> {
    for at in (0..BYTES).step_by(WORD) {
        mapping.write(at, value).map_err(text("store"))?;
    }
    let mut found = value;
    for at in (0..BYTES).step_by(WORD) {
        let word: u64 = mapping.read(at).map_err(text("load"))?;
        if word != value {
            found = word;
            // Once lost, all of it is.
            if !EMPTY.contains(&word) {
                return Ok(word);
            }
        }
    }
    Ok(found)
}
