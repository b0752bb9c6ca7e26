//! The scheme behind the event loop, with a fake kernel and a fake SCIF daemon.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use platform::pin::{READ, WRITE};
use platform::scheme::SchemeLoop;
use platform::scheme::fake::FakeSocket;
use syscall::error::{EAGAIN, EFAULT};
use syscall::schemev2::{Opcode, Sqe};

use super::*;

/// What the fake pages saw.
#[derive(Default)]
struct Seen {
    pinned: Vec<Wanted>,
    freed: Vec<Freed>,
    released: Vec<u64>,
    fail: Option<i32>,
    /// Address spaces held at this moment.
    spaces: usize,
}

#[derive(Clone, Default)]
struct FakePages(Rc<RefCell<Seen>>);

struct Space(Rc<RefCell<Seen>>);

impl Drop for Space {
    fn drop(&mut self) {
        self.0.borrow_mut().spaces -= 1;
    }
}

impl Pages for FakePages {
    type Space = Space;
    type Held = u64;

    fn take_space(&mut self, _request: &SendFdRequest) -> Result<Space> {
        self.0.borrow_mut().spaces += 1;
        Ok(Space(self.0.clone()))
    }

    fn pin(&mut self, _space: Space, wanted: Wanted, freed: Freed) -> Result<(u64, u64)> {
        let mut seen = self.0.borrow_mut();
        if let Some(errno) = seen.fail {
            return Err(Error::new(errno));
        }
        seen.pinned.push(wanted);
        seen.freed.push(freed);
        let token = 100 + seen.pinned.len() as u64;
        Ok((token, token))
    }

    fn release(&mut self, held: u64) {
        self.0.borrow_mut().released.push(held);
    }
}

/// The daemon and one client of it.
struct Bed {
    socket: FakeSocket,
    requests: SchemeLoop<FakeSocket>,
    scheme: PinScheme<FakePages>,
    seen: Rc<RefCell<Seen>>,
    root: usize,
}

impl Bed {
    fn new() -> Self {
        let pages = FakePages::default();
        let seen = pages.0.clone();
        let mut scheme = PinScheme::new(pages);
        let root = scheme.scheme_root().unwrap();
        let socket = FakeSocket::default();
        Self {
            requests: SchemeLoop::with_transport(socket.clone()),
            socket,
            scheme,
            seen,
            root,
        }
    }

