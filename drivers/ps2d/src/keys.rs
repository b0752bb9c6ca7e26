//! Translates scan codes of set 1 to the bytes that a terminal sends for the same keys (US
//! layout).
//!
//! A code whose highest bit is set means that a key was released. `0xE0` precedes the codes of
//! keys that older keyboards did not have, `0xE1` those of the pause key.

/// Most bytes that one key can produce.
pub const MAX_BYTES: usize = 4;

const RELEASED: u8 = 0x80;
const EXTENDED: u8 = 0xE0;
const PAUSE: u8 = 0xE1;
/// Number of codes that follow `PAUSE`.
const PAUSE_CODES: u8 = 2;

const CONTROL: u8 = 0x1D;
const LEFT_SHIFT: u8 = 0x2A;
const RIGHT_SHIFT: u8 = 0x36;
const ALT: u8 = 0x38;
const CAPS_LOCK: u8 = 0x3A;
const NUM_LOCK: u8 = 0x45;
const ESCAPE: u8 = 0x1B;

/// The characters of the codes 0x00 to 0x39 without shift and with it; 0 stands for none.
const PLAIN: &[u8; 0x3A] =
    b"\0\x1b1234567890-=\x7f\tqwertyuiop[]\r\0asdfghjkl;'`\0\\zxcvbnm,./\0*\0 ";
const SHIFTED: &[u8; 0x3A] =
    b"\0\x1b!@#$%^&*()_+\x7f\tQWERTYUIOP{}\r\0ASDFGHJKL:\"~\0|ZXCVBNM<>?\0*\0 ";
/// The keys of the number pad, codes 0x47 to 0x53: digits with num lock, otherwise arrows and the
/// like.
const PAD: &[u8; 13] = b"789-456+1230.";
const PAD_FIRST: u8 = 0x47;
/// The key between left shift and Z, which many keyboards have.
const EXTRA: u8 = 0x56;

/// The state of the keyboard: modifiers, locks, and a prefix that was read.
#[derive(Debug, Default)]
pub struct Keys {
    extended: bool,
    /// Codes of the pause key that are still to come.
    pause_left: u8,
    shift: [bool; 2],
    control: [bool; 2],
    alt: bool,
    caps_lock: bool,
    num_lock: bool,
}

