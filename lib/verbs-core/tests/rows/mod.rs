//! Who gets which error, as rows: a situation, what the requester's sends complete with, what the
//! responder's receives complete with, its event, and both states. `docs/verbs-behaviour.md` is
//! written from them.

use verbs_core::demo::BASE;
use verbs_core::keys::Region;
use verbs_core::types::WcStatus::{
    LocLenErr, LocProtErr, RemAccessErr, RemInvReqErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, EventType, Opcode, QpState, QpType, WcStatus};
use verbs_core::work::{Data, Segment, SendRequest};

use crate::pair::{ALL, End, REGION};

/// Numbers and results of requests, in their order.
type Results = &'static [(u64, WcStatus)];

/// What a request and one behind it lead to. Sends are 1 and 2, receives of 64 bytes 10 and 11.
pub struct Outcome {
    pub sends: Results,
    pub receives: Results,
    pub event: Option<EventType>,
    /// The requester's state and the responder's.
    pub states: [QpState; 2],
}

/// A row.
pub struct Row {
    pub kind: QpType,
    pub what: &'static str,
    pub post: fn(&mut End, &mut End),
    pub outcome: &'static Outcome,
}

const fn row(
    kind: QpType,
    what: &'static str,
    post: fn(&mut End, &mut End),
    outcome: &'static Outcome,
) -> Row {
    Row {
        kind,
        what,
        post,
        outcome,
    }
}

const RC: QpType = QpType::Rc;
const UC: QpType = QpType::Uc;

/// The requester alone fails.
const fn own(sends: Results) -> Outcome {
    Outcome {
        sends,
        receives: &[],
        event: None,
        states: [QpState::Err, QpState::Rts],
    }
}

/// Both fail.
const fn both(sends: Results, receives: Results, event: Option<EventType>) -> Outcome {
    Outcome {
        sends,
        receives,
        event,
        states: [QpState::Err, QpState::Err],
    }
}

const FLUSHED: Results = &[(10, WrFlushErr), (11, WrFlushErr)];
const OWN_MEMORY: Outcome = own(&[(1, LocProtErr), (2, WrFlushErr)]);
const OWN_LENGTH: Outcome = own(&[(1, LocLenErr), (2, WrFlushErr)]);
const ACCESS: Outcome = both(
    &[(1, RemAccessErr), (2, WrFlushErr)],
    FLUSHED,
    Some(EventType::QpAccessErr),
);
const REQUEST: Outcome = both(
    &[(1, RemInvReqErr), (2, WrFlushErr)],
    FLUSHED,
    Some(EventType::QpReqErr),
);
const TOO_LONG: Outcome = both(
    &[(1, RemInvReqErr), (2, WrFlushErr)],
    &[(10, LocLenErr), (11, WrFlushErr)],
    None,
);
/// An unreliable request is dropped; the one behind it arrives.
const DROPPED: Outcome = Outcome {
    sends: &[(1, Success), (2, Success)],
    receives: &[(10, Success)],
    event: None,
    states: [QpState::Rts, QpState::Rts],
};
const UNRELIABLE_OWN: Outcome = Outcome {
    states: [QpState::Sqe, QpState::Rts],
    ..OWN_MEMORY
};

fn write(left: &mut End, offset: u64, length: u32, key: u32) {
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, length), (offset, key)));
}

fn atomic(left: &mut End, length: u32, offset: u64, key: u32) {
    left.post(left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, length), (offset, key)));
}

/// A page of the region with other rights.
pub fn other_region(end: &mut End, access: Access) -> u32 {
    register(end, end.pd, access)
}

fn other_domain(end: &mut End) -> u32 {
    let pd = end.context.alloc_pd().unwrap();
    register(end, pd, ALL)
}

fn register(end: &mut End, pd: verbs_core::table::Id, access: Access) -> u32 {
    let region = Region {
        pd,
        start: BASE,
        length: 4096,
        iova: BASE,
        access,
    };
    end.context.register(region).unwrap()
}

fn send_by(left: &mut End, key: u32) {
    let segment = Segment {
        key,
        ..left.segment(0, 1)
    };
    left.post(SendRequest::new(1, Opcode::Send, vec![segment]));
}

fn read(left: &mut End, own: u32, key: u32) {
    let segment = Segment {
        key: own,
        ..left.segment(0, 8)
    };
    let mut read = left.one_sided(1, Opcode::RdmaRead, (0, 8), (0, key));
    read.data = Data::Segments(vec![segment]);
    left.post(read);
}

fn write_by_access(left: &mut End, right: &mut End, access: Access) {
    let key = other_region(right, access);
    write(left, 0, 8, key);
}

