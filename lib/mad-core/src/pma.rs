//! The agent of performance management of a node's port: counters, which Set changes.

use crate::attributes::{Field, attribute, class_port_info, get, put};
use crate::mad::{HEADER_BYTES, Mad, method, status};

/// Version of the class.
const CLASS_VERSION: u8 = 1;
/// Where the attribute begins in a datagram.
const DATA: usize = 64 - HEADER_BYTES;
/// The port number in a request that stands for all ports.
const ALL_PORTS: u64 = 0xff;
/// Bytes of a unit of the data counters.
const WORD: u64 = 4;

const PORT_SELECT: Field = (8, 8);
const COUNTER_SELECT: Field = (16, 16);

/// The traffic of a port since the start of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
    /// Packets that were sent.
    pub sent_packets: u64,
    /// Packets that were received.
    pub received_packets: u64,
    /// Packets that were not sent because the route was full or led nowhere.
    pub discarded: u64,
}

impl Traffic {
    /// The traffic as counters, in the order of [`COUNTERS`].
    fn counters(&self) -> [u64; 5] {
        [
            self.discarded,
            self.sent_bytes / WORD,
            self.received_bytes / WORD,
            self.sent_packets,
            self.received_packets,
        ]
    }
}

/// A counter: its bit of CounterSelect and its field in PortCounters, and both in
/// PortCountersExtended.
struct Counter {
    short: (u32, Field),
    long: Option<(u32, Field)>,
}

const COUNTERS: [Counter; 5] = [
    Counter {
        short: (6, (112, 16)),
        long: None,
    },
    Counter {
        short: (12, (192, 32)),
        long: Some((0, (64, 64))),
    },
    Counter {
        short: (13, (224, 32)),
        long: Some((1, (128, 64))),
    },
    Counter {
        short: (14, (256, 32)),
        long: Some((2, (192, 64))),
    },
    Counter {
        short: (15, (288, 32)),
        long: Some((3, (256, 64))),
    },
];

/// Packets that were not multicast, in PortCountersExtended: they have the same counts as all
/// packets.
const UNICAST: [(u32, Field); 2] = [(4, (320, 64)), (5, (384, 64))];

/// The counters of a port. Those of PortCounters stop at their highest value, and the two
/// attributes are set independently.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    short: [u64; 5],
    long: [u64; 5],
    unicast: [u64; 2],
}

impl Counters {
    /// Answers a request of performance management for the port with this number and this traffic.
    /// `None`: it is no Get or Set, or the attribute is unknown.
    pub fn process(&mut self, port: u8, traffic: &Traffic, mad: &Mad) -> Option<Mad> {
        let header = &mad.header;
        if !matches!(header.method, method::GET | method::SET) {
            return None;
        }
        let is_set = header.method == method::SET;
        let number = header.attribute.get();
        let mut answer = *mad;
        answer.header.method = method::GET_RESPONSE;
        answer.header.status = 0.into();
        let data = &mut answer.rest[DATA..];
        let select = get(data, PORT_SELECT);
        let is_port = select == u64::from(port) || select == ALL_PORTS;
        let status = match number {
            attribute::CLASS_PORT_INFO
            | attribute::PORT_COUNTERS
            | attribute::PORT_COUNTERS_EXTENDED
                if header.class_version != CLASS_VERSION =>
            {
                status::BAD_VERSION
            }
            attribute::CLASS_PORT_INFO => {
                class_port_info(data);
                0
            }
            attribute::PORT_COUNTERS | attribute::PORT_COUNTERS_EXTENDED if !is_port => {
                status::BAD_VALUE
            }
            attribute::PORT_COUNTERS => {
                self.short(traffic, data, is_set);
                0
            }
            attribute::PORT_COUNTERS_EXTENDED => {
                self.long(traffic, data, is_set);
                0
            }
            _ => return None,
        };
        answer.header.status = status.into();
        Some(answer)
    }

    fn short(&mut self, traffic: &Traffic, data: &mut [u8], is_set: bool) {
        let select = get(data, COUNTER_SELECT);
        let now = traffic.counters();
        let mut place = [0; 64];
        put(&mut place, PORT_SELECT, get(data, PORT_SELECT));
        put(&mut place, COUNTER_SELECT, select);
        for ((counter, base), now) in COUNTERS.iter().zip(&mut self.short).zip(now) {
            let (bit, field) = counter.short;
            if is_set && select >> bit & 1 != 0 {
                *base = now.wrapping_sub(get(data, field));
            }
            let most = u64::MAX >> (64 - field.1);
            put(&mut place, field, now.wrapping_sub(*base).min(most));
        }
        data[..64].copy_from_slice(&place);
    }

    fn long(&mut self, traffic: &Traffic, data: &mut [u8], is_set: bool) {
        let select = get(data, COUNTER_SELECT);
        let now = traffic.counters();
        let mut place = [0; 72];
        put(&mut place, PORT_SELECT, get(data, PORT_SELECT));
        put(&mut place, COUNTER_SELECT, select);
        let all = COUNTERS.iter().zip(&mut self.long).zip(now);
        let all = all.filter_map(|((counter, base), now)| Some((counter.long?, base, now)));
        let unicast = UNICAST
            .into_iter()
            .zip(&mut self.unicast)
            .zip([now[3], now[4]]);
        let unicast = unicast.map(|((place, base), now)| (place, base, now));
        for ((bit, field), base, now) in all.chain(unicast) {
            if is_set && select >> bit & 1 != 0 {
                *base = now.wrapping_sub(get(data, field));
            }
            put(&mut place, field, now.wrapping_sub(*base));
        }
        data[..72].copy_from_slice(&place);
    }
}

