//! A node that goes and comes, as subscribers of notices, the switch and programs see it.

use core::time::Duration;

use guest_tests::{Suite, settled};
use umad::mad_core::agents::Registration;
use umad::mad_core::mad::{Mad, PERMISSIVE_LID, method};
use umad::{Agent, Port, RetryPolicy, client, directed, general, get};

use super::{CLASS, END, data, errno, text};

/// Traps of ports that come into service and leave it.
const CAME: u16 = 64;
const WENT: u16 = 65;
/// States of a port.
const DOWN: u8 = 1;
const ACTIVE: u8 = 4;
/// The local identifier of the subnet administration.
const MANAGER: u16 = 1;
/// Until something happens on the other node.
const LIMIT: Duration = Duration::from_secs(100);
/// Where data of subnet administration begin.
const DATA: usize = 56;

struct Watcher {
    port: Port,
    subscriber: Agent,
    directed: Agent,
    peer: Agent,
    node: u16,
    tid: u32,
    /// The transaction of the last report, which may come again until it is answered.
    last: u64,
}

/// `mad-test loss <node>`.
pub fn test(suite: &mut Suite, node: u16) {
    let port = Port::open().expect("umad0 opens");
    let reports = Registration {
        methods: 1 << method::REPORT,
        ..client(3, 2)
    };
    let mut watcher = Watcher {
        subscriber: port.register(&reports).expect("an agent"),
        directed: port.register(&client(0x81, 1)).expect("an agent"),
        peer: port.register(&client(CLASS, 1)).expect("an agent"),
        port,
        node,
        tid: 0,
        last: 0,
    };
    // The node comes up, of which no notice is to be left when the others are awaited.
    suite.holds("the node answers", watcher.tell(1));
    let subscribed = watcher.subscribe();
    suite.equal("a subscription to all traps", subscribed, Some(0));
    suite.equal("its port of the switch", watcher.state(), Some(ACTIVE));
    suite.holds("it may lose its driver", watcher.tell(END));
    suite.equal("its port goes", watcher.trap(), Some(WENT));
    suite.equal("and comes", watcher.trap(), Some(CAME));
    suite.holds("the node answers again", watcher.tell(1));
    suite.equal("its port of the switch", watcher.state(), Some(ACTIVE));
    suite.holds("it may go", watcher.tell(END));
    suite.equal("its port goes for good", watcher.trap(), Some(WENT));
    suite.equal("its port of the switch", watcher.state(), Some(DOWN));
    let line = settled(
        || text("fabric").lines().any(|line| line == watcher.line()),
        &true,
    );
    suite.holds("the table says so", line);
    suite.holds("a route there leads nowhere", watcher.node_info().is_none());
}

impl Watcher {
    fn next(&mut self) -> u32 {
        self.tid += 1;
        self.tid
    }

    /// Set of InformInfo: the status.
    fn subscribe(&mut self) -> Option<u16> {
        let mut mad = get(3, 2, 0x03, 0, self.next());
        mad.header.method = method::SET;
        let bytes = mad.bytes_mut();
        // All ports; generic, subscribe, all types, all traps; the queue pair.
        bytes[DATA + 16..DATA + 18].fill(0xff);
        bytes[DATA + 22..DATA + 24].fill(1);
        bytes[DATA + 24..DATA + 28].fill(0xff);
        bytes[DATA + 30] = 1;
        let to = general(MANAGER);
        let answer = self
            .port
            .ask(self.subscriber, &to, mad.bytes(), RetryPolicy::USUAL);
        Some(answer.ok()??.mad().header.status.get())
    }

    /// Asks the server on the node; whether it answers.
    fn tell(&mut self, attribute: u16) -> bool {
        let to = general(self.node + 1);
        super::ask_server(&self.port, self.peer, &to, attribute, &mut self.tid)
    }

    /// The state of the node's port of the switch.
    fn state(&mut self) -> Option<u8> {
        let number = u32::from(self.node) + 1;
        let mad = directed(0x15, number, &[1], self.next());
        let (_, data) = data(&self.port, self.directed, PERMISSIVE_LID, &mad)?;
        Some(data[32] & 15)
    }

    /// The node's answer by a directed route.
    fn node_info(&mut self) -> Option<u8> {
        let path = [1, self.node as u8 + 1];
        let mad = directed(0x11, 0, &path, self.next());
        let (_, data) = data(&self.port, self.directed, PERMISSIVE_LID, &mad)?;
        Some(data[2])
    }

    /// The number of the next trap, of which a report comes; it is answered.
    fn trap(&mut self) -> Option<u16> {
        loop {
            let report = self.port.receive(Some(LIMIT)).ok()??;
            let bytes: Mad = report.mad();
            if report.agent != self.subscriber || bytes.header.method != method::REPORT {
                continue;
            }
            let mut answer = bytes;
            answer.header.method = method::REPORT | method::RESPONSE;
            let sent = self.port.send(
                self.subscriber,
                &report.from,
                answer.bytes(),
                RetryPolicy::NONE,
            );
            if errno(sent) != 0 {
                return None;
            }
            if core::mem::replace(&mut self.last, bytes.header.tid.get()) == bytes.header.tid.get()
            {
                continue;
            }
            // The port that it is about.
            let bytes = bytes.bytes();
            let about = u16::from_be_bytes([bytes[DATA + 30], bytes[DATA + 31]]);
            if about == self.node {
                return Some(u16::from_be_bytes([bytes[DATA + 4], bytes[DATA + 5]]));
            }
        }
    }

    /// The line of the node in the table of links, when it is not there.
    fn line(&self) -> alloc::string::String {
        let port = self.node + 1;
        alloc::format!("{port} DOWN - {} - - - - - - -", self.node)
    }
}
