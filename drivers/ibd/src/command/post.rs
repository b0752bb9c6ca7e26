//! The commands that post work requests.

use alloc::vec::Vec;

use syscall::error::{EINVAL, Error, Result};
use verbs::engine::Engine;
use verbs_abi::records as abi;
use verbs_core::address::Datagram;
use verbs_core::table::Id;
use verbs_core::types::{Opcode, QpType, SendFlags};
use verbs_core::work::{Data, ReceiveRequest, Remote, Segment, SendRequest};
use zerocopy::FromBytes;

use super::Call;
use crate::error::{fail, refused};
use crate::shared::FIRST_LIBRARY_QPN;

/// The operations that commands can post.
const OPCODES: [Opcode; 10] = [
    Opcode::RdmaWrite,
    Opcode::RdmaWriteWithImm,
    Opcode::Send,
    Opcode::SendWithImm,
    Opcode::RdmaRead,
    Opcode::AtomicCmpAndSwp,
    Opcode::AtomicFetchAndAdd,
    Opcode::LocalInv,
    Opcode::BindMw,
    Opcode::SendWithInv,
];

/// Reads the work requests with their scatter/gather elements. `EINVAL`: the counts do not agree
/// with each other or with the bytes of the command.
fn requests<T: FromBytes>(
    list: &[u8],
    (count, elements, size): (u32, u32, u32),
    elements_of: fn(&T) -> u32,
) -> Result<Vec<(T, Vec<Segment>)>> {
    let (count, elements, size) = (count as usize, elements as usize, size as usize);
    let bytes = count.checked_mul(size).ok_or(Error::new(EINVAL))?;
    if size < size_of::<T>() || bytes > list.len() {
        return fail(EINVAL);
    }
    let (requests, rest) = list.split_at(bytes);
    if elements > rest.len() / size_of::<abi::Element>() {
        return fail(EINVAL);
    }
    let mut segments = rest.chunks_exact(size_of::<abi::Element>()).take(elements);
    let mut found = Vec::new();
    for bytes in requests.chunks_exact(size.max(1)) {
        let (request, _) = T::read_from_prefix(bytes).map_err(|_| Error::new(EINVAL))?;
        let wanted = elements_of(&request) as usize;
        let own: Vec<Segment> = segments.by_ref().take(wanted).filter_map(segment).collect();
        if own.len() < wanted {
            return fail(EINVAL);
        }
        found.push((request, own));
    }
    Ok(found)
}

/// Passes the element to `verbs-core`, with a key of no region if the daemon has no access to the
/// memory of the region.
fn usable(call: &Call<'_>, segment: Segment) -> Segment {
    const OF_NOTHING: u32 = 0;
    match call.context.engine.lanes.memory.holds(segment.key) {
        true => segment,
        false => Segment {
            key: OF_NOTHING,
            ..segment
        },
    }
}

fn segment(bytes: &[u8]) -> Option<Segment> {
    let element = abi::Element::read_from_bytes(bytes).ok()?;
    Some(Segment {
        address: element.addr,
        length: element.length,
        key: element.lkey,
    })
}

