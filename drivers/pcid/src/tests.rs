//! Tests the daemon's parts on a simulated machine: a host bridge, an `ivshmem`-like device of two
//! functions behind a bridge, and a few broken devices.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use hal::pci::config::{ConfigSpace, EcamRange};
use hal::pci::protocol::{
    Address, Bar, Feature, FeatureInfo, Request, Response, ResponseError, Rom, SetFeature,
};
use hal::pci::simulated::{SimulatedFunction, SimulatedMachine};

use crate::{driver, mcfg, scan};

const COMMAND: u16 = 4;

fn address(bus: u8, device: u8, function: u8) -> Address {
    Address {
        segment: 0,
        bus,
        device,
        function,
    }
}

fn doorbell_function() -> SimulatedFunction {
    SimulatedFunction::new(0x1af4, 0x1110, [5, 0, 0], 0x80)
        .register(0x10, 0xfebf_1000, !0xff)
        .register(0x14, 0xfebf_2000, !0xfff)
        // 64-bit prefetchable, 1 MiB at 0x8_0010_0000.
        .register(0x18, 0x0010_000c, !0xf_ffff)
        .register(0x1c, 8, !0)
        .register(0x20, 0xc001, !0x3f & 0xffff)
        // A ROM of 64 KiB, which is on.
        .register(0x30, 0xfeb0_0001, 0xffff_0001)
        .register(0x04, 1 << 20 | 3, 0xffff)
        .register(0x34, 0x40, 0)
        // MSI-X, two vectors, table in BAR 1.
        .register(0x40, 0x0001_5011, 0xc000_0000)
        .register(0x44, 1, 0)
        .register(0x48, 0x801, 0)
        // MSI, four vectors, 64 bits, per-vector masks.
        .register(0x50, 0x0184_7005, 0x0071_0000)
        .register(0x54, 0, !3)
        .register(0x58, 0, !0)
        .register(0x5c, 0, 0xffff)
        .register(0x60, 0, 0xf)
        // Vendor capability of 8 bytes.
        .register(0x70, 0xaa08_0009, 0)
        .register(0x74, 0xddcc_bbbb, 0)
        .register(0x3c, 0x01ff, 0xff)
}

pub fn machine() -> ConfigSpace {
    let endless = SimulatedFunction::new(1, 2, [0xff, 0, 0], 0)
        .register(0x04, 1 << 20, 0xffff)
        .register(0x34, 0x40, 0)
        .register(0x40, 0x4000, 0);
    let odd_bars = SimulatedFunction::new(1, 3, [0xff, 0, 0], 0)
        // Reserved kind, port, 64-bit register that is the last one.
        .register(0x10, 0x6, !0xf)
        .register(0x14, 0x1, !0x3 & 0xffff)
        .register(0x24, 0x4, !0xf);
    let bridge = SimulatedFunction::new(0x1b36, 0xc, [6, 4, 0], 1).register(0x18, 0x01_0100, !0);
    let machine = SimulatedMachine::default()
        .with(
            address(0, 0, 0),
            SimulatedFunction::new(0x8086, 0x29c0, [6, 0, 0], 0),
        )
        .with(address(0, 3, 0), bridge)
        .with(address(0, 4, 0), endless)
        .with(address(0, 5, 0), odd_bars)
        // A function beside an absent function 0 is not reachable.
        .with(address(0, 6, 1), SimulatedFunction::new(1, 1, [0, 0, 0], 0))
        .with(address(1, 31, 0), doorbell_function())
        .with(
            address(1, 31, 7),
            SimulatedFunction::new(0x1af4, 0x1110, [5, 0, 0], 0),
        );
    ConfigSpace::simulated(machine)
}

