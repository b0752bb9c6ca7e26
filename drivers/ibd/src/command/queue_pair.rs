//! The commands about queue pairs.

use alloc::collections::BTreeMap;

use syscall::error::{EBUSY, EINVAL, ENOMEM, EOPNOTSUPP, EPERM, Error, Result};
use verbs_abi::records as abi;
use verbs_core::attributes::Attributes;
use verbs_core::table::Id;
use verbs_core::types::{Access, AttributeMask, QpType};
use verbs_core::work::{Capacity, QpInit, Segment};

use super::{Call, release_slots, remove, report, state_of};
use crate::context::Context;
use crate::error::{fail, refused};
use crate::identity::PORT;
use crate::object::{Object, Qp};
use crate::shared::{FIRST_LIBRARY_QPN, Shared};

/// The largest number of a queue pair. The next one stands for a multicast group.
const LAST_QPN: u32 = 0xff_fffe;
/// The type of raw packet queue pairs, which `verbs-core` does not have.
const RAW_PACKET: u8 = 8;
/// The bit of datagrams' keys (Q_Keys) that only root may set.
const PRIVILEGED_QKEY: u32 = 1 << 31;

/// The properties of the queue pair that a request asks for.
struct Wanted {
    user_handle: u64,
    kind: u8,
    pd: u32,
    send_cq: u32,
    recv_cq: u32,
    srq: Option<u32>,
    capacity: Capacity,
    signal_all: bool,
    /// The number that the program's library has chosen; the daemon chooses one otherwise.
    number: Option<u32>,
}

fn kind_of(number: u8, is_root: bool) -> Result<QpType> {
    let found = QpType::ALL
        .into_iter()
        .find(|kind| *kind as u32 == u32::from(number));
    match (found, number) {
        (Some(kind), _) => Ok(kind),
        (None, RAW_PACKET) if is_root => fail(EOPNOTSUPP),
        (None, RAW_PACKET) => fail(EPERM),
        (None, _) => fail(EINVAL),
    }
}

/// The ids in `verbs-core` of the objects that a queue pair uses.
struct Parts {
    pd: Id,
    send_cq: Id,
    recv_cq: Id,
    srq: Option<Id>,
    xrcd: Option<Id>,
}

/// Finds the objects. Whatever is wrong with a handle, the error is `EINVAL`.
fn parts(call: &Call<'_>, wanted: &Wanted, kind: QpType) -> Result<Parts> {
    let missing = |_| Error::new(EINVAL);
    let objects = &call.context.objects;
    let cq = |handle| objects.cq(handle).map(|cq| cq.id).map_err(missing);
    let srq = wanted
        .srq
        .map(|handle| objects.srq(handle).map(|srq| srq.id));
    let srq = srq.transpose().map_err(missing)?;
    // The receiving half of an XRC connection has only an XRC domain, whose handle the request has
    // in the field for the protection domain.
    if kind == QpType::XrcRecv {
        const UNUSED: Id = Id(0);
        return Ok(Parts {
            pd: UNUSED,
            send_cq: UNUSED,
            recv_cq: UNUSED,
            srq,
            xrcd: Some(objects.xrcd(wanted.pd).map_err(missing)?),
        });
    }
    let send_cq = cq(wanted.send_cq)?;
    // The sending half has no completion queue for receives.
    let recv_cq = match kind {
        QpType::XrcSend => send_cq,
        _ => cq(wanted.recv_cq)?,
    };
    Ok(Parts {
        pd: objects.pd(wanted.pd).map_err(missing)?,
        send_cq,
        recv_cq,
        srq,
        xrcd: None,
    })
}

