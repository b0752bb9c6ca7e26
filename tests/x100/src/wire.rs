//! A link of the other kind beside the card: `micd`'s link state machine of virtual machines
//! ([`micd::vmic::link`]) over memory that both sides share, without a device.

use std::cell::Cell;
use std::rc::Rc;

use hal::Result;
use hal::aperture::Aperture;
use hal::irq::Interrupt;
use hal::mem::{PAGE, Region};
use micd::function::{LinkStep, MicFunction, Outcome};
use micd::hardware::{Doorbell, Hardware};
use micd::links::Links;
use micd::memory::NodeMemory;
use micd::vmic::link::Link;
use scheme_scif::Doorbells;
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use scif_abi::link::Header;
use scif_core::{Config, CpuEngine, Engine, Event};

use crate::host::{BYTES, HostRam, Source};

/// A doorbell: whether it rang.
#[derive(Clone, Default)]
pub struct Bell(Rc<Cell<bool>>);

impl Bell {
    /// Whether it rang since it was asked.
    pub fn take(&self) -> bool {
        self.0.take()
    }
}

impl Doorbell for Bell {
    fn ring(&self) {
        self.0.set(true);
    }
}

/// One side of the link.
pub struct Wire {
    node: NodeId,
    peer: NodeId,
    link: Link,
    peer_memory: Rc<HostRam>,
    peer_bell: Bell,
}

impl Wire {
    fn new(link: &Region, node: NodeId, peer_memory: Rc<HostRam>, peer_bell: Bell) -> Self {
        // The link's memory has a header for these two.
        let (link, peer) = Link::new(link.clone(), node).expect("a link");
        Self {
            node,
            peer,
            link,
            peer_memory,
            peer_bell,
        }
    }
}

impl Hardware for Wire {
    fn interrupts(&self) -> &[Interrupt] {
        &[]
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn aperture(&mut self, _is_mapped: bool) -> Result<Aperture> {
        let memory = self.peer_memory.window(0, BYTES).expect("memory from 0 on");
        Ok(Aperture::new(memory, 0x70_0000_0000))
    }

    fn doorbell(&self) -> Rc<dyn Doorbell> {
        Rc::new(self.peer_bell.clone())
    }

    fn gathers_stores(&self) -> bool {
        false
    }
}

impl MicFunction for Wire {
    fn node(&self) -> NodeId {
        self.node
    }

    fn peer(&self) -> NodeId {
        self.peer
    }

    fn set_timing(&mut self, timing: LinkTiming) {
        self.link.set_timing(timing);
    }

    fn step(&mut self, now: u64) -> Option<LinkStep> {
        let step = self.link.step(now);
        if self.link.take_announcement() {
            self.peer_bell.ring();
        }
        step
    }

    fn done(&mut self, outcome: Outcome) {
        self.link.done(outcome);
        if let Outcome::Attached { .. } | Outcome::Connected { .. } = outcome {
            self.peer_bell.ring();
        }
    }

    fn deadline(&self) -> u64 {
        self.link.deadline()
    }

    fn link_failed(&mut self) {
        self.link.link_failed();
    }

    fn leave(&mut self) {
        self.link.leave();
    }

    fn predecessor_is_quiesced(&self) -> bool {
        self.link.predecessor_is_quiesced()
    }
}

/// A node at the other end of a wire.
pub struct Other {
    links: Links,
    /// Its SCIF.
    pub engine: Engine,
    /// The memory that it works on.
    pub memory: NodeMemory<Source>,
    bell: Bell,
}

/// A wire between node 0, whose memory is `host`, and a new node `number`: the host's side, the
/// host's doorbell, and the node.
pub fn wire(host: &Rc<HostRam>, number: NodeId) -> (Wire, Bell, Other) {
    let link = Region::heap(PAGE);
    let header = Header::new([0, number]);
    link.write_bytes(0, zerocopy::IntoBytes::as_bytes(&header))
        .expect("room for a header");
    let ram = HostRam::at(0);
    let (host_bell, bell) = (Bell::default(), Bell::default());
    let side = Wire::new(&link, 0, ram.clone(), bell.clone());
    let far = Wire::new(&link, number, host.clone(), host_bell.clone());
    let other = Other {
        links: Links::new(vec![Box::new(far)], true),
        engine: Engine::new(Config::new(number)),
        memory: NodeMemory::new(Source(ram)),
        bell,
    };
    (side, host_bell, other)
}

impl Other {
    /// One turn of its loop.
    pub fn turn(&mut self, now: u64) {
        if self.bell.take() {
            self.links.interrupt(0);
        }
        self.engine.tick(&mut self.memory, now);
        self.links.poll(now, &mut self.engine, &mut self.memory);
        self.engine.pump(&mut self.memory, &mut CpuEngine, 1 << 20);
        while let Some(event) = self.engine.next_event(&mut self.memory) {
            if let Event::Ring(node) = event {
                self.memory.ring(node);
            }
        }
        self.engine.check_invariants().expect("the other's engine");
    }
}
