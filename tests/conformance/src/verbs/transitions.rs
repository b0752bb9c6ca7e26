//! Every change of state of every type of queue pair, with sets of attributes in which one is
//! missing or one too many, against the rules in the documents of the verbs.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::bench::Checked;
use super::run::Totals;

/// Changes, types, required attributes, optional attributes. Changes to RESET and ERR are missing.
const DOCUMENTED: &str = "
RESET INIT | UD | PKEY_INDEX PORT QKEY | ;
RESET INIT | UC RC XRC_SEND XRC_RECV | PKEY_INDEX PORT ACCESS_FLAGS | ;
INIT INIT | UD | | PKEY_INDEX PORT QKEY ;
INIT INIT | UC RC XRC_SEND XRC_RECV | | PKEY_INDEX PORT ACCESS_FLAGS ;
INIT RTR | UD | | PKEY_INDEX QKEY ;
INIT RTR | UC XRC_SEND | AV PATH_MTU DEST_QPN RQ_PSN | ALT_PATH ACCESS_FLAGS PKEY_INDEX ;
INIT RTR | RC XRC_RECV | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER | ALT_PATH
    ACCESS_FLAGS PKEY_INDEX ;
RTR RTS | UD | SQ_PSN | CUR_STATE QKEY ;
RTR RTS | UC | SQ_PSN | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE ;
RTR RTS | RC | SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH
    ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER ;
RTR RTS | XRC_SEND | SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH
    ACCESS_FLAGS PATH_MIG_STATE ;
RTR RTS | XRC_RECV | SQ_PSN TIMEOUT | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
    MIN_RNR_TIMER ;
RTS RTS | UD | | CUR_STATE QKEY ;
RTS RTS | UC XRC_SEND | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE ;
RTS RTS | RC XRC_RECV | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER ;
RTS SQD | UD UC RC XRC_SEND XRC_RECV | | EN_SQD_ASYNC_NOTIFY ;
SQD RTS | UD | | CUR_STATE QKEY ;
SQD RTS | UC XRC_SEND | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE ;
SQD RTS | RC XRC_RECV | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER ;
SQD SQD | UD | | PKEY_INDEX QKEY ;
SQD SQD | UC | | AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE ;
SQD SQD | RC | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC
    ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE ;
SQD SQD | XRC_SEND | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS
    PKEY_INDEX PATH_MIG_STATE ;
SQD SQD | XRC_RECV | | PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX
    MIN_RNR_TIMER PATH_MIG_STATE ;
SQE RTS | UD | | CUR_STATE QKEY ;
SQE RTS | UC | | CUR_STATE ACCESS_FLAGS ;
";

/// Attributes that a type ignores in all changes, since only the other half of its connection uses
/// them.
const UNHEARD: [(&str, &[&str]); 2] = [
    ("XRC_SEND", &["MAX_DEST_RD_ATOMIC", "MIN_RNR_TIMER"]),
    ("XRC_RECV", &["RETRY_CNT", "RNR_RETRY", "MAX_QP_RD_ATOMIC"]),
];

/// Types of queue pairs with their numbers.
pub const TYPES: [(&str, u32); 5] = [
    ("RC", 2),
    ("UC", 3),
    ("UD", 4),
    ("XRC_SEND", 9),
    ("XRC_RECV", 10),
];

/// States, in the order of their numbers.
pub const STATES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];

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

/// A change to try: the numbers of type and states, and the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the type.
    pub kind: u32,
    /// The state before.
    pub from: u32,
    /// The state after.
    pub to: u32,
    /// The mask of the given attributes.
    pub mask: u32,
}

/// The device on which changes are made.
pub trait Changes {
    /// Tries a change of a queue pair in the state before it, with valid values. Returns whether
    /// it was accepted; `None` if no program can bring a queue pair of this type into that state.
    /// An accepted change has set the state; a refused one has changed nothing.
    ///
    /// # Errors
    /// The errors of the place. The queue pair has another state than it should.
    fn attempt(&mut self, change: Change) -> Checked<Option<bool>>;
}

/// The documented rule: the required attributes, and the optional ones.
fn documented(from: &str, to: &str, kind: &str) -> Option<(Names, Names)> {
    match (from, to) {
        ("RESET", "ERR") => return None,
        (_, "RESET" | "ERR") => return Some((Names::new(), Names::new())),
        _ => {}
    }
    let rows = DOCUMENTED.split_terminator(';').map(str::trim);
    let mut rows = rows.filter(|row| !row.is_empty()).filter_map(|row| {
        let cells = row.split('|').map(|cell| cell.split_whitespace().collect());
        let cells: Vec<Vec<&'static str>> = cells.collect();
        <[_; 4]>::try_from(cells).ok()
    });
    let row = rows.find(|[change, kinds, ..]| *change == [from, to] && kinds.contains(&kind));
    let [_, _, required, optional] = row?;
    let set = |names: Vec<&'static str>| names.into_iter().collect::<Names>();
    Some((set(required), set(optional)))
}

