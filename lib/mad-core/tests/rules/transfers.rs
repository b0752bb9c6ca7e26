//! Long messages: agents for which the port segments, and one that does so itself.

use mad_core::demo::{MS, Program, World, mad, server, to};
use mad_core::mad::{Mad, OPENIB_OUI, RmppHeader, method};
use mad_core::rmpp::{flag, kind};
use verbs_abi::mad::{RegisterAgent2, USER_RMPP, UserMad};

use crate::{Row, row, said};

const CLASS: u8 = 0x33;

/// A message with this number of bytes of data, with RMPP.
fn message(data: usize) -> Vec<u8> {
    let mut message = mad(CLASS, 1, method::GET, 0, 7).bytes()[..40].to_vec();
    message[26] = flag::ACTIVE;
    message[37..40].copy_from_slice(&OPENIB_OUI);
    message.extend((0..data).map(|at| (at % 250) as u8));
    message
}

/// An agent on node 2 that gets messages whole, and one on node 1 that sends each segment itself.
fn ends(world: &mut World) -> (Program, Program) {
    let at = world.program(2, server(CLASS));
    let by_hand = RegisterAgent2 {
        flags: USER_RMPP,
        method_mask: [0, 0],
        ..server(CLASS)
    };
    (at, world.program(1, by_hand))
}

fn segment(number: u32, flags: u8, length: u32) -> Mad {
    let mut mad = Mad::padded(&message(216));
    mad.set_rmpp(RmppHeader {
        version: 1,
        kind: kind::DATA,
        flags: flags | flag::ACTIVE,
        status: 0,
        segment: number.into(),
        length: length.into(),
    });
    mad
}

/// The answer to a segment from the program.
fn answer(world: &mut World, change: fn(&mut RmppHeader)) -> String {
    let (_, from) = ends(world);
    let mut mad = segment(1, flag::FIRST, 440);
    let mut header = mad.rmpp();
    change(&mut header);
    mad.set_rmpp(header);
    send(world, from, &mad);
    read_answer(world, from)
}

fn send(world: &mut World, from: Program, mad: &Mad) {
    let header = UserMad {
        timeout_ms: 0,
        ..to(3, 1)
    };
    assert!(world.write(from, header, mad.bytes()).is_ok());
}

fn read_answer(world: &mut World, from: Program) -> String {
    let Ok((_, message)) = world.read(from) else {
        return "nothing".into();
    };
    let rmpp = Mad::padded(&message).rmpp();
    match rmpp.kind {
        kind::ACK => format!("ACK {} {}", rmpp.segment, rmpp.length),
        kind::STOP => format!("STOP {}", rmpp.status),
        kind::ABORT => format!("ABORT {}", rmpp.status),
        other => format!("{other}"),
    }
}

/// A message there and back between agents for which the port segments: sizes of data.
fn there(world: &mut World, data: usize) -> String {
    let at = world.program(2, server(CLASS));
    let from = world.program(
        1,
        RegisterAgent2 {
            method_mask: [0, 0],
            ..server(CLASS)
        },
    );
    let asked = message(data);
    assert!(world.write(from, to(3, 1), &asked).is_ok());
    let (_, got) = world.read(at).expect("it arrives");
    let before = world.nodes[1].port().counters.sent;
    let is_same = got.len() == asked.len() && got[40..] == asked[40..];
    format!(
        "{}, {before} sent",
        if is_same { "whole" } else { "changed" }
    )
}

/// The answer of a port that sends a message of five segments to an ACK from a program.
fn answer_to_ack(world: &mut World, segment: u32, window: u32) -> String {
    let by_hand = RegisterAgent2 {
        flags: USER_RMPP,
        ..server(CLASS)
    };
    let at = world.program(2, by_hand);
    let asking = RegisterAgent2 {
        method_mask: [0, 0],
        ..server(CLASS)
    };
    let from = world.program(1, asking);
    assert!(world.write(from, to(3, 1), &message(1000)).is_ok());
    let (_, first) = world.read(at).expect("the first segment");
    let mut ack = Mad::padded(&first);
    ack.header.method = method::GET_RESPONSE;
    ack.set_rmpp(RmppHeader {
        version: 1,
        kind: kind::ACK,
        flags: flag::ACTIVE,
        status: 0,
        segment: segment.into(),
        length: window.into(),
    });
    let header = UserMad {
        timeout_ms: 0,
        ..to(2, 1)
    };
    assert!(world.write(at, header, ack.bytes()).is_ok());
    match world.read(at) {
        Ok((_, message)) => {
            let rmpp = Mad::padded(&message).rmpp();
            match rmpp.kind {
                kind::DATA => format!("segment {}", rmpp.segment),
                kind::ABORT => format!("ABORT {}", rmpp.status),
                other => format!("{other}"),
            }
        }
        Err(_) => "nothing".into(),
    }
}

