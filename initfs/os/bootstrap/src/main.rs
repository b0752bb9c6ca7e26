//! The first program: starts the namespace manager and the process manager from the boot image,
//! then init, and serves the image's files as scheme `initfs` for ever.
//!
//! The kernel enters it inside the image, with only the roots of its own schemes. It finds
//! everything else through those, so the same image starts on every kernel with the Redox ABI. It
//! must never end: it reports a failure and stops the machine.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod boot;
#[cfg(target_os = "redox")]
mod scheme;

#[cfg(target_os = "redox")]
runtime::main!(boot::main);

/// On the development machine there is nothing to boot.
#[cfg(not(target_os = "redox"))]
fn main() {
    eprintln!("bootstrap runs inside the boot image only");
}
