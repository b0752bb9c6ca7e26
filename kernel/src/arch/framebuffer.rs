//! The memory of the screen: letters as pixels, or as characters of a VGA text mode.
//!
//! The loader says where it is. Until the kernel has its own page tables it is reached through the
//! boot's, if it lies below 4 GiB; then through a map of its own that gathers stores.

use kernel_core::bootinfo::{ScreenFormat, ScreenInfo};
use kernel_core::screen::{Cell, LETTER_HEIGHT, LETTER_WIDTH, Layout, is_lit};
use spin::Once;

use crate::mm::{phys, screen};

/// A screen that can be written.
#[derive(Clone, Copy, Debug)]
pub struct Framebuffer {
    /// Kernel address of the first pixel or character.
    base: usize,
    info: ScreenInfo,
    layout: Layout,
}

/// Red, green and blue of the colours of terminals.
const PALETTE: [[u8; 3]; 16] = [
    [0x00, 0x00, 0x00],
    [0xCC, 0x33, 0x33],
    [0x33, 0xAA, 0x33],
    [0xBB, 0x88, 0x22],
    [0x44, 0x66, 0xCC],
    [0xAA, 0x44, 0xAA],
    [0x33, 0xAA, 0xAA],
    [0xCC, 0xCC, 0xCC],
    [0x77, 0x77, 0x77],
    [0xFF, 0x66, 0x66],
    [0x66, 0xFF, 0x66],
    [0xFF, 0xEE, 0x66],
    [0x77, 0x99, 0xFF],
    [0xFF, 0x77, 0xFF],
    [0x66, 0xFF, 0xFF],
    [0xFF, 0xFF, 0xFF],
];
const BLACK: usize = 0;
/// VGA's attributes have red and blue in each other's place.
const VGA_COLORS: [u8; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

static EARLY: Once<Framebuffer> = Once::new();
static MAPPED: Once<Framebuffer> = Once::new();

/// The screen, as soon as it can be written. Takes no lock.
pub fn get() -> Option<Framebuffer> {
    MAPPED.get().or_else(|| EARLY.get()).copied()
}

/// Takes the loader's screen, on the boot page tables, and clears it. `layout` is what
/// `Layout::of` makes of `info`.
pub fn init_early(info: ScreenInfo, layout: Layout) {
    let bytes = info.pitch as usize * info.height as usize;
    if phys::is_mapped(info.address as usize, bytes) {
        let screen = Framebuffer {
            base: phys::BASE + info.address as usize,
            info,
            layout,
        };
        EARLY.call_once(|| screen).clear();
    }
}

/// Maps the screen for good; to be called once, after the kernel's page tables were built and
/// before there is an address space. Returns whether it can be written now.
pub fn init_mapped(info: ScreenInfo, layout: Layout) -> bool {
    let bytes = info.pitch as usize * info.height as usize;
    if let Some(base) = screen::map(info.address as usize, bytes) {
        let screen = Framebuffer { base, info, layout };
        MAPPED.call_once(|| screen);
        if EARLY.get().is_none() {
            screen.clear();
        }
    }
    get().is_some()
}

impl Framebuffer {
    /// How text lies on it.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Shows a cell; nothing happens outside of the layout.
    pub fn put(&self, column: usize, row: usize, cell: Cell) {
        if column >= self.layout.columns || row >= self.layout.rows {
            return;
        }
        match self.info.format {
            ScreenFormat::Text => self.put_character(column, row, cell),
            _ => self.put_letter(column, row, cell),
        }
    }

    fn put_character(&self, column: usize, row: usize, cell: Cell) {
        let letter = match cell.letter {
            0 => b' ',
            letter @ 0x20..0x7F => letter,
            _ => b'?',
        };
        let color = cell.color & 8 | VGA_COLORS[usize::from(cell.color & 7)];
        let color = if cell.reversed { color << 4 } else { color };
        let at = row * self.info.pitch as usize + column * 2;
        self.store(at, u32::from(letter) | u32::from(color) << 8, 2);
    }

    fn put_letter(&self, column: usize, row: usize, cell: Cell) {
        let mut colors = [self.color(BLACK), self.color(usize::from(cell.color & 15))];
        if cell.reversed {
            colors.reverse();
        }
        let scale = self.layout.scale;
        let bytes = usize::from(self.info.bits / 8);
        for line in 0..LETTER_HEIGHT * scale {
            let y = row * LETTER_HEIGHT * scale + line;
            let mut at = y * self.info.pitch as usize + column * LETTER_WIDTH * scale * bytes;
            for dot in 0..LETTER_WIDTH {
                let lit = is_lit(cell.letter, dot, line / scale);
                for _ in 0..scale {
                    self.store(at, colors[usize::from(lit)], bytes);
                    at += bytes;
                }
            }
        }
    }

    fn color(&self, index: usize) -> u32 {
        let ScreenFormat::Rgb { shift, bits } = self.info.format else {
            return 0;
        };
        let parts = PALETTE[index].iter().zip(shift.iter().zip(bits));
        parts.fold(0, |pixel, (part, (shift, bits))| {
            pixel | (u32::from(*part) >> (8 - bits)) << shift
        })
    }

    fn clear(&self) {
        let end = self.info.pitch as usize * self.info.height as usize;
        let empty = match self.info.format {
            ScreenFormat::Text => u32::from(b' ') | 7 << 8,
            _ => self.color(BLACK),
        };
        let bytes = usize::from(self.info.bits / 8);
        for at in (0..=end - bytes).step_by(bytes) {
            self.store(at, empty, bytes);
        }
    }

    /// Stores the low `bytes` bytes of a pixel or character at an offset.
    fn store(&self, at: usize, value: u32, bytes: usize) {
        debug_assert!(at + bytes <= self.info.pitch as usize * self.info.height as usize);
        let place = (self.base + at) as *mut u8;
        // SAFETY: `base` begins the mapped memory of the screen, and `Layout::of` has checked that
        // all letters of the layout lie in its rows and all pixels on their boundaries; nobody
        // reads it.
        unsafe {
            match bytes {
                4 => place.cast::<u32>().write_volatile(value),
                2 => place.cast::<u16>().write_volatile(value as u16),
                _ => {
                    for (i, byte) in value.to_le_bytes().into_iter().take(bytes).enumerate() {
                        place.add(i).write_volatile(byte);
                    }
                }
            }
        }
    }
}
