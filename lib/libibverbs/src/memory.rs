//! Memory regions and memory windows.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::{c_int, c_uint, c_void};

use scif::Memory;
use scif::raw::Range;
use syscall::error::{EFAULT, EINVAL, EOPNOTSUPP, EPERM};
use verbs::table::Id;
use verbs::{Access, Opcode, SendFlags, SendRequest, WindowType};

use crate::place::{get, get_mut};
use crate::types::{BindInfo, Context, Mr, Pd, Qp};
use crate::{Result, errno_of, none, number, object};

fn access_of(access: c_uint) -> Result<Access> {
    let known = access & !Access::OPTIONAL_BITS;
    Access::from_bits(known).ok_or(EINVAL)
}

/// The memory and the attributes of a registration.
struct Wanted {
    address: usize,
    length: usize,
    iova: u64,
    access: c_uint,
}

impl Wanted {
    fn region(&self, pd: &Pd) -> Result<verbs::Region> {
        let access = access_of(self.access)?;
        let iova = match access.contains(Access::ZERO_BASED) {
            true => 0,
            false => self.iova,
        };
        Ok(verbs::Region {
            pd: pd.id(),
            start: self.address as u64,
            length: self.length as u64,
            iova,
            access,
        })
    }

    /// Builds the region for C.
    fn result(&self, domain: &Pd, pd: *mut Pd, key: u32) -> Mr {
        domain.join();
        Mr {
            context: domain.context,
            pd,
            addr: self.address as *mut c_void,
            length: self.length,
            handle: key >> 8,
            lkey: key,
            rkey: key,
        }
    }

    /// Returns the memory.
    fn range(&self) -> Result<Range<'static>> {
        self.address.checked_add(self.length).ok_or(EINVAL)?;
        // SAFETY: memory that the program gives for transfers, by C's rules.
        Ok(unsafe { Range::new(self.address, self.length) })
    }
}

