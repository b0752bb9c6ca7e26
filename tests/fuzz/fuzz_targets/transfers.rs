//! The bytes of a hostile peer of a connection of Scheduled Transfers: set-up, records, queues and
//! quotes of sessions. What is accepted means the same when it is written again and lies inside
//! what was announced; the rest is an error. As long as both ends keep to the rules, headers come
//! out as they went in, once, also over connections that are cut.
#![no_main]

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use st_core::connection::{Connection, Update};
use st_core::demo::{Cut, End, pair};
use st_core::header::{HEADER_BYTES, Header};
use st_core::level0::{Action, plan};
use st_core::queue::{
    Descriptor, Kind, LINE, Layout, MAX_DESCRIPTOR, QueueError, Receiver, Sender,
};
use st_core::record::{Parameters, RECORD_BYTES, Record, SessionState};
use st_core::reliable::{Data, Level, Options, Session, Token};
use st_core::setup;
use zerocopy::FromBytes;

const SLOTS: u32 = 8;
const OPTIONS: Options = Options {
    kept: 6,
    reconnect_timeout: 100,
};

fn own() -> Parameters {
    Parameters {
        port: 2050,
        key: 7,
        bypass: true,
        channels: 2,
        slots: SLOTS,
        window: 0,
    }
}

/// A record with few, many or any of its bytes changed.
fn record(input: &mut Unstructured<'_>) -> Result<[u8; RECORD_BYTES]> {
    let base = match u8::arbitrary(input)? % 6 {
        0 => Record::Request(own()),
        1 => Record::Answer(own()),
        2 => Record::Announce {
            channel: u32::from(u8::arbitrary(input)? % 3),
            region: st_core::region::Region {
                base: u64::arbitrary(input)?,
                length: u64::arbitrary(input)?,
                offset: i64::arbitrary(input)?,
                origin: u32::arbitrary(input)?,
                generation: u32::arbitrary(input)?,
            },
        },
        3 => Record::TakeBack {
            channel: u32::from(u8::arbitrary(input)? % 3),
            generation: u32::arbitrary(input)?,
        },
        4 => Record::State {
            channel: u32::from(u8::arbitrary(input)? % 3),
            state: SessionState {
                key: u64::arbitrary(input)?,
                taken: u64::arbitrary(input)?,
                is_new: bool::arbitrary(input)?,
            },
        },
        _ => return Arbitrary::arbitrary(input),
    };
    let mut bytes = base.encode();
    for _ in 0..u8::arbitrary(input)? % 4 {
        bytes[usize::from(u8::arbitrary(input)?) % RECORD_BYTES] = u8::arbitrary(input)?;
    }
    Ok(bytes)
}

/// Set-up, and the records behind it.
fn records(input: &mut Unstructured<'_>) -> Result<()> {
    let first = record(input)?;
    let Ok(found) = Record::decode(&first) else {
        return Ok(());
    };
    assert_eq!(Record::decode(&found.encode()), Ok(found));
    let agreed = match setup::accept(own(), found) {
        Ok((agreed, answer)) => {
            assert_eq!(answer, Record::Answer(own()));
            agreed
        }
        Err(_) => match setup::connected(own(), found) {
            Ok(agreed) => agreed,
            Err(_) => return Ok(()),
        },
    };
    let peer = agreed.parameters;
    assert!(peer.key != 0 && peer.bypass && peer.channels == 2 && peer.window >= 0);
    assert!((8..=4096).contains(&peer.slots) && peer.slots.is_power_of_two());
    let mut connection = Connection::new(own(), agreed);
    let mut is_broken = false;
    while !input.is_empty() {
        let bytes = record(input)?;
        let cut = usize::from(u8::arbitrary(input)?) % RECORD_BYTES;
        let (one, two) = bytes.split_at(cut);
        let mut news = Vec::new();
        let heard = connection.receive(one, |new| news.push(new));
        let heard = heard.and_then(|()| connection.receive(two, |new| news.push(new)));
        // Once broken, always broken, and silent.
        assert!(!is_broken || (heard.is_err() && news.is_empty()));
        is_broken = heard.is_err();
        for new in news {
            if let Update::Announced(channel, region) = new {
                let announced = connection.announced(channel);
                assert_eq!(announced.region(), Ok(region));
                let end = announced.at(region.length - 1, 1).expect("the last byte");
                assert!(end.offset >= region.offset && announced.check(end) == Ok(()));
                assert!(announced.at(region.length, 1).is_err());
                assert!(announced.at_address(region.base, region.length).is_ok());
            }
        }
        assert!(connection.announced(2).region().is_err());
    }
    Ok(())
}

