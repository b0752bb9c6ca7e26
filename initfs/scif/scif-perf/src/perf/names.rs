//! The names of the tests, and what the sizes of some of them must be.

use alloc::format;
use alloc::vec::Vec;

use super::session::PAGE;
use super::{Program, Result};

/// Tests by group, in the order in which they run.
const GROUPS: &[(&str, &[&str])] = &[
    ("latency", &["pio_rtt", "msg_rtt"]),
    (
        "bandwidth",
        &[
            "rma_write",
            "rma_read",
            "pio_write",
            "pio_read",
            "stream",
            "file_stream",
        ],
    ),
    ("costs", &["register", "map", "connect", "pairs"]),
    ("growth", &["idle", "windows", "pages", "st_idle"]),
    (
        "transfers",
        &[
            "st_rtt",
            "st_put_rtt",
            "st_stream",
            "st_stream_several",
            "st_put",
            "st_get",
        ],
    ),
    (
        "verbs",
        &[
            "rdma_write_rtt",
            "rdma_send_rtt",
            "rdma_stream",
            "rdma_write",
            "rdma_read",
            "rdma_pairs",
        ],
    ),
    (
        "own",
        &[
            "own_rma_write",
            "own_rma_read",
            "own_register",
            "copy_register",
        ],
    ),
    (
        "beside",
        &[
            "echo_idle",
            "echo_own",
            "echo_peer",
            "register_idle",
            "register_own",
            "register_peer",
        ],
    ),
    (
        "others",
        &[
            "ring_rtt",
            "msg_rtt_usual",
            "vrma_write",
            "vrma_read",
            "marked_write",
            "signaled_write",
            "local_copy",
            "stream_read",
            "file_stream_read",
            "nodes",
        ],
    ),
];

/// Tests of windows and mappings, whose sizes are whole pages.
const OF_PAGES: &[&str] = &[
    "register",
    "map",
    "own_register",
    "copy_register",
    "register_idle",
    "register_own",
    "register_peer",
];

/// The tests in a list of tests and groups, separated by commas. Tests joined by `+` are in one
/// inner list, and run in turn.
pub fn tests(list: &str, program: Program) -> Result<Vec<Vec<&'static str>>> {
    let mut tests = Vec::new();
    for item in list.split(',') {
        let found: Result<Vec<_>> = item.split('+').map(|word| named(word, program)).collect();
        match <[_; 1]>::try_from(found?) {
            Ok([members]) => tests.extend(members.into_iter().map(|test| [test].to_vec())),
            Err(several) => tests.push(several.concat()),
        }
    }
    Ok(tests)
}

/// The tests that a word names: a test, or a group of them.
fn named(word: &str, program: Program) -> Result<Vec<&'static str>> {
    let mut tests = Vec::new();
    for (group, members) in GROUPS {
        let wanted = |test: &&&str| word == **test || word == *group;
        tests.extend(members.iter().filter(wanted));
    }
    let extra = program.tests.iter().map(|extra| extra.name);
    tests.extend(extra.filter(|name| *name == word));
    match tests.is_empty() {
        true => Err(format!("there is no test '{word}' (--help lists them)").into()),
        false => Ok(tests),
    }
}

/// Checks that the sizes that the user gave fit the tests.
///
/// # Errors
/// The size of a test in whole pages is none.
pub fn check_sizes(groups: &[Vec<&'static str>], sizes: Option<&[u64]>) -> Result {
    let mut sizes = sizes.into_iter().flatten();
    let Some(size) = sizes.find(|size| !size.is_multiple_of(PAGE as u64)) else {
        return Ok(());
    };
    let mut tests = groups.iter().flatten();
    match tests.find(|test| OF_PAGES.contains(test)) {
        Some(test) => {
            Err(format!("--size {size}: {test} needs whole pages of {PAGE} bytes").into())
        }
        None => Ok(()),
    }
}