/// The bytes that a key produces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        let mut all = Self::default();
        bytes.iter().for_each(|byte| all.push(*byte));
        all
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    /// The bytes to send.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Keys {
    /// Takes a scan code. Returns the bytes of the key that was pressed, often none.
    pub fn push(&mut self, code: u8) -> Bytes {
        if self.pause_left > 0 {
            self.pause_left -= 1;
            return Bytes::default();
        }
        match code {
            EXTENDED => {
                self.extended = true;
                return Bytes::default();
            }
            PAUSE => {
                self.pause_left = PAUSE_CODES;
                return Bytes::default();
            }
            _ => {}
        }
        let extended = core::mem::take(&mut self.extended);
        let pressed = code & RELEASED == 0;
        let key = code & !RELEASED;
        match (extended, key) {
            (_, CONTROL) => self.control[usize::from(extended)] = pressed,
            (false, LEFT_SHIFT) => self.shift[0] = pressed,
            (false, RIGHT_SHIFT) => self.shift[1] = pressed,
            (false, ALT) => self.alt = pressed,
            (false, CAPS_LOCK) => self.caps_lock ^= pressed,
            (false, NUM_LOCK) => self.num_lock ^= pressed,
            _ if !pressed => {}
            (true, key) => return self.extended_key(key),
            (false, key) => return self.plain_key(key),
        }
        Bytes::default()
    }

    fn plain_key(&self, key: u8) -> Bytes {
        let shift = self.shift[0] || self.shift[1];
        let table = if shift { SHIFTED } else { PLAIN };
        let byte = match key {
            EXTRA if shift => b'|',
            EXTRA => b'\\',
            key => match table.get(usize::from(key)) {
                Some(byte) => *byte,
                None => return self.pad_key(key, shift),
            },
        };
        let byte = match byte {
            0 => return Bytes::default(),
            b'a'..=b'z' | b'A'..=b'Z' if self.caps_lock => byte ^ 0x20,
            byte => byte,
        };
        self.with_modifiers(byte)
    }

    /// Applies control and alt: control turns letters and some signs into control characters, alt
    /// puts an escape in front.
    fn with_modifiers(&self, byte: u8) -> Bytes {
        let control = self.control[0] || self.control[1];
        let byte = match byte {
            b' ' if control => 0,
            b'@'..=b'_' | b'a'..=b'z' if control => byte & 0x1F,
            byte => byte,
        };
        match self.alt {
            true => Bytes::of(&[ESCAPE, byte]),
            false => Bytes::of(&[byte]),
        }
    }

    fn pad_key(&self, key: u8, shift: bool) -> Bytes {
        let sign = key
            .checked_sub(PAD_FIRST)
            .and_then(|index| PAD.get(usize::from(index)));
        match sign {
            None => Bytes::default(),
            Some(sign @ (b'-' | b'+')) => self.with_modifiers(*sign),
            Some(sign) if self.num_lock != shift => self.with_modifiers(*sign),
            Some(_) => self.extended_key(key),
        }
    }

    /// The bytes of keys that have an escape sequence.
    fn extended_key(&self, key: u8) -> Bytes {
        let control = self.control[0] || self.control[1];
        match key {
            0x1C => self.with_modifiers(b'\r'),
            0x35 => self.with_modifiers(b'/'),
            0x47 => Bytes::of(b"\x1b[H"),
            0x48 => Bytes::of(b"\x1b[A"),
            // Word by word.
            0x4B if control => Bytes::of(b"\x1bb"),
            0x4D if control => Bytes::of(b"\x1bf"),
            0x4B => Bytes::of(b"\x1b[D"),
            0x4D => Bytes::of(b"\x1b[C"),
            0x4F => Bytes::of(b"\x1b[F"),
            0x50 => Bytes::of(b"\x1b[B"),
            0x53 => Bytes::of(b"\x1b[3~"),
            _ => Bytes::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(keys: &mut Keys, codes: &[u8]) -> Vec<u8> {
        let bytes = codes.iter().map(|code| keys.push(*code));
        bytes.flat_map(|bytes| bytes.as_slice().to_vec()).collect()
    }

    fn typed(codes: &[u8]) -> Vec<u8> {
        press(&mut Keys::default(), codes)
    }

    #[test]
    fn letters_and_signs() {
        // h e l l o, with keys released in between or not; then enter.
        assert_eq!(
            typed(&[0x23, 0xA3, 0x12, 0x26, 0x92, 0xA6, 0x26, 0x18, 0x98, 0x1C]),
            b"hello\r"
        );
        // Shift with either hand, and both.
        assert_eq!(typed(&[0x2A, 0x02, 0x36, 0xAA, 0x03, 0xB6, 0x04]), b"!@3");
        assert_eq!(typed(&[0x2A, 0x2B, 0x29, 0x28, 0x56]), b"|~\"|");
        assert_eq!(typed(&[0x0E, 0x0F, 0x39, 0x01]), b"\x7f\t \x1b");
    }

    #[test]
    fn every_key_of_the_main_block_has_its_place() {
        let mut keys = Keys::default();
        let plain: Vec<u8> = (0x02..0x3A)
            .flat_map(|code| press(&mut keys, &[code, code | 0x80]))
            .collect();
        assert_eq!(
            plain,
            b"1234567890-=\x7f\tqwertyuiop[]\rasdfghjkl;'`\\zxcvbnm,./* "
        );
    }

    #[test]
    fn locks() {
        assert_eq!(
            typed(&[0x3A, 0xBA, 0x1E, 0x02, 0x2A, 0x1E, 0xAA, 0x3A, 0x1E]),
            b"A1aa"
        );
        // Num lock off: arrows; on: digits; the signs always.
        assert_eq!(typed(&[0x48, 0x45, 0xC5, 0x48, 0x4A, 0x53]), b"\x1b[A8-.");
        assert_eq!(typed(&[0x2A, 0x48]), b"8");
    }

    #[test]
    fn control_and_alt() {
        assert_eq!(typed(&[0x1D, 0x2E, 0x9D, 0x2E]), b"\x03c");
        assert_eq!(typed(&[0xE0, 0x1D, 0x20, 0xE0, 0x9D, 0x20]), b"\x04d");
        assert_eq!(typed(&[0x38, 0x30, 0xB8, 0x30]), b"\x1bbb");
        assert_eq!(typed(&[0x1D, 0x1A, 0x02]), b"\x1b1");
    }

    #[test]
    fn keys_with_sequences() {
        assert_eq!(
            typed(&[0xE0, 0x48, 0xE0, 0xC8, 0xE0, 0x50]),
            b"\x1b[A\x1b[B"
        );
        assert_eq!(
            typed(&[0xE0, 0x53, 0xE0, 0x47, 0xE0, 0x4F]),
            b"\x1b[3~\x1b[H\x1b[F"
        );
        assert_eq!(typed(&[0x1D, 0xE0, 0x4B, 0xE0, 0x4D]), b"\x1bb\x1bf");
        assert_eq!(typed(&[0xE0, 0x1C, 0xE0, 0x35]), b"\r/");
        // Keyboards send shift codes of their own around extended keys; they are ignored.
        assert_eq!(
            typed(&[0xE0, 0x2A, 0xE0, 0x48, 0xE0, 0xAA, 0x1E]),
            b"\x1b[Aa"
        );
    }

    #[test]
    fn the_pause_key_is_nothing() {
        let pause = [0xE1, 0x1D, 0x45, 0xE1, 0x9D, 0xC5];
        assert_eq!(typed(&[&pause[..], &[0x2E, 0x48]].concat()), b"c\x1b[A");
    }

    #[test]
    fn any_codes_are_survived() {
        let mut keys = Keys::default();
        for first in 0..=255 {
            for second in 0..=255 {
                press(&mut keys, &[first, second]);
            }
        }
    }
}
