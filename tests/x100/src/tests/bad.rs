//! Hardware and files that are bad: the driver says what is wrong, and goes on without.

use std::cell::RefCell;
use std::rc::Rc;

use micd::function::MicFunction;
use micd::links::Links;
use micd::x100::image::Files;
use micd::x100::{self, X100};
use scheme_scif::CardCommand as Command;
use scif_abi::flags::RmaFlags;
use scif_core::{Direction, Event, Local, Memory, Rma};
use syscall::error::{ENODEV, ENOSPC};

use crate::card::{Card, LOAD, MEMORY, PROCESSOR};
use crate::fixture::{CARD, Fixture, ModelSlot, SlotFaults, kernel, pattern};
use crate::host::HostRam;
use crate::tests::log::said;
use crate::wire::wire;

fn slot(faults: SlotFaults) -> ModelSlot {
    let host = HostRam::new();
    ModelSlot {
        card: Rc::new(RefCell::new(Card::new(host.clone(), 2))),
        host,
        files: Rc::new(RefCell::new(Files::default())),
        faults,
    }
}

#[test]
fn a_bar_of_all_ones_is_no_card() {
    let slot = slot(SlotFaults::default());
    slot.card.borrow_mut().faults.is_gone = true;
    let words = said(|| {
        let error = X100::open(Box::new(slot), CARD, true).err();
        assert_eq!(error.map(|error| error.errno), Some(ENODEV));
    });
    assert!(words.contains("0000--03--00.0") && words.contains("SCRATCH13 (BAR 4 + 0x1ab54)"));
}

#[test]
fn without_an_interrupt_vector_there_is_no_card() {
    let slot = slot(SlotFaults { no_vector: true });
    let card = slot.card.clone();
    let words = said(|| {
        let error = X100::open(Box::new(slot), CARD, true).err();
        assert_eq!(error.map(|error| error.errno), Some(ENOSPC));
    });
    assert!(words.contains("0000--03--00.0") && words.contains("MSI-X table entry 0"));
    // Whatever a driver before this one has left running on it.
    let card = card.borrow();
    assert_eq!((card.resets, card.is_master), (1, false));
    assert_eq!(card.complaints, [""; 0]);
}

#[test]
fn cards_that_cannot_be_opened_leave_the_others_their_numbers() {
    let host = HostRam::new();
    let (wire, _, _) = wire(&host, 1);
    let mut functions: Vec<Box<dyn MicFunction>> = vec![Box::new(wire)];
    let gone = slot(SlotFaults::default());
    gone.card.borrow_mut().faults.is_gone = true;
    let words = said(|| {
        x100::add(&mut functions, Box::new(gone), true);
        let no_vector = slot(SlotFaults { no_vector: true });
        x100::add(&mut functions, Box::new(no_vector), true);
        x100::add(&mut functions, Box::new(slot(SlotFaults::default())), true);
    });
    assert_eq!(words.lines().count(), 2, "{words}");
    let links = Links::new(functions, true);
    assert_eq!(links.peers().collect::<Vec<_>>(), [1, 2]);
    let cards = links.cards();
    assert_eq!((cards.len(), cards[0].node), (1, 2));
}

#[test]
fn a_card_that_is_one_link_too_many_is_left_harmless() {
    let slot = slot(SlotFaults::default());
    let (card, host) = (slot.card.clone(), slot.host.clone());
    let function = X100::open(Box::new(slot), CARD, true).unwrap();
    let (wire, _, _) = wire(&host, CARD);
    let words = said(|| {
        let links = Links::new(vec![Box::new(wire), Box::new(function)], true);
        assert_eq!(links.peers().count(), 1);
    });
    assert!(words.contains("a second link of node 0 with node 1"));
    let card = card.borrow();
    assert_eq!((card.resets, card.is_master), (1, false));
}

#[test]
fn what_cannot_be_opened_keeps_the_memory_of_the_driver_before() {
    for is_complete in [true, false] {
        let slot = slot(SlotFaults::default());
        let mut function = X100::open(Box::new(slot), CARD, true).unwrap();
        function.leave();
        let links = Links::new(vec![Box::new(function)], is_complete);
        assert_eq!(links.predecessor_is_quiesced(), is_complete);
    }
}

