//! `zerod null|zero|rand`: a scheme of that name with one endless or empty file.
//!
//! `null` reads as empty, `zero` as zero bytes, `rand` as pseudo-random numbers (not for secrets).
//! Written bytes are dropped.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;

use ramfs::random::Generator;
use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, OpenResult};
use runtime::{Error, Result, env};
use scheme::SchemeDaemon;
use scheme::daemon::{self, Mode, NOTIFY_VARIABLE};
use syscall::data::Stat;
use syscall::error::{EBADF, ENAMETOOLONG, ENOENT, ENOTDIR};
use syscall::flag::{EventFlags, MODE_CHR, O_DIRECTORY};
use syscall::schemev2::NewFdFlags;

runtime::main!(main);

enum Kind {
    Null,
    Zero,
    Random(Generator),
}

fn main() -> i32 {
    let purpose = "serves endless files: the scheme of that name";
    if let Some(status) = runtime::env::answer_people("null|zero|rand", purpose, 1) {
        return status;
    }
    let name = env::args().nth(1).unwrap_or_default();
    let kind = match name.as_str() {
        "null" => Kind::Null,
        "zero" => Kind::Zero,
        "rand" => {
            // Both clocks, because the time of day may be unknown and thus the same after every
            // start.
            let now = runtime::time::unix_time().as_nanos() as u64;
            Kind::Random(Generator::new(
                now ^ runtime::time::Instant::now().as_nanos().rotate_left(32),
            ))
        }
        _ => {
            runtime::eprintln!("usage: zerod null|zero|rand");
            return 2;
        }
    };
    let mut scheme = Endless {
        name: name.clone(),
        kind,
        last_handle: ROOT,
    };
    let mut run = || -> Result<()> {
        let notify = env::var(NOTIFY_VARIABLE);
        let mut requests = daemon::start(&name, Mode::Blocking, notify.as_deref(), &mut scheme)?;
        daemon::seal()?;
        requests.run(&mut scheme)
    };
    match run() {
        Ok(()) => 0,
        Err(error) => {
            runtime::eprintln!("zerod: cannot serve the scheme {name}: {error}");
            1
        }
    }
}

/// Handle of the scheme's root. All others are open files, and have no state.
const ROOT: usize = 1;

struct Endless {
    name: String,
    kind: Kind,
    last_handle: usize,
}

impl SchemeDaemon for Endless {}

impl SchemeSync for Endless {
    fn scheme_root(&mut self) -> Result<usize> {
        Ok(ROOT)
    }

    fn openat(
        &mut self,
        dir: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<OpenResult> {
        if dir != ROOT {
            return Err(Error::new(EBADF));
        }
        if !path.trim_matches('/').is_empty() {
            return Err(Error::new(ENOENT));
        }
        if flags & O_DIRECTORY != 0 {
            return Err(Error::new(ENOTDIR));
        }
        self.last_handle += 1;
        Ok(OpenResult::ThisScheme {
            number: self.last_handle,
            flags: NewFdFlags::empty(),
        })
    }

    fn read(
        &mut self,
        _id: usize,
        buf: &mut [u8],
        _offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        match &mut self.kind {
            Kind::Null => return Ok(0),
            Kind::Zero => buf.fill(0),
            Kind::Random(generator) => generator.fill(buf),
        }
        Ok(buf.len())
    }

    fn write(
        &mut self,
        _id: usize,
        buf: &[u8],
        _offset: u64,
        _fcntl_flags: u32,
        _ctx: &CallerCtx,
    ) -> Result<usize> {
        Ok(buf.len())
    }

    fn fcntl(&mut self, _id: usize, _cmd: usize, _arg: usize, _ctx: &CallerCtx) -> Result<usize> {
        Ok(0)
    }

    fn fevent(&mut self, _id: usize, flags: EventFlags, _ctx: &CallerCtx) -> Result<EventFlags> {
        Ok(flags & (EventFlags::EVENT_READ | EventFlags::EVENT_WRITE))
    }

    fn ftruncate(&mut self, _id: usize, _length: u64, _ctx: &CallerCtx) -> Result<()> {
        Ok(())
    }

    fn fpath(&mut self, _id: usize, buf: &mut [u8], _ctx: &CallerCtx) -> Result<usize> {
        let path = alloc::format!("/scheme/{}", self.name);
        if buf.len() < path.len() {
            return Err(Error::new(ENAMETOOLONG));
        }
        buf[..path.len()].copy_from_slice(path.as_bytes());
        Ok(path.len())
    }

    fn fstat(&mut self, _id: usize, stat: &mut Stat, _ctx: &CallerCtx) -> Result<()> {
        *stat = Stat {
            st_mode: MODE_CHR | 0o666,
            st_nlink: 1,
            ..Stat::default()
        };
        Ok(())
    }
}
