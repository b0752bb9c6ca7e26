//! The window structure, by which the owner of a window gives its page list to the other end, the
//! *user*. The layout is that of the mainline driver (`struct scif_window` on x86-64, which is
//! packed).
//!
//! The user lends a structure in its own memory (ALLOC_GNT). It holds the bus addresses of two
//! *lookup arrays*. Entry *i* of each is the bus address of table *i*, and each table has up to
//! [`TABLE_ENTRIES`] words: in the first kind the bus addresses of the window's *chunks*, in the
//! second their sizes in pages. The owner reads the structure and the lookup arrays, writes the
//! tables and then five fields ([`WindowFill`]). Everything else in the structure is private to
//! the user: zero here, and never written by the owner, because a mainline user keeps pointers
//! there.
//!
//! Neither side trusts anything in it before it has copied and checked it.

use syscall_derive::Layout;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::qp::QP_MAGIC;

/// Size of the structure in bytes.
pub const WINDOW_BYTES: usize = 242;

/// How many words fit in a table: one page of them, which describes 2 MiB if chunks are single
/// pages.
pub const TABLE_ENTRIES: usize = 512;

/// How many tables of each kind a window of `pages` pages needs at most. Each lookup array has
/// this number of entries.
pub const fn tables(pages: u64) -> u64 {
    pages.div_ceil(TABLE_ENTRIES as u64)
}

/// A reference to a lookup array (`struct scif_rma_lookup`).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 16, align = 1)]
#[repr(C)]
pub struct Lookup {
    /// The user's pointer to the array: zero in ours.
    #[layout(offset = 0)]
    pub private_pointer: U64,
    /// Bus address of the array; each entry is the bus address of a table.
    #[layout(offset = 8)]
    pub address: U64,
}

/// A window structure (`struct scif_window`).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 242, align = 1)]
#[repr(C)]
pub struct WindowRecord {
    /// Pages of the window; set by the user, taken from the ALLOC_REQ.
    #[layout(offset = 0)]
    pub pages: I64,
    /// Chunks in the tables; written by the owner.
    #[layout(offset = 8)]
    pub chunks: U32,
    /// [`Protection`](crate::flags::Protection); written by the owner.
    #[layout(offset = 12)]
    pub protection: U32,
    /// The user's reference count.
    #[layout(offset = 16)]
    pub private_references: U32,
    /// [`QP_MAGIC`]; set by the user.
    #[layout(offset = 20)]
    pub magic: U64,
    /// Registered offset; written by the owner.
    #[layout(offset = 28)]
    pub offset: I64,
    /// The address of a temporary window.
    #[layout(offset = 36)]
    pub private_address: U64,
    /// The mark of a temporary window.
    #[layout(offset = 44)]
    pub private_mark: U32,
    /// The user's endpoint id; written by the owner.
    #[layout(offset = 48)]
    pub endpoint: U64,
    /// List pointers.
    #[layout(offset = 56)]
    pub private_list: [U64; 2],
    /// The owner of a window: an enumeration of the mainline driver.
    #[layout(offset = 72)]
    pub private_kind: U32,
    /// The owner's id of the window; written by the owner.
    #[layout(offset = 76)]
    pub owner_window: U64,
    /// The state of unregistering.
    #[layout(offset = 84)]
    pub private_state: U32,
    /// Two flags.
    #[layout(offset = 88)]
    pub private_flags: [u8; 2],
    /// Two pointers.
    #[layout(offset = 90)]
    pub private_pointers: [U64; 2],
    /// The lookup array for the chunks' bus addresses; set by the user.
    #[layout(offset = 106)]
    pub addresses: Lookup,
    /// The lookup array for the chunks' sizes in pages; set by the user.
    #[layout(offset = 122)]
    pub counts: Lookup,
    /// Entries of each lookup array; set by the user.
    #[layout(offset = 138)]
    pub lookup_entries: U32,
    /// Padding.
    #[layout(offset = 142)]
    pub padding: [u8; 4],
    /// Bus address of this structure; set by the user.
    #[layout(offset = 146)]
    pub own: U64,
    /// The rest of a union of which only own windows use the other half.
    #[layout(offset = 154)]
    pub private_union: [u8; 72],
    /// The user's pointers to the tables.
    #[layout(offset = 226)]
    pub private_tables: [U64; 2],
}

