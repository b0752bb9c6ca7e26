//! Addresses with a path (`struct sockaddr_un`), and the files that stand for them.
//!
//! A socket with a path is a stream socket of the own node. The file at the path holds the number
//! of its port, one of [`PORTS`]. Any program can write such a file, so nothing relies on it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::ops::RangeInclusive;

use crate::address::AF_UNIX;
use crate::errors::number::{EINVAL, ENAMETOOLONG};

/// Bytes of the family, which the path follows.
const FAMILY_BYTES: usize = 2;
/// Bytes of C's `struct sockaddr_un`.
pub const SOCKADDR_UN_BYTES: usize = FAMILY_BYTES + 108;
/// The longest path: a zero byte follows it in the structure.
const MOST_PATH_BYTES: usize = 107;

/// The ports of sockets with a path and of `socketpair`. A program that has inherited an end of a
/// connection within its node knows by them that the end's family is `AF_UNIX`. A free one is
/// taken at random: a port that was given back soon would make a file, which remains after its
/// socket, the name of another socket.
pub const PORTS: RangeInclusive<u16> = 0xe000..=0xffff;

/// Returns one of [`PORTS`].
pub fn port_of(random: u64) -> u16 {
    let count = u64::from(PORTS.end() - PORTS.start()) + 1;
    // The remainder is below the number of ports.
    PORTS.start() + (random % count) as u16
}

/// Decodes the path of an address, from the bytes after the family: it ends at the first zero
/// byte or with the address.
///
/// # Errors
/// `EINVAL`: it has no path or a name without a file (a zero byte comes first), or is not UTF-8;
/// `ENAMETOOLONG`.
pub fn path_in(bytes: &[u8]) -> Result<String, i32> {
    let path = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    match path.len() {
        0 => Err(EINVAL),
        1..=MOST_PATH_BYTES => match core::str::from_utf8(path) {
            Ok(path) => Ok(path.to_owned()),
            Err(_) => Err(EINVAL),
        },
        _ => Err(ENAMETOOLONG),
    }
}

/// Encodes an address, and returns how many of its bytes count. Without a path it is the family
/// alone.
pub fn to_bytes(path: Option<&str>) -> ([u8; SOCKADDR_UN_BYTES], usize) {
    let mut bytes = [0; SOCKADDR_UN_BYTES];
    bytes[..FAMILY_BYTES].copy_from_slice(&AF_UNIX.to_le_bytes());
    let Some(path) = path else {
        return (bytes, FAMILY_BYTES);
    };
    let path = path.as_bytes();
    let path = &path[..path.len().min(MOST_PATH_BYTES)];
    bytes[FAMILY_BYTES..][..path.len()].copy_from_slice(path);
    (bytes, FAMILY_BYTES + path.len() + 1)
}

/// The text before the number of the port in a file.
const MARK: &str = "port ";
/// A file with more bytes is none of a socket.
pub const MOST_FILE_BYTES: usize = 16;

/// The content of the file of a socket.
pub fn file_of(port: u16) -> String {
    format!("{MARK}{port}\n")
}

/// The port in a file's content; `None` if that is none of a socket.
pub fn port_in(file: &[u8]) -> Option<u16> {
    let text = core::str::from_utf8(file).ok()?;
    let port = text.strip_prefix(MARK)?.strip_suffix('\n')?.parse().ok()?;
    (PORTS.contains(&port) && text == file_of(port)).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_at_a_zero_byte_or_with_the_address() {
        assert_eq!(path_in(b"/tmp/a\0rest"), Ok("/tmp/a".to_owned()));
        assert_eq!(path_in(b"a"), Ok("a".to_owned()));
        let longest = [b'x'; MOST_PATH_BYTES];
        assert_eq!(path_in(&longest).map(|path| path.len()), Ok(107));
        assert_eq!(path_in(&[b'x'; 108]), Err(ENAMETOOLONG));
        assert_eq!(path_in(b""), Err(EINVAL));
        assert_eq!(path_in(b"\0abstract"), Err(EINVAL));
        assert_eq!(path_in(b"\xff"), Err(EINVAL));
    }

    #[test]
    fn addresses_are_those_of_sockaddr_un() {
        let (bytes, count) = to_bytes(Some("/tmp/a"));
        assert_eq!(&bytes[..count], b"\x01\0/tmp/a\0");
        let (bytes, count) = to_bytes(None);
        assert_eq!(&bytes[..count], b"\x01\0");
        let longest = "x".repeat(107);
        let (bytes, count) = to_bytes(Some(&longest));
        assert_eq!(count, SOCKADDR_UN_BYTES);
        assert_eq!(path_in(&bytes[2..count]), Ok(longest));
    }

    #[test]
    fn files_hold_a_port_of_the_range_and_nothing_else() {
        for port in [0xe000, 0xf123, 0xffff] {
            assert_eq!(port_in(file_of(port).as_bytes()), Some(port));
            assert!(file_of(port).len() < MOST_FILE_BYTES);
        }
        let forged: [&[u8]; 11] = [
            b"",
            b"port ",
            b"port \n",
            b"port 22\n",
            b"port 57343\n",
            b"port 65536\n",
            b"port +60000\n",
            b"port 060000\n",
            b"port 60000",
            b"port 60000\n\n",
            b"\xff\xfe",
        ];
        for file in forged {
            assert_eq!(port_in(file), None, "{file:?}");
        }
    }

    #[test]
    fn ports_are_those_of_the_range() {
        assert_eq!(port_of(0), 0xe000);
        assert_eq!(port_of(0x1fff), 0xffff);
        assert_eq!(port_of(0x2000), 0xe000);
        assert!(PORTS.contains(&port_of(u64::MAX)));
    }
}
