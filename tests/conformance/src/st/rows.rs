//! The rows of Scheduled Transfers.

mod setting_up;

use super::{Row, by, missing};
use setting_up::{ATTACH, MAP, SOCKETS};

pub const CLIENT: &str = "tests/guest/src/bin/st-test/client.rs";
pub const DEATHS: &str = "tests/guest/src/bin/st-test/deaths.rs";
const SIM: &str = "tests/sim/tests/st.rs";
const PLAIN: &str = "lib/st-core/tests/plain.rs";
const REGION: &str = "lib/st-core/src/region.rs";
const SETUP: &str = "lib/st-core/src/setup.rs";
const LEVEL0: &str = "lib/st-core/src/level0.rs";
const HEADER: &str = "lib/st-core/src/header.rs";
const COMBINATION: &str = "lib/st-core/src/combination.rs";
const MODELS: &str = "lib/st-core/tests/models.rs";

const ST_C: &str = "tests/patterns/st-transfers.c";
const MESSAGES: &str = "tests/patterns/socket-messages.c";
const STREAMS: &str = "tests/patterns/socket-streams.c";

const OPTIONS: &str = "options";
const REFUSED: &str = "what is refused";

/// All rows.
pub const SECTIONS: &[(&str, &[Row])] = &[
    ("Sockets and options", SOCKETS),
    ("Attach, detach", ATTACH),
    ("Map, unmap", MAP),
    ("Push and pull", SIX),
    ("Illegal combinations and bounds", BOUNDS),
    ("Fence and order", FENCE),
    ("Level 0", LEVEL_0),
    ("Death and hostility", DEATH),
];

const SIX: &[Row] = &[
    by(
        49,
        "a header alone",
        "all 32 bytes arrive",
        &[(CLIENT, "headers arrive unchanged and in order")],
    ),
    by(
        50,
        "a put alone",
        "the bytes are in the peer's memory; no header",
        &[(CLIENT, "a put shows in the peer's memory alone")],
    ),
    by(
        51,
        "a get alone",
        "the peer's bytes; its memory and queue unchanged",
        &[(CLIENT, "a get leaves the peer alone")],
    ),
    by(
        52,
        "a put with a header",
        "the data is there when the header is pulled",
        &[
            (CLIENT, "a header comes behind its data"),
            (SIM, "headers_and_data_arrive_and_sleepers_are_woken"),
        ],
    ),
    by(
        53,
        "a pull with a get",
        "the content of the push's moment or later",
        &[(CLIENT, "data is got after a header")],
    ),
    by(
        54,
        "both",
        "put, header, get, in this order",
        &[
            (CLIENT, "data is got after a header"),
            (CLIENT, "a header comes behind its data"),
        ],
    ),
    by(
        55,
        "a pull before the push",
        "waits, polling or asleep, and wakes",
        &[
            (CLIENT, "a sleeper is woken"),
            (MODELS, "no_wake_up_is_lost"),
        ],
    ),
    by(
        56,
        "the k-th header",
        "is the k-th pull's",
        &[
            (CLIENT, "headers arrive unchanged and in order"),
            (
                MODELS,
                "headers_arrive_once_in_order_and_sleepers_are_woken",
            ),
        ],
    ),
    by(
        57,
        "several puts, one header",
        "all are there",
        &[(ST_C, REFUSED)],
    ),
    by(
        58,
        "a get between two pulls",
        "takes no header",
        &[(CLIENT, "a get leaves the peer alone")],
    ),
    by(
        59,
        "both directions until full, then pulls",
        "no deadlock",
        &[(CLIENT, "both directions at once")],
    ),
    by(
        60,
        "a queue that is full",
        "stops exactly then; `EAGAIN` or a deadline instead of waiting",
        &[(CLIENT, "a full queue stops a push and no earlier")],
    ),
    by(
        61,
        "the source is overwritten after a put",
        "the peer has the old content",
        &[(CLIENT, "a put shows in the peer's memory alone")],
    ),
];

