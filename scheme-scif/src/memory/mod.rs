//! Memory objects: the pages that windows are made of, each behind a memory handle (path `memory`,
//! or `dup(endpoint, "memory")`); and what else of this task's memory programs have mapped.
//!
//! A program has the daemon *provide* pages and maps them, or *pins* pages of its own, which stay
//! where they are: it sends the descriptor of its address space over the handle and says which.
//! Both come into being step by step, because clearing or looking up many pages takes time. From
//! then on the object is a list of physical runs behind one range of addresses, known by its token.
//!
//! An object lives while its maker holds it, while the engine uses it (a window or a transfer of
//! its pages), and while pages of it are mapped as pages of a window. The maker holds it by the
//! open file, so that it lasts as long as the last mapping. Once its maker has released it, an
//! object is no longer found by its token.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::call::PinRecord;
use scif_abi::flags::Protection;
use scif_core::{Pages, PinId, Run};
use syscall::error::{EACCES, EAGAIN, EFAULT, EINVAL, ENXIO, Error, Result};

use crate::access::Caller;
use crate::handle::ranges::Ranges;
use crate::ids::HandleId;
use crate::node_memory::{JoinId, NodeMemory, ObjectMemory, PAGE, Progress, Token, View};

/// The bits of a token. It is the result of calls, where a negative number is an error, and so is
/// one whose lower half is (`syscall::Error::demux`).
const TOKEN_BITS: u64 = !(1 << 63 | 1 << 31);

/// A memory object.
pub(crate) struct MemoryObject {
    /// The user that may use it, beside root, and whose limit it counts against.
    owner: u32,
    /// The process that made it.
    process: usize,
    pages: u64,
    /// Its pages, once it is complete.
    runs: Option<Vec<Run>>,
    /// A program's own pages, which are mapped there and not from here.
    is_pinned: bool,
    /// Whether windows of it may be written.
    is_writable: bool,
    is_charged: bool,
    is_held: bool,
    uses: u32,
    /// Pages of it that are mapped as pages of windows; each as often as it is mapped.
    viewed: u64,
    /// The parts of it that programs have mapped.
    mapped: Ranges<()>,
}

impl MemoryObject {
    /// A complete object of a program's own pages: one that the file `pins` shows.
    pub fn is_pinned(&self) -> bool {
        self.is_pinned && self.runs.is_some()
    }

    /// The user it counts against.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The process that made it.
    pub fn process(&self) -> usize {
        self.process
    }

    /// Its pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Windows and transfers of it.
    pub fn uses(&self) -> u32 {
        self.uses
    }

    /// The parts of it that programs have mapped.
    pub fn mapped(&self) -> &Ranges<()> {
        &self.mapped
    }
}

/// An object that is not complete.
struct Building<R> {
    maker: Maker<R>,
    /// Whether there is nothing to do but wait.
    is_pending: bool,
}

/// The way in which an object is made.
pub(crate) enum Source<S> {
    /// Of this number of zeroed pages.
    Provided(u64),
    /// Of pages of the program behind an address space.
    Pinned(S, PinRecord),
}

/// The handle and the request that make an object.
pub(crate) type Maker<R> = (HandleId, R);

/// All memory objects. `S` is a program's address space.
pub(crate) struct MemoryObjects<R, S> {
    objects: BTreeMap<Token, MemoryObject>,
    /// Objects that are not complete.
    building: BTreeMap<Token, Building<R>>,
    /// Address spaces that programs sent over memory handles, until they say what to pin.
    spaces: BTreeMap<HandleId, S>,
    /// The number of mapped pages of each range that was made of pieces.
    joins: BTreeMap<JoinId, u64>,
    /// Pages of objects by the user they count against.
    usage: BTreeMap<u32, u64>,
}

impl<R, S> Default for MemoryObjects<R, S> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            building: BTreeMap::new(),
            spaces: BTreeMap::new(),
            joins: BTreeMap::new(),
            usage: BTreeMap::new(),
        }
    }
}

