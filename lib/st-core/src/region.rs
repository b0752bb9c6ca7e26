//! Announced memory: the one range that a peer offers on a channel, and positions in it.
//!
//! The peer announces a range with its base address, so programs name remote memory by the peer's
//! addresses (the protocol's "linear address base"). The announcement also has the range's offset
//! in the peer's registered address space, where SCIF reaches it, and a generation, which grows
//! with each announcement: a position of an earlier generation is gone and never leads into
//! another range.

/// A range that the peer has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The peer's address of its first byte.
    pub base: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its offset in the peer's registered address space.
    pub offset: i64,
    /// How far behind its first byte level 0 counts buffers and offsets from: a range has whole
    /// pages, and the peer's program may have mapped memory that begins within one.
    pub origin: u32,
    /// The number of the announcement on its channel, from 1 on.
    pub generation: u32,
}

impl Region {
    /// How far ⟨buffer, offset⟩ of level 0, which is `ahead` bytes behind the origin, is behind
    /// the first byte.
    ///
    /// # Errors
    /// `Outside`.
    pub fn ahead_of_origin(&self, ahead: u64) -> Result<u64, Unreachable> {
        let ahead = ahead.checked_add(self.origin.into());
        ahead.ok_or(Unreachable::Outside)
    }
}

/// Why an announcement is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRegion {
    /// The range is empty, has no byte at its origin, or goes beyond the address space, by its
    /// base or by its offset.
    Range,
    /// The generation is not above that of the last announcement.
    Generation,
    /// A range is announced already and was not taken back.
    Announced,
}

/// A place in announced memory, checked when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The offset in the peer's registered address space.
    pub offset: i64,
    /// The generation for which it was checked.
    pub generation: u32,
}

/// Why memory of the peer cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The peer has announced nothing yet: wait for its first announcement.
    NotYet,
    /// The range was taken back, or the position is of an earlier one: `ENXIO`.
    Gone,
    /// Not all of the bytes lie in the range: `ENXIO`.
    Outside,
}

/// The peer's announcements on one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    region: Option<Region>,
    /// The generation of the last announcement, 0 before the first one.
    generation: u32,
}

impl Announced {
    /// Notes an announcement of the peer.
    ///
    /// # Errors
    /// All of [`BadRegion`]: the peer has broken the protocol.
    pub fn announce(&mut self, region: Region) -> Result<(), BadRegion> {
        if self.region.is_some() {
            return Err(BadRegion::Announced);
        }
        if region.generation <= self.generation {
            return Err(BadRegion::Generation);
        }
        let fits = u64::from(region.origin) < region.length
            && region.base.checked_add(region.length).is_some()
            && region.offset >= 0
            && region.offset.checked_add_unsigned(region.length).is_some();
        if !fits {
            return Err(BadRegion::Range);
        }
        self.generation = region.generation;
        self.region = Some(region);
        Ok(())
    }

    /// Notes that the peer has taken back the announcement with this generation; `false`: there is
    /// none.
    pub fn take_back(&mut self, generation: u32) -> bool {
        let is_current = self
            .region
            .is_some_and(|region| region.generation == generation);
        if is_current {
            self.region = None;
        }
        is_current
    }

    /// The range that is announced now.
    ///
    /// # Errors
    /// `NotYet`, `Gone`.
    pub fn region(&self) -> Result<Region, Unreachable> {
        match (self.region, self.generation) {
            (Some(region), _) => Ok(region),
            (None, 0) => Err(Unreachable::NotYet),
            (None, _) => Err(Unreachable::Gone),
        }
    }

    /// The position of `length` bytes at the peer's address `address`.
    ///
    /// # Errors
    /// All of [`Unreachable`].
    pub fn at_address(&self, address: u64, length: u64) -> Result<Position, Unreachable> {
        let region = self.region()?;
        let ahead = address.checked_sub(region.base);
        self.at(ahead.ok_or(Unreachable::Outside)?, length)
    }

    /// The position of `length` bytes, `ahead` bytes behind the beginning of the range.
    ///
    /// # Errors
    /// All of [`Unreachable`].
    pub fn at(&self, ahead: u64, length: u64) -> Result<Position, Unreachable> {
        let region = self.region()?;
        let end = ahead.checked_add(length);
        if end.is_none_or(|end| end > region.length) {
            return Err(Unreachable::Outside);
        }
        // It is in the range, whose end was checked.
        Ok(Position {
            offset: region.offset.wrapping_add_unsigned(ahead),
            generation: region.generation,
        })
    }

    /// Whether a position may still be used.
    ///
    /// # Errors
    /// `NotYet`, `Gone`.
    pub fn check(&self, position: Position) -> Result<(), Unreachable> {
        let region = self.region()?;
        if region.generation != position.generation {
            return Err(Unreachable::Gone);
        }
        Ok(())
    }
}

