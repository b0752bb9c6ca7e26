//! Event channels. The call that takes an event of a link turns it into one for the program.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};

use libsocket::address::{self, Address};
use scif::PortId;
use skiff_libc::points;
use syscall::error::{ECONNREFUSED, ECONNRESET, EINVAL};
use verbs::address::{MULTICAST_QPN, group_lid, lid};

use super::frame::{Frame, Kind};
use super::group::{self, Group};
use super::link::{self, Channel, LinkEvent, LinkEventKind, LinkId, Target};
use super::port_space::qkey;
use super::queue_pair;
use super::structures::{ConnParam, Event, EventChannel, Id, Param, UdParam, own_node};
use crate::place::{get, get_mut};
use crate::types::{self, AhAttr, EventCounts};
use crate::{Result, errno_of, minus_one, none};

/// `enum rdma_cm_event_type`.
pub mod kind {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ADDR_ERROR: u32 = 1;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const CONNECT_ERROR: u32 = 6;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const MULTICAST_JOIN: u32 = 12;
    pub const MULTICAST_ERROR: u32 = 13;
}

/// The names of events, by their numbers.
const NAMES: [&CStr; 18] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
];

/// Makes an event channel.
///
/// # Errors
/// Those of opening a pipe.
pub fn create_channel() -> Result<*mut EventChannel> {
    let events = Arc::new(Channel::new().map_err(errno_of)?);
    let fd = events.fd() as c_int;
    Ok(Box::into_raw(Box::new(EventChannel { fd, events })))
}

