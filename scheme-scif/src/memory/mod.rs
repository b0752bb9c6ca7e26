//! Memory objects: the pages that windows are made of, each behind a memory handle (path `memory`,
//! or `dup(endpoint, "memory")`); and other memory of this task that programs have mapped.
//!
//! A program has the daemon *provide* pages and maps them, or *pins* pages of its own, which stay
//! where they are; for that it has sent the descriptor of its address space (see `spaces`). Both
//! take several steps, because clearing or looking up many pages takes time. A complete object is
//! a list of physical runs behind one range of addresses, and its token names it.
//!
//! An object lives while its maker holds it, while the engine uses it (for a window or a transfer
//! of its pages), and while pages of it are mapped as pages of a window. The maker holds it
//! through the open file, so the object lasts as long as the file's last mapping. Once its maker
//! has released it, its token no longer finds it.

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

/// The bits of a token. A token is the result of calls, where a negative number is an error, and
/// so is a number whose lower half is negative (`syscall::Error::demux`).
const TOKEN_BITS: u64 = !(1 << 63 | 1 << 31);

/// A memory object.
pub(crate) struct MemoryObject {
    /// The user that may use it, beside root, and whose limit it counts against.
    owner: u32,
    /// The process that made it.
    process: usize,
    pages: u64,
    /// Its runs, once it is complete.
    runs: Option<Vec<Run>>,
    /// Whether the pages are a program's own, which are mapped there and not from here.
    is_pinned: bool,
    /// Whether windows of it may be written.
    is_writable: bool,
    is_charged: bool,
    is_held: bool,
    uses: u32,
    /// Pages that are mapped as pages of windows, each counted as often as it is mapped.
    viewed: u64,
    /// The parts that programs have mapped through the memory handle.
    mapped: Ranges<()>,
}

impl MemoryObject {
    /// Whether it is a complete object of a program's own pages, which the file `pins` shows.
    pub fn is_pinned(&self) -> bool {
        self.is_pinned && self.runs.is_some()
    }

    /// The user whose limit it counts against.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The process that made it.
    pub fn process(&self) -> usize {
        self.process
    }

    /// The number of its pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The number of windows and transfers that use it.
    pub fn uses(&self) -> u32 {
        self.uses
    }

    /// The parts that programs have mapped through the memory handle.
    pub fn mapped(&self) -> &Ranges<()> {
        &self.mapped
    }
}

/// An incomplete object.
struct Building<R> {
    maker: Maker<R>,
    /// Whether another thread works on it, so that the daemon can only wait.
    is_pending: bool,
}

/// The pages of a new object.
pub(crate) enum Source<S> {
    /// This number of zeroed pages.
    Provided(u64),
    /// Pages of the program behind an address space.
    Pinned(S, PinRecord),
}

/// The handle and the request that make an object.
pub(crate) type Maker<R> = (HandleId, R);

/// All memory objects.
pub(crate) struct MemoryObjects<R> {
    objects: BTreeMap<Token, MemoryObject>,
    /// Incomplete objects.
    building: BTreeMap<Token, Building<R>>,
    /// The number of mapped pages of each range that was joined from pieces.
    joins: BTreeMap<JoinId, u64>,
    /// Pages of objects, by the user whose limit they count against.
    usage: BTreeMap<u32, u64>,
}

impl<R> Default for MemoryObjects<R> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            building: BTreeMap::new(),
            joins: BTreeMap::new(),
            usage: BTreeMap::new(),
        }
    }
}

