//! The second process of micd on Redox's kernel: it ends the requests that micd leaves behind when
//! it dies ([`scheme::keeper`]).

use hal::Result;
use libredox::Fd;
use libredox::flag::{F_SETFD, O_CLOEXEC};
use redox_scheme::Socket;
use runtime::process::{self, Command};
use runtime::time::{Duration, sleep};
use runtime::{env, logging};
use scheme::{daemon, keeper};

use client_memory::borrow_thread::pipe;

/// The argument with which micd starts its keeper.
pub const ARGUMENT: &str = "keep-socket";
/// The name under which it is listed.
const NAME: &str = "micd-keeper";
/// Descriptor of the keeper: the pipe that ends with micd.
const DAEMON: usize = 0;
/// Descriptor of the keeper: the scheme's socket.
const SOCKET: usize = 1;

/// The keeper that this micd has, if the kernel makes it necessary. When the value goes, or the
/// process with it, the keeper does its work and ends.
pub struct Keeper {
    _alive: Fd,
}

impl Keeper {
    /// Starts it for this socket. To be called while micd has no memory that devices or peers use:
    /// starting a process may copy the memory.
    pub fn start(socket: &Socket) -> Option<Self> {
        if hal::kernel::ends_abandoned_requests() {
            return None;
        }
        let report =
            |error| log::warn!("nobody will end the requests that wait if micd dies: {error}");
        Self::spawn(socket).map_err(report).ok()
    }

    fn spawn(socket: &Socket) -> Result<Self> {
        let (end, alive) = pipe(0)?;
        // The pipe shall end with this process.
        libredox::call::fcntl(alive.raw(), F_SETFD as usize, O_CLOEXEC as usize)?;
        let program = env::args().next().unwrap_or_default();
        let mut command = Command::new(&program);
        command
            .arg(ARGUMENT)
            .stdin(&end)
            .stdout(socket.inner())
            .spawn()?;
        Ok(Self { _alive: alive })
    }
}

/// The keeper's program; returns its exit status.
pub fn run() -> i32 {
    logging::init(NAME);
    let named = process::rename_own(NAME).and_then(|()| daemon::seal());
    if let Err(error) = named {
        log::warn!("running under the name and with the names of micd: {error}");
    }
    let pause = || sleep(Duration::from_millis(keeper::PAUSE_MS));
    match keeper::keep(&Fd::new(DAEMON), Fd::new(SOCKET), pause) {
        Ok(ended) => {
            log::info!("micd has gone; requests that were ended: {ended}");
            0
        }
        Err(error) => {
            log::error!("requests to a micd that has gone may wait for ever: {error}");
            1
        }
    }
}
