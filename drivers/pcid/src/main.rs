//! pcid: finds the machine's PCI functions and lends them to drivers through the scheme `pci`.
//!
//! Configuration space is memory-mapped where acpid's MCFG table describes it; on machines without
//! that table (QEMU's `pc`) it is accessed through the original ports.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use alloc::string::String;
    use alloc::vec::Vec;

    use hal::Result;
    use hal::pci::config::{ConfigSpace, EcamRange};
    use hal::port::Ports;
    use pcid::scheme::PciScheme;
    use pcid::{mcfg, scan};
    use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};

    runtime::main!(main);

    const TABLES: &str = "/scheme/acpi/tables";

    fn main() -> i32 {
        let purpose = "finds PCI functions: the scheme `pci`";
        if let Some(status) = runtime::env::answer_people("", purpose, 0) {
            return status;
        }
        runtime::logging::init("pcid");
        match run() {
            Ok(()) => 0,
            Err(error) => {
                log::error!("cannot serve scheme `pci`: {error}");
                1
            }
        }
    }

    fn run() -> Result<()> {
        let space = config_space()?;
        let functions = scan::scan(&space);
        log::info!("{} functions found", functions.len());
        for (address, function) in &functions {
            let id = function.config.identity;
            log::debug!(
                "{address} {:04x}:{:04x} class {:02x}",
                id.vendor,
                id.device,
                id.class
            );
        }
        let mut scheme = PciScheme::new(space, functions);
        let notify = runtime::env::var(NOTIFY_VARIABLE);
        let mut requests = daemon::start("pci", Mode::Blocking, notify.as_deref(), &mut scheme)?;
        requests.run(&mut scheme)
    }

    fn config_space() -> Result<ConfigSpace> {
        let ranges = firmware_ranges();
        if !ranges.is_empty() {
            return Ok(ConfigSpace::ecam(ranges));
        }
        log::info!("no MCFG table: configuration space through ports");
        Ok(ConfigSpace::ports(Ports::acquire()?))
    }

    /// The memory-mapped ranges of the firmware's MCFG table; none when there is no such table.
    fn firmware_ranges() -> Vec<EcamRange> {
        let entries = match runtime::fs::read_dir(TABLES) {
            Ok(entries) => entries,
            Err(error) => {
                log::warn!("cannot list {TABLES}: {error}");
                return Vec::new();
            }
        };
        let names = entries.filter_map(|entry| Some(String::from(entry.ok()?.file_name())));
        let Some(name) = names.into_iter().find(|name| name.starts_with("MCFG")) else {
            return Vec::new();
        };
        match runtime::fs::read(&alloc::format!("{TABLES}/{name}")) {
            Ok(table) => mcfg::ranges(&table),
            Err(error) => {
                log::warn!("cannot read {TABLES}/{name}: {error}");
                Vec::new()
            }
        }
    }
}

/// The daemon runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
