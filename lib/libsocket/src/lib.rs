//! Sockets for C programs: `sys/socket.h`, `netdb.h`, `arpa/inet.h` over SCIF connections.
//!
//! A stream socket is a SCIF endpoint. It sends and receives bytes, and nothing is added to them,
//! so the other end may also be a file of the scheme or a program that uses SCIF directly. Ports
//! are SCIF's ports, and addresses are those of nodes ([`address`]). `docs/c.md` says how these
//! sockets differ from sockets elsewhere.
//!
//! Sockets of Scheduled Transfers (`SOCK_SEQPACKET`, `docs/st.md`) send messages that keep their
//! boundaries. With an option set, `st.h` works on them instead.
//!
//! The C library calls the functions `skiff_socket_…` for descriptors that are sockets, so that
//! `read`, `write`, `close`, `poll`, `dup` and `fcntl` work on them.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod address;
#[cfg(any(test, target_os = "redox"))]
mod count;
pub mod errors;
pub mod hosts;
pub mod local;
pub mod packet;
pub mod services;

#[cfg(target_os = "redox")]
mod calls;
#[cfg(target_os = "redox")]
mod closing;
#[cfg(target_os = "redox")]
mod database;
#[cfg(target_os = "redox")]
mod exports;
#[cfg(target_os = "redox")]
mod files;
#[cfg(target_os = "redox")]
mod greeting;
#[cfg(target_os = "redox")]
mod greetings;
#[cfg(target_os = "redox")]
mod inet;
#[cfg(target_os = "redox")]
mod interfaces;
#[cfg(target_os = "redox")]
mod lingering;
#[cfg(target_os = "redox")]
mod messages;
#[cfg(target_os = "redox")]
pub mod names;
#[cfg(target_os = "redox")]
mod node;
#[cfg(target_os = "redox")]
mod option_calls;
#[cfg(target_os = "redox")]
mod options;
#[cfg(target_os = "redox")]
mod owners;
#[cfg(target_os = "redox")]
mod pair;
#[cfg(target_os = "redox")]
mod parts;
#[cfg(target_os = "redox")]
mod paths;
#[cfg(target_os = "redox")]
mod readiness;
#[cfg(target_os = "redox")]
mod settled;
#[cfg(target_os = "redox")]
mod sharing;
#[cfg(target_os = "redox")]
pub mod socket;
#[cfg(target_os = "redox")]
mod transfer;
#[cfg(target_os = "redox")]
pub mod transfers;

/// The result of a call; the error is a positive error number.
#[cfg(target_os = "redox")]
type Result<T> = core::result::Result<T, i32>;
