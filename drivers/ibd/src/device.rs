//! The device: all contexts, and their progress.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use client_memory::borrow::Wanted;
use mad_core::node::Node;
use mad_core::pma::Traffic;
use syscall::error::{EINVAL, EIO, ENODEV, Error, Result};
use syscall::flag::EventFlags;
use verbs_core::types::EventType;

use crate::command::{self, Outcome};
use crate::context::{Context, Owner};
use crate::error::fail;
use crate::identity::{PORT, PortState};
use crate::limits::Kind;
use crate::mad::Mads;
use crate::shared::Shared;
use crate::streams::Streams;

/// The number of a context, which is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(pub u64);

/// The device `scif0`, with its contexts and its port.
pub struct Device {
    /// The state that all contexts share.
    pub shared: Shared,
    /// Management datagrams.
    pub mads: Mads,
    scif: Streams,
    contexts: BTreeMap<ContextId, Context>,
    last: u64,
    /// Whether the number of the node is known. Before that no context can be opened.
    is_placed: bool,
}

impl Device {
    /// The device of a node, without contexts.
    pub fn new(node: u16) -> Device {
        Device {
            shared: Shared::new(node),
            mads: {
                let mut mads = Mads::default();
                mads.place(node);
                mads
            },
            scif: Streams::default(),
            contexts: BTreeMap::new(),
            last: 0,
            is_placed: true,
        }
    }

    /// The device of a node whose number is not known yet: [`open`](Device::open) fails until
    /// [`set_node`](Device::set_node).
    pub fn unplaced() -> Device {
        Device {
            is_placed: false,
            mads: Mads::default(),
            ..Device::new(0)
        }
    }

    /// Sets the number of the node. Returns whether it was unknown before.
    pub fn set_node(&mut self, node: u16) -> bool {
        self.shared.node = node;
        self.mads.place(node);
        !core::mem::replace(&mut self.is_placed, true)
    }

    /// Opens a context.
    ///
    /// # Errors
    /// `ENODEV`: the number of the node is not known. `ENOMEM`: the user has too many contexts.
    pub fn open(&mut self, owner: Owner) -> Result<ContextId> {
        if !self.is_placed {
            return fail(ENODEV);
        }
        self.shared.accounts.charge(owner.uid, Kind::Contexts, 1)?;
        self.last += 1;
        let id = ContextId(self.last);
        // A new generation, by which peers tell a queue pair from one that had the same number
        // before this daemon began.
        let generation = hal::clock::ticks() as u32;
        let context = Context::new(owner, self.shared.node, generation);
        self.contexts.insert(id, context);
        Ok(id)
    }

    /// Ends a context: destroys its objects, those made last first, then the context itself.
    /// Returns the descriptors of events that are to be notified of the end.
    pub fn close(&mut self, id: ContextId) -> Vec<usize> {
        let Some(mut context) = self.contexts.remove(&id) else {
            return Vec::new();
        };
        command::destroy_all(&mut self.shared, &mut context);
        self.shared
            .accounts
            .release(context.owner.uid, Kind::Contexts, 1);
        context.end_queues()
    }

    /// Returns a context.
    ///
    /// # Errors
    /// `EIO`: the context has gone.
    pub fn context(&self, id: ContextId) -> Result<&Context> {
        self.contexts.get(&id).ok_or(Error::new(EIO))
    }

    /// Returns a context, for changes.
    ///
    /// # Errors
    /// `EIO`: the context has gone.
    pub fn context_mut(&mut self, id: ContextId) -> Result<&mut Context> {
        self.contexts.get_mut(&id).ok_or(Error::new(EIO))
    }

    /// All contexts.
    pub fn contexts(&self) -> impl Iterator<Item = (ContextId, &Context)> {
        self.contexts.iter().map(|(id, context)| (*id, context))
    }

    /// Executes a command. With `is_exact`, `bytes` is the command and nothing more. The answer is
    /// at most as long as the room that the command names. `now` is in nanoseconds of a clock that
    /// only goes forward.
    pub fn execute(&mut self, id: ContextId, bytes: &[u8], is_exact: bool, now: u64) -> Outcome {
        let Some(context) = self.contexts.get_mut(&id) else {
            return (Vec::new(), fail(EIO));
        };
        let outcome = command::execute(&mut self.shared, context, bytes, is_exact);
        // Pages that the command did not use are unmapped.
        context.pages = None;
        let totals = &mut self.shared.totals;
        totals.commands += 1;
        totals.refused += u64::from(outcome.1.is_err());
        self.progress_of(id, now);
        outcome
    }

    /// Returns the pages that a command is about to register, if it registers memory and can
    /// succeed.
    pub fn wanted_pages(&self, id: ContextId, bytes: &[u8], is_exact: bool) -> Option<Wanted> {
        let context = self.contexts.get(&id)?;
        command::wanted_pages(context, bytes, is_exact)
    }

    /// Takes reports of a library about its objects. Returns how many of the objects exist.
    ///
    /// # Errors
    /// `EIO`: the context has gone. `EINVAL`: the bytes are no reports.
    pub fn report(&mut self, id: ContextId, kind: u64, bytes: &[u8]) -> Result<usize> {
        let context = self.contexts.get_mut(&id).ok_or(Error::new(EIO))?;
        let count = command::report::take(context, &mut self.shared.totals, kind, bytes);
        self.update_traffic();
        count
    }