impl WindowRecord {
    /// The structure to lend for a window of `pages` pages. It lies at bus address `own`, and its
    /// lookup arrays, of [`tables`] entries each, at the bus addresses `addresses` and `counts`.
    pub fn granted(pages: u32, own: u64, addresses: u64, counts: u64) -> WindowRecord {
        let mut record = WindowRecord::new_zeroed();
        record.pages = i64::from(pages).into();
        record.magic = QP_MAGIC.into();
        record.addresses.address = addresses.into();
        record.counts.address = counts.into();
        record.lookup_entries = pages.div_ceil(TABLE_ENTRIES as u32).into();
        record.own = own.into();
        record
    }
}

/// The fields that the owner writes into a structure granted to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFill {
    /// Chunks in the tables.
    pub chunks: u32,
    /// [`Protection`](crate::flags::Protection) bits.
    pub protection: u32,
    /// Registered offset.
    pub offset: i64,
    /// The user's endpoint id.
    pub endpoint: u64,
    /// The owner's id of the window.
    pub owner_window: u64,
}

impl WindowFill {
    /// The stores to make: the offset in the structure, and the bytes.
    pub fn stores(&self) -> [(u64, [u8; 8]); 4] {
        let both = u64::from(self.protection) << 32 | u64::from(self.chunks);
        [
            (8, both.to_le_bytes()),
            (28, self.offset.to_le_bytes()),
            (48, self.endpoint.to_le_bytes()),
            (76, self.owner_window.to_le_bytes()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{WindowFill, WindowRecord, tables};
    use zerocopy::{FromBytes, IntoBytes};

    #[test]
    fn a_granted_structure_has_the_mainline_layout() {
        let record = WindowRecord::granted(513, 0x1122_3344_5566_7788, 0xa0a1_a2a3, 0xb0b1_b2b3);
        let mut expected = [0; super::WINDOW_BYTES];
        expected[..2].copy_from_slice(&[0x01, 0x02]); // pages
        expected[20..28].copy_from_slice(&[0x1f, 0x5c, 0, 0, 0, 0, 0x1f, 0x5c]); // magic
        expected[114..118].copy_from_slice(&[0xa3, 0xa2, 0xa1, 0xa0]); // lookup of addresses
        expected[130..134].copy_from_slice(&[0xb3, 0xb2, 0xb1, 0xb0]); // lookup of counts
        expected[138] = 2; // entries of each
        let own = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
        expected[146..154].copy_from_slice(&own);
        assert_eq!(record.as_bytes(), expected);
    }

    #[test]
    fn stores_of_the_owner_hit_the_fields_that_are_its_and_no_others() {
        let lent = WindowRecord::granted(1, 2, 3, 4);
        let mut bytes = [0; super::WINDOW_BYTES];
        bytes.copy_from_slice(lent.as_bytes());
        let fill = WindowFill {
            chunks: 0x0102_0304,
            protection: 3,
            offset: -2,
            endpoint: 0x1111_2222_3333_4444,
            owner_window: 0x5555_6666_7777_8888,
        };
        for (offset, value) in fill.stores() {
            bytes[offset as usize..offset as usize + 8].copy_from_slice(&value);
        }
        let mut expected = lent;
        expected.chunks = 0x0102_0304.into();
        expected.protection = 3.into();
        expected.offset = (-2).into();
        expected.endpoint = 0x1111_2222_3333_4444.into();
        expected.owner_window = 0x5555_6666_7777_8888.into();
        assert_eq!(WindowRecord::read_from_bytes(&bytes), Ok(expected));
        assert_eq!(bytes[8..16], [4, 3, 2, 1, 3, 0, 0, 0]);
        assert_eq!(bytes[28..36], [0xfe, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(bytes[48..50], [0x44, 0x44]);
        assert_eq!(bytes[76..78], [0x88, 0x88]);
    }

    #[test]
    fn a_table_describes_512_chunks() {
        assert_eq!([1, 512, 513, 1 << 18].map(tables), [1, 1, 2, 512]);
    }
}
