//! The SCIF connections of ids, and the thread that serves them.
//!
//! A program has one thread, which starts with its first id and sleeps as long as nothing happens
//! on the connections. It reports what happens as [`LinkEvent`]s in the event channels of ids.

mod steps;
mod worker;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hal::lock::Mutex;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use runtime::thread;
use runtime::time::Instant;
use scif::{Endpoint, Errno, Listener, PortId, RecvFlags, SendFlags};
use syscall::error::{EHOSTUNREACH, EINVAL, ETIMEDOUT};
use syscall::flag::EventFlags;
use verbs::Events;

use self::worker::Worker;
use super::frame::{Frame, Kind};
use super::group::Group;
use super::port_space::{RC, UD, type_in};
use crate::{Result, errno_of};

/// Most connections whose peers have not sent their request yet.
const MOST_SILENT: usize = 128;
/// Bytes of frames that a connection buffers before they are decoded.
const MOST_BYTES: usize = 4096;
/// How long an end waits for the answer to `Reply` or `Disconnect`: about as long as Linux sends
/// these again, 15 times, some four seconds apart.
const PATIENCE: Duration = Duration::from_secs(64);
/// Reason of a refusal when no program listens: `IB_CM_REJ_INVALID_SERVICE_ID`.
const NO_SERVICE: i32 = 8;
/// Reason of a refusal by the program that listens: `IB_CM_REJ_CONSUMER_DEFINED`.
pub const BY_PROGRAM: i32 = 28;
/// Status of a failed lookup when no program listens: `IB_SIDR_UNSUPPORTED`.
const NO_PLACE: i32 = 1;
/// Status of a lookup that the listening program refuses: `IB_SIDR_REJECT`.
const PLACE_REFUSED: i32 = 2;

/// The number of a connection or listener; 0 means none.
pub type LinkId = u64;

/// The kind of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkEventKind {
    /// An operation that was done at once: the number of the event, and the status.
    Done(u32, i32),
    /// A peer requests a connection with this listener.
    Request(LinkId, PortId, Frame),
    /// The peer accepts.
    Reply(Frame),
    /// The peer, or its node, refuses.
    Rejected(i32, Vec<u8>),
    /// The peer's node cannot be reached, or the peer does not answer the acceptance.
    Unreachable(i32),
    /// The peer that has requested the connection can receive.
    Ready,
    /// The connection has ended; with the status.
    Disconnected(i32),
    /// The peer answers where it receives datagrams.
    Found(Frame),
    /// The id is in a group, or will be once its program has taken this event.
    Joined(Group),
}

/// The id or link that an event is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// The id at this address.
    Id(usize),
    /// The id of this connection.
    Link(LinkId),
}

/// An event of an id or a link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkEvent {
    pub target: Target,
    pub kind: LinkEventKind,
}

/// Events that have not been taken.
pub type Channel = Events<LinkEvent>;

enum Transport {
    Listener(Listener),
    Endpoint(Endpoint),
}

enum Stage {
    /// It listens in this port space, with at most this many requests that the program has not
    /// taken.
    Listening(u32, usize),
    /// The connection is being made; then the frame is sent.
    Connecting(PortId, Frame),
    /// The peer has not sent its request for this listener, which listens in this port space.
    Silent(LinkId, PortId, u32),
    /// Both ends have sent or received the request.
    Open,
    /// The connection is over: it causes no more events.
    Over,
}

/// The role of an end in a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// It has requested a lasting connection.
    Client,
    /// It answers such a request.
    Server,
    /// It asks where to send datagrams.
    Asker,
    /// It answers that question, once.
    Asked,
}

struct Link {
    transport: Transport,
    stage: Stage,
    part: Part,
    arrived: Vec<u8>,
    /// The buffer is full: more may have arrived.
    is_full: bool,
    /// Whether the peer's request, or this end's, was answered.
    is_answered: bool,
    /// Whether this end, which has requested the connection, has told the peer that it can receive.
    is_ready: bool,
    /// Whether both ends have accepted; an end before that is a refusal.
    is_established: bool,
    /// Whether this end has ended the connection, which the peer confirms.
    is_leaving: bool,
    /// When the peer's answer to this end's acceptance, or to its end, must have come.
    deadline: Option<Instant>,
    channel: Arc<Channel>,
    /// The address of its id; 0 as long as it has none.
    owner: usize,
    /// Events of a requested connection, until it has an id.
    early: Vec<LinkEvent>,
    /// The listener that has accepted it; 0 means none.
    listener: LinkId,
    /// The slot in which the thread's event queue watches it.
    slot: Option<usize>,
    watched: EventFlags,
}

