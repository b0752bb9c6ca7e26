//! The fabric server against a client that speaks QEMU's side of the protocol.

use super::*;
use crate::base::run_directory::RunDirectory;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::IoSliceMut;
use std::time::Duration;

/// For what comes at once, unless the machine is starved.
const READ_LIMIT: Duration = Duration::from_secs(60);

struct Fake {
    stream: UnixStream,
}

impl Fake {
    fn connect(fabric: &Fabric, node: usize, peer: usize) -> Self {
        let stream = UnixStream::connect(fabric.socket(node, peer)).unwrap();
        stream.set_read_timeout(Some(READ_LIMIT)).unwrap();
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
    start_relayed(nodes, false)
}

fn start_relayed(nodes: usize, relayed: bool) -> (RunDirectory, Fabric) {
    let directory = RunDirectory::new().unwrap();
    let options = Options {
        directory: directory.path().to_path_buf(),
        nodes,
        link_bytes: 1 << 20,
        vectors: 2,
        relayed,
    };
    let fabric = Fabric::start(&options).unwrap();
    (directory, fabric)
}

/// Waits until a doorbell was rung and takes the count.
fn heard(doorbell: &OwnedFd) -> u64 {
    let mut polled = [PollFd::new(doorbell, PollFlags::IN)];
    let limit = rustix::event::Timespec {
        tv_sec: READ_LIMIT.as_secs() as i64,
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
    let pair = pair(&fabric);
    assert_eq!(pair.memory.metadata().unwrap().len(), 1 << 20);
    let mut header = [0; 64];
    pair.memory.read_exact_at(&mut header, 0).unwrap();
    assert_eq!(header, Header::new([0, 1]).as_bytes());

    ring(&pair.others[0][1]);
    assert_eq!(heard(&pair.own[1][1]), 1);
    ring(&pair.others[1][0]);
    ring(&pair.others[1][0]);
    assert_eq!(heard(&pair.own[0][0]), 2);

    pair.memory.write_all_at(b"through", 4096).unwrap();
    let mut read = [0; 7];
    pair.other_memory.read_exact_at(&mut read, 4096).unwrap();
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
    let Pair {
        memory,
        fakes: [host, card],
        own: [own, _],
        others: [others, _],
        ..
    } = pair(&fabric);
    let offset = link::record_offset(1) as u64;
    memory.write_all_at(&[0x55; 4], offset).unwrap();

    drop(card);
    let woken = (heard(&own[0]), heard(&own[1]));
    assert_eq!(woken, (1, 1), "the other side looks");
    let mut state = [0x55; 4];
    memory.read_exact_at(&mut state, offset).unwrap();
    assert_eq!(u32::from_le_bytes(state), link::STATE_ABSENT);

    // Rung for nobody.
    ring(&others[0]);
    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    let again = card.doorbells(1);
    assert!(!silence(&again[0]), "what was rung before is not for it");
    ring(&others[1]);
    assert_eq!(heard(&again[1]), 1);
    // The other side is told nothing: doorbells are the same in each life.
    host.stream.set_nonblocking(true).unwrap();
    let more = (&host.stream).read(&mut [0; 8]);
    assert_eq!(more.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_second_connection_of_a_node_is_turned_away() {
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    host.introduction(0);
    host.doorbells(1);
    assert!(Fake::connect(&fabric, 0, 1).receive().is_none());
    assert_eq!(host.doorbells(0).len(), 2);
}

#[test]
fn junk_from_a_client_is_ignored() {
    use std::io::Write;
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    (&host.stream).write_all(&[0xff; 300]).unwrap();
    host.introduction(0);
    host.doorbells(1);
    assert_eq!(host.doorbells(0).len(), 2);
}

#[test]
fn clients_that_vanish_while_joining_leave_the_link_usable() {
    let (_directory, fabric) = start(2);
    let host = Fake::connect(&fabric, 0, 1);
    host.introduction(0);
    let others = host.doorbells(1);
    for _ in 0..50 {
        drop(Fake::connect(&fabric, 1, 0));
    }
    let card = Fake::connect(&fabric, 1, 0);
    card.introduction(1);
    card.doorbells(0);
    let last = card.doorbells(1);
    ring(&others[1]);
    assert!(heard(&last[1]) > 0);
}

/// The two sides of a link: its memory, then for each what it listens to and what it rings.
struct Pair {
    memory: File,
    other_memory: File,
    fakes: [Fake; 2],
    own: [Vec<OwnedFd>; 2],
    others: [Vec<OwnedFd>; 2],
}

fn pair(fabric: &Fabric) -> Pair {
    let host = Fake::connect(fabric, 0, 1);
    let memory = host.introduction(0);
    let host_others = host.doorbells(1);
    let host_own = host.doorbells(0);
    let card = Fake::connect(fabric, 1, 0);
    let other_memory = card.introduction(1);
    let card_others = card.doorbells(0);
    let card_own = card.doorbells(1);
    Pair {
        memory,
        other_memory,
        fakes: [host, card],
        own: [host_own, card_own],
        others: [host_others, card_others],
    }
}

fn down(memory: &File) -> u32 {
    let mut word = [0; 4];
    let at = link::HEADER_DOWN as u64;
    memory.read_exact_at(&mut word, at).unwrap();
    u32::from_le_bytes(word)
}

#[test]
fn a_link_is_cut_and_healed() {
    let (_directory, fabric) = start_relayed(3, true);
    let pair = pair(&fabric);
    fabric.inject([1, 0], Fault::Cut).unwrap();
    assert!(pair.own.iter().all(|own| heard(&own[0]) > 0));
    assert_eq!(down(&pair.memory), 1);
    ring(&pair.others[0][0]);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!silence(&pair.own[1][0]), "a doorbell got through");
    fabric.inject([0, 1], Fault::Heal).unwrap();
    assert!(pair.own.iter().all(|own| heard(&own[0]) > 0));
    assert_eq!(down(&pair.memory), 0);
    for index in [0, 1] {
        ring(&pair.others[index][0]);
        assert!(heard(&pair.own[1 - index][0]) > 0);
    }
}

#[test]
fn relayed_doorbells_are_lost_doubled_and_late() {
    let (_directory, fabric) = start_relayed(2, true);
    let pair = pair(&fabric);
    ring(&pair.others[0][1]);
    assert_eq!(heard(&pair.own[1][1]), 1);
    let faults = Faults::parse(&["lose=1/1"]).unwrap();
    let heard_before = fabric.inject([0, 1], Fault::Doorbells(faults)).unwrap();
    assert_eq!((heard_before.rung, heard_before.lost), (1, 0));
    for _ in 0..20 {
        ring(&pair.others[0][0]);
        std::thread::sleep(Duration::from_millis(2));
        assert!(!silence(&pair.own[1][0]));
    }
    let faults = Faults::parse(&["double=1/1", "late_ms=5"]).unwrap();
    let lost = fabric.inject([0, 1], Fault::Doorbells(faults)).unwrap();
    assert!(lost.rung > 0 && lost.lost == lost.rung, "{lost:?}");
    let is_doubled = (0..200).any(|_| {
        silence(&pair.own[0][0]);
        ring(&pair.others[1][0]);
        std::thread::sleep(Duration::from_millis(20));
        let mut count = [0; 8];
        let heard = rustix::io::read(&pair.own[0][0], &mut count);
        heard.is_ok() && u64::from_ne_bytes(count) == 2
    });
    assert!(is_doubled);
}

#[test]
fn orders_that_cannot_be_done_say_why() {
    let (_directory, fabric) = start_relayed(2, true);
    let failure = fabric.inject([0, 2], Fault::Cut).unwrap_err().message;
    assert_eq!(failure, "there is no link between nodes 0 and 2");
    // A node has no link with itself.
    assert!(fabric.inject([1, 1], Fault::Cut).is_err());
    let (_directory, fabric) = start_relayed(2, false);
    let failure = fabric.inject([1, 0], Fault::Heal).unwrap_err().message;
    let expected = "link between nodes 1 and 0: doorbells are not relayed in this run";
    assert_eq!(failure, expected);
}
