//! The structures of `rdma/rdma_cma.h`, and the device that all ids share. The structures point to
//! each other: an id to its channel and its event, an event to its ids.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;

use hal::lock::Mutex;
use libsocket::address::{self, AF_INET, Address, SOCKADDR_BYTES};
use scif::{Endpoint, NodeId};
use syscall::error::{EAFNOSUPPORT, EINVAL};

use super::frame::ConnectionParameters;
use super::group::{AF_INET6, Group, Name, SOCKADDR6_BYTES};
use super::link::{Channel, LinkId};
use super::port_space::type_in;
use crate::Result;
use crate::device;
use crate::domain::ibv_alloc_pd;
use crate::place::get;
use crate::types::{AhAttr, CompChannel, Context, Cq, EventCounts, Gid, Pd, Qp, QpInitAttr, Srq};

/// `struct sockaddr_storage`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Storage {
    address: [u8; SOCKADDR_BYTES],
    rest: [u8; 112],
}

impl Storage {
    /// Stores an address, with zeros after it.
    pub fn new(address: Address) -> Self {
        Self {
            address: address.to_bytes(),
            rest: [0; 112],
        }
    }

    /// Returns the stored IPv4 address, if there is one.
    pub fn get(&self) -> Option<Address> {
        let (family, address) = Address::from_bytes(&self.address);
        (family == AF_INET).then_some(address)
    }

    /// Stores the address of a group.
    pub fn set_name(&mut self, name: &Name) {
        let (first, rest) = name.bytes().split_at(SOCKADDR_BYTES);
        self.address.copy_from_slice(first);
        if let Some(place) = self.rest.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
    }

    /// Stores an IPv4 address.
    pub fn set(&mut self, address: Address) {
        self.address = address.to_bytes();
    }

