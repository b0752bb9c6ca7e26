//! The greeting, the first and only message of a disk's server: the size of the disk, and the
//! offset of its pages in the connection's registered address space.

use crate::disk::BLOCK;

/// First bytes of the greeting.
const MAGIC: [u8; 8] = *b"SCIFBLK1";

/// Largest disk, in bytes. It bounds what a driver allocates because of a server's greeting.
pub const MAX_BYTES: u64 = 1 << 30;

/// Bytes in a page.
const PAGE: u64 = hal::mem::PAGE as u64;

/// The greeting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Number of blocks of the disk.
    pub blocks: u64,
    /// Offset of its first page in the registered address space.
    pub offset: i64,
}

impl Hello {
    /// Bytes of a greeting: magic, bytes in a block (32 bits), zero (32 bits), number of blocks,
    /// offset; all little endian.
    pub const BYTES: usize = 32;

    /// Encodes the greeting as it is sent.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Decodes a greeting that was received, or says what is wrong with it.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, &'static str> {
        let word = |at: usize| {
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
            u64::from_le_bytes(word.copied().unwrap_or_default())
        };
        let hello = Self {
            blocks: word(16),
            offset: word(24) as i64,
        };
        if bytes[..8] != MAGIC {
            return Err("it is no disk");
        }
        if word(8) != BLOCK as u64 {
            return Err("its blocks have another size");
        }
        if hello.blocks == 0 || hello.blocks > MAX_BYTES / BLOCK as u64 {
            return Err("its size makes no sense");
        }
        if hello.offset < 0 || !(hello.offset as u64).is_multiple_of(PAGE) {
            return Err("its offset makes no sense");
        }
        Ok(hello)
    }

    /// Size of the disk in bytes.
    pub fn bytes(self) -> u64 {
        self.blocks * BLOCK as u64
    }

    /// Size of its pages in bytes.
    pub fn page_bytes(self) -> u64 {
        self.bytes().next_multiple_of(PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_survive_the_way() {
        let hello = Hello {
            blocks: 9,
            offset: 0x4000_0000_0000,
        };
        assert_eq!(Hello::parse(&hello.to_bytes()), Ok(hello));
        assert_eq!((hello.bytes(), hello.page_bytes()), (9 * 512, 8192));
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Hello {
            blocks: 8,
            offset: 4096,
        };
        let refused = |change: fn(&mut [u8; 32])| {
            let mut bytes = good.to_bytes();
            change(&mut bytes);
            Hello::parse(&bytes).is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|bytes| bytes[0] = 0));
        assert!(refused(|bytes| bytes[8] = 1));
        assert!(refused(|bytes| bytes[12] = 1));
        assert!(refused(|bytes| bytes[16] = 0));
        assert!(refused(|bytes| bytes[23] = 1));
        assert!(refused(|bytes| bytes[24] = 1));
        assert!(refused(|bytes| bytes[31] = 0x80));
        let largest = Hello {
            blocks: MAX_BYTES / 512,
            ..good
        };
        assert!(Hello::parse(&largest.to_bytes()).is_ok());
        let larger = Hello {
            blocks: MAX_BYTES / 512 + 1,
            ..good
        };
        assert!(Hello::parse(&larger.to_bytes()).is_err());
    }
}
