//! The frames of `scifrun`'s protocol over a SCIF connection.

use alloc::vec::Vec;

use runtime::fs::{self, File};
use runtime::io::Read;
use scif::{Endpoint, RecvFlags, SendFlags, Waiting};
use syscall::error::{ECONNRESET, EPROTO, Error, Result};

use crate::protocol::{self, FileHeader, HEADER, Kind, MAX_PAYLOAD, Malformed};

/// A connection. One thread can send while another one receives.
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

/// The reason why a connection cannot be used any more.
#[derive(Clone, Copy, Debug)]
pub struct Failure(pub Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure(error)
    }
}

impl Connection {
    /// Sends and receives frames over this endpoint, which is connected.
    pub fn new(endpoint: Endpoint) -> Self {
        // The program computes meanwhile: polling a ring would take a processor from it for little
        // gain.
        endpoint.set_waiting(Waiting::Sleep);
        Connection { endpoint }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `ECONNRESET`: the peer has gone.
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

    /// Waits for a frame. Its payload replaces the content of `payload`.
    ///
    /// # Errors
    /// `ECONNRESET`: the peer has gone. `EPROTO`: it has sent nonsense.
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

    /// Sends a file under a name, with these rights besides its own. The inner result is an error
    /// of opening the file, in which case nothing was sent. After an error of the outer result the
    /// connection cannot be used any more.
    ///
    /// # Errors
    /// `ECONNRESET`: the peer has gone. `EPROTO`: the file has shrunk meanwhile. Those of reading
    /// it.
    pub fn send_file(&self, path: &str, name: &str, rights: u32) -> Result<Result<()>> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (data, mut file) = match opened {
            Ok((data, _)) if data.is_dir() => return Ok(Err(Error::new(syscall::error::EISDIR))),
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let header = FileHeader {
            mode: u32::from(data.mode() & 0o777) | rights,
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
    /// Makes the file, in place of any file with its name.
    ///
    /// # Errors
    /// The errors of making the file.
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

    /// Whether all bytes have been received.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// The errors of writing. `EPROTO`: there are more bytes than the header says.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        self.left = self.left.checked_sub(count).ok_or(Error::new(EPROTO))?;
        runtime::io::Write::write_all(&mut self.file, bytes)
    }
}
