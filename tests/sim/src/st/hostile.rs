//! A program that stores anything into its peers' queue windows and sends anything.

use st_core::queue::{LINE, QueueError};
use st_core::record::{Parameters, RECORD_BYTES, Record, SessionState};
use st_core::region::Region;

use super::World;
use crate::faults::Fault;

/// Offsets of the words in a line that have a meaning: credits and requests to wake, kind and
/// sequence.
const WORDS: [usize; 5] = [0, 8, 12, 56, 60];

impl World {
    /// Makes one attack from an end on its peer.
    pub(super) fn attack(&mut self, which: usize) -> Result<(), String> {
        match self.rng.below(8) {
            0..4 => self.attack_queue(which),
            4 => self.attack_credit(which)?,
            5 if self.places[which].is_clean => self.attack_half(which)?,
            5 | 6 => self.attack_stream(which),
            _ => self.work(which)?,
        }
        Ok(())
    }

    /// Returns a number that is possible here, nearly possible, or impossible.
    fn any_number(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.number(),
            1 => 0_u64.wrapping_sub(self.rng.below(4)),
            2 => 1 << self.rng.below(64),
            _ => self.rng.below(20),
        }
    }

    fn attack_queue(&mut self, which: usize) {
        self.report.faults.note(Fault::HostileStore);
        let value = self.any_number().to_le_bytes();
        let end = self.places[which].access.peer_bytes();
        let line = self.rng.below((end / LINE) as u64) as usize * LINE;
        let word = WORDS[self.rng.below(WORDS.len() as u64) as usize];
        let count = match word {
            0 => 8,
            _ => 4,
        };
        self.places[which].is_clean = false;
        let access = &mut self.places[which].access;
        access.scribble(line + word, &value[..count]);
    }

    /// Stores the first of two slots without the second one, which the receiver must notice.
    fn attack_half(&mut self, which: usize) -> Result<(), String> {
        let victim = which ^ 1;
        let ended = [which, victim].map(|end| self.places[end].ended.is_some());
        if ended != [false; 2] || self.places[victim].is_hostile {
            return Ok(());
        }
        let super::Place {
            access, channels, ..
        } = &mut self.places[which];
        access.begin();
        if !matches!(channels[0].sender.room(access), Ok(2..)) {
            return Ok(());
        }
        self.report.faults.note(Fault::HostileStore);
        let place = &mut self.places[which];
        place.is_clean = false;
        let layout = place.connection.agreed().peer;
        let slots = u64::from(layout.places());
        let pushed = place.channels[0].sender.pushed();
        let slot = LINE * (layout.channels() as usize + (pushed % slots) as usize);
        let turn = (pushed / slots + 1) as u32;
        place.access.scribble(slot + 56, &3_u32.to_le_bytes());
        place.access.scribble(slot + 60, &turn.to_le_bytes());
        let side = self.places[victim].access.side;
        let link = &self.places[victim].access.link;
        link.borrow_mut().land_all(side);
        for _ in 0..=slots {
            let super::Place {
                access, channels, ..
            } = &mut self.places[victim];
            access.begin();
            match channels[0].receiver.receive(access) {
                Ok(Some(_)) => {}
                Ok(None) => return Err("half of a descriptor was taken or overlooked".into()),
                Err(QueueError::Broken) => return self.broken(victim),
                // The victim's program was about to die.
                Err(QueueError::Memory(_)) => {
                    self.died(victim);
                    return Ok(());
                }
            }
        }
        Err("more descriptors than slots".into())
    }

    /// Returns a credit for more than was ever sent, which the next poll of the sender must
    /// notice.
    fn attack_credit(&mut self, which: usize) -> Result<(), String> {
        self.report.faults.note(Fault::HostileStore);
        self.places[which].is_clean = false;
        let victim = which ^ 1;
        if self.places[victim].ended.is_some() {
            return Ok(());
        }
        let number = self.rng.below(self.places[which].channels.len() as u64) as usize;
        let value = u64::MAX - self.rng.below(1000);
        let access = &mut self.places[which].access;
        access.scribble(number * LINE, &value.to_le_bytes());
        let side = self.places[victim].access.side;
        let link = &self.places[victim].access.link;
        link.borrow_mut().land_all(side);
        let super::Place {
            access, channels, ..
        } = &mut self.places[victim];
        access.begin();
        match channels[number].sender.room(access) {
            Err(QueueError::Broken) => self.broken(victim),
            // The hostile program's node may have lost its power, so that nothing arrives any
            // more.
            _ if self.places[which].ended.is_some() => Ok(()),
            other => Err(format!("a credit for what was never sent: {other:?}")),
        }
    }

    fn attack_stream(&mut self, which: usize) {
        self.report.faults.note(Fault::HostileMessage);
        let mut bytes = match self.rng.below(3) {
            0 => self.random_bytes(RECORD_BYTES),
            _ => self.any_record().encode().to_vec(),
        };
        if self.rng.one_in(3) {
            let at = self.rng.below(RECORD_BYTES as u64) as usize;
            bytes[at] = self.rng.number() as u8;
        }
        if self.rng.one_in(8) {
            bytes.truncate(self.rng.below(RECORD_BYTES as u64) as usize);
        }
        // A hostile program that has died is not killed here.
        let _ = self.places[which].access.send(&bytes);
    }

    fn any_record(&mut self) -> Record {
        let channel = match self.rng.one_in(4) {
            true => self.any_number() as u32,
            false => self.rng.below(2) as u32,
        };
        let generation = self.any_number() as u32;
        let end = Parameters {
            port: 1,
            key: generation,
            bypass: true,
            channels: channel,
            slots: 8,
            window: 0,
        };
        match self.rng.below(12) {
            0 => Record::Request(end),
            1 => Record::Answer(end),
            2 => Record::Reject,
            3 => Record::Disconnect,
            4 => Record::TakeBack {
                channel,
                generation,
            },
            5 => Record::State {
                channel,
                state: SessionState {
                    key: self.any_number(),
                    taken: self.any_number(),
                    is_new: self.rng.one_in(2),
                },
            },
            6..9 => Record::Announce {
                channel,
                region: Region {
                    base: self.any_number(),
                    length: self.any_number(),
                    offset: self.any_number() as i64,
                    origin: self.any_number() as u32,
                    generation,
                },
            },
            _ => Record::Wake { channel },
        }
    }
}
