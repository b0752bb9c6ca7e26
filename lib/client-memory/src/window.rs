//! Mapping the windows of a peer.

use alloc::vec::Vec;

use libredox::Fd;
use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::{MAP_PRIVATE, MAP_SHARED};
use scif_abi::call::Call;
use scif_abi::codec::Operation;
use syscall::error::{EINVAL, EIO, Error, Result};
use syscall::flag::{CallFlags, MapFlags};

use crate::range::Range;
use crate::rights::Rights;
use crate::{reachable, table};
use hal::mem::PAGE;

/// `MAP_FIXED` as `mmap` takes it.
const MAP_FIXED: u32 = MapFlags::MAP_FIXED.bits() as u32;

/// Maps `bytes` bytes of the windows of `endpoint`'s peer, from `offset` of its registered address
/// space on. With `at`, the mapping replaces whatever is at that address (the length of `at` is
/// ignored); without it, the kernel chooses the address. Returns the address. The mapping outlives
/// the endpoint.
///
/// # Errors
/// They leave what is mapped at `at` as it is, unless the windows end during the call.
/// `EINVAL` unless offset, length and address are multiples of the page size and the length is not
/// 0; `EACCES`, `ECONNRESET`, `ENODEV`, `ENOMEM`, `ENOTCONN`, `ENXIO` as `scif_mmap`.
pub fn map_window(
    endpoint: usize,
    offset: i64,
    bytes: usize,
    protection: Rights,
    at: Option<Range<'_>>,
) -> Result<usize> {
    let address = at.map(Range::address);
    let aligned = offset % PAGE as i64 == 0
        && bytes.is_multiple_of(PAGE)
        && address.is_none_or(|address| address.is_multiple_of(PAGE));
    if !aligned || bytes == 0 {
        return Err(Error::new(EINVAL));
    }
    // Ask for all pieces first, so that a hole in the windows is found before anything is
    // replaced.
    let pieces = pieces(offset, bytes as u64, |offset, left| {
        run(endpoint, offset, left)
    })?;
    // An open file of its own, so that closing the endpoint does not wait for the mapping.
    let file = Fd::new(libredox::call::dup(endpoint, b"window")?);
    let map = |from: usize, bytes: usize, at: Option<usize>| {
        // SAFETY: at an address of the kernel's choice, or one that is reserved or to be replaced.
        unsafe { map(&file, offset as usize + from, bytes, protection.bits(), at) }
    };
    let map_all = |start: usize| {
        let mut done = 0;
        for piece in &pieces {
            let mapped = map(done, *piece as usize, Some(start + done));
            mapped.map_err(|error| (error, done))?;
            done += *piece as usize;
        }
        Ok(())
    };
    let is_one = pieces.len() == 1;
    let Some(address) = address else {
        if is_one {
            return map(0, bytes, None);
        }
        let place = Place::reserve(bytes)?;
        map_all(place.address).map_err(|(error, _)| error)?;
        return Ok(place.keep());
    };
    // One piece replaces what is there or leaves it. Of several, a later one may be refused, for
    // example for the rights: so they are mapped elsewhere first.
    let elsewhere = match is_one {
        true => None,
        false => {
            let place = Place::reserve(bytes)?;
            map_all(place.address).map_err(|(error, _)| error)?;
            Some(place)
        }
    };
    let mapped = map_all(address);
    drop(elsewhere);
    let (replaced, result) = match mapped {
        Ok(()) => (bytes, Ok(address)),
        Err((error, done)) => (done, Err(error)),
    };
    if replaced > 0 {
        table::remove(address, replaced);
    }
    if result.is_err() && replaced > 0 {
        // The windows have ended meanwhile.
        // SAFETY: given to be replaced, and mapped here, which nobody knows yet.
        unsafe { munmap(address as *mut (), replaced)? };
    }
    reachable::forget(address, bytes);
    result
}

