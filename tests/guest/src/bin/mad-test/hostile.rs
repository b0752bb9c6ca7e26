//! Programs that flood, lie and die: what they get, that others notice nothing, and that nothing of
//! them is left.

use alloc::vec::Vec;
use core::time::Duration;

use guest_tests::{Suite, settled};
use runtime::process::Command;
use runtime::time::sleep;
use syscall::error::{EINVAL, ENOMEM};
use umad::mad_core::agents::Registration;
use umad::mad_core::mad::{Mad, OPENIB_OUI, class, method};
use umad::mad_core::rmpp::{flag, kind};
use umad::{Agent, Port, RetryPolicy, client, general, get, node_info, subnet};

use super::{CLASS, errno, message, server, text};

/// Datagrams of a flood.
const FLOOD: u32 = 5000;
/// Sends that wait for an answer at most.
const MAX_SENDS: u32 = 4096;
/// A port that is not there.
const NOBODY: u16 = 0x99;
/// A class of vendors for a file that nobody reads.
const UNREAD_CLASS: u8 = 0x36;
/// The longest message.
const LONGEST: usize = 8 << 20;
/// Rounds of the flood from another node at most, and those after which it has been seen.
const ROUNDS: u32 = 100;
const WATCHED: u32 = 5;
/// The attribute of a request that ends a round, and of the answer that ends the flood.
const ROUND: u16 = 3;
const ENOUGH: u16 = 4;
/// For an answer that will not come.
const SHORT: RetryPolicy = RetryPolicy {
    timeout_ms: 3000,
    retries: 0,
};

/// A program that is served while the others do what they want.
struct Victim {
    port: Port,
    subnet: Agent,
    tid: u32,
}

impl Victim {
    fn new() -> Victim {
        let port = Port::open().expect("umad0 opens");
        let subnet = port.register(&client(1, 1)).expect("an agent");
        let tid = 0x5000;
        Victim { port, subnet, tid }
    }

    /// Whether the own port answers.
    fn is_served(&mut self) -> bool {
        self.tid += 1;
        let mad = node_info(self.tid);
        let retry = RetryPolicy {
            timeout_ms: 20_000,
            retries: 0,
        };
        let answer = self.port.ask(self.subnet, &subnet(1), mad.bytes(), retry);
        answer.is_ok_and(|answer| answer.is_some())
    }
}

pub fn test(suite: &mut Suite) {
    let before = text("agents");
    let mut victim = Victim::new();
    flood(suite, &mut victim);
    unanswered(suite, &mut victim);
    unknown_classes(suite, &mut victim);
    stolen_transactions(suite, &mut victim);
    wrong_segments(suite, &mut victim);
    unread(suite, &mut victim);
    killed(suite, &mut victim);
    drop(victim);
    let left = settled(|| text("agents"), &before);
    suite.equal("nothing is left of them", left, before);
}

/// Requests to nobody, and to the own port, for whose answers nobody waits.
fn flood(suite: &mut Suite, victim: &mut Victim) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(1, 1)).expect("an agent");
    let mut refused = 0;
    let mut served = 0;
    for number in 0..FLOOD {
        let to = subnet(if number % 2 == 0 { 1 } else { NOBODY });
        let sent = port.send(agent, &to, node_info(number).bytes(), RetryPolicy::NONE);
        refused += u32::from(sent.is_err());
        if number % 500 == 0 {
            served += u32::from(victim.is_served());
        }
    }
    suite.equal("a flood is taken", refused, 0);
    suite.equal("others are served meanwhile", served, FLOOD / 500);
    let mut buffer = [0; 320];
    suite.holds("and no answer is kept", port.read(&mut buffer).is_err());
}

fn unanswered(suite: &mut Suite, victim: &mut Victim) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(1, 1)).expect("an agent");
    let long = RetryPolicy {
        timeout_ms: 600_000,
        retries: 0,
    };
    let send = |number| port.send(agent, &subnet(NOBODY), node_info(number).bytes(), long);
    let taken = (0..MAX_SENDS).filter(|number| send(*number).is_ok());
    suite.equal("sends that wait", taken.count() as u32, MAX_SENDS);
    suite.equal("one more", errno(send(MAX_SENDS)), ENOMEM);
    suite.holds("others may send", victim.is_served());
    suite.equal("the agent goes with them", errno(port.unregister(agent)), 0);
}

