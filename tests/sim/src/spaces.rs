//! The registered address spaces of all ends: where the windows are, and what the result of a call
//! on a range may or must be.

use scif_abi::Error;
use scif_abi::limits::{AUTOMATIC_OFFSETS, PAGE_BYTES};
use scif_core::EndpointId;

use crate::model::{Key, Model, Segment};

/// The state of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// The register call has not returned.
    Registering,
    /// Registered.
    Live,
    /// Unregistered, or the endpoint is closed. The pages are in use until the engine releases
    /// them.
    Ended,
    /// The program abandoned the register call, so the window may or may not exist.
    Unknown,
}

/// A window.
#[derive(Clone, Debug)]
pub struct Window {
    /// The engine's use of the pages.
    pub use_id: u64,
    /// The registered offset.
    pub offset: i64,
    /// Number of pages.
    pub pages: u64,
    /// `Protection` bits.
    pub protection: u32,
    /// The pinned memory.
    pub pin: Key,
    /// The state.
    pub state: WindowState,
    /// Number of signals on their way to the peer that name the window. The window must not end
    /// before they arrive, or they might find another window at its offset.
    pub signals: u32,
}

impl Window {
    /// Returns the offset behind the window.
    pub fn end(&self) -> i64 {
        self.offset + (self.pages * PAGE_BYTES as u64) as i64
    }
}

/// One end of a connection. Both programs know it by the seed of its stream.
#[derive(Debug)]
pub struct End {
    /// The end's node.
    pub node: usize,
    /// The end's endpoint.
    pub endpoint: EndpointId,
    /// The end's windows whose offsets are known.
    pub windows: Vec<Window>,
    /// Number of register calls in progress for which the engine chooses the offset.
    pub choosing: u32,
    /// Whether the end is not closed.
    pub is_open: bool,
    /// The node of the other end.
    pub peer_node: usize,
    /// Whether the connection is lost. The two nodes notice that at different times, so the model
    /// does not know which of the peer's windows a node still has.
    pub is_broken: bool,
}

/// What the model knows of a range of a registered address space.
#[derive(Debug, Default)]
pub struct Cover {
    /// The memory behind the range, if a window covers every byte.
    pub segments: Option<Vec<Segment>>,
    /// The errors that a call may report.
    pub errors: Vec<Error>,
    /// Whether a call must report one of these errors.
    pub is_bad: bool,
    /// Whether a call can use all of the range.
    pub is_good: bool,
}

impl Model {
    /// Returns the number of bytes from `offset` on that the windows of `end` cover without a
    /// hole.
    pub fn extent(&self, end: u64, offset: i64) -> u64 {
        let windows = self.ends.get(&end).map_or(&[][..], |end| &end.windows);
        let mut at = offset;
        while let Some(window) = windows.iter().find(|w| w.offset <= at && at < w.end()) {
            at = window.end();
        }
        (at - offset) as u64
    }

    /// Closes an end: its windows end, and transfers between it and the other end may not arrive
    /// in full.
    pub fn close(&mut self, end: u64) {
        if let Some(end) = self.ends.get_mut(&end) {
            end.is_open = false;
            for window in &mut end.windows {
                window.state = WindowState::Ended;
            }
        }
        self.lose_end(end);
    }

    /// Records that the signals that named these windows have been answered.
    pub fn release(&mut self, windows: &[(u64, u64)]) {
        for (end, use_id) in windows {
            let end = self.ends.get_mut(end);
            let windows = end.into_iter().flat_map(|end| &mut end.windows);
            for window in windows.filter(|w| w.use_id == *use_id) {
                window.signals -= 1;
            }
        }
    }

    /// Records that a signal that names the window at this place is on its way to the peer.
    /// Returns the end and the use of the window.
    pub fn hold(&mut self, end: u64, offset: i64) -> Option<(u64, u64)> {
        let windows = &mut self.ends.get_mut(&end)?.windows;
        let window = windows
            .iter_mut()
            .find(|w| w.offset <= offset && offset < w.end())?;
        window.signals += 1;
        Some((end, window.use_id))
    }

    /// Returns what the model knows of `length` bytes at `offset` in the windows of `end`, for a
    /// use that needs `protection`. `own` tells that the owner of the windows asks, which knows
    /// more than its peer.
    pub fn cover(&self, end: u64, own: bool, offset: i64, length: u64, protection: u32) -> Cover {
        let mut cover = Cover {
            segments: Some(Vec::new()),
            is_good: true,
            ..Cover::default()
        };
        let Some(end) = self.ends.get(&end) else {
            return Cover::default();
        };
        if !own && end.is_broken {
            cover.segments = None;
            cover.is_good = false;
            cover.errors = vec![Error::NoSuchAddress, Error::AccessDenied];
            return cover;
        }
        let (mut at, mut left) = (offset, length);
        while left > 0 {
            let here = |w: &&Window| w.offset <= at && at < w.end();
            let mut windows = end.windows.iter().filter(here);
            let (window, other) = (windows.next(), windows.next());
            let Some(window) = window.filter(|_| other.is_none()) else {
                cover.segments = None;
                cover.is_good = false;
                cover.errors.push(Error::NoSuchAddress);
                cover.is_bad |=
                    other.is_none() && (end.choosing == 0 || at < AUTOMATIC_OFFSETS.start);
                return cover;
            };
            let is_allowed = window.protection & protection == protection;
            match window.state {
                WindowState::Live if end.is_open => {}
                WindowState::Ended if own => {
                    cover.is_bad = true;
                    cover.is_good = false;
                    cover.errors.push(Error::NoSuchAddress);
                }
                _ => {
                    cover.is_good = false;
                    cover.errors.push(Error::NoSuchAddress);
                }
            }
            if !is_allowed {
                cover.errors.push(Error::AccessDenied);
                cover.is_bad |= window.state == WindowState::Live && end.is_open;
                cover.is_good = false;
            }
            let start = (at - window.offset) as usize;
            let count = left.min((window.end() - at) as u64);
            if let Some(segments) = &mut cover.segments {
                segments.push(Segment {
                    pin: window.pin,
                    bytes: start..start + count as usize,
                });
            }
            at += count as i64;
            left -= count;
        }
        cover
    }
}

impl Cover {
    /// Combines the covers of two ranges that a call needs both.
    pub fn and(self, other: Cover) -> Cover {
        let both = self.segments.zip(other.segments);
        Cover {
            segments: both.map(|(mut a, b)| {
                a.extend(b);
                a
            }),
            errors: [self.errors, other.errors].concat(),
            is_bad: self.is_bad || other.is_bad,
            is_good: self.is_good && other.is_good,
        }
    }
}
