//! An endpoint and what the scheme keeps beside the engine's state.

use alloc::boxed::Box;

use scif_abi::PortId;
use scif_abi::flags::Readiness;
use scif_core::{EndpointId, Side};

use crate::handle::messages::Messages;
use crate::request::transfer_queue::TransferQueue;

/// An endpoint behind a handle.
pub(crate) struct Endpoint<R> {
    id: EndpointId,
    /// `O_NONBLOCK` of the descriptor, as last set.
    is_nonblocking: bool,
    is_listening: bool,
    /// Set while a connect that `open` started with `O_NONBLOCK` has not been collected.
    connecting: Option<PortId>,
    /// Changes in the engine that subscribers are notified of.
    subscribed: Option<Readiness>,
    outgoing: TransferQueue<R>,
    incoming: TransferQueue<R>,
    /// Of a connection whose stream carries messages.
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

    /// One that is being connected in the background.
    pub fn connecting(id: EndpointId, to: PortId) -> Self {
        Self {
            connecting: Some(to),
            ..Self::new(id, true)
        }
    }

    /// The engine's name for it.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    /// Another endpoint takes its place, of which no subscriber was notified; returns its own name.
    pub fn replace(&mut self, id: EndpointId) -> EndpointId {
        self.subscribed = None;
        core::mem::replace(&mut self.id, id)
    }

    /// Whether its calls do not wait, where they do not say that themselves.
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking
    }

    /// `O_NONBLOCK` has been set or cleared.
    pub fn set_nonblocking(&mut self, is_nonblocking: bool) {
        self.is_nonblocking = is_nonblocking;
    }

    pub fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// It listens from now on.
    pub fn listen(&mut self) {
        self.is_listening = true;
    }

    /// The port that it is being connected to in the background.
    pub fn connects_to(&self) -> Option<PortId> {
        self.connecting
    }

    /// The connect in the background has been collected.
    pub fn end_connect(&mut self) {
        self.connecting = None;
    }

    /// Changes that subscribers are to be notified of; `None` while it has no rings. Returns what
    /// is to be set in the engine, if it differs: each setting counts as a change.
    pub fn subscribe(&mut self, events: Option<Readiness>) -> Option<Readiness> {
        let before = core::mem::replace(&mut self.subscribed, events);
        events.filter(|_| events != before)
    }

    /// Its stream carries messages.
    pub fn set_messages(&mut self, messages: Messages) {
        self.messages = Some(Box::new(messages));
    }

    /// The messages that its stream carries, if it does.
    pub fn messages(&mut self) -> Option<&mut Messages> {
        self.messages.as_deref_mut()
    }

    /// The transfers that wait on one side.
    pub fn queue(&mut self, side: Side) -> &mut TransferQueue<R> {
        match side {
            Side::Send => &mut self.outgoing,
            Side::Receive => &mut self.incoming,
        }
    }
}