/// All connections and listeners of the program.
pub struct Links {
    links: BTreeMap<LinkId, Link>,
    last: LinkId,
    /// The pipe that wakes the thread, once there is one.
    bell: Option<Fd>,
}

pub static LINKS: Mutex<Links> = Mutex::new(Links {
    links: BTreeMap::new(),
    last: 0,
    bell: None,
});

impl Links {
    fn add(&mut self, transport: Transport, stage: Stage, channel: Arc<Channel>) -> LinkId {
        self.last += 1;
        let link = Link {
            transport,
            stage,
            part: Part::Client,
            arrived: Vec::new(),
            is_full: false,
            is_answered: false,
            is_ready: false,
            is_established: false,
            is_leaving: false,
            deadline: None,
            channel,
            owner: 0,
            early: Vec::new(),
            listener: 0,
            slot: None,
            watched: EventFlags::empty(),
        };
        self.links.insert(self.last, link);
        self.last
    }

    /// Ends a connection or listener, with the listener's connections that have no request yet.
    fn end(&mut self, id: LinkId) {
        self.links.remove(&id);
        self.links.retain(|_, link| match &link.stage {
            Stage::Silent(listener, ..) => *listener != id,
            _ => true,
        });
    }

    /// In the child of a fork: forgets all connections and listeners, which are the parent's, and
    /// must not be ended here. The numbers go on, as the parent's ids keep theirs.
    pub fn leave_to_parent(&mut self) {
        core::mem::forget(core::mem::take(&mut self.links));
        self.bell = None;
    }

    /// Wakes the thread, or starts it if there is none.
    fn ring(&mut self) -> Result<()> {
        if self.bell.is_none() {
            let flags = O_RDWR | O_CLOEXEC | O_NONBLOCK;
            let reader = Fd::open("/scheme/pipe", flags, 0).map_err(|error| error.errno())?;
            let writer = Fd::new(reader.dup(b"write").map_err(|error| error.errno())?);
            let worker = Worker::new(reader).map_err(errno_of)?;
            let run = move || {
                // Without an event queue, connections stay as they are; nothing can report that.
                let _ = worker.run();
            };
            thread::spawn(run).map(drop).map_err(|error| error.errno)?;
            self.bell = Some(writer);
        }
        if let Some(bell) = &self.bell {
            // This fails when the pipe is full; then the thread is awake.
            let _ = bell.write(&[1]);
        }
        Ok(())
    }
}

// ---- Operations of ids ----

/// Starts the thread if there is none, for a caller that could not undo its next step.
///
/// # Errors
/// Those of starting the thread.
pub fn prepare() -> Result<()> {
    LINKS.lock().ring()
}

/// Listens for an id in a port space, with at most `backlog` requests that the program has not
/// taken.
///
/// # Errors
/// Those of starting the thread.
pub fn listen(
    listener: Listener,
    (space, backlog): (u32, usize),
    channel: Arc<Channel>,
    owner: usize,
) -> Result<LinkId> {
    let mut links = LINKS.lock();
    // First, so that a failure leaves no listener without a thread.
    links.ring()?;
    let stage = Stage::Listening(space, backlog);
    let id = links.add(Transport::Listener(listener), stage, channel);
    own(&mut links, id, owner);
    Ok(id)
}

/// Connects the endpoint of an id, which sends this request, or asks where to send its datagrams.
/// Events report the result.
///
/// # Errors
/// Those of changing the endpoint, and of starting the thread.
pub fn connect(
    endpoint: Endpoint,
    (to, request): (PortId, Frame),
    channel: Arc<Channel>,
    owner: usize,
) -> Result<LinkId> {
    endpoint
        .set_nonblocking(true)
        .map_err(|error| error.errno())?;
    let mut links = LINKS.lock();
    links.ring()?;
    let part = match request.kind {
        Kind::Lookup => Part::Asker,
        _ => Part::Client,
    };
    let stage = Stage::Connecting(to, request);
    let id = links.add(Transport::Endpoint(endpoint), stage, channel);
    if let Some(link) = own(&mut links, id, owner) {
        link.part = part;
    }
    Ok(id)
}

fn own(links: &mut Links, id: LinkId, owner: usize) -> Option<&mut Link> {
    let link = links.links.get_mut(&id)?;
    link.owner = owner;
    Some(link)
}

