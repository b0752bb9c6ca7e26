//! `st_map` and `st_unmap`: one range of memory for each handle.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use st::{Memory, NotMapped, Range, Region, Registered, names_mapped};
use syscall::PAGE_SIZE;
use syscall::error::{EBUSY, EFAULT, EINVAL, ENXIO};

use crate::{Call, Peer, Result, number, on};

/// The memory that is mapped on a handle.
pub struct Mapped {
    address: usize,
    bytes: usize,
    memory: Kind,
}

enum Kind {
    /// Memory of the library.
    Own(Region),
    /// Memory of the program.
    Given(Registered),
}

impl Mapped {
    /// The part of the range that begins `ahead` bytes behind its beginning.
    ///
    /// # Errors
    /// `EFAULT`: not in the range.
    pub fn part(&self, ahead: u64, bytes: usize) -> Result<Range<'static>> {
        let ahead = usize::try_from(ahead).map_err(|_| EFAULT)?;
        let end = ahead.checked_add(bytes).ok_or(EFAULT)?;
        if end > self.bytes {
            return Err(EFAULT);
        }
        // SAFETY: memory that the program has given for transfers, by C's rules.
        Ok(unsafe { Range::new(self.address + ahead, bytes) })
    }
}

/// Maps memory that begins at an address; for 0, memory of the library.
fn map(call: &Call<'_>, address: usize, length: c_int) -> Result<usize> {
    let bytes = usize::try_from(length).ok().filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or(EINVAL)?;
    let mut mapped = call.0.mapped.lock();
    if mapped.is_some() {
        return Err(EBUSY);
    }
    // Without the sender's lock: another thread may hold it and wait for the peer's memory, while
    // the peer waits for this.
    let mapper = &call.0.mapper;
    let (address, memory) = if address == 0 {
        let whole = bytes.next_multiple_of(PAGE_SIZE);
        let memory = Memory::new(whole).map_err(|error| number(error.into()))?;
        let region = mapper.map(memory).map_err(number)?;
        (region.address(), Kind::Own(region))
    } else {
        address.checked_add(bytes).ok_or(EFAULT)?;
        // SAFETY: the program's memory, which it lets the peer read and write.
        let range = unsafe { Range::new(address, bytes) };
        let registered = mapper.map_range(range).map_err(number)?;
        (address, Kind::Given(registered))
    };
    *mapped = Some(Mapped {
        address,
        bytes,
        memory,
    });
    Ok(address)
}

/// Unmaps the range. Returns whether the memory was the library's.
fn unmap(peer: &Peer, address: usize, length: c_int) -> Result<bool> {
    let mut mapped = peer.mapped.lock();
    let known = mapped.as_ref();
    let known = known.map(|known| (known.address as u64, known.bytes as u64));
    names_mapped(known, address as u64, length.into()).map_err(|error| match error {
        NotMapped::Nothing => ENXIO,
        NotMapped::Another => EINVAL,
    })?;
    let Some(known) = mapped.take() else {
        return Err(ENXIO);
    };
    // An error would mean that the connection has gone, and the peer's access with it.
    match known.memory {
        Kind::Own(region) => {
            drop(region);
            Ok(true)
        }
        Kind::Given(registered) => {
            drop(registered);
            Ok(false)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn st_map(handle: *mut Peer, place: *mut *mut c_void, length: c_int) -> c_int {
    // SAFETY: the same contract; the caller's place for an address.
    unsafe {
        on(handle, |call| {
            if place.is_null() {
                return Err(EFAULT);
            }
            let address = map(call, *place as usize, length)?;
            place.write(address as *mut c_void);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn st_unmap(handle: *mut Peer, place: *mut *mut c_void, length: c_int) -> c_int {
    // SAFETY: the same contract; the caller's place for an address.
    unsafe {
        on(handle, |call| {
            if place.is_null() {
                return Err(EFAULT);
            }
            if unmap(call.0, *place as usize, length)? {
                place.write(null_mut());
            }
            Ok(())
        })
    }
}
