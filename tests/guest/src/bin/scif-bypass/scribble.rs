//! Programs that write nonsense wherever a bypass client may write. They spoil their own
//! connection and nothing else.

use alloc::string::String;
use core::sync::atomic::Ordering;

use client_memory::pages::Pages;
use client_memory::rights::Rights;
use guest_tests::peer::{self, ECHO, Peer, Request};
use guest_tests::{Suite, pair, pattern, text};
use hal::copy::{Choices, Side};
use libredox::Fd;
use runtime::process::Command;
use scif::{Endpoint, PortId, RecvFlags, SendFlags};
use scif_abi::bypass::Part;
use zerocopy::IntoBytes;

/// Programs that scribble, one after the other, and strokes of each.
const VICTIMS: u64 = 12;
const STROKES: u64 = 400;
/// Bytes of a ring that are scribbled on: any ring has this number.
const RING_BYTES: usize = 4096;

pub fn checks(suite: &mut Suite, peer: &Peer) {
    for seed in 0..VICTIMS {
        let name = alloc::format!("others live on beside scribbler {seed}");
        suite.check(&name, beside(peer, seed));
    }
    suite.check("the peer lives on as well", peer.last_report().map(|_| ()));
}

/// A stream within this program while another one scribbles.
fn beside(peer: &Peer, seed: u64) -> Result<(), String> {
    peer.last_report()?;
    let (left, right) = pair().map_err(text("pair"))?;
    left.prepare().map_err(text("prepare"))?;
    right.prepare().map_err(text("prepare"))?;
    let words = [peer.at.node().into(), seed].map(|word: u64| alloc::format!("{word}"));
    let mut child = Command::new("scif-bypass")
        .args(["scribble", &words[0], &words[1]])
        .spawn()
        .map_err(text("starting"))?;
    let mut at = 0;
    let status = loop {
        for _ in 0..20 {
            message(&left, &right, at)?;
            message(&right, &left, at)?;
            at += 3001;
        }
        if let Some(status) = child.try_wait().map_err(text("waiting"))? {
            break status;
        }
        runtime::thread::yield_now();
    };
    if status.success() {
        return Ok(());
    }
    Err(alloc::format!("the scribbler ended with {status:?}"))
}

fn message(from: &Endpoint, to: &Endpoint, at: u64) -> Result<(), String> {
    let (mut there, mut here) = ([0; 3001], [0; 3001]);
    pattern::fill(17, at, &mut there);
    from.send(&there, SendFlags::BLOCK).map_err(text("send"))?;
    to.recv(&mut here, RecvFlags::BLOCK).map_err(text("recv"))?;
    match pattern::mismatch(17, at, &here) {
        None => Ok(()),
        Some(wrong) => Err(alloc::format!("byte {wrong} is wrong")),
    }
}

/// The program that scribbles. Whatever becomes of its connection, it ends with 0.
pub fn victim(node: &str, seed: &str) -> i32 {
    let (Ok(node), Ok(seed)) = (node.parse(), seed.parse()) else {
        return 2;
    };
    match scribble(PortId::new(node, peer::PORT), seed) {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("scif-bypass: {error}");
            3
        }
    }
}

fn scribble(at: PortId, seed: u64) -> Result<(), String> {
    let endpoint = scif::connect(at).map_err(text("connecting"))?;
    let request = Request {
        verb: ECHO.into(),
        message: 64.into(),
        ..Request::default()
    };
    let sent = endpoint.send(request.as_bytes(), SendFlags::BLOCK);
    sent.map_err(text("request"))?;
    let file = libredox::call::dup(endpoint.fd(), b"bypass").map_err(text("bypass"))?;
    let file = Fd::new(file);
    let mut parts = alloc::vec::Vec::new();
    for part in Part::ALL {
        let bytes = part.bytes(RING_BYTES as u32, RING_BYTES as u32);
        let (fd, all) = (file.raw(), Rights::ALL);
        let pages = Pages::map(fd, part.offset(), bytes, all, Side::Own, None);
        parts.push(pages.map_err(text("mapping"))?);
    }
    let mut random = pattern::Random::new(seed);
    for _ in 0..STROKES {
        stroke(&parts, seed, &mut random)?;
        // Whatever the calls say, they come back.
        let _ = endpoint.send(&[1; 64], SendFlags::empty());
        let _ = endpoint.recv(&mut [0; 64], RecvFlags::empty());
        let _ = endpoint.readiness(scif::Readiness::all());
    }
    Ok(())
}

/// Changes something: seeds choose what, so that some change only what is rarely right.
fn stroke(parts: &[Pages], seed: u64, random: &mut pattern::Random) -> Result<(), String> {
    let which = match seed % 6 {
        only @ 0..4 => only as usize,
        _ => (random.up_to(4) - 1) as usize,
    };
    let pages = &parts[which];
    let value = match random.up_to(4) {
        1 => 0,
        2 => u64::MAX,
        3 => random.up_to(RING_BYTES as u64),
        _ => random.up_to(u64::MAX),
    };
    // The words that mean something, or anything.
    match random.up_to(12) {
        1 => pages.u64_at::<0>().store(value, Ordering::SeqCst),
        2 => pages.u64_at::<64>().store(value, Ordering::SeqCst),
        3 => pages.u64_at::<72>().store(value, Ordering::SeqCst),
        4 => pages.u64_at::<128>().store(value, Ordering::SeqCst),
        5 => pages.u64_at::<136>().store(value, Ordering::SeqCst),
        6 => pages.u64_at::<192>().store(value, Ordering::SeqCst),
        7 => pages.u64_at::<256>().store(value, Ordering::SeqCst),
        8 => pages.u64_at::<320>().store(value, Ordering::SeqCst),
        _ => {
            let at = random.up_to(pages.len() as u64 / 8) as usize * 8 - 8;
            let bytes = value.to_le_bytes();
            let put = pages.put(at, bytes.as_slice().into(), Choices::default());
            put.map_err(text("put"))?;
        }
    }
    Ok(())
}
