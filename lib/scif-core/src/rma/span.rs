//! Spans: one side of a transfer, a range of bytes in windows or in pinned pages, with a position
//! that moves as bytes are copied. Finding the next bytes takes the same time wherever they are.

use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::flags::Protection;

use crate::base::ids::{ConnectionId, RemoteWindowId, WindowId};
use crate::base::memory::Place;
use crate::base::pages::{Chunks, PinId};
use crate::window::Windows;
use crate::window::local::Window;
use crate::window::remote::RemoteWindow;

/// Which windows or pages a span is in. It counts as a job in each window until it is released.
#[derive(Debug)]
pub(crate) enum Backing {
    Local(Vec<WindowId>),
    Remote(Vec<RemoteWindowId>),
    Pages(PinId, Chunks),
}

/// One side of a transfer.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) backing: Backing,
    /// Index of the present window.
    window: usize,
    /// Index of the present chunk in it.
    chunk: usize,
    /// Byte in the present window.
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
    /// `ENXIO`: not all registered. `EACCES`: `need` is not allowed everywhere.
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
    /// As `local`.
    pub(crate) fn remote(
        windows: &Windows,
        connection: ConnectionId,
        range: (i64, u64),
        need: Protection,
    ) -> Result<Span, Error> {
        let (ids, at) = windows.cover_remote(connection, range, need)?;
        Ok(Span::new(windows, Backing::Remote(ids), at))
    }

    /// From byte `at` of pages that were pinned for this transfer.
    pub(crate) fn pages(windows: &Windows, pin: PinId, chunks: Chunks, at: u64) -> Span {
        Span::new(windows, Backing::Pages(pin, chunks), at)
    }

    /// Number of windows it is in.
    pub(crate) fn windows(&self) -> usize {
        match &self.backing {
            Backing::Local(ids) => ids.len(),
            Backing::Remote(ids) => ids.len(),
            Backing::Pages(..) => 1,
        }
    }

    /// The page list of the present window.
    fn chunks<'a>(&'a self, windows: &'a Windows) -> Option<&'a Chunks> {
        match &self.backing {
            Backing::Local(ids) => {
                let id = ids.get(self.window)?;
                windows.local(*id).map(Window::chunks)
            }
            Backing::Remote(ids) => {
                let id = ids.get(self.window)?;
                windows.remote(*id).map(RemoteWindow::chunks)
            }
            Backing::Pages(_, chunks) => Some(chunks),
        }
    }

    /// The present place, and how many bytes from there are contiguous. `None` at the end, or when
    /// the window has gone with its node.
    pub(crate) fn run(&self, windows: &Windows) -> Option<(Place, u64)> {
        self.chunks(windows)?.run(self.chunk, self.at)
    }

    /// What follows `bytes` bytes further on in the same window.
    pub(crate) fn run_after(&self, windows: &Windows, bytes: u64) -> Option<(Place, u64)> {
        self.chunks(windows)?.place(self.at + bytes)
    }

    /// Moves on by `bytes`, at most to the end of the run.
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
