//! The control connections of the soak: every program keeps one with node 0 and ends when it
//! closes.
//!
//! ```text
//! node 0   STOP ->        start nothing any more, end what runs
//!             <- STOPPED  nothing runs here
//!          LEAVE ->       nothing runs anywhere: close this and look what is left
//! ```

use alloc::vec::Vec;

use guest_tests::connect_patiently;
use runtime::time::{Duration, Instant, sleep};
use scif::{Endpoint, Error, Listener, PortId, RecvFlags, SendFlags};

/// Where node 0 listens.
const PORT: u16 = 4099;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How long the others may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const STOP: u8 = b's';
const STOPPED: u8 = b'd';
const LEAVE: u8 = b'x';

/// Node 0's side.
pub struct Leader {
    listener: Listener,
    followers: Vec<Endpoint>,
}

impl Leader {
    /// Begins to listen.
    pub fn new() -> scif::Result<Self> {
        Ok(Self {
            listener: Listener::bind(PORT)?,
            followers: Vec::new(),
        })
    }

    /// Accepts the clients that have come. Those that have gone, with their nodes, are found out at
    /// the end.
    pub fn turn(&mut self) {
        while let Ok(Some((follower, _))) = self.listener.try_accept() {
            self.followers.push(follower);
        }
    }

    /// Has all others stop; whether they all have, `nodes` of them.
    pub fn stop(&mut self, nodes: usize) -> bool {
        let start = Instant::now();
        let mut stopped = 0;
        // One that is booting right now comes late.
        while stopped < nodes && start.elapsed() < TIME_LIMIT {
            self.turn();
            self.followers.retain(|follower| {
                let said = follower.send(&[STOP], SendFlags::BLOCK).is_ok();
                let mut answer = [0];
                said && follower.recv(&mut answer, RecvFlags::BLOCK) == Ok(1) && answer == [STOPPED]
            });
            stopped = self.followers.len();
            sleep(LOOK);
        }
        stopped == nodes
    }

    /// Lets the others go.
    pub fn dismiss(self) {
        for follower in self.followers {
            let _ = follower.send(&[LEAVE], SendFlags::BLOCK);
        }
    }
}

/// The others' side.
pub struct Follower(Endpoint);

impl Follower {
    /// Joins node 0, which may not listen yet.
    pub fn new() -> scif::Result<Self> {
        let endpoint = connect_patiently(PortId::new(0, PORT))?;
        Ok(Self(endpoint))
    }

    /// Whether node 0 has said to stop, or is gone.
    pub fn must_stop(&self) -> bool {
        let mut word = [0];
        match self.0.recv(&mut word, RecvFlags::empty()) {
            Ok(0) | Err(Error::Scif(scif::Errno::WouldBlock)) => false,
            Ok(_) | Err(_) => true,
        }
    }

    /// Says that nothing runs here any more and waits until nothing runs anywhere. Being asked
    /// once more is answered once more.
    pub fn stopped(self) {
        let mut word = [STOP];
        while word == [STOP] {
            if self.0.send(&[STOPPED], SendFlags::BLOCK).is_err() {
                return;
            }
            word = [LEAVE];
            let _ = self.0.recv(&mut word, RecvFlags::BLOCK);
        }
    }
}
