//! TCP between the guests: round trips and streams, and the server that answers.

use crate::Effort;
use crate::memory;
use crate::protocol::{self, Job, Server};
use crate::rdma;
use crate::report::{self, Unit};
use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The MTUs: the usual one, and the largest that a card accepts.
const MTUS: [u64; 2] = [1500, 65535];
/// Bytes in a message of the round trips.
const ROUND_TRIP_BYTES: usize = 64;
/// Bytes in the messages of the streams.
const STREAM_BYTES: [usize; 9] = [
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
/// The sizes that ours are compared with.
const COMPARED_BYTES: [usize; 3] = [64 << 10, 1 << 20, 4 << 20];
/// Most bytes that the server receives at a time.
const SINK_BYTES: usize = 256 << 10;
/// First guess of a stream's rate in bytes per millisecond.
const GUESS: u64 = 50_000;

/// Measures with both MTUs.
pub fn measure(server: &mut Server, effort: Effort) -> Result<()> {
    for mtu in MTUS {
        server.set_mtu(mtu)?;
        report::progress(&format!("TCP, MTU {mtu}: round trips"));
        let mut all = Vec::new();
        for repetition in 0..=effort.repetitions {
            let times = round_trips(server, effort.round_trips)?;
            if repetition > 0 {
                all.push(times);
            }
        }
        let test = format!("tcp{mtu}_rtt");
        report::result(&test, ROUND_TRIP_BYTES as u64, Unit::Nanoseconds, &all);
        report::progress(&format!("TCP, MTU {mtu}: connecting and closing"));
        let mut all = Vec::new();
        for repetition in 0..=effort.repetitions {
            let times = connections(server, effort.connections)?;
            if repetition > 0 {
                all.push(times);
            }
        }
        let test = format!("tcp{mtu}_connect");
        report::result(&test, 1, Unit::Nanoseconds, &all);
        let sizes = if effort.all {
            &STREAM_BYTES[..]
        } else {
            &COMPARED_BYTES
        };
        for &bytes in sizes {
            report::progress(&format!("TCP, MTU {mtu}: stream of {bytes}-byte messages"));
            let rates = streams(server, bytes, effort)?;
            let test = format!("tcp{mtu}_stream");
            report::result(&test, bytes as u64, Unit::BytesPerSecond, &rates);
        }
    }
    Ok(())
}

/// Returns the time of each round trip in nanoseconds.
fn round_trips(server: &mut Server, count: u64) -> Result<Vec<f64>> {
    let bytes = ROUND_TRIP_BYTES as u64;
    server.start(Job::Echo { bytes, count })?;
    let mut message = [7; ROUND_TRIP_BYTES];
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        server.stream.write_all(&message)?;
        server.stream.read_exact(&mut message)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

/// Returns the time of each connection, made and closed, in nanoseconds.
fn connections(server: &mut Server, count: u64) -> Result<Vec<f64>> {
    server.start(Job::Accept { count })?;
    server.wait()?;
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        server.connect_and_close()?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    // Wait until the last connection is accepted, too.
    server.wait()?;
    Ok(times)
}

/// Returns the rate of each repetition. The length of a repetition follows from the rate of the
/// one before.
fn streams(server: &mut Server, bytes: usize, effort: Effort) -> Result<Vec<Vec<f64>>> {
    let message = vec![7; bytes];
    let mut per_ms = GUESS;
    let mut rates = Vec::new();
    // The first two repetitions only find the length, because the guess can be far off.
    for repetition in 0..effort.repetitions + 2 {
        let count = (per_ms * effort.stream_ms / bytes as u64).max(1);
        let total = count * bytes as u64;
        let time = stream(server, &message, count)?;
        let rate = report::rate(total, time);
        per_ms = (rate / 1e3) as u64;
        if repetition >= 2 {
            rates.push(vec![rate]);
        }
    }
    Ok(rates)
}

fn stream(server: &mut Server, message: &[u8], count: u64) -> Result<Duration> {
    let bytes = count * message.len() as u64;
    server.start(Job::Sink { bytes })?;
    let start = Instant::now();
    for _ in 0..count {
        server.stream.write_all(message)?;
    }
    server.wait()?;
    Ok(start.elapsed())
}

/// Answers until a client ends the measurement.
pub fn serve() -> Result<()> {
    let listener = protocol::listen()?;
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        if attend(&mut stream)? {
            return Ok(());
        }
    }
}

/// Does the jobs of one connection. Returns true at the end of the measurement.
fn attend(stream: &mut TcpStream) -> Result<bool> {
    loop {
        match Job::receive(stream)? {
            Job::Echo { bytes, count } => {
                let mut message = vec![0; bytes as usize];
                for _ in 0..count {
                    stream.read_exact(&mut message)?;
                    stream.write_all(&message)?;
                }
            }
            Job::Sink { bytes } => {
                let mut piece = vec![0; SINK_BYTES];
                let mut left = bytes;
                while left > 0 {
                    let most = left.min(SINK_BYTES as u64) as usize;
                    let taken = stream.read(&mut piece[..most])?;
                    if taken == 0 {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                    left -= taken as u64;
                }
                stream.write_all(&[1])?;
            }
            Job::Mtu { bytes } => {
                protocol::mtu(bytes)?;
                stream.write_all(&[1])?;
                // The client connects again, so that its connection uses the new MTU.
                return Ok(false);
            }
            Job::Words { count } => {
                let memory = memory::shared()?;
                stream.write_all(&[1])?;
                memory::answer(memory, count);
            }
            Job::Verbs {
                program,
                bytes,
                count,
            } => {
                rdma::serve(program, bytes, count, || stream.write_all(&[1]))?;
                stream.write_all(&[1])?;
            }
            Job::Accept { count } => {
                let listener = protocol::listen_second()?;
                stream.write_all(&[1])?;
                for _ in 0..count {
                    drop(listener.accept()?);
                }
                stream.write_all(&[1])?;
            }
            Job::End => return Ok(true),
        }
    }
}
