//! Every call in every state of an endpoint.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use scif_abi::Error;

use crate::ask::{BLOCK, ERR, HUP, IN, LOCAL, OUT, PAGE, READ, REMOTE, SELF};
use crate::bench::{Ask, Bench, Checked, Ep, Place, Side};

/// The states in which a program can have an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unbound,
    Bound,
    Listening,
    Connecting,
    Pending,
    Connected,
    Uncollected,
    Refused,
    Disconnected,
    Closed,
    /// A file that is no endpoint.
    File,
}

const STATES: [(State, &str); 11] = [
    (State::Unbound, "unbound"),
    (State::Bound, "bound"),
    (State::Listening, "listening"),
    (State::Connecting, "connecting"),
    (State::Pending, "pending"),
    (State::Connected, "connected"),
    (State::Uncollected, "uncollected"),
    (State::Refused, "refused"),
    (State::Disconnected, "disconnected"),
    (State::Closed, "closed"),
    (State::File, "another file"),
];

/// The result of a call in a state.
#[derive(Clone, Copy, Debug)]
enum Gives {
    /// It returns this value.
    Value(i64),
    /// It succeeds with any value.
    Success,
    /// It returns these bits of poll.
    Bits(u32),
    /// It fails with this error.
    Fails(Error),
}

type Make = fn(&mut Bench<'_>, Ep) -> Checked<Ask>;

/// A call, and its result in each of `STATES`.
struct Line {
    call: &'static str,
    make: Make,
    gives: [Gives; 11],
}

const OK: Gives = Gives::Success;
const ZERO: Gives = Gives::Value(0);
const INVAL: Gives = Gives::Fails(Error::InvalidArgument);
const ISCONN: Gives = Gives::Fails(Error::IsConnected);
const NOTCONN: Gives = Gives::Fails(Error::NotConnected);
const RESET: Gives = Gives::Fails(Error::ConnectionReset);
const PROGRESS: Gives = Gives::Fails(Error::InProgress);
const REFUSED: Gives = Gives::Fails(Error::ConnectionRefused);
const NOTSUPP: Gives = Gives::Fails(Error::NotSupported);
const AGAIN: Gives = Gives::Fails(Error::WouldBlock);
const XIO: Gives = Gives::Fails(Error::NoSuchAddress);
const NOTTY: Gives = Gives::Fails(Error::NotAnEndpoint);
const BADF: Gives = Gives::Fails(Error::BadDescriptor);
const NONE: Gives = Gives::Bits(0);
const P_OUT: Gives = Gives::Bits(OUT);
const P_ERR: Gives = Gives::Bits(ERR);
const P_HUP: Gives = Gives::Bits(HUP);
const P_NVAL: Gives = Gives::Bits(0x20);

#[rustfmt::skip]
const LINES: &[Line] = &[
    Line { call: "bind", make: |_, ep| Ok(ep.bind(5020)), gives:
        [OK, INVAL, ISCONN, ISCONN, ISCONN, ISCONN, ISCONN, INVAL, ISCONN, BADF, NOTTY] },
    Line { call: "listen", make: |_, ep| Ok(ep.listen(1)), gives:
        [INVAL, ZERO, ISCONN, ISCONN, ISCONN, ISCONN, ISCONN, ZERO, INVAL, BADF, NOTTY] },
    Line { call: "connect", make: connect, gives:
        [PROGRESS, PROGRESS, NOTSUPP, ISCONN, PROGRESS, ISCONN, OK, REFUSED, INVAL, BADF, NOTTY] },
    Line { call: "accept", make: accept, gives:
        [INVAL, INVAL, AGAIN, INVAL, INVAL, INVAL, INVAL, INVAL, INVAL, BADF, NOTTY] },
    Line { call: "send of 0 bytes", make: |_, ep| Ok(ep.send(0, BLOCK)), gives:
        [ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, BADF, NOTTY] },
    Line { call: "send", make: |_, ep| Ok(ep.send(1, 0)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, OK, OK, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "recv of 0 bytes", make: |_, ep| Ok(ep.recv(0, BLOCK)), gives:
        [ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, BADF, NOTTY] },
    Line { call: "recv", make: |_, ep| Ok(ep.recv(1, 0)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, ZERO, ZERO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "register", make: register, gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, OK, OK, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "unregister", make: |_, ep| Ok(ep.unregister(0, PAGE)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "mmap", make: map, gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "readfrom", make: |_, ep| Ok(ep.read_from(0, 8, 0, 0)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "writeto", make: |_, ep| Ok(ep.write_to(0, 8, 0, 0)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "vreadfrom", make: virtual_read, gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "vwriteto", make: virtual_write, gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "fence_mark", make: |_, ep| Ok(ep.fence_mark(SELF)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, OK, OK, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "fence_wait", make: |_, ep| Ok(ep.fence_wait(77)), gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, INVAL, INVAL, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "fence_signal", make: signal, gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "get_pages", make: get_pages, gives:
        [NOTCONN, NOTCONN, NOTCONN, NOTCONN, NOTCONN, XIO, XIO, NOTCONN, RESET, BADF, NOTTY] },
    Line { call: "poll", make: |_, ep| Ok(ep.poll(IN | OUT)), gives:
        [P_ERR, P_ERR, NONE, P_ERR, NONE, P_OUT, P_OUT, P_OUT, P_HUP, P_NVAL, P_NVAL] },
    Line { call: "close", make: |_, ep| Ok(ep.close()), gives:
        [ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, BADF, NOTTY] },
];

fn connect(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let (_, at) = b.listener(Side::B, 5)?;
    // This fails on a closed endpoint with the same error as the call itself.
    b.call(ep.nonblocking())?;
    Ok(ep.connect(at))
}

fn accept(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let new = b.new_endpoint(ep.side);
    Ok(ep.accept(new, 0))
}

fn register(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let memory = b.memory(ep.side, 1)?;
    Ok(ep.register(memory, 0, PAGE, 0, READ, 0))
}

fn map(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let mapping = b.new_memory(ep.side);
    Ok(ep.map(mapping, 0, PAGE, READ))
}

fn virtual_read(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let memory = b.memory(ep.side, 1)?;
    Ok(ep.virtual_read(memory, 0, 8, 0, 0))
}

fn virtual_write(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let memory = b.memory(ep.side, 1)?;
    Ok(ep.virtual_write(memory, 0, 8, 0, 0))
}

fn signal(_: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    Ok(ep.fence_signal((0, 1), (0, 2), SELF | LOCAL | REMOTE))
}

fn get_pages(b: &mut Bench<'_>, ep: Ep) -> Checked<Ask> {
    let pages = b.new_memory(ep.side);
    Ok(ep.get_pages(pages, 0, PAGE))
}

/// Makes an endpoint of A in a state.
fn endpoint_in(b: &mut Bench<'_>, state: State) -> Checked<Ep> {
    match state {
        State::Unbound => b.open(Side::A),
        State::Bound => Ok(b.bound(Side::A)?.0),
        State::Listening => Ok(b.listener(Side::A, 5)?.0),
        State::Connecting => {
            let (_, at) = b.listener(Side::B, 5)?;
            let active = b.open(Side::A)?;
            let connect = b.begin(active.connect(at))?;
            b.waits(connect)?;
            Ok(active)
        }
        State::Pending => {
            let active = b.open(Side::A)?;
            b.request(active)?;
            Ok(active)
        }
        State::Connected => Ok(b.pair()?.0),
        State::Uncollected => {
            let active = b.open(Side::A)?;
            let listener = b.request(active)?;
            b.accept(listener)?;
            b.becomes(active.poll(OUT), OUT.into())?;
            Ok(active)
        }
        State::Refused => {
            let target = b.free_port(Side::B)?;
            let active = b.open(Side::A)?;
            b.ok(active.nonblocking())?;
            b.in_progress(active.connect(target))?;
            b.becomes(active.poll(OUT), OUT.into())?;
            Ok(active)
        }
        State::Disconnected => {
            let (active, passive) = b.pair()?;
            b.ok(passive.close())?;
            b.becomes(active.poll(0), HUP.into())?;
            Ok(active)
        }
        State::File => {
            let file = b.new_endpoint(Side::A);
            b.ok(file.open_file())?;
            Ok(file)
        }
        State::Closed => {
            let endpoint = b.open(Side::A)?;
            b.ok(endpoint.close())?;
            Ok(endpoint)
        }
    }
}

/// One cell of the table.
pub struct Cell {
    line: &'static Line,
    state: usize,
}

/// Returns the cells for a place. The simulator has no files but endpoints.
pub fn cells(place: Place) -> Vec<Cell> {
    let here = |state: &usize| STATES[*state].0 != State::File || place != Place::Sim;
    let states = (0..STATES.len()).filter(here);
    LINES
        .iter()
        .flat_map(|line| states.clone().map(move |state| Cell { line, state }))
        .collect()
}

impl Cell {
    /// Returns the name of the cell.
    pub fn name(&self) -> String {
        format!("state {}, {}", STATES[self.state].1, self.line.call)
    }

    /// Brings an endpoint into the state and makes the call.
    ///
    /// # Errors When the result differs from the table.
    pub fn run(&self, b: &mut Bench<'_>) -> Checked {
        let endpoint = endpoint_in(b, STATES[self.state].0)?;
        let ask = (self.line.make)(b, endpoint)?;
        match self.line.gives[self.state] {
            Gives::Success => b.ok(ask).map(|_| ()),
            Gives::Value(value) => b.gives(ask, value),
            Gives::Bits(bits) => b.gives(ask, bits.into()),
            // A call that has begun changes something.
            Gives::Fails(Error::InProgress) => b.in_progress(ask),
            Gives::Fails(error) => b.fails(ask, error),
        }
    }
}

const ABOUT: &str = "
## States

The result of each call in each state of its endpoint:

| state | meaning |
| --- | --- |
| connecting | another thread waits in a blocking connect |
| pending | a non-blocking connect is under way |
| uncollected, refused | a non-blocking connect has succeeded, or failed, and no call has \
collected the result |
| disconnected | the peer has closed |
| another file | the descriptor is not one of an endpoint (booted nodes only) |

The arguments: register has the length of a page; the calls on windows have offset 0, where nothing
is registered; connect has O_NONBLOCK and the port of a listener.

";

/// Returns the table for people.
pub fn page() -> String {
    let mut page = String::from(ABOUT);
    page.push_str("| call |");
    for (_, name) in STATES {
        page.push_str(&format!(" {name} |"));
    }
    page.push_str("\n| --- |");
    page.push_str(&" --- |".repeat(STATES.len()));
    page.push('\n');
    for line in LINES {
        page.push_str(&format!("| {} |", line.call));
        for gives in line.gives {
            page.push_str(&format!(" {} |", text(gives)));
        }
        page.push('\n');
    }
    page
}

fn text(gives: Gives) -> String {
    match gives {
        Gives::Success => "succeeds".into(),
        Gives::Value(value) => value.to_string(),
        Gives::Fails(error) => error.symbol().into(),
        Gives::Bits(bits) => {
            let names = [
                (IN, "IN"),
                (OUT, "OUT"),
                (ERR, "ERR"),
                (HUP, "HUP"),
                (0x20, "NVAL"),
            ];
            let set: Vec<&str> = names
                .iter()
                .filter(|(bit, _)| bits & bit != 0)
                .map(|(_, name)| *name)
                .collect();
            if set.is_empty() {
                "nothing".into()
            } else {
                set.join(", ")
            }
        }
    }
}
