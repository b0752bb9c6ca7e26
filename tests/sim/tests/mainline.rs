//! Conversations with a peer of the base protocol, message by message: what the mainline driver
//! sends, what it must get, and what it must never get.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

use scif_abi::message::NodeMessage as Say;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, QP_MAGIC, QueuePair};
use scif_abi::{Error, PortId};
use scif_core::{
    Config, Connect, ConnectMode, EndpointState, Engine, Event, LinkError, LinkState, Memory, Owner,
};
use sim::memory::{Fabric, NodeMemory};
use sim::peer::{RING_BYTES, ScriptedPeer};
use zerocopy::{FromZeros, IntoBytes};

const US: u16 = 1;
const PEER: u16 = 0;
const OWNER: Owner = Owner {
    process: 1,
    user: 0,
};

/// Our engine and the scripted peer.
struct Talk {
    engine: Engine,
    memory: NodeMemory,
    peer: ScriptedPeer,
    fabric: Rc<RefCell<Fabric>>,
}

impl Talk {
    /// Before any link: we are node `us`, the peer is the other of 0 and 1.
    fn new(us: u16) -> Talk {
        let fabric = Fabric::new(2);
        let mut config = Config::new(us);
        config.node_ring_bytes = RING_BYTES;
        Talk {
            engine: Engine::new(config),
            memory: NodeMemory::new(&fabric, usize::from(us)),
            peer: ScriptedPeer::new(&fabric, 1 - us, us),
            fabric,
        }
    }

    /// With the link up; the peer offers no extension.
    fn online(us: u16) -> Talk {
        let mut talk = Talk::new(us);
        let peer = 1 - us;
        let own_qp = talk.engine.attach(&mut talk.memory, peer).unwrap();
        let peer_qp = talk.peer.begin(own_qp, 0);
        talk.engine
            .link_up(&mut talk.memory, peer, peer_qp)
            .unwrap();
        assert_eq!(talk.events(), [Event::Ring(peer)]);
        assert_eq!(talk.heard(), [Say::Init]);
        talk.tell(0, 0, Say::Init);
        assert_eq!(talk.events(), [Event::NodeUp(peer)]);
        talk
    }

    fn events(&mut self) -> Vec<Event> {
        let next = || self.engine.next_event(&mut self.memory);
        let events = std::iter::from_fn(next).collect();
        self.engine.check_invariants().unwrap();
        events
    }

    /// What the peer hears; flushes first.
    fn heard(&mut self) -> Vec<Say> {
        self.events();
        self.peer
            .receive()
            .iter()
            .map(|message| message.body().unwrap())
            .collect()
    }

    fn tell(&mut self, from: u16, to: u16, body: Say) {
        self.peer.say(from, to, body);
        let peer = 1 - self.engine.node();
        self.engine.doorbell(&mut self.memory, peer);
    }

    /// The 32-bit word at an address the peer knows.
    fn word(&mut self, address: u64) -> u32 {
        let mut word = [0; 4];
        let us = self.engine.node();
        self.peer.memory.peer_read(us, address, &mut word).unwrap();
        u32::from_le_bytes(word)
    }
}

/// The peer may read our structures, as it does when rings are set up.
fn allow_peer_reads(talk: &mut Talk) {
    let us = usize::from(talk.engine.node());
    talk.fabric.borrow_mut().set_reach(1 - us, us, true);
}

#[test]
fn the_node_queue_pair_is_what_a_mainline_node_expects() {
    let mut talk = Talk::new(US);
    let address = talk.engine.attach(&mut talk.memory, PEER).unwrap();
    allow_peer_reads(&mut talk);
    let mut structure = QueuePair::new_zeroed();
    talk.peer
        .memory
        .peer_read(US, address, structure.as_mut_bytes())
        .unwrap();
    assert_eq!(structure.magic.get(), QP_MAGIC);
    assert_eq!(structure.local_qp.get(), address);
    assert_eq!(structure.inbound.size.get(), RING_BYTES);
    assert_eq!(
        (structure.local_write.get(), structure.local_read.get()),
        (0, 0)
    );
    assert!(address.is_multiple_of(64));
}