#[test]
fn the_scan_finds_what_is_there() {
    let found = scan::scan(&machine());
    let names: Vec<_> = found.keys().map(|address| address.to_string()).collect();
    let expected = [
        "0000--00--00.0",
        "0000--00--03.0",
        "0000--00--04.0",
        "0000--00--05.0",
        "0000--01--1f.0",
        "0000--01--1f.7",
    ];
    assert_eq!(names, expected);
    let doorbell = &found[&address(1, 31, 0)];
    assert_eq!(
        doorbell.config.bars[0],
        Bar::Memory32 {
            address: 0xfebf_1000,
            bytes: 256
        }
    );
    assert_eq!(
        doorbell.config.bars[1],
        Bar::Memory32 {
            address: 0xfebf_2000,
            bytes: 4096
        }
    );
    let link_memory = Bar::Memory64 {
        address: 0x8_0010_0000,
        bytes: 1 << 20,
    };
    assert_eq!(doorbell.config.bars[2], link_memory);
    assert_eq!(doorbell.config.bars[3], Bar::None);
    assert_eq!(doorbell.config.bars[4], Bar::Port(0xc000));
    let rom = Rom {
        address: 0xfeb0_0000,
        bytes: 0x1_0000,
        enabled: true,
    };
    assert_eq!(doorbell.config.rom, Some(rom));
    for without in [address(0, 3, 0), address(0, 5, 0)] {
        assert_eq!(found[&without].config.rom, None);
    }
    assert!(doorbell.msi.is_some() && doorbell.msix.is_some());
    assert_eq!(doorbell.config.identity.vendor, 0x1af4);
}

#[test]
fn sizing_leaves_registers_as_they_were() {
    let space = machine();
    let found = scan::scan(&space);
    let place = found[&address(1, 31, 0)].address;
    let read = |offset| hal::pci::config::read(&space, place, offset);
    assert_eq!(read(COMMAND) & 0xffff, 3);
    assert_eq!(
        (read(0x10), read(0x18), read(0x1c), read(0x30)),
        (0xfebf_1000, 0x0010_000c, 8, 0xfeb0_0001)
    );
}

#[test]
fn broken_functions_are_survived() {
    let found = scan::scan(&machine());
    assert!(found[&address(0, 4, 0)].msi.is_none());
    let bars = found[&address(0, 5, 0)].config.bars;
    assert_eq!(
        (bars[0], bars[1], bars[5]),
        (Bar::None, Bar::Port(0), Bar::None)
    );
}

#[test]
fn drivers_get_answers() {
    let space = machine();
    let mut found = scan::scan(&space);
    let function = found.get_mut(&address(1, 31, 0)).unwrap();
    let mut ask = |request| driver::respond(&space, function, request);
    let Response::Config(config) = ask(Request::Config) else {
        panic!("no configuration")
    };
    assert_eq!(config.interrupt_line.unwrap().irq, 0xff);
    assert_eq!(ask(Request::EnableDevice), Response::EnabledDevice);
    assert_eq!(
        ask(Request::ReadConfig(COMMAND)),
        Response::ReadConfig(1 << 20 | 7)
    );
    let Response::Config(config) = ask(Request::Config) else {
        panic!("no configuration")
    };
    assert_eq!(config.interrupt_line.unwrap().irq, 9);
    assert_eq!(
        ask(Request::Features),
        Response::Features(vec![Feature::Msi, Feature::MsiX])
    );
    let data = vec![vec![0xaa, 0xbb, 0xbb, 0xcc, 0xdd]];
    assert_eq!(
        ask(Request::VendorCapabilities),
        Response::VendorCapabilities(data)
    );
    let info = FeatureInfo::MsiX {
        table_bar: 1,
        table_offset: 0,
        table_size: 2,
        pba_bar: 1,
        pba_offset: 0x800,
    };
    let msix = Feature::MsiX;
    assert_eq!(
        ask(Request::FeatureInfo(msix)),
        Response::FeatureInfo(msix, info)
    );
    assert_eq!(
        ask(Request::EnableFeature(msix)),
        Response::FeatureEnabled(msix)
    );
    assert_eq!(
        ask(Request::ReadConfig(0x40)),
        Response::ReadConfig(0x8001_5011)
    );
    let message = SetFeature::Msi {
        multi_message_enable: Some(2),
        message: Some((0xfee0_0000, 49)),
        mask_bits: Some(1),
    };
    assert_eq!(
        ask(Request::SetFeature(message)),
        Response::SetFeature(Feature::Msi)
    );
    assert_eq!(ask(Request::ReadConfig(0x5c)), Response::ReadConfig(49));
    assert_eq!(ask(Request::WriteConfig(0x3c, 5)), Response::WriteConfig);
    assert_eq!(ask(Request::ReadConfig(0x3c)), Response::ReadConfig(0x105));
}

