//! `scif_get_pages`, `scif_put_pages`, and the memory behind the addresses that they handle.

use alloc::vec::Vec;
use core::borrow::Borrow;

use hal::mem::{Cache, PAGE, Region, full_fence, map_physical};
use scif_abi::call::{Call, PagesHeader};
use scif_abi::flags::Protection;
use syscall::error::{EACCES, EFAULT, EIO, ENOMEM};
use zerocopy::FromBytes;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::raw;

/// Pages that one call can refer to: 4 GiB.
const MAX_PAGES: u64 = 1 << 20;

/// A reference to pages that the peer has registered, `struct scif_range`. Until it is dropped the
/// pages stay what they are, even if the peer unregisters them or closes its endpoint. `E` is an
/// [`Endpoint`] or a (shared) reference to one, which cannot be closed before:
///
/// ```compile_fail,E0505
/// # fn f(endpoint: scif::Endpoint) -> scif::Result<()> {
/// let pages = scif::kernel::get_pages(&endpoint, 0, 4096)?;
/// endpoint.close()?; // error: `endpoint` is borrowed
/// pages.put()
/// # }
/// ```
#[derive(Debug)]
pub struct RemotePages<E: Borrow<Endpoint>> {
    endpoint: E,
    /// None once the reference was given back.
    cookie: Option<u64>,
    addresses: Vec<u64>,
    protection: Protection,
}

/// `scif_get_pages`: refers to whole pages of one window, `length` bytes from `offset` of the
/// peer's registered address space on.
///
/// # Errors
/// `ECONNRESET`; `EINVAL` when offset or length is not a multiple of the page size, or negative,
/// or the length is 0; `ENODEV`; `ENOMEM`; `ENOTCONN`; `ENXIO` when the range is not a part of one
/// window; `EPERM` or `EACCES` for users other than root.
pub fn get_pages<E: Borrow<Endpoint>>(
    endpoint: E,
    offset: i64,
    length: u64,
) -> Result<RemotePages<E>> {
    let pages = length / PAGE as u64;
    if pages > MAX_PAGES {
        return Err(Error::from_errno(ENOMEM));
    }
    let header_bytes = size_of::<PagesHeader>();
    let bytes = header_bytes + 8 * pages as usize;
    let mut payload = Vec::new();
    payload
        .try_reserve_exact(bytes)
        .map_err(|_| Error::from_errno(ENOMEM))?;
    payload.resize(bytes, 0);
    let call = Call::GetPages {
        remote_offset: offset,
        length,
    };
    let count = raw::with_payload(endpoint.borrow().fd(), call, &mut payload)?;
    let answer = parse(&payload, count).ok_or(Error::from_errno(EIO));
    let (cookie, protection, addresses) = answer?;
    Ok(RemotePages {
        endpoint,
        cookie: Some(cookie),
        addresses,
        protection,
    })
}

/// Parses the answer, if it has `count` addresses.
fn parse(payload: &[u8], count: usize) -> Option<(u64, Protection, Vec<u64>)> {
    let (header, rest) = PagesHeader::read_from_prefix(payload).ok()?;
    let words = rest.get(..count.checked_mul(8)?)?.chunks_exact(8);
    let addresses = words.filter_map(|word| Some(u64::from_le_bytes(*word.first_chunk()?)));
    let protection = Protection::from_bits_truncate(header.protection.get());
    Some((header.cookie.get(), protection, addresses.collect()))
}

/// The address and the number of pages of each piece of consecutive pages.
fn runs(addresses: &[u64]) -> Vec<(u64, usize)> {
    let mut runs: Vec<(u64, usize)> = Vec::new();
    for &address in addresses {
        match runs.last_mut() {
            Some((start, pages)) if *start + (*pages * PAGE) as u64 == address => *pages += 1,
            _ => runs.push((address, 1)),
        }
    }
    runs
}

