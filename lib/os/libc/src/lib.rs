//! The small C library of the image: start-up, stdio, strings, memory, files, time, threads and
//! processes. It has what C programs written for Linux and Intel's libscif call of a C library,
//! not all of one; `docs/c.md` lists what it has and what differs.
//!
//! Every function calls `runtime`, so that a C program and a Rust program make the same system
//! calls. C functions have the names, arguments and results of the C standard or POSIX. Each is
//! exported under its C name and documented there, not here. Their safety contract is that of C: a
//! pointer is valid for what the function does with it, and a string ends with a zero byte.
//!
//! [`format`], [`scan`], [`number`], [`calendar`], [`complex_functions`], [`dates`],
//! [`expressions`], [`random`] and [`linux_names`] need no system and are compiled for the host
//! too.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_os = "redox", feature(c_variadic))]
// The compiler recognises the bodies of `stpcpy` and others. It would turn `strcpy`, which calls
// `stpcpy`, into a call of itself, and then into nothing at all.
#![no_builtins]

extern crate alloc;

pub mod calendar;
pub mod complex_functions;
pub mod date_reading;
pub mod dates;
pub mod expressions;
pub mod find;
pub mod format;
pub mod linux_names;
pub mod number;
pub mod numbered;
pub mod random;
pub mod scan;
pub mod sorting;
pub mod versions;

#[cfg(target_os = "redox")]
mod absent;
#[cfg(target_os = "redox")]
mod advice;
#[cfg(target_os = "redox")]
mod affinity;
#[cfg(target_os = "redox")]
mod alarm;
#[cfg(target_os = "redox")]
mod arrivals;
#[cfg(target_os = "redox")]
mod at;
#[cfg(target_os = "redox")]
mod attributes;
#[cfg(target_os = "redox")]
mod bell;
#[cfg(target_os = "redox")]
mod builtins;
#[cfg(target_os = "redox")]
mod cancel;
#[cfg(target_os = "redox")]
mod caught;
#[cfg(target_os = "redox")]
mod child_waits;
#[cfg(target_os = "redox")]
mod children;
#[cfg(target_os = "redox")]
mod cleanup;
#[cfg(target_os = "redox")]
mod command;
#[cfg(target_os = "redox")]
mod complex;
#[cfg(target_os = "redox")]
mod control;
#[cfg(target_os = "redox")]
mod counter;
#[cfg(target_os = "redox")]
mod cpu_model;
#[cfg(target_os = "redox")]
mod ctype;
#[cfg(target_os = "redox")]
pub mod descriptor;
#[cfg(target_os = "redox")]
mod directories;
#[cfg(target_os = "redox")]
mod entropy;
#[cfg(target_os = "redox")]
mod environment;
#[cfg(target_os = "redox")]
mod epoll;
#[cfg(target_os = "redox")]
pub mod errno;
#[cfg(target_os = "redox")]
mod eventfd;
#[cfg(target_os = "redox")]
mod fenv;
#[cfg(target_os = "redox")]
mod files;
#[cfg(target_os = "redox")]
mod fork;
#[cfg(target_os = "redox")]
mod given;
#[cfg(target_os = "redox")]
mod glob;
#[cfg(target_os = "redox")]
mod groups;
#[cfg(target_os = "redox")]
mod handlers;
#[cfg(target_os = "redox")]
mod interrupter;
#[cfg(target_os = "redox")]
mod jump;
#[cfg(target_os = "redox")]
mod keeper;
#[cfg(target_os = "redox")]
mod locale;
#[cfg(target_os = "redox")]
mod lock_sharing;
#[cfg(target_os = "redox")]
mod locking;
#[cfg(target_os = "redox")]
mod locks;
#[cfg(target_os = "redox")]
mod machine;
#[cfg(target_os = "redox")]
mod malloc;
#[cfg(target_os = "redox")]
mod masks;
#[cfg(target_os = "redox")]
mod math;
#[cfg(target_os = "redox")]
mod memory_stream;
#[cfg(target_os = "redox")]
mod messages;
#[cfg(target_os = "redox")]
mod mman;
#[cfg(target_os = "redox")]
mod options;
#[cfg(target_os = "redox")]
mod own;
#[cfg(target_os = "redox")]
pub mod parts;
#[cfg(target_os = "redox")]
mod pipes;
#[cfg(target_os = "redox")]
mod plusplus;
#[cfg(target_os = "redox")]
pub mod points;
#[cfg(target_os = "redox")]
mod poll;
#[cfg(target_os = "redox")]
mod popen;
#[cfg(target_os = "redox")]
mod posix_timers;
#[cfg(target_os = "redox")]
mod print;
#[cfg(target_os = "redox")]
mod process;
#[cfg(target_os = "redox")]
mod pthread;
#[cfg(target_os = "redox")]
mod regex;
#[cfg(target_os = "redox")]
mod scheduling;
#[cfg(target_os = "redox")]
mod scif_files;
#[cfg(target_os = "redox")]
mod search;
#[cfg(target_os = "redox")]
mod segment;
#[cfg(target_os = "redox")]
mod segments;
#[cfg(target_os = "redox")]
mod sets;
#[cfg(target_os = "redox")]
mod shared_page;
#[cfg(target_os = "redox")]
mod sharing;
#[cfg(target_os = "redox")]
mod signal;
#[cfg(target_os = "redox")]
mod slashes;
#[cfg(target_os = "redox")]
mod spawn;
#[cfg(target_os = "redox")]
mod start;
#[cfg(target_os = "redox")]
mod stdio;
#[cfg(target_os = "redox")]
mod stdlib;
#[cfg(target_os = "redox")]
mod stream;
#[cfg(target_os = "redox")]
mod strings;
#[cfg(target_os = "redox")]
mod sync;
#[cfg(target_os = "redox")]
mod sysconf;
#[cfg(target_os = "redox")]
mod terminal;
#[cfg(target_os = "redox")]
mod thread_attributes;
#[cfg(target_os = "redox")]
mod thread_names;
#[cfg(target_os = "redox")]
mod threads;
#[cfg(target_os = "redox")]
mod time;
#[cfg(target_os = "redox")]
mod timer;
#[cfg(target_os = "redox")]
mod timerfd;
#[cfg(target_os = "redox")]
mod tls;
#[cfg(target_os = "redox")]
mod transfers;
#[cfg(target_os = "redox")]
mod tree_walk;
#[cfg(target_os = "redox")]
mod umad;
#[cfg(target_os = "redox")]
mod unlocked;
#[cfg(target_os = "redox")]
mod unwind;
#[cfg(target_os = "redox")]
mod usage;
#[cfg(target_os = "redox")]
mod users;
#[cfg(target_os = "redox")]
mod uverbs;
#[cfg(target_os = "redox")]
mod waits;
#[cfg(target_os = "redox")]
mod watch;
#[cfg(target_os = "redox")]
mod wide;
#[cfg(target_os = "redox")]
mod wide_kinds;
#[cfg(target_os = "redox")]
mod wide_numbers;
#[cfg(target_os = "redox")]
mod wide_streams;
#[cfg(target_os = "redox")]
mod words;

#[cfg(target_os = "redox")]
pub use files::made_with;
#[cfg(target_os = "redox")]
pub use process::{configuration, host_name};
