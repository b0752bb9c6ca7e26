//! The state of nodes, and what is asked of the launcher.

use alloc::string::String;

use guest_tests::text;
use runtime::println;
use runtime::time::{Duration, sleep};

/// Asks the launcher for something.
pub fn launcher(order: &str) {
    println!("LAUNCHER {order}");
}

/// Whether a node is online.
///
/// # Errors
/// A description of the failure.
pub fn is_online(node: u16) -> Result<bool, String> {
    let nodes = runtime::fs::read_to_string("/scheme/scif/nodes").map_err(text("nodes"))?;
    let number = alloc::format!("{node}");
    Ok(nodes.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(&number) && words.nth(1) == Some("online")
    }))
}

/// Waits until a node is online, or is not.
///
/// # Errors
/// It does not happen within 30 s.
pub fn wait_for(node: u16, online: bool) -> Result<(), String> {
    for _ in 0..600 {
        if is_online(node)? == online {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    Err(alloc::format!(
        "online of node {node} does not get {online}"
    ))
}
