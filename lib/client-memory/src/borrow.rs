//! Borrowing pages of another program for as long as they are needed: the daemon's side of
//! [`pin`](crate::pin).
//!
//! A mapping made from a program's address space keeps that whole space alive, and so does a
//! descriptor of it. A daemon must hold neither, or the program's other mappings would stay as
//! long. So pages take a detour. They are mapped into an address space in which nothing runs (the
//! *middle*), from there into the daemon's own, and then unmapped from the middle. What stays are
//! references to the frames and to the middle, which is empty.
//!
//! The thread that drops the last reference to a killed program's address space may have to tear
//! it down, and to wait for the daemons of its mappings. The thread that serves the scheme must
//! therefore never drop such a reference: [`Borrower`] belongs on a thread of its own
//! ([`borrow_thread`](crate::borrow_thread)). Of its references to the space, the descriptor goes
//! last, so that nothing is locked meanwhile.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::{MAP_SHARED, O_CLOEXEC, O_RDWR, PROT_READ, PROT_WRITE};
use scif_abi::flags::Protection;
use syscall::data::GlobalSchemes;
use syscall::error::{EFAULT, EINVAL, EIO, ENOMEM, EPERM, EXDEV, Error, Result};
use syscall::flag::{
    ADDRSPACE_OP_MMAP, ADDRSPACE_OP_MUNMAP, CallFlags, FUTEX_WAKE, MapFlags, SEEK_SET,
};
use syscall::number::{SYS_FUTEX, SYS_LSEEK};

use crate::mappings::{self, Mapping};
use crate::range::Range;
use crate::reachable;
use hal::copy::Side;
use hal::mem::{self, PAGE, Region};

/// Pages that one step borrows. The kernel enters all of them at once.
const PAGES_PER_STEP: usize = 1024;

/// Most mappings that a program may have, because all others wait while they are listed. Linux has
/// the same limit.
const MOST_MAPPINGS: usize = 1 << 16;

/// Address at which the pages of one step are mapped in the middle.
const MIDDLE: usize = 0x1000_0000;

unsafe extern "C" {
    fn redox_write_v1(fd: usize, bytes: *const u8, count: usize) -> usize;
}

/// The files for borrowing. They are opened before the daemon gives up its namespace.
pub struct Borrower {
    translation: Fd,
    physical: Fd,
    pipe: Fd,
    pipe_end: Fd,
    middle: Middle,
    ram: KnownRam,
}

/// The middle: an address space in which nothing runs.
struct Middle(Fd);

/// The pages to borrow from a program.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// First byte in the program's address space; a multiple of the page size.
    pub address: usize,
    /// Bytes; a multiple of the page size.
    pub bytes: usize,
    /// Whether the daemon needs to write them.
    pub writable: bool,
}

/// Physically consecutive frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frames {
    /// Physical address of the first.
    pub physical: u64,
    /// Their number.
    pub pages: u32,
}

/// Pages of another program that are being borrowed.
pub struct Borrowing {
    wanted: Wanted,
    /// Where the daemon maps them.
    place: Place,
    /// The program's mappings when the borrowing began, as far as they have wanted pages.
    mappings: Vec<Mapping>,
    done: usize,
    frames: Vec<Frames>,
    /// The program's address space. Fields are dropped in order: it goes last.
    space: Arc<Fd>,
}

/// Pages of another program, mapped in this daemon, and their places in physical memory.
pub struct Borrowed {
    place: Place,
    frames: Vec<Frames>,
}

/// A range of this daemon's addresses. Dropping it unmaps the range.
struct Place {
    address: usize,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: mapped for this object alone, which gives out no references.
            if let Err(error) = unsafe { munmap(self.address as *mut (), self.bytes) } {
                log::warn!("unmap of {:#x} borrowed bytes failed: {error}", self.bytes);
            }
            reachable::forget(self.address, self.bytes);
        }
    }
}

