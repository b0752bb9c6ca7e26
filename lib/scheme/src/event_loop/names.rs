//! Requests of `StdFsCall` whose buffer holds names: to delete, to rename and to link files.
//!
//! The buffer is memory of the caller, which another of its threads may change at any time. So the
//! names are copied before they are looked at, and handlers get the copy.

use alloc::vec::Vec;
use core::str;

use redox_scheme::CallerCtx;
use redox_scheme::scheme::SchemeSync;
use syscall::error::{EINVAL, ENAMETOOLONG, Error, Result};
use syscall::flag::StdFsCallKind;
use syscall::schemev2::{Opcode, Sqe, SqeFlags};

/// The longest buffer: two paths and the zero byte between them. The kernel's own limit for a path
/// is as large.
const MOST_BYTES: usize = 2 * 4096 + 1;

/// Serves such a request. `None` for all others, and for those that redox-scheme refuses.
pub(super) fn serve<S: SchemeSync>(
    sqe: &Sqe,
    caller: &CallerCtx,
    scheme: &mut S,
) -> Option<Result<usize>> {
    let Some(Opcode::StdFsCall) = Opcode::try_from_raw(sqe.opcode) else {
        return None;
    };
    let kind = StdFsCallKind::try_from_raw(sqe.args[3] as u8)?;
    let has_two_handles = sqe.sqe_flags.contains(SqeFlags::MULTIPLE_IDS);
    let [handle, _, _, _, flags, other] = sqe.args.map(|argument| argument as usize);
    let served = match (kind, has_two_handles) {
        (StdFsCallKind::Unlinkat, false) => {
            copy(sqe).and_then(|text| scheme.unlinkat(handle, name(&text)?, flags, caller))
        }
        (StdFsCallKind::Frenameat, true) => copy(sqe).and_then(|text| {
            let end = text.iter().position(|&byte| byte == 0);
            let end = end.ok_or(Error::new(EINVAL))?;
            let (old, new) = (name(&text[..end])?, name(&text[end + 1..])?);
            let renamed = scheme.frenameat(handle, old, other, new, flags as u32, caller);
            renamed.map(drop)
        }),
        (StdFsCallKind::Flinkat, true) => copy(sqe).and_then(|text| {
            let linked = scheme.flinkat(handle, other, name(&text)?, flags as u32, caller);
            linked.map(drop)
        }),
        _ => return None,
    };
    Some(served.map(|()| 0))
}

fn copy(sqe: &Sqe) -> Result<Vec<u8>> {
    let (address, length) = (sqe.args[1] as *const u8, sqe.args[2] as usize);
    if length > MOST_BYTES {
        return Err(Error::new(ENAMETOOLONG));
    }
    let mut text = Vec::with_capacity(length);
    // SAFETY: the kernel mapped `length` readable bytes at `address` for this request, which is not
    // answered yet, and the new memory has room for them. Any bytes are valid.
    unsafe {
        address.copy_to_nonoverlapping(text.as_mut_ptr(), length);
        text.set_len(length);
    }
    Ok(text)
}

/// A name without zero bytes, which no path has.
fn name(text: &[u8]) -> Result<&str> {
    match str::from_utf8(text) {
        Ok(name) if !text.contains(&0) => Ok(name),
        _ => Err(Error::new(EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::{format, vec};

    use redox_scheme::{Request, RequestKind};

    /// A scheme whose callers change the names as soon as it looks at them.
    struct Changing {
        names: Vec<u8>,
        got: Vec<String>,
    }

    impl Changing {
        fn note(&mut self, seen: &str, what: String) {
            let before = String::from(seen);
            self.names.fill(b'/');
            assert_eq!(seen, before);
            self.got.push(what);
        }

        fn ask(&mut self, kind: StdFsCallKind, pair: bool, names: &[u8]) -> Option<Result<usize>> {
            self.names = names.to_vec();
            let (address, length) = (self.names.as_ptr() as u64, names.len() as u64);
            let sqe = Sqe {
                opcode: Opcode::StdFsCall as u8,
                sqe_flags: match pair {
                    true => SqeFlags::MULTIPLE_IDS,
                    false => SqeFlags::empty(),
                },
                args: [3, address, length, kind as u64, 5, 4],
                ..Sqe::default()
            };
            // SAFETY: `Request` is a transparent wrapper of `Sqe`.
            let request = unsafe { core::mem::transmute::<Sqe, Request>(sqe) };
            let RequestKind::Call(request) = request.kind() else {
                panic!("no call");
            };
            serve(&sqe, &request.caller(), self)
        }
    }

    impl SchemeSync for Changing {
        fn unlinkat(&mut self, id: usize, path: &str, flags: usize, _: &CallerCtx) -> Result<()> {
            self.note(path, format!("unlink {id} {path} {flags}"));
            Ok(())
        }

        fn frenameat(
            &mut self,
            old: usize,
            old_path: &str,
            new: usize,
            new_path: &str,
            flags: u32,
            _: &CallerCtx,
        ) -> Result<usize> {
            self.note(
                old_path,
                format!("rename {old} {old_path} {new} {new_path} {flags}"),
            );
            Ok(9)
        }

        fn flinkat(
            &mut self,
            id: usize,
            dir: usize,
            path: &str,
            flags: u32,
            _: &CallerCtx,
        ) -> Result<usize> {
            self.note(path, format!("link {id} {dir} {path} {flags}"));
            Ok(9)
        }
    }

    #[test]
    fn handlers_get_a_copy_of_the_names() {
        let mut scheme = Changing {
            names: vec![],
            got: vec![],
        };
        let mut served = |kind, pair, names: &[u8]| scheme.ask(kind, pair, names);
        assert_eq!(served(StdFsCallKind::Unlinkat, false, b"a"), Some(Ok(0)));
        assert_eq!(served(StdFsCallKind::Frenameat, true, b"a\0b"), Some(Ok(0)));
        assert_eq!(served(StdFsCallKind::Flinkat, true, b"c"), Some(Ok(0)));
        assert_eq!(
            scheme.got,
            ["unlink 3 a 5", "rename 3 a 4 b 5", "link 3 4 c 5"]
        );
    }

    #[test]
    fn wrong_names_are_refused() {
        let mut scheme = Changing {
            names: vec![],
            got: vec![],
        };
        let refused = |errno| Some(Err(Error::new(errno)));
        for (kind, pair, names) in [
            (StdFsCallKind::Unlinkat, false, &b"a\0b"[..]),
            (StdFsCallKind::Unlinkat, false, b"\xff"),
            (StdFsCallKind::Frenameat, true, b"ab"),
            (StdFsCallKind::Frenameat, true, b"a\0b\0c"),
            (StdFsCallKind::Flinkat, true, b"a\0"),
        ] {
            assert_eq!(scheme.ask(kind, pair, names), refused(EINVAL), "{names:?}");
        }
        let long = [b'a'; MOST_BYTES + 1];
        let answer = scheme.ask(StdFsCallKind::Unlinkat, false, &long);
        assert_eq!(answer, refused(ENAMETOOLONG));
        // Others, and with a wrong number of handles: for redox-scheme to decode or refuse.
        for (kind, pair) in [
            (StdFsCallKind::Fchmod, false),
            (StdFsCallKind::Unlinkat, true),
            (StdFsCallKind::Frenameat, false),
        ] {
            assert_eq!(scheme.ask(kind, pair, b"a\0b"), None);
        }
        assert!(scheme.got.is_empty());
    }
}
