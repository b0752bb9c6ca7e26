//! Management datagrams: `umad0` and `issm0` through the kernel, the agents that are built in, long
//! messages, and another node.
//!
//! `mad-test`, as root, on one node; `mad-test serve` on a node answers `mad-test <node>` on
//! another one until it is told to end. `mad-test hostile`: programs that flood, lie and die.
//! `mad-test loss <node>`: a node that goes and comes, as seen from here.
#![no_std]
#![no_main]

extern crate alloc;

mod hostile;
mod loss;

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use guest_tests::{Suite, settled};
use libredox::Fd;
use libredox::flag::{O_NONBLOCK, O_RDONLY};
use mad_core::agents::Registration;
use mad_core::fabric::SWITCH_LID;
use mad_core::mad::{HEADER_BYTES, Mad, OPENIB_OUI, PERMISSIVE_LID, method};
use mad_core::packet::Destination;
use runtime::fs;
use runtime::process::{Child, Command};
use runtime::time::sleep;
use scif::{Listener, PortId, RecvFlags, SendFlags};
use syscall::error::{EAGAIN, EBADF, EINVAL, EIO, ENOMEM, ENOSPC, ENOTTY, EPIPE, Error};
use umad::{Agent, Port, RetryPolicy, client, directed, general, get, mad_core, node_info, subnet};

runtime::main!(main);

/// A class of vendors for the exchange of the two programs.
const CLASS: u8 = 0x35;
/// The port of SCIF for bytes that are counted.
const SINK: u16 = 2900;
/// The attribute that ends the server.
const END: u16 = 0xff;
/// The longest time that `serve` may take.
const LIMIT: Duration = Duration::from_secs(100);

fn main() -> i32 {
    let mut arguments = runtime::env::args().skip(1);
    let (argument, second) = (arguments.next(), arguments.next());
    let mut suite = Suite::new("mad-test");
    match argument.as_deref() {
        None => own(&mut suite),
        Some("serve") => serve(&mut suite),
        Some("gone") => gone(&mut suite),
        Some("hold") => return hostile::hold(),
        Some("hostile") => hostile::test(&mut suite),
        Some("flooded") => hostile::flooded(&mut suite),
        Some("flood") => match second.map(|node| node.parse()) {
            Some(Ok(node)) => hostile::flood_of(&mut suite, node),
            _ => return 2,
        },
        Some("manage") => return i32::from(open_manager(O_RDONLY).is_err()),
        Some("loss") => match second.map(|node| node.parse()) {
            Some(Ok(node)) => loss::test(&mut suite, node),
            _ => return 2,
        },
        Some(node) => match node.parse() {
            Ok(node) => pair(&mut suite, node),
            Err(_) => return 2,
        },
    }
    suite.finish()
}

fn errno<T>(result: Result<T, Error>) -> i32 {
    result.map_or_else(|error| error.errno, |_| 0)
}

fn text(name: &str) -> alloc::string::String {
    let path = alloc::format!("/scheme/infiniband/{name}");
    fs::read_to_string(&path).unwrap_or_default()
}

/// The attribute in an answer of subnet management.
fn data(port: &Port, agent: umad::Agent, lid: u16, mad: &Mad) -> Option<(u16, [u8; 64])> {
    let answer = port.ask(agent, &subnet(lid), mad.bytes(), RetryPolicy::USUAL);
    let smp = answer.ok()??.mad().smp();
    Some((smp.header.status.get(), smp.data))
}

fn own(suite: &mut Suite) {
    let before = text("agents");
    registering(suite);
    asking(suite);
    reading(suite);
    managing(suite);
    suite.equal(
        "what is left",
        settled(|| text("agents"), &before),
        before.clone(),
    );
}

fn registering(suite: &mut Suite) {
    let port = Port::open().expect("umad0 opens");
    for (name, class, oui, rmpp_version) in [
        ("a class beyond the last", 80, [0; 3], 0),
        ("a vendor without a name", 0x30, [0; 3], 0),
        ("an unknown version of RMPP", CLASS, OPENIB_OUI, 2),
        ("RMPP of a class without", 4, [0; 3], 1),
    ] {
        let asked = Registration {
            oui,
            rmpp_version,
            ..client(class, 1)
        };
        suite.equal(name, errno(port.register(&asked)), EINVAL);
    }
    suite.equal(
        "a garbage agent",
        errno(port.unregister(umad::Agent(0x1234))),
        EINVAL,
    );
    suite.equal(
        "an unknown request",
        errno(port.control(0x1b77, &mut [])),
        ENOTTY,
    );
    let sent = port.send(
        umad::Agent(3),
        &subnet(1),
        node_info(1).bytes(),
        RetryPolicy::USUAL,
    );
    suite.equal("a send of no agent", errno(sent), EIO);
    for number in 0..32 {
        let agent = port.register(&client(4, 1)).map(|agent| agent.0);
        suite.equal("an agent", agent.ok(), Some(number));
    }
    suite.equal("one more", errno(port.register(&client(4, 1))), ENOMEM);
}

