//! Memory objects: the pages that windows are made of, each behind a handle of the path `memory`.
//!
//! A program has the daemon *provide* pages and maps them, or a trusted helper *offers* pages of
//! somebody else's as the payload of a call that stays unanswered as long as they are in use. Both
//! come into being step by step, one in each turn of the loop, because clearing or looking up many
//! pages takes time. From then on the object is a list of physical runs behind one range of
//! addresses, known by its token.
//!
//! An object lives while its maker holds it, while the engine uses it (a window or a transfer of
//! its pages), and while pages of it are mapped as pages of a window. The maker holds it by the
//! open file, so that it lasts as long as the last mapping; what is offered or pinned can be given
//! up before that. Once its maker has let go, an object is no longer found by its token.

use alloc::vec::Vec;

use scif_abi::call::MemoryCall;
use scif_abi::limits::PAGE_BYTES;
use scif_core::{Pages, PinId, Resource, Run, Scope};
use syscall::error::{
    EACCES, EAGAIN, EFAULT, EINVAL, ENOENT, ENOTTY, ENXIO, EOPNOTSUPP, Error, Result,
};

use crate::access::Caller;
use crate::handle::{HandleId, Kind};
use crate::ranges::Ranges;
use crate::scif::{Fabric, RequestId, Scif, Waiting, would_block};

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// Names a memory object, here and in requests. Never 0, never reused.
pub type Token = u64;

/// A memory object.
pub(crate) struct Object<R> {
    /// The user who may use it, beside root; whose limit it counts against.
    pub owner: u32,
    pub pages: u64,
    /// Its pages, once it is complete.
    runs: Option<Vec<Run>>,
    /// Held until it is unpinned, and charged to nobody.
    is_pinned: bool,
    /// Somebody else's pages.
    is_offered: bool,
    is_held: bool,
    uses: u32,
    /// Pages of it that are mapped as pages of windows; each as often as it is mapped.
    viewed: u64,
    /// The request whose payload the offered pages are.
    offer: Option<R>,
    /// What programs map of it.
    pub mapped: Ranges<()>,
}

/// The object behind a handle of the path `memory`, complete or not, once one is being made.
pub(crate) type Made = Option<Token>;

/// How an object is made.
enum Source<L> {
    Provided(u64),
    Offered(L),
}

/// For whom it is made.
struct Terms {
    owner: u32,
    is_pinned: bool,
}

impl<F: Fabric, R: RequestId> Scif<F, R> {
    /// An operation on a memory handle, apart from those that bring a payload.
    pub(crate) fn memory_call(
        &mut self,
        id: HandleId,
        call: MemoryCall,
        request: R,
    ) -> Result<usize> {
        let caller = self.handle(id)?.caller;
        match call {
            MemoryCall::Provide { pages } => {
                let terms = Terms {
                    owner: caller.uid,
                    is_pinned: false,
                };
                self.make(id, Source::Provided(pages), terms, request)
            }
            MemoryCall::Pin { pages } => {
                root(caller)?;
                let terms = Terms {
                    owner: caller.uid,
                    is_pinned: true,
                };
                self.make(id, Source::Provided(pages), terms, request)
            }
            MemoryCall::Token => self.token(id),
            MemoryCall::Unpin { token } => {
                root(caller)?;
                self.unpin(token).map(|()| 0)
            }
            // Without pages there is nothing to offer.
            MemoryCall::Offer { .. } => Err(Error::new(EINVAL)),
        }
    }

    /// The operations whose payload is memory that the caller offers: `lent` for as long as
    /// `request` is not answered.
    ///
    /// # Errors
    /// `EBADF`, `ENOTTY`, `EINVAL`, `EACCES`, `EAGAIN`, `EFAULT`, `ENOMEM`; `EWOULDBLOCK` as
    /// everywhere.
    pub fn offer(
        &mut self,
        id: HandleId,
        lent: F::Lent,
        call: MemoryCall,
        request: R,
    ) -> Result<usize> {
        if let Some(ended) = self.take_ended(request) {
            return ended;
        }
        if self.waiting.contains_key(&request) {
            return would_block();
        }
        self.made(id)?;
        let caller = self.handle(id)?.caller;
        root(caller)?;
        let terms = match call {
            MemoryCall::Offer { owner } => Terms {
                owner,
                is_pinned: false,
            },
            MemoryCall::Pin { pages: 0 } => Terms {
                owner: caller.uid,
                is_pinned: true,
            },
            _ => return Err(Error::new(EINVAL)),
        };
        self.make(id, Source::Offered(lent), terms, request)
    }

