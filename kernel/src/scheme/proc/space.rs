//! Handles of address spaces: list, change, borrow from, copy and enter them.

use alloc::sync::Arc;

use ::syscall::{
    MapFlags,
    data::{GrantDesc, Map},
    error::{EBADF, EBUSY, EFAULT, EINVAL, EOPNOTSUPP, Error, Result},
    flag::{
        ADDRSPACE_OP_MMAP, ADDRSPACE_OP_MPROTECT, ADDRSPACE_OP_MUNMAP, ADDRSPACE_OP_TRANSFER,
        NumaVerb,
    },
};

use super::{Kind, NewSpace, handle_of_fd, open, set_kind};
use crate::{
    mm::{
        PAGE_SIZE, USER_END, UserBuf,
        space::{AddrSpace, SpaceHandle},
    },
    object::Description,
    proc,
    sched::{Context, ContextRef, futex},
    scheme::{self, OpenResult, map_anonymous, notify_unmapped, placement, prot},
};

const GRANT_SIZE: usize = size_of::<GrantDesc>();

/// Most mappings that one read lists: a page of records.
const MAX_LISTED: usize = PAGE_SIZE / GRANT_SIZE;

/// Opens a part of an address space by name.
pub fn open_part(context: ContextRef, space: &Arc<AddrSpace>, name: &str) -> Result<OpenResult> {
    let kind = match name {
        "empty" => Kind::AddrSpace(SpaceHandle::new(AddrSpace::new()?)),
        "exclusive" => {
            let copy = space.clone_cow(futex::is_waited_for)?;
            Kind::AddrSpace(SpaceHandle::new(copy))
        }
        "mmap-min-addr" => Kind::MmapMinAddr(space.clone()),
        _ => {
            let address = name.strip_prefix("grant-fd-").ok_or(Error::new(EINVAL))?;
            return grant_file(space, address);
        }
    };
    open(context, kind)
}

/// The description behind the scheme mapping at a hexadecimal address.
fn grant_file(space: &AddrSpace, address: &str) -> Result<OpenResult> {
    let address = usize::from_str_radix(address, 16).map_err(|_| Error::new(EINVAL))?;
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Error::new(EINVAL));
    }
    let grant = space.scheme_grant_at(address).ok_or(Error::new(EBADF))?;
    let file = grant
        .description()
        .clone()
        .downcast::<Description>()
        .map_err(|_| Error::new(EBADF))?;
    Ok(OpenResult::External(file))
}

/// Stores the mappings from position `offset` on.
pub fn list(space: &AddrSpace, buf: UserBuf, offset: u64) -> Result<usize> {
    let Ok(offset) = usize::try_from(offset) else {
        return Ok(0);
    };
    let grants = space.grants(offset / GRANT_SIZE, MAX_LISTED);
    let mut stored = 0;
    for (grant, chunk) in grants.iter().zip(buf.chunks(GRANT_SIZE)) {
        chunk.write_all(grant)?;
        stored += GRANT_SIZE;
    }
    Ok(stored)
}

/// Checks the range of a change record: `EINVAL` unless it is whole pages, `EFAULT` beyond user
/// space.
fn check_range(address: usize, size: usize) -> Result<()> {
    if !address.is_multiple_of(PAGE_SIZE) || !size.is_multiple_of(PAGE_SIZE) || size == 0 {
        return Err(Error::new(EINVAL));
    }
    match address.checked_add(size) {
        Some(end) if end <= USER_END => Ok(()),
        _ => Err(Error::new(EFAULT)),
    }
}

