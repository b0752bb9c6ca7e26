//! An endpoint, and the state that the scheme keeps beside the engine's.

use alloc::boxed::Box;

use scif_abi::PortId;
use scif_abi::flags::Readiness;
use scif_core::{EndpointId, Side};

use crate::handle::messages::Messages;
use crate::request::transfer_queue::TransferQueue;

/// An endpoint behind a handle.
pub(crate) struct Endpoint<R> {
    id: EndpointId,
    /// The descriptor's `O_NONBLOCK`, as last set.
    is_nonblocking: bool,
    is_listening: bool,
    /// The target of a connect that `open` started with `O_NONBLOCK`, until it is collected.
    connecting: Option<PortId>,
    /// The events for which the engine notifies subscribers.
    subscribed: Option<Readiness>,
    outgoing: TransferQueue<R>,
    incoming: TransferQueue<R>,
    /// The messages, if the connection's stream carries messages.
    messages: Option<Box<Messages>>,
}

impl<R> Endpoint<R> {
    pub fn new(id: EndpointId, is_nonblocking: bool) -> Self {
        Self {
            id,
            is_nonblocking,
            is_listening: false,
            connecting: None,
            subscribed: None,
            outgoing: TransferQueue::default(),
            incoming: TransferQueue::default(),
            messages: None,
        }
    }

    /// An endpoint that is being connected in the background.
    pub fn connecting(id: EndpointId, to: PortId) -> Self {
        Self {
            connecting: Some(to),
            ..Self::new(id, true)
        }
    }

    /// The engine's name for the endpoint.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    /// Replaces the endpoint by another one, of which no subscriber was notified. Returns the old
    /// one's name.
    pub fn replace(&mut self, id: EndpointId) -> EndpointId {
        self.subscribed = None;
        core::mem::replace(&mut self.id, id)
    }

    /// Whether calls on it do not wait, where they do not say that themselves.
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking
    }

    /// Records that `O_NONBLOCK` was set or cleared.
    pub fn set_nonblocking(&mut self, is_nonblocking: bool) {
        self.is_nonblocking = is_nonblocking;
    }

    pub fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// Records that the endpoint listens.
    pub fn listen(&mut self) {
        self.is_listening = true;
    }

    /// The port to which it is being connected in the background.
    pub fn connects_to(&self) -> Option<PortId> {
        self.connecting
    }

    /// Records that the background connect was collected.
    pub fn end_connect(&mut self) {
        self.connecting = None;
    }

    /// Sets the events for which subscribers are notified; `None` while the endpoint has no rings.
    /// Returns the events to set in the engine, if they differ: each setting counts as a change.
    pub fn subscribe(&mut self, events: Option<Readiness>) -> Option<Readiness> {
        let before = core::mem::replace(&mut self.subscribed, events);
        events.filter(|_| events != before)
    }

    /// Makes the stream carry messages.
    pub fn set_messages(&mut self, messages: Messages) {
        self.messages = Some(Box::new(messages));
    }

    /// The messages, if the stream carries messages.
    pub fn messages(&mut self) -> Option<&mut Messages> {
        self.messages.as_deref_mut()
    }

    /// The queue of waiting transfers of one side.
    pub fn queue(&mut self, side: Side) -> &mut TransferQueue<R> {
        match side {
            Side::Send => &mut self.outgoing,
            Side::Receive => &mut self.incoming,
        }
    }
}
