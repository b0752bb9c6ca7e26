//! Names of the numbers in management datagrams.

use core::ffi::{CStr, c_char};

type Names = [(u16, &'static CStr)];

const UNKNOWN: &CStr = c"<unknown>";
/// Classes of vendors, without and with an organisation, and of applications.
const VENDORS: [core::ops::RangeInclusive<u8>; 2] = [0x09..=0x0f, 0x30..=0x4f];
const APPLICATIONS: core::ops::RangeInclusive<u8> = 0x10..=0x2f;
const ADMINISTRATION: u8 = 0x03;

const CLASSES: &Names = &[
    (0x01, c"Subn"),
    (0x81, c"Subn"),
    (0x03, c"SubnAdm"),
    (0x04, c"Perf"),
    (0x05, c"BM"),
    (0x06, c"DevMgt"),
    (0x07, c"ComMgt"),
    (0x08, c"SNMP"),
    (0x10, c"DevAdm"),
    (0x11, c"BootMgt"),
    (0x12, c"BIS"),
    (0x21, c"CongestionManagment"),
];

const METHODS: &Names = &[
    (0x01, c"Get"),
    (0x02, c"Set"),
    (0x81, c"GetResp"),
    (0x03, c"Send"),
    (0x05, c"Trap"),
    (0x06, c"Report"),
    (0x86, c"ReportResp"),
    (0x07, c"TrapRepress"),
];

const ADMINISTRATION_METHODS: &Names = &[
    (0x12, c"GetTable"),
    (0x92, c"GetTableResp"),
    (0x15, c"Delete"),
    (0x95, c"DeleteResp"),
    (0x14, c"GetMulti"),
    (0x94, c"GetMultiResp"),
    (0x13, c"GetTraceTable"),
];

const ATTRIBUTES: &Names = &[
    (0x01, c"Class Port Info"),
    (0x02, c"Notice"),
    (0x03, c"Inform Info"),
];

const SUBNET_ATTRIBUTES: &Names = &[
    (0x10, c"NodeDescription"),
    (0x11, c"NodeInfo"),
    (0x12, c"SwitchInfo"),
    (0x14, c"GUIDInfo"),
    (0x15, c"PortInfo"),
    (0x16, c"P_KeyTable"),
    (0x17, c"SLtoVLMappingTable"),
    (0x18, c"VLArbitrationTable"),
    (0x19, c"LinearForwardingTable"),
    (0x1a, c"RandomForwardingTable"),
    (0x1b, c"MulticastForwardingTable"),
    (0x1c, c"LinkSpeedWidthPairsTable"),
    (0x1d, c"VendorSpecificMadsTable"),
    (0x1e, c"HierarchyInfo"),
    (0x20, c"SMInfo"),
    (0x30, c"VendorDiag"),
    (0x31, c"LedInfo"),
    (0x32, c"CableInfo"),
    (0x33, c"PortInfoExtended"),
];

const RECORDS: &Names = &[
    (0x11, c"NodeRecord"),
    (0x12, c"PortInfoRecord"),
    (0x13, c"SLtoVLMappingTableRecord"),
    (0x14, c"SwitchInfoRecord"),
    (0x15, c"LinearForwardingTableRecord"),
    (0x16, c"RandomForwardingTableRecord"),
    (0x17, c"MulticastForwardingTableRecord"),
    (0x18, c"SMInfoRecord"),
    (0x19, c"LinkSpeedWidthPairsTableRecord"),
    (0x20, c"LinkRecord"),
    (0x30, c"GuidInfoRecord"),
    (0x31, c"ServiceRecord"),
    (0x33, c"P_KeyTableRecord"),
    (0x35, c"PathRecord"),
    (0x36, c"VLArbitrationTableRecord"),
    (0x38, c"MCMemberRecord"),
    (0x39, c"TraceRecord"),
    (0x3a, c"MultiPathRecord"),
    (0x3b, c"ServiceAssociationRecord"),
    (0x3c, c"HierarchyInfoRecord"),
    (0x3d, c"CableInfoRecord"),
    (0x3e, c"PortInfoExtendedRecord"),
    (0xf3, c"InformInfoRecord"),
];

const CONNECTION_ATTRIBUTES: &Names = &[
    (0x10, c"ConnectRequest"),
    (0x11, c"MsgRcptAck"),
    (0x12, c"ConnectReject"),
    (0x13, c"ConnectReply"),
    (0x14, c"ReadyToUse"),
    (0x15, c"DisconnectRequest"),
    (0x16, c"DisconnectReply"),
    (0x17, c"ServiceIDResReq"),
    (0x18, c"ServiceIDResReqResp"),
    (0x19, c"LoadAlternatePath"),
    (0x1a, c"AlternatePathResponse"),
    (0x1b, c"SuggestAlternatePath"),
    (0x1c, c"SuggestPathResponse"),
];

/// The upper half of a status of subnet administration.
const ADMINISTRATION_STATUS: &Names = &[
    (0, c"Success"),
    (1, c"No Resources"),
    (2, c"Request Invalid"),
    (3, c"No Records"),
    (4, c"Too Many Records"),
    (5, c"Invalid GID"),
    (6, c"Insufficient Components"),
    (7, c"Request Denied"),
    (8, c"Priority Suggested"),
];

/// The number in bits 2 to 4 of a status.
const STATUS: &Names = &[
    (1, c"Bad Version"),
    (2, c"Method not supported"),
    (3, c"Method/Attribute combo not supported"),
    (7, c"Invalid attribute/modifier field"),
];

fn find(names: &Names, number: u16) -> Option<&'static CStr> {
    let found = names.iter().find(|(of, _)| *of == number);
    found.map(|(_, name)| *name)
}

#[unsafe(no_mangle)]
extern "C" fn umad_class_str(class: u8) -> *const c_char {
    let name = find(CLASSES, class.into());
    let name = name.unwrap_or_else(|| match class {
        _ if VENDORS.iter().any(|range| range.contains(&class)) => c"Vendor",
        _ if APPLICATIONS.contains(&class) => c"Application",
        _ => UNKNOWN,
    });
    name.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn umad_method_str(class: u8, method: u8) -> *const c_char {
    let own = match class {
        ADMINISTRATION => ADMINISTRATION_METHODS,
        _ => &[],
    };
    let name = find(own, method.into()).or_else(|| find(METHODS, method.into()));
    name.unwrap_or(UNKNOWN).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn umad_attribute_str(class: u8, attribute: u16) -> *const c_char {
    let attribute = u16::from_be(attribute);
    let own = match class {
        0x01 | 0x81 => SUBNET_ATTRIBUTES,
        ADMINISTRATION => RECORDS,
        0x07 => CONNECTION_ATTRIBUTES,
        _ => &[],
    };
    let name = find(own, attribute).or_else(|| find(ATTRIBUTES, attribute));
    name.unwrap_or(UNKNOWN).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn umad_common_mad_status_str(status: u16) -> *const c_char {
    let status = u16::from_be(status);
    let name = match status {
        _ if status & 1 != 0 => c"Busy",
        _ if status & 2 != 0 => c"Redirection required",
        _ => find(STATUS, status >> 2 & 7).unwrap_or(c"Success"),
    };
    name.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn umad_sa_mad_status_str(status: u16) -> *const c_char {
    let name = find(ADMINISTRATION_STATUS, u16::from_be(status) >> 8);
    name.unwrap_or(c"Undefined Error").as_ptr()
}
