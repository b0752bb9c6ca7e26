//! Level 2 of Scheduled Transfers: numbered headers with data go both ways while connections are
//! cut and drivers are killed, at either end.
//!
//! `st-session serve` serves one session after the other until one says that it was the last.
//! `st-session NODE` checks against it. `st-session serve-few` is a server that lets few clients
//! wait, and `st-session crowd NODE` is many clients. The exit status says what is wrong, see
//! [`Failure`].
#![no_std]
#![no_main]

extern crate alloc;

mod client;
mod crowd;
mod server;

use alloc::vec::Vec;

use guest_tests::driver;
use runtime::println;
use runtime::process;
use runtime::time::{Duration, Instant, sleep};
use scif::View;
use st::{Error, Options};
use zerocopy::{FromBytes, Immutable, IntoBytes};

runtime::main!(main);

/// Where the server listens.
const PORT: u16 = 5310;
/// Transfers that each end keeps.
const KEPT: usize = 64;
/// Places for data: one is used again when a header behind it was pulled, so that the data was
/// looked at.
const PLACES: usize = 2 * KEPT;
/// Bytes of a place.
const PLACE: usize = 512;
/// Headers in each direction.
const COUNT: u64 = 2000;

/// Failures; the number is the exit status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
enum Failure {
    /// Wrong arguments, or a call of the system fails.
    Setup = 1,
    /// A header is missing.
    Lost = 2,
    /// A header came again.
    Doubled = 3,
    /// A header came without its data.
    Data = 4,
    /// A call on a session failed.
    Session = 5,
    /// A transfer has not reached the level that it was waited for.
    Level = 6,
    /// A session ended in another way than it should.
    End = 7,
    /// A driver that was killed did not come back.
    Driver = 8,
}

type Checked<T = ()> = Result<T, Failure>;

/// The header that is sent.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, PartialEq)]
#[repr(C)]
struct Header {
    /// In order, from 0 on.
    number: u64,
    /// Where its data is.
    at: u64,
    length: u32,
    /// The order to the server.
    order: u32,
}

/// Orders to the server, after it has pushed its answer.
mod order {
    pub const NOTHING: u32 = 0;
    /// Give the connection up.
    pub const CUT: u32 = 1;
    /// Kill the driver of its node.
    pub const KILL: u32 = 2;
    /// Wait until everything is taken, and end the session.
    pub const FINISH: u32 = 3;
    /// Give the connection up and forget the session.
    pub const FORGET: u32 = 4;
    /// The same, and end the program.
    pub const EXIT: u32 = 5;
}

fn options() -> Options {
    Options::new().kept(KEPT)
}

/// The header with a number, and its data: some have none.
fn numbered(side: u64, number: u64) -> (Header, Vec<u8>) {
    let length = match number % 3 {
        0 => 0,
        _ => 1 + (number * 37) as usize % PLACE,
    };
    let data = (0..length).map(|at| byte(side, number, at)).collect();
    let header = Header {
        number,
        at: (number as usize % PLACES * PLACE) as u64,
        length: length as u32,
        order: order::NOTHING,
    };
    (header, data)
}

fn byte(side: u64, number: u64, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b9) >> (at % 24)) as u8 ^ (side as u8) ^ at as u8
}

/// Checks that a header is the next one, and that its data is there.
fn check(side: u64, next: u64, header: &Header, memory: Option<&View>) -> Checked {
    if header.number > next {
        println!("st-session: {} instead of {next}", header.number);
        return Err(Failure::Lost);
    }
    if header.number < next {
        println!("st-session: {} again instead of {next}", header.number);
        return Err(Failure::Doubled);
    }
    let (_, data) = numbered(side, next);
    let mut found = alloc::vec![0; data.len()];
    let memory = memory.ok_or(Failure::Setup)?;
    let copied = memory.copy_out(header.at as usize, &mut found);
    match copied.is_ok() && found == data && header.length as usize == data.len() {
        true => Ok(()),
        false => {
            println!("st-session: other data with {next}");
            Err(Failure::Data)
        }
    }
}

/// Says which call failed.
fn failed(what: &str) -> impl FnOnce(Error) -> Failure {
    move |error| {
        println!("st-session: {what}: {error}");
        Failure::Session
    }
}

/// Kills the driver of this node; returns when there is another one.
fn kill_driver() -> Checked {
    let before = driver().map_err(|_| Failure::Driver)?;
    process::kill(before, 9).map_err(|_| Failure::Driver)?;
    let begun = Instant::now();
    while !driver().is_ok_and(|pid| pid != before) {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(Failure::Driver);
        }
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn main() -> i32 {
    let word = runtime::env::args().nth(1);
    let result = match word.as_deref() {
        Some("serve") => server::serve(),
        Some("serve-few") => crowd::serve(),
        Some("crowd") => {
            let node = runtime::env::args().nth(2);
            let node = node.and_then(|node| node.parse().ok());
            node.map_or(Err(Failure::Setup), crowd::run)
        }
        Some(node) => node.parse().map_or(Err(Failure::Setup), client::run),
        None => Err(Failure::Setup),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            println!("STEP st-session: FAIL {failure:?}");
            failure as i32
        }
    }
}
