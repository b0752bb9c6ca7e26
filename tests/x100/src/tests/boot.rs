//! Reset, firmware, image, link; and the ends of all that.

use micd::x100::registers::smpt;
use scheme_scif::CardCommand as Command;
use scif_abi::limits::LinkTiming;
use scif_core::{DownReason, Event};
use syscall::error::{EBUSY, Error};

use crate::fixture::{CARD, Fixture, pattern};
use crate::tests::log::said;
use crate::uos::Behaviour;

/// Steppings: A0, B0, C0, B1.
const STEPPINGS: [u32; 4] = [0, 1, 2, 3];

#[test]
fn a_card_boots_and_is_online() {
    for stepping in STEPPINGS {
        let mut fixture = Fixture::new(stepping);
        assert_eq!(fixture.state(), "resetting");
        fixture.boot();
        let info = fixture.info();
        assert_eq!(fixture.state(), "running");
        assert_eq!(info.stepping, ["A0", "B0", "C0", "B1"][stepping as usize]);
        assert_eq!(info.memory_bytes, 128 << 20);
        assert_eq!(info.post_code, "FF");
        assert_eq!(info.temperature, Some(54));
        let uos = fixture.uos.as_ref().unwrap();
        assert_eq!(uos.command_line, " mem=128M quiet");
        assert_eq!(uos.ram_disk, b"the initial file system");
        assert_eq!(fixture.node_events, [Event::NodeUp(CARD)]);
        assert_eq!(fixture.card.borrow().resets, 1);
        assert!(fixture.links.predecessor_is_quiesced());
        fixture.check();
    }
}

#[test]
fn each_kind_of_doorbell_works() {
    for doorbell in [0, 3, 6, 8, 15] {
        let mut fixture = Fixture::new(2);
        fixture.behaviour.doorbell = doorbell;
        fixture.boot();
        fixture.connect();
        fixture.check();
    }
}

#[test]
fn failed_resets_are_repeated() {
    let mut fixture = Fixture::new(2);
    fixture.card.borrow_mut().faults.failed_resets = 2;
    fixture.boot();
    assert_eq!(fixture.card.borrow().resets, 3);
    fixture.check();
}

#[test]
fn the_table_is_written_again_after_each_reset() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    fixture.command(Command::Reset).unwrap();
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    for entry in 0..32 {
        let value = fixture.card.borrow_mut().read(smpt(entry));
        assert_eq!(value, (entry as u32) << 2);
    }
    fixture.check();
}

#[test]
fn a_reset_during_a_reset_touches_nothing() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    fixture.command(Command::Reset).unwrap();
    assert!(fixture.run_until(60, |fixture| fixture.state() == "resetting"));
    let resets = fixture.card.borrow().resets;
    fixture.command(Command::Reset).unwrap();
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    assert_eq!(fixture.card.borrow().resets, resets);
    fixture.check();
}

#[test]
fn an_administrator_resets_boots_and_shuts_down() {
    let mut fixture = Fixture::new(1);
    fixture.boot();
    assert_eq!(fixture.command(Command::Boot), Err(Error::new(EBUSY)));
    fixture.command(Command::Reset).unwrap();
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    assert_eq!(
        fixture.node_events,
        [
            Event::NodeUp(CARD),
            Event::NodeDown(CARD),
            Event::LinkFailed(CARD)
        ]
    );
    assert_eq!(fixture.command(Command::Shutdown), Err(Error::new(EBUSY)));
    assert!(!fixture.run_until(60, |fixture| fixture.state() != "ready"));
    fixture.command(Command::Boot).unwrap();
    fixture.boot();
    fixture.connect();
    fixture.command(Command::Shutdown).unwrap();
    assert_eq!(fixture.state(), "stopping");
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    assert_eq!(fixture.card.borrow().resets, 3);
    fixture.check();
}

#[test]
fn a_card_that_does_not_shut_down_is_reset() {
    let mut fixture = Fixture::new(2);
    fixture.behaviour.is_polite = false;
    fixture.boot();
    fixture.command(Command::Shutdown).unwrap();
    assert!(!fixture.run_until(50, |fixture| fixture.state() != "stopping"));
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    fixture.check();
}