/// Datagrams of all classes and versions by which one can try to reach somebody.
fn unknown_classes(suite: &mut Suite, victim: &mut Victim) {
    let port = Port::open().expect("umad0 opens");
    let any = Registration {
        qpn: 1,
        ..Registration::default()
    };
    let agent = port
        .register(&any)
        .expect("an agent that belongs to no class");
    let mut strange = 0;
    for number in 0..=u8::MAX {
        for method in [method::SEND, method::GET_RESPONSE, 0x7f] {
            let mut mad = Mad::padded(&[1, number, 1, method]);
            mad.header.tid = u64::from(number).into();
            let sent = errno(port.send(agent, &general(1), mad.bytes(), RetryPolicy::NONE));
            strange += u32::from(!matches!(sent, 0 | EINVAL));
        }
    }
    suite.equal("unknown classes are sent or refused", strange, 0);
    for number in [5_u8, 8, 9, 0x11, 0x21, 0x2f, 0x50, 0x60, 0xff] {
        let mad = get(number, 1, 1, 0, u32::from(number));
        let answer = port.ask(agent, &general(1), mad.bytes(), RetryPolicy::USUAL);
        let status = answer
            .ok()
            .flatten()
            .map(|answer| answer.mad().header.status.get());
        suite.equal("Get of a class without agents", status, Some(0x0c));
    }
    suite.holds("others are served", victim.is_served());
}

/// Answers with the transaction of another program's request, which waits.
fn stolen_transactions(suite: &mut Suite, victim: &mut Victim) {
    let port = Port::open().expect("umad0 opens");
    let agent = port.register(&client(1, 1)).expect("an agent");
    victim.tid += 1;
    let asked = node_info(victim.tid);
    let sent = victim
        .port
        .send(victim.subnet, &subnet(NOBODY), asked.bytes(), SHORT);
    suite.equal("a request to nobody", errno(sent), 0);
    let agents = settled(|| text("agents").lines().count(), &3);
    suite.equal("agents of both", agents, 3);
    // Agents have numbers of 24 bits from 1 on; whichever it is, the answer is from the wrong port.
    for guess in 1..1000_u64 {
        let mut answer = node_info(0);
        answer.header.method = method::GET_RESPONSE;
        answer.header.tid = (guess << 32 | u64::from(victim.tid)).into();
        let sent = port.send(agent, &subnet(1), answer.bytes(), RetryPolicy::NONE);
        if sent.is_err() {
            suite.equal("an answer", errno(sent), 0);
        }
    }
    let got = victim.port.receive(Some(Duration::from_secs(20)));
    let got = got.ok().flatten().map(|got| got.has_timed_out);
    suite.equal("stolen transactions answer nobody", got, Some(true));
    suite.holds("the next request is answered", victim.is_served());
}

/// A segment of a vendor's message.
fn segment(tid: u32, kind: u8, flags: u8, number: u32, length: u32) -> Mad {
    let mut bytes: Vec<u8> = get(CLASS, 1, 1, 0, tid).bytes().to_vec();
    bytes[24..28].copy_from_slice(&[1, kind, flags, 0]);
    bytes[28..32].copy_from_slice(&number.to_be_bytes());
    bytes[32..36].copy_from_slice(&length.to_be_bytes());
    bytes[37..40].copy_from_slice(&OPENIB_OUI);
    Mad::padded(&bytes)
}

/// Segments that make no message, between whole ones.
fn wrong_segments(suite: &mut Suite, victim: &mut Victim) {
    victim.port.register(&server()).expect("an agent");
    let port = Port::open().expect("umad0 opens");
    let own = Registration {
        user_rmpp: true,
        ..client(CLASS, 1)
    };
    let agent = port.register(&own).expect("an agent with USER_RMPP");
    let active = flag::ACTIVE;
    let first = active | flag::FIRST;
    let last = active | flag::LAST;
    let mut tid = 0;
    let mut refused = 0;
    for (kind, flags, number, length) in [
        (kind::DATA, active, 1, 0),
        (kind::DATA, first, 2, 0),
        (kind::DATA, first | last, 1, 221),
        (kind::DATA, first | last, 1, 3),
        (kind::DATA, first, 1, u32::MAX),
        (kind::DATA, last, u32::MAX, 100),
        (kind::DATA, active, 66, 0),
        (kind::ACK, active, 5, 1),
        (kind::ACK, active, u32::MAX, u32::MAX),
        (kind::STOP, active, 0, 0),
        (kind::ABORT, active, 0, 0),
        (9, active, 0, 0),
        (kind::DATA, u8::MAX, 0, 0),
    ] {
        for _ in 0..20 {
            tid += 1;
            let mad = segment(tid, kind, flags, number, length);
            let sent = port.send(agent, &general(1), mad.bytes(), RetryPolicy::NONE);
            refused += u32::from(sent.is_err());
        }
    }
    suite.equal("wrong segments are sent", refused, 0);
    // Messages that begin and never end.
    for _ in 0..300 {
        tid += 1;
        let mad = segment(tid, kind::DATA, first, 1, 0);
        let sent = port.send(agent, &general(1), mad.bytes(), RetryPolicy::NONE);
        refused += u32::from(sent.is_err());
    }
    suite.equal("beginnings without end are sent", refused, 0);
    let come = victim.port.receive(Some(Duration::from_millis(100)));
    suite.holds("none of them makes a message", matches!(come, Ok(None)));
    // They have all the room for messages; another sender has its share of it nevertheless.
    let honest = Port::open().expect("umad0 opens");
    let sender = honest.register(&client(CLASS, 1)).expect("an agent");
    let whole = message(7, 90_000, 3000);
    let sent = honest.send(sender, &general(1), &whole, RetryPolicy::USUAL);
    suite.equal("a whole message is sent", errno(sent), 0);
    let got = victim.port.receive(Some(Duration::from_secs(20)));
    let got = got
        .ok()
        .flatten()
        .map(|got| got.message[40..] == whole[40..]);
    suite.equal("and comes", got, Some(true));
}

