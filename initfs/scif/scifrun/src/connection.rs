//! The frames of `scifrun`'s protocol over a SCIF connection.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use runtime::fs::{self, File};
use runtime::io::Read;
use runtime::process;
use scif::{Endpoint, RecvFlags, SendFlags, Waiting};
use syscall::error::{ECONNRESET, EPROTO, Error, Result};

use crate::protocol::{self, FileHeader, HEADER, Kind, Malformed, Unsent};

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

    /// Sends a file under a name, with these rights besides its own.
    ///
    /// # Errors
    /// The reason why it was not sent. The connection cannot be used any more unless the reason
    /// is [harmless](Unsent::is_harmless).
    pub fn send_file(
        &self,
        path: &str,
        name: &str,
        rights: u32,
    ) -> core::result::Result<(), Unsent<Error>> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (data, mut file) = opened.map_err(Unsent::Unopened)?;
        if !data.is_file() {
            return Err(Unsent::Irregular);
        }
        let header = FileHeader {
            mode: u32::from(data.mode() & 0o777) | rights,
            size: data.len(),
            name: name.into(),
        };
        self.send(Kind::File, &header.encode())
            .map_err(Unsent::Gone)?;
        let read = |block: &mut [u8]| file.read(block);
        protocol::send_content(data.len(), read, |bytes| self.send(Kind::Data, bytes))
    }
}

/// A file that is being received. It takes its name once all bytes are there; what is left of one
/// that is dropped before is removed.
pub struct Incoming {
    file: File,
    left: u64,
    /// Its name meanwhile.
    meanwhile: String,
    path: String,
}

impl Incoming {
    /// Begins the file that is to take the place of any file with its name.
    ///
    /// # Errors
    /// The errors of making the file.
    pub fn create(path: &str, header: &FileHeader) -> Result<Self> {
        let meanwhile = format!("{path}.scifrun-{}", process::id());
        let _ = fs::remove_file(&meanwhile);
        let mode = (header.mode & 0o777) as u16;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).mode(mode);
        let incoming = Incoming {
            file: options.open(&meanwhile)?,
            left: header.size,
            meanwhile,
            path: path.into(),
        };
        if incoming.is_complete() {
            incoming.finish()?;
        }
        Ok(incoming)
    }

    /// Whether all bytes have been received.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// The errors of writing, and of replacing the file. `EPROTO`: there are more bytes than the
    /// header says.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        let left = left.ok_or(Error::new(EPROTO))?;
        runtime::io::Write::write_all(&mut self.file, bytes)?;
        self.left = left;
        match self.is_complete() && !bytes.is_empty() {
            true => self.finish(),
            false => Ok(()),
        }
    }

    fn finish(&self) -> Result<()> {
        fs::rename(&self.meanwhile, &self.path)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // One that is complete has lost this name, unless it could not be renamed.
        let _ = fs::remove_file(&self.meanwhile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_come_whole_replaces_none() {
        let directory = std::env::temp_dir().join(format!("skiff-incoming-{}", process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("result");
        std::fs::write(&path, "old").unwrap();
        let name = path.to_str().unwrap();
        let header = |size| FileHeader {
            mode: 0o600,
            size,
            name: "result".into(),
        };
        let mut incoming = Incoming::create(name, &header(5)).unwrap();
        incoming.write(b"new").unwrap();
        assert_eq!(
            incoming.write(b"new").map_err(|error| error.errno),
            Err(EPROTO)
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(incoming);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        let mut incoming = Incoming::create(name, &header(5)).unwrap();
        incoming.write(b"new").unwrap();
        incoming.write(b"er").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
        drop(incoming);
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
        drop(Incoming::create(name, &header(0)).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