/// Making and releasing of objects.
impl<R: Copy, S> MemoryObjects<R, S> {
    /// A program has sent an address space over a handle; returns the one it sent before.
    pub fn put_space(&mut self, id: HandleId, space: S) -> Option<S> {
        self.spaces.insert(id, space)
    }

    /// The address space that was sent over a handle.
    pub fn take_space(&mut self, id: HandleId) -> Option<S> {
        self.spaces.remove(&id)
    }

    /// Begins an object, by a request on a handle that `caller` opened; [`build`](Self::build)
    /// completes it. `limit` is that of pages of a user.
    ///
    /// # Errors
    /// `EINVAL`: no pages, or too many to count; `EAGAIN` at the limit; those of the memory.
    pub fn begin(
        &mut self,
        memory: &mut impl NodeMemory<Space = S>,
        maker: Maker<R>,
        caller: Caller,
        source: Source<S>,
        limit: u64,
    ) -> Result<Token> {
        let (pages, is_pinned, is_charged, is_writable) = match &source {
            Source::Provided(pages) => (*pages, false, true, true),
            Source::Pinned(_, record) => {
                let protection = Protection::from_bits_truncate(record.protection.get());
                let is_writable = protection.contains(Protection::WRITE);
                let is_charged = record.flags.get() & PinRecord::UNCHARGED == 0;
                (record.length.get() / PAGE, true, is_charged, is_writable)
            }
        };
        if pages == 0 || pages.checked_mul(PAGE).is_none() {
            return Err(Error::new(EINVAL));
        }
        if is_charged && let Err(error) = self.charge(caller.uid, pages, limit) {
            if let Source::Pinned(space, _) = source {
                memory.release_space(space);
            }
            return Err(error);
        }
        let token = self.new_token(memory);
        let begun = match source {
            Source::Provided(pages) => memory.provide(token, pages),
            Source::Pinned(space, record) => memory.pin(token, space, &record),
        };
        if let Err(error) = begun {
            if is_charged {
                self.discharge(caller.uid, pages);
            }
            return Err(error);
        }
        let object = MemoryObject {
            owner: caller.uid,
            process: caller.pid,
            pages,
            runs: None,
            is_pinned,
            is_writable,
            is_charged,
            is_held: true,
            uses: 0,
            viewed: 0,
            mapped: Ranges::default(),
        };
        self.objects.insert(token, object);
        let building = Building {
            maker,
            is_pending: false,
        };
        self.building.insert(token, building);
        Ok(token)
    }

    /// A token that no object has.
    fn new_token(&mut self, memory: &mut impl NodeMemory) -> Token {
        loop {
            let token = memory.random() & TOKEN_BITS;
            if token != 0 && !self.objects.contains_key(&token) {
                return token;
            }
        }
    }

    /// The objects that are not complete.
    pub fn incomplete(&self) -> Vec<Token> {
        self.building.keys().copied().collect()
    }

    /// Whether some object is not complete and does not wait for others.
    pub fn has_work(&self) -> bool {
        self.building.values().any(|building| !building.is_pending)
    }

    /// One step of an object that is not complete. If that was the last, who made it, and the
    /// object, or why there is none.
    pub fn build(
        &mut self,
        memory: &mut impl ObjectMemory,
        token: Token,
    ) -> Option<(Maker<R>, Result<Token>)> {
        let building = self.building.get_mut(&token)?;
        let maker = building.maker;
        let result = match memory.build(token) {
            Ok(Progress::More) => {
                building.is_pending = false;
                return None;
            }
            Ok(Progress::Pending) => {
                building.is_pending = true;
                return None;
            }
            Ok(Progress::Complete(runs)) => {
                if let Some(object) = self.objects.get_mut(&token) {
                    object.runs = Some(runs);
                }
                self.building.remove(&token);
                Ok(token)
            }
            Err(error) => {
                self.remove(memory, token);
                Err(error)
            }
        };
        Some((maker, result))
    }

