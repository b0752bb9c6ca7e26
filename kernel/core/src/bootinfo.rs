//! Decodes the information of the two kinds of loaders: multiboot2 information and PVH start info.
//!
//! The loader is trusted as far as the machine is, but a malformed table must end in a message,
//! not in a wild read: all accesses are bounds-checked.

use crate::memmap::{Kind, MemoryMap};

/// A range of physical memory: first byte and length.
pub type Range = (u64, u64);

/// The loader's information, still in physical addresses.
#[derive(Clone, Debug, Default)]
pub struct BootInfo {
    /// Memory map as given, nothing reserved yet.
    pub map: MemoryMap,
    /// The initfs image.
    pub initfs: Option<Range>,
    /// The command line, without its terminating zero.
    pub command_line: Option<Range>,
    /// Physical address of the ACPI root pointer structure.
    pub rsdp: Option<u64>,
    /// The screen that the loader set up, unchecked (`screen::Layout::of` checks it).
    pub screen: Option<ScreenInfo>,
    /// Whether UEFI firmware started the machine.
    pub uefi: bool,
}

/// The screen as the loader describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenInfo {
    /// Physical address of the first pixel, or of the first character.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Pixels, or characters, of a row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Bits of a pixel, or of a character with its colours.
    pub bits: u8,
    /// The content of the memory.
    pub format: ScreenFormat,
}

impl ScreenInfo {
    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pitch) * u64::from(self.height)
    }

    /// Bytes of a pixel, or of a character with its colours.
    pub fn unit(&self) -> usize {
        usize::from(self.bits / 8)
    }
}

/// The content of a screen's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenFormat {
    /// Pixels: place and number of bits of red, green and blue.
    Rgb {
        /// Lowest bit of each.
        shift: [u8; 3],
        /// Bits of each.
        bits: [u8; 3],
    },
    /// Characters with colours, as in VGA text modes.
    Text,
    /// Another format, by the loader's number (0: colours from a table).
    Other(u8),
}

/// Why the information cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootInfoError {
    /// The structure does not start with its magic number.
    BadMagic,
    /// A part lies outside the memory that can be read.
    Unreadable(u64),
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// E820 type numbers, which both protocols use.
fn kind_of(e820: u32) -> Kind {
    match e820 {
        1 => Kind::Free,
        3 => Kind::Reclaim,
        _ => Kind::Reserved,
    }
}

/// An entry of UEFI's memory map (UEFI specification 2.10, section 7.2.3): type and attributes.
fn kind_of_uefi(memory_type: u32, attributes: u64) -> Kind {
    // Loader and boot services end when the kernel begins. The kernel itself reserves the parts of
    // the loader's memory that it still needs.
    const LOADER_AND_BOOT: core::ops::RangeInclusive<u32> = 1..=4;
    const CONVENTIONAL: u32 = 7;
    const ACPI_TABLES: u32 = 9;
    const WRITE_BACK: u64 = 1 << 3;
    const SPECIFIC_PURPOSE: u64 = 1 << 18;

    if attributes & WRITE_BACK == 0 || attributes & SPECIFIC_PURPOSE != 0 {
        return Kind::Reserved;
    }
    match memory_type {
        CONVENTIONAL => Kind::Free,
        kind if LOADER_AND_BOOT.contains(&kind) => Kind::Free,
        ACPI_TABLES => Kind::Reclaim,
        _ => Kind::Reserved,
    }
}

/// The map in a multiboot2 tag of UEFI's memory map.
fn uefi_map(tag: &[u8]) -> MemoryMap {
    const ENTRY: u32 = 40;
    const PAGE: u64 = crate::area::PAGE as u64;
    let mut map = MemoryMap::new();
    let step = u32_at(tag, 8).unwrap_or(0);
    if step < ENTRY {
        // The place of the entries is then unknown: use the loader's map instead.
        return map;
    }
    for entry in tag.get(16..).unwrap_or(&[]).chunks_exact(step as usize) {
        if let (Some(kind), Some(base), Some(pages), Some(attributes)) = (
            u32_at(entry, 0),
            u64_at(entry, 8),
            u64_at(entry, 24),
            u64_at(entry, 32),
        ) {
            let size = pages.saturating_mul(PAGE);
            map.push(base, size, kind_of_uefi(kind, attributes));
        }
    }
    map
}