fn asking(suite: &mut Suite) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(0x81, 1)).expect("an agent");
    let node = data(&port, agent, PERMISSIVE_LID, &directed(0x11, 0, &[], 1));
    let node = node.map(|(status, data)| (status, data[2], data[3]));
    suite.equal("the own node", node, Some((0x8000, 1, 1)));
    let switch = data(&port, agent, PERMISSIVE_LID, &directed(0x11, 0, &[1], 2));
    let switch = switch.map(|(status, data)| (status, data[2], data[3] >= 8));
    suite.equal("the switch", switch, Some((0x8000, 2, true)));
    let wrong = directed(0x11, 0, &[2], 3);
    let sent = port.send(
        agent,
        &subnet(PERMISSIVE_LID),
        wrong.bytes(),
        RetryPolicy::USUAL,
    );
    suite.equal("another port", errno(sent), EINVAL);
    let by_lid = port.register(&client(1, 1)).expect("an agent");
    let switch = data(&port, by_lid, SWITCH_LID, &get(1, 1, 0x12, 0, 4));
    suite.equal("SwitchInfo", switch.map(|(status, _)| status), Some(0));
    let unknown = data(&port, by_lid, 1, &get(1, 1, 0x77, 0, 5));
    suite.equal(
        "an unknown attribute",
        unknown.map(|(status, _)| status),
        Some(0x0c),
    );
    let counters = port.register(&client(4, 1)).expect("an agent");
    let mut mad = get(4, 1, 0x12, 0, 6);
    mad.rest[64 - HEADER_BYTES + 1] = 1;
    let answer = port.ask(counters, &general(1), mad.bytes(), RetryPolicy::USUAL);
    let sent = answer.ok().flatten().map(|answer| {
        let bytes = answer.mad();
        bytes.bytes()[64 + 32..64 + 36].iter().any(|byte| *byte > 0)
    });
    suite.equal("counters", sent, Some(true));
    let nobody = RetryPolicy {
        timeout_ms: 20,
        retries: 1,
    };
    let answer = port.ask(by_lid, &subnet(0x99), node_info(7).bytes(), nobody);
    suite.equal(
        "nobody there",
        answer.map(|answer| answer.is_none()).ok(),
        Some(true),
    );
    let never = port.ask(
        by_lid,
        &subnet(0x99),
        node_info(8).bytes(),
        RetryPolicy::NONE,
    );
    suite.equal("nobody there, without a time limit", errno(never), EINVAL);
}

fn reading(suite: &mut Suite) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(3, 2)).expect("an agent");
    // All ports of the fabric: several segments.
    let mut mad = get(3, 2, 0x12, 0, 1);
    mad.header.method = method::GET_TABLE;
    let mut buffer = vec![0x5a; 8192];
    suite.equal("nothing there", errno(port.read(&mut buffer)), EAGAIN);
    let sent = port.send(agent, &general(1), mad.bytes(), RetryPolicy::USUAL);
    suite.equal("a query", errno(sent), 0);
    suite.equal(
        "shorter than the header",
        errno(port.read(&mut buffer[..63])),
        EINVAL,
    );
    suite.equal(
        "shorter than a datagram",
        errno(port.read(&mut buffer[..319])),
        EINVAL,
    );
    buffer.fill(0x5a);
    suite.equal(
        "shorter than the message",
        errno(port.read(&mut buffer[..320])),
        ENOSPC,
    );
    // The refused read has stored the length and the first datagram, and no more.
    let length = u32::from_ne_bytes([buffer[16], buffer[17], buffer[18], buffer[19]]) as usize;
    suite.holds(
        "the length is told",
        length > 320 && (length - 64 - 56).is_multiple_of(72),
    );
    suite.equal(
        "the first datagram",
        buffer[64..68].to_vec(),
        vec![1, 3, 2, 0x92],
    );
    suite.holds(
        "and no more",
        buffer[320..].iter().all(|byte| *byte == 0x5a),
    );
    suite.equal(
        "a byte less",
        errno(port.read(&mut buffer[..length - 1])),
        ENOSPC,
    );
    suite.equal(
        "all of it",
        port.read(&mut buffer[..length]).ok(),
        Some(length),
    );
    suite.equal("and nothing behind", errno(port.read(&mut buffer)), EAGAIN);
}

