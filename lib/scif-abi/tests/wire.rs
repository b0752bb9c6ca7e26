//! The bytes on the wire, one by one, compared with docs/wire.md.

use std::collections::{BTreeMap, BTreeSet};

use scif_abi::PortId;
use scif_abi::codec::{Field, Layout, Operation as _};
use scif_abi::link::{
    Header, MAGIC, MIN_LINK_BYTES, Record, STATE_READY, VERSION, heartbeat_offset, record_offset,
};
use scif_abi::message::{Extensions, Message, NodeMessage};
use scif_abi::qp::{
    ARMED_QP_BYTES, BYTES_ARMED_OFFSET, QP_BYTES, QueuePair, ROOM_ARMED_OFFSET, RingDescriptor,
};
use scif_abi::window::{Lookup, WindowFill, WindowRecord};
use zerocopy::{FromBytes, IntoBytes};

const DOCUMENT: &str = include_str!("../../../docs/wire.md");

/// Name and bytes of each line.
fn golden(text: &str) -> BTreeMap<&str, Vec<u8>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, digits) = line.split_once(' ').unwrap();
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            let bytes = (0..digits.len()).step_by(2).map(byte).collect();
            (name, bytes)
        })
        .collect()
}

/// The cells of the rows of the tables in `text`.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|row| row.split('|').map(str::trim).collect())
}

/// A message of the document's table.
struct Row<'a> {
    opcode: u32,
    name: &'a str,
    variant: &'a str,
    /// Which payload words it has.
    words: [bool; 4],
}

fn message_rows() -> Vec<Row<'static>> {
    let rows = rows(DOCUMENT).filter_map(|cells| {
        let [opcode, name, variant, _, words @ ..] = &cells[..] else {
            return None;
        };
        Some(Row {
            opcode: opcode.parse().ok()?,
            name,
            variant: variant.trim_matches('`'),
            words: <[&str; 4]>::try_from(words).ok()?.map(|cell| cell != "–"),
        })
    });
    rows.collect()
}

#[test]
fn the_document_lists_every_message_with_its_words() {
    let documented = message_rows();
    let opcodes: BTreeSet<u32> = documented.iter().map(|row| row.opcode).collect();
    assert_eq!(opcodes.len(), documented.len(), "an opcode is listed twice");
    let known = (0..1000).filter(|opcode| NodeMessage::name(*opcode).is_some());
    assert_eq!(opcodes, known.collect());
    for row in documented {
        assert_eq!(NodeMessage::name(row.opcode), Some(row.variant));
        let all = NodeMessage::decode(row.opcode, [1, 2, 3, 4], &[]).unwrap();
        assert_eq!(all.words().map(|word| word != 0), row.words, "{}", row.name);
    }
}

#[test]
fn messages_have_the_mainline_bytes() {
    let golden = golden(include_str!("messages.golden"));
    let documented = message_rows();
    assert_eq!(golden.len(), documented.len());
    for row in documented {
        let words = [0, 1, 2, 3].map(|at| {
            let word = 0x1817_1615_1413_1211 + 0x1010_1010_1010_1010 * at;
            if row.words[at as usize] { word } else { 0 }
        });
        let body = NodeMessage::decode(row.opcode, words, &[]).unwrap();
        let message = Message::new(PortId::new(1, 0x0440), PortId::new(0, 0x07d0), body);
        assert_eq!(message.as_bytes(), golden[row.name], "{}", row.name);
        assert_eq!(Message::read_from_bytes(&golden[row.name]), Ok(message));
        assert_eq!(message.body(), Ok(body));
    }
}

/// A window structure as lent, with what its owner writes.
fn window() -> Vec<u8> {
    let (own, addresses, counts) = (
        0x5857_5655_5453_5251,
        0x3837_3635_3433_3231,
        0x4847_4645_4443_4241,
    );
    let mut bytes = WindowRecord::granted(0x201, own, addresses, counts)
        .as_bytes()
        .to_vec();
    let fill = WindowFill {
        chunks: 3,
        protection: 1,
        offset: 0x4000_0000_0000_1000,
        endpoint: 0x1817_1615_1413_1211,
        owner_window: 0x2827_2625_2423_2221,
    };
    for (offset, value) in fill.stores() {
        bytes[offset as usize..offset as usize + 8].copy_from_slice(&value);
    }
    bytes
}

