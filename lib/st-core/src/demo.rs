//! Memory for examples and tests: the queue windows of both ends in one thread.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::queue::{Layout, QueueMemory};

type Window = Rc<RefCell<Vec<u8>>>;

/// The peer's window is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// One end: its own window and the peer's.
#[derive(Clone)]
pub struct End {
    own: Window,
    peer: Window,
    /// Stores that reach the peer before the connection is cut.
    left: Rc<RefCell<Option<u64>>>,
}

/// Two ends with windows of these layouts.
pub fn pair(left: Layout, right: Layout) -> (End, End) {
    let window = |layout: Layout| Rc::new(RefCell::new(vec![0; layout.bytes()]));
    let windows = (window(left), window(right));
    let end = |own: &Window, peer: &Window| End {
        own: Rc::clone(own),
        peer: Rc::clone(peer),
        left: Rc::default(),
    };
    (end(&windows.0, &windows.1), end(&windows.1, &windows.0))
}

impl End {
    /// Cuts the connection to the peer after `stores` more stores.
    pub fn cut_after(&self, stores: u64) {
        *self.left.borrow_mut() = Some(stores);
    }

    /// Stores bytes into this end's window, as only the peer should.
    ///
    /// # Panics
    /// The bytes lie outside of it.
    pub fn scribble(&self, offset: usize, bytes: &[u8]) {
        self.own.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn word<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut word = [0; N];
        word.copy_from_slice(&self.own.borrow()[offset..offset + N]);
        word
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Cut> {
        if let Some(left) = self.left.borrow_mut().as_mut() {
            *left = left.checked_sub(1).ok_or(Cut)?;
        }
        self.peer.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl QueueMemory for End {
    type Error = Cut;

    fn load(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.word(offset))
    }

    fn load_long(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.word(offset))
    }

    fn clear(&mut self, offset: usize) -> u32 {
        let before = self.load(offset);
        self.scribble(offset, &[0; 4]);
        before
    }

    fn read(&self, offset: usize, body: &mut [u8]) {
        body.copy_from_slice(&self.own.borrow()[offset..offset + body.len()]);
    }

    fn store_peer(&mut self, offset: usize, value: u32) -> Result<(), Cut> {
        self.store(offset, &value.to_le_bytes())
    }

    fn store_peer_long(&mut self, offset: usize, value: u64) -> Result<(), Cut> {
        self.store(offset, &value.to_le_bytes())
    }

    fn write_peer(&mut self, offset: usize, body: &[u8]) -> Result<(), Cut> {
        self.store(offset, body)
    }

    fn flush_peer(&mut self, _offset: usize) -> Result<(), Cut> {
        Ok(())
    }

    fn fence(&self) {}
}
