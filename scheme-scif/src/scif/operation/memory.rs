//! Memory handles: making the object behind one, by the operations `Provide` and `Pin`.

use scif_abi::call::{MemoryCall, PinRecord, SEND_SPACE};
use scif_abi::flags::Protection;
use scif_core::{Resource, Scope};
use syscall::error::{EINVAL, EPERM, Error, Result};

use crate::access::{Access, Caller};
use crate::error::would_block;
use crate::handle::{Handle, Kind, Opening};
use crate::ids::{HandleId, RequestId};
use crate::memory::Source;
use crate::node_memory::{NodeMemory, PAGE, Token};
use crate::path::{Name, Path};
use crate::request::PendingOn;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// `dup(endpoint, "memory")`: a memory handle, which is otherwise independent of the endpoint.
    ///
    /// # Errors
    /// `EBADF`, `ENOTTY` when it is no endpoint; `ENOMEM` when the caller has too many files.
    pub(in crate::scif) fn memory_handle(
        &mut self,
        id: HandleId,
        caller: Caller,
    ) -> Result<HandleId> {
        self.handles.endpoint(id)?;
        let opening = Opening::new(Name::of(Path::Memory), Access::BOTH, caller);
        let handle = Handle::new(opening, Kind::Memory(None));
        self.handles.insert_file(&mut self.engine, handle)
    }

    /// An operation on a memory handle.
    pub(in crate::scif) fn memory_call(
        &mut self,
        id: HandleId,
        call: MemoryCall,
        request: R,
    ) -> Result<usize> {
        if self.requests.pending(request).is_some() {
            return would_block();
        }
        let source = match call {
            MemoryCall::Provide { pages } => Source::Provided(pages),
            MemoryCall::Pin { record } => {
                self.check_pin(id, &record)?;
                // Check before the space is taken: an unused space stays with the handle.
                self.expect_no_object(id)?;
                let space = self.objects.take_space(id).ok_or(Error::new(EINVAL))?;
                Source::Pinned(space, record)
            }
        };
        self.make(id, source, request)
    }

    /// # Errors
    /// `EINVAL` unless the record has whole pages, at least one, a known protection and known
    /// flags; `EPERM` when only root may use its flags.
    fn check_pin(&self, id: HandleId, record: &PinRecord) -> Result<()> {
        let whole = |bytes: u64| bytes.is_multiple_of(PAGE);
        let (address, length) = (record.address.get(), record.length.get());
        let protection = Protection::from_bits(record.protection.get());
        let flags = record.flags.get();
        if !whole(address)
            || !whole(length)
            || length == 0
            || protection.is_none_or(|protection| protection.is_empty())
            || flags & !PinRecord::UNCHARGED != 0
        {
            return Err(Error::new(EINVAL));
        }
        if flags != 0 && self.handles.caller(id)?.uid != 0 {
            return Err(Error::new(EPERM));
        }
        Ok(())
    }

    /// Takes the descriptor of a program's address space, sent over a memory handle for the `Pin`
    /// that follows. It replaces one that was sent before.
    ///
    /// # Errors
    /// `EBADF`; `ENOTTY` unless it is a memory handle; `EINVAL` when `word` does not announce an
    /// address space, or the handle already has its object.
    pub fn take_space(&mut self, id: HandleId, word: u64, space: M::Space) -> Result<usize> {
        let expected = match self.handles.object(id) {
            Ok(None) if word == SEND_SPACE => Ok(0),
            Ok(_) => Err(Error::new(EINVAL)),
            Err(error) => Err(error),
        };
        let unused = match expected {
            Ok(_) => self.objects.put_space(id, space),
            Err(_) => Some(space),
        };
        self.refuse_space(unused);
        expected
    }

    /// Releases a space that was sent, if there is one, without pinning pages of it.
    pub fn refuse_space(&mut self, space: Option<M::Space>) {
        if let Some(space) = space {
            self.memory.release_space(space);
        }
    }

    /// # Errors
    /// `EINVAL` when the handle already has its object; `EBADF`, `ENOTTY`.
    fn expect_no_object(&mut self, id: HandleId) -> Result<()> {
        match self.handles.object(id)? {
            Some(_) => Err(Error::new(EINVAL)),
            None => Ok(()),
        }
    }

    fn make(&mut self, id: HandleId, source: Source<M::Space>, request: R) -> Result<usize> {
        self.expect_no_object(id)?;
        let caller = self.handles.caller(id)?;
        let limit = self.engine.limit(Resource::Pages, Scope::User);
        let maker = (id, request);
        let begun = self
            .objects
            .begin(&mut self.memory, maker, caller, source, limit);
        let token = begun?;
        *self.handles.object(id)? = Some(token);
        let pending = PendingOn::Memory { handle: id, token };
        self.requests.suspend(request, pending);
        // Small objects are complete at once.
        self.build(token);
        match self.requests.take_ended(request) {
            Some(ended) => ended,
            None => would_block(),
        }
    }

    /// Does one step of every incomplete object.
    pub(in crate::scif) fn build_all(&mut self) {
        for token in self.objects.incomplete() {
            self.build(token);
        }
    }

    fn build(&mut self, token: Token) {
        let Some(((handle, request), result)) = self.objects.build(&mut self.memory, token) else {
            return;
        };
        if result.is_err()
            && let Ok(object) = self.handles.object(handle)
        {
            *object = None;
        }
        let result = result.map(|token| token as usize);
        self.requests.end_with(request, result);
    }

    /// Gives up the object that a request was making.
    pub(in crate::scif) fn cancel_make(&mut self, id: HandleId, token: Token) {
        if let Ok(object) = self.handles.object(id) {
            *object = None;
        }
        self.objects.release(&mut self.memory, token);
    }
}
