//! Transfers to and from windows by loads and stores of this program.
//!
//! A mapping does not say whether its window is still registered, so each copy is made between two
//! loads of the connection's epoch (see [`scif_ring::validity`]). The daemon changes the epoch
//! when a window goes, and waits for copies that are under way before it reports that the window
//! has gone. Every unusual case (nothing mapped, a window gone, flags that ask for an order) is
//! left to the daemon, and with it every error.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client_memory::pages::{Pages, Readable, Writable};
use client_memory::placement::{self, are_apart};
use client_memory::rights::Rights;
#[cfg(doc)]
use hal::copy;
use hal::copy::{Choices, Side};
use hal::lock::{Guard, Mutex};
use libredox::Fd;
use scif_abi::call::Call;
use scif_abi::flags::RmaFlags;
use scif_ring::validity::{enter, leave};
use syscall::error::{EBUSY, EFAULT, Error};

use super::control::{Control, StateWord};
use super::short_write::{Mapped, Place, Recent, ShortWrite};
use super::windows::{MAX_BYTES, Mapper, Piece, Use, Windows};
use crate::raw;

/// Most bytes of one copy, which bounds the time that the daemon waits for a copy under way.
const SLICE_BYTES: u64 = 1 << 20;

/// Most bytes of a transfer that is made with the list of mappings locked. Other threads hardly
/// wait longer for the lock, and no reference to a mapping has to be counted.
pub const SMALL_BYTES: u64 = 4096;

/// The local end of a transfer.
pub enum Local<'a> {
    /// Local windows from this offset on.
    Window(i64),
    /// Memory of the program that is copied to the peer.
    From(Readable<'a>),
    /// Memory of the program that is filled from the peer.
    To(Writable<'a>),
}

/// The mapped windows of one registered address space.
pub(super) struct Space {
    is_own: bool,
    side: Side,
    pub(super) windows: Windows<Pages>,
    /// The descriptor for mapping, opened with the first mapping.
    file: Option<Fd>,
}

/// The mapped windows of a connection.
pub struct Rma {
    spaces: Mutex<Spaces>,
    /// Locked behind the other lock where both are.
    recent: Recent,
}

/// Both ends' windows.
pub(super) struct Spaces {
    /// The state word for which everything mapped is valid.
    state: StateWord,
    pub(super) own: Space,
    pub(super) peer: Space,
}

/// The range of a space that a transfer needs, and where its other end is.
#[derive(Clone, Copy)]
pub(super) struct Need {
    pub(super) offset: i64,
    pub(super) bytes: u64,
    pub(super) what: Use,
    /// The address of the first byte at the other end.
    pub(super) other: usize,
}

/// The [`Mapper`] for the windows of one end.
struct Maps<'a> {
    epd: usize,
    is_own: bool,
    side: Side,
    file: &'a Fd,
    /// Another thread still copies through a mapping of a window that had these offsets before.
    /// One descriptor does not map both.
    is_busy: Cell<bool>,
    need: Need,
}

impl Maps<'_> {
    /// The address of the byte at `offset` at the other end, or the one that it would have.
    fn other(&self, offset: i64) -> usize {
        let ahead = offset.wrapping_sub(self.need.offset) as usize;
        self.need.other.wrapping_add(ahead)
    }
}

