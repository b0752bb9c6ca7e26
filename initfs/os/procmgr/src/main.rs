//! The process manager: process ids, parents and children, credentials, exit statuses.
//!
//! The kernel has only contexts (threads). This daemon holds the only right to make and control
//! them, and offers processes as the scheme `proc`. A process descriptor takes calls (exit, wait,
//! kill, …) and makes children; a thread descriptor passes all other requests on to the kernel.
//!
//! Started by bootstrap with `KERNEL_PROC` (the root of the kernel's process scheme) and
//! `INIT_NOTIFY` (the pipe that takes the root of the scheme `proc`).
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod daemon;
#[cfg(target_os = "redox")]
mod kernel;
#[cfg(target_os = "redox")]
mod scheme;

#[cfg(target_os = "redox")]
runtime::main!(daemon::main);

/// On the development machine there is nothing to manage.
#[cfg(not(target_os = "redox"))]
fn main() {
    eprintln!("procmgr runs inside the image only");
}
