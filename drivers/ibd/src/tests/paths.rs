//! The scheme behind the event loop, from a client's side.

use redox_scheme::scheme::SchemeSync;
use scheme::SchemeLoop;
use scheme::fake::FakeSocket;
use syscall::error::*;
use syscall::flag::{EventFlags, O_DIRECTORY, O_RDONLY, O_RDWR, O_STAT, O_WRONLY};
use syscall::schemev2::{CqeOpcode, Opcode, Sqe};
use verbs_abi::call;
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use zerocopy::IntoBytes;

use super::fixture::{UID, create_cq, extended, good, plain};
use crate::device::Device;
use crate::scheme::InfinibandScheme;

/// A program that uses the scheme.
pub struct Client {
    pub socket: FakeSocket,
    requests: SchemeLoop<FakeSocket>,
    pub scheme: InfinibandScheme,
    pub root: usize,
    pub uid: u32,
}

impl Client {
    pub fn new() -> Client {
        let mut scheme = InfinibandScheme::new(Device::new(0), || 0);
        let root = scheme.scheme_root().unwrap();
        let socket = FakeSocket::default();
        Client {
            requests: SchemeLoop::with_transport(socket.clone()),
            socket,
            scheme,
            root,
            uid: UID,
        }
    }

    /// The answer to a request; `None` while it waits.
    pub fn request(&mut self, opcode: Opcode, args: [u64; 6]) -> Option<Result<usize>> {
        self.socket.send(Sqe {
            opcode: opcode as u8,
            args,
            ..Sqe::default()
        });
        self.requests.poll(&mut self.scheme).unwrap();
        let answer = self.socket.answer();
        answer.map(|answer| Error::demux(answer.result as usize))
    }

    /// A turn of the event loop without a request.
    pub fn turn(&mut self) {
        self.requests.poll(&mut self.scheme).unwrap();
    }

    pub fn open(&mut self, path: &str, flags: usize) -> Result<usize> {
        let (at, length) = (path.as_ptr() as u64, path.len() as u64);
        let args = [
            self.root as u64,
            at,
            length,
            flags as u64,
            0,
            self.uid.into(),
        ];
        self.request(Opcode::OpenAt, args).unwrap()
    }

