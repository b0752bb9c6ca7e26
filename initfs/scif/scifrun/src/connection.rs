//! Frames over a SCIF connection.

use alloc::vec::Vec;

use runtime::fs::{self, File};
use runtime::io::Read;
use scif::{Endpoint, RecvFlags, SendFlags, Waiting};
use syscall::error::{ECONNRESET, EPROTO, Error, Result};

use crate::protocol::{self, FileHeader, HEADER, Kind, MAX_PAYLOAD, Malformed};

/// A connection. One thread sends, another one may receive.
pub struct Connection {
    endpoint: Endpoint,
}

fn system(error: scif::Error) -> Error {
    Error::new(error.errno())
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Failure(Error::new(EPROTO))
    }
}

/// Why a connection is of no use any more.
#[derive(Clone, Copy, Debug)]
pub struct Failure(pub Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure(error)
    }
}

impl Connection {
    /// Frames over this endpoint, which is connected.
    pub fn new(endpoint: Endpoint) -> Self {
        // Programs compute meanwhile; nothing here is worth a processor that looks at a ring.
        endpoint.set_waiting(Waiting::Sleep);
        Connection { endpoint }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `ECONNRESET` when the peer is gone.
    pub fn send(&self, kind: Kind, payload: &[u8]) -> Result<()> {
        self.send_all(&protocol::header(kind, payload.len()))?;
        self.send_all(payload)
    }

    fn send_all(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self
                .endpoint
                .send(bytes, SendFlags::BLOCK)
                .map_err(system)?
            {
                0 => return Err(Error::new(ECONNRESET)),
                count => bytes = &bytes[count.min(bytes.len())..],
            }
        }
        Ok(())
    }

    /// Waits for a frame; its payload replaces what is in `payload`.
    ///
    /// # Errors
    /// `ECONNRESET` when the peer is gone, `EPROTO` when it sends nonsense.
    pub fn receive(&self, payload: &mut Vec<u8>) -> core::result::Result<Kind, Failure> {
        let mut header = [0; HEADER];
        self.fill(&mut header)?;
        let (kind, length) = protocol::parse_header(&header)?;
        payload.resize(length, 0);
        self.fill(payload)?;
        Ok(kind)
    }

    fn fill(&self, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            match self
                .endpoint
                .recv(buffer, RecvFlags::BLOCK)
                .map_err(system)?
            {
                0 => return Err(Error::new(ECONNRESET)),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }

    /// Sends a file under a name. The outer error is that of the connection, the inner one that of
    /// the file; then nothing was sent, or the connection is of no use any more.
    ///
    /// # Errors
    /// See above; a file that shrinks meanwhile is `EPROTO`.
    pub fn send_file(&self, path: &str, name: &str) -> Result<Result<()>> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (data, mut file) = match opened {
            Ok((data, _)) if data.is_dir() => return Ok(Err(Error::new(syscall::error::EISDIR))),
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let header = FileHeader {
            mode: u32::from(data.mode() & 0o777),
            size: data.len(),
            name: name.into(),
        };
        self.send(Kind::File, &header.encode())?;
        let mut left = data.len();
        let mut block = alloc::vec![0; MAX_PAYLOAD];
        while left > 0 {
            let most = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
            let count = file.read(&mut block[..most])?;
            if count == 0 {
                return Err(Error::new(EPROTO));
            }
            self.send(Kind::Data, &block[..count])?;
            left -= count as u64;
        }
        Ok(Ok(()))
    }
}

/// A file that is being received.
pub struct Incoming {
    file: File,
    left: u64,
}

impl Incoming {
    /// Makes the file, in place of one that is there.
    ///
    /// # Errors
    /// Those of making it.
    pub fn create(path: &str, header: &FileHeader) -> Result<Self> {
        let _ = fs::remove_file(path);
        let mode = (header.mode & 0o777) as u16;
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).mode(mode).open(path)?;
        Ok(Incoming {
            file,
            left: header.size,
        })
    }

    /// Whether all of it is there.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// Those of writing; `EPROTO` for more than were announced.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        self.left = self.left.checked_sub(count).ok_or(Error::new(EPROTO))?;
        runtime::io::Write::write_all(&mut self.file, bytes)
    }
}
