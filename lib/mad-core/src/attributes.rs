//! The attributes of subnet and performance management, as bytes (InfiniBand specification volume
//! 1, 14.2.5 and 16.1.3).
//!
//! A field is named by its first bit and its number of bits, as the specification counts them: bit
//! 0 is the highest one of byte 0.

/// Numbers of attributes.
pub mod attribute {
    /// ClassPortInfo, of every class but subnet management: what the agent can do.
    pub const CLASS_PORT_INFO: u16 = 0x01;
    /// Notice: an event of the fabric.
    pub const NOTICE: u16 = 0x02;
    /// InformInfo: a subscription to notices.
    pub const INFORM_INFO: u16 = 0x03;
    /// NodeDescription: a text about the node.
    pub const NODE_DESCRIPTION: u16 = 0x10;
    /// NodeInfo: what the node is.
    pub const NODE_INFO: u16 = 0x11;
    /// SwitchInfo: what the switch can do.
    pub const SWITCH_INFO: u16 = 0x12;
    /// GUIDInfo: the global identifiers of a port.
    pub const GUID_INFO: u16 = 0x14;
    /// PortInfo: the state and properties of a port.
    pub const PORT_INFO: u16 = 0x15;
    /// P_KeyTable: partition keys.
    pub const PKEY_TABLE: u16 = 0x16;
    /// SLtoVLMappingTable: virtual lanes by service level.
    pub const SL_TO_VL: u16 = 0x17;
    /// VLArbitrationTable: arbitration of virtual lanes.
    pub const VL_ARBITRATION: u16 = 0x18;
    /// LinearForwardingTable: ports by local identifier.
    pub const LINEAR_FORWARDING: u16 = 0x19;
    /// MulticastForwardingTable: ports by group.
    pub const MULTICAST_FORWARDING: u16 = 0x1b;
    /// SMInfo: a subnet manager.
    pub const SM_INFO: u16 = 0x20;
    /// PortCounters, of performance management.
    pub const PORT_COUNTERS: u16 = 0x12;
    /// PortCountersExtended: the counters with 64 bits.
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x1d;
}

/// A field: its first bit and its number of bits.
pub type Field = (usize, usize);

/// Reads a field; bits beyond the data count as 0.
pub fn get(data: &[u8], (at, bits): Field) -> u64 {
    (at..at + bits).fold(0, |value, bit| {
        let byte = data.get(bit / 8).copied().unwrap_or(0);
        value << 1 | u64::from(byte >> (7 - bit % 8) & 1)
    })
}

/// Writes a field; bits beyond the data are left out.
pub fn put(data: &mut [u8], (at, bits): Field, value: u64) {
    for bit in 0..bits {
        let place = at + bit;
        if let Some(byte) = data.get_mut(place / 8) {
            let mask = 0x80 >> (place % 8);
            match value >> (bits - 1 - bit) & 1 {
                0 => *byte &= !mask,
                _ => *byte |= mask,
            }
        }
    }
}

/// Declares constants for fields.
macro_rules! fields {
    ($($name:ident: $at:literal, $bits:literal;)*) => {
        $(
            #[doc = concat!("Bit ", $at, ", ", $bits, " bits.")]
            pub const $name: $crate::attributes::Field = ($at, $bits);
        )*
    };
}
pub(crate) use fields;

/// Fields of NodeInfo.
pub mod node_info {
    fields! {
        BASE_VERSION: 0, 8;
        CLASS_VERSION: 8, 8;
        NODE_TYPE: 16, 8;
        PORTS: 24, 8;
        SYSTEM_GUID: 32, 64;
        NODE_GUID: 96, 64;
        PORT_GUID: 160, 64;
        PARTITIONS: 224, 16;
        DEVICE: 240, 16;
        REVISION: 256, 32;
        LOCAL_PORT: 288, 8;
        VENDOR: 296, 24;
    }
}

