//! The calls with plain numbers, as the C library has them: descriptors, offsets and flags are
//! numbers, errors are errnos, and nothing is closed by itself.
#![no_std]
#![no_main]

use scif::{Memory, PortId, raw};
use scif_examples::{ensure, report};

runtime::main!(main);

const BLOCK: u32 = 1;
const ACCEPT_SYNC: u32 = 1;
const READ_WRITE: u32 = 3;
const RMA_SYNC: u32 = 4;
const ENOTCONN: i32 = 107;
const ENXIO: i32 = 6;
const EFAULT: i32 = 14;

fn main() -> i32 {
    match run() {
        Ok(good) => report(ensure(good, "another result than documented")),
        Err(errno) => report(Err(scif::Error::from_errno(errno).into())),
    }
}

/// Both ends in one program, on one node.
fn run() -> raw::Result<bool> {
    let listener = raw::open()?;
    let port = raw::bind(listener, 0)?;
    raw::listen(listener, 1)?;
    let (_, own) = raw::get_node_ids(&mut [])?;
    let client = raw::open()?;
    // The request is not accepted yet, so only a connect that does not wait can be made here.
    raw::set_nonblocking(client, true)?;
    let to = PortId::new(own, port);
    let started = raw::connect(client, to);
    let (server, _) = raw::accept(listener, ACCEPT_SYNC)?;
    let mut entries = [raw::PollFd::new(client, 4)];
    raw::poll(&mut entries, None)?;
    raw::connect(client, to)?;

    let memory = Memory::ordinary(4096).map_err(|error| error.errno)?;
    let offset = raw::register(server, memory.range(), 0, READ_WRITE, 0)?;
    raw::vwriteto(client, &b"plain numbers"[..], offset, RMA_SYNC)?;
    let mut text = [0; 13];
    memory.copy_out(0, &mut text).map_err(|error| error.errno)?;
    raw::unregister(server, offset, 4096)?;
    let gone = raw::vwriteto(client, &b"x"[..], offset, RMA_SYNC);
    let absent = raw::register(server, raw::Range::absent(4096), 0, READ_WRITE, 0);
    let alone = raw::register(listener, memory.range(), 0, READ_WRITE, 0);

    let sent = raw::send(client, &b"bye"[..], BLOCK)?;
    for epd in [client, server, listener] {
        raw::close(epd)?;
    }
    Ok(started == Err(115)
        && entries[0].revents == 4
        && &text == b"plain numbers"
        && sent == 3
        && gone == Err(ENXIO)
        && absent == Err(EFAULT)
        && alone == Err(ENOTCONN))
}
