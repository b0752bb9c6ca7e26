//! Load on a node that is about to be lost: streams both ways, transfers, mappings. Each program
//! works until its calls say that the peer is gone, and tells by its status whether they said so in
//! the documented way.

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::peer::{self, Peer, Request, SINK, SOURCE};
use guest_tests::windows::Remote;
use guest_tests::{pattern, text};
use runtime::process::{Child, Command};
use scif::{Errno, Error, Memory, PortId, Protection, RmaFlags};

/// The port whose server is for programs that store.
pub const STORE_PORT: u16 = peer::PORT + 1;
/// The kinds of load, and the ports of their servers.
pub const KINDS: [(&str, u16); 5] = [
    ("send", peer::PORT + 2),
    ("receive", peer::PORT + 3),
    ("write", peer::PORT + 4),
    ("read", peer::PORT + 5),
    ("map", peer::PORT + 6),
];
/// More bytes than can be sent while the test runs.
const ENDLESS: u64 = 1 << 40;
const BYTES: usize = 512 * 1024;
/// The status of a program that got the documented error.
pub const TOLD: i32 = 0;

/// Serves on all ports, for ever.
pub fn serve() -> i32 {
    let others = KINDS.iter().map(|kind| kind.1).chain([STORE_PORT]);
    let started: Result<Vec<Child>, _> = others
        .map(|port| {
            Command::new("scif-peer")
                .arg(alloc::format!("{port}"))
                .spawn()
        })
        .collect();
    let served = match started {
        Ok(_) => peer::serve(peer::PORT).map_err(text("serving")),
        Err(error) => Err(text("starting")(error)),
    };
    match served {
        Ok(()) => 0,
        Err(error) => {
            runtime::println!("STEP scif-loss serve: FAIL {error}");
            1
        }
    }
}

/// One program of the load.
pub fn main(node: u16, kind: &str, seed: &str) -> i32 {
    let port = KINDS.iter().find(|(name, _)| *name == kind);
    let (Some((_, port)), Ok(seed)) = (port, seed.parse()) else {
        return 2;
    };
    let result = run(Peer::known(PortId::new(node, *port)), kind, seed);
    match result {
        Ok(()) => TOLD,
        Err(error) => {
            runtime::println!("STEP scif-loss {kind}: FAIL {error}");
            1
        }
    }
}

fn run(peer: Peer, kind: &str, seed: u64) -> Result<(), String> {
    match kind {
        "send" => stream(&peer, kind, SINK, seed),
        "receive" => stream(&peer, kind, SOURCE, seed),
        "write" => transfers(&peer, kind, true, seed),
        "read" => transfers(&peer, kind, false, seed),
        _ => maps(&peer, kind, seed),
    }
}

/// Whether an error is what a lost peer gives.
fn is_loss(errno: Errno) -> bool {
    matches!(errno, Errno::ConnectionReset | Errno::NoDevice)
}

/// Where a program says that it has begun.
pub fn mark(kind: &str) -> String {
    alloc::format!("/tmp/loss-load-{kind}")
}

fn begun(kind: &str) -> Result<(), String> {
    runtime::fs::write(&mark(kind), b"begun").map_err(text("telling that it has begun"))
}

fn stream(peer: &Peer, kind: &str, verb: u32, seed: u64) -> Result<(), String> {
    let request = |verb: u32| Request {
        verb: verb.into(),
        bytes: ENDLESS.into(),
        seed: seed.into(),
        ..Request::default()
    };
    let endpoint = peer.connect(&request(verb))?;
    begun(kind)?;
    let report = match verb {
        SINK => peer::source(&endpoint, &request(SOURCE)),
        _ => peer::sink(&endpoint, &request(SINK)),
    };
    if report.mismatch.get() != u64::MAX {
        return Err(alloc::format!("wrong bytes: {report:?}"));
    }
    match report.errno.get() as i32 {
        syscall::error::ECONNRESET | syscall::error::ENODEV => Ok(()),
        errno => Err(alloc::format!("ended with error {errno}")),
    }
}

/// Registers own memory too, so that the peer could have it, and copies for ever.
fn transfers(peer: &Peer, kind: &str, writes: bool, seed: u64) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    let both = (Protection::READ | Protection::WRITE).bits();
    let far = remote
        .register(0, BYTES, 0, both, 0)
        .map_err(text("register there"))?;
    remote.fill(0, BYTES, seed)?;
    let memory = Memory::new(BYTES).map_err(text("memory"))?;
    let window = remote
        .endpoint
        .register(&memory)
        .map_err(text("register"))?;
    let mut own = alloc::vec![0; BYTES];
    pattern::fill(seed, 0, &mut own);
    memory.copy_in(0, &own).map_err(text("fill"))?;
    begun(kind)?;
    loop {
        let flags = RmaFlags::SYNC;
        let result = match writes {
            true => remote.endpoint.write_to(window.all(), far, flags),
            false => remote.endpoint.read_from(window.all(), far, flags),
        };
        match result {
            Ok(()) if writes => {}
            // A transfer that was complete has brought what was there.
            Ok(()) => {
                memory.copy_out(0, &mut own).map_err(text("look"))?;
                if let Some(at) = pattern::mismatch(seed, 0, &own) {
                    return Err(alloc::format!("byte {at} of a complete transfer is wrong"));
                }
            }
            Err(Error::Scif(errno)) if is_loss(errno) => return Ok(()),
            Err(error) => return Err(alloc::format!("the transfer ended with {error:?}")),
        }
    }
}

/// Maps, stores, and looks now and then whether the peer is there by a call.
fn maps(peer: &Peer, kind: &str, seed: u64) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    let both = Protection::READ | Protection::WRITE;
    let far = remote
        .register(0, BYTES, 0, both.bits(), 0)
        .map_err(text("register there"))?;
    let mapping = remote.endpoint.map(far, BYTES, both).map_err(text("map"))?;
    let mut value = seed;
    begun(kind)?;
    loop {
        for at in (0..BYTES).step_by(64) {
            value = value.wrapping_add(1);
            mapping.write(at, value).map_err(text("store"))?;
        }
        match remote.endpoint.map(far, 4096, Protection::READ) {
            Ok(_) => {}
            Err(Error::Scif(errno)) if is_loss(errno) => return Ok(()),
            Err(error) => return Err(alloc::format!("a mapping ended with {error:?}")),
        }
    }
}
