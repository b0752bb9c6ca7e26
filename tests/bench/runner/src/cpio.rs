//! Writes the archive that a Linux kernel unpacks as its first file system: cpio in the "newc"
//! format, uncompressed, so that no boot time goes into unpacking.

/// Sections begin at multiples of this number of bytes.
const ALIGN: usize = 4;
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// The name of the entry that ends the archive.
const END: &str = "TRAILER!!!";

/// An archive in the making. All files are executable and belong to root.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds an empty directory.
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, &[]);
    }

    /// Adds a file. Its directory must have been added before.
    pub fn file(&mut self, name: &str, data: &[u8]) {
        self.entry(name, PROGRAM, data);
    }

    /// Returns the finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.entries += 1;
        let name_bytes = name.len() + 1;
        // Magic, then 13 numbers of eight hexadecimal digits: inode, mode, user, group, links,
        // time, size, device (two), device it stands for (two), bytes of the name, checksum.
        let (inode, size) = (self.entries, data.len());
        let head = format!(
            "070701{inode:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}{0:08x}{0:08x}\
             {0:08x}{0:08x}{name_bytes:08x}{0:08x}",
            0, 1
        );
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_the_end_is_marked() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("bin/x", b"12345");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|at| at % ALIGN == 0));
        // Inode 2, a program, one link, five bytes, a name of six.
        let second = &text[starts[1]..];
        assert_eq!(&second[6..14], "00000002");
        assert_eq!(&second[14..22], "000081ed");
        assert_eq!(&second[54..62], "00000005");
        assert_eq!(&second[94..102], "00000006");
        assert_eq!(&second[110..116], "bin/x\0");
        assert_eq!(&second[116..124], "12345\0\0\0");
        assert!(text[starts[2]..].contains(END));
    }
}
