//! The event loop: requests from the socket, and ends of threads from the kernel.

use alloc::rc::Rc;

use libredox::Fd;
use redox_scheme::Socket;
use runtime::process::ExitStatus;
use runtime::{Error, Result, env, fd, path};
use scheme::{SchemeLoop, Status};
use syscall::error::EINVAL;
use syscall::flag::{EventFlags, O_RDWR};

use crate::kernel::{Deaths, Kernel};
use crate::scheme::ProcScheme;

/// Runs the daemon.
pub fn main() -> i32 {
    let purpose = "keeps processes: their ids, parents and groups";
    if let Some(status) = runtime::env::answer_people("", purpose, 0) {
        return status;
    }
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
    scheme::daemon::announce(&socket, "proc", notify.as_deref(), &mut scheme)?;
    let mut requests = SchemeLoop::new(socket, false);
    let mut status = Status::Idle;
    loop {
        // Requests that are left do not keep the ends of threads waiting, however many come.
        let event = match status {
            Status::More => scheme.table.contexts().take_event()?,
            _ => scheme.table.contexts().wait_event()?,
        };
        match event {
            Some(SOCKET) => status = Status::More,
            Some(thread) => {
                scheme.table.thread_event(thread);
                if requests.retry_parked(&mut scheme)? {
                    status = Status::More;
                }
            }
            None => {}
        }
        if status == Status::More {
            status = requests.poll(&mut scheme)?;
        }
        if status == Status::Closed {
            return Ok(());
        }
        if let Some(ended) = scheme.table.init_status() {
            return stop_machine(ExitStatus::from_raw(ended as i32));
        }
    }
}

/// Reports that process 1 has ended and switches the machine off, instead of leaving it idle for
/// ever: nothing goes on without process 1.
fn stop_machine(status: ExitStatus) -> Result<()> {
    runtime::eprintln!("procmgr: init ended: {status}; stopping the machine");
    let stop = Fd::new(path::open_upper("/scheme/sys/kstop", O_RDWR)?);
    fd::write(stop.raw(), b"shutdown").map(|_| ())
}
