//! Work requests that calls build between `ibv_wr_start` and `ibv_wr_complete`.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use syscall::error::{EINVAL, EOPNOTSUPP};
use verbs::context::MAX_SGE;
use verbs::{Data, Opcode, Remote, SendFlags, SendRequest};

use crate::memory::{self, Mw};
use crate::place::{get, list};
use crate::post::{append_inline, datagram, flags, segment};
use crate::queue_pair::find;
use crate::types::{Ah, BindInfo, DataBuf, Qp, Sge};
use crate::{Result, errno_of};

#[unsafe(no_mangle)]
extern "C" fn ibv_qp_to_qp_ex(qp: *mut Qp) -> *mut Qp {
    match find(qp) {
        Ok((of, _)) if of.is_extended => qp,
        _ => null_mut(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_start(qp: *mut Qp) {
    if let Ok((of, _)) = find(qp) {
        of.posting.enter();
        *of.building.lock() = (Vec::new(), Ok(()));
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_abort(qp: *mut Qp) {
    if let Ok((of, _)) = find(qp) {
        *of.building.lock() = (Vec::new(), Ok(()));
        of.posting.leave();
    }
}

/// Posts the requests that were built: all or none.
fn complete(qp: *mut Qp) -> Result<()> {
    let (of, context) = find(qp)?;
    let (requests, result) = core::mem::replace(&mut *of.building.lock(), (Vec::new(), Ok(())));
    let post = |()| context.raw.post_all(of.qp_num, requests).map_err(errno_of);
    let posted = result.and_then(post);
    of.posting.leave();
    posted
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_complete(qp: *mut Qp) -> c_int {
    crate::number(complete(qp))
}

/// Begins a request with the program's `wr_id` and `wr_flags`.
fn begin(qp: *mut Qp, make: impl FnOnce(&mut SendRequest) -> Result<Opcode>) {
    let Ok((of, _)) = find(qp) else {
        return;
    };
    let mut building = of.building.lock();
    let mut request = SendRequest::new(of.wr_id, Opcode::Send, Vec::new());
    let made = flags(of.wr_flags).and_then(|flags| {
        request.flags = flags;
        request.opcode = make(&mut request)?;
        Ok(())
    });
    match made {
        Ok(()) => building.0.push(request),
        Err(number) if building.1.is_ok() => building.1 = Err(number),
        Err(_) => {}
    }
}

/// Changes the request that was begun last.
fn change(qp: *mut Qp, change: impl FnOnce(&mut SendRequest) -> Result<()>) {
    let Ok((of, _)) = find(qp) else {
        return;
    };
    let mut building = of.building.lock();
    let changed = match building.0.last_mut() {
        Some(request) => change(request),
        None => Err(EINVAL),
    };
    if building.1.is_ok() {
        building.1 = changed;
    }
}

// ---- Operations ----

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_send(qp: *mut Qp) {
    begin(qp, |_| Ok(Opcode::Send));
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_send_imm(qp: *mut Qp, immediate: u32) {
    begin(qp, |request| {
        request.immediate = immediate;
        Ok(Opcode::SendWithImm)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_send_inv(qp: *mut Qp, key: u32) {
    begin(qp, |request| {
        request.immediate = key;
        Ok(Opcode::SendWithInv)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_send_tso(qp: *mut Qp, _header: *mut c_void, _bytes: u16, _mss: u16) {
    begin(qp, |_| Err(EOPNOTSUPP));
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_flush(qp: *mut Qp, _: u32, _: u64, _: usize, _: u8, _: u8) {
    begin(qp, |_| Err(EOPNOTSUPP));
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_atomic_write(qp: *mut Qp, _: u32, _: u64, _: *const c_void) {
    begin(qp, |_| Err(EOPNOTSUPP));
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_rdma_read(qp: *mut Qp, key: u32, address: u64) {
    begin(qp, |request| {
        request.remote = Remote { address, key };
        Ok(Opcode::RdmaRead)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_rdma_write(qp: *mut Qp, key: u32, address: u64) {
    begin(qp, |request| {
        request.remote = Remote { address, key };
        Ok(Opcode::RdmaWrite)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_rdma_write_imm(qp: *mut Qp, key: u32, address: u64, immediate: u32) {
    begin(qp, |request| {
        request.remote = Remote { address, key };
        request.immediate = immediate;
        Ok(Opcode::RdmaWriteWithImm)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_atomic_cmp_swp(qp: *mut Qp, key: u32, address: u64, compare: u64, swap: u64) {
    begin(qp, |request| {
        request.remote = Remote { address, key };
        (request.compare_add, request.swap) = (compare, swap);
        Ok(Opcode::AtomicCmpAndSwp)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_atomic_fetch_add(qp: *mut Qp, key: u32, address: u64, add: u64) {
    begin(qp, |request| {
        request.remote = Remote { address, key };
        request.compare_add = add;
        Ok(Opcode::AtomicFetchAndAdd)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_local_inv(qp: *mut Qp, key: u32) {
    begin(qp, |request| {
        request.immediate = key;
        Ok(Opcode::LocalInv)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_bind_mw(qp: *mut Qp, mw: *const Mw, key: u32, info: *const BindInfo) {
    begin(qp, |request| {
        // SAFETY: a window of ours and the caller's structure.
        let (window, info) = unsafe { (get(mw)?, get(info)?) };
        request.bind = Some(memory::bind(window, key, info)?);
        Ok(Opcode::BindMw)
    });
}

// ---- Addresses and data ----

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_set_ud_addr(qp: *mut Qp, ah: *const Ah, qpn: u32, qkey: u32) {
    change(qp, |request| {
        request.datagram = datagram(ah, qpn, qkey)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_set_xrc_srqn(qp: *mut Qp, number: u32) {
    change(qp, |request| {
        request.remote_srq = number;
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_wr_set_inline_data(qp: *mut Qp, address: *const c_void, length: usize) {
    let one = DataBuf {
        addr: address,
        length,
    };
    // SAFETY: the caller's bytes, as one piece.
    unsafe { ibv_wr_set_inline_data_list(qp, 1, &one) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_wr_set_inline_data_list(
    qp: *mut Qp,
    count: usize,
    pieces: *const DataBuf,
) {
    change(qp, |request| {
        let mut bytes = Vec::new();
        // SAFETY: the caller's list.
        for piece in unsafe { list(pieces, count)? } {
            // SAFETY: the caller's bytes.
            unsafe { append_inline(&mut bytes, piece.addr as u64, piece.length)? };
        }
        request.data = Data::Inline(bytes);
        request.flags |= SendFlags::INLINE;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_set_sge(qp: *mut Qp, lkey: u32, addr: u64, length: u32) {
    change(qp, |request| {
        let one = Sge { addr, length, lkey };
        request.data = Data::Segments(alloc::vec![segment(&one)]);
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_wr_set_sge_list(qp: *mut Qp, count: usize, from: *const Sge) {
    change(qp, |request| {
        if count > MAX_SGE as usize {
            return Err(EINVAL);
        }
        // SAFETY: the caller's list.
        let list = unsafe { list(from, count)? };
        request.data = Data::Segments(list.iter().map(segment).collect());
        Ok(())
    });
}
