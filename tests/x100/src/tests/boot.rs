//! Reset, firmware, image, link; and the ends of all that.

use micd::x100::registers::smpt;
use scheme_scif::CardCommand as Command;
use scif_abi::limits::LinkTiming;
use scif_core::{DownReason, Event};
use syscall::error::{EBUSY, Error};

use crate::bed::{Bed, CARD, pattern};
use crate::tests::log::said;
use crate::uos::Manners;

/// Steppings: A0, B0, C0, B1.
const STEPPINGS: [u32; 4] = [0, 1, 2, 3];

#[test]
fn a_card_boots_and_is_online() {
    for stepping in STEPPINGS {
        let mut bed = Bed::new(stepping);
        assert_eq!(bed.state(), "resetting");
        bed.boot();
        let info = bed.info();
        assert_eq!(bed.state(), "running");
        assert_eq!(info.stepping, ["A0", "B0", "C0", "B1"][stepping as usize]);
        assert_eq!(info.memory_bytes, 128 << 20);
        assert_eq!(info.post_code, "FF");
        assert_eq!(info.temperature, Some(54));
        let uos = bed.uos.as_ref().unwrap();
        assert_eq!(uos.command_line, " mem=128M quiet");
        assert_eq!(uos.ram_disk, b"the initial file system");
        assert_eq!(bed.news, [Event::NodeUp(CARD)]);
        assert_eq!(bed.card.borrow().resets, 1);
        assert!(bed.links.predecessor_is_quiesced());
        bed.check();
    }
}

#[test]
fn each_kind_of_doorbell_works() {
    for doorbell in [0, 3, 6, 8, 15] {
        let mut bed = Bed::new(2);
        bed.manners.doorbell = doorbell;
        bed.boot();
        bed.connect();
        bed.check();
    }
}

#[test]
fn failed_resets_are_repeated() {
    let mut bed = Bed::new(2);
    bed.card.borrow_mut().faults.failed_resets = 2;
    bed.boot();
    assert_eq!(bed.card.borrow().resets, 3);
    bed.check();
}

#[test]
fn the_table_is_written_again_after_each_reset() {
    let mut bed = Bed::new(2);
    bed.boot();
    bed.command(Command::Reset).unwrap();
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    for entry in 0..32 {
        let value = bed.card.borrow_mut().read(smpt(entry));
        assert_eq!(value, (entry as u32) << 2);
    }
    bed.check();
}

#[test]
fn a_reset_during_a_reset_touches_nothing() {
    let mut bed = Bed::new(2);
    bed.boot();
    bed.command(Command::Reset).unwrap();
    assert!(bed.run_until(60, |bed| bed.state() == "resetting"));
    let resets = bed.card.borrow().resets;
    bed.command(Command::Reset).unwrap();
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    assert_eq!(bed.card.borrow().resets, resets);
    bed.check();
}

#[test]
fn an_administrator_resets_boots_and_shuts_down() {
    let mut bed = Bed::new(1);
    bed.boot();
    assert_eq!(bed.command(Command::Boot), Err(Error::new(EBUSY)));
    bed.command(Command::Reset).unwrap();
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    assert_eq!(
        bed.news,
        [
            Event::NodeUp(CARD),
            Event::NodeDown(CARD),
            Event::LinkFailed(CARD)
        ]
    );
    assert_eq!(bed.command(Command::Shutdown), Err(Error::new(EBUSY)));
    assert!(!bed.run_until(60, |bed| bed.state() != "ready"));
    bed.command(Command::Boot).unwrap();
    bed.boot();
    bed.connect();
    bed.command(Command::Shutdown).unwrap();
    assert_eq!(bed.state(), "stopping");
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    assert_eq!(bed.card.borrow().resets, 3);
    bed.check();
}

#[test]
fn a_card_that_does_not_shut_down_is_reset() {
    let mut bed = Bed::new(2);
    bed.manners.is_polite = false;
    bed.boot();
    bed.command(Command::Shutdown).unwrap();
    assert!(!bed.run_until(50, |bed| bed.state() != "stopping"));
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    bed.check();
}

#[test]
fn a_system_that_crashes_is_started_again() {
    let mut bed = Bed::new(2);
    bed.boot();
    let (end, _) = bed.connect();
    bed.uos.as_mut().unwrap().end(0xdead);
    assert!(bed.run_until(5, |bed| !bed.is_online()));
    let error = bed.engine.send(&mut bed.memory, end, b"x").unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    bed.engine.close(&mut bed.memory, end);
    bed.boot();
    bed.connect();
    bed.check();
}

#[test]
fn a_system_that_hangs_is_noticed_by_its_heart() {
    let mut bed = Bed::new(2);
    bed.boot();
    bed.uos.as_mut().unwrap().hang();
    assert!(!bed.run_until(25, |bed| bed.news.contains(&Event::NodeDown(CARD))));
    assert!(bed.run_until(10, |bed| bed.news.contains(&Event::NodeDown(CARD))));
    bed.boot();
    bed.check();
}

