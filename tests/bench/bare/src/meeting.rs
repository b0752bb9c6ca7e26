//! How the two programs find each other: a place in the link memory behind what the nodes use.
//!
//! Each side writes a number of its own and, once it has seen it, the other's. Both are there when
//! each has seen the other's present number; what an earlier run left there is no harm.

use platform::clock::ticks;
use platform::mem::Region;
use runtime::time::{Duration, Instant, sleep};
use scif_abi::link::MIN_LINK_BYTES;

use crate::{Failure, failed};

/// Where the meeting place begins and ends in the link memory.
const MEETING_START: usize = 64 * 1024;
pub const MEETING_END: usize = MEETING_START + 2 * SIDE_BYTES;
const _: () = assert!(MIN_LINK_BYTES <= MEETING_START);

/// A side's words, on cache lines of their own.
const SIDE_BYTES: usize = 256;
const NUMBER: usize = 0;
const SEEN: usize = 8;
const CONTROL: usize = 16;
const WORD: usize = 64;

/// How long a side waits for the other one.
const PATIENCE: Duration = Duration::from_secs(60);

/// The meeting place of a link memory.
pub fn place(shared: &Region) -> Result<Region, Failure> {
    let place = shared.part(MEETING_START, 2 * SIDE_BYTES);
    place.map_err(failed("the link memory"))
}

/// Both sides' words.
pub struct Meeting {
    own: Region,
    peer: Region,
}

impl Meeting {
    /// Waits until the other side is there too. Each leaves a number (an address) for the other;
    /// returns the other's.
    pub fn meet(place: &Region, side: usize, number: u64) -> Result<(Self, u64), Failure> {
        let part = |side: usize| {
            let part = place.part(SIDE_BYTES * side, SIDE_BYTES);
            part.map_err(failed("the meeting place"))
        };
        let meeting = Self {
            own: part(side)?,
            peer: part(1 - side)?,
        };
        let peer = meeting.wait(number);
        Ok((meeting, peer.map_err(failed("meeting the peer"))??))
    }

    fn wait(&self, number: u64) -> platform::Result<Result<u64, Failure>> {
        let own = ticks() | 1;
        self.own.write(CONTROL, number)?;
        self.own.write(WORD, 0_u64)?;
        self.own.store_release_u64(SEEN, 0)?;
        self.own.store_release_u64(NUMBER, own)?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let theirs = self.peer.load_acquire_u64(NUMBER)?;
            self.own.store_release_u64(SEEN, theirs)?;
            if theirs != 0 && self.peer.load_acquire_u64(SEEN)? == own {
                return Ok(Ok(self.peer.read(CONTROL)?));
            }
            sleep(Duration::from_millis(1));
        }
        Ok(Err("the program does not run on the other node".into()))
    }

    /// Stores the word the other side looks at.
    pub fn say(&self, word: u64) -> platform::Result<()> {
        Ok(self.own.store_release_u64(WORD, word)?)
    }

    /// The other side's word.
    pub fn heard(&self) -> platform::Result<u64> {
        Ok(self.peer.load_acquire_u64(WORD)?)
    }
}
