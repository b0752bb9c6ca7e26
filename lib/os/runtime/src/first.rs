//! What the kernel hands to the first program: the roots of its schemes and the capability to
//! create schemes, listed in a metadata page at the end of user memory.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use syscall::data::GlobalSchemes;
use syscall::error::{ENODEV, Error, Result};
use syscall::flag::O_RDWR;

use crate::sync::Mutex;
use crate::sys::NO_FD;
use crate::{fd, fdtable};

/// End of user memory; the metadata pages end there.
const USER_END: usize = 1 << 47;

static BOOTED: AtomicBool = AtomicBool::new(false);
static ROOTS: Mutex<Vec<Root>> = Mutex::new(Vec::new());
static CAPABILITY: AtomicUsize = AtomicUsize::new(NO_FD);
/// The debug port, once it is open.
static DEBUG: AtomicUsize = AtomicUsize::new(NO_FD);

/// Root of a kernel scheme.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    /// The kernel's fixed number of the scheme.
    pub id: u8,
    /// Descriptor of its root. Opening below it may fail with ENODEV if the machine has no such
    /// device.
    pub fd: usize,
}

impl Root {
    /// The name of the scheme for programs; `None` for numbers unknown here.
    pub fn name(&self) -> Option<&'static str> {
        Some(match GlobalSchemes::try_from_raw(self.id)? {
            GlobalSchemes::Debug => "debug",
            GlobalSchemes::Event => "event",
            GlobalSchemes::Memory => "memory",
            GlobalSchemes::Pipe => "pipe",
            GlobalSchemes::Serio => "serio",
            GlobalSchemes::Irq => "irq",
            GlobalSchemes::Time => "time",
            GlobalSchemes::Sys => "sys",
            GlobalSchemes::Proc => "kernel.proc",
            GlobalSchemes::Acpi => "kernel.acpi",
            GlobalSchemes::Dtb => "kernel.dtb",
        })
    }
}

/// Reads the list of roots and the capability to create schemes. The start of the first program
/// calls it.
pub(crate) fn read_metadata() {
    BOOTED.store(true, Ordering::Relaxed);
    let mut next = (USER_END - syscall::KERNEL_METADATA_SIZE) as *const u64;
    let mut word = || {
        // SAFETY: the kernel maps four readable pages here before it starts the first program; the
        // list of at most 128 roots below is shorter.
        let value = unsafe { next.read_volatile() };
        next = next.wrapping_add(1);
        value
    };
    let count = word().min(128);
    let mut roots = ROOTS.lock();
    for _ in 0..count {
        // Only the low byte is the number; the kernel does not set the others.
        let id = word() as u8;
        let fd = word() as usize;
        let _ = fdtable::mark(fd);
        roots.push(Root { id, fd });
    }
    let capability = word() as usize;
    let _ = fdtable::mark(capability);
    CAPABILITY.store(capability, Ordering::Relaxed);
}

/// All roots.
pub fn roots() -> Vec<Root> {
    ROOTS.lock().clone()
}

/// The root of one scheme; ENODEV if the kernel has not passed it.
pub fn root(scheme: GlobalSchemes) -> Result<usize> {
    let roots = ROOTS.lock();
    roots
        .iter()
        .find(|root| root.id == scheme as u8)
        .map(|root| root.fd)
        .ok_or(Error::new(ENODEV))
}

/// The capability to create schemes.
pub fn scheme_creation_capability() -> usize {
    CAPABILITY.load(Ordering::Relaxed)
}

/// Whether this process is the first program.
pub fn is_first() -> bool {
    BOOTED.load(Ordering::Relaxed)
}

/// Opens the debug port, if the kernel has one.
pub(crate) fn open_debug() {
    if let Ok(root) = root(GlobalSchemes::Debug)
        && let Ok(port) = fd::openat_upper(root, b"", O_RDWR, 0)
    {
        DEBUG.store(port, Ordering::Relaxed);
    }
}

/// The debug port of the first program; `NO_FD` in others.
pub fn debug_fd() -> usize {
    DEBUG.load(Ordering::Relaxed)
}
