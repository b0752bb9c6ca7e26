//! Internet addresses of nodes. Node n is 10.0.0.(n+1), and the own node is 127.0.0.1 as well.
//! Ports are SCIF's.

use scif_abi::limits::MAX_NODE;

// Each node's number and one more fit into the last byte of an address.
const _: () = assert!(MAX_NODE < 255);

/// The network of the nodes' addresses; its last byte is 0.
const NETWORK: u32 = 0x0a00_0000;
/// `INADDR_ANY`.
pub const ANY: u32 = 0;
/// `INADDR_LOOPBACK`.
pub const LOOPBACK: u32 = 0x7f00_0001;

/// C's `AF_UNIX`.
pub const AF_UNIX: u16 = 1;
/// C's `AF_INET`.
pub const AF_INET: u16 = 2;
/// Bytes of C's `struct sockaddr_in`.
pub const SOCKADDR_BYTES: usize = 16;

/// An address and a port, in the host's byte order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Address {
    /// The Internet address.
    pub host: u32,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Encodes the address as C's `struct sockaddr_in`.
    pub fn to_bytes(self) -> [u8; SOCKADDR_BYTES] {
        let mut bytes = [0; SOCKADDR_BYTES];
        bytes[..2].copy_from_slice(&AF_INET.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.host.to_be_bytes());
        bytes
    }

    /// Decodes the family and the address of a `struct sockaddr_in`.
    pub fn from_bytes(bytes: &[u8; SOCKADDR_BYTES]) -> (u16, Self) {
        let [f0, f1, p0, p1, h0, h1, h2, h3, ..] = *bytes;
        let address = Self {
            host: u32::from_be_bytes([h0, h1, h2, h3]),
            port: u16::from_be_bytes([p0, p1]),
        };
        (u16::from_le_bytes([f0, f1]), address)
    }
}

/// Returns the address of a node.
pub fn of_node(node: u16) -> u32 {
    NETWORK + u32::from(node) + 1
}

/// Whether an address is in 127.0.0.0/8.
pub fn is_loopback(host: u32) -> bool {
    host >> 24 == 127
}

/// Returns the node that has an address; `None` if no node has.
pub fn node_of(host: u32, own: u16) -> Option<u16> {
    if host == ANY || is_loopback(host) {
        return Some(own);
    }
    let node = host.checked_sub(NETWORK + 1)?;
    u16::try_from(node).ok().filter(|node| *node <= MAX_NODE)
}

/// Returns the node of a name: `host`, `node3` or `card3`, or `localhost` and `skiff` for the own
/// node.
pub fn node_by_name(name: &str, own: u16) -> Option<u16> {
    match name {
        "localhost" | "skiff" => Some(own),
        _ => scif_abi::node_by_name(name),
    }
}

/// Returns the address of a name, or of an address written in digits.
pub fn by_name(name: &str, own: u16) -> Option<u32> {
    if let Some(host) = parse(name) {
        return Some(host);
    }
    match name {
        "localhost" => Some(LOOPBACK),
        _ => node_by_name(name, own).map(of_node),
    }
}

/// `inet_aton`. Takes one to four numbers, decimal, octal or hexadecimal; the last number fills
/// the remaining bytes.
pub fn parse(text: &str) -> Option<u32> {
    let parts: [Option<&str>; 5] = {
        let mut split = text.split('.');
        core::array::from_fn(|_| split.next())
    };
    let count = parts.iter().flatten().count();
    if count > 4 {
        return None;
    }
    let mut host = 0;
    for (index, part) in parts.iter().flatten().enumerate() {
        let value = number(part)?;
        let is_last = index + 1 == count;
        let bits = if is_last { 32 - 8 * index as u32 } else { 8 };
        if bits < 32 && value >> bits != 0 {
            return None;
        }
        let shift = if is_last { 0 } else { 24 - 8 * index as u32 };
        host |= value << shift;
    }
    Some(host)
}

/// Parses a number as C writes it.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// `inet_pton`. Takes four decimal numbers without leading zeros.
pub fn parse_strictly(text: &str) -> Option<u32> {
    let mut host = 0;
    let mut count = 0;
    for part in text.split('.') {
        let is_digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = part == "0" || !part.starts_with('0');
        let byte: u8 = part.parse().ok().filter(|_| is_digits && is_plain)?;
        host = host << 8 | u32::from(byte);
        count += 1;
    }
    (count == 4).then_some(host)
}