fn class_port_info(data: &mut [u8]) {
    /// All ports can be selected at once, and PortCountersExtended exists.
    const CAPABILITIES: u64 = 1 << 8 | 1 << 9;
    data.fill(0);
    for (field, value) in [
        (class_port_info::BASE_VERSION, 1),
        (class_port_info::CLASS_VERSION, CLASS_VERSION.into()),
        (class_port_info::CAPABILITIES, CAPABILITIES),
        (class_port_info::RESPONSE_TIME, 18),
    ] {
        put(data, field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNTER_SELECT, Counters, DATA, PORT_SELECT, Traffic};
    use crate::attributes::{attribute, get, put};
    use crate::mad::{Mad, method, status};

    const TRAFFIC: Traffic = Traffic {
        sent_bytes: 4000,
        received_bytes: 8000,
        sent_packets: 7,
        received_packets: 9,
        discarded: 3,
    };

    fn ask(counters: &mut Counters, traffic: &Traffic, set: Option<u64>, number: u16) -> Mad {
        let method = set.map_or(method::GET, |_| method::SET);
        let mut mad = Mad::padded(&[1, 4, 1, method]);
        mad.header.attribute = number.into();
        put(&mut mad.rest[DATA..], PORT_SELECT, 1);
        put(&mut mad.rest[DATA..], COUNTER_SELECT, set.unwrap_or(0));
        let answer = counters.process(1, traffic, &mad).expect("it is known");
        assert_eq!(
            (answer.header.method, answer.header.status.get()),
            (0x81, 0)
        );
        answer
    }

    fn short(mad: &Mad) -> [u64; 5] {
        let fields = [(112, 16), (192, 32), (224, 32), (256, 32), (288, 32)];
        fields.map(|field| get(&mad.rest[DATA..], field))
    }

    fn long(mad: &Mad) -> [u64; 6] {
        let fields = [64, 128, 192, 256, 320, 384];
        fields.map(|at| get(&mad.rest[DATA..], (at, 64)))
    }

    #[test]
    fn counters_count_from_the_last_reset() {
        let mut counters = Counters::default();
        let (plain, extended) = (attribute::PORT_COUNTERS, attribute::PORT_COUNTERS_EXTENDED);
        let mad = ask(&mut counters, &TRAFFIC, None, plain);
        assert_eq!(short(&mad), [3, 1000, 2000, 7, 9]);
        let mad = ask(&mut counters, &TRAFFIC, None, extended);
        assert_eq!(long(&mad), [1000, 2000, 7, 9, 7, 9]);
        // Sent data only.
        let mad = ask(&mut counters, &TRAFFIC, Some(1 << 12), plain);
        assert_eq!(short(&mad), [3, 0, 2000, 7, 9]);
        let mad = ask(&mut counters, &TRAFFIC, Some(0xff), extended);
        assert_eq!(long(&mad), [0; 6]);
        let later = Traffic {
            sent_bytes: 4040,
            received_packets: 10,
            ..TRAFFIC
        };
        let mad = ask(&mut counters, &later, None, plain);
        assert_eq!(short(&mad), [3, 10, 2000, 7, 10]);
        let mad = ask(&mut counters, &later, None, extended);
        assert_eq!(long(&mad), [10, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn short_counters_stop_at_their_highest_value() {
        let traffic = Traffic {
            sent_bytes: 1 << 40,
            discarded: 1 << 20,
            ..TRAFFIC
        };
        let mut counters = Counters::default();
        let mad = ask(&mut counters, &traffic, None, attribute::PORT_COUNTERS);
        assert_eq!(short(&mad)[..2], [0xffff, 0xffff_ffff]);
        let mad = ask(
            &mut counters,
            &traffic,
            None,
            attribute::PORT_COUNTERS_EXTENDED,
        );
        assert_eq!(long(&mad)[0], 1 << 38);
    }

    #[test]
    fn other_ports_and_attributes_are_not_here() {
        let mut counters = Counters::default();
        let mut mad = Mad::padded(&[1, 4, 1, method::GET]);
        mad.header.attribute = attribute::PORT_COUNTERS.into();
        for (port, status) in [(0, status::BAD_VALUE), (2, status::BAD_VALUE), (255, 0)] {
            put(&mut mad.rest[DATA..], PORT_SELECT, port);
            let answer = counters.process(1, &TRAFFIC, &mad).unwrap();
            assert_eq!(answer.header.status.get(), status, "{port}");
        }
        mad.header.attribute = 0x10.into();
        assert!(counters.process(1, &TRAFFIC, &mad).is_none());
        mad.header.attribute = attribute::CLASS_PORT_INFO.into();
        assert!(counters.process(1, &TRAFFIC, &mad).is_some());
        mad.header.method = method::SEND;
        assert!(counters.process(1, &TRAFFIC, &mad).is_none());
    }
}