/// A multiboot2 tag that describes the screen.
fn screen(tag: &[u8]) -> Option<ScreenInfo> {
    const RGB: u8 = 1;
    const TEXT: u8 = 2;
    let format = match *tag.get(29)? {
        RGB => {
            let color: &[u8; 6] = tag.get(32..38)?.try_into().ok()?;
            let [red, red_bits, green, green_bits, blue, blue_bits] = *color;
            ScreenFormat::Rgb {
                shift: [red, green, blue],
                bits: [red_bits, green_bits, blue_bits],
            }
        }
        TEXT => ScreenFormat::Text,
        other => ScreenFormat::Other(other),
    };
    Some(ScreenInfo {
        address: u64_at(tag, 8)?,
        pitch: u32_at(tag, 16)?,
        width: u32_at(tag, 20)?,
        height: u32_at(tag, 24)?,
        bits: *tag.get(28)?,
        format,
    })
}

/// Decodes multiboot2 information (`bytes` = the whole structure, loaded at physical `address`).
pub fn multiboot2(bytes: &[u8], address: u64) -> BootInfo {
    const TAG_END: u32 = 0;
    const TAG_COMMAND_LINE: u32 = 1;
    const TAG_MODULE: u32 = 3;
    const TAG_MEMORY_MAP: u32 = 6;
    const TAG_SCREEN: u32 = 8;
    const TAG_UEFI: u32 = 12;
    const TAG_RSDP_OLD: u32 = 14;
    const TAG_RSDP_NEW: u32 = 15;
    const TAG_UEFI_MEMORY_MAP: u32 = 17;

    let mut info = BootInfo::default();
    // The firmware's own map has more detail than the loader's version of it, and is preferred.
    let mut firmware_map = None;
    let mut at = 8;
    while let (Some(kind), Some(size)) = (u32_at(bytes, at), u32_at(bytes, at + 4)) {
        let size = size as usize;
        let Some(tag) = bytes.get(at..at.saturating_add(size)) else {
            break;
        };
        if kind == TAG_END || size < 8 {
            break;
        }
        match kind {
            TAG_COMMAND_LINE => {
                let text = &tag[8..];
                let len = text.iter().position(|&b| b == 0).unwrap_or(text.len());
                info.command_line = Some((address + at as u64 + 8, len as u64));
            }
            TAG_MODULE if info.initfs.is_none() => {
                if let (Some(start), Some(end)) = (u32_at(tag, 8), u32_at(tag, 12)) {
                    info.initfs = Some((start.into(), u64::from(end.saturating_sub(start))));
                }
            }
            TAG_MEMORY_MAP => {
                let step = u32_at(tag, 8).unwrap_or(0).max(24) as usize;
                for entry in tag.get(16..).unwrap_or(&[]).chunks_exact(step) {
                    if let (Some(base), Some(len), Some(kind)) =
                        (u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))
                    {
                        info.map.push(base, len, kind_of(kind));
                    }
                }
            }
            TAG_UEFI_MEMORY_MAP => firmware_map = Some(uefi_map(tag)),
            TAG_UEFI => info.uefi = true,
            TAG_SCREEN => info.screen = screen(tag),
            // The tag holds a copy of the structure; the newer one is preferred.
            TAG_RSDP_NEW => info.rsdp = Some(address + at as u64 + 8),
            TAG_RSDP_OLD if info.rsdp.is_none() => info.rsdp = Some(address + at as u64 + 8),
            _ => {}
        }
        at += (size + 7) & !7;
    }
    if let Some(map) = firmware_map.filter(|map| !map.areas().is_empty()) {
        info.map = map;
    }
    info
}

/// Bytes of the PVH start info structure, version 1.
pub const PVH_SIZE: u64 = 56;

/// Decodes PVH start info at physical `address`; `read` gives the bytes of a physical range.
///
/// # Errors
/// [`BootInfoError`]: the structure has another magic number, or `read` gives no bytes of a part.
pub fn pvh<'a>(
    address: u64,
    read: impl Fn(u64, u64) -> Option<&'a [u8]>,
) -> Result<BootInfo, BootInfoError> {
    const MAGIC: u32 = 0x336e_c578;
    const MAX_COMMAND_LINE: u64 = 4096;

    let get = |at: u64, len: u64| read(at, len).ok_or(BootInfoError::Unreadable(at));
    let start = get(address, PVH_SIZE)?;
    if u32_at(start, 0) != Some(MAGIC) {
        return Err(BootInfoError::BadMagic);
    }
    let word = |at| u64_at(start, at).unwrap_or(0);
    let version = u32_at(start, 4).unwrap_or(0);
    let modules = u32_at(start, 12).unwrap_or(0);
    let mut info = BootInfo::default();
    if modules > 0 {
        let first = get(word(16), 32)?;
        if let (Some(base), Some(size)) = (u64_at(first, 0), u64_at(first, 8)) {
            info.initfs = Some((base, size));
        }
    }
    if word(24) != 0 {
        let mut len = 0;
        while len < MAX_COMMAND_LINE && get(word(24) + len, 1)?[0] != 0 {
            len += 1;
        }
        info.command_line = Some((word(24), len));
    }
    if word(32) != 0 {
        info.rsdp = Some(word(32));
    }
    if version >= 1 {
        let entries = u64::from(u32_at(start, 48).unwrap_or(0));
        for i in 0..entries {
            let entry = get(word(40).saturating_add(i * 24), 24)?;
            if let (Some(base), Some(len), Some(kind)) =
                (u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))
            {
                info.map.push(base, len, kind_of(kind));
            }
        }
    }
    Ok(info)
}

