//! The firmware's ACPI tables, for the program that publishes them (acpid): the root table from
//! the kernel, the others from physical memory, walked by the crate `acpi`.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ptr::NonNull;

use acpi::aml::AmlError;
use acpi::sdt::SdtHeader;
use acpi::{AcpiTables, Handle, Handler, PciAddress, PhysicalMapping};
use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use syscall::error::{EINVAL, EIO, Error, Result};
use syscall::flag::{AcpiVerb, CallFlags};

use crate::mem::{Cache, Region, map_physical};

/// Longest table that is accepted. The largest known are DSDTs of some hundred KiB.
const MAX_TABLE_BYTES: usize = 16 << 20;

/// A physical address that no table has. The handler shows the root table there.
const ROOT_ADDRESS: usize = usize::MAX & !0xfff;

/// Gives the crate `acpi` access to the firmware's tables.
#[derive(Clone)]
pub struct FirmwareMemory {
    root: Rc<Region>,
}

/// All tables of this machine; `None` when the firmware has none.
///
/// # Errors
/// Those of reading the kernel's copy of the root table. `EINVAL`: it is no root table, or its
/// length or checksum is wrong. `EIO`: one of the tables that it lists cannot be used.
pub fn tables() -> Result<Option<AcpiTables<FirmwareMemory>>> {
    let bytes = read_root()?;
    if bytes.is_empty() {
        return Ok(None);
    }
    // An XSDT, the newer root table, has 64-bit entries: those of any revision but 0.
    let revision = match bytes.get(..4) {
        Some(b"XSDT") => 2,
        Some(b"RSDT") => 0,
        _ => return Err(Error::new(EINVAL)),
    };
    let length = bytes
        .get(4..8)
        .and_then(|word| word.try_into().ok())
        .map(u32::from_le_bytes);
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let long_enough = bytes.len() >= size_of::<SdtHeader>();
    if !long_enough || length != u32::try_from(bytes.len()).ok() || sum != 0 {
        return Err(Error::new(EINVAL));
    }
    let root = Region::heap(bytes.len());
    root.write_bytes(0, &bytes)?;
    let handler = FirmwareMemory {
        root: Rc::new(root),
    };
    // SAFETY: the handler answers this address with the root table, whose length, signature and
    // checksum were checked.
    let tables = unsafe { AcpiTables::from_rsdt(handler, revision, ROOT_ADDRESS) };
    tables.map(Some).map_err(|_| Error::new(EIO))
}

/// The root table, as the kernel found it.
fn read_root() -> Result<Vec<u8>> {
    let file = Fd::open("/scheme/kernel.acpi", O_CLOEXEC, 0)?;
    let verb = [AcpiVerb::ReadRxsdt as u64];
    let length = file.call_ro(&mut [], CallFlags::empty(), &verb)?;
    if length > MAX_TABLE_BYTES {
        return Err(Error::new(EINVAL));
    }
    let mut bytes = alloc::vec![0; length];
    if length != 0 && file.call_ro(&mut bytes, CallFlags::empty(), &verb)? != length {
        return Err(Error::new(EIO));
    }
    Ok(bytes)
}

/// The bytes of the table at a physical address: as many as its header says, checksum checked.
///
/// # Errors
/// `EINVAL` for a length no table has or a wrong checksum, or the mapping's error.
pub fn table_bytes(physical: usize) -> Result<Vec<u8>> {
    let header = map_physical(physical as u64, size_of::<SdtHeader>(), Cache::WriteBack)?;
    let mut length = [0; 4];
    header.read_bytes(4, &mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if !(size_of::<SdtHeader>()..=MAX_TABLE_BYTES).contains(&length) {
        return Err(Error::new(EINVAL));
    }
    let mut bytes = alloc::vec![0; length];
    map_physical(physical as u64, length, Cache::WriteBack)?.read_bytes(0, &mut bytes)?;
    if bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
        return Err(Error::new(EINVAL));
    }
    Ok(bytes)
}

