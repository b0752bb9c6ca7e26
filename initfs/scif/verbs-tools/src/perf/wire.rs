//! Messages between client and server, over a SCIF connection besides the queue pairs.

use scif::{Endpoint, RecvFlags, SendFlags};
use verbs::Remote;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Context, Failure, Result};

/// The kind of a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Kind {
    SendLat = 1,
    WriteLat,
    ReadLat,
    AtomicLat,
    SendBw,
    WriteBw,
    ReadBw,
    AtomicRate,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::SendLat,
        Kind::WriteLat,
        Kind::ReadLat,
        Kind::AtomicLat,
        Kind::SendBw,
        Kind::WriteBw,
        Kind::ReadBw,
        Kind::AtomicRate,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::SendLat => "send_lat",
            Kind::WriteLat => "write_lat",
            Kind::ReadLat => "read_lat",
            Kind::AtomicLat => "atomic_lat",
            Kind::SendBw => "send_bw",
            Kind::WriteBw => "write_bw",
            Kind::ReadBw => "read_bw",
            Kind::AtomicRate => "atomic_rate",
        }
    }

    fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Whether the test has many requests under way at a time.
    pub fn is_stream(self) -> bool {
        let streams = [Kind::SendBw, Kind::WriteBw, Kind::ReadBw, Kind::AtomicRate];
        streams.contains(&self)
    }

    /// Whether the test has only one size, that of a word.
    pub fn is_atomic(self) -> bool {
        matches!(self, Kind::AtomicLat | Kind::AtomicRate)
    }
}

/// What the client asks the server to do.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub kind: Kind,
    pub size: u64,
    pub rounds: u64,
    pub depth: u32,
    pub has_events: bool,
}

/// The number in an order that ends the server.
const STOP: u32 = 0;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct OrderRecord {
    kind: u32,
    depth: u32,
    has_events: u32,
    reserved: u32,
    size: u64,
    rounds: u64,
}

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct PlaceRecord {
    address: u64,
    key: u32,
    reserved: u32,
}

fn tell<T: IntoBytes + Immutable>(endpoint: &Endpoint, record: &T) -> Result {
    let bytes = record.as_bytes();
    let sent = endpoint.send(bytes, SendFlags::BLOCK).context("send")?;
    match sent == bytes.len() {
        true => Ok(()),
        false => Err(Failure::new("the connection has ended")),
    }
}

fn hear<T: FromBytes + IntoBytes>(endpoint: &Endpoint) -> Result<T> {
    let mut record = T::new_zeroed();
    let bytes = record.as_mut_bytes();
    let count = endpoint.recv(bytes, RecvFlags::BLOCK).context("receive")?;
    match count == bytes.len() {
        true => Ok(record),
        false => Err(Failure::new("the connection has ended")),
    }
}

/// Sends the server an order; `None` ends it.
pub fn order(endpoint: &Endpoint, order: Option<&Order>) -> Result {
    let record = OrderRecord {
        kind: order.map_or(STOP, |order| order.kind as u32),
        depth: order.map_or(0, |order| order.depth),
        has_events: order.is_some_and(|order| order.has_events).into(),
        reserved: 0,
        size: order.map_or(0, |order| order.size),
        rounds: order.map_or(0, |order| order.rounds),
    };
    tell(endpoint, &record)
}

/// Receives the next order; `None` if the server is to end.
///
/// # Errors
/// The connection has ended, or the order makes no sense.
pub fn take_order(endpoint: &Endpoint) -> Result<Option<Order>> {
    let record: OrderRecord = hear(endpoint)?;
    if record.kind == STOP {
        return Ok(None);
    }
    let kind = Kind::from_number(record.kind);
    let fits = (1..=super::MOST_BYTES).contains(&record.size)
        && (1..=super::MOST_DEPTH).contains(&record.depth.into());
    let kind = kind
        .filter(|_| fits)
        .ok_or(Failure::new("an order that makes no sense"))?;
    Ok(Some(Order {
        kind,
        size: record.size,
        rounds: record.rounds,
        depth: record.depth,
        has_events: record.has_events != 0,
    }))
}

/// Sends the peer the place of this side's memory, and receives the place of the peer's.
pub fn exchange(endpoint: &Endpoint, own: Remote) -> Result<Remote> {
    tell(
        endpoint,
        &PlaceRecord {
            address: own.address,
            key: own.key,
            reserved: 0,
        },
    )?;
    let peer: PlaceRecord = hear(endpoint)?;
    Ok(Remote {
        address: peer.address,
        key: peer.key,
    })
}

/// Waits until the peer has made the same call.
pub fn meet(endpoint: &Endpoint) -> Result {
    tell(endpoint, &0_u32)?;
    hear::<u32>(endpoint).map(drop)
}
