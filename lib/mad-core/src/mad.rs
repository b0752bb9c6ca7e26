//! Management datagrams as bytes: the headers, and the numbers of classes, methods and statuses
//! (InfiniBand specification volume 1, chapters 13 and 14; `ib_mad.h`).

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a datagram.
pub const MAD_BYTES: usize = 256;
/// Bytes of the header of each datagram.
pub const HEADER_BYTES: usize = 24;
/// Bytes of that header and the RMPP header.
pub const RMPP_HEADER_BYTES: usize = 36;
/// Version of the common header.
pub const BASE_VERSION: u8 = 1;
/// The local identifier that names no port; datagrams of a directed route have it.
pub const PERMISSIVE_LID: u16 = 0xffff;
/// The key of queue pair 1.
pub const GSI_QKEY: u32 = 0x8001_0000;
/// The identifier of the organisation in ibping's and ibsysstat's datagrams.
pub const OPENIB_OUI: [u8; 3] = [0x00, 0x14, 0x05];

/// Management classes.
pub mod class {
    /// Subnet management by local identifiers.
    pub const SUBNET_LID: u8 = 0x01;
    /// Subnet management by a directed route.
    pub const SUBNET_DIRECTED: u8 = 0x81;
    /// Subnet administration.
    pub const SUBNET_ADMINISTRATION: u8 = 0x03;
    /// Performance management.
    pub const PERFORMANCE: u8 = 0x04;
    /// Baseboard management.
    pub const BASEBOARD: u8 = 0x05;
    /// Device management.
    pub const DEVICE_MANAGEMENT: u8 = 0x06;
    /// Communication management.
    pub const COMMUNICATION: u8 = 0x07;
    /// Device administration.
    pub const DEVICE_ADMINISTRATION: u8 = 0x10;
    /// Boot information service.
    pub const BOOT_INFORMATION: u8 = 0x12;
    /// The first and the last vendor's class whose datagrams name an organisation.
    pub const VENDOR: core::ops::RangeInclusive<u8> = 0x30..=0x4f;
    /// Classes from this number on do not exist, except [`SUBNET_DIRECTED`].
    pub const END: u8 = 80;
    /// Versions of classes from this number on do not exist.
    pub const VERSION_END: u8 = 0x83;

    /// Whether datagrams of the class belong to subnet management, and so to queue pair 0.
    pub const fn is_subnet(class: u8) -> bool {
        matches!(class, SUBNET_LID | SUBNET_DIRECTED)
    }

    /// Whether datagrams of the class name an organisation.
    pub fn is_vendor(class: u8) -> bool {
        VENDOR.contains(&class)
    }

    /// Whether messages of the class may be longer than one datagram.
    pub fn has_rmpp(class: u8) -> bool {
        let is_listed = matches!(
            class,
            SUBNET_ADMINISTRATION | DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION
        );
        is_listed || is_vendor(class)
    }

    /// Bytes of all headers in front of the data, by class.
    pub fn header_bytes(class: u8) -> usize {
        match class {
            SUBNET_ADMINISTRATION => 56,
            DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION => 64,
            class if is_vendor(class) => 40,
            _ => super::HEADER_BYTES,
        }
    }
}

/// Methods.
pub mod method {
    /// Asks for an attribute.
    pub const GET: u8 = 0x01;
    /// Changes an attribute.
    pub const SET: u8 = 0x02;
    /// A message without an answer.
    pub const SEND: u8 = 0x03;
    /// The answer to GET and SET.
    pub const GET_RESPONSE: u8 = 0x81;
    /// A notice to the subnet manager.
    pub const TRAP: u8 = 0x05;
    /// A notice to a subscriber.
    pub const REPORT: u8 = 0x06;
    /// The answer to REPORT.
    pub const REPORT_RESPONSE: u8 = 0x86;
    /// Tells the sender of a trap that it has arrived.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// Asks for all records that match.
    pub const GET_TABLE: u8 = 0x12;
    /// The answer to GET_TABLE.
    pub const GET_TABLE_RESPONSE: u8 = 0x92;
    /// Removes a record.
    pub const DELETE: u8 = 0x15;
    /// The answer to DELETE.
    pub const DELETE_RESPONSE: u8 = 0x95;
    /// The bit that marks an answer.
    pub const RESPONSE: u8 = 0x80;
}

