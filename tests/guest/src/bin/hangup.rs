//! A program that SIGHUP does not end at once, for the suite `scifrun`.
//!
//! `hangup ignore` ignores the signal and waits for ever. `hangup FILE` waits for the signal,
//! writes "caught" into the file, and ends. Both print "ready" once the signal has no other effect
//! any more.
#![no_std]
#![no_main]

use runtime::signals::{self, Choice};
use runtime::time::Duration;
use runtime::{Result, fs, thread};

runtime::main!(main);

/// SIGHUP as a bit of a set of signals.
const SIGHUP: u64 = 1;

fn main() -> i32 {
    let Some(argument) = runtime::env::args().nth(1) else {
        runtime::eprintln!("usage: hangup ignore, or hangup FILE");
        return 2;
    };
    let result = match argument.as_str() {
        "ignore" => ignore(),
        file => catch(file),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("hangup: {argument}: {error}");
            1
        }
    }
}

fn ignore() -> Result<()> {
    signals::choose(Choice {
        caught: 0,
        ignored: SIGHUP,
    })?;
    runtime::println!("ready");
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

fn catch(file: &str) -> Result<()> {
    signals::choose(Choice {
        caught: SIGHUP,
        ignored: 0,
    })?;
    runtime::println!("ready");
    signals::fetch()?;
    fs::write(file, "caught")
}
