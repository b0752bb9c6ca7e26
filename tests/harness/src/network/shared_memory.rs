//! Memory without a file, which several QEMUs share.

use crate::base::report::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;

/// Zeroed memory that QEMU can open through /proc as long as it is open here.
pub fn new_memory(name: &str, bytes: u64) -> Result<File> {
    let flags = MemfdFlags::CLOEXEC;
    let memory = memfd_create(format!("skiff-{name}"), flags)
        .context(|| "make shared memory".to_string())?;
    let memory = File::from(memory);
    memory
        .set_len(bytes)
        .context(|| format!("size a memory of {bytes} bytes"))?;
    Ok(memory)
}
