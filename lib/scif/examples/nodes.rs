//! The nodes online, and those that come and go.
//!
//! `example-nodes` lists the nodes; `example-nodes wait NODE` waits until that node is there.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::time::Duration;

use scif::{NodeEvent, NodeEvents};
use scif_examples::{Result, ensure, node_number, report};

runtime::main!(main);

fn main() -> i32 {
    let words: Vec<_> = runtime::env::args().skip(1).collect();
    match words.as_slice() {
        [] => report(list()),
        [wait, node] if wait == "wait" => report(node_number(node).and_then(wait_for)),
        _ => report(Err("say nothing, or `wait` and a node".into())),
    }
}

fn list() -> Result {
    let nodes = scif::nodes()?;
    runtime::println!("this is node {} of {:?}", nodes.own, nodes.online);
    ensure(
        nodes.online.contains(&nodes.own),
        "the own node is not there",
    )?;

    // The first events name the nodes that are there already.
    let mut events = NodeEvents::open()?;
    let mut seen = Vec::new();
    while let Some(event) = events.next(Some(Duration::ZERO))? {
        match event {
            NodeEvent::Added(node) => seen.push(node),
            NodeEvent::Removed(node) => seen.retain(|known| *known != node),
        }
    }
    runtime::println!("events tell of {seen:?}");
    let others = nodes.online.iter().filter(|node| **node != nodes.own);
    ensure(
        others.into_iter().all(|node| seen.contains(node)),
        "an event is missing",
    )
}

fn wait_for(node: u16) -> Result {
    let mut events = NodeEvents::open()?;
    loop {
        match events.next(Some(Duration::from_secs(60)))? {
            Some(NodeEvent::Added(added)) if added == node => return Ok(()),
            Some(_) => {}
            None => return Err("it did not come within a minute".into()),
        }
    }
}
