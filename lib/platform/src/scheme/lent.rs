//! The payload of a `call`, which a daemon may keep for longer than one look: a client that offers
//! its memory makes a call with whole pages, and the daemon uses them until it lets the call be
//! answered.

use syscall::error::{EINVAL, Error, Result};

use crate::mem::{PAGE, Region};

/// A call's payload.
pub struct Payload<'a> {
    bytes: &'a mut [u8],
    kept: &'a mut Option<Region>,
}

impl<'a> Payload<'a> {
    /// `kept` is where the loop remembers that the payload was kept; none of its regions and no
    /// reference to the payload may be in use besides `bytes`, which is empty once it was kept.
    ///
    /// # Safety
    /// The buffer stays mapped until the request is answered, and the request is not answered while
    /// the region in `kept` is shared.
    pub(super) unsafe fn new(bytes: &'a mut [u8], kept: &'a mut Option<Region>) -> Self {
        Self { bytes, kept }
    }

    /// Bytes of the payload.
    pub fn len(&self) -> usize {
        self.kept.as_ref().map_or(self.bytes.len(), Region::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload as plain bytes, for the time of this look; nothing once it was kept.
    pub fn into_bytes(self) -> &'a mut [u8] {
        if self.kept.is_some() {
            return &mut [];
        }
        self.bytes
    }

    /// Keeps the payload: the request is not answered before the region, its clones and its parts
    /// are dropped, even if its caller gives it up. The client sees and changes the same memory.
    ///
    /// # Errors
    /// `EINVAL` unless it is whole pages.
    pub fn keep(self) -> Result<Region> {
        if let Some(region) = self.kept {
            return Ok(region.clone());
        }
        let (start, length) = (self.bytes.as_ptr() as usize, self.bytes.len());
        if length == 0 || !length.is_multiple_of(PAGE) || !start.is_multiple_of(PAGE) {
            return Err(Error::new(EINVAL));
        }
        // SAFETY: whoever made `self` promises that the buffer stays as long as the region is
        // shared, and gives no more references to it once `kept` is set.
        let region = unsafe { Region::of_lent(self.bytes) };
        *self.kept = Some(region.clone());
        Ok(region)
    }
}
