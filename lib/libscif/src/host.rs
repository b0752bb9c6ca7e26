//! The calls of a C program on the development machine, where a test answers the system calls that
//! they make (`hal::testing::host`).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

use scif::bypass::Waiting;

use crate::{Result, system, table};

pub use crate::system::set_alone;

unsafe extern "C" {
    // Those of this library. Declared by name, they are functions of another crate when the
    // functions below are inlined, and are called as a C program calls them.
    fn scif_send(epd: c_int, message: *const c_void, length: c_int, flags: c_int) -> c_int;
    fn scif_recv(epd: c_int, buffer: *mut c_void, length: c_int, flags: c_int) -> c_int;
}

/// A connected endpoint whose rings are mapped. It is closed when it is dropped; its number is
/// unique, so no thread is in a call on it then.
pub struct Endpoint(c_int);

impl Endpoint {
    /// Maps the rings of a new number.
    ///
    /// # Errors
    /// Those of [`Bypass::prepare`](scif::bypass::Bypass::prepare).
    pub fn open(waiting: Waiting) -> Result<Self> {
        /// The numbers below are the program's streams.
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

/// Converts a result of C and its `errno`.
#[inline]
fn count(result: c_int) -> Result<usize> {
    usize::try_from(result).map_err(|_| system::errno())
}
