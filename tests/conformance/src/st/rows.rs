//! The rows of Scheduled Transfers.

use super::{Row, by, missing};

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

const SOCKETS: &[Row] = &[
    by(
        1,
        "`socket(PF_INET, SOCK_SEQPACKET, 118)`",
        "a descriptor",
        &[(MESSAGES, OPTIONS)],
    ),
    by(
        2,
        "`SOCK_STREAM` with 118",
        "`EPROTOTYPE`",
        &[(MESSAGES, OPTIONS)],
    ),
    by(
        3,
        "`AF_STP`, protocol 0",
        "mean the same",
        &[(MESSAGES, OPTIONS)],
    ),
    by(
        4,
        "`ST_BYPASS` read",
        "0 at first, then what was set",
        &[(MESSAGES, OPTIONS)],
    ),
    by(
        5,
        "an option is set after bind, after connect",
        "`EINVAL`, `EISCONN`",
        &[
            (MESSAGES, OPTIONS),
            (MESSAGES, "settings that do not agree"),
        ],
    ),
    by(
        6,
        "bad values, lengths, levels, options",
        "`EINVAL`, `ENOPROTOOPT`",
        &[(MESSAGES, OPTIONS)],
    ),
    by(
        7,
        "an accepted socket",
        "has the listener's options",
        &[(ST_C, "places of queues, and both levels")],
    ),
    by(
        8,
        "the bypass at one end only",
        "both fail; the listener goes on",
        &[
            (SETUP, "what_cannot_be_agreed_on_is_refused"),
            (DEATHS, "other channels are refused"),
            (MESSAGES, "settings that do not agree"),
        ],
    ),
    by(
        9,
        "slots that cannot be",
        "connect fails with `EINVAL`",
        &[
            (CLIENT, "other options are refused"),
            (MESSAGES, "settings that do not agree"),
            (SETUP, "what_cannot_be_agreed_on_is_refused"),
        ],
    ),
    by(
        10,
        "keys, ports and slots of both ends",
        "agree crosswise; keys are not 0",
        &[
            (SETUP, "both_ends_agree_crosswise"),
            (MESSAGES, "settings that do not agree"),
            (CLIENT, "level 0 carries headers as they are"),
        ],
    ),
    by(
        11,
        "connect to a port without listener",
        "`ECONNREFUSED`",
        &[(CLIENT, "other options are refused")],
    ),
    missing(
        12,
        "bind to a reserved port, one in use, a foreign address",
        "`EACCES`, `EADDRINUSE`, `EADDRNOTAVAIL`",
        "a check of `EACCES` (the image has no user but root; the others are rows of `socket-calls.c`)",
    ),
    by(
        13,
        "`getsockname`, `getpeername`",
        "10.0.0.node+1 and the ports",
        &[(STREAMS, "addresses of both ends")],
    ),
    by(
        14,
        "a connect that does not wait",
        "`EINPROGRESS`, then `SO_ERROR`",
        &[(STREAMS, "connect without waiting")],
    ),
    by(
        15,
        "`send` on a bypass socket",
        "`EOPNOTSUPP`",
        &[(ST_C, REFUSED)],
    ),
    by(
        16,
        "messages without the bypass",
        "keep their boundaries",
        &[(MESSAGES, "boundaries of messages")],
    ),
    by(
        17,
        "a message that is too long",
        "is cut: `MSG_TRUNC`",
        &[(MESSAGES, "boundaries of messages")],
    ),
    missing(
        18,
        "10 MiB in one message",
        "arrive; send returns after that",
        "a check of when send returns (that they arrive is shown by `socket-messages.c`)",
    ),
    missing(
        19,
        "close, and death, without the bypass",
        "0, `ECONNRESET`",
        "a check of death (close is in `socket-messages.c`)",
    ),
];

