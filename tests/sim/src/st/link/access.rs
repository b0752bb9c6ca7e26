//! One end's access to its own memory and to its peer's: what `st-core` and programs see of a
//! connection.

use std::cell::RefCell;
use std::rc::Rc;

use st_core::queue::{LINE, QueueMemory};

use super::{Bug, Dead, Kind, Link, MOST_ACCESSES, NotMoved, Store, Target};

/// One end's access to a connection.
#[derive(Clone)]
pub(in crate::st) struct Access {
    pub link: Rc<RefCell<Link>>,
    pub side: usize,
}

impl Access {
    /// Begins a new call.
    pub(in crate::st) fn begin(&self) {
        self.link.borrow_mut().accesses = 0;
    }

    /// Returns whether the connection is down. Call it before the last poll of the queue.
    pub(in crate::st) fn is_down(&self) -> bool {
        let mut link = self.link.borrow_mut();
        self.look(&mut link);
        if link.rng.one_in(4) {
            // The program was interrupted for a while.
            link.land_all(self.side);
        }
        link.sides[self.side].is_down
    }

    /// Returns whether the connection is known to be down, without a new access.
    pub(in crate::st) fn has_seen_down(&self) -> bool {
        self.link.borrow().sides[self.side].is_down
    }

    /// Lets time pass for a load: some stores arrive.
    fn look(&self, link: &mut Link) {
        link.accesses += 1;
        if link.accesses > MOST_ACCESSES {
            link.complain("a call without end".into());
        }
        for side in 0..2 {
            if link.is_time() {
                link.land_some(side);
            }
        }
    }

    fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut link = self.link.borrow_mut();
        self.look(&mut link);
        let place = link.sides[self.side].queue.get(offset..offset + N);
        match place.map(<[u8; N]>::try_from) {
            Some(Ok(bytes)) if offset.is_multiple_of(N.min(8)) => bytes,
            _ => {
                link.complain(format!("a load outside of memory, at {offset}"));
                [0; N]
            }
        }
    }

    fn store(&mut self, store: Store) -> Result<(), Dead> {
        let mut link = self.link.borrow_mut();
        link.tick(self.side)?;
        if let Store::Plain(Target::Queue(offset), bytes)
        | Store::Release(Target::Queue(offset), bytes) = &store
        {
            let end = link.sides[1 - self.side].queue.len();
            let in_line = offset % LINE + bytes.len() <= LINE;
            if offset + bytes.len() > end || !in_line {
                link.complain(format!("a store outside of the peer's window, at {offset}"));
                return Ok(());
            }
        }
        link.send(self.side, store);
        if link.is_time() {
            link.land_some(1 - self.side);
        }
        Ok(())
    }

    /// Sends bytes of the stream.
    pub(in crate::st) fn send(&mut self, bytes: &[u8]) -> Result<(), Dead> {
        self.store(Store::Stream(bytes.to_vec()))
    }

    /// Takes some of the stream's bytes that have arrived.
    pub(in crate::st) fn take_stream(&mut self) -> Vec<u8> {
        let mut link = self.link.borrow_mut();
        let count = link.sides[self.side].inbox.len() as u64;
        let some = link.rng.below(count + 1) as usize;
        link.sides[self.side].inbox.drain(..some).collect()
    }

    /// Takes all of the stream's bytes that have arrived.
    pub(in crate::st) fn take_whole_stream(&mut self) -> Vec<u8> {
        self.link.borrow_mut().sides[self.side]
            .inbox
            .drain(..)
            .collect()
    }

    /// Stores any bytes into the peer's queue window.
    pub(in crate::st) fn scribble(&mut self, offset: usize, bytes: &[u8]) {
        let mut link = self.link.borrow_mut();
        let store = Store::Release(Target::Queue(offset), bytes.to_vec());
        link.send(self.side, store);
    }

    /// Returns the number of bytes in the peer's queue window.
    pub(in crate::st) fn peer_bytes(&self) -> usize {
        self.link.borrow().sides[1 - self.side].queue.len()
    }

    // ---- Registered memory ----

    /// Registers memory with this content.
    pub(in crate::st) fn register(&mut self, offset: i64, content: Vec<u8>) {
        let mut link = self.link.borrow_mut();
        let before = link.sides[self.side].regions.insert(offset, content);
        if before.is_some() {
            link.complain(format!("registered twice at {offset:#x}"));
        }
    }

    /// Unregisters memory. Stores on their way to it arrive before, and none later. Returns the
    /// content.
    pub(in crate::st) fn unregister(&mut self, offset: i64) -> Vec<u8> {
        let mut link = self.link.borrow_mut();
        let at_region = |store: &Store| {
            let target = match store {
                Store::Plain(target, _) | Store::Release(target, _) => *target,
                Store::Stream(_) | Store::Down => return false,
            };
            matches!(target, Target::Region(region, _) if region == offset)
        };
        let last = link.sides[self.side].coming.iter().rposition(at_region);
        link.land(self.side, last.map_or(0, |last| last + 1));
        let content = link.sides[self.side].regions.remove(&offset);
        if content.is_none() {
            link.complain(format!("nothing was registered at {offset:#x}"));
        }
        content.unwrap_or_default()
    }

    /// Returns bytes of the end's own memory registered at an offset.
    pub(in crate::st) fn own(&self, offset: i64, at: usize, count: usize) -> Option<Vec<u8>> {
        let link = self.link.borrow();
        let memory = link.sides[self.side].regions.get(&offset)?;
        memory.get(at..at + count).map(<[u8]>::to_vec)
    }

    /// Changes the end's own registered memory.
    pub(in crate::st) fn change_own(&mut self, offset: i64, at: usize, bytes: &[u8]) {
        let mut link = self.link.borrow_mut();
        link.put_down(self.side, Target::Region(offset, at), bytes);
    }

    /// Finds the registered memory of the peer that has these bytes. Returns its offset, and the
    /// distance of the bytes from its beginning.
    fn find(&self, offset: i64, count: usize) -> Result<(i64, usize), NotMoved> {
        let link = self.link.borrow();
        let regions = &link.sides[1 - self.side].regions;
        let (region, memory) = regions.range(..=offset).next_back().ok_or(NotMoved::Gone)?;
        let at = usize::try_from(offset - region).map_err(|_| NotMoved::Gone)?;
        let end = at.checked_add(count).ok_or(NotMoved::Gone)?;
        if end > memory.len() || link.is_cut || link.sides[1 - self.side].is_dead {
            return Err(NotMoved::Gone);
        }
        Ok((*region, at))
    }

    /// Copies bytes into the peer's registered memory, by the program itself or by the daemon. The
    /// daemon's copy is complete when this returns; the program's copy is ordered before later
    /// release stores.
    pub(in crate::st) fn put(
        &mut self,
        offset: i64,
        bytes: &[u8],
        by_daemon: bool,
    ) -> Result<(), NotMoved> {
        let (region, at) = self.find(offset, bytes.len())?;
        let is_late = self.link.borrow().bug == Some(Bug::LateData);
        if by_daemon && !is_late {
            let mut link = self.link.borrow_mut();
            link.tick(self.side).map_err(|Dead| NotMoved::Dead)?;
            link.put_down(1 - self.side, Target::Region(region, at), bytes);
            return Ok(());
        }
        let middle = bytes.len() / 2;
        for (at, piece) in [(at, &bytes[..middle]), (at + middle, &bytes[middle..])] {
            let store = Store::Plain(Target::Region(region, at), piece.to_vec());
            if by_daemon {
                let mut link = self.link.borrow_mut();
                link.late.push((1 - self.side, store));
            } else {
                self.store(store).map_err(|Dead| NotMoved::Dead)?;
            }
        }
        Ok(())
    }

    /// Copies bytes out of the peer's registered memory.
    pub(in crate::st) fn get(&mut self, offset: i64, count: usize) -> Result<Vec<u8>, NotMoved> {
        let (region, at) = self.find(offset, count)?;
        let mut link = self.link.borrow_mut();
        link.accesses += 1;
        let memory = &link.sides[1 - self.side].regions[&region];
        Ok(memory[at..at + count].to_vec())
    }
}

