//! The ivshmem server of the PCI fabric: clients that connect, twice too, send anything, read or do
//! not, and vanish at any moment, while links are cut and mended and doorbells lost. Whoever
//! listens hears the introduction and no more; in the end each side can be joined as if nothing had
//! been, and no descriptor is left.
#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use harness::network::fabric::{Fabric, Fault, Options};
use harness::network::faults::Faults;
use libfuzzer_sys::fuzz_target;

const VECTORS: usize = 2;
/// A server that says nothing for so long has hung.
const READ_LIMIT: Duration = Duration::from_secs(20);

/// A client as QEMU is one, and how many words it has read.
struct Client {
    stream: UnixStream,
    words: usize,
}

impl Client {
    fn connect(fabric: &Fabric, node: usize) -> Self {
        let stream = UnixStream::connect(fabric.socket(node, 1 - node));
        let stream = stream.expect("the server listens");
        stream
            .set_read_timeout(Some(READ_LIMIT))
            .expect("a time limit above 0");
        Self { stream, words: 0 }
    }

    /// The next word; `None` when the server has closed the connection. The descriptor that comes
    /// with it is closed by the system, because it is not taken.
    fn word(&mut self) -> Option<i64> {
        let mut bytes = [0; 8];
        self.stream.read_exact(&mut bytes).ok()?;
        self.words += 1;
        Some(i64::from_le_bytes(bytes))
    }

    /// Reads the words that have arrived: version, own number, memory, then doorbells of both.
    fn listen(&mut self, node: usize) {
        self.stream
            .set_nonblocking(true)
            .expect("a socket can be asked not to wait");
        while let Some(word) = self.word() {
            let expected = introduction(node).nth(self.words - 1);
            assert_eq!(Some(word), expected, "word {} of node {node}", self.words);
        }
        self.stream
            .set_nonblocking(false)
            .expect("a socket can be asked to wait");
    }
}

/// All that is sent to a client: version, own number, memory, the doorbells of the peer and its
/// own.
fn introduction(node: usize) -> impl Iterator<Item = i64> {
    let (own, peer) = (node as i64, 1 - node as i64);
    let doorbells = [[peer; VECTORS], [own; VECTORS]];
    [0, own, -1].into_iter().chain(doorbells.concat())
}

/// The server's directory.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("skiff-fuzz-{}", std::process::id()));
        // Files that an earlier run with this number has left.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory for sockets");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn play(
    fabric: &Fabric,
    relayed: bool,
    clients: &mut [Vec<Client>; 2],
    input: &mut Unstructured<'_>,
) -> Result<()> {
    while !input.is_empty() {
        let node = usize::from(bool::arbitrary(input)?);
        let there = &mut clients[node];
        match u8::arbitrary(input)? % 8 {
            0 | 1 if there.len() < 3 => there.push(Client::connect(fabric, node)),
            2 => {
                if !there.is_empty() {
                    let index = input.choose_index(there.len())?;
                    there.swap_remove(index);
                }
            }
            3 => {
                let bytes = input.bytes(input.len().min(40))?;
                if let Some(client) = there.last_mut() {
                    // One that was turned away cannot be written to.
                    let _ = client.stream.write(bytes);
                }
            }
            4 | 5 => there.iter_mut().for_each(|client| client.listen(node)),
            6 => {
                let fault = if bool::arbitrary(input)? {
                    Fault::Cut
                } else {
                    Fault::Heal
                };
                inject(fabric, fault, relayed);
            }
            _ => {
                let [lose, double, late] = <[u8; 3]>::arbitrary(input)?.map(u32::from);
                let faults = Faults {
                    lose: (lose % 4, 4),
                    double: (double % 4, 4),
                    late_ms: late % 3,
                };
                inject(fabric, Fault::Doorbells(faults), relayed);
            }
        }
    }
    Ok(())
}

/// Does something to the link, which is possible if and only if its doorbells are relayed.
fn inject(fabric: &Fabric, fault: Fault, relayed: bool) {
    assert_eq!(fabric.inject([0, 1], fault).is_ok(), relayed);
}

/// A fresh client is introduced to each side.
fn meet(fabric: &Fabric) {
    for node in 0..2 {
        // The server may not have noticed yet that those before are gone: it turns us away then.
        let mut client = loop {
            let mut client = Client::connect(fabric, node);
            if client.word() == Some(0) {
                break client;
            }
        };
        for expected in introduction(node).skip(1) {
            assert_eq!(client.word(), Some(expected));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let before = descriptors();
    let directory = Directory::new();
    let options = Options {
        directory: directory.0.clone(),
        nodes: 2,
        link_bytes: 1 << 16,
        vectors: VECTORS as u32,
        relayed: bytes.first().is_some_and(|first| first % 2 == 1),
    };
    let fabric = match Fabric::start(&options) {
        Ok(fabric) => fabric,
        Err(failure) => panic!("{}", failure.message),
    };
    let mut clients = [Vec::new(), Vec::new()];
    // Input that ends early is an input like any other.
    let _ = play(&fabric, options.relayed, &mut clients, &mut input);
    drop(clients);
    inject(&fabric, Fault::Heal, options.relayed);
    meet(&fabric);
    drop(fabric);
    assert_eq!(descriptors(), before, "descriptors are left");
});
