//! Connection requests that wait at listeners, and granted ones whose accepts were given up.

use alloc::vec::Vec;

use super::{Endpoint, EndpointState, Endpoints};
use crate::base::context::Context;
use crate::base::ids::EndpointId;
use crate::base::owner::Owner;
use crate::base::timers::Timer;
use scif_abi::{NodeId, Port, PortId};

/// A connection request that waits to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    source: PortId,
    connector: u64,
    queue_pair: u64,
    void_at: Option<u64>,
}

impl Request {
    /// A request from `source`. The node of `source` is certain; everything else is untrusted.
    /// `void_at` is the time (ns) from which on the request is void, because its connector cannot
    /// withdraw it and may have given up.
    pub(crate) fn new(
        source: PortId,
        connector: u64,
        queue_pair: u64,
        void_at: Option<u64>,
    ) -> Request {
        Request {
            source,
            connector,
            queue_pair,
            void_at,
        }
    }

    /// The port id that the request came from.
    pub(crate) fn source(&self) -> PortId {
        self.source
    }

    /// The connector's id, which answers echo.
    pub(crate) fn connector(&self) -> u64 {
        self.connector
    }

    /// The bus address of the connector's queue pair.
    pub(crate) fn queue_pair(&self) -> u64 {
        self.queue_pair
    }

    /// The time (ns) from which on the request is void.
    pub(crate) fn void_at(&self) -> Option<u64> {
        self.void_at
    }

    /// Whether the connector may have freed the id and the queue pair in this request, so that not
    /// even a refusal may be sent.
    pub(crate) fn is_void(&self, now: u64) -> bool {
        self.void_at.is_some_and(|at| at <= now)
    }
}

impl Endpoints {
    /// Queues a request for the listener at a port. `false`: no endpoint listens there, or the
    /// backlog is full.
    pub(crate) fn push_request(&mut self, cx: &mut Context, port: Port, request: Request) -> bool {
        let listener = self.ports.listener(port);
        let Some((id, endpoint)) = listener.and_then(|id| Some((id, self.table.get_mut(id)?)))
        else {
            return false;
        };
        if endpoint.queued_requests() >= endpoint.backlog {
            return false;
        }
        endpoint.requests.push_back(request);
        if let Some(at) = request.void_at {
            cx.timers.set_earliest(Timer::RequestExpiry, at);
        }
        // A request that is granted at once is of use to an accept when it is acknowledged.
        if !endpoint.grants_at_once {
            cx.events.changed(id);
        }
        true
    }

    /// The listener at a port and its owner, if it grants requests when they come.
    pub(crate) fn granting_listener(&self, port: Port) -> Option<(EndpointId, Owner)> {
        let listener = self.ports.listener(port)?;
        let endpoint = self.table.get(listener)?;
        endpoint
            .grants_at_once
            .then_some((listener, endpoint.owner))
    }

    /// Takes the first request of a listener.
    pub(crate) fn take_request(&mut self, listener: EndpointId) -> Option<Request> {
        self.table.get_mut(listener)?.requests.pop_front()
    }

    /// Keeps the endpoint of a granted request for the next accept of a listener.
    pub(crate) fn keep_granted(&mut self, cx: &mut Context, listener: EndpointId, new: EndpointId) {
        let Some(endpoint) = self.table.get_mut(listener) else {
            return;
        };
        endpoint.granted.push_back(new);
        let grants_at_once = endpoint.grants_at_once;
        if let Some(kept) = self.table.get_mut(new) {
            kept.kept_by = Some(listener);
            if !grants_at_once || kept.state != EndpointState::Accepting {
                cx.events.changed(listener);
            }
        }
    }

    /// Takes the first endpoint that was kept and that an accept may take.
    pub(crate) fn take_granted(&mut self, listener: EndpointId) -> Option<EndpointId> {
        let index = self.first_due(self.table.get(listener)?)?;
        let new = self.table.get_mut(listener)?.granted.remove(index)?;
        if let Some(taken) = self.table.get_mut(new) {
            taken.kept_by = None;
        }
        Some(new)
    }

    /// The place of the first endpoint that a listener keeps and that an accept may take.
    fn first_due(&self, listener: &Endpoint) -> Option<usize> {
        let is_due = |id: &EndpointId| {
            let kept = self.table.get(*id);
            kept.is_none_or(|kept| is_due(listener, kept))
        };
        listener.granted.iter().position(is_due)
    }

    /// Whether an accept of a listener finds a request, or a connection.
    pub(crate) fn has_connector(&self, listener: &Endpoint) -> bool {
        !listener.requests.is_empty() || self.first_due(listener).is_some()
    }

    /// Takes an endpoint back that was kept for an accept. Returns whether it was.
    pub(super) fn forget_granted(&mut self, kept: EndpointId) -> bool {
        let listener = self.table.get(kept).and_then(|endpoint| endpoint.kept_by);
        if let Some(listener) = listener.and_then(|id| self.table.get_mut(id)) {
            listener.granted.retain(|id| *id != kept);
        }
        listener.is_some()
    }

    /// Removes a queued request that its connector on `node` withdraws. Returns whether it was
    /// queued.
    pub(crate) fn withdraw_request(&mut self, port: Port, node: NodeId, connector: u64) -> bool {
        let listener = self.ports.listener(port);
        let Some(endpoint) = listener.and_then(|id| self.table.get_mut(id)) else {
            return false;
        };
        let matches = |r: &Request| r.connector == connector && r.source.node() == node;
        let position = endpoint.requests.iter().position(matches);
        position.is_some_and(|position| endpoint.requests.remove(position).is_some())
    }

    /// Drops requests whose connectors may have given up, without an answer.
    pub(crate) fn expire_requests(&mut self, cx: &mut Context) {
        let now = cx.now;
        cx.stats.void_requests += self.retain_requests(|request| !request.is_void(now)) as u64;
        let endpoints = self.table.iter().map(|(_, endpoint)| endpoint);
        let left = endpoints.flat_map(|endpoint| &endpoint.requests);
        if let Some(at) = left.filter_map(|request| request.void_at).min() {
            cx.timers.set(Timer::RequestExpiry, at);
        }
    }

    /// Drops the requests of a node that is lost.
    pub(crate) fn drop_requests_from(&mut self, node: NodeId) {
        self.retain_requests(|request| request.source.node() != node);
    }

    /// Drops all requests but those that are wanted. Returns how many it dropped.
    fn retain_requests(&mut self, is_wanted: impl Fn(&Request) -> bool) -> usize {
        let listeners: Vec<EndpointId> = self.ports.listeners().map(|(_, id)| id).collect();
        let mut dropped = 0;
        for listener in listeners {
            if let Some(endpoint) = self.table.get_mut(listener) {
                let before = endpoint.requests.len();
                endpoint.requests.retain(&is_wanted);
                dropped += before - endpoint.requests.len();
            }
        }
        dropped
    }
}

/// Whether an accept may take an endpoint that its listener keeps. Where requests are granted when
/// they come, its connector has to have acknowledged: an accept does not wait for a silent one. A
/// request that an accept granted and gave up is the next accept's in any case.
fn is_due(listener: &Endpoint, kept: &Endpoint) -> bool {
    !listener.grants_at_once || kept.state != EndpointState::Accepting
}
