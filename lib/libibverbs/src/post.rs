//! Posts work requests.

use alloc::vec::Vec;
use core::ffi::c_int;

use syscall::error::{EINVAL, EOPNOTSUPP};
use verbs::context::{MAX_INLINE, MAX_SGE};
use verbs::table::Id;
use verbs::{
    Data, Datagram, Opcode, QpType, ReceiveRequest, Remote, Segment, Segments, SendFlags,
    SendRequest, ShortData, ShortSend,
};

use crate::memory::{self, Mw};
use crate::place::{get, list};
use crate::queue_pair;
use crate::shared;
use crate::types::{Ah, Qp, RecvWr, SendWr, Sge, Srq};
use crate::{Result, errno_of};

/// Codes of Linux's `IBV_WR_…` that are not supported.
const OTHER_OPCODES: [u32; 4] = [10, 11, 14, 15];
/// `IBV_SEND_IP_CSUM`.
const IP_CSUM: u32 = 1 << 4;

fn opcode(number: u32) -> Result<Opcode> {
    Ok(match number {
        0 => Opcode::RdmaWrite,
        1 => Opcode::RdmaWriteWithImm,
        2 => Opcode::Send,
        3 => Opcode::SendWithImm,
        4 => Opcode::RdmaRead,
        5 => Opcode::AtomicCmpAndSwp,
        6 => Opcode::AtomicFetchAndAdd,
        7 => Opcode::LocalInv,
        8 => Opcode::BindMw,
        9 => Opcode::SendWithInv,
        other if OTHER_OPCODES.contains(&other) => return Err(EOPNOTSUPP),
        _ => return Err(EINVAL),
    })
}

/// Decodes the flags of a request.
pub fn flags(bits: u32) -> Result<SendFlags> {
    match bits & IP_CSUM {
        0 => SendFlags::from_bits(bits).ok_or(EINVAL),
        _ => Err(EOPNOTSUPP),
    }
}