    /// Takes the SCIF driver's table of the bytes that have passed between this node and others.
    /// `carried` has the bytes that the daemon itself has sent and received over SCIF since it
    /// began, which have counters of their own.
    pub fn note_scif(&mut self, table: &str, carried: [u64; 2]) {
        self.scif.note(table, self.shared.node, carried);
        for context in self.contexts.values_mut() {
            // A context with queue pairs that the daemon runs has SCIF ports, so it counts as
            // connected.
            if context.engine.is_connected() {
                command::report::note_all(context, &mut self.shared.totals);
            }
        }
        self.update_traffic();
    }

    /// Sets the port's counters to the traffic other than management datagrams. Bytes of verbs'
    /// messages are counted as bytes of SCIF streams; bytes stored into and loaded from windows
    /// pass no stream, so they are added.
    fn update_traffic(&mut self) {
        let totals = &self.shared.totals;
        let [sent, received] = self.scif.bytes();
        let [sent_packets, received_packets] = self.scif.packets();
        self.mads.set_traffic(Traffic {
            sent_bytes: sent.wrapping_add(totals.stored_bytes),
            received_bytes: received.wrapping_add(totals.loaded_bytes),
            sent_packets: sent_packets.wrapping_add(totals.sends),
            received_packets: received_packets.wrapping_add(totals.receives),
            discarded: 0,
        });
    }

    /// All traffic that has passed the port: SCIF's, what libraries of verbs have moved besides,
    /// and management datagrams.
    pub fn traffic(&self) -> Traffic {
        self.mads.node().map(Node::traffic).unwrap_or_default()
    }

    /// Makes progress on a context and passes its events to their descriptors.
    fn progress_of(&mut self, id: ContextId, now: u64) {
        let Some(context) = self.contexts.get_mut(&id) else {
            return;
        };
        let (asynchronous, completions) = context.progress(now);
        self.shared.totals.async_events += asynchronous;
        self.shared.totals.completion_events += completions;
    }

    /// Serves the connections of the queue pairs that commands post to. Call it after an event of
    /// such a connection and when [`next_look`](Device::next_look) says so. `subscribe` has an
    /// event queue report events of a connection.
    pub fn serve(&mut self, now: u64, mut subscribe: impl FnMut(usize, EventFlags) -> Result<()>) {
        let connected = self.contexts.iter();
        let connected = connected.filter(|(_, context)| context.engine.is_connected());
        let ids: Vec<ContextId> = connected.map(|(id, _)| *id).collect();
        let mut watch = |fd, flags, _| subscribe(fd, flags);
        for id in ids {
            if let Some(context) = self.contexts.get_mut(&id) {
                context.engine.serve(now);
                context.engine.watch(&mut watch, false, false);
            }
            self.progress_of(id, now);
            // Records may have found no room on a connection, or room may have come, so the events
            // to watch for may differ.
            if let Some(context) = self.contexts.get_mut(&id) {
                context.engine.watch(&mut watch, false, false);
            }
        }
    }

    /// When to call [`serve`](Device::serve) if no event comes, in nanoseconds.
    pub fn next_look(&mut self) -> Option<u64> {
        let engines = self
            .contexts
            .values_mut()
            .map(|context| &mut context.engine);
        let connected = engines.filter(|engine| engine.is_connected());
        connected.filter_map(|engine| engine.next_look()).min()
    }

    /// Makes progress on the contexts that are due.
    pub fn progress(&mut self, now: u64) {
        let has_come = |context: &Context| context.deadline().is_some_and(|until| until <= now);
        let contexts = self.contexts.iter();
        let due = contexts
            .filter(|(_, context)| has_come(context))
            .map(|(id, _)| *id);
        let due: Vec<ContextId> = due.collect();
        for id in due {
            self.progress_of(id, now);
        }
    }

    /// When to call [`progress`](Device::progress), in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.contexts.values().filter_map(Context::deadline).min()
    }

    /// Makes a completion channel of a context and returns its number.
    ///
    /// # Errors
    /// `EIO`: the context has gone. `EINVAL`: it has not executed GET_CONTEXT. `EMFILE`: it has
    /// too many channels.
    pub fn add_channel(&mut self, id: ContextId) -> Result<u32> {
        let context = self.contexts.get_mut(&id).ok_or(Error::new(EIO))?;
        if !context.is_begun {
            return fail(EINVAL);
        }
        command::add_channel(&mut self.shared, context)
    }

    /// Notes that the last descriptor of a completion channel was closed. The context may have
    /// gone already.
    pub fn abandon_channel(&mut self, id: ContextId, number: u32) {
        if let Some(context) = self.contexts.get_mut(&id) {
            command::abandon_channel(&mut self.shared, context, number);
        }
    }

    /// Sets the state of the port. If it changes, all contexts get an event.
    pub fn set_port(&mut self, state: PortState) {
        if self.shared.port == state {
            return;
        }
        self.shared.port = state;
        let kind = match state {
            PortState::Active => EventType::PortActive,
            PortState::Down => EventType::PortErr,
        };
        for context in self.contexts.values_mut() {
            context.push_async(None, PORT.into(), kind as u32);
            self.shared.totals.async_events += 1;
        }
    }

    /// Passes the events that management datagrams have caused to all contexts.
    pub fn pass_mad_events(&mut self) {
        while let Some(event) = self.mads.next_event() {
            let kind = match event {
                mad_core::node::Event::ClientReregister => EventType::ClientReregister,
            };
            for context in self.contexts.values_mut() {
                context.push_async(None, PORT.into(), kind as u32);
                self.shared.totals.async_events += 1;
            }
        }
    }

    /// Takes the descriptors whose queues have got events since the last call.
    pub fn take_woken(&mut self) -> Vec<usize> {
        let contexts = self.contexts.values_mut();
        contexts.flat_map(Context::take_woken).collect()
    }
}
