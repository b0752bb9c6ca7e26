//! The files that are loaded into a card: the kernel of its system, an initial RAM disk and a
//! command line (as in `drivers/misc/mic/host/mic_x100.c` of Linux 4.x). All are checked before
//! the first byte is written to the card.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use hal::aperture::Aperture;
use hal::mem::BoundsError;

use super::registers::DOWNLOAD_ADDRESS;

/// Most bytes of a command line, with the zero byte at its end.
pub const MAX_COMMAND_LINE: usize = 2048;
/// The highest load address that is accepted: a higher one counts as a mistake of the firmware.
const MAX_LOAD_ADDRESS: u64 = 1 << 31;
/// Bytes written in one iteration of the driver's loop, during which everything else waits.
const PIECE: usize = 1 << 20;
/// The end of the addresses and sizes that the card can be given, which have 32 bits.
const REACH: u64 = 1 << 32;

/// Offsets in the header of an x86 kernel image (the boot protocol of Linux).
const AT_SETUP_SECTORS: usize = 0x1f1;
const AT_PARAGRAPHS: usize = 0x1f4;
const AT_BOOT_FLAG: usize = 0x1fe;
const AT_SIGNATURE: usize = 0x202;
/// Offset of the RAM disk's address in the loaded image's header.
pub const AT_RAM_DISK: usize = 0x218;
/// Offset of the RAM disk's size in that header.
pub const AT_RAM_DISK_BYTES: usize = 0x21c;
const BOOT_FLAG: u16 = 0xaa55;
const SIGNATURE: &[u8] = b"HdrS";
const SECTOR: u64 = 512;
const PARAGRAPH: u64 = 16;
/// The number of sectors that 0 stands for.
const DEFAULT_SECTORS: u64 = 4;

/// The files for one boot.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The kernel.
    pub kernel: Vec<u8>,
    /// The RAM disk, which may be empty.
    pub ram_disk: Vec<u8>,
    /// The command line, without what the driver adds.
    pub command_line: String,
}

/// Why files cannot be loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// The kernel file is no kernel image.
    NoKernel,
    /// The kernel file ends early: bytes in the file, and bytes according to its header.
    Truncated(u64, u64),
    /// The load address in SCRATCH2 is impossible.
    LoadAddress(u64),
    /// The end of the last file in the card's memory, and the limit for it.
    TooLarge(u64, u64),
    /// The end of the kernel, and the address at which the RAM disk has to begin.
    Overlap(u64, u64),
    /// The command line is too long: its length in bytes.
    CommandLine(usize),
}

impl core::fmt::Display for Unfit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Unfit::NoKernel => f.write_str("the uOS file is no x86 kernel image: no boot header"),
            Unfit::Truncated(there, declared) => write!(
                f,
                "the uOS file is truncated: it has {there} bytes and {declared} by its header"
            ),
            Unfit::LoadAddress(address) => write!(
                f,
                "SCRATCH2 (BAR 4 + 0x1ab28) gives the load address {address:#x}, which cannot be"
            ),
            Unfit::TooLarge(end, limit) => write!(
                f,
                "uOS and RAM disk would end at {end:#x} of the card's memory, and must end at \
                 {limit:#x} at the latest"
            ),
            Unfit::Overlap(end, disk) => write!(
                f,
                "uOS and command line end at {end:#x} of the card's memory, behind {disk:#x}, \
                 where the RAM disk begins"
            ),
            Unfit::CommandLine(bytes) => write!(
                f,
                "the command line has {bytes} bytes, of at most {MAX_COMMAND_LINE}"
            ),
        }
    }
}

/// The addresses to which everything is loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// Address of the kernel.
    pub load: u64,
    /// The command line: its address and its bytes.
    pub command_line: (u64, Vec<u8>),
    /// Address of the RAM disk; `None` without one.
    pub ram_disk: Option<u64>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The length of a kernel image according to its header, in bytes.
fn declared_bytes(kernel: &[u8]) -> Option<u64> {
    let flag = u16::from_le_bytes(number(kernel, AT_BOOT_FLAG)?);
    let signature: [u8; 4] = number(kernel, AT_SIGNATURE)?;
    if flag != BOOT_FLAG || signature != SIGNATURE {
        return None;
    }
    let [sectors] = number(kernel, AT_SETUP_SECTORS)?;
    let sectors = match u64::from(sectors) {
        0 => DEFAULT_SECTORS,
        sectors => sectors,
    };
    let paragraphs = u32::from_le_bytes(number(kernel, AT_PARAGRAPHS)?);
    Some((sectors + 1) * SECTOR + u64::from(paragraphs) * PARAGRAPH)
}

impl Files {
    /// The addresses to load the files to, in a card with `card_bytes` bytes whose bootstrap has
    /// the value `download` in SCRATCH2.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn plan(&self, download: u32, card_bytes: u64) -> Result<Plan, Unfit> {
        let there = self.kernel.len() as u64;
        let declared = declared_bytes(&self.kernel).ok_or(Unfit::NoKernel)?;
        if there < declared {
            return Err(Unfit::Truncated(there, declared));
        }
        let load = u64::from(download & DOWNLOAD_ADDRESS);
        if load == 0 || load > MAX_LOAD_ADDRESS {
            return Err(Unfit::LoadAddress(load));
        }
        let line = format!(" mem={}M {}\0", card_bytes >> 20, self.command_line);
        if line.len() > MAX_COMMAND_LINE {
            return Err(Unfit::CommandLine(line.len()));
        }
        let line_at = load + there;
        let kernel_end = line_at + line.len() as u64;
        let ram_disk = (!self.ram_disk.is_empty()).then_some(2 * load);
        let end = match ram_disk {
            Some(place) if kernel_end > place => return Err(Unfit::Overlap(kernel_end, place)),
            Some(place) => place + self.ram_disk.len() as u64,
            None => kernel_end,
        };
        let limit = card_bytes.min(REACH);
        if end > limit {
            return Err(Unfit::TooLarge(end, limit));
        }
        Ok(Plan {
            load,
            command_line: (line_at, line.into_bytes()),
            ram_disk,
        })
    }
}

