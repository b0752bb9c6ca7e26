//! Memory of simulated programs: addresses, and the parts that are mapped.

use std::collections::BTreeMap;
use std::mem::offset_of;

use st_core::header::Header;

use super::{Outcome, Simulated, with};
use conformance::st::call::Reply;

/// Memory of a program, by address.
pub struct Space {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            blocks: BTreeMap::new(),
            next: 0x10_0000,
        }
    }
}

impl Space {
    /// Allocates memory at the beginning of a page.
    pub fn allocate(&mut self, length: u64) -> u64 {
        let at = self.next;
        self.blocks.insert(at, vec![0; length as usize]);
        // A gap separates two blocks.
        self.next += (length + 8192).next_multiple_of(4096);
        at
    }

    pub fn free(&mut self, at: u64) {
        self.blocks.remove(&at);
    }

    fn part(&mut self, at: u64, length: u64) -> Option<&mut [u8]> {
        let (start, block) = self.blocks.range_mut(..=at).next_back()?;
        let from = (at - start) as usize;
        block.get_mut(from..from + length as usize)
    }
}

/// The size of a header, and the offsets of its fields.
pub fn layout() -> Vec<i64> {
    let offsets = [
        size_of::<Header>(),
        offset_of!(Header, operation),
        offset_of!(Header, parameter),
        offset_of!(Header, destination_port),
        offset_of!(Header, source_port),
        offset_of!(Header, destination_key),
        offset_of!(Header, checksum),
        offset_of!(Header, block_id),
        offset_of!(Header, buffer),
        offset_of!(Header, offset),
        offset_of!(Header, sync),
        offset_of!(Header, block_number),
        offset_of!(Header, destination_id),
        offset_of!(Header, source_id),
    ];
    offsets.map(|offset| offset as i64).to_vec()
}

/// Bytes of the pattern that the agents use, too.
pub fn pattern(length: u64, seed: u64) -> Vec<u8> {
    let byte = |at: u64| at * 31 + (at >> 8) * 7 + seed * 13 + 1;
    (0..length).map(|at| byte(at) as u8).collect()
}

impl Simulated {
    /// The mappings of a program: address, length, connection, offset.
    fn mapped(&self, side: usize) -> Vec<(u64, u64, usize, i64)> {
        let handles = self.programs[side].handles.values();
        let mapped = handles.filter_map(|handle| {
            let (at, length, offset) = handle.mapped?;
            Some((at, length, handle.connection, offset))
        });
        mapped.collect()
    }

    /// Reads bytes of a program's memory.
    ///
    /// # Panics
    /// There is no such memory.
    pub(super) fn read(&mut self, side: usize, at: u64, length: u64) -> Vec<u8> {
        let memory = &mut self.programs[side].memory;
        let mut bytes = memory.part(at, length).expect("memory").to_vec();
        for (start, whole, connection, offset) in self.mapped(side) {
            let (from, to) = (at.max(start), (at + length).min(start + whole));
            if from >= to {
                continue;
            }
            let ends = &self.connections[connection].ends;
            let (ahead, count) = ((from - start) as usize, (to - from) as usize);
            if let Some(part) = ends.load(side, offset, ahead, count) {
                bytes[(from - at) as usize..(to - at) as usize].copy_from_slice(&part);
            }
        }
        bytes
    }

    /// Stores bytes into a program's memory.
    ///
    /// # Panics
    /// There is no such memory.
    pub(super) fn write(&mut self, side: usize, at: u64, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let memory = &mut self.programs[side].memory;
        let part = memory.part(at, length).expect("memory");
        part.copy_from_slice(bytes);
        for (start, whole, connection, offset) in self.mapped(side) {
            let (from, to) = (at.max(start), (at + length).min(start + whole));
            if from < to {
                let part = &bytes[(from - at) as usize..(to - at) as usize];
                let ends = &mut self.connections[connection].ends;
                ends.store(side, offset, (from - start) as usize, part);
            }
        }
    }

    pub(super) fn word(&mut self, side: usize, at: u64) -> u64 {
        let bytes = self.read(side, at, 8);
        bytes
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// Unmaps memory. Returns its address, if some was mapped.
    pub(super) fn unmap(&mut self, side: usize, number: u64) -> Option<u64> {
        let handle = self.programs[side].handles.get_mut(&number)?;
        let (at, length, _) = handle.mapped.take()?;
        let (connection, channel) = (handle.connection, handle.channel);
        let content = self.connections[connection].ends.unmap(side, channel)?;
        // Nothing is left of the contents if the end was closed before.
        if content.len() as u64 == length {
            self.write(side, at, &content);
        }
        Some(at)
    }

    /// The position of the first byte that differs from a pattern.
    pub(super) fn compare(&mut self, side: usize, at: u64, length: u64, seed: u64) -> Outcome {
        let bytes = self.read(side, at, length);
        let expected = pattern(length, seed);
        let mut both = bytes.iter().zip(&expected);
        let place = both.position(|(found, expected)| found != expected);
        with(vec![place.map_or(-1, |place| place as i64)])
    }

    /// The number of bytes that have a value.
    pub(super) fn same(&mut self, side: usize, at: u64, length: u64, value: u64) -> Outcome {
        let bytes = self.read(side, at, length);
        let count = bytes.iter().take_while(|byte| u64::from(**byte) == value);
        Some(Reply::plain(Ok(count.count() as i64)))
    }
}
