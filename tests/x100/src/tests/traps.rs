//! The traps of the hardware: that the model has them, by driving its registers in a wrong way, and
//! that the driver does not step into them.

use std::cell::RefCell;
use std::rc::Rc;

use hal::mem::drain_writes;
use hal::mem::{PAGE, Region};
use micd::x100::registers::{
    CAUSES, DCAR, DCHERR, DCHERRMSK, DCR, DHPR, DOWNLOAD, DRAR_HIGH, DRAR_LOW, DSTAT,
    DSTAT_QUIESCED, DSTATWB_HIGH, DSTATWB_LOW, MXAR0, PAGE_LOW, RGCR, RGCR_RESET, SICC0, SICE0,
    SICR0, channel, copy_descriptor, dcr_enable, dcr_owner, drar_high, rdmasr, sdbic, smpt,
    smpt_value, status_descriptor,
};

use crate::card::Card;
use crate::fixture::Fixture;
use crate::host::{BASE, HostRam};

/// Card address of the host's memory, with a linear table.
const WINDOW: u64 = 0x80_0000_0000 + BASE;

/// A card after a reset, with a ring on channel 0.
struct Bare {
    card: Rc<RefCell<Card>>,
    ring: Region,
    host: Rc<HostRam>,
}

impl Bare {
    fn new(stepping: u32) -> Self {
        let host = HostRam::new();
        let card = Rc::new(RefCell::new(Card::new(host.clone(), stepping)));
        let (ring, ring_at) = host.allocate(PAGE).unwrap();
        let bare = Self { card, ring, host };
        for (register, value) in [(DOWNLOAD, 0), (PAGE_LOW, 0), (sdbic(1), 0), (SICC0, CAUSES)] {
            bare.write(register, value);
        }
        bare.write(RGCR, RGCR_RESET);
        bare.card.borrow_mut().set_now(5_000_000_000);
        bare.card.borrow_mut().is_master = true;
        for entry in 0..32 {
            bare.write(smpt(entry), smpt_value(entry as u64));
        }
        bare.write(MXAR0, CAUSES);
        bare.write(SICE0, CAUSES);
        bare.write(DCR, dcr_owner(0));
        let ring_at = ring_at - BASE + WINDOW;
        bare.write(channel(0, DRAR_LOW), ring_at as u32);
        bare.write(channel(0, DRAR_HIGH), drar_high(ring_at, 256));
        bare.write(DCR, dcr_owner(0) | dcr_enable(0));
        assert_eq!(bare.complaints(), [""; 0]);
        bare
    }

    fn write(&self, register: usize, value: u32) {
        self.card.borrow_mut().write(register, value);
    }

    fn read(&self, register: usize) -> u32 {
        self.card.borrow_mut().read(register)
    }

    /// Sets a channel's head, behind the descriptors.
    fn set_head(&self, head: u32) {
        drain_writes();
        self.write(channel(0, DHPR), head);
    }

    fn put(&self, slot: usize, words: [u64; 2]) {
        self.ring.write(slot * 16, words[0]).unwrap();
        self.ring.write(slot * 16 + 8, words[1]).unwrap();
    }

    fn run(&self) {
        while self.card.borrow_mut().run_channel(0) {}
    }

    fn complaints(&self) -> Vec<String> {
        self.card.borrow().complaints.clone()
    }

    fn complains_of(&self, word: &str) {
        let complaints = self.complaints();
        assert!(
            complaints.len() == 1 && complaints[0].contains(word),
            "{complaints:?}"
        );
        self.card.borrow_mut().complaints.clear();
    }
}

#[test]
fn the_same_head_twice_stops_a_channel() {
    let bare = Bare::new(2);
    let (_, at) = bare.host.allocate(PAGE).unwrap();
    bare.put(0, copy_descriptor(0x1000, at - BASE + WINDOW, 64));
    bare.set_head(1);
    bare.run();
    assert_eq!(bare.read(channel(0, DSTAT)), 1);
    bare.set_head(1);
    bare.complains_of("the head 1 is written twice");
    assert_ne!(bare.read(channel(0, DCHERR)), 0);
    assert_ne!(bare.read(channel(0, DSTAT)) & DSTAT_QUIESCED, 0);
}

#[test]
fn a_ring_never_fills_up() {
    let bare = Bare::new(2);
    // A head in front of the tail again is an empty ring to the engine, with 255 descriptors in it.
    bare.set_head(255);
    bare.set_head(0);
    bare.complains_of("the head 0 passes the tail 0");
    // Nor may a channel be turned off that is at work: what it copies may still arrive.
    bare.write(DCR, dcr_owner(0));
    bare.complains_of("channel 0 is turned off while it works");
}

#[test]
fn the_first_stepping_writes_no_state_back() {
    let bare = Bare::new(0);
    bare.write(DCR, dcr_owner(0));
    for register in [DSTATWB_LOW, DSTATWB_HIGH, DCHERRMSK] {
        bare.write(channel(0, register), 0);
        bare.complains_of("is set to 0x0");
    }
}