#[test]
fn a_card_that_never_gets_ready_is_given_up() {
    let mut fixture = Fixture::new(2);
    fixture.card.borrow_mut().faults.never_ready = true;
    let words = said(|| {
        assert_eq!(fixture.info().post_code, "");
        assert!(fixture.run_until(2, |fixture| fixture.info().post_code == "3C"));
        assert!(!fixture.run_until(297, |fixture| fixture.state() != "resetting"));
        assert!(fixture.run_until(10, |fixture| fixture.state() == "failed"));
        assert_eq!(fixture.info().post_code, "3C");
    });
    assert!(words.contains("0000--03--00.0"), "{words}");
    assert!(words.contains("POSTCODE (BAR 4 + 0x242c) is 3C"), "{words}");
    assert!(
        words.contains("SCRATCH2 (BAR 4 + 0x1ab28) is 0x0"),
        "{words}"
    );
    // The node goes on: it talks with itself, and with the card once that is repaired.
    assert!(fixture.engine.open(crate::fixture::USER).is_ok());
    fixture.card.borrow_mut().faults.never_ready = false;
    // However much later that is.
    assert!(!fixture.run_until(400, |fixture| fixture.state() != "failed"));
    fixture.command(Command::Boot).unwrap();
    fixture.boot();
    fixture.check();
}

#[test]
fn a_reset_that_always_fails_is_given_up() {
    let mut fixture = Fixture::new(2);
    fixture.card.borrow_mut().faults.failed_resets = u32::MAX;
    assert!(fixture.run_until(320, |fixture| fixture.state() == "failed"));
    fixture.check();
}

#[test]
fn truncated_and_wrong_files_are_not_loaded() {
    let mut short = kernel(300_000);
    short.truncate(290_000);
    for (file, words) in [
        (
            short,
            "the uOS file is truncated: it has 290000 bytes and 300000 by its header",
        ),
        (vec![7; 300_000], "no x86 kernel image"),
        (Vec::new(), "no x86 kernel image"),
        (
            kernel(17 << 20),
            "behind 0x2000000, where the RAM disk begins",
        ),
    ] {
        let mut fixture = Fixture::new(2);
        fixture.files.borrow_mut().kernel = file;
        let found = said(|| {
            assert!(!fixture.run_until(60, |fixture| fixture.state() == "booting"));
        });
        assert!(
            found.contains("0000--03--00.0: not booted:") && found.contains(words),
            "{found}"
        );
        assert_eq!(fixture.state(), "ready");
        fixture.files.borrow_mut().kernel = kernel(300_000);
        fixture.command(Command::Boot).unwrap();
        fixture.boot();
        fixture.check();
    }
}

#[test]
fn a_card_that_vanishes_takes_nothing_with_it() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let (end, _) = fixture.connect();
    fixture.card.borrow_mut().faults.is_gone = true;
    let words = said(|| {
        assert!(fixture.run_until(5, |fixture| {
            fixture.node_events.contains(&Event::NodeDown(CARD))
        }));
    });
    assert!(
        words.contains("SICR0 (BAR 4 + 0x19004) reads all ones"),
        "{words}"
    );
    assert_eq!(fixture.state(), "gone");
    let error = fixture
        .engine
        .send(&mut fixture.memory, end, b"x")
        .unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    assert!(!fixture.card.borrow().is_master);
    assert!(!fixture.run_until(60, |fixture| fixture.state() != "gone"));
    fixture.check();
}