impl Mapper for Maps<'_> {
    type Pages = Pages;

    fn run(&self, offset: i64, length: u64) -> Option<u64> {
        let call = if self.is_own {
            Call::MapRunOwn { offset, length }
        } else {
            let remote_offset = offset;
            Call::MapRun {
                remote_offset,
                length,
            }
        };
        let run = raw::plain(self.epd, call).ok()? as u64;
        (run > 0 && run <= length).then_some(run)
    }

    fn map(&self, offset: i64, bytes: u64, rights: Rights) -> Option<(Pages, bool)> {
        // The peer's window is placed to suit the local end, which may be anywhere. Consecutive
        // pages stay consecutive, so that both ends are equally far apart in the whole transfer.
        let like = if self.is_own {
            placement::of_own(offset)
        } else {
            placement::opposite(self.other(offset))
        };
        let bytes = bytes as usize;
        let place = placement::find_place(bytes, like);
        let file = self.file.raw();
        let mapped = Pages::map(file, offset as u64, bytes, rights, self.side, place);
        let is_busy = |error: &Error| self.is_busy.set(error.errno == EBUSY);
        let pages = mapped.inspect_err(is_busy).ok()?;
        let is_placed = place == Some(pages.address());
        Some((pages, is_placed))
    }

    fn suits(&self, pages: &Pages, at: usize, offset: i64) -> bool {
        let address = pages.address() + at;
        self.is_own || are_apart(address, self.other(offset), self.need.bytes as usize)
    }
}

impl Space {
    fn new(is_own: bool, side: Side) -> Self {
        Self {
            is_own,
            side,
            windows: Windows::new(),
            file: None,
        }
    }

    /// Maps all of a range, if that is worth it. Returns whether all of it is mapped now.
    pub(super) fn cover(&mut self, epd: usize, need: Need) -> bool {
        let name: &[u8] = match self.is_own {
            true => b"own-window",
            false => b"cached-window",
        };
        for _ in 0..2 {
            let file = match self.file.take() {
                Some(file) => file,
                None => match raw::hidden(epd, name) {
                    Ok(file) => file,
                    Err(_) => return false,
                },
            };
            let maps = Maps {
                epd,
                is_own: self.is_own,
                side: self.side,
                file: &file,
                is_busy: Cell::new(false),
                need,
            };
            let (offset, bytes, what) = (need.offset, need.bytes, need.what);
            let covered = self.windows.cover(&maps, offset, bytes, what);
            if !maps.is_busy.get() {
                self.file = Some(file);
                return covered;
            }
        }
        false
    }
}

/// Both ends of a part of a transfer.
struct Ends<'a> {
    peer: Piece<'a, Pages>,
    /// `None` where the local end is memory of the program.
    own: Option<Piece<'a, Pages>>,
    bytes: u64,
}

impl Spaces {
    /// Unmaps everything that was mapped before `state`.
    #[cold]
    fn renew(&mut self, state: StateWord) {
        self.state = state;
        self.own.windows.clear();
        self.peer.windows.clear();
    }

    /// Maps both ends of a transfer, if that is possible and worth it. Returns whether both are
    /// mapped.
    fn cover(&mut self, epd: usize, local: &Local<'_>, remote: (i64, Use), bytes: u64) -> bool {
        let (offset, what) = remote;
        let other = match local {
            Local::Window(offset) => {
                let own = self.own.windows.find(*offset, 1, opposite(what));
                own.map_or(placement::of_own(*offset), |own| {
                    own.pages.address() + own.at
                })
            }
            Local::From(bytes) => bytes.address(),
            Local::To(bytes) => bytes.address(),
        };
        let need = Need {
            offset,
            bytes,
            what,
            other,
        };
        // The peer's end goes first, because it is more likely to fail.
        self.peer.cover(epd, need)
            && match local {
                Local::Window(offset) => {
                    let (offset, what) = (*offset, opposite(what));
                    let need = Need {
                        offset,
                        what,
                        ..need
                    };
                    self.own.cover(epd, need)
                }
                Local::From(_) | Local::To(_) => true,
            }
    }

    /// The mapped ends of a transfer from byte `done` on: at most `bytes` bytes that are in one
    /// piece at either end.
    #[inline]
    fn find(
        &mut self,
        local: &Local<'_>,
        (remote, what): (i64, Use),
        done: u64,
        bytes: u64,
    ) -> Option<Ends<'_>> {
        let at = remote.checked_add_unsigned(done)?;
        let peer = self.peer.windows.find(at, bytes, what)?;
        let own = match local {
            Local::Window(offset) => {
                let at = offset.checked_add_unsigned(done)?;
                Some(self.own.windows.find(at, peer.bytes, opposite(what))?)
            }
            Local::From(_) | Local::To(_) => None,
        };
        let bytes = own.as_ref().map_or(peer.bytes, |own| own.bytes);
        Some(Ends { peer, own, bytes })
    }
}