/// Why arguments do not name the range that an end has mapped on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMapped {
    /// No range is mapped: `ENXIO`.
    Nothing,
    /// Another range is mapped: `EINVAL`.
    Another,
}

/// Checks that an address and a length (0 for the whole range) name the range that this end has
/// mapped on a channel. `mapped`: its address and its length in bytes.
///
/// # Errors
/// All of [`NotMapped`].
pub fn names_mapped(
    mapped: Option<(u64, u64)>,
    address: u64,
    length: i64,
) -> Result<(), NotMapped> {
    let (base, bytes) = mapped.ok_or(NotMapped::Nothing)?;
    let is_whole = length == 0 || u64::try_from(length) == Ok(bytes);
    match address == base && is_whole {
        true => Ok(()),
        false => Err(NotMapped::Another),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        base: 0x7000,
        length: 0x100,
        offset: 0x3000,
        origin: 0x10,
        generation: 1,
    };

    #[test]
    fn positions_are_inside() {
        let mut announced = Announced::default();
        assert_eq!(announced.at(0, 1), Err(Unreachable::NotYet));
        announced.announce(REGION).unwrap();
        let at = |address, length| announced.at_address(address, length).map(|p| p.offset);
        assert_eq!(at(0x7000, 0x100), Ok(0x3000));
        assert_eq!(at(0x70ff, 1), Ok(0x30ff));
        assert_eq!(at(0x7100, 0), Ok(0x3100));
        for (address, length) in [
            (0x6fff, 1),
            (0x7100, 1),
            (0x70ff, 2),
            (0x7001, u64::MAX),
            (u64::MAX, 2),
        ] {
            assert_eq!(at(address, length), Err(Unreachable::Outside));
        }
    }

    #[test]
    fn level_0_counts_from_the_origin() {
        assert_eq!(REGION.ahead_of_origin(0), Ok(0x10));
        assert_eq!(REGION.ahead_of_origin(0x1008), Ok(0x1018));
        let far = REGION.ahead_of_origin(u64::MAX);
        assert_eq!(far, Err(Unreachable::Outside));
    }

    #[test]
    fn a_position_never_leads_into_a_later_range() {
        let mut announced = Announced::default();
        announced.announce(REGION).unwrap();
        let position = announced.at(0, 8).unwrap();
        assert!(!announced.take_back(2));
        assert!(announced.take_back(1));
        assert!(!announced.take_back(1));
        assert_eq!(announced.check(position), Err(Unreachable::Gone));
        let again = Region {
            generation: 2,
            ..REGION
        };
        announced.announce(again).unwrap();
        assert_eq!(announced.check(position), Err(Unreachable::Gone));
        assert_eq!(announced.check(announced.at(0, 8).unwrap()), Ok(()));
    }

    #[test]
    fn bad_announcements_change_nothing() {
        let mut announced = Announced::default();
        let bad = [
            Region {
                length: 0,
                ..REGION
            },
            Region {
                origin: 0x100,
                ..REGION
            },
            Region {
                base: u64::MAX - 0xfe,
                ..REGION
            },
            Region {
                offset: -4096,
                ..REGION
            },
            Region {
                offset: i64::MAX - 0xfe,
                ..REGION
            },
        ];
        for region in bad {
            assert_eq!(announced.announce(region), Err(BadRegion::Range));
        }
        let zero = Region {
            generation: 0,
            ..REGION
        };
        assert_eq!(announced.announce(zero), Err(BadRegion::Generation));
        assert_eq!(announced, Announced::default());
        announced.announce(REGION).unwrap();
        let second = Region {
            generation: 2,
            ..REGION
        };
        assert_eq!(announced.announce(second), Err(BadRegion::Announced));
        assert_eq!(announced.region(), Ok(REGION));
        announced.take_back(1);
        assert_eq!(announced.announce(REGION), Err(BadRegion::Generation));
    }

    #[test]
    fn only_the_whole_range_is_taken_back() {
        let mapped = Some((0x7000, 8192));
        let names = |address, length| names_mapped(mapped, address, length);
        assert_eq!(names(0x7000, 8192), Ok(()));
        assert_eq!(names(0x7000, 0), Ok(()));
        for (address, length) in [
            (0x8000, 0),
            (0, 0),
            (0x7000, 4096),
            (0x7000, 8193),
            (0x7000, -1),
            (0x7000, i64::MIN),
        ] {
            assert_eq!(names(address, length), Err(NotMapped::Another));
        }
        assert_eq!(names_mapped(None, 0x7000, 0), Err(NotMapped::Nothing));
    }
}
