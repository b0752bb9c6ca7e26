//! The verbs with objects by handle, for other languages; no value here owns an object.
//!
//! Threads may share a context. Each call takes the context's lock, and does what work it can.

mod memory;
mod posting;
mod request;
mod shared;
mod waiting;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;

use hal::lock::{Guard, Mutex};
use scif::NodeId;
use verbs_abi::command::Command;
use verbs_abi::records as abi;
use verbs_core::Subject;
use verbs_core::address::{AddressVector, Gid};
use verbs_core::attributes::Attributes;
use verbs_core::context::{Counts, QpView, Taken};
use verbs_core::table::Id;
use verbs_core::types::AttributeMask;
use verbs_core::work::{QpInit, WorkCompletion};

use crate::bell::Bell;
use crate::clock::Time;
use crate::daemon::{Changes, Daemon, Name, PORT};
use crate::engine::Engine;
use crate::error::Result;
use crate::events::Events;
use crate::open_context::SharedContext;
use crate::relay;
use crate::state::{Cq, State};
use crate::worker::Worker;
use request::{create_qp, each, modify_qp};

pub use self::waiting::WeakContext;
pub use crate::events::AsyncEvent;
pub use crate::memory::Backing;
pub use verbs_abi::records::{QueryDeviceAnswer, QueryPortAnswer};

/// A completion channel. Its events are the values that the program has given its completion
/// queues.
pub type Channel = Events<u64>;

/// Polls in a row that find nothing before a thread yields to others.
const EMPTY_POLLS: u32 = 2000;
/// Further such polls before it yields again.
const MORE_POLLS: u32 = 400;

/// A context of a program that has opened the device.
#[derive(Clone)]
pub struct Context {
    shared: Arc<SharedContext>,
}

impl Context {
    /// Opens the device. `start` has to start a thread that runs [`Worker::run`], which returns
    /// when the context ends.
    ///
    /// # Errors
    /// `ENODEV`: there is no device. `NoMemory`: the user has too many contexts. Those of `start`.
    pub fn open(start: impl FnOnce(Worker) -> Result<()>) -> Result<Self> {
        let node = scif::nodes()?.own;
        let events = Arc::new(Events::new()?);
        let (daemon, incoming) = Daemon::open(events.clone())?;
        let (bell, reader) = Bell::new()?;
        let mut time = Time::new();
        // It tells apart records for a former context at the same port.
        let generation = time.now() as u32 ^ hal::clock::ticks() as u32;
        let state = State {
            engine: Engine::new(node, generation),
            time,
            users: BTreeMap::new(),
            of_ports: BTreeMap::new(),
            cqs: BTreeMap::new(),
            qps: BTreeMap::new(),
            srqs: BTreeMap::new(),
            events: events.clone(),
            armed: BTreeSet::new(),
            is_polled: false,
            is_waiting: false,
            sleeps_shortly: false,
            waits: 0,
            sleepers: 0,
            sleeps_long: false,
            polls: 0,
            looks: 0,
            empty: 0,
            wakes_at: 0,
        };
        let shared = Arc::new(SharedContext {
            daemon: Mutex::new(daemon),
            state: Mutex::new(state),
            waiter: Mutex::new(None),
            bell,
            events,
        });
        start(Worker::new(Arc::downgrade(&shared), reader, incoming)?)?;
        Ok(Self { shared })
    }

