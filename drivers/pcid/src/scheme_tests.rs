//! The `pci` scheme from the side of clients, hostile ones included.

use alloc::vec;

use hal::pci::protocol::{Address, Request, Response};
use hal::{Error, Result};
use redox_scheme::scheme::SchemeSync;
use scheme::SchemeLoop;
use scheme::fake::FakeSocket;
use syscall::error::*;
use syscall::flag::{O_DIRECTORY, O_STAT};
use syscall::schemev2::{Opcode, Sqe};

use crate::scan;
use crate::scheme::PciScheme;
use crate::tests::machine;

struct Client {
    scheme: PciScheme,
    root: usize,
    uid: u32,
}

impl Client {
    fn new() -> Self {
        let space = machine();
        let functions = scan::scan(&space);
        let mut scheme = PciScheme::new(space, functions);
        let root = scheme.scheme_root().unwrap();
        Self {
            scheme,
            root,
            uid: 0,
        }
    }

    fn request(&mut self, opcode: Opcode, args: [u64; 6]) -> Result<usize> {
        let socket = FakeSocket::default();
        let request = Sqe {
            opcode: opcode as u8,
            tag: 1,
            args,
            ..Sqe::default()
        };
        socket.send(request);
        SchemeLoop::with_transport(socket.clone())
            .poll(&mut self.scheme)
            .unwrap();
        match socket.answer() {
            Some(answer) => Error::demux(answer.result as usize),
            None => Ok(0),
        }
    }

    fn open(&mut self, path: &str, flags: usize) -> Result<usize> {
        let path_words = (path.as_ptr() as u64, path.len() as u64);
        let (dir, uid) = (self.root as u64, u64::from(self.uid));
        self.request(
            Opcode::OpenAt,
            [dir, path_words.0, path_words.1, flags as u64, 0, uid],
        )
    }

