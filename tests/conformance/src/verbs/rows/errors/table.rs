//! The rows.

use verbs_core::types::WcStatus::{
    LocLenErr, LocProtErr, LocQpOpErr, RemAccessErr, RemInvReqErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, EventType, Opcode, QpState, QpType, WcStatus};

use super::{ErrorRow, Far, Outcome, Own, Request, Results};
use crate::verbs::bench::{ALL, REGION};

const FLUSHED: Results = &[(10, WrFlushErr), (11, WrFlushErr)];
const BOTH: [QpState; 2] = [QpState::Err, QpState::Err];
const OWN: [QpState; 2] = [QpState::Err, QpState::Rts];

const fn outcome(
    first: WcStatus,
    receives: Results,
    event: Option<EventType>,
    states: [QpState; 2],
) -> Outcome {
    let sends: Results = match first {
        LocProtErr => &[(1, LocProtErr), (2, WrFlushErr)],
        LocLenErr => &[(1, LocLenErr), (2, WrFlushErr)],
        LocQpOpErr => &[(1, LocQpOpErr), (2, WrFlushErr)],
        RemAccessErr => &[(1, RemAccessErr), (2, WrFlushErr)],
        RemInvReqErr => &[(1, RemInvReqErr), (2, WrFlushErr)],
        _ => &[(1, Success), (2, Success)],
    };
    Outcome {
        sends,
        receives,
        event,
        states,
    }
}

const PROTECTION: Outcome = outcome(LocProtErr, &[], None, OWN);
const LENGTH: Outcome = outcome(LocLenErr, &[], None, OWN);
const OPERATION: Outcome = outcome(LocQpOpErr, &[], None, OWN);
const ACCESS: Outcome = outcome(RemAccessErr, FLUSHED, Some(EventType::QpAccessErr), BOTH);
const INVALID: Outcome = outcome(RemInvReqErr, FLUSHED, Some(EventType::QpReqErr), BOTH);
const TOO_LONG: Outcome = outcome(
    RemInvReqErr,
    &[(10, LocLenErr), (11, WrFlushErr)],
    None,
    BOTH,
);
/// An unreliable request is dropped, and the one behind it arrives.
const DROPPED: Outcome = outcome(
    Success,
    &[(10, Success)],
    None,
    [QpState::Rts, QpState::Rts],
);
const UNRELIABLE: Outcome = outcome(LocProtErr, &[], None, [QpState::Sqe, QpState::Rts]);
/// A request without bytes uses no memory, so its keys do not matter.
const NOTHING_LOOKED_AT: Outcome = outcome(
    Success,
    &[(10, Success)],
    None,
    [QpState::Rts, QpState::Rts],
);

const RC: QpType = QpType::Rc;
const UC: QpType = QpType::Uc;
const SEND: Request = Request {
    opcode: Opcode::Send,
    length: 1,
    own: Own::Good,
    far: Far::NoKey,
    access: Access::REMOTE,
    reads: [4, 4],
};
const WRITE: Request = Request {
    opcode: Opcode::RdmaWrite,
    length: 8,
    far: Far::At(0),
    ..SEND
};
const READ: Request = Request {
    opcode: Opcode::RdmaRead,
    ..WRITE
};
const ADD: Request = Request {
    opcode: Opcode::AtomicFetchAndAdd,
    ..WRITE
};
const SWAP: Request = Request {
    opcode: Opcode::AtomicCmpAndSwp,
    ..WRITE
};
const WRITE_IMM: Request = Request {
    opcode: Opcode::RdmaWriteWithImm,
    ..WRITE
};

const fn far(request: Request, far: Far) -> Request {
    Request { far, ..request }
}

const fn own(request: Request, own: Own) -> Request {
    Request { own, ..request }
}

const fn long(request: Request, length: u32) -> Request {
    Request { length, ..request }
}

const fn allowed(request: Request, access: Access) -> Request {
    Request { access, ..request }
}

const fn reads(request: Request, reads: [u8; 2]) -> Request {
    Request { reads, ..request }
}

