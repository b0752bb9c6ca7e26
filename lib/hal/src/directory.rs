//! Directories: the names that a scheme lists, read and written.

use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_DIRECTORY};
use syscall::dirent::{DirEntry, DirentBuf, DirentHeader, DirentKind};
use syscall::error::{EINVAL, EIO, Error, Result};

/// Bytes asked for at a time. The longest list of the upstream kernel (the free interrupts of a
/// processor, about 190 names) must fit whole: that kernel fails with `EINVAL` where a part would
/// do.
const BUFFER_BYTES: usize = 16 * 1024;

/// Offset of the opaque position in a record.
const NEXT_OFFSET: usize = 8;
/// Offset of the record's length in a record.
const LENGTH_OFFSET: usize = 16;

/// The names in a directory.
///
/// # Errors
/// Those of opening and listing it; `EIO` when the listing is malformed.
pub fn names(path: &str) -> Result<Vec<String>> {
    let file = Fd::open(path, O_CLOEXEC | O_DIRECTORY, 0)?;
    let mut buffer = alloc::vec![0; BUFFER_BYTES];
    let mut names = Vec::new();
    let mut position = 0;
    loop {
        let count = libredox::call::getdents(file.raw(), &mut buffer, position)?;
        let records = buffer.get(..count).ok_or(Error::new(EIO))?;
        match parse(records, &mut names).ok_or(Error::new(EIO))? {
            // A position that does not move on ends the list; otherwise the loop would never end.
            Some(next) if next != position => position = next,
            _ => return Ok(names),
        }
    }
}

/// Appends the names in `records` to `names` and returns the position after the last one. The
/// outer option is `None` when the records are malformed.
fn parse(mut records: &[u8], names: &mut Vec<String>) -> Option<Option<u64>> {
    let mut next = None;
    while !records.is_empty() {
        let position = records.get(NEXT_OFFSET..)?.first_chunk()?;
        let length = records.get(LENGTH_OFFSET..)?.first_chunk()?;
        let record = records.get(..usize::from(u16::from_le_bytes(*length)))?;
        let name = record.get(size_of::<DirentHeader>()..)?;
        // The name ends with a zero byte; more of them may fill the record up.
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        names.push(String::from_utf8_lossy(&name[..end]).into_owned());
        next = Some(u64::from_le_bytes(*position));
        records = &records[record.len()..];
    }
    Some(next)
}

/// Fills a directory listing with `entries` from index `opaque` on, as many as fit.
///
/// # Errors
/// `EINVAL` when not even one entry fits.
pub fn list_directory<'buf, 'name>(
    mut buf: DirentBuf<&'buf mut [u8]>,
    opaque: u64,
    entries: impl IntoIterator<Item = (&'name str, DirentKind)>,
) -> Result<DirentBuf<&'buf mut [u8]>> {
    let start = usize::try_from(opaque).map_err(|_| Error::new(EINVAL))?;
    let mut any = false;
    for (index, (name, kind)) in entries.into_iter().enumerate().skip(start) {
        let number = index as u64 + 1;
        match buf.entry(DirEntry {
            inode: number,
            next_opaque_id: number,
            name,
            kind,
        }) {
            Ok(()) => any = true,
            // Full: the caller asks again from the last entry it got.
            Err(_) if any => break,
            Err(error) => return Err(error),
        }
    }
    Ok(buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scheme_lists_is_read_back() {
        let listed = ["bsp", "cpu-00", "0000--00--1f.2", ""];
        let mut buffer = [0; 512];
        let entries = listed.map(|name| (name, DirentKind::Regular));
        let to = DirentBuf::new(&mut buffer[..], 19).unwrap();
        let count = list_directory(to, 0, entries).unwrap().finalize();
        let mut names = Vec::new();
        assert_eq!(parse(&buffer[..count], &mut names), Some(Some(4)));
        assert_eq!(names, listed);
    }

    #[test]
    fn malformed_records_are_refused() {
        let mut names = Vec::new();
        assert_eq!(parse(&[], &mut names), Some(None));
        for length in [1, 10, 18, 19, 40] {
            let mut record = [0_u8; 40];
            record[LENGTH_OFFSET] = 41;
            assert_eq!(parse(&record[..length], &mut names), None);
            record[LENGTH_OFFSET] = 3;
            assert_eq!(parse(&record[..length], &mut names), None);
        }
    }
}
