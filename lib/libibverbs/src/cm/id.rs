//! Ids: making, binding, resolving, connecting, ending.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;

use hal::lock::Mutex;
use libsocket::address::{self, Address};
use scif::{Endpoint, NodeId, PortId};
use syscall::error::{
    EADDRINUSE, EADDRNOTAVAIL, EHOSTUNREACH, EINVAL, ENODEV, ENOTCONN, EOPNOTSUPP,
};

use super::address::{Storage, own_node};
use super::event::{self, Event, EventChannel, kind};
use super::frame::{ConnectionParameters, Frame, Kind};
use super::link::{self, Channel, LinkEvent, LinkEventKind, LinkId, Target};
use super::queue_pair;
use crate::device::{ibv_free_device_list, ibv_get_device_list, ibv_open_device};
use crate::memory::ibv_alloc_pd;
use crate::place::{get, get_mut, list};
use crate::types::{CompChannel, Context, Cq, EventCounts, Gid, Pd, Qp, QpInitAttr, Srq};
use crate::{Result, minus_one};

/// `enum rdma_port_space`: the one that can be had.
pub const PS_TCP: u32 = 0x0106;
/// `IBV_QPT_RC`.
pub const RC: u32 = 2;
/// The values of `struct rdma_conn_param` when there is none.
const MOST_RESOURCES: u8 = 128;
const MOST_RETRIES: u8 = 7;
/// Options that are accepted and have no effect here.
const OPTION_ID: c_int = 0;
const LAST_OPTION: c_int = 3;

/// `struct rdma_addr` and `struct rdma_route`.
#[repr(C)]
pub struct Route {
    pub source: Storage,
    pub destination: Storage,
    sgid: Gid,
    dgid: Gid,
    pkey: u16,
    path_rec: *mut c_void,
    num_paths: c_int,
}

/// `struct rdma_cm_id`, and what is the library's alone.
#[repr(C)]
pub struct Id {
    pub verbs: *mut Context,
    pub channel: *mut EventChannel,
    pub context: *mut c_void,
    pub qp: *mut Qp,
    pub route: Route,
    pub ps: u32,
    pub port_num: u8,
    pub event: *mut Event,
    pub send_cq_channel: *mut CompChannel,
    pub send_cq: *mut Cq,
    pub recv_cq_channel: *mut CompChannel,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub pd: *mut Pd,
    pub qp_type: u32,
    /// Its connection or listener.
    pub link: LinkId,
    /// Each call waits for its event.
    pub is_sync: bool,
    /// The endpoint that keeps the port of an id that is bound and does not listen.
    bound: Option<Endpoint>,
    /// The parameters agreed with the peer, and its node.
    pub parameters: ConnectionParameters,
    pub peer: NodeId,
    /// Of an endpoint that listens: the domain and the queue pair's attributes for ids of requests.
    pub for_requests: Option<(usize, QpInitAttr)>,
    /// Events of it that the program has got.
    pub events: EventCounts,
}

/// `struct rdma_conn_param`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ConnParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

/// The context of the device that all ids share, and the protection domain of those without one,
/// by their addresses.
static SHARED: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// The context that all ids share.
///
/// # Errors
/// `ENODEV`; those of opening it.
pub fn shared_context() -> Result<*mut Context> {
    let mut shared = SHARED.lock();
    if shared.0 == 0 {
        // SAFETY: a null pointer for the count is allowed, and the list is ended by a null pointer.
        let context = unsafe {
            let devices = ibv_get_device_list(null_mut());
            let first = devices.read();
            let context = ibv_open_device(first);
            ibv_free_device_list(devices);
            context
        };
        if context.is_null() {
            return Err(ENODEV);
        }
        shared.0 = context.expose_provenance();
    }
    Ok(core::ptr::with_exposed_provenance_mut(shared.0))
}

/// The protection domain of ids whose program has none.
///
/// # Errors
/// As [`shared_context`].
pub fn shared_pd() -> Result<*mut Pd> {
    let context = shared_context()?;
    let mut shared = SHARED.lock();
    if shared.1 == 0 {
        let pd = ibv_alloc_pd(context);
        if pd.is_null() {
            return Err(skiff_libc::errno::get());
        }
        shared.1 = pd.expose_provenance();
    }
    Ok(core::ptr::with_exposed_provenance_mut(shared.1))
}

impl Id {
    /// An id of this channel.
    pub fn new(channel: *mut EventChannel, context: *mut c_void, is_sync: bool) -> Box<Id> {
        // SAFETY: numbers and pointers, for which 0 is a value.
        let route: Route = unsafe { zeroed() };
        Box::new(Id {
            verbs: null_mut(),
            channel,
            context,
            qp: null_mut(),
            route,
            ps: PS_TCP,
            port_num: 0,
            event: null_mut(),
            send_cq_channel: null_mut(),
            send_cq: null_mut(),
            recv_cq_channel: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            pd: null_mut(),
            qp_type: RC,
            link: 0,
            is_sync,
            bound: None,
            parameters: ConnectionParameters::default(),
            peer: 0,
            for_requests: None,
            events: EventCounts::default(),
        })
    }