/// Cuts a range of the peer's windows into pieces that one mapping call each can map. `run`
/// returns the length of the piece at an offset.
fn pieces(
    offset: i64,
    bytes: u64,
    mut run: impl FnMut(i64, u64) -> Result<u64>,
) -> Result<Vec<u64>> {
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < bytes {
        let at = offset
            .checked_add_unsigned(done)
            .ok_or(Error::new(syscall::error::ENXIO))?;
        let piece = run(at, bytes - done)?;
        if piece == 0 || piece > bytes - done || !piece.is_multiple_of(PAGE as u64) {
            return Err(Error::new(EIO));
        }
        pieces.push(piece);
        done += piece;
    }
    Ok(pieces)
}

fn run(endpoint: usize, offset: i64, bytes: u64) -> Result<u64> {
    let call = Call::MapRun {
        remote_offset: offset,
        length: bytes,
    };
    let [first, second] = call.words();
    let metadata = [call.number(), first, second];
    let count = libredox::call::call_rw(endpoint, &mut [], CallFlags::empty(), &metadata)?;
    Ok(count as u64)
}

/// A range of addresses that nobody else knows. Dropping it unmaps the range.
struct Place {
    address: usize,
    bytes: usize,
}

impl Place {
    /// Reserves a range without memory.
    fn reserve(bytes: usize) -> Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap(MmapArgs {
                addr: core::ptr::null_mut(),
                length: bytes,
                prot: 0,
                flags: MAP_PRIVATE,
                fd: usize::MAX,
                offset: 0,
            })?
        };
        let address = address as usize;
        Ok(Self { address, bytes })
    }

    /// Leaves the range to the caller. Returns its address.
    fn keep(self) -> usize {
        reachable::forget(self.address, self.bytes);
        core::mem::ManuallyDrop::new(self).address
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: reserved for this value, whose address was given to nobody.
        let _ = unsafe { munmap(self.address as *mut (), self.bytes) };
        reachable::forget(self.address, self.bytes);
    }
}

/// Maps a part of a scheme's file, shared, at `address` or where the kernel chooses.
///
/// # Safety
/// The caller may replace whatever is mapped at `address`.
pub(crate) unsafe fn map(
    file: &Fd,
    offset: usize,
    bytes: usize,
    protection: u32,
    address: Option<usize>,
) -> Result<usize> {
    // SAFETY: passed on.
    let mapped = unsafe {
        mmap(MmapArgs {
            addr: address.unwrap_or(0) as *mut (),
            length: bytes,
            prot: protection,
            flags: MAP_SHARED | if address.is_some() { MAP_FIXED } else { 0 },
            fd: file.raw(),
            offset: offset as u64,
        })?
    };
    Ok(mapped as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscall::error::ENXIO;

    fn errno<T>(result: Result<T>) -> i32 {
        result.err().map_or(0, |error| error.errno)
    }

    #[test]
    fn a_range_is_cut_where_the_peer_s_memory_is() {
        // Contiguous in pieces of 3 pages from offset 0 on, up to page 8.
        let run = |offset: i64, bytes: u64| {
            let page = offset as u64 / 4096;
            if page >= 8 {
                return Err(Error::new(ENXIO));
            }
            Ok(bytes.min((3 - page % 3) * 4096).min((8 - page) * 4096))
        };
        assert_eq!(
            pieces(0x1000, 0x6000, run),
            Ok(vec![0x2000, 0x3000, 0x1000])
        );
        assert_eq!(pieces(0x3000, 0x1000, run), Ok(vec![0x1000]));
        assert_eq!(errno(pieces(0x1000, 0x8000, run)), ENXIO);
        assert_eq!(
            errno(pieces(i64::MAX & !0xfff, 0x2000, |_, _| Ok(4096))),
            ENXIO
        );
    }

    #[test]
    fn a_scheme_that_answers_nonsense_is_not_believed() {
        for answer in [0, 0x800, 0x3000] {
            assert_eq!(errno(pieces(0, 0x2000, |_, _| Ok(answer))), EIO);
        }
    }

    #[test]
    fn only_whole_pages_can_be_mapped() {
        // SAFETY: refused before anything is done.
        let at = |address| unsafe { Range::new(address, 0x1000) };
        for (offset, bytes, address) in [
            (1, 0x1000, None),
            (0, 0x1001, None),
            (0, 0, None),
            (0, 0x1000, Some(at(0x1001))),
        ] {
            let result = map_window(3, offset, bytes, Rights::ALL, address);
            assert_eq!(errno(result), EINVAL);
        }
    }
}