/// Copies the segments of a request.
///
/// # Safety
/// The pointer is null or leads to this number of segments.
unsafe fn segments(from: *const Sge, count: c_int) -> Result<Vec<Segment>> {
    if count > MAX_SGE as c_int {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    let list = unsafe { list(from, count)? };
    Ok(list.iter().map(segment).collect())
}

/// Copies the segments of a receive.
///
/// # Safety
/// That of [`segments`].
unsafe fn receive_segments(from: *const Sge, count: c_int) -> Result<Segments> {
    // SAFETY: the caller's promise.
    unsafe {
        if count != 1 {
            return segments(from, count).map(Into::into);
        }
        let one = from.as_ref().ok_or(EINVAL)?;
        Ok(Segments::One(segment(one)))
    }
}

/// Converts a segment.
pub fn segment(from: &Sge) -> Segment {
    Segment {
        address: from.addr,
        length: from.length,
        key: from.lkey,
    }
}

/// Appends a copy of the program's bytes, which are sent inline.
///
/// # Safety
/// The bytes can be read.
pub unsafe fn append_inline(bytes: &mut Vec<u8>, address: u64, length: usize) -> Result<()> {
    if length > (MAX_INLINE as usize).saturating_sub(bytes.len()) {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    bytes.extend_from_slice(unsafe { list(address as usize as *const u8, length)? });
    Ok(())
}

/// Returns the destination of a datagram.
pub fn datagram(ah: *const Ah, qpn: u32, qkey: u32) -> Result<Datagram> {
    // SAFETY: a handle of ours.
    let ah = unsafe { get(ah)? };
    Ok(Datagram {
        ah: Id(ah.handle),
        qpn,
        qkey,
    })
}

/// # Safety
/// The request and all it leads to are C's, as `verbs.h` describes them.
unsafe fn send_request(wr: &SendWr, qp: &Qp) -> Result<SendRequest> {
    let opcode = opcode(wr.opcode)?;
    let flags = flags(wr.send_flags)?;
    // SAFETY: the caller's promise.
    let segments = unsafe { segments(wr.sg_list, wr.num_sge)? };
    let mut request = SendRequest {
        flags,
        immediate: wr.imm_data,
        remote_srq: wr.remote_srqn,
        ..SendRequest::new(wr.wr_id, opcode, Vec::new())
    };
    request.data = if flags.contains(SendFlags::INLINE) && !segments.is_empty() {
        let mut bytes = Vec::new();
        for segment in segments {
            // SAFETY: the caller's promise; a key is not read.
            unsafe { append_inline(&mut bytes, segment.address, segment.length as usize)? };
        }
        Data::Inline(bytes)
    } else if flags.contains(SendFlags::INLINE) {
        Data::Inline(Vec::new())
    } else {
        Data::Segments(segments)
    };
    if qp.qp_type == QpType::Ud as u32 {
        // SAFETY: for this type the union has this part.
        let ud = unsafe { wr.wr.ud };
        request.datagram = datagram(ud.ah, ud.remote_qpn, ud.remote_qkey)?;
        return Ok(request);
    }
    match opcode {
        Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::RdmaRead => {
            // SAFETY: for these operations the union has this part.
            let rdma = unsafe { wr.wr.rdma };
            request.remote = Remote {
                address: rdma.remote_addr,
                key: rdma.rkey,
            };
        }
        Opcode::AtomicCmpAndSwp | Opcode::AtomicFetchAndAdd => {
            // SAFETY: for these operations the union has this part.
            let atomic = unsafe { wr.wr.atomic };
            request.remote = Remote {
                address: atomic.remote_addr,
                key: atomic.rkey,
            };
            (request.compare_add, request.swap) = (atomic.compare_add, atomic.swap);
        }
        Opcode::BindMw => {
            // SAFETY: a window of ours.
            let window = unsafe { get(wr.bind_mw.mw.cast::<Mw>())? };
            request.bind = Some(memory::bind(window, wr.bind_mw.rkey, &wr.bind_mw.info)?);
        }
        Opcode::Send | Opcode::SendWithImm | Opcode::LocalInv | Opcode::SendWithInv => {}
    }
    Ok(request)
}

/// Converts a request into a short one. Only a single request of one segment, a send or an RDMA
/// write between reliable queue pairs, can be short.
///
/// # Safety
/// The request and all it leads to are C's, as `verbs.h` describes them, as long as the value is
/// used.
unsafe fn short_send<'a>(wr: *const SendWr, qp: &Qp) -> Option<ShortSend<'a>> {
    // SAFETY: the caller's promise.
    let wr = unsafe { wr.as_ref()? };
    let is_one = qp.qp_type == QpType::Rc as u32 && wr.next.is_null() && wr.num_sge == 1;
    let opcode = match wr.opcode {
        _ if !is_one => return None,
        0 => Opcode::RdmaWrite,
        2 => Opcode::Send,
        _ => return None,
    };
    let flags = SendFlags::from_bits(wr.send_flags)?;
    // SAFETY: the caller's promise.
    let segment = segment(unsafe { wr.sg_list.as_ref()? });
    let (address, bytes) = (
        segment.address as usize as *const u8,
        segment.length as usize,
    );
    let data = match flags.contains(SendFlags::INLINE) {
        false => ShortData::Segment(segment),
        true if bytes > MAX_INLINE as usize => return None,
        // SAFETY: the caller's promise; a key is not read.
        true => ShortData::Inline(unsafe { list(address, bytes).ok()? }),
    };
    let remote = match opcode {
        Opcode::RdmaWrite => {
            // SAFETY: for this operation the union has this part.
            let rdma = unsafe { wr.wr.rdma };
            Remote {
                address: rdma.remote_addr,
                key: rdma.rkey,
            }
        }
        _ => Remote::default(),
    };
    Some(ShortSend {
        id: wr.wr_id,
        opcode,
        flags,
        data,
        remote,
    })
}

/// Converts the items of a C list into requests, up to the first error.
struct Requests<'a, W> {
    next: *mut W,
    mistake: &'a mut Result<()>,
}

/// An item of a C list.
trait Linked {
    fn next(&self) -> *mut Self;
}

impl Linked for SendWr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl Linked for RecvWr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl<W: Linked> Requests<'_, W> {
    /// Returns the next request, made by `make`.
    ///
    /// # Safety
    /// The list is C's, as `verbs.h` describes it.
    unsafe fn take<T>(&mut self, make: impl FnOnce(&W) -> Result<T>) -> Option<T> {
        // SAFETY: the caller's promise.
        let wr = unsafe { self.next.as_ref()? };
        match make(wr) {
            Ok(request) => {
                self.next = wr.next();
                Some(request)
            }
            Err(number) => {
                *self.mistake = Err(number);
                None
            }
        }
    }
}

