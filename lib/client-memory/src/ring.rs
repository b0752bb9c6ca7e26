//! A ring of bytes in mapped pages: what a connection's sender copies into, and its receiver out
//! of. A place in it is found by masking a position, so one comparison checks it.

use core::ptr::NonNull;

use hal::copy::{self, Choices, Side};
use syscall::error::{EFAULT, EINVAL, Error, Result};

use crate::pages::{Pages, Readable, Writable};

/// A ring of bytes in a mapping. A *position* counts bytes from the connection's start; its place
/// in the ring is what is left of it modulo the ring's length.
#[derive(Debug)]
pub struct RingPages {
    pages: Pages,
    /// The ring's first byte.
    start: NonNull<u8>,
    /// Length in bytes, a power of two.
    bytes: usize,
    /// `bytes` less one.
    mask: usize,
}

// SAFETY: the pointer leads into `pages`, whose own reasons hold: threads access the memory by
// copies of machine instructions alone.
unsafe impl Send for RingPages {}
// SAFETY: as above.
unsafe impl Sync for RingPages {}

impl RingPages {
    /// The ring of `bytes` bytes that a mapping holds at `offset`. It may end before the mapping
    /// does, which is whole pages.
    ///
    /// # Errors
    /// `EINVAL` unless the ring's length is a power of two, all of it is in the mapping, and that
    /// can be both read and written.
    pub fn new(pages: Pages, offset: usize, bytes: usize) -> Result<Self> {
        let (room, rights) = (pages.len().saturating_sub(offset), pages.protection());
        if !bytes.is_power_of_two() || bytes > room || !rights.read || !rights.write {
            return Err(Error::new(EINVAL));
        }
        Ok(Self {
            // SAFETY: `offset` is smaller than the mapping's length, as `bytes` is not 0.
            start: unsafe { pages.start().add(offset) },
            bytes,
            mask: bytes - 1,
            pages,
        })
    }

