//! The event loop: requests from the socket, ends of threads from the kernel.

use alloc::rc::Rc;

use libredox::Fd;
use platform::scheme::{SchemeLoop, Status};
use redox_scheme::Socket;
use runtime::{Error, Result, env};
use syscall::error::EINVAL;
use syscall::flag::EventFlags;

use crate::kernel::{Deaths, Kernel};
use crate::scheme::ProcScheme;

/// Runs the daemon.
pub fn main() -> i32 {
    match run() {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("procmgr: cannot manage processes: {error}");
            1
        }
    }
}

/// Token of the scheme socket in the event queue; threads have others.
const SOCKET: usize = 0;

fn run() -> Result<()> {
    let authority = env::var("KERNEL_PROC")
        .and_then(|number| number.parse().ok())
        .ok_or(Error::new(EINVAL))?;
    let deaths = Deaths::new()?;
    let socket = Rc::new(Socket::nonblock()?);
    deaths.subscribe(socket.inner().raw(), EventFlags::EVENT_READ, SOCKET)?;
    let kernel = Kernel::new(Fd::new(authority), deaths);
    let mut scheme = ProcScheme::new(Rc::clone(&socket), kernel);
    let notify = env::var("INIT_NOTIFY");
    platform::daemon::announce(&socket, "proc", notify.as_deref(), &mut scheme)?;
    let mut requests = SchemeLoop::new(socket, false);
    loop {
        match scheme.table.contexts().wait_event()? {
            Some(SOCKET) => loop {
                match requests.poll(&mut scheme)? {
                    Status::Idle => break,
                    Status::More => {}
                    Status::Closed => return Ok(()),
                }
            },
            Some(thread) => {
                scheme.table.thread_event(thread);
                requests.settle(&mut scheme)?;
            }
            None => {}
        }
    }
}
