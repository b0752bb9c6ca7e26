//! The engine: all parts of a node's SCIF state, put together.
//!
//! The calls are in `flow/`, as is the handling of peers' messages (`flow/dispatch.rs`); the
//! driver's loop is in `run.rs`.

use crate::base::config::Config;
use crate::base::context::Context;
use crate::base::owner::Owner;
use crate::base::quota::{Resource, Scope};
use crate::base::trace::Tracer;
use crate::bypass::Bypass;
use crate::call::Calls;
use crate::connection::Connections;
use crate::endpoint::Endpoints;
use crate::node::Nodes;
use crate::rma::Transfers;
use crate::window::Windows;
use alloc::boxed::Box;

use scif_abi::limits;
use scif_abi::trace::What;
use scif_abi::{Error, NodeId};

/// The SCIF state of a node, in parts that each own their state. Flows and views use all of them.
pub struct Engine {
    pub(super) cx: Context,
    pub(super) endpoints: Endpoints,
    pub(super) connections: Connections,
    pub(super) nodes: Nodes,
    pub(super) bypass: Bypass,
    pub(super) windows: Windows,
    pub(super) transfers: Transfers,
    pub(super) calls: Calls,
}

impl Engine {
    /// Makes an engine without links. Loopback connections work at once. Ring sizes of `config`
    /// that are out of range are replaced by the nearest power of two in range.
    pub fn new(mut config: Config) -> Engine {
        let min = limits::MIN_RING_BYTES;
        let round = |bytes: u32, max: u32| bytes.clamp(min, max).next_power_of_two();
        config.endpoint_ring_bytes =
            round(config.endpoint_ring_bytes, limits::MAX_ENDPOINT_RING_BYTES);
        config.node_ring_bytes = round(config.node_ring_bytes, limits::MAX_RING_BYTES);
        Engine {
            cx: Context::new(config),
            endpoints: Endpoints::new(),
            connections: Connections::new(),
            nodes: Nodes::default(),
            bypass: Bypass::new(),
            windows: Windows::new(),
            transfers: Transfers::new(),
            calls: Calls::new(),
        }
    }

    /// This node's number.
    pub fn node(&self) -> NodeId {
        self.cx.config.node
    }

    /// The settings in use.
    pub fn config(&self) -> &Config {
        &self.cx.config
    }

    /// Records events with `tracer` from now on.
    pub fn set_tracer(&mut self, tracer: Box<dyn Tracer>) {
        self.cx.set_tracer(tracer);
    }

    /// Records an event that the driver reports; [`What`] defines `value`.
    pub fn trace(&mut self, what: What, node: NodeId, value: u64) {
        self.cx.trace(what, node, value);
    }

    /// The time (ns) of the last [`tick`](Self::tick).
    pub fn now(&self) -> u64 {
        self.cx.now
    }

    /// The limit of a resource.
    pub fn limit(&self, resource: Resource, scope: Scope) -> u64 {
        self.cx.quotas.limits.get(resource, scope)
    }

    /// Changes a limit. An owner that holds more than the new limit keeps it, and gets no more.
    pub fn set_limit(&mut self, resource: Resource, scope: Scope, value: u64) {
        self.cx.quotas.limits.set(resource, scope, value);
    }

    /// How much of a resource a user, or a process, holds.
    pub fn used(&self, resource: Resource, scope: Scope, number: u32) -> u64 {
        self.cx.quotas.used(resource, scope, number)
    }

    /// Charges a resource that the driver or the scheme keeps to its owner.
    ///
    /// # Errors
    /// The error of the resource, when the owner would hold too much.
    pub fn charge(&mut self, owner: Owner, resource: Resource, amount: u64) -> Result<(), Error> {
        self.cx.quotas.charge(owner, resource, amount)
    }

    /// Charges such a resource whatever the limits are: it exists already, or cannot be refused.
    pub fn charge_anyway(&mut self, owner: Owner, resource: Resource, amount: u64) {
        self.cx.quotas.add(owner, resource, amount);
    }

    /// Takes `amount` of such a resource off the owner's account.
    pub fn discharge(&mut self, owner: Owner, resource: Resource, amount: u64) {
        self.cx.quotas.discharge(owner, resource, amount);
    }
}
