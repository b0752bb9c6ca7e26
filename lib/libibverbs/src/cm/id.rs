//! Ids: creates, binds, resolves, connects and destroys them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use libsocket::address::{self, Address};
use scif::{Endpoint, PortId};
use syscall::error::{EADDRINUSE, EADDRNOTAVAIL, EHOSTUNREACH, EINVAL, ENOTCONN, EOPNOTSUPP};

use super::event::{self, Awaited, kind};
use super::fork;
use super::frame::{ConnectionParameters, Frame, Kind};
use super::group::Name;
use super::link::{self, LinkEvent, LinkEventKind, Target};
use super::port_space::{PS_IPOIB, PS_TCP, PS_UDP, UD};
use super::queue_pair;
use super::structures::{ConnParam, EventChannel, Id, Route, Storage, own_node, shared_context};
use crate::place::{get, get_mut, list};
use crate::types::Context;
use crate::{Result, minus_one};

/// Limits of the values in `struct rdma_conn_param`, which are also the values when there is none.
const MOST_RESOURCES: u8 = 128;
/// As many resources as there may be: `RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`.
const ALL_RESOURCES: u8 = 255;
const MOST_RETRIES: u8 = 7;
/// Backlog of a listener whose program leaves the number open.
const MOST_WAITING: c_int = 128;
/// Options that are accepted without effect.
const OPTION_ID: c_int = 0;
const LAST_OPTION: c_int = 3;

/// The destination of an id, given by an address.
enum Destination {
    Node(Address),
    Group(Name),
}

impl Destination {
    /// # Errors
    /// Those of [`Storage::read`].
    ///
    /// # Safety
    /// That of [`Storage::read`].
    unsafe fn read(place: *const Storage) -> Result<Destination> {
        // SAFETY: the caller's promise.
        match unsafe { Name::read(place.cast()) } {
            Ok(name) if name.is_group() => Ok(Destination::Group(name)),
            // SAFETY: as above.
            _ => Ok(Destination::Node(unsafe { Storage::read(place)? })),
        }
    }
}

impl Id {
    /// Reports at once that an operation of the id is done.
    fn done(&self, event: u32, status: i32) -> Result<()> {
        self.link_events()?.push(LinkEvent {
            target: Target::Id(self.place()),
            kind: LinkEventKind::Done(event, status),
        });
        Ok(())
    }

    /// Binds the id; port 0 takes a free port.
    fn bind(&mut self, to: Address) -> Result<()> {
        let own = own_node()?;
        if address::node_of(to.host, own) != Some(own) {
            return Err(EADDRNOTAVAIL);
        }
        if self.bound.is_some() || self.link != 0 {
            return Err(EINVAL);
        }
        self.take_port(to)?;
        // These two addresses name no device, and programs check whether the id has one.
        if to.host != address::ANY && !address::is_loopback(to.host) {
            self.use_device()?;
        }
        Ok(())
    }

    /// Reserves the port of the id's source address, or a free one.
    fn take_port(&mut self, source: Address) -> Result<()> {
        let endpoint = Endpoint::open().map_err(|error| error.errno())?;
        // SCIF's error for a port in use is `EINVAL`.
        let port = endpoint
            .bind(source.port)
            .map_err(|error| match error.errno() {
                EINVAL => EADDRINUSE,
                number => number,
            })?;
        self.bound = Some(endpoint);
        let host = source.host;
        self.route.source.set(Address { host, port });
        Ok(())
    }

    fn listen(&mut self, backlog: c_int) -> Result<()> {
        if self.bound.is_none() {
            self.bind(Address::default())?;
        }
        // If this fails, the port stays bound for another attempt.
        let events = self.link_events()?.clone();
        link::prepare()?;
        let endpoint = self.bound.take().ok_or(EINVAL)?;
        // As with rdma-core, 0 means as many as possible.
        let backlog = match backlog {
            ..=0 => MOST_WAITING,
            some => some,
        };
        let listener = endpoint.listen(backlog);
        let listener = listener.map_err(|error| error.errno())?;
        let limits = (self.ps, backlog as usize);
        self.link = link::listen(listener, limits, events, self.place())?;
        Ok(())
    }

