//! Reads static ELF programs: the parts of the file that a loader needs, all of it checked.

use alloc::vec::Vec;

use syscall::PAGE_SIZE;
use syscall::error::{EIO, ENOEXEC, Error, Result};
use syscall::flag::MapFlags;

/// A source that can be read at a position: an open file, or bytes in memory.
pub trait ReadAt {
    /// Fills `buffer` from `offset`; EIO if the source is shorter.
    fn read_at(&mut self, offset: usize, buffer: &mut [u8]) -> Result<()>;
}

impl ReadAt for &[u8] {
    fn read_at(&mut self, offset: usize, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len()).ok_or(Error::new(EIO))?;
        buffer.copy_from_slice(self.get(offset..end).ok_or(Error::new(EIO))?);
        Ok(())
    }
}

/// One part of the program in memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Address of the first byte that comes from the file.
    pub address: usize,
    /// Position of that byte in the file.
    pub offset: usize,
    /// Bytes that come from the file.
    pub file_size: usize,
    /// Bytes in memory; those beyond `file_size` are zero.
    pub memory_size: usize,
    /// Protection of the pages.
    pub protection: MapFlags,
}

impl Segment {
    /// Address of the first page, and size in whole pages.
    pub fn pages(&self) -> (usize, usize) {
        let start = self.address / PAGE_SIZE * PAGE_SIZE;
        let end = (self.address + self.memory_size).next_multiple_of(PAGE_SIZE);
        (start, end - start)
    }
}

/// A checked program.
#[derive(Debug)]
pub struct Program {
    /// Address of the first instruction.
    pub entry: usize,
    /// Address of the program headers in memory; 0 if no segment contains them.
    pub headers: usize,
    /// Number of program headers.
    pub header_count: usize,
    /// The segments; none is empty.
    pub segments: Vec<Segment>,
}

/// Size of one ELF64 program header.
pub const HEADER_SIZE: usize = 56;
/// More program headers than this are refused; static programs have about ten.
const MAX_HEADERS: usize = 64;
/// Programs must lie below this address, which leaves space for stack and heap.
const MAX_ADDRESS: usize = 0x0000_4000_0000_0000;

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn int(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn word(bytes: &[u8], at: usize) -> usize {
    int(bytes, at) as usize | (int(bytes, at + 4) as usize) << 32
}

/// Reads and checks the headers. ENOEXEC if it is no static x86-64 executable (ET_EXEC).
pub fn read(source: &mut dyn ReadAt) -> Result<Program> {
    let bad = || Error::new(ENOEXEC);
    let mut header = [0; 64];
    // A short file is not a program; other errors (a directory, a dead scheme) are returned.
    let short_is_bad = |error: Error| if error.errno == EIO { bad() } else { error };
    source.read_at(0, &mut header).map_err(short_is_bad)?;
    // Magic, 64 bit, little endian; type executable, machine x86-64.
    if header[..6] != [0x7F, b'E', b'L', b'F', 2, 1] || int(&header, 16) != 2 | 62 << 16 {
        return Err(bad());
    }
    let (position, size, count) = (word(&header, 32), half(&header, 54), half(&header, 56));
    if size != HEADER_SIZE || count == 0 || count > MAX_HEADERS {
        return Err(bad());
    }
    let mut table = alloc::vec![0; count * HEADER_SIZE];
    source.read_at(position, &mut table).map_err(short_is_bad)?;

    let mut program = Program {
        entry: word(&header, 24),
        headers: 0,
        header_count: count,
        segments: Vec::new(),
    };
    const PT_LOAD: u32 = 1;
    const PT_INTERP: u32 = 3;
    for entry in table.chunks_exact(HEADER_SIZE) {
        match int(entry, 0) {
            PT_LOAD => {}
            // A dynamic program needs an ELF interpreter, which does not exist here.
            PT_INTERP => return Err(bad()),
            _ => continue,
        }
        let flags = int(entry, 4);
        // Writable and executable at once is refused, as relibc does: execution wins.
        let mut protection = MapFlags::PROT_READ;
        if flags & 1 != 0 {
            protection |= MapFlags::PROT_EXEC;
        } else if flags & 2 != 0 {
            protection |= MapFlags::PROT_WRITE;
        }
        let segment = Segment {
            offset: word(entry, 8),
            address: word(entry, 16),
            file_size: word(entry, 32),
            memory_size: word(entry, 40),
            protection,
        };
        if segment.memory_size == 0 {
            continue;
        }
        let end = segment
            .address
            .checked_add(segment.memory_size)
            .ok_or_else(bad)?;
        if segment.file_size > segment.memory_size
            || segment.address < PAGE_SIZE
            || end > MAX_ADDRESS
            || segment.offset.checked_add(segment.file_size).is_none()
        {
            return Err(bad());
        }
        let table_end = position + table.len();
        if segment.offset <= position && table_end <= segment.offset + segment.file_size {
            program.headers = segment.address + (position - segment.offset);
        }
        program.segments.push(segment);
    }
    if program.segments.is_empty() {
        return Err(bad());
    }
    Ok(program)
}
