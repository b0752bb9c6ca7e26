//! The parts of `scifblk` that need no machine: the greeting, block access, the scheme
//! `disk.scif`.
//!
//! A node that has memory to spare offers it as a disk (`scifblk serve`): pinned pages, registered
//! with every connection to [`PORT`]. The driver on another node (`scifblk attach`) connects,
//! receives the offset of the pages, gets their addresses (`scif_get_pages`) and maps them. From
//! then on each read or write of a block is a plain copy from or to the memory of that node, with
//! no daemon in between. Disks come and go with their nodes and servers.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod disk;
pub mod hello;
pub mod scheme;

/// The port on which disks are offered. Only root can bind it, so that only root offers disks.
pub const PORT: u16 = 95;

/// Name of the scheme.
pub const SCHEME: &str = "disk.scif";

/// Number of a node, which is also the name of its disk.
pub type Node = u16;

/// The number of bytes in a text: a number with an optional suffix `K` or `M`.
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("64K"), Some(64 << 10));
        assert_eq!(parse_size("3m"), Some(3 << 20));
        for bad in ["", "K", "-1", "1G", "99999999999999999M"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }
}