/// Fields of PortInfo.
pub mod port_info {
    fields! {
        GID_PREFIX: 64, 64;
        LID: 128, 16;
        SM_LID: 144, 16;
        CAPABILITIES: 160, 32;
        LOCAL_PORT: 224, 8;
        WIDTH_ENABLED: 232, 8;
        WIDTH_SUPPORTED: 240, 8;
        WIDTH_ACTIVE: 248, 8;
        SPEED_SUPPORTED: 256, 4;
        STATE: 260, 4;
        PHYSICAL_STATE: 264, 4;
        DOWN_DEFAULT: 268, 4;
        SPEED_ACTIVE: 280, 4;
        SPEED_ENABLED: 284, 4;
        NEIGHBOUR_MTU: 288, 4;
        VL_CAPABILITY: 296, 4;
        VL_HIGH_CAPACITY: 312, 8;
        VL_LOW_CAPACITY: 320, 8;
        MTU_CAPABILITY: 332, 4;
        OPERATIONAL_VLS: 344, 4;
        PKEY_VIOLATIONS: 368, 16;
        QKEY_VIOLATIONS: 384, 16;
        GUID_CAPABILITY: 400, 8;
        CLIENT_REREGISTER: 408, 1;
        SUBNET_TIMEOUT: 411, 5;
        RESPONSE_TIME: 419, 5;
        EXTENDED_ACTIVE: 496, 4;
        EXTENDED_SUPPORTED: 500, 4;
        EXTENDED_ENABLED: 507, 5;
    }
}

/// Fields of SwitchInfo.
pub mod switch_info {
    fields! {
        LINEAR_CAPACITY: 0, 16;
        MULTICAST_CAPACITY: 32, 16;
        LINEAR_TOP: 48, 16;
        LIFE_TIME: 88, 5;
        PARTITION_CAPACITY: 112, 16;
        MULTICAST_TOP: 144, 16;
    }
}

/// Fields of SMInfo.
pub mod sm_info {
    fields! {
        GUID: 0, 64;
        ACTIVITY: 128, 32;
        PRIORITY: 160, 4;
        STATE: 164, 4;
    }
    /// The state of a manager that is in charge.
    pub const MASTER: u64 = 3;
}

/// Fields of ClassPortInfo.
pub mod class_port_info {
    fields! {
        BASE_VERSION: 0, 8;
        CLASS_VERSION: 8, 8;
        CAPABILITIES: 16, 16;
        RESPONSE_TIME: 59, 5;
    }
}

/// Capabilities of a port (PortInfo, `cap_mask`).
pub mod capability {
    /// A subnet manager runs here.
    pub const IS_SM: u32 = 1 << 1;
    /// It sends notices.
    pub const NOTICE: u32 = 1 << 2;
    /// It sends traps.
    pub const TRAP: u32 = 1 << 3;
    /// It has an identifier of the whole system.
    pub const SYSTEM_GUID: u32 = 1 << 11;
    /// Speeds beyond 10 Gbit/s for each lane.
    pub const EXTENDED_SPEEDS: u32 = 1 << 14;
    /// It has connection management.
    pub const COMMUNICATION: u32 = 1 << 16;
    /// Its programs can be asked to register again.
    pub const CLIENT_REREGISTER: u32 = 1 << 25;
    /// The capabilities that all ports have.
    pub const ALWAYS: u32 =
        NOTICE | TRAP | SYSTEM_GUID | EXTENDED_SPEEDS | COMMUNICATION | CLIENT_REREGISTER;
}

#[cfg(test)]
mod tests {
    use super::{get, port_info, put};

    #[test]
    fn fields_have_their_bits_and_no_others() {
        let mut data = [0; 64];
        put(&mut data, port_info::STATE, 4);
        put(&mut data, port_info::SPEED_SUPPORTED, 7);
        put(&mut data, port_info::PHYSICAL_STATE, 5);
        assert_eq!(data[32..34], [0x74, 0x50]);
        put(&mut data, port_info::LID, 0x1234);
        assert_eq!(data[16..18], [0x12, 0x34]);
        put(&mut data, port_info::STATE, 0x11);
        assert_eq!((data[32], get(&data, port_info::STATE)), (0x71, 1));
        assert_eq!(get(&data, port_info::LID), 0x1234);
        // Beyond the data.
        put(&mut data[..1], port_info::LID, 1);
        assert_eq!(get(&data[..17], port_info::LID), 0x1200);
    }
}
