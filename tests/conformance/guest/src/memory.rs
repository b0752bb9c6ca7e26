//! The memory of a side: its own, mappings of the peer's windows, and references to pages.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use client_memory::memory::Memory;
use client_memory::range::Range;
use client_memory::rights::Rights;
use conformance::call::{Call, Errno, NOWHERE, NULL, Reply};
use conformance::pattern;
use hal::mem::{Cache, PAGE, map_physical};
use libredox::call::call_rw;
use scif_abi::call::{Call as Operation, PagesHeader};
use scif_abi::codec::Operation as _;
use syscall::error::{EFAULT, EINVAL, EIO};
use syscall::flag::CallFlags;
use zerocopy::FromBytes;

/// The result of a call that is made here.
pub type Answer = Result<i64, Errno>;

/// The kind of a slot of memory.
pub enum Region {
    /// Memory of this process.
    Own(Arc<Memory>),
    /// A mapping: the parts that are still mapped, by their position.
    Mapped(BTreeMap<usize, Memory>),
    /// The result of get_pages, and its endpoint.
    Got { endpoint: usize, cookie: u64 },
}

/// Bytes to compare at a time.
const PIECE: usize = 4096;

fn fault(error: syscall::error::Error) -> Errno {
    Errno(error.errno)
}

/// Memory for a call that may run in another thread.
pub enum Named {
    /// A part of own memory: the position, and its bytes.
    Own(Arc<Memory>, usize, usize),
    /// An invalid range of this number of bytes: at address 0, or at one that cannot be mapped.
    Nothing(bool, usize),
}

impl Named {
    /// The range for the call.
    pub fn range(&self) -> Result<Range<'_>, Errno> {
        match self {
            Named::Own(memory, at, bytes) => memory.range().part(*at, *bytes).map_err(fault),
            Named::Nothing(true, bytes) => Ok(Range::null(*bytes)),
            Named::Nothing(false, bytes) => Ok(Range::absent(*bytes)),
        }
    }
}

/// All memory of a side.
#[derive(Default)]
pub struct Store {
    regions: BTreeMap<u32, Region>,
}

impl Store {
    /// Keeps the memory that a call has made.
    pub fn insert(&mut self, slot: u32, region: Region) {
        self.regions.insert(slot, region);
    }

    /// Allocates memory. In every other slot it is the daemon's from the start, in the others
    /// ordinary memory, which becomes the daemon's when it is registered.
    pub fn allocate(&mut self, slot: u32, pages: usize) -> Answer {
        let bytes = pages * PAGE;
        let memory = match slot % 2 {
            0 => Memory::new(bytes),
            _ => Memory::ordinary(bytes),
        };
        self.insert(slot, Region::Own(Arc::new(memory.map_err(fault)?)));
        Ok(0)
    }

    /// Frees the memory of a slot.
    pub fn free(&mut self, slot: u32) {
        if let Some(Region::Got { endpoint, cookie }) = self.regions.remove(&slot) {
            // Closing the endpoint may have released the pages, or the case itself.
            let _ = put(endpoint, cookie);
        }
    }

    /// Frees all memory.
    pub fn clear(&mut self) {
        let slots: Vec<u32> = self.regions.keys().copied().collect();
        for slot in slots {
            self.free(slot);
        }
    }

    /// Names memory for a call.
    pub fn name(&self, slot: u32, at: i64, bytes: u64) -> Result<Named, Errno> {
        let bytes = bytes as usize;
        match (slot, self.regions.get(&slot)) {
            (NULL, _) => Ok(Named::Nothing(true, bytes)),
            (NOWHERE, _) => Ok(Named::Nothing(false, bytes)),
            (_, Some(Region::Own(memory))) => Ok(Named::Own(memory.clone(), at as usize, bytes)),
            _ => Err(Errno(EFAULT)),
        }
    }

    /// Calls a function for each piece of a range: with the memory, the position in it, and the
    /// position in the range.
    fn pieces(
        &self,
        slot: u32,
        at: i64,
        length: usize,
        mut action: impl FnMut(&Memory, usize, usize, usize) -> Result<bool, Errno>,
    ) -> Result<(), Errno> {
        let start = at as usize;
        let mut done = 0;
        while done < length {
            let position = start + done;
            let (memory, from) = match self.regions.get(&slot) {
                Some(Region::Own(memory)) => (memory.as_ref(), 0),
                Some(Region::Mapped(parts)) => {
                    let part = parts.range(..=position).next_back();
                    let (from, memory) = part.ok_or(Errno(EFAULT))?;
                    (memory, *from)
                }
                _ => return Err(Errno(EFAULT)),
            };
            let inside = position - from;
            let left = memory.len().checked_sub(inside).filter(|left| *left > 0);
            let count = left.ok_or(Errno(EFAULT))?.min(length - done).min(PIECE);
            if !action(memory, inside, done, count)? {
                break;
            }
            done += count;
        }
        Ok(())
    }

