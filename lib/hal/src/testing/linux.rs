//! Memory that Linux processes and machines share, for the benchmark programs that run on Linux:
//! the same physical memory as on our nodes, through Linux's interfaces.

#[allow(unused_extern_crates, reason = "the crate's own tests have it already")]
extern crate std;

use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};

use rustix::mm::{MapFlags, ProtFlags};

use crate::mem::PAGE;

/// Maps the first `bytes` bytes of a file (a memory file, or a PCI device's BAR in sysfs), shared,
/// readable and writable. The mapping lasts as long as the process.
///
/// # Errors
/// `InvalidInput` unless `bytes` is a positive number of whole pages inside the file; the system's
/// own.
pub fn map_file(file: &File, bytes: usize) -> Result<&'static [AtomicU64]> {
    let inside = bytes as u64 <= file.metadata()?.len();
    if bytes == 0 || !bytes.is_multiple_of(PAGE) || !inside {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place the system chooses touches no memory of this program.
    let start = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            bytes,
            rights,
            MapFlags::SHARED,
            file,
            0,
        )
    }?;
    // SAFETY: `bytes` bytes from a page boundary, never unmapped, and inside the file, which its
    // owner does not shrink; others change them only in ways an atomic integer allows.
    Ok(unsafe { core::slice::from_raw_parts(start.cast(), bytes / size_of::<AtomicU64>()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;
    use std::os::unix::fs::FileExt;

    fn file(bytes: u64) -> File {
        let path = std::env::temp_dir().join(std::format!(
            "skiff-map-file-{}-{bytes}",
            std::process::id()
        ));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn what_one_side_stores_the_other_reads() {
        let file = file(8192);
        let words = map_file(&file, 8192).unwrap();
        let again = map_file(&file, 4096).unwrap();
        assert_eq!((words.len(), again.len()), (1024, 512));
        words[511].store(0x0102_0304_0506_0708, Ordering::Relaxed);
        assert_eq!(again[511].load(Ordering::Relaxed), 0x0102_0304_0506_0708);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 511 * 8).unwrap();
        assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn what_lies_outside_the_file_is_not_mapped() {
        let file = file(4096);
        for bytes in [0, 100, 8192, usize::MAX - 4095] {
            assert!(map_file(&file, bytes).is_err(), "{bytes}");
        }
    }
}
