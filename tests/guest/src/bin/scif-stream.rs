//! Streams arrive whole: odd sizes of pieces, slow readers and writers, both directions.
//!
//! `scif-stream [NODE [MIB]]`: the long streams have MIB mebibytes, 16 if not given.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use guest_tests::peer::{self, Peer, Report, Request, SINK, SOURCE};
use guest_tests::{Suite, text};

runtime::main!(main);

/// One stream: its name, bytes, pieces of the sender and of the receiver, and their pauses.
struct Stream {
    name: &'static str,
    bytes: u64,
    send_piece: u32,
    receive_piece: u32,
    receive_delay_ms: u32,
    send_delay_ms: u32,
}

const fn stream(name: &'static str, bytes: u64, send: u32, receive: u32) -> Stream {
    let (send_piece, receive_piece) = (send, receive);
    Stream {
        name,
        bytes,
        send_piece,
        receive_piece,
        receive_delay_ms: 0,
        send_delay_ms: 0,
    }
}

/// Pieces of 0 bytes mean the largest.
const STREAMS: &[Stream] = &[
    stream("one byte", 1, 1, 1),
    stream("tiny pieces", 3_000, 3, 5),
    stream("writer odd, reader large", 300_001, 1_023, 0),
    stream("writer large, reader odd", 300_001, 0, 777),
    stream("around the ring size", 500_009, 4_097, 4_095),
    Stream {
        receive_delay_ms: 20,
        ..stream("slow reader", 120_000, 0, 9_000)
    },
    Stream {
        send_delay_ms: 20,
        ..stream("slow writer", 120_000, 9_000, 0)
    },
];

fn main() -> i32 {
    let mut suite = Suite::new("scif-stream");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    let mebibytes = runtime::env::args()
        .nth(2)
        .and_then(|word| word.parse().ok())
        .unwrap_or(16);
    let long = stream("long", mebibytes << 20, 0, 0);
    for (seed, stream) in STREAMS.iter().chain([&long]).enumerate() {
        let seed = seed as u64;
        suite.check(
            &alloc::format!("to the peer, {}", stream.name),
            there(&peer, stream, seed),
        );
        suite.check(
            &alloc::format!("from the peer, {}", stream.name),
            back(&peer, stream, seed),
        );
    }
    peer.dismiss();
    suite.finish()
}

fn request(stream: &Stream, seed: u64, verb: u32, piece: u32, delay_ms: u32) -> Request {
    Request {
        verb: verb.into(),
        piece: piece.into(),
        delay_ms: delay_ms.into(),
        bytes: stream.bytes.into(),
        seed: seed.into(),
        ..Request::default()
    }
}

fn there(peer: &Peer, stream: &Stream, seed: u64) -> Result<(), String> {
    let order = request(
        stream,
        seed,
        SINK,
        stream.receive_piece,
        stream.receive_delay_ms,
    );
    let own = request(
        stream,
        seed,
        SOURCE,
        stream.send_piece,
        stream.send_delay_ms,
    );
    let endpoint = peer.connect(&order)?;
    whole("sent", peer::source(&endpoint, &own), stream.bytes)?;
    whole("received", Peer::report(&endpoint)?, stream.bytes)
}

fn back(peer: &Peer, stream: &Stream, seed: u64) -> Result<(), String> {
    let order = request(
        stream,
        seed,
        SOURCE,
        stream.send_piece,
        stream.send_delay_ms,
    );
    let own = request(
        stream,
        seed,
        SINK,
        stream.receive_piece,
        stream.receive_delay_ms,
    );
    let endpoint = peer.connect(&order)?;
    whole("received", peer::sink(&endpoint, &own), stream.bytes)?;
    // The sender has closed: nothing but the reset comes after its bytes.
    let end = endpoint.read(&mut [0; 16]);
    if peer::is_reset(&end) {
        Ok(())
    } else {
        Err(text("after the last byte")(end))
    }
}

fn whole(what: &str, report: Report, bytes: u64) -> Result<(), String> {
    if report.is_whole(bytes) {
        Ok(())
    } else {
        Err(alloc::format!("{what}: {report:?}"))
    }
}
