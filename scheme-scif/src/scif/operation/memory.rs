//! Memory handles: making the object behind one.

use scif_abi::call::MemoryCall;
use scif_core::{Resource, Scope};
use syscall::error::{EINVAL, Error, Result};

use crate::access::{Access, Caller};
use crate::error::would_block;
use crate::handle::{Handle, Kind, Opening};
use crate::ids::{HandleId, RequestId};
use crate::memory::Source;
use crate::node_memory::{NodeMemory, Token};
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
        process: usize,
        request: R,
    ) -> Result<usize> {
        if self.requests.pending(request).is_some() {
            return would_block();
        }
        match call {
            MemoryCall::Provide { pages } => {
                self.expect_no_object(id)?;
                self.make(id, Source::Provided(pages), process, request)
            }
            MemoryCall::Pin { record } => self.pin(id, record, process, request),
        }
    }

    /// # Errors
    /// `EINVAL` when the handle already has its object; `EBADF`, `ENOTTY`.
    pub(super) fn expect_no_object(&mut self, id: HandleId) -> Result<()> {
        match self.handles.object(id)? {
            Some(_) => Err(Error::new(EINVAL)),
            None => Ok(()),
        }
    }

    /// Makes the object of a memory handle that has none.
    pub(super) fn make(
        &mut self,
        id: HandleId,
        source: Source<M::Space>,
        process: usize,
        request: R,
    ) -> Result<usize> {
        let token = self.begin_object(id, source, process, request)?;
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

    /// Begins an object for a request on a handle, on account of the handle's opener. `process`
    /// makes the request.
    ///
    /// # Errors
    /// `EINVAL` for no pages, or too many to count; `EAGAIN` at the limit; those of the memory.
    pub(super) fn begin_object(
        &mut self,
        id: HandleId,
        source: Source<M::Space>,
        process: usize,
        request: R,
    ) -> Result<Token> {
        let caller = Caller {
            pid: process,
            ..self.handles.caller(id)?
        };
        let limit = self.engine.limit(Resource::Pages, Scope::User);
        let maker = (id, request);
        self.objects
            .begin(&mut self.memory, maker, caller, source, limit)
    }

    /// Does one step of every incomplete object.
    pub(in crate::scif) fn build_all(&mut self) {
        for token in self.objects.incomplete() {
            self.build(token);
        }
    }

    pub(super) fn build(&mut self, token: Token) {
        let Some(((handle, request), result)) = self.objects.build(&mut self.memory, token) else {
            return;
        };
        let is_for_call = matches!(
            self.requests.pending(request),
            Some(PendingOn::OwnPages { .. })
        );
        if is_for_call && result.is_ok() {
            return self.requests.wake(request);
        }
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
