//! The protocol between `scifrun` and `scifrund`: frames of a kind, a length and a payload.
//! Numbers are little-endian. A text is its length (`u32`) and its bytes in UTF-8. A list is its
//! count (`u32`) and its members.
//!
//! | from the client | payload |
//! | --- | --- |
//! | `Request`, first | the fields of [`Request`], behind the version |
//! | `File` | mode, size (`u64`), name; `Data` frames with that number of bytes follow |
//! | `Start` | none: everything is there |
//! | `Stdin` | bytes, together at most [`STDIN_WINDOW`] that were not `Taken` |
//! | `StdinEnd` | none |
//! | `Signal` | the number |
//!
//! | from the server | payload |
//! | --- | --- |
//! | `Refused`, last | error number, text |
//! | `Started` | process id |
//! | `Stdout`, `Stderr` | bytes |
//! | `Taken` | bytes of standard input that the program's pipe has taken |
//! | `File`, `Data` | as from the client |
//! | `Exit`, last | exit status, or 0; signal that ended the program, or 0 |

use alloc::string::String;
use alloc::vec::Vec;

use zerocopy::{IntoBytes, TryFromBytes};

/// The port of `scifrund`, one of those that only root may bind.
pub const PORT: u16 = 22;
/// Version of the protocol, which must be the same on both sides.
pub const VERSION: u32 = 1;
/// Longest payload in bytes, other than that of a request.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// Longest payload of a request in bytes: arguments and environment.
pub const MAX_REQUEST: usize = 1024 * 1024;
/// Most bytes of standard input that may be sent before the program has taken them. They fit into
/// a pipe.
pub const STDIN_WINDOW: usize = 32 * 1024;
/// Bytes in a frame before its payload.
pub const HEADER: usize = 8;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
#[expect(missing_docs, reason = "the table above describes them")]
pub enum Kind {
    Request = 1,
    File = 2,
    Data = 3,
    Start = 4,
    Stdin = 5,
    StdinEnd = 6,
    Signal = 7,
    Refused = 8,
    Started = 9,
    Stdout = 10,
    Stderr = 11,
    Taken = 12,
    Exit = 13,
}

/// The peer violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Encodes the kind of a frame and the length of its payload.
pub fn header(kind: Kind, length: usize) -> [u8; HEADER] {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&(kind as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Decodes the kind of a frame and the length of its payload.
///
/// # Errors
/// The kind is unknown, or the payload is too long for it.
pub fn parse_header(bytes: &[u8; HEADER]) -> Result<(Kind, usize), Malformed> {
    let mut fields = Fields(bytes);
    let (kind, length) = (fields.number()?, fields.number()? as usize);
    let kind = Kind::try_read_from_bytes(kind.as_bytes()).map_err(|_| Malformed)?;
    let most = match kind {
        Kind::Request => MAX_REQUEST,
        _ => MAX_PAYLOAD,
    };
    if length > most {
        return Err(Malformed);
    }
    Ok((kind, length))
}

/// The program to run, and its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Id of the user to run it as.
    pub uid: u32,
    /// Id of the group to run it as.
    pub gid: u32,
    /// The directory to run it in. If empty: that of the files, or else that of `scifrund`.
    pub directory: String,
    /// The program, and its arguments.
    pub arguments: Vec<String>,
    /// Variables to add to those of `scifrund`, each as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Names of files to send back after the program's end.
    pub fetch: Vec<String>,
}

impl Request {
    /// Encodes the payload.
    ///
    /// # Errors
    /// The length of the payload in bytes, which is more than [`MAX_REQUEST`].
    pub fn encode(&self) -> Result<Vec<u8>, usize> {
        let mut out = Vec::new();
        for number in [VERSION, self.uid, self.gid] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_text(&mut out, &self.directory);
        for list in [&self.arguments, &self.environment, &self.fetch] {
            put_number(&mut out, list.len());
            list.iter().for_each(|text| put_text(&mut out, text));
        }
        match out.len() > MAX_REQUEST {
            true => Err(out.len()),
            false => Ok(out),
        }
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// It is no payload of this version, it names no program, or a file's name is not
    /// [plain](is_plain_name).
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        if fields.number()? != VERSION {
            return Err(Malformed);
        }
        let request = Request {
            uid: fields.number()?,
            gid: fields.number()?,
            directory: fields.text()?,
            arguments: fields.list()?,
            environment: fields.list()?,
            fetch: fields.list()?,
        };
        fields.end()?;
        let named = |list: &[String]| list.iter().all(|name| is_plain_name(name));
        if request.arguments.is_empty() || !named(&request.fetch) {
            return Err(Malformed);
        }
        Ok(request)
    }
}

/// The header of a file, which precedes its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Permission bits.
    pub mode: u32,
    /// Number of bytes that follow.
    pub size: u64,
    /// The name, which is [plain](is_plain_name).
    pub name: String,
}