/// Assigns a requested connection to its new id, with the events that have occurred since.
pub fn adopt(id: LinkId, owner: usize, channel: &Arc<Channel>) {
    if let Some(link) = LINKS.lock().links.get_mut(&id) {
        link.owner = owner;
        link.channel = Arc::clone(channel);
        for event in link.early.drain(..) {
            channel.push(event);
        }
    }
}

/// Takes the next event of a channel, with the address of its id if there is one. Calls `note`
/// with that address under the lock that [`forget`] takes as well.
pub fn take(channel: &Channel, note: impl Fn(usize)) -> Option<(LinkEvent, Option<usize>)> {
    let links = LINKS.lock();
    let event = channel.take()?;
    let place = match event.target {
        Target::Id(place) => Some(place),
        Target::Link(link) => {
            let owner = links.links.get(&link).map(|link| link.owner);
            owner.filter(|owner| *owner != 0)
        }
    };
    place.into_iter().for_each(note);
    Some((event, place))
}

/// Redirects the events of the id at `place` to another channel, those that were not taken
/// included. `id` is its connection or listener, or 0.
pub fn redirect(id: LinkId, place: usize, from: &Arc<Channel>, to: &Arc<Channel>) {
    let mut links = LINKS.lock();
    for (of, link) in &mut links.links {
        let is_silent = matches!(link.stage, Stage::Silent(listener, ..) if listener == id);
        if *of == id || is_silent {
            link.channel = Arc::clone(to);
        }
    }
    if !Arc::ptr_eq(from, to) {
        from.move_if(to, |event| is_of(event, id, place));
    }
}

/// Whether an event belongs to an id.
fn is_of(event: &LinkEvent, id: LinkId, place: usize) -> bool {
    event.target == Target::Id(place) || id != 0 && event.target == Target::Link(id)
}

/// Drops one event of the id at `place` that says that it has joined this group.
pub fn forget_group(place: usize, of: &Group, channel: &Channel) {
    let _links = LINKS.lock();
    let mut is_found = false;
    channel.drop_if(|event| {
        let is_its = event.target == Target::Id(place);
        let is_of = matches!(&event.kind, LinkEventKind::Joined(group) if group == of);
        is_its && is_of && !core::mem::replace(&mut is_found, is_its && is_of)
    });
}

/// Ends the connection or listener of an id, if it has one, drops the events that it has not
/// taken, and ends the connections that it was not told of.
pub fn forget(id: LinkId, place: usize, channel: &Channel) {
    let mut links = LINKS.lock();
    links.end(id);
    let mut orphans = Vec::new();
    channel.drop_if(|event| {
        let is_its = is_of(event, id, place);
        if let (true, LinkEventKind::Request(orphan, ..)) = (is_its, &event.kind) {
            orphans.push(*orphan);
        }
        is_its
    });
    orphans.into_iter().for_each(|orphan| links.end(orphan));
}

