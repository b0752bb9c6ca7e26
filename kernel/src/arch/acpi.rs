//! ACPI tables: the wiring of interrupts, and what powers the machine off.
//!
//! The kernel reads static tables only. User space (acpid) handles byte code.

use alloc::vec::Vec;
use core::ptr::NonNull;

use acpi::platform::interrupt::{InterruptModel, Polarity, TriggerMode};
use acpi::platform::{Processor, ProcessorState};
use acpi::sdt::fadt::Fadt;
use acpi::sdt::madt::{Madt, MadtError};
use acpi::{AcpiError, AcpiTables, Handle, Handler, PciAddress, PhysicalMapping};
use kernel_core::acpi_tables;
use spin::Once;

use super::{apic, pit, power};
use crate::mm::{self, phys};

/// Accesses tables through the kernel's map of physical memory.
#[derive(Clone, Copy, Debug)]
struct Physmap;

/// Read in place of a table that lies outside the physical map. Longer than all tables' types.
static NOTHING: [u64; 64] = [0; 64];

impl Handler for Physmap {
    unsafe fn map_physical_region<T>(&self, at: usize, size: usize) -> PhysicalMapping<Self, T> {
        // A table outside the map reads as zeros: it then has the wrong signature and length 0.
        // One that says that it is shorter than its type is read as far as the type goes.
        let whole = size.max(size_of::<T>());
        let (start, len) = if phys::is_mapped(at, whole) {
            ((phys::BASE + at) as *mut T, whole)
        } else {
            log::error!("ACPI table at {at:#x}, {size} bytes, is out of reach");
            assert!(
                size_of::<T>() <= size_of_val(&NOTHING),
                "table type fits the substitute"
            );
            (NOTHING.as_ptr().cast_mut().cast::<T>(), size_of::<T>())
        };
        PhysicalMapping {
            physical_start: at,
            virtual_start: NonNull::new(start).expect("the physical map is not at 0"),
            region_length: len,
            mapped_length: len,
            handler: *self,
        }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}

    fn read_u8(&self, _: usize) -> u8 {
        byte_code()
    }
    fn read_u16(&self, _: usize) -> u16 {
        byte_code()
    }
    fn read_u32(&self, _: usize) -> u32 {
        byte_code()
    }
    fn read_u64(&self, _: usize) -> u64 {
        byte_code()
    }
    fn write_u8(&self, _: usize, _: u8) {
        byte_code()
    }
    fn write_u16(&self, _: usize, _: u16) {
        byte_code()
    }
    fn write_u32(&self, _: usize, _: u32) {
        byte_code()
    }
    fn write_u64(&self, _: usize, _: u64) {
        byte_code()
    }
    fn read_io_u8(&self, _: u16) -> u8 {
        byte_code()
    }
    fn read_io_u16(&self, _: u16) -> u16 {
        byte_code()
    }
    fn read_io_u32(&self, _: u16) -> u32 {
        byte_code()
    }
    fn write_io_u8(&self, _: u16, _: u8) {
        byte_code()
    }
    fn write_io_u16(&self, _: u16, _: u16) {
        byte_code()
    }
    fn write_io_u32(&self, _: u16, _: u32) {
        byte_code()
    }
    fn read_pci_u8(&self, _: PciAddress, _: u16) -> u8 {
        byte_code()
    }
    fn read_pci_u16(&self, _: PciAddress, _: u16) -> u16 {
        byte_code()
    }
    fn read_pci_u32(&self, _: PciAddress, _: u16) -> u32 {
        byte_code()
    }
    fn write_pci_u8(&self, _: PciAddress, _: u16, _: u8) {
        byte_code()
    }
    fn write_pci_u16(&self, _: PciAddress, _: u16, _: u16) {
        byte_code()
    }
    fn write_pci_u32(&self, _: PciAddress, _: u16, _: u32) {
        byte_code()
    }
    fn nanos_since_boot(&self) -> u64 {
        byte_code()
    }
    fn stall(&self, _: u64) {
        byte_code()
    }
    fn sleep(&self, _: u64) {
        byte_code()
    }
    fn create_mutex(&self) -> Handle {
        byte_code()
    }
    fn acquire(&self, _: Handle, _: u16) -> Result<(), acpi::aml::AmlError> {
        byte_code()
    }
    fn release(&self, _: Handle) {
        byte_code()
    }
}

/// The rest of the interface serves an interpreter, which the kernel does not have.
fn byte_code() -> ! {
    unreachable!("the kernel interprets no ACPI byte code")
}

/// Physical address and length of the RSDT or XSDT.
static ROOT_TABLE: Once<(usize, usize)> = Once::new();

/// APIC ids of the usable processors, including the boot processor's.
static PROCESSORS: Once<Vec<u32>> = Once::new();

/// APIC ids of the usable processors, each once; none without ACPI.
pub fn processors() -> &'static [u32] {
    PROCESSORS.get().map_or(&[], |ids| ids.as_slice())
}