/// A port that sends a message of five segments to a program that answers by hand: the program,
/// the sender, and the first segment as it came.
fn by_hand(world: &mut World) -> (Program, Program, Mad) {
    let by_hand = RegisterAgent2 {
        flags: USER_RMPP,
        ..server(CLASS)
    };
    let at = world.program(2, by_hand);
    let asking = RegisterAgent2 {
        method_mask: [0, 0],
        ..server(CLASS)
    };
    let from = world.program(1, asking);
    let header = UserMad {
        retries: 2,
        ..to(3, 1)
    };
    assert!(world.write(from, header, &message(1000)).is_ok());
    let (_, first) = world.read(at).expect("the first segment");
    (at, from, Mad::padded(&first))
}

/// What the program answers to a segment.
fn reply(
    world: &mut World,
    at: Program,
    to_segment: &Mad,
    kind: u8,
    status: u8,
    numbers: [u32; 2],
) {
    let mut mad = *to_segment;
    mad.header.method = method::GET_RESPONSE;
    mad.set_rmpp(RmppHeader {
        version: 1,
        kind,
        flags: flag::ACTIVE,
        status,
        segment: numbers[0].into(),
        length: numbers[1].into(),
    });
    let header = UserMad {
        timeout_ms: 0,
        ..to(2, 1)
    };
    assert!(world.write(at, header, mad.bytes()).is_ok());
}

/// The numbers of the segments that have come.
fn numbers(world: &mut World, at: Program) -> String {
    let mut numbers = Vec::new();
    while let Ok((_, message)) = world.read(at) {
        let rmpp = Mad::padded(&message).rmpp();
        assert_eq!(rmpp.kind, kind::DATA);
        numbers.push(rmpp.segment.to_string());
    }
    match numbers.is_empty() {
        true => "none".into(),
        false => numbers.join(" "),
    }
}

/// The fate of a message whose sender is told this: what the program receives, and whether the
/// send is finished.
fn ended_by(world: &mut World, kind: u8, status: u8) -> String {
    let (at, from, first) = by_hand(world);
    reply(world, at, &first, kind, status, [0, 0]);
    let back = read_answer(world, at);
    let is_over = world.nodes[1].port().sends() == 0;
    world.pass(10_000 * MS);
    let (again, told) = (numbers(world, at), said(world.read(from)));
    let over = if is_over { "over" } else { "goes on" };
    format!("{back}, {over}, {again} sent again, sender reads {told}")
}

/// As [`ended_by`], for several statuses, which all end the message in one way.
fn all_ended_by(kind: u8, statuses: impl IntoIterator<Item = u8>) -> String {
    let mut said: Vec<String> = statuses
        .into_iter()
        .map(|status| ended_by(&mut World::new(3), kind, status))
        .collect();
    said.dedup();
    said.join("; ")
}

