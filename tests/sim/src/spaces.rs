//! The registered address spaces of all ends: which windows are where, and what a call on some
//! range may or must come to.

use scif_abi::Error;
use scif_abi::limits::{AUTOMATIC_OFFSETS, PAGE_BYTES};
use scif_core::EndpointId;

use crate::model::{Key, Model, Segment};

/// How far a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// Register has not returned.
    Registering,
    /// Registered.
    Live,
    /// Unregistered, or the endpoint is closed. Its pages are in use until they are released.
    Ended,
    /// Register has not returned yet.
    Unknown,
}

/// A window.
#[derive(Clone, Debug)]
pub struct Window {
    /// The engine's use of the pages.
    pub use_id: u64,
    /// Registered offset.
    pub offset: i64,
    /// Pages.
    pub pages: u64,
    /// `Protection` bits.
    pub protection: u32,
    /// The memory.
    pub pin: Key,
    /// How far it is.
    pub state: WindowState,
    /// Signals on their way to the peer that name it. It must not end meanwhile, or they might find
    /// another window there.
    pub signals: u32,
}

impl Window {
    /// The offset behind it.
    pub fn end(&self) -> i64 {
        self.offset + (self.pages * PAGE_BYTES as u64) as i64
    }
}

/// One end of a connection, known to both programs by the seed of its stream.
#[derive(Debug)]
pub struct End {
    /// Its node.
    pub node: usize,
    /// Its endpoint.
    pub endpoint: EndpointId,
    /// Its windows that have an offset.
    pub windows: Vec<Window>,
    /// Windows on their way whose offset the engine will choose.
    pub choosing: u32,
    /// Not closed.
    pub is_open: bool,
    /// The node of the other end.
    pub peer_node: usize,
    /// The connection is lost. Its two nodes notice that at different times, so what one of them
    /// still has of the other's windows is not known.
    pub is_broken: bool,
}

/// The known state of a range of a registered address space.
#[derive(Debug, Default)]
pub struct Cover {
    /// The memory behind it, when there is a window for every byte.
    pub segments: Option<Vec<Segment>>,
    /// Errors that may be reported.
    pub errors: Vec<Error>,
    /// One of these errors must be reported.
    pub is_bad: bool,
    /// All of it can be used.
    pub is_good: bool,
}

impl Model {
    /// Bytes from `offset` on that lie in windows of `end` without a hole.
    pub fn extent(&self, end: u64, offset: i64) -> u64 {
        let windows = self.ends.get(&end).map_or(&[][..], |end| &end.windows);
        let mut at = offset;
        while let Some(window) = windows.iter().find(|w| w.offset <= at && at < w.end()) {
            at = window.end();
        }
        (at - offset) as u64
    }

    /// An end was closed: what goes on between it and the other one may not be finished, and its
    /// windows end.
    pub fn close(&mut self, end: u64) {
        if let Some(end) = self.ends.get_mut(&end) {
            end.is_open = false;
            for window in &mut end.windows {
                window.state = WindowState::Ended;
            }
        }
        self.lose_end(end);
    }

    /// Signals that named these windows have been answered.
    pub fn release(&mut self, windows: &[(u64, u64)]) {
        for (end, use_id) in windows {
            let end = self.ends.get_mut(end);
            let windows = end.into_iter().flat_map(|end| &mut end.windows);
            for window in windows.filter(|w| w.use_id == *use_id) {
                window.signals -= 1;
            }
        }
    }

    /// A signal that names the windows at this place is on its way to the peer.
    pub fn hold(&mut self, end: u64, offset: i64) -> Option<(u64, u64)> {
        let windows = &mut self.ends.get_mut(&end)?.windows;
        let window = windows
            .iter_mut()
            .find(|w| w.offset <= offset && offset < w.end())?;
        window.signals += 1;
        Some((end, window.use_id))
    }

    /// What `length` bytes at `offset` in the windows of `end` are, for a use that needs
    /// `protection`; `own`: the owner itself asks, which knows more than its peer.
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
    /// Two ranges that are both needed.
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