    fn write(&mut self, id: usize, bytes: &[u8]) -> Result<usize> {
        let (address, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
        self.request(Opcode::Write, [id as u64, address, length, u64::MAX, 0, 0])
    }

    fn read(&mut self, id: usize, buf: &mut [u8]) -> Result<usize> {
        let (address, length) = (buf.as_mut_ptr() as u64, buf.len() as u64);
        self.request(Opcode::Read, [id as u64, address, length, u64::MAX, 0, 0])
    }

    fn access(&mut self, id: usize, payload: &mut [u8], metadata: [u64; 2]) -> Result<usize> {
        let (address, length) = (payload.as_mut_ptr() as u64, payload.len() as u64);
        let [verb, place] = metadata;
        self.request(Opcode::Call, [id as u64, address, length, verb, place, 0])
    }

    fn close(&mut self, id: usize) {
        self.request(Opcode::CloseMsg, [id as u64, 0, 0, 0, 0, 0])
            .unwrap();
    }
}

const FUNCTION: &str = "0000--01--1f.0";
const CHANNEL: &str = "0000--01--1f.0/channel";

#[test]
fn paths_have_their_errors() {
    let mut client = Client::new();
    let table = [
        ("", 0, EISDIR),
        (FUNCTION, 0, EISDIR),
        (CHANNEL, O_DIRECTORY, ENOTDIR),
        ("0000--00--1e.0", O_DIRECTORY, ENOENT),
        ("0000--01--1f.0/other", 0, ENOENT),
        ("0000--01--1f.0/channel/x", 0, ENOENT),
        ("nonsense", 0, ENOENT),
        ("access/x", 0, ENOTDIR),
    ];
    for (path, flags, errno) in table {
        assert_eq!(client.open(path, flags), Err(Error::new(errno)), "{path}");
    }
    assert!(client.open("", O_DIRECTORY).is_ok());
    assert!(client.open(FUNCTION, O_DIRECTORY).is_ok());
    client.uid = 1000;
    assert_eq!(client.open(CHANNEL, 0), Err(Error::new(EACCES)));
    assert_eq!(client.open("access", 0), Err(Error::new(EACCES)));
    assert!(client.open(CHANNEL, O_STAT).is_ok());
}

#[test]
fn a_channel_has_one_driver() {
    let mut client = Client::new();
    let channel = client.open(CHANNEL, 0).unwrap();
    assert_eq!(client.open(CHANNEL, 0), Err(Error::new(ENOLCK)));
    // Opening it for its status takes and frees nothing.
    let about = client.open(CHANNEL, O_STAT).unwrap();
    assert_eq!(
        client.write(about, &Request::Config.encode()),
        Err(Error::new(EBADF))
    );
    client.close(about);
    assert_eq!(client.open(CHANNEL, 0), Err(Error::new(ENOLCK)));
    client.close(channel);
    assert!(client.open(CHANNEL, 0).is_ok());
}

#[test]
fn requests_and_responses_alternate() {
    let mut client = Client::new();
    let channel = client.open(CHANNEL, 0).unwrap();
    let mut buffer = [0; 256];
    assert_eq!(client.read(channel, &mut buffer), Err(Error::new(EINVAL)));
    let request = Request::Config.encode();
    assert_eq!(client.write(channel, &request), Ok(request.len()));
    assert_eq!(client.write(channel, &request), Err(Error::new(EINVAL)));
    assert_eq!(client.read(channel, &mut buffer[..8]), Ok(8));
    let length = u64::from_le_bytes(buffer[..8].try_into().unwrap()) as usize;
    assert_eq!(client.read(channel, &mut buffer), Ok(length));
    let Ok(Response::Config(config)) = Response::decode(&buffer[..length]) else {
        panic!("no configuration")
    };
    assert_eq!(config.address, Address::parse(FUNCTION).unwrap());
    assert_eq!(client.read(channel, &mut buffer), Err(Error::new(EINVAL)));
}

#[test]
fn hostile_messages_are_refused() {
    let mut client = Client::new();
    let channel = client.open(CHANNEL, 0).unwrap();
    for message in [
        vec![],
        vec![0xff; 4],
        vec![0; 5],
        vec![1; 64],
        vec![0; 65],
        vec![0; 1 << 20],
    ] {
        assert_eq!(client.write(channel, &message), Err(Error::new(EINVAL)));
    }
    let request = Request::EnableDevice.encode();
    assert_eq!(client.write(channel, &request), Ok(4));
    let root = client.root;
    assert_eq!(client.write(root, &request), Err(Error::new(EBADF)));
    assert_eq!(client.write(usize::MAX, &request), Err(Error::new(EBADF)));
    assert_eq!(client.read(root, &mut [0; 8]), Err(Error::new(EISDIR)));
}

#[test]
fn raw_access_reads_and_writes_parts_of_words() {
    let mut client = Client::new();
    let access = client.open("access", 0).unwrap();
    let place = 1 << 20 | 31 << 15;
    let mut bytes = [0; 3];
    assert_eq!(client.access(access, &mut bytes, [1, place | 1]), Ok(3));
    assert_eq!(bytes, [0x1a, 0x10, 0x11]);
    assert_eq!(client.access(access, &mut [0x5a], [2, place | 0x3c]), Ok(1));
    let mut word = [0; 4];
    assert_eq!(client.access(access, &mut word, [1, place | 0x3c]), Ok(4));
    assert_eq!(word, [0x5a, 1, 0, 0]);
    // No device: all ones, as on the bus.
    assert_eq!(client.access(access, &mut word, [1, 9 << 20]), Ok(4));
    assert_eq!(word, [0xff; 4]);
    for (metadata, errno) in [
        ([0, place], EINVAL),
        ([3, place], EINVAL),
        ([1, u64::MAX], EINVAL),
        ([1, place | 0xfe], EOVERFLOW),
    ] {
        assert_eq!(
            client.access(access, &mut word, metadata),
            Err(Error::new(errno))
        );
    }
    let mut long = vec![0; 5000];
    assert_eq!(
        client.access(access, &mut long, [1, place]),
        Err(Error::new(EMSGSIZE))
    );
}