/// Headers that a program gives.
fn headers(input: &mut Unstructured<'_>) -> Result<()> {
    while !input.is_empty() {
        let bytes: [u8; HEADER_BYTES] = Arbitrary::arbitrary(input)?;
        let (has_payload, length) = Arbitrary::arbitrary(input)?;
        let Ok(header) = Header::read_from_bytes(&bytes) else {
            continue;
        };
        if let Ok(plan) = plan(&header, &own(), &own(), has_payload, length) {
            assert_eq!(plan.header.operation(), header.operation());
            assert_eq!(plan.header.flags(), header.flags());
            assert_eq!(plan.header.destination_port, own().port);
            assert_eq!(plan.header.destination_key, own().key);
            assert_eq!(plan.action == Action::Nothing, length == 0);
        }
    }
    Ok(())
}

fn descriptor(input: &mut Unstructured<'_>) -> Result<Descriptor> {
    let kinds = [Kind::Message, Kind::Header, Kind::HeaderWithPayload];
    let kind = *input.choose(&kinds)?;
    let bytes: [u8; MAX_DESCRIPTOR] = Arbitrary::arbitrary(input)?;
    let descriptor = Descriptor::new(kind, &bytes);
    if let Some((header, length, payload)) = descriptor.as_level0() {
        let again = Descriptor::level0(&header, length, payload.as_ref());
        assert_eq!(again, descriptor);
    }
    Ok(descriptor)
}

/// Both ends of a queue, which keep to the rules unless `spoils`.
fn queues(input: &mut Unstructured<'_>, spoils: bool) -> Result<()> {
    let layout = Layout::new(2, SLOTS).expect("a layout");
    let (mut left, mut right) = pair(layout, layout);
    let (mut sender, mut receiver) = (Sender::new(layout, 1), Receiver::new(layout, 1));
    let mut between = VecDeque::new();
    let (mut waits_for_header, mut waits_for_room) = (false, false);
    let good = |error: QueueError<Cut>| assert!(spoils, "{error:?}");
    while !input.is_empty() {
        match u8::arbitrary(input)? % 8 {
            0..3 => {
                let descriptor = descriptor(input)?;
                match sender.send(&mut left, &descriptor) {
                    Ok(Some(sent)) => {
                        between.push_back(descriptor);
                        assert!(spoils || sent.wake == waits_for_header, "a wake-up");
                        waits_for_header = false;
                    }
                    Ok(None) => assert!(spoils || between.len() > 1, "no room in vain"),
                    Err(error) => good(error),
                }
            }
            3 | 4 => match receiver.receive(&mut right) {
                Ok(Some(received)) => {
                    let expected = between.pop_front();
                    assert!(spoils || expected == Some(received.descriptor));
                    assert!(spoils || received.wake == waits_for_room, "a wake-up");
                    waits_for_room = false;
                }
                Ok(None) => assert!(spoils || between.is_empty()),
                Err(error) => good(error),
            },
            5 => match receiver.arm(&mut right) {
                Ok(armed) => {
                    assert!(spoils || armed.is_ready != between.is_empty());
                    waits_for_header = true;
                    waits_for_room &= !armed.wake;
                }
                Err(error) => good(error),
            },
            6 => match sender.arm(&mut left) {
                Ok(room) => {
                    assert!(room <= u64::from(layout.places()));
                    waits_for_room = true;
                }
                Err(error) => good(error),
            },
            _ if spoils => {
                let end = match bool::arbitrary(input)? {
                    true => &left,
                    false => &right,
                };
                let line = usize::from(u8::arbitrary(input)?) % (layout.bytes() / LINE);
                let word = *input.choose(&[0, 8, 12, 56, 60])?;
                let value = u64::arbitrary(input)?.to_le_bytes();
                let count = if word == 0 { 8 } else { 4 };
                end.scribble(line * LINE + word, &value[..count]);
            }
            _ => {}
        }
    }
    Ok(())
}