#[test]
fn structures_have_the_mainline_bytes() {
    let queue_pair = QueuePair::new(
        0x2827_2625_2423_2221,
        0x1817_1615_1413_1211,
        0x1000,
        Extensions::WITHDRAW.to_word(),
    );
    let header = Header {
        magic: MAGIC.into(),
        version: VERSION.into(),
        nodes: [1.into(), 2.into()],
        down: 0.into(),
        reserved: [0; 44],
    };
    let record = Record {
        state: STATE_READY.into(),
        generation: 0x1112_1314.into(),
        peer_generation: 0x2122_2324.into(),
        doorbell: 0x3132_3334.into(),
        queue_pair: 0x4142_4344_4546_4748.into(),
        ram_bytes: 0x5152_5354_5556_5758.into(),
        reserved: [0; 32],
    };
    let structures = [
        ("Header", header.as_bytes().to_vec()),
        ("QueuePair", queue_pair.as_bytes().to_vec()),
        ("Record", record.as_bytes().to_vec()),
        ("WindowRecord", window()),
    ];
    let golden = golden(include_str!("structures.golden"));
    assert_eq!(golden.len(), structures.len());
    for (name, bytes) in structures {
        assert_eq!(bytes, golden[name], "{name}");
    }
}

#[test]
fn the_document_has_the_armed_words() {
    let (_, section) = DOCUMENT.split_once("\n### The armed words").unwrap();
    let section = section.split("\n#").next().unwrap();
    let words = [
        ("`bytes_armed`", BYTES_ARMED_OFFSET),
        ("`room_armed`", ROOM_ARMED_OFFSET),
    ];
    for (name, offset) in words {
        let row = rows(section).find(|cells| cells.get(2) == Some(&name));
        assert_eq!(row.unwrap()[..2], [&offset.to_string(), "4"], "{name}");
        assert!(offset as usize >= QP_BYTES && offset as usize + 4 <= ARMED_QP_BYTES);
    }
    let bits = [
        ("WITHDRAW", Extensions::WITHDRAW),
        ("ARMED", Extensions::ARMED),
        ("FINISH", Extensions::FINISH),
        ("STORED", Extensions::STORED),
    ];
    for (name, extension) in bits {
        let text = format!("`{name}` (bit {})", extension.bits().trailing_zeros());
        assert!(DOCUMENT.contains(&text), "{text}");
    }
}

#[test]
fn the_document_has_the_places_in_the_link_memory() {
    let (_, section) = DOCUMENT.split_once("\n## Links").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let least = format!("at least {MIN_LINK_BYTES} bytes");
    assert!(section.contains(&least), "{least}");
    let [first, second] = [0, 1].map(record_offset);
    let records = format!("### `Record` of one side, 64 bytes, at {first} and {second}\n");
    assert!(section.contains(&records), "{records}");
    let [first, second] = [0, 1].map(heartbeat_offset);
    let heartbeats = format!("### Heartbeats, 8 bytes each, at {first} and {second}\n");
    let (_, table) = section.split_once(&heartbeats).expect(&heartbeats);
    for side in [0, 1] {
        let offset = heartbeat_offset(side).to_string();
        let field = format!("`heartbeat` of side {side}");
        let wanted = [offset.as_str(), "8", field.as_str()];
        let found = rows(table).any(|cells| cells.starts_with(&wanted));
        assert!(found, "{wanted:?}");
    }
}

#[test]
fn the_document_has_every_field_of_the_structures() {
    let structures = [
        (PortId::NAME, PortId::FIELDS),
        (Message::NAME, Message::FIELDS),
        (QueuePair::NAME, QueuePair::FIELDS),
        (RingDescriptor::NAME, RingDescriptor::FIELDS),
        (WindowRecord::NAME, WindowRecord::FIELDS),
        (Lookup::NAME, Lookup::FIELDS),
        (Header::NAME, Header::FIELDS),
        (Record::NAME, Record::FIELDS),
    ];
    for (name, fields) in structures {
        let heading = format!("\n### `{name}`");
        let (_, section) = DOCUMENT.split_once(&heading).expect(name);
        let section = section.split("\n#").next().unwrap();
        let documented: Vec<_> = rows(section)
            .filter_map(|cells| {
                let [offset, bytes, field, ..] = &cells[..] else {
                    return None;
                };
                let (offset, bytes) = (offset.parse().ok()?, bytes.parse().ok()?);
                Some((offset, bytes, field.trim_matches('`')))
            })
            .collect();
        let row = |field: &Field| (field.offset, field.bytes, field.name);
        assert_eq!(
            documented,
            fields.iter().map(row).collect::<Vec<_>>(),
            "{name}"
        );
    }
}
