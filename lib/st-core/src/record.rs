//! Control messages, which the two ends of a connection send each other as bytes of its stream.
//!
//! Each is a record of 72 bytes: a [`Header`] and 32 bytes of optional payload, which is a list of
//! entries {code, length, data}. Set-up, announcements of memory and wake-ups go this way; headers
//! and data of programs do not.

use zerocopy::{FromBytes, IntoBytes};

use crate::header::{Flags, HEADER_BYTES, Header, Operation, PAYLOAD_BYTES};
use crate::region::Region;

/// Bytes of a record.
pub const RECORD_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;

/// Number of the protocol above ST, in set-up: that of ST over Ethernet.
const ETHER_TYPE: u16 = 0x8181;
/// Buffers have 2^12 bytes.
pub(crate) const BUFFER_BITS: u32 = 12;
/// Data units have at most 2^20 bytes.
const MAX_UNIT_BITS: u32 = 20;

/// Codes of entries of the optional payload.
const END: u8 = 0x00;
const ADDRESS: u8 = 0x02;
const CHANNELS: u8 = 0x80;
const WINDOW: u8 = 0x81;
const SESSION: u8 = 0x82;

/// The parameters that an end announces in set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Its port.
    pub port: u16,
    /// The key that the other end has to quote; not 0.
    pub key: u32,
    /// Whether it uses the bypass.
    pub bypass: bool,
    /// Channels.
    pub channels: u32,
    /// Slots of each of its queues, in which it receives.
    pub slots: u32,
    /// The offset of its queue window in its registered address space.
    pub window: i64,
}

/// The state of a session of level 2 that an end sends when a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The session's key, which only its two ends know.
    pub key: u64,
    /// Transfers that the program at this end has taken, on all connections of the session.
    pub taken: u64,
    /// The peer has never answered, so it may not know the session yet.
    pub is_new: bool,
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Opens a connection.
    Request(Parameters),
    /// Agrees to a connection.
    Answer(Parameters),
    /// Refuses a connection.
    Reject,
    /// Asks to end the connection: no header follows.
    Disconnect,
    /// Agrees to the end: no header follows from this end either.
    DisconnectAnswer,
    /// Ends the connection.
    DisconnectComplete,
    /// Announces memory on a channel.
    Announce {
        /// The channel.
        channel: u32,
        /// The memory.
        region: Region,
    },
    /// Takes announced memory back.
    TakeBack {
        /// The channel.
        channel: u32,
        /// The generation of the announcement.
        generation: u32,
    },
    /// Wakes the other end, which sleeps on a channel.
    Wake {
        /// The channel.
        channel: u32,
    },
    /// Begins or resumes a session of level 2 on a channel.
    State {
        /// The channel.
        channel: u32,
        /// The state of the session at this end.
        state: SessionState,
    },
    /// Answers [`State`](Record::State): there is no such session.
    NoSession {
        /// The channel.
        channel: u32,
        /// The key that was quoted.
        key: u64,
    },
}