/// Reads the tables, if there are any, and configures the interrupt controllers and `power` from
/// them.
pub fn init(rsdp: Option<u64>) {
    apic::default_wiring();
    let Some(rsdp) = rsdp else {
        log::warn!("no ACPI: standard interrupt wiring is assumed");
        apic::add_io_apic(STANDARD_IO_APIC, 0);
        return;
    };
    // SAFETY: the loader vouches for the address; `Physmap` survives wrong ones.
    let tables = match unsafe { AcpiTables::from_rsdp(Physmap, rsdp as usize) } {
        Ok(tables) => tables,
        Err(error) => {
            log::error!("ACPI tables at {rsdp:#x} are unusable ({error:?})");
            apic::add_io_apic(STANDARD_IO_APIC, 0);
            return;
        }
    };
    find_root_table(rsdp as usize);
    if let Err(error) = wire(&tables) {
        log::error!("ACPI interrupt table is unusable ({error:?}): standard wiring is assumed");
        apic::default_wiring();
        apic::add_io_apic(STANDARD_IO_APIC, 0);
    }
    match tables.find_table::<Fadt>() {
        Some(fadt) => match acpi_tables::check_fadt(contents(&fadt)) {
            Ok(()) => {
                power::init(&fadt, table_bytes(&tables));
                let timer = fadt.pm_timer_block().ok().flatten();
                if let Some(port) = timer.and_then(power::io_port) {
                    pit::set_acpi_timer(port);
                }
            }
            Err(why) => log::error!("ACPI's fixed table is unusable: {why}; no power-off"),
        },
        None => log::warn!("no ACPI fixed table: power-off is not possible"),
    }
}

/// The bytes of a table; none of one that is out of reach.
fn contents<T>(table: &PhysicalMapping<Physmap, T>) -> &'static [u8] {
    // SAFETY: firmware tables are not written by anyone.
    unsafe { phys::bytes(table.physical_start, table.region_length) }.unwrap_or(&[])
}

/// The address of the first IO-APIC if no table gives it.
const STANDARD_IO_APIC: usize = 0xFEC0_0000;

fn wire(tables: &AcpiTables<Physmap>) -> Result<(), AcpiError> {
    if let Some(madt) = tables.find_table::<Madt>()
        && let Err(why) = acpi_tables::check_madt(contents(&madt))
    {
        log::error!("ACPI's table of processors: {why}");
        return Err(AcpiError::InvalidMadt(MadtError::UnexpectedEntry));
    }
    let (model, processors) = InterruptModel::new(tables)?;
    let InterruptModel::Apic(model) = model else {
        return Err(AcpiError::HostUnimplemented);
    };
    for controller in &model.io_apics {
        apic::add_io_apic(
            controller.address as usize,
            controller.global_system_interrupt_base,
        );
    }
    for line in &model.interrupt_source_overrides {
        // "Same as bus" is edge, active high for ISA.
        apic::override_line(
            line.isa_source,
            line.global_system_interrupt,
            line.polarity == Polarity::ActiveLow,
            line.trigger_mode == TriggerMode::Level,
        );
    }
    let usable = |processor: &&Processor| processor.state != ProcessorState::Disabled;
    let mut ids: Vec<u32> = processors
        .iter()
        .flat_map(|all| core::iter::once(&all.boot_processor).chain(&all.application_processors))
        .filter(usable)
        .map(|processor| processor.local_apic_id)
        .collect();
    // Firmware may list a processor in both the old and the new form.
    ids.sort_unstable();
    ids.dedup();
    PROCESSORS.call_once(|| ids);
    Ok(())
}

/// The bytes of the DSDT.
fn table_bytes(tables: &AcpiTables<Physmap>) -> &'static [u8] {
    let Ok(table) = tables.dsdt() else { return &[] };
    // SAFETY: firmware tables are not written by anyone.
    unsafe { phys::bytes(table.phys_address, table.length as usize) }.unwrap_or(&[])
}

fn find_root_table(rsdp: usize) {
    const REVISION: usize = 15;
    const RSDT: usize = 16;
    const XSDT: usize = 24;
    const LENGTH: usize = 4;
    let mut revision = [0];
    phys::read(rsdp + REVISION, &mut revision);
    let mut address = [0; 8];
    if revision[0] == 0 {
        phys::read(rsdp + RSDT, &mut address[..4]);
    } else {
        phys::read(rsdp + XSDT, &mut address);
    }
    let address = usize::from_le_bytes(address);
    let mut length = [0; 4];
    if phys::is_mapped(address, LENGTH + 4) {
        phys::read(address + LENGTH, &mut length);
        let length = u32::from_le_bytes(length) as usize;
        if phys::is_mapped(address, length) {
            ROOT_TABLE.call_once(|| (address, length));
        }
    }
}

/// The XSDT or RSDT, header included, for `kernel.acpi`; empty without ACPI. `ENOMEM`: its length
/// is what the firmware says.
pub fn root_table() -> syscall::Result<Vec<u8>> {
    let Some(&(address, length)) = ROOT_TABLE.get() else {
        return Ok(Vec::new());
    };
    let mut bytes = mm::zeroes(length)?;
    phys::read(address, &mut bytes);
    Ok(bytes)
}