    /// Reads C's address.
    ///
    /// # Errors
    /// `EINVAL` if it is null; `EAFNOSUPPORT` for another family, or an IPv6 address that stands
    /// for no IPv4 address.
    ///
    /// # Safety
    /// The pointer is null or leads to an address of its family's length.
    pub unsafe fn read(place: *const Storage) -> Result<Address> {
        if place.is_null() {
            return Err(EINVAL);
        }
        let place = place.cast::<u8>();
        // SAFETY: the caller's promise: each address begins with its family.
        let family = unsafe { place.cast::<u16>().read_unaligned() };
        if family == AF_INET6 {
            let mut bytes = [0; SOCKADDR6_BYTES];
            // SAFETY: addresses of this family have the bytes of the array.
            unsafe { place.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
            return of_six(&bytes).ok_or(EAFNOSUPPORT);
        }
        if family != AF_INET {
            return Err(EAFNOSUPPORT);
        }
        let mut bytes = [0; SOCKADDR_BYTES];
        // SAFETY: addresses of this family have the bytes of the array.
        unsafe { place.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(Address::from_bytes(&bytes).1)
    }
}

/// Returns the IPv4 address that a `struct sockaddr_in6` stands for: `::`, `::1`,
/// `::ffff:a.b.c.d`.
fn of_six(bytes: &[u8; SOCKADDR6_BYTES]) -> Option<Address> {
    let [_, _, p0, p1, _, _, _, _, address @ .., _, _, _, _] = *bytes;
    let host = match u128::from_be_bytes(address) {
        0 => address::ANY,
        1 => address::LOOPBACK,
        mapped if mapped >> 32 == 0xffff => mapped as u32,
        _ => return None,
    };
    Some(Address {
        host,
        port: u16::from_be_bytes([p0, p1]),
    })
}

/// Returns the number of the own node.
///
/// # Errors
/// `ENODEV` if there is no driver.
pub fn own_node() -> Result<scif::NodeId> {
    let nodes = scif::nodes().map_err(|error| error.errno())?;
    Ok(nodes.own)
}

/// `struct rdma_addr` and `struct rdma_route`.
#[repr(C)]
pub struct Route {
    pub source: Storage,
    pub destination: Storage,
    /// `struct rdma_ib_addr`: where both ends are, in words of InfiniBand.
    sgid: Gid,
    dgid: Gid,
    pkey: u16,
    path_rec: *mut c_void,
    num_paths: c_int,
}

impl Route {
    /// Sets the peer's node.
    pub fn set_peer(&mut self, node: NodeId) {
        self.dgid = gid_of(node);
    }
}

/// Returns the global identifier of a node's port.
fn gid_of(node: NodeId) -> Gid {
    Gid(verbs::address::gid(verbs::address::lid(node)))
}

/// `struct rdma_cm_id`, followed by fields that are only for this library.
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
    /// The id has no channel of the program: each call waits for its event.
    pub is_sync: bool,
    /// The endpoint that keeps the port while the id is bound, and neither listens nor has asked
    /// for a connection.
    pub bound: Option<Endpoint>,
    /// The parameters that this end has sent or will send, those of the peer, and the peer's node.
    pub own: ConnectionParameters,
    pub parameters: ConnectionParameters,
    pub peer: NodeId,
    /// The groups that the id has joined.
    pub groups: Vec<Group>,
    /// Of a listening endpoint: the protection domain and queue pair attributes for ids of
    /// requests.
    pub for_requests: Option<(usize, QpInitAttr)>,
    /// Counts of its events that the program has received and acknowledged.
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

/// The addresses of the context that all ids share, and of the protection domain of ids without
/// one. A child of a fork begins with neither.
pub static SHARED: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// Returns the context that all ids share.
///
/// # Errors
/// `ENODEV`; those of opening it.
pub fn shared_context() -> Result<*mut Context> {
    let mut shared = SHARED.lock();
    if shared.0 == 0 {
        shared.0 = Box::into_raw(Box::new(device::open()?)).expose_provenance();
    }
    Ok(core::ptr::with_exposed_provenance_mut(shared.0))
}

/// Returns the protection domain of ids whose program has none.
///
/// # Errors
/// Those of [`shared_context`].
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

/// `struct rdma_event_channel`, with its events.
#[repr(C)]
pub struct EventChannel {
    pub fd: c_int,
    pub events: Arc<Channel>,
}

/// `struct rdma_ud_param`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UdParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub ah_attr: AhAttr,
    pub qp_num: u32,
    pub qkey: u32,
}

/// The union of `struct rdma_cm_event`.
#[repr(C)]
pub union Param {
    pub conn: ConnParam,
    pub ud: UdParam,
}

impl Param {
    /// All zeros.
    pub fn new() -> Self {
        // SAFETY: numbers and pointers, for which 0 is a value.
        unsafe { zeroed() }
    }
}

const _: () = {
    assert!(size_of::<UdParam>() == 56);
    assert!(size_of::<ConnParam>() == 24);
};

/// `struct rdma_cm_event`, followed by fields that are only for this library.
#[repr(C)]
pub struct Event {
    pub id: *mut Id,
    pub listen_id: *mut Id,
    pub event: u32,
    pub status: c_int,
    pub param: Param,
    /// The bytes that `private_data` points to.
    pub private: Vec<u8>,
}

impl Id {
    /// Makes an id with this channel and port space.
    pub fn new(
        channel: *mut EventChannel,
        context: *mut c_void,
        ps: u32,
        is_sync: bool,
    ) -> Box<Id> {
        // SAFETY: numbers and pointers, for which 0 is a value.
        let route: Route = unsafe { zeroed() };
        Box::new(Id {
            verbs: null_mut(),
            channel,
            context,
            qp: null_mut(),
            route,
            ps,
            port_num: 0,
            event: null_mut(),
            send_cq_channel: null_mut(),
            send_cq: null_mut(),
            recv_cq_channel: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            pd: null_mut(),
            qp_type: type_in(ps),
            link: 0,
            is_sync,
            bound: None,
            own: ConnectionParameters::default(),
            parameters: ConnectionParameters::default(),
            peer: 0,
            groups: Vec::new(),
            for_requests: None,
            events: EventCounts::default(),
        })
    }

    /// Returns its address, by which events find it.
    pub fn place(&self) -> usize {
        (&raw const *self).expose_provenance()
    }

    /// Returns the channel for events of its links.
    ///
    /// # Errors
    /// `EINVAL` if it has no channel.
    pub fn link_events(&self) -> Result<&Arc<Channel>> {
        // SAFETY: a channel of ours, which lives as long as its ids.
        Ok(&unsafe { get(self.channel)? }.events)
    }

    /// Assigns the device to the id.
    ///
    /// # Errors
    /// Those of [`shared_context`].
    pub fn use_device(&mut self) -> Result<()> {
        self.verbs = shared_context()?;
        if self.pd.is_null() {
            self.pd = shared_pd()?;
        }
        self.port_num = 1;
        (self.route.sgid, self.route.pkey) = (gid_of(own_node()?), device::PKEY);
        Ok(())
    }
}