    /// Its address, by which events find it.
    fn place(&self) -> usize {
        (&raw const *self).expose_provenance()
    }

    /// Where events of its links go.
    ///
    /// # Errors
    /// `EINVAL`: it has no channel.
    pub fn link_events(&self) -> Result<&Arc<Channel>> {
        // SAFETY: a channel of ours, which lives as long as its ids.
        Ok(&unsafe { get(self.channel)? }.events)
    }

    /// Has it use the device.
    ///
    /// # Errors
    /// As [`shared_context`].
    pub fn use_device(&mut self) -> Result<()> {
        self.verbs = shared_context()?;
        self.port_num = 1;
        Ok(())
    }

    /// Tells it that something is done.
    fn done(&self, event: u32, status: i32) -> Result<()> {
        self.link_events()?.push(LinkEvent {
            target: Target::Id(self.place()),
            kind: LinkEventKind::Done(event, status),
        });
        Ok(())
    }

    /// Binds it; 0 takes a free port.
    fn bind(&mut self, to: Address) -> Result<()> {
        let own = own_node()?;
        if address::node_of(to.host, own) != Some(own) {
            return Err(EADDRNOTAVAIL);
        }
        if self.bound.is_some() || self.link != 0 {
            return Err(EINVAL);
        }
        let endpoint = Endpoint::open().map_err(|error| error.errno())?;
        // SCIF's word for a port in use.
        let port = endpoint
            .bind(to.port)
            .map_err(|error| match error.errno() {
                EINVAL => EADDRINUSE,
                number => number,
            })?;
        self.bound = Some(endpoint);
        self.route.source.set(Address {
            host: to.host,
            port,
        });
        if to.host != address::ANY {
            self.use_device()?;
        }
        Ok(())
    }

    fn listen(&mut self, backlog: c_int) -> Result<()> {
        if self.bound.is_none() {
            self.bind(Address::default())?;
        }
        let endpoint = self.bound.take().ok_or(EINVAL)?;
        // As with sockets a backlog of 0 still lets one wait.
        let listener = endpoint.listen(backlog.max(1));
        let listener = listener.map_err(|error| error.errno())?;
        self.link = link::listen(listener, self.link_events()?.clone(), self.place())?;
        Ok(())
    }

    fn resolve(&mut self, source: Option<Address>, to: Address) -> Result<()> {
        let nodes = scif::nodes().map_err(|error| error.errno())?;
        if let Some(source) = source
            && address::node_of(source.host, nodes.own) != Some(nodes.own)
        {
            return Err(EADDRNOTAVAIL);
        }
        self.route.destination.set(to);
        let node = address::node_of(to.host, nodes.own);
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
        let to = self.route.destination.get().ok_or(EINVAL)?;
        let (parameters, private) = self.offer(param)?;
        self.parameters = parameters;
        let frame = Frame {
            kind: Kind::Request,
            parameters,
            private,
        };
        let to = PortId::new(self.peer, to.port);
        self.link = link::connect(to, frame, self.link_events()?.clone(), self.place())?;
        Ok(())
    }

    /// The parameters and private data that it offers to the peer.
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
            };
            return Ok((parameters, Vec::new()));
        };
        if param.retry_count > MOST_RETRIES || param.rnr_retry_count > MOST_RETRIES {
            return Err(EINVAL);
        }
        let parameters = ConnectionParameters {
            responder_resources: param.responder_resources.min(MOST_RESOURCES),
            initiator_depth: param.initiator_depth.min(MOST_RESOURCES),
            flow_control: param.flow_control,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            srq: qp.map_or(param.srq, |qp| (!qp.srq.is_null()).into()),
            qp_num: qp.map_or(param.qp_num, |qp| qp.qp_num),
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
        let (mut parameters, private) = self.offer(param)?;
        if param.is_none() {
            // The peer's wishes, as seen from this side.
            parameters.responder_resources = self.parameters.initiator_depth;
            parameters.initiator_depth = self.parameters.responder_resources;
        }
        queue_pair::connect(self, &parameters)?;
        let kind = Kind::Reply;
        let reply = Frame {
            kind,
            parameters,
            private,
        };
        match link::send(self.link, &reply) {
            true => Ok(()),
            false => Err(ENOTCONN),
        }
    }

    fn disconnect(&mut self) -> Result<()> {
        if self.link == 0 {
            return Err(EINVAL);
        }
        queue_pair::flush(self);
        // A peer that is not there any more was told of, or will be.
        link::send(self.link, &Frame::plain(Kind::Disconnect));
        Ok(())
    }
}

