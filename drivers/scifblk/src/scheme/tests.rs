//! The scheme behind the event loop, from a client's side.

use scheme::SchemeLoop;
use scheme::fake::FakeSocket;
use syscall::error::{EINVAL, ENOSPC};
use syscall::flag::O_RDWR;
use syscall::schemev2::{Opcode, Sqe};

use super::*;
use crate::disk::fake::{Memory, disk};

struct Fixture {
    socket: FakeSocket,
    requests: SchemeLoop<FakeSocket>,
    scheme: DiskScheme<Memory>,
    root: usize,
}

impl Fixture {
    fn new() -> Self {
        let mut scheme = DiskScheme::new();
        let root = scheme.scheme_root().unwrap();
        let socket = FakeSocket::default();
        Self {
            requests: SchemeLoop::with_transport(socket.clone()),
            socket,
            scheme,
            root,
        }
    }

    fn request(&mut self, opcode: Opcode, args: [u64; 6]) -> Option<Result<usize>> {
        let sqe = Sqe {
            opcode: opcode as u8,
            args,
            ..Sqe::default()
        };
        self.socket.send(sqe);
        self.requests.poll(&mut self.scheme).unwrap();
        let answer = self.socket.answer();
        answer.map(|answer| Error::demux(answer.result as usize))
    }

    fn open(&mut self, path: &str, flags: usize, uid: u32) -> Result<usize> {
        let (at, length) = (path.as_ptr() as u64, path.len() as u64);
        let args = [self.root as u64, at, length, flags as u64, 0, uid.into()];
        self.request(Opcode::OpenAt, args).unwrap()
    }

    fn transfer(
        &mut self,
        opcode: Opcode,
        id: usize,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<usize> {
        let (at, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
        self.request(opcode, [id as u64, at, length, offset, 0, 0])
            .unwrap()
    }

    fn plain(&mut self, opcode: Opcode, id: usize) -> Result<usize> {
        self.request(opcode, [id as u64, 0, 0, 0, 0, 0]).unwrap()
    }

    fn list(&mut self) -> Vec<String> {
        let root = self.open("", O_DIRECTORY, 7).unwrap();
        let mut bytes = vec![0_u8; 4096];
        let (at, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
        let args = [root as u64, at, length, 19, 0, 0];
        let count = self.request(Opcode::Getdents, args).unwrap().unwrap();
        let names = bytes[..count].split(|&byte| byte == 0);
        // Each record ends with its name, which is all digits here.
        names
            .map(|record| {
                let digits = record
                    .iter()
                    .rev()
                    .take_while(|byte| u8::is_ascii_digit(byte));
                let mut digits: Vec<u8> = digits.copied().collect();
                digits.reverse();
                String::from_utf8(digits).unwrap()
            })
            .filter(|name| !name.is_empty())
            .collect()
    }
}

fn error(errno: i32) -> Result<usize> {
    Err(Error::new(errno))
}

#[test]
fn a_disk_is_a_file_of_blocks() {
    let mut fixture = Fixture::new();
    let (three, memory) = disk(3);
    fixture.scheme.add(1, three);
    let id = fixture.open("1", O_RDWR, 0).unwrap();
    assert_eq!(
        fixture.transfer(Opcode::Write, id, &mut [9; 1024], 512),
        Ok(1024)
    );
    assert_eq!(memory.0.borrow()[1535], 9);
    let mut block = [0; 512];
    assert_eq!(
        fixture.transfer(Opcode::Read, id, &mut block, 1024),
        Ok(512)
    );
    assert_eq!(block, [9; 512]);
    assert_eq!(
        fixture.transfer(Opcode::Read, id, &mut block, 1),
        error(EINVAL)
    );
    let full = fixture.transfer(Opcode::Write, id, &mut [0; 512], 1536);
    assert_eq!(full, error(ENOSPC));
    assert_eq!(fixture.plain(Opcode::Fsize, id), Ok(1536));
    assert_eq!(fixture.plain(Opcode::Fsync, id), Ok(0));
}

#[test]
fn descriptors_have_the_rights_they_were_opened_with() {
    let mut fixture = Fixture::new();
    fixture.scheme.add(0, disk(1).0);
    let reader = fixture.open("0", O_RDONLY, 0).unwrap();
    let writer = fixture.open("0", O_WRONLY, 0).unwrap();
    let name = fixture.open("0", O_STAT, 0).unwrap();
    let bytes = &mut [0; 512];
    assert_eq!(
        fixture.transfer(Opcode::Write, reader, bytes, 0),
        error(EBADF)
    );
    assert_eq!(
        fixture.transfer(Opcode::Read, writer, bytes, 0),
        error(EBADF)
    );
    assert_eq!(fixture.transfer(Opcode::Read, name, bytes, 0), error(EBADF));
    assert_eq!(fixture.plain(Opcode::Fsize, name), Ok(512));
    assert_eq!(fixture.open("0", O_RDONLY, 7), error(EACCES));
    assert_eq!(fixture.open("0", O_DIRECTORY, 0), error(ENOTDIR));
    assert_eq!(fixture.open("", O_WRONLY, 0), error(EISDIR));
    for absent in ["1", "00", "+0", "0/1", "x"] {
        assert_eq!(fixture.open(absent, O_RDONLY, 0), error(ENOENT), "{absent}");
    }
}

#[test]
fn disks_come_and_go() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.list(), [""; 0]);
    fixture.scheme.add(1, disk(1).0);
    fixture.scheme.add(12, disk(2).0);
    assert_eq!(fixture.list(), ["1", "12"]);
    let old = fixture.open("1", O_RDWR, 0).unwrap();
    assert!(fixture.scheme.remove(1));
    assert!(!fixture.scheme.remove(1));
    assert_eq!(fixture.list(), ["12"]);
    let bytes = &mut [0; 512];
    assert_eq!(fixture.transfer(Opcode::Read, old, bytes, 0), error(ENODEV));
    fixture.scheme.add(1, disk(1).0);
    // The new disk is not the one that was opened.
    assert_eq!(
        fixture.transfer(Opcode::Write, old, bytes, 0),
        error(ENODEV)
    );
    assert_eq!(fixture.plain(Opcode::Fsync, old), error(ENODEV));
    let new = fixture.open("1", O_RDWR, 0).unwrap();
    assert_eq!(fixture.transfer(Opcode::Write, new, bytes, 0), Ok(512));
}

#[test]
fn users_cannot_take_all_handles_from_root() {
    let mut fixture = Fixture::new();
    fixture.scheme.add(1, disk(1).0);
    let opened = (0..=MAX_HANDLES).map(|_| fixture.open("", O_DIRECTORY, 7));
    assert_eq!(opened.last(), Some(error(ENFILE)));
    let id = fixture.open("1", O_RDWR, 0).unwrap();
    assert_eq!(fixture.plain(Opcode::Fsize, id), Ok(512));
}