    pub fn transfer(
        &mut self,
        opcode: Opcode,
        id: usize,
        bytes: &mut [u8],
    ) -> Option<Result<usize>> {
        let (at, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
        self.request(opcode, [id as u64, at, length, 0, 0, self.uid.into()])
    }

    pub fn dup(&mut self, id: usize, name: &str) -> Result<usize> {
        let mut name = name.as_bytes().to_vec();
        self.transfer(Opcode::Dup, id, &mut name).unwrap()
    }

    pub fn write(&mut self, id: usize, bytes: &[u8]) -> Result<usize> {
        self.transfer(Opcode::Write, id, &mut bytes.to_vec())
            .unwrap()
    }

    pub fn read(&mut self, id: usize, count: usize) -> Option<Result<Vec<u8>>> {
        let mut bytes = vec![0; count];
        let result = self.transfer(Opcode::Read, id, &mut bytes)?;
        Some(result.map(|count| bytes[..count].to_vec()))
    }

    pub fn text(&mut self, path: &str) -> String {
        let id = self.open(path, O_RDONLY).unwrap();
        let bytes = self.read(id, 65536).unwrap().unwrap();
        self.close(id);
        String::from_utf8(bytes).unwrap()
    }

    pub fn call(&mut self, id: usize, payload: &mut [u8], operation: u64) -> Result<usize> {
        let (at, length) = (payload.as_mut_ptr() as u64, payload.len() as u64);
        let args = [id as u64, at, length, operation, 0, 0];
        self.request(Opcode::Call, args).unwrap()
    }

    pub fn close(&mut self, id: usize) {
        let answer = self.request(Opcode::CloseMsg, [id as u64, 0, 0, 0, 0, 0]);
        assert_eq!(answer, None);
    }

    /// Closes a file; this answers a request that waits for it.
    pub fn close_with_answer(&mut self, id: usize) {
        self.socket.send(Sqe {
            opcode: Opcode::CloseMsg as u8,
            args: [id as u64, 0, 0, 0, 0, 0],
            ..Sqe::default()
        });
        self.turn();
    }

    /// A context that has executed GET_CONTEXT.
    pub fn begun(&mut self) -> usize {
        let id = self.open("uverbs0", O_RDWR).unwrap();
        let (request, room, _) = good(Command::GetContext, false);
        let command = plain(Command::GetContext, &request, room);
        assert_eq!(self.write(id, &command), Ok(command.len()));
        assert_eq!(
            self.read(id, 100),
            Some(Ok(vec![0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]))
        );
        id
    }
}

pub fn error<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

#[test]
fn paths_and_rights() {
    let mut client = Client::new();
    for (path, flags, errno) in [
        ("nothing", O_RDONLY, ENOENT),
        ("class/infiniband/scif1", O_RDONLY, ENOENT),
        ("uverbs1", O_RDWR, ENOENT),
        ("stats/x", O_RDONLY, ENOTDIR),
        ("uverbs0/x", O_RDWR, ENOTDIR),
        ("class/infiniband/scif0/fw_ver/x/y", O_RDONLY, ENOTDIR),
        ("", O_RDONLY, EISDIR),
        ("class", O_WRONLY | O_DIRECTORY, EISDIR),
        ("stats", O_RDONLY | O_DIRECTORY, ENOTDIR),
        ("uverbs0", O_RDWR | O_DIRECTORY, ENOTDIR),
        ("stats", O_WRONLY, EACCES),
        ("limits", O_RDWR, EACCES),
        ("class/infiniband/scif0/node_desc", O_RDWR, EACCES),
    ] {
        assert_eq!(client.open(path, flags), error(errno), "{path}");
    }
    for path in [
        "",
        "class",
        "/class/infiniband/scif0/ports/1/",
        "class/infiniband_verbs",
    ] {
        let id = client.open(path, O_RDONLY | O_DIRECTORY).unwrap();
        assert_eq!(client.read(id, 10), Some(error(EISDIR)));
        client.close(id);
    }
    for path in ["", "uverbs0", "stats"] {
        let id = client.open(path, O_STAT).unwrap();
        assert_eq!(client.read(id, 10), Some(error(EBADF)), "{path}");
        assert_eq!(client.write(id, &[0; 8]), error(EBADF), "{path}");
        client.close(id);
    }
    assert_eq!(
        client.text("class/infiniband_verbs/uverbs0/ibdev"),
        "scif0\n"
    );
    assert_eq!(client.scheme.device().contexts().count(), 0);
}

#[test]
fn root_changes_limits() {
    let mut client = Client::new();
    client.uid = 0;
    let id = client.open("limits", O_WRONLY).unwrap();
    assert_eq!(client.write(id, b"files_per_user 1\n"), Ok(17));
    assert_eq!(client.write(id, b"files_per_user x\n"), error(EINVAL));
    assert_eq!(client.write(id, &[0xff]), error(EINVAL));
    // Root has a limit, too.
    assert_eq!(client.open("stats", O_RDONLY), error(ENOMEM));
    client.close(id);
    assert!(client.text("limits").contains("files_per_user 1\n"));
    assert_eq!(
        client
            .scheme
            .device()
            .shared
            .accounts
            .total(crate::limits::Kind::Files),
        0
    );
}

#[test]
fn long_texts_count_for_more_files() {
    let mut client = Client::new();
    let id = client.begun();
    let channel = client.dup(id, "channel").unwrap();
    // A text long enough to count as several files.
    while client.text("cqs").len() < 2048 {
        assert_eq!(queue_at(&mut client, id, 0), Ok(8));
    }
    let files = |client: &mut Client| {
        let accounts = &client.scheme.device().shared.accounts;
        accounts.total(crate::limits::Kind::Files)
    };
    let before = files(&mut client);
    let text = client.open("cqs", O_RDONLY).unwrap();
    let used = files(&mut client) - before;
    assert!((5..16).contains(&used), "{used}");
    let accounts = &mut client.scheme.device().shared.accounts;
    let limit = before + 2 * used - 1;
    accounts.set(&format!("files_per_user {limit}")).unwrap();
    assert_eq!(client.open("cqs", O_RDONLY), error(ENOMEM));
    assert_eq!(files(&mut client), before + used);
    client.close(text);
    assert_eq!(files(&mut client), before);
    let text = client.open("cqs", O_RDONLY).unwrap();
    client.close(text);
    client.close(channel);
    // Root can open the limits when it can open no other file.
    let accounts = &mut client.scheme.device().shared.accounts;
    accounts.set("files_per_user 0").unwrap();
    assert_eq!(client.open("limits", O_RDONLY), error(ENOMEM));
    client.uid = 0;
    assert_eq!(client.open("stats", O_RDONLY), error(ENOMEM));
    let id = client.open("limits", O_WRONLY).unwrap();
    assert_eq!(client.write(id, b"files_per_user 9\n"), Ok(17));
    client.close(id);
    assert!(client.text("limits").contains("files_per_user 9\n"));
}

#[test]
fn a_call_changes_its_payload_into_the_answer() {
    let mut client = Client::new();
    let id = client.begun();
    let (request, room, _) = good(Command::QueryDevice, false);
    let mut payload = plain(Command::QueryDevice, &request, room);
    // The payload must have room for the answer.
    assert_eq!(client.call(id, &mut payload, call::EXECUTE), error(EFAULT));
    payload.resize(room, 0xaa);
    assert_eq!(client.call(id, &mut payload, call::EXECUTE), Ok(176));
    assert_eq!(payload[8..16], [2, 0x53, 0x4b, 0x49, 0, 0, 0, 0]);
    for operation in [0, 2, 9, u64::MAX] {
        assert_eq!(client.call(id, &mut payload, operation), error(EINVAL));
    }
    // Extended, where there is no address for the answer.
    let mut payload = extended(Command::QueryDevice, &[0; 8], 304);
    payload[8..16].fill(0);
    payload.resize(304, 0);
    assert_eq!(client.call(id, &mut payload, call::EXECUTE), Ok(304));
    // An answer that exists although the command is refused.
    let (request, ..) = good(Command::AllocPd, false);
    let mut payload = plain(Command::AllocPd, &request, 4);
    assert_eq!(client.call(id, &mut payload, call::EXECUTE), Ok(4));
    let stats = client.open("stats", O_RDONLY).unwrap();
    assert_eq!(
        client.call(stats, &mut payload, call::EXECUTE),
        error(ENOTTY)
    );
}

#[test]
fn a_write_has_its_answer_in_the_next_read() {
    let mut client = Client::new();
    let id = client.begun();
    let (mut request, room, _) = good(Command::QueryPort, false);
    let command = plain(Command::QueryPort, &request, room);
    assert_eq!(client.write(id, &command), Ok(command.len()));
    let answer = client.read(id, 10).unwrap().unwrap();
    assert_eq!(answer.len(), 10);
    assert_eq!(client.read(id, 100).unwrap().map(|rest| rest.len()), Ok(30));
    assert_eq!(client.read(id, 100), Some(Ok(vec![])));
    // The daemon cannot store the answer there, so it does nothing.
    request[..8].copy_from_slice(&0x1000_u64.to_ne_bytes());
    let command = plain(Command::QueryPort, &request, room);
    assert_eq!(client.write(id, &command), error(EFAULT));
    // For a command without an answer the field has another meaning.
    let (request, ..) = good(Command::AllocPd, false);
    let command = plain(Command::AllocPd, &request, 4);
    assert_eq!(client.write(id, &command), Ok(16));
    let command = plain(Command::DeallocPd, &[0; 4], 0);
    assert_eq!(client.write(id, &command), Ok(12));
    // Another user, who was given the descriptor.
    client.uid += 1;
    assert_eq!(client.write(id, &command), error(EACCES));
}

#[test]
fn descriptors_of_events() {
    let mut client = Client::new();
    let id = client.open("uverbs0", O_RDWR).unwrap();
    assert_eq!(client.dup(id, "async"), error(EINVAL));
    assert_eq!(client.dup(id, "channel"), error(EINVAL));
    client.close(id);
    let id = client.begun();
    for (name, errno) in [
        ("", EINVAL),
        ("other", EINVAL),
        ("channel/", EINVAL),
        ("channel/x", EINVAL),
        ("channel/0", ENOENT),
        ("channel/-1", EINVAL),
    ] {
        assert_eq!(client.dup(id, name), error(errno), "{name}");
    }
    let events = client.dup(id, "async").unwrap();
    let channel = client.dup(id, "channel").unwrap();
    let same = client.dup(id, "channel/0").unwrap();
    assert_eq!(client.dup(channel, "async"), error(EOPNOTSUPP));
    assert_eq!(client.call(same, &mut [], call::CHANNEL_NUMBER), Ok(0));
    assert_eq!(client.call(same, &mut [], call::EXECUTE), error(EINVAL));
    assert_eq!(
        client.call(events, &mut [], call::CHANNEL_NUMBER),
        error(ENOTTY)
    );
    assert_eq!(client.write(channel, &[0; 8]), error(EINVAL));
    // A read waits, and the port's state answers it.
    assert_eq!(client.read(events, 16), None);
    client
        .scheme
        .device()
        .set_port(crate::identity::PortState::Active);
    client.requests.retry_parked(&mut client.scheme).unwrap();
    let answer = client.socket.answer().unwrap();
    assert_eq!(answer.result, 16);
    // Events come to an event queue as well.
    let event = EventFlags::EVENT_READ.bits() as u64;
    let args = [events as u64, event, 0, 0, 0, 0];
    assert_eq!(client.request(Opcode::Fevent, args), Some(Ok(0)));
    client
        .scheme
        .device()
        .set_port(crate::identity::PortState::Down);
    client.requests.retry_parked(&mut client.scheme).unwrap();
    let answer = client.socket.answer().unwrap();
    assert_eq!(answer.flags, CqeOpcode::SendFevent as u8);
    // The context ends: waiting requests are answered, and events that were not read can be.
    assert_eq!(client.read(channel, 8), None);
    client.close_quietly(id);
    let answers = [client.socket.answer(), client.socket.answer()].map(Option::unwrap);
    let read = answers
        .iter()
        .find(|answer| answer.flags == CqeOpcode::RespondRegular as u8);
    assert_eq!(Error::demux(read.unwrap().result as usize), error(EIO));
    assert_eq!(
        client.read(events, 16).unwrap().map(|record| record.len()),
        Ok(16)
    );
    assert_eq!(client.read(events, 16), Some(error(EIO)));
    for id in [events, channel, same] {
        client.close(id);
    }
    let accounts = &client.scheme.device().shared.accounts;
    assert_eq!(accounts.total(crate::limits::Kind::Files), 0);
}

impl Client {
    /// Closes a descriptor, of whose end other descriptors are notified.
    fn close_quietly(&mut self, id: usize) {
        self.socket.send(Sqe {
            opcode: Opcode::CloseMsg as u8,
            args: [id as u64, 0, 0, 0, 0, 0],
            ..Sqe::default()
        });
        self.turn();
    }
}

#[test]
fn queues_know_their_channels_by_number() {
    let mut client = Client::new();
    let id = client.begun();
    client.dup(id, "channel").unwrap();
    client.dup(id, "channel").unwrap();
    for (comp_channel, expected) in [(0, Ok(8)), (1, Ok(8)), (2, error(EBADF))] {
        let request = abi::CreateCq {
            comp_channel,
            ..create_cq()
        };
        let mut payload = plain(Command::CreateCq, request.as_bytes(), 8);
        assert_eq!(client.call(id, &mut payload, call::EXECUTE), expected);
    }
    let text = client.text("cqs");
    assert_eq!(text.lines().count(), 3);
}

/// Creates a completion queue with this channel. Returns the length of the answer.
fn queue_at(client: &mut Client, id: usize, comp_channel: i32) -> syscall::Result<usize> {
    let request = abi::CreateCq {
        comp_channel,
        ..create_cq()
    };
    let mut payload = plain(Command::CreateCq, request.as_bytes(), 8);
    client.call(id, &mut payload, call::EXECUTE)
}

#[test]
fn a_channel_goes_with_its_last_descriptor_and_queue() {
    let mut client = Client::new();
    let id = client.begun();
    // More channels than a context can have at once.
    for _ in 0..1100 {
        let channel = client.dup(id, "channel").unwrap();
        client.close(channel);
    }
    let first = client.dup(id, "channel").unwrap();
    let again = client.dup(id, "channel/0").unwrap();
    client.close(first);
    assert_eq!(client.call(again, &mut [], call::CHANNEL_NUMBER), Ok(0));
    // A completion queue keeps the channel, and frees it when it ends.
    assert_eq!(queue_at(&mut client, id, 0), Ok(8));
    client.close(again);
    let again = client.dup(id, "channel/0").unwrap();
    client.close(again);
    let mut payload = plain(Command::DestroyCq, &[0; 16], 8);
    assert_eq!(client.call(id, &mut payload, call::EXECUTE), Ok(8));
    assert_eq!(client.dup(id, "channel/0"), error(ENOENT));
    assert_eq!(queue_at(&mut client, id, 0), error(EBADF));
    let accounts = &client.scheme.device().shared.accounts;
    assert_eq!(accounts.total(crate::limits::Kind::Files), 0);
}

#[test]
fn a_channel_without_its_descriptor_is_not_made() {
    let mut client = Client::new();
    let id = client.begun();
    let accounts = &mut client.scheme.device().shared.accounts;
    let used = accounts.total(crate::limits::Kind::Files);
    // There is room for the channel, but not for its descriptor.
    accounts
        .set(&format!("files_per_user {}", used + 1))
        .unwrap();
    assert_eq!(client.dup(id, "channel"), error(ENOMEM));
    let accounts = &mut client.scheme.device().shared.accounts;
    assert_eq!(accounts.total(crate::limits::Kind::Files), used);
    accounts
        .set(&format!("files_per_user {}", used + 2))
        .unwrap();
    let channel = client.dup(id, "channel").unwrap();
    assert_eq!(client.call(channel, &mut [], call::CHANNEL_NUMBER), Ok(0));
}