    /// The pages that hold the ring.
    #[inline]
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The address of `bytes` bytes at a position.
    #[inline(always)]
    fn place(&self, position: u64, bytes: usize) -> Result<NonNull<u8>> {
        let offset = position as usize & self.mask;
        if self.bytes.wrapping_sub(offset) < bytes {
            return Err(Error::new(EFAULT));
        }
        // SAFETY: `offset` is smaller than the ring's length, and the ring lies in the mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    /// Copies at most [`SMALL_BYTES`](copy::SMALL_BYTES) bytes of the program to a position, by
    /// the one routine for so few. (It copies more, too.)
    ///
    /// # Errors
    /// `EFAULT` when the ring ends among the bytes.
    #[inline(always)]
    pub fn put_short(&self, position: u64, from: Readable<'_>) -> Result<()> {
        let to = self.place(position, from.len())?;
        // SAFETY: the target is checked, the source known to be there.
        unsafe { copy::copy_short(from.start().as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies `bytes` bytes, at most [`SMALL_BYTES`](copy::SMALL_BYTES), at a position out to the
    /// program, by the routine for so few.
    ///
    /// # Errors
    /// `EFAULT` when the ring ends among the bytes, or `to` has no room for them.
    #[inline(always)]
    pub fn take_short(&self, position: u64, to: &Writable<'_>, bytes: usize) -> Result<()> {
        let from = self.place(position, bytes)?;
        if bytes > to.len() {
            return Err(Error::new(EFAULT));
        }
        // SAFETY: the source is checked, the target known to be there.
        unsafe { copy::copy_short(from.as_ptr(), to.start().as_ptr(), bytes) };
        Ok(())
    }

    /// Copies bytes of the program to a position, by the routine chosen for this kind of memory.
    ///
    /// # Errors
    /// `EFAULT` when the ring ends among the bytes.
    #[inline]
    pub fn put(&self, position: u64, from: Readable<'_>, choices: Choices) -> Result<()> {
        let to = self.place(position, from.len())?;
        let routine = choices.routine(Side::Own, self.pages.side(), from.len());
        // SAFETY: the target is checked, the source known to be there; `Choices` holds available
        // routines only, here and below.
        unsafe { copy::copy_by(routine, from.start().as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies bytes at a position out to the program.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn take(&self, position: u64, to: &Writable<'_>, choices: Choices) -> Result<()> {
        let from = self.place(position, to.len())?;
        let routine = choices.routine(self.pages.side(), Side::Own, to.len());
        // SAFETY: the source is checked, the target known to be there.
        unsafe { copy::copy_by(routine, from.as_ptr(), to.start().as_ptr(), to.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Rights;
    use hal::mem::PAGE;
    use hal::testing::host::{self, Request, play};

    /// A mapping of heap memory.
    fn pages(bytes: usize, rights: Rights) -> Pages {
        let memory = host::pages(bytes).unwrap();
        let system = move |request: Request<'_>| match request {
            Request::Map { .. } => Ok(memory.as_ptr() as usize),
            _ => Ok(0),
        };
        play(system, || {
            Pages::map(0, 0, bytes, rights, Side::Own, None).unwrap()
        })
    }

    /// A ring of a page behind a page of something else.
    fn ring() -> RingPages {
        RingPages::new(pages(2 * PAGE, Rights::ALL), PAGE, PAGE).unwrap()
    }

    fn taken(ring: &RingPages, position: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut short = vec![0; bytes];
        let to = Writable::from(&mut short[..]);
        ring.take_short(position, &to, bytes)?;
        let mut long = vec![0; bytes];
        let to = Writable::from(&mut long[..]);
        ring.take(position, &to, Choices::default())?;
        assert_eq!(short, long);
        Ok(short)
    }

    #[test]
    fn a_position_comes_round_after_each_lap() {
        let ring = ring();
        let lap = PAGE as u64;
        ring.put_short(77 * lap + 40, b"first"[..].into()).unwrap();
        let second = b"second"[..].into();
        ring.put(lap - 6, second, Choices::default()).unwrap();
        assert_eq!(taken(&ring, 40, 5).unwrap(), b"first");
        assert_eq!(taken(&ring, u64::MAX - 5, 6).unwrap(), b"second");
        // The page in front of the ring is untouched.
        let word = ring.pages().word_u64(40).unwrap();
        assert_eq!(word.load(core::sync::atomic::Ordering::Relaxed), 0);
    }

    #[test]
    fn nothing_is_copied_across_the_end() {
        let ring = ring();
        let end = 3 * PAGE as u64;
        let from = Readable::from(&b"bytes"[..]);
        let fault = Err(Error::new(EFAULT));
        assert_eq!(ring.put_short(end - 4, from), fault);
        assert_eq!(ring.put(end - 1, from, Choices::default()), fault);
        assert_eq!(taken(&ring, end - 4, 5).map(drop), fault);
        assert_eq!(taken(&ring, end - 4, 4).unwrap(), [0; 4]);
        assert_eq!(taken(&ring, 0, PAGE + 1).map(drop), fault);
        let mut small = [0; 4];
        let to = Writable::from(&mut small[..]);
        assert_eq!(ring.take_short(0, &to, 5), fault);
    }

    #[test]
    fn a_ring_may_be_shorter_than_a_page() {
        let ring = RingPages::new(pages(PAGE, Rights::ALL), 0, 64).unwrap();
        ring.put_short(64 + 8, b"bytes"[..].into()).unwrap();
        assert_eq!(taken(&ring, 8, 5).unwrap(), b"bytes");
        assert_eq!(taken(&ring, 60, 5).map(drop), Err(Error::new(EFAULT)));
    }

    #[test]
    fn a_ring_is_a_power_of_two_and_all_of_it_is_there() {
        let is_ring =
            |rights, offset, bytes| RingPages::new(pages(5 * PAGE, rights), offset, bytes).is_ok();
        assert!(is_ring(Rights::ALL, 0, 4 * PAGE) && is_ring(Rights::ALL, PAGE, 4 * PAGE));
        assert!(is_ring(Rights::ALL, 4 * PAGE, PAGE) && is_ring(Rights::ALL, PAGE, 64));
        assert!(!is_ring(Rights::ALL, 2 * PAGE, 4 * PAGE) && !is_ring(Rights::ALL, 0, 3 * PAGE));
        assert!(!is_ring(Rights::ALL, 0, 0) && !is_ring(Rights::ALL, 0, 8 * PAGE));
        assert!(!is_ring(Rights::ALL, 5 * PAGE, 64) && !is_ring(Rights::ALL, usize::MAX, 64));
        for (read, write) in [(true, false), (false, true)] {
            assert!(!is_ring(Rights { read, write }, 0, PAGE));
        }
    }
}
