//! An exchange between one engine and a scripted peer without extensions.

use std::cell::RefCell;
use std::rc::Rc;

use scif_abi::message::NodeMessage as Say;
use scif_core::{Config, Engine, Event, Memory};

use crate::memory::{Fabric, NodeMemory};
use crate::peer::{RING_BYTES, ScriptedPeer};

/// A real engine and the scripted peer.
pub struct Talk {
    /// The engine.
    pub engine: Engine,
    /// The engine's memory.
    pub memory: NodeMemory,
    /// The scripted peer.
    pub peer: ScriptedPeer,
    /// The memory of both sides.
    pub fabric: Rc<RefCell<Fabric>>,
}

impl Talk {
    /// Makes both sides before any link. The engine is node `us`, the peer is the other one of 0
    /// and 1.
    pub fn new(us: u16) -> Talk {
        Talk::on(Fabric::new(2), us)
    }

    /// Makes both sides with this memory, like [`new`](Self::new).
    pub fn on(fabric: Rc<RefCell<Fabric>>, us: u16) -> Talk {
        let mut config = Config::new(us);
        config.node_ring_bytes = RING_BYTES;
        Talk {
            engine: Engine::new(config),
            memory: NodeMemory::new(&fabric, usize::from(us)),
            peer: ScriptedPeer::new(&fabric, 1 - us, us),
            fabric,
        }
    }

    /// Makes both sides with the link up. The peer offers no extension.
    pub fn online(us: u16) -> Talk {
        Talk::new(us).greet()
    }

    /// Brings the link up.
    pub fn greet(self) -> Talk {
        let mut talk = self;
        let peer = 1 - talk.engine.node();
        let own_qp = talk.engine.attach(&mut talk.memory, peer).unwrap();
        let peer_qp = talk.peer.begin(own_qp, 0);
        talk.engine
            .link_up(&mut talk.memory, peer, peer_qp)
            .unwrap();
        assert_eq!(talk.events(), [Event::Ring(peer)]);
        assert_eq!(talk.heard(), [Say::Init]);
        talk.tell(0, 0, Say::Init);
        assert_eq!(talk.events(), [Event::NodeUp(peer)]);
        talk
    }

    /// Returns the events of the engine.
    ///
    /// # Panics When an invariant of the engine is broken.
    pub fn events(&mut self) -> Vec<Event> {
        let next = || self.engine.next_event(&mut self.memory);
        let events = std::iter::from_fn(next).collect();
        self.engine.check_invariants().unwrap();
        events
    }

    /// Returns the messages that arrive at the peer, after flushing the engine's events.
    pub fn heard(&mut self) -> Vec<Say> {
        self.events();
        self.peer
            .receive()
            .iter()
            .map(|message| message.body().unwrap())
            .collect()
    }

    /// Sends a message from the peer and rings the doorbell.
    pub fn tell(&mut self, from: u16, to: u16, body: Say) {
        self.peer.say(from, to, body);
        let peer = 1 - self.engine.node();
        self.engine.doorbell(&mut self.memory, peer);
    }

    /// Returns the 32-bit word at an address given to the peer.
    pub fn word(&mut self, address: u64) -> u32 {
        let mut word = [0; 4];
        let us = self.engine.node();
        self.peer.memory.peer_read(us, address, &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    /// Lets the peer read the engine's structures, as it does when it sets up rings.
    pub fn allow_peer_reads(&mut self) {
        let us = usize::from(self.engine.node());
        self.fabric.borrow_mut().set_reach(1 - us, us, true);
    }
}
