//! Memory objects: the pages that windows are made of, each behind a memory handle (path `memory`,
//! or `dup(endpoint, "memory")`).
//!
//! A program has the daemon *provide* pages and maps them, or *pins* pages of its own, which stay
//! where they are: it sends the descriptor of its address space over the handle and says which.
//! Both come into being step by step, because clearing or looking up many pages takes time. From
//! then on the object is a list of physical runs behind one range of addresses, known by its token.
//!
//! An object lives while its maker holds it, while the engine uses it (a window or a transfer of
//! its pages), and while pages of it are mapped as pages of a window. The maker holds it by the
//! open file, so that it lasts as long as the last mapping. Once its maker has let go, an object is
//! no longer found by its token.

use alloc::vec::Vec;

use scif_abi::call::{MemoryCall, PinRecord, SEND_SPACE};
use scif_abi::flags::Protection;
use scif_abi::limits::PAGE_BYTES;
use scif_core::{Pages, PinId, Resource, Run, Scope};
use syscall::error::{EACCES, EAGAIN, EFAULT, EINVAL, ENOTTY, ENXIO, EPERM, Error, Result};

use crate::access::{Access, Caller};
use crate::handle::ranges::Ranges;
use crate::handle::{Handle, HandleId, Kind};
use crate::path::Path;
use crate::scif::{Fabric, Progress, RequestId, Scif, Waiting, would_block};

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// Names a memory object, here and in requests. Never 0, and random, so that only who was told it
/// can name the object.
pub type Token = u64;

/// The bits of a token. It is the result of calls, where a negative number is an error, and so is
/// one whose lower half is (`syscall::Error::demux`).
const TOKEN_BITS: u64 = !(1 << 63 | 1 << 31);

/// A memory object.
pub(crate) struct Object {
    /// The user who may use it, beside root; whose limit it counts against.
    pub owner: u32,
    /// The process that made it.
    pub pid: usize,
    pub pages: u64,
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
    /// What programs map of it.
    pub mapped: Ranges<()>,
}

impl Object {
    /// A complete object of a program's own pages: one that the file `pins` shows.
    pub fn is_pinned(&self) -> bool {
        self.is_pinned && self.runs.is_some()
    }

    /// Windows and transfers of it.
    pub fn uses(&self) -> u32 {
        self.uses
    }
}

/// The object behind a memory handle, complete or not, once one is being made.
pub(crate) type Made = Option<Token>;

/// An object that is not complete.
pub(crate) struct Building<R> {
    /// The handle and the request that make it.
    handle: HandleId,
    request: R,
    /// Whether there is nothing to do but wait.
    pub waits: bool,
}

/// How an object is made.
enum Source<S> {
    Provided(u64),
    Pinned(S, PinRecord),
}

impl<F: Fabric, R: RequestId> Scif<F, R> {
    /// `dup(endpoint, "memory")`: a memory handle, which has nothing else to do with the endpoint.
    ///
    /// # Errors
    /// `EBADF`, `ENOTTY`: it is no endpoint; `ENOMEM`: the caller has too many files.
    pub(crate) fn memory_handle(&mut self, id: HandleId, caller: Caller) -> Result<HandleId> {
        self.endpoint(id)?;
        let handle = Handle::new(Path::Memory, Access::BOTH, caller, Kind::Memory(None));
        self.insert_file(handle)
    }

    /// An operation on a memory handle.
    pub(crate) fn memory_call(
        &mut self,
        id: HandleId,
        call: MemoryCall,
        request: R,
    ) -> Result<usize> {
        if self.waiting.contains_key(&request) {
            return would_block();
        }
        let source = match call {
            MemoryCall::Provide { pages } => Source::Provided(pages),
            MemoryCall::Pin { record } => {
                self.check_pin(id, &record)?;
                let space = self.spaces.remove(&id).ok_or(Error::new(EINVAL))?;
                Source::Pinned(space, record)
            }
        };
        self.make(id, source, request)
    }

    /// # Errors
    /// `EINVAL` unless the record is of whole pages, at least one, with a known protection and
    /// known flags; `EPERM` when only root may have it so.
    fn check_pin(&self, id: HandleId, record: &PinRecord) -> Result<()> {
        let whole = |bytes: u64| bytes.is_multiple_of(PAGE);
        let (address, length) = (record.address.get(), record.length.get());
        let protection = Protection::from_bits(record.protection.get());
        let flags = record.flags.get();
        if !whole(address)
            || !whole(length)
            || length == 0
            || protection.is_none_or(|protection| protection.is_empty())
            || flags & !PinRecord::UNCHARGED != 0
        {
            return Err(Error::new(EINVAL));
        }
        if flags != 0 && self.handle(id)?.caller.uid != 0 {
            return Err(Error::new(EPERM));
        }
        Ok(())
    }

