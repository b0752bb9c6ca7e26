//! The memory of the screen: letters as pixels, or as characters of a VGA text mode.
//!
//! The loader says where it is. Until the kernel has its own page tables it is reached through the
//! boot's, if it lies below 4 GiB; then through a map of its own that gathers stores.

use kernel_core::bootinfo::ScreenInfo;
use kernel_core::screen::{self, Cell, Layout, Unusable};
use spin::Once;

use super::cpu;
use crate::mm::{self, phys};

/// A screen that can be written.
#[derive(Clone, Copy, Debug)]
pub struct Framebuffer {
    /// Kernel address of the first pixel or character.
    base: usize,
    info: ScreenInfo,
    layout: Layout,
}

static EARLY: Once<Framebuffer> = Once::new();
static MAPPED: Once<Framebuffer> = Once::new();

/// The screen, as soon as it can be written. Takes no lock.
pub fn get() -> Option<Framebuffer> {
    MAPPED.get().or_else(|| EARLY.get()).copied()
}

/// Checks the loader's description of the screen.
pub fn layout(info: &ScreenInfo) -> Result<Layout, Unusable> {
    Layout::of(info, cpu::physical_address_bits())
}

/// Uses the loader's screen through the boot page tables, and clears it. `layout` is the result of
/// `layout` for `info`.
pub fn init_early(info: ScreenInfo, layout: Layout) {
    if phys::is_mapped(info.address as usize, info.bytes() as usize) {
        let screen = Framebuffer {
            base: phys::BASE + info.address as usize,
            info,
            layout,
        };
        EARLY.call_once(|| screen).clear();
    }
}

/// Maps the screen for good. Call it once, after the kernel's page tables were built and before
/// the first address space. Returns whether the screen can be written now.
pub fn init_mapped(info: ScreenInfo, layout: Layout) -> bool {
    if let Some(base) = mm::screen::map(info.address as usize, info.bytes() as usize) {
        let screen = Framebuffer { base, info, layout };
        // Should that fault, the report must not use this mapping.
        if EARLY.get().is_none() {
            screen.clear();
        }
        MAPPED.call_once(|| screen);
    }
    get().is_some()
}

impl Framebuffer {
    /// The layout of text on the screen.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Shows a cell; no effect outside the layout. `flush` makes sure that it becomes visible.
    pub fn put(&self, column: usize, row: usize, cell: Cell) {
        screen::draw(&self.info, &self.layout, column, row, cell, |at, value| {
            self.store(at, value);
        });
    }

    /// Drains the stores: the processor gathers them, and a halted one keeps them.
    pub fn flush(&self) {
        // SAFETY: orders stores, nothing else.
        unsafe { core::arch::asm!("sfence", options(nostack, preserves_flags)) };
    }

    fn clear(&self) {
        let empty = screen::empty(&self.info);
        let end = self.info.bytes() as usize;
        let unit = self.info.unit();
        for at in (0..=end - unit).step_by(unit) {
            self.store(at, empty);
        }
    }

    /// Stores a pixel or character at an offset.
    fn store(&self, at: usize, value: u32) {
        let unit = self.info.unit();
        debug_assert!(at + unit <= self.info.bytes() as usize);
        let place = (self.base + at) as *mut u8;
        // SAFETY: `base` begins the mapped memory of the screen, and `Layout::of` has checked that
        // all letters of the layout lie in its rows and all pixels on their boundaries; nobody
        // reads it.
        unsafe {
            match unit {
                4 => place.cast::<u32>().write_volatile(value),
                2 => place.cast::<u16>().write_volatile(value as u16),
                _ => {
                    for (i, byte) in value.to_le_bytes().into_iter().take(unit).enumerate() {
                        place.add(i).write_volatile(byte);
                    }
                }
            }
        }
    }
}
