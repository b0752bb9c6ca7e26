//! The attributes of a queue pair that a program can change.

use crate::types::{Access, AttributeMask as M, Error, QpState, Result};

/// Most reads and atomics that a queue pair may have under way at a time.
pub const MAX_READS: u8 = 128;
/// Bits of a queue pair's number.
const QPN_BITS: u32 = 24;

/// The attributes of a queue pair. A modification uses those that its mask names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The state to go to.
    pub state: QpState,
    /// The state that the caller believes the queue pair to be in.
    pub cur_state: QpState,
    /// Whether an event reports that the send queue has drained.
    pub notify_drained: bool,
    /// The access that the peer has through this queue pair.
    pub access: Access,
    /// The index of the partition key: 0, because there is only one.
    pub pkey_index: u16,
    /// The port: always 1.
    pub port: u8,
    /// The key that datagrams must carry.
    pub qkey: u32,
    /// The peer's local identifier.
    pub dlid: u16,
    /// The packet size as a code: 1 for 256 bytes to 5 for 4096 bytes.
    pub path_mtu: u8,
    /// The time to wait for a response, as a code: 4.096 µs times 2 to the power of the code; 0
    /// waits without limit.
    pub timeout: u8,
    /// Retries when there is no response.
    pub retry_cnt: u8,
    /// Retries when the peer has no receive; 7 retries without limit.
    pub rnr_retry: u8,
    /// The peer's first packet number.
    pub rq_psn: u32,
    /// This end's first packet number.
    pub sq_psn: u32,
    /// Reads and atomics that this end may have under way.
    pub max_rd_atomic: u8,
    /// Reads and atomics that the peer may have under way.
    pub max_dest_rd_atomic: u8,
    /// How long the peer waits before it retries a message for which there was no receive, as a
    /// code: see [`rnr_time`].
    pub min_rnr_timer: u8,
    /// The number of the peer's queue pair.
    pub dest_qpn: u32,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            notify_drained: false,
            access: Access::empty(),
            pkey_index: 0,
            port: 1,
            qkey: 0,
            dlid: 0,
            path_mtu: 1,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            rq_psn: 0,
            sq_psn: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            dest_qpn: 0,
        }
    }
}

impl Attributes {
    /// Checks the values of the attributes that a mask names.
    ///
    /// # Errors
    /// `NotSupported`: the mask has unknown bits. `Invalid`: a value is out of range.
    pub fn check(&self, mask: M) -> Result<()> {
        if M::from_bits(mask.bits()).is_none() {
            return Err(Error::NotSupported);
        }
        let unknown = self.access.bits() & !Access::all().bits() & !Access::OPTIONAL_BITS;
        let rules = [
            (M::ACCESS_FLAGS, unknown == 0),
            (M::PKEY_INDEX, self.pkey_index == 0),
            (M::PORT, self.port == 1),
            (M::PATH_MTU, (1..=5).contains(&self.path_mtu)),
            (M::TIMEOUT, self.timeout <= 31),
            (M::RETRY_CNT, self.retry_cnt <= 7),
            (M::RNR_RETRY, self.rnr_retry <= 7),
            (M::MAX_QP_RD_ATOMIC, self.max_rd_atomic <= MAX_READS),
            (M::MAX_DEST_RD_ATOMIC, self.max_dest_rd_atomic <= MAX_READS),
            (M::MIN_RNR_TIMER, self.min_rnr_timer <= 31),
            (M::DEST_QPN, self.dest_qpn >> QPN_BITS == 0),
        ];
        let is_good = rules
            .iter()
            .all(|(bit, is_good)| *is_good || !mask.contains(*bit));
        if is_good { Ok(()) } else { Err(Error::Invalid) }
    }

    /// Copies the values that a mask names from `new`, except the states.
    pub fn apply(&mut self, new: &Attributes, mask: M) {
        macro_rules! take {
            ($($bit:ident: $field:ident),* $(,)?) => {
                $(if mask.contains(M::$bit) { self.$field = new.$field; })*
            };
        }
        take! {
            EN_SQD_ASYNC_NOTIFY: notify_drained, ACCESS_FLAGS: access, PKEY_INDEX: pkey_index,
            PORT: port, QKEY: qkey, AV: dlid, PATH_MTU: path_mtu, TIMEOUT: timeout,
            RETRY_CNT: retry_cnt, RNR_RETRY: rnr_retry, RQ_PSN: rq_psn, SQ_PSN: sq_psn,
            MAX_QP_RD_ATOMIC: max_rd_atomic, MAX_DEST_RD_ATOMIC: max_dest_rd_atomic,
            MIN_RNR_TIMER: min_rnr_timer, DEST_QPN: dest_qpn,
        }
    }

    /// How long the peer may be silent before a request fails, in nanoseconds; `None`: without
    /// limit.
    pub fn response_timeout(&self) -> Option<u64> {
        let tries = u64::from(self.retry_cnt) + 1;
        (self.timeout > 0).then(|| tries * (4096 << self.timeout))
    }
}

/// The times of RNR timers by their code, in units of 10 µs.
const RNR_TIMES: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// Nanoseconds that a code of the RNR timer stands for.
pub fn rnr_time(code: u8) -> u64 {
    u64::from(RNR_TIMES[usize::from(code & 31)]) * 10_000
}