const ATTACH: &[Row] = &[
    by(
        20,
        "attach before connect, on a file",
        "`ENOTCONN`, `ENOTSOCK`",
        &[(ST_C, REFUSED)],
    ),
    by(21, "attach with flags", "`EINVAL`", &[(ST_C, REFUSED)]),
    by(
        22,
        "a channel that does not exist",
        "`EINVAL`",
        &[(CLIENT, "channels are attached once and keep headers")],
    ),
    by(23, "a handle at NULL", "`EFAULT`", &[(ST_C, REFUSED)]),
    by(
        24,
        "a channel twice",
        "`EBUSY`",
        &[(CLIENT, "channels are attached once and keep headers")],
    ),
    by(
        25,
        "a message on a channel",
        "arrives on that one only",
        &[
            (CLIENT, "both directions at once"),
            (
                PLAIN,
                "a_channel_blocks_when_its_slots_are_filled_and_no_earlier",
            ),
        ],
    ),
    by(
        26,
        "the peer has not attached the channel yet",
        "headers fit until its queue is full, and are pulled later",
        &[(CLIENT, "a full queue stops a push and no earlier")],
    ),
    by(
        27,
        "detach, attach again",
        "works",
        &[(CLIENT, "channels are attached once and keep headers")],
    ),
    by(28, "detach of NULL", "`EINVAL`", &[(ST_C, REFUSED)]),
    by(
        29,
        "the other end detaches after it has pushed",
        "the headers are there",
        &[(CLIENT, "channels are attached once and keep headers")],
    ),
    by(
        30,
        "own headers not pulled before a detach",
        "are there after the next attach",
        &[(CLIENT, "channels are attached once and keep headers")],
    ),
    missing(
        31,
        "detach while a thread pulls",
        "`EBUSY`; cannot be written in Rust",
        "a check in C",
    ),
    by(
        32,
        "detach with mapped memory",
        "the channel stays attached until it is unmapped",
        &[(CLIENT, "memory is mapped once at a time")],
    ),
    by(
        33,
        "the peer closes",
        "every call says `ECONNRESET`",
        &[(CLIENT, "the peer closes")],
    ),
    by(
        34,
        "the peer dies",
        "every call ends; headers that arrived come first",
        &[(DEATHS, "a peer dies, {name}")],
    ),
    by(
        35,
        "200,000 round trips, both polling",
        "no request to the driver but its liveness checks",
        &[(CLIENT, "no request while both look")],
    ),
];

const MAP: &[Row] = &[
    by(36, "`st_map` of NULL", "`EFAULT`", &[(ST_C, REFUSED)]),
    by(
        37,
        "new memory",
        "zeroed, whole pages",
        &[(CLIENT, "a put shows in the peer's memory alone")],
    ),
    by(
        38,
        "an own buffer",
        "keeps its address and content",
        &[(ST_C, REFUSED)],
    ),
    by(
        39,
        "a second range on a channel",
        "`EBUSY`; the first one stays",
        &[(CLIENT, "memory is mapped once at a time")],
    ),
    missing(
        40,
        "two channels map two ranges, and the same",
        "work",
        "a test",
    ),
    missing(
        41,
        "lengths 0, 1, a page and a byte, 300 MiB",
        "`EINVAL`, the others work",
        "a check of 300 MiB (the others are in `st-transfers.c`)",
    ),
    missing(
        42,
        "memory of `malloc`, odd addresses",
        "works; neighbours are unchanged",
        "a check of the neighbours under load (`st-transfers.c` has an odd address)",
    ),
    by(
        43,
        "an address without memory",
        "`EFAULT`",
        &[(ST_C, REFUSED)],
    ),
    missing(
        44,
        "the limit on pinned pages",
        "`EAGAIN`, no trace",
        "a test",
    ),
    by(
        45,
        "unmap of something else",
        "`EINVAL`, `ENXIO`",
        &[(ST_C, REFUSED)],
    ),
    by(
        46,
        "unmap under a storm of puts",
        "nothing changes after it; the peer gets `ENXIO`",
        &[(CLIENT, "unmapped under puts")],
    ),
    by(
        47,
        "unmap, then other memory",
        "places of the first one are `ENXIO`, those of the new one work",
        &[
            (CLIENT, "memory is mapped once at a time"),
            (REGION, "a_position_never_leads_into_a_later_range"),
        ],
    ),
    by(
        48,
        "map and unmap 300 times",
        "works",
        &[(CLIENT, "memory is mapped once at a time")],
    ),
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
