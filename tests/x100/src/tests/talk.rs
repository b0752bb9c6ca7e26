//! Connections and messages over x100 registers.

use scheme_scif::CardCommand as Command;

use crate::fixture::{Fixture, pattern};

#[test]
fn messages_go_both_ways() {
    for stepping in [0, 1, 2] {
        let mut fixture = Fixture::new(stepping);
        fixture.boot();
        let (end, other) = fixture.connect();
        let sent = pattern(3000, 1);
        assert_eq!(
            fixture.engine.send(&mut fixture.memory, end, &sent),
            Ok(3000)
        );
        fixture.run_until_idle();
        let uos = fixture.uos.as_mut().unwrap();
        let mut got = vec![0; 4000];
        assert_eq!(uos.engine.recv(&mut uos.memory, other, &mut got), Ok(3000));
        assert_eq!(got[..3000], sent);
        assert_eq!(
            uos.engine.send(&mut uos.memory, other, &sent[5..]),
            Ok(2995)
        );
        fixture.run_until_idle();
        assert_eq!(
            fixture.engine.recv(&mut fixture.memory, end, &mut got),
            Ok(2995)
        );
        assert_eq!(got[..2995], sent[5..]);
        fixture.engine.close(&mut fixture.memory, end);
        fixture.run_until_idle();
        fixture.check();
    }
}

/// A mainline system gives SCIF doorbell 1 if another driver of the card came first.
#[test]
fn a_system_may_have_the_doorbell_that_asks_others_to_end() {
    let mut fixture = Fixture::new(2);
    fixture.behaviour.doorbell = 1;
    fixture.boot();
    let (end, other) = fixture.connect();
    fixture
        .engine
        .send(&mut fixture.memory, end, b"one")
        .unwrap();
    fixture.run_until_idle();
    let uos = fixture.uos.as_mut().unwrap();
    let mut got = [0; 3];
    assert_eq!(uos.engine.recv(&mut uos.memory, other, &mut got), Ok(3));
    // It does not end when it is asked to, and is reset.
    fixture.command(Command::Shutdown).unwrap();
    let resets = fixture.card.borrow().resets;
    assert!(!fixture.run_until(59, |fixture| fixture.card.borrow().resets > resets));
    assert!(fixture.run_until(2, |fixture| fixture.card.borrow().resets > resets));
    fixture.engine.close(&mut fixture.memory, end);
    fixture.run_until_idle();
    fixture.check();
}

#[test]
fn the_accesses_for_a_message_of_64_bytes_are_counted() {
    for (doorbell, reads) in [(8, 0), (3, 1)] {
        let mut fixture = Fixture::new(2);
        fixture.behaviour.doorbell = doorbell;
        fixture.boot();
        let (end, other) = fixture.connect();
        // A side that finds its ring empty is rung for the next message.
        let uos = fixture.uos.as_mut().unwrap();
        assert_eq!(uos.engine.recv(&mut uos.memory, other, &mut [0; 64]), Ok(0));
        assert_eq!(
            fixture.engine.recv(&mut fixture.memory, end, &mut [0; 64]),
            Ok(0)
        );
        fixture.run_until_idle();
        let (there, _) = fixture.count(|fixture| {
            fixture
                .engine
                .send(&mut fixture.memory, end, &[7; 64])
                .unwrap();
            // No look at the link is due meanwhile: what is counted is the message's.
            assert!(fixture.links.deadline() > Some(fixture.now + 1_000_000));
            fixture.run_until_idle();
        });
        let uos = fixture.uos.as_mut().unwrap();
        uos.engine
            .recv(&mut uos.memory, other, &mut [0; 64])
            .unwrap();
        fixture.run_until_idle();
        let (back, _) = fixture.count(|fixture| {
            let uos = fixture.uos.as_mut().unwrap();
            uos.engine.send(&mut uos.memory, other, &[7; 64]).unwrap();
            fixture.run_until_idle();
        });
        println!(
            "x100: 64 bytes to the card, doorbell {doorbell}: {there:?}; to the host: {back:?}"
        );
        // The doorbell; and SICR0 read and written, SICE0 written. Drained before each index that
        // is stored in the card (the ring's, the message's) and before the doorbell.
        assert_eq!((there.reads, there.writes, there.drains), (reads, 1, 3));
        assert_eq!((back.reads, back.writes), (1, 2));
        fixture.check();
    }
}