/// Posts the requests in order until one is refused. The answer is the number of that request,
/// counted from 1; 0 if all are posted.
fn post<T>(
    call: &mut Call<'_>,
    requests: Vec<T>,
    mut post: impl FnMut(&mut Call<'_>, T) -> Result<()>,
) -> Result<()> {
    for (request, number) in requests.into_iter().zip(1..) {
        if let Err(error) = post(call, request) {
            call.answer(&abi::PostAnswer { bad_wr: number });
            return Err(error);
        }
        call.shared.totals.posted += 1;
    }
    call.answer(&abi::PostAnswer { bad_wr: 0 });
    Ok(())
}

/// The number of a queue pair that commands can post to. `EINVAL`: the program's library runs it.
fn number(call: &Call<'_>, handle: u32) -> Result<u32> {
    let number = call.context.objects.qp(handle)?.number;
    match number < FIRST_LIBRARY_QPN {
        true => Ok(number),
        false => fail(EINVAL),
    }
}

/// `EINVAL`: counts, an unknown operation or flags, inline data that is too long or not in memory
/// that the daemon can read, an address handle. Those of `verbs-core`.
pub fn send(call: &mut Call<'_>) -> Result<()> {
    let request: abi::PostSend = call.request()?;
    let number = number(call, request.qp_handle)?;
    let view = call.context.engine.core.query_qp(number).map_err(refused)?;
    let (is_datagram, pd) = (view.init.kind == QpType::Ud, view.init.pd);
    let counts = (request.wr_count, request.sge_count, request.wqe_size);
    let list = call.frame.behind::<abi::PostSend>();
    let list = requests(list, counts, |request: &abi::SendRequest| request.num_sge)?;
    post(call, list, |call, (request, segments)| {
        let request = send_request(call, (is_datagram, pd), &request, segments)?;
        let core = &mut call.context.engine.core;
        core.post_send(number, request).map_err(refused)
    })
}

fn send_request(
    call: &mut Call<'_>,
    (is_datagram, pd): (bool, Id),
    request: &abi::SendRequest,
    segments: Vec<Segment>,
) -> Result<SendRequest> {
    let mut opcodes = OPCODES.into_iter();
    let opcode = opcodes.find(|opcode| *opcode as u32 == request.opcode);
    let flags = SendFlags::from_bits(request.send_flags).ok_or(Error::new(EINVAL))?;
    let [address, first, second, last] = request.wr;
    let opcode = opcode.ok_or(Error::new(EINVAL))?;
    let key = if opcode.is_atomic() { last } else { first };
    let segments = segments.into_iter().map(|segment| usable(call, segment));
    let segments: Vec<Segment> = segments.collect();
    let data = match flags.contains(SendFlags::INLINE) {
        false => Data::Segments(segments),
        true => {
            // Unlike a library, the daemon can reach the memory only by its key.
            let Engine { core, lanes, .. } = &mut call.context.engine;
            Data::Inline(core.gather(lanes, pd, &segments).map_err(refused)?)
        }
    };
    let mut datagram = Datagram::default();
    if is_datagram {
        // The handle of the address and the number of the queue pair, 32 bits each, then the key.
        let missing = |_| Error::new(EINVAL);
        datagram = Datagram {
            ah: call.context.objects.ah(address as u32).map_err(missing)?,
            qpn: (address >> 32) as u32,
            qkey: first as u32,
        };
    }
    Ok(SendRequest {
        id: request.wr_id,
        opcode,
        flags,
        data,
        immediate: request.imm_data,
        remote: Remote {
            address,
            key: key as u32,
        },
        compare_add: first,
        swap: second,
        datagram,
        remote_srq: 0,
        bind: None,
    })
}

/// `EINVAL`: counts. Those of `verbs-core`.
pub fn receive(call: &mut Call<'_>) -> Result<()> {
    let request: abi::PostRecv = call.request()?;
    let number = number(call, request.handle)?;
    let list = receives(call, &request)?;
    post(call, list, |call, request| {
        let core = &mut call.context.engine.core;
        core.post_recv(number, request).map_err(refused)
    })
}

/// Posts receives to a shared receive queue; errors are those of [`receive`].
pub fn srq_receive(call: &mut Call<'_>) -> Result<()> {
    let request: abi::PostRecv = call.request()?;
    let id = call.context.objects.srq(request.handle)?.id;
    let list = receives(call, &request)?;
    post(call, list, |call, request| {
        let core = &mut call.context.engine.core;
        core.post_srq_recv(id, request).map_err(refused)
    })
}

fn receives(call: &Call<'_>, request: &abi::PostRecv) -> Result<Vec<ReceiveRequest>> {
    let counts = (request.wr_count, request.sge_count, request.wqe_size);
    let list = call.frame.behind::<abi::PostRecv>();
    let list = requests(list, counts, |request: &abi::ReceiveRequest| {
        request.num_sge
    })?;
    let receives = list.into_iter().map(|(request, segments)| ReceiveRequest {
        id: request.wr_id,
        segments: segments
            .into_iter()
            .map(|segment| usable(call, segment))
            .collect(),
    });
    Ok(receives.collect())
}
