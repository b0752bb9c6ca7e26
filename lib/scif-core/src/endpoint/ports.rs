//! The port numbers of a node: which are taken, and which endpoint listens at each.

use crate::base::ids::EndpointId;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use scif_abi::Port;
use scif_abi::limits::FIRST_EPHEMERAL_PORT;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = (Port::MAX as usize + 1) / WORD_BITS;

/// Ports in use and listeners. Port 0 counts as always taken.
pub(crate) struct PortTable {
    /// One bit per port.
    taken: Vec<u64>,
    listeners: BTreeMap<Port, EndpointId>,
}

impl PortTable {
    pub(crate) fn new() -> PortTable {
        let mut table = PortTable {
            taken: vec![0; WORDS],
            listeners: BTreeMap::new(),
        };
        table.set(0, true);
        table
    }

    fn set(&mut self, port: Port, taken: bool) {
        let (word, bit) = (usize::from(port) / WORD_BITS, usize::from(port) % WORD_BITS);
        if let Some(word) = self.taken.get_mut(word) {
            *word = *word & !(1 << bit) | u64::from(taken) << bit;
        }
    }

    pub(crate) fn is_taken(&self, port: Port) -> bool {
        let (word, bit) = (usize::from(port) / WORD_BITS, usize::from(port) % WORD_BITS);
        self.taken
            .get(word)
            .is_some_and(|word| word >> bit & 1 == 1)
    }

    /// Takes exactly this port. Returns whether it was free.
    pub(crate) fn take(&mut self, port: Port) -> bool {
        let free = !self.is_taken(port);
        self.set(port, true);
        free
    }

    /// Takes the lowest free ephemeral port, if there is one.
    pub(crate) fn take_ephemeral(&mut self) -> Option<Port> {
        // The first ephemeral port is the first bit of its word, so whole words can be skipped.
        const FIRST_WORD: usize = FIRST_EPHEMERAL_PORT as usize / WORD_BITS;
        const { assert!((FIRST_EPHEMERAL_PORT as usize).is_multiple_of(WORD_BITS)) };
        let words = self.taken.iter().enumerate().skip(FIRST_WORD);
        let (index, word) = words.into_iter().find(|(_, word)| **word != u64::MAX)?;
        let port = (index * WORD_BITS) as u64 + u64::from(word.trailing_ones());
        let port = Port::try_from(port).ok()?;
        self.set(port, true);
        Some(port)
    }

    pub(crate) fn release(&mut self, port: Port) {
        self.listeners.remove(&port);
        if port != 0 {
            self.set(port, false);
        }
    }

    pub(crate) fn listen(&mut self, port: Port, listener: EndpointId) {
        self.listeners.insert(port, listener);
    }

    pub(crate) fn listener(&self, port: Port) -> Option<EndpointId> {
        self.listeners.get(&port).copied()
    }

    pub(crate) fn listeners(&self) -> impl Iterator<Item = (Port, EndpointId)> {
        self.listeners
            .iter()
            .map(|(port, listener)| (*port, *listener))
    }

    /// How many ports are taken, not counting port 0.
    pub(crate) fn count(&self) -> usize {
        self.taken
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum::<usize>()
            - 1
    }
}

#[cfg(test)]
mod tests {
    use super::PortTable;
    use scif_abi::limits::FIRST_EPHEMERAL_PORT;

    #[test]
    fn ephemeral_ports_are_the_lowest_free_from_1088() {
        let mut table = PortTable::new();
        assert_eq!(table.take_ephemeral(), Some(1088));
        assert!(table.take(1089));
        assert_eq!(table.take_ephemeral(), Some(1090));
        table.release(1088);
        assert_eq!(table.take_ephemeral(), Some(1088));
        assert!(!table.take(1090));
        assert!(!table.take(0));
    }

    #[test]
    fn all_ephemeral_ports_can_be_taken_and_no_more() {
        let mut table = PortTable::new();
        for port in FIRST_EPHEMERAL_PORT..=u16::MAX {
            assert_eq!(table.take_ephemeral(), Some(port));
        }
        assert_eq!(table.take_ephemeral(), None);
        assert_eq!(
            table.count(),
            usize::from(u16::MAX - FIRST_EPHEMERAL_PORT) + 1
        );
        table.release(40000);
        assert_eq!(table.take_ephemeral(), Some(40000));
        assert!(table.take(80));
    }
}