    fn resolve(&mut self, source: Option<Address>, to: Destination) -> Result<()> {
        let nodes = scif::nodes().map_err(|error| error.errno())?;
        if let Some(source) = source
            && address::node_of(source.host, nodes.own) != Some(nodes.own)
        {
            return Err(EADDRNOTAVAIL);
        }
        if self.bound.is_none() && self.link == 0 {
            self.take_port(source.unwrap_or_default())?;
        }
        let node = match to {
            // A group is reached from the own node.
            Destination::Group(name) => {
                self.route.destination.set_name(&name);
                Some(nodes.own)
            }
            Destination::Node(to) => {
                self.route.destination.set(to);
                let node = address::node_of(to.host, nodes.own);
                node.into_iter().for_each(|node| self.route.set_peer(node));
                node
            }
        };
        let Some(node) = node.filter(|node| nodes.online.contains(node)) else {
            return self.done(kind::ADDR_ERROR, -EHOSTUNREACH);
        };
        self.peer = node;
        let port = self.route.source.get().map_or(0, |source| source.port);
        let host = address::of_node(nodes.own);
        self.route.source.set(Address { host, port });
        self.use_device()?;
        self.done(kind::ADDR_RESOLVED, 0)
    }

    fn connect(&mut self, param: Option<&ConnParam>) -> Result<()> {
        if self.link != 0 || self.verbs.is_null() {
            return Err(EINVAL);
        }
        self.check(param)?;
        let to = self.route.destination.get().ok_or(EINVAL)?;
        let (parameters, private) = self.offer(param)?;
        self.own = parameters;
        let kind = match self.qp_type {
            UD => Kind::Lookup,
            _ => Kind::Request,
        };
        let frame = Frame {
            kind,
            parameters,
            private,
        };
        let to = PortId::new(self.peer, to.port);
        let events = self.link_events()?.clone();
        // If this fails, the port stays bound for another attempt.
        link::prepare()?;
        let endpoint = self.bound.take().ok_or(EINVAL)?;
        self.link = link::connect(endpoint, (to, frame), events, self.place())?;
        Ok(())
    }

