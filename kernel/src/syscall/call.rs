//! SYS_CALL: the general request, file system calls and passing descriptors.

use alloc::{sync::Arc, vec::Vec};

use ::syscall::{
    CallFlags,
    error::{EBUSY, EINVAL, Error, Result},
};

use super::{
    UserBuf,
    files::{lookup_all, lookup_one},
};
use crate::{
    mm::frame,
    object::Description,
    proc,
    scheme::{self, SchemeRef},
};

/// Most descriptors that one call may name.
const MAX_FDS: usize = 2;
/// Longest descriptor list of the older form, in words.
const MAX_LIST: usize = 16;
/// Most metadata words that are read.
const MAX_METADATA: usize = 3;
/// Most descriptors that one call may send.
const MAX_SENT: usize = 65_536;

/// Call flag of redox_syscall 0.9.2, reserved in 0.9.5: several descriptors, list length in the
/// sixth argument.
const MULTIPLE_FDS: usize = 1 << 17;

/// Arguments: descriptor or descriptor list, payload, flags with the number of metadata words in
/// the low byte, metadata address, byte length of the list in the older form.
pub fn call(
    target: usize,
    payload: UserBuf,
    flags_word: usize,
    metadata: usize,
    list_len: usize,
) -> Result<usize> {
    let bits = flags_word & !0xFF;
    let flags = CallFlags::from_bits(bits & !MULTIPLE_FDS).ok_or(Error::new(EINVAL))?;
    // Nearly every call names one descriptor: no memory is allocated for it.
    let (one, list);
    let fds: &[usize] = if bits & MULTIPLE_FDS != 0 {
        list = UserBuf::new(target, list_len)?.words(MAX_LIST)?;
        &list
    } else if flags.contains(CallFlags::MULTIPLE_FDS2) {
        // Lists are aligned, so the count is in the low bits of their address.
        let count = target & 0b111;
        list = UserBuf::new(target & !0b111, count * size_of::<usize>())?.words(MAX_LIST)?;
        &list
    } else {
        one = [target];
        &one
    };
    let metadata = UserBuf::new(metadata, (flags_word & 0xFF) * size_of::<u64>())?;
    let mut words = [0; MAX_METADATA];
    let count = metadata.read_words(&mut words)?;
    let metadata = words.get(..count).unwrap_or_default();

    if flags.contains(CallFlags::WRITE | CallFlags::FD) {
        send(fds, payload, flags, metadata)
    } else if flags.contains(CallFlags::READ | CallFlags::FD) {
        receive(fds, payload, flags, metadata)
    } else {
        plain(fds, payload, flags, metadata)
    }
}

fn plain(fds: &[usize], payload: UserBuf, flags: CallFlags, metadata: &[u64]) -> Result<usize> {
    let consume = flags.contains(CallFlags::CONSUME);
    if let [fd] = *fds {
        let (file, scheme) = lookup_one(fd, consume)?;
        return request(&scheme, &file, &[file.number()], payload, flags, metadata);
    }
    if fds.is_empty() || fds.len() > MAX_FDS {
        return Err(Error::new(EINVAL));
    }
    let (files, scheme) = lookup_all(fds, consume)?;
    let first = files.first().ok_or(Error::new(EINVAL))?;
    let numbers: Vec<_> = files.iter().map(|file| file.number()).collect();
    request(&scheme, first, &numbers, payload, flags, metadata)
}

/// The call itself; `numbers` are the objects, `first` is the first object's description.
fn request(
    scheme: &SchemeRef,
    first: &Description,
    numbers: &[usize],
    payload: UserBuf,
    flags: CallFlags,
    metadata: &[u64],
) -> Result<usize> {
    if flags.contains(CallFlags::STD_FS) {
        scheme.std_fs_call(first, numbers, payload, metadata)
    } else {
        scheme.call(numbers, payload, flags, metadata)
    }
}

fn single(fds: &[usize]) -> Result<usize> {
    match *fds {
        [fd] => Ok(fd),
        _ => Err(Error::new(EINVAL)),
    }
}

/// Sends the descriptors that the payload lists. They leave the caller's table unless FD_CLONE is
/// set. Returns their count, whatever the scheme answers.
fn send(fds: &[usize], payload: UserBuf, flags: CallFlags, metadata: &[u64]) -> Result<usize> {
    // The lists may take a megabyte, for as long as the scheme does not answer: check for room.
    frame::check_room()?;
    let table = proc::files();
    let list = payload.words(MAX_SENT)?;
    let target = table.get(single(fds)?)?;
    let scheme = scheme::get(target.scheme())?;
    let clone = flags.contains(CallFlags::FD_CLONE);
    let files = if clone {
        table.get_all(&list)?
    } else {
        table.take_all(&list)?
    };
    let exclusive = flags & CallFlags::FD_EXCLUSIVE;
    if !exclusive.is_empty() && files.iter().any(|file| Arc::strong_count(file) > 1) {
        return Err(Error::new(EBUSY));
    }
    scheme.send_files(target.number(), files, exclusive, metadata)?;
    Ok(list.len())
}

/// Receives descriptors into the slots that the payload lists.
fn receive(fds: &[usize], payload: UserBuf, flags: CallFlags, metadata: &[u64]) -> Result<usize> {
    let target = proc::file(single(fds)?)?;
    scheme::get(target.scheme())?.receive_files(target.number(), payload, flags, metadata)
}