/// Checks that the memory of a region is there, and can be written if its owner may do that.
///
/// # Errors
/// `EFAULT`.
fn check_memory(region: &verbs::Region, memory: Range<'_>) -> Result<()> {
    let writes = region.access.contains(Access::LOCAL_WRITE);
    let is_there = match writes {
        true => memory.writable().is_some(),
        false => memory.readable().is_some(),
    };
    // A region without bytes is refused for that.
    if is_there || region.length == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

fn register(pd: *mut Pd, wanted: &Wanted) -> Result<Mr> {
    // SAFETY: a domain of ours, and its context.
    let (domain, context) = unsafe {
        let domain = get(pd)?;
        (domain, get(domain.context)?)
    };
    let region = wanted.region(domain)?;
    let memory = wanted.range()?;
    check_memory(&region, memory)?;
    let key = context.raw.register(region, memory.into());
    Ok(wanted.result(domain, pd, key.map_err(errno_of)?))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr(
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut Mr {
    ibv_reg_mr_iova2(pd, address, length, address as u64, access as c_uint)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova(
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut Mr {
    ibv_reg_mr_iova2(pd, address, length, iova, access as c_uint)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova2(
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut Mr {
    let wanted = Wanted {
        address: address as usize,
        length,
        iova,
        access,
    };
    object(register(pd, &wanted))
}

/// Numbers of `enum ibv_rereg_mr_err_code`.
const ERR_INPUT: c_int = -1;
const ERR_CMD: c_int = -4;
/// `enum ibv_rereg_mr_flags`.
const CHANGE_TRANSLATION: c_int = 1;
const CHANGE_PD: c_int = 2;
const CHANGE_ACCESS: c_int = 4;
const ALL_CHANGES: c_int = 7;

fn reregister(
    mr: *mut Mr,
    flags: c_int,
    new_pd: *mut Pd,
    wanted: Wanted,
) -> core::result::Result<(), (c_int, i32)> {
    let input = |number| (ERR_INPUT, number);
    // SAFETY: a region of ours, and its context.
    let (region, context) = unsafe {
        let region = get_mut(mr).map_err(input)?;
        (region as &mut Mr, get((*mr).context).map_err(input)?)
    };
    if flags & !ALL_CHANGES != 0 || flags == 0 {
        return Err(input(EINVAL));
    }
    let changes = |flag| flags & flag != 0;
    let lacks_place = wanted.address == 0 || wanted.length == 0;
    if changes(CHANGE_TRANSLATION) && lacks_place || wanted.access != 0 && !changes(CHANGE_ACCESS) {
        return Err(input(EINVAL));
    }
    let pd = match flags & CHANGE_PD {
        0 => region.pd,
        _ => new_pd,
    };
    // SAFETY: a domain of ours.
    let domain = unsafe { get(pd) }.map_err(input)?;
    let old = context.raw.region(region.lkey).ok_or(input(EINVAL))?;
    let moves = changes(CHANGE_TRANSLATION);
    let mut new = old;
    new.pd = domain.id();
    if changes(CHANGE_ACCESS) {
        new.access = access_of(wanted.access).map_err(input)?;
    }
    let mut held = None;
    if moves {
        (new.start, new.length) = (wanted.address as u64, wanted.length as u64);
        new.iova = wanted.iova;
        held = Some(wanted.range().map_err(input)?);
    }
    // The rights, old or new, say how addresses are counted.
    match [old, new].map(|of| of.access.contains(Access::ZERO_BASED)) {
        [_, true] => new.iova = 0,
        [true, false] if !moves => new.iova = new.start,
        _ => {}
    }
    // SAFETY: memory that the program gives for transfers, by C's rules.
    let memory = unsafe { Range::new(new.start as usize, new.length as usize) };
    check_memory(&new, memory).map_err(|error| (ERR_CMD, error))?;
    let held = held.map(Into::into);
    let key = context.raw.reregister(region.lkey, new, held);
    let key = key.map_err(|error| (ERR_CMD, errno_of(error)))?;
    (region.lkey, region.rkey, region.handle) = (key, key, key >> 8);
    domain.join();
    // SAFETY: the former domain of the region, which lives as long as it has the region.
    unsafe { Pd::leave(region.pd) };
    region.pd = pd;
    if moves {
        (region.addr, region.length) = (wanted.address as *mut c_void, wanted.length);
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rereg_mr(
    mr: *mut Mr,
    flags: c_int,
    pd: *mut Pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let wanted = Wanted {
        address: address as usize,
        length,
        iova: address as u64,
        access: access as c_uint,
    };
    match reregister(mr, flags, pd, wanted) {
        Ok(()) => 0,
        Err((code, number)) => {
            skiff_libc::errno::set(number);
            code
        }
    }
}

// ---- Memory of the library's ----

/// `struct ibv_buf`: memory, and the domain that it was allocated for.
pub struct Buf {
    memory: Arc<Memory>,
    pd: Id,
}

fn alloc_buf(pd: *const Pd, size: usize) -> Result<Buf> {
    // SAFETY: a domain of ours.
    let pd = unsafe { get(pd)? }.id();
    let size = size.checked_next_multiple_of(4096).filter(|size| *size > 0);
    let size = size.ok_or(EINVAL)?;
    // Ordinary memory is used when the user has reached the driver's limit.
    let memory = Memory::new(size).or_else(|_| Memory::ordinary(size));
    memory
        .map(|memory| Buf {
            memory: Arc::new(memory),
            pd,
        })
        .map_err(|error| error.errno)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_buf(
    pd: *const Pd,
    size: usize,
    place: *mut *mut Buf,
) -> *mut c_void {
    if place.is_null() {
        return none(EINVAL);
    }
    match alloc_buf(pd, size) {
        Ok(buf) => {
            let address = buf.memory.address() as *mut c_void;
            // SAFETY: the caller's place.
            unsafe { place.write(object(Ok(buf))) };
            address
        }
        Err(number) => none(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_buf(buf: *mut Buf) {
    if !buf.is_null() {
        // SAFETY: made by `object`; the caller does not use it any more.
        unsafe { drop(Box::from_raw(buf)) };
    }
}

fn register_buf(pd: *mut Pd, buf: *const Buf, wanted: &Wanted) -> Result<Mr> {
    // SAFETY: a domain and memory of ours, and the context.
    let (domain, buf, context) = unsafe {
        let domain = get(pd)?;
        (domain, get(buf)?, get(domain.context)?)
    };
    if domain.id() != buf.pd {
        return Err(EINVAL);
    }
    let region = wanted.region(domain)?;
    let held = buf.memory.clone().into();
    let key = context.raw.register(region, held).map_err(errno_of)?;
    Ok(wanted.result(domain, pd, key))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_buf_mr(
    pd: *mut Pd,
    buf: *const Buf,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut Mr {
    let wanted = Wanted {
        address: address as usize,
        length,
        iova: address as u64,
        access: access as c_uint,
    };
    object(register_buf(pd, buf, &wanted))
}

/// `struct ibv_mr_init_attr`.
#[repr(C)]
struct MrInitAttr {
    length: usize,
    access: c_int,
    mask: u64,
    iova: u64,
    address: *mut c_void,
    fd: c_int,
    fd_offset: u64,
    dmah: *mut c_void,
    buf: *const Buf,
}

/// `enum ibv_mr_init_attr_mask`.
const MASK_IOVA: u64 = 1 << 0;
const MASK_ADDR: u64 = 1 << 1;
const MASK_FD: u64 = 1 << 2;
const MASK_FD_OFFSET: u64 = 1 << 3;
const MASK_BUF: u64 = 1 << 5;

/// Returns `EINVAL` for a mask that does not name the memory, and `EOPNOTSUPP` for memory of a
/// file or for unknown bits in the mask.
fn register_ex(pd: *mut Pd, attr: *const MrInitAttr) -> Result<Mr> {
    // SAFETY: the caller's structure.
    let attr = unsafe { get(attr)? };
    let has = |bits| attr.mask & bits != 0;
    let is_file = has(MASK_FD | MASK_FD_OFFSET);
    if has(MASK_BUF) && (is_file || !has(MASK_ADDR)) {
        return Err(EINVAL);
    }
    if has(!(MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET | MASK_BUF)) {
        return Err(EOPNOTSUPP);
    }
    if is_file {
        let is_whole = has(MASK_FD) && has(MASK_FD_OFFSET) && has(MASK_IOVA) && !has(MASK_ADDR);
        return Err(if is_whole { EOPNOTSUPP } else { EINVAL });
    }
    if !has(MASK_ADDR) {
        return Err(EINVAL);
    }
    let wanted = Wanted {
        address: attr.address as usize,
        length: attr.length,
        iova: match has(MASK_IOVA) {
            true => attr.iova,
            false => attr.address as u64,
        },
        access: attr.access as c_uint,
    };
    match has(MASK_BUF) {
        true => register_buf(pd, attr.buf, &wanted),
        false => register(pd, &wanted),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_ex(pd: *mut Pd, attr: *const MrInitAttr) -> *mut Mr {
    object(register_ex(pd, attr))
}

fn deregister(mr: *mut Mr) -> Result<()> {
    // SAFETY: a region of ours, and its context.
    let (region, context) = unsafe {
        let region = get(mr)?;
        (region, get(region.context)?)
    };
    context.raw.deregister(region.lkey).map_err(errno_of)?;
    // SAFETY: the region's domain, which lives as long as it has the region.
    unsafe { Pd::leave(region.pd) };
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(mr)) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
    number(deregister(mr))
}

// ---- Memory windows ----

/// `struct ibv_mw`.
#[repr(C)]
pub struct Mw {
    context: *mut Context,
    pd: *mut Pd,
    pub rkey: u32,
    handle: u32,
    kind: u32,
}

fn alloc_mw(pd: *mut Pd, kind: u32) -> Result<Mw> {
    // SAFETY: a domain of ours, and its context.
    let (domain, context) = unsafe {
        let domain = get(pd)?;
        (domain, get(domain.context)?)
    };
    let window = match kind {
        1 => WindowType::One,
        2 => WindowType::Two,
        _ => return Err(EINVAL),
    };
    let rkey = context
        .raw
        .alloc_mw(domain.id(), window)
        .map_err(errno_of)?;
    domain.join();
    Ok(Mw {
        context: domain.context,
        pd,
        rkey,
        handle: rkey >> 8,
        kind,
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_mw(pd: *mut Pd, kind: u32) -> *mut Mw {
    object(alloc_mw(pd, kind))
}

fn dealloc_mw(mw: *mut Mw) -> Result<()> {
    // SAFETY: a window of ours, its domain and its context.
    let (window, domain, context) = unsafe {
        let window = get(mw)?;
        (window, get(window.pd)?, get(window.context)?)
    };
    let ended = context.raw.dealloc_mw(domain.id(), window.rkey);
    ended.map_err(errno_of)?;
    // SAFETY: the window's domain, which lives as long as it has the window.
    unsafe { Pd::leave(window.pd) };
    // SAFETY: made by `object`; the caller does not use it any more.
    unsafe { drop(Box::from_raw(mw)) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_mw(mw: *mut Mw) -> c_int {
    number(dealloc_mw(mw))
}

/// Converts a request to bind a window for `verbs`; `key` is the window's new key.
pub fn bind(window: &Mw, key: u32, info: &BindInfo) -> Result<verbs::Bind> {
    // SAFETY: a region of ours, or none.
    let region = unsafe { info.mr.as_ref() };
    Ok(verbs::Bind {
        window: window.rkey,
        key,
        region: region.map_or(0, |region| region.lkey),
        address: info.addr,
        length: info.length,
        access: access_of(info.mw_access_flags)?,
    })
}

/// `struct ibv_mw_bind`.
#[repr(C)]
pub struct MwBind {
    wr_id: u64,
    send_flags: c_uint,
    info: BindInfo,
}

fn bind_first(qp: *const Qp, mw: *mut Mw, asked: *const MwBind) -> Result<()> {
    // SAFETY: a queue pair and a window of ours, and the caller's structure.
    let (qp, window, asked) = unsafe { (get(qp)?, get_mut(mw)?, get(asked)?) };
    // SAFETY: the context of the queue pair; a region of ours, or none.
    let (context, region) = unsafe { (get(qp.context)?, asked.info.mr.as_ref()) };
    if window.kind != 1 || region.is_none() && (asked.info.addr, asked.info.length) != (0, 0) {
        return Err(EINVAL);
    }
    if region.is_some_and(|region| region.pd != window.pd) {
        return Err(EPERM);
    }
    let key = window.rkey & !0xff | (window.rkey.wrapping_add(1)) & 0xff;
    let flags = SendFlags::from_bits(asked.send_flags).ok_or(EINVAL)?;
    let request = SendRequest {
        flags,
        bind: Some(bind(window, key, &asked.info)?),
        ..SendRequest::new(asked.wr_id, Opcode::BindMw, alloc::vec![])
    };
    context
        .raw
        .post_send(qp.qp_num, [request])
        .1
        .map_err(errno_of)?;
    window.rkey = key;
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_bind_mw(qp: *const Qp, mw: *mut Mw, asked: *const MwBind) -> c_int {
    number(bind_first(qp, mw, asked))
}
