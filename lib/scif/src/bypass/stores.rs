//! Stores of single values into the windows of both ends, for the signals of fences.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use scif_ring::validity::{enter, leave};

use super::control::Control;
use super::rma::{Need, Rma, Space};
use super::windows::Use;

const BYTES: u64 = size_of::<u64>() as u64;

impl Space {
    /// Maps the double word at an offset for writing, if that is worth it: from its second use on.
    /// Returns whether it is mapped.
    fn cover_word(&mut self, epd: usize, offset: i64) -> bool {
        let need = Need {
            offset,
            bytes: BYTES,
            what: Use::Write,
            // The value has no place.
            other: 0,
        };
        let is_mapped = self.windows.find(offset, BYTES, Use::Write).is_some();
        is_mapped || self.cover(epd, need)
    }

    /// The place of a value, and the value; `Some(None)` if there is no value. `None`: its window
    /// is not mapped.
    fn place(&mut self, epd: usize, value: Option<(i64, u64)>) -> Option<Option<Store<'_>>> {
        let Some((offset, value)) = value else {
            return Some(None);
        };
        if !self.cover_word(epd, offset) {
            return None;
        }
        let piece = self.windows.find(offset, BYTES, Use::Write)?;
        let word = piece.pages.word_u64(piece.at).ok()?;
        Some(Some(Store { word, value }))
    }
}

/// A value and the mapped double word that it goes to.
struct Store<'a> {
    word: &'a AtomicU64,
    value: u64,
}

impl Rma {
    /// Stores values into double words of the own end's windows and of the peer's, the own one
    /// first, if both can be stored. `None`: nothing was stored.
    pub fn store(
        &self,
        epd: usize,
        (control, is_closed): (&Control, &AtomicBool),
        stores: [Option<(i64, u64)>; 2],
    ) -> Option<()> {
        let state = control.now();
        let aligned = |(offset, _): &(i64, u64)| offset % BYTES as i64 == 0;
        if !state.is_connected() || !stores.iter().flatten().all(aligned) {
            return None;
        }
        let mut spaces = self.current(state);
        let spaces = &mut *spaces;
        let own = spaces.own.place(epd, stores[0])?;
        let peer = spaces.peer.place(epd, stores[1])?;
        // Checked after the mapping, as for `fetch`.
        if is_closed.load(Ordering::SeqCst) {
            return None;
        }
        let epoch = state.epoch();
        if !enter(&mut &*control, epoch) {
            return None;
        }
        // A full fence before each: what was copied before has arrived.
        for store in own.into_iter().chain(peer) {
            store.word.swap(store.value, Ordering::SeqCst);
        }
        // The stores count, whatever has ended meanwhile, as for `fetch`.
        let _ = leave(&mut &*control, epoch);
        Some(())
    }
}