/// A card of the base protocol, which has no heart.
fn base_card() -> Bed {
    let mut bed = Bed::new(2);
    bed.manners.has_heart = false;
    bed.boot();
    bed
}

#[test]
fn a_base_protocol_card_that_has_nothing_to_say_answers() {
    let mut bed = base_card();
    let lost = |bed: &mut Bed| bed.news.contains(&Event::NodeDown(CARD));
    assert!(!bed.run_until(300, lost));
    // One question in 10 s, and one answer to each.
    let heard = bed.engine.stats().messages_received;
    assert!((30..=35).contains(&heard), "{heard} messages");
    // A long time without a probe is not the card's fault.
    bed.now += 3_600_000_000_000;
    assert!(!bed.run_until(60, lost));
    assert_eq!(bed.engine.stats().stale_ids, 0);
    let uos = bed.uos.as_ref().unwrap();
    assert_eq!(uos.engine.stats().stale_ids, 0);
    bed.check();
}

#[test]
fn a_base_protocol_card_that_hangs_is_noticed_by_its_silence() {
    let mut bed = base_card();
    let (end, _) = bed.connect();
    assert!(!bed.run_until(15, |bed| !bed.is_online()));
    bed.uos.as_mut().unwrap().hang();
    let lost = |bed: &mut Bed| bed.news.contains(&Event::NodeDown(CARD));
    assert!(!bed.run_until(25, lost));
    let words = said(|| assert!(bed.run_until(20, lost)));
    let expected = "0000--03--00.0: its system is silent: 3 questions in 30000 ms";
    assert!(words.contains(expected), "{words}");
    let why = bed.engine.lost_nodes().map(|lost| lost.reason);
    assert_eq!(why.collect::<Vec<_>>(), [DownReason::Silent]);
    let error = bed.engine.send(&mut bed.memory, end, b"x").unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    bed.engine.close(&mut bed.memory, end);
    assert!(bed.run_until(5, |bed| bed.state() == "resetting"));
    bed.boot();
    bed.check();
}

#[test]
fn a_base_protocol_card_that_left_is_not_asked() {
    let mut bed = base_card();
    let uos = bed.uos.as_mut().unwrap();
    uos.engine.leave(&mut uos.memory);
    assert!(bed.run_until(5, |bed| bed.news.contains(&Event::NodeDown(CARD))));
    let resets = bed.card.borrow().resets;
    assert!(!bed.run_until(100, |bed| bed.card.borrow().resets != resets));
    bed.check();
}

#[test]
fn the_silence_that_is_allowed_can_be_set() {
    let mut bed = base_card();
    let timing = LinkTiming {
        heartbeat_ns: 100_000_000,
        silence_ns: 900_000_000,
    };
    bed.links.set_timing(timing);
    let lost = |bed: &mut Bed| bed.news.contains(&Event::NodeDown(CARD));
    assert!(!bed.run_until(60, lost));
    bed.uos.as_mut().unwrap().hang();
    assert!(bed.run_until(2, lost));
    bed.boot();
    bed.check();
}

#[test]
fn a_queue_pair_that_is_withdrawn_ends_the_link() {
    let mut bed = Bed::new(2);
    bed.boot();
    bed.uos.as_mut().unwrap().withdraw();
    assert!(bed.run_until(5, |bed| bed.news.contains(&Event::NodeDown(CARD))));
    bed.boot();
    bed.check();
}

#[test]
fn a_system_that_never_answers_is_given_up_after_three_times() {
    let mut bed = Bed::new(2);
    bed.manners = Manners {
        is_alive: false,
        ..Manners::default()
    };
    assert!(bed.run_until(700, |bed| bed.card.borrow().resets == 4));
    assert!(bed.run_until(20, |bed| bed.state() == "ready"));
    assert!(!bed.run_until(400, |bed| bed.state() != "ready"));
    // It was repaired.
    bed.manners = Manners::default();
    bed.command(Command::Boot).unwrap();
    bed.boot();
    bed.check();
}

/// Others do not have to wait until hundreds of MiB are in the card.
#[test]
fn files_are_loaded_piece_by_piece() {
    let ram_disk = pattern((9 << 20) + 5, 1);
    for command in [None, Some(Command::Reset), Some(Command::Shutdown)] {
        let mut bed = Bed::new(2);
        bed.files.borrow_mut().ram_disk = ram_disk.clone();
        assert!(bed.run_until(60, |bed| bed.state() == "booting"));
        (0..8).for_each(|_| _ = bed.turn());
        assert!(bed.uos.is_none());
        if let Some(command) = command {
            bed.command(command).unwrap();
            assert!(bed.run_until(60, |bed| bed.state() == "ready"));
            assert_eq!(bed.card.borrow().resets, 2);
            bed.command(Command::Boot).unwrap();
        }
        bed.boot();
        assert!(bed.uos.as_ref().unwrap().ram_disk == ram_disk);
        bed.check();
    }
}

