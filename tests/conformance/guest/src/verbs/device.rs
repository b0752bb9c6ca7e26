//! The device, by its scheme.

use alloc::format;
use alloc::vec::Vec;

use conformance::errno::Errno;
use conformance::verbs::bench::Checked;
use conformance::verbs::commands::{Device, present};
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use runtime::time::{Duration, sleep};
use runtime::{fd, fs};
use verbs_abi::call;

/// Number of checks whether the former context has gone, at intervals of a millisecond.
const LOOKS: usize = 10_000;

/// A context of the scheme `infiniband`.
#[derive(Default)]
pub struct Scheme {
    context: Option<Fd>,
}

impl Scheme {
    fn fd(&self) -> Result<&Fd, Errno> {
        self.context.as_ref().ok_or(Errno(syscall::error::EBADF))
    }
}

impl Device for Scheme {
    fn open(&mut self) -> Checked {
        self.context = None;
        let mut left = self.present()?;
        for _ in 0..LOOKS {
            if left.iter().all(|count| *count == 0) {
                break;
            }
            sleep(Duration::from_millis(1));
            left = self.present()?;
        }
        if left.iter().any(|count| *count > 0) {
            return Err(format!("left behind: {left:?}"));
        }
        let opened = Fd::open("/scheme/infiniband/uverbs0", O_RDWR | O_CLOEXEC, 0);
        let opened = opened.map_err(|error| format!("open: {}", Errno(error.errno())))?;
        self.context = Some(opened);
        Ok(())
    }

    fn call(&mut self, bytes: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
        let mut payload = bytes.to_vec();
        payload.resize(bytes.len().max(room), 0);
        let length = fd::call_rw(self.fd()?.raw(), &mut payload, &[call::EXECUTE]);
        payload.truncate(length.map_err(|error| Errno(error.errno))?);
        Ok(payload)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let written = self.fd()?.write(bytes);
        written.map_err(|error| Errno(error.errno()))
    }

    fn present(&mut self) -> Checked<Vec<u64>> {
        let stats = fs::read_to_string("/scheme/infiniband/stats");
        let stats = stats.map_err(|error| format!("stats: {}", Errno(error.errno)))?;
        Ok(present(&stats))
    }

    fn gone(&mut self) -> Checked<Option<Errno>> {
        self.context = None;
        Ok(None)
    }

    fn is_root(&self) -> bool {
        true
    }
}
