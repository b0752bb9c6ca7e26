//! A firmware table and its name: signature, OEM id and OEM table id. The ids are in hexadecimal,
//! because firmware puts arbitrary bytes there.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of the header with which every table begins.
const HEADER_BYTES: usize = 36;

/// A table as the firmware wrote it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Table {
    /// Name of its file.
    pub name: String,
    /// Contents, header included.
    pub bytes: Vec<u8>,
}

impl Table {
    /// A table from its bytes; `None` when they are too few or the signature is no word.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let signature = core::str::from_utf8(&bytes[..4]).ok()?;
        if !signature
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return None;
        }
        let hex = |range: core::ops::Range<usize>| -> String {
            bytes[range]
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect()
        };
        let name = format!("{signature}-{}-{}", hex(10..16), hex(16..24));
        Some(Self { name, bytes })
    }
}

/// Keeps only the first of the tables with the same name.
pub fn unique(tables: impl IntoIterator<Item = Table>) -> Vec<Table> {
    let mut kept: Vec<Table> = Vec::new();
    for table in tables {
        if kept.iter().any(|other| other.name == table.name) {
            log::warn!("a second table named {} is left out", table.name);
        } else {
            kept.push(table);
        }
    }
    kept
}
