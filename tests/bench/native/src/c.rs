//! The calls of C programs: `scif_send` and `scif_recv` of `lib/libscif`, by their C names.

use libscif::host::{Endpoint, set_alone};
use scif::bypass::Waiting;

use crate::client::Calls;

/// The calls of a program with one thread or (`SEVERAL`) with several threads, whose calls leave a
/// note that they are in progress. Here both ends are threads of one program, but this makes no
/// difference, because they share no endpoint.
pub struct C<const SEVERAL: bool>(Endpoint);

impl<const SEVERAL: bool> Calls for C<SEVERAL> {
    fn open() -> Result<Self, i32> {
        Endpoint::open(Waiting::Poll).map(Self)
    }

    fn begin() {
        set_alone(!SEVERAL);
    }

    #[inline]
    fn send(&self, message: &[u8], flags: u32) -> Result<usize, i32> {
        self.0.send(message, flags as i32)
    }

    #[inline]
    fn recv(&self, buffer: &mut [u8], flags: u32) -> Result<usize, i32> {
        self.0.recv(buffer, flags as i32)
    }
}