    /// A program sends the descriptor of its address space over a memory handle, for the `Pin` that
    /// follows. One that was sent before goes.
    ///
    /// # Errors
    /// `EBADF`; `ENOTTY` unless it is a memory handle; `EINVAL` when `word` does not say that it is
    /// an address space, or the handle has its object.
    pub fn take_space(&mut self, id: HandleId, word: u64, space: F::Space) -> Result<usize> {
        let expected = match self.made(id) {
            Ok(None) if word == SEND_SPACE => Ok(0),
            Ok(_) => Err(Error::new(EINVAL)),
            Err(error) => Err(error),
        };
        let unused = match expected {
            Ok(_) => self.spaces.insert(id, space),
            Err(_) => Some(space),
        };
        self.refuse_space(unused);
        expected
    }

    /// Nothing is to be pinned of a space that was sent, if there is one.
    pub fn refuse_space(&mut self, space: Option<F::Space>) {
        if let Some(space) = space {
            self.fabric.let_go(space);
        }
    }

    fn made(&mut self, id: HandleId) -> Result<&mut Made> {
        match &mut self.handle_mut(id)?.kind {
            Kind::Memory(made) => Ok(made),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    fn make(&mut self, id: HandleId, source: Source<F::Space>, request: R) -> Result<usize> {
        if self.made(id)?.is_some() {
            return Err(Error::new(EINVAL));
        }
        let caller = self.handle(id)?.caller;
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
        if is_charged {
            self.charge(caller.uid, pages)?;
        }
        let token = self.new_token();
        let begun = match source {
            Source::Provided(pages) => self.fabric.provide(token, pages),
            Source::Pinned(space, record) => self.fabric.pin(token, space, &record),
        };
        if let Err(error) = begun {
            if is_charged {
                self.discharge(caller.uid, pages);
            }
            return Err(error);
        }
        let object = Object {
            owner: caller.uid,
            pid: caller.pid,
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
        *self.made(id)? = Some(token);
        let waiting = Waiting::Memory { handle: id, token };
        self.waiting.insert(request, waiting);
        let building = Building {
            handle: id,
            request,
            waits: false,
        };
        self.building.insert(token, building);
        // Small ones are complete at once.
        self.build(token);
        match self.take_ended(request) {
            Some(ended) => ended,
            None => would_block(),
        }
    }

    /// A token that no object has.
    fn new_token(&mut self) -> Token {
        loop {
            let token = self.fabric.random() & TOKEN_BITS;
            if token != 0 && !self.objects.contains_key(&token) {
                return token;
            }
        }
    }

    /// One step of every object that is not complete.
    pub(crate) fn build_all(&mut self) {
        let tokens: Vec<Token> = self.building.keys().copied().collect();
        tokens.into_iter().for_each(|token| self.build(token));
    }

    fn build(&mut self, token: Token) {
        let Some(building) = self.building.get_mut(&token) else {
            return;
        };
        let (id, request) = (building.handle, building.request);
        let ended = match self.fabric.build(token) {
            Ok(Progress::More) => {
                building.waits = false;
                return;
            }
            Ok(Progress::Waits) => {
                building.waits = true;
                return;
            }
            Ok(Progress::Complete(runs)) => {
                if let Some(object) = self.objects.get_mut(&token) {
                    object.runs = Some(runs);
                }
                Ok(token as usize)
            }
            Err(error) => {
                if let Ok(made) = self.made(id) {
                    *made = None;
                }
                self.remove_object(token);
                Err(error)
            }
        };
        self.building.remove(&token);
        self.end_with(request, ended);
    }

    /// The maker of an object holds it no longer.
    pub(crate) fn let_go(&mut self, token: Token) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.is_held = false;
        }
        self.drop_unused(token);
    }

    /// The request that makes an object is given up.
    pub(crate) fn cancel_make(&mut self, id: HandleId, token: Token) {
        if let Ok(made) = self.made(id) {
            *made = None;
        }
        self.let_go(token);
    }

    /// One use of an object by the engine is over.
    pub(crate) fn released(&mut self, pin: PinId) {
        let Some(object) = self.objects.get_mut(&pin.0) else {
            log::error!("the engine released memory {} that does not exist", pin.0);
            return;
        };
        object.uses = object.uses.saturating_sub(1);
        self.drop_unused(pin.0);
    }

    /// Some pages of an object are mapped as pages of a window; they stay until they are not.
    ///
    /// # Errors
    /// `ENXIO`: there is no such object.
    pub(crate) fn begin_view(&mut self, token: Token, pages: u64) -> Result<()> {
        let object = self.objects.get_mut(&token).ok_or(Error::new(ENXIO))?;
        object.viewed += pages;
        Ok(())
    }

    /// Pages that were mapped as pages of a window are not any more.
    pub(crate) fn end_view(&mut self, token: Token, pages: u64) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.viewed = object.viewed.saturating_sub(pages);
            self.drop_unused(token);
        }
    }

    fn drop_unused(&mut self, token: Token) {
        let unused = |object: &Object| !object.is_held && object.uses == 0 && object.viewed == 0;
        if self.objects.get(&token).is_some_and(unused) {
            self.remove_object(token);
        }
    }

    fn remove_object(&mut self, token: Token) {
        self.building.remove(&token);
        let Some(object) = self.objects.remove(&token) else {
            return;
        };
        self.fabric.discard(token);
        if object.is_charged {
            self.discharge(object.owner, object.pages);
        }
    }

    /// Counts pages against a user's limit: the one on registered pages, once more.
    fn charge(&mut self, user: u32, pages: u64) -> Result<()> {
        let limit = self.engine.limit(Resource::Pages, Scope::User);
        let provided = self.provided.entry(user).or_default();
        match provided.checked_add(pages) {
            Some(sum) if sum <= limit => {
                *provided = sum;
                Ok(())
            }
            _ => {
                if *provided == 0 {
                    self.provided.remove(&user);
                }
                Err(Error::new(EAGAIN))
            }
        }
    }

    fn discharge(&mut self, user: u32, pages: u64) {
        let left = self.provided.get(&user).copied().unwrap_or(0);
        match left.saturating_sub(pages) {
            0 => self.provided.remove(&user),
            left => self.provided.insert(user, left),
        };
    }

    /// The object of a token, if `caller` may use it.
    ///
    /// # Errors
    /// `EFAULT`: whoever names memory that is not theirs names no memory.
    fn usable(&mut self, token: Token, caller: Caller) -> Result<&mut Object> {
        let mine =
            |object: &Object| object.is_held && (caller.uid == 0 || caller.uid == object.owner);
        let object = self.objects.get_mut(&token);
        object
            .filter(|object| mine(object))
            .ok_or(Error::new(EFAULT))
    }

    /// Pages of an object for one use by the engine: those that hold the bytes `offset` to `offset
    /// + length`, and where in them the first byte is. To be given back with
    /// [`released`](Self::released) if the engine does not take them.
    ///
    /// # Errors
    /// `EINVAL` for no bytes; `EFAULT` when the object has not so many, or is not the caller's, or
    /// was pinned to be read and is to be written, or when a provided page is mapped by nobody:
    /// what the program means by its address is then something else.
    pub(crate) fn pages_for_use(
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

    /// `fmap` of a memory handle: the address of the object's bytes from `offset` on.
    pub(crate) fn map_object(&mut self, id: HandleId, offset: u64, pages: u64) -> Result<usize> {
        let Some(token) = *self.made(id)? else {
            return Err(Error::new(ENXIO));
        };
        let object = self.objects.get_mut(&token).ok_or(Error::new(ENXIO))?;
        let first = offset / PAGE;
        let inside = first
            .checked_add(pages)
            .is_some_and(|end| end <= object.pages);
        if !inside || object.runs.is_none() {
            return Err(Error::new(ENXIO));
        }
        if object.is_pinned {
            // The pages are their owner's, who has them mapped.
            return Err(Error::new(EACCES));
        }
        let view = self.fabric.view(token).ok_or(Error::new(ENXIO))?;
        object.mapped.add(first, pages, ());
        Ok(view + offset as usize)
    }

    pub(crate) fn unmap_object(&mut self, id: HandleId, first: u64, pages: u64) {
        if let Ok(&mut Some(token)) = self.made(id)
            && let Some(object) = self.objects.get_mut(&token)
        {
            object.mapped.remove(first, pages);
        }
    }
}

/// # Errors
/// `EACCES` for everybody but root.
pub(crate) fn root(caller: Caller) -> Result<()> {
    if caller.uid == 0 {
        Ok(())
    } else {
        Err(Error::new(EACCES))
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