fn open_manager(flags: i32) -> Result<Fd, Error> {
    Fd::open("/scheme/infiniband/issm0", flags, 0).map_err(Error::from)
}

/// A program that opens `issm0`, and waits until it is free.
fn waiting_manager() -> Child {
    let mut command = Command::new("mad-test");
    command.args(["manage"]).spawn().expect("a program starts")
}

fn managing(suite: &mut Suite) {
    let open = open_manager;
    let mask = || text("class/infiniband/scif0/ports/1/cap_mask");
    let without = mask();
    let first = open(O_RDONLY);
    suite.holds(
        "issm0 opens and sets the bit",
        first.is_ok() && mask() != without,
    );
    suite.equal("a second one", errno(open(O_RDONLY | O_NONBLOCK)), EAGAIN);
    // Programs that open it now wait, also behind one that is killed meanwhile.
    let (mut killed, mut second) = (waiting_manager(), waiting_manager());
    sleep(Duration::from_millis(300));
    let waits = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    suite.holds("two opens wait", waits(&mut killed) && waits(&mut second));
    suite.holds(
        "one is killed",
        killed.kill().is_ok() && killed.wait().is_ok(),
    );
    suite.equal("meanwhile", errno(open(O_RDONLY | O_NONBLOCK)), EAGAIN);
    let read = first.as_ref().map(|file| file.read(&mut [0; 8]));
    let read = read.map(|read| read.map_err(|error| error.errno()));
    suite.equal("a read of it", read.ok(), Some(Err(EINVAL)));
    drop(first);
    let ended = second.wait().map(|status| status.code());
    suite.equal("the other one has got it", ended.ok(), Some(Some(0)));
    suite.equal(
        "closed, the bit is clear",
        settled(mask, &without),
        without.clone(),
    );
    suite.equal("and it opens again", errno(open(O_RDONLY | O_NONBLOCK)), 0);
    suite.holds(
        "no descriptor",
        errno(Fd::new(999).read(&mut [0; 8]).map_err(Error::from)) == EBADF,
    );
}

/// What an open `umad0` gives after its daemon was killed, which happens while this program waits.
fn gone(suite: &mut Suite) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(4, 1)).expect("an agent");
    let got = port.receive(Some(LIMIT));
    suite.equal("a receive that waits", errno(got), EIO);
    suite.equal("a read", errno(port.read(&mut [0; 320])), EIO);
    let sent = port.send(agent, &general(1), node_info(1).bytes(), RetryPolicy::NONE);
    suite.equal("a send", errno(sent), EIO);
    suite.equal("a request", errno(port.unregister(agent)), EPIPE);
}

fn server() -> Registration {
    Registration {
        methods: 1 << method::GET,
        ..client(CLASS, 1)
    }
}

/// Answers each request with its own data.
fn serve(suite: &mut Suite) {
    sink();
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&server()).expect("an agent");
    let mut count = 0;
    loop {
        let Ok(Some(asked)) = port.receive(Some(LIMIT)) else {
            suite.check("a request", Err("none came".into()));
            return;
        };
        // An answer of this program that nobody acknowledged: its client was too late.
        if asked.has_timed_out {
            continue;
        }
        let mut answer = asked.message.clone();
        answer[3] = method::GET_RESPONSE;
        let sent = port.send(agent, &asked.from, &answer, RetryPolicy::NONE);
        if sent.is_err() {
            suite.equal("an answer", errno(sent), 0);
        }
        count += 1;
        if asked.mad().header.attribute.get() == END {
            suite.holds("it was asked", count > 1);
            // The last segments of the answer may still be on their way.
            while port
                .receive(Some(Duration::from_millis(200)))
                .is_ok_and(|got| got.is_some())
            {}
            return;
        }
    }
}

/// A message for the server with this number of bytes of data.
fn message(attribute: u16, tid: u32, bytes: usize) -> Vec<u8> {
    let mut message = get(CLASS, 1, attribute, 0, tid).bytes()[..40].to_vec();
    message[26] = 1;
    message[37..40].copy_from_slice(&OPENIB_OUI);
    message.extend((0..bytes).map(|at| (at * 13 % 251) as u8));
    message
}

