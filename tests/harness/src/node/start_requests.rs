//! Requests of other terminals (`make start`) to boot a node of a running machine that is off. A
//! request is the number of the node in a line, the answer nothing or what was in the way.

use crate::base::report::{Context, Failure, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A terminal that waits for a node to be started.
#[derive(Debug)]
pub struct StartRequest {
    /// The node.
    pub node: usize,
    stream: UnixStream,
}

impl StartRequest {
    /// Says how it went.
    pub fn answer(mut self, started: &Result<()>) {
        if let Err(failure) = started {
            // The program that asked may have gone.
            let _ = self.stream.write_all(failure.message.as_bytes());
        }
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("start")
}

/// Takes requests from now on, in the directory of the machine's sockets.
pub fn listen(directory: &Path) -> Result<Receiver<StartRequest>> {
    let path = path(directory);
    let listener =
        UnixListener::bind(&path).context(|| format!("listen on the socket {}", path.display()))?;
    let (sender, requests) = channel();
    // The thread ends with the process: it only waits.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || take(stream, &sender));
        }
    });
    Ok(requests)
}

fn take(stream: UnixStream, sender: &Sender<StartRequest>) {
    let mut line = String::new();
    // Bytes that are no request get no answer but the end of the connection.
    if BufReader::new(&stream).read_line(&mut line).is_ok()
        && let Ok(node) = line.trim().parse()
    {
        let _ = sender.send(StartRequest { node, stream });
    }
}

/// Has a running machine boot a node, and waits until that was done.
pub fn ask(directory: &Path, node: usize) -> Result<()> {
    let path = path(directory);
    let doing = || format!("talk to the running machine by {}", path.display());
    let mut stream = UnixStream::connect(&path).context(doing)?;
    stream
        .write_all(format!("{node}\n").as_bytes())
        .context(doing)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context(doing)?;
    match answer.as_str() {
        "" => Ok(()),
        answer => Err(Failure::from(answer.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::run_directory::RunDirectory;

    #[test]
    fn requests_are_answered() {
        let place = RunDirectory::new().unwrap();
        assert!(ask(place.path(), 1).is_err());
        let requests = listen(place.path()).unwrap();
        let machine = std::thread::spawn(move || {
            for request in requests.iter().take(2) {
                let started = match request.node {
                    1 => Ok(()),
                    node => Err(format!("there is no node {node}").into()),
                };
                request.answer(&started);
            }
        });
        // Nonsense hurts nobody.
        let mut stream = UnixStream::connect(path(place.path())).unwrap();
        stream.write_all(b"one\n").unwrap();
        ask(place.path(), 1).unwrap();
        assert_eq!(
            ask(place.path(), 9).unwrap_err().message,
            "there is no node 9"
        );
        machine.join().unwrap();
    }
}