/// Values of `status`.
pub mod status {
    /// The base or class version is unknown.
    pub const BAD_VERSION: u16 = 1 << 2;
    /// The method is unknown.
    pub const METHOD_UNKNOWN: u16 = 2 << 2;
    /// The method does not have this attribute.
    pub const ATTRIBUTE_UNKNOWN: u16 = 3 << 2;
    /// A value in the attribute or its modifier is not possible.
    pub const BAD_VALUE: u16 = 7 << 2;
    /// On a directed route: the datagram is on its way back.
    pub const DIRECTION: u16 = 1 << 15;
}

/// The header of each datagram.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Version of this header.
    pub base_version: u8,
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Method.
    pub method: u8,
    /// Status.
    pub status: U16,
    /// On a directed route: hop pointer and hop count.
    pub hops: [u8; 2],
    /// Transaction.
    pub tid: U64,
    /// Attribute.
    pub attribute: U16,
    /// Always 0.
    pub reserved: U16,
    /// Attribute modifier.
    pub modifier: U32,
}

impl Header {
    /// Whether it is the header of an answer (`ib_response_mad`).
    pub fn is_response(&self) -> bool {
        let is_baseboard = self.class == class::BASEBOARD && self.modifier.get() & 1 != 0;
        self.method & method::RESPONSE != 0 || self.method == method::TRAP_REPRESS || is_baseboard
    }
}

/// The RMPP header, behind the common one.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct RmppHeader {
    /// Version of RMPP.
    pub version: u8,
    /// DATA, ACK, STOP or ABORT.
    pub kind: u8,
    /// Response time in the upper five bits, flags in the others.
    pub flags: u8,
    /// Why the message ends.
    pub status: u8,
    /// The number of the segment, from 1; in an ACK, of the last one that has arrived.
    pub segment: U32,
    /// The length of the payload; in an ACK, the number of the last segment that may be sent.
    pub length: U32,
}

/// A datagram of subnet management.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Smp {
    /// The common header.
    pub header: Header,
    /// The key that guards changes.
    pub m_key: U64,
    /// Where the directed part of the route begins; [`PERMISSIVE_LID`]: at the sender.
    pub directed_source: U16,
    /// Where the directed part of the route ends; [`PERMISSIVE_LID`]: at the receiver.
    pub directed_destination: U16,
    /// Always 0.
    pub reserved: [u8; 28],
    /// The attribute.
    pub data: [u8; 64],
    /// The ports by which it leaves, from index 1.
    pub initial_path: [u8; 64],
    /// The ports by which it has arrived.
    pub return_path: [u8; 64],
}

impl Smp {
    /// The hop pointer: how many hops it has made.
    pub fn hop_pointer(&self) -> u8 {
        self.header.hops[0]
    }

    /// The hop count: how many hops the route has.
    pub fn hop_count(&self) -> u8 {
        self.header.hops[1]
    }

    /// Whether it is on its way back.
    pub fn is_returning(&self) -> bool {
        self.header.status.get() & status::DIRECTION != 0
    }
}

/// The headers of a datagram of subnet administration, in front of its records.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct SaHeader {
    /// The common header.
    pub header: Header,
    /// The RMPP header.
    pub rmpp: RmppHeader,
    /// The key of the subnet manager.
    pub sm_key: U64,
    /// The length of a record in units of eight bytes.
    pub attribute_offset: U16,
    /// Always 0.
    pub reserved: U16,
    /// The components of the record that have to match.
    pub mask: U64,
}

const _: () = {
    assert!(size_of::<Header>() == HEADER_BYTES);
    assert!(size_of::<RmppHeader>() == RMPP_HEADER_BYTES - HEADER_BYTES);
    assert!(size_of::<Smp>() == MAD_BYTES);
    assert!(size_of::<SaHeader>() == 56);
};

/// A datagram.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Mad {
    /// The common header.
    pub header: Header,
    /// All bytes behind the header.
    pub rest: [u8; MAD_BYTES - HEADER_BYTES],
}

impl Mad {
    /// A datagram that begins with these bytes, filled up with zeros or cut at [`MAD_BYTES`].
    pub fn padded(bytes: &[u8]) -> Mad {
        let mut block = [0; MAD_BYTES];
        let length = bytes.len().min(MAD_BYTES);
        block[..length].copy_from_slice(&bytes[..length]);
        zerocopy::transmute!(block)
    }