    fn made(&mut self, id: HandleId) -> Result<&mut Made> {
        match &mut self.handle_mut(id)?.kind {
            Kind::Memory(made) => Ok(made),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    fn make(
        &mut self,
        id: HandleId,
        source: Source<F::Lent>,
        terms: Terms,
        request: R,
    ) -> Result<usize> {
        if self.waiting.contains_key(&request) {
            return would_block();
        }
        if self.made(id)?.is_some() {
            return Err(Error::new(EINVAL));
        }
        let Terms { owner, is_pinned } = terms;
        let pages = match &source {
            Source::Provided(pages) => *pages,
            Source::Offered(lent) => self.fabric.lent_pages(lent),
        };
        if pages == 0 || pages.checked_mul(PAGE).is_none() {
            return Err(Error::new(EINVAL));
        }
        if !is_pinned {
            self.charge(owner, pages)?;
        }
        let token = self.last_token + 1;
        let (begun, offer) = match source {
            Source::Provided(pages) => (self.fabric.provide(token, pages), None),
            Source::Offered(lent) => (self.fabric.offer(token, lent), Some(request)),
        };
        if let Err(error) = begun {
            if !is_pinned {
                self.discharge(owner, pages);
            }
            return Err(error);
        }
        self.last_token = token;
        let object = Object {
            owner,
            pages,
            runs: None,
            is_pinned,
            is_offered: offer.is_some(),
            is_held: true,
            uses: 0,
            viewed: 0,
            offer,
            mapped: Ranges::default(),
        };
        self.objects.insert(token, object);
        *self.made(id)? = Some(token);
        let waiting = Waiting::Memory { handle: id, token };
        self.waiting.insert(request, waiting);
        self.building.insert(token, (id, request));
        // Small ones are complete at once.
        self.build(token);
        match self.take_ended(request) {
            Some(ended) => ended,
            None => would_block(),
        }
    }

    /// One step of every object that is not complete.
    pub(crate) fn build_all(&mut self) {
        let tokens: Vec<Token> = self.building.keys().copied().collect();
        tokens.into_iter().for_each(|token| self.build(token));
    }

    fn build(&mut self, token: Token) {
        let Some(&(id, request)) = self.building.get(&token) else {
            return;
        };
        match self.fabric.build(token) {
            Ok(None) => return,
            Ok(Some(runs)) => {
                if let Some(object) = self.objects.get_mut(&token) {
                    object.runs = Some(runs);
                    if !object.is_offered {
                        self.end_with(request, Ok(token as usize));
                    }
                }
            }
            Err(error) => {
                if let Ok(made) = self.made(id) {
                    *made = None;
                }
                self.remove_object(token, Err(error));
                self.end_with(request, Err(error));
            }
        }
        self.building.remove(&token);
    }

    /// The token of the handle's object, once that is complete.
    fn token(&mut self, id: HandleId) -> Result<usize> {
        let made = *self.made(id)?;
        match made {
            Some(token) if !self.building.contains_key(&token) => Ok(token as usize),
            _ => Err(Error::new(ENOENT)),
        }
    }

    /// Ends the hold of a pinned or offered object's maker.
    fn unpin(&mut self, token: Token) -> Result<()> {
        let object = self.objects.get(&token);
        if object.is_some_and(|object| (object.is_pinned || object.is_offered) && object.is_held) {
            self.let_go(token);
            Ok(())
        } else {
            Err(Error::new(EINVAL))
        }
    }

    /// The maker of an object holds it no longer.
    pub(crate) fn let_go(&mut self, token: Token) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.is_held = false;
        }
        self.drop_unused(token);
    }

    /// The request that makes an object, or offers it, is given up.
    pub(crate) fn cancel_make(&mut self, id: HandleId, token: Token) {
        if let Some(object) = self.objects.get_mut(&token) {
            object.offer = None;
        }
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
    /// `EOPNOTSUPP` when they are somebody else's pages, which are not ours to keep.
    pub(crate) fn begin_view(&mut self, token: Token, pages: u64) -> Result<()> {
        let object = self.objects.get_mut(&token).ok_or(Error::new(ENXIO))?;
        if object.is_offered {
            return Err(Error::new(EOPNOTSUPP));
        }
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
        let unused = |object: &Object<R>| !object.is_held && object.uses == 0 && object.viewed == 0;
        if self.objects.get(&token).is_some_and(unused) {
            self.remove_object(token, Ok(0));
        }
    }

    fn remove_object(&mut self, token: Token, offer_ends: Result<usize>) {
        self.building.remove(&token);
        let Some(object) = self.objects.remove(&token) else {
            return;
        };
        self.fabric.discard(token);
        if !object.is_pinned {
            self.discharge(object.owner, object.pages);
        }
        if let Some(request) = object.offer {
            self.end_with(request, offer_ends);
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
    fn usable(&mut self, token: Token, caller: Caller) -> Result<&mut Object<R>> {
        let mine =
            |object: &Object<R>| object.is_held && (caller.uid == 0 || caller.uid == object.owner);
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
    /// when a page is mapped by nobody: what the program means by its address is then something
    /// else. Pinned and offered objects are mapped elsewhere; they pass unless `only_mapped`.
    pub(crate) fn pages_for_use(
        &mut self,
        token: Token,
        caller: Caller,
        (offset, length): (u64, u64),
        only_mapped: bool,
    ) -> Result<(Pages, u64)> {
        if length == 0 {
            return Err(Error::new(EINVAL));
        }
        let object = self.usable(token, caller)?;
        let end = offset.checked_add(length).ok_or(Error::new(EFAULT))?;
        let first = offset / PAGE;
        let pages = end.div_ceil(PAGE) - first;
        let is_elsewhere = object.is_pinned || object.is_offered;
        let needs_mapping = only_mapped || !is_elsewhere;
        if end > object.pages * PAGE || needs_mapping && !object.mapped.covers(first, pages) {
            return Err(Error::new(EFAULT));
        }
        let runs = object.runs.as_deref().ok_or(Error::new(EFAULT))?;
        let pages = Pages {
            pin: PinId(token),
            runs: part_of(runs, first, pages),
            is_charged: !object.is_pinned,
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
        if object.is_offered {
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
