//! System calls on the caller's address space.

use ::syscall::{
    MapFlags, MremapFlags,
    data::Map,
    error::{EINVAL, EOPNOTSUPP, Error, Result},
};

use crate::mm::UserBuf;
use crate::{
    mm::{
        PAGE_SIZE,
        space::{Placement, check_range},
    },
    proc, sched,
    scheme::{self, map_anonymous, notify_unmapped, prot},
};

pub fn fmap(fd: usize, map: UserBuf) -> Result<usize> {
    let mut request = Map::default();
    map.read_exact(&mut request)?;
    let space = sched::current_space()?;
    if fd == usize::MAX {
        return map_anonymous(&space, &request);
    }
    let file = proc::file(fd)?;
    scheme::get(file.scheme())?.mmap(&file, &space, &request, false)
}

pub fn funmap(address: usize, len: usize) -> Result<usize> {
    let size = len
        .checked_next_multiple_of(PAGE_SIZE)
        .ok_or(Error::new(EINVAL))?;
    notify_unmapped(sched::current_space()?.unmap(address, size)?);
    Ok(0)
}

pub fn mprotect(address: usize, size: usize, flags: usize) -> Result<usize> {
    check_range(address, size)?;
    let rights = prot(MapFlags::from_bits_truncate(flags))?;
    sched::current_space()?
        .protect(address, size, rights)
        .map(|()| 0)
}

pub fn mremap(
    old: usize,
    old_size: usize,
    new: usize,
    new_size: usize,
    flags_word: usize,
) -> Result<usize> {
    let aligned = |value: usize| value.is_multiple_of(PAGE_SIZE);
    if !aligned(new) || !aligned(new_size) || new_size == 0 {
        return Err(Error::new(EINVAL));
    }
    check_range(old, old_size)?;
    let flags = MremapFlags::from_bits_truncate(flags_word);
    let place = if flags.contains(MremapFlags::FIXED_REPLACE) {
        Placement::Fixed(new)
    } else if flags.contains(MremapFlags::FIXED) {
        Placement::FixedNoReplace(new)
    } else {
        Placement::Any
    };
    let rights = prot(MapFlags::from_bits_truncate(flags_word))?;
    let space = sched::current_space()?;
    let (address, replaced) = if flags.contains(MremapFlags::KEEP_OLD) {
        if new_size != PAGE_SIZE {
            return Err(Error::new(EOPNOTSUPP));
        }
        // A page that is borrowed from its own space is visible at both addresses.
        space.borrow(&space, old, PAGE_SIZE, place, rights, false)?
    } else {
        space.remap(old, old_size, place, new_size, rights)?
    };
    notify_unmapped(replaced);
    Ok(address)
}
