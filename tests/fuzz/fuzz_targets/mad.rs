//! Management datagrams: what programs write to `umad0` and what the daemons of other nodes send,
//! RMPP's segments among them. Whatever comes, what is read keeps to the frame, records come out as
//! they went in, and nothing is left when the programs have gone and time has passed.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use mad_core::frame::{FRAME_BYTES, decode, encode};
use mad_core::mad::{GSI_QKEY, MAD_BYTES, Mad, OPENIB_OUI};
use mad_core::node::Node;
use mad_core::packet::{Destination, Packet};
use mad_core::rmpp::{Incoming, LINGER_NS, MAX_MESSAGE, MESSAGE_TIMEOUT_NS};
use verbs_abi::mad::{RegisterAgent, RegisterAgent2, UserMad, request};
use zerocopy::{FromBytes, IntoBytes};

const CLASSES: [u8; 8] = [0x01, 0x81, 0x03, 0x04, 0x05, 0x06, 0x07, 0x32];
const METHODS: [u8; 10] = [0x01, 0x02, 0x03, 0x05, 0x06, 0x07, 0x12, 0x15, 0x81, 0x92];

/// A datagram that looks like one, with any bytes behind its headers.
fn mad(input: &mut Unstructured<'_>, tids: &[u64]) -> Result<Mad> {
    let mut mad = Mad::padded(&[1, *input.choose(&CLASSES)?, 1, *input.choose(&METHODS)?]);
    let version = u8::arbitrary(input)?;
    mad.header.class_version = if version < 200 {
        1 + version % 2
    } else {
        version
    };
    mad.header.tid = (*input.choose(tids)?).into();
    mad.header.attribute = u16::from(u8::arbitrary(input)? % 0x40).into();
    mad.header.modifier = u32::from(u8::arbitrary(input)?).into();
    mad.header.hops = [u8::arbitrary(input)? % 3, u8::arbitrary(input)? % 4];
    mad.rest[13..16].copy_from_slice(&OPENIB_OUI);
    if bool::arbitrary(input)? {
        // RMPP's header: numbers are small, so that segments meet.
        let bytes = <[u8; 12]>::arbitrary(input)?;
        let header = [
            if bytes[0] < 240 { 1 } else { bytes[0] },
            bytes[1] % 6,
            bytes[2],
            if bytes[3] < 200 { 0 } else { bytes[3] },
            0,
            0,
            0,
            bytes[7] % 80,
            0,
            0,
            0,
            bytes[11],
        ];
        mad.rest[..12].copy_from_slice(&header);
    }
    if bool::arbitrary(input)? {
        let at = usize::from(u8::arbitrary(input)?) % mad.rest.len();
        mad.rest[at] = u8::arbitrary(input)?;
    }
    Ok(mad)
}

struct World {
    node: Node,
    now: u64,
    descriptors: Vec<u64>,
    /// Transactions that were seen, which others may steal.
    tids: Vec<u64>,
}

