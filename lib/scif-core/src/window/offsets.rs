//! Offsets of local windows: which are free, and which windows fill a range.

use alloc::vec::Vec;

use scif_abi::Error;
use scif_abi::flags::Protection;
use scif_abi::limits::AUTOMATIC_OFFSETS;

use crate::base::ids::{ConnectionId, WindowId};
use crate::base::memory::Place;
use crate::base::pages::PinId;
use crate::window::Windows;
use crate::window::local::{Window, WindowState};
use crate::window::space::range_end;

/// A part of a local window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPart {
    /// The memory that the window is made of.
    pub pin: PinId,
    /// The contiguous pieces of the part, in order: place and number of bytes.
    pub pieces: Vec<(Place, u64)>,
    /// Bytes, a multiple of the page size.
    pub bytes: u64,
}

impl Windows {
    /// Whether a range of a local space holds windows in a state for which `wanted` is true.
    pub(crate) fn is_in_use(
        &self,
        connection: ConnectionId,
        (offset, bytes): (i64, u64),
        wanted: impl Fn(WindowState) -> bool,
    ) -> bool {
        let end = range_end(offset, bytes).unwrap_or(i64::MAX);
        self.spaces.get(&connection).is_some_and(|spaces| {
            let windows = spaces.local.overlapping(offset, end);
            let mut windows = windows.filter_map(|(_, slot)| self.local.get(slot.id));
            windows.any(|window| wanted(window.state()))
        })
    }

    /// Finds a free range for a window without a fixed offset: behind the one chosen last, or from
    /// the start when the end is reached.
    ///
    /// # Errors
    /// `ENOMEM`: there is none.
    pub(crate) fn choose_offset(
        &mut self,
        connection: ConnectionId,
        bytes: u64,
    ) -> Result<i64, Error> {
        let spaces = self.spaces.entry(connection).or_default();
        let range = AUTOMATIC_OFFSETS;
        let mut offset = spaces.next_offset.max(range.start);
        let mut is_second_round = offset == range.start;
        // The loop ends: every round passes at least one window, and there are two rounds.
        loop {
            let end = range_end(offset, bytes).filter(|end| *end <= range.end);
            let Some(end) = end else {
                if is_second_round {
                    return Err(Error::NoMemory);
                }
                (offset, is_second_round) = (range.start, true);
                continue;
            };
            let Some((start, slot)) = spaces.local.overlapping(offset, end).last() else {
                spaces.next_offset = end;
                return Ok(offset);
            };
            offset = start.saturating_add_unsigned(slot.bytes);
        }
    }

    /// The registered windows that fill a range of a local space exactly.
    ///
    /// # Errors
    /// `EINVAL`: the range has only a part of a window. `ENXIO`: not all of the range is
    /// registered.
    pub(crate) fn whole_windows(
        &self,
        connection: ConnectionId,
        offset: i64,
        length: u64,
    ) -> Result<Vec<WindowId>, Error> {
        let end = range_end(offset, length).ok_or(Error::InvalidArgument)?;
        let spaces = self.spaces.get(&connection);
        let space = &spaces.ok_or(Error::NoSuchAddress)?.local;
        let (mut found, mut covered) = (Vec::new(), 0);
        for (start, slot) in space.overlapping(offset, end) {
            if !self.local.get(slot.id).is_some_and(Window::is_live) {
                continue;
            }
            if start < offset || start.saturating_add_unsigned(slot.bytes) > end {
                return Err(Error::InvalidArgument);
            }
            found.push(slot.id);
            covered += slot.bytes;
        }
        if covered != length {
            return Err(Error::NoSuchAddress);
        }
        Ok(found)
    }

    /// The part of a range of a local space that is in its first window: memory, pieces and bytes.
    ///
    /// # Errors
    /// Those of [`cover_local`](Self::cover_local).
    pub(crate) fn local_part(
        &self,
        connection: ConnectionId,
        (offset, length): (i64, u64),
        need: Protection,
    ) -> Result<LocalPart, Error> {
        let (ids, at) = self.cover_local(connection, (offset, length), need)?;
        let window = ids.first().and_then(|id| self.local.get(*id));
        let window = window.ok_or(Error::NoSuchAddress)?;
        let bytes = length.min(window.core.chunks.bytes().saturating_sub(at));
        let pieces = window.core.chunks.pieces(at, bytes);
        Ok(LocalPart {
            pin: window.pin(),
            pieces: pieces.ok_or(Error::NoSuchAddress)?,
            bytes,
        })
    }

    /// Frees the range of a window for another one.
    pub(super) fn free_offset(&mut self, connection: Option<ConnectionId>, offset: i64) {
        if let Some(spaces) = connection.and_then(|id| self.spaces.get_mut(&id)) {
            spaces.local.remove(offset);
        }
    }
}
