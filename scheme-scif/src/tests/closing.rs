//! Closes that wait until nothing of the endpoint is under way.

use scif_abi::call::Call;
use syscall::error::*;

use super::fixture::{Fixture, Op, PAGE, USER};
use super::programs::*;
use crate::HandleId;

/// Closes an endpoint as `scif_close` does: waits until nothing of it is under way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Close {
    Shutdown,
    /// The close of the last descriptor, then `Shutdown` of a handle for the end.
    Descriptor,
}

fn end_of(fixture: &mut Fixture, node: usize, id: HandleId) -> HandleId {
    let dup = Op::Dup {
        id,
        name: b"end".to_vec(),
        caller: USER,
    };
    fixture.now(node, dup).0.unwrap()
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
        on_both(|fixture, to| {
            let (near, far) = ends(fixture, to);
            let mine = memory(fixture, 0, PAGES);
            let theirs = memory(fixture, to, PAGES);
            register(fixture, 0, near, fixed(mine, 0, PAGES)).unwrap();
            register(fixture, to, far, fixed(theirs, 0, PAGES)).unwrap();
            let data = pattern(PAGES * PAGE, 3);
            let record = rma(0, PAGES * PAGE, 0, 0);
            let (source, target, transfer) = match direction {
                Call::WRITE_TO => ((0, mine), (to, theirs), Call::WriteTo { record }),
                _ => ((to, theirs), (0, mine), Call::ReadFrom { record }),
            };
            fixture.poke(source.0, source.1.address, &data);
            let (node, closed) = [(0, near), (to, far)][closer];
            let end = end_of(fixture, node, closed);
            // There is nothing to wait for, and nothing ends.
            assert_eq!(call(fixture, node, end, Call::Shutdown), Ok(0));
            let begun = fixture.submit_only(0, op(near, transfer));
            assert_eq!(fixture.answer(0, begun).unwrap().0, Ok(0));
            let wait = match way {
                Close::Shutdown => fixture.submit_only(node, op(closed, Call::Shutdown)),
                Close::Descriptor => {
                    fixture.nodes[node].scif.close(closed);
                    fixture.submit_only(node, op(end, Call::Shutdown))
                }
            };
            assert!(fixture.is_kept(node, wait), "{closer} {way:?} to {to}");
            fixture.run_until(|fixture| !fixture.is_kept(node, wait));
            assert_eq!(fixture.answer(node, wait).unwrap().0, Ok(0));
            assert!(fixture.peek(target.0, target.1.address, data.len()) == data);
            // Bytes stored from now on stay where they are.
            fixture.poke(source.0, source.1.address, &vec![0xaa; data.len()]);
            fixture.run();
            assert!(fixture.peek(target.0, target.1.address, data.len()) == data);
            fixture.poke(target.0, target.1.address, &vec![0x55; data.len()]);
            fixture.run();
            assert!(fixture.peek(target.0, target.1.address, data.len()) == vec![0x55; data.len()]);
            assert_eq!(fixture.counter(node, "waiting"), 0);
            assert_eq!(call(fixture, node, end, Call::Shutdown), Ok(0));
            fixture.close(node, end);
        });
    }
}

#[test]
fn who_waits_for_a_close_may_give_up() {
    let mut fixture = Fixture::new(2);
    let before = state(&mut fixture);
    let (near, far) = ends(&mut fixture, 1);
    let mine = memory(&mut fixture, 0, 4);
    register(&mut fixture, 0, near, fixed(mine, 0, 4)).unwrap();
    let end = end_of(&mut fixture, 0, near);
    let wait = fixture.submit_only(0, op(near, Call::Shutdown));
    let other = fixture.submit_only(0, op(end, Call::Shutdown));
    assert!(fixture.is_kept(0, wait) && fixture.is_kept(0, other));
    assert_eq!(fixture.cancel(0, wait), error(ECANCELED));
    assert_eq!(fixture.answer(0, other).unwrap().0, Ok(0));
    assert!(fixture.nodes[0].scif.requests().watches_nothing());
    assert_eq!(call(&mut fixture, 0, end, Call::Shutdown), Ok(0));
    forget(&mut fixture, 0, mine, 4);
    for id in [near, end] {
        fixture.close(0, id);
    }
    fixture.close(1, far);
    assert_eq!(state(&mut fixture), before);
    // A wait ends when the node is lost.
    let (near, _) = ends(&mut fixture, 1);
    let mine = memory(&mut fixture, 0, 4);
    register(&mut fixture, 0, near, fixed(mine, 0, 4)).unwrap();
    let wait = fixture.submit_only(0, op(near, Call::Shutdown));
    assert!(fixture.is_kept(0, wait));
    fixture.lose(1);
    fixture.run();
    assert_eq!(fixture.answer(0, wait).unwrap().0, Ok(0));
}
