//! The state of a connection at one end: announcements of both sides, and the peer's records as
//! they arrive.
//!
//! A [`Connection`] is fed with the bytes of the connection's stream and reports what changes. It
//! gives each announcement of this end a generation and an offset in the registered address space.
//! Offsets are never used twice, so a position in memory that was taken back leads nowhere,
//! however late its holder learns of that.

use crate::queue::MAX_CHANNELS;
use crate::record::{Parameters, RECORD_BYTES, Record, SessionState};
use crate::region::{Announced, Region};
use crate::setup::Agreed;

/// Where announced memory begins in the registered address space: above the offsets that SCIF
/// gives out by itself.
pub const FIRST_OFFSET: i64 = 1 << 40;
/// Offsets of announced memory are multiples of this, so that mappings of any size fit.
pub const OFFSET_STEP: u64 = 4 << 20;

/// The peer has broken the protocol: the connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Why memory cannot be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The channel has announced memory already.
    Announced,
    /// There are no more offsets or generations.
    Exhausted,
}

/// What a record of the peer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// It has announced memory on a channel.
    Announced(u32, Region),
    /// It has taken memory back.
    TakenBack(u32, Region),
    /// It has sent or taken something on a channel, or asks this end to look.
    Wake(u32),
    /// It begins or resumes a session of level 2 on a channel.
    Session(u32, SessionState),
    /// It does not know the session with this key, on a channel.
    NoSession(u32, u64),
    /// It ends the connection: what it has sent has arrived, and nothing more follows.
    Ended,
}

/// One channel.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    peer: Announced,
    own: Option<Region>,
    generation: u32,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    own: Parameters,
    agreed: Agreed,
    channels: [Channel; MAX_CHANNELS as usize],
    /// Where the next announced memory is registered.
    next_offset: i64,
    /// The beginning of a record that has arrived only in part.
    begun: [u8; RECORD_BYTES],
    filled: usize,
    is_broken: bool,
}

impl Connection {
    /// An end whose set-up is done.
    pub fn new(own: Parameters, agreed: Agreed) -> Connection {
        Connection {
            own,
            agreed,
            channels: [Channel::default(); MAX_CHANNELS as usize],
            next_offset: FIRST_OFFSET,
            begun: [0; RECORD_BYTES],
            filled: 0,
            is_broken: false,
        }
    }

    /// The parameters of this end, as announced in set-up.
    pub const fn own(&self) -> &Parameters {
        &self.own
    }

    /// The parameters that both ends have agreed on.
    pub const fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Whether there is such a channel.
    pub const fn has_channel(&self, channel: u32) -> bool {
        channel < self.own.channels
    }

    /// The peer's announcement on a channel; on one that does not exist, no announcement.
    pub fn announced(&self, channel: u32) -> Announced {
        let channel = self.channels.get(channel as usize);
        channel.map_or(Announced::default(), |channel| channel.peer)
    }

    /// The memory that this end has announced on a channel.
    pub fn own_region(&self, channel: u32) -> Option<Region> {
        self.channels.get(channel as usize)?.own
    }

    /// The offset at which the next memory to be announced, of `length` bytes, has to be
    /// registered.
    ///
    /// # Errors
    /// `Exhausted`.
    pub fn place(&mut self, length: u64) -> Result<i64, Refusal> {
        let offset = self.next_offset;
        let room = length.checked_next_multiple_of(OFFSET_STEP);
        let next = room.and_then(|room| offset.checked_add_unsigned(room));
        self.next_offset = next.ok_or(Refusal::Exhausted)?;
        Ok(offset)
    }

    /// Announces memory that is registered at a [`place`](Connection::place). Returns the record
    /// to send.
    ///
    /// # Errors
    /// All of [`Refusal`].
    pub fn announce(
        &mut self,
        channel: u32,
        base: u64,
        length: u64,
        offset: i64,
    ) -> Result<Record, Refusal> {
        self.announce_from(channel, base, length, offset, 0)
    }

