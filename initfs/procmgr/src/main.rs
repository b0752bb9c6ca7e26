//! The process manager: process ids, parents and children, credentials, exit statuses.
//!
//! The kernel knows only contexts (threads). This daemon holds the one right to make and control
//! them and offers processes as the scheme `proc`: a process descriptor takes calls (exit, wait,
//! kill, …) and makes children; a thread descriptor passes every further request on to the kernel.
//!
//! Started by bootstrap with `KERNEL_PROC` (the root of the kernel's process scheme) and
//! `INIT_NOTIFY` (the pipe that takes the root of the scheme `proc`).
#![no_std]
#![no_main]

extern crate alloc;

mod kernel;
mod process;
mod scheme;

use alloc::rc::Rc;

use libredox::Fd;
use platform::scheme::{SchemeLoop, Status};
use redox_scheme::Socket;
use runtime::{Error, Result, env};
use syscall::error::EINVAL;
use syscall::flag::EventFlags;

use crate::kernel::{Deaths, Kernel};
use crate::scheme::ProcScheme;

runtime::main!(main);

fn main() -> i32 {
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
        match scheme.wait_event()? {
            Some(SOCKET) => loop {
                match requests.poll(&mut scheme)? {
                    Status::Idle => break,
                    Status::More => {}
                    Status::Closed => return Ok(()),
                }
            },
            Some(thread) => {
                scheme.thread_event(thread);
                requests.settle(&mut scheme)?;
            }
            None => {}
        }
    }
}