impl World {
    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let at = usize::from(u8::arbitrary(input)?) % self.descriptors.len();
        let descriptor = self.descriptors[at];
        match u8::arbitrary(input)? % 10 {
            0 => self.control(input, descriptor)?,
            1..=3 => self.write(input, descriptor)?,
            4 => self.read(input, descriptor)?,
            5..=7 => self.receive(input)?,
            8 => {
                self.now += u64::from(u8::arbitrary(input)?) << 28;
                self.node.progress(self.now);
                let peer = u16::from(u8::arbitrary(input)? % 4);
                let is_online = bool::arbitrary(input)?;
                self.node.set_online(peer, is_online, self.now);
            }
            _ => {
                self.node.close(descriptor);
                self.descriptors[at] = self.node.open();
            }
        }
        self.carry();
        Ok(())
    }

    fn control(&mut self, input: &mut Unstructured<'_>, descriptor: u64) -> Result<()> {
        let class = if bool::arbitrary(input)? {
            *input.choose(&CLASSES)?
        } else {
            0
        };
        let (qpn, version) = (u8::arbitrary(input)? % 3, 1 + u8::arbitrary(input)? % 2);
        let rmpp_version = u8::arbitrary(input)? % 3;
        let mask = u64::arbitrary(input)?;
        let (number, mut payload) = match u8::arbitrary(input)? % 5 {
            0 => {
                let asked = RegisterAgent {
                    qpn,
                    mgmt_class: class,
                    mgmt_class_version: version,
                    rmpp_version,
                    oui: OPENIB_OUI,
                    method_mask: [mask as u32, (mask >> 32) as u32, 0, 0],
                    ..RegisterAgent::default()
                };
                (request::REGISTER_AGENT, asked.as_bytes().to_vec())
            }
            1 | 2 => {
                let asked = RegisterAgent2 {
                    qpn: qpn.into(),
                    mgmt_class: class,
                    mgmt_class_version: version,
                    rmpp_version,
                    oui: 0x001405,
                    flags: u32::from(u8::arbitrary(input)? % 3),
                    method_mask: [mask, 0],
                    ..RegisterAgent2::default()
                };
                (request::REGISTER_AGENT2, asked.as_bytes().to_vec())
            }
            3 => (request::ENABLE_PKEY, Vec::new()),
            _ => (
                request::UNREGISTER_AGENT,
                vec![u8::arbitrary(input)? % 4, 0, 0, 0],
            ),
        };
        let _ = self.node.control(descriptor, number, &mut payload);
        Ok(())
    }

    fn write(&mut self, input: &mut Unstructured<'_>, descriptor: u64) -> Result<()> {
        let header_bytes = self
            .node
            .descriptor(descriptor)
            .map_or(64, |of| of.header_bytes());
        let lids = [0xffff_u16, 1, 2, 3, 0x100, 9];
        let qpn = u32::from(u8::arbitrary(input)? % 3);
        let header = UserMad {
            id: u32::from(u8::arbitrary(input)? % 4),
            timeout_ms: u32::from(u8::arbitrary(input)?),
            retries: u32::from(u8::arbitrary(input)? % 3),
            qpn: qpn.to_be_bytes(),
            qkey: GSI_QKEY.to_be_bytes(),
            lid: input.choose(&lids)?.to_be_bytes(),
            grh_present: u8::arbitrary(input)? / 200,
            ..UserMad::default()
        };
        let mut message = mad(input, &self.tids)?.bytes().to_vec();
        let length = usize::from(u16::arbitrary(input)?) % 1500;
        message.resize(length, 5);
        let bytes = [&header.as_bytes()[..header_bytes], &message].concat();
        if let Ok(written) = self.node.write(descriptor, &bytes, self.now) {
            assert_eq!(written, bytes.len());
        }
        Ok(())
    }

    fn read(&mut self, input: &mut Unstructured<'_>, descriptor: u64) -> Result<()> {
        let Some(of) = self.node.descriptor(descriptor) else {
            return Ok(());
        };
        let (header_bytes, waiting) = (of.header_bytes(), of.waiting());
        let mut buffer = vec![0; usize::from(u16::arbitrary(input)?)];
        let read = self.node.read(descriptor, &mut buffer);
        let after = self
            .node
            .descriptor(descriptor)
            .map_or(0, |of| of.waiting());
        match read {
            Ok(length) => {
                assert!(after < waiting && length <= buffer.len());
                let length_told = u32::read_from_prefix(&buffer[16..]).expect("four bytes").0;
                assert_eq!(length_told as usize, length);
                let tid = &buffer[header_bytes + 8..header_bytes + 16];
                self.tids
                    .push(u64::from_be_bytes(tid.try_into().expect("eight bytes")));
            }
            Err(_) => assert_eq!(after, waiting),
        }
        Ok(())
    }

    fn receive(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let qpn = u32::from(u8::arbitrary(input)? % 2);
        let packet = Packet {
            source: 2 + u16::from(u8::arbitrary(input)? % 3),
            source_qpn: qpn,
            to: Destination {
                lid: *input.choose(&[1, 1, 0x100])?,
                qpn,
                qkey: GSI_QKEY,
                ..Destination::default()
            },
            mad: mad(input, &self.tids)?,
        };
        let mut frame = encode(&packet);
        assert_eq!(decode(&frame, packet.source - 1, 0), Ok(packet));
        if u8::arbitrary(input)? > 250 {
            let at = usize::from(u16::arbitrary(input)?) % FRAME_BYTES;
            frame[at] ^= u8::arbitrary(input)?;
        }
        let _ = self.node.receive(packet.source - 1, &frame, self.now);
        Ok(())
    }

    /// Datagrams to other nodes can be read there.
    fn carry(&mut self) {
        while let Some((to, frame)) = self.node.next_frame() {
            let packet = decode(&frame, 0, to).expect("nodes speak for themselves");
            self.tids.push(packet.mad.header.tid.get());
        }
        self.tids.truncate(64);
    }
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let mut node = Node::new(0);
    node.set_up(true, 0);
    for peer in 1..4 {
        node.set_online(peer, true, 0);
    }
    let descriptors = vec![node.open(), node.open()];
    let tids = vec![1, 2];
    let mut world = World {
        node,
        now: 0,
        descriptors,
        tids,
    };
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        world.step(input)?;
    }
    for descriptor in world.descriptors {
        world.node.close(descriptor);
    }
    // The agents that are built in give up too.
    for _ in 0..64 {
        world.now += MESSAGE_TIMEOUT_NS + LINGER_NS;
        world.node.progress(world.now);
        while world.node.next_frame().is_some() {}
    }
    let kept = world.node.port().incoming();
    assert_eq!((kept.open, kept.complete, kept.bytes), (0, 0, 0));
    assert_eq!(world.node.port().sends(), 0);
    assert_eq!(world.node.port().agents().iter().count(), 2);
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // As a record, and as a segment.
    let mut frame = [0; FRAME_BYTES];
    let length = bytes.len().min(FRAME_BYTES);
    frame[..length].copy_from_slice(&bytes[..length]);
    if let Ok(packet) = decode(&frame, 1, 0) {
        assert_eq!(decode(&encode(&packet), 1, 0), Ok(packet));
    }
    let mut incoming = Incoming::default();
    let transfer = mad_core::rmpp::Transfer {
        agent: mad_core::agents::AgentId(1),
        lid: 2,
        qpn: 1,
        tid: 0,
        class: [0x32, 1],
        method: 1,
    };
    for piece in bytes.chunks(MAD_BYTES) {
        let mut mad = Mad::padded(piece);
        mad.header.class = 0x32;
        let step = incoming.data(transfer, &mad, 0);
        assert!(
            step.message
                .is_none_or(|message| message.len() <= MAX_MESSAGE)
        );
    }
    // An input that is cut off is no story.
    let _ = run(&mut Unstructured::new(bytes));
});
