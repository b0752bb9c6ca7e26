//! The server: does what its client says, one connection after the other.

use alloc::vec;

use runtime::process::exit;
use runtime::time::{Duration, sleep};
use runtime::{println, thread};
use st::{
    Arrived, Connection, Deadline, Header, Listener, Local, Memory, Receiver, Region, Result,
    Sender, Waiting,
};

use super::{BYTES, COUNTER, Message, byte, kind, options, say};

/// Exit statuses.
const FAILED: i32 = 2;
/// A victim's death.
const DEATH: i32 = 9;

/// Serves until a client says that it was the last; a victim serves one.
pub fn serve(port: u16, is_victim: bool) -> i32 {
    let listener = match Listener::with_options(&options().port(port)) {
        Ok(listener) => listener,
        Err(error) => {
            println!("st-test: cannot listen: {error}");
            return FAILED;
        }
    };
    loop {
        let result = listener.accept().and_then(|link| talk(&link));
        match result {
            Ok(true) => return 0,
            Ok(false) => {}
            // A client that went, or had other options.
            Err(error) => println!("st-test: a client is done: {error}"),
        }
        if is_victim {
            return 0;
        }
    }
}

/// Serves one connection; whether it was the last one.
fn talk(link: &Connection) -> Result<bool> {
    let (mut tx, mut rx) = link.channel(0)?.split();
    let mut region: Option<Region> = None;
    loop {
        let message: Message = rx.pull()?;
        let mut answer = message;
        match message.kind {
            kind::ECHO => {
                // As the client does, so that none has to be woken.
                rx.set_waiting(Waiting::Poll);
                for _ in 0..message.number {
                    let header: [u64; 4] = rx.pull()?;
                    tx.push(&header)?;
                }
                rx.set_waiting(Waiting::Adaptive);
                continue;
            }
            kind::MAP => region = Some(tx.map(Memory::new(BYTES)?)?),
            kind::UNMAP => drop(region.take()),
            kind::FILL => {
                if let Some(region) = &region {
                    let bytes = super::pattern(message.seed, message.length as usize);
                    region.copy_in(message.at as usize, &bytes)?;
                }
            }
            kind::CHECK => answer.number = u64::from(is_right(region.as_ref(), &message)?),
            kind::CHECK_EACH => {
                answer.number = 0;
                for _ in 0..message.number {
                    let next: Message = rx.pull()?;
                    answer.number += u64::from(is_right(region.as_ref(), &next)?);
                    tx.push(&next)?;
                }
            }
            kind::ADD => {
                for _ in 0..message.number {
                    if let Some(region) = &region {
                        region.fetch_add_u64(COUNTER, 1)?;
                    }
                }
            }
            kind::DRAIN => {
                let (_tx, mut rx) = link.channel(message.at as u32)?.split();
                answer.number = 0;
                for number in 0..message.number {
                    answer.number += u64::from(rx.pull::<u64>()? == number);
                }
            }
            kind::CROSS => {
                let (mut tx, mut rx) = link.channel(message.at as u32)?.split();
                answer.number = cross(&mut tx, &mut rx, message.number)?;
            }
            kind::SLEEP => sleep(Duration::from_millis(message.number)),
            kind::STORM => {
                say(&mut tx, answer)?;
                answer.number = storm(region.take(), message.number)?;
            }
            kind::RAW => {
                say(&mut tx, answer)?;
                let (mut tx, mut rx) = link.channel(message.at as u32)?.split();
                for _ in 0..message.number {
                    raw_back(&mut tx, &mut rx)?;
                }
                continue;
            }
            kind::DIE => die(link, &mut tx),
            kind::DIE_QUIETLY => exit(DEATH),
            kind::CLOSE => return Ok(false),
            _ => return Ok(true),
        }
        say(&mut tx, answer)?;
    }
}

/// Whether the bytes are the pattern of the message's seed.
fn is_right(region: Option<&Region>, message: &Message) -> Result<bool> {
    let mut bytes = vec![0; message.length as usize];
    let Some(region) = region else {
        return Ok(false);
    };
    region.copy_out(message.at as usize, &mut bytes)?;
    let mut each = bytes.iter().enumerate();
    Ok(each.all(|(at, found)| *found == byte(message.seed, at)))
}

/// Pushes numbers, then pulls as many; how many came in order.
pub fn cross(tx: &mut Sender, rx: &mut Receiver, count: u64) -> Result<u64> {
    for number in 0..count {
        tx.push(&number)?;
    }
    let mut right = 0;
    for number in 0..count {
        right += u64::from(rx.pull::<u64>()? == number);
    }
    Ok(right)
}

/// Takes memory back while the client writes it; 1 if it does not change any more after that.
fn storm(region: Option<Region>, milliseconds: u64) -> Result<u64> {
    let Some(region) = region else {
        return Ok(0);
    };
    let (mut before, mut after) = (vec![0; BYTES], vec![0; BYTES]);
    // The client may be slow: its writing begins when there is something.
    while before.iter().all(|byte| *byte == 0) {
        region.copy_out(0, &mut before)?;
    }
    let memory = region.unmap()?;
    memory.copy_out(0, &mut before)?;
    // A put that goes on in spite of the unmap has this time to show itself.
    sleep(Duration::from_millis(milliseconds));
    memory.copy_out(0, &mut after)?;
    Ok(u64::from(before == after))
}

/// Sends a descriptor of level 0 back, with its own ports and key.
fn raw_back(tx: &mut Sender, rx: &mut Receiver) -> Result<()> {
    let Arrived {
        header, payload, ..
    } = rx.raw(Deadline::Never)?;
    let back = Header {
        destination_port: 0,
        source_port: 0,
        destination_key: 0,
        ..header
    };
    tx.raw(&back, payload.as_ref(), Local::Nothing, Deadline::Never)
}

/// Pushes and puts without end, and dies some time later.
fn die(link: &Connection, tx: &mut Sender) -> ! {
    let dead = thread::spawn(|| {
        sleep(Duration::from_millis(150));
        exit(DEATH)
    });
    let mut run = || -> Result<()> {
        let (mut other, _rx) = link.channel(1)?.split();
        let remote = tx.remote(Deadline::Never)?;
        let data = vec![0x5a; 256 * 1024];
        for number in 0_u64.. {
            other.push(&number)?;
            tx.put(&data, remote.at(0)?)?;
        }
        Ok(())
    };
    let _ = run();
    let _ = dead.map(thread::JoinHandle::join);
    exit(DEATH)
}
