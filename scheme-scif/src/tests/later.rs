//! Copies that a copy engine completes later, as hardware does.

use std::cell::Cell;
use std::rc::Rc;

use scif_abi::call::Call;
use scif_core::{CopyEngine, CpuEngine, Descriptor, Place, SubmitError, Submitted};

use super::fixture::{Fixture, PAGE};
use super::programs::*;

/// An engine whose copies are done when the test decides.
struct LateEngine {
    last: u64,
    is_done: Rc<Cell<bool>>,
}

impl CopyEngine for LateEngine {
    fn submit(
        &mut self,
        mem: &mut dyn scif_core::Memory,
        channel: u64,
        descriptor: &Descriptor,
    ) -> Result<Submitted, SubmitError> {
        CpuEngine.submit(mem, channel, descriptor)?;
        self.last += 1;
        Ok(Submitted::Later(self.last))
    }

    fn completed(&mut self, _mem: &mut dyn scif_core::Memory, _channel: u64) -> u64 {
        if self.is_done.get() { self.last } else { 0 }
    }

    fn max_bytes(&self, _from: Place, _to: Place) -> u32 {
        1 << 20
    }

    fn is_cpu(&self, _descriptor: &Descriptor) -> bool {
        false
    }
}

#[test]
fn a_copy_that_completes_later_ends_its_call_though_nothing_else_happens() {
    let mut fixture = Fixture::new(2);
    let (near, far) = ends(&mut fixture, 1);
    let (mine, theirs) = (memory(&mut fixture, 0, 4), memory(&mut fixture, 1, 4));
    register(&mut fixture, 0, near, fixed(mine, 0, 4)).unwrap();
    register(&mut fixture, 1, far, fixed(theirs, 0, 4)).unwrap();
    let is_done = Rc::new(Cell::new(false));
    fixture.nodes[0].copier = Box::new(LateEngine {
        last: 0,
        is_done: is_done.clone(),
    });
    let record = rma(0, 4 * PAGE, 0, SYNC);
    let request = fixture.submit(0, op(near, Call::WriteTo { record }));
    assert!(fixture.is_kept(0, request));
    is_done.set(true);
    fixture.run();
    assert_eq!(
        fixture.answer(0, request).map(|answer| answer.0),
        Some(Ok(0))
    );
}