/// The bytes are not a record: the peer has broken the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Record {
    /// Encodes the record.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut payload = Payload::default();
        let header = match *self {
            Record::Request(end) => set_up(Operation::RequestConnection, end, &mut payload),
            Record::Answer(end) => set_up(Operation::ConnectionAnswer, end, &mut payload),
            Record::Reject => Header::new(Operation::ConnectionAnswer, Flags::REJECT),
            Record::Disconnect => Header::new(Operation::RequestDisconnect, Flags::empty()),
            Record::DisconnectAnswer => Header::new(Operation::DisconnectAnswer, Flags::empty()),
            Record::DisconnectComplete => {
                Header::new(Operation::DisconnectComplete, Flags::empty())
            }
            Record::Announce { channel, region } => {
                payload.add(ADDRESS, &region.base.to_le_bytes());
                payload.add(WINDOW, &region.offset.to_le_bytes());
                let header = Header::new(Operation::MemoryRegionAvailable, Flags::empty());
                Header {
                    buffer: channel,
                    offset: region.origin,
                    source_id: region.generation,
                    ..header.with_length(region.length)
                }
            }
            Record::TakeBack {
                channel,
                generation,
            } => Header {
                buffer: channel,
                source_id: generation,
                ..Header::new(Operation::End, Flags::empty())
            },
            Record::Wake { channel } => Header {
                buffer: channel,
                ..Header::new(Operation::RequestState, Flags::SILENT)
            },
            Record::State { channel, state } => {
                payload.add(SESSION, &session_entry(state.key, state.is_new));
                let header = Header::new(Operation::RequestStateResponse, Flags::empty());
                Header {
                    buffer: channel,
                    ..header.with_length(state.taken)
                }
            }
            Record::NoSession { channel, key } => {
                payload.add(SESSION, &session_entry(key, false));
                Header {
                    buffer: channel,
                    ..Header::new(Operation::RequestStateResponse, Flags::REJECT)
                }
            }
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        bytes[HEADER_BYTES..].copy_from_slice(&payload.bytes);
        bytes
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`Malformed`]: an operation that is no control message; an entry that goes beyond the
    /// payload, is missing or has the wrong length.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Record, Malformed> {
        let (header, payload) = bytes.split_at(HEADER_BYTES);
        let header = Header::read_from_bytes(header).map_err(|_| Malformed)?;
        let entries = Entries(payload);
        match header.operation().ok_or(Malformed)? {
            Operation::RequestConnection => Ok(Record::Request(parameters(&header, &entries)?)),
            Operation::ConnectionAnswer if header.flags().contains(Flags::REJECT) => {
                Ok(Record::Reject)
            }
            Operation::ConnectionAnswer => Ok(Record::Answer(parameters(&header, &entries)?)),
            Operation::RequestDisconnect => Ok(Record::Disconnect),
            Operation::DisconnectAnswer => Ok(Record::DisconnectAnswer),
            Operation::DisconnectComplete => Ok(Record::DisconnectComplete),
            Operation::MemoryRegionAvailable => Ok(Record::Announce {
                channel: header.buffer,
                region: Region {
                    base: u64::from_le_bytes(entries.get(ADDRESS)?),
                    length: header.length(),
                    offset: i64::from_le_bytes(entries.get(WINDOW)?),
                    origin: header.offset,
                    generation: header.source_id,
                },
            }),
            Operation::End => Ok(Record::TakeBack {
                channel: header.buffer,
                generation: header.source_id,
            }),
            Operation::RequestState => Ok(Record::Wake {
                channel: header.buffer,
            }),
            Operation::RequestStateResponse => {
                let channel = header.buffer;
                let [key @ .., new] = entries.get::<SESSION_BYTES>(SESSION)?;
                let key = u64::from_le_bytes(key);
                if header.flags().contains(Flags::REJECT) {
                    return Ok(Record::NoSession { channel, key });
                }
                let state = SessionState {
                    key,
                    taken: header.length(),
                    is_new: truth(new)?,
                };
                Ok(Record::State { channel, state })
            }
            _ => Err(Malformed),
        }
    }
}

/// The header of a record of set-up; its entries go into `payload`.
fn set_up(operation: Operation, end: Parameters, payload: &mut Payload) -> Header {
    let [low, high] = (end.channels as u16).to_le_bytes();
    payload.add(CHANNELS, &[low, high, u8::from(end.bypass)]);
    payload.add(WINDOW, &end.window.to_le_bytes());
    Header {
        // At most MAX_SLOTS, which fits.
        parameter: end.slots as u16,
        source_port: end.port,
        block_id: ETHER_TYPE,
        buffer: BUFFER_BITS,
        offset: end.key,
        sync: MAX_UNIT_BITS,
        ..Header::new(operation, Flags::empty())
    }
}

/// Decodes a record of set-up.
fn parameters(header: &Header, entries: &Entries<'_>) -> Result<Parameters, Malformed> {
    let [low, high, bypass] = entries.get(CHANNELS)?;
    Ok(Parameters {
        port: header.source_port,
        key: header.offset,
        bypass: truth(bypass)?,
        channels: u16::from_le_bytes([low, high]).into(),
        slots: header.parameter.into(),
        window: i64::from_le_bytes(entries.get(WINDOW)?),
    })
}

