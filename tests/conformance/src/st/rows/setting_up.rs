//! The rows of what comes before push and pull: sockets, channels, memory.

use super::{CLIENT, DEATHS, MESSAGES, OPTIONS, PLAIN, REFUSED, REGION, SETUP, ST_C, STREAMS};
use crate::st::{Row, by, missing};

pub const SOCKETS: &[Row] = &[
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
        "a check of `EACCES`: only root is here (others: `socket-calls.c`)",
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

pub const ATTACH: &[Row] = &[
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

pub const MAP: &[Row] = &[
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