/// A file that nobody reads, with as much as may wait, and more.
fn unread(suite: &mut Suite, victim: &mut Victim) {
    let of_class = client(UNREAD_CLASS, 1);
    let taking = Registration {
        methods: 1 << method::GET,
        ..of_class
    };
    let idle = Port::open().expect("umad0 opens");
    idle.register(&taking).expect("an agent");
    let port = Port::open().expect("umad0 opens");
    let sender = port.register(&of_class).expect("an agent");
    // A message of 8 MiB counts as 32768 datagrams.
    let bytes = LONGEST - 40;
    let sent = (0..8).map(|tid| {
        let mut long = message(1, 50_000 + tid, bytes);
        long[1] = UNREAD_CLASS;
        errno(port.send(sender, &general(1), &long, RetryPolicy::NONE))
    });
    suite.equal("long messages are sent", sent.sum::<i32>(), 0);
    let waiting = || {
        let table = text("agents");
        let counts = table.lines().skip(1).filter_map(|line| {
            let count = line.split_whitespace().next_back()?;
            count.parse::<usize>().ok()
        });
        counts.max().unwrap_or(0)
    };
    suite.equal("no more than may wait", settled(waiting, &196_608), 196_608);
    suite.holds("others are served", victim.is_served());
    let first = idle.receive(Some(Duration::ZERO)).ok().flatten();
    let is_whole = first.is_some_and(|got| got.message.len() == LONGEST);
    suite.holds("and it can be read", is_whole);
    let second = idle.receive(Some(Duration::ZERO)).ok().flatten();
    let is_next = second.is_some_and(|got| got.mad().header.tid.get() as u32 == 50_001);
    suite.holds("in the order in which it came", is_next);
}

/// What `mad-test flood <node>` does: floods a program on another node ([`flooded`]) until that has
/// seen enough.
pub fn flood_of(suite: &mut Suite, node: u16) {
    let port = Port::open().expect("umad0 opens");
    let to = general(node + 1);
    let asking = port.register(&client(CLASS, 1)).expect("an agent");
    let any = Registration {
        qpn: 1,
        ..Registration::default()
    };
    let any = port.register(&any).expect("an agent of no class");
    let own = Registration {
        user_rmpp: true,
        ..client(CLASS, 1)
    };
    let by_hand = port.register(&own).expect("an agent with USER_RMPP");
    let mut tid = 0;
    let begun = super::ask_server(&port, asking, &to, 1, &mut tid);
    suite.holds("the other node is there", begun);
    let (mut refused, mut enough) = (0, false);
    // Each round waits for an answer, so that the records of one are not all dropped here.
    for _ in 0..ROUNDS {
        let mut send = |agent, mad: &Mad| {
            refused += u32::from(
                port.send(agent, &to, mad.bytes(), RetryPolicy::NONE)
                    .is_err(),
            );
        };
        for number in 0..300 {
            tid += 1;
            send(
                by_hand,
                &segment(tid, kind::DATA, flag::ACTIVE | flag::FIRST, 1, 0),
            );
            send(by_hand, &segment(tid, 9, flag::ACTIVE, number, number));
            // A directed route that is not at its beginning is refused.
            if number as u8 != class::SUBNET_DIRECTED {
                let mut unknown = Mad::padded(&[1, number as u8, 1, method::SEND]);
                unknown.header.tid = u64::from(tid).into();
                send(any, &unknown);
            }
            // The answer to a request of nobody, or of somebody.
            let mut stolen = node_info(0);
            stolen.header.class = CLASS;
            stolen.header.method = method::GET_RESPONSE;
            stolen.header.tid = (u64::from(number) << 32 | u64::from(0x5000 + number)).into();
            send(any, &stolen);
        }
        tid += 1;
        let asked = message(ROUND, tid, 8);
        let answer = port
            .ask(asking, &to, &asked, RetryPolicy::USUAL)
            .ok()
            .flatten();
        enough |= answer.is_some_and(|answer| answer.mad().header.attribute.get() == ENOUGH);
        if enough {
            break;
        }
    }
    suite.equal("the datagrams are sent", refused, 0);
    suite.holds("the other node has seen enough", enough);
}

