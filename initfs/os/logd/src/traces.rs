//! Traces: pieces of memory that programs map to write down what happens, so often that lines would
//! be too much, and that stay when the programs are gone.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hal::dma::{Allocator, Buffer};
use runtime::{Error, Result};
use syscall::error::{EINVAL, ENOENT, ENOSPC};

/// Bytes of every trace. Contiguous, so that it can be found in a picture of the whole memory.
pub const TRACE_BYTES: usize = 64 * 1024;
/// Traces at most, the former ones of their programs included.
const MAX_TRACES: usize = 16;
/// Longest name in bytes.
const MAX_NAME: usize = 32;
/// Ending of the name of a program's trace before the latest.
const FORMER: &str = ".old";

/// All traces.
pub struct Traces {
    memory: Option<Allocator>,
    traces: BTreeMap<String, Buffer>,
}

impl Traces {
    /// No traces yet.
    pub fn new() -> Self {
        Self {
            memory: Allocator::new().ok(),
            traces: BTreeMap::new(),
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.traces.keys().map(String::as_str)
    }

    /// The contents of a trace at this moment.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let trace = self.find(name)?;
        let mut bytes = alloc::vec![0; TRACE_BYTES];
        trace.region().read_bytes(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Begins a trace; the one of that name is kept as the former one.
    ///
    /// # Errors
    /// `EINVAL` for a name that is too long, empty, or the name of a former trace; `ENOSPC` for too
    /// many; `ENOMEM`.
    pub fn create(&mut self, name: &str) -> Result<()> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_name) {
            return Err(Error::new(EINVAL));
        }
        if self.traces.len() >= MAX_TRACES {
            return Err(Error::new(ENOSPC));
        }
        let memory = self.memory.as_ref().ok_or(Error::new(ENOENT))?;
        let trace = memory.allocate(TRACE_BYTES)?;
        if let Some(former) = self.traces.insert(name.into(), trace) {
            self.traces.insert(format!("{name}{FORMER}"), former);
        }
        Ok(())
    }

    /// The address of a trace in this process, to be mapped by a program.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for a range outside.
    pub fn map(&self, name: &str, offset: u64, bytes: usize) -> Result<usize> {
        let trace = self.find(name)?;
        let offset = usize::try_from(offset).map_err(|_| Error::new(EINVAL))?;
        let part = trace.region().part(offset, bytes);
        Ok(part.map_err(|_| Error::new(EINVAL))?.address())
    }

    fn find(&self, name: &str) -> Result<&Buffer> {
        self.traces.get(name).ok_or(Error::new(ENOENT))
    }
}
