//! What is left of a daemon that ends with all its threads. As in `misuse`, these checks are for
//! the kernel of this project only.

use crate::contexts;
use crate::contexts::{Child, Space};
use crate::misuse::{is_this_projects, wait_for};
use crate::serving::*;
use crate::suite::{Check, Suite, Verdict, expect, must};
use crate::sys;
use runtime::probe::{peek, poke};
use syscall::error::*;
use syscall::number::*;
use syscall::schemev2::Sqe;
use syscall::{Map, MapFlags, O_RDWR, PAGE_SIZE};

const CHECKS: &[Check] = &[
    (
        "pages of a daemon's request stay in a space that is kept, when all its threads are killed",
        |suite| ended(suite, false),
    ),
    (
        "the same when a thread of it faults, before the others are killed",
        |suite| ended(suite, true),
    ),
];

pub fn run(suite: &Suite) {
    if is_this_projects(suite) {
        suite.check_all(CHECKS);
    }
}

/// Words of the daemon's page: its socket, the object that it serves, and where it has the buffer
/// of the request.
const SOCKET: usize = 0;
const OBJECT: usize = 1;
const AT: usize = 2;
/// Not 0: the daemon has to fault.
const FAULT: usize = 3;

/// Makes a scheme with an object, reads one request, and waits to be killed or to fault.
fn daemon(argument: usize) -> ! {
    let shared = contexts::read_shared(argument);
    let page = shared.value;
    let (socket, fd) = (shared.slots + 1, shared.slots + 2);
    let capability = runtime::first::scheme_creation_capability();
    let _ = sys::dup(capability, b"create-scheme", socket);
    let mut params = [0; 32];
    params[16..24].copy_from_slice(&O_RDWR.to_le_bytes());
    let _ = sys::dup(socket, &params, fd);
    put_word(page, SOCKET, socket);
    put_word(page, OBJECT, fd);
    let mut sqe = Sqe::default();
    let _ = sys::read(socket, &mut sqe);
    let at = sqe.args[1] as usize;
    // This brings the page in.
    let _ = peek(at);
    put_word(page, AT, at);
    while word(page, FAULT) == 0 {
        let _ = sys::nanosleep(1_000_000);
    }
    // Nothing is mapped there.
    let _ = peek(1 << 46);
    loop {
        let _ = sys::nanosleep(1_000_000_000);
    }
}

/// A thread that never waits.
fn spin(_: usize) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

fn ended(suite: &Suite, faults: bool) -> Verdict {
    let page = shared_page()?;
    let stack = contexts::Stack::new(spin, 0)?;
    let record = contexts::share(suite, page)?;
    let first = Child::start(suite, Space::Clone, daemon, record)?;
    let fd = wait_for(page, OBJECT)?;
    let space = must("addrspace", suite.dup(first.context, b"addrspace"))?;
    let second = stack.start_in(suite, space)?;
    let client = Client::start(suite, SYS_WRITE, |page| {
        poke(page + PAGE_SIZE, 0x5a);
        [fd, page + PAGE_SIZE, PAGE_SIZE, 0, 0, 0]
    })?;
    let mut client = Some(client);
    let mut client_ends = || match client.take() {
        Some(client) => expect("the client", client.finish()?, Err(ENODEV)),
        None => Ok(()),
    };
    let at = wait_for(page, AT)?;
    let statuses = [
        second.privileged_status(suite)?,
        first.privileged_status(suite)?,
    ];
    // The second computes. So on one processor, it has not ended yet when the first ends, which
    // was woken. But it does not go on either.
    must("a turn of the second", sys::nanosleep(10_000_000))?;
    if faults {
        put_word(page, FAULT, 1);
        client_ends()?;
    }
    for status in statuses {
        must("kill", contexts::write_words(status, &[usize::MAX]))?;
    }
    for status in statuses {
        must("close", sys::close(status))?;
    }
    first.join()?;
    second.join()?;
    client_ends()?;
    let map = Map {
        offset: at,
        size: PAGE_SIZE,
        flags: MapFlags::PROT_READ | MapFlags::MAP_SHARED,
        address: 0,
    };
    let look = must("the page is there", sys::fmap(space, &map))?;
    expect("content", peek(look), 0x5a)?;
    expect("unmap", sys::funmap(look, PAGE_SIZE), Ok(0))?;
    for fd in [space, word(page, SOCKET), fd] {
        // The scheme has ended.
        let _ = sys::close(fd);
    }
    expect("unmap", sys::funmap(page, 4 * PAGE_SIZE), Ok(0))
}