impl Ends<'_> {
    /// Whether no other address would be better for either end.
    #[inline]
    fn are_well_placed(&self, local: &Local<'_>) -> bool {
        let own = match (&self.own, local) {
            (Some(own), _) => own.pages.address() + own.at,
            (None, Local::From(bytes)) => bytes.address(),
            (None, Local::To(bytes)) => bytes.address(),
            (None, Local::Window(_)) => return true,
        };
        let peer = self.peer.pages.address() + self.peer.at;
        !self.peer.can_move || are_apart(peer, own, self.bytes as usize)
    }
}

/// How the copies of one transfer are made.
#[derive(Clone, Copy)]
struct CopyPlan<'a> {
    control: &'a Control,
    /// Whether the descriptor is closed: then windows mapped since may be those of another
    /// endpoint, which has got its number.
    is_closed: &'a AtomicBool,
    state: StateWord,
    choices: Choices,
    what: Use,
}

impl CopyPlan<'_> {
    /// Copies `count` bytes, unless a window has gone or goes meanwhile. Returns whether they are
    /// good. `own` is for transfers between windows; `done` is where the program's memory that is
    /// left begins.
    #[inline]
    fn copy(
        &self,
        peer: (&Pages, usize),
        own: Option<(&Pages, usize)>,
        local: &mut Local<'_>,
        done: usize,
        count: usize,
    ) -> bool {
        if self.is_closed.load(Ordering::SeqCst) {
            return false;
        }
        let epoch = self.state.epoch();
        if !enter(&mut &*self.control, epoch) {
            return false;
        }
        let choices = self.choices;
        let copied = match (local, own) {
            (Local::From(bytes), _) => peer.0.put(peer.1, bytes.part(done, count), choices),
            (Local::To(bytes), _) => peer.0.take(peer.1, &bytes.part(done, count), choices),
            (Local::Window(_), Some(own)) => {
                let (to, from) = match self.what {
                    Use::Write => (peer, own),
                    Use::Read => (own, peer),
                };
                to.0.copy_from(to.1, from.0, from.1, count, choices)
            }
            (Local::Window(_), None) => Err(Error::new(EFAULT)),
        };
        let is_valid = leave(&mut &*self.control, epoch);
        copied.is_ok() && is_valid
    }
}

/// Whether a direct copy does what a transfer's flags ask for. Such a copy is complete on return,
/// so most flags make no difference.
#[inline]
pub const fn is_known(flags: u32) -> bool {
    let known = RmaFlags::USECPU
        .union(RmaFlags::USECACHE)
        .union(RmaFlags::SYNC);
    flags & !known.bits() == 0
}

impl Rma {
    /// Address spaces with nothing mapped. `side` says where the peer's memory is.
    pub fn new(side: Side) -> Self {
        Self {
            spaces: Mutex::new(Spaces {
                state: StateWord::connected(0),
                own: Space::new(true, Side::Own),
                peer: Space::new(false, side),
            }),
            recent: Recent::new(),
        }
    }

    /// Unmaps everything that was mapped before `state`, because windows may have gone since.
    pub fn refresh(&self, state: StateWord) {
        drop(self.current(state));
    }