/// Stores the first item that was not posted at `bad`. Returns the error number, or 0.
///
/// # Safety
/// The list is C's and has more than `count` items; the place is the caller's, or null.
unsafe fn answer<W: Linked>(
    list: *mut W,
    (count, posted): (usize, verbs::Result<()>),
    mistake: Result<()>,
    bad: *mut *mut W,
) -> c_int {
    let result = posted.map_err(errno_of).and(mistake);
    let Err(number) = result else {
        return 0;
    };
    let mut first = list;
    for _ in 0..count {
        // SAFETY: the caller's promise.
        first = unsafe { first.as_ref() }.map_or(first, Linked::next);
    }
    if !bad.is_null() {
        // SAFETY: the caller's place.
        unsafe { bad.write(first) };
    }
    number
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_post_send(qp: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
    let mut mistake = Ok(());
    let (of, context) = match queue_pair::find(qp) {
        Ok(found) => found,
        Err(number) => return number,
    };
    // SAFETY: the caller's list, as the header describes it.
    if let Some(send) = unsafe { short_send(wr, of) } {
        let posted = (0, context.raw.post_short(of.qp_num, &send));
        // SAFETY: the same list.
        return unsafe { answer(wr, posted, mistake, bad) };
    }
    let mut requests = Requests {
        next: wr,
        mistake: &mut mistake,
    };
    // SAFETY: as above.
    let next = || unsafe { requests.take(|wr| send_request(wr, of)) };
    let posted = context.raw.post_send(of.qp_num, core::iter::from_fn(next));
    // SAFETY: the same list.
    unsafe { answer(wr, posted, mistake, bad) }
}

/// # Safety
/// The request and all it leads to are C's, as `verbs.h` describes them.
unsafe fn receive_request(wr: &RecvWr) -> Result<ReceiveRequest> {
    Ok(ReceiveRequest {
        id: wr.wr_id,
        // SAFETY: the caller's promise.
        segments: unsafe { receive_segments(wr.sg_list, wr.num_sge)? },
    })
}

/// Posts a list of receives.
///
/// # Safety
/// The list is C's, as `verbs.h` describes it; the place is the caller's, or null.
unsafe fn post_receives(
    wr: *mut RecvWr,
    bad: *mut *mut RecvWr,
    post: impl FnOnce(&mut dyn Iterator<Item = ReceiveRequest>) -> (usize, verbs::Result<()>),
) -> c_int {
    let mut mistake = Ok(());
    let mut requests = Requests {
        next: wr,
        mistake: &mut mistake,
    };
    // SAFETY: the caller's promise.
    let next = || unsafe { requests.take(|wr| receive_request(wr)) };
    let posted = post(&mut core::iter::from_fn(next));
    // SAFETY: the same list.
    unsafe { answer(wr, posted, mistake, bad) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_post_recv(qp: *mut Qp, wr: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int {
    match queue_pair::find(qp) {
        // SAFETY: the caller's list, as the header describes it.
        Ok((of, context)) => unsafe {
            post_receives(wr, bad, |list| context.raw.post_recv(of.qp_num, list))
        },
        Err(number) => number,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_post_srq_recv(
    srq: *mut Srq,
    wr: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    match shared::find(srq) {
        // SAFETY: the caller's list, as the header describes it.
        Ok((of, context)) => unsafe {
            post_receives(wr, bad, |list| context.raw.post_srq_recv(of.id, list))
        },
        Err(number) => number,
    }
}
