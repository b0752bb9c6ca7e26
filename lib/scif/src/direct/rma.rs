//! Transfers to and from windows by loads and stores of this program.
//!
//! A mapping says nothing about whether a window is still registered, so each copy is made between
//! two looks at the epoch of the connection (see [`scif_ring::validity`]): the daemon changes it
//! when a window goes, and waits for copies that are under way before it tells anybody that the
//! window has gone. Whatever is unusual (nothing mapped, a window gone, flags that ask for an
//! order) is left to the daemon, and with it every error.

use alloc::sync::Arc;

use libredox::Fd;
use platform::copy::Side;
use platform::direct::{COLOURS, Pages, Readable, Writable, find_place};
use platform::lock::Mutex;
use platform::shared::Protection;
use scif_abi::call::Call;
use scif_abi::flags::RmaFlags;
use scif_ring::validity::{enter, leave};
use syscall::error::{EFAULT, Error};

use super::control::{Control, Moment};
use super::windows::{Mapper, Piece, Rights, Use, Windows};
use crate::raw;

/// Bytes copied in one go: the daemon does not wait longer for one that is under way.
const SLICE_BYTES: u64 = 1 << 20;

/// What the colours of mappings are shifted by. Windows on both sides that begin at the same offset
/// are thus as far apart as possible.
const OWN_COLOUR: usize = 11;
const PEER_COLOUR: usize = OWN_COLOUR + COLOURS / 2;

/// The own end of a transfer.
pub enum Local<'a> {
    /// Own windows at this offset.
    Window(i64),
    /// Memory that is copied to the peer.
    From(Readable<'a>),
    /// Memory that is filled from the peer.
    To(Writable<'a>),
}

/// One registered address space.
struct Space {
    is_own: bool,
    side: Side,
    windows: Windows<Pages>,
    /// For mapping; opened with the first one.
    file: Option<Fd>,
}

/// The mapped windows of a connection.
pub struct Rma {
    spaces: Mutex<Spaces>,
}

struct Spaces {
    /// When what is mapped was valid.
    moment: Moment,
    own: Space,
    peer: Space,
}

/// Maps windows of one end.
struct Maps<'a> {
    epd: usize,
    is_own: bool,
    side: Side,
    file: &'a Fd,
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

    fn map(&self, offset: i64, bytes: u64, rights: Rights) -> Option<Pages> {
        let shift = if self.is_own { OWN_COLOUR } else { PEER_COLOUR };
        let colour = (offset as usize / platform::mem::PAGE).wrapping_add(shift) % COLOURS;
        let bytes = bytes as usize;
        let protection = Protection {
            read: rights.read,
            write: rights.write,
        };
        let place = find_place(bytes, colour).ok();
        let file = self.file.raw();
        Pages::map(file, offset as u64, bytes, protection, self.side, place).ok()
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

    /// Whether all of a range is mapped, by now.
    fn cover(&mut self, epd: usize, offset: i64, bytes: u64, what: Use) -> bool {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let name: &[u8] = if self.is_own {
                    b"own-window"
                } else {
                    b"window"
                };
                match libredox::call::dup(epd, name) {
                    Ok(file) => Fd::new(file),
                    Err(_) => return false,
                }
            }
        };
        let maps = Maps {
            epd,
            is_own: self.is_own,
            side: self.side,
            file: &file,
        };
        let covered = self.windows.cover(&maps, offset, bytes, what);
        self.file = Some(file);
        covered
    }
}

impl Rma {
    /// Nothing is mapped. `side` is where the peer's memory is.
    pub fn new(side: Side) -> Self {
        Self {
            spaces: Mutex::new(Spaces {
                moment: Moment::connected(0),
                own: Space::new(true, Side::Own),
                peer: Space::new(false, side),
            }),
        }
    }

    /// Lets go of what was mapped before `moment`: of windows that may have gone, or of all.
    pub fn refresh(&self, moment: Moment) {
        let mut spaces = self.spaces.lock();
        if spaces.moment != moment {
            spaces.moment = moment;
            spaces.own.windows.clear();
            spaces.peer.windows.clear();
        }
    }

