//! Spans: one side of a transfer, a range of bytes in windows or in pinned pages, with a position
//! that advances as bytes are copied. Finding the next bytes takes the same time wherever they
//! are.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::flags::Protection;

use crate::base::context::Context;
use crate::base::event::Event;
use crate::base::ids::{ConnectionId, RemoteWindowId, Ticket, WindowId};
use crate::base::memory::Place;
use crate::base::pages::{Chunks, PinId};
use crate::window::Windows;
use crate::window::core::WindowCore;

/// The windows or pages that a span is in. It counts as a job in each window until it is released.
#[derive(Debug)]
enum Backing {
    Local(Vec<WindowId>),
    Remote(Vec<RemoteWindowId>),
    Pages(PinId, Chunks),
}

/// One side of a transfer.
#[derive(Debug)]
pub(crate) struct Span {
    backing: Backing,
    /// Index of the present window.
    window: usize,
    /// Index of the present chunk in it.
    chunk: usize,
    /// The byte in the present window.
    at: u64,
}

impl Span {
    /// A span that begins at byte `at` of its first window.
    fn new(windows: &Windows, backing: Backing, at: u64) -> Span {
        let mut span = Span {
            backing,
            window: 0,
            chunk: 0,
            at,
        };
        span.chunk = span.chunks(windows).map_or(0, |chunks| chunks.find(at));
        span
    }

    /// `length` bytes at `offset` of a connection's local space.
    ///
    /// # Errors
    /// `ENXIO`: not all of the range is registered. `EACCES`: a window does not allow `need`.
    pub(crate) fn local(
        windows: &Windows,
        connection: ConnectionId,
        range: (i64, u64),
        need: Protection,
    ) -> Result<Span, Error> {
        let (ids, at) = windows.cover_local(connection, range, need)?;
        Ok(Span::new(windows, Backing::Local(ids), at))
    }

    /// `length` bytes at `offset` of the space of a connection's peer.
    ///
    /// # Errors
    /// Those of `local`.
    pub(crate) fn remote(
        windows: &Windows,
        connection: ConnectionId,
        range: (i64, u64),
        need: Protection,
    ) -> Result<Span, Error> {
        let (ids, at) = windows.cover_remote(connection, range, need)?;
        Ok(Span::new(windows, Backing::Remote(ids), at))
    }

    /// A span from byte `at` on of pages that were pinned for this transfer.
    pub(crate) fn pages(windows: &Windows, pin: PinId, chunks: Chunks, at: u64) -> Span {
        Span::new(windows, Backing::Pages(pin, chunks), at)
    }

    /// How many windows the span is in.
    pub(crate) fn windows(&self) -> usize {
        match &self.backing {
            Backing::Local(ids) => ids.len(),
            Backing::Remote(ids) => ids.len(),
            Backing::Pages(..) => 1,
        }
    }

    /// The length of the lists that the span keeps, in numbers.
    pub(super) fn kept(&self) -> usize {
        match &self.backing {
            Backing::Local(ids) => ids.len(),
            Backing::Remote(ids) => ids.len(),
            // Each chunk is kept with its place.
            Backing::Pages(_, chunks) => 2 * chunks.len(),
        }
    }

    /// Counts the span as a job in its windows.
    pub(super) fn hold(&self, windows: &mut Windows) {
        match &self.backing {
            Backing::Local(ids) => ids.iter().for_each(|id| windows.hold_local(*id)),
            Backing::Remote(ids) => ids.iter().for_each(|id| windows.hold_remote(*id)),
            Backing::Pages(..) => {}
        }
    }

    /// Releases the span. Returns the unregister calls that wait for windows of the span which
    /// have ended now.
    pub(super) fn release(self, cx: &mut Context, windows: &mut Windows) -> Vec<Ticket> {
        match self.backing {
            Backing::Local(ids) => {
                let ids = ids.into_iter();
                return ids.filter_map(|id| windows.release_local(cx, id)).collect();
            }
            Backing::Remote(ids) => ids.iter().for_each(|id| windows.release_remote(*id, 0, 1)),
            Backing::Pages(pin, _) => cx.events.push(Event::Unpin(pin)),
        }
        Vec::new()
    }

    /// Adds the span's uses to those of all windows.
    pub(super) fn count_uses(
        &self,
        local: &mut BTreeMap<WindowId, u32>,
        remote: &mut BTreeMap<RemoteWindowId, u32>,
    ) {
        match &self.backing {
            Backing::Local(ids) => ids
                .iter()
                .for_each(|id| *local.entry(*id).or_default() += 1),
            Backing::Remote(ids) => ids
                .iter()
                .for_each(|id| *remote.entry(*id).or_default() += 1),
            Backing::Pages(..) => {}
        }
    }

    /// The page list of the present window.
    fn chunks<'a>(&'a self, windows: &'a Windows) -> Option<&'a Chunks> {
        match &self.backing {
            Backing::Local(ids) => {
                let id = ids.get(self.window)?;
                windows.local(*id).map(WindowCore::chunks)
            }
            Backing::Remote(ids) => {
                let id = ids.get(self.window)?;
                windows.remote(*id).map(WindowCore::chunks)
            }
            Backing::Pages(_, chunks) => Some(chunks),
        }
    }

    /// The present place, and how many bytes are contiguous from there on. `None` at the end, or
    /// when the window has gone with its node.
    pub(crate) fn run(&self, windows: &Windows) -> Option<(Place, u64)> {
        self.chunks(windows)?.run(self.chunk, self.at)
    }

    /// The place `bytes` bytes further on in the same window.
    pub(crate) fn run_after(&self, windows: &Windows, bytes: u64) -> Option<(Place, u64)> {
        self.chunks(windows)?.place(self.at + bytes)
    }

    /// Advances by `bytes`, at most to the end of the run.
    pub(crate) fn advance(&mut self, windows: &Windows, bytes: u64) {
        let Some(chunks) = self.chunks(windows) else {
            return;
        };
        let (end, rest) = (chunks.bytes(), chunks.run(self.chunk, self.at));
        self.at += bytes;
        if self.at >= end {
            self.window += 1;
            (self.chunk, self.at) = (0, 0);
        } else if rest.is_some_and(|(_, rest)| bytes >= rest) {
            self.chunk += 1;
        }
    }
}
