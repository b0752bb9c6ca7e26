//! Traces: pieces of memory that programs map to record events too frequent for log lines, and
//! that stay after the programs' end.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hal::dma::{Allocator, Buffer};
use runtime::{Error, Result};
use syscall::error::{EINVAL, ENOENT, ENOSPC};

/// Bytes of every trace. They are contiguous, so that a trace can be found in a dump of the whole
/// memory.
pub const TRACE_BYTES: usize = 64 * 1024;
/// Most names of traces. Each may have a former trace, too.
const MAX_NAMES: usize = 8;
/// Longest name in bytes.
const MAX_NAME: usize = 32;
/// Suffix of the name of a former trace.
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

    /// Reads the contents of a trace at this moment.
    ///
    /// # Errors
    /// `ENOENT`: there is no such trace.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let trace = self.find(name)?;
        let mut bytes = alloc::vec![0; TRACE_BYTES];
        trace.region().read_bytes(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Begins a trace. An earlier one of that name is kept as the former one.
    ///
    /// # Errors
    /// `EINVAL`: the name is empty, too long, or the name of a former trace. `ENOSPC`: the name is
    /// new, and there are too many. `ENOMEM`.
    pub fn create(&mut self, name: &str) -> Result<()> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_name) {
            return Err(Error::new(EINVAL));
        }
        let count = self.names().filter(|name| !name.ends_with(FORMER)).count();
        if count >= MAX_NAMES && !self.traces.contains_key(name) {
            return Err(Error::new(ENOSPC));
        }
        let memory = self.memory.as_ref().ok_or(Error::new(ENOENT))?;
        let trace = memory.allocate(TRACE_BYTES)?;
        if let Some(former) = self.traces.insert(name.into(), trace) {
            self.traces.insert(format!("{name}{FORMER}"), former);
        }
        Ok(())
    }

    /// Returns the address of a trace in this process, for a program to map.
    ///
    /// # Errors
    /// `ENOENT`: there is no such trace. `EINVAL`: the range is outside of it.
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