#[test]
fn a_system_that_crashes_is_started_again() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let (end, _) = fixture.connect();
    fixture.uos.as_mut().unwrap().end(0xdead);
    assert!(fixture.run_until(5, |fixture| !fixture.is_online()));
    let error = fixture
        .engine
        .send(&mut fixture.memory, end, b"x")
        .unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    fixture.engine.close(&mut fixture.memory, end);
    fixture.boot();
    fixture.connect();
    fixture.check();
}

#[test]
fn a_system_that_keeps_crashing_is_started_again_after_pauses() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let crash = |fixture: &mut Fixture| fixture.uos.as_mut().unwrap().end(0xdead);
    let mut crashes = 0;
    let mut crash_when_online = |fixture: &mut Fixture| {
        let runs = fixture.is_online() && fixture.state() == "running";
        if runs && fixture.uos.is_some() {
            crash(fixture);
            crashes += 1;
        }
        false
    };
    // Pauses of 0, 1, 2, 4, 8, 16, 32, 60, 60 … seconds, and the times of resets and boots.
    fixture.run_until(600, &mut crash_when_online);
    assert!((10..=17).contains(&crashes), "{crashes} crashes");
    // One that has run for a while is started at once.
    assert!(fixture.run_until(90, |fixture| fixture.state() == "running"));
    assert!(!fixture.run_until(60, |fixture| fixture.state() != "running"));
    crash(&mut fixture);
    assert!(fixture.run_until(5, |fixture| !fixture.is_online()));
    assert!(fixture.run_until(10, |fixture| fixture.is_online()));
    // And so is one that an administrator starts.
    for _ in 0..2 {
        crash(&mut fixture);
        assert!(fixture.run_until(5, |fixture| !fixture.is_online()));
        assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
        fixture.command(Command::Boot).unwrap();
        assert!(fixture.run_until(10, |fixture| fixture.is_online()));
    }
    fixture.check();
}

#[test]
fn a_system_that_hangs_is_noticed_by_its_heart() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    fixture.uos.as_mut().unwrap().hang();
    assert!(!fixture.run_until(25, |fixture| {
        fixture.node_events.contains(&Event::NodeDown(CARD))
    }));
    assert!(fixture.run_until(10, |fixture| {
        fixture.node_events.contains(&Event::NodeDown(CARD))
    }));
    fixture.boot();
    fixture.check();
}

/// A card of the base protocol, which has no heart.
fn base_card() -> Fixture {
    let mut fixture = Fixture::new(2);
    fixture.behaviour.has_heart = false;
    fixture.boot();
    fixture
}

#[test]
fn a_base_protocol_card_that_has_nothing_to_say_answers() {
    let mut fixture = base_card();
    let lost = |fixture: &mut Fixture| fixture.node_events.contains(&Event::NodeDown(CARD));
    assert!(!fixture.run_until(300, lost));
    // One question in 10 s, and one answer to each.
    let heard = fixture.engine.stats().messages_received;
    assert!((30..=35).contains(&heard), "{heard} messages");
    // A long time without a probe is not the card's fault.
    fixture.now += 3_600_000_000_000;
    assert!(!fixture.run_until(60, lost));
    assert_eq!(fixture.engine.stats().stale_ids, 0);
    let uos = fixture.uos.as_ref().unwrap();
    assert_eq!(uos.engine.stats().stale_ids, 0);
    fixture.check();
}

#[test]
fn a_base_protocol_card_that_hangs_is_noticed_by_its_silence() {
    let mut fixture = base_card();
    let (end, _) = fixture.connect();
    assert!(!fixture.run_until(15, |fixture| !fixture.is_online()));
    fixture.uos.as_mut().unwrap().hang();
    let lost = |fixture: &mut Fixture| fixture.node_events.contains(&Event::NodeDown(CARD));
    assert!(!fixture.run_until(25, lost));
    let words = said(|| assert!(fixture.run_until(20, lost)));
    let expected = "0000--03--00.0: its system is silent: 3 questions in 30000 ms";
    assert!(words.contains(expected), "{words}");
    let why = fixture.engine.lost_nodes().map(|lost| lost.reason);
    assert_eq!(why.collect::<Vec<_>>(), [DownReason::Silent]);
    let error = fixture
        .engine
        .send(&mut fixture.memory, end, b"x")
        .unwrap_err();
    assert_eq!(error.errno(), syscall::error::ECONNRESET);
    fixture.engine.close(&mut fixture.memory, end);
    assert!(fixture.run_until(5, |fixture| fixture.state() == "resetting"));
    fixture.boot();
    fixture.check();
}

