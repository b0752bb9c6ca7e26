//! The rings of a connection and the words around them: how bytes are put and taken, how several
//! clients of one end exclude each other, and when the other side must be woken.
//!
//! The protocol is written here once, for everything that works on a ring: the daemon's engine,
//! which reaches memory by address, and clients, which have it mapped. How memory is reached is a
//! type parameter ([`RingMemory`]), so everything inlines to plain loads and stores where memory
//! is mapped, and can be model-checked (`tests/models.rs`).
//!
//! # A ring
//! Each direction of a connection is a byte ring in the consumer's memory. The producer's write
//! index lies in the consumer's queue pair page, the consumer's read index in the producer's, so
//! each side loads from its own memory only. Indices are positions modulo the ring's size. One
//! byte always stays free, so equal indices mean "empty". A position counts all bytes since the
//! connect. Each end keeps one for each direction ([`Side`]), so that several producers (or
//! consumers) of one end, each with its own [`Producer`], continue where the last one stopped.
//! They exclude each other by a lock word.
//!
//! An index from the other side is trusted only if it is inside the ring and has moved forward no
//! further than it may: see [`RingError`].
//!
//! A consumer keeps room back as long as the producer sees enough of it and does not wait for more
//! ([`Consumer::give_back`]). A producer that then fills the ring may see up to a quarter of the
//! ring less room than there is, but never less than a ring of 4 KiB has.
//!
//! # Sleeping and waking
//! A side that wants to sleep *arms*: it stores 1 into a word in the other side's memory, and then
//! polls the ring once more. A side that has put or taken bytes reads that word afterwards, swaps
//! a 1 back to 0, and then has to wake the other side. A full fence lies between store and load on
//! both sides, so at least one of the two sees the other's store. The caller does the waking:
//! [`Moved::notify`].
//!
//! # An example
//! Two ends of a connection in one program. (The memory of this example is in [`demo`]; yours may
//! be pointers into mapped pages.)
//!
//! ```
//! use scif_ring::demo::pair;
//! use scif_ring::{Consumer, Producer};
//!
//! let (mut left, mut right) = pair(64); // 64 bytes in each ring
//! let producer = Producer::new(64);
//! let consumer = Consumer::new(64);
//! const ME: u32 = 2; // what is stored into lock words: the number of a bypass handle
//!
//! // The other side does not sleep, so it need not be woken.
//! let moved = producer.send(&mut left, ME, b"hello")?;
//! assert_eq!((moved.bytes, moved.notify), (5, false));
//!
//! let mut buffer = [0; 16];
//! let moved = consumer.receive(&mut right, ME, &mut buffer)?;
//! assert_eq!(&buffer[..moved.bytes], b"hello");
//!
//! // The ring is empty. Arm, which polls once more: if it is still empty, sleeping is safe.
//! assert_eq!(consumer.arm(&mut right)?, Some(0));
//! let moved = producer.send(&mut left, ME, b"wake up")?;
//! assert!(moved.notify); // now wake the consumer, here: by `Call::Kick`
//! # Ok::<(), scif_ring::RingError<core::convert::Infallible>>(())
//! ```
#![no_std]

mod access;
pub mod demo;
mod outcome;
mod ring;
pub mod validity;

pub use access::{RingMemory, Side, Word};
pub use outcome::{Found, Moved, Place, RingError};
pub use ring::{Consumer, Producer};
