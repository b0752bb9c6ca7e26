//! From the loader's information to the kernel's own `KernelArgs`.

mod bootstrap;
mod entry;

use kernel_core::bootinfo::{self, BootInfo, ScreenInfo};
use kernel_core::memmap::{Kind, MemoryMap};

use crate::arch::framebuffer;
use crate::console;
use crate::mm::{self, paging, phys};
use crate::scheme;

pub use bootstrap::start as start_first_program;
use entry::LOADER_MULTIBOOT2;

/// The loader's information, in one form for all loaders (the counterpart of Redox's
/// `KernelArgs`). Addresses are physical.
pub struct KernelArgs {
    /// The memory map, in which memory in use is not free.
    pub areas: MemoryMap,
    /// Initfs image: first byte and length.
    pub initfs: (u64, u64),
    /// Command line: first byte and length.
    pub command_line: (u64, u64),
    /// ACPI root pointer structure.
    pub rsdp: Option<u64>,
    /// The screen, unchecked.
    pub screen: Option<ScreenInfo>,
    /// A free page below 1 MiB, in which other processors can start.
    pub start_page: Option<u64>,
}

/// No RAM below this is used: it holds firmware data, and vectors of processors that start.
const LOW_MEMORY: u64 = 1 << 20;
/// Real mode can reach memory below this.
const REAL_MODE_END: u64 = 0xA_0000;
/// Longest multiboot2 information that is accepted, in bytes.
const MAX_MULTIBOOT2: usize = 1 << 20;

/// Reads the loader's information. Panics with a message when the machine cannot be started with
/// it.
pub fn kernel_args(loader: u32, info: u32) -> KernelArgs {
    let info = u64::from(info);
    let read = |at: u64, len: u64| {
        // SAFETY: the loader's structures; nothing writes memory yet.
        unsafe { phys::bytes(usize::try_from(at).ok()?, usize::try_from(len).ok()?) }
    };
    let mut own: (u64, u64) = (info, bootinfo::PVH_SIZE);
    let boot: BootInfo = match loader {
        LOADER_MULTIBOOT2 => {
            let size = read(info, 4).expect("boot information is mapped");
            let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]);
            assert!(
                (8..MAX_MULTIBOOT2).contains(&(size as usize)),
                "multiboot2 information of {size} bytes at {info:#x} makes no sense"
            );
            own = (info, size.into());
            bootinfo::multiboot2(read(info, size.into()).expect("is below 4 GiB"), info)
        }
        _ => bootinfo::pvh(info, read).unwrap_or_else(|error| {
            panic!("PVH start information at {info:#x} is unusable: {error:?}")
        }),
    };
    // Find the screen first, so that problems with the rest can be seen.
    console::find_screen(boot.screen);
    log::info!("version {}", env!("CARGO_PKG_VERSION"));
    log::info!(
        "started by {}, {} areas in the memory map",
        match (loader, boot.uefi) {
            (LOADER_MULTIBOOT2, true) => "UEFI firmware and a multiboot2 loader",
            (LOADER_MULTIBOOT2, false) => "BIOS and a multiboot2 loader",
            _ => "a PVH loader",
        },
        boot.map.areas().len(),
    );
    let initfs = boot.initfs.filter(|&(_, size)| size > 0).unwrap_or_else(|| {
        panic!(
            "no initfs image: pass it with -initrd (QEMU) or module2 (GRUB); nothing can be started"
        )
    });
    let mut areas = boot.map;
    let (kernel, kernel_size) = paging::kernel_range();
    let command_line = boot.command_line.unwrap_or((0, 0));
    areas.push(kernel, kernel_size, Kind::Reclaim);
    areas.push(initfs.0, initfs.1, Kind::Reclaim);
    areas.push(own.0, own.1, Kind::Reclaim);
    areas.push(command_line.0, command_line.1, Kind::Reclaim);
    // Some firmware reports the screen's memory as free.
    if let Some(screen) = boot.screen.filter(|info| framebuffer::layout(info).is_ok()) {
        areas.push(screen.address, screen.bytes(), Kind::Reserved);
    }
    // Use neither the vectors of real mode nor its video memory.
    areas.push(0, mm::PAGE_SIZE as u64, Kind::Reserved);
    let start_page = areas.take(mm::PAGE_SIZE as u64, REAL_MODE_END);
    areas.push(0, LOW_MEMORY, Kind::Reserved);
    assert!(
        areas.ram_end(u64::MAX) > LOW_MEMORY,
        "the loader's memory map holds no RAM"
    );
    KernelArgs {
        areas,
        initfs,
        command_line,
        rsdp: boot.rsdp,
        screen: boot.screen,
        start_page,
    }
}

/// Builds page tables and the frame allocator from the map. From here on there is a heap.
pub fn init_memory(args: &mut KernelArgs) {
    let used = [paging::kernel_range(), args.initfs];
    // SAFETY: called once by `start`; everything in use was taken out of the map above.
    unsafe { mm::init(&mut args.areas, &used) };
    if args.areas.dropped > 0 {
        log::warn!("{} areas of the memory map did not fit", args.areas.dropped);
    }
    console::map_screen(args.screen);
    let stats = mm::frame::stats();
    let mib = |pages: usize| (pages * mm::PAGE_SIZE) >> 20;
    log::info!(
        "memory: {} MiB, {} MiB free",
        mib(stats.total),
        mib(stats.free)
    );
}

/// Turns the command line into the environment: its `KEY=value` words, one per line.
pub fn init_environment(args: &KernelArgs) {
    let (base, len) = args.command_line;
    let mut bytes = alloc::vec![0; len as usize];
    phys::read(base as usize, &mut bytes);
    let text = bootinfo::environment(&bytes);
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if key == "LOG" && !console::set_log_level(value) {
            log::warn!("LOG={value} is no level: off, error, warn, info, debug or trace");
        }
    }
    scheme::set_environment(text);
}