    /// The mapped windows, none of them from before `state`.
    pub(super) fn current(&self, state: StateWord) -> Guard<'_, Spaces> {
        let mut spaces = self.spaces.lock();
        if spaces.state != state {
            self.renew(&mut spaces, state);
        }
        spaces
    }

    /// [`refresh`](Self::refresh) when the state has changed.
    #[cold]
    fn renew(&self, spaces: &mut Spaces, state: StateWord) {
        spaces.renew(state);
        self.recent.forget();
    }

    /// Maps a range of the peer's windows now, and from now on at its first use after other
    /// windows have gone. Returns whether it is mapped.
    pub fn prepare(&self, epd: usize, state: StateWord, offset: i64, bytes: u64) -> bool {
        let mut spaces = self.current(state);
        spaces.peer.windows.prepare(offset, bytes);
        let mut cover = |what| {
            let need = Need {
                offset,
                bytes: bytes.min(MAX_BYTES / 2),
                what,
                // The other end of later transfers is not known yet.
                other: 0,
            };
            spaces.peer.cover(epd, need)
        };
        // The window may allow only one of the two.
        cover(Use::Write) || cover(Use::Read)
    }

    /// Reverts [`prepare`](Self::prepare) for the range that begins at `offset`.
    pub fn forget(&self, offset: i64) {
        self.spaces.lock().peer.windows.forget(offset);
    }

    /// Makes an atomic operation on a double word of the peer's windows, which it maps if needed.
    /// Returns what `operation` returns, which runs with the list of mappings locked. `None`: the
    /// word cannot be mapped, or its window goes.
    pub fn fetch(
        &self,
        epd: usize,
        (control, is_closed): (&Control, &AtomicBool),
        offset: i64,
        operation: impl FnOnce(&AtomicU64) -> u64,
    ) -> Option<u64> {
        const BYTES: u64 = size_of::<u64>() as u64;
        let state = control.now();
        if !state.is_connected() {
            return None;
        }
        let mut spaces = self.current(state);
        let windows = &mut spaces.peer.windows;
        if windows.find(offset, BYTES, Use::Write).is_none() {
            let was_prepared = windows.is_prepared(offset);
            if !was_prepared {
                windows.prepare(offset, BYTES);
            }
            let need = Need {
                offset,
                bytes: BYTES,
                what: Use::Write,
                other: 0,
            };
            let covered = spaces.peer.cover(epd, need);
            if !was_prepared {
                spaces.peer.windows.forget(offset);
            }
            if !covered {
                return None;
            }
        }
        let piece = spaces.peer.windows.find(offset, BYTES, Use::Write)?;
        let word = piece.pages.word_u64(piece.at).ok()?;
        // Checked after the mapping: a window mapped since the descriptor was closed may be that
        // of another endpoint, which has got its number.
        if is_closed.load(Ordering::SeqCst) {
            return None;
        }
        let epoch = state.epoch();
        if !enter(&mut &*control, epoch) {
            return None;
        }
        let value = operation(word);
        // The operation counts, whatever has ended meanwhile: no window goes as long as this
        // handle is busy, and a second try would make the operation twice.
        let _ = leave(&mut &*control, epoch);
        Some(value)
    }

    /// The descriptors for mapping; none if another thread holds the list of mappings.
    pub fn files(&self) -> impl Iterator<Item = usize> + use<> {
        let files = self.spaces.try_lock().map(|spaces| {
            let files = [&spaces.own.file, &spaces.peer.file];
            files.map(|file| file.as_ref().map(Fd::raw))
        });
        files.into_iter().flatten().flatten()
    }

    /// Copies at most [`copy::SMALL_BYTES`] bytes of the program to the peer's windows at `offset`
    /// in the usual case: the mapping of the last short copy has the place and is valid in `state`,
    /// which is the present state of a connection that is alive and whose descriptor is open.
    /// `None`: [`transfer`](Self::transfer) has to copy.
    #[inline(always)]
    pub fn put_short<'a>(
        &'a self,
        (control, is_closed): (&'a Control, &AtomicBool),
        state: StateWord,
        (from, offset): (Readable<'_>, i64),
    ) -> Option<ShortWrite<'a>> {
        let (recent, bytes) = (&self.recent, from.len());
        let look_up = || self.note_recent(is_closed, state, (offset, bytes));
        let place = recent.find_or(state, (offset, bytes), look_up)?;
        ShortWrite::new(control, state, place, (from, offset))
    }

    /// Makes the mapping of a range the one for short copies. `None`: it is not mapped for
    /// writing, or another thread copies.
    #[cold]
    #[inline(never)]
    fn note_recent(
        &self,
        is_closed: &AtomicBool,
        state: StateWord,
        (offset, bytes): (i64, usize),
    ) -> Option<Place<'_>> {
        let mut spaces = self.spaces.lock();
        if spaces.state != state {
            return None;
        }
        let bytes = bytes as u64;
        let piece = spaces.peer.windows.find(offset, bytes, Use::Write)?;
        // As for `CopyPlan`: the mapping may be of a later endpoint.
        if piece.bytes < bytes || is_closed.load(Ordering::SeqCst) {
            return None;
        }
        self.recent.note(Mapped {
            pages: piece.pages.clone(),
            start: offset.wrapping_sub(piece.at as i64),
            state,
        })
    }

    /// Copies `length` bytes between `local` and the peer's windows at `remote`, as long as the
    /// descriptor `epd` is not closed. `false`: not all of them were copied, and the daemon has to
    /// copy them.
    #[expect(clippy::too_many_arguments, reason = "a connection's, then the call's")]
    pub fn transfer(
        &self,
        epd: usize,
        (control, is_closed): (&Control, &AtomicBool),
        choices: Choices,
        mut local: Local<'_>,
        remote: (i64, Use),
        length: u64,
        flags: u32,
    ) -> bool {
        if !is_known(flags) || length == 0 {
            return false;
        }
        let state = control.now();
        if !state.is_connected() {
            return false;
        }
        let plan = CopyPlan {
            control,
            is_closed,
            state,
            choices,
            what: remote.1,
        };
        let mut spaces = self.spaces.lock();
        if spaces.state != state {
            self.renew(&mut spaces, state);
        }
        if length <= SMALL_BYTES
            && let Some(ends) = spaces.find(&local, remote, 0, length)
            && ends.bytes == length
            && ends.are_well_placed(&local)
        {
            let peer = (&**ends.peer.pages, ends.peer.at);
            let own = ends.own.as_ref().map(|own| (&**own.pages, own.at));
            return plan.copy(peer, own, &mut local, 0, length as usize);
        }
        // Everything is mapped before the first byte is copied: a failing transfer copies nothing.
        if !spaces.cover(epd, &local, remote, length) {
            return false;
        }
        drop(spaces);
        let mut done = 0;
        while done < length {
            match self.piece(plan, &mut local, remote, done, length - done) {
                Some(count) => done += count,
                None => return false,
            }
        }
        true
    }

    /// Copies the bytes, at most `count`, that are in one piece from byte `done` on. Returns their
    /// number.
    fn piece(
        &self,
        plan: CopyPlan<'_>,
        local: &mut Local<'_>,
        remote: (i64, Use),
        done: u64,
        count: u64,
    ) -> Option<u64> {
        let mut spaces = self.spaces.lock();
        let ends = spaces.find(local, remote, done, count)?;
        let bytes = ends.bytes;
        let (peer, at) = (ends.peer.pages.clone(), ends.peer.at);
        let own = ends.own.map(|own| (own.pages.clone(), own.at));
        // Other threads may copy meanwhile; the counted references keep this piece's mappings
        // alive.
        drop(spaces);
        let mut copied = 0;
        while copied < bytes {
            let count = (bytes - copied).min(SLICE_BYTES) as usize;
            let ahead = copied as usize;
            let own = own.as_ref().map(|(pages, at)| (&**pages, at + ahead));
            let from = done as usize + ahead;
            if !plan.copy((&*peer, at + ahead), own, local, from, count) {
                return None;
            }
            copied += count as u64;
        }
        Some(bytes)
    }
}

/// The use that a transfer makes of the other end.
const fn opposite(what: Use) -> Use {
    match what {
        Use::Read => Use::Write,
        Use::Write => Use::Read,
    }
}
