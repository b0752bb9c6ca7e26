//! All memory of the node, and single pages of it.

use guest_tests::kernel_count;
use libredox::Fd;
use runtime::{Result, fd, path, probe, sys};
use syscall::flag::{CLOCK_MONOTONIC, MapFlags, MremapFlags};

/// Bytes of a page.
pub const PAGE: usize = hal::mem::PAGE;
/// Bytes of the largest buffer whose pages are handed to a daemon at once.
pub const BUFFER: usize = 16 << 20;
/// One of so many pages is given back to leave single frames.
const SINGLE: usize = 32;
/// A physical address far above all memory and devices.
const NOTHING_THERE: usize = 1 << 38;

/// A system call with three words.
pub fn system(number: usize, words: [usize; 3]) -> Result<usize> {
    let [a, b, c] = words;
    sys::demux(probe::syscall(number, [a, b, c, 0, 0, 0]))
}

/// A pipe: the end to read from and the end to write to.
pub fn pipe() -> Result<(Fd, Fd)> {
    let read = Fd::new(path::open("/scheme/pipe", syscall::O_RDWR)?);
    let write = Fd::new(fd::dup(read.raw(), b"write")?);
    Ok((read, write))
}

/// Reserves pages, which are there once they are touched.
pub fn map(pages: usize) -> Result<usize> {
    map_file(sys::NO_FD, 0, pages, MapFlags::MAP_PRIVATE)
}

/// [`map`] for memory that a copy of the address space shares: areas of it stay apart.
pub fn map_shared(pages: usize) -> Result<usize> {
    map_file(sys::NO_FD, 0, pages, MapFlags::MAP_SHARED)
}

/// Maps pages of a file.
pub fn map_file(file: usize, offset: usize, pages: usize, kind: MapFlags) -> Result<usize> {
    map_at(file, offset, pages, kind, 0)
}

/// Maps the first pages of a file in place of what is at an address.
pub fn map_over(file: usize, at: usize, pages: usize) -> Result<usize> {
    map_at(
        file,
        0,
        pages,
        MapFlags::MAP_SHARED | MapFlags::MAP_FIXED,
        at,
    )
}

/// Moves a page to where another mapping is.
pub fn move_page(from: usize, to: usize) -> Result<usize> {
    let rights = MapFlags::PROT_READ | MapFlags::PROT_WRITE;
    let flags = MremapFlags::FIXED_REPLACE.bits() | rights.bits();
    let words = [from, PAGE, to, PAGE, flags, 0];
    sys::demux(probe::syscall(syscall::SYS_MREMAP, words))
}

fn map_at(
    file: usize,
    offset: usize,
    pages: usize,
    kind: MapFlags,
    address: usize,
) -> Result<usize> {
    let map = syscall::Map {
        offset,
        size: pages * PAGE,
        flags: MapFlags::PROT_READ | MapFlags::PROT_WRITE | kind,
        address,
    };
    let record = [file, (&raw const map).addr(), size_of_val(&map)];
    system(syscall::SYS_FMAP, record)
}

/// Maps pages of physical addresses at which nothing is. They are all there, and none of them is
/// memory.
pub fn map_device(pages: usize) -> Result<usize> {
    let physical = Fd::new(path::open("/scheme/memory/physical@uc", syscall::O_RDWR)?);
    let base = map_file(physical.raw(), NOTHING_THERE, pages, MapFlags::MAP_PRIVATE)?;
    for page in 0..pages {
        // This brings them in, although it cannot store there.
        let _ = touch(base + page * PAGE);
    }
    Ok(base)
}

/// Unmaps pages.
pub fn unmap(at: usize, pages: usize) -> Result<usize> {
    system(syscall::SYS_FUNMAP, [at, pages * PAGE, 0])
}

/// Has the kernel touch a page for us, which is refused with an error: our own store would end us.
pub fn touch(at: usize) -> Result<usize> {
    system(syscall::SYS_CLOCK_GETTIME, [CLOCK_MONOTONIC, at, 0])
}

/// All memory but the kernel's, in one area.
pub struct All {
    /// Address of the area.
    pub base: usize,
    /// Pages that are there.
    pub pages: usize,
}

impl All {
    /// Takes it.
    pub fn take() -> Result<Self> {
        let most = kernel_count("frames_total").unwrap_or(0) as usize;
        let base = map(most)?;
        let is_there = |page: &usize| touch(base + page * PAGE).is_ok();
        let pages = (0..most).take_while(is_there).count();
        Ok(Self { base, pages })
    }

    /// Gives pages back.
    pub fn give(&mut self, first: usize, count: usize) -> Result<usize> {
        unmap(self.base + first * PAGE, count)
    }

    /// Gives the last pages back.
    pub fn give_last(&mut self, count: usize) -> Result<usize> {
        self.pages -= count;
        self.give(self.pages, count)
    }

    /// Gives single pages back behind those of the buffer.
    pub fn give_single(&mut self) -> Result<()> {
        let all = BUFFER / PAGE + SINGLE..self.pages;
        all.step_by(SINGLE)
            .try_for_each(|page| self.give(page, 1).map(drop))
    }
}