/// Makes and releases objects.
impl<R: Copy> MemoryObjects<R> {
    /// Begins an object for a request on a handle that `caller` opened; [`build`](Self::build)
    /// completes it. `limit` is a user's limit on pages.
    ///
    /// # Errors
    /// `EINVAL` for no pages, or too many to count; `EAGAIN` at the limit; those of the memory.
    pub fn begin<M: NodeMemory>(
        &mut self,
        memory: &mut M,
        maker: Maker<R>,
        caller: Caller,
        source: Source<M::Space>,
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
            Source::Pinned(space, record) => memory.pin(token, caller.pid, space, &record),
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

    /// A token that no object has yet.
    fn new_token(&mut self, memory: &mut impl NodeMemory) -> Token {
        loop {
            let token = memory.random() & TOKEN_BITS;
            if token != 0 && !self.objects.contains_key(&token) {
                return token;
            }
        }
    }

    /// The incomplete objects.
    pub fn incomplete(&self) -> Vec<Token> {
        self.building.keys().copied().collect()
    }

    /// Whether an object has all its pages.
    pub fn is_complete(&self, token: Token) -> bool {
        let object = self.objects.get(&token);
        object.is_some_and(|object| object.runs.is_some())
    }

    /// Whether some incomplete object does not only wait for another thread.
    pub fn has_work(&self) -> bool {
        self.building.values().any(|building| !building.is_pending)
    }

    /// Does one step of an incomplete object. After the last step, returns its maker, and the
    /// object's token or the reason why there is no object.
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

    /// Ends the maker's hold on an object.
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

    /// Counts pages against a user's limit: the limit on registered pages, applied separately.
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
impl<R: Copy> MemoryObjects<R> {
    /// The object with this token.
    pub fn get(&self, token: Token) -> Option<&MemoryObject> {
        self.objects.get(&token)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &MemoryObject> {
        self.objects.values()
    }

    /// Pages of an object for one use by the engine: those that hold `length` bytes from `offset`
    /// on, and the offset of the first byte in them. If the engine does not take them, give them
    /// back with [`unpin`](Self::unpin).
    ///
    /// # Errors
    /// `EINVAL` when `length` is 0. `EFAULT` when the object has fewer bytes, is not the caller's,
    /// or was pinned for reading only although `writes` is set, or when no program maps a provided
    /// page: the program's address then means something else. The library maps an object once, so
    /// a page that is mapped anywhere is mapped where the library has it.
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

    /// The object with this token, if `caller` may use it.
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

    /// Ends one use of an object by the engine.
    pub fn unpin(&mut self, memory: &mut impl ObjectMemory, pin: PinId) {
        let Some(object) = self.objects.get_mut(&pin.0) else {
            log::error!("the engine released memory {} that does not exist", pin.0);
            return;
        };
        object.uses = object.uses.saturating_sub(1);
        self.drop_unused(memory, pin.0);
    }

    /// Counts pages of an object that are mapped as pages of a window. The object stays until they
    /// are unmapped.
    ///
    /// # Errors
    /// `ENXIO` when there is no such object.
    pub fn begin_view(&mut self, token: Token, pages: u64) -> Result<()> {
        let object = self.objects.get_mut(&token).ok_or(Error::new(ENXIO))?;
        object.viewed += pages;
        Ok(())
    }

    /// Counts pages that are no longer mapped as pages of a window.
    pub fn end_view(&mut self, memory: &mut impl ObjectMemory, token: Token, pages: u64) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.viewed = object.viewed.saturating_sub(pages);
            self.drop_unused(memory, token);
        }
    }

    /// Maps pages of an object. Returns the address of its byte `offset` in this task.
    ///
    /// # Errors
    /// `ENXIO` when it has fewer pages or is incomplete; `EACCES` when it is pinned.
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
            // The pages are the program's own, which already maps them.
            return Err(Error::new(EACCES));
        }
        let view = memory.view(token).ok_or(Error::new(ENXIO))?;
        object.mapped.add(first, pages, ());
        Ok(view + offset as usize)
    }

    /// Records that pages of an object were unmapped.
    pub fn unmap(&mut self, token: Token, first: u64, pages: u64) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.mapped.remove(first, pages);
        }
    }

    /// Counts mapped pages of a view. A range that was joined for the view stays until they are
    /// unmapped.
    pub fn map_view(&mut self, view: View, pages: u64) {
        if let Some(join) = view.join {
            self.joins.insert(join, pages);
        }
    }

    /// Counts pages of a joined range that were unmapped; the last ones release the range.
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
