//! One PCI function as the scan found it: identity, base address registers, capabilities.

use alloc::vec::Vec;

use hal::pci::config::{self, ConfigSpace};
use hal::pci::protocol::{Bar, FunctionConfig, Identity, InterruptLine, Rom};
use pci_types::capability::{MsiCapability, MsixCapability, PciCapability, PciCapabilityAddress};
use pci_types::{CommandRegister, EndpointHeader, HeaderType, PciAddress, PciHeader};

/// Most capabilities that the 256 bytes of a function hold: four bytes each, after the header.
const MAX_CAPABILITIES: usize = 48;
/// Register of the first base address register.
const FIRST_BAR: u16 = 0x10;
/// Register with the address of the expansion ROM.
const ROM: u16 = 0x30;
/// Bits of that register: the address, and whether the function decodes it.
const ROM_ADDRESS: u32 = !0x7ff;
const ROM_ENABLED: u32 = 1;
/// Register with the capability pointer.
const CAPABILITY_POINTER: u16 = 0x34;
/// Bit of the command/status register that says that capabilities exist.
const HAS_CAPABILITIES: u32 = 1 << 20;
/// Interrupt line value "not connected"; such drivers get line 9, as on Redox.
const NO_LINE: u8 = 0xff;
const DEFAULT_LINE: u8 = 9;

/// A function.
#[derive(Debug)]
pub struct Function {
    /// The address of the function.
    pub address: PciAddress,
    /// The function's identity and registers, in the form for drivers.
    pub config: FunctionConfig,
    /// The capability for message-signalled interrupts.
    pub msi: Option<MsiCapability>,
    /// The capability for message-signalled interrupts by table.
    pub msix: Option<MsixCapability>,
    /// The function's vendor-specific capabilities.
    pub vendor_capabilities: Vec<PciCapabilityAddress>,
    /// Whether a driver has taken it.
    pub taken: bool,
    /// Whether that driver has enabled it.
    pub enabled: bool,
}

impl Function {
    /// Reads everything about the function at an address where a function answers.
    pub fn read(space: &ConfigSpace, address: PciAddress) -> Self {
        let header = PciHeader::new(address);
        let (vendor, device) = header.id(space);
        let (revision, class, subclass, interface) = header.revision_and_class(space);
        let bar_count = match header.header_type(space) {
            HeaderType::Endpoint => 6,
            HeaderType::PciPciBridge => 2,
            _ => 0,
        };
        let (mut bars, mut rom) = ([Bar::None; 6], None);
        if bar_count != 0 {
            without_decoding(space, address, || {
                bars = read_bars(space, address, bar_count);
                // A bridge has its ROM register elsewhere, and no driver asks for it.
                if bar_count == 6 {
                    rom = read_rom(space, address);
                }
            });
        }
        let mut function = Self {
            address,
            config: FunctionConfig {
                address: config::address_of(address),
                bars,
                rom,
                interrupt_line: None,
                identity: Identity {
                    vendor,
                    device,
                    class,
                    subclass,
                    interface,
                    revision,
                },
            },
            msi: None,
            msix: None,
            vendor_capabilities: Vec::new(),
            taken: false,
            enabled: false,
        };
        if let Some(endpoint) = EndpointHeader::from_header(header, space) {
            let (pin, line) = endpoint.interrupt(space);
            let route = |irq| InterruptLine { irq, route: None };
            function.config.interrupt_line = (pin != 0).then(|| route(line));
            function.read_capabilities(space, &endpoint);
        }
        function
    }

    fn read_capabilities(&mut self, space: &ConfigSpace, endpoint: &EndpointHeader) {
        if !capabilities_end(space, self.address) {
            log::warn!(
                "{}: the list of capabilities has no end: ignored",
                self.config.address
            );
            return;
        }
        for capability in endpoint.capabilities(space).take(MAX_CAPABILITIES) {
            match capability {
                PciCapability::Msi(msi) => self.msi = Some(msi),
                PciCapability::MsiX(msix) => self.msix = Some(msix),
                PciCapability::Vendor(place) => self.vendor_capabilities.push(place),
                _ => {}
            }
        }
    }

    /// Turns decoding and bus mastering on and message-signalled interrupts off.
    pub fn enable(&mut self, space: &ConfigSpace) {
        self.enabled = true;
        self.disable_messages(space);
        PciHeader::new(self.address).update_command(space, |command| {
            command
                | CommandRegister::IO_ENABLE
                | CommandRegister::MEMORY_ENABLE
                | CommandRegister::BUS_MASTER_ENABLE
        });
        if let Some(line) = &mut self.config.interrupt_line
            && line.irq == NO_LINE
        {
            line.irq = DEFAULT_LINE;
        }
    }

    /// Takes the function back from its driver. If the driver enabled it, ends its bus mastering:
    /// it can no longer write to memory, which may go with the driver, or interrupt.
    pub fn release(&mut self, space: &ConfigSpace) {
        self.taken = false;
        if !core::mem::take(&mut self.enabled) {
            return;
        }
        PciHeader::new(self.address).update_command(space, |command| {
            command - CommandRegister::BUS_MASTER_ENABLE
        });
        self.disable_messages(space);
    }

