//! Process 1: runs the start scripts, then the shell on the console or one given script, and reaps
//! orphaned processes.
//!
//! Words on the kernel's command line (`/scheme/sys/env`) control it. With `SKIFF_RUN=<script>`
//! the shell runs that script, the line `init: script exit status <n>` follows on the console, and
//! the machine is switched off; with `SKIFF_STAY=1` it stays up and goes on serving. Otherwise an
//! interactive shell runs, again and again. `LOG=<level>` is passed on to all programs.
//! `SKIFF_SKIP=<name>` leaves out the start script of that name.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod boot;
#[cfg(target_os = "redox")]
mod lease;
#[cfg(target_os = "redox")]
mod service;
#[cfg(target_os = "redox")]
mod watchdog;

#[cfg(target_os = "redox")]
runtime::main!(boot::main);

/// On the development machine there is nothing to start.
#[cfg(not(target_os = "redox"))]
fn main() {
    eprintln!("init runs inside the image only");
}
