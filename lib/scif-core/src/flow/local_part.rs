//! Where an endpoint's own windows are, for programs that map them: the end of a transfer that the
//! peer's windows are not.
//!
//! The engine only looks this up. Who maps the pages keeps the memory they are in, which is the
//! driver's; a window can be unregistered meanwhile, as it can while its owner has it mapped.

use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::flags::Protection;

use crate::base::ids::EndpointId;
use crate::base::memory::Place;
use crate::base::pages::PinId;
use crate::engine::Engine;
use crate::flow::register::check_range;
use crate::window::WindowState;

/// A part of an own window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPart {
    /// The memory the window is made of.
    pub pin: PinId,
    /// Where it is: contiguous pieces in order, with their bytes.
    pub pieces: Vec<(Place, u64)>,
    /// How many bytes, a multiple of the page size.
    pub bytes: u64,
}

impl Engine {
    /// The part of a range of the own registered address space that lies in its first window: at
    /// most `length` bytes from `offset` on. `protection` is what all windows of the range must
    /// allow (`Protection` bits).
    ///
    /// # Errors
    /// `EINVAL`: offset negative or unaligned, length unaligned or 0, the end beyond the last
    /// offset, or unknown bits in `protection`. `ECONNRESET`, `ENOTCONN`, `ENODEV`. `ENXIO`: the
    /// range is not all registered. `EACCES`: a window does not allow it.
    pub fn local_part(
        &self,
        id: EndpointId,
        offset: i64,
        length: u64,
        protection: u32,
    ) -> Result<LocalPart, Error> {
        let need = Protection::from_bits(protection).ok_or(Error::InvalidArgument)?;
        check_range(offset, length)?;
        let id = self.verify(id)?;
        let connection = self.connections.get(id).ok_or(Error::NotConnected)?;
        let (mut first, mut is_allowed) = (None, true);
        for found in connection.local_space.covering(offset, length) {
            let (start, slot) = found?;
            let window = self.windows.local.get(slot.id);
            let window = window.filter(|window| window.state == WindowState::Live);
            let window = window.ok_or(Error::NoSuchAddress)?;
            is_allowed &= window.protection.contains(need);
            first.get_or_insert((start, window));
        }
        let (start, window) = first.ok_or(Error::NoSuchAddress)?;
        if !is_allowed {
            return Err(Error::AccessDenied);
        }
        let at = offset.abs_diff(start);
        let bytes = length.min(window.chunks.bytes().saturating_sub(at));
        let pieces = window.chunks.pieces(at, bytes);
        Ok(LocalPart {
            pin: window.pin,
            pieces: pieces.ok_or(Error::NoSuchAddress)?,
            bytes,
        })
    }
}
