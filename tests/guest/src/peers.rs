//! The other end of test programs with many connections at once: as [`peer`](crate::peer), with a
//! thread for each connection.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use runtime::sync::Mutex;
use runtime::thread;
use scif::{Endpoint, Errno, Error, Listener, PortId, RecvFlags, SendFlags};
use zerocopy::{FromBytes, IntoBytes};

use crate::peer::{self, ECHO, QUIT, REPORT, Report, Request, SINK, SOURCE, WINDOWS};
use crate::{settled, windows};

/// The port `scif-peers` listens on.
pub const PORT: u16 = 3100;

/// The number of newest reports that are kept: a comparison of pages must not see old ones.
const REPORTS: usize = 64;

/// Reports by the seed of their stream.
#[derive(Default)]
struct Reports(Mutex<VecDeque<(u64, Report)>>);

impl Reports {
    fn keep(&self, seed: u64, report: Report) {
        let mut list = self.0.lock();
        list.retain(|(known, _)| *known != seed);
        if list.len() == REPORTS {
            list.pop_front();
        }
        list.push_back((seed, report));
    }

    fn get(&self, seed: u64) -> Option<Report> {
        let list = self.0.lock();
        let found = list.iter().find(|(known, _)| *known == seed);
        found.map(|(_, report)| *report)
    }
}

/// Serves until a connection says [`QUIT`]. The newest reports are kept.
///
/// # Errors
/// Those of listening and accepting.
pub fn serve() -> scif::Result<()> {
    let reports = Arc::<Reports>::default();
    let listener = Listener::bind(PORT)?;
    let ended = Arc::new(AtomicBool::new(false));
    let own = PortId::new(scif::nodes()?.own, PORT);
    while !ended.load(Ordering::Relaxed) {
        let endpoint = match listener.accept() {
            Ok((endpoint, _)) => endpoint,
            // The connector was lost in between, with its node or its driver.
            Err(Error::Scif(Errno::NoDevice)) => continue,
            Err(error) => return Err(error),
        };
        let (reports, ended) = (Arc::clone(&reports), Arc::clone(&ended));
        let started = thread::spawn(move || {
            if serve_one(&endpoint, &reports) {
                ended.store(true, Ordering::Relaxed);
                // The accept above waits for a connection.
                let _ = scif::connect(own);
            }
        });
        if let Err(error) = started {
            runtime::eprintln!("scif-peers: a connection is dropped, no thread: {error}");
        }
    }
    Ok(())
}

/// Serves one connection to its end; whether it said [`QUIT`].
fn serve_one(endpoint: &Endpoint, reports: &Reports) -> bool {
    let mut bytes = [0; size_of::<Request>()];
    if endpoint.recv(&mut bytes, RecvFlags::BLOCK) != Ok(bytes.len()) {
        return false;
    }
    let Ok(request) = Request::read_from_bytes(&bytes) else {
        return false;
    };
    let seed = request.seed.get();
    match request.verb.get() {
        ECHO => peer::echo(endpoint, &request),
        SINK => {
            let report = peer::sink(endpoint, &request);
            reports.keep(seed, report);
            // The other end may have gone.
            let _ = endpoint.send(report.as_bytes(), SendFlags::BLOCK);
        }
        SOURCE => {
            peer::source(endpoint, &request);
        }
        REPORT => {
            settled(|| reports.get(seed).is_some(), &true);
            if let Some(report) = reports.get(seed) {
                let _ = endpoint.send(report.as_bytes(), SendFlags::BLOCK);
            }
        }
        WINDOWS => windows::serve(endpoint, &mut None),
        QUIT => return true,
        other => runtime::eprintln!("scif-peers: no request has the number {other}"),
    }
    false
}
