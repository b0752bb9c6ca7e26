//! Datagrams for multicast groups, on their way through the daemon. The records of one connection
//! are put together to whole datagrams, each with the local identifier (LID) of the port that it
//! comes from.

use alloc::vec::Vec;

use verbs_core::address::{MULTICAST_QPN, is_group};
use verbs_core::record::{DatagramPiece, HEADER_BYTES, MAX_DATAGRAM, MAX_PAYLOAD, Marks, Record};

/// Most records of a datagram.
const MOST_PIECES: usize = (MAX_DATAGRAM as usize).div_ceil(MAX_PAYLOAD);
/// Most bytes of the records of a datagram.
pub const MOST_BYTES: usize = MAX_DATAGRAM as usize + MOST_PIECES * HEADER_BYTES;

/// The peer has sent bytes that are no datagram for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// The datagrams of one connection.
pub struct Assembly {
    /// The LID of the port of the peer's node.
    lid: u16,
    /// Bytes that are not a whole record yet.
    arrived: Vec<u8>,
    /// The records that have arrived of the datagram under way.
    records: Vec<u8>,
}

impl Assembly {
    /// The state of a new connection from the port with this LID.
    pub fn new(lid: u16) -> Assembly {
        Assembly {
            lid,
            arrived: Vec::new(),
            records: Vec::new(),
        }
    }

    /// Takes bytes that have arrived. Passes each datagram that is complete to `sink`, as the
    /// records by which to forward it.
    ///
    /// # Errors
    /// [`Broken`]: the peer violates the protocol.
    pub fn take(&mut self, bytes: &[u8], mut sink: impl FnMut(Vec<u8>)) -> Result<(), Broken> {
        self.arrived.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(record) = self.arrived.get(from..)
            && let Some((header, behind)) = record.split_first_chunk::<HEADER_BYTES>()
        {
            let piece = match Record::decode(header).map_err(|_| Broken)? {
                Record::Datagram(piece) => piece,
                // The peer is about to close the connection.
                Record::Bye => {
                    from += HEADER_BYTES;
                    continue;
                }
                _ => return Err(Broken),
            };
            let Some(payload) = behind.get(..piece.payload as usize) else {
                break;
            };
            from += HEADER_BYTES + payload.len();
            if let Some(records) = piece_of(&mut self.records, self.lid, &piece, payload)? {
                sink(records);
            }
        }
        self.arrived.drain(..from);
        Ok(())
    }
}

/// Adds a piece to the records of a datagram. Returns all of them if the piece was the last.
fn piece_of(
    records: &mut Vec<u8>,
    lid: u16,
    piece: &DatagramPiece,
    payload: &[u8],
) -> Result<Option<Vec<u8>>, Broken> {
    let is_for_group = piece.global.is_some_and(|route| is_group(&route.gid));
    if piece.destination != MULTICAST_QPN || !is_for_group {
        // A program may send a datagram that is for no group to a group's LID: it reaches nobody.
        records.clear();
        return Ok(None);
    }
    if piece.marks.contains(Marks::FIRST) {
        records.clear();
    } else if records.is_empty() {
        // The rest of a datagram whose first piece is missing.
        return Ok(None);
    }
    let record = Record::Datagram(DatagramPiece {
        slid: lid,
        ..*piece
    });
    records.extend_from_slice(&record.encode());
    records.extend_from_slice(payload);
    if records.len() > MOST_BYTES {
        return Err(Broken);
    }
    let is_last = piece.marks.contains(Marks::LAST);
    Ok(is_last.then(|| core::mem::take(records)))
}

#[cfg(test)]
mod tests {
    use verbs_core::address::{GlobalRoute, MULTICAST_QPN};
    use verbs_core::record::{DatagramPiece, HEADER_BYTES, Marks, Record};

    use super::{Assembly, Broken};

