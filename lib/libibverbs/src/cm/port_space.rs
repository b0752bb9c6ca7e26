//! Port spaces: each has one type of queue pairs.

/// `enum rdma_port_space`: connections, and datagrams with two keys.
pub const PS_TCP: u32 = 0x0106;
pub const PS_UDP: u32 = 0x0111;
pub const PS_IPOIB: u32 = 0x0002;
/// `IBV_QPT_RC` and `IBV_QPT_UD`.
pub const RC: u32 = 2;
pub const UD: u32 = 4;

/// Returns the type of the queue pairs in a port space.
pub fn type_in(space: u32) -> u32 {
    match space {
        PS_UDP | PS_IPOIB => UD,
        _ => RC,
    }
}

/// Returns the key of datagrams in a port space: `RDMA_UDP_QKEY`, or that of IP over InfiniBand.
pub fn qkey(space: u32) -> u32 {
    match space {
        PS_IPOIB => 0x0b1b,
        _ => 0x0123_4567,
    }
}