const BOUNDS: &[Row] = &[
    by(
        62,
        "no argument at all",
        "`EINVAL`",
        &[(COMBINATION, "every_combination")],
    ),
    by(
        63,
        "one of two addresses",
        "`EINVAL`",
        &[(COMBINATION, "every_combination")],
    ),
    by(
        64,
        "lengths below 0, of nothing, 0",
        "`EINVAL`, `EINVAL`, moves nothing",
        &[
            (COMBINATION, "every_combination"),
            (CLIENT, "a put shows in the peer's memory alone"),
        ],
    ),
    by(
        65,
        "places outside, before and behind",
        "`ENXIO`; nothing moves, no header",
        &[
            (CLIENT, "places outside are refused"),
            (REGION, "positions_are_inside"),
        ],
    ),
    by(
        66,
        "the first byte, the last, all",
        "work",
        &[(CLIENT, "places outside are refused")],
    ),
    by(
        67,
        "the peer has never mapped",
        "waits for it, or the deadline, or the end",
        &[
            (CLIENT, "a put shows in the peer's memory alone"),
            (CLIENT, "the peer closes"),
        ],
    ),
    by(
        68,
        "local memory outside the own range",
        "works",
        &[(ST_C, REFUSED)],
    ),
    by(
        69,
        "local memory that wraps",
        "`EFAULT`",
        &[(ST_C, REFUSED)],
    ),
    by(70, "a handle that is NULL", "`EINVAL`", &[(ST_C, REFUSED)]),
];

const FENCE: &[Row] = &[
    by(
        71,
        "nothing outstanding",
        "returns at once",
        &[(CLIENT, "a fence orders channels")],
    ),
    by(
        72,
        "after a fence",
        "a put is seen by whoever is told",
        &[(CLIENT, "a fence orders channels")],
    ),
    by(73, "`st_flush`", "is `st_fence`", &[(ST_C, REFUSED)]),
    missing(
        74,
        "headers of two channels",
        "may overtake each other",
        "a test",
    ),
];

const LEVEL_0: &[Row] = &[
    by(
        75,
        "the header",
        "has 40 bytes at the protocol's offsets",
        &[(HEADER, "golden_bytes_of_data")],
    ),
    by(
        76,
        "operations without data",
        "arrive as they are, ports and key filled in",
        &[(CLIENT, "level 0 carries headers as they are")],
    ),
    by(
        77,
        "data with a length",
        "goes to ⟨buffer, offset⟩; a descriptor only if wanted",
        &[
            (CLIENT, "level 0 moves data"),
            (
                LEVEL0,
                "the_peer_gets_a_descriptor_with_payload_without_data_or_when_asked",
            ),
        ],
    ),
    by(
        78,
        "the optional payload",
        "32 bytes, or none",
        &[(CLIENT, "level 0 carries headers as they are")],
    ),
    by(
        79,
        "a wrong key; a buffer beyond the range",
        "`EINVAL`, `ENXIO`",
        &[
            (CLIENT, "level 0 carries headers as they are"),
            (CLIENT, "level 0 moves data"),
        ],
    ),
    by(
        80,
        "operations on connections",
        "`EPERM`",
        &[(CLIENT, "level 0 carries headers as they are")],
    ),
    by(
        81,
        "a get, and locked operations",
        "data comes; nothing is lost",
        &[
            (CLIENT, "level 0 moves data"),
            (CLIENT, "locked operations lose nothing"),
        ],
    ),
    by(
        82,
        "no slot, no descriptor",
        "waits",
        &[(CLIENT, "level 0 carries headers as they are")],
    ),
    by(
        83,
        "levels mixed on a channel",
        "a header of level 1 is a Nop; one of level 0 stays for level 0",
        &[(CLIENT, "level 0 carries headers as they are")],
    ),
    by(
        84,
        "push and pull written on level 0 alone",
        "pass rows 49 to 54",
        &[(ST_C, "push and pull, by the library and on level 0")],
    ),
];

const DEATH: &[Row] = &[
    by(
        85,
        "the peer is killed in the middle of everything",
        "each call ends, polling or asleep; headers that arrived come first",
        &[
            (DEATHS, "a peer dies, {name}"),
            (DEATHS, "a peer dies beside a push that waits"),
            (SIM, "what_a_peer_pushed_before_its_death_arrives_in_order"),
        ],
    ),
    missing(
        86,
        "the peer's node is lost",
        "`ENODEV` or `ECONNRESET`",
        "a test",
    ),
    missing(87, "the driver is killed", "as 85", "a test"),
    by(
        88,
        "the peer stores nonsense",
        "`EPROTO`; the connection ends, nothing else suffers",
        &[
            (
                SIM,
                "a_peer_that_stores_anything_costs_itself_the_connection",
            ),
            (
                PLAIN,
                "a_peer_that_stores_anything_ends_only_its_own_connection",
            ),
        ],
    ),
    by(
        89,
        "the peer fills one channel",
        "the others go on",
        &[(CLIENT, "a full queue stops a push and no earlier")],
    ),
    by(
        90,
        "death between put and header",
        "no header",
        &[(SIM, "what_a_peer_pushed_before_its_death_arrives_in_order")],
    ),
];
