//! Calls that a careful program does not make, and requests that end badly. These checks are for
//! the kernel of this project only: Redox's stops on some of them, and does others in its own way.

use crate::serving::*;
use crate::suite::{Check, Suite, Verdict, expect, hold, must, scheme_id::*};
use crate::sys;
use alloc::{format, vec::Vec};
use syscall::error::*;
use syscall::number::*;
use syscall::schemev2::Opcode;
use syscall::{Map, MapFlags, O_RDONLY, O_WRONLY, PAGE_SIZE};

/// More than the bounce buffers of an address space.
const MANY: usize = 33;
const PRIVATE: MapFlags = MapFlags::PROT_READ
    .union(MapFlags::PROT_WRITE)
    .union(MapFlags::MAP_PRIVATE);

const CHECKS: &[Check] = &[
    (
        "a small buffer in the first page, when the daemon has many others",
        buffer_in_first_page,
    ),
    (
        "an offset of the clock that no clock can show is EINVAL",
        clock_offset,
    ),
];

pub fn run(suite: &Suite) {
    if is_this_projects(suite) {
        suite.check_all(CHECKS);
    }
}

/// Whether this is the kernel of this project, by the last line of `uname`.
fn is_this_projects(suite: &Suite) -> bool {
    let mut text = [0; 128];
    let count = suite.open(SYS, "uname", O_RDONLY).and_then(|fd| {
        let count = sys::read(fd, &mut text);
        sys::close(fd).and(count)
    });
    count.is_ok_and(|count| text[..count].ends_with(b"\nskiff\n"))
}

fn end(server: Server<'_>) -> Verdict {
    expect("close the socket", sys::close(server.socket), Ok(0))
}

fn buffer_in_first_page(suite: &Suite) -> Verdict {
    let server = Server::new(suite)?;
    let (fd, number) = server.file()?;
    let mut waiting = Vec::new();
    for _ in 0..MANY {
        let client = Client::start(suite, SYS_READ, |page| [fd, page + BUFFER, 4, 0, 0, 0])?;
        waiting.push((server.expect(Opcode::Read)?, client));
    }
    let first = Map {
        offset: 0,
        size: PAGE_SIZE,
        flags: PRIVATE | MapFlags::MAP_FIXED_NOREPLACE,
        address: 0,
    };
    expect("map", sys::fmap(usize::MAX, &first), Ok(0))?;
    let client = Client::start(suite, SYS_READ, |_| [fd, 8, 4, 0, 0, 0])?;
    waiting.push((server.expect(Opcode::Read)?, client));
    expect("unmap", sys::funmap(0, PAGE_SIZE), Ok(0))?;
    for (sqe, client) in waiting {
        server.answer(&sqe, Ok(4))?;
        expect("read", client.finish()?, Ok(4))?;
    }
    server.close(fd, number)?;
    end(server)
}

fn clock_offset(suite: &Suite) -> Verdict {
    let fd = must("open", suite.open(SYS, "update_time_offset", O_WRONLY))?;
    for offset in [i128::MAX, i128::MIN, i128::from(i64::MAX) * 1_000_000_000] {
        let outcome = sys::write(fd, &offset.to_ne_bytes());
        expect("too far away", outcome, Err(EINVAL))?;
    }
    let day = 86_400_000_000_000_i128;
    let before = sys::clock(syscall::CLOCK_REALTIME).map_err(|e| format!("clock: {e}"))?;
    expect("a day", sys::write(fd, &day.to_ne_bytes()), Ok(16))?;
    let after = sys::clock(syscall::CLOCK_REALTIME).map_err(|e| format!("clock: {e}"))?;
    expect("none", sys::write(fd, &0_i128.to_ne_bytes()), Ok(16))?;
    hold("a day later", after - before >= day as u128)?;
    expect("close", sys::close(fd), Ok(0))
}