#[test]
fn an_unpaired_status_descriptor_loses_its_interrupt() {
    let bare = Bare::new(2);
    let (words, at) = bare.host.allocate(PAGE).unwrap();
    let to = at - BASE + WINDOW;
    bare.put(0, status_descriptor(5, to, true));
    bare.set_head(1);
    bare.run();
    assert_eq!(words.read::<u64>(0), Ok(5));
    assert!(!bare.card.borrow_mut().has_message());
    assert_eq!(bare.card.borrow().done.lost_interrupts, 1);
    bare.put(1, status_descriptor(6, to, false));
    bare.put(2, status_descriptor(6, to, true));
    bare.set_head(3);
    bare.run();
    assert!(bare.card.borrow_mut().has_message());
    assert_eq!(bare.card.borrow().done.lost_interrupts, 1);
}

#[test]
fn lengths_and_alignments_have_limits() {
    for (from, bytes) in [
        (0x1020, 64),
        (0x1000, 0),
        (0x1000, (512 << 10) + 64),
        (1 << 39 | BASE, 64),
    ] {
        let bare = Bare::new(2);
        let (_, at) = bare.host.allocate(2 << 20).unwrap();
        bare.put(0, copy_descriptor(from, at - BASE + WINDOW, bytes));
        bare.set_head(1);
        bare.run();
        assert_ne!(bare.read(channel(0, DCHERR)), 0, "{from:#x} {bytes}");
        assert_eq!(bare.card.borrow().done.bytes, 0);
    }
}

#[test]
fn acknowledging_turns_interrupts_off_on_later_steppings() {
    let bare = Bare::new(1);
    bare.card.borrow_mut().ring_host(0, 0);
    assert!(bare.card.borrow_mut().has_message());
    let causes = bare.read(SICR0);
    bare.write(SICR0, causes);
    bare.card.borrow_mut().ring_host(0, 0);
    assert!(!bare.card.borrow_mut().has_message());
    bare.write(SICE0, CAUSES);
    assert!(bare.card.borrow_mut().has_message());
    // And on the first one the pending bit stays.
    let bare = Bare::new(0);
    bare.card.borrow_mut().ring_host(0, 0);
    assert!(bare.card.borrow_mut().has_message());
    let causes = bare.read(SICR0);
    bare.write(SICR0, causes);
    bare.card.borrow_mut().ring_host(0, 0);
    assert!(!bare.card.borrow_mut().has_message());
    bare.write(micd::x100::registers::MSIXPBACR, 1);
    assert!(bare.card.borrow_mut().has_message());
}

#[test]
fn a_doorbell_overtakes_an_index_that_is_stored_once() {
    for stores_twice in [true, false] {
        let mut fixture = Fixture::new(2);
        fixture.boot();
        let (end, other) = fixture.connect();
        fixture.uos.as_mut().unwrap().memory.stores_twice = stores_twice;
        let uos = fixture.uos.as_mut().unwrap();
        uos.engine.send(&mut uos.memory, other, b"hello").unwrap();
        // The doorbell has arrived, and the card does nothing more.
        let uos = fixture.uos.as_mut().unwrap();
        while let Some(event) = uos.engine.next_event(&mut uos.memory) {
            if let scif_core::Event::Ring(_) = event {
                fixture.card.borrow_mut().ring_host(0, 0);
            }
        }
        fixture.hear();
        let mut got = [0; 5];
        let count = fixture.engine.recv(&mut fixture.memory, end, &mut got);
        assert_eq!(count, Ok(if stores_twice { 5 } else { 0 }));
    }
}

#[test]
fn the_model_is_strict() {
    let bare = Bare::new(2);
    bare.read(RGCR + 1);
    bare.complains_of("no register");
    bare.write(DOWNLOAD, 5);
    bare.complains_of("may not be set");
    bare.write(smpt(3), 2);
    bare.complains_of("may not be set");
    bare.write(sdbic(0), 1);
    bare.complains_of("may not be set");
    // The trap of the mainline driver: the base of the card's interrupt numbers is not to be added.
    bare.write(rdmasr(17), 0);
    bare.complains_of("may not be set");
    bare.write(micd::x100::registers::apicicr(2), 1 << 13 | 0x31);
    bare.complains_of("may not be set");
    bare.write(SICR0, 1);
    bare.complains_of("clears what was not seen");
    bare.write(channel(0, DRAR_LOW), 0);
    bare.complains_of("is written while it works");
    bare.write(channel(0, DSTAT), 0);
    bare.complains_of("is set to");
    bare.read(channel(5, DCAR));
    bare.complains_of("no register");
    bare.write(DCR, 0);
    bare.write(channel(0, DRAR_HIGH), drar_high(WINDOW, 100));
    bare.complains_of("a ring of 100 descriptors");
    bare.write(channel(0, DCAR), 1 << 25);
    bare.write(channel(0, DCAR), 0);
    bare.complains_of("DCAR was not read back after masking");
    bare.read(channel(0, DCAR));
    bare.write(channel(0, DCAR), 0);
    bare.set_head(3);
    bare.complains_of("DCAR was not read back after unmasking");
    bare.write(micd::x100::registers::APICICR7, 229 | 1 << 13);
    bare.complains_of("cannot be started");
    bare.write(RGCR, RGCR_RESET);
    bare.complains_of("reset without clearing");
    bare.read(SICR0);
    bare.complains_of("in the second after a reset");
}

#[test]
fn memory_above_512_gib_is_shown_by_another_entry() {
    // The 40th page of 16 GiB.
    let mut fixture = Fixture::with_memory(2, HostRam::at(40 << 34 | 0x1000_0000));
    fixture.boot();
    fixture.connect();
    let entry = fixture.card.borrow_mut().read(smpt(31));
    assert_eq!(entry, 40 << 2);
    fixture.check();
}