    /// The bytes of the datagram.
    pub fn bytes(&self) -> &[u8; MAD_BYTES] {
        zerocopy::transmute_ref!(self)
    }

    /// The bytes of the datagram, to change them.
    pub fn bytes_mut(&mut self) -> &mut [u8; MAD_BYTES] {
        zerocopy::transmute_mut!(self)
    }

    /// The RMPP header, which is meaningful only for classes that have RMPP.
    pub fn rmpp(&self) -> RmppHeader {
        let (header, _) = RmppHeader::read_from_prefix(&self.rest).unwrap_or_default();
        header
    }

    /// Replaces the RMPP header.
    pub fn set_rmpp(&mut self, header: RmppHeader) {
        let place = &mut self.rest[..size_of::<RmppHeader>()];
        place.copy_from_slice(header.as_bytes());
    }

    /// The datagram as one of subnet management.
    pub fn smp(&self) -> Smp {
        zerocopy::transmute!(*self)
    }

    /// A datagram of subnet management as any datagram.
    pub fn from_smp(smp: Smp) -> Mad {
        zerocopy::transmute!(smp)
    }

    /// The organisation that a vendor's class names.
    pub fn oui(&self) -> [u8; 3] {
        // Behind the RMPP header and a reserved byte.
        [self.rest[13], self.rest[14], self.rest[15]]
    }
}

impl core::fmt::Debug for Mad {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mad")
            .field("header", &self.header)
            .field("rmpp", &self.rmpp())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Header, Mad, class, method};

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let mut bytes = [0; 256];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let mad = Mad::padded(&bytes);
        assert_eq!(mad.bytes(), &bytes);
        assert_eq!((mad.header.base_version, mad.header.class), (0, 1));
        assert_eq!((mad.header.class_version, mad.header.method), (2, 3));
        assert_eq!(mad.header.tid.get(), 0x0809_0a0b_0c0d_0e0f);
        assert_eq!(mad.header.attribute.get(), 0x1011);
        assert_eq!(mad.header.modifier.get(), 0x1415_1617);
        let rmpp = mad.rmpp();
        assert_eq!((rmpp.version, rmpp.kind), (24, 25));
        assert_eq!(
            (rmpp.segment.get(), rmpp.length.get()),
            (0x1c1d_1e1f, 0x2021_2223)
        );
        assert_eq!(mad.oui(), [37, 38, 39]);
        let smp = mad.smp();
        assert_eq!((smp.hop_pointer(), smp.hop_count()), (6, 7));
        assert_eq!(
            (smp.data[0], smp.initial_path[0], smp.return_path[0]),
            (64, 128, 192)
        );
        assert_eq!(Mad::from_smp(smp), mad);
        let mut other = mad;
        other.set_rmpp(rmpp);
        assert_eq!(other, mad);
        assert_eq!(Mad::padded(&bytes[..30]).bytes()[28..32], [28, 29, 0, 0]);
    }

    #[test]
    fn answers_are_told_from_requests() {
        let of = |class, method, modifier: u32| Header {
            class,
            method,
            modifier: modifier.into(),
            ..Header::default()
        };
        assert!(of(4, method::GET_RESPONSE, 0).is_response());
        assert!(of(1, method::TRAP_REPRESS, 0).is_response());
        assert!(of(class::BASEBOARD, method::SEND, 1).is_response());
        assert!(!of(class::BASEBOARD, method::SEND, 2).is_response());
        assert!(!of(class::PERFORMANCE, method::SEND, 1).is_response());
        assert!(!of(class::SUBNET_LID, method::GET, 0).is_response());
    }

    #[test]
    fn headers_have_the_lengths_of_their_classes() {
        for (number, bytes) in [
            (3, 56),
            (6, 64),
            (0x10, 64),
            (0x12, 64),
            (0x30, 40),
            (0x4f, 40),
        ] {
            assert!(class::has_rmpp(number));
            assert_eq!(class::header_bytes(number), bytes);
        }
        for number in [1, 4, 5, 7, 9, 0x11, 0x2f, 0x50, 0x81] {
            assert!(!class::has_rmpp(number));
            assert_eq!(class::header_bytes(number), 24);
        }
    }
}