#[test]
fn a_base_protocol_card_that_left_is_not_asked() {
    let mut fixture = base_card();
    let uos = fixture.uos.as_mut().unwrap();
    uos.engine.leave(&mut uos.memory);
    assert!(fixture.run_until(5, |fixture| {
        fixture.node_events.contains(&Event::NodeDown(CARD))
    }));
    let resets = fixture.card.borrow().resets;
    assert!(!fixture.run_until(100, |fixture| fixture.card.borrow().resets != resets));
    fixture.check();
}

#[test]
fn the_silence_that_is_allowed_can_be_set() {
    let mut fixture = base_card();
    let timing = LinkTiming {
        heartbeat_ns: 100_000_000,
        silence_ns: 900_000_000,
    };
    fixture.links.set_timing(timing);
    let lost = |fixture: &mut Fixture| fixture.node_events.contains(&Event::NodeDown(CARD));
    assert!(!fixture.run_until(60, lost));
    fixture.uos.as_mut().unwrap().hang();
    assert!(fixture.run_until(2, lost));
    fixture.boot();
    fixture.check();
}

#[test]
fn a_queue_pair_that_is_withdrawn_ends_the_link() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    fixture.uos.as_mut().unwrap().withdraw();
    assert!(fixture.run_until(5, |fixture| {
        fixture.node_events.contains(&Event::NodeDown(CARD))
    }));
    fixture.boot();
    fixture.check();
}

#[test]
fn a_system_that_never_answers_is_given_up_after_three_times() {
    let mut fixture = Fixture::new(2);
    fixture.behaviour = Behaviour {
        is_alive: false,
        ..Behaviour::default()
    };
    assert!(fixture.run_until(700, |fixture| fixture.card.borrow().resets == 4));
    assert!(fixture.run_until(20, |fixture| fixture.state() == "ready"));
    assert!(!fixture.run_until(400, |fixture| fixture.state() != "ready"));
    // It was repaired.
    fixture.behaviour = Behaviour::default();
    fixture.command(Command::Boot).unwrap();
    fixture.boot();
    fixture.check();
}

/// Others do not have to wait until hundreds of MiB are in the card.
#[test]
fn files_are_loaded_piece_by_piece() {
    let ram_disk = pattern((9 << 20) + 5, 1);
    for command in [None, Some(Command::Reset), Some(Command::Shutdown)] {
        let mut fixture = Fixture::new(2);
        fixture.files.borrow_mut().ram_disk = ram_disk.clone();
        assert!(fixture.run_until(60, |fixture| fixture.state() == "booting"));
        (0..8).for_each(|_| _ = fixture.turn());
        assert!(fixture.uos.is_none());
        if let Some(command) = command {
            fixture.command(command).unwrap();
            assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
            assert_eq!(fixture.card.borrow().resets, 2);
            fixture.command(Command::Boot).unwrap();
        }
        fixture.boot();
        assert!(fixture.uos.as_ref().unwrap().ram_disk == ram_disk);
        fixture.check();
    }
}

#[test]
fn a_system_that_crashes_while_it_boots_is_given_up_after_three_times() {
    let mut fixture = Fixture::new(2);
    fixture.behaviour.is_alive = false;
    let words = said(|| {
        for resets in 2..=4 {
            assert!(fixture.run_until(60, |fixture| fixture.uos.is_some()));
            fixture.uos.as_mut().unwrap().end(0xdead);
            assert!(fixture.run_until(60, |fixture| fixture.card.borrow().resets == resets));
            fixture.turn();
        }
    });
    assert!(words.contains("SDBIC1 (BAR 4 + 0x1cc94) was 0xdead"));
    assert!(
        words.contains("0000--03--00.0: booted 3 times in vain: given up"),
        "{words}"
    );
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    assert!(!fixture.run_until(60, |fixture| fixture.state() != "ready"));
    fixture.check();
}

