//! The header of a datagram.

use super::{Broken, DatagramPiece, Header, MAX_DATAGRAM, MAX_PAYLOAD, Marks};
use crate::address::GlobalRoute;

/// A flag beside the marks of a datagram: it has a global route.
const IS_GLOBAL: u8 = 1 << 5;

/// Encodes the header of a datagram. It has no generation: the key takes its place. `number` holds
/// the service level, traffic class and flow label, `total` the hop limit and the bytes.
pub(super) fn encode_datagram(piece: &DatagramPiece, header: &mut Header) {
    let route = piece.global.unwrap_or_default();
    let (level, class) = (
        u32::from(piece.service_level),
        u32::from(route.traffic_class),
    );
    let number = level << 28 | class << 20 | route.flow_label & 0xf_ffff;
    let global = u8::from(piece.global.is_some()) * IS_GLOBAL;
    header.kind = super::DATAGRAM;
    header.flags = piece.marks.bits() | global;
    header.detail = piece.slid.to_le();
    header.payload = piece.payload.to_le();
    header.destination = piece.destination.to_le();
    header.source = piece.source.to_le();
    header.generation = piece.qkey.to_le();
    header.number = number.to_le();
    header.total = (u32::from(route.hop_limit) << 16 | piece.total).to_le();
    header.value = piece.immediate.to_le();
    let (first, second) = route.gid.split_at(8);
    header.first = u64::from_ne_bytes(first.try_into().unwrap_or_default());
    header.second = u64::from_ne_bytes(second.try_into().unwrap_or_default());
}

pub(super) fn decode_datagram(header: &Header) -> Result<DatagramPiece, Broken> {
    let marks = Marks::from_bits(header.flags & !IS_GLOBAL).ok_or(Broken)?;
    let (number, total) = (u32::from_le(header.number), u32::from_le(header.total));
    let payload = u32::from_le(header.payload);
    let [first, second] = [header.first, header.second].map(u64::to_ne_bytes);
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&first);
    gid[8..].copy_from_slice(&second);
    let route = GlobalRoute {
        gid,
        flow_label: number & 0xf_ffff,
        traffic_class: (number >> 20) as u8,
        hop_limit: (total >> 16) as u8,
    };
    let total = total & 0xffff;
    let is_whole = marks.contains(Marks::FIRST | Marks::LAST);
    let is_bad = marks.intersects(Marks::WRITTEN | Marks::INVALIDATE)
        || total > MAX_DATAGRAM
        || payload > total
        || payload as usize > MAX_PAYLOAD
        || is_whole && payload != total;
    if is_bad {
        return Err(Broken);
    }
    Ok(DatagramPiece {
        destination: u32::from_le(header.destination),
        source: u32::from_le(header.source),
        qkey: u32::from_le(header.generation),
        slid: u16::from_le(header.detail),
        service_level: (number >> 28) as u8,
        global: (header.flags & IS_GLOBAL != 0).then_some(route),
        marks,
        total,
        immediate: u32::from_le(header.value),
        payload,
    })
}