impl FileHeader {
    /// Encodes the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.mode.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        put_text(&mut out, &self.name);
        out
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// The payload has another form, or the name is not [plain](is_plain_name).
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let mode = fields.number()? & 0o777;
        let (low, high) = (fields.number()?, fields.number()?);
        let file = FileHeader {
            mode,
            size: u64::from(low) | u64::from(high) << 32,
            name: fields.text()?,
        };
        fields.end()?;
        is_plain_name(&file.name).then_some(file).ok_or(Malformed)
    }
}

/// The reason why no program was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error number, 0 for none.
    pub errno: u32,
    /// The reason as text for people.
    pub text: String,
}

impl Refusal {
    /// Encodes the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(self.errno.to_le_bytes());
        put_text(&mut out, &self.text);
        out
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// The payload has another form.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let refusal = Refusal {
            errno: fields.number()?,
            text: fields.text()?,
        };
        fields.end()?;
        Ok(refusal)
    }
}

/// Decodes the payload of `Taken`.
///
/// # Errors
/// The payload is not one number, or more than can be on its way.
pub fn decode_taken(bytes: &[u8]) -> Result<u32, Malformed> {
    let taken = decode_number(bytes)?;
    match taken as usize <= STDIN_WINDOW {
        true => Ok(taken),
        false => Err(Malformed),
    }
}

/// Decodes the payload of `Signal` or `Started`.
///
/// # Errors
/// The payload is not one number.
pub fn decode_number(bytes: &[u8]) -> Result<u32, Malformed> {
    let mut fields = Fields(bytes);
    let number = fields.number()?;
    fields.end()?;
    Ok(number)
}

/// Encodes the payload of `Exit`.
pub fn encode_exit(status: u32, signal: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&status.to_le_bytes());
    bytes[4..].copy_from_slice(&signal.to_le_bytes());
    bytes
}

/// Decodes the payload of `Exit` into the exit status that a shell would give.
///
/// # Errors
/// The payload has another form.
pub fn decode_exit(bytes: &[u8]) -> Result<i32, Malformed> {
    let mut fields = Fields(bytes);
    let (status, signal) = (fields.number()?, fields.number()?);
    fields.end()?;
    let number = if signal == 0 {
        status
    } else {
        128 + (signal & 0x7f)
    };
    Ok((number & 0xff) as i32)
}

/// Whether a name is that of a file in the directory of a run: never one of another directory.
pub fn is_plain_name(name: &str) -> bool {
    let odd = |c: char| matches!(c, '/' | ':') || c.is_control();
    !matches!(name, "" | "." | "..") && name.len() <= 255 && !name.contains(odd)
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// The rest of a payload, from which fields are read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads a text without the byte 0, which no argument or name contains.
    fn text(&mut self) -> Result<String, Malformed> {
        let length = self.number()? as usize;
        let text = core::str::from_utf8(self.take(length)?).map_err(|_| Malformed)?;
        if text.contains('\0') {
            return Err(Malformed);
        }
        Ok(text.into())
    }

    fn list(&mut self) -> Result<Vec<String>, Malformed> {
        // Each text takes at least the four bytes of its length, so a wrong count costs nothing.
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    fn end(&self) -> Result<(), Malformed> {
        self.0.is_empty().then_some(()).ok_or(Malformed)
    }
}

/// The reason why a file was not sent, with errors of the type `E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent<E> {
    /// It could not be opened. Nothing was sent.
    Unopened(E),
    /// It is no regular file: only those have a size that is known before. Nothing was sent.
    Irregular,
    /// Reading it failed after a part was sent.
    Unread(E),
    /// It has become shorter after a part was sent.
    Shrunk,
    /// The peer has gone.
    Gone(E),
}

impl<E> Unsent<E> {
    /// Whether the connection can be used further, because nothing was sent.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Unsent::Unopened(_) | Unsent::Irregular)
    }
}