/// Files that are being loaded into a card.
pub struct Loading {
    files: Rc<Files>,
    plan: Plan,
    /// Bytes of kernel, command line and RAM disk that are loaded.
    done: usize,
}

impl Loading {
    /// A load of which nothing is written yet.
    pub fn new(files: Rc<Files>, plan: Plan) -> Self {
        Self {
            files,
            plan,
            done: 0,
        }
    }

    /// Bytes of the kernel, as a number for the card's register.
    pub fn kernel_bytes(&self) -> u32 {
        // According to the plan the kernel ends below 4 GiB.
        self.files.kernel.len() as u32
    }

    /// Writes the next piece. Returns whether everything is loaded.
    ///
    /// # Errors
    /// When the plan is for another card.
    pub fn go_on(&mut self, aperture: &Aperture) -> Result<bool, BoundsError> {
        let (line_at, line) = &self.plan.command_line;
        let parts = [
            (self.plan.load, &self.files.kernel[..]),
            (*line_at, &line[..]),
            (self.plan.ram_disk.unwrap_or(0), &self.files.ram_disk[..]),
        ];
        let mut skip = self.done;
        for (place, bytes) in parts {
            let Some(rest) = bytes.get(skip..).filter(|rest| !rest.is_empty()) else {
                skip -= bytes.len();
                continue;
            };
            let piece = rest.get(..PIECE).unwrap_or(rest);
            aperture.write(place + skip as u64, piece)?;
            self.done += piece.len();
            return Ok(false);
        }
        if let Some(place) = self.plan.ram_disk {
            let header = |at: usize| aperture.window(self.plan.load + at as u64, 4);
            let bytes = self.files.ram_disk.len() as u32;
            header(AT_RAM_DISK)?.write_bytes(0, &(place as u32).to_le_bytes())?;
            header(AT_RAM_DISK_BYTES)?.write_bytes(0, &bytes.to_le_bytes())?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn kernel(bytes: usize) -> Vec<u8> {
        let mut kernel = vec![7; bytes];
        kernel[AT_SETUP_SECTORS] = 3;
        let paragraphs = (bytes as u32 - 4 * 512) / 16;
        kernel[AT_PARAGRAPHS..][..4].copy_from_slice(&paragraphs.to_le_bytes());
        kernel[AT_BOOT_FLAG..][..2].copy_from_slice(&BOOT_FLAG.to_le_bytes());
        kernel[AT_SIGNATURE..][..4].copy_from_slice(SIGNATURE);
        kernel
    }

    fn files() -> Files {
        Files {
            kernel: kernel(0x4000),
            ram_disk: vec![9; 0x800],
            command_line: "quiet".into(),
        }
    }

    const LOAD: u32 = 0x10_0000;

    #[test]
    fn files_go_where_the_bootstrap_wants_them() {
        let plan = files().plan(LOAD | 1, 4 << 20).unwrap();
        assert_eq!((plan.load, plan.ram_disk), (0x10_0000, Some(0x20_0000)));
        assert_eq!(plan.command_line.0, 0x10_4000);
        assert_eq!(plan.command_line.1, b" mem=4M quiet\0");
        let memory = hal::mem::Region::heap(4 << 20);
        let aperture = Aperture::new(memory.clone(), 0);
        let mut loading = Loading::new(Rc::new(files()), plan);
        while !loading.go_on(&aperture).unwrap() {}
        assert_eq!(memory.read::<u32>(0x10_0000 + AT_RAM_DISK), Ok(0x20_0000));
        assert_eq!(memory.read::<u32>(0x10_0000 + AT_RAM_DISK_BYTES), Ok(0x800));
        assert_eq!(memory.read::<u8>(0x20_07ff), Ok(9));
        assert_eq!(memory.read::<u8>(0x10_4000), Ok(b' '));
    }

    #[test]
    fn bad_files_and_addresses_are_refused() {
        let card = 4 << 20;
        let mut short = files();
        short.kernel.truncate(0x3fff);
        assert_eq!(
            short.plan(LOAD, card),
            Err(Unfit::Truncated(0x3fff, 0x4000))
        );
        short.kernel.truncate(0x204);
        assert_eq!(short.plan(LOAD, card), Err(Unfit::NoKernel));
        assert_eq!(files().plan(1, card), Err(Unfit::LoadAddress(0)));
        let high = files().plan(0x9000_0000, card);
        assert_eq!(high, Err(Unfit::LoadAddress(0x9000_0000)));
        assert!(matches!(
            files().plan(LOAD, 2 << 20),
            Err(Unfit::TooLarge(..))
        ));
        // The address of the RAM disk has 32 bits.
        let high = files().plan(0x8000_0001, 8 << 30);
        assert_eq!(high, Err(Unfit::TooLarge(REACH + 0x800, REACH)));
        // A kernel that reaches into its RAM disk.
        let overlap = files().plan(0x3000, card);
        assert!(matches!(overlap, Err(Unfit::Overlap(_, 0x6000))));
        let mut long = files();
        long.command_line = "x".repeat(MAX_COMMAND_LINE);
        assert!(matches!(long.plan(LOAD, card), Err(Unfit::CommandLine(_))));
    }
}
