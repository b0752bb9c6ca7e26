//! `memory`: new memory, device memory by physical address, address translation.

use alloc::{string::String, sync::Arc};

use ::syscall::{
    CallFlags, MapFlags,
    data::{Map, StatVfs},
    error::{EACCES, EBADF, EINVAL, ENOENT, EOPNOTSUPP, Error, Result},
};
use kernel_core::memory_path::{self, Kind, MemoryPath, Options};

use super::{Caller, OpenResult, Scheme, handles::ROOT, notify_unmapped, placement, prot};
use crate::{
    mm::{
        PAGE_SIZE, UserBuf, frame,
        space::{AddrSpace, Anonymous, Cache},
    },
    object::Description,
    sched,
};

pub struct MemoryScheme;

fn handle(number: usize) -> Result<MemoryPath> {
    MemoryPath::from_number(number).ok_or(Error::new(EBADF))
}

fn cache(cache: memory_path::Cache) -> Cache {
    match cache {
        memory_path::Cache::WriteBack => Cache::WriteBack,
        memory_path::Cache::WriteCombining => Cache::WriteCombining,
        memory_path::Cache::Uncacheable | memory_path::Cache::Device => Cache::Uncached,
    }
}

/// Maps plain zeroed memory into `space`.
pub fn map_anonymous(space: &AddrSpace, map: &Map) -> Result<usize> {
    let shared = map.flags.contains(MapFlags::MAP_SHARED);
    let kind = if shared {
        Anonymous::Shared
    } else {
        Anonymous::Private
    };
    let (address, replaced) =
        space.map_anonymous(placement(map), map.size, prot(map.flags)?, kind)?;
    notify_unmapped(replaced);
    Ok(address)
}

fn map_contiguous(space: &AddrSpace, map: &Map, path: MemoryPath) -> Result<usize> {
    if map.flags.contains(MapFlags::MAP_SHARED) {
        return Err(Error::new(EOPNOTSUPP));
    }
    let (address, replaced) = space.map_contiguous(
        placement(map),
        map.size,
        prot(map.flags)?,
        cache(path.cache),
    )?;
    notify_unmapped(replaced);
    Ok(address)
}

impl Scheme for MemoryScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        if number != ROOT {
            return Err(Error::new(EACCES));
        }
        if path.trim_start_matches('/') == "scheme-root" {
            return OpenResult::plain(ROOT);
        }
        let path = MemoryPath::parse(path).ok_or(Error::new(ENOENT))?;
        if caller.uid != 0 && !path.is_unprivileged() {
            return Err(Error::new(EACCES));
        }
        OpenResult::plain(path.to_number())
    }

    fn call(
        &self,
        numbers: &[usize],
        payload: UserBuf,
        _flags: CallFlags,
        _metadata: &[u64],
    ) -> Result<usize> {
        let &[number] = numbers else {
            return Err(Error::new(EINVAL));
        };
        if handle(number)?.kind != Kind::Translation {
            return Err(Error::new(EOPNOTSUPP));
        }
        let address = payload.word(0)?;
        let frame = sched::current_space()?
            .translate(address)
            .ok_or(Error::new(ENOENT))?;
        // The answer goes into the payload: as a result, a physical address could look like an
        // error number.
        payload.write_word(frame)?;
        Ok(0)
    }

    fn mmap(
        &self,
        file: &Arc<Description>,
        space: &Arc<AddrSpace>,
        map: &Map,
        _transfer: bool,
    ) -> Result<usize> {
        let path = handle(file.number())?;
        match path.kind {
            Kind::Zeroed if path.options.contains(Options::PHYS_CONTIGUOUS) => {
                map_contiguous(space, map, path)
            }
            Kind::Zeroed => map_anonymous(space, map),
            // As on Redox, device memory is mapped into the caller's own space, wherever there is
            // room, whatever the request asks for.
            Kind::Physical => sched::current_space()?.map_physical(
                map.offset,
                map.size,
                prot(map.flags)?,
                cache(path.cache),
            ),
            Kind::Translation => Err(Error::new(EOPNOTSUPP)),
        }
    }

    fn path(&self, _number: usize) -> Result<String> {
        Ok(String::from("/scheme/memory/"))
    }

    fn statvfs(&self, _number: usize) -> Result<StatVfs> {
        let stats = frame::stats();
        Ok(StatVfs {
            f_bsize: PAGE_SIZE as u32,
            f_blocks: stats.total as u64,
            f_bfree: stats.free as u64,
            f_bavail: stats.free as u64,
        })
    }
}
