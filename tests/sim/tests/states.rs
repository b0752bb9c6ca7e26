//! Every call in every state, from one table; and the rules of single calls.
//!
//! The table is that of docs/behaviour.md, which gives the reason for each result.

use std::task::Poll;

use scif_abi::flags::Readiness;
use scif_abi::limits::{CONNECT_TIMEOUT_NS, HANDSHAKE_TIMEOUT_NS};
use scif_abi::{Error, PortId};
use scif_core::{
    Config, Connect, ConnectMode, EndpointId, EndpointState, Engine, Event, Memory, Owner,
    Resource, Scope,
};
use sim::lonely_memory;

const ROOT: Owner = Owner {
    process: 1,
    user: 0,
};
const USER: Owner = Owner {
    process: 2,
    user: 1000,
};
const SERVER_PORT: u16 = 2000;

/// One node on its own, talking to itself.
struct Node {
    engine: Engine,
    memory: Box<dyn Memory>,
}

impl Node {
    fn new() -> Node {
        Node {
            engine: Engine::new(Config::new(0)),
            memory: Box::new(lonely_memory()),
        }
    }

    /// Lets all messages arrive.
    fn run_until_idle(&mut self) {
        while self.engine.next_event(&mut *self.memory).is_some() {}
        self.engine.check_invariants().unwrap();
    }

    fn open(&mut self) -> EndpointId {
        self.engine.open(ROOT).unwrap()
    }

    fn bound(&mut self, port: u16) -> EndpointId {
        let id = self.open();
        self.engine.bind(id, port).unwrap();
        id
    }

    fn listener(&mut self, backlog: i32) -> EndpointId {
        let id = self.bound(SERVER_PORT);
        self.engine.listen(id, backlog).unwrap();
        id
    }

    fn connect(&mut self, id: EndpointId, mode: ConnectMode) -> Result<Connect, Error> {
        self.connect_to(id, PortId::new(0, SERVER_PORT), mode)
    }

    fn connect_to(
        &mut self,
        id: EndpointId,
        to: PortId,
        mode: ConnectMode,
    ) -> Result<Connect, Error> {
        self.engine.connect(&mut *self.memory, id, to, mode)
    }

    fn accept(&mut self, listener: EndpointId) -> Result<EndpointId, Error> {
        let new = self
            .engine
            .accept_start(&mut *self.memory, listener, ROOT)?;
        self.run_until_idle();
        match self.engine.accept_finish(new) {
            Poll::Ready(Ok(_)) => Ok(new),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => panic!("the accept does not end"),
        }
    }

    fn close(&mut self, id: EndpointId) {
        self.engine.close(&mut *self.memory, id);
    }

    fn send(&mut self, id: EndpointId, bytes: &[u8]) -> Result<usize, Error> {
        self.engine.send(&mut *self.memory, id, bytes)
    }

    fn recv(&mut self, id: EndpointId, buffer: &mut [u8]) -> Result<usize, Error> {
        self.engine.recv(&mut *self.memory, id, buffer)
    }

    fn poll(&mut self, id: EndpointId) -> Readiness {
        self.engine.poll(&mut *self.memory, id)
    }

    /// Makes a connected pair. Returns the connector, the other end and the listener.
    fn pair(&mut self, mode: ConnectMode) -> (EndpointId, EndpointId, EndpointId) {
        let listener = self.listener(5);
        let active = self.open();
        assert_eq!(self.connect(active, mode), Ok(Connect::Started));
        self.run_until_idle();
        let passive = self.accept(listener).unwrap();
        (active, passive, listener)
    }
}

/// The states of the table. `ConnectPending` is a non-blocking connect in progress; "uncollected"
/// states follow a non-blocking connect whose result was not collected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Unbound,
    Bound,
    Listening,
    Connecting,
    ConnectPending,
    Connected,
    ConnectedUncollected,
    RefusedUncollected,
    Disconnected,
    DisconnectedUncollected,
}

const STATES: [State; 10] = [
    State::Unbound,
    State::Bound,
    State::Listening,
    State::Connecting,
    State::ConnectPending,
    State::Connected,
    State::ConnectedUncollected,
    State::RefusedUncollected,
    State::Disconnected,
    State::DisconnectedUncollected,
];

