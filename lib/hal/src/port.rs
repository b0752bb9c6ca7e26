//! The processor's I/O ports. The right to use them comes from the kernel, per thread, and is
//! proven by a [`Ports`] value.

use core::marker::PhantomData;

use libredox::Fd;
use syscall::error::Result;
use syscall::flag::{CallFlags, ProcSchemeVerb};

unsafe extern "C" {
    /// The descriptor of the current thread.
    safe fn redox_cur_thrfd_v0() -> usize;
}

/// The right to use ports. Stays on the thread that acquired it.
pub struct Ports {
    this_thread: PhantomData<*mut ()>,
}

impl Ports {
    /// Asks the kernel for the right; root only.
    ///
    /// # Errors
    /// `EPERM` for users other than root; those of opening the thread's own file.
    pub fn acquire() -> Result<Self> {
        let thread = libredox::call::dup(redox_cur_thrfd_v0(), b"open_via_dup")?;
        let verb = [ProcSchemeVerb::Iopl as u64];
        Fd::new(thread).call_rw(&mut [], CallFlags::empty(), &verb)?;
        Ok(Self {
            this_thread: PhantomData,
        })
    }

    /// Reads an 8-bit port.
    pub fn read8(&self, port: u16) -> u8 {
        let value;
        // SAFETY: this thread has the right (see `acquire`); port reads touch no memory of ours.
        unsafe {
            core::arch::asm!("in al, dx", in("dx") port, out("al") value,
                options(nomem, nostack, preserves_flags));
        }
        value
    }

    /// Writes an 8-bit port.
    pub fn write8(&self, port: u16, value: u8) {
        // SAFETY: as for `read8`. What the write does is up to the device, whose driver calls.
        unsafe {
            core::arch::asm!("out dx, al", in("dx") port, in("al") value,
                options(nomem, nostack, preserves_flags));
        }
    }

    /// Reads a 32-bit port.
    pub fn read32(&self, port: u16) -> u32 {
        let value;
        // SAFETY: as for `read8`.
        unsafe {
            core::arch::asm!("in eax, dx", in("dx") port, out("eax") value,
                options(nomem, nostack, preserves_flags));
        }
        value
    }

    /// Writes a 32-bit port.
    pub fn write32(&self, port: u16, value: u32) {
        // SAFETY: as for `write8`.
        unsafe {
            core::arch::asm!("out dx, eax", in("dx") port, in("eax") value,
                options(nomem, nostack, preserves_flags));
        }
    }
}
