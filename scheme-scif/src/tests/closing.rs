//! Closes that are waited for: what is under way then has ended when they return.

use scif_abi::call::Call;
use syscall::error::*;

use super::bed::{Bed, Op, PAGE, USER};
use super::programs::*;
use crate::HandleId;

/// How an endpoint is closed by who waits for what is under way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Close {
    Shutdown,
    /// The last descriptor, and then `Shutdown` of a handle for the end.
    Descriptor,
}

fn end_of(bed: &mut Bed, node: usize, id: HandleId) -> HandleId {
    let dup = Op::Dup {
        id,
        name: b"end".to_vec(),
        caller: USER,
    };
    bed.now(node, dup).0.unwrap()
}

#[test]
fn a_close_that_is_waited_for_ends_after_every_transfer() {
    // More than a node copies in one turn.
    const PAGES: usize = 280;
    for (closer, way, direction) in [
        (0, Close::Shutdown, Call::WRITE_TO),
        (0, Close::Descriptor, Call::WRITE_TO),
        (0, Close::Descriptor, Call::READ_FROM),
        (1, Close::Shutdown, Call::WRITE_TO),
        (1, Close::Descriptor, Call::READ_FROM),
    ] {
        on_both(|bed, to| {
            let (near, far) = ends(bed, to);
            let mine = memory(bed, 0, PAGES);
            let theirs = memory(bed, to, PAGES);
            register(bed, 0, near, fixed(mine, 0, PAGES)).unwrap();
            register(bed, to, far, fixed(theirs, 0, PAGES)).unwrap();
            let data = pattern(PAGES * PAGE, 3);
            let record = rma(0, PAGES * PAGE, 0, 0);
            let (source, target, transfer) = match direction {
                Call::WRITE_TO => ((0, mine), (to, theirs), Call::WriteTo { record }),
                _ => ((to, theirs), (0, mine), Call::ReadFrom { record }),
            };
            bed.poke(source.0, source.1.address, &data);
            let (node, closed) = [(0, near), (to, far)][closer];
            let end = end_of(bed, node, closed);
            // Nothing to wait for, and nothing ends.
            assert_eq!(call(bed, node, end, Call::Shutdown), Ok(0));
            let begun = bed.submit_only(0, op(near, transfer));
            assert_eq!(bed.answer(0, begun).unwrap().0, Ok(0));
            let wait = match way {
                Close::Shutdown => bed.submit_only(node, op(closed, Call::Shutdown)),
                Close::Descriptor => {
                    bed.nodes[node].scif.close(closed);
                    bed.submit_only(node, op(end, Call::Shutdown))
                }
            };
            assert!(bed.is_kept(node, wait), "{closer} {way:?} to {to}");
            bed.run_until(|bed| !bed.is_kept(node, wait));
            assert_eq!(bed.answer(node, wait).unwrap().0, Ok(0));
            assert!(bed.peek(target.0, target.1.address, data.len()) == data);
            // What is stored from now on stays where it is.
            bed.poke(source.0, source.1.address, &vec![0xaa; data.len()]);
            bed.run();
            assert!(bed.peek(target.0, target.1.address, data.len()) == data);
            bed.poke(target.0, target.1.address, &vec![0x55; data.len()]);
            bed.run();
            assert!(bed.peek(target.0, target.1.address, data.len()) == vec![0x55; data.len()]);
            assert_eq!(bed.counter(node, "waiting"), 0);
            assert_eq!(call(bed, node, end, Call::Shutdown), Ok(0));
            bed.close(node, end);
        });
    }
}

#[test]
fn who_waits_for_a_close_may_give_up() {
    let mut bed = Bed::new(2);
    let before = state(&mut bed);
    let (near, far) = ends(&mut bed, 1);
    let mine = memory(&mut bed, 0, 4);
    register(&mut bed, 0, near, fixed(mine, 0, 4)).unwrap();
    let end = end_of(&mut bed, 0, near);
    let wait = bed.submit_only(0, op(near, Call::Shutdown));
    let other = bed.submit_only(0, op(end, Call::Shutdown));
    assert!(bed.is_kept(0, wait) && bed.is_kept(0, other));
    assert_eq!(bed.cancel(0, wait), error(ECANCELED));
    assert_eq!(bed.answer(0, other).unwrap().0, Ok(0));
    assert!(bed.nodes[0].scif.requests().watches_nothing());
    assert_eq!(call(&mut bed, 0, end, Call::Shutdown), Ok(0));
    forget(&mut bed, 0, mine, 4);
    for id in [near, end] {
        bed.close(0, id);
    }
    bed.close(1, far);
    assert_eq!(state(&mut bed), before);
    // A node that is lost keeps nobody waiting.
    let (near, _) = ends(&mut bed, 1);
    let mine = memory(&mut bed, 0, 4);
    register(&mut bed, 0, near, fixed(mine, 0, 4)).unwrap();
    let wait = bed.submit_only(0, op(near, Call::Shutdown));
    assert!(bed.is_kept(0, wait));
    bed.lose(1);
    bed.run();
    assert_eq!(bed.answer(0, wait).unwrap().0, Ok(0));
}