pub const ROWS: &[Row] = &[
    row(RC, "no local key", |left, _| send_by(left, 0), &OWN_MEMORY),
    row(
        RC,
        "a local key of another domain",
        |left, _| {
            let key = other_domain(left);
            send_by(left, key);
        },
        &OWN_MEMORY,
    ),
    row(
        RC,
        "outside of the local region",
        |left, _| left.send(1, REGION as u64 - 1, 2),
        &OWN_MEMORY,
    ),
    row(
        RC,
        "a read into memory that the owner may not write",
        |left, right| {
            let own = other_region(left, Access::empty());
            read(left, own, right.key);
        },
        &OWN_MEMORY,
    ),
    row(RC, "no remote key", |left, _| write(left, 0, 8, 0), &ACCESS),
    row(
        RC,
        "a guessed remote key",
        |left, right| write(left, 0, 8, right.key ^ 1),
        &ACCESS,
    ),
    row(
        RC,
        "a remote key of another domain",
        |left, right| {
            let key = other_domain(right);
            write(left, 0, 8, key);
        },
        &ACCESS,
    ),
    row(
        RC,
        "behind the remote region",
        |left, right| write(left, REGION as u64 - 7, 8, right.key),
        &ACCESS,
    ),
    row(
        RC,
        "before the remote region",
        |left, right| write(left, u64::MAX, 8, right.key),
        &ACCESS,
    ),
    row(
        RC,
        "at the end of all addresses",
        |left, right| write(left, u64::MAX - BASE - 3, 8, right.key),
        &ACCESS,
    ),
    row(
        RC,
        "a write to what peers may only read",
        |left, right| write_by_access(left, right, Access::REMOTE_READ),
        &ACCESS,
    ),
    row(
        RC,
        "a write to what peers may not use",
        |left, right| write_by_access(left, right, Access::LOCAL_WRITE),
        &ACCESS,
    ),
    row(
        RC,
        "a read of what peers may only write",
        |left, right| {
            let key = other_region(right, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
            read(left, left.key, key);
        },
        &ACCESS,
    ),
    row(
        RC,
        "an atomic operation without the right",
        |left, right| {
            let key = other_region(right, ALL.difference(Access::REMOTE_ATOMIC));
            atomic(left, 8, 0, key);
        },
        &ACCESS,
    ),
    row(
        RC,
        "a write with immediate data and a guessed key",
        |left, right| {
            left.post(left.one_sided(1, Opcode::RdmaWriteWithImm, (0, 8), (0, right.key ^ 1)));
        },
        &ACCESS,
    ),
    row(
        RC,
        "an atomic operation on an address that is not aligned",
        |left, right| atomic(left, 8, 4, right.key),
        &REQUEST,
    ),
    row(
        RC,
        "an atomic operation of 4 bytes",
        |left, right| atomic(left, 4, 0, right.key),
        &OWN_LENGTH,
    ),
    row(
        RC,
        "a message longer than the receive",
        |left, _| left.send(1, 0, 65),
        &TOO_LONG,
    ),
    row(
        UC,
        "no local key",
        |left, _| send_by(left, 0),
        &UNRELIABLE_OWN,
    ),
    row(
        UC,
        "a guessed remote key",
        |left, right| write(left, 0, 8, right.key ^ 1),
        &DROPPED,
    ),
    row(
        UC,
        "a message longer than the receive",
        |left, _| left.send(1, 0, 65),
        &DROPPED,
    ),
];

/// A status or event as C writes it.
fn in_c(name: &str) -> String {
    let mut written = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !written.is_empty() {
            written.push('_');
        }
        written.extend(letter.to_uppercase());
    }
    written
}

fn list(results: Results) -> String {
    let names = results
        .iter()
        .map(|(_, status)| in_c(&format!("{status:?}")));
    match results {
        [] => "none".into(),
        _ => names.collect::<Vec<_>>().join(", "),
    }
}

/// The table of the page.
pub fn table() -> String {
    const COLUMNS: [&str; 6] = [
        "type",
        "request",
        "its completion, and that of a send behind it",
        "completions of two receives",
        "event",
        "states",
    ];
    let mut page = format!("| {} |\n|{}\n", COLUMNS.join(" | "), " --- |".repeat(6));
    for row in ROWS {
        let Outcome {
            sends,
            receives,
            event,
            states: [requester, responder],
        } = row.outcome;
        let event = event.map_or("none".into(), |event| in_c(&format!("{event:?}")));
        page += &format!(
            "| {} | {} | {} | {} | {event} | {}, {} |\n",
            in_c(&format!("{:?}", row.kind)),
            row.what,
            list(sends),
            list(receives),
            in_c(&format!("{requester:?}")),
            in_c(&format!("{responder:?}")),
        );
    }
    page
}
