//! The calls of a program in C on the development machine, where a test answers what they ask the
//! system (`hal::testing::host`).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

use scif::bypass::Waiting;

use crate::{Result, system, table};

pub use crate::system::set_alone;

unsafe extern "C" {
    // Those of this library. By their names alone they are functions of another crate where the
    // functions below become a part of their caller, and are called as a program in C calls them.
    fn scif_send(epd: c_int, message: *const c_void, length: c_int, flags: c_int) -> c_int;
    fn scif_recv(epd: c_int, buffer: *mut c_void, length: c_int, flags: c_int) -> c_int;
}

/// A connected endpoint whose rings are mapped, closed when it is dropped. Its number is no other
/// one's, so nobody is in a call on it then.
pub struct Endpoint(c_int);

impl Endpoint {
    /// Has the library map the rings of a new number.
    ///
    /// # Errors
    /// As [`Bypass::prepare`](scif::bypass::Bypass::prepare).
    pub fn open(waiting: Waiting) -> Result<Self> {
        /// The numbers before it are the program's streams.
        static NEXT: AtomicI32 = AtomicI32::new(3);
        let epd = NEXT.fetch_add(1, Ordering::Relaxed);
        let endpoint = Self(epd);
        table::with(system::endpoint(epd)?, |bypass| {
            bypass.set_waiting(waiting);
            bypass.prepare(epd as usize)
        })?;
        Ok(endpoint)
    }

    /// `scif_send`.
    ///
    /// # Errors
    /// Its `errno`.
    #[inline]
    pub fn send(&self, message: &[u8], flags: c_int) -> Result<usize> {
        let length = message.len() as c_int;
        // SAFETY: valid for this many bytes, of which none is written.
        count(unsafe { scif_send(self.0, message.as_ptr().cast(), length, flags) })
    }

    /// `scif_recv`.
    ///
    /// # Errors
    /// Its `errno`.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], flags: c_int) -> Result<usize> {
        let length = buffer.len() as c_int;
        // SAFETY: valid for this many bytes, which nobody else uses meanwhile.
        count(unsafe { scif_recv(self.0, buffer.as_mut_ptr().cast(), length, flags) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        table::forget(self.0 as usize);
    }
}

/// What C finds in a result and `errno`.
#[inline]
fn count(result: c_int) -> Result<usize> {
    usize::try_from(result).map_err(|_| system::errno())
}