/// `EINVAL`: the type, a domain or queue that does not exist, sizes, the number. `EPERM`:
/// RAW_PACKET for users other than root. `EOPNOTSUPP`: RAW_PACKET for root. `ENOMEM`.
fn create(call: &mut Call<'_>, wanted: &Wanted) -> Result<abi::CreateQpAnswer> {
    let kind = kind_of(wanted.kind, call.is_root())?;
    let parts = parts(call, wanted, kind)?;
    let init = QpInit {
        kind,
        pd: parts.pd,
        send_cq: parts.send_cq,
        recv_cq: parts.recv_cq,
        srq: parts.srq,
        capacity: wanted.capacity,
        signal_all: wanted.signal_all,
        xrcd: parts.xrcd,
    };
    let (number, new_port) = match wanted.number {
        None => take_number(call, &init)?,
        Some(number) if (FIRST_LIBRARY_QPN..=LAST_QPN).contains(&number) => (number, None),
        Some(_) => return fail(EINVAL),
    };
    let created = call
        .context
        .engine
        .core
        .create_qp(number, init)
        .map_err(refused);
    let inserted = created.and_then(|()| {
        let slots = slots(number, &wanted.capacity);
        let qp = Qp {
            number,
            user_handle: wanted.user_handle,
            pd: wanted.pd,
            send_cq: (kind != QpType::XrcRecv).then_some(wanted.send_cq),
            recv_cq: (!matches!(kind, QpType::XrcRecv | QpType::XrcSend)).then_some(wanted.recv_cq),
            srq: wanted.srq,
            destination: abi::Destination::default(),
            other: abi::Destination::default(),
            groups: BTreeMap::new(),
            slots,
            report: abi::QpReport::default(),
        };
        let inserted = call.charge_slots(slots).and_then(|()| {
            let inserted = call.insert(Object::Qp(qp));
            if inserted.is_err() {
                call.release_slots(slots);
            }
            inserted
        });
        if inserted.is_err() {
            call.context
                .engine
                .core
                .destroy_qp(number)
                .map_err(refused)?;
        }
        inserted
    });
    if inserted.is_err() {
        call.context.engine.give_back(number);
        if let Some(port) = new_port {
            call.context.engine.unlisten(port);
            call.shared.return_port(call.context.owner.uid, port);
        }
    }
    Ok(abi::CreateQpAnswer {
        qp_handle: inserted?,
        qpn: number,
        max_send_wr: wanted.capacity.send_wr,
        max_recv_wr: wanted.capacity.recv_wr,
        max_send_sge: wanted.capacity.send_sge,
        max_recv_sge: wanted.capacity.recv_sge,
        max_inline_data: wanted.capacity.inline,
        reserved: 0,
    })
}

/// Takes a number for a queue pair that the daemon runs, at a SCIF port of its protection domain.
/// For the receiving half of an XRC connection that is the domain of a shared receive queue, whose
/// memory the peers reach. Returns the number, and the port if it was taken for it.
///
/// # Errors
/// `EINVAL`: the context has no protection domain. `ENOMEM`.
fn take_number(call: &mut Call<'_>, init: &QpInit) -> Result<(u32, Option<u16>)> {
    let pd = match init.xrcd {
        None => init.pd,
        Some(xrcd) => domain_of(call.context, xrcd).ok_or(Error::new(EINVAL))?,
    };
    let engine = &mut call.context.engine;
    if let Some(number) = engine.find_number(pd) {
        return Ok((number, None));
    }
    let port = call.shared.take_port(call.context.owner.uid)?;
    engine.listen_at(port, pd);
    let number = engine.find_number(pd).ok_or(Error::new(ENOMEM))?;
    Ok((number, Some(port)))
}

/// The protection domain of a shared receive queue in this XRC domain; any of the context if there
/// is none.
fn domain_of(context: &Context, xrcd: Id) -> Option<Id> {
    let any = |object: &Object| match object {
        Object::Pd(pd) => Some(*pd),
        _ => None,
    };
    let found = context.engine.core.pd_of_xrcd(xrcd).ok()?;
    found.or_else(|| context.objects.iter().find_map(|(_, object)| any(object)))
}

/// Places for scatter/gather elements that a queue pair is charged for; none if a library runs it.
/// A send whose inline data takes more memory than its elements counts as so many elements.
fn slots(number: u32, capacity: &Capacity) -> u64 {
    let places = |requests: u32, elements: u32| u64::from(requests) * u64::from(elements.max(1));
    let inline = capacity.inline.div_ceil(size_of::<Segment>() as u32);
    let sends = places(capacity.send_wr, capacity.send_sge.max(inline));
    let all = sends.saturating_add(places(capacity.recv_wr, capacity.recv_sge));
    if number < FIRST_LIBRARY_QPN { all } else { 0 }
}

/// The number in the data of the provider behind the request `R`, if it is not 0.
fn number<R>(call: &Call<'_>) -> Option<u32> {
    let provider = call.provider::<R, abi::CreateQpProvider>();
    provider
        .map(|provider| provider.qpn)
        .filter(|number| *number != 0)
}