/// Bytes of the longest text of an address, with the zero byte at its end.
pub const TEXT_BYTES: usize = 16;

/// Formats an address as four decimal numbers with a zero byte after them. Also returns the length
/// of the text without that byte.
pub fn format(host: u32) -> ([u8; TEXT_BYTES], usize) {
    let mut text = [0; TEXT_BYTES];
    let mut length = 0;
    for (index, byte) in host.to_be_bytes().into_iter().enumerate() {
        if index > 0 {
            text[length] = b'.';
            length += 1;
        }
        for power in [100, 10, 1] {
            if byte >= power || power == 1 {
                text[length] = b'0' + byte / power % 10;
                length += 1;
            }
        }
    }
    (text, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_sockaddr_in() {
        let address = Address {
            host: of_node(3),
            port: 0x1234,
        };
        let bytes = address.to_bytes();
        let expected = [2, 0, 0x12, 0x34, 10, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes, expected);
        assert_eq!(Address::from_bytes(&bytes), (AF_INET, address));
    }

    #[test]
    fn nodes_have_one_address_each() {
        for node in [0, 1, 127, 128] {
            assert_eq!(node_of(of_node(node), 9), Some(node));
        }
        assert_eq!(node_of(ANY, 9), Some(9));
        assert_eq!(node_of(LOOPBACK, 9), Some(9));
        assert_eq!(node_of(0x7f01_0203, 9), Some(9));
        for foreign in [0x0a00_0000, 0x0a00_0082, 0x0a00_0101, 0x0909_0909, u32::MAX] {
            assert_eq!(node_of(foreign, 9), None, "{foreign:#x}");
        }
    }

    #[test]
    fn names_mean_nodes() {
        assert_eq!(by_name("host", 2), Some(0x0a00_0001));
        assert_eq!(by_name("node0", 2), Some(0x0a00_0001));
        assert_eq!(by_name("node128", 2), Some(0x0a00_0081));
        assert_eq!(by_name("card3", 2), Some(0x0a00_0004));
        assert_eq!(by_name("localhost", 2), Some(LOOPBACK));
        assert_eq!(by_name("skiff", 2), Some(0x0a00_0003));
        assert_eq!(by_name("10.0.0.7", 2), Some(0x0a00_0007));
        for unknown in [
            "", "node", "node129", "node01", "node+1", "Node1", "hosts", "node-1",
        ] {
            assert_eq!(by_name(unknown, 2), None, "{unknown}");
        }
    }

    #[test]
    fn texts_of_addresses_are_those_of_inet_aton() {
        let good = [
            ("127.0.0.1", 0x7f00_0001),
            ("127.1", 0x7f00_0001),
            ("0x7f.0.1", 0x7f00_0001),
            ("010.0.0.1", 0x0800_0001),
            ("2130706433", 0x7f00_0001),
            ("255.255.255.255", u32::MAX),
            ("0", 0),
            ("1.65535", 0x0100_ffff),
        ];
        for (text, host) in good {
            assert_eq!(parse(text), Some(host), "{text}");
        }
        let bad = [
            "",
            ".",
            "1.",
            ".1",
            "1.2.3.4.5",
            "256.0.0.1",
            "1.2.3.256",
            "1.16777216",
            "08",
            "x",
            "4294967296",
            "1 ",
            "+1",
            "-1",
            "0x",
            "1..2",
            "1.2.3.4.",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn texts_of_addresses_are_those_of_inet_pton() {
        assert_eq!(parse_strictly("10.0.0.1"), Some(0x0a00_0001));
        for text in [
            "10.0.1",
            "010.0.0.1",
            "10.0.0.256",
            "10.0.0.1.2",
            "",
            "10.0.0.",
            "10.0.0.+1",
        ] {
            assert_eq!(parse_strictly(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_become_texts() {
        for (host, expected) in [
            (0, "0.0.0.0"),
            (0x0a00_0001, "10.0.0.1"),
            (0x647f_c80a, "100.127.200.10"),
            (u32::MAX, "255.255.255.255"),
        ] {
            let (text, length) = format(host);
            assert_eq!(&text[..length], expected.as_bytes());
            assert_eq!(text.get(length), Some(&0));
        }
    }
}