struct Side {
    session: Session<()>,
    pushed: VecDeque<(u64, Descriptor)>,
    tokens: Vec<Token>,
}

/// Two ends of a session over connections that are cut; with `spoils` the server's quotes may be
/// wrong.
fn sessions(input: &mut Unstructured<'_>, spoils: bool) -> Result<()> {
    let layout = Layout::new(1, SLOTS).expect("a layout");
    let mut now = 0;
    let side = |session| Side {
        session,
        pushed: VecDeque::new(),
        tokens: Vec::new(),
    };
    let mut sides = [0, 1].map(|_| side(Session::new(9, OPTIONS, 0)));
    let mut ends: Option<(End, End)> = None;
    while !input.is_empty() {
        now += 1;
        let which = usize::from(bool::arbitrary(input)?);
        let Some((left, right)) = &mut ends else {
            let [client, server] = &mut sides;
            let states = [client, server].map(|side| side.session.connect(0, layout, layout, now));
            let [Ok(to_server), Ok(mut to_client)] = states else {
                return Ok(());
            };
            if spoils && bool::arbitrary(input)? {
                to_client = SessionState {
                    key: 9 + u64::from(u8::arbitrary(input)? % 16 == 0),
                    taken: to_client
                        .taken
                        .wrapping_add_signed(i8::arbitrary(input)?.into()),
                    is_new: bool::arbitrary(input)?,
                };
            }
            let [client, server] = &mut sides;
            assert_eq!(server.session.answer(to_server), Ok(()));
            assert!(client.session.answer(to_client).is_ok() || spoils);
            let (left, right) = pair(layout, layout);
            left.cut_after(u64::from(u8::arbitrary(input)?));
            right.cut_after(u64::from(u8::arbitrary(input)?));
            ends = Some((left, right));
            continue;
        };
        let mem = if which == 0 { left } else { right };
        let mut is_lost = false;
        let Side {
            session,
            pushed,
            tokens,
        } = &mut sides[which];
        match u8::arbitrary(input)? % 8 {
            0..3 => {
                let descriptor = descriptor(input)?;
                if let Ok(token) = session.push(descriptor, Data::Nothing) {
                    pushed.push_back((token.number(), descriptor));
                    tokens.push(token);
                }
                assert!(session.kept() <= OPTIONS.kept);
                is_lost = session.advance(mem, |_, ()| Ok::<(), ()>(())).is_err();
            }
            3 | 4 => match session.receive(mem) {
                Ok(Some((descriptor, _))) => {
                    let expected = sides[1 - which].pushed.pop_front();
                    assert!(spoils || expected.is_some_and(|sent| sent.1 == descriptor));
                }
                Ok(None) => {}
                Err(_) => is_lost = true,
            },
            5 => is_lost = session.arm(mem).is_err() || session.arm_taken(mem).is_err(),
            6 => {
                if let Some(token) = tokens.pop() {
                    let number = token.number();
                    match session.cancel(token) {
                        Ok(_) => pushed.retain(|sent| sent.0 != number),
                        Err(token) => tokens.push(token),
                    }
                }
            }
            _ => is_lost = bool::arbitrary(input)?,
        }
        let Side {
            session,
            pushed,
            tokens,
        } = &sides[which];
        for token in tokens {
            let is_taken = session.status(token) == Some(Level::Taken);
            let is_there = pushed.iter().any(|sent| sent.0 == token.number());
            assert!(spoils || !(is_taken && is_there), "said to be taken");
        }
        if is_lost {
            for side in &mut sides {
                side.session.lost(now);
            }
            ends = None;
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let mut input = Unstructured::new(rest);
    // Input that ends early is an input like any other.
    let _ = match first % 6 {
        0 => records(&mut input),
        1 => headers(&mut input),
        2 => queues(&mut input, false),
        3 => queues(&mut input, true),
        4 => sessions(&mut input, false),
        _ => sessions(&mut input, true),
    };
});
