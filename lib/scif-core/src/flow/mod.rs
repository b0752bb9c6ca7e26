//! Flows: one file for one exchange of the protocol, read from top to bottom. A flow has no state.

pub(crate) mod accept;
pub(crate) mod announce;
pub(crate) mod bypass;
pub(crate) mod call;
pub(crate) mod close;
pub(crate) mod connect;
pub(crate) mod dispatch;
pub(crate) mod fence;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod map;
pub(crate) mod node_loss;
pub(crate) mod polling;
pub(crate) mod probe;
pub(crate) mod quiesce;
pub(crate) mod register;
pub(crate) mod rma;
pub(crate) mod stream;
pub(crate) mod timeouts;