impl QueueMemory for Access {
    type Error = Dead;

    fn load(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(offset))
    }

    fn load_long(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }

    fn clear(&mut self, offset: usize) -> u32 {
        // A locked instruction is a fence.
        self.fence();
        let before = u32::from_le_bytes(self.bytes(offset));
        let mut link = self.link.borrow_mut();
        link.put_down(self.side, Target::Queue(offset), &[0; 4]);
        before
    }

    fn read(&self, offset: usize, body: &mut [u8]) {
        for (at, byte) in body.iter_mut().enumerate() {
            [*byte] = self.bytes(offset + at);
        }
    }

    fn store_peer(&mut self, offset: usize, value: u32) -> Result<(), Dead> {
        let bytes = value.to_le_bytes().to_vec();
        self.store(Store::Release(Target::Queue(offset), bytes))
    }

    fn store_peer_long(&mut self, offset: usize, value: u64) -> Result<(), Dead> {
        let bytes = value.to_le_bytes().to_vec();
        self.store(Store::Release(Target::Queue(offset), bytes))
    }

    fn write_peer(&mut self, offset: usize, body: &[u8]) -> Result<(), Dead> {
        let middle = body.len() / 2;
        for (at, piece) in [
            (offset, &body[..middle]),
            (offset + middle, &body[middle..]),
        ] {
            self.store(Store::Plain(Target::Queue(at), piece.to_vec()))?;
        }
        Ok(())
    }

    fn flush_peer(&mut self, _offset: usize) -> Result<(), Dead> {
        let mut link = self.link.borrow_mut();
        // Where nothing arrives any more, a read shows that the connection is down.
        let reads = link.kind == Kind::Bus || link.is_cut;
        if reads && link.bug != Some(Bug::NoFlush) {
            link.land_all(1 - self.side);
            link.land_all(self.side);
        }
        Ok(())
    }

    fn fence(&self) {
        let mut link = self.link.borrow_mut();
        if link.kind == Kind::Shared && link.bug != Some(Bug::NoFence) {
            link.land_all(1 - self.side);
        }
    }
}