#[test]
fn messages_before_the_link_is_up_are_found() {
    let mut talk = Talk::new(US);
    let own_qp = talk.engine.attach(&mut talk.memory, PEER).unwrap();
    let peer_qp = talk.peer.begin(own_qp, 0);
    talk.tell(0, 0, Say::Init);
    assert_eq!(talk.events(), []);
    talk.engine
        .link_up(&mut talk.memory, PEER, peer_qp)
        .unwrap();
    assert_eq!(talk.events(), [Event::NodeUp(PEER), Event::Ring(PEER)]);
    assert_eq!(talk.engine.online_nodes().collect::<Vec<_>>(), [PEER, US]);
}

#[test]
fn a_mainline_node_connects_to_us() {
    let mut talk = Talk::online(US);
    let listener = talk.engine.open(OWNER).unwrap();
    talk.engine.bind(listener, 130).unwrap();
    talk.engine.listen(listener, 2).unwrap();
    let (peer_local, queue_pair) = talk.peer.make_queue_pair(|_| {}).unwrap();
    // The peer's structure was used before.
    talk.peer
        .memory
        .store_index(peer_local + LOCAL_WRITE_OFFSET, 99);
    let connector = 0xffff_8800_1234_5678;
    talk.tell(
        1089,
        130,
        Say::ConnectRequest {
            connector,
            queue_pair,
        },
    );
    assert_eq!(talk.events(), [Event::Changed(listener)]);
    let new = talk
        .engine
        .accept_start(&mut talk.memory, listener, OWNER)
        .unwrap();
    assert_eq!(
        talk.peer.memory.load_index(peer_local + LOCAL_WRITE_OFFSET),
        0
    );
    let heard = talk.heard();
    let [
        Say::ConnectGrant {
            connector: echoed,
            queue_pair: ours,
            acceptor,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    assert_eq!(echoed, connector);
    assert_eq!(talk.engine.accept_finish(new), Poll::Pending);
    talk.tell(1089, 130, Say::ConnectGrantAck { acceptor });
    assert_eq!(
        talk.engine.accept_finish(new),
        Poll::Ready(Ok(PortId::new(PEER, 1089)))
    );
    talk.events();

    // It sends: bytes into our ring, the index, CLIENT_SENT.
    talk.peer.scribble(ours + 4096, b"hello");
    talk.peer
        .scribble(ours + LOCAL_WRITE_OFFSET, &5u32.to_le_bytes());
    talk.tell(1089, 130, Say::ClientSent { peer: acceptor });
    assert_eq!(talk.events(), [Event::Changed(new)]);
    let mut buffer = [0; 9];
    assert_eq!(talk.engine.recv(&mut talk.memory, new, &mut buffer), Ok(5));
    assert_eq!(&buffer[..5], b"hello");
    assert_eq!(
        talk.peer.memory.load_index(peer_local + LOCAL_READ_OFFSET),
        5
    );
    assert_eq!(talk.heard(), [Say::ClientReceived { peer: connector }]);

    // We send, in two pieces: one notification after both.
    assert_eq!(talk.engine.send(&mut talk.memory, new, b"wor"), Ok(3));
    assert_eq!(talk.engine.send(&mut talk.memory, new, b"ld"), Ok(2));
    assert_eq!(
        talk.peer.memory.load_index(peer_local + LOCAL_WRITE_OFFSET),
        5
    );
    assert_eq!(talk.heard(), [Say::ClientSent { peer: connector }]);
    let mut bytes = [0; 5];
    talk.peer.memory.read(peer_local + 4096, &mut bytes);
    assert_eq!(&bytes, b"world");

    // It closes; the acknowledgement echoes both ids.
    talk.tell(
        1089,
        130,
        Say::Disconnect {
            closer: connector,
            peer: acceptor,
        },
    );
    assert_eq!(
        talk.heard(),
        [Say::DisconnectAck {
            closer: connector,
            peer: acceptor
        }]
    );
    assert_eq!(talk.engine.state(new), Some(EndpointState::Disconnected));
    talk.engine.close(&mut talk.memory, new);
    assert_eq!(talk.heard(), []);
    assert_eq!(talk.engine.stats().connections, 0);
}

#[test]
fn we_connect_to_a_mainline_node() {
    let mut talk = Talk::online(US);
    let id = talk.engine.open(OWNER).unwrap();
    let to = PortId::new(PEER, 201);
    let started = talk
        .engine
        .connect(&mut talk.memory, id, to, ConnectMode::Blocking);
    assert_eq!(started, Ok(Connect::Started));
    let heard = talk.heard();
    let [
        Say::ConnectRequest {
            connector,
            queue_pair: ours,
        },
    ] = heard[..]
    else {
        panic!("heard {heard:?}");
    };
    allow_peer_reads(&mut talk);
    assert_eq!(talk.word(ours), QP_MAGIC as u32);
    let (_, queue_pair) = talk.peer.make_queue_pair(|_| {}).unwrap();
    let acceptor = 0xdead_beef_0000_0001;
    talk.tell(
        201,
        1088,
        Say::ConnectGrant {
            connector,
            queue_pair,
            acceptor,
        },
    );
    assert_eq!(talk.engine.connect_result(id), Poll::Ready(Ok(1088)));
    assert_eq!(talk.heard(), [Say::ConnectGrantAck { acceptor }]);

    talk.engine.close(&mut talk.memory, id);
    assert_eq!(
        talk.heard(),
        [Say::Disconnect {
            closer: connector,
            peer: acceptor
        }]
    );
    // The pages are kept until the peer has promised not to write to them.
    assert_eq!(talk.engine.stats().connections_closing, 1);
    // Both closed at once: answered, and still our own answer is awaited.
    talk.tell(
        201,
        1088,
        Say::Disconnect {
            closer: acceptor,
            peer: connector,
        },
    );
    assert_eq!(
        talk.heard(),
        [Say::DisconnectAck {
            closer: acceptor,
            peer: connector
        }]
    );
    assert_eq!(talk.engine.stats().connections_closing, 1);
    talk.tell(
        201,
        1088,
        Say::DisconnectAck {
            closer: connector,
            peer: acceptor,
        },
    );
    assert_eq!(talk.engine.stats().connections, 0);
}

#[test]
fn refusals_and_bad_grants() {
    let mut talk = Talk::online(US);
    let id = talk.engine.open(OWNER).unwrap();
    let to = PortId::new(PEER, 201);
    for (magic, error) in [
        (None, Error::ConnectionRefused),
        (Some(1u64), Error::NoDevice),
    ] {
        talk.engine
            .connect(&mut talk.memory, id, to, ConnectMode::Blocking)
            .unwrap();
        let heard = talk.heard();
        let [Say::ConnectRequest { connector, .. }] = heard[..] else {
            panic!("heard {heard:?}")
        };
        match magic {
            None => talk.tell(201, 1088, Say::ConnectReject { connector }),
            Some(magic) => {
                let change = |structure: &mut QueuePair| structure.magic = magic.into();
                let (_, queue_pair) = talk.peer.make_queue_pair(change).unwrap();
                talk.tell(
                    201,
                    1088,
                    Say::ConnectGrant {
                        connector,
                        queue_pair,
                        acceptor: 7,
                    },
                );
                assert_eq!(talk.heard(), [Say::ConnectGrantNack { acceptor: 7 }]);
            }
        }
        assert_eq!(talk.engine.connect_result(id), Poll::Ready(Err(error)));
        assert_eq!(talk.engine.stats().connections, 0);
    }
    // Nobody listens.
    talk.tell(
        1089,
        130,
        Say::ConnectRequest {
            connector: 5,
            queue_pair: 6,
        },
    );
    assert_eq!(talk.heard(), [Say::ConnectReject { connector: 5 }]);
    // A grant nobody asked for.
    talk.tell(
        201,
        1088,
        Say::ConnectGrant {
            connector: 77,
            queue_pair: 0,
            acceptor: 8,
        },
    );
    assert_eq!(talk.heard(), [Say::ConnectGrantNack { acceptor: 8 }]);
}

#[test]
fn a_peer_without_extensions_hears_no_extension() {
    let mut talk = Talk::online(US);
    let id = talk.engine.open(OWNER).unwrap();
    let to = PortId::new(PEER, 201);
    talk.engine
        .connect(&mut talk.memory, id, to, ConnectMode::Blocking)
        .unwrap();
    let heard = talk.heard();
    let [Say::ConnectRequest { connector, .. }] = heard[..] else {
        panic!("heard {heard:?}")
    };
    talk.engine.connect_cancel(&mut talk.memory, id);
    assert_eq!(talk.heard(), []);
    assert_eq!(talk.engine.stats().connections_closing, 1);
    // Its accept comes much later.
    let (_, queue_pair) = talk.peer.make_queue_pair(|_| {}).unwrap();
    talk.tell(
        201,
        1088,
        Say::ConnectGrant {
            connector,
            queue_pair,
            acceptor: 9,
        },
    );
    assert_eq!(talk.heard(), [Say::ConnectGrantNack { acceptor: 9 }]);
    assert_eq!(talk.engine.stats().connections, 0);
    assert_eq!(talk.engine.state(id), Some(EndpointState::Bound));
}

#[test]
fn unknown_messages_are_ignored() {
    let mut talk = Talk::online(US);
    let mut message = scif_abi::message::Message::new_zeroed();
    for opcode in [0, 5, 19, 39, 40, 1000, u32::MAX] {
        message.opcode = opcode.into();
        talk.peer.send(&message);
    }
    talk.engine.doorbell(&mut talk.memory, PEER);
    assert_eq!(talk.heard(), []);
    assert_eq!(talk.engine.stats().unknown_messages, 7);
    assert_eq!(talk.engine.link_state(PEER), Some(LinkState::Online));
}

#[test]
fn node_management() {
    // A card asked by its host.
    let mut card = Talk::online(US);
    card.tell(0, 0, Say::NodeAdd);
    assert_eq!(card.heard(), [Say::NodeAddNack]);
    card.tell(0, 0, Say::NodeRemove { node: 2 });
    assert_eq!(card.heard(), [Say::NodeRemoveAck { node: 2 }]);
    card.tell(
        0,
        0,
        Say::GetNodeInfo {
            max_node: 0,
            total: 0,
            waiter: 4,
        },
    );
    assert_eq!(card.heard(), []);
    // A host asked by its card.
    let mut host = Talk::online(0);
    host.tell(
        0,
        0,
        Say::GetNodeInfo {
            max_node: 0,
            total: 0,
            waiter: 4,
        },
    );
    assert_eq!(
        host.heard(),
        [Say::GetNodeInfo {
            max_node: 1,
            total: 2,
            waiter: 4
        }]
    );
    host.tell(0, 0, Say::NodeRemove { node: 1 });
    assert_eq!(host.heard(), []);
    assert_eq!(host.engine.link_state(1), Some(LinkState::Online));
}

#[test]
fn a_peer_that_leaves_is_answered_and_not_touched_again() {
    let mut talk = Talk::online(US);
    talk.tell(0, 0, Say::Exit);
    assert_eq!(talk.events(), [Event::NodeDown(PEER), Event::Ring(PEER)]);
    assert_eq!(talk.heard(), [Say::ExitAck]);
    assert_eq!(talk.engine.link_state(PEER), Some(LinkState::Left));
    assert_eq!(talk.engine.online_nodes().collect::<Vec<_>>(), [US]);
    let id = talk.engine.open(OWNER).unwrap();
    let to = PortId::new(PEER, 201);
    let result = talk
        .engine
        .connect(&mut talk.memory, id, to, ConnectMode::Blocking);
    assert_eq!(result, Err(Error::NoDevice));
    talk.engine.link_down(&mut talk.memory, PEER);
    assert_eq!(talk.engine.stats().pages, 0);
}

#[test]
fn leaving_waits_for_the_answer_but_not_for_ever() {
    let mut answered = Talk::online(US);
    answered.engine.leave(&mut answered.memory);
    assert_eq!(answered.heard(), [Say::Exit]);
    assert_eq!(answered.engine.link_state(PEER), Some(LinkState::Leaving));
    answered.tell(0, 0, Say::ExitAck);
    assert_eq!(answered.events(), [Event::NodeDown(PEER)]);
    assert_eq!(answered.engine.link_state(PEER), Some(LinkState::Left));

    let mut silent = Talk::online(US);
    silent.engine.leave(&mut silent.memory);
    let deadline = silent.engine.next_deadline().unwrap();
    silent.engine.tick(&mut silent.memory, deadline);
    assert_eq!(silent.engine.link_state(PEER), Some(LinkState::Left));
}

#[test]
fn steps_of_a_link_in_the_wrong_order() {
    let mut talk = Talk::new(US);
    assert_eq!(
        talk.engine.attach(&mut talk.memory, US),
        Err(LinkError::BadNode)
    );
    assert_eq!(
        talk.engine.attach(&mut talk.memory, 129),
        Err(LinkError::BadNode)
    );
    let early = talk.engine.link_up(&mut talk.memory, PEER, 0);
    assert_eq!(early, Err(LinkError::WrongState));
    let own_qp = talk.engine.attach(&mut talk.memory, PEER).unwrap();
    assert_eq!(
        talk.engine.attach(&mut talk.memory, PEER),
        Err(LinkError::WrongState)
    );
    let peer_qp = talk.peer.begin(own_qp, 0);
    for bad in [0, peer_qp + 1, peer_qp + 64, u64::MAX, u64::MAX - 255] {
        let result = talk.engine.link_up(&mut talk.memory, PEER, bad);
        assert_eq!(result, Err(LinkError::BadQueuePair), "{bad:#x}");
    }
    talk.engine
        .link_up(&mut talk.memory, PEER, peer_qp)
        .unwrap();
    let twice = talk.engine.link_up(&mut talk.memory, PEER, peer_qp);
    assert_eq!(twice, Err(LinkError::WrongState));
}

#[test]
fn impossible_indices_cost_the_link() {
    for index in [1, 43, 45, RING_BYTES, u32::MAX] {
        let mut talk = Talk::online(US);
        let address = talk.peer.other_qp + LOCAL_WRITE_OFFSET;
        talk.peer.scribble(address, &index.to_le_bytes());
        talk.engine.doorbell(&mut talk.memory, PEER);
        let down = [Event::NodeDown(PEER), Event::LinkFailed(PEER)];
        assert_eq!(talk.events(), down, "write index {index}");
    }
    for index in [45, RING_BYTES, u32::MAX] {
        let mut talk = Talk::online(US);
        let address = talk.peer.other_qp + LOCAL_READ_OFFSET;
        talk.peer.scribble(address, &index.to_le_bytes());
        talk.tell(
            9,
            9,
            Say::ConnectRequest {
                connector: 1,
                queue_pair: 2,
            },
        );
        assert_eq!(
            talk.engine.link_state(PEER),
            Some(LinkState::Failed),
            "read index {index}"
        );
    }
}

#[test]
fn a_full_ring_is_waited_for_and_a_dead_one_given_up() {
    let mut talk = Talk::online(US);
    // 93 messages fit into the peer's ring; it reads none.
    for connector in 0..200 {
        talk.peer.say(
            1089,
            130,
            Say::ConnectRequest {
                connector,
                queue_pair: 0,
            },
        );
        talk.engine.doorbell(&mut talk.memory, PEER);
    }
    talk.events();
    assert_eq!(talk.engine.next_deadline(), Some(1_000_000));
    let first = talk.heard();
    assert_eq!(first.len(), 93);
    talk.engine.tick(&mut talk.memory, 1_000_000);
    let second = talk.heard();
    assert_eq!(
        (first.len() + second.len(), second[0]),
        (186, Say::ConnectReject { connector: 93 })
    );
    talk.engine.tick(&mut talk.memory, 2_000_000);
    assert_eq!(
        talk.heard().last(),
        Some(&Say::ConnectReject { connector: 199 })
    );
    assert_eq!(talk.engine.next_deadline(), None);

    for connector in 0..200 {
        talk.peer.say(
            1089,
            130,
            Say::ConnectRequest {
                connector,
                queue_pair: 0,
            },
        );
        talk.engine.doorbell(&mut talk.memory, PEER);
    }
    talk.engine.tick(&mut talk.memory, 3_000_000_000);
    assert_eq!(talk.engine.link_state(PEER), Some(LinkState::Online));
    talk.engine.tick(&mut talk.memory, 3_100_000_000);
    assert_eq!(talk.engine.link_state(PEER), Some(LinkState::Failed));
}
