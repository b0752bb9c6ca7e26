//! How many bytes SCIF has moved between this node and others, from the table `traffic` of the
//! SCIF driver. The counters only grow, also when a new driver begins at 0.

/// Bytes of the longest packet.
const MTU_BYTES: u64 = 4096;

/// Bytes sent, and bytes received.
type Bytes = [u64; 2];

/// The counters of all SCIF traffic but the daemon's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The sums of the driver's last table.
    last: Bytes,
    last_carried: Bytes,
    /// All traffic but the daemon's own.
    bytes: Bytes,
}

impl Streams {
    /// Takes the table of the driver of node `own`. `carried` has the bytes that the daemon itself
    /// has sent to and received from other nodes since its start, which have counters of their
    /// own.
    pub fn note(&mut self, table: &str, own: u16, carried: Bytes) {
        let now = sum(table, own);
        for (side, now) in now.into_iter().enumerate() {
            // A driver that was started anew counts from 0.
            let begun = now < self.last[side];
            let more = if begun { now } else { now - self.last[side] };
            let by_daemon = carried[side].saturating_sub(self.last_carried[side]);
            let bytes = &mut self.bytes[side];
            *bytes = bytes.wrapping_add(more.saturating_sub(by_daemon));
        }
        (self.last, self.last_carried) = (now, carried);
    }

    /// Bytes sent to other nodes, and bytes received from them.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The same traffic in packets. Streams have none, so each counts as long as a packet can be.
    pub fn packets(&self) -> [u64; 2] {
        self.bytes.map(|bytes| bytes.div_ceil(MTU_BYTES))
    }
}

/// The sums over the rows of all other nodes. A row is `node out in written read`.
fn sum(table: &str, own: u16) -> Bytes {
    let mut sum = [0_u64; 2];
    for line in table.lines().skip(1) {
        let words = line.split_whitespace().map(|word| word.parse::<u64>());
        let Ok(row) = words.collect::<Result<alloc::vec::Vec<u64>, _>>() else {
            continue;
        };
        let [node, sent, received, written, read] = row[..] else {
            continue;
        };
        if node != u64::from(own) {
            sum[0] = sum[0].wrapping_add(sent).wrapping_add(written);
            sum[1] = sum[1].wrapping_add(received).wrapping_add(read);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::Streams;

    const FIRST: &str = "node out in written read\n0 100 100 9 9\n1 1000 200 4000 0\n2 5 6 7 8\n";

    #[test]
    fn bytes_of_other_nodes_count() {
        let mut streams = Streams::default();
        streams.note(FIRST, 0, [0, 0]);
        assert_eq!(streams.bytes(), [5012, 214]);
        assert_eq!(streams.packets(), [2, 1]);
        // The same table again adds nothing.
        streams.note(FIRST, 0, [0, 0]);
        assert_eq!(streams.bytes(), [5012, 214]);
    }

    #[test]
    fn what_the_daemon_carries_does_not_count() {
        let mut streams = Streams::default();
        streams.note(FIRST, 0, [5, 14]);
        assert_eq!(streams.bytes(), [5007, 200]);
        let next = "node out in written read\n1 1304 508 4000 0\n2 5 6 7 8\n";
        streams.note(next, 0, [309, 322]);
        assert_eq!(streams.bytes(), [5007, 200]);
    }

    #[test]
    fn another_driver_goes_on_where_the_first_one_was() {
        let mut streams = Streams::default();
        streams.note(FIRST, 0, [0, 0]);
        streams.note("node out in written read\n1 10 20 0 0\n", 0, [0, 0]);
        assert_eq!(streams.bytes(), [5022, 234]);
        // A table that cannot be read counts as that of a driver that has moved nothing.
        streams.note("nonsense\n1 x\n", 0, [0, 0]);
        assert_eq!(streams.bytes(), [5022, 234]);
    }
}
