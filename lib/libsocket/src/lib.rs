//! Sockets for C programs: `sys/socket.h`, `netdb.h`, `arpa/inet.h` over SCIF connections.
//!
//! A stream socket is a SCIF endpoint: what one end sends as bytes the other one receives as
//! bytes, with nothing added, so the other end may as well be a file of the scheme or a program
//! that uses SCIF. Ports are SCIF's, addresses those of nodes ([`address`]). `docs/c.md` says what
//! differs from sockets elsewhere.
//!
//! Sockets of Scheduled Transfers (`SOCK_SEQPACKET`) send messages that keep their boundaries, or
//! are what `st.h` works on, by an option.
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
mod parts;
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
