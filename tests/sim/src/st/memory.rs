//! The work of programs with persistent memory: map, unmap, and positions in the peer's memory.
//!
//! Mapped memory consists of cells. The peer puts data into the even ones, the owner prepares data
//! for the peer to get in the odd ones, and the last cell is for data without a header, which
//! holds its generation.

use st_core::connection::Update;
use st_core::region::Unreachable;

use super::World;
use super::link::NotMoved;

/// Bytes in a cell.
pub(super) const CELL: usize = 64;
/// Most positions that a program remembers.
const MOST_POSITIONS: usize = 4;
/// Bytes of data without a header.
const SILENT: u64 = 4;

impl World {
    /// Maps memory on a channel, unless some is mapped.
    pub(super) fn map(&mut self, which: usize, number: usize) -> Result<(), String> {
        let channel = number as u32;
        let cells = 2 * (1 + self.rng.below(3)) + 1;
        let length = cells * CELL as u64;
        let base = self.rng.below(1 << 46);
        let place = &mut self.places[which];
        if place.connection.own_region(channel).is_some() {
            return Ok(());
        }
        let offset = place.connection.place(length);
        let offset = offset.map_err(|refusal| format!("no place for memory: {refusal:?}"))?;
        place.access.register(offset, vec![0; length as usize]);
        let announced = place.connection.announce(channel, base, length, offset);
        let record = announced.map_err(|refusal| format!("not announced: {refusal:?}"))?;
        if let Some(region) = place.connection.own_region(channel) {
            place.told.push_back(Update::Announced(channel, region));
        }
        self.report.maps += 1;
        self.tell(which, record);
        Ok(())
    }

    /// Unmaps the memory that is mapped on a channel.
    pub(super) fn unmap(&mut self, which: usize, number: usize) -> Result<(), String> {
        let channel = number as u32;
        let place = &mut self.places[which];
        let Some((record, region)) = place.connection.take_back(channel) else {
            return Ok(());
        };
        place.told.push_back(Update::TakenBack(channel, region));
        self.tell(which, record);
        if self.places[which].ended.is_some() {
            return Ok(());
        }
        let is_strict = self.is_strict(which);
        let access = &mut self.places[which].access;
        let silent = region.length as usize - CELL;
        let found = access.own(region.offset, silent, SILENT as usize);
        access.unregister(region.offset);
        let good = [vec![0; 4], region.generation.to_le_bytes().to_vec()];
        if is_strict && !found.is_some_and(|found| good.contains(&found)) {
            return Err(format!("end {which} has data of another generation"));
        }
        Ok(())
    }

    /// Chooses a cell of the peer's memory that no header in progress refers to. Returns its
    /// offset, its memory, and its distance from the beginning of the memory.
    pub(super) fn free_cell(&mut self, which: usize, number: usize) -> Option<(i64, i64, usize)> {
        let place = &self.places[which];
        let announced = place.connection.announced(number as u32);
        let region = announced.region().ok()?;
        let pairs = region.length / (2 * CELL as u64);
        let at = self.rng.below(pairs) * 2 * CELL as u64;
        let position = announced.at(at, CELL as u64).ok()?;
        let at = usize::try_from(at).ok()?;
        let mut sent = place.channels[number].sent.iter();
        let is_taken = sent.any(|sent| {
            let put = sent.put.as_ref();
            put.is_some_and(|put| (put.0, put.1) == (region.offset, at))
        });
        (!is_taken).then_some((position.offset, region.offset, at))
    }

    /// Chooses a cell of the end's own memory that no header in progress refers to.
    pub(super) fn own_cell(&mut self, which: usize, number: usize) -> Option<(i64, usize)> {
        let place = &self.places[which];
        let region = place.connection.own_region(number as u32)?;
        let pairs = region.length / (2 * CELL as u64);
        let at = (self.rng.below(pairs) * 2 + 1) as usize * CELL;
        let mut sent = place.channels[number].sent.iter();
        let is_taken = sent.any(|sent| {
            let get = sent.get.as_ref();
            get.is_some_and(|get| (get.0, get.1) == (region.offset, at))
        });
        (!is_taken).then_some((region.offset, at))
    }

    /// Checks memory of the peer that could not be reached: it must have been taken back.
    pub(super) fn check_gone(&self, which: usize, number: usize) -> Result<(), String> {
        let peer = &self.places[which ^ 1];
        let there = peer.connection.own_region(number as u32);
        let known = self.places[which].connection.announced(number as u32);
        let is_current = known.region().ok() == there && there.is_some();
        match self.is_strict(which) && is_current && peer.ended.is_none() {
            true => Err(format!("end {which} cannot reach memory that is announced")),
            false => Ok(()),
        }
    }

    /// Remembers a position, or uses one that was remembered. Only positions in memory that is
    /// still announced may be used.
    pub(super) fn use_position(&mut self, which: usize, number: usize) -> Result<(), String> {
        let is_strict = self.is_strict(which);
        let place = &mut self.places[which];
        let announced = place.connection.announced(number as u32);
        let region = announced.region();
        let positions = &mut place.channels[number].positions;
        if let Ok(region) = region
            && self.rng.one_in(2)
        {
            // Hostile peers may announce less than a cell.
            let silent = region.length.saturating_sub(CELL as u64);
            let base = region.base.wrapping_add(silent);
            let position = announced.at(silent, SILENT);
            if position != announced.at_address(base, SILENT) {
                return Err("addresses and distances are different".into());
            }
            if let Ok(position) = position {
                positions.truncate(MOST_POSITIONS - 1);
                positions.insert(0, position);
            }
            let beyond = announced.at(silent, region.length - silent + 1);
            if beyond != Err(Unreachable::Outside) {
                return Err(format!("a position beyond the memory: {beyond:?}"));
            }
            return Ok(());
        }
        let count = positions.len() as u64;
        let Some(position) = positions.get(self.rng.below(count) as usize).copied() else {
            return Ok(());
        };
        let is_current = region.is_ok_and(|region| region.generation == position.generation);
        if announced.check(position).is_ok() != is_current {
            return Err(format!(
                "{position:?} in {region:?}: {:?}",
                announced.check(position)
            ));
        }
        if !is_current {
            self.report.stale += 1;
            return Ok(());
        }
        let access = &mut self.places[which].access;
        access.begin();
        if is_strict && self.rng.one_in(2) {
            // The content does not matter.
            let _ = access.get(position.offset, SILENT as usize);
            return Ok(());
        }
        let bytes = position.generation.to_le_bytes();
        match access.put(position.offset, &bytes, false) {
            Ok(()) => Ok(()),
            Err(NotMoved::Gone) => self.check_gone(which, number),
            Err(NotMoved::Dead) => {
                self.died(which);
                Ok(())
            }
        }
    }
}
