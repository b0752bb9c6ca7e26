//! The second process of micd on Redox's kernel. It ends the requests that micd leaves behind when
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
/// The name of the keeper in lists of processes.
const NAME: &str = "micd-keeper";
/// The keeper's descriptor for the pipe that ends with micd.
const DAEMON: usize = 0;
/// The keeper's descriptor for the scheme's socket.
const SOCKET: usize = 1;

/// The keeper of this micd, on kernels that make one necessary. When the value is dropped or the
/// process ends, the keeper does its work and exits.
pub struct Keeper {
    _alive: Fd,
}

impl Keeper {
    /// Starts the keeper for this socket. Call it while micd has no memory that devices or peers
    /// use: starting a process may copy memory.
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
        // The pipe must end with this process.
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

/// The keeper's program. Returns its exit status.
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
