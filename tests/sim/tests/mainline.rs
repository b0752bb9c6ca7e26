//! Exchanges with a peer of the base protocol, message by message: messages that the mainline
//! driver sends, those it must receive, and those it must never receive.

use std::task::Poll;

use scif_abi::message::NodeMessage as Say;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, QP_MAGIC, QueuePair};
use scif_abi::{Error, PortId};
use scif_core::{Connect, ConnectMode, EndpointState, Event, Memory, Owner};
use sim::peer::RING_BYTES;
use sim::talk::Talk;
use zerocopy::{FromZeros, IntoBytes};

const US: u16 = 1;
const PEER: u16 = 0;
const OWNER: Owner = Owner {
    process: 1,
    user: 0,
};

#[test]
fn the_node_queue_pair_is_what_a_mainline_node_expects() {
    let mut talk = Talk::new(US);
    let address = talk.engine.attach(&mut talk.memory, PEER).unwrap();
    talk.allow_peer_reads();
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

    // The peer sends: bytes into our ring, the index, CLIENT_SENT.
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

    // The peer closes; the acknowledgement echoes both ids.
    talk.tell(
        1089,
        130,
        Say::Disconnect {
            closer: connector,
            peer: acceptor,
            stored: 0,
        },
    );
    assert_eq!(
        talk.heard(),
        [Say::DisconnectAck {
            closer: connector,
            peer: acceptor,
            stored: 0
        }]
    );
    assert_eq!(talk.engine.state(new), Some(EndpointState::Disconnected));
    talk.engine.close(&mut talk.memory, new);
    assert_eq!(talk.heard(), []);
    assert_eq!(talk.engine.stats().connections, 0);
}

/// DISCNCT is answered whether or not there is such a connection, so it works as a probe.
#[test]
fn a_mainline_node_is_asked_for_a_sign_of_life_and_asks_us() {
    let question = Say::Disconnect {
        closer: 0,
        peer: 0,
        stored: 0,
    };
    let answer = Say::DisconnectAck {
        closer: 0,
        peer: 0,
        stored: 0,
    };
    let mut talk = Talk::online(US);
    talk.heard();
    let first = talk.engine.probe_peer(&mut talk.memory, PEER);
    assert_eq!(talk.heard(), [question]);
    // The peer has sent INIT, and nothing since.
    assert_eq!(first, Some(1));
    assert_eq!(talk.engine.probe_peer(&mut talk.memory, PEER), first);
    assert_eq!(talk.heard(), [question]);
    // Its answer counts although no doorbell announced it.
    talk.peer.say(0, 0, answer);
    assert_eq!(talk.engine.probe_peer(&mut talk.memory, PEER), Some(2));
    assert_eq!(talk.heard(), [question]);

    talk.tell(0, 0, question);
    assert_eq!(talk.heard(), [answer]);
    let stats = talk.engine.stats();
    assert_eq!((stats.stale_ids, stats.unexpected_messages), (0, 0));

    talk.engine.leave(&mut talk.memory);
    assert_eq!(talk.engine.probe_peer(&mut talk.memory, PEER), None);
    assert_eq!(talk.engine.probe_peer(&mut talk.memory, 9), None);
    assert_eq!(talk.heard(), [Say::Exit]);
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
    talk.allow_peer_reads();
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
            peer: acceptor,
            stored: 0
        }]
    );
    // The pages stay until the peer has promised not to write to them.
    assert_eq!(talk.engine.stats().connections_closing, 1);
    // Both sides close at once: the peer's DISCNCT is answered, and our own is still unanswered.
    talk.tell(
        201,
        1088,
        Say::Disconnect {
            closer: acceptor,
            peer: connector,
            stored: 0,
        },
    );
    assert_eq!(
        talk.heard(),
        [Say::DisconnectAck {
            closer: acceptor,
            peer: connector,
            stored: 0
        }]
    );
    assert_eq!(talk.engine.stats().connections_closing, 1);
    talk.tell(
        201,
        1088,
        Say::DisconnectAck {
            closer: connector,
            peer: acceptor,
            stored: 0,
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
    // No program listens.
    talk.tell(
        1089,
        130,
        Say::ConnectRequest {
            connector: 5,
            queue_pair: 6,
        },
    );
    assert_eq!(talk.heard(), [Say::ConnectReject { connector: 5 }]);
    // A grant without a request.
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
    talk.engine.connect_cancel(id);
    assert_eq!(talk.heard(), []);
    assert_eq!(talk.engine.stats().connections_closing, 1);
    // The peer's accept comes much later.
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
