//! Rows about peers that misbehave or use an older protocol, tested by the simulator's tests.

use scif_abi::limits::MAX_UNANSWERED;

use crate::table::{Row, Section};

/// The row about peers that never answer a close has the number in its text.
const _: () = assert!(MAX_UNANSWERED == 12_288);

/// The protocol.
pub const WIRE: Section = Section {
    title: "Between nodes",
    word: "wire",
    about: "",
    rows: &[
        Row::elsewhere(
            [
                "withdrawing a connect request",
                "–",
                "CNCT_TERM / not possible",
            ],
            "an extension (messages 64 and 65) offered in the queue pair's padding; a base \
                peer never sees it",
            &[(
                "tests/sim/tests/mainline.rs",
                "a_peer_without_extensions_hears_no_extension",
            )],
        ),
        Row::elsewhere(
            ["NODE_REMOVE, NODE_ADD", "–", "from the host"],
            "removal is honoured from node 0 only; addition is answered with NACK",
            &[("tests/sim/tests/links.rs", "node_management")],
        )
        .because("every pair of nodes has a link of its own"),
        Row::elsewhere(
            ["an unknown message", "–", "crash / ignored"],
            "counted, logged, ignored",
            &[("tests/sim/tests/links.rs", "unknown_messages_are_ignored")],
        ),
        Row::elsewhere(
            [
                "an id that was never given out, or of something closed",
                "–",
                "followed as a pointer",
            ],
            "counted, ignored",
            &[(
                "tests/sim/tests/seeds.rs",
                "a_hostile_peer_harms_nobody_else",
            )],
        ),
        Row::elsewhere(
            ["a ring index outside the ring", "–", "followed"],
            "the connection, or for the node's own ring the link, is reset",
            &[(
                "tests/sim/tests/links.rs",
                "impossible_indices_cost_the_link",
            )],
        ),
        Row::elsewhere(
            [
                "a peer that never answers a close",
                "–",
                "10 s or 30 s, then forgotten",
            ],
            "its pages are kept; after 12,288 of them it gets no more connections",
            &[(
                "tests/sim/tests/links.rs",
                "a_peer_that_never_answers_a_close_gets_no_more_connections",
            )],
        )
        .because("a peer that was not heard may still write to the pages"),
    ],
};