impl Borrowed {
    /// The pages, by their address in this daemon.
    #[inline]
    pub fn range(&self) -> Range<'_> {
        // SAFETY: the mapping lives as long as the value, and no reference leads there.
        unsafe { Range::new(self.place.address, self.place.bytes) }
    }

    /// The pages as memory of the daemon, and their frames in order.
    pub fn into_region(mut self) -> (Region, Vec<Frames>) {
        let place = core::mem::replace(
            &mut self.place,
            Place {
                address: 0,
                bytes: 0,
            },
        );
        let (address, bytes) = (place.address, place.bytes);
        core::mem::forget(place);
        // SAFETY: the mapping was made for this value alone, and it is forgotten here.
        let region = unsafe { Region::of_mapping(address, bytes, Side::Own) };
        (region, core::mem::take(&mut self.frames))
    }
}

impl Middle {
    /// A new, empty middle; `own` is any address space.
    fn new(own: &Fd) -> Result<Self> {
        Ok(Self(Fd::new(own.dup(b"empty")?)))
    }

    /// Maps `bytes` bytes of `space` from `from` on, `at` bytes behind [`MIDDLE`].
    fn map(&self, space: &Fd, from: usize, at: usize, bytes: usize, writable: bool) -> Result<()> {
        let mut flags = MapFlags::PROT_READ | MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        flags.set(MapFlags::PROT_WRITE, writable);
        let operation = [
            ADDRSPACE_OP_MMAP,
            space.raw(),
            from,
            MIDDLE + at,
            bytes,
            flags.bits(),
        ];
        self.change(&operation).map_err(|error| {
            // The kernel reports a hole as EINVAL and a missing right as EPERM.
            let no_memory = error.errno == ENOMEM;
            Error::new(if no_memory { ENOMEM } else { EFAULT })
        })
    }

    /// Unmaps the first `bytes` bytes at [`MIDDLE`].
    fn unmap(&self, bytes: usize) -> Result<()> {
        self.change(&[ADDRSPACE_OP_MUNMAP, MIDDLE, bytes])
    }

    fn change(&self, words: &[usize]) -> Result<()> {
        let mut bytes = [0; 6 * size_of::<usize>()];
        let bytes = &mut bytes[..size_of_val(words)];
        for (place, word) in bytes.chunks_exact_mut(size_of::<usize>()).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        self.0.write(bytes)?;
        Ok(())
    }

    /// Maps the first `bytes` bytes at [`MIDDLE`] to `here` in this daemon, a range that was
    /// reserved.
    fn map_here(&self, here: usize, bytes: usize, writable: bool) -> Result<()> {
        // SAFETY: the place was reserved for these pages, and nobody uses it.
        unsafe {
            mmap(MmapArgs {
                addr: here as *mut (),
                length: bytes,
                prot: PROT_READ | if writable { PROT_WRITE } else { 0 },
                flags: MAP_SHARED | MapFlags::MAP_FIXED.bits() as u32,
                fd: self.0.raw(),
                offset: MIDDLE as u64,
            })?
        };
        Ok(())
    }
}

impl Borrower {
    /// Opens the kernel's files for borrowing and makes the middle.
    ///
    /// # Errors
    /// `EACCES` for callers other than root; those of the kernel's schemes.
    pub fn new() -> Result<Self> {
        let open = |path| Fd::open(path, O_CLOEXEC, 0);
        let pipe = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
        let pipe_end = Fd::new(pipe.dup(b"write")?);
        Ok(Self {
            translation: open("/scheme/memory/translation")?,
            physical: open("/scheme/memory/physical@wb")?,
            pipe,
            pipe_end,
            middle: Middle::new(&mappings::own_space()?)?,
            ram: KnownRam::default(),
        })
    }

