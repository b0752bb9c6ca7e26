//! Pages of a program's own: they become the object of a memory handle, or in one request a window
//! or the local side of a transfer.

use scif_abi::call::{CachedRecord, OwnRecord, OwnTransferRecord, PinRecord, RegisterRecord};
use scif_abi::flags::{MapFlags, Protection};
use scif_core::Direction;
use syscall::error::{EFAULT, EINVAL, EPERM, Error, Result};

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
        self.make(id, Source::Pinned(space, record), process, request)
    }

    /// `RegisterOwn`: makes a window of pages of `process`, which asks for it.
    pub(super) fn register_own(
        &mut self,
        id: HandleId,
        record: OwnRecord,
        process: usize,
        request: R,
    ) -> Result<usize> {
        let pin = PinRecord {
            space: record.space,
            address: record.address,
            length: record.length,
            protection: record.protection,
            flags: 0.into(),
        };
        let check = || {
            check_range(record.address.get(), record.length.get())?;
            check_protection(record.protection.get())?;
            check_place(&record)?;
            Ok(pin)
        };
        self.with_own_pages(id, check, process, request, |scif, token| {
            let record = RegisterRecord {
                memory: token.into(),
                memory_offset: 0.into(),
                length: record.length,
                offset: record.offset,
                protection: record.protection,
                flags: record.flags,
            };
            scif.register(id, record, request)
        })
    }

    /// `OwnReadFrom` and `OwnWriteTo`: a transfer with memory of `process`, which asks for it.
    pub(super) fn own_transfer(
        &mut self,
        id: HandleId,
        direction: Direction,
        record: OwnTransferRecord,
        process: usize,
        request: R,
    ) -> Result<usize> {
        let protection = match direction {
            Direction::Read => Protection::WRITE,
            Direction::Write => Protection::READ,
        };
        let offset = record.address.get() % PAGE;
        let check = || {
            if record.length.get() == 0 {
                return Err(Error::new(EINVAL));
            }
            let bytes = record.length.get().checked_add(offset);
            let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
            Ok(PinRecord {
                space: record.space,
                address: (record.address.get() - offset).into(),
                length: bytes.ok_or(Error::new(EFAULT))?.into(),
                protection: protection.bits().into(),
                flags: 0.into(),
            })
        };
        self.with_own_pages(id, check, process, request, |scif, token| {
            let record = CachedRecord {
                memory: token.into(),
                memory_offset: offset.into(),
                length: record.length,
                remote_offset: record.remote_offset,
                flags: record.flags,
                reserved: 0.into(),
            };
            scif.cached_rma(id, direction, record, request)
        })
    }

    /// Pins the pages that `check` returns, and begins a call of the engine with their token.
    /// `call` continues the same call afterwards, which does not need the token any more. Reports
    /// bad arguments, then an endpoint in the wrong state, then everything else.
    fn with_own_pages(
        &mut self,
        id: HandleId,
        check: impl FnOnce() -> Result<PinRecord>,
        process: usize,
        request: R,
        call: impl FnOnce(&mut Self, Token) -> Result<usize>,
    ) -> Result<usize> {
        if self.requests.pending(request).is_none() {
            let record = check();
            if record.is_err_and(|error| error.errno == EINVAL) {
                return Err(Error::new(EINVAL));
            }
            let endpoint = self.handles.endpoint_id(id)?;
            if let Some(error) = self.wrong_state(endpoint) {
                return Err(error);
            }
            let record = record?;
            let space = self.spaces.get(process, record.space.get())?;
            let source = Source::Pinned(space, record);
            let token = self.begin_object(id, source, process, request)?;
            let pending = PendingOn::OwnPages { handle: id, token };
            self.requests.suspend(request, pending);
            // Few pages may be there at once.
            self.build(token);
            if let Some(ended) = self.requests.take_ended(request) {
                return ended;
            }
        }
        match self.requests.pending(request) {
            Some(PendingOn::OwnPages { token, .. }) if self.objects.is_complete(token) => {
                self.requests.resume(request);
                let result = call(self, token);
                // The engine holds the object from now on, if it has taken the call.
                self.objects.release(&mut self.memory, token);
                result
            }
            Some(PendingOn::Ticket { .. }) => call(self, NO_TOKEN),
            _ => would_block(),
        }
    }
}

/// The token of no object.
const NO_TOKEN: Token = 0;

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
/// `EINVAL` for unknown flags, a negative offset, and a fixed one that is not aligned or too high.
fn check_place(record: &OwnRecord) -> Result<()> {
    let flags = MapFlags::from_bits(record.flags.get()).ok_or(Error::new(EINVAL))?;
    let offset = u64::try_from(record.offset.get()).map_err(|_| Error::new(EINVAL))?;
    let end = offset.checked_add(record.length.get());
    let fits = offset.is_multiple_of(PAGE) && end.is_some_and(|end| end <= i64::MAX as u64 + 1);
    match MapFlags::FIXED.contains(flags) && (fits || flags.is_empty()) {
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