    /// Makes the calls that only access memory; `None` for all others.
    pub fn call(&mut self, call: &Call) -> Option<Answer> {
        Some(match *call {
            Call::Allocate { memory, pages } => self.allocate(memory, pages as usize),
            Call::Free { memory } => {
                self.free(memory);
                Ok(0)
            }
            Call::Fill {
                memory,
                at,
                length,
                seed,
                from,
            } => {
                let mut buffer = [0; PIECE];
                let fill = |memory: &Memory, inside, done, count| {
                    let buffer = &mut buffer[..count];
                    pattern::fill(seed, from + done as u64, buffer);
                    memory.copy_in(inside, buffer).map_err(fault)?;
                    Ok(true)
                };
                self.pieces(memory, at, length as usize, fill).map(|()| 0)
            }
            Call::Check {
                memory,
                at,
                length,
                seed,
                from,
            } => {
                let mut wrong = None;
                let mut buffer = [0; PIECE];
                let check = |memory: &Memory, inside, done: usize, count| {
                    let buffer = &mut buffer[..count];
                    memory.copy_out(inside, buffer).map_err(fault)?;
                    let found = pattern::mismatch(seed, from + done as u64, buffer);
                    wrong = found.map(|index| (done as u64 + index) as i64);
                    Ok(wrong.is_none())
                };
                let result = self.pieces(memory, at, length as usize, check);
                result.map(|()| wrong.unwrap_or(-1))
            }
            Call::Load { memory, at } => {
                let mut bytes = [0; 8];
                let load = |memory: &Memory, inside, done, count| {
                    let bytes = &mut bytes[done..done + count];
                    memory.copy_out(inside, bytes).map_err(fault)?;
                    Ok(true)
                };
                let result = self.pieces(memory, at, 8, load);
                result.map(|()| i64::from_le_bytes(bytes))
            }
            Call::Store { memory, at, value } => {
                let bytes = value.to_le_bytes();
                let store = |memory: &Memory, inside, done, count| {
                    let bytes = &bytes[done..done + count];
                    memory.copy_in(inside, bytes).map_err(fault)?;
                    Ok(true)
                };
                self.pieces(memory, at, 8, store).map(|()| 0)
            }
            Call::Unmap { memory, at, length } => self.unmap(memory, at, length),
            Call::PutPages { into } => match self.regions.get(&into) {
                Some(Region::Got { endpoint, cookie }) => put(*endpoint, *cookie),
                _ => Err(Errno(EINVAL)),
            },
            _ => return None,
        })
    }

    /// Unmaps a part of a mapping, which may be split by that.
    fn unmap(&mut self, slot: u32, at: i64, length: u64) -> Answer {
        let Some(Region::Mapped(parts)) = self.regions.get_mut(&slot) else {
            return Err(Errno(EINVAL));
        };
        let (start, end) = (at as usize, at as usize + length as usize);
        let inside: Vec<usize> = parts
            .iter()
            .filter(|(from, memory)| **from < end && *from + memory.len() > start)
            .map(|(from, _)| *from)
            .collect();
        for from in inside {
            let Some(mut memory) = parts.remove(&from) else {
                continue;
            };
            if from < start {
                let (before, rest) = memory.split(start - from).map_err(|_| Errno(EINVAL))?;
                parts.insert(from, before);
                memory = rest;
            }
            let from = from.max(start);
            if from + memory.len() > end {
                let (gone, behind) = memory.split(end - from).map_err(|_| Errno(EINVAL))?;
                parts.insert(end, behind);
                memory = gone;
            }
            drop(memory);
        }
        Ok(0)
    }
}

/// `scif_mmap`.
pub fn map(endpoint: usize, offset: i64, length: u64, protection: u32) -> Result<Region, Errno> {
    let protection = Rights {
        read: protection & 1 != 0,
        write: protection & 2 != 0,
    };
    let memory = Memory::map_window(endpoint, offset, length as usize, protection);
    Ok(Region::Mapped(BTreeMap::from([(
        0,
        memory.map_err(fault)?,
    )])))
}

fn put(endpoint: usize, cookie: u64) -> Answer {
    let call = Operation::PutPages { cookie };
    operate(endpoint, &call, &mut []).map(|_| 0)
}

fn operate(endpoint: usize, call: &Operation, payload: &mut [u8]) -> Result<usize, Errno> {
    let [first, second] = call.words();
    let metadata = [call.number(), first, second];
    call_rw(endpoint, payload, CallFlags::empty(), &metadata).map_err(|error| Errno(error.errno()))
}

/// `scif_get_pages`, and the first word behind the first address if it can be mapped.
pub fn get_pages(
    endpoint: usize,
    offset: i64,
    length: u64,
    is_remote: bool,
) -> Result<(Region, Reply), Errno> {
    let header_bytes = size_of::<PagesHeader>();
    let mut payload = vec![0; header_bytes + 8 * (length as usize / PAGE)];
    let call = Operation::GetPages {
        remote_offset: offset,
        length,
    };
    let count = operate(endpoint, &call, &mut payload)?;
    let broken = Errno(EIO);
    let (header, addresses) = PagesHeader::read_from_prefix(&payload).map_err(|_| broken)?;
    let mut extra = vec![count as i64, header.protection.get().into()];
    let first = addresses
        .first_chunk()
        .map(|address| u64::from_le_bytes(*address));
    let first = first
        .filter(|address| address.is_multiple_of(PAGE as u64))
        .ok_or(broken)?;
    if is_remote {
        let region = map_physical(first, PAGE, Cache::WriteCombining).map_err(fault)?;
        extra.push(region.read::<u64>(0).map_err(|_| broken)? as i64);
    }
    let cookie = header.cookie.get();
    let reply = Reply {
        result: Ok(0),
        extra,
    };
    Ok((Region::Got { endpoint, cookie }, reply))
}