pub const ROWS: &[Row] = &[
    row(
        "a message without data between agents with RMPP",
        "whole, 1 sent",
        |world| there(world, 0),
    ),
    row("216 bytes of data: a segment", "whole, 1 sent", |world| {
        there(world, 216)
    }),
    row("217 bytes", "whole, 2 sent", |world| there(world, 217)),
    row("65 segments: a window", "whole, 65 sent", |world| {
        there(world, 65 * 216)
    }),
    row("1 MiB", "whole, 4855 sent", |world| there(world, 1 << 20)),
    row(
        "8 MiB with its headers, and a byte more",
        "ok EINVAL",
        |world| {
            let from = world.program(1, server(CLASS));
            let mut asked = message(0);
            asked.resize(8 << 20, 0);
            let fits = said(world.write(from, to(3, 1), &asked));
            asked.push(0);
            asked[15] = 8;
            format!("{fits} {}", said(world.write(from, to(3, 1), &asked)))
        },
    ),
    row(
        "a program's own first segment of two",
        "ACK 1 65",
        |world| answer(world, |_| {}),
    ),
    row("one that is first and last", "ACK 1 1", |world| {
        answer(world, |rmpp| (rmpp.flags, rmpp.length) = (7, 220.into()))
    }),
    row("version 2", "ABORT 125", |world| {
        answer(world, |rmpp| rmpp.version = 2)
    }),
    row("an unknown type", "ABORT 121", |world| {
        answer(world, |rmpp| rmpp.kind = 9)
    }),
    row("DATA with a status", "ABORT 124", |world| {
        answer(world, |rmpp| rmpp.status = 1)
    }),
    row("segment 1 without FIRST", "ABORT 120", |world| {
        answer(world, |rmpp| rmpp.flags = 1)
    }),
    row("segment 2 with FIRST", "ABORT 120", |world| {
        answer(world, |rmpp| rmpp.segment = 2.into())
    }),
    row(
        "LAST with a length of 221, and of 3",
        "ABORT 119 ABORT 119",
        |world| {
            let long = answer(world, |rmpp| (rmpp.flags, rmpp.length) = (7, 221.into()));
            let mut world = World::new(3);
            let short = answer(&mut world, |rmpp| (rmpp.flags, rmpp.length) = (7, 3.into()));
            format!("{long} {short}")
        },
    ),
    row("segment 2 of no message", "nothing", |world| {
        answer(world, |rmpp| (rmpp.segment, rmpp.flags) = (2.into(), 1))
    }),
    row("segment 66, beyond the window", "nothing", |world| {
        let (_, from) = ends(world);
        send(world, from, &segment(1, flag::FIRST, 0));
        assert_eq!(read_answer(world, from), "ACK 1 65");
        send(world, from, &segment(66, 0, 0));
        read_answer(world, from)
    }),
    row("segment 1 again", "ACK 1 65", |world| {
        let (_, from) = ends(world);
        send(world, from, &segment(1, flag::FIRST, 0));
        assert_eq!(read_answer(world, from), "ACK 1 65");
        send(world, from, &segment(1, flag::FIRST, 0));
        read_answer(world, from)
    }),
    row(
        "segments 1, 3 (last), 2: the answers, and what arrives",
        "ACK 1 65, nothing, ACK 3 65; 658 bytes",
        |world| {
            let (at, from) = ends(world);
            let mut said = Vec::new();
            for mad in [
                segment(1, flag::FIRST, 0),
                segment(3, flag::LAST, 190),
                segment(2, 0, 0),
            ] {
                send(world, from, &mad);
                said.push(read_answer(world, from));
            }
            let (_, message) = world.read(at).expect("it is whole");
            format!("{}; {} bytes", said.join(", "), message.len())
        },
    ),
    row(
        "ACK 1 with a window to 3; with a window to 0; ACK 6 of 5 segments",
        "segment 2; ABORT 122; ABORT 123",
        |world| {
            let said = answer_to_ack(world, 1, 3);
            let small = answer_to_ack(&mut World::new(3), 1, 0);
            let large = answer_to_ack(&mut World::new(3), 6, 70);
            format!("{said}; {small}; {large}")
        },
    ),
    row(
        "256 messages that begin and do not end; one more",
        "ACK 1 65; STOP 1",
        |world| {
            let (_, from) = ends(world);
            let mut begin = |tid: u64| {
                let mut mad = segment(1, flag::FIRST, 0);
                mad.header.tid = tid.into();
                send(world, from, &mad);
                read_answer(world, from)
            };
            let taken = (1..=256).map(&mut begin).filter(|said| said == "ACK 1 65");
            assert_eq!(taken.count(), 256);
            format!("ACK 1 65; {}", begin(257))
        },
    ),
    row(
        "then one of another program of that node, and one of another node",
        "ACK 1 65; ACK 1 65; two of the first program's are told STOP 1 and STOP 1",
        |world| {
            let (_, from) = ends(world);
            let begin = |world: &mut World, from: Program, tid: u64| {
                let mut mad = segment(1, flag::FIRST, 0);
                mad.header.tid = tid.into();
                send(world, from, &mad);
                read_answer(world, from)
            };
            for tid in 1..=256 {
                assert_eq!(begin(world, from, tid), "ACK 1 65");
            }
            let asked = RegisterAgent2 {
                flags: USER_RMPP,
                method_mask: [0, 0],
                ..server(CLASS)
            };
            let (second, third) = (world.program(1, asked), world.program(0, asked));
            let said = [second, third].map(|at| begin(world, at, 1));
            let told = [read_answer(world, from), read_answer(world, from)];
            assert_eq!(read_answer(world, from), "nothing");
            format!(
                "{}; two of the first program's are told {}",
                said.join("; "),
                told.join(" and ")
            )
        },
    ),
    row(
        "a segment that is not acknowledged in 100 ms, 2 retries: sent again, then",
        "1, 1, none; status 110",
        |world| {
            let (at, from, _) = by_hand(world);
            let mut again = Vec::new();
            for _ in 0..3 {
                world.pass(100 * MS);
                again.push(numbers(world, at));
            }
            let status = world.read(from).map(|(header, _)| header.status);
            let sends = world.nodes[1].port().sends();
            assert_eq!(sends, 0);
            format!(
                "{}; status {}",
                again.join(", "),
                status.unwrap_or_default()
            )
        },
    ),
    row(
        "ACK 1 with a window to 3, then nothing for 100 ms; ACK 2 with the same window, then \
         nothing",
        "2 3, again 2 3; none, again 3",
        |world| {
            let (at, _, first) = by_hand(world);
            reply(world, at, &first, kind::ACK, 0, [1, 3]);
            let sent = numbers(world, at);
            world.pass(100 * MS);
            let again = numbers(world, at);
            reply(world, at, &first, kind::ACK, 0, [2, 3]);
            let next = numbers(world, at);
            world.pass(100 * MS);
            format!(
                "{sent}, again {again}; {next}, again {}",
                numbers(world, at)
            )
        },
    ),
    row(
        "all segments acknowledged, and no answer in 100 ms",
        "status 110",
        |world| {
            let (at, from, first) = by_hand(world);
            reply(world, at, &first, kind::ACK, 0, [1, 65]);
            assert_eq!(numbers(world, at), "2 3 4 5");
            reply(world, at, &first, kind::ACK, 0, [5, 65]);
            world.pass(99 * MS);
            assert_eq!(said(world.read(from)), "EAGAIN");
            world.pass(300 * MS);
            let status = world.read(from).map(|(header, _)| header.status);
            format!("status {}", status.unwrap_or_default())
        },
    ),
    row(
        "STOP 1 to the sender",
        "nothing, over, none sent again, sender reads EAGAIN",
        |world| ended_by(world, kind::STOP, 1),
    ),
    row(
        "ABORT 118 to 127",
        "nothing, over, none sent again, sender reads EAGAIN",
        |_| all_ended_by(kind::ABORT, 118..=127),
    ),
    row(
        "ABORT 0, 1, 117 and 128; STOP 0, 2 and 118; ACK with a status",
        "ABORT 124, over, none sent again, sender reads EAGAIN",
        |_| {
            let said = [
                all_ended_by(kind::ABORT, [0, 1, 117, 128]),
                all_ended_by(kind::STOP, [0, 2, 118]),
                all_ended_by(kind::ACK, [1]),
            ];
            let mut said = said.to_vec();
            said.dedup();
            said.join("; ")
        },
    ),
    row("40 s without a new segment", "ABORT 118", |world| {
        let (_, from) = ends(world);
        send(world, from, &segment(1, flag::FIRST, 0));
        assert_eq!(read_answer(world, from), "ACK 1 65");
        world.pass(39_999 * MS);
        assert_eq!(read_answer(world, from), "nothing");
        world.pass(MS);
        read_answer(world, from)
    }),
    row(
        "a long message that nobody acknowledges, no answer expected",
        "status 110",
        |world| {
            let from = world.program(1, server(CLASS));
            let header = UserMad {
                timeout_ms: 0,
                ..to(3, 1)
            };
            world.nodes[2].set_up(false, 0);
            world.nodes[1].set_online(2, false, 0);
            assert!(world.write(from, header, &message(1000)).is_ok());
            world.pass(2000 * MS);
            let status = world.read(from).map(|(header, _)| header.status);
            format!("status {}", status.unwrap_or_default())
        },
    ),
];