    /// The maker of an object holds it no longer.
    pub fn release(&mut self, memory: &mut impl ObjectMemory, token: Token) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.is_held = false;
        }
        self.drop_unused(memory, token);
    }

    fn drop_unused(&mut self, memory: &mut impl ObjectMemory, token: Token) {
        let unused =
            |object: &MemoryObject| !object.is_held && object.uses == 0 && object.viewed == 0;
        if self.objects.get(&token).is_some_and(unused) {
            self.remove(memory, token);
        }
    }

    fn remove(&mut self, memory: &mut impl ObjectMemory, token: Token) {
        self.building.remove(&token);
        let Some(object) = self.objects.remove(&token) else {
            return;
        };
        memory.discard(token);
        if object.is_charged {
            self.discharge(object.owner, object.pages);
        }
    }

    /// Counts pages against a user's limit: the one on registered pages, once more.
    fn charge(&mut self, user: u32, pages: u64, limit: u64) -> Result<()> {
        let used = self.usage.get(&user).copied().unwrap_or(0);
        match used.checked_add(pages) {
            Some(sum) if sum <= limit => {
                self.usage.insert(user, sum);
                Ok(())
            }
            _ => Err(Error::new(EAGAIN)),
        }
    }

    fn discharge(&mut self, user: u32, pages: u64) {
        let left = self.usage.get(&user).copied().unwrap_or(0);
        match left.saturating_sub(pages) {
            0 => self.usage.remove(&user),
            left => self.usage.insert(user, left),
        };
    }
}

