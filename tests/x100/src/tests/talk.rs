//! Connections and messages over x100 registers.

use crate::bed::{Bed, pattern};

#[test]
fn messages_go_both_ways() {
    for stepping in [0, 1, 2] {
        let mut bed = Bed::new(stepping);
        bed.boot();
        let (end, other) = bed.connect();
        let sent = pattern(3000, 1);
        assert_eq!(bed.engine.send(&mut bed.memory, end, &sent), Ok(3000));
        bed.settle();
        let uos = bed.uos.as_mut().unwrap();
        let mut got = vec![0; 4000];
        assert_eq!(uos.engine.recv(&mut uos.memory, other, &mut got), Ok(3000));
        assert_eq!(got[..3000], sent);
        assert_eq!(
            uos.engine.send(&mut uos.memory, other, &sent[5..]),
            Ok(2995)
        );
        bed.settle();
        assert_eq!(bed.engine.recv(&mut bed.memory, end, &mut got), Ok(2995));
        assert_eq!(got[..2995], sent[5..]);
        bed.engine.close(&mut bed.memory, end);
        bed.settle();
        bed.check();
    }
}

#[test]
fn the_accesses_for_a_message_of_64_bytes_are_counted() {
    for (doorbell, reads) in [(8, 0), (3, 1)] {
        let mut bed = Bed::new(2);
        bed.manners.doorbell = doorbell;
        bed.boot();
        let (end, other) = bed.connect();
        // A side that finds its ring empty is rung for the next message.
        let uos = bed.uos.as_mut().unwrap();
        assert_eq!(uos.engine.recv(&mut uos.memory, other, &mut [0; 64]), Ok(0));
        assert_eq!(bed.engine.recv(&mut bed.memory, end, &mut [0; 64]), Ok(0));
        bed.settle();
        let (there, _) = bed.count(|bed| {
            bed.engine.send(&mut bed.memory, end, &[7; 64]).unwrap();
            // No look at the link is due meanwhile: what is counted is the message's.
            assert!(bed.links.deadline() > Some(bed.now + 1_000_000));
            bed.settle();
        });
        let uos = bed.uos.as_mut().unwrap();
        uos.engine
            .recv(&mut uos.memory, other, &mut [0; 64])
            .unwrap();
        bed.settle();
        let (back, _) = bed.count(|bed| {
            let uos = bed.uos.as_mut().unwrap();
            uos.engine.send(&mut uos.memory, other, &[7; 64]).unwrap();
            bed.settle();
        });
        println!(
            "x100: 64 bytes to the card, doorbell {doorbell}: {there:?}; to the host: {back:?}"
        );
        // The doorbell; and SICR0 read and written, SICE0 written. Drained before each index that
        // is stored in the card (the ring's, the message's) and before the doorbell.
        assert_eq!((there.reads, there.writes, there.drains), (reads, 1, 3));
        assert_eq!((back.reads, back.writes), (1, 2));
        bed.check();
    }
}
