//! Hardware and files that are bad: the driver says what is wrong, and goes on without.

use std::cell::RefCell;
use std::rc::Rc;

use micd::function::MicFunction;
use micd::links::Links;
use micd::x100::X100;
use micd::x100::image::Files;
use scheme_scif::CardCommand as Command;
use scif_core::Event;
use syscall::error::{ENODEV, ENOSPC};

use crate::bed::{Bed, CARD, ModelSlot, SlotFaults, kernel};
use crate::card::Card;
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
        assert_eq!(links.predecessor_is_let_go(), is_complete);
    }
}

#[test]
fn a_card_that_never_gets_ready_is_given_up() {
    let mut bed = Bed::new(2);
    bed.card.borrow_mut().faults.never_ready = true;
    let words = said(|| {
        assert!(!bed.run_until(299, |bed| bed.state() != "resetting"));
        assert!(bed.run_until(10, |bed| bed.state() == "failed"));
    });
    assert!(words.contains("0000--03--00.0"), "{words}");
    assert!(words.contains("POSTCODE (BAR 4 + 0x242c) is 3C"), "{words}");
    assert!(
        words.contains("SCRATCH2 (BAR 4 + 0x1ab28) is 0x0"),
        "{words}"
    );
    // The node goes on: it talks with itself, and with the card once that is repaired.
    assert!(bed.engine.open(crate::bed::USER).is_ok());
    bed.card.borrow_mut().faults.never_ready = false;
    // However much later that is.
    assert!(!bed.run_until(400, |bed| bed.state() != "failed"));
    bed.command(Command::Boot).unwrap();
    bed.boot();
    bed.check();
}

#[test]
fn a_reset_that_always_fails_is_given_up() {
    let mut bed = Bed::new(2);
    bed.card.borrow_mut().faults.failed_resets = u32::MAX;
    assert!(bed.run_until(320, |bed| bed.state() == "failed"));
    bed.check();
}

#[test]
fn truncated_and_wrong_files_are_not_loaded() {
    let mut short = kernel(300_000);
    short.truncate(290_000);
    for (file, words) in [
        (
            short,
            "the uOS file is truncated: it has 290000 bytes and its header tells of 300000",
        ),
        (vec![7; 300_000], "no x86 kernel image"),
        (Vec::new(), "no x86 kernel image"),
        (
            kernel(17 << 20),
            "behind 0x2000000, where the RAM disk begins",
        ),
    ] {
        let mut bed = Bed::new(2);
        bed.files.borrow_mut().kernel = file;
        let found = said(|| {
            assert!(!bed.run_until(60, |bed| bed.state() == "booting"));
        });
        assert!(
            found.contains("0000--03--00.0: not booted:") && found.contains(words),
            "{found}"
        );
        assert_eq!(bed.state(), "ready");
        bed.files.borrow_mut().kernel = kernel(300_000);
        bed.command(Command::Boot).unwrap();
        bed.boot();
        bed.check();
    }
}

#[test]
fn a_card_that_vanishes_takes_nothing_with_it() {
    let mut bed = Bed::new(2);
    bed.boot();
    let (end, _) = bed.connect();
    bed.card.borrow_mut().faults.is_gone = true;
    let words = said(|| {
        assert!(bed.run_until(5, |bed| bed.news.contains(&Event::NodeDown(CARD))));
    });
    assert!(
        words.contains("SICR0 (BAR 4 + 0x19004) reads all ones"),
        "{words}"
    );
    assert_eq!(bed.state(), "gone");
    let error = bed.engine.send(&mut bed.memory, end, b"x").unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    assert!(!bed.card.borrow().is_master);
    assert!(!bed.run_until(60, |bed| bed.state() != "gone"));
    bed.check();
}

#[test]
fn memory_stays_as_long_as_a_card_that_does_not_answer_cannot_be_kept_from_the_bus() {
    let mut bed = Bed::new(2);
    bed.boot();
    let (end, _) = bed.connect();
    bed.register_host(end, 4096, 0);
    {
        let faults = &mut bed.card.borrow_mut().faults;
        (faults.is_gone, faults.no_config) = (true, true);
    }
    let words = said(|| {
        assert!(bed.run_until(5, |bed| bed.news.contains(&Event::NodeDown(CARD))));
    });
    let stays = "0000--03--00.0: the PCI command register: bus mastering stays on";
    assert!(words.contains(stays), "{words}");
    bed.engine.close(&mut bed.memory, end);
    let words = said(|| assert!(!bed.run_until(60, |bed| !bed.released.is_empty())));
    assert_eq!(words, "");
    bed.card.borrow_mut().faults.no_config = false;
    assert!(bed.run_until(5, |bed| !bed.released.is_empty()));
    // It answers again: a reset is all it needs.
    bed.card.borrow_mut().faults.is_gone = false;
    bed.boot();
    bed.check();
}

#[test]
fn a_doorbell_that_does_not_exist_is_refused() {
    let mut bed = Bed::new(2);
    bed.manners.doorbell = 16;
    let words = said(|| {
        assert!(bed.run_until(60, |bed| bed.card.borrow().resets == 2));
    });
    assert!(words.contains("doorbell 16 of 16"), "{words}");
    bed.check();
}
