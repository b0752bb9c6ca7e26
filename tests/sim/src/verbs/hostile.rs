//! A program that breaks the rules: it sends any records on its lanes and to the relay, and stores
//! anything into the windows that it was given.

use verbs_core::address::{GlobalRoute, MULTICAST_QPN};
use verbs_core::host::{Host, Source};
use verbs_core::record::{
    Ack, Address, Answer, AtomicCall, DatagramPiece, Fault as Wrong, Grant, Marks, Piece, Ready,
    Record, Refusal,
};
use verbs_core::types::{Access, Atomic, QpType};

use super::World;
use super::net::lane;
use super::program::Arena;
use crate::faults::Fault;
use crate::rng::Rng;

impl World {
    pub(super) fn attack(&mut self, at: usize, side: usize) -> Result<(), String> {
        let pair = &self.pairs[at];
        let to_relay = self.relay.link_of(pair.halves[side].program);
        let to_relay = to_relay.map(|link| lane(link, 0));
        let lane = lane(pair.link, side);
        let (own, peer) = (&pair.halves[side], &pair.halves[1 - side]);
        let (source, destination) = (own.number, peer.number);
        let Some(victim) = &self.programs[peer.program] else {
            return Ok(());
        };
        let windows = self.net.borrow().peers_windows(lane);
        // A receiving half of XRC lets its peer reach the memory of all domains that have queues
        // of its XRC domain, as both do.
        let reached = match pair.kind_of(1 - side) {
            QpType::XrcRecv => &victim.arenas[..],
            _ => core::slice::from_ref(&victim.arenas[pair.arena]),
        };
        for (_, place, _) in &windows {
            let is_in = |arena: &Arena| arena.holds(place.address, place.length);
            if !reached.iter().any(is_in) {
                return Err("a window on memory of another domain".into());
            }
        }
        let arenas = victim.arenas.iter();
        let regions = arenas.flat_map(|arena| [arena.all, arena.constant, arena.local]);
        let windows_of = self.pairs.iter().flat_map(|pair| &pair.halves);
        let window_keys = windows_of.filter_map(|half| Some(half.window.as_ref()?.key));
        let keys: Vec<u32> = regions.chain(window_keys).collect();
        let mailbox = victim.mailboxes[0].number;
        let rng = &mut self.rng;
        let small = |rng: &mut Rng| match rng.below(8) {
            0 => rng.number() as u32,
            1 => u32::MAX - rng.below(3) as u32,
            _ => rng.below(8) as u32,
        };
        let ack = |rng: &mut Rng| Ack {
            taken: small(rng),
            limit: small(rng),
        };
        let generation = ((peer.program as u32) << 16) + rng.below(64) as u32;
        let address = Address {
            destination: if rng.one_in(8) {
                small(rng)
            } else {
                destination
            },
            source: if rng.one_in(8) { small(rng) } else { source },
            generation,
        };
        let key = match rng.one_in(4) {
            true => small(rng),
            false => keys[rng.below(keys.len() as u64) as usize],
        };
        let payload = rng.below(200) as u32;
        let record = match rng.below(13) {
            0 => Record::Ready(
                address,
                Ready {
                    generation: small(rng),
                    limit: small(rng),
                    is_shared: rng.one_in(2),
                    wants_answer: rng.one_in(2),
                    access: Access::from_bits_truncate(small(rng)),
                    rnr_timer: rng.below(32) as u8,
                    reads: rng.below(3) as u8,
                },
            ),
            1 => Record::Gone(address, small(rng)),
            2 | 3 => Record::Message(
                address,
                Piece {
                    marks: Marks::from_bits_truncate(rng.number() as u8),
                    number: small(rng),
                    total: payload + small(rng) % 5,
                    immediate: small(rng),
                    srq: small(rng),
                    ack: (rng.below(2) == 0).then(|| ack(rng)),
                    payload,
                },
            ),
            4 => Record::Ack(address, ack(rng)),
            5 => {
                let refusals = [Refusal::NotReady, Refusal::TooLong, Refusal::Unusable];
                Record::Refused(address, small(rng), refusals[rng.below(3) as usize])
            }
            6 => Record::Error(
                address,
                [Wrong::Access, Wrong::Request][rng.below(2) as usize],
            ),
            7 => Record::Expose(key),
            8 => {
                let grant = Grant {
                    start: rng.number(),
                    length: rng.number(),
                    access: Access::REMOTE,
                    qp: 0,
                    window: u64::from(small(rng)),
                };
                Record::Granted(key, Answer::Given(grant))
            }
            9 => {
                let address_of = victim.arenas[pair.arena].constant_start();
                let call = AtomicCall {
                    operation: Atomic::FetchAdd(rng.number()),
                    address: address_of.wrapping_sub(rng.below(20_000)),
                    key,
                };
                Record::Atomic(address, call)
            }
            10 if rng.one_in(8) => Record::AtomicDone(address, Ok(rng.number())),
            10 | 11 => Record::Datagram(DatagramPiece {
                destination: [mailbox, MULTICAST_QPN, small(rng)][rng.below(3) as usize],
                source: small(rng),
                qkey: [0x1234, small(rng)][rng.below(2) as usize],
                slid: small(rng) as u16,
                service_level: 0,
                global: rng.one_in(2).then(|| GlobalRoute {
                    gid: [0xff; 16],
                    ..GlobalRoute::default()
                }),
                marks: Marks::from_bits_truncate(rng.number() as u8),
                total: payload + small(rng) % 5,
                immediate: small(rng),
                payload,
            }),
            _ => Record::Revoke(key),
        };
        let mut header = record.encode();
        if rng.one_in(20) {
            header[rng.below(48) as usize] = rng.number() as u8;
        }
        let bytes = vec![0x5a; payload as usize];
        let has_payload = matches!(record, Record::Message(..) | Record::Datagram(_));
        let sends_payload = has_payload && !rng.one_in(20);
        let (put, offset) = (rng.one_in(3), rng.below(8000));
        let own = own.program;
        let Some(program) = &mut self.programs[own] else {
            return Ok(());
        };
        let port = &mut program.port;
        let to = to_relay.filter(|_| rng.one_in(4)).unwrap_or(lane);
        let room = port.room(to);
        if room >= header.len() + bytes.len() {
            self.report.faults.note(Fault::HostileMessage);
            let payload = if sends_payload { &bytes[..] } else { &[] };
            // It cannot fail: the bytes are not a program's.
            let _ = port.send(to, &header, Source::Bytes(payload));
        }
        if let Some((window, place, true)) = windows.first().filter(|_| put)
            && offset as usize + bytes.len() <= place.length
            && !self.net.borrow().has_ended(lane)
        {
            self.report.faults.note(Fault::HostileStore);
            let _gone = port.put(lane, *window, offset, Source::Bytes(&bytes));
        }
        Ok(())
    }
}