    /// Begins to borrow pages of the program that sent the descriptor `space`.
    ///
    /// # Errors
    /// `EINVAL` when `space` is no address space; `EFAULT` when the range is beyond user space;
    /// `ENOMEM`, also when the program has more than `MOST_MAPPINGS`.
    pub fn begin(&self, space: Arc<Fd>, wanted: Wanted) -> Result<Borrowing> {
        // `space` may be any descriptor, even of a scheme that never answers, which would keep all
        // others waiting. Only the kernel can tell whether it belongs to the same scheme as the
        // middle.
        let both = [self.middle.0.raw(), space.raw()];
        let compared = libredox::call::call_rw(both.as_slice(), &mut [], CallFlags::empty(), &[]);
        if compared.is_err_and(|error| error.errno() == EXDEV) {
            return Err(Error::new(EINVAL));
        }
        // A kernel that does not compare them at least fills in the device number of its own
        // schemes.
        let status = space.stat().map_err(|_| Error::new(EINVAL))?;
        if status.st_dev != GlobalSchemes::Proc as u64 {
            return Err(Error::new(EINVAL));
        }
        let end = wanted.address.checked_add(wanted.bytes);
        if end.is_none_or(|end| end > USER_END) {
            return Err(Error::new(EFAULT));
        }
        // The program may change its mappings at any time, so this proves nothing. But the kernel
        // borrows private memory with any rights, and it borrows one mapping at a time.
        rewind(&space)?;
        let mappings = mappings::mappings(&space, MOST_MAPPINGS);
        let mappings = mappings.map_err(|error| match error.errno {
            ENOMEM => error,
            _ => Error::new(EFAULT),
        })?;
        let mut protection = Protection::READ;
        protection.set(Protection::WRITE, wanted.writable);
        mappings::check(&mappings, wanted.address, wanted.bytes, protection)?;
        // A list of all mappings would take more memory than the user's limit has pages.
        let mappings = mappings::within(&mappings, wanted.address, wanted.bytes);
        Ok(Borrowing {
            space,
            wanted,
            place: Place {
                address: mem::reserve_addresses(wanted.bytes)?,
                bytes: wanted.bytes,
            },
            mappings,
            done: 0,
            frames: Vec::new(),
        })
    }

    /// Borrows some more pages. After an error, drop the borrowing.
    ///
    /// # Errors
    /// `EFAULT` when a page is not mapped there, lacks the rights that are needed, or is no
    /// ordinary memory; `ENOMEM`.
    pub fn step(&mut self, borrowing: &mut Borrowing) -> Result<()> {
        let wanted = borrowing.wanted;
        let bytes = (wanted.bytes - borrowing.done).min(PAGES_PER_STEP * PAGE);
        let from = wanted.address + borrowing.done;
        let here = borrowing.place.address + borrowing.done;
        let (space, writable) = (&borrowing.space, wanted.writable);
        let parts = mappings::parts(&borrowing.mappings, from, bytes);
        let mut mapped = Ok(());
        for (start, end, _) in parts {
            mapped = self
                .middle
                .map(space, start, start - from, end - start, writable);
            if mapped.is_err() {
                break;
            }
        }
        let borrowed = mapped.and_then(|()| self.middle.map_here(here, bytes, writable));
        let frames = &mut borrowing.frames;
        let borrowed = borrowed.and_then(|()| self.look_up(here, bytes, writable, frames));
        // Unmap in any case: the next step needs the addresses.
        self.middle.unmap(bytes)?;
        borrowed?;
        borrowing.done += bytes;
        Ok(())
    }

    /// Finds the frames of pages that were mapped at `here`.
    fn look_up(
        &mut self,
        here: usize,
        bytes: usize,
        writable: bool,
        frames: &mut Vec<Frames>,
    ) -> Result<()> {
        for address in (here..here + bytes).step_by(PAGE) {
            let frame = match self.translate(address) {
                Some(frame) => frame,
                None => {
                    self.touch(address)?;
                    if writable {
                        make_writable(address)?;
                    }
                    self.translate(address).ok_or(Error::new(EFAULT))?
                }
            };
            if !self.ram.holds(frame) {
                self.check_ram(address, frame)?;
                self.ram.add(frame);
            }
            append(frames, frame);
        }
        Ok(())
    }