#[test]
fn a_bar_that_was_moved_is_told_where_it_is() {
    let space = machine();
    let mut found = scan::scan(&space);
    let function = found.get_mut(&address(1, 31, 0)).unwrap();
    let mut ask = |request| driver::respond(&space, function, request);
    assert_eq!(
        ask(Request::WriteConfig(0x18, 0x30_0000)),
        Response::WriteConfig
    );
    assert_eq!(ask(Request::WriteConfig(0x1c, 0x80)), Response::WriteConfig);
    assert_eq!(
        ask(Request::WriteConfig(0x30, 0xfea0_0000)),
        Response::WriteConfig
    );
    let Response::Config(config) = ask(Request::Config) else {
        panic!("no configuration")
    };
    let moved = Bar::Memory64 {
        address: 0x80_0030_0000,
        bytes: 1 << 20,
    };
    assert_eq!(config.bars[2], moved);
    let moved = Rom {
        address: 0xfea0_0000,
        bytes: 0x1_0000,
        enabled: false,
    };
    assert_eq!(config.rom, Some(moved));
    let first = Bar::Memory32 {
        address: 0xfebf_1000,
        bytes: 256,
    };
    assert_eq!((config.bars[0], config.bars[4]), (first, Bar::Port(0xc000)));
}

#[test]
fn bad_requests_get_errors() {
    let space = machine();
    let mut found = scan::scan(&space);
    let function = found.get_mut(&address(1, 31, 0)).unwrap();
    let invalid = Response::Error(ResponseError::InvalidBitPattern);
    let set = |multi_message_enable, message, mask_bits| {
        Request::SetFeature(SetFeature::Msi {
            multi_message_enable,
            message,
            mask_bits,
        })
    };
    for request in [
        Request::ReadConfig(2),
        Request::ReadConfig(256),
        Request::WriteConfig(u16::MAX, 0),
        set(Some(6), None, None),
        set(Some(3), None, None),
        set(None, Some((2, 0)), None),
        set(None, Some((0, 0x1_0000)), None),
    ] {
        assert_eq!(
            driver::respond(&space, function, request),
            invalid,
            "{request:?}"
        );
    }
    let bridge = found.get_mut(&address(0, 3, 0)).unwrap();
    let missing = Response::Error(ResponseError::NonexistentFeature(Feature::MsiX));
    for request in [
        Request::EnableFeature(Feature::MsiX),
        Request::FeatureInfo(Feature::MsiX),
        Request::SetFeature(SetFeature::MsiX {
            function_mask: Some(true),
        }),
    ] {
        assert_eq!(driver::respond(&space, bridge, request), missing);
    }
}

#[test]
fn a_driver_that_goes_leaves_a_quiet_device() {
    let space = machine();
    let mut found = scan::scan(&space);
    let function = found.get_mut(&address(1, 31, 0)).unwrap();
    driver::respond(&space, function, Request::EnableDevice);
    driver::respond(&space, function, Request::EnableFeature(Feature::MsiX));
    function.release(&space);
    let read = |offset| hal::pci::config::read(&space, function.address, offset);
    assert_eq!(read(COMMAND) & 0xffff, 3);
    assert_eq!(read(0x40), 0x0001_5011);
}

#[test]
fn firmware_tables_are_checked() {
    let mut table = vec![0; 44];
    let entry = |base: u64, first: u8, last: u8| {
        [&base.to_le_bytes()[..], &[0, 0, first, last, 0, 0, 0, 0]].concat()
    };
    table.extend(entry(0xb000_0000, 0, 255));
    table.extend(entry(0xb000_0001, 0, 255));
    table.extend(entry(0xc000_0000, 9, 3));
    table.extend([1, 2, 3]);
    let range = EcamRange {
        base: 0xb000_0000,
        segment: 0,
        first_bus: 0,
        last_bus: 255,
    };
    assert_eq!(mcfg::ranges(&table), [range]);
    assert_eq!(mcfg::ranges(&[]), []);
    assert_eq!(mcfg::ranges(&table[..50]), []);
}
