//! Leaving: what EXIT waits for.

use scif_abi::bypass::{FIRST_HANDLE, STATE_DISCONNECTED, STATE_OFFSET, rma_busy_offset};
use scif_abi::limits::CLIENT_RETRY_NS;

use super::bypass::{close, open, word};
use super::fixture::Bed;
use crate::{LinkState, Memory};

/// EXIT promises that the peer's memory is not touched any more: it waits for clients that have it
/// mapped or copy there, and only for them.
#[test]
fn leaving_waits_for_clients_that_reach_the_peer() {
    let mut bed = Bed::new(2);
    let (a, _) = bed.connect(0, 1);
    let (idle, _) = open(&mut bed, a);
    let (id, page) = open(&mut bed, a);
    let (engine, _) = bed.parts(a);
    engine.map_bypass(id, 3);
    let (engine, memory) = bed.parts(a);
    engine.leave(memory);
    bed.run();
    let has_heard = |bed: &Bed| bed.nodes[1].engine.link_state(0) != Some(LinkState::Online);
    assert!(!has_heard(&bed));
    // They are told, and let go: of one part, of the other; a copy is still under way.
    assert_eq!(word(&bed, a, page + STATE_OFFSET), STATE_DISCONNECTED);
    let busy = page + rma_busy_offset(FIRST_HANDLE + 1);
    bed.nodes[0].memory.store_index(busy, 1);
    let (engine, _) = bed.parts(a);
    engine.unmap_bypass(id, 1);
    bed.run();
    let (engine, _) = bed.parts(a);
    engine.unmap_bypass(id, 2);
    bed.run();
    assert!(!has_heard(&bed));
    let due = bed.nodes[0].engine.next_deadline();
    assert!(due.is_some_and(|due| due <= bed.now + CLIENT_RETRY_NS));
    bed.nodes[0].memory.store_index(busy, 0);
    bed.run();
    assert!(has_heard(&bed));
    assert!(!bed.nodes[0].engine.is_leaving());
    for id in [idle, id] {
        close(&mut bed, a, id);
    }
}
