//! The namespace manager: which schemes a process can name.
//!
//! A namespace is a set of names, each with the root descriptor of the scheme that serves it. The
//! first namespace holds the kernel's schemes; daemons add theirs. A namespace descriptor answers
//! `openat(ns, "/scheme/<name>/…")` with that root; `dup` with an operation (`runtime::abi::ns`)
//! makes another namespace or a handle that registers a name.
//!
//! Started by bootstrap with these variables: `ROOTS` (`name=fd,…`), `CAPABILITY` (the right to
//! create schemes) and `INIT_NOTIFY` (the pipe that takes the descriptor of the first namespace).
#![no_std]
#![no_main]

extern crate alloc;

mod namespace;
mod scheme;

use alloc::rc::Rc;

use ::scheme::SchemeLoop;
use libredox::Fd;
use redox_scheme::Socket;
use runtime::{Error, Result, env};
use syscall::error::EINVAL;

use crate::namespace::Namespace;
use crate::scheme::NamespaceScheme;

runtime::main!(main);

fn main() -> i32 {
    let purpose = "keeps namespaces: which schemes a program can name";
    if let Some(status) = runtime::env::answer_people("", purpose, 0) {
        return status;
    }
    match run() {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("nsmgr: cannot serve namespaces: {error}");
            1
        }
    }
}

fn number(text: &str) -> Result<usize> {
    text.trim().parse().map_err(|_| Error::new(EINVAL))
}

fn run() -> Result<()> {
    let capability = Fd::new(number(&env::var("CAPABILITY").unwrap_or_default())?);
    let first = Namespace::new();
    for entry in env::var("ROOTS").unwrap_or_default().split(',') {
        if let Some((name, fd)) = entry.split_once('=') {
            first.insert(name, Fd::new(number(fd)?));
        }
    }
    let socket = Rc::new(Socket::create_inner(capability.raw(), false)?);
    let mut scheme = NamespaceScheme::new(Rc::clone(&socket), first, capability);
    ::scheme::daemon::announce(
        &socket,
        "namespace",
        env::var("INIT_NOTIFY").as_deref(),
        &mut scheme,
    )?;
    SchemeLoop::new(socket, true).run(&mut scheme)
}