    fn request(&mut self, opcode: Opcode, args: [u64; 6]) -> Option<Result<usize>> {
        let sqe = Sqe {
            opcode: opcode as u8,
            args,
            caller: 33,
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

    fn range(&mut self, uid: u32) -> usize {
        self.open("range", 0, uid).unwrap()
    }

    fn send(&mut self, id: usize, metadata: u64) -> Result<usize> {
        self.request(Opcode::Sendfd, [id as u64, 0, metadata, 1, 0, 0])
            .unwrap()
    }

    fn call(&mut self, id: usize, operation: u64, payload: &mut [u8]) -> Result<usize> {
        let (at, length) = (payload.as_mut_ptr() as u64, payload.len() as u64);
        self.request(Opcode::Call, [id as u64, at, length, operation, 0, 0])
            .unwrap()
    }

    fn pin(&mut self, id: usize, record: PinRecord) -> Result<usize> {
        self.call(id, PIN, &mut record.to_bytes())
    }

    fn close(&mut self, id: usize) {
        assert!(
            self.request(Opcode::CloseMsg, [id as u64, 0, 0, 0, 0, 0])
                .is_none()
        );
    }

    fn list(&mut self, uid: u32) -> String {
        let id = self.open("ranges", 0, uid).unwrap();
        let mut buffer = vec![0; 4096];
        let (at, length) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
        let args = [id as u64, at, length, 0, 0, uid.into()];
        let count = self.request(Opcode::Read, args).unwrap().unwrap();
        self.close(id);
        buffer.truncate(count);
        String::from_utf8(buffer).unwrap()
    }
}

const RECORD: PinRecord = PinRecord {
    address: 0x7000,
    length: 3 * PAGE as u64,
    protection: READ | WRITE,
    flags: 0,
};

fn error(errno: i32) -> Result<usize> {
    Err(Error::new(errno))
}

#[test]
fn a_range_is_pinned_and_goes_with_its_descriptor() {
    let mut bed = Bed::new();
    let id = bed.range(7);
    assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
    assert_eq!(bed.pin(id, RECORD), Ok(101));
    let wanted = Wanted {
        address: 0x7000,
        length: 3 * PAGE,
        protection: READ | WRITE,
        owner: Some(7),
    };
    assert_eq!(bed.seen.borrow().pinned, [wanted]);
    assert_eq!(bed.seen.borrow().spaces, 0);
    assert_eq!(bed.list(7).lines().nth(1), Some("101 7 33 3 pinned"));
    bed.close(id);
    assert_eq!(bed.seen.borrow().released, [101]);
    assert_eq!(bed.list(7).lines().nth(1), Some("101 7 33 3 ending"));
    bed.seen.borrow().freed[0].store(true, Ordering::Release);
    assert_eq!(bed.list(7).lines().nth(1), None);
}

#[test]
fn the_order_of_the_steps_matters() {
    let mut bed = Bed::new();
    let id = bed.range(7);
    assert_eq!(bed.pin(id, RECORD), error(EINVAL));
    assert_eq!(bed.send(id, SEND_SPACE + 1), error(EINVAL));
    // A second address space replaces the first.
    assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
    assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
    assert_eq!(bed.seen.borrow().spaces, 1);
    assert!(bed.pin(id, RECORD).is_ok());
    assert_eq!(bed.send(id, SEND_SPACE), error(EBUSY));
    assert_eq!(bed.pin(id, RECORD), error(EBUSY));
    // A range that was never pinned has nothing to release, but an address space to let go.
    let other = bed.range(7);
    assert_eq!(bed.send(other, SEND_SPACE), Ok(0));
    bed.close(other);
    assert_eq!(bed.seen.borrow().spaces, 0);
    assert_eq!(bed.seen.borrow().released, []);
}

#[test]
fn bad_records_are_refused_and_leave_nothing() {
    let mut bed = Bed::new();
    let id = bed.range(7);
    let bad = [
        (
            PinRecord {
                length: 0,
                ..RECORD
            },
            EINVAL,
        ),
        (
            PinRecord {
                length: 100,
                ..RECORD
            },
            EINVAL,
        ),
        (
            PinRecord {
                address: 1,
                ..RECORD
            },
            EINVAL,
        ),
        (
            PinRecord {
                protection: 8,
                ..RECORD
            },
            EINVAL,
        ),
        (
            PinRecord {
                flags: UNCHARGED,
                ..RECORD
            },
            EPERM,
        ),
        (
            PinRecord {
                address: 1 << 47,
                ..RECORD
            },
            EFAULT,
        ),
        (
            PinRecord {
                length: 1 << 40,
                ..RECORD
            },
            EAGAIN,
        ),
    ];
    for (record, errno) in bad {
        assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
        assert_eq!(bed.pin(id, record), error(errno), "{record:?}");
        assert_eq!(bed.seen.borrow().spaces, 0, "{record:?}");
    }
    for length in [0, 23, 25, 4096] {
        assert_eq!(bed.call(id, PIN, &mut vec![0; length]), error(EINVAL));
    }
    assert_eq!(bed.call(id, 99, &mut RECORD.to_bytes()), error(EINVAL));
    bed.seen.borrow_mut().fail = Some(EFAULT);
    assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
    assert_eq!(bed.pin(id, RECORD), error(EFAULT));
    assert_eq!(bed.list(0).lines().count(), 1);
    // The same descriptor can be used for another attempt.
    bed.seen.borrow_mut().fail = None;
    assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
    assert_eq!(bed.pin(id, RECORD), Ok(101));
}

#[test]
fn only_root_pins_without_being_charged() {
    let mut bed = Bed::new();
    let id = bed.range(0);
    assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
    let record = PinRecord {
        flags: UNCHARGED,
        ..RECORD
    };
    assert_eq!(bed.pin(id, record), Ok(101));
    assert_eq!(bed.seen.borrow().pinned[0].owner, None);
}

#[test]
fn users_see_their_own_ranges_and_root_all() {
    let mut bed = Bed::new();
    for uid in [7, 70] {
        let id = bed.range(uid);
        assert_eq!(bed.send(id, SEND_SPACE), Ok(0));
        assert!(bed.pin(id, RECORD).is_ok());
    }
    assert_eq!(bed.list(7).lines().count(), 2);
    assert_eq!(bed.list(70).lines().nth(1), Some("102 70 33 3 pinned"));
    assert_eq!(bed.list(8).lines().count(), 1);
    assert_eq!(bed.list(0).lines().count(), 3);
}

#[test]
fn other_paths_and_other_uses_fail() {
    let mut bed = Bed::new();
    assert_eq!(bed.open("nothing", 0, 7), error(ENOENT));
    assert_eq!(bed.open("range", O_DIRECTORY, 7), error(ENOTDIR));
    assert_eq!(bed.open("ranges", O_WRONLY, 7), error(EACCES));
    assert_eq!(bed.open("", O_WRONLY, 7), error(EISDIR));
    let name = bed.open("range", O_STAT, 7).unwrap();
    assert_eq!(bed.send(name, SEND_SPACE), error(EOPNOTSUPP));
    assert_eq!(bed.pin(name, RECORD), error(EOPNOTSUPP));
    assert_eq!(bed.send(999, SEND_SPACE), error(EBADF));
    assert_eq!(bed.pin(999, RECORD), error(EBADF));
    let mut many = 0;
    let errno = loop {
        match bed.open("range", 0, 7) {
            Ok(_) => many += 1,
            other => break other,
        }
    };
    assert_eq!((many, errno), (HANDLES_PER_USER - 1, error(EMFILE)));
    assert!(bed.open("range", 0, 8).is_ok());
}