pub fn create_qp(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateQp = call.request()?;
    let wanted = Wanted {
        user_handle: request.user_handle,
        kind: request.qp_type,
        pd: request.pd_handle,
        send_cq: request.send_cq_handle,
        recv_cq: request.recv_cq_handle,
        srq: (request.is_srq != 0).then_some(request.srq_handle),
        capacity: Capacity {
            send_wr: request.max_send_wr,
            recv_wr: request.max_recv_wr,
            send_sge: request.max_send_sge,
            recv_sge: request.max_recv_sge,
            inline: request.max_inline_data,
        },
        signal_all: request.sq_sig_all != 0,
        number: number::<abi::CreateQp>(call),
    };
    let answer = create(call, &wanted)?;
    call.answer(&answer);
    Ok(())
}

/// `EINVAL`: `comp_mask`. `EOPNOTSUPP`: flags, a table of receive queues, or the number of another
/// queue pair.
pub fn create_qp_ex(call: &mut Call<'_>) -> Result<()> {
    let request: abi::CreateQpEx = call.request()?;
    call.refuse_more::<abi::CreateQpEx>()?;
    if request.comp_mask != 0 {
        return fail(EINVAL);
    }
    if (
        request.create_flags,
        request.rwq_ind_tbl_handle,
        request.source_qpn,
    ) != (0, 0, 0)
    {
        return fail(EOPNOTSUPP);
    }
    let wanted = Wanted {
        user_handle: request.user_handle,
        kind: request.qp_type,
        pd: request.pd_handle,
        send_cq: request.send_cq_handle,
        recv_cq: request.recv_cq_handle,
        srq: (request.is_srq != 0).then_some(request.srq_handle),
        capacity: Capacity {
            send_wr: request.max_send_wr,
            recv_wr: request.max_recv_wr,
            send_sge: request.max_send_sge,
            recv_sge: request.max_recv_sge,
            inline: request.max_inline_data,
        },
        signal_all: request.sq_sig_all != 0,
        number: number::<abi::CreateQpEx>(call),
    };
    let base = create(call, &wanted)?;
    let response_length = call.response_length::<abi::CreateQpExAnswer>();
    call.answer(&abi::CreateQpExAnswer {
        base,
        comp_mask: 0,
        response_length,
    });
    Ok(())
}

/// `EOPNOTSUPP`: opening a queue pair needs an XRC domain that programs share, and each domain
/// here is of one context.
pub fn open_qp(call: &mut Call<'_>) -> Result<()> {
    let request: abi::OpenQp = call.request()?;
    call.context.objects.xrcd(request.pd_handle)?;
    fail(EOPNOTSUPP)
}

pub fn query_qp(call: &mut Call<'_>) -> Result<()> {
    let request: abi::QueryQp = call.request()?;
    let qp = call.context.objects.qp(request.qp_handle)?;
    let view = call
        .context
        .engine
        .core
        .query_qp(qp.number)
        .map_err(refused)?;
    let (attributes, capacity) = (&view.attributes, &view.init.capacity);
    let answer = abi::QueryQpAnswer {
        dest: qp.destination,
        alt_dest: qp.other,
        max_send_wr: capacity.send_wr,
        max_recv_wr: capacity.recv_wr,
        max_send_sge: capacity.send_sge,
        max_recv_sge: capacity.recv_sge,
        max_inline_data: capacity.inline,
        qkey: attributes.qkey,
        rq_psn: attributes.rq_psn,
        sq_psn: attributes.sq_psn,
        dest_qp_num: attributes.dest_qpn,
        qp_access_flags: attributes.access.bits(),
        pkey_index: attributes.pkey_index,
        qp_state: view.state as u8,
        cur_qp_state: view.state as u8,
        path_mtu: attributes.path_mtu,
        sq_draining: view.is_draining.into(),
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_cnt,
        rnr_retry: attributes.rnr_retry,
        alt_port_num: qp.other.port_num,
        sq_sig_all: view.init.signal_all.into(),
        ..abi::QueryQpAnswer::default()
    };
    call.answer(&answer);
    Ok(())
}

/// `EINVAL`: the port cannot reach the address.
fn check_address(address: &abi::Destination) -> Result<()> {
    let has_gid = address.is_global == 0 || address.sgid_index == 0;
    match address.port_num == PORT && has_gid {
        true => Ok(()),
        false => fail(EINVAL),
    }
}