/// Sends the `size` bytes of a file, of which `read` reads the next ones.
///
/// # Errors
/// [`Unsent::Unread`], [`Unsent::Shrunk`] and [`Unsent::Gone`], after which the peer still waits
/// for the rest of the file.
pub fn send_content<E>(
    size: u64,
    mut read: impl FnMut(&mut [u8]) -> Result<usize, E>,
    mut send: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Unsent<E>> {
    let mut left = size;
    let mut block = alloc::vec![0; MAX_PAYLOAD];
    while left > 0 {
        let most = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        let count = read(&mut block[..most]).map_err(Unsent::Unread)?;
        if count == 0 {
            return Err(Unsent::Shrunk);
        }
        send(&block[..count]).map_err(Unsent::Gone)?;
        left -= count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_why_a_file_is_sent_in_part_only_is_told() {
        // The file has a whole block and a bit more, of which the second read gets `then`.
        let sent = |then: Result<usize, &'static str>, peer: Result<(), &'static str>| {
            let (mut reads, mut bytes) = (0, 0);
            let read = |block: &mut [u8]| {
                reads += 1;
                if reads == 1 { Ok(block.len()) } else { then }
            };
            let send = |block: &[u8]| peer.map(|()| bytes += block.len());
            let result = send_content(MAX_PAYLOAD as u64 + 10, read, send);
            (result, bytes)
        };
        assert_eq!(sent(Ok(10), Ok(())), (Ok(()), MAX_PAYLOAD + 10));
        let part = |why| (Err(why), MAX_PAYLOAD);
        assert_eq!(sent(Ok(0), Ok(())), part(Unsent::Shrunk));
        assert_eq!(sent(Err("disk"), Ok(())), part(Unsent::Unread("disk")));
        assert_eq!(sent(Ok(10), Err("peer")), (Err(Unsent::Gone("peer")), 0));
    }

    #[test]
    fn a_request_that_does_not_fit_is_not_sent() {
        let empty = request().encode().unwrap().len();
        let mut long = request();
        long.environment.push("x".repeat(MAX_REQUEST - empty - 4));
        assert_eq!(long.encode().map(|payload| payload.len()), Ok(MAX_REQUEST));
        long.directory.push('x');
        assert_eq!(long.encode(), Err(MAX_REQUEST + 1));
    }

    fn request() -> Request {
        Request {
            uid: 7,
            gid: 8,
            directory: "/tmp".into(),
            arguments: ["echo".into(), "".into(), "grüß".into()].into(),
            environment: ["A=b".into()].into(),
            fetch: ["out.dat".into()].into(),
        }
    }

    #[test]
    fn no_more_input_is_taken_than_is_on_its_way() {
        let window = STDIN_WINDOW as u32;
        assert_eq!(decode_taken(&window.to_le_bytes()), Ok(window));
        assert_eq!(decode_taken(&(window + 1).to_le_bytes()), Err(Malformed));
        assert_eq!(decode_taken(&u32::MAX.to_le_bytes()), Err(Malformed));
        assert_eq!(decode_taken(&[1, 0, 0]), Err(Malformed));
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Request::decode(&request().encode().unwrap()), Ok(request()));
        let file = FileHeader {
            mode: 0o755,
            size: 1 << 40,
            name: "a.out".into(),
        };
        assert_eq!(FileHeader::decode(&file.encode()), Ok(file));
        let refusal = Refusal {
            errno: 13,
            text: "no".into(),
        };
        assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
        for kind in [Kind::Request, Kind::Stdin, Kind::Exit] {
            assert_eq!(parse_header(&header(kind, 77)), Ok((kind, 77)));
        }
        assert_eq!(decode_exit(&encode_exit(3, 0)), Ok(3));
        assert_eq!(decode_exit(&encode_exit(0, 15)), Ok(143));
        assert_eq!(decode_exit(&encode_exit(256 + 5, 0)), Ok(5));
        assert_eq!(decode_number(&9u32.to_le_bytes()), Ok(9));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(
            parse_header(&header(Kind::Data, MAX_PAYLOAD + 1)),
            Err(Malformed)
        );
        assert_eq!(
            parse_header(&header(Kind::Request, MAX_REQUEST + 1)),
            Err(Malformed)
        );
        assert_eq!(parse_header(&[0; HEADER]), Err(Malformed));
        assert_eq!(parse_header(&[0xff; HEADER]), Err(Malformed));
        let good = request().encode().unwrap();
        for length in 0..good.len() {
            assert_eq!(Request::decode(&good[..length]), Err(Malformed));
        }
        assert_eq!(
            Request::decode(&[good.as_slice(), b"x"].concat()),
            Err(Malformed)
        );
        // Any single byte may be wrong without harm.
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                if let Ok(request) = Request::decode(&bad) {
                    assert!(!request.arguments.is_empty());
                    assert_eq!(request.encode(), Ok(bad));
                }
            }
        }
        let mut nothing = request();
        nothing.arguments.clear();
        assert_eq!(Request::decode(&nothing.encode().unwrap()), Err(Malformed));
        let mut zero = request();
        zero.arguments.push("a\0b".into());
        assert_eq!(Request::decode(&zero.encode().unwrap()), Err(Malformed));
    }

    #[test]
    fn names_stay_in_the_directory() {
        for good in ["a", "a.out", "..a", "ä b"] {
            assert!(is_plain_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "/etc", "../x", "scif:1", "a\nb"] {
            assert!(!is_plain_name(bad), "{bad}");
            let mut request = request();
            request.fetch = [bad.into()].into();
            assert_eq!(Request::decode(&request.encode().unwrap()), Err(Malformed));
        }
        assert!(!is_plain_name(&"x".repeat(256)));
    }
}
