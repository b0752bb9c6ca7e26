//! `spawn-driver PROGRAM`: starts drivers as Redox's pcid-spawner does: for every PCI function of a
//! link without a driver it opens the channel, starts the program with the channel's number
//! and the number of a pipe in its environment, and waits for one byte.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use hal::pci::{self, CHANNEL_VARIABLE, RawAccess};
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use runtime::process::Command;
use scheme::daemon::NOTIFY_VARIABLE;
use syscall::error::{ENOLCK, Error};

runtime::main!(main);

/// Vendor and device of a link's functions.
const LINK: (u16, u16) = (0x1af4, 0x1110);
/// The numbers that the driver finds its channel and its pipe at.
const CHANNEL: usize = 7;
const NOTIFY: usize = 8;

fn main() -> i32 {
    let Some(program) = runtime::env::args().nth(1) else {
        runtime::eprintln!("usage: spawn-driver PROGRAM");
        return 2;
    };
    match run(&program) {
        Ok(()) => 0,
        Err(text) => {
            runtime::println!("STEP spawn-driver: FAIL {text}");
            1
        }
    }
}

fn run(program: &str) -> Result<(), String> {
    let what = |step: &'static str| move |error: Error| format!("{step}: {error}");
    let access = RawAccess::open().map_err(what("configuration space"))?;
    let (mut started, mut taken) = (0, 0);
    for address in pci::list().map_err(what("list of functions"))? {
        if access.identity(address).map_err(what("identity"))? != LINK {
            continue;
        }
        let path = format!("/scheme/pci/{address}/channel");
        match Fd::open(&path, O_RDWR | O_CLOEXEC, 0) {
            Ok(channel) => {
                let ready = start(program, channel).map_err(what("start"))?;
                if !ready {
                    return Err(format!("{program} for {address} ended without a byte"));
                }
                started += 1;
            }
            Err(error) if error.errno() == ENOLCK => taken += 1,
            Err(error) => return Err(format!("{path}: {error}")),
        }
    }
    // The driver of the first function takes all others.
    match (started, taken) {
        (1, 1..) => {
            runtime::println!("STEP spawn-driver: ok");
            Ok(())
        }
        _ => Err(format!(
            "{started} drivers started, {taken} functions taken"
        )),
    }
}

/// Starts the program for one function; whether it reported that it is ready.
fn start(program: &str, channel: Fd) -> Result<bool, Error> {
    let read = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
    let write = Fd::new(read.dup(b"write")?);
    Command::new(program)
        .fd(CHANNEL, channel.raw())
        .fd(NOTIFY, write.raw())
        .env(CHANNEL_VARIABLE, format!("{CHANNEL}"))
        .env(NOTIFY_VARIABLE, format!("{NOTIFY}"))
        .spawn()?;
    drop(write);
    let mut byte = [1];
    Ok(read.read(&mut byte)? == 1 && byte == [0])
}
