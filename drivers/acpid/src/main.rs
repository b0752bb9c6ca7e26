//! acpid: publishes the firmware's ACPI tables as files of the scheme `acpi`.
//!
//! Switching the machine off stays with the kernel. On the machines that it runs on it needs no
//! interpreter for that, so acpid does not subscribe to its request for help
//! (`kernel.acpi/kstop`).
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use acpid::scheme::AcpiScheme;
    use acpid::table::{self, Table};
    use alloc::vec::Vec;
    use hal::{Result, firmware};
    use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};

    runtime::main!(main);

    fn main() -> i32 {
        let purpose = "reads ACPI tables: the scheme `acpi`";
        if let Some(status) = runtime::env::answer_people("", purpose, 0) {
            return status;
        }
        runtime::logging::init("acpid");
        match run() {
            Ok(()) => 0,
            Err(error) => {
                log::error!("cannot serve scheme `acpi`: {error}");
                1
            }
        }
    }

    fn run() -> Result<()> {
        let tables = read_tables();
        log::info!("{} tables", tables.len());
        let mut scheme = AcpiScheme::new(tables);
        let notify = runtime::env::var(NOTIFY_VARIABLE);
        let mut requests = daemon::start("acpi", Mode::Blocking, notify.as_deref(), &mut scheme)?;
        requests.run(&mut scheme)
    }

    /// All tables that can be read; the others are logged and left out.
    fn read_tables() -> Vec<Table> {
        let root = match firmware::tables() {
            Ok(Some(root)) => root,
            Ok(None) => {
                log::warn!("the firmware has no ACPI tables");
                return Vec::new();
            }
            Err(error) => {
                log::error!("the root table is not usable: {error}");
                return Vec::new();
            }
        };
        let described = root.dsdt().ok().map(|dsdt| dsdt.phys_address);
        let places: Vec<usize> = root.table_entries().chain(described).collect();
        table::unique(
            places
                .into_iter()
                .filter_map(|place| match firmware::table_bytes(place) {
                    Ok(bytes) => Table::new(bytes),
                    Err(error) => {
                        log::warn!("the table at {place:#x} is left out: {error}");
                        None
                    }
                }),
        )
    }
}

/// The daemon runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
