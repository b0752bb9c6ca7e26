//! get_node_ids.

use crate::ask::node_ids;
use crate::bench::{Place, Side, equal, holds};
use crate::table::{Row, Section};

/// `scif_get_node_ids`.
pub const NODES: Section = Section {
    title: "scif_get_node_ids",
    word: "nodes",
    about: "",
    rows: &[
        Row::story(
            ["room for all", "all ids and the own one", "ascending"],
            "all ids, ascending, the own one included; the result is their number",
            |b| {
                for side in [Side::A, Side::B] {
                    let reply = b.reply(node_ids(side, 8))?;
                    let own = i64::from(b.node(side));
                    let mut wanted = alloc::vec![i64::from(b.node(Side::A))];
                    if b.node(Side::B) != b.node(Side::A) {
                        wanted.push(b.node(Side::B).into());
                    }
                    equal("their number", reply.result, Ok(wanted.len() as i64))?;
                    wanted.insert(0, own);
                    equal("the own node and all", reply.extra, wanted)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["room for none", "the number of all", "the number of all"],
            "the number of all, and the own id",
            |b| {
                let all = b.ok(node_ids(Side::A, 8))?;
                let reply = b.reply(node_ids(Side::A, 0))?;
                equal("their number", reply.result, Ok(all))?;
                equal(
                    "the own node",
                    reply.extra,
                    alloc::vec![b.node(Side::A).into()],
                )
            },
        ),
        Row::story(
            [
                "room for fewer than there are",
                "as many as fit; the number of all",
                "the same",
            ],
            "the lowest ids; the result is the number of all",
            |b| {
                let reply = b.reply(node_ids(Side::A, 1))?;
                equal("their number", reply.result, Ok(2))?;
                equal("the own node and the first", reply.extra, alloc::vec![0, 0])
            },
        )
        .only(&[Place::Sim, Place::Pair]),
        Row::succeeds(["by a user who is not root", "–", "allowed"], |_| {
            Ok(node_ids(Side::User, 8))
        }),
        Row::story(
            [
                "a node was lost",
                "the nodes currently in the network",
                "without it",
            ],
            "without it",
            |b| {
                b.gives(node_ids(Side::A, 8), 2)?;
                b.lose_node()?;
                b.gives(node_ids(Side::A, 8), 1)?;
                holds(true, "")
            },
        )
        .only(Place::SIM),
    ],
};