#[test]
fn a_system_that_crashes_while_it_boots_is_given_up_after_three_times() {
    let mut bed = Bed::new(2);
    bed.manners.is_alive = false;
    let words = said(|| {
        for resets in 2..=4 {
            assert!(bed.run_until(60, |bed| bed.uos.is_some()));
            bed.uos.as_mut().unwrap().end(0xdead);
            assert!(bed.run_until(60, |bed| bed.card.borrow().resets == resets));
            bed.turn();
        }
    });
    assert!(words.contains("SDBIC1 (BAR 4 + 0x1cc94) was 0xdead"));
    assert!(
        words.contains("0000--03--00.0: booted 3 times in vain: given up"),
        "{words}"
    );
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    assert!(!bed.run_until(60, |bed| bed.state() != "ready"));
    bed.check();
}

/// Every command in every state: what it returns, and where it leads in the end.
#[test]
fn commands_are_carried_out_in_every_state() {
    for state in [
        "resetting",
        "ready",
        "booting",
        "running",
        "stopping",
        "failed",
        "gone",
    ] {
        for command in [Command::Boot, Command::Reset, Command::Shutdown] {
            let mut bed = in_state(state);
            let runs = matches!(state, "booting" | "running");
            let is_refused = match command {
                Command::Boot => runs,
                Command::Reset => false,
                Command::Shutdown => !runs,
            };
            let result = bed.command(command);
            assert_eq!(result.is_err(), is_refused, "{command:?} in {state}");
            bed.card.borrow_mut().faults = Default::default();
            bed.manners = Manners::default();
            let runs_in_the_end = match (command, state) {
                (Command::Boot, _) => true,
                (Command::Reset, _) => false,
                // What was refused changes nothing.
                (Command::Shutdown, "resetting" | "gone") => true,
                (Command::Shutdown, _) => false,
            };
            let expected = match (runs_in_the_end, state, command) {
                (true, ..) => "running",
                (false, "failed", Command::Shutdown) => "failed",
                _ => "ready",
            };
            // The longest: a boot that is not answered, a system that does not shut down.
            bed.run_until(320, |bed| {
                bed.state() == expected && bed.uos.is_some() == runs_in_the_end
            });
            assert_eq!(bed.state(), expected, "{command:?} in {state}");
            bed.check();
        }
    }
}

fn in_state(state: &str) -> Bed {
    let mut bed = Bed::new(2);
    match state {
        "resetting" => bed.run_until(2, |_| false),
        "booting" => {
            bed.manners.is_alive = false;
            bed.run_until(60, |bed| bed.uos.is_some())
        }
        "failed" => {
            bed.card.borrow_mut().faults.never_ready = true;
            bed.run_until(310, |bed| bed.state() == "failed")
        }
        _ => bed.run_until(60, |bed| bed.is_online()),
    };
    match state {
        "ready" => {
            bed.command(Command::Reset).unwrap();
            assert!(bed.run_until(60, |bed| bed.state() == "ready"));
        }
        "stopping" => {
            bed.uos.as_mut().unwrap().hang();
            bed.command(Command::Shutdown).unwrap();
        }
        "gone" => {
            bed.card.borrow_mut().faults.is_gone = true;
            assert!(bed.run_until(60, |bed| bed.state() == "gone"));
        }
        _ => {}
    }
    assert_eq!(bed.state(), state);
    bed
}

#[test]
fn a_driver_that_leaves_stops_the_card() {
    let mut bed = Bed::new(2);
    bed.boot();
    bed.links.leave();
    assert_eq!(bed.card.borrow().resets, 2);
    bed.check();
}

#[test]
fn a_card_is_not_booted_while_programs_have_its_memory_mapped() {
    let mut bed = Bed::new(2);
    bed.boot();
    let (end, other) = bed.connect();
    bed.register_card(other, 4096, 0x4000);
    let mapped = bed
        .engine
        .map(&mut bed.memory, end, 0x4000, 4096, 3)
        .unwrap();
    bed.command(Command::Reset).unwrap();
    assert!(bed.run_until(60, |bed| bed.state() == "ready"));
    bed.command(Command::Boot).unwrap();
    let words = said(|| assert!(!bed.run_until(60, |bed| bed.state() == "booting")));
    assert_eq!(words.lines().count(), 1, "{words}");
    assert!(words.contains("not booted before programs unmap"));
    bed.engine.unmap(&mut bed.memory, mapped.window, 1);
    bed.engine.close(&mut bed.memory, end);
    bed.boot();
    bed.check();
}
