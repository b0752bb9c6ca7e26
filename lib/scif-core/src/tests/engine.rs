//! A copy engine that takes a few descriptors and completes them on request, as hardware does.

use super::std::prelude::v1::*;

use super::std::cell::RefCell;
use super::std::collections::VecDeque;
use super::std::rc::Rc;

use crate::{CopyEngine, CpuEngine, Descriptor, Memory, Place, SubmitError, Submitted};

/// The engine's queued and completed work.
#[derive(Default)]
pub struct Order {
    queue: VecDeque<(u64, Descriptor)>,
    last: u64,
    completed: u64,
    pub fences: usize,
    pub bytes: u64,
    pub forgotten: Vec<u64>,
}

impl Order {
    /// Whether nothing is queued.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Executes the oldest descriptor.
    pub fn complete_one(&mut self, memory: &mut dyn Memory) {
        if let Some((cookie, descriptor)) = self.queue.pop_front() {
            if let Descriptor::Copy { bytes, fence, .. } = descriptor {
                self.fences += usize::from(fence);
                self.bytes += u64::from(bytes);
            }
            CpuEngine.submit(memory, 0, &descriptor).unwrap();
            self.completed = cookie;
        }
    }
}

/// The engine; its state is shared with the test.
pub struct LateEngine {
    order: Rc<RefCell<Order>>,
    capacity: usize,
}

impl LateEngine {
    /// An engine with room for `capacity` descriptors.
    pub fn new(capacity: usize) -> (LateEngine, Rc<RefCell<Order>>) {
        let order = Rc::new(RefCell::new(Order::default()));
        let engine = LateEngine {
            order: Rc::clone(&order),
            capacity,
        };
        (engine, order)
    }
}

impl CopyEngine for LateEngine {
    fn submit(
        &mut self,
        _mem: &mut dyn Memory,
        _channel: u64,
        descriptor: &Descriptor,
    ) -> Result<Submitted, SubmitError> {
        let mut order = self.order.borrow_mut();
        if order.queue.len() >= self.capacity {
            return Err(SubmitError::Full);
        }
        order.last += 1;
        let cookie = order.last;
        order.queue.push_back((cookie, *descriptor));
        Ok(Submitted::Later(cookie))
    }

    fn completed(&mut self, _mem: &mut dyn Memory, _channel: u64) -> u64 {
        self.order.borrow().completed
    }

    fn forget(&mut self, channel: u64) {
        self.order.borrow_mut().forgotten.push(channel);
    }

    fn max_bytes(&self, _from: Place, _to: Place) -> u32 {
        1 << 20
    }

    fn is_cpu(&self, _descriptor: &Descriptor) -> bool {
        false
    }
}