#[test]
fn memory_stays_as_long_as_a_card_that_does_not_answer_cannot_be_kept_from_the_bus() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let (end, _) = fixture.connect();
    fixture.register_host(end, 4096, 0);
    {
        let faults = &mut fixture.card.borrow_mut().faults;
        (faults.is_gone, faults.no_config) = (true, true);
    }
    let words = said(|| {
        assert!(fixture.run_until(5, |fixture| {
            fixture.node_events.contains(&Event::NodeDown(CARD))
        }));
    });
    let stays = "0000--03--00.0: the PCI command register: bus mastering stays on";
    assert!(words.contains(stays), "{words}");
    fixture.engine.close(&mut fixture.memory, end);
    let words = said(|| assert!(!fixture.run_until(60, |fixture| !fixture.released.is_empty())));
    assert_eq!(words, "");
    fixture.card.borrow_mut().faults.no_config = false;
    assert!(fixture.run_until(5, |fixture| !fixture.released.is_empty()));
    // It answers again: a reset is all it needs.
    fixture.card.borrow_mut().faults.is_gone = false;
    fixture.boot();
    fixture.check();
}

#[test]
fn a_doorbell_that_does_not_exist_or_has_another_meaning_is_refused() {
    for (doorbell, what) in [(16, "doorbell 16 of 16"), (7, "is taken")] {
        let mut fixture = Fixture::new(2);
        fixture.behaviour.doorbell = doorbell;
        let words = said(|| {
            assert!(fixture.run_until(60, |fixture| fixture.card.borrow().resets == 2));
        });
        assert!(words.contains(what), "{words}");
        fixture.behaviour.doorbell = 8;
        fixture.boot();
        fixture.check();
    }
}

#[test]
fn a_queue_pair_that_cannot_be_is_refused() {
    for address in [MEMORY as u64, u64::MAX, 0x80_0000_0000, 4] {
        let mut fixture = Fixture::new(2);
        fixture.behaviour.queue_pair = Some(address);
        assert!(fixture.run_until(60, |fixture| fixture.card.borrow().resets == 2));
        assert!(fixture.node_events.is_empty());
        fixture.behaviour.queue_pair = None;
        fixture.boot();
        fixture.check();
    }
}

#[test]
fn a_card_that_is_not_ready_any_more_is_not_written_to() {
    for (found, what) in [
        (u32::MAX, "SCRATCH2 (BAR 4 + 0x1ab28) reads all ones"),
        (
            LOAD | PROCESSOR << 1,
            "not ready any more: SCRATCH2 (BAR 4 + 0x1ab28) is 0x10000b4",
        ),
    ] {
        let mut fixture = Fixture::new(2);
        fixture.boot();
        fixture.command(Command::Reset).unwrap();
        assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
        fixture.card.borrow_mut().faults.download = Some(found);
        let before = fixture.card.borrow().memory.read::<u64>(LOAD as usize);
        fixture.command(Command::Boot).unwrap();
        let words = said(|| assert!(fixture.run_until(5, |fixture| fixture.state() != "ready")));
        assert!(words.contains(what), "{words}");
        assert_eq!(
            fixture.card.borrow().memory.read::<u64>(LOAD as usize),
            before
        );
        fixture.card.borrow_mut().faults.download = None;
        fixture.boot();
        fixture.check();
    }
}

#[test]
fn channels_that_cannot_be_set_up_are_replaced_by_the_cpu() {
    let mut fixture = Fixture::new(2);
    fixture.card.borrow_mut().faults.dead_channels = true;
    let words = said(|| fixture.boot());
    assert!(words.contains("DMA channel 3 cannot be set up: the CPU copies"));
    let (end, other) = fixture.connect();
    let own = fixture.register_host(end, 1 << 20, 0);
    let there = fixture.register_card(other, 1 << 20, 0);
    let data = pattern(1 << 20, 5);
    fixture.memory.write(own, &data);
    let rma = Rma {
        direction: Direction::Write,
        local: Local::Window(0),
        remote: 0,
        length: 1 << 20,
        flags: (RmaFlags::SYNC | RmaFlags::ORDERED).bits(),
    };
    let ticket = fixture.engine.rma(end, rma).unwrap();
    fixture.finish(ticket);
    let mut found = vec![0; 1 << 20];
    let memory = fixture.card.borrow().memory.clone();
    memory.read_bytes(there as usize, &mut found).unwrap();
    assert!(found == data);
    assert_eq!(fixture.card.borrow().done.descriptors, 0);
    fixture.check();
}