    /// Copies `length` bytes between `local` and the peer's windows at `remote`; `what` is done
    /// with the latter. `false`: not, or not all of them, and the daemon has to.
    pub fn transfer(
        &self,
        epd: usize,
        control: &Control,
        mut local: Local<'_>,
        remote: (i64, Use),
        length: u64,
        flags: u32,
    ) -> bool {
        // Complete on return, so that most flags make no difference.
        let known = RmaFlags::USECPU | RmaFlags::USECACHE | RmaFlags::SYNC;
        if flags & !known.bits() != 0 || length == 0 || length >= control.dma_from() {
            return false;
        }
        let moment = control.now();
        if !moment.is_connected() {
            return false;
        }
        self.refresh(moment);
        // All of it before the first byte is copied: a transfer that fails must not have begun.
        if !self.cover(epd, &local, remote, length) {
            return false;
        }
        let mut done = 0;
        while done < length {
            let count = (length - done).min(SLICE_BYTES);
            match self.slice(control, moment, &mut local, remote, done, count) {
                Some(count) => done += count,
                None => return false,
            }
        }
        true
    }

    fn cover(&self, epd: usize, local: &Local<'_>, remote: (i64, Use), length: u64) -> bool {
        let mut spaces = self.spaces.lock();
        // The peer's first: of its windows this program knows least.
        spaces.peer.cover(epd, remote.0, length, remote.1)
            && match local {
                Local::Window(offset) => spaces.own.cover(epd, *offset, length, opposite(remote.1)),
                Local::From(_) | Local::To(_) => true,
            }
    }

    /// Copies at most `count` bytes from where the transfer has got to; returns how many.
    fn slice(
        &self,
        control: &Control,
        moment: Moment,
        local: &mut Local<'_>,
        (remote, what): (i64, Use),
        done: u64,
        count: u64,
    ) -> Option<u64> {
        let find = |space: &mut Space, offset: i64, count, what| {
            let at = offset.checked_add_unsigned(done)?;
            space.windows.find(at, count, what)
        };
        let mut spaces = self.spaces.lock();
        let peer = find(&mut spaces.peer, remote, count, what)?;
        let own = match local {
            Local::Window(offset) => {
                Some(find(&mut spaces.own, *offset, peer.bytes, opposite(what))?)
            }
            _ => None,
        };
        // Other threads may copy meanwhile; the pieces keep their mappings.
        drop(spaces);
        let count = own.as_ref().map_or(peer.bytes, |own| own.bytes) as usize;
        let choices = control.choices();
        let from = done as usize;
        if !enter(&mut &*control, moment.epoch()) {
            return None;
        }
        let copied = match (local, own) {
            (Local::From(bytes), _) => peer.pages.put(peer.at, bytes.part(from, count), choices),
            (Local::To(bytes), _) => {
                let part = bytes.part(from, count);
                peer.pages.take(peer.at, &part, choices)
            }
            (Local::Window(_), Some(own)) => {
                let (target, source) = match what {
                    Use::Write => (&peer, &own),
                    Use::Read => (&own, &peer),
                };
                copy(target, source, count, choices)
            }
            (Local::Window(_), None) => Err(Error::new(EFAULT)),
        };
        let is_valid = leave(&mut &*control, moment.epoch());
        (copied.is_ok() && is_valid).then_some(count as u64)
    }
}

fn copy(
    target: &Piece<Pages>,
    source: &Piece<Pages>,
    count: usize,
    choices: platform::copy::Choices,
) -> syscall::error::Result<()> {
    let (to, from): (&Arc<Pages>, &Arc<Pages>) = (&target.pages, &source.pages);
    to.copy_from(target.at, from, source.at, count, choices)
}

/// What is done with the other end.
const fn opposite(what: Use) -> Use {
    match what {
        Use::Read => Use::Write,
        Use::Write => Use::Read,
    }
}
