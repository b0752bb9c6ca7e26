//! Structures with padding as bytes. The padding is zero, so that nothing of the kernel's stack
//! leaks.

use core::mem::offset_of;

use ::syscall::data::{Stat, StatVfs};

const STAT_SIZE: usize = size_of::<Stat>();
const STATVFS_SIZE: usize = size_of::<StatVfs>();

/// Puts a field's bytes at its offset.
fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    for (place, byte) in bytes.iter_mut().skip(offset).zip(field) {
        *place = *byte;
    }
}

macro_rules! fields {
    ($bytes:ident, $type:ty, $value:ident: $($field:ident),* $(,)?) => {
        $(put(&mut $bytes, offset_of!($type, $field), &$value.$field.to_ne_bytes());)*
    };
}

/// The bytes of a file description.
pub fn stat(stat: &Stat) -> [u8; STAT_SIZE] {
    let mut bytes = [0; STAT_SIZE];
    fields!(bytes, Stat, stat: st_dev, st_ino, st_mode, st_nlink, st_uid, st_gid, st_size,
        st_blksize, st_blocks, st_mtime, st_mtime_nsec, st_atime, st_atime_nsec, st_ctime,
        st_ctime_nsec);
    bytes
}

/// The bytes of a file system description.
pub fn statvfs(stat: &StatVfs) -> [u8; STATVFS_SIZE] {
    let mut bytes = [0; STATVFS_SIZE];
    fields!(bytes, StatVfs, stat: f_bsize, f_blocks, f_bfree, f_bavail);
    bytes
}
