//! Both kinds of MIC functions on one host.

use scheme_scif::CardCommand;
use scif_abi::PortId;
use scif_abi::flags::RmaFlags;
use scif_core::{ConnectMode, Direction, EndpointId, Event, Local, Memory, Rma};

use crate::fixture::{CARD, Fixture, USER, pattern};
use crate::host::HostRam;
use crate::wire::{Bell, Other, wire};

/// The node that is no card.
const OTHER: u16 = 2;
const BYTES: usize = 1 << 20;

struct Both {
    fixture: Fixture,
    bell: Bell,
    other: Other,
}

impl Both {
    fn new() -> Self {
        let host = HostRam::at(0);
        let (side, bell, other) = wire(&host, OTHER);
        let fixture = Fixture::with_functions(2, host, vec![Box::new(side)]);
        Self {
            fixture,
            bell,
            other,
        }
    }

    fn turn(&mut self) {
        if self.bell.take() {
            self.fixture.links.interrupt(1);
        }
        // Firmware takes seconds.
        self.fixture.now += 200_000;
        self.fixture.turn();
        self.other.turn(self.fixture.now);
    }

    /// Turns until this is so.
    fn until(&mut self, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..200_000 {
            if is_so(self) {
                return;
            }
            self.turn();
        }
        panic!("it never comes to that");
    }

    /// Connected ends of the host and the other node, with a window each at offset 0: the local
    /// addresses of both.
    fn connect(&mut self) -> (EndpointId, u64, u64) {
        let engine = &mut self.other.engine;
        let listener = engine.open(USER).unwrap();
        engine.bind(listener, 2050).unwrap();
        engine.listen(listener, 1).unwrap();
        let fixture = &mut self.fixture;
        let end = fixture.engine.open(USER).unwrap();
        let (to, mode) = (PortId::new(OTHER, 2050), ConnectMode::Blocking);
        fixture
            .engine
            .connect(&mut fixture.memory, end, to, mode)
            .unwrap();
        (0..50).for_each(|_| self.turn());
        let other = &mut self.other;
        let accepted = other.engine.accept_start(&mut other.memory, listener, USER);
        let accepted = accepted.unwrap();
        (0..50).for_each(|_| self.turn());
        assert!(self.fixture.engine.connect_result(end).is_ready());
        let (own, own_ticket) = self.fixture.start_register(end, BYTES, 0);
        let other = &mut self.other;
        let far = other.memory.allocate(BYTES).unwrap();
        let pages = self.fixture.pages(far, BYTES);
        let ticket = other
            .engine
            .register(&mut other.memory, accepted, pages, 0, 3, 0x10);
        let ticket = ticket.unwrap();
        (0..50).for_each(|_| self.turn());
        let other = &mut self.other;
        let done = other.engine.finish(ticket);
        done.expect("registered").unwrap();
        let done = self.fixture.engine.finish(own_ticket);
        done.expect("registered").unwrap();
        (end, own, far)
    }

    fn write(&mut self, end: EndpointId) {
        let rma = Rma {
            direction: Direction::Write,
            local: Local::Window(0),
            remote: 0,
            length: BYTES as u64,
            flags: RmaFlags::SYNC.bits(),
        };
        let fixture = &mut self.fixture;
        let ticket = fixture.engine.rma(end, rma).unwrap();
        (0..50).for_each(|_| self.turn());
        let result = self.fixture.engine.finish(ticket);
        result.expect("the copy is done").unwrap();
    }
}

#[test]
fn a_card_and_a_virtual_machine_are_there_at_once() {
    let mut both = Both::new();
    assert_eq!(
        both.fixture.links.peers().collect::<Vec<_>>(),
        [CARD, OTHER]
    );
    both.until(|both| both.fixture.engine.online_nodes().count() == 3);
    both.until(|both| both.fixture.is_online_with(3));
    // Copies to the one by its engine, to the other by the CPU.
    let (far_end, own, far) = both.connect();
    let data = pattern(BYTES, 1);
    both.fixture.memory.write(own, &data);
    both.write(far_end);
    let mut found = vec![0; BYTES];
    both.other.memory.read(far, &mut found);
    assert!(found == data);
    assert_eq!(both.fixture.card.borrow().done.bytes, 0);
    let (near_end, other) = both.fixture.connect();
    let own = both.fixture.register_host(near_end, BYTES, 0);
    let card = both.fixture.register_card(other, BYTES, 0);
    both.fixture.memory.write(own, &data);
    both.write(near_end);
    let memory = both.fixture.card.borrow().memory.clone();
    memory.read_bytes(card as usize, &mut found).unwrap();
    assert!(found == data);
    assert_eq!(both.fixture.card.borrow().done.bytes, BYTES as u64);
    // The card goes; the other link does not notice.
    both.fixture.command(CardCommand::Reset).unwrap();
    both.until(|both| both.fixture.state() == "ready");
    assert!(both.fixture.node_events.contains(&Event::NodeDown(CARD)));
    assert!(!both.fixture.node_events.contains(&Event::NodeDown(OTHER)));
    both.write(far_end);
    both.fixture.check();
}
