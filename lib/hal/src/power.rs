//! The notice that the machine is about to be switched off, for drivers that must finish something
//! first.
//!
//! The kernel waits for the drivers that have asked for the notice, for at most a second. On the
//! in-tree kernel a driver that is done says so by dropping its notice, which ends the wait.

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use syscall::CallFlags;
use syscall::error::Result;
use syscall::flag::AcpiVerb;

/// The file in which the kernel notifies its subscribers.
const KSTOP: &str = "/scheme/kernel.acpi/kstop";

/// A subscription to the notice. Subscribe its descriptor for reading.
pub struct PowerOffNotice {
    file: Fd,
}

impl PowerOffNotice {
    /// Subscribes: from now on the kernel waits for this driver before it switches the machine
    /// off.
    ///
    /// # Errors
    /// `EACCES` for users other than root, or an error of the kernel.
    pub fn open() -> Result<Self> {
        let file = Fd::open(KSTOP, O_CLOEXEC, 0)?;
        Ok(Self { file })
    }

    /// The descriptor to subscribe.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }

    /// Whether the machine is about to be switched off.
    ///
    /// # Errors
    /// Those of the kernel's call.
    pub fn is_due(&self) -> Result<bool> {
        let verb = [AcpiVerb::CheckShutdown as u64];
        let answer = self.file.call_ro(&mut [], CallFlags::empty(), &verb)?;
        Ok(answer != 0)
    }
}
