//! How long a blocking call looks before it sleeps.
//!
//! Looking costs no system call and sees the peer's bytes at once; sleeping costs two wake-ups and
//! leaves the processor to others. A node may have one processor only, so who looks gives it away
//! every now and then: at first seldom, as the answer of a peer that looks as well takes a fraction
//! of a microsecond; within one node after each look, as nothing happens before the other program
//! runs.

use platform::pause::yield_now;

/// How blocking calls wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Waiting {
    /// Looking for about as long as a wake-up takes, then asleep.
    #[default]
    Adaptive = 0,
    /// Looking all the time: for the shortest answers, on a processor that has nothing else to do.
    Poll = 1,
    /// Asleep at once.
    Sleep = 2,
}

impl Waiting {
    /// The way with this number, or the default.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Poll,
            2 => Self::Sleep,
            _ => Self::Adaptive,
        }
    }
}

/// Looks before the processor is given away for the first time, and then between two times: 10 and
/// 2 µs under the emulator.
const FIRST_LOOKS: u32 = 2000;
const LOOKS: u32 = 400;
/// Times the processor is given away before a sleep.
const PAUSES: u32 = 20;
/// The same within one node, where each time lets others run.
const LOCAL_PAUSES: u32 = 50;

/// What is left of a call's patience.
pub struct Patience {
    waiting: Waiting,
    is_local: bool,
    is_first: bool,
    pauses: u32,
}

impl Patience {
    /// Fresh patience; `is_local`: the peer is a program of this node.
    pub fn new(waiting: Waiting, is_local: bool) -> Self {
        Self {
            waiting,
            is_local,
            is_first: true,
            pauses: if is_local { LOCAL_PAUSES } else { PAUSES },
        }
    }

    /// How often to look now.
    pub fn looks(&mut self) -> u32 {
        let is_first = core::mem::take(&mut self.is_first);
        match () {
            () if self.is_local || self.waiting == Waiting::Sleep => 1,
            () if is_first => FIRST_LOOKS,
            () => LOOKS,
        }
    }

    /// Gives the processor away; `false`: it is time to sleep instead.
    pub fn pause(&mut self) -> bool {
        match self.waiting {
            Waiting::Sleep => return false,
            Waiting::Poll => {}
            Waiting::Adaptive if self.pauses == 0 => return false,
            Waiting::Adaptive => self.pauses -= 1,
        }
        yield_now();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_unless_it_shall_not() {
        let pauses = |waiting, is_local, limit: u32| {
            let mut patience = Patience::new(waiting, is_local);
            (0..limit)
                .take_while(|_| patience.looks() > 0 && patience.pause())
                .count() as u32
        };
        assert_eq!(pauses(Waiting::Sleep, false, 1000), 0);
        assert_eq!(pauses(Waiting::Poll, false, 1000), 1000);
        assert_eq!(pauses(Waiting::Adaptive, false, 1000), PAUSES);
        assert_eq!(pauses(Waiting::Adaptive, true, 1000), LOCAL_PAUSES);
    }

    #[test]
    fn numbers_name_ways() {
        for way in [Waiting::Adaptive, Waiting::Poll, Waiting::Sleep] {
            assert_eq!(Waiting::from_number(way as u8), way);
        }
        assert_eq!(Waiting::from_number(77), Waiting::Adaptive);
    }
}
