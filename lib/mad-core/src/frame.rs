//! A datagram between the daemons of two nodes: a record of fixed length on a byte stream.

use verbs_core::address::GlobalRoute;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::fabric::Place;
use crate::mad::Mad;
use crate::packet::{Destination, Packet};

/// Bytes of a record.
pub const FRAME_BYTES: usize = 304;
/// The first bytes of each record, which also stand for the version of this format.
const MARK: u32 = 0x3144_414d;
/// The bit of `flags` that marks a datagram with a global route.
const GLOBAL: u8 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Frame {
    mark: U32,
    source: U16,
    destination: U16,
    source_qpn: U32,
    qpn: U32,
    qkey: U32,
    flow_label: U32,
    gid: [u8; 16],
    service_level: u8,
    traffic_class: u8,
    hop_limit: u8,
    flags: u8,
    reserved: [u8; 4],
    mad: Mad,
}

const _: () = assert!(size_of::<Frame>() == FRAME_BYTES);

/// The bytes of a peer are not a record. The stream is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Encodes a datagram as a record.
pub fn encode(packet: &Packet) -> [u8; FRAME_BYTES] {
    let route = packet.to.global.unwrap_or_default();
    let frame = Frame {
        mark: MARK.into(),
        source: packet.source.into(),
        destination: packet.to.lid.into(),
        source_qpn: packet.source_qpn.into(),
        qpn: packet.to.qpn.into(),
        qkey: packet.to.qkey.into(),
        flow_label: route.flow_label.into(),
        gid: route.gid,
        service_level: packet.to.service_level,
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit,
        flags: if packet.to.global.is_some() {
            GLOBAL
        } else {
            0
        },
        reserved: [0; 4],
        mad: packet.mad,
    };
    zerocopy::transmute!(frame)
}

/// Decodes a record that the daemon of node `peer` has sent to that of node `own`.
///
/// # Errors
/// It is not a record, or its source is a port that the peer does not answer for, or its
/// destination one that this node does not answer for.
pub fn decode(bytes: &[u8; FRAME_BYTES], peer: u16, own: u16) -> Result<Packet, Malformed> {
    let frame = Frame::ref_from_bytes(bytes).map_err(|_| Malformed)?;
    let answers_for = |lid: U16, node| {
        let place = Place::of(lid.get());
        place.is_some_and(|place| place.daemon() == node)
    };
    let is_frame = frame.mark.get() == MARK
        && answers_for(frame.source, peer)
        && answers_for(frame.destination, own)
        && matches!(frame.source_qpn.get(), 0 | 1)
        && frame.service_level < 16
        && frame.flags & !GLOBAL == 0;
    if !is_frame {
        return Err(Malformed);
    }
    let route = GlobalRoute {
        gid: frame.gid,
        flow_label: frame.flow_label.get() & 0xf_ffff,
        traffic_class: frame.traffic_class,
        hop_limit: frame.hop_limit,
    };
    Ok(Packet {
        source: frame.source.get(),
        source_qpn: frame.source_qpn.get(),
        to: Destination {
            lid: frame.destination.get(),
            qpn: frame.qpn.get(),
            qkey: frame.qkey.get(),
            service_level: frame.service_level,
            global: (frame.flags & GLOBAL != 0).then_some(route),
        },
        mad: frame.mad,
    })
}

#[cfg(test)]
mod tests {
    use super::{FRAME_BYTES, Malformed, decode, encode};
    use crate::fabric::SWITCH_LID;
    use crate::mad::{GSI_QKEY, Mad};
    use crate::packet::{Destination, Packet};
    use verbs_core::address::{GlobalRoute, gid};

    fn packet() -> Packet {
        Packet {
            source: 3,
            source_qpn: 1,
            to: Destination {
                lid: 1,
                qpn: 1,
                qkey: GSI_QKEY,
                service_level: 2,
                global: Some(GlobalRoute {
                    gid: gid(1),
                    flow_label: 0xabcde,
                    traffic_class: 4,
                    hop_limit: 5,
                }),
            },
            mad: Mad::padded(&[1, 2, 3, 4, 5]),
        }
    }

    #[test]
    fn records_carry_everything() {
        assert_eq!(decode(&encode(&packet()), 2, 0), Ok(packet()));
        let mut plain = packet();
        plain.to.global = None;
        plain.to.lid = SWITCH_LID;
        assert_eq!(decode(&encode(&plain), 2, 0), Ok(plain));
    }

    #[test]
    fn peers_speak_for_themselves_only() {
        let bytes = encode(&packet());
        assert_eq!(decode(&bytes, 1, 0), Err(Malformed));
        assert_eq!(decode(&bytes, 2, 1), Err(Malformed));
        let mut switch = packet();
        switch.source = SWITCH_LID;
        assert_eq!(decode(&encode(&switch), 2, 0), Err(Malformed));
        assert_eq!(decode(&encode(&switch), 0, 0), Ok(switch));
        for (at, value) in [(0, 0), (8, 2), (40, 16), (43, 2)] {
            let mut bytes: [u8; FRAME_BYTES] = bytes;
            bytes[at] = value;
            assert_eq!(decode(&bytes, 2, 0), Err(Malformed), "{at}");
        }
    }
}