    /// Reads the present addresses of the base address registers and the ROM: drivers may move
    /// them.
    pub fn refresh(&mut self, space: &ConfigSpace) {
        for (index, bar) in (0..).zip(&mut self.config.bars) {
            let register = FIRST_BAR + 4 * index;
            let low = config::read(space, self.address, register) & !0xf;
            match bar {
                Bar::Memory32 { address, .. } => *address = low,
                Bar::Memory64 { address, .. } => {
                    let high = config::read(space, self.address, register + 4);
                    *address = u64::from(high) << 32 | u64::from(low);
                }
                Bar::None | Bar::Port(_) => {}
            }
        }
        if let Some(rom) = &mut self.config.rom {
            let value = config::read(space, self.address, ROM);
            rom.address = value & ROM_ADDRESS;
            rom.enabled = value & ROM_ENABLED != 0;
        }
    }

    fn disable_messages(&mut self, space: &ConfigSpace) {
        if let Some(msi) = &self.msi {
            msi.set_enabled(false, space);
        }
        if let Some(msix) = &mut self.msix {
            msix.set_enabled(false, space);
        }
    }
}

/// Whether the chain of capability pointers has an end. The iterator of `pci_types` would follow a
/// circle for ever.
fn capabilities_end(space: &ConfigSpace, address: PciAddress) -> bool {
    if config::read(space, address, 4) & HAS_CAPABILITIES == 0 {
        return true;
    }
    let mut pointer = config::read(space, address, CAPABILITY_POINTER) as u8;
    for _ in 0..MAX_CAPABILITIES {
        if pointer == 0 {
            return true;
        }
        pointer = (config::read(space, address, pointer.into()) >> 8) as u8;
    }
    pointer == 0
}

/// Calls `read` while the function decodes no addresses: a size is found by writing ones to an
/// address register and reading which bits stay.
fn without_decoding(space: &ConfigSpace, address: PciAddress, read: impl FnOnce()) {
    let mut header = PciHeader::new(address);
    let command = header.command(space);
    let decoding = CommandRegister::IO_ENABLE | CommandRegister::MEMORY_ENABLE;
    header.update_command(space, |command| command - decoding);
    read();
    header.update_command(space, |_| command);
}

/// The address and size of the expansion ROM, if there is one.
fn read_rom(space: &ConfigSpace, address: PciAddress) -> Option<Rom> {
    let value = config::read(space, address, ROM);
    config::write(space, address, ROM, ROM_ADDRESS);
    let size = config::read(space, address, ROM) & ROM_ADDRESS;
    config::write(space, address, ROM, value);
    (size != 0).then(|| Rom {
        address: value & ROM_ADDRESS,
        bytes: size.wrapping_neg(),
        enabled: value & ROM_ENABLED != 0,
    })
}

/// Reads the addresses and sizes of base address registers.
fn read_bars(space: &ConfigSpace, address: PciAddress, count: u16) -> [Bar; 6] {
    let mut bars = [Bar::None; 6];
    let mut index = 0;
    while index < count {
        let (bar, registers) = read_bar(space, address, index, count);
        bars[usize::from(index)] = bar;
        index += registers;
    }
    bars
}

/// Reads one base address register. Returns it with the number of registers that it takes.
fn read_bar(space: &ConfigSpace, address: PciAddress, index: u16, count: u16) -> (Bar, u16) {
    let register = FIRST_BAR + 4 * index;
    let low = config::read(space, address, register);
    let low_size = writable_bits(space, address, register, low);
    if low & 1 != 0 {
        let port = (low & !3) as u16;
        return (
            if low_size & !3 == 0 {
                Bar::None
            } else {
                Bar::Port(port)
            },
            1,
        );
    }
    match low >> 1 & 3 {
        0 => {
            let bytes = (low_size & !0xf).wrapping_neg();
            let bar = Bar::Memory32 {
                address: low & !0xf,
                bytes,
            };
            (if bytes == 0 { Bar::None } else { bar }, 1)
        }
        2 if index + 1 < count => {
            let high = config::read(space, address, register + 4);
            let high_size = writable_bits(space, address, register + 4, high);
            let size = u64::from(high_size) << 32 | u64::from(low_size & !0xf);
            let place = u64::from(high) << 32 | u64::from(low & !0xf);
            let bytes = size.wrapping_neg();
            let bar = Bar::Memory64 {
                address: place,
                bytes,
            };
            (if size == 0 { Bar::None } else { bar }, 2)
        }
        // Reserved kinds, and a 64-bit register without a second half.
        _ => (Bar::None, 1),
    }
}

fn writable_bits(space: &ConfigSpace, address: PciAddress, register: u16, value: u32) -> u32 {
    config::write(space, address, register, u32::MAX);
    let bits = config::read(space, address, register);
    config::write(space, address, register, value);
    bits
}
