//! Keys typed at a terminal, on their way to a node's console in QEMU.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the keys of a node go.
#[derive(Debug, Default)]
pub enum Input {
    /// The node is off.
    #[default]
    Nowhere,
    /// Its QEMU has not connected its console yet: what was typed so far.
    Waiting(Vec<u8>),
    /// To its console.
    Connected(UnixStream),
}

impl Input {
    /// Takes keys.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Input::Nowhere => {}
            Input::Waiting(typed) => typed.extend_from_slice(bytes),
            Input::Connected(stream) => {
                // A node that ends in this moment needs no keys.
                let _ = stream.write_all(bytes);
            }
        }
    }

    /// The console is there.
    pub fn connect(&mut self, stream: Option<UnixStream>) {
        let before = std::mem::take(self);
        if let Some(stream) = stream {
            *self = Input::Connected(stream);
        }
        if let Input::Waiting(typed) = before {
            self.send(&typed);
        }
    }
}

/// Types on a node's console.
#[derive(Debug, Clone)]
pub struct Keyboard {
    input: Arc<Mutex<Input>>,
}

impl Keyboard {
    /// A way to the console behind `input`.
    pub fn new(input: &Arc<Mutex<Input>>) -> Self {
        Self {
            input: input.clone(),
        }
    }

    /// Sends bytes to the console; a node that is not running ignores them.
    pub fn send(&self, bytes: &[u8]) {
        let input = self.input.lock();
        input.unwrap_or_else(PoisonError::into_inner).send(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn keys_wait_for_the_console() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut input = Input::Waiting(Vec::new());
        input.send(b"ab");
        input.connect(Some(near));
        input.send(b"c");
        let mut typed = [0; 3];
        far.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"abc");
        // Nobody waits for what is typed while the node is off.
        let mut input = Input::Nowhere;
        input.send(b"x");
        assert!(matches!(input, Input::Nowhere));
    }
}