    /// Checks the parameters of a reliable connection.
    ///
    /// # Errors
    /// `EINVAL`: there are none, and no queue pair that they could be taken from; more resources
    /// than a queue pair has.
    fn check(&self, param: Option<&ConnParam>) -> Result<()> {
        let is_in_range = |count| count <= MOST_RESOURCES || count == ALL_RESOURCES;
        let is_right = match param {
            None => !self.qp.is_null(),
            Some(of) => is_in_range(of.responder_resources) && is_in_range(of.initiator_depth),
        };
        match is_right || self.ps != PS_TCP {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// Returns the parameters and private data that the id offers to the peer.
    fn offer(&self, param: Option<&ConnParam>) -> Result<(ConnectionParameters, Vec<u8>)> {
        // SAFETY: a queue pair of ours, or none.
        let qp = unsafe { self.qp.as_ref() };
        let Some(param) = param else {
            let parameters = ConnectionParameters {
                responder_resources: MOST_RESOURCES,
                initiator_depth: MOST_RESOURCES,
                retry_count: MOST_RETRIES,
                rnr_retry_count: MOST_RETRIES,
                srq: qp.is_some_and(|qp| !qp.srq.is_null()).into(),
                qp_num: qp.map_or(0, |qp| qp.qp_num),
                flow_control: 0,
                port_space: self.ps,
            };
            return Ok((parameters, Vec::new()));
        };
        let parameters = ConnectionParameters {
            responder_resources: param.responder_resources.min(MOST_RESOURCES),
            initiator_depth: param.initiator_depth.min(MOST_RESOURCES),
            flow_control: param.flow_control,
            // As on Linux; programs pass larger ones.
            retry_count: param.retry_count.min(MOST_RETRIES),
            rnr_retry_count: param.rnr_retry_count.min(MOST_RETRIES),
            srq: qp.map_or(param.srq, |qp| (!qp.srq.is_null()).into()),
            qp_num: qp.map_or(param.qp_num, |qp| qp.qp_num),
            port_space: self.ps,
        };
        let bytes = param.private_data.cast::<u8>();
        // SAFETY: the caller's bytes.
        let private = unsafe { list(bytes, param.private_data_len)? };
        Ok((parameters, private.to_vec()))
    }

    fn accept(&mut self, param: Option<&ConnParam>) -> Result<()> {
        if self.link == 0 {
            return Err(EINVAL);
        }
        link::check_answer(self.link, Kind::Reply)?;
        self.check(param)?;
        let (mut parameters, private) = self.offer(param)?;
        // Only the one that asks chooses this.
        parameters.retry_count = self.own.retry_count;
        // What the peer asks for, as seen from this side, unless the program sets something else.
        if param.is_none_or(|param| param.responder_resources == ALL_RESOURCES) {
            parameters.responder_resources = self.own.responder_resources.min(MOST_RESOURCES);
        }
        if param.is_none_or(|param| param.initiator_depth == ALL_RESOURCES) {
            parameters.initiator_depth = self.own.initiator_depth.min(MOST_RESOURCES);
        }
        if self.qp_type == UD {
            return self.tell_place(parameters, private);
        }
        self.own = parameters;
        queue_pair::connect(self)?;
        let kind = Kind::Reply;
        let reply = Frame {
            kind,
            parameters,
            private,
        };
        match link::send(self.link, &reply) {
            true => Ok(()),
            false => {
                queue_pair::flush(self);
                Err(ENOTCONN)
            }
        }
    }

    /// Tells the peer where to send its datagrams. As with datagrams themselves, nothing reports
    /// whether the peer receives this.
    fn tell_place(&mut self, parameters: ConnectionParameters, private: Vec<u8>) -> Result<()> {
        if parameters.qp_num == 0 || !link::is_asked(self.link) {
            return Err(EINVAL);
        }
        let kind = Kind::Found;
        let found = Frame {
            kind,
            parameters,
            private,
        };
        link::send(self.link, &found);
        event::release(self);
        Ok(())
    }

    fn disconnect(&mut self) -> Result<()> {
        if self.link == 0 {
            return Err(EINVAL);
        }
        queue_pair::flush(self);
        if self.qp_type == UD {
            // There is no connection that could end.
            return Err(EINVAL);
        }
        // For a peer that has gone, the event of the end exists already, or will.
        link::send(self.link, &Frame::plain(Kind::Disconnect));
        Ok(())
    }
}

// ---- Calls ----

/// Makes an id; with its own event channel if `channel` is null.
///
/// # Errors
/// `EOPNOTSUPP` for another port space; those of making a channel.
pub fn create(channel: *mut EventChannel, context: *mut c_void, ps: u32) -> Result<*mut Id> {
    if ![PS_TCP, PS_UDP, PS_IPOIB].contains(&ps) {
        return Err(EOPNOTSUPP);
    }
    fork::prepare();
    let is_sync = channel.is_null();
    let channel = match is_sync {
        true => event::create_channel()?,
        false => channel,
    };
    Ok(Box::into_raw(Id::new(channel, context, ps, is_sync)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_id(
    channel: *mut EventChannel,
    place: *mut *mut Id,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    if place.is_null() {
        return minus_one(Err(EINVAL));
    }
    // SAFETY: the caller's place.
    minus_one(create(channel, context, ps).map(|id| unsafe { place.write(id) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut Id) -> c_int {
    // SAFETY: an id of ours.
    let of = match unsafe { get_mut(id) } {
        Ok(of) => of,
        Err(number) => return minus_one(Err(number)),
    };
    // Drops its events that were not taken, and ends connections that it was not told of.
    match of.link_events() {
        Ok(events) => link::forget(of.link, of.place(), events),
        Err(number) => return minus_one(Err(number)),
    }
    event::release(of);
    of.events.wait_acknowledged();
    let own = of.is_sync.then_some(of.channel);
    // SAFETY: made by `create`, or for a request; the caller does not use it any more.
    unsafe { drop(Box::from_raw(id)) };
    if let Some(channel) = own {
        event::destroy_channel(channel);
    }
    0
}

/// Runs a call on an id. If the id has no channel of the program, waits for the event of the call,
/// if there is one.
pub fn with(
    id: *mut Id,
    awaited: Option<Awaited>,
    call: impl FnOnce(&mut Id) -> Result<()>,
) -> c_int {
    // SAFETY: an id of ours, which one thread uses at a time.
    let done = unsafe { get_mut(id) }.and_then(call);
    minus_one(done.and_then(|()| {
        // SAFETY: as above; this is a new reference, because the event changes the id, too.
        let of = unsafe { get(id)? };
        match awaited.filter(|_| of.is_sync) {
            // The end is reported only once.
            Some(Awaited::End) if !link::has_news(of.link, of.link_events()?) => Ok(()),
            Some(awaited) => event::complete(id, awaited),
            None => Ok(()),
        }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_bind_addr(id: *mut Id, to: *const Storage) -> c_int {
    with(id, None, |id| {
        // SAFETY: the caller's address.
        let to = unsafe { Storage::read(to)? };
        id.bind(to)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_listen(id: *mut Id, backlog: c_int) -> c_int {
    with(id, None, |id| id.listen(backlog))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_resolve_addr(
    id: *mut Id,
    source: *const Storage,
    to: *const Storage,
    _timeout: c_int,
) -> c_int {
    with(id, Some(Awaited::Answer), |id| {
        // SAFETY: the caller's addresses.
        let (source, to) = unsafe {
            let source = match source.is_null() {
                true => None,
                false => Some(Storage::read(source)?),
            };
            (source, Destination::read(to)?)
        };
        id.resolve(source, to)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_resolve_route(id: *mut Id, _timeout: c_int) -> c_int {
    with(id, Some(Awaited::Answer), |id| match id.verbs.is_null() {
        true => Err(EINVAL),
        false => id.done(kind::ROUTE_RESOLVED, 0),
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_connect(id: *mut Id, param: *const ConnParam) -> c_int {
    with(id, Some(Awaited::Answer), |id| {
        // SAFETY: the caller's structure, or none.
        id.connect(unsafe { param.as_ref() })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_accept(id: *mut Id, param: *const ConnParam) -> c_int {
    // SAFETY: an id of ours, or none.
    let is_datagram = unsafe { id.as_ref() }.is_some_and(|id| id.qp_type == UD);
    // No event follows the answer to a lookup.
    let awaited = (!is_datagram).then_some(Awaited::Answer);
    with(id, awaited, |id| {
        // SAFETY: the caller's structure, or none.
        id.accept(unsafe { param.as_ref() })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_establish(id: *mut Id) -> c_int {
    with(id, None, |id| {
        // The library says it for a queue pair of the id.
        if !id.qp.is_null() {
            return Err(EINVAL);
        }
        match link::send(id.link, &Frame::plain(Kind::Ready)) {
            true => Ok(()),
            false => Err(ENOTCONN),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject(id: *mut Id, private: *const u8, length: u8) -> c_int {
    with(id, None, |id| {
        // SAFETY: the caller's bytes.
        let private = unsafe { list(private, length)? };
        link::check_answer(id.link, Kind::Reject)?;
        let frame = Frame {
            private: private.to_vec(),
            ..Frame::plain(Kind::Reject)
        };
        match link::send(id.link, &frame) {
            true => Ok(()),
            false => Err(ENOTCONN),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_disconnect(id: *mut Id) -> c_int {
    with(id, Some(Awaited::End), Id::disconnect)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_notify(id: *mut Id, _event: c_int) -> c_int {
    // The connection was reported already, or will be.
    with(id, None, |_| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_set_option(
    id: *mut Id,
    level: c_int,
    option: c_int,
    _value: *const c_void,
    _length: usize,
) -> c_int {
    with(id, None, |_| {
        match level == OPTION_ID && (0..=LAST_OPTION).contains(&option) {
            true => Ok(()),
            false => Err(EOPNOTSUPP),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_migrate_id(id: *mut Id, channel: *mut EventChannel) -> c_int {
    with(id, None, |id| {
        let is_sync = channel.is_null();
        if id.is_sync && is_sync {
            return Err(EINVAL);
        }
        let events = id.link_events()?.clone();
        let former = id.is_sync.then_some(id.channel);
        if former.is_some() {
            event::release(id);
        }
        id.channel = match is_sync {
            true => event::create_channel()?,
            false => channel,
        };
        id.is_sync = is_sync;
        link::redirect(id.link, id.place(), &events, id.link_events()?);
        if let Some(former) = former {
            event::destroy_channel(former);
        }
        Ok(())
    })
}

fn port(id: *const Id, of: impl FnOnce(&Route) -> &Storage) -> u16 {
    // SAFETY: an id of ours.
    let address = unsafe { get(id) }.ok().and_then(|id| of(&id.route).get());
    address.map_or(0, |address| address.port.to_be())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_src_port(id: *const Id) -> u16 {
    port(id, |route| &route.source)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_dst_port(id: *const Id) -> u16 {
    port(id, |route| &route.destination)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut Context {
    fork::prepare();
    let context = shared_context();
    if !count.is_null() {
        // SAFETY: the caller's place.
        unsafe { count.write(context.is_ok().into()) };
    }
    match context {
        Ok(context) => Box::into_raw(Box::new([context, null_mut()])).cast(),
        Err(number) => crate::none(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_free_devices(devices: *mut *mut Context) {
    if !devices.is_null() {
        // SAFETY: a list of ours, which the caller does not use any more.
        unsafe { drop(Box::from_raw(devices.cast::<[*mut Context; 2]>())) };
    }
}