/// Turns a command line into environment text: each `KEY=value` word becomes a line; other words
/// are left out. The text ends at bytes that are not UTF-8.
pub fn environment(command_line: &[u8]) -> alloc::string::String {
    let text = match core::str::from_utf8(command_line) {
        Ok(text) => text,
        Err(e) => core::str::from_utf8(&command_line[..e.valid_up_to()]).unwrap_or(""),
    };
    let mut env = alloc::string::String::new();
    for word in text.split_ascii_whitespace() {
        if word.split_once('=').is_some_and(|(key, _)| !key.is_empty()) {
            env.push_str(word);
            env.push('\n');
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
        out.extend(kind.to_le_bytes());
        out.extend((8 + body.len() as u32).to_le_bytes());
        out.extend(body);
        while !out.len().is_multiple_of(8) {
            out.push(0);
        }
    }

    fn e820(base: u64, len: u64, kind: u32) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(base.to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend([0; 4]);
        out
    }

    #[test]
    fn multiboot2_tags() {
        let mut bytes = vec![0; 8];
        tag(&mut bytes, 1, b"LOG=debug X=1\0");
        let mut module = 0x20_0000u32.to_le_bytes().to_vec();
        module.extend(0x20_3000u32.to_le_bytes());
        module.extend(b"initfs\0");
        tag(&mut bytes, 3, &module);
        let mut map = vec![24, 0, 0, 0, 0, 0, 0, 0];
        map.extend(e820(0, 0x9fc00, 1));
        map.extend(e820(0xf0000, 0x10000, 2));
        tag(&mut bytes, 6, &map);
        let old = bytes.len();
        tag(&mut bytes, 14, &[0; 20]);
        tag(&mut bytes, 0, &[]);
        let info = multiboot2(&bytes, 0x1_0000);
        assert_eq!(info.command_line, Some((0x1_0010, 13)));
        assert_eq!(info.initfs, Some((0x20_0000, 0x3000)));
        assert_eq!(info.rsdp, Some(0x1_0000 + old as u64 + 8));
        assert_eq!(info.map.areas().len(), 2);
        assert_eq!(info.map.areas()[1].kind, Kind::Reserved);
    }

    fn uefi_entry(kind: u32, base: u64, pages: u64, attributes: u64) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(kind.to_le_bytes());
        out.extend([0; 4]);
        out.extend(base.to_le_bytes());
        out.extend(0u64.to_le_bytes());
        out.extend(pages.to_le_bytes());
        out.extend(attributes.to_le_bytes());
        // Firmware may use longer entries than the specification defines.
        out.extend([0xFF; 8]);
        out
    }

    #[test]
    fn the_firmwares_own_map_wins() {
        const USUAL: u64 = 0xF;
        let mut bytes = vec![0; 8];
        let mut map = vec![24, 0, 0, 0, 0, 0, 0, 0];
        map.extend(e820(0, 1 << 30, 1));
        let mut uefi = vec![48, 0, 0, 0, 1, 0, 0, 0];
        for (kind, attributes) in [
            (7, USUAL),
            (4, USUAL),
            (9, USUAL),
            (10, USUAL),
            (6, USUAL | 1 << 63),
            (11, 1),
            (7, USUAL & !8),
            (7, USUAL | 1 << 18),
            (2, USUAL),
            (14, USUAL),
        ] {
            let base = (uefi.len() as u64) << 20;
            uefi.extend(uefi_entry(kind, base, 2, attributes));
        }
        // Twice in either order: the order of the tags does not matter.
        for order in [[6, 17], [17, 6]] {
            bytes.truncate(8);
            for kind in order {
                tag(&mut bytes, kind, if kind == 6 { &map } else { &uefi });
            }
            tag(&mut bytes, 12, &[0; 8]);
            tag(&mut bytes, 0, &[]);
            let info = multiboot2(&bytes, 0);
            assert!(info.uefi);
            let kinds: Vec<_> = info.map.areas().iter().map(|area| area.kind).collect();
            use Kind::*;
            assert_eq!(
                kinds,
                [
                    Free, Free, Reclaim, Reserved, Reserved, Reserved, Reserved, Reserved, Free,
                    Reserved
                ]
            );
            assert!(info.map.areas().iter().all(|area| area.size == 8192));
        }
    }

    #[test]
    fn a_firmware_map_of_short_entries_loses() {
        let mut bytes = vec![0; 8];
        let mut map = vec![24, 0, 0, 0, 0, 0, 0, 0];
        map.extend(e820(0, 1 << 30, 1));
        let mut uefi = vec![39, 0, 0, 0, 1, 0, 0, 0];
        (0..4).for_each(|i| uefi.extend(uefi_entry(7, i << 30, 2, 0xF)));
        tag(&mut bytes, 6, &map);
        tag(&mut bytes, 17, &uefi);
        let info = multiboot2(&bytes, 0);
        let sizes: Vec<_> = info.map.areas().iter().map(|area| area.size).collect();
        assert_eq!(sizes, [1 << 30]);
    }

    #[test]
    fn screens() {
        let mut body = 0xFD00_0000u64.to_le_bytes().to_vec();
        for number in [4096u32, 1024, 768] {
            body.extend(number.to_le_bytes());
        }
        body.extend([32, 1, 0, 0, 16, 8, 8, 8, 0, 8]);
        let decode = |body: &[u8]| {
            let mut bytes = vec![0; 8];
            tag(&mut bytes, 8, body);
            multiboot2(&bytes, 0).screen
        };
        let pixels = ScreenInfo {
            address: 0xFD00_0000,
            pitch: 4096,
            width: 1024,
            height: 768,
            bits: 32,
            format: ScreenFormat::Rgb {
                shift: [16, 8, 0],
                bits: [8; 3],
            },
        };
        assert_eq!(decode(&body), Some(pixels));
        for len in 0..body.len() {
            assert_eq!(decode(&body[..len]), None, "{len} bytes");
        }
        body[21] = 2;
        let text = decode(&body[..24]).unwrap();
        assert_eq!(text.format, ScreenFormat::Text);
        body[21] = 0;
        assert_eq!(decode(&body).unwrap().format, ScreenFormat::Other(0));
    }

    #[test]
    fn truncated_multiboot2_is_survived() {
        let mut bytes = vec![0; 8];
        tag(&mut bytes, 17, &[48, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0]);
        tag(&mut bytes, 6, &[24, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        tag(&mut bytes, 3, &[1, 2]);
        for len in 0..bytes.len() {
            let info = multiboot2(&bytes[..len], 0);
            assert!(info.map.areas().is_empty());
        }
        // A tag of size zero would loop for ever.
        assert!(multiboot2(&[0; 64], 0).initfs.is_none());
    }

    #[test]
    fn pvh_start_info() {
        let mut memory = vec![0u8; 4096];
        memory[0..4].copy_from_slice(&0x336e_c578u32.to_le_bytes());
        memory[4] = 1;
        memory[12] = 1;
        memory[16..24].copy_from_slice(&256u64.to_le_bytes());
        memory[24..32].copy_from_slice(&512u64.to_le_bytes());
        memory[32..40].copy_from_slice(&0xf0000u64.to_le_bytes());
        memory[40..48].copy_from_slice(&1024u64.to_le_bytes());
        memory[48] = 1;
        memory[256..264].copy_from_slice(&0x100_0000u64.to_le_bytes());
        memory[264..272].copy_from_slice(&0x2000u64.to_le_bytes());
        memory[512..516].copy_from_slice(b"A=b\0");
        memory[1024..1048].copy_from_slice(&e820(0x10_0000, 0x1000, 3));
        let read = |at: u64, len: u64| memory.get(at as usize..(at + len) as usize);
        let info = pvh(0, read).unwrap();
        assert_eq!(info.initfs, Some((0x100_0000, 0x2000)));
        assert_eq!(info.command_line, Some((512, 3)));
        assert_eq!(info.rsdp, Some(0xf0000));
        assert_eq!(info.map.areas()[0].kind, Kind::Reclaim);
        assert_eq!(pvh(8, read).unwrap_err(), BootInfoError::BadMagic);
        assert_eq!(
            pvh(4090, read).unwrap_err(),
            BootInfoError::Unreadable(4090)
        );
    }

    #[test]
    fn environment_lines() {
        assert_eq!(
            environment(b"  LOG=info quiet A=b=c =x \t B= "),
            "LOG=info\nA=b=c\nB=\n"
        );
        assert_eq!(environment(b"A=1 \xff B=2"), "A=1\n");
        assert_eq!(environment(b""), "");
    }
}