    fn lock(&self) -> Guard<'_, State> {
        self.shared.state.lock()
    }

    fn daemon(&self) -> Guard<'_, Daemon> {
        self.shared.daemon.lock()
    }

    /// The descriptor of the device, for commands of the program's own.
    pub fn device_fd(&self) -> usize {
        self.daemon().fd()
    }

    /// The properties and limits of the device.
    ///
    /// # Errors
    /// `EIO`: the daemon has died.
    pub fn query_device(&self) -> Result<QueryDeviceAnswer> {
        let request = abi::QueryDevice::default();
        self.daemon().ask(Command::QueryDevice, &request)
    }

    /// The state and properties of the port.
    ///
    /// # Errors
    /// `EIO`: the daemon has died.
    pub fn query_port(&self) -> Result<QueryPortAnswer> {
        let request = abi::QueryPort {
            port_num: PORT,
            ..abi::QueryPort::default()
        };
        let mut port: QueryPortAnswer = self.daemon().ask(Command::QueryPort, &request)?;
        port.qkey_viol_cntr = self.lock().engine.core.qkey_violations();
        Ok(port)
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.lock().engine.links.node
    }

    /// The number of objects of each kind.
    pub fn counts(&self) -> Counts {
        self.lock().engine.core.counts()
    }

    /// The number of windows on the program's memory that peers can use now.
    pub fn exposed(&self) -> usize {
        self.lock().engine.lanes.exposed()
    }

    /// The queue of asynchronous events.
    pub fn events(&self) -> &Arc<Events<AsyncEvent>> {
        &self.shared.events
    }

    /// Whether both are the same context.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Tells all peers that nothing more comes: for programs that end without closing the context.
    pub fn leave(&self) {
        self.lock().leave();
        self.shared.report();
    }

    /// Wakes the progress thread if it would come too late to the work that is left.
    #[inline]
    fn rouse(&self, state: &mut State) {
        if state.needs_thread() {
            self.shared.bell.ring();
        }
    }

    /// Does the work that a call may have made.
    fn advance(&self, state: &mut State) {
        state.advance();
        self.rouse(state);
    }

    /// Ends a call that has posted. `is_left`: it has left work, or the queue was full, in which
    /// case acknowledgements that make room may have arrived.
    #[inline]
    fn finish(&self, state: &mut State, is_left: bool) {
        match is_left {
            true => state.advance_once(),
            false => state.tell(),
        }
        self.rouse(state);
    }

    // ---- Completion queues ----

    /// Makes a completion queue. `user`: the value that its events carry.
    ///
    /// # Errors
    /// `Invalid`: the size is out of range. `NoMemory`.
    pub fn create_cq(&self, size: u32, channel: Option<&Arc<Channel>>, user: u64) -> Result<Id> {
        let mut daemon = self.daemon();
        let cq = self.lock().engine.core.create_cq(size)?;
        let request = abi::CreateCq {
            user_handle: user,
            cqe: size,
            comp_channel: -1,
            ..abi::CreateCq::default()
        };
        let name = Name::Cq(cq);
        let made = daemon.make::<_, abi::CreateCqAnswer>(name, Command::CreateCq, &request, &[]);
        let mut state = self.lock();
        if let Err(error) = made {
            state.engine.core.destroy_cq(cq)?;
            return Err(error);
        }
        let channel = channel.cloned();
        let of = Cq {
            channel,
            user,
            size,
        };
        state.cqs.insert(cq, of);
        Ok(cq)
    }

    /// Destroys a completion queue. Its events that wait are dropped.
    ///
    /// # Errors
    /// `NotFound`. `Busy`: queue pairs use it.
    pub fn destroy_cq(&self, cq: Id) -> Result<()> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        state.engine.core.destroy_cq(cq)?;
        state.armed.remove(&cq);
        let of = state.cqs.remove(&cq);
        drop(state);
        daemon.end(Name::Cq(cq));
        drop(daemon);
        if let Some((channel, user)) = of.as_ref().and_then(Cq::target) {
            channel.drop_if(|of| *of == user);
        }
        self.forget(Subject::Cq(cq));
        Ok(())
    }

    fn forget(&self, subject: Subject) {
        let is_its = |event: &AsyncEvent| event.subject == Some(subject);
        self.shared.events.drop_if(is_its);
    }

    /// Changes the size of a completion queue.
    ///
    /// # Errors
    /// `NotFound`. `Invalid`: the size is out of range, or the queue holds more completions.
    pub fn resize_cq(&self, cq: Id, size: u32) -> Result<()> {
        let mut daemon = self.daemon();
        let mut ask = |cqe: u32| -> Result<()> {
            let request = abi::ResizeCq {
                cq_handle: daemon.handle(Name::Cq(cq))?,
                cqe,
                ..abi::ResizeCq::default()
            };
            let answer: Result<abi::ResizeCqAnswer> = daemon.ask(Command::ResizeCq, &request);
            answer.map(drop)
        };
        ask(size)?;
        let mut state = self.lock();
        let former = state.cqs.get(&cq).map_or(size, |of| of.size);
        if let Err(error) = state.engine.core.resize_cq(cq, size) {
            drop(state);
            ask(former)?;
            return Err(error.into());
        }
        if let Some(of) = state.cqs.get_mut(&cq) {
            of.size = size;
        }
        Ok(())
    }

    /// Takes up to `most` completions, passes each to `sink`, and returns how many. If there are
    /// none, looks for what peers have sent.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn poll_cq(
        &self,
        cq: Id,
        most: usize,
        mut sink: impl FnMut(WorkCompletion),
    ) -> Result<usize> {
        let mut state = self.lock();
        state.polls = state.polls.wrapping_add(1);
        let mut count = state.engine.core.take_completions(cq, most, &mut sink)?;
        if count == 0 && self.look(&mut state) {
            count = state.engine.core.take_completions(cq, most, &mut sink)?;
            self.rouse(&mut state);
        }
        state.empty = match count {
            0 => state.empty.wrapping_add(1),
            _ => 0,
        };
        let empty = state.empty;
        drop(state);
        // Other threads may have to run before something arrives.
        if empty > EMPTY_POLLS && empty.is_multiple_of(MORE_POLLS) {
            hal::pause::yield_now();
        }
        Ok(count)
    }

    /// Looks for what peers have sent. Returns whether there may be completions now.
    fn look(&self, state: &mut State) -> bool {
        if !state.is_polled {
            let is_quiet = state.is_quiet();
            if !is_quiet {
                state.advance();
            }
            return !is_quiet;
        }
        match state.engine.take_messages() {
            Taken::Nothing if state.is_early() => return false,
            Taken::All => state.tell(),
            Taken::Nothing | Taken::More => state.advance_once(),
        }
        true
    }

    /// Arms a completion queue: the next completion, or with `solicited_only` the next solicited
    /// one or error, raises an event.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn req_notify_cq(&self, cq: Id, solicited_only: bool) -> Result<()> {
        let mut state = self.lock();
        state.engine.core.req_notify_cq(cq, solicited_only)?;
        if state.cqs.get(&cq).and_then(Cq::target).is_some() {
            state.armed.insert(cq);
            if state.is_polled {
                // The program is about to sleep.
                self.shared.bell.ring();
            }
        }
        Ok(())
    }

    // ---- Address handles ----

    /// Makes an address handle.
    ///
    /// # Errors
    /// `NotFound`: there is no such domain. `Invalid`: the local identifier is 0, or a value is
    /// out of range. `NoMemory`.
    pub fn create_ah(&self, pd: Id, vector: AddressVector) -> Result<Id> {
        let mut daemon = self.daemon();
        let global = vector.global.unwrap_or_default();
        let request = abi::CreateAh {
            pd_handle: daemon.handle(Name::Pd(pd))?,
            attr: abi::AhAttributes {
                dgid: global.gid,
                flow_label: global.flow_label,
                hop_limit: global.hop_limit,
                traffic_class: global.traffic_class,
                dlid: vector.lid,
                sl: vector.service_level,
                is_global: vector.global.is_some().into(),
                port_num: PORT,
                ..abi::AhAttributes::default()
            },
            ..abi::CreateAh::default()
        };
        let ah = self.lock().engine.core.create_ah(pd, vector)?;
        let name = Name::Ah(ah);
        let made = daemon.make::<_, abi::CreateAhAnswer>(name, Command::CreateAh, &request, &[]);
        let mut state = self.lock();
        if let Err(error) = made {
            state.engine.core.destroy_ah(ah)?;
            return Err(error);
        }
        state.count(pd, 1);
        Ok(ah)
    }

    /// Destroys an address handle of a protection domain. Datagrams that were posted with it are
    /// still sent.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn destroy_ah(&self, pd: Id, ah: Id) -> Result<()> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        state.engine.core.destroy_ah(ah)?;
        state.count(pd, -1);
        drop(state);
        daemon.end(Name::Ah(ah));
        Ok(())
    }

    /// Makes a queue pair a member of a group.
    ///
    /// # Errors
    /// `NotFound`: the queue pair. `Invalid`: its type, or the identifiers are not those of a
    /// group. `NoMemory`.
    pub fn attach_multicast(&self, number: u32, gid: Gid, lid: u16) -> Result<()> {
        let mut daemon = self.daemon();
        let request = abi::Multicast {
            gid,
            qp_handle: daemon.handle(Name::Qp(number))?,
            mlid: lid,
            reserved: 0,
        };
        let mut state = self.lock();
        // What has arrived was sent before the queue pair joined, and is not for it.
        self.advance(&mut state);
        let was_member = state.engine.core.is_member(number, &gid);
        state.engine.core.attach_multicast(number, gid, lid)?;
        drop(state);
        let told = daemon.ask::<_, ()>(Command::AttachMcast, &request);
        // Connecting may take a second. Calls of other threads go on meanwhile.
        drop(daemon);
        let joined = told.and_then(|()| self.join_relay());
        if joined.is_err() && !was_member {
            // The error is that another thread has destroyed the queue pair.
            let _ = self.lock().engine.core.detach_multicast(number, gid);
            let _ = self.daemon().ask::<_, ()>(Command::DetachMcast, &request);
        }
        joined
    }

    /// Makes the relay pass datagrams to groups on to this program, from now on.
    fn join_relay(&self) -> Result<()> {
        let state = self.lock();
        let node = state.engine.links.node;
        if state.engine.has_relay() {
            return Ok(());
        }
        drop(state);
        let endpoint = relay::connect(node)?;
        self.lock().engine.add_relay(endpoint);
        self.shared.bell.ring();
        Ok(())
    }

    /// Excludes a queue pair from receiving the datagrams to groups that it has sent itself.
    ///
    /// # Errors
    /// `NotFound`: the queue pair. `Invalid`: its type is not UD.
    pub fn drop_own(&self, number: u32) -> Result<()> {
        let mut state = self.lock();
        let lid = crate::address::lid(state.engine.links.node);
        Ok(state.engine.core.drop_own(number, lid)?)
    }

    /// Removes a queue pair from a group.
    ///
    /// # Errors
    /// `Invalid`: it is not a member.
    pub fn detach_multicast(&self, number: u32, gid: Gid, lid: u16) -> Result<()> {
        let mut daemon = self.daemon();
        let request = abi::Multicast {
            gid,
            qp_handle: daemon.handle(Name::Qp(number))?,
            mlid: lid,
            reserved: 0,
        };
        let told = daemon.ask::<_, ()>(Command::DetachMcast, &request);
        // A daemon that has died has no members any more, and the queue pair must be able to end.
        if !daemon.is_lost() {
            told?;
        }
        Ok(self.lock().engine.core.detach_multicast(number, gid)?)
    }

    /// Datagrams that were dropped because their key was not that of the receiver.
    pub fn qkey_violations(&self) -> u32 {
        self.lock().engine.core.qkey_violations()
    }

    // ---- Queue pairs ----

    /// Creates a queue pair and returns its number. `user`: the value that its events carry.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range, or objects of another domain. `NotFound`: an object.
    /// `NotSupported`: the type. `NoMemory`. Those of making a listener.
    pub fn create_qp(&self, mut init: QpInit, user: u64) -> Result<u32> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        if let Some(domain) = init.xrcd {
            daemon.handle(Name::Xrcd(domain))?;
            // This chooses only the port, and so the lane: which memory peers reach by it is
            // decided when they ask for a key.
            init.pd = state.domain_of_ports(domain)?;
        }
        let now = state.time.now();
        let number = state.engine.take_number(init.pd, now)?;
        if let Err(error) = state.engine.core.create_qp(number, init) {
            state.engine.links.give_back(number);
            return Err(error.into());
        }
        drop(state);
        let request = create_qp(&daemon, &init, user);
        let made = request.and_then(|request| {
            let (name, command) = (Name::Qp(number), Command::CreateQp);
            daemon.make::<_, abi::CreateQpAnswer>(name, command, &request, &[number, 0])
        });
        let mut state = self.lock();
        if let Err(error) = made {
            state.engine.core.destroy_qp(number)?;
            state.engine.links.give_back(number);
            return Err(error);
        }
        state.qps.insert(number, user);
        state.count(init.pd, 1);
        drop(state);
        // The progress thread has to watch the listener.
        self.shared.bell.ring();
        Ok(number)
    }

    /// Destroys a queue pair, with its posted requests and its completions.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn destroy_qp(&self, number: u32) -> Result<()> {
        let mut daemon = self.daemon();
        let mut state = self.lock();
        let view = state.engine.core.query_qp(number)?;
        let pd = view.init.pd;
        state.engine.core.destroy_qp(number)?;
        state.engine.links.give_back(number);
        state.qps.remove(&number);
        state.count(pd, -1);
        self.advance(&mut state);
        drop(state);
        daemon.report(&Changes {
            qps: vec![(number, view)],
            ..Changes::default()
        });
        daemon.end(Name::Qp(number));
        drop(daemon);
        self.forget(Subject::Qp(number));
        Ok(())
    }

    /// Changes the state or the attributes of a queue pair.
    ///
    /// # Errors
    /// `NotFound`. `NotSupported`: the mask has unknown bits. `Invalid`: a value is out of range,
    /// or this change of state is not allowed with this mask. After an error nothing has changed.
    pub fn modify_qp(&self, number: u32, new: &Attributes, mask: AttributeMask) -> Result<()> {
        let mut daemon = self.daemon();
        // If the queue pair has entered an error state by itself, the daemon has to know that
        // first.
        let view = self.lock().engine.core.query_qp(number)?;
        daemon.report(&Changes {
            qps: vec![(number, view)],
            ..Changes::default()
        });
        let request = modify_qp(daemon.handle(Name::Qp(number))?, new, mask);
        daemon.ask::<_, ()>(Command::ModifyQp, &request)?;
        let mut state = self.lock();
        state.engine.core.modify_qp(number, new, mask)?;
        state.engine.follow(number, mask, new.state);
        self.advance(&mut state);
        Ok(())
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn query_qp(&self, number: u32) -> Result<QpView> {
        Ok(self.lock().engine.core.query_qp(number)?)
    }
}

#[cfg(test)]
mod tests;
