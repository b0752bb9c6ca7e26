//! The lanes of a context in the daemon: there are none. Queue pairs are connected by the
//! library in the programs; one that commands post to has a peer that never answers.

use verbs_core::host::{Available, Host, LaneId, NotMoved, Place, Source, Target};
use verbs_core::record::HEADER_BYTES;
use verbs_core::types::Atomic;

/// A context without lanes, and without a way to its program's memory.
#[derive(Debug)]
pub struct Unconnected;

impl Host for Unconnected {
    fn read(&mut self, _address: u64, to: &mut [u8]) {
        to.fill(0);
    }

    fn write(&mut self, _address: u64, _from: &[u8]) {}

    fn room(&mut self, _lane: LaneId) -> usize {
        0
    }

    fn send(&mut self, _lane: LaneId, _header: &[u8; HEADER_BYTES], _payload: Source<'_>) {}

    fn available(&mut self, _lane: LaneId) -> Available {
        Available {
            bytes: 0,
            has_ended: true,
        }
    }

    fn receive(&mut self, _lane: LaneId, _target: Target<'_>) {}

    fn expose(&mut self, _lane: LaneId, _place: Place, _writes: bool) -> Result<u64, NotMoved> {
        Err(NotMoved::Ended)
    }

    fn withdraw(&mut self, _lane: LaneId, _window: u64) {}

    fn put(
        &mut self,
        _lane: LaneId,
        _window: u64,
        _offset: u64,
        _from: Source<'_>,
    ) -> Result<(), NotMoved> {
        Err(NotMoved::Ended)
    }

    fn get(
        &mut self,
        _lane: LaneId,
        _window: u64,
        _offset: u64,
        _to: &[Place],
    ) -> Result<(), NotMoved> {
        Err(NotMoved::Ended)
    }

    fn atomic(
        &mut self,
        _lane: LaneId,
        _window: u64,
        _offset: u64,
        _operation: Atomic,
    ) -> Result<u64, NotMoved> {
        Err(NotMoved::Ended)
    }
}
