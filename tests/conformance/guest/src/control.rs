//! The control connection between the process that runs the cases and an agent. Messages are
//! words, preceded by their number.
//!
//! It waits in an event queue rather than in a request to the `scif:` daemon, so that the number
//! of requests that wait there is that of the calls under test.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conformance::call::Errno;
use scif::raw::{self, PollFd};
use scif_abi::flags::{Readiness, SendFlags};

/// Most words in a message.
const MAX_WORDS: usize = 64;

/// One end of a control connection.
pub struct Control {
    endpoint: usize,
    received: Vec<u8>,
}

/// Describes an error number.
pub fn text(what: &str, error: i32) -> String {
    format!("{what}: {}", Errno(error))
}

impl Control {
    /// A control connection over a connected endpoint.
    pub fn new(endpoint: usize) -> Control {
        Control {
            endpoint,
            received: Vec::new(),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn send(&self, words: &[u64]) -> Result<(), String> {
        let mut bytes = (words.len() as u64).to_le_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let sent = raw::send(self.endpoint, bytes.as_slice(), SendFlags::BLOCK.bits())
            .map_err(|error| text("control connection", error))?;
        if sent < bytes.len() {
            return Err("the control connection has ended".into());
        }
        Ok(())
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// A text that names the failure; the end of the connection is one, too.
    pub fn receive(&mut self) -> Result<Vec<u64>, String> {
        let count = self.bytes(8)?;
        let count = count
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
        if count > MAX_WORDS {
            return Err("the control connection carries nonsense".into());
        }
        let bytes = self.bytes(8 * count)?;
        let words = bytes.chunks_exact(8);
        Ok(words
            .filter_map(|word| Some(u64::from_le_bytes(*word.first_chunk()?)))
            .collect())
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, String> {
        let failed = |error| text("control connection", error);
        while self.received.len() < count {
            let mut entry = [PollFd::new(self.endpoint, Readiness::IN.bits())];
            raw::poll(&mut entry, None).map_err(failed)?;
            let mut buffer = vec![0; 4096];
            let got = raw::recv(self.endpoint, buffer.as_mut_slice(), 0).map_err(failed)?;
            self.received.extend_from_slice(&buffer[..got]);
        }
        Ok(self.received.drain(..count).collect())
    }
}