/// Makes a node with an endpoint in this state.
fn endpoint_in(state: State) -> (Node, EndpointId) {
    let mut node = Node::new();
    let id = match state {
        State::Unbound => node.open(),
        State::Bound => node.bound(3000),
        State::Listening => {
            let id = node.bound(3000);
            node.engine.listen(id, 5).unwrap();
            id
        }
        State::Connecting | State::ConnectPending => {
            node.listener(5);
            let id = node.open();
            let blocking = state == State::Connecting;
            let mode = if blocking {
                ConnectMode::Blocking
            } else {
                ConnectMode::NonBlocking
            };
            node.connect(id, mode).unwrap();
            node.run_until_idle();
            id
        }
        State::RefusedUncollected => {
            let id = node.open();
            node.connect(id, ConnectMode::NonBlocking).unwrap();
            node.run_until_idle();
            id
        }
        State::Connected | State::Disconnected => {
            let (active, passive, _) = node.pair(ConnectMode::Blocking);
            assert_eq!(node.engine.connect_result(active), Poll::Ready(Ok(1088)));
            if state == State::Disconnected {
                node.close(passive);
                node.run_until_idle();
            }
            active
        }
        State::ConnectedUncollected | State::DisconnectedUncollected => {
            let (active, passive, _) = node.pair(ConnectMode::NonBlocking);
            if state == State::DisconnectedUncollected {
                node.close(passive);
                node.run_until_idle();
            }
            active
        }
    };
    (node, id)
}

/// A call, reduced to success or errno.
type Call = fn(&mut Node, EndpointId) -> Result<(), Error>;