/// Handles one record written to an address space handle. Mapping returns the address; other
/// operations return the bytes of their record.
pub fn change(space: &Arc<AddrSpace>, buf: UserBuf) -> Result<usize> {
    let record_size = |words: usize| words * size_of::<usize>();
    match buf.word(0)? {
        op @ (ADDRSPACE_OP_MMAP | ADDRSPACE_OP_TRANSFER) => {
            let (fd, offset) = (buf.word(1)?, buf.word(2)?);
            let (address, size) = (buf.word(3)?, buf.word(4)?);
            check_range(address, size)?;
            let flags = MapFlags::from_bits(buf.word(5)?).ok_or(Error::new(EINVAL))?;
            let map = Map {
                offset,
                size,
                flags,
                address,
            };
            map_into(space, fd, &map, op == ADDRSPACE_OP_TRANSFER)
        }
        ADDRSPACE_OP_MUNMAP => {
            let (address, size) = (buf.word(1)?, buf.word(2)?);
            check_range(address, size)?;
            notify_unmapped(space.unmap(address, size)?);
            Ok(record_size(3))
        }
        ADDRSPACE_OP_MPROTECT => {
            let (address, size) = (buf.word(1)?, buf.word(2)?);
            check_range(address, size)?;
            let flags = MapFlags::from_bits(buf.word(3)?).ok_or(Error::new(EINVAL))?;
            space.protect(address, size, prot(flags)?)?;
            Ok(record_size(4))
        }
        _ => Err(Error::new(EINVAL)),
    }
}

fn map_into(space: &Arc<AddrSpace>, fd: usize, map: &Map, transfer: bool) -> Result<usize> {
    if fd == usize::MAX {
        return if transfer {
            Err(Error::new(EOPNOTSUPP))
        } else {
            map_anonymous(space, map)
        };
    }
    let file = proc::file(fd)?;
    scheme::get(file.scheme())?.mmap(&file, space, map, transfer)
}

/// Maps a range of one address space into another: borrowed, or moved. The offset is the address
/// in the source.
pub fn map_from(
    source: &Arc<AddrSpace>,
    space: &Arc<AddrSpace>,
    map: &Map,
    transfer: bool,
) -> Result<usize> {
    if Arc::ptr_eq(source, space) {
        return Err(Error::new(EBUSY));
    }
    check_range(map.address, map.size)?;
    if !map.offset.is_multiple_of(PAGE_SIZE) {
        return Err(Error::new(EINVAL));
    }
    let (place, rights) = (placement(map), prot(map.flags)?);
    let (address, replaced) = if transfer {
        space.transfer(source, map.offset, map.size, place, rights)?
    } else {
        space.borrow(source, map.offset, map.size, place, rights, false)?
    };
    notify_unmapped(replaced);
    Ok(address)
}

/// Writes to `current-addrspace`: descriptor of an address space, stack pointer, instruction
/// pointer and optionally an argument. They take effect once the handle is closed.
pub fn choose(number: usize, buf: UserBuf) -> Result<usize> {
    let (fd, sp, ip) = (buf.word(0)?, buf.word(1)?, buf.word(2)?);
    let argument = buf.optional_word(3)?;
    let Kind::AddrSpace(space) = handle_of_fd(fd)?.kind else {
        return Err(Error::new(EBADF));
    };
    let new = NewSpace {
        space,
        sp,
        ip,
        argument: argument.unwrap_or(0),
    };
    set_kind(number, Kind::AwaitingAddrSpace(new))?;
    let words = if argument.is_some() { 4 } else { 3 };
    Ok(words * size_of::<usize>())
}

/// Moves a context into a chosen address space. Must not block.
pub fn enter(context: &Context, new: NewSpace) {
    // An instruction pointer outside user space leaves the context as it was: closing a handle
    // cannot report an error.
    if context.set_entry(new.ip, new.sp, new.argument).is_ok() {
        context.set_space(Some((*new.space).clone()));
    }
}

/// Stores the lowest address that the kernel chooses.
pub fn read_min_address(space: &AddrSpace, buf: UserBuf) -> Result<usize> {
    buf.write_word(space.min_address())?;
    Ok(size_of::<usize>())
}

/// Sets the lowest address that the kernel chooses.
pub fn write_min_address(space: &AddrSpace, buf: UserBuf) -> Result<usize> {
    let address = buf.word(0)?;
    if !address.is_multiple_of(PAGE_SIZE) || address > USER_END {
        return Err(Error::new(EINVAL));
    }
    space.set_min_address(address);
    Ok(size_of::<usize>())
}

/// Memory policies of address spaces exist only on NUMA machines, which are not supported.
pub fn call(metadata: &[u64]) -> Result<usize> {
    let verb = metadata
        .first()
        .and_then(|&verb| NumaVerb::try_from_raw(verb));
    Err(Error::new(if verb.is_some() { EOPNOTSUPP } else { EINVAL }))
}