/// What `mad-test flooded` does: has [`flood_of`] flood a server here, while a program of this node
/// sends that server long messages and asks its port.
pub fn flooded(suite: &mut Suite) {
    let before = text("agents");
    let mut victim = Victim::new();
    let serving = Port::open().expect("umad0 opens");
    let agent = serving.register(&server()).expect("an agent");
    let honest = Port::open().expect("umad0 opens");
    let sender = honest.register(&client(CLASS, 1)).expect("an agent");
    let mut tid = 0x9000;
    let (mut rounds, mut served, mut whole) = (0, 0, 0);
    while rounds < WATCHED {
        let Ok(Some(asked)) = serving.receive(Some(super::LIMIT)) else {
            suite.check("a request of the other node", Err("none came".into()));
            return;
        };
        let header = asked.mad().header;
        if header.method != method::GET {
            continue;
        }
        if header.attribute.get() == ROUND {
            rounds += 1;
            served += u32::from(victim.is_served());
            tid += 1;
            let long = message(7, tid, 3000);
            let sent = honest.send(sender, &general(1), &long, RetryPolicy::USUAL);
            suite.equal("a long message is sent", errno(sent), 0);
            whole += u32::from(comes(&serving, &long));
        }
        let mut answer = asked.message.clone();
        answer[3] = method::GET_RESPONSE;
        if rounds == WATCHED {
            answer[16..18].copy_from_slice(&ENOUGH.to_be_bytes());
        }
        let sent = serving.send(agent, &asked.from, &answer, RetryPolicy::NONE);
        suite.equal("an answer", errno(sent), 0);
    }
    suite.equal("the own port answers meanwhile", served, WATCHED);
    suite.equal("long messages come meanwhile", whole, WATCHED);
    drop((victim, serving, honest));
    let left = settled(|| text("agents"), &before);
    suite.equal("nothing is left", left, before);
}

/// Whether a message comes, among those of others.
fn comes(port: &Port, message: &[u8]) -> bool {
    for _ in 0..MAX_SENDS {
        match port.receive(Some(Duration::from_secs(20))) {
            Ok(Some(got)) if got.message[40..] == message[40..] => return true,
            Ok(Some(_)) => {}
            _ => return false,
        }
    }
    false
}

/// The work of `mad-test hold` until it is killed.
pub fn hold() -> i32 {
    let port = Port::open().expect("umad0 opens");
    let mut agents = Vec::new();
    for number in 0..31 {
        let asked = Registration {
            methods: 1 << (method::GET + number),
            ..client(class::DEVICE_MANAGEMENT, 1)
        };
        agents.extend(port.register(&asked));
    }
    let sender = port.register(&client(CLASS, 1)).expect("an agent");
    let long = RetryPolicy {
        timeout_ms: 600_000,
        retries: 9,
    };
    for tid in 0..100 {
        let sent = port.send(sender, &general(NOBODY), &message(1, tid, 20_000), long);
        if agents.len() != 31 || sent.is_err() {
            return 1;
        }
    }
    loop {
        sleep(Duration::from_secs(1));
    }
}

fn killed(suite: &mut Suite, victim: &mut Victim) {
    let before = text("agents");
    let count = before.lines().count() + 32;
    let mut command = Command::new("mad-test");
    command.args(["hold"]);
    let Ok(mut child) = command.spawn() else {
        suite.check("a program starts", Err("it did not".into()));
        return;
    };
    let agents = settled(|| text("agents").lines().count(), &count);
    suite.equal("it has all agents", agents, count);
    let port = Port::open().expect("umad0 opens");
    let same = Registration {
        methods: 1 << method::GET,
        ..client(class::DEVICE_MANAGEMENT, 1)
    };
    suite.equal("its methods are taken", errno(port.register(&same)), EINVAL);
    suite.holds("it is killed", child.kill().is_ok() && child.wait().is_ok());
    let left = settled(|| text("agents"), &before);
    suite.equal("its agents go with it", left, before);
    suite.equal("its methods are free", errno(port.register(&same)), 0);
    suite.holds("others are served", victim.is_served());
}
