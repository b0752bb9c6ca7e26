//! Pages of a program's own: they become the object of a memory handle, or a window of an endpoint
//! in one request.

use scif_abi::call::{OwnRecord, PinRecord, RegisterRecord};
use scif_abi::flags::{MapFlags, Protection};
use syscall::error::{EINVAL, EPERM, Error, Result};

use crate::error::would_block;
use crate::handle::Kind;
use crate::ids::{HandleId, RequestId};
use crate::memory::Source;
use crate::node_memory::{NodeMemory, PAGE, Token};
use crate::request::PendingOn;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Keeps the address space of `process`, which it sent over an endpoint or a memory handle and
    /// which its requests will name by `number`.
    ///
    /// # Errors
    /// `EBADF`; `ENOTTY` on other handles.
    pub fn take_space(
        &mut self,
        id: HandleId,
        process: usize,
        number: u64,
        space: M::Space,
    ) -> Result<usize> {
        let allowed = match self.handles.get(id).map(|handle| handle.kind()) {
            Ok(Kind::Memory(_)) => Ok(0),
            Ok(_) => self.handles.endpoint_id(id).map(|_| 0),
            Err(error) => Err(error),
        };
        let unused = match allowed {
            Ok(_) => self.spaces.keep(process, number, id, space),
            Err(_) => Some(space),
        };
        if let Some(space) = unused {
            self.memory.release_space(space);
        }
        allowed
    }

    /// Releases a space that a program has sent in a wrong way.
    pub fn refuse_space(&mut self, space: M::Space) {
        self.memory.release_space(space);
    }

    /// Releases the address spaces that were not used since the last call.
    pub fn release_idle_spaces(&mut self) {
        for space in self.spaces.take_idle() {
            self.memory.release_space(space);
        }
    }

    /// Whether [`release_idle_spaces`](Self::release_idle_spaces) has to be called again.
    pub fn holds_spaces(&self) -> bool {
        !self.spaces.is_empty()
    }

    /// `Pin`: makes pages of `process`, which asks for it, the object of a memory handle.
    pub(super) fn pin(
        &mut self,
        id: HandleId,
        record: PinRecord,
        process: usize,
        request: R,
    ) -> Result<usize> {
        self.expect_no_object(id)?;
        check_range(record.address.get(), record.length.get())?;
        check_protection(record.protection.get())?;
        let flags = record.flags.get();
        if flags & !PinRecord::UNCHARGED != 0 {
            return Err(Error::new(EINVAL));
        }
        if flags != 0 && self.handles.caller(id)?.uid != 0 {
            return Err(Error::new(EPERM));
        }
        let space = self.spaces.get(process, record.space.get())?;
        self.make(id, Source::Pinned(space, record), request)
    }

    /// `RegisterOwn`: pins pages of `process`, which asks for it, and makes a window of them.
    pub(super) fn register_own(
        &mut self,
        id: HandleId,
        record: OwnRecord,
        process: usize,
        request: R,
    ) -> Result<usize> {
        match self.requests.pending(request) {
            None => {
                let token = self.begin_own(id, &record, process, request)?;
                let pending = PendingOn::WindowPages { handle: id, token };
                self.requests.suspend(request, pending);
                // Few pages may be there at once.
                self.build(token);
                match self.requests.take_ended(request) {
                    Some(ended) => ended,
                    None => self.window_of_own(id, record, request),
                }
            }
            Some(_) => self.window_of_own(id, record, request),
        }
    }

    /// Begins to pin the pages. Reports bad arguments, then an endpoint in the wrong state, then
    /// everything else.
    fn begin_own(
        &mut self,
        id: HandleId,
        record: &OwnRecord,
        process: usize,
        request: R,
    ) -> Result<Token> {
        check_range(record.address.get(), record.length.get())?;
        check_protection(record.protection.get())?;
        if record.flags.get() & !MapFlags::FIXED.bits() != 0 || record.offset.get() < 0 {
            return Err(Error::new(EINVAL));
        }
        let endpoint = self.handles.endpoint_id(id)?;
        if let Some(error) = self.wrong_state(endpoint) {
            return Err(error);
        }
        let space = self.spaces.get(process, record.space.get())?;
        let pin = PinRecord {
            space: record.space,
            address: record.address,
            length: record.length,
            protection: record.protection,
            flags: 0.into(),
        };
        self.begin_object(id, Source::Pinned(space, pin), request)
    }

    /// Makes the window once its pages are there.
    fn window_of_own(&mut self, id: HandleId, record: OwnRecord, request: R) -> Result<usize> {
        let token = match self.requests.pending(request) {
            Some(PendingOn::WindowPages { token, .. }) if self.objects.is_complete(token) => token,
            // The window has its pages and waits for the peer.
            Some(PendingOn::Ticket { .. }) => {
                return self.register(id, RegisterRecord::default(), request);
            }
            _ => return would_block(),
        };
        let record = RegisterRecord {
            memory: token.into(),
            memory_offset: 0.into(),
            length: record.length,
            offset: record.offset,
            protection: record.protection,
            flags: record.flags,
        };
        self.requests.resume(request);
        let result = self.register(id, record, request);
        // The window holds the object from now on, if there is one.
        self.objects.release(&mut self.memory, token);
        result
    }
}

/// # Errors
/// `EINVAL` unless the range is whole pages, at least one.
fn check_range(address: u64, length: u64) -> Result<()> {
    let whole = |bytes: u64| bytes.is_multiple_of(PAGE);
    match whole(address) && whole(length) && length > 0 {
        true => Ok(()),
        false => Err(Error::new(EINVAL)),
    }
}

/// # Errors
/// `EINVAL` for a protection that is unknown or allows nothing.
fn check_protection(protection: u32) -> Result<()> {
    let protection = Protection::from_bits(protection);
    match protection.is_some_and(|protection| !protection.is_empty()) {
        true => Ok(()),
        false => Err(Error::new(EINVAL)),
    }
}
