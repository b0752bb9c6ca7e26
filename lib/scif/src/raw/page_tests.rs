//! The example of docs/scheme.md: its lines are those of the functions below, and its bytes those
//! of the requests that these make.

use std::cell::RefCell;
use std::rc::Rc;

use hal::testing::host::{self, Request};
use libredox::{Fd, flag::O_RDWR};
use scif_abi::call::{Call, MemoryCall, RegisterRecord};
use scif_abi::codec::Operation;
use scif_abi::flags::{Protection, RmaFlags};
use syscall::CallFlags;
use zerocopy::FromBytes;

const PAGE: &str = include_str!("../../../../docs/scheme.md");
const SOURCE: &str = include_str!("page_tests.rs");
/// The token that the page has.
const TOKEN: usize = 0x1122_3344_5566_7788;
const OFFSET: usize = 0x7000;

/// A request by `call`: descriptor, payload, metadata.
type Made = (usize, Vec<u8>, Vec<u64>);

fn register_a_window() -> libredox::error::Result<(Fd, usize)> {
    let none = CallFlags::empty();
    let memory = Fd::open("/scheme/scif/memory", O_RDWR, 0)?;
    let token = memory.call_rw(&mut [], none, &[80, 1, 0])?; // Provide: 1 page
    // Here the program maps the page, by `fmap` of `memory`.
    let peer = Fd::open("/scheme/scif/1/2050", O_RDWR, 0)?; // connects
    let mut record = [0; 40]; // RegisterRecord
    record[0..8].copy_from_slice(&token.to_le_bytes());
    record[16..24].copy_from_slice(&4096_u64.to_le_bytes()); // length
    record[32..36].copy_from_slice(&3_u32.to_le_bytes()); // protection
    let offset = peer.call_rw(&mut record, none, &[8, 0, 0])?; // Register
    Ok((peer, offset))
}

fn read_a_window(peer: &Fd, remote: u64) -> libredox::error::Result<()> {
    let (none, mut buffer) = (CallFlags::empty(), [0; 16]);
    peer.call_rw(&mut buffer, none, &[12, remote, 4])?;
    Ok(())
}

/// The lines of the page's blocks in Rust.
fn lines() -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split("```rust,ignore\n").skip(1);
    blocks.flat_map(|rest| rest.split("```").next().unwrap_or("").lines())
}

/// The bytes that the page lists.
fn bytes() -> Vec<u8> {
    let lines = PAGE.lines().filter(|line| line.starts_with(" byte "));
    let byte = |word: &str| u8::from_str_radix(word, 16).ok();
    lines
        .flat_map(|line| line.split_whitespace().skip(2).map_while(byte))
        .collect()
}

/// Runs a test with a daemon that gives the page's token and offset; the requests are kept.
fn play(test: impl FnOnce(&RefCell<Vec<Made>>)) {
    let made = Rc::new(RefCell::new(Vec::<Made>::new()));
    let kept = made.clone();
    let answer = move |request: Request<'_>| match request {
        Request::Open("/scheme/scif/memory") => Ok(5),
        Request::Open("/scheme/scif/1/2050") => Ok(6),
        Request::Call(fd, payload, metadata) => {
            let mut made = kept.borrow_mut();
            made.push((fd, payload.to_vec(), metadata.to_vec()));
            Ok(if fd == 5 { TOKEN } else { OFFSET })
        }
        Request::Close(_) => Ok(0),
        other => panic!("not expected: {other:?}"),
    };
    host::play(answer, || test(&made));
}

#[test]
fn the_page_has_the_lines_that_run_here() {
    let mut rest = SOURCE;
    let mut count = 0;
    for line in lines().filter(|line| !line.is_empty()) {
        let at = rest.find(line);
        let at = at.unwrap_or_else(|| panic!("docs/scheme.md: not in order here: {line}"));
        rest = &rest[at + line.len()..];
        count += 1;
    }
    assert_eq!(count, 13);
}

#[test]
fn the_lines_make_the_requests_of_the_page() {
    play(|made| {
        let (peer, offset) = register_a_window().unwrap();
        assert_eq!(offset, OFFSET);
        read_a_window(&peer, 0x5000).unwrap();
        let made = made.borrow();
        let provide = MemoryCall::Provide { pages: 1 };
        let [pages, none] = provide.words();
        let first = (5, vec![], vec![provide.number(), pages, none]);
        let record = RegisterRecord {
            memory: (TOKEN as u64).into(),
            length: 4096.into(),
            protection: Protection::all().bits().into(),
            ..RegisterRecord::default()
        };
        assert_eq!(RegisterRecord::read_from_bytes(&bytes()).unwrap(), record);
        let second = (6, bytes(), vec![Call::REGISTER, 0, 0]);
        let read = Call::VirtualReadFrom {
            remote_offset: 0x5000,
            flags: RmaFlags::SYNC.bits(),
        };
        let [remote, flags] = read.words();
        let third = (6, vec![0; 16], vec![read.number(), remote, flags]);
        assert_eq!(*made, [first, second, third]);
    });
}
