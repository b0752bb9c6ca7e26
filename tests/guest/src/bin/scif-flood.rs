//! A client that floods the driver does not starve another one.
//!
//! `scif-flood NODE`, with `scif-peers` on that node. One program asks for echoes, one at a time,
//! first alone and then beside others that ask for everything at once by many threads. What is
//! judged is the driver's own count of how many requests of others it served while a program's only
//! one waited for its turn: no speed of any program or node changes that. The times, and how many
//! requests of others the driver took for each of the program's own, are printed for people.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use guest_tests::peer::{self, ECHO, Peer, Request, SINK};
use guest_tests::windows::Remote;
use guest_tests::{Suite, connect_patiently, counter, peers, settled, text};
use libredox::Fd;
use libredox::flag::O_RDWR;
use runtime::process::{Child, Command};
use runtime::thread;
use runtime::time::Instant;
use scif::{NodeId, PortId, Protection, Readiness, RmaFlags, raw};
use zerocopy::IntoBytes;

runtime::main!(main);

/// Stretches of one measurement, echoes of each, and requests to the driver for each of those.
const STRETCHES: u64 = 11;
const ECHOES: u64 = 30;
const REQUESTS_PER_ECHO: u64 = 2;
/// Bytes of an echo.
const MESSAGE: usize = 64;
/// The kinds of floods.
const KINDS: [&str; 4] = ["polls", "connects", "sends", "copies"];
/// Requests of a program that the driver serves in a round (`scheme`).
const PER_ROUND: u64 = 8;
/// Bytes of the sends and copies.
const LARGE: usize = 256 * 1024;

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [node] => match node.parse() {
            Ok(node) => test(node),
            Err(_) => 2,
        },
        [kind, node] => match node.parse() {
            Ok(node) => flood(kind, node),
            Err(_) => 2,
        },
        _ => 2,
    }
}

/// Threads of a flooding program: many rounds of requests. Those that need a connection each are
/// fewer.
fn threads_of(kind: &str) -> u64 {
    match kind {
        "polls" | "connects" => 12 * PER_ROUND,
        _ => 3 * PER_ROUND,
    }
}

/// A program that floods until it is killed.
fn flood(kind: &str, node: NodeId) -> i32 {
    let at = PortId::new(node, peers::PORT);
    let name = String::from(kind);
    // All threads poll one connection.
    let endpoint = match kind {
        "polls" => connect_patiently(at).ok(),
        _ => None,
    };
    let shared = endpoint.as_ref().map(|endpoint| endpoint.fd());
    for _ in 1..threads_of(kind) {
        let name = name.clone();
        if thread::spawn(move || flood_by(&name, at, shared)).is_err() {
            return 3;
        }
    }
    if let Err(error) = flood_by(kind, at, shared) {
        runtime::println!("scif-flood: {kind}: {error}");
    }
    1
}

/// The work of one thread, for ever unless it fails; `shared` is the connection that is polled.
fn flood_by(kind: &str, at: PortId, shared: Option<usize>) -> Result<(), String> {
    match kind {
        "polls" => {
            let endpoint = shared.ok_or("no connection")?;
            loop {
                // By the driver, not by the mapped rings.
                let ready = raw::readiness(endpoint, Readiness::IN.bits());
                ready.map_err(text("poll"))?;
            }
        }
        "connects" => loop {
            // No endpoint listens there.
            let _ = scif::connect(PortId::new(at.node(), 4999));
        },
        "sends" => {
            let path = alloc::format!("/scheme/scif/{}/{}", at.node(), at.port());
            let file = Fd::open(&path, O_RDWR, 0).map_err(text("open"))?;
            let request = Request {
                verb: SINK.into(),
                bytes: (1 << 40).into(),
                ..Request::default()
            };
            file.write(request.as_bytes()).map_err(text("request"))?;
            let bytes = vec![0; LARGE];
            loop {
                file.write(&bytes).map_err(text("write"))?;
            }
        }
        _ => {
            let remote = Remote::new(&Peer::known(at), LARGE)?;
            let offset = remote.register(0, LARGE, 0, Protection::all().bits(), 0);
            let offset = offset.map_err(text("window"))?;
            let bytes = vec![0; LARGE];
            let epd = remote.endpoint.fd();
            loop {
                let copied = raw::vwriteto(epd, &bytes[..], offset, RmaFlags::SYNC.bits());
                copied.map_err(text("vwriteto"))?;
            }
        }
    }
}

