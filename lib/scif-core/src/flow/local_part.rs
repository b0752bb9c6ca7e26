//! Where an endpoint's own windows are, for programs that map them: the end of a transfer that the
//! peer's windows are not.
//!
//! The engine only looks this up. Who maps the pages keeps the memory they are in, which is the
//! driver's; a window can be unregistered meanwhile, as it can while its owner has it mapped.

use scif_abi::Error;
use scif_abi::flags::Protection;

use crate::base::ids::EndpointId;
use crate::engine::Engine;
use crate::window::offsets::LocalPart;
use crate::window::space::check_range;

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
        let connection = self.verify(id)?;
        (self.windows).local_part(connection, (offset, length), need)
    }
}
