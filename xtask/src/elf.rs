//! Reads an ELF64 executable: removes its symbols, or lays out its segments as the flat image that
//! they form in memory.
//!
//! It does only what the packer needs. Nothing in an image reads symbols; and no loader runs
//! before the bootstrap program, so its segments are placed in the image beforehand, zero data
//! included.

use harness::base::report::Result;

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const TYPE_EXECUTABLE: u16 = 2;
const MACHINE_X86_64: u16 = 62;
const SEGMENT_LOAD: u32 = 1;
/// Most bytes of a bootstrap program, which has some hundred KiB; more are a linking mistake (a
/// stray high address).
const MAX_FLAT_BYTES: u64 = 64 << 20;

/// A program in the form that it has in memory.
#[derive(Debug)]
pub struct Flat {
    /// Virtual address of the first byte.
    pub base: u64,
    /// Virtual address where execution begins.
    pub entry: u64,
    /// Contents from `base`, zero data included.
    pub bytes: Vec<u8>,
}

struct Segment {
    file_offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

fn bytes_at<const N: usize>(file: &[u8], offset: usize) -> Result<[u8; N]> {
    let end = offset.checked_add(N);
    end.and_then(|end| file.get(offset..end))
        .and_then(|slice| slice.try_into().ok())
        .ok_or_else(|| format!("the file ends before offset {offset:#x}: is it complete?").into())
}

/// Reads a number at an offset of a file.
pub fn u16_at(file: &[u8], offset: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes_at(file, offset)?))
}

/// Reads a number at an offset of a file.
pub fn u32_at(file: &[u8], offset: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes_at(file, offset)?))
}

/// Reads a number at an offset of a file.
pub fn u64_at(file: &[u8], offset: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes_at(file, offset)?))
}

/// Returns an executable without the bytes after its segments: symbols and debug information.
pub fn without_symbols(file: &[u8]) -> Result<Vec<u8>> {
    let mut end = HEADER_BYTES;
    for header in program_headers(file)? {
        let (offset, bytes) = (u64_at(file, header + 8)?, u64_at(file, header + 32)?);
        let segment_end = usize::try_from(offset.saturating_add(bytes)).unwrap_or(usize::MAX);
        end = end.max(header + PROGRAM_HEADER_BYTES).max(segment_end);
    }
    let kept = file.get(..end);
    let mut kept = kept.ok_or("a segment lies outside the file")?.to_vec();
    // There is no section table any more, so its offset, count and name index become 0.
    kept[40..48].fill(0);
    kept[60..64].fill(0);
    Ok(kept)
}

/// Lays out the loadable segments of an executable in one piece that begins at `base`.
pub fn flatten(file: &[u8], base: u64) -> Result<Flat> {
    if bytes_at::<6>(file, 0)? != *b"\x7fELF\x02\x01" {
        return Err("not a 64-bit little-endian ELF file".into());
    }
    let (kind, machine) = (u16_at(file, 16)?, u16_at(file, 18)?);
    if (kind, machine) != (TYPE_EXECUTABLE, MACHINE_X86_64) {
        return Err(format!(
            "ELF type {kind}, machine {machine}: need a static executable (2) for x86-64 (62)"
        )
        .into());
    }
    let entry = u64_at(file, 24)?;
    let segments = load_segments(file)?;
    let end = segments
        .iter()
        .map(|s| s.address.saturating_add(s.memory_bytes))
        .max();
    let (Some(end), Some(low)) = (end, segments.iter().map(|s| s.address).min()) else {
        return Err("no loadable segment".into());
    };
    if low < base || end - base > MAX_FLAT_BYTES {
        return Err(format!(
            "segments from {low:#x} to {end:#x}: must start at {base:#x} or above and be small; \
             check the linker script"
        )
        .into());
    }
    if !segments
        .iter()
        .any(|s| (s.address..s.address + s.file_bytes).contains(&entry))
    {
        return Err(format!("the entry {entry:#x} lies in no segment").into());
    }
    let mut bytes = vec![0; (end - base) as usize];
    for segment in &segments {
        let from = segment.file_offset as usize;
        let content = from
            .checked_add(segment.file_bytes as usize)
            .and_then(|to| file.get(from..to))
            .ok_or_else(|| format!("segment at {:#x} lies outside the file", segment.address))?;
        let to = (segment.address - base) as usize;
        bytes[to..to + content.len()].copy_from_slice(content);
    }
    Ok(Flat { base, entry, bytes })
}

