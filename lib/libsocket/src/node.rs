//! The own node, and which nodes are online.

use scif::raw;
use scif_abi::NodeId;
use scif_abi::limits::MAX_NODE;

/// Returns the own node's number; 0 as long as no SCIF driver answers.
pub fn own() -> NodeId {
    static OWN: spin::Once<NodeId> = spin::Once::new();
    let ask = || raw::get_node_ids(&mut []).map(|(_, own)| own);
    *OWN.try_call_once(ask).unwrap_or(&0)
}

/// Whether a node is online.
pub fn is_online(node: NodeId) -> bool {
    let mut ids = [0; MAX_NODE as usize + 1];
    match raw::get_node_ids(&mut ids) {
        Ok((count, _)) => ids.iter().take(count).any(|id| *id == node),
        Err(_) => false,
    }
}