/// `EOPNOTSUPP`: unknown bits of the mask. `EINVAL`: a value, or this change with this mask.
/// `EPERM`: a privileged key for users other than root. The queue pair stays as it was.
fn modify(call: &mut Call<'_>, request: &abi::ModifyQp, known: AttributeMask) -> Result<()> {
    let number = call.context.objects.qp(request.qp_handle)?.number;
    let mask = AttributeMask::from_bits(request.attr_mask).filter(|mask| known.contains(*mask));
    let mask = mask.ok_or(Error::new(EOPNOTSUPP))?;
    let named = |bit: AttributeMask| mask.contains(bit);
    let mut new = Attributes {
        notify_drained: request.en_sqd_async_notify != 0,
        access: Access::from_bits_retain(request.qp_access_flags),
        pkey_index: request.pkey_index,
        port: request.port_num,
        qkey: request.qkey,
        dlid: request.dest.dlid,
        path_mtu: request.path_mtu,
        timeout: request.timeout,
        retry_cnt: request.retry_cnt,
        rnr_retry: request.rnr_retry,
        rq_psn: request.rq_psn,
        sq_psn: request.sq_psn,
        max_rd_atomic: request.max_rd_atomic,
        max_dest_rd_atomic: request.max_dest_rd_atomic,
        min_rnr_timer: request.min_rnr_timer,
        dest_qpn: request.dest_qp_num,
        ..Attributes::default()
    };
    if named(AttributeMask::STATE) {
        new.state = state_of(request.qp_state)?;
    }
    if named(AttributeMask::CUR_STATE) {
        new.cur_state = state_of(request.cur_qp_state)?;
    }
    if named(AttributeMask::AV) {
        check_address(&request.dest)?;
    }
    if named(AttributeMask::ALT_PATH) {
        check_address(&request.alt_dest)?;
        if request.alt_port_num != PORT || request.alt_pkey_index != 0 {
            return fail(EINVAL);
        }
    }
    let is_privileged = request.qkey & PRIVILEGED_QKEY != 0 && !call.is_root();
    if named(AttributeMask::QKEY) && is_privileged {
        return fail(EPERM);
    }
    let modified = call.context.engine.core.modify_qp(number, &new, mask);
    modified.map_err(refused)?;
    if number < FIRST_LIBRARY_QPN {
        call.context.engine.follow(number, mask, new.state);
    }
    let qp = call.context.objects.qp_mut(request.qp_handle)?;
    if named(AttributeMask::AV) {
        qp.destination = request.dest;
    }
    if named(AttributeMask::ALT_PATH) {
        qp.other = request.alt_dest;
    }
    Ok(())
}

pub fn modify_qp(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ModifyQp = call.request()?;
    let known = AttributeMask::all().difference(AttributeMask::RATE_LIMIT);
    modify(call, &request, known)
}

/// `EINVAL` also: a rate limit, which no type of queue pair here has.
pub fn modify_qp_ex(call: &mut Call<'_>) -> Result<()> {
    let request: abi::ModifyQpEx = call.request()?;
    call.refuse_more::<abi::ModifyQpEx>()?;
    modify(call, &request.base, AttributeMask::all())?;
    let response_length = call.response_length::<abi::ModifyQpExAnswer>();
    call.answer(&abi::ModifyQpExAnswer {
        comp_mask: 0,
        response_length,
    });
    Ok(())
}

/// `EBUSY`: the queue pair is in a multicast group.
pub fn destroy_qp(call: &mut Call<'_>) -> Result<()> {
    let request: abi::DestroyQp = call.request()?;
    let events_reported = end_qp(call.shared, call.context, request.qp_handle)?;
    call.answer(&abi::DestroyQpAnswer { events_reported });
    Ok(())
}

/// Destroys a queue pair. Returns how many of its events were read.
pub fn end_qp(shared: &mut Shared, context: &mut Context, handle: u32) -> Result<u32> {
    let qp = context.objects.qp(handle)?;
    if !qp.groups.is_empty() {
        return fail(EBUSY);
    }
    let (number, slots) = (qp.number, qp.slots);
    report::note(context, &mut shared.totals, handle);
    context.engine.core.destroy_qp(number).map_err(refused)?;
    context.engine.give_back(number);
    remove(shared, context, handle);
    release_slots(shared, context, slots);
    let (_, events) = context.forget_events(handle, None);
    Ok(events)
}