    /// The physical address of a page that is present.
    fn translate(&self, address: usize) -> Option<u64> {
        let mut word = address.to_ne_bytes();
        let flags = CallFlags::empty();
        self.translation.call_rw(&mut word, flags, &[]).ok()?;
        Some(usize::from_ne_bytes(word) as u64 & !(PAGE as u64 - 1))
    }

    /// Makes a page present by having the kernel read it. Where nothing is mapped any more (the
    /// program may change its mappings at any time) the kernel reports an error; a load of our own
    /// would end this daemon.
    fn touch(&self, address: usize) -> Result<()> {
        // SAFETY: the kernel reads the byte, or refuses; no reference is made.
        let raw = unsafe { redox_write_v1(self.pipe_end.raw(), address as *const u8, 1) };
        if let Err(error) = libredox::error::Error::demux(raw) {
            let no_memory = error.errno() == ENOMEM;
            return Err(Error::new(if no_memory { ENOMEM } else { EFAULT }));
        }
        match self.pipe.read(&mut [0])? {
            1 => Ok(()),
            _ => Err(Error::new(EIO)),
        }
    }

    /// Checks that a frame is ordinary memory, by asking the kernel to map it by physical address:
    /// it allows that for device memory only.
    fn check_ram(&self, address: usize, frame: u64) -> Result<()> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let mapped = unsafe {
            mmap(MmapArgs {
                addr: core::ptr::null_mut(),
                length: PAGE,
                prot: PROT_READ,
                flags: MAP_SHARED,
                fd: self.physical.raw(),
                offset: frame,
            })
        };
        match mapped {
            Ok(device) => {
                // SAFETY: mapped just now and used by nobody.
                unsafe { munmap(device, PAGE) }?;
                log::warn!("the page at {address:#x} is no ordinary memory");
                Err(Error::new(EFAULT))
            }
            Err(error) if error.errno() == EPERM => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Borrowing {
    /// Whether all pages have been borrowed.
    pub fn is_complete(&self) -> bool {
        self.done == self.wanted.bytes
    }

    /// The pages, once all have been borrowed. Releases the program's address space.
    pub fn finish(self) -> Borrowed {
        Borrowed {
            place: self.place,
            frames: self.frames,
        }
    }
}

/// Joins pieces of this daemon's own address space into one range, by the same detour.
pub struct Joiner {
    own: Fd,
    middle: Middle,
}

impl Joiner {
    /// Opens the daemon's own address space and makes a middle.
    ///
    /// # Errors
    /// Those of the kernel's scheme.
    pub fn new() -> Result<Self> {
        let own = mappings::own_space()?;
        let middle = Middle::new(&own)?;
        Ok(Self { own, middle })
    }

    /// Maps the pages of `parts` (whole pages) one after the other. They are memory of a device,
    /// which outlives its mapping. Reads a byte of each page.
    ///
    /// # Errors
    /// `EINVAL` for incomplete pages and for no pages; `ENOMEM`.
    pub fn join(&self, parts: &[Region]) -> Result<Region> {
        let mut bytes = 0;
        let mut mapped = Ok(());
        for part in parts {
            // The kernel borrows only pages that are present, and brings in a page of a device
            // when it is touched.
            for offset in (0..part.len()).step_by(PAGE) {
                part.read::<u8>(offset)?;
            }
            mapped = self
                .middle
                .map(&self.own, part.address(), bytes, part.len(), true);
            if mapped.is_err() {
                break;
            }
            bytes += part.len();
        }
        let joined = mapped.and_then(|()| {
            let place = Place {
                address: mem::reserve_addresses(bytes)?,
                bytes,
            };
            self.middle.map_here(place.address, bytes, true)?;
            Ok(place)
        });
        // Unmap in any case: the next call needs the addresses.
        if bytes > 0 {
            self.middle.unmap(bytes)?;
        }
        let place = joined?;
        let address = place.address;
        core::mem::forget(place);
        // SAFETY: the mapping was made above, for nobody else.
        Ok(unsafe { Region::of_mapping(address, bytes, Side::Aperture) })
    }
}

/// Has the kernel prepare a page for a store, as it does for the word of a futex. `EFAULT` where
/// the program has borrowed the page itself and may not write it: this daemon's first store would
/// end the daemon. Redox's kernel prepares the page for a load only.
fn make_writable(address: usize) -> Result<()> {
    // SAFETY: no thread waits at the address, and none is woken; no reference is made.
    unsafe { syscall::syscall5(SYS_FUTEX, address, FUTEX_WAKE, 0, 0, 0) }?;
    Ok(())
}

/// Sets the position of a descriptor to its beginning, from which mappings are listed.
fn rewind(file: &Fd) -> Result<()> {
    // SAFETY: the call accesses no memory.
    unsafe { syscall::syscall3(SYS_LSEEK, file.raw(), 0, SEEK_SET) }?;
    Ok(())
}

/// End of the lower half of the address space, which belongs to programs.
const USER_END: usize = 1 << 47;

/// Appends a frame: to the last run if it continues that run.
fn append(frames: &mut Vec<Frames>, physical: u64) {
    if let Some(last) = frames.last_mut()
        && last.physical + u64::from(last.pages) * PAGE as u64 == physical
        && let Some(pages) = last.pages.checked_add(1)
    {
        last.pages = pages;
        return;
    }
    frames.push(Frames { physical, pages: 1 });
}

/// Frames that are known to be ordinary memory, which they stay for ever.
#[derive(Debug, Default)]
struct KnownRam {
    /// End of each range by its start; ranges that touch are merged.
    ranges: BTreeMap<u64, u64>,
}

impl KnownRam {
    fn holds(&self, frame: u64) -> bool {
        let range = self.ranges.range(..=frame).next_back();
        range.is_some_and(|(_, end)| frame < *end)
    }

    /// Adds a frame that is not known yet.
    fn add(&mut self, frame: u64) {
        let (mut start, mut end) = (frame, frame + PAGE as u64);
        if let Some(behind) = self.ranges.remove(&end) {
            end = behind;
        }
        if let Some((&before, &its_end)) = self.ranges.range(..frame).next_back()
            && its_end == frame
        {
            start = before;
        }
        self.ranges.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = super::PAGE as u64;

    #[test]
    fn frames_that_follow_each_other_are_one_run() {
        let mut frames = Vec::new();
        for frame in [7, 8, 9, 3, 2, 3, 4] {
            append(&mut frames, frame * PAGE);
        }
        let run = |first: u64, pages| Frames {
            physical: first * PAGE,
            pages,
        };
        assert_eq!(frames, [run(7, 3), run(3, 1), run(2, 3)]);
    }

    #[test]
    fn known_frames_are_kept_as_ranges() {
        let mut ram = KnownRam::default();
        for frame in [5, 3, 9, 4, 0, 8] {
            assert!(!ram.holds(frame * PAGE));
            ram.add(frame * PAGE);
        }
        let held: Vec<u64> = (0..12).filter(|frame| ram.holds(frame * PAGE)).collect();
        assert_eq!(held, [0, 3, 4, 5, 8, 9]);
        let ranges: Vec<(u64, u64)> = ram
            .ranges
            .iter()
            .map(|(s, e)| (s / PAGE, e / PAGE))
            .collect();
        assert_eq!(ranges, [(0, 1), (3, 6), (8, 10)]);
    }

    #[test]
    fn known_frames_are_those_of_a_plain_array() {
        let mut state = 9_u64;
        let mut ram = KnownRam::default();
        let mut known = [false; 256];
        for _ in 0..2000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let frame = (state >> 40) % 256;
            assert_eq!(ram.holds(frame * PAGE), known[frame as usize]);
            if !known[frame as usize] {
                ram.add(frame * PAGE);
                known[frame as usize] = true;
            }
        }
    }
}