impl FirmwareMemory {
    /// The memory at a table's address, or zeros, which are no table, where none can be mapped.
    fn region(&self, physical: usize, bytes: usize, at_least: usize) -> Region {
        if physical == ROOT_ADDRESS {
            return Region::clone(&self.root);
        }
        if bytes > MAX_TABLE_BYTES {
            log::error!("acpi: the table at {physical:#x} claims {bytes} bytes");
            return Region::heap(at_least);
        }
        map_physical(physical as u64, bytes.max(at_least), Cache::WriteBack).unwrap_or_else(
            |error| {
                log::error!("acpi: cannot map {bytes} bytes at {physical:#x}: {error}");
                Region::heap(bytes.max(at_least))
            },
        )
    }
}

impl Handler for FirmwareMemory {
    unsafe fn map_physical_region<T>(
        &self,
        physical_address: usize,
        size: usize,
    ) -> PhysicalMapping<Self, T> {
        let region = self.region(physical_address, size, size_of::<T>());
        let length = region.len();
        // Kept until `unmap_physical_region` takes it back.
        let region = alloc::boxed::Box::leak(alloc::boxed::Box::new(region));
        let virtual_start = NonNull::new(region.address() as *mut T).unwrap_or(NonNull::dangling());
        PhysicalMapping {
            physical_start: physical_address,
            virtual_start,
            region_length: length,
            // The address of the kept region, for its release; the crate does not look at it.
            mapped_length: core::ptr::from_mut(region) as usize,
            handler: self.clone(),
        }
    }

    fn unmap_physical_region<T>(region: &PhysicalMapping<Self, T>) {
        let kept = region.mapped_length as *mut Region;
        // SAFETY: made from a box by `map_physical_region`, and every mapping is released once.
        drop(unsafe { alloc::boxed::Box::from_raw(kept) });
    }

    // The functions below serve the AML interpreter, which this program does not run.
    fn read_u8(&self, _address: usize) -> u8 {
        u8::MAX
    }
    fn read_u16(&self, _address: usize) -> u16 {
        u16::MAX
    }
    fn read_u32(&self, _address: usize) -> u32 {
        u32::MAX
    }
    fn read_u64(&self, _address: usize) -> u64 {
        u64::MAX
    }
    fn write_u8(&self, _address: usize, _value: u8) {}
    fn write_u16(&self, _address: usize, _value: u16) {}
    fn write_u32(&self, _address: usize, _value: u32) {}
    fn write_u64(&self, _address: usize, _value: u64) {}
    fn read_io_u8(&self, _port: u16) -> u8 {
        u8::MAX
    }
    fn read_io_u16(&self, _port: u16) -> u16 {
        u16::MAX
    }
    fn read_io_u32(&self, _port: u16) -> u32 {
        u32::MAX
    }
    fn write_io_u8(&self, _port: u16, _value: u8) {}
    fn write_io_u16(&self, _port: u16, _value: u16) {}
    fn write_io_u32(&self, _port: u16, _value: u32) {}
    fn read_pci_u8(&self, _address: PciAddress, _offset: u16) -> u8 {
        u8::MAX
    }
    fn read_pci_u16(&self, _address: PciAddress, _offset: u16) -> u16 {
        u16::MAX
    }
    fn read_pci_u32(&self, _address: PciAddress, _offset: u16) -> u32 {
        u32::MAX
    }
    fn write_pci_u8(&self, _address: PciAddress, _offset: u16, _value: u8) {}
    fn write_pci_u16(&self, _address: PciAddress, _offset: u16, _value: u16) {}
    fn write_pci_u32(&self, _address: PciAddress, _offset: u16, _value: u32) {}
    fn nanos_since_boot(&self) -> u64 {
        0
    }
    fn stall(&self, _microseconds: u64) {}
    fn sleep(&self, _milliseconds: u64) {}
    fn create_mutex(&self) -> Handle {
        Handle(0)
    }
    fn acquire(&self, _mutex: Handle, _timeout: u16) -> core::result::Result<(), AmlError> {
        Ok(())
    }
    fn release(&self, _mutex: Handle) {}
}
