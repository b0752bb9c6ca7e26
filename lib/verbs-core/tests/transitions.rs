//! Every change of state with every set of attributes of which one is missing or too much, against
//! the rules as the documents of the verbs write them.

use std::collections::BTreeSet;

use verbs_core::transition::check;
use verbs_core::types::{AttributeMask, QpState, QpType};

/// Changes, types, what is required, what is optional. Changes to RESET and ERR are not here.
const DOCUMENTED: &str = "
RESET INIT | UD | PKEY_INDEX PORT QKEY | ;
RESET INIT | UC RC XS XR | PKEY_INDEX PORT ACCESS_FLAGS | ;
INIT INIT | UD | | PKEY_INDEX PORT QKEY ;
INIT INIT | UC RC XS XR | | PKEY_INDEX PORT ACCESS_FLAGS ;
INIT RTR | UD | | PKEY_INDEX QKEY ;
INIT RTR | UC XS | AV PATH_MTU DEST_QPN RQ_PSN | ALT_PATH ACCESS_FLAGS PKEY_INDEX ;
INIT RTR | RC XR | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER | ALT_PATH
    ACCESS_FLAGS PKEY_INDEX ;
RTR RTS | UD | SQ_PSN | CUR_STATE QKEY ;
RTR RTS | UC | SQ_PSN | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE ;
RTR RTS | RC | SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH
    ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER ;
RTR RTS | XS | SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH
    ACCESS_FLAGS PATH_MIG_STATE ;
RTR RTS | XR | SQ_PSN TIMEOUT | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER ;
RTS RTS | UD | | CUR_STATE QKEY ;
RTS RTS | UC XS | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE ;
RTS RTS | RC XR | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER ;
RTS SQD | UD UC RC XS XR | | EN_SQD_ASYNC_NOTIFY ;
SQD RTS | UD | | CUR_STATE QKEY ;
SQD RTS | UC XS | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE ;
SQD RTS | RC XR | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER ;
SQD SQD | UD | | PKEY_INDEX QKEY ;
SQD SQD | UC | | AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE ;
SQD SQD | RC | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC
    ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE ;
SQD SQD | XS | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS
    PKEY_INDEX PATH_MIG_STATE ;
SQD SQD | XR | | PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX
    MIN_RNR_TIMER PATH_MIG_STATE ;
SQE RTS | UD | | CUR_STATE QKEY ;
SQE RTS | UC | | CUR_STATE ACCESS_FLAGS ;
";

const TYPES: [(&str, QpType); 5] = [
    ("RC", QpType::Rc),
    ("UC", QpType::Uc),
    ("UD", QpType::Ud),
    ("XS", QpType::XrcSend),
    ("XR", QpType::XrcRecv),
];
const STATES: [(&str, QpState); 7] = [
    ("RESET", QpState::Reset),
    ("INIT", QpState::Init),
    ("RTR", QpState::Rtr),
    ("RTS", QpState::Rts),
    ("SQD", QpState::Sqd),
    ("SQE", QpState::Sqe),
    ("ERR", QpState::Err),
];
/// Each attribute with its bit, as the header of C numbers them.
const BITS: [(&str, u32); 22] = [
    ("STATE", 0),
    ("CUR_STATE", 1),
    ("EN_SQD_ASYNC_NOTIFY", 2),
    ("ACCESS_FLAGS", 3),
    ("PKEY_INDEX", 4),
    ("PORT", 5),
    ("QKEY", 6),
    ("AV", 7),
    ("PATH_MTU", 8),
    ("TIMEOUT", 9),
    ("RETRY_CNT", 10),
    ("RNR_RETRY", 11),
    ("RQ_PSN", 12),
    ("MAX_QP_RD_ATOMIC", 13),
    ("ALT_PATH", 14),
    ("MIN_RNR_TIMER", 15),
    ("SQ_PSN", 16),
    ("MAX_DEST_RD_ATOMIC", 17),
    ("PATH_MIG_STATE", 18),
    ("CAP", 19),
    ("DEST_QPN", 20),
    ("RATE_LIMIT", 25),
];

type Names = BTreeSet<&'static str>;

/// The documented rule: what must and what may be named.
fn documented(from: &str, to: &str, kind: &str) -> Option<(Names, Names)> {
    match (from, to) {
        ("RESET", "ERR") => return None,
        (_, "RESET" | "ERR") => return Some((Names::new(), Names::new())),
        _ => {}
    }
    let rows = DOCUMENTED.split_terminator(';').map(str::trim);
    let mut rows = rows.filter(|row| !row.is_empty()).map(|row| {
        let cells: Vec<Vec<&'static str>> = row
            .split('|')
            .map(|cell| cell.split_whitespace().collect())
            .collect();
        <[_; 4]>::try_from(cells).unwrap()
    });
    let row = rows.find(|[change, kinds, ..]| *change == [from, to] && kinds.contains(&kind));
    let [_, _, required, optional] = row?;
    let set = |names: Vec<&'static str>| names.into_iter().collect::<Names>();
    Some((set(required), set(optional)))
}

fn mask(names: &Names) -> AttributeMask {
    let bit = |name: &str| BITS.iter().find(|(known, _)| *known == name).unwrap().1;
    AttributeMask::from_bits_retain(names.iter().map(|name| 1 << bit(name)).sum())
}

#[test]
fn every_change_with_every_attribute_missing_or_too_much() {
    let (mut accepted, mut refused) = (0, 0);
    for (from_name, from) in STATES {
        for (to_name, to) in STATES {
            for (kind_name, kind) in TYPES {
                let rule = documented(from_name, to_name, kind_name);
                let (required, optional) = rule.clone().unwrap_or_default();
                let all: Names = required.union(&optional).copied().collect();
                let mut sets = vec![required.clone(), all.clone(), Names::from(["STATE"])];
                // Each attribute missing in or added to the least and the most that is allowed.
                for (name, _) in BITS {
                    for base in [&required, &all] {
                        let mut set = base.clone();
                        if !set.remove(name) {
                            set.insert(name);
                        }
                        sets.push(set);
                    }
                }
                for mut set in sets {
                    set.remove("STATE");
                    let is_good =
                        rule.is_some() && set.is_superset(&required) && set.is_subset(&all);
                    for with_state in [false, true] {
                        if with_state {
                            set.insert("STATE");
                        }
                        let answer = check(from, to, kind, mask(&set));
                        let what = format!("{from_name} to {to_name}, {kind_name}, {set:?}");
                        assert_eq!(answer.is_ok(), is_good, "{what}");
                    }
                    *if is_good { &mut accepted } else { &mut refused } += 1;
                }
            }
        }
    }
    // So many there are; none was left out.
    assert_eq!((accepted, refused), (793, 10722));
}

/// Bits that no attribute has are refused with every change.
#[test]
fn unknown_bits_are_refused() {
    for bit in (21..25).chain(26..32) {
        for (_, from) in STATES {
            for (_, to) in STATES {
                for (_, kind) in TYPES {
                    let mask = AttributeMask::from_bits_retain(1 << bit);
                    assert!(check(from, to, kind, mask).is_err());
                }
            }
        }
    }
}

#[test]
fn numbers_are_those_of_the_header() {
    for (name, bit) in BITS {
        let known = AttributeMask::from_name(name).unwrap();
        assert_eq!(known.bits(), 1 << bit, "{name}");
    }
    for (number, (_, state)) in (0..).zip(STATES) {
        assert_eq!(state as u32, number);
    }
    for ((_, kind), number) in TYPES.into_iter().zip([2, 3, 4, 9, 10]) {
        assert_eq!(kind as u32, number);
    }
}