/// Bytes of an entry about a session: its key, and whether it is new.
const SESSION_BYTES: usize = 9;

fn session_entry(key: u64, is_new: bool) -> [u8; SESSION_BYTES] {
    let mut data = [u8::from(is_new); SESSION_BYTES];
    data[..8].copy_from_slice(&key.to_le_bytes());
    data
}

/// Decodes a byte that is 0 or 1.
fn truth(byte: u8) -> Result<bool, Malformed> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

/// An optional payload that is being built. An entry that does not fit is a mistake in this file,
/// which its tests would show: decoding would miss the entry.
#[derive(Default)]
struct Payload {
    bytes: [u8; PAYLOAD_BYTES],
    filled: usize,
}

impl Payload {
    fn add(&mut self, code: u8, data: &[u8]) {
        let end = self.filled + 2 + data.len();
        if let Some(entry) = self.bytes.get_mut(self.filled..end) {
            entry[0] = code;
            entry[1] = entry.len() as u8;
            entry[2..].copy_from_slice(data);
            self.filled = end;
        }
    }
}

/// The entries of a payload.
struct Entries<'a>(&'a [u8]);

impl Entries<'_> {
    /// The data of the first entry with this code, which must have `N` bytes.
    fn get<const N: usize>(&self, code: u8) -> Result<[u8; N], Malformed> {
        let mut rest = self.0;
        while let [found, length, ..] = *rest {
            let length = usize::from(length);
            if found == END || length < 2 || length > rest.len() {
                break;
            }
            let (entry, behind) = rest.split_at(length);
            if found == code {
                return entry[2..].try_into().map_err(|_| Malformed);
            }
            rest = behind;
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_A: Parameters = Parameters {
        port: 2050,
        key: 0xdead_beef,
        bypass: true,
        channels: 64,
        slots: 4096,
        window: 0x7fff_f000,
    };

    const REGION: Region = Region {
        base: 0x7f00_0000_1000,
        length: 3 << 32 | 1,
        offset: 0x4000,
        origin: 0x123,
        generation: 9,
    };

    const ALL: [Record; 12] = [
        Record::Request(END_A),
        Record::Answer(END_A),
        Record::Reject,
        Record::Disconnect,
        Record::DisconnectAnswer,
        Record::DisconnectComplete,
        Record::Announce {
            channel: 3,
            region: REGION,
        },
        Record::TakeBack {
            channel: 3,
            generation: 9,
        },
        Record::Wake { channel: 63 },
        Record::State {
            channel: 63,
            state: SessionState {
                key: 0x0123_4567_89ab_cdef,
                taken: u64::MAX,
                is_new: false,
            },
        },
        Record::State {
            channel: 0,
            state: SessionState {
                key: 1,
                taken: 0,
                is_new: true,
            },
        },
        Record::NoSession {
            channel: 1,
            key: u64::MAX,
        },
    ];

    #[test]
    fn records_mean_the_same_after_a_journey() {
        for record in ALL {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn other_operations_are_no_records() {
        for operation in Operation::ALL {
            let mut bytes = [0; RECORD_BYTES];
            let header = Header::new(operation, Flags::empty());
            bytes[..HEADER_BYTES].copy_from_slice(header.as_bytes());
            let without_entries = !matches!(
                operation,
                Operation::RequestDisconnect
                    | Operation::DisconnectAnswer
                    | Operation::DisconnectComplete
                    | Operation::End
                    | Operation::RequestState
            );
            assert_eq!(Record::decode(&bytes).is_err(), without_entries);
        }
        assert_eq!(Record::decode(&[0; RECORD_BYTES]), Err(Malformed));
    }

    /// Every byte of the payload, spoilt in every way: an error or a record, never a panic.
    #[test]
    fn spoilt_payloads_are_answered() {
        for record in ALL {
            for at in 0..RECORD_BYTES {
                for value in 0..=255 {
                    let mut bytes = record.encode();
                    bytes[at] = value;
                    if let Ok(found) = Record::decode(&bytes) {
                        assert_eq!(Record::decode(&found.encode()), Ok(found));
                    }
                }
            }
        }
    }
}
