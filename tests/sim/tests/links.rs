//! A link as seen from one side: greeting, node management, leaving, and the effects of a peer
//! that breaks the rules or stops answering.

use scif_abi::limits::{MAX_UNANSWERED, PAGE_BYTES};
use scif_abi::message::NodeMessage as Say;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};
use scif_abi::{Error, PortId};
use scif_core::{ConnectMode, Event, LinkError, LinkState, Owner};
use sim::memory::Fabric;
use sim::peer::RING_BYTES;
use sim::talk::Talk;
use zerocopy::FromZeros;

const US: u16 = 1;
const PEER: u16 = 0;
const OWNER: Owner = Owner {
    process: 1,
    user: 0,
};

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
fn unknown_messages_are_ignored() {
    let mut talk = Talk::online(US);
    let mut message = scif_abi::message::Message::new_zeroed();
    for opcode in [0, 5, 40, 63, 67, 1000, u32::MAX] {
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
    // A card gets the request from its host.
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
    // A host gets the request from its card.
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

/// The peer has received our INIT and may use our memory already, though its own INIT is still on
/// its way.
#[test]
fn a_node_that_is_being_greeted_hears_that_we_leave() {
    let mut talk = Talk::new(US);
    let own_qp = talk.engine.attach(&mut talk.memory, PEER).unwrap();
    let peer_qp = talk.peer.begin(own_qp, 0);
    let memory = &mut talk.memory;
    talk.engine.link_up(memory, PEER, peer_qp).unwrap();
    assert!(!talk.engine.is_leaving());
    talk.engine.leave(memory);
    assert!(talk.engine.is_leaving());
    assert_eq!(talk.heard(), [Say::Init, Say::Exit]);
    talk.tell(0, 0, Say::Init);
    assert_eq!(talk.heard(), []);
    talk.tell(0, 0, Say::ExitAck);
    assert!(!talk.engine.is_leaving());
    assert_eq!(talk.engine.link_state(PEER), Some(LinkState::Left));
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
    // The peer's ring takes 93 messages, and the peer reads none.
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

#[test]
fn a_peer_that_never_answers_a_close_gets_no_more_connections() {
    // Two pages for each connection, and some more.
    let pages = 2 * MAX_UNANSWERED + 100;
    let mut talk = Talk::on(Fabric::with_bytes(2, pages * PAGE_BYTES), US).greet();
    let listener = talk.engine.open(OWNER).unwrap();
    talk.engine.bind(listener, 130).unwrap();
    talk.engine.listen(listener, 1).unwrap();
    let (_, queue_pair) = talk.peer.make_queue_pair(|_| {}).unwrap();
    let mut accepted = 0;
    let error = loop {
        talk.tell(
            1089,
            130,
            Say::ConnectRequest {
                connector: accepted,
                queue_pair,
            },
        );
        match talk.engine.accept_start(&mut talk.memory, listener, OWNER) {
            Ok(new) => talk.engine.close(&mut talk.memory, new),
            Err(error) => break error,
        }
        talk.peer.receive();
        accepted += 1;
    };
    assert_eq!(error, Error::NoMemory);
    assert_eq!(accepted, MAX_UNANSWERED as u64);
    // The rest of the node is not affected, and everything is free after the end of the link.
    talk.engine.close(&mut talk.memory, listener);
    talk.engine.link_down(&mut talk.memory, PEER);
    assert_eq!(talk.engine.stats().pages, 0);
}
