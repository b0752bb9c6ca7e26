//! A program that is killed in the middle of a stream: its peer reads what was sent and then gets
//! ECONNRESET; a killed reader resets its writer.
//!
//! `scif-kill [NODE]`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use guest_tests::peer::{self, Peer, Request, SINK, SOURCE};
use guest_tests::{Suite, counter, text};
use runtime::process::Command;
use runtime::time::{Duration, sleep};
use scif::Errno;

runtime::main!(main);

/// More bytes than can be sent while the test runs.
const ENDLESS: u64 = 1 << 40;

fn main() -> i32 {
    let arguments = peer::arguments();
    if let [role, node] = &arguments[..] {
        return victim(role, node);
    }
    let mut suite = Suite::new("scif-kill");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    for delay_ms in [50, 300, 700] {
        let name = alloc::format!("writer killed after {delay_ms} ms");
        suite.check(&name, kill(&peer, "write", delay_ms));
        let name = alloc::format!("reader killed after {delay_ms} ms");
        suite.check(&name, kill(&peer, "read", delay_ms));
    }
    sleep(Duration::from_millis(200));
    suite.equal(
        "waiting requests",
        counter("waiting"),
        Ok(u64::from(arguments.is_empty())),
    );
    peer.dismiss();
    suite.finish()
}

/// The program that is killed: streams for ever.
fn victim(role: &str, node: &str) -> i32 {
    let Ok(node) = node.parse() else {
        return 2;
    };
    let at = scif::PortId::new(node, peer::PORT);
    let (order, own) = match role {
        "write" => (SINK, SOURCE),
        _ => (SOURCE, SINK),
    };
    let request = |verb: u32| Request {
        verb: verb.into(),
        bytes: ENDLESS.into(),
        seed: 9.into(),
        ..Request::default()
    };
    let Ok(endpoint) = scif::connect(at) else {
        return 3;
    };
    let order = request(order);
    if endpoint
        .send(
            zerocopy::IntoBytes::as_bytes(&order),
            scif::SendFlags::BLOCK,
        )
        .is_err()
    {
        return 4;
    }
    match own {
        SOURCE => peer::source(&endpoint, &request(own)),
        _ => peer::sink(&endpoint, &request(own)),
    };
    5
}

fn kill(peer: &Peer, role: &str, delay_ms: u64) -> Result<(), String> {
    // The peer must be there before the victim runs into it.
    peer.last_report()?;
    let node = alloc::format!("{}", peer.at.node());
    let mut child = Command::new("scif-kill")
        .args([role, &node])
        .spawn()
        .map_err(text("starting"))?;
    sleep(Duration::from_millis(delay_ms));
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    if status.signal().is_none() {
        return Err(alloc::format!("it ended by itself: {status:?}"));
    }
    let report = peer.last_report()?;
    let reset = Errno::ConnectionReset.errno() as u32;
    if report.errno.get() != reset || report.mismatch.get() != u64::MAX || report.bytes.get() == 0 {
        return Err(alloc::format!("the peer saw {report:?}"));
    }
    Ok(())
}