/// The offsets of the program headers.
fn program_headers(file: &[u8]) -> Result<Vec<usize>> {
    let table = u64_at(file, 32)? as usize;
    let (entry_bytes, count) = (u16_at(file, 54)? as usize, u16_at(file, 56)? as usize);
    if entry_bytes != PROGRAM_HEADER_BYTES || table < HEADER_BYTES {
        return Err(
            format!("program headers of {entry_bytes} bytes at {table:#x}: damaged").into(),
        );
    }
    let place = |index| table.saturating_add(index * PROGRAM_HEADER_BYTES);
    Ok((0..count).map(place).collect())
}

fn load_segments(file: &[u8]) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for at in program_headers(file)? {
        if u32_at(file, at)? != SEGMENT_LOAD {
            continue;
        }
        let segment = Segment {
            file_offset: u64_at(file, at + 8)?,
            address: u64_at(file, at + 16)?,
            file_bytes: u64_at(file, at + 32)?,
            memory_bytes: u64_at(file, at + 40)?,
        };
        if segment.memory_bytes < segment.file_bytes {
            return Err(format!("segment at {:#x} is damaged", segment.address).into());
        }
        if segment.memory_bytes > 0 {
            segments.push(segment);
        }
    }
    Ok(segments)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An executable with one segment: 4 bytes of code at `address`, 12 bytes of zero data.
    pub fn tiny(address: u64, entry: u64) -> Vec<u8> {
        let mut file = vec![0; HEADER_BYTES + PROGRAM_HEADER_BYTES];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16..18].copy_from_slice(&TYPE_EXECUTABLE.to_le_bytes());
        file[18..20].copy_from_slice(&MACHINE_X86_64.to_le_bytes());
        file[24..32].copy_from_slice(&entry.to_le_bytes());
        file[32..40].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
        file[54..56].copy_from_slice(&(PROGRAM_HEADER_BYTES as u16).to_le_bytes());
        file[56..58].copy_from_slice(&1u16.to_le_bytes());
        let header = HEADER_BYTES;
        file[header..header + 4].copy_from_slice(&SEGMENT_LOAD.to_le_bytes());
        file[header + 8..header + 16].copy_from_slice(&120u64.to_le_bytes());
        file[header + 16..header + 24].copy_from_slice(&address.to_le_bytes());
        file[header + 32..header + 40].copy_from_slice(&4u64.to_le_bytes());
        file[header + 40..header + 48].copy_from_slice(&16u64.to_le_bytes());
        file.extend_from_slice(b"code");
        file
    }

    #[test]
    fn zero_data_is_part_of_the_picture() {
        let flat = flatten(&tiny(0x2010, 0x2012), 0x2000).unwrap();
        assert_eq!(
            (flat.base, flat.entry, flat.bytes.len()),
            (0x2000, 0x2012, 0x20)
        );
        assert_eq!(&flat.bytes[0x10..0x18], b"code\0\0\0\0");
    }

    #[test]
    fn what_lies_behind_the_segments_is_taken_away() {
        let bare = tiny(0x2000, 0x2000);
        let mut file = bare.clone();
        file.extend_from_slice(b"symbols and a table of sections");
        file[40..48].copy_from_slice(&(bare.len() as u64).to_le_bytes());
        file[60..64].copy_from_slice(&[2, 0, 1, 0]);
        assert_eq!(without_symbols(&file).unwrap(), bare);
        assert_eq!(without_symbols(&bare).unwrap(), bare);
    }

    #[test]
    fn damage_is_an_error_not_a_panic() {
        let good = tiny(0x2000, 0x2000);
        for length in 0..good.len() {
            assert!(flatten(&good[..length], 0x2000).is_err(), "cut at {length}");
            assert!(without_symbols(&good[..length]).is_err(), "cut at {length}");
        }
        let mut far = good;
        far[HEADER_BYTES + 32..HEADER_BYTES + 40].fill(0xff);
        assert!(without_symbols(&far).is_err());
        assert!(flatten(&tiny(0x1000, 0x1000), 0x2000).is_err());
        assert!(flatten(&tiny(0x2000, 0x3000), 0x2000).is_err());
        assert!(flatten(&tiny(1 << 60, 1 << 60), 0x2000).is_err());
        assert!(flatten(&tiny(u64::MAX - 2, u64::MAX - 2), 0x2000).is_err());
    }
}