impl<E: Borrow<Endpoint>> RemotePages<E> {
    /// The address of each page, as this node's processor and its devices reach it.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// The rights of the window.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        self.endpoint.borrow()
    }

    /// Maps the pages into this program. Only pages of other nodes can be mapped: those of this
    /// node are ordinary memory of this system, which has an owner
    /// ([`Endpoint::map`](crate::Endpoint::map) maps them).
    ///
    /// # Errors
    /// `EPERM` for pages of this node, `ENOMEM`, and those of mapping device memory.
    pub fn map(self) -> Result<RemoteMemory<E>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for (address, pages) in runs(&self.addresses) {
            let bytes = pages * PAGE;
            pieces.push((start, map_physical(address, bytes, Cache::WriteCombining)?));
            start += bytes;
        }
        Ok(RemoteMemory {
            pieces,
            bytes: start,
            pages: self,
        })
    }

    /// `scif_put_pages`: gives the reference back. Dropping does the same without reporting an
    /// error.
    ///
    /// # Errors
    /// `EINVAL`, `ENODEV`, `ENOTCONN`.
    pub fn put(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if let Some(cookie) = self.cookie.take() {
            raw::plain(self.endpoint.borrow().fd(), Call::PutPages { cookie })?;
        }
        Ok(())
    }
}

impl<E: Borrow<Endpoint>> Drop for RemotePages<E> {
    fn drop(&mut self) {
        // An error means that the node has gone, and the reference with it.
        let _ = self.end();
    }
}

/// Mapped memory of the peer: reads and writes go there directly.
#[derive(Debug)]
pub struct RemoteMemory<E: Borrow<Endpoint>> {
    /// The pieces in ascending order: the offset in the whole, and the memory. Declared before
    /// `pages`, so that the pages are given back after they were unmapped.
    pieces: Vec<(usize, Region)>,
    bytes: usize,
    pages: RemotePages<E>,
}

impl<E: Borrow<Endpoint>> RemoteMemory<E> {
    /// Length in bytes, whole pages.
    #[expect(clippy::len_without_is_empty, reason = "no mapping is empty")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        self.pages.endpoint()
    }

    /// Reads bytes of the peer's memory.
    ///
    /// # Errors
    /// `EFAULT` when the bytes are not all inside, `EACCES` when the window cannot be read.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check(Protection::READ, offset, to.len())?;
        let mut done = 0;
        while done < to.len() {
            let (region, inside) = self.piece(offset + done)?;
            let count = (region.len() - inside).min(to.len() - done);
            let part = &mut to[done..done + count];
            region.read_bytes(inside, part).map_err(outside)?;
            done += count;
        }
        Ok(())
    }

    /// Writes bytes of the peer's memory.
    ///
    /// # Errors
    /// `EFAULT` when the bytes are not all inside, `EACCES` when the window cannot be written.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(Protection::WRITE, offset, from.len())?;
        let mut done = 0;
        while done < from.len() {
            let (region, inside) = self.piece(offset + done)?;
            let count = (region.len() - inside).min(from.len() - done);
            let part = &from[done..done + count];
            region.write_bytes(inside, part).map_err(outside)?;
            done += count;
        }
        Ok(())
    }

    /// Waits until everything written before has reached the peer's memory.
    ///
    /// # Errors
    /// None as long as the pages are there.
    pub fn flush(&self) -> Result<()> {
        full_fence();
        if self.pages.protection.contains(Protection::READ) {
            // A read does not overtake the writes that are still on their way.
            for (_, region) in &self.pieces {
                region.read::<u8>(0).map_err(outside)?;
            }
        }
        Ok(())
    }

    fn check(&self, need: Protection, offset: usize, bytes: usize) -> Result<()> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(Error::from_errno(EFAULT));
        }
        if !self.pages.protection.contains(need) {
            return Err(Error::from_errno(EACCES));
        }
        Ok(())
    }

    /// The piece that holds a byte, and the byte's offset in it.
    fn piece(&self, offset: usize) -> Result<(&Region, usize)> {
        let behind = self.pieces.partition_point(|&(start, _)| start <= offset);
        let piece = behind.checked_sub(1).and_then(|at| self.pieces.get(at));
        let (start, region) = piece.ok_or(Error::from_errno(EFAULT))?;
        Ok((region, offset - start))
    }
}