/// Asks the server on a node, which may still have to start: then the node itself refuses the
/// request, or nobody answers. Whether it answers.
fn ask_server(port: &Port, agent: Agent, to: &Destination, attribute: u16, tid: &mut u32) -> bool {
    const TRIES: u32 = 600;
    let retry = RetryPolicy {
        timeout_ms: 500,
        retries: 0,
    };
    for _ in 0..TRIES {
        *tid += 1;
        let answer = port.ask(agent, to, &message(attribute, *tid, 8), retry);
        match answer {
            Ok(Some(answer)) if answer.mad().header.status.get() == 0 => return true,
            Ok(Some(_)) => sleep(Duration::from_millis(100)),
            Ok(None) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Words of four bytes that the own port has sent.
fn sent_words(port: &Port, agent: Agent, own: u16, tid: u32) -> Option<u64> {
    let mut mad = get(4, 1, 0x1d, 0, tid);
    mad.rest[64 - HEADER_BYTES + 1] = 1;
    let answer = port.ask(agent, &general(own + 1), mad.bytes(), RetryPolicy::USUAL);
    let answer = answer.ok()??.mad();
    let words = answer.bytes().get(64 + 8..64 + 16)?.try_into().ok()?;
    Some(u64::from_be_bytes(words))
}

/// Bytes of a connection of SCIF to another node pass the port, also when it has ended.
fn scif_traffic(suite: &mut Suite, port: &Port, node: u16) {
    const BYTES: u64 = 1 << 20;
    let agent = port.register(&client(4, 1)).expect("an agent");
    let own = scif::nodes().expect("SCIF is there").own;
    let mut tid = 0x700;
    let mut words = || {
        tid += 1;
        sent_words(port, agent, own, tid).unwrap_or(0)
    };
    let before = words();
    let piece = [7; 4096];
    let sent = scif::connect(PortId::new(node, SINK)).and_then(|endpoint| {
        let pieces = (0..BYTES / 4096).map(|_| endpoint.send(&piece, SendFlags::BLOCK));
        pieces.sum::<Result<usize, _>>()
    });
    suite.equal(
        "bytes go to the other node",
        sent.ok(),
        Some(BYTES as usize),
    );
    let has_grown = || words().wrapping_sub(before) >= BYTES / 4;
    suite.holds("the port has sent them", settled(has_grown, &true));
}

/// Takes the bytes of [`scif_traffic`] in a thread of its own.
fn sink() {
    let listener = Listener::bind(SINK).expect("nobody has the port");
    let thread = runtime::thread::spawn(move || {
        let Ok((endpoint, _)) = listener.accept() else {
            return;
        };
        let mut buffer = [0; 4096];
        while endpoint.recv(&mut buffer, RecvFlags::BLOCK).is_ok() {}
    });
    thread.expect("a thread starts");
}

fn pair(suite: &mut Suite, node: u16) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(CLASS, 1)).expect("an agent");
    let to = general(node + 1);
    let mut tid = 100;
    let is_there = ask_server(&port, agent, &to, 1, &mut tid);
    suite.holds("the server answers", is_there);
    let long = RetryPolicy {
        timeout_ms: 60_000,
        retries: 3,
    };
    for (tid, bytes) in (2..).zip([216, 217, 5000, 200_000]) {
        let asked = message(1, tid, bytes);
        let answer = port.ask(agent, &to, &asked, long).ok().flatten();
        let is_same = answer.is_some_and(|answer| answer.message[40..] == asked[40..]);
        suite.holds("a long message there and back", is_same);
    }
    scif_traffic(suite, &port, node);
    let directed_agent = port.register(&client(0x81, 1)).expect("an agent");
    let path = [1, node as u8 + 1];
    let there = data(
        &port,
        directed_agent,
        PERMISSIVE_LID,
        &directed(0x15, 0, &path, 90),
    );
    let lid = there.map(|(status, data)| (status, data[16], data[17]));
    suite.equal(
        "by a directed route",
        lid,
        Some((0x8000, 0, node as u8 + 1)),
    );
    let subnet_agent = port.register(&client(1, 1)).expect("an agent");
    for lid in [1, node + 1, SWITCH_LID] {
        let info = data(&port, subnet_agent, lid, &node_info(91));
        suite.equal(
            "by a local identifier",
            info.map(|(status, _)| status),
            Some(0),
        );
    }
    let query = port.register(&client(3, 2)).expect("an agent");
    let mut mad = get(3, 2, 0x20, 0, 92);
    mad.header.method = method::GET_TABLE;
    let links = port
        .ask(query, &general(1), mad.bytes(), RetryPolicy::USUAL)
        .ok()
        .flatten();
    let links = links.map(|answer| (answer.message.len() - 56) / 8);
    suite.holds(
        "the links of both nodes",
        links.is_some_and(|links| links >= 4),
    );
    let ended = port
        .ask(agent, &to, &message(END, 93, 8), long)
        .ok()
        .flatten();
    suite.holds("the server is told", ended.is_some());
}