/// The result of a measurement.
struct Measured {
    /// Of the whole, for one echo.
    nanoseconds: u64,
    /// Requests of others that the driver took for one of the innocent's, in the middle one of some
    /// stretches, as the other node may not get to run for a while.
    others: u64,
}

/// The innocent's echoes, through the driver.
fn echoes(file: &Fd) -> Result<Measured, String> {
    const OWN: u64 = ECHOES * REQUESTS_PER_ECHO;
    let start = Instant::now();
    let mut others = Vec::new();
    for _ in 0..STRETCHES {
        let before = counter("requests")?;
        (0..ECHOES).try_for_each(|_| echo(file))?;
        let requests = counter("requests")? - before;
        others.push(requests.saturating_sub(OWN) / OWN);
    }
    others.sort_unstable();
    Ok(Measured {
        nanoseconds: start.elapsed().as_nanos() as u64 / (STRETCHES * ECHOES),
        others: others[others.len() / 2],
    })
}

fn echo(file: &Fd) -> Result<(), String> {
    let mut bytes = [7; MESSAGE];
    file.write(&bytes).map_err(text("write"))?;
    let mut come = 0;
    while come < MESSAGE {
        come += file.read(&mut bytes[come..]).map_err(text("read"))?;
    }
    Ok(())
}

fn start(kind: &str, node: NodeId) -> Result<Child, String> {
    let mut command = Command::new("scif-flood");
    command.args([kind, &alloc::format!("{node}")]);
    command.spawn().map_err(text("starting"))
}

fn measure(suite: &mut Suite, node: NodeId) -> Result<(), String> {
    let at = PortId::new(node, peers::PORT);
    drop(connect_patiently(at).map_err(text("connecting"))?);
    let path = alloc::format!("/scheme/scif/{node}/{}", peers::PORT);
    let file = Fd::open(&path, O_RDWR, 0).map_err(text("open"))?;
    let request = Request {
        verb: ECHO.into(),
        message: (MESSAGE as u32).into(),
        ..Request::default()
    };
    file.write(request.as_bytes()).map_err(text("request"))?;
    echoes(&file)?;
    let idle = echoes(&file)?;
    runtime::println!("scif-flood: alone {} ns for an echo", idle.nanoseconds);
    let kinds = KINDS.iter().map(|kind| vec![*kind]);
    for kinds in kinds.chain([KINDS.to_vec()]) {
        let name = kinds.join("+");
        let mut floods = Vec::new();
        for kind in &kinds {
            floods.push(start(kind, node)?);
        }
        // It floods once the driver has taken much more than the innocent alone would cause.
        let taken = counter("requests")?;
        let flows = settled(
            || counter("requests").is_ok_and(|now| now > taken + 1000),
            &true,
        );
        let found = echoes(&file);
        for flood in &mut floods {
            flood.kill().map_err(text("killing"))?;
            flood.wait().map_err(text("waiting"))?;
        }
        let found = found?;
        suite.holds(&alloc::format!("{name} flow"), flows);
        let hundredths = found.nanoseconds * 100 / idle.nanoseconds.max(1);
        runtime::println!(
            "scif-flood: {name}: {} ns for an echo, {}.{:02} times as long; \
             {} requests of others for each of its own",
            found.nanoseconds,
            hundredths / 100,
            hundredths % 100,
            found.others
        );
        // Each round serves some requests of every program, and the innocent's with them. It is not
        // always first.
        let first = counter("others_first")?;
        let most = PER_ROUND * kinds.len() as u64;
        let name_of_step = alloc::format!("{name} leave the innocent its turns");
        let judged = if (1..=most).contains(&first) {
            Ok(())
        } else {
            Err(alloc::format!(
                "{first} requests of others first, not 1 to {most}"
            ))
        };
        suite.check(&name_of_step, judged);
        let gone = settled(|| counter("connections"), &Ok(1));
        suite.equal(&alloc::format!("{name} have gone"), gone, Ok(1));
    }
    Ok(())
}

fn test(node: NodeId) -> i32 {
    let mut suite = Suite::new("scif-flood");
    let result = measure(&mut suite, node);
    suite.check("measured", result);
    suite.finish()
}