// ---- Calls ----

/// Makes an id, with an event channel of its own if there is none.
///
/// # Errors
/// `EOPNOTSUPP`: datagrams. Those of making a channel.
pub fn create(channel: *mut EventChannel, context: *mut c_void, ps: u32) -> Result<*mut Id> {
    if ps != PS_TCP {
        return Err(EOPNOTSUPP);
    }
    let is_sync = channel.is_null();
    let channel = match is_sync {
        true => event::create_channel()?,
        false => channel,
    };
    Ok(Box::into_raw(Id::new(channel, context, is_sync)))
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
    let (place, link) = (of.place(), of.link);
    if link != 0 {
        link::end(link);
    }
    // Events that it has not taken go with it, and connections that it has not heard of.
    if let Ok(events) = of.link_events() {
        let mut orphans = Vec::new();
        events.drop_if(|of| {
            let is_its =
                of.target == Target::Id(place) || link != 0 && of.target == Target::Link(link);
            if let (true, LinkEventKind::Request(orphan, ..)) = (is_its, &of.kind) {
                orphans.push(*orphan);
            }
            is_its
        });
        orphans.into_iter().for_each(link::end);
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

/// Does something with an id; one without a channel waits for what comes of it.
fn with(id: *mut Id, waits: bool, call: impl FnOnce(&mut Id) -> Result<()>) -> c_int {
    // SAFETY: an id of ours, which one thread uses at a time.
    let done = unsafe { get_mut(id) }.and_then(call);
    // SAFETY: as above; the reference is another one as the event changes the id, too.
    minus_one(
        done.and_then(|()| match unsafe { get(id)? }.is_sync && waits {
            true => event::complete(id),
            false => Ok(()),
        }),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_bind_addr(id: *mut Id, to: *const Storage) -> c_int {
    with(id, false, |id| {
        // SAFETY: the caller's address.
        let to = unsafe { Storage::read(to)? };
        id.bind(to)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_listen(id: *mut Id, backlog: c_int) -> c_int {
    with(id, false, |id| id.listen(backlog))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_resolve_addr(
    id: *mut Id,
    source: *const Storage,
    to: *const Storage,
    _timeout: c_int,
) -> c_int {
    with(id, true, |id| {
        // SAFETY: the caller's addresses.
        let (source, to) = unsafe {
            let source = match source.is_null() {
                true => None,
                false => Some(Storage::read(source)?),
            };
            (source, Storage::read(to)?)
        };
        id.resolve(source, to)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_resolve_route(id: *mut Id, _timeout: c_int) -> c_int {
    with(id, true, |id| match id.verbs.is_null() {
        true => Err(EINVAL),
        false => id.done(kind::ROUTE_RESOLVED, 0),
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_connect(id: *mut Id, param: *const ConnParam) -> c_int {
    // SAFETY: the caller's structure, or none.
    with(id, true, |id| id.connect(unsafe { param.as_ref() }))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_accept(id: *mut Id, param: *const ConnParam) -> c_int {
    // SAFETY: the caller's structure, or none.
    with(id, true, |id| id.accept(unsafe { param.as_ref() }))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_establish(id: *mut Id) -> c_int {
    with(id, false, |id| {
        match link::send(id.link, &Frame::plain(Kind::Ready)) {
            true => Ok(()),
            false => Err(ENOTCONN),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject(id: *mut Id, private: *const u8, length: u8) -> c_int {
    with(id, false, |id| {
        // SAFETY: the caller's bytes.
        let private = unsafe { list(private, length)? };
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
    with(id, true, Id::disconnect)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_notify(id: *mut Id, _event: c_int) -> c_int {
    // That the connection is there was said already, or will be.
    with(id, false, |_| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_set_option(
    id: *mut Id,
    level: c_int,
    option: c_int,
    _value: *const c_void,
    _length: usize,
) -> c_int {
    with(id, false, |_| {
        match level == OPTION_ID && (0..=LAST_OPTION).contains(&option) {
            true => Ok(()),
            false => Err(EOPNOTSUPP),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_migrate_id(id: *mut Id, channel: *mut EventChannel) -> c_int {
    with(id, false, |id| {
        let is_sync = channel.is_null();
        let former = id.is_sync.then_some(id.channel);
        id.channel = match is_sync {
            true => event::create_channel()?,
            false => channel,
        };
        id.is_sync = is_sync;
        link::redirect(id.link, id.link_events()?.clone());
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
    match shared_context() {
        Ok(context) => {
            if !count.is_null() {
                // SAFETY: the caller's place.
                unsafe { count.write(1) };
            }
            Box::into_raw(Box::new([context, null_mut()])).cast()
        }
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
