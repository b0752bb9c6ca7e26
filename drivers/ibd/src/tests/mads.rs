//! `umad0` and `issm0` behind the event loop, from a program's side.

use mad_core::mad::{GSI_QKEY, Mad, method};
use syscall::error::*;
use syscall::flag::{EventFlags, O_NONBLOCK, O_RDONLY, O_RDWR};
use syscall::schemev2::Opcode;
use verbs_abi::mad::{RegisterAgent, RegisterAgent2, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

use super::paths::{Client, error};

const SUBNET: RegisterAgent2 = RegisterAgent2 {
    id: 99,
    qpn: 0,
    mgmt_class: 1,
    mgmt_class_version: 1,
    res: 0,
    flags: 0,
    method_mask: [0; 2],
    oui: 0,
    rmpp_version: 0,
    reserved: [0; 3],
};

fn root() -> Client {
    let mut client = Client::new();
    client.uid = 0;
    let device = client.scheme.device();
    device.mads.set_up(true, 0);
    device.mads.set_online(1, true, 0);
    client
}

/// A Get of class 1 for an attribute of a port.
fn get(lid: u16, number: u16) -> Vec<u8> {
    let header = UserMad {
        timeout_ms: 100,
        lid: lid.to_be_bytes(),
        qkey: GSI_QKEY.to_be_bytes(),
        ..UserMad::default()
    };
    let mut mad = Mad::padded(&[1, 1, 1, method::GET]);
    mad.header.attribute = number.into();
    mad.header.tid = 5.into();
    [header.as_bytes(), mad.bytes()].concat()
}

#[test]
fn only_root_opens_them() {
    let mut client = Client::new();
    for path in ["umad0", "issm0"] {
        assert_eq!(client.open(path, O_RDWR), error(EACCES), "{path}");
        assert_eq!(client.open(&format!("{path}/x"), O_RDWR), error(ENOTDIR));
    }
}

#[test]
fn a_program_asks_its_own_port() {
    let mut client = root();
    let id = client.open("umad0", O_RDWR).unwrap();
    let mut payload = SUBNET.as_bytes().to_vec();
    assert_eq!(
        client.call(id, &mut payload, request::REGISTER_AGENT2),
        Ok(0)
    );
    assert_eq!(payload[..4], [0; 4]);
    let watch = |client: &mut Client| {
        let all = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
        let args = [id as u64, all.bits() as u64, 0, 0, 0, 0];
        client.request(Opcode::Fevent, args).unwrap()
    };
    let write = EventFlags::EVENT_WRITE.bits();
    assert_eq!(watch(&mut client), Ok(write));
    // The event, which names the file, follows the answer to the write.
    assert_eq!(client.write(id, &get(1, 0x11)), Ok(id));
    let written = client.socket.answer().map(|answer| answer.result);
    assert_eq!(written, Some(320));
    assert_eq!(
        watch(&mut client),
        Ok(write | EventFlags::EVENT_READ.bits())
    );
    assert_eq!(client.read(id, 63), Some(error(EINVAL)));
    assert_eq!(client.read(id, 319), Some(error(EINVAL)));
    let read = client.read(id, 500).unwrap().unwrap();
    let (header, _) = UserMad::read_from_prefix(&read).unwrap();
    assert_eq!((read.len(), header.length, header.status), (320, 320, 0));
    assert_eq!(read[64 + 3], method::GET_RESPONSE);
    // No further message: the next read waits.
    assert_eq!(client.read(id, 500), None);
}

#[test]
fn requests_of_ioctl_have_their_errors() {
    let mut client = root();
    let id = client.open("umad0", O_RDWR).unwrap();
    let asked = |change: fn(&mut RegisterAgent2)| {
        let mut asked = SUBNET;
        change(&mut asked);
        asked.as_bytes().to_vec()
    };
    let number = request::REGISTER_AGENT2;
    for change in [
        (|of| of.qpn = 2) as fn(&mut RegisterAgent2),
        |of| of.qpn = 1,
        |of| of.mgmt_class = 80,
        |of| of.mgmt_class_version = 0x83,
        |of| of.rmpp_version = 1,
        |of| of.oui = 1 << 24,
        |of| (of.mgmt_class, of.flags) = (0, 1),
    ] {
        assert_eq!(client.call(id, &mut asked(change), number), error(EINVAL));
    }
    let mut unknown = asked(|of| of.flags = 6);
    assert_eq!(client.call(id, &mut unknown, number), error(EINVAL));
    assert_eq!(unknown[12..16], [1, 0, 0, 0], "the flags that are known");
    let mut short = SUBNET.as_bytes()[..39].to_vec();
    assert_eq!(client.call(id, &mut short, number), error(EINVAL));
    assert_eq!(client.call(id, &mut [], 0x1b09), error(ENOTTY));
    assert_eq!(client.call(id, &mut [], request::ENABLE_PKEY), Ok(0));
    let mut agent = 0_u32.to_ne_bytes();
    assert_eq!(
        client.call(id, &mut agent, request::UNREGISTER_AGENT),
        error(EINVAL)
    );
    let old = RegisterAgent {
        qpn: 1,
        mgmt_class: 4,
        mgmt_class_version: 1,
        ..RegisterAgent::default()
    };
    let mut old = old.as_bytes().to_vec();
    assert_eq!(client.call(id, &mut old, request::REGISTER_AGENT), Ok(0));
    assert_eq!(
        client.call(id, &mut [], request::ENABLE_PKEY),
        error(EINVAL)
    );
    let table = client.text("agents");
    assert!(table.contains(" 0 1 0x04 1 000000 0x0 - 0\n"), "{table}");
    assert_eq!(client.write(id, &get(1, 0x11)[..99]), error(EINVAL));
    assert_eq!(
        client.call(id, &mut agent, request::UNREGISTER_AGENT),
        Ok(0)
    );
    assert_eq!(client.write(id, &get(1, 0x11)), error(EIO));
    assert_eq!(client.text("agents").lines().count(), 1);
}

#[test]
fn what_a_program_had_goes_with_it() {
    let mut client = root();
    let id = client.open("umad0", O_RDWR).unwrap();
    let mut payload = SUBNET.as_bytes().to_vec();
    assert_eq!(
        client.call(id, &mut payload, request::REGISTER_AGENT2),
        Ok(0)
    );
    // The request waits for node 1, which never answers.
    assert_eq!(client.write(id, &get(2, 0x11)), Ok(320));
    assert!(client.scheme.device().mads.deadline().is_some());
    client.close(id);
    let mads = &client.scheme.device().mads;
    assert_eq!((mads.deadline(), mads.users().count()), (None, 0));
}

#[test]
fn what_is_open_ends_when_the_node_gets_another_number() {
    let mut client = root();
    let id = client.open("umad0", O_RDWR).unwrap();
    let manager = client.open("issm0", O_RDONLY).unwrap();
    let mut payload = SUBNET.as_bytes().to_vec();
    let register = request::REGISTER_AGENT2;
    assert_eq!(client.call(id, &mut payload, register), Ok(0));
    assert_eq!(client.read(id, 500), None, "it waits");
    client.scheme.device().set_node(5);
    client.scheme.device().mads.set_up(true, 0);
    // The waiting read gets its answer.
    client.turn();
    let answer = client.socket.answer().expect("an answer");
    assert_eq!(Error::demux(answer.result as usize), error(EIO));
    assert_eq!(client.write(id, &get(6, 0x11)), error(EIO));
    assert_eq!(client.call(id, &mut payload, register), error(EIO));
    assert!(has_bit(&mut client), "issm0 is still open");
    client.close(manager);
    // A new one has nothing to do with the old one, which can be closed.
    let new = client.open("umad0", O_RDWR).unwrap();
    assert_eq!(client.call(new, &mut payload, register), Ok(0));
    client.close(id);
    assert_eq!(client.text("agents").lines().count(), 2);
    assert_eq!(client.write(new, &get(6, 0x11)), Ok(320));
    let read = client.read(new, 500).unwrap().unwrap();
    assert_eq!(read[64 + 3], method::GET_RESPONSE);
}

fn has_bit(client: &mut Client) -> bool {
    client.text("class/infiniband/scif0/ports/1/cap_mask") == "0x0201480e\n"
}

#[test]
fn one_program_at_a_time_is_the_subnet_manager() {
    let mut client = root();
    assert!(!has_bit(&mut client));
    let first = client.open("issm0", O_RDONLY).unwrap();
    assert!(has_bit(&mut client));
    assert_eq!(client.read(first, 10), Some(error(EINVAL)));
    assert_eq!(client.write(first, &[0; 10]), error(EINVAL));
    assert_eq!(client.call(first, &mut [], 1), error(ENOTTY));
    assert_eq!(client.open("issm0", O_RDONLY | O_NONBLOCK), error(EAGAIN));
    // A second open waits until the first file is closed.
    let path = "issm0";
    let (at, length) = (path.as_ptr() as u64, path.len() as u64);
    let args = [client.root as u64, at, length, O_RDONLY as u64, 0, 0];
    assert_eq!(client.request(Opcode::OpenAt, args), None);
    assert_eq!(client.scheme.device().mads.waiting(), 1);
    client.close_with_answer(first);
    let answer = client.socket.answer().expect("the second one has it now");
    assert!(Error::demux(answer.result as usize).is_ok());
    assert!(has_bit(&mut client));
    let mads = &client.scheme.device().mads;
    assert_eq!((mads.waiting(), mads.is_sm_taken()), (0, true));
    assert_eq!(client.open("issm0", O_RDONLY | O_NONBLOCK), error(EAGAIN));
}
