//! Numbers of the socket headers and of `st.h`.

#![allow(missing_docs, reason = "the names of the headers")]
pub const PF_INET: u64 = 2;
pub const SOCK_STREAM: u64 = 1;
pub const SOCK_SEQPACKET: u64 = 5;
pub const SOL_SOCKET: u64 = 1;
pub const SO_ERROR: u64 = 4;
pub const SO_PROTOCOL: u64 = 38;
pub const SO_BUSY_POLL: u64 = 46;
pub const IPPROTO_STP: u64 = 118;
pub const ST_BYPASS: u64 = 1000;
pub const ST_L_KEY: u64 = 1001;
pub const ST_R_KEY: u64 = 1002;
pub const ST_L_NUMSLOTS: u64 = 1003;
pub const ST_R_NUMSLOTS: u64 = 1004;
pub const ST_L_PORT: u64 = 1006;
pub const ST_R_PORT: u64 = 1007;
pub const ST_X_CHANNELS: u64 = 2000;
pub const POLLOUT: u64 = 4;
pub const MSG_TRUNC: i64 = 0x20;