const fn row(
    kind: QpType,
    what: &'static str,
    request: Request,
    outcome: &'static Outcome,
) -> ErrorRow {
    ErrorRow {
        kind,
        what,
        request,
        outcome,
    }
}

const LOCAL: Access = Access::LOCAL_WRITE;
const READABLE: Access = Access::REMOTE_READ;
const WRITABLE: Access = LOCAL.union(Access::REMOTE_WRITE);
const NO_ATOMICS: Access = ALL.difference(Access::REMOTE_ATOMIC);
const LAST_7: u64 = REGION - 7;

/// The rows.
pub const ERRORS: &[ErrorRow] = &[
    row(RC, "SEND: no local key", own(SEND, Own::NoKey), &PROTECTION),
    row(
        RC,
        "SEND: a local key of another domain",
        own(SEND, Own::OtherDomain),
        &PROTECTION,
    ),
    row(
        RC,
        "SEND: outside of the local region",
        own(SEND, Own::Behind),
        &PROTECTION,
    ),
    row(
        RC,
        "WRITE: no local key",
        own(WRITE, Own::NoKey),
        &PROTECTION,
    ),
    row(
        RC,
        "WRITE: a local key of another domain",
        own(WRITE, Own::OtherDomain),
        &PROTECTION,
    ),
    row(
        RC,
        "WRITE: outside of the local region",
        own(WRITE, Own::Behind),
        &PROTECTION,
    ),
    row(RC, "READ: no local key", own(READ, Own::NoKey), &PROTECTION),
    row(
        RC,
        "READ into a region of another domain",
        own(READ, Own::OtherDomain),
        &PROTECTION,
    ),
    row(
        RC,
        "READ to outside of the local region",
        own(READ, Own::Behind),
        &PROTECTION,
    ),
    row(
        RC,
        "READ into memory that the owner may not write",
        own(READ, Own::ReadOnly),
        &PROTECTION,
    ),
    row(
        RC,
        "FETCH_AND_ADD: no local key",
        own(ADD, Own::NoKey),
        &PROTECTION,
    ),
    row(
        RC,
        "FETCH_AND_ADD into memory that the owner may not write",
        own(ADD, Own::ReadOnly),
        &PROTECTION,
    ),
    row(
        RC,
        "CMP_AND_SWP: no local key",
        own(SWAP, Own::NoKey),
        &PROTECTION,
    ),
    row(
        RC,
        "CMP_AND_SWP into memory that the owner may not write",
        own(SWAP, Own::ReadOnly),
        &PROTECTION,
    ),
    row(RC, "WRITE: no remote key", far(WRITE, Far::NoKey), &ACCESS),
    row(
        RC,
        "WRITE: a guessed remote key",
        far(WRITE, Far::Guessed),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE: a remote key of another domain",
        far(WRITE, Far::OtherDomain),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE behind the remote region",
        far(WRITE, Far::At(LAST_7)),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE before the remote region",
        far(WRITE, Far::At(u64::MAX)),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE at the end of all addresses",
        far(WRITE, Far::Last),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE to what peers may only read",
        far(WRITE, Far::With(READABLE)),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE to what no peer may use",
        far(WRITE, Far::With(LOCAL)),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE, which the queue pair does not allow",
        allowed(WRITE, NO_ATOMICS.difference(Access::REMOTE_WRITE)),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE_WITH_IMM: a guessed remote key",
        far(WRITE_IMM, Far::Guessed),
        &ACCESS,
    ),
    row(
        RC,
        "WRITE_WITH_IMM to what peers may only read",
        far(WRITE_IMM, Far::With(READABLE)),
        &ACCESS,
    ),
    row(RC, "READ: no remote key", far(READ, Far::NoKey), &ACCESS),
    row(
        RC,
        "READ: a guessed remote key",
        far(READ, Far::Guessed),
        &ACCESS,
    ),
    row(
        RC,
        "READ: a remote key of another domain",
        far(READ, Far::OtherDomain),
        &ACCESS,
    ),
    row(
        RC,
        "READ behind the remote region",
        far(READ, Far::At(LAST_7)),
        &ACCESS,
    ),
    row(
        RC,
        "READ of what peers may only write",
        far(READ, Far::With(WRITABLE)),
        &ACCESS,
    ),
    row(
        RC,
        "READ, which the queue pair does not allow",
        allowed(READ, Access::REMOTE_WRITE),
        &ACCESS,
    ),
    row(
        RC,
        "FETCH_AND_ADD: a guessed remote key",
        far(ADD, Far::Guessed),
        &ACCESS,
    ),
    row(
        RC,
        "FETCH_AND_ADD: a remote key of another domain",
        far(ADD, Far::OtherDomain),
        &ACCESS,
    ),
    row(
        RC,
        "FETCH_AND_ADD behind the remote region",
        far(ADD, Far::At(REGION)),
        &ACCESS,
    ),
    row(
        RC,
        "FETCH_AND_ADD without the right to the memory",
        far(ADD, Far::With(NO_ATOMICS)),
        &ACCESS,
    ),
    row(
        RC,
        "FETCH_AND_ADD, which the queue pair does not allow",
        allowed(ADD, NO_ATOMICS),
        &ACCESS,
    ),
    row(
        RC,
        "CMP_AND_SWP: a guessed remote key",
        far(SWAP, Far::Guessed),
        &ACCESS,
    ),
    row(
        RC,
        "CMP_AND_SWP without the right to the memory",
        far(SWAP, Far::With(NO_ATOMICS)),
        &ACCESS,
    ),
    row(
        RC,
        "CMP_AND_SWP, which the queue pair does not allow",
        allowed(SWAP, NO_ATOMICS),
        &ACCESS,
    ),
    row(
        RC,
        "FETCH_AND_ADD at an address that is not aligned",
        far(ADD, Far::At(4)),
        &INVALID,
    ),
    row(
        RC,
        "CMP_AND_SWP at an address that is not aligned",
        far(SWAP, Far::At(1)),
        &INVALID,
    ),
    row(
        RC,
        "READ, of which the responder allows none",
        reads(READ, [0, 4]),
        &INVALID,
    ),
    row(
        RC,
        "FETCH_AND_ADD, of which the responder allows none",
        reads(ADD, [0, 4]),
        &INVALID,
    ),
    row(
        RC,
        "READ, of which the requester allows none",
        reads(READ, [4, 0]),
        &OPERATION,
    ),
    row(RC, "FETCH_AND_ADD of 4 bytes", long(ADD, 4), &LENGTH),
    row(RC, "CMP_AND_SWP of 16 bytes", long(SWAP, 16), &LENGTH),
    row(
        RC,
        "SEND, longer than the receive",
        long(SEND, 65),
        &TOO_LONG,
    ),
    row(
        RC,
        "WRITE of nothing by no key",
        own(far(long(WRITE, 0), Far::NoKey), Own::Nothing),
        &NOTHING_LOOKED_AT,
    ),
    row(
        RC,
        "READ of nothing by no key",
        own(far(long(READ, 0), Far::NoKey), Own::Nothing),
        &NOTHING_LOOKED_AT,
    ),
    row(UC, "SEND: no local key", own(SEND, Own::NoKey), &UNRELIABLE),
    row(
        UC,
        "SEND: a local key of another domain",
        own(SEND, Own::OtherDomain),
        &UNRELIABLE,
    ),
    row(
        UC,
        "WRITE: outside of the local region",
        own(WRITE, Own::Behind),
        &UNRELIABLE,
    ),
    row(
        UC,
        "WRITE: a guessed remote key",
        far(WRITE, Far::Guessed),
        &DROPPED,
    ),
    row(
        UC,
        "WRITE behind the remote region",
        far(WRITE, Far::At(LAST_7)),
        &DROPPED,
    ),
    row(
        UC,
        "WRITE to what peers may only read",
        far(WRITE, Far::With(READABLE)),
        &DROPPED,
    ),
    row(
        UC,
        "WRITE, which the queue pair does not allow",
        allowed(WRITE, READABLE),
        &DROPPED,
    ),
    row(
        UC,
        "SEND, longer than the receive",
        long(SEND, 65),
        &DROPPED,
    ),
];