/// The name of a call, the call, and its result in each of `STATES`.
type Row = (&'static str, Call, [Result<(), Error>; 10]);

const OK: Result<(), Error> = Ok(());
const INV: Result<(), Error> = Err(Error::InvalidArgument);
const CONN: Result<(), Error> = Err(Error::IsConnected);
const NOT: Result<(), Error> = Err(Error::NotConnected);
const RESET: Result<(), Error> = Err(Error::ConnectionReset);
const PROGRESS: Result<(), Error> = Err(Error::InProgress);
const REFUSED: Result<(), Error> = Err(Error::ConnectionRefused);
const NOTSUPP: Result<(), Error> = Err(Error::NotSupported);
const AGAIN: Result<(), Error> = Err(Error::WouldBlock);

/// One row per call; columns in the order of `STATES`: unbound, bound, listening, connecting,
/// pending, connected, connected (uncollected), refused (uncollected), disconnected, disconnected
/// (uncollected).
#[rustfmt::skip]
const TABLE: [Row; 9] = [
    ("bind",    bind,         [OK, INV, CONN, CONN, CONN, CONN, CONN, INV, CONN, CONN]),
    ("listen",  listen,       [INV, OK, CONN, CONN, CONN, CONN, CONN, OK, INV, INV]),
    ("connect", connect,      [OK, OK, NOTSUPP, CONN, PROGRESS, CONN, OK, REFUSED, INV, OK]),
    ("accept",  accept,       [INV, INV, AGAIN, INV, INV, INV, INV, INV, INV, INV]),
    ("send 0",  send_nothing, [OK, OK, OK, OK, OK, OK, OK, OK, OK, OK]),
    ("send 1",  send,         [NOT, NOT, NOT, NOT, NOT, OK, OK, NOT, RESET, RESET]),
    ("recv 0",  recv_nothing, [OK, OK, OK, OK, OK, OK, OK, OK, OK, OK]),
    ("recv 1",  recv,         [NOT, NOT, NOT, NOT, NOT, OK, OK, NOT, RESET, RESET]),
    ("close",   close,        [OK, OK, OK, OK, OK, OK, OK, OK, OK, OK]),
];

fn bind(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.engine.bind(id, 4000).map(|_| ())
}

fn listen(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.engine.listen(id, 1)
}

fn connect(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.connect(id, ConnectMode::NonBlocking).map(|_| ())
}

fn accept(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.engine
        .accept_start(&mut *node.memory, id, ROOT)
        .map(|_| ())
}

fn send_nothing(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.send(id, &[]).map(|_| ())
}

fn send(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.send(id, &[1]).map(|_| ())
}

fn recv_nothing(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.recv(id, &mut []).map(|_| ())
}

fn recv(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.recv(id, &mut [0]).map(|_| ())
}

fn close(node: &mut Node, id: EndpointId) -> Result<(), Error> {
    node.close(id);
    Ok(())
}

#[test]
fn every_call_in_every_state() {
    for (name, call, expected) in TABLE {
        for (state, expected) in STATES.into_iter().zip(expected) {
            let (mut node, id) = endpoint_in(state);
            assert_eq!(call(&mut node, id), expected, "{name} in state {state:?}");
            node.run_until_idle();
            node.close(id);
            node.run_until_idle();
        }
    }
}

#[test]
fn poll_in_every_state() {
    let (none, both) = (Readiness::empty(), Readiness::IN | Readiness::OUT);
    let expected = [
        Readiness::ERR,
        Readiness::ERR,
        none,
        Readiness::ERR,
        none,
        Readiness::OUT,
        Readiness::OUT,
        Readiness::OUT,
        Readiness::HUP,
        Readiness::OUT,
    ];
    for (state, expected) in STATES.into_iter().zip(expected) {
        let (mut node, id) = endpoint_in(state);
        assert_eq!(node.poll(id), expected, "poll in state {state:?}");
    }
    let mut node = Node::new();
    let (active, passive, listener) = node.pair(ConnectMode::Blocking);
    assert_eq!(node.engine.connect_result(active), Poll::Ready(Ok(1088)));
    node.send(active, b"x").unwrap();
    assert_eq!(node.poll(passive), both);
    node.close(active);
    node.run_until_idle();
    assert_eq!(node.poll(passive), Readiness::IN | Readiness::HUP);
    assert_eq!(node.recv(passive, &mut [0; 9]), Ok(1));
    assert_eq!(node.poll(passive), Readiness::HUP);
    node.close(passive);
    assert_eq!(node.poll(passive), Readiness::NVAL);
    let other = node.open();
    node.connect(other, ConnectMode::NonBlocking).unwrap();
    node.run_until_idle();
    assert_eq!(node.poll(listener), Readiness::IN);
}

#[test]
fn closed_endpoints_are_bad_descriptors() {
    let mut node = Node::new();
    let id = node.open();
    node.close(id);
    for (name, call, _) in TABLE.iter().filter(|(name, ..)| *name != "close") {
        assert_eq!(call(&mut node, id), Err(Error::BadDescriptor), "{name}");
    }
    assert_eq!(node.engine.state(id), None);
}

#[test]
fn ports_are_protected_taken_and_given_back() {
    let mut node = Node::new();
    let user = node.engine.open(USER).unwrap();
    assert_eq!(node.engine.bind(user, 1), Err(Error::AccessDenied));
    assert_eq!(node.engine.bind(user, 1023), Err(Error::AccessDenied));
    assert_eq!(node.engine.bind(user, 1024), Ok(1024));
    // The privilege check comes before the check of the state.
    assert_eq!(node.engine.bind(user, 1023), Err(Error::AccessDenied));
    let root = node.open();
    assert_eq!(node.engine.bind(root, 1024), Err(Error::InvalidArgument));
    // A failed bind leaves the endpoint unbound.
    assert_eq!(node.engine.bind(root, 1023), Ok(1023));
    let any = node.open();
    assert_eq!(node.engine.bind(any, 0), Ok(1088));
    node.close(user);
    let again = node.open();
    assert_eq!(node.engine.bind(again, 1024), Ok(1024));
}

#[test]
fn all_ports_in_use_is_enospc() {
    let mut config = Config::new(0);
    config.limits.lift(Resource::Endpoints);
    let mut node = Node {
        engine: Engine::new(config),
        memory: Box::new(lonely_memory()),
    };
    for port in 1088..=u16::MAX {
        let id = node.open();
        assert_eq!(node.engine.bind(id, 0), Ok(port));
    }
    let late = node.open();
    assert_eq!(node.engine.bind(late, 0), Err(Error::NoSpace));
    assert_eq!(
        node.connect(late, ConnectMode::Blocking),
        Err(Error::NoSpace)
    );
    assert_eq!(node.engine.state(late), Some(EndpointState::Unbound));
}

#[test]
fn backlogs() {
    let mut node = Node::new();
    let id = node.bound(SERVER_PORT);
    assert_eq!(node.engine.listen(id, 0), Err(Error::InvalidArgument));
    assert_eq!(node.engine.listen(id, -1), Err(Error::InvalidArgument));
    assert_eq!(node.engine.listen(id, 1), Ok(()));
    let [first, second] = [node.open(), node.open()];
    node.connect(first, ConnectMode::Blocking).unwrap();
    node.connect(second, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    assert_eq!(node.engine.connect_result(first), Poll::Pending);
    let refused = Poll::Ready(Err(Error::ConnectionRefused));
    assert_eq!(node.engine.connect_result(second), refused);
    node.accept(id).unwrap();
    assert_eq!(node.engine.connect_result(first), Poll::Ready(Ok(1088)));
    // The same endpoint, which kept its port, tries again and finds room.
    node.connect(second, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    node.accept(id).unwrap();
    assert_eq!(node.engine.connect_result(second), Poll::Ready(Ok(1089)));
    let huge = node.bound(2001);
    assert_eq!(node.engine.listen(huge, i32::MAX), Ok(()));
    let clamped = node.engine.ports().find(|p| p.port == 2001).unwrap();
    assert_eq!(clamped.backlog, 1024);
}

#[test]
fn destinations_are_checked_before_the_state() {
    let (mut node, id) = endpoint_in(State::Connected);
    let blocking = ConnectMode::Blocking;
    let absent = node.connect_to(id, PortId::new(1, SERVER_PORT), blocking);
    assert_eq!(absent, Err(Error::NoDevice));
    let impossible = node.connect_to(id, PortId::new(u16::MAX, 1), blocking);
    assert_eq!(impossible, Err(Error::NoDevice));
    assert_eq!(
        node.connect_to(id, PortId::new(0, 0), blocking),
        Err(Error::InvalidArgument)
    );
    let fresh = node.open();
    let refused = node.connect_to(fresh, PortId::new(0, 9), blocking);
    assert_eq!(refused, Ok(Connect::Started));
    node.run_until_idle();
    let result = node.engine.connect_result(fresh);
    assert_eq!(result, Poll::Ready(Err(Error::ConnectionRefused)));
}

#[test]
fn closing_a_listener_refuses_its_queue_and_frees_its_port() {
    let mut node = Node::new();
    let (active, passive, listener) = node.pair(ConnectMode::Blocking);
    let waiting = node.open();
    node.connect(waiting, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    node.close(listener);
    node.run_until_idle();
    let refused = Poll::Ready(Err(Error::ConnectionRefused));
    assert_eq!(node.engine.connect_result(waiting), refused);
    // This is possible at once, although a connection that it accepted still uses the port.
    let next = node.listener(1);
    node.connect(waiting, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    let second = node.accept(next).unwrap();
    for (from, to) in [(active, passive), (passive, active), (waiting, second)] {
        assert_eq!(node.send(from, b"still here"), Ok(10));
        assert_eq!(node.recv(to, &mut [0; 64]), Ok(10));
    }
}

#[test]
fn a_peer_that_closes_at_once_leaves_its_bytes() {
    let mut node = Node::new();
    let listener = node.listener(1);
    let active = node.open();
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    let new = node
        .engine
        .accept_start(&mut *node.memory, listener, ROOT)
        .unwrap();
    node.run_until_idle();
    assert_eq!(node.engine.connect_result(active), Poll::Ready(Ok(1088)));
    node.send(active, b"bye").unwrap();
    node.close(active);
    node.run_until_idle();
    // The accept still succeeds, on an endpoint that is disconnected already.
    assert_eq!(
        node.engine.accept_finish(new),
        Poll::Ready(Ok(PortId::new(0, 1088)))
    );
    let mut buffer = [0; 8];
    assert_eq!(node.recv(new, &mut buffer), Ok(3));
    assert_eq!(&buffer[..3], b"bye");
    assert_eq!(node.recv(new, &mut buffer), Err(Error::ConnectionReset));
    assert_eq!(node.send(new, b"x"), Err(Error::ConnectionReset));
}

#[test]
fn a_connector_that_gives_up_does_not_stay_in_the_queue() {
    let mut node = Node::new();
    let listener = node.listener(1);
    let active = node.open();
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    assert_eq!(node.poll(listener), Readiness::IN);
    node.engine.connect_cancel(active);
    node.run_until_idle();
    assert_eq!(node.poll(listener), Readiness::empty());
    assert_eq!(node.accept(listener), Err(Error::WouldBlock));
    assert_eq!(node.engine.state(active), Some(EndpointState::Bound));
    assert_eq!(node.engine.stats().connections, 0);
    // The endpoint can connect again.
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    node.accept(listener).unwrap();
}

#[test]
fn a_withdrawn_grant_ends_the_accept() {
    let mut node = Node::new();
    let listener = node.listener(1);
    let active = node.open();
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    let new = node
        .engine
        .accept_start(&mut *node.memory, listener, ROOT)
        .unwrap();
    assert_eq!(node.engine.accept_finish(new), Poll::Pending);
    node.close(active);
    node.run_until_idle();
    assert_eq!(
        node.engine.accept_finish(new),
        Poll::Ready(Err(Error::WouldBlock))
    );
    assert_eq!(node.engine.state(new), None);
    assert_eq!(node.engine.stats().pages, 0);
}

#[test]
fn an_acceptor_that_dies_resets_the_connector() {
    let mut node = Node::new();
    let listener = node.listener(1);
    let active = node.open();
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    let new = node
        .engine
        .accept_start(&mut *node.memory, listener, ROOT)
        .unwrap();
    node.close(new);
    node.run_until_idle();
    assert_eq!(node.engine.connect_result(active), Poll::Ready(Ok(1088)));
    assert_eq!(node.recv(active, &mut [0]), Err(Error::ConnectionReset));
    node.close(active);
    assert_eq!(node.engine.stats().pages, 0);
}

#[test]
fn a_connect_that_nobody_accepts_times_out() {
    let mut node = Node::new();
    node.listener(1);
    let active = node.open();
    node.engine.tick(&mut *node.memory, 1000);
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    assert_eq!(node.engine.next_deadline(), Some(1000 + CONNECT_TIMEOUT_NS));
    node.engine
        .tick(&mut *node.memory, 999 + CONNECT_TIMEOUT_NS);
    assert_eq!(node.engine.connect_result(active), Poll::Pending);
    node.engine
        .tick(&mut *node.memory, 1000 + CONNECT_TIMEOUT_NS);
    assert_eq!(
        node.engine.next_event(&mut *node.memory),
        Some(Event::Changed(active))
    );
    assert_eq!(
        node.engine.connect_result(active),
        Poll::Ready(Err(Error::NoDevice))
    );
    node.run_until_idle();
    assert_eq!(node.engine.stats().connections, 0);
    assert_eq!(node.engine.next_deadline(), None);
}

#[test]
fn a_grant_that_nobody_acknowledges_times_out() {
    let mut node = Node::new();
    let listener = node.listener(1);
    let active = node.open();
    node.connect(active, ConnectMode::Blocking).unwrap();
    node.run_until_idle();
    let new = node
        .engine
        .accept_start(&mut *node.memory, listener, ROOT)
        .unwrap();
    // The messages are not handled, as if the connector were stuck.
    node.engine.tick(&mut *node.memory, HANDSHAKE_TIMEOUT_NS);
    assert_eq!(
        node.engine.accept_finish(new),
        Poll::Ready(Err(Error::NoDevice))
    );
    // The answer to the late acknowledgement is a close.
    node.run_until_idle();
    assert_eq!(node.engine.state(active), Some(EndpointState::Disconnected));
}

#[test]
fn a_ring_holds_4095_bytes_and_wraps() {
    let mut node = Node::new();
    let (active, passive, _) = node.pair(ConnectMode::Blocking);
    let bytes: Vec<u8> = (0..5000u32).map(|at| (at * 7) as u8).collect();
    assert_eq!(node.send(active, &bytes), Ok(4095));
    assert_eq!(node.send(active, &bytes[4095..]), Ok(0));
    assert!(!node.poll(active).contains(Readiness::OUT));
    let mut buffer = [0; 5000];
    assert_eq!(node.recv(passive, &mut buffer[..100]), Ok(100));
    assert_eq!(node.send(active, &bytes[4095..]), Ok(100));
    assert_eq!(node.recv(passive, &mut buffer[100..]), Ok(4095));
    assert_eq!(&buffer[..4195], &bytes[..4195]);
    assert_eq!(node.recv(passive, &mut buffer), Ok(0));
}

#[test]
fn one_process_cannot_take_all_endpoints() {
    let mut config = Config::new(0);
    config.limits.set(Resource::Endpoints, Scope::Process, 3);
    let mut engine = Engine::new(config);
    let ids: Vec<_> = (0..3).map(|_| engine.open(USER).unwrap()).collect();
    assert_eq!(engine.open(USER), Err(Error::NoMemory));
    assert!(engine.open(ROOT).is_ok());
    engine.close(&mut lonely_memory(), ids[0]);
    assert!(engine.open(USER).is_ok());
}
