//! The frames with which the two ends of a connection set it up and end it.

use alloc::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first bytes of a frame.
const MAGIC: u32 = u32::from_le_bytes(*b"RDCM");

/// Kinds of frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// The client asks for a connection.
    Request = 1,
    /// The server accepts.
    Reply = 2,
    /// The server refuses.
    Reject = 3,
    /// The client can receive.
    Ready = 4,
    /// One end ends the connection.
    Disconnect = 5,
    /// The other end has received `Disconnect`.
    Disconnected = 6,
    /// The client asks where to send datagrams.
    Lookup = 7,
    /// The server answers a `Lookup`.
    Found = 8,
    /// The listener is for another port space.
    NoService = 9,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Request,
        Kind::Reply,
        Kind::Reject,
        Kind::Ready,
        Kind::Disconnect,
        Kind::Disconnected,
        Kind::Lookup,
        Kind::Found,
        Kind::NoService,
    ];
}

/// The head of a frame. Numbers are in little-endian order.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Header {
    magic: u32,
    kind: u8,
    private_bytes: u8,
    responder_resources: u8,
    initiator_depth: u8,
    flow_control: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    srq: u8,
    qp_num: u32,
    port_space: u32,
}

/// Attributes of a connection that the ends exchange.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ConnectionParameters {
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
    /// `enum rdma_port_space` of the id.
    pub port_space: u32,
}

impl ConnectionParameters {
    /// Returns the parameters as seen from the other end, as this end answers the reads that the
    /// other one issues.
    pub fn turned(self) -> Self {
        Self {
            responder_resources: self.initiator_depth,
            initiator_depth: self.responder_resources,
            srq: 0,
            qp_num: 0,
            ..self
        }
    }
}

/// A frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    pub kind: Kind,
    pub parameters: ConnectionParameters,
    /// Private data of the programs, at most 255 bytes.
    pub private: Vec<u8>,
}

impl Frame {
    /// Makes a frame without attributes.
    pub fn plain(kind: Kind) -> Frame {
        Frame {
            kind,
            parameters: ConnectionParameters::default(),
            private: Vec::new(),
        }
    }

    /// Encodes the frame.
    pub fn bytes(&self) -> Vec<u8> {
        let parameters = &self.parameters;
        let header = Header {
            magic: MAGIC.to_le(),
            kind: self.kind as u8,
            private_bytes: self.private.len() as u8,
            responder_resources: parameters.responder_resources,
            initiator_depth: parameters.initiator_depth,
            flow_control: parameters.flow_control,
            retry_count: parameters.retry_count,
            rnr_retry_count: parameters.rnr_retry_count,
            srq: parameters.srq,
            qp_num: parameters.qp_num.to_le(),
            port_space: parameters.port_space.to_le(),
        };
        [header.as_bytes(), &self.private].concat()
    }

    /// Removes the next frame from the bytes that have arrived, if it is complete.
    ///
    /// # Errors
    /// The bytes are not a frame.
    pub fn take(arrived: &mut Vec<u8>) -> Result<Option<Frame>, ()> {
        let Ok((header, rest)) = Header::read_from_prefix(arrived) else {
            return Ok(None);
        };
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == header.kind);
        let kind = kind
            .filter(|_| u32::from_le(header.magic) == MAGIC)
            .ok_or(())?;
        let length = usize::from(header.private_bytes);
        let Some(private) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = Frame {
            kind,
            parameters: ConnectionParameters {
                responder_resources: header.responder_resources,
                initiator_depth: header.initiator_depth,
                flow_control: header.flow_control,
                retry_count: header.retry_count,
                rnr_retry_count: header.rnr_retry_count,
                srq: header.srq,
                qp_num: u32::from_le(header.qp_num),
                port_space: u32::from_le(header.port_space),
            },
            private: private.to_vec(),
        };
        arrived.drain(..size_of::<Header>() + length);
        Ok(Some(frame))
    }
}
