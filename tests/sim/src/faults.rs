//! The faults that worlds inject, by kind, and how often each occurred.

use std::fmt;

/// Faults around an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A doorbell was rung and not delivered.
    DoorbellLost,
    /// A doorbell was delivered long after it was rung.
    DoorbellLate,
    /// A doorbell was delivered that no node rang, or one was delivered twice.
    DoorbellDoubled,
    /// A store into another node's memory arrived after the storing node had continued.
    StoreDelayed,
    /// A node lost power and started again with empty memory.
    NodeKilled,
    /// A node's driver died, and another one started while the pages of the first one stayed.
    DriverKilled,
    /// A node was frozen for a while, but its memory could be reached.
    NodeFrozen,
    /// A node gave up the link with a node that was still there.
    LinkGivenUp,
    /// A link was reset because of what its peer stored.
    LinkSpoilt,
    /// A node left in an orderly way.
    NodeLeft,
    /// An allocation of shared memory was refused.
    AllocationRefused,
    /// A process was killed with everything it had and waited for.
    ProcessKilled,
    /// A client was killed between two stores of its own into rings, locks or windows.
    ClientKilled,
    /// A client stopped while it held a lock or was counted as copying.
    ClientStopped,
    /// A client stored nonsense into the memory that it has mapped.
    ClientScribbled,
    /// A hostile peer sent a message that no peer may send, or that it may not send in this state.
    HostileMessage,
    /// A hostile peer stored into rings, indices, structures or page lists.
    HostileStore,
    /// A hostile peer rang a doorbell without a reason.
    HostileDoorbell,
    /// A connection was cut between two stores, and both programs survived.
    ConnectionCut,
    /// A management datagram did not arrive.
    DatagramLost,
    /// A management datagram arrived twice.
    DatagramDoubled,
}

const KINDS: usize = 21;

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; KINDS] = [
        Fault::DoorbellLost,
        Fault::DoorbellLate,
        Fault::DoorbellDoubled,
        Fault::StoreDelayed,
        Fault::NodeKilled,
        Fault::DriverKilled,
        Fault::NodeFrozen,
        Fault::LinkGivenUp,
        Fault::LinkSpoilt,
        Fault::NodeLeft,
        Fault::AllocationRefused,
        Fault::ProcessKilled,
        Fault::ClientKilled,
        Fault::ClientStopped,
        Fault::ClientScribbled,
        Fault::HostileMessage,
        Fault::HostileStore,
        Fault::HostileDoorbell,
        Fault::ConnectionCut,
        Fault::DatagramLost,
        Fault::DatagramDoubled,
    ];

    /// Returns the words for the table.
    pub fn name(self) -> &'static str {
        match self {
            Fault::DoorbellLost => "doorbells lost",
            Fault::DoorbellLate => "doorbells late",
            Fault::DoorbellDoubled => "doorbells doubled",
            Fault::StoreDelayed => "stores delayed on a link",
            Fault::NodeKilled => "nodes killed and restarted",
            Fault::DriverKilled => "drivers killed and restarted",
            Fault::NodeFrozen => "nodes frozen",
            Fault::LinkGivenUp => "links given up by silence",
            Fault::LinkSpoilt => "links reset for nonsense",
            Fault::NodeLeft => "nodes left in order",
            Fault::AllocationRefused => "allocations refused",
            Fault::ProcessKilled => "processes killed",
            Fault::ClientKilled => "clients killed between two stores",
            Fault::ClientStopped => "clients stopped, lock or copy held",
            Fault::ClientScribbled => "clients storing nonsense",
            Fault::HostileMessage => "hostile messages",
            Fault::HostileStore => "hostile stores",
            Fault::HostileDoorbell => "hostile doorbells",
            Fault::ConnectionCut => "connections of sessions cut",
            Fault::DatagramLost => "management datagrams lost",
            Fault::DatagramDoubled => "management datagrams doubled",
        }
    }
}

/// The number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults([u64; KINDS]);

impl Faults {
    /// Adds one fault.
    pub fn note(&mut self, fault: Fault) {
        self.note_many(fault, 1);
    }

    /// Adds `count` faults.
    pub fn note_many(&mut self, fault: Fault, count: u64) {
        self.0[fault as usize] += count;
    }

    /// Returns the number of faults of one kind.
    pub fn count(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Returns the number of faults of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns how often a node was lost to others: because it lost power, because its driver
    /// died, or because a peer gave it up as silent.
    pub fn node_losses(&self) -> u64 {
        let losses = [Fault::NodeKilled, Fault::DriverKilled, Fault::LinkGivenUp];
        losses.map(|fault| self.count(fault)).iter().sum()
    }

    /// Adds the faults of another run.
    pub fn add(&mut self, other: &Faults) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

/// Prints a table with one kind on each line.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            writeln!(f, "{:>12}  {}", self.count(fault), fault.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Faults};

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        let mut faults = Faults::default();
        for (at, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, at);
            faults.note_many(fault, at as u64 + 1);
        }
        let table = faults.to_string();
        assert_eq!(table.lines().count(), Fault::ALL.len());
        assert!(Fault::ALL.iter().all(|fault| table.contains(fault.name())));
        assert_eq!(faults.total(), (1..=Fault::ALL.len() as u64).sum());
    }
}