    fn piece(marks: Marks, total: u32, payload: u32) -> DatagramPiece {
        DatagramPiece {
            destination: MULTICAST_QPN,
            source: 7,
            qkey: 3,
            slid: 99,
            service_level: 0,
            global: Some(GlobalRoute {
                gid: [0xff; 16],
                ..GlobalRoute::default()
            }),
            marks,
            total,
            immediate: 0,
            payload,
        }
    }

    fn bytes(piece: DatagramPiece, fill: u8) -> Vec<u8> {
        let mut bytes = Record::Datagram(piece).encode().to_vec();
        bytes.resize(HEADER_BYTES + piece.payload as usize, fill);
        bytes
    }

    /// The datagrams in `all`, which arrives in parts of `part` bytes.
    fn taken(all: &[u8], part: usize) -> Result<Vec<Vec<u8>>, Broken> {
        let (mut assembly, mut found) = (Assembly::new(2), Vec::new());
        for bytes in all.chunks(part) {
            assembly.take(bytes, |records| found.push(records))?;
        }
        Ok(found)
    }

    #[test]
    fn datagrams_are_put_together_and_name_their_port() {
        let small = piece(Marks::FIRST | Marks::LAST, 5, 5);
        let (first, last) = (
            piece(Marks::FIRST, 2010, 2000),
            piece(Marks::LAST, 2010, 10),
        );
        let mut sent = bytes(small, 1);
        sent.extend(bytes(first, 2));
        sent.extend(bytes(last, 3));
        sent.extend(Record::Bye.encode());
        let of_port = |piece| DatagramPiece { slid: 2, ..piece };
        let mut long = bytes(of_port(first), 2);
        long.extend(bytes(of_port(last), 3));
        for part in [1, 47, 48, 100, sent.len()] {
            let wanted = vec![bytes(of_port(small), 1), long.clone()];
            assert_eq!(taken(&sent, part), Ok(wanted), "{part}");
        }
    }

    #[test]
    fn a_rest_without_its_beginning_is_dropped() {
        let rest = bytes(piece(Marks::LAST, 2010, 10), 3);
        assert_eq!(taken(&rest, 7), Ok(Vec::new()));
        // So is a beginning without its rest.
        let mut sent = bytes(piece(Marks::FIRST, 2010, 2000), 2);
        let small = piece(Marks::FIRST | Marks::LAST, 1, 1);
        sent.extend(bytes(small, 1));
        assert_eq!(taken(&sent, 100).map(|found| found.len()), Ok(1));
    }

    #[test]
    fn what_is_for_no_group_reaches_nobody_and_what_is_no_datagram_is_refused() {
        let whole = Marks::FIRST | Marks::LAST;
        let for_one = DatagramPiece {
            destination: 8,
            ..piece(whole, 1, 1)
        };
        let nowhere = DatagramPiece {
            global: None,
            ..piece(whole, 1, 1)
        };
        let of_one = DatagramPiece {
            global: Some(GlobalRoute::default()),
            ..piece(whole, 1, 1)
        };
        for wrong in [for_one, nowhere, of_one] {
            // The records that follow are passed on, and no datagram is made of pieces before and
            // after.
            let mut sent = bytes(piece(Marks::FIRST, 2010, 10), 1);
            sent.extend(bytes(wrong, 1));
            sent.extend(bytes(piece(Marks::LAST, 2010, 2000), 1));
            sent.extend(bytes(piece(whole, 1, 1), 1));
            let found = taken(&sent, 100);
            let found = found.map(|found| found.len());
            assert_eq!(found, Ok(1), "{wrong:?}");
        }
        assert_eq!(taken(&Record::Expose(3).encode(), 100), Err(Broken));
        assert_eq!(taken(&[0xee; 48], 100), Err(Broken));
        // Pieces of a datagram that never ends.
        let mut sent = bytes(piece(Marks::FIRST, 4096, 1), 1);
        for _ in 0..100 {
            sent.extend(bytes(piece(Marks::empty(), 4096, 1), 1));
        }
        assert_eq!(taken(&sent, 100), Err(Broken));
    }
}