/// Uses of objects.
impl<R: Copy, S> MemoryObjects<R, S> {
    /// An object.
    pub fn get(&self, token: Token) -> Option<&MemoryObject> {
        self.objects.get(&token)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &MemoryObject> {
        self.objects.values()
    }

    /// Pages of an object for one use by the engine: those that hold `length` bytes from `offset`
    /// on, and where in them the first byte is. To be given back with [`unpin`](Self::unpin) if the
    /// engine does not take them.
    ///
    /// # Errors
    /// `EINVAL` for no bytes; `EFAULT` when the object has fewer, or is not the caller's, or
    /// was pinned to be read and is to be written, or when a provided page is mapped by nobody:
    /// what the program means by its address is then something else. The library maps an object
    /// once, so that a page which is mapped anywhere is mapped where the library has it.
    pub fn pages_for_use(
        &mut self,
        token: Token,
        caller: Caller,
        (offset, length): (u64, u64),
        writes: bool,
    ) -> Result<(Pages, u64)> {
        if length == 0 {
            return Err(Error::new(EINVAL));
        }
        let object = self.usable(token, caller)?;
        let end = offset.checked_add(length).ok_or(Error::new(EFAULT))?;
        let first = offset / PAGE;
        let pages = end.div_ceil(PAGE) - first;
        let is_mapped = object.is_pinned || object.mapped.covers(first, pages);
        if end > object.pages * PAGE || !is_mapped || writes && !object.is_writable {
            return Err(Error::new(EFAULT));
        }
        let runs = object.runs.as_deref().ok_or(Error::new(EFAULT))?;
        let pages = Pages {
            pin: PinId(token),
            runs: part_of(runs, first, pages),
            is_charged: object.is_charged,
        };
        object.uses += 1;
        Ok((pages, offset % PAGE))
    }

    /// The object of a token, if `caller` may use it.
    ///
    /// # Errors
    /// `EFAULT` when the memory is not the caller's: to the caller it does not exist.
    fn usable(&mut self, token: Token, caller: Caller) -> Result<&mut MemoryObject> {
        let mine = |object: &MemoryObject| {
            object.is_held && (caller.uid == 0 || caller.uid == object.owner)
        };
        let object = self.objects.get_mut(&token);
        object
            .filter(|object| mine(object))
            .ok_or(Error::new(EFAULT))
    }

    /// One use of an object by the engine is over.
    pub fn unpin(&mut self, memory: &mut impl ObjectMemory, pin: PinId) {
        let Some(object) = self.objects.get_mut(&pin.0) else {
            log::error!("the engine released memory {} that does not exist", pin.0);
            return;
        };
        object.uses = object.uses.saturating_sub(1);
        self.drop_unused(memory, pin.0);
    }

    /// Some pages of an object are mapped as pages of a window; they stay until they are not.
    ///
    /// # Errors
    /// `ENXIO`: there is no such object.
    pub fn begin_view(&mut self, token: Token, pages: u64) -> Result<()> {
        let object = self.objects.get_mut(&token).ok_or(Error::new(ENXIO))?;
        object.viewed += pages;
        Ok(())
    }

    /// Pages that were mapped as pages of a window are not any more.
    pub fn end_view(&mut self, memory: &mut impl ObjectMemory, token: Token, pages: u64) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.viewed = object.viewed.saturating_sub(pages);
            self.drop_unused(memory, token);
        }
    }

    /// Maps pages of an object: the address of its byte `offset` in this task.
    ///
    /// # Errors
    /// `ENXIO`: it has fewer pages, or is not complete; `EACCES`: it is pinned.
    pub fn map(
        &mut self,
        memory: &impl ObjectMemory,
        token: Token,
        offset: u64,
        pages: u64,
    ) -> Result<usize> {
        let object = self.objects.get_mut(&token).ok_or(Error::new(ENXIO))?;
        let first = offset / PAGE;
        let inside = first
            .checked_add(pages)
            .is_some_and(|end| end <= object.pages);
        if !inside || object.runs.is_none() {
            return Err(Error::new(ENXIO));
        }
        if object.is_pinned {
            // The pages are the program's own, which has them mapped.
            return Err(Error::new(EACCES));
        }
        let view = memory.view(token).ok_or(Error::new(ENXIO))?;
        object.mapped.add(first, pages, ());
        Ok(view + offset as usize)
    }

    /// Pages of an object are mapped no longer.
    pub fn unmap(&mut self, token: Token, first: u64, pages: u64) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.mapped.remove(first, pages);
        }
    }

    /// Pages of a view are mapped; a range that was made for it stays until they are not.
    pub fn map_view(&mut self, view: View, pages: u64) {
        if let Some(join) = view.join {
            self.joins.insert(join, pages);
        }
    }

    /// Pages of a range that was made of pieces are mapped no longer.
    pub fn unmap_join(&mut self, memory: &mut impl NodeMemory, join: Option<JoinId>, pages: u64) {
        if let Some(join) = join
            && let Some(left) = self.joins.get_mut(&join)
        {
            *left = left.saturating_sub(pages);
            if *left == 0 {
                self.joins.remove(&join);
                memory.end_join(join);
            }
        }
    }
}

/// The runs of `pages` pages from page `first` on.
fn part_of(runs: &[Run], mut first: u64, mut pages: u64) -> Vec<Run> {
    let mut part = Vec::new();
    for run in runs {
        let length = u64::from(run.pages);
        if first >= length {
            first -= length;
            continue;
        }
        let count = (length - first).min(pages);
        if count == 0 {
            break;
        }
        part.push(Run {
            address: run.address + first * PAGE,
            pages: count as u32,
        });
        pages -= count;
        first = 0;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_runs() {
        let run = |address, pages| Run { address, pages };
        let runs = [run(0x10000, 4), run(0x90000, 1), run(0x20000, 3)];
        assert_eq!(part_of(&runs, 0, 8), runs);
        assert_eq!(part_of(&runs, 1, 2), [run(0x11000, 2)]);
        assert_eq!(
            part_of(&runs, 3, 3),
            [run(0x13000, 1), run(0x90000, 1), run(0x20000, 1)]
        );
        assert_eq!(part_of(&runs, 5, 3), [run(0x20000, 3)]);
        assert_eq!(part_of(&runs, 7, 1), [run(0x22000, 1)]);
    }
}
