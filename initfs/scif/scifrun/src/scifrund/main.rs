//! `scifrund`: runs programs at the request of root on other nodes (`scifrun`). A start script
//! starts it on each node. For each connection it starts a process of its own, so that no run
//! shares a process with another.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod pump;
#[cfg(target_os = "redox")]
mod session;

#[cfg(target_os = "redox")]
mod server {
    use alloc::vec::Vec;
    use core::time::Duration;

    use hal::event::Queue;
    use runtime::process::{self, Command};
    use runtime::{env, eprintln};
    use scheme::daemon::{self, NOTIFY_VARIABLE};
    use scif::{Endpoint, Listener, PortId};
    use scifrun::connection::Connection;
    use scifrun::protocol::{Kind, PORT, Refusal};
    use syscall::error::{EACCES, EAGAIN, Error};
    use syscall::flag::EventFlags;

    use crate::session;

    /// Pause before the next attempt to accept a connection after a shortage.
    const PAUSE: Duration = Duration::from_millis(100);
    /// Most programs that run at a time, for all nodes together.
    const MAX_SESSIONS: usize = 64;
    /// The argument by which it starts itself for a connection, and the connection's descriptor
    /// there.
    const SESSION: &str = "--session";
    const SESSION_FD: usize = 3;

    /// Runs the daemon, or the session of a connection.
    pub fn main() -> i32 {
        let arguments: Vec<_> = env::args().skip(1).collect();
        match arguments.first().map(|word| word.as_str()) {
            None => serve(),
            Some(SESSION) => session::main(SESSION_FD),
            Some(_) => {
                let purpose = "runs programs for other nodes; see scifrun --help";
                env::answer_people("", purpose, 0).unwrap_or(2)
            }
        }
    }

    fn serve() -> i32 {
        let listener = match Listener::bind(PORT) {
            Ok(listener) => listener,
            Err(error) => {
                eprintln!("ERROR scifrund: cannot listen on port {PORT}: {error}");
                return 1;
            }
        };
        if let Err(error) = daemon::notify_ready(env::var(NOTIFY_VARIABLE).as_deref()) {
            eprintln!("ERROR scifrund: cannot say that it is ready: {error}");
        }
        if let Some(name) = tools::host::name() {
            env::set_var("HOSTNAME", &name);
        }
        match accept(&listener) {
            Ok(()) => 0,
            Err(error) => {
                // The driver is gone; init restarts both.
                eprintln!("INFO scifrund: accepting connections failed: {error}");
                1
            }
        }
    }

    /// Serves connections until the driver fails. It waits in an event queue, since the driver
    /// limits the number of requests that wait in it.
    fn accept(listener: &Listener) -> scif::Result<()> {
        let mut queue = Queue::new()?;
        queue.subscribe(listener.fd(), EventFlags::EVENT_READ, ())?;
        let mut ready = Vec::new();
        let mut sessions = 0;
        loop {
            let mut sleep = None;
            loop {
                let (endpoint, peer) = match listener.try_accept() {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    Err(error) if error.is_shortage() => {
                        // More connections may wait behind this one, and no event will report
                        // them.
                        sleep = Some(PAUSE);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                while let Ok(Some(_)) = process::wait_any(true) {
                    sessions -= 1;
                }
                sessions += usize::from(start(endpoint, peer, sessions));
            }
            queue.wait(sleep, &mut ready)?;
        }
    }

    /// Starts a process for a connection. Returns whether it runs.
    fn start(endpoint: Endpoint, peer: PortId, sessions: usize) -> bool {
        let problem = if !peer.is_of_root() {
            Some((EACCES, "only root may run programs on other nodes"))
        } else if sessions >= MAX_SESSIONS {
            Some((EAGAIN, "too many programs of other nodes run there already"))
        } else {
            None
        };
        if let Some((errno, text)) = problem {
            refuse(endpoint, errno, text);
            return false;
        }
        let started = Command::new("scifrund")
            .arg(SESSION)
            .fd(SESSION_FD, endpoint.fd())
            .spawn();
        match started {
            Ok(_) => true,
            Err(error) => {
                refuse(endpoint, error.errno, "it cannot be served there");
                false
            }
        }
    }

    /// Refuses a connection. The peer has sent nothing yet that would be lost unread.
    fn refuse(endpoint: Endpoint, errno: i32, text: &str) {
        let refusal = Refusal {
            errno: errno.unsigned_abs(),
            text: alloc::format!("{text} ({})", Error::new(errno)),
        };
        // The result does not matter: a peer that has gone needs no answer.
        let _ = Connection::new(endpoint).send(Kind::Refused, &refusal.encode());
    }
}

#[cfg(target_os = "redox")]
runtime::main!(server::main);

/// The program runs on Redox only; elsewhere the library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