/// # Errors
/// `EINVAL` if the program of a connection cannot accept or refuse it in its present state.
pub fn check_answer(id: LinkId, kind: Kind) -> Result<()> {
    let links = LINKS.lock();
    let link = links.links.get(&id);
    match link.is_none_or(|link| link.may_answer(kind)) {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

/// Sends a frame. Returns whether the peer can receive it.
pub fn send(id: LinkId, frame: &Frame) -> bool {
    let mut links = LINKS.lock();
    let Some(link) = links.links.get_mut(&id) else {
        return false;
    };
    if matches!(link.stage, Stage::Listening(..) | Stage::Over) {
        return false;
    }
    let is_leaving = frame.kind == Kind::Disconnect;
    // What does not exist yet does not end.
    if is_leaving && matches!(link.stage, Stage::Connecting(..)) {
        return false;
    }
    if matches!(frame.kind, Kind::Reply | Kind::Reject | Kind::Found) {
        link.is_answered = true;
    }
    link.is_ready |= frame.kind == Kind::Ready;
    if frame.kind == Kind::Reply || is_leaving && !link.is_leaving {
        link.deadline = Some(Instant::now() + PATIENCE);
    }
    link.is_leaving |= is_leaving;
    let is_sent = link.send(frame);
    if matches!(frame.kind, Kind::Reject | Kind::Found) {
        link.silence(id);
    }
    is_sent
}

/// Ends a connection whose program is told of a failure, which is its last event.
pub fn give_up(id: LinkId) {
    let mut links = LINKS.lock();
    if let Some(link) = links.links.get_mut(&id) {
        link.send(&Frame::plain(Kind::Disconnect));
        link.silence(id);
    }
}

/// Whether the peer of a connection has asked where to send its datagrams.
pub fn is_asked(id: LinkId) -> bool {
    let links = LINKS.lock();
    links
        .links
        .get(&id)
        .is_some_and(|link| link.part == Part::Asked)
}

/// Whether an event is ready in the channel, or will come: a connection reports its end once.
pub fn has_news(id: LinkId, channel: &Channel) -> bool {
    let links = LINKS.lock();
    let link = links.links.get(&id);
    let is_live = link.is_some_and(|link| !matches!(link.stage, Stage::Over));
    is_live || channel.is_ready()
}

/// Ends a connection or listener, with the listener's connections that have no request yet.
pub fn end(id: LinkId) {
    LINKS.lock().end(id);
}

impl Link {
    fn send(&self, frame: &Frame) -> bool {
        let bytes = frame.bytes();
        match &self.transport {
            // Frames are few and small, so there is room.
            Transport::Endpoint(endpoint) => {
                endpoint.send(&bytes, SendFlags::empty()) == Ok(bytes.len())
            }
            Transport::Listener(_) => false,
        }
    }

    /// Whether the program can answer like this: who was asked does it once. Who has asked can
    /// refuse the answer, until it has taken it.
    fn may_answer(&self, kind: Kind) -> bool {
        match (self.part, kind) {
            (Part::Client, Kind::Reject) => !self.is_ready,
            (Part::Client, _) => false,
            _ => !self.is_answered,
        }
    }

    /// The program needs no more events, not even those that have occurred meanwhile.
    fn silence(&mut self, id: LinkId) {
        self.stage = Stage::Over;
        self.early.clear();
        self.channel
            .drop_if(|event| event.target == Target::Link(id));
    }

    fn fd(&self) -> usize {
        match &self.transport {
            Transport::Listener(listener) => listener.fd(),
            Transport::Endpoint(endpoint) => endpoint.fd(),
        }
    }

    fn wanted(&self) -> EventFlags {
        match self.stage {
            Stage::Connecting(..) => EventFlags::EVENT_WRITE,
            Stage::Over => EventFlags::empty(),
            _ => EventFlags::EVENT_READ,
        }
    }

    /// Marks the link as ended, and returns the event for its id. Before both ends have accepted,
    /// an end is a refusal.
    fn over(&mut self) -> Option<LinkEventKind> {
        self.stage = Stage::Over;
        match self.part {
            Part::Client | Part::Server if self.is_established => {
                Some(LinkEventKind::Disconnected(0))
            }
            Part::Client | Part::Server => Some(LinkEventKind::Rejected(BY_PROGRAM, Vec::new())),
            Part::Asker => Some(LinkEventKind::Unreachable(-ETIMEDOUT)),
            Part::Asked => None,
        }
    }

    /// Returns the event for an id that could not be connected.
    fn failure(&self, error: scif::Error) -> LinkEventKind {
        match (error, self.part) {
            (scif::Error::Scif(Errno::ConnectionRefused), Part::Client) => {
                LinkEventKind::Rejected(NO_SERVICE, Vec::new())
            }
            (scif::Error::Scif(Errno::ConnectionRefused), _) => {
                LinkEventKind::Unreachable(NO_PLACE)
            }
            (scif::Error::Scif(Errno::NoDevice), _) => LinkEventKind::Unreachable(-EHOSTUNREACH),
            _ => LinkEventKind::Unreachable(-ETIMEDOUT),
        }
    }

    /// Whether its buffer was full, so that more may have arrived.
    fn has_more(&self) -> bool {
        let is_open = matches!(self.stage, Stage::Open | Stage::Silent(..));
        is_open && self.is_full
    }

    /// Reads the bytes that have arrived; `false` if no more will come.
    fn fill(&mut self) -> bool {
        let Transport::Endpoint(endpoint) = &self.transport else {
            return false;
        };
        let is_live = endpoint.is_live();
        let mut buffer = [0; 512];
        self.is_full = false;
        while self.arrived.len() < MOST_BYTES {
            match endpoint.recv(&mut buffer, RecvFlags::empty()) {
                Ok(0) => return is_live,
                Ok(count) => self
                    .arrived
                    .extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(scif::Error::Scif(Errno::Interrupted)) => {}
                Err(_) => return false,
            }
        }
        self.is_full = true;
        true
    }
}
