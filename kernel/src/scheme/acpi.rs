//! `kernel.acpi`: the root table of ACPI for the ACPI daemon, and the request to power off, for
//! the daemon and for drivers that must finish their work first.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ::syscall::{
    CallFlags, EventFlags,
    data::GlobalSchemes,
    error::{EACCES, EINVAL, ENOENT, ENOTDIR, Error, Result},
    flag::AcpiVerb,
};

use super::{Caller, OpenResult, Scheme, kernel_id, trigger};
use crate::{arch::acpi::root_table, mm::UserBuf, sched, time::now_ns};

/// Handle bit: may read the root table.
const READ_TABLE: usize = 1;
/// Handle bit: may open `kstop`.
const OPEN_KSTOP: usize = 2;
/// The `kstop` handle.
const KSTOP: usize = 4;

/// The root object.
pub const ROOT: usize = READ_TABLE | OPEN_KSTOP;

/// Nanoseconds that holders of `kstop` may take to power off, or to finish their work.
const SHUTDOWN_LIMIT_NS: u64 = 1_000_000_000;

static STOP_REQUESTED: AtomicBool = AtomicBool::new(false);
/// Open `kstop` handles.
static KSTOP_HANDLES: AtomicUsize = AtomicUsize::new(0);

pub struct AcpiScheme;

impl Scheme for AcpiScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        match path {
            // Nothing is below `kstop`, and only opens of `kstop` are counted.
            _ if number == KSTOP => Err(Error::new(ENOTDIR)),
            "" | "/" => OpenResult::plain(number),
            "kstop" | "/kstop" if caller.uid != 0 || number & OPEN_KSTOP == 0 => {
                Err(Error::new(EACCES))
            }
            "kstop" | "/kstop" => {
                KSTOP_HANDLES.fetch_add(1, Ordering::Relaxed);
                OpenResult::plain(KSTOP)
            }
            _ => Err(Error::new(ENOENT)),
        }
    }

    fn call(
        &self,
        numbers: &[usize],
        payload: UserBuf,
        flags: CallFlags,
        metadata: &[u64],
    ) -> Result<usize> {
        let &[number] = numbers else {
            return Err(Error::new(EINVAL));
        };
        match metadata.first().copied().and_then(AcpiVerb::try_from_raw) {
            Some(AcpiVerb::ReadRxsdt)
                if number & READ_TABLE != 0 && flags.contains(CallFlags::READ) =>
            {
                let table = root_table()?;
                payload.write(&table)?;
                Ok(table.len())
            }
            Some(AcpiVerb::CheckShutdown) if number == KSTOP => {
                Ok(usize::from(STOP_REQUESTED.load(Ordering::Relaxed)))
            }
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn close(&self, number: usize) {
        if number == KSTOP {
            KSTOP_HANDLES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Notifies the holders of `kstop` that the machine is stopping, and waits until all have closed
/// it, for at most a second. Returns if none of them has powered off.
pub fn request_shutdown() {
    STOP_REQUESTED.store(true, Ordering::Relaxed);
    trigger(
        kernel_id(GlobalSchemes::Acpi),
        KSTOP,
        EventFlags::EVENT_READ,
    );
    let end = now_ns().saturating_add(SHUTDOWN_LIMIT_NS);
    while KSTOP_HANDLES.load(Ordering::Relaxed) != 0 && now_ns() < end {
        sched::yield_now();
    }
}
