//! The state machine of a queue pair: which state may follow which, and which attributes each
//! change must or may name. The rules are a table; `tests/conformance/src/verbs/transitions.rs`
//! has them again, as the specification writes them, and compares.

use crate::types::{AttributeMask as M, Error, QpState, QpType, Result};

/// One row of the table: the change from one state to another, for some types of queue pair.
struct Rule {
    from: QpState,
    to: QpState,
    types: &'static [QpType],
    required: M,
    optional: M,
}

const UD: &[QpType] = &[QpType::Ud];
const UC: &[QpType] = &[QpType::Uc];
const RC: &[QpType] = &[QpType::Rc];
const XRC_SEND: &[QpType] = &[QpType::XrcSend];
const XRC_RECV: &[QpType] = &[QpType::XrcRecv];
/// Connected types that do not respond to requests: they have no timer for missing receives.
const UC_XRC_SEND: &[QpType] = &[QpType::Uc, QpType::XrcSend];
/// Connected types that respond to requests.
const RC_XRC_RECV: &[QpType] = &[QpType::Rc, QpType::XrcRecv];
const CONNECTED: &[QpType] = &[QpType::Uc, QpType::Rc, QpType::XrcSend, QpType::XrcRecv];

const NONE: M = M::empty();
const UD_PORT: M = M::PKEY_INDEX.union(M::PORT).union(M::QKEY);
const PORT: M = M::PKEY_INDEX.union(M::PORT).union(M::ACCESS_FLAGS);
const PATH: M = M::AV.union(M::PATH_MTU).union(M::DEST_QPN).union(M::RQ_PSN);
const ANSWERS: M = M::MAX_DEST_RD_ATOMIC.union(M::MIN_RNR_TIMER);
const RTR_EXTRA: M = M::ALT_PATH.union(M::ACCESS_FLAGS).union(M::PKEY_INDEX);
const UD_SEND: M = M::CUR_STATE.union(M::QKEY);
const SEND: M = M::CUR_STATE
    .union(M::ALT_PATH)
    .union(M::ACCESS_FLAGS)
    .union(M::PATH_MIG_STATE);
const SEND_ANSWERS: M = SEND.union(M::MIN_RNR_TIMER);
const REQUESTS: M = M::RETRY_CNT.union(M::RNR_RETRY).union(M::MAX_QP_RD_ATOMIC);
const RETRIES: M = M::TIMEOUT.union(REQUESTS);
const DRAINED_PATH: M = M::AV
    .union(M::ALT_PATH)
    .union(M::ACCESS_FLAGS)
    .union(M::PKEY_INDEX)
    .union(M::PATH_MIG_STATE);

const fn rule(
    from: QpState,
    to: QpState,
    types: &'static [QpType],
    required: M,
    optional: M,
) -> Rule {
    Rule {
        from,
        to,
        types,
        required,
        optional,
    }
}

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// All changes except those to RESET and ERR, which name no attributes.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule(Reset, Init, UD, UD_PORT, NONE),
    rule(Reset, Init, CONNECTED, PORT, NONE),
    rule(Init, Init, UD, NONE, UD_PORT),
    rule(Init, Init, CONNECTED, NONE, PORT),
    rule(Init, Rtr, UD, NONE, M::PKEY_INDEX.union(M::QKEY)),
    rule(Init, Rtr, UC_XRC_SEND, PATH, RTR_EXTRA),
    rule(Init, Rtr, RC_XRC_RECV, PATH.union(ANSWERS), RTR_EXTRA),
    rule(Rtr, Rts, UD, M::SQ_PSN, UD_SEND),
    rule(Rtr, Rts, UC, M::SQ_PSN, SEND),
    rule(Rtr, Rts, RC, M::SQ_PSN.union(RETRIES), SEND_ANSWERS),
    rule(Rtr, Rts, XRC_SEND, M::SQ_PSN.union(RETRIES), SEND),
    rule(Rtr, Rts, XRC_RECV, M::SQ_PSN.union(M::TIMEOUT), SEND_ANSWERS),
    rule(Rts, Rts, UD, NONE, UD_SEND),
    rule(Rts, Rts, UC_XRC_SEND, NONE, SEND),
    rule(Rts, Rts, RC_XRC_RECV, NONE, SEND_ANSWERS),
    rule(Rts, Sqd, &QpType::ALL, NONE, M::EN_SQD_ASYNC_NOTIFY),
    rule(Sqd, Rts, UD, NONE, UD_SEND),
    rule(Sqd, Rts, UC_XRC_SEND, NONE, SEND),
    rule(Sqd, Rts, RC_XRC_RECV, NONE, SEND_ANSWERS),
    rule(Sqd, Sqd, UD, NONE, M::PKEY_INDEX.union(M::QKEY)),
    rule(Sqd, Sqd, UC, NONE, DRAINED_PATH),
    rule(Sqd, Sqd, RC, NONE, DRAINED_PATH.union(M::PORT).union(RETRIES).union(ANSWERS)),
    rule(Sqd, Sqd, XRC_SEND, NONE, DRAINED_PATH.union(M::PORT).union(RETRIES)),
    rule(Sqd, Sqd, XRC_RECV, NONE, DRAINED_PATH.union(M::PORT).union(M::TIMEOUT).union(ANSWERS)),
    rule(Sqe, Rts, UD, NONE, UD_SEND),
    rule(Sqe, Rts, UC, NONE, M::CUR_STATE.union(M::ACCESS_FLAGS)),
];

/// The attributes that a change of state must name, and those it may name; `None`: the change is
/// not allowed.
pub fn attributes(from: QpState, to: QpState, kind: QpType) -> Option<(M, M)> {
    match (from, to) {
        (_, Reset) => Some((NONE, NONE)),
        (Reset, Err) => None,
        (_, Err) => Some((NONE, NONE)),
        _ => {
            let fits = |rule: &&Rule| rule.from == from && rule.to == to;
            let mut rules = RULES.iter().filter(fits);
            let rule = rules.find(|rule| rule.types.contains(&kind))?;
            Some((rule.required, rule.optional))
        }
    }
}

/// The part of a mask that counts. For each half of an XRC connection it leaves out what only the
/// other half uses, as Linux does: programs give both halves the attributes of an RC queue pair.
pub fn heard(kind: QpType, mask: M) -> M {
    match kind {
        QpType::XrcSend => mask.difference(ANSWERS),
        QpType::XrcRecv => mask.difference(REQUESTS),
        QpType::Rc | QpType::Uc | QpType::Ud => mask,
    }
}

/// Checks a change of state and the attributes that it names. Only those that [`heard`] leaves
/// count.
///
/// # Errors
/// `Invalid`: there is no such change, or the mask lacks a required attribute or names one that is
/// not allowed.
pub fn check(from: QpState, to: QpState, kind: QpType, mask: M) -> Result<()> {
    let (required, optional) = attributes(from, to, kind).ok_or(Error::Invalid)?;
    let named = heard(kind, mask).difference(M::STATE);
    if named.contains(required) && required.union(optional).contains(named) {
        Ok(())
    } else {
        Result::Err(Error::Invalid)
    }
}
