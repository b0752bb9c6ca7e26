//! The queue windows of both ends in the form that the queues use.

use core::convert::Infallible;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hal::copy::prefetch_for_store;
use hal::mem::{drain_writes, full_fence};
use scif::View;
use st_core::header::PAYLOAD_BYTES;
use st_core::queue::{LINE, QueueMemory};

/// A sender that has filled a slot asks for the line of the slot that is this many bytes ahead, so
/// that the fence behind a later header does not wait for it: headers one way pass at 2.6 in place
/// of 1.6 GB/s (docs/performance/costs.md).
const AHEAD: usize = 4 * LINE;

/// A queue window as words.
#[derive(Clone, Copy)]
struct Words<'a> {
    short: &'a [AtomicU32],
    long: &'a [AtomicU64],
}

impl<'a> Words<'a> {
    #[inline]
    fn of(view: &'a View) -> crate::Result<Self> {
        Ok(Self {
            short: view.words_u32()?,
            long: view.words_u64()?,
        })
    }

    /// [`of`](Self::of) without a reason.
    #[inline(always)]
    fn at_once(view: &'a View) -> Option<Self> {
        let (short, long) = (view.words_u32().ok()?, view.words_u64().ok()?);
        Some(Self { short, long })
    }

    /// The double words of the first `bytes` bytes of a slot's body.
    #[inline]
    fn body(&self, offset: usize, bytes: usize) -> &'a [AtomicU64] {
        let first = offset / 8;
        &self.long[first..first + bytes.div_ceil(8)]
    }

    /// The double words of a slot.
    #[inline]
    fn slot(&self, offset: usize) -> &'a [AtomicU64; LINE / 8] {
        &self.long.as_chunks().0[offset / LINE]
    }

    /// Copies a slot's body, or the beginning of it.
    #[inline]
    fn read(&self, offset: usize, body: &mut [u8]) {
        let words = self.body(offset, body.len());
        let (whole, rest) = body.as_chunks_mut::<8>();
        let mut words = words.iter().map(|word| word.load(Ordering::Relaxed));
        for (bytes, word) in whole.iter_mut().zip(&mut words) {
            *bytes = word.to_ne_bytes();
        }
        if let Some(word) = words.next() {
            rest.copy_from_slice(&word.to_ne_bytes()[..rest.len()]);
        }
    }

    #[inline]
    fn short(&self, offset: usize) -> &'a AtomicU32 {
        &self.short[offset / 4]
    }

    #[inline]
    fn long(&self, offset: usize) -> &'a AtomicU64 {
        &self.long[offset / 8]
    }
}

/// This end's window, which the peer writes, and the peer's.
pub struct Windows<'a> {
    own: Words<'a>,
    peer: Words<'a>,
    /// Whether stores into the peer's memory must be drained before those that follow.
    gathers: bool,
}

impl<'a> Windows<'a> {
    /// The windows in these views.
    ///
    /// # Errors
    /// None for memory that can be read and written.
    #[inline]
    pub fn new(own: &'a View, peer: &'a View, gathers: bool) -> crate::Result<Self> {
        Ok(Self {
            own: Words::of(own)?,
            peer: Words::of(peer)?,
            gathers,
        })
    }

    /// The windows of an end for which stores need no draining. `None`: [`new`](Self::new) says
    /// why.
    #[inline(always)]
    pub fn undrained(own: &'a View, peer: &'a View) -> Option<Self> {
        Some(Self {
            own: Words::at_once(own)?,
            peer: Words::at_once(peer)?,
            gathers: false,
        })
    }

    /// A word of this end's window, which the peer changes.
    pub fn own_word(&self, offset: usize) -> &'a AtomicU32 {
        self.own.short(offset)
    }
}

/// This end's window alone: what has arrived can be read, and nothing is sent. It is all that is
/// left of a closed connection.
pub struct OwnWindow<'a>(Words<'a>);

impl<'a> OwnWindow<'a> {
    /// The window in this view.
    ///
    /// # Errors
    /// None for memory that can be read and written.
    pub fn new(own: &'a View) -> crate::Result<Self> {
        Words::of(own).map(Self)
    }

    /// [`new`](Self::new) without a reason, which would be a call.
    #[inline(always)]
    pub fn at_once(own: &'a View) -> Option<Self> {
        Words::at_once(own).map(Self)
    }
}

impl QueueMemory for OwnWindow<'_> {
    type Error = Infallible;

    #[inline]
    fn load(&self, offset: usize) -> u32 {
        self.0.short(offset).load(Ordering::Acquire)
    }

    #[inline]
    fn load_long(&self, offset: usize) -> u64 {
        self.0.long(offset).load(Ordering::Acquire)
    }

    fn clear(&mut self, offset: usize) -> u32 {
        self.0.short(offset).swap(0, Ordering::SeqCst)
    }

    #[inline]
    fn read(&self, offset: usize, body: &mut [u8]) {
        self.0.read(offset, body);
    }

    fn store_peer(&mut self, _: usize, _: u32) -> Result<(), Infallible> {
        Ok(())
    }

    fn store_peer_long(&mut self, _: usize, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn write_peer(&mut self, _: usize, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn flush_peer(&mut self, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn fence(&self) {}
}

impl QueueMemory for Windows<'_> {
    type Error = Infallible;

    #[inline]
    fn load(&self, offset: usize) -> u32 {
        self.own.short(offset).load(Ordering::Acquire)
    }

    #[inline]
    fn load_long(&self, offset: usize) -> u64 {
        self.own.long(offset).load(Ordering::Acquire)
    }

    #[inline]
    fn clear(&mut self, offset: usize) -> u32 {
        self.own.short(offset).swap(0, Ordering::SeqCst)
    }

    #[inline]
    fn read(&self, offset: usize, body: &mut [u8]) {
        self.own.read(offset, body);
    }

    #[inline]
    fn store_peer(&mut self, offset: usize, value: u32) -> Result<(), Infallible> {
        if self.gathers {
            drain_writes();
        }
        self.peer.short(offset).store(value, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn store_peer_long(&mut self, offset: usize, value: u64) -> Result<(), Infallible> {
        if self.gathers {
            drain_writes();
        }
        self.peer.long(offset).store(value, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn write_peer(&mut self, offset: usize, body: &[u8]) -> Result<(), Infallible> {
        let words = self.peer.body(offset, body.len());
        let (whole, rest) = body.as_chunks::<8>();
        for (bytes, word) in whole.iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let Some(word) = words.get(whole.len()) {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn fill_peer(
        &mut self,
        offset: usize,
        message: &[u8; PAYLOAD_BYTES],
        tail: u64,
    ) -> Result<(), Infallible> {
        // All of the slot at once, so that one comparison checks it.
        let [body @ .., last] = self.peer.slot(offset);
        for (bytes, word) in message.as_chunks::<8>().0.iter().zip(body) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if self.gathers {
            drain_writes();
        }
        last.store(tail, Ordering::Release);
        prefetch_for_store(ptr::from_ref(last).cast::<u8>().wrapping_add(AHEAD));
        Ok(())
    }

    #[inline]
    fn flush_peer(&mut self, offset: usize) -> Result<(), Infallible> {
        self.peer.short(offset).load(Ordering::Acquire);
        Ok(())
    }

    #[inline]
    fn fence(&self) {
        full_fence();
    }
}