    /// Announces memory as [`announce`](Connection::announce) does. Level 0 counts from `origin`
    /// bytes behind its beginning.
    ///
    /// # Errors
    /// All of [`Refusal`].
    pub fn announce_from(
        &mut self,
        channel: u32,
        base: u64,
        length: u64,
        offset: i64,
        origin: u32,
    ) -> Result<Record, Refusal> {
        let place = &mut self.channels[channel as usize % MAX_CHANNELS as usize];
        if place.own.is_some() {
            return Err(Refusal::Announced);
        }
        let generation = place.generation.checked_add(1);
        let generation = generation.ok_or(Refusal::Exhausted)?;
        let region = Region {
            base,
            length,
            offset,
            origin,
            generation,
        };
        place.generation = generation;
        place.own = Some(region);
        Ok(Record::Announce { channel, region })
    }

    /// Takes back the announced memory of a channel. Returns the record to send before the memory
    /// is unregistered, and the memory. `None`: nothing is announced.
    pub fn take_back(&mut self, channel: u32) -> Option<(Record, Region)> {
        let region = self.channels.get_mut(channel as usize)?.own.take()?;
        let generation = region.generation;
        let record = Record::TakeBack {
            channel,
            generation,
        };
        Some((record, region))
    }

    /// Receives bytes of the stream, in pieces of any size, and reports what changes.
    ///
    /// # Errors
    /// [`Broken`], from the first bad record on.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        mut report: impl FnMut(Update),
    ) -> Result<(), Broken> {
        while !bytes.is_empty() && !self.is_broken {
            let count = bytes.len().min(RECORD_BYTES - self.filled);
            let (piece, rest) = bytes.split_at(count);
            self.begun[self.filled..self.filled + count].copy_from_slice(piece);
            self.filled += count;
            bytes = rest;
            if self.filled < RECORD_BYTES {
                break;
            }
            self.filled = 0;
            let record = Record::decode(&self.begun).map_err(|_| Broken);
            match record.and_then(|record| self.take(record)) {
                Ok(update) => report(update),
                Err(Broken) => self.is_broken = true,
            }
        }
        match self.is_broken {
            true => Err(Broken),
            false => Ok(()),
        }
    }

    fn take(&mut self, record: Record) -> Result<Update, Broken> {
        let count = self.own.channels;
        let known = |channel: u32| match channel < count {
            true => Ok(channel as usize),
            false => Err(Broken),
        };
        match record {
            Record::Announce { channel, region } => {
                let announced = &mut self.channels[known(channel)?].peer;
                announced.announce(region).map_err(|_| Broken)?;
                Ok(Update::Announced(channel, region))
            }
            Record::TakeBack {
                channel,
                generation,
            } => {
                let announced = &mut self.channels[known(channel)?].peer;
                let region = announced.region().map_err(|_| Broken)?;
                match announced.take_back(generation) {
                    true => Ok(Update::TakenBack(channel, region)),
                    false => Err(Broken),
                }
            }
            Record::Wake { channel } => {
                known(channel)?;
                Ok(Update::Wake(channel))
            }
            Record::State { channel, state } => {
                known(channel)?;
                Ok(Update::Session(channel, state))
            }
            Record::NoSession { channel, key } => {
                known(channel)?;
                Ok(Update::NoSession(channel, key))
            }
            Record::Disconnect => Ok(Update::Ended),
            // Set-up is over, and a disconnect is not answered: the SCIF connection ends by
            // itself.
            _ => Err(Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Unreachable;
    use crate::setup::{self, Options};

    fn pair() -> (Connection, Connection) {
        let options = Options::default();
        let end = |key| Parameters {
            port: 2050,
            key,
            bypass: true,
            channels: options.channels,
            slots: options.slots,
            window: 0,
        };
        let (client, server) = (end(1), end(2));
        let (at_server, answer) = setup::accept(server, Record::Request(client)).unwrap();
        let at_client = setup::connected(client, answer).unwrap();
        let client = Connection::new(client, at_client);
        (client, Connection::new(server, at_server))
    }

    fn tell(to: &mut Connection, record: Record) -> Result<Option<Update>, Broken> {
        let mut update = None;
        to.receive(&record.encode(), |found| update = Some(found))?;
        Ok(update)
    }

    #[test]
    fn announcements_arrive_in_pieces_of_any_size() {
        for piece in [1, 7, 71, 72, 73, 500] {
            let (mut left, mut right) = pair();
            let mut stream = std::vec::Vec::new();
            for round in 0..5 {
                let offset = left.place(5000).unwrap();
                let record = left.announce(3, 0x1000 * round, 5000, offset).unwrap();
                stream.extend(record.encode());
                stream.extend(Record::Wake { channel: 1 }.encode());
                stream.extend(left.take_back(3).unwrap().0.encode());
            }
            let mut update = 0;
            for bytes in stream.chunks(piece) {
                right.receive(bytes, |_| update += 1).unwrap();
            }
            assert_eq!(update, 15);
            assert_eq!(right.announced(3).region(), Err(Unreachable::Gone));
            assert_eq!(right.announced(2).region(), Err(Unreachable::NotYet));
        }
    }

    #[test]
    fn offsets_are_never_used_twice() {
        let (mut left, _) = pair();
        let mut last_end = FIRST_OFFSET;
        for length in [1, OFFSET_STEP, OFFSET_STEP + 1, 300 << 20, 1] {
            let offset = left.place(length).unwrap();
            assert!(offset >= last_end && (offset as u64).is_multiple_of(OFFSET_STEP));
            last_end = offset + length as i64;
        }
        assert_eq!(left.place(u64::MAX), Err(Refusal::Exhausted));
        assert_eq!(left.place(i64::MAX as u64), Err(Refusal::Exhausted));
        assert!(left.place(1).is_ok());
    }

    #[test]
    fn a_channel_announces_one_range_at_a_time() {
        let (mut left, _) = pair();
        let offset = left.place(1).unwrap();
        left.announce(0, 1, 1, offset).unwrap();
        assert_eq!(left.announce(0, 1, 1, offset), Err(Refusal::Announced));
        assert!(left.announce(1, 1, 1, offset).is_ok());
        let (record, region) = left.take_back(0).unwrap();
        assert_eq!(
            record,
            Record::TakeBack {
                channel: 0,
                generation: 1
            }
        );
        assert_eq!(region.generation, 1);
        assert_eq!(left.take_back(0), None);
        assert_eq!(left.take_back(64), None);
    }

    #[test]
    fn an_end_that_is_announced_is_news() {
        let (_, mut right) = pair();
        assert_eq!(
            tell(&mut right, Record::Disconnect),
            Ok(Some(Update::Ended))
        );
    }

    #[test]
    fn a_bad_record_ends_the_connection_for_ever() {
        let region = Region {
            base: 0,
            length: 1,
            offset: 0,
            origin: 0,
            generation: 1,
        };
        let bad = [
            Record::Wake { channel: 4 },
            Record::Announce { channel: 4, region },
            Record::Announce {
                channel: 0,
                region: Region {
                    length: 0,
                    ..region
                },
            },
            Record::TakeBack {
                channel: 0,
                generation: 1,
            },
            Record::TakeBack {
                channel: u32::MAX,
                generation: 1,
            },
            Record::Reject,
            Record::DisconnectAnswer,
            Record::DisconnectComplete,
        ];
        for record in bad {
            let (_, mut right) = pair();
            assert_eq!(tell(&mut right, record), Err(Broken));
            let good = Record::Wake { channel: 0 };
            assert_eq!(tell(&mut right, good), Err(Broken));
        }
    }
}
