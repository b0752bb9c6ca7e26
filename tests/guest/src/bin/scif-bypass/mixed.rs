//! One stream, moved in all ways at once: by calls of this program, on rings and on the file, and
//! by calls of another program that has the same file.

use alloc::string::String;
use alloc::vec;

use guest_tests::peer::{Peer, Request, SINK, SOURCE};
use guest_tests::{Suite, pattern, text};
use libredox::Fd;
use runtime::process::Command;
use scif::{Endpoint, RecvFlags, SendFlags};

/// Bytes of a stream.
const BYTES: u64 = 3_000_000;
/// Largest piece.
const PIECE: u64 = 9_000;
/// Bytes another program moves at a time, and how many times.
const CHILD_BYTES: u64 = 100_003;
const CHILDREN: u64 = 4;
/// Number of the stream, and of the descriptor in the other program.
const SEED: u64 = 21;
const FD: usize = 9;

pub fn checks(suite: &mut Suite, peer: &Peer) {
    suite.check("sent by all means", sent(peer));
    suite.check("received by all means", received(peer));
}

fn connect(peer: &Peer, verb: u32, piece: u32) -> Result<Endpoint, String> {
    let request = Request {
        verb: verb.into(),
        piece: piece.into(),
        bytes: BYTES.into(),
        seed: SEED.into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request)?;
    endpoint.prepare().map_err(text("prepare"))?;
    Ok(endpoint)
}

/// Lets another program with the same file move a part of the stream.
fn let_child(endpoint: &Endpoint, what: &str, from: u64) -> Result<(), String> {
    let from = alloc::format!("{from}");
    let bytes = alloc::format!("{CHILD_BYTES}");
    let number = alloc::format!("{FD}");
    let mut child = Command::new("scif-bypass")
        .args([what, &number, &from, &bytes])
        .fd(FD, endpoint.fd())
        .spawn()
        .map_err(text("starting"))?;
    let status = child.wait().map_err(text("waiting"))?;
    if status.success() {
        return Ok(());
    }
    Err(alloc::format!("the other program ended with {status:?}"))
}

/// That program.
pub fn child(fd: &str, from: &str, bytes: &str, sends: bool) -> i32 {
    let (Ok(fd), Ok(from), Ok(bytes)) = (fd.parse(), from.parse::<u64>(), bytes.parse::<usize>())
    else {
        return 2;
    };
    let endpoint = Endpoint::from_file(Fd::new(fd));
    if endpoint.prepare().is_err() {
        return 3;
    }
    let mut buffer = vec![0; bytes];
    if sends {
        pattern::fill(SEED, from, &mut buffer);
        let sent = endpoint.send(&buffer, SendFlags::BLOCK);
        return if sent == Ok(bytes) { 0 } else { 4 };
    }
    if endpoint.recv(&mut buffer, RecvFlags::BLOCK) != Ok(bytes) {
        return 5;
    }
    match pattern::mismatch(SEED, from, &buffer) {
        None => 0,
        Some(_) => 6,
    }
}

/// Whether it is the other program's turn: a few times, spread over the stream.
fn is_child_s_turn(done: u64, turns: &mut u64) -> bool {
    let its_turn = *turns < CHILDREN
        && done > (*turns + 1) * (BYTES / (CHILDREN + 2))
        && BYTES - done > CHILD_BYTES;
    *turns += u64::from(its_turn);
    its_turn
}

fn sent(peer: &Peer) -> Result<(), String> {
    let endpoint = connect(peer, SINK, 5_000)?;
    let mut random = pattern::Random::new(3);
    let mut buffer = vec![0; PIECE as usize];
    let (mut done, mut turns) = (0, 0);
    while done < BYTES {
        if is_child_s_turn(done, &mut turns) {
            let_child(&endpoint, "send", done)?;
            done += CHILD_BYTES;
            continue;
        }
        let piece = &mut buffer[..random.up_to(PIECE).min(BYTES - done) as usize];
        pattern::fill(SEED, done, piece);
        let count = match random.up_to(3) {
            1 => endpoint
                .send(piece, SendFlags::BLOCK)
                .map_err(text("send"))?,
            2 => endpoint
                .send(piece, SendFlags::empty())
                .map_err(text("send"))?,
            _ => libredox::call::write(endpoint.fd(), piece).map_err(text("write"))?,
        };
        done += count as u64;
        if count == 0 {
            runtime::thread::yield_now();
        }
    }
    let report = Peer::report(&endpoint)?;
    if !report.is_whole(BYTES) {
        return Err(alloc::format!("the peer got {report:?}"));
    }
    Ok(())
}

fn received(peer: &Peer) -> Result<(), String> {
    let endpoint = connect(peer, SOURCE, 5_000)?;
    let mut random = pattern::Random::new(4);
    let mut buffer = vec![0; PIECE as usize];
    let (mut done, mut turns) = (0, 0);
    while done < BYTES {
        if is_child_s_turn(done, &mut turns) {
            let_child(&endpoint, "receive", done)?;
            done += CHILD_BYTES;
            continue;
        }
        let piece = &mut buffer[..random.up_to(PIECE).min(BYTES - done) as usize];
        let count = match random.up_to(4) {
            1 => endpoint
                .recv(piece, RecvFlags::BLOCK)
                .map_err(text("recv"))?,
            2 => endpoint
                .recv(piece, RecvFlags::empty())
                .map_err(text("recv"))?,
            3 => endpoint.read(piece).map_err(text("read"))?,
            _ => libredox::call::read(endpoint.fd(), piece).map_err(text("read"))?,
        };
        if let Some(wrong) = pattern::mismatch(SEED, done, &piece[..count]) {
            return Err(alloc::format!("byte {wrong} is wrong"));
        }
        done += count as u64;
        if count == 0 {
            runtime::thread::yield_now();
        }
    }
    Ok(())
}
