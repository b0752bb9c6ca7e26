//! Requests to the daemon that create and change queue pairs, and posting one request after the
//! other.

use verbs_abi::records as abi;
use verbs_core::attributes::Attributes;
use verbs_core::table::Id;
use verbs_core::types::{AttributeMask, QpType};
use verbs_core::work::QpInit;

use crate::daemon::{Daemon, Name, PORT};
use crate::error::Result;

/// The request to the daemon to create a queue pair.
pub(super) fn create_qp(daemon: &Daemon, init: &QpInit, user: u64) -> Result<abi::CreateQp> {
    let domain = init.xrcd.map_or(Name::Pd(init.pd), Name::Xrcd);
    let cq = |id: Id| match init.kind {
        QpType::XrcRecv => Ok(0),
        _ => daemon.handle(Name::Cq(id)),
    };
    let srq = init.srq.map(|srq| daemon.handle(Name::Srq(srq)));
    let capacity = &init.capacity;
    Ok(abi::CreateQp {
        response: 0,
        user_handle: user,
        pd_handle: daemon.handle(domain)?,
        send_cq_handle: cq(init.send_cq)?,
        recv_cq_handle: cq(init.recv_cq)?,
        srq_handle: srq.unwrap_or(Ok(0))?,
        max_send_wr: capacity.send_wr,
        max_recv_wr: capacity.recv_wr,
        max_send_sge: capacity.send_sge,
        max_recv_sge: capacity.recv_sge,
        max_inline_data: capacity.inline,
        sq_sig_all: init.signal_all.into(),
        qp_type: init.kind as u8,
        is_srq: init.srq.is_some().into(),
        reserved: 0,
    })
}

/// The request to the daemon to change a queue pair.
pub(super) fn modify_qp(qp_handle: u32, new: &Attributes, mask: AttributeMask) -> abi::ModifyQp {
    let dest = abi::Destination {
        dlid: new.dlid,
        port_num: PORT,
        ..abi::Destination::default()
    };
    abi::ModifyQp {
        dest,
        alt_dest: dest,
        qp_handle,
        attr_mask: mask.bits(),
        qkey: new.qkey,
        rq_psn: new.rq_psn,
        sq_psn: new.sq_psn,
        dest_qp_num: new.dest_qpn,
        qp_access_flags: new.access.bits(),
        pkey_index: new.pkey_index,
        alt_pkey_index: 0,
        qp_state: new.state as u8,
        cur_qp_state: new.cur_state as u8,
        path_mtu: new.path_mtu,
        en_sqd_async_notify: new.notify_drained.into(),
        max_rd_atomic: new.max_rd_atomic,
        max_dest_rd_atomic: new.max_dest_rd_atomic,
        min_rnr_timer: new.min_rnr_timer,
        port_num: new.port,
        timeout: new.timeout,
        retry_cnt: new.retry_cnt,
        rnr_retry: new.rnr_retry,
        alt_port_num: PORT,
        ..abi::ModifyQp::default()
    }
}

/// Makes a call for each item, up to the first one that fails. Returns how many succeeded.
pub(super) fn each<T>(
    items: impl IntoIterator<Item = T>,
    mut call: impl FnMut(T) -> verbs_core::types::Result<()>,
) -> (usize, Result<()>) {
    let mut count = 0;
    for item in items {
        if let Err(error) = call(item) {
            return (count, Err(error.into()));
        }
        count += 1;
    }
    (count, Ok(()))
}