/// Destroys an event channel.
pub fn destroy_channel(channel: *mut EventChannel) {
    if !channel.is_null() {
        // SAFETY: made by `create_channel`; the caller does not use it any more.
        unsafe { drop(Box::from_raw(channel)) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut EventChannel {
    create_channel().unwrap_or_else(none)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_event_channel(channel: *mut EventChannel) {
    destroy_channel(channel);
}

// ---- What events mean ----

/// Makes an event about an id.
fn event(id: *mut Id, kind: u32, status: c_int) -> Box<Event> {
    Box::new(Event {
        id,
        listen_id: null_mut(),
        event: kind,
        status,
        param: Param::new(),
        private: Vec::new(),
    })
}

/// Keeps the private data of the peer in an event. Returns its address and length.
fn keep(event: &mut Event, private: Vec<u8>) -> (*const c_void, u8) {
    event.private = private;
    let place = match event.private.is_empty() {
        true => null(),
        false => event.private.as_ptr().cast(),
    };
    (place, event.private.len() as u8)
}

/// Describes a peer's frame in an event. Reads that the peer answers are those that this end
/// issues, and the other way round, so the two limits change places.
fn describe(event: &mut Event, frame: Frame) {
    let parameters = frame.parameters;
    let (private_data, private_data_len) = keep(event, frame.private);
    event.param.conn = ConnParam {
        private_data,
        private_data_len,
        responder_resources: parameters.initiator_depth,
        initiator_depth: parameters.responder_resources,
        flow_control: parameters.flow_control,
        retry_count: parameters.retry_count,
        rnr_retry_count: parameters.rnr_retry_count,
        srq: parameters.srq,
        qp_num: parameters.qp_num,
    };
}

/// Describes where the peer receives datagrams. If the peer only asks for that, there is no queue
/// pair number, and so no address.
fn describe_place(event: &mut Event, id: &Id, frame: Frame) {
    let qp_num = frame.parameters.qp_num;
    let (private_data, private_data_len) = keep(event, frame.private);
    let to = match qp_num {
        0 => AhAttr::default(),
        _ => AhAttr {
            dlid: lid(id.peer),
            port_num: id.port_num,
            ..AhAttr::default()
        },
    };
    event.param.ud = UdParam {
        private_data,
        private_data_len,
        ah_attr: to,
        qp_num,
        qkey: if qp_num == 0 { 0 } else { qkey(id.ps) },
    };
}

/// Makes a new id for a peer that requests a connection.
fn request(listener: *mut Id, link: LinkId, peer: PortId, frame: Frame) -> Result<Box<Event>> {
    // SAFETY: an id of ours, which is not destroyed while its events are taken.
    let of = unsafe { get(listener)? };
    let channel = match of.is_sync {
        true => create_channel()?,
        false => of.channel,
    };
    let mut new = Id::new(channel, of.context, of.ps, of.is_sync);
    let node = new.use_device().and_then(|()| own_node());
    let node = node.inspect_err(|_| {
        if of.is_sync {
            destroy_channel(channel);
        }
    })?;
    let events = new.link_events()?.clone();
    let own = address::of_node(node);
    let port = of.route.source.get().map_or(0, |source| source.port);
    new.route.source.set(Address { host: own, port });
    new.route.destination.set(Address {
        host: address::of_node(peer.node()),
        port: peer.port(),
    });
    new.route.set_peer(peer.node());
    (new.link, new.peer, new.parameters) = (link, peer.node(), frame.parameters);
    // The peer's parameters, as seen from this side, unless the program sets others.
    new.own = frame.parameters.turned();
    let id = Box::into_raw(new);
    link::adopt(link, id.expose_provenance(), &events);
    let mut told = event(id, kind::CONNECT_REQUEST, 0);
    told.listen_id = listener;
    match frame.kind {
        Kind::Lookup => {
            let asked = Frame {
                private: frame.private,
                ..Frame::plain(Kind::Lookup)
            };
            describe_place(&mut told, of, asked);
        }
        _ => describe(&mut told, frame),
    }
    Ok(told)
}

/// The peer has agreed: connects the queue pair and tells the peer that it is connected. The answer
/// may come before the call that has asked for the connection has stored the link in the id.
fn reply(id: *mut Id, link: LinkId, frame: Frame) -> Box<Event> {
    // SAFETY: an id of ours, which is not destroyed while its events are taken.
    let Ok(of) = (unsafe { get_mut(id) }) else {
        return event(id, kind::CONNECT_ERROR, -EINVAL);
    };
    (of.link, of.parameters) = (link, frame.parameters);
    let mut told = match of.qp.is_null() {
        // The program connects its own queue pair, and calls `rdma_establish`.
        true => event(id, kind::CONNECT_RESPONSE, 0),
        false => match queue_pair::connect(of) {
            Ok(()) => {
                link::send(link, &Frame::plain(Kind::Ready));
                event(id, kind::ESTABLISHED, 0)
            }
            Err(number) => {
                queue_pair::flush(of);
                link::give_up(link);
                event(id, kind::CONNECT_ERROR, -number)
            }
        },
    };
    describe(&mut told, frame);
    told
}

/// The peer has answered where it receives datagrams.
fn found(id: *mut Id, frame: Frame) -> Box<Event> {
    let mut told = event(id, kind::ESTABLISHED, 0);
    // SAFETY: an id of ours, which is not destroyed while its events are taken.
    if let Ok(of) = unsafe { get(id) } {
        describe_place(&mut told, of, frame);
    }
    told
}

/// Enters a joined group, and tells the program where to send datagrams for it.
fn joined(id: *mut Id, group: &Group) -> Box<Event> {
    let mut told = event(id, kind::MULTICAST_JOIN, 0);
    // SAFETY: an id of ours, which is not destroyed while its events are taken.
    let Ok(of) = (unsafe { get(id) }) else {
        return told;
    };
    told.param.ud = UdParam {
        private_data: core::ptr::with_exposed_provenance(group.context),
        private_data_len: 0,
        ah_attr: AhAttr {
            dgid: types::Gid(group.gid),
            dlid: group_lid(&group.gid),
            hop_limit: 1,
            is_global: 1,
            port_num: of.port_num,
            ..AhAttr::default()
        },
        qp_num: MULTICAST_QPN,
        qkey: qkey(of.ps),
    };
    let _turn = group::TURN.lock();
    // The id may have left the group meanwhile.
    let is_member = of.groups.contains(group);
    if is_member && let Err(number) = group.enter(of.qp) {
        (told.event, told.status) = (kind::MULTICAST_ERROR, -number);
    }
    told
}

/// Turns an event for the id at `place` into one for the program. Returns `None` if there is no
/// id.
fn become_event(what: LinkEvent, place: Option<usize>) -> Option<Box<Event>> {
    let Some(place) = place else {
        if let LinkEventKind::Request(link, ..) = what.kind {
            link::end(link);
        }
        return None;
    };
    let id: *mut Id = core::ptr::with_exposed_provenance_mut(place);
    Some(match what.kind {
        LinkEventKind::Done(kind, status) => event(id, kind, status),
        LinkEventKind::Request(link, peer, frame) => match request(id, link, peer, frame) {
            Ok(told) => told,
            Err(_) => {
                link::send(link, &Frame::plain(Kind::Reject));
                link::end(link);
                return None;
            }
        },
        LinkEventKind::Reply(frame) => match what.target {
            Target::Link(link) => reply(id, link, frame),
            // Answers come by links only.
            Target::Id(_) => return None,
        },
        LinkEventKind::Rejected(status, private) => {
            // SAFETY: an id of ours, which is not destroyed while its events are taken.
            if let Ok(of) = unsafe { get(id) } {
                queue_pair::flush(of);
            }
            let mut told = event(id, kind::REJECTED, status);
            let frame = Frame {
                private,
                ..Frame::plain(Kind::Reject)
            };
            describe(&mut told, frame);
            told
        }
        LinkEventKind::Unreachable(status) => event(id, kind::UNREACHABLE, status),
        LinkEventKind::Ready => event(id, kind::ESTABLISHED, 0),
        LinkEventKind::Disconnected(status) => event(id, kind::DISCONNECTED, status),
        LinkEventKind::Found(frame) => found(id, frame),
        LinkEventKind::Joined(group) => joined(id, &group),
    })
}

/// Returns the counts of the id at this address.
///
/// # Safety
/// Its destruction has not begun, or waits for an event to be acknowledged.
unsafe fn counts_at<'a>(place: usize) -> &'a EventCounts {
    // SAFETY: the caller's promise.
    unsafe { &(*core::ptr::with_exposed_provenance::<Id>(place)).events }
}

/// Waits for the next event of a channel. A thread that is cancelled ends here, so nothing on the
/// stack may need to be dropped.
fn next(channel: *const EventChannel) -> Result<*mut Event> {
    points::interruptible(|| take_next(channel))
}

fn take_next(channel: *const EventChannel) -> Result<*mut Event> {
    // SAFETY: a channel of ours.
    let events = unsafe { get(channel)? }.events.clone();
    loop {
        events.wait().map_err(errno_of)?;
        // SAFETY: the end of an id drops its events first, then waits for those that were counted.
        let note = |place| unsafe { counts_at(place).report() };
        // An event that is missing now was dropped with its id.
        let Some((event, place)) = link::take(&events, note) else {
            continue;
        };
        if let Some(event) = become_event(event, place) {
            return Ok(Box::into_raw(event));
        }
        if let Some(place) = place {
            // SAFETY: its end waits for this.
            unsafe { counts_at(place).acknowledge(1) };
        }
    }
}

/// Returns the counts of the id whose destruction waits for an event: the listener for a request.
fn count(event: &Event) -> &EventCounts {
    let of = match event.listen_id.is_null() {
        true => event.id,
        false => event.listen_id,
    };
    // SAFETY: an id of ours, whose end waits for the acknowledgement.
    unsafe { &(*of).events }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_cm_event(
    channel: *const EventChannel,
    place: *mut *mut Event,
) -> c_int {
    if place.is_null() {
        return minus_one(Err(EINVAL));
    }
    // SAFETY: the caller's place.
    minus_one(next(channel).map(|event| unsafe { place.write(event) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_ack_cm_event(event: *mut Event) -> c_int {
    if event.is_null() {
        return minus_one(Err(EINVAL));
    }
    // SAFETY: an event that `next` gave, which the caller does not use any more.
    let event = unsafe { Box::from_raw(event) };
    count(&event).acknowledge(1);
    0
}

#[unsafe(no_mangle)]
extern "C" fn rdma_event_str(event: u32) -> *const c_char {
    let name = NAMES.get(event as usize);
    name.map_or(c"UNKNOWN EVENT", |name| *name).as_ptr()
}

// ---- Ids without a channel of the program ----

/// Acknowledges the last event of an id.
pub fn release(id: &mut Id) {
    let event = core::mem::replace(&mut id.event, null_mut());
    if !event.is_null() {
        // SAFETY: an event of ours; the program may look at it until the next one.
        unsafe { rdma_ack_cm_event(event) };
    }
}

/// The event that a call on an id without a channel waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Awaited {
    /// The answer to the call.
    Answer,
    /// The end of the connection.
    End,
}

/// Waits for the event of an id's last call, and keeps it in the id.
///
/// # Errors
/// That of the event: `ECONNREFUSED`, `EHOSTUNREACH`, … `ECONNRESET` if the connection has ended
/// instead.
pub fn complete(id: *mut Id, awaited: Awaited) -> Result<()> {
    // SAFETY: an id of ours, which one thread uses at a time.
    let channel = unsafe {
        let of = get_mut(id)?;
        release(of);
        of.channel
    };
    let event = next(channel)?;
    // SAFETY: as above, and the event that was just made.
    let (kind, status) = unsafe {
        (*id).event = event;
        ((*event).event, (*event).status)
    };
    match (kind, status) {
        (kind::DISCONNECTED, _) if awaited != Awaited::End => Err(ECONNRESET),
        (_, 0) => Ok(()),
        (kind::REJECTED, _) => Err(ECONNREFUSED),
        (_, status) => Err(status.abs()),
    }
}