/// Whether a change, such as `RTR RTS UD SQ_PSN`, is documented and has at least the required
/// attributes.
pub fn is_documented(change: &str) -> bool {
    let mut words = change.split_whitespace();
    let (Some(from), Some(to), Some(kind)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let given: BTreeSet<&str> = words.collect();
    documented(from, to, kind).is_some_and(|(required, optional)| {
        let is_known = |name: &&str| {
            required.contains(name) || optional.contains(name) || unheard(kind).contains(name)
        };
        required.iter().all(|name| given.contains(name)) && given.iter().all(is_known)
    })
}

/// The attributes that a type ignores.
fn unheard(kind: &str) -> &'static [&'static str] {
    let mut types = UNHEARD.iter().filter(|(of, _)| *of == kind);
    types.next().map_or(&[], |(_, names)| names)
}

fn mask(names: &Names) -> u32 {
    let bits = BITS.iter().filter(|(name, _)| names.contains(name));
    bits.map(|(_, bit)| 1 << bit).sum()
}

/// The sets of attributes to try for a change of a type, and whether each is valid.
fn sets(kind: &str, rule: Option<&(Names, Names)>) -> Vec<(Names, bool)> {
    let (required, optional) = rule.cloned().unwrap_or_default();
    let all: Names = required.union(&optional).copied().collect();
    let mut sets = vec![required.clone(), all.clone()];
    // Each attribute removed from, or added to, the smallest and the largest valid set.
    for (name, _) in BITS.into_iter().skip(1) {
        for base in [&required, &all] {
            let mut set = base.clone();
            if !set.remove(name) {
                set.insert(name);
            }
            sets.push(set);
        }
    }
    let judge = |mut set: Names| {
        let mut heard = set.clone();
        heard.retain(|name| !unheard(kind).contains(name));
        let is_good = rule.is_some() && heard.is_superset(&required) && heard.is_subset(&all);
        set.insert("STATE");
        (set, is_good)
    };
    sets.into_iter().map(judge).collect()
}

/// Whether a queue pair of this type can be in this state: a failing send stops only UC and UD.
fn can_be(kind: &str, state: &str) -> bool {
    state != "SQE" || matches!(kind, "UC" | "UD")
}

/// Tries all changes, and reports a row for each pair of states.
pub fn run(place: &str, changes: &mut dyn Changes, print: &mut dyn FnMut(&str)) -> Totals {
    let mut totals = Totals::default();
    for (from, from_name) in (0..).zip(STATES) {
        for (to, to_name) in (0..).zip(STATES) {
            let mut found = Ok(());
            for (kind_name, kind) in TYPES {
                let rule = documented(from_name, to_name, kind_name);
                for (set, is_good) in sets(kind_name, rule.as_ref()) {
                    let mask = mask(&set);
                    let change = Change {
                        kind,
                        from,
                        to,
                        mask,
                    };
                    let result = changes.attempt(change).and_then(|accepted| match accepted {
                        Some(accepted) if accepted != is_good => Err(format!(
                            "{kind_name} with {set:?}: accepted {accepted}, not {is_good}"
                        )),
                        None if can_be(kind_name, from_name) => {
                            Err(format!("{kind_name} never was in {from_name}"))
                        }
                        _ => Ok(()),
                    });
                    found = found.and(result);
                }
            }
            let name = format!("{place} {from_name} to {to_name}");
            totals.report(&name, found, print);
        }
    }
    totals.finish(&format!("changes of state, {place}"), print);
    totals
}

/// The number of changes that are tried, and how many of them are valid.
pub fn counts() -> (usize, usize) {
    let (mut tried, mut right) = (0, 0);
    for from in STATES {
        for to in STATES {
            for (kind, _) in TYPES {
                for (_, is_good) in sets(kind, documented(from, to, kind).as_ref()) {
                    tried += 1;
                    right += usize::from(is_good);
                }
            }
        }
    }
    (tried, right)
}

/// The rules as a table for the page.
pub fn page() -> String {
    let (tried, right) = counts();
    let mut page = format!(
        "Of each change of state of each type the least and the most attributes that are allowed \
         are tried, and both with each single attribute missing or too much: {tried} changes, of \
         which {right} are accepted. What is refused is `EINVAL` and has changed nothing.\n\n\
         | change | type | must be given | may be given |\n| --- | --- | --- | --- |\n\
         | any to RESET; any but RESET to ERR | all | nothing | nothing |\n"
    );
    for row in DOCUMENTED.split_terminator(';').map(str::trim) {
        let cells: Vec<String> = row
            .split('|')
            .map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        if let [change, kinds, required, optional] = &cells[..] {
            let or_nothing = |cell: &String| match &cell[..] {
                "" => "nothing".into(),
                cell => String::from(cell),
            };
            let (required, optional) = (or_nothing(required), or_nothing(optional));
            let change = change.replacen(' ', " to ", 1);
            page += &format!("| {change} | {kinds} | {required} | {optional} |\n");
        }
    }
    let unheard = UNHEARD.map(|(kind, names)| format!("{kind} {}", names.join(" ")));
    page += &format!(
        "\nWhat only the other half of an XRC connection uses may be given with each change and \
         has no effect, as on Linux: {}.\n",
        unheard.join(", ")
    );
    page
}