#[test]
fn a_host_that_stood_still_while_its_card_booted_finds_the_answer() {
    let mut fixture = Fixture::new(2);
    assert!(fixture.run_until(60, |fixture| fixture.card.borrow().is_about_to_start()));
    fixture.now += 200_000_000_000;
    fixture.boot();
    assert_eq!(fixture.card.borrow().resets, 1);
    fixture.check();
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
            let mut fixture = in_state(state);
            let runs = matches!(state, "booting" | "running");
            let is_refused = match command {
                Command::Boot => runs,
                Command::Reset => false,
                Command::Shutdown => !runs,
            };
            let result = fixture.command(command);
            assert_eq!(result.is_err(), is_refused, "{command:?} in {state}");
            fixture.card.borrow_mut().faults = Default::default();
            fixture.behaviour = Behaviour::default();
            let runs_in_the_end = match (command, state) {
                (Command::Boot, _) => true,
                (Command::Reset, _) => false,
                // A refused command changes nothing.
                (Command::Shutdown, "resetting" | "gone") => true,
                (Command::Shutdown, _) => false,
            };
            let expected = match (runs_in_the_end, state, command) {
                (true, ..) => "running",
                (false, "failed", Command::Shutdown) => "failed",
                _ => "ready",
            };
            // The longest: a boot that is not answered, a system that does not shut down.
            fixture.run_until(320, |fixture| {
                fixture.state() == expected && fixture.uos.is_some() == runs_in_the_end
            });
            assert_eq!(fixture.state(), expected, "{command:?} in {state}");
            fixture.check();
        }
    }
}

fn in_state(state: &str) -> Fixture {
    let mut fixture = Fixture::new(2);
    match state {
        "resetting" => fixture.run_until(2, |_| false),
        "booting" => {
            fixture.behaviour.is_alive = false;
            fixture.run_until(60, |fixture| fixture.uos.is_some())
        }
        "failed" => {
            fixture.card.borrow_mut().faults.never_ready = true;
            fixture.run_until(310, |fixture| fixture.state() == "failed")
        }
        _ => fixture.run_until(60, |fixture| fixture.is_online()),
    };
    match state {
        "ready" => {
            fixture.command(Command::Reset).unwrap();
            assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
        }
        "stopping" => {
            fixture.uos.as_mut().unwrap().hang();
            fixture.command(Command::Shutdown).unwrap();
        }
        "gone" => {
            fixture.card.borrow_mut().faults.is_gone = true;
            assert!(fixture.run_until(60, |fixture| fixture.state() == "gone"));
        }
        _ => {}
    }
    assert_eq!(fixture.state(), state);
    fixture
}

#[test]
fn a_driver_that_leaves_stops_the_card() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    fixture.links.leave();
    assert_eq!(fixture.card.borrow().resets, 2);
    fixture.check();
}

#[test]
fn a_card_is_not_booted_while_programs_have_its_memory_mapped() {
    let mut fixture = Fixture::new(2);
    fixture.boot();
    let (end, other) = fixture.connect();
    fixture.register_card(other, 4096, 0x4000);
    let mapped = fixture.engine.map(end, 0x4000, 4096, 3).unwrap();
    fixture.command(Command::Reset).unwrap();
    assert!(fixture.run_until(60, |fixture| fixture.state() == "ready"));
    fixture.command(Command::Boot).unwrap();
    let words = said(|| assert!(!fixture.run_until(60, |fixture| fixture.state() == "booting")));
    assert_eq!(words.lines().count(), 1, "{words}");
    assert!(words.contains("not booted before programs unmap"));
    fixture.engine.unmap(mapped.window, 1);
    fixture.engine.close(&mut fixture.memory, end);
    fixture.boot();
    fixture.check();
}
