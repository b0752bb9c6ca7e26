//! The fabric server against a client that speaks QEMU's side of the protocol.

use super::*;
use crate::machine::RunDirectory;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::IoSliceMut;
use std::time::Duration;

struct Fake {
    stream: UnixStream,
}

impl Fake {
    fn connect(fabric: &Fabric, node: usize, peer: usize) -> Self {
        let stream = UnixStream::connect(fabric.socket(node, peer)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        Self { stream }
    }

    /// The next message; `None` when the server closed the connection.
    fn receive(&self) -> Option<(i64, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 8];
        let received = rustix::net::recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        if received.unwrap().bytes == 0 {
            return None;
        }
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Some((i64::from_le_bytes(bytes), descriptor))
    }

    /// Reads the introduction and gives the link memory.
    fn introduction(&self, node: i64) -> File {
        assert_eq!(self.receive().unwrap().0, PROTOCOL_VERSION);
        assert_eq!(self.receive().unwrap().0, node);
        let (word, memory) = self.receive().unwrap();
        assert_eq!(word, MEMORY_MESSAGE);
        File::from(memory.unwrap())
    }

    /// Reads one doorbell for each vector of `node`.
    fn doorbells(&self, node: i64) -> Vec<OwnedFd> {
        let next = || {
            let (word, descriptor) = self.receive().unwrap();
            assert_eq!(word, node);
            descriptor.unwrap()
        };
        vec![next(), next()]
    }
}

fn start(nodes: usize) -> (RunDirectory, Fabric) {
    let directory = RunDirectory::new().unwrap();
    let options = Options {
        directory: directory.path().to_path_buf(),
        nodes,
        link_bytes: 1 << 20,
        vectors: 2,
    };
    let fabric = Fabric::start(&options).unwrap();
    (directory, fabric)
}

fn ring(doorbell: &OwnedFd) {
    rustix::io::write(doorbell, &1u64.to_ne_bytes()).unwrap();
}

/// Waits until a doorbell was rung and takes the count.
fn heard(doorbell: &OwnedFd) -> u64 {
    let mut polled = [PollFd::new(doorbell, PollFlags::IN)];
    let limit = rustix::event::Timespec {
        tv_sec: 5,
        tv_nsec: 0,
    };
    assert_eq!(
        rustix::event::poll(&mut polled, Some(&limit)).unwrap(),
        1,
        "nobody rang"
    );
    let mut count = [0; 8];
    rustix::io::read(doorbell, &mut count).unwrap();
    u64::from_ne_bytes(count)
}

#[test]
fn two_nodes_meet_and_ring() {
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    let memory = host.introduction(0);
    let host_own = host.doorbells(0);
    assert_eq!(memory.metadata().unwrap().len(), 1 << 20);
    let mut header = [0; 64];
    memory.read_exact_at(&mut header, 0).unwrap();
    assert_eq!(header, Header::new([0, 1]).as_bytes());

    let card = Fake::connect(&fabric, 1, 0);
    let same = card.introduction(1);
    let card_to_host = card.doorbells(0);
    let card_own = card.doorbells(1);
    let host_to_card = host.doorbells(1);

    ring(&host_to_card[1]);
    assert_eq!(heard(&card_own[1]), 1);
    ring(&card_to_host[0]);
    ring(&card_to_host[0]);
    assert_eq!(heard(&host_own[0]), 2);

    memory.write_all_at(b"through", 4096).unwrap();
    let mut read = [0; 7];
    same.read_exact_at(&mut read, 4096).unwrap();
    assert_eq!(&read, b"through");
}

#[test]
fn links_do_not_share_memory() {
    let (_directory, fabric) = start(3);
    let first = Fake::connect(&fabric, 0, 1).introduction(0);
    let second = Fake::connect(&fabric, 0, 2).introduction(0);
    first.write_all_at(&[7; 8], 8192).unwrap();
    let mut read = [0; 8];
    second.read_exact_at(&mut read, 8192).unwrap();
    assert_eq!(read, [0; 8]);
}

#[test]
fn a_node_that_leaves_is_marked_and_can_come_back() {
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    let memory = host.introduction(0);
    let own = host.doorbells(0);
    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    card.doorbells(1);
    let old = host.doorbells(1);
    let offset = link::record_offset(1) as u64;
    memory.write_all_at(&[0x55; 4], offset).unwrap();

    drop(card);
    let (word, descriptor) = host.receive().unwrap();
    assert_eq!((word, descriptor.is_none()), (1, true), "the leave message");
    assert_eq!(
        (heard(&own[0]), heard(&own[1])),
        (1, 1),
        "the other side is woken"
    );
    let mut state = [0x55; 4];
    memory.read_exact_at(&mut state, offset).unwrap();
    assert_eq!(u32::from_le_bytes(state), link::STATE_ABSENT);

    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    let again = card.doorbells(1);
    let new = host.doorbells(1);
    ring(&old[0]);
    ring(&new[1]);
    assert_eq!(heard(&again[1]), 1, "fresh vectors");
    let mut count = [0; 8];
    let stale = rustix::io::read(&again[0], &mut count);
    assert_eq!(
        stale,
        Err(rustix::io::Errno::AGAIN),
        "old vectors lead nowhere"
    );
}

#[test]
fn a_second_connection_of_a_node_is_turned_away() {
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    host.introduction(0);
    host.doorbells(0);
    assert!(Fake::connect(&fabric, 0, 1).receive().is_none());
    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    assert_eq!(host.doorbells(1).len(), 2);
}

#[test]
fn junk_from_a_client_is_ignored() {
    use std::io::Write;
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    (&host.stream).write_all(&[0xff; 300]).unwrap();
    host.introduction(0);
    host.doorbells(0);
    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    assert_eq!(host.doorbells(1).len(), 2);
}

#[test]
fn the_peer_never_hears_of_a_client_that_vanished_while_joining() {
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    host.introduction(0);
    host.doorbells(0);
    for _ in 0..50 {
        drop(Fake::connect(&fabric, 1, 0));
    }
    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    let last = card.doorbells(1);
    // Whoever joined before also left before: joins and leaves alternate, the last is a join.
    let mut there: Vec<OwnedFd> = Vec::new();
    loop {
        match host.receive().unwrap() {
            (1, Some(doorbell)) => there.push(doorbell),
            (1, None) => {
                assert_eq!(there.len(), 2, "left without having joined");
                there.clear();
            }
            other => panic!("unexpected message {}", other.0),
        }
        if there.len() == 2 {
            ring(&there[1]);
            let mut polled = [PollFd::new(&last[1], PollFlags::IN)];
            let limit = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            if rustix::event::poll(&mut polled, Some(&limit)).unwrap() == 1 {
                break;
            }
        }
    }
}
