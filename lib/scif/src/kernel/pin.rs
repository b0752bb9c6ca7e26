//! `scif_pin_pages`, `scif_unpin_pages`, `scif_register_pinned_pages`.

use client_memory::pin::Pin;
use client_memory::range::Range;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use scif_abi::call::{Call, PinRecord, RegisterRecord};
use scif_abi::flags::{MapFlags, Protection};
use syscall::error::{EINVAL, EPERM};

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::raw;

/// Pages of this program that stay where they are, in physical memory too, and can be registered
/// with any number of endpoints. They count against no limit.
///
/// Windows made of them keep the pages after this value is dropped, until the windows are
/// unregistered and no peer refers to them any more. If the program unmaps its own view of the
/// pages, handle and windows keep them, too, and do not notice.
pub struct PinnedPages {
    pin: Pin,
    bytes: usize,
    protection: Protection,
}

impl PinnedPages {
    /// `scif_pin_pages`: pins whole pages. `protection` is what windows made of the pages allow.
    /// `flags` is empty or `KERNEL`, which makes no difference: a driver task has only addresses
    /// of its own.
    ///
    /// # Errors
    /// `EINVAL` for other flags, an unknown protection, or incomplete or no pages; `EFAULT` when
    /// the program itself lacks such a right, or the pages are no ordinary memory; `ENOMEM`;
    /// `EAGAIN` when too much is pinned already; `EPERM` for users other than root.
    pub fn pin(range: Range<'_>, protection: Protection, flags: MapFlags) -> Result<Self> {
        let known = Protection::all().contains(protection);
        if !known || !MapFlags::KERNEL.contains(flags) {
            return Err(Error::from_errno(EINVAL));
        }
        if libredox::call::geteuid()? != 0 {
            return Err(Error::from_errno(EPERM));
        }
        let open = || Ok(Fd::open("/scheme/scif/memory", O_RDWR | O_CLOEXEC, 0)?);
        let pin = Pin::new(open, range, protection, PinRecord::UNCHARGED)?;
        Ok(Self {
            pin,
            bytes: range.bytes(),
            protection,
        })
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no pages cannot be pinned")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// `scif_register_pinned_pages`: makes all of the pages a window of `endpoint`, at `offset` if
    /// `flags` has `FIXED`, else at any offset. Returns the window's offset. The window ends with
    /// [`unregister`](crate::raw::unregister), or with the endpoint.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EAGAIN`, `ECONNRESET`, `EINVAL` for other flags or a bad offset, `ENODEV`,
    /// `ENOMEM`, `ENOTCONN`.
    pub fn register(&self, endpoint: &Endpoint, offset: i64, flags: MapFlags) -> Result<i64> {
        let record = RegisterRecord {
            memory: self.pin.token().into(),
            memory_offset: 0.into(),
            length: (self.bytes as u64).into(),
            offset: offset.into(),
            protection: self.protection.bits().into(),
            flags: flags.bits().into(),
        };
        let offset = raw::with_record(endpoint.fd(), Call::Register { record })?;
        Ok(offset as i64)
    }

    /// `scif_unpin_pages`: afterwards no more windows can be made of the pages. Dropping does the
    /// same.
    pub fn unpin(self) {}
}