fn outside(error: hal::mem::BoundsError) -> Error {
    Error::from(syscall::error::Error::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use zerocopy::IntoBytes;

    #[test]
    fn consecutive_pages_are_one_piece() {
        assert_eq!(runs(&[]), []);
        let pages = [0x5000, 0x6000, 0x7000, 0x1000, 0x8000, 0x9000, 0x9000];
        let expected = [(0x5000, 3), (0x1000, 1), (0x8000, 2), (0x9000, 1)];
        assert_eq!(runs(&pages), expected);
    }

    #[test]
    fn answers_are_read_as_far_as_they_go() {
        let header = PagesHeader {
            cookie: 7.into(),
            pages: 2.into(),
            protection: 1.into(),
            reserved: 0.into(),
        };
        let mut payload = header.as_bytes().to_vec();
        payload.extend(0x1000_u64.to_le_bytes());
        payload.extend(0x2000_u64.to_le_bytes());
        let expected = (7, Protection::READ, vec![0x1000, 0x2000]);
        assert_eq!(parse(&payload, 2), Some(expected));
        assert_eq!(parse(&payload, 3), None);
        assert_eq!(parse(&payload, usize::MAX), None);
        assert_eq!(parse(&payload[..20], 0), None);
    }

    /// Memory in pieces of one and two pages, as if mapped.
    fn memory(protection: Protection) -> RemoteMemory<Rc<Endpoint>> {
        let endpoint = Endpoint::from_file(libredox::Fd::new(usize::MAX));
        RemoteMemory {
            pieces: vec![(0, Region::heap(PAGE)), (PAGE, Region::heap(2 * PAGE))],
            bytes: 3 * PAGE,
            pages: RemotePages {
                endpoint: Rc::new(endpoint),
                cookie: None,
                addresses: Vec::new(),
                protection,
            },
        }
    }

    #[test]
    fn accesses_cross_pieces_and_stay_inside() {
        let memory = memory(Protection::all());
        let bytes: Vec<u8> = (0..PAGE + 200).map(|i| (i % 251) as u8).collect();
        memory.write(PAGE - 100, &bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        memory.read(PAGE - 100, &mut back).unwrap();
        assert_eq!(back, bytes);
        memory.write(3 * PAGE - 1, b"x").unwrap();
        memory.flush().unwrap();
        let fault = Err(Error::from_errno(EFAULT));
        assert_eq!(memory.write(3 * PAGE - 1, b"xy"), fault);
        assert_eq!(memory.read(usize::MAX, &mut [0; 2]), fault);
        assert_eq!(memory.read(3 * PAGE, &mut []), Ok(()));
    }

    #[test]
    fn the_window_s_protection_holds() {
        let denied = Err(Error::from_errno(EACCES));
        let readable = memory(Protection::READ);
        assert_eq!(readable.write(0, b"x"), denied);
        assert_eq!(readable.read(0, &mut [0]), Ok(()));
        let writable = memory(Protection::WRITE);
        assert_eq!(writable.read(0, &mut [0]), denied);
        assert_eq!(writable.write(0, b"x"), Ok(()));
        assert_eq!(writable.flush(), Ok(()));
    }

    #[test]
    fn more_pages_than_a_call_holds_are_refused_without_a_call() {
        let endpoint = Endpoint::from_file(libredox::Fd::new(usize::MAX));
        let result = get_pages(&endpoint, 0, !0xfff);
        assert_eq!(result.err(), Some(Error::from_errno(ENOMEM)));
    }
}
