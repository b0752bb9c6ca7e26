//! `irq`: interrupts for drivers. Legacy lines by number, message interrupts by reserved vector.

use alloc::{
    collections::LinkedList,
    format,
    string::{String, ToString},
    vec::Vec,
};

use ::syscall::{
    EventFlags,
    data::{GlobalSchemes, Stat},
    dirent::{DirEntry, DirentKind},
    error::{EACCES, EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, Error, Result},
    flag::{MODE_CHR, MODE_DIR, O_CREAT, O_DIRECTORY, O_STAT},
};
use kernel_core::irq_counts::{IRQ_COUNT, IrqCounts, LEGACY_IRQS};
use spin::Mutex;

use super::{
    Caller, NO_OFFSET, OpenResult, Scheme, dirents,
    handles::{Handles, ROOT},
    kernel_id, trigger,
};
use crate::{
    arch::{self, irq as lines},
    mm::UserBuf,
};

/// Inode numbers of the directories and of `bsp`.
const INO_TOP: u64 = 0x8002_0000_0000_0000;
const INO_CPU: u64 = 0x8000_0000_0000_0000;
const INO_BSP: u64 = 0x8001_0000_0000_0000;

/// Devices interrupt only the boot processor, so only it has vectors to allocate.
const CPUS: usize = 1;

const WORD: usize = size_of::<usize>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Top,
    Bsp,
    Cpu(u8),
    Irq {
        irq: u8,
        acknowledged: usize,
        reserved: bool,
    },
}

static COUNTS: Mutex<IrqCounts> = Mutex::new(IrqCounts::new());
static HANDLES: Mutex<Handles<Handle>> = Mutex::new(Handles::new());

pub struct IrqScheme;

/// Takes over all interrupts that the kernel does not consume.
pub fn init() {
    {
        let mut counts = COUNTS.lock();
        let kernel_own = (LEGACY_IRQS..=u8::MAX)
            .take_while(|&irq| usize::from(irq) < IRQ_COUNT)
            .filter(|&irq| lines::is_reserved(irq));
        for irq in kernel_own {
            counts.reserve(irq);
        }
    }
    lines::set_default_handler(raise);
}

/// Counts an interrupt and notifies its handles. Runs in the interrupt handler.
fn raise(irq: u8) {
    COUNTS.lock().raise(irq);
    let is_of = |handle: &Handle| matches!(handle, Handle::Irq { irq: own, .. } if *own == irq);
    let handles = HANDLES.lock();
    for (number, _) in handles.iter().filter(|(_, handle)| is_of(handle)) {
        trigger(
            kernel_id(GlobalSchemes::Irq),
            number,
            EventFlags::EVENT_READ,
        );
    }
}

/// All counters, for `sys/irq`.
pub fn counts() -> Vec<usize> {
    COUNTS.lock().counts().to_vec()
}

fn handle(number: usize) -> Result<Handle> {
    HANDLES.lock().get(number).copied()
}

fn parse(path: &str, flags: usize) -> Result<Handle> {
    let missing = Error::new(ENOENT);
    if path.is_empty() {
        let listed = flags & (O_DIRECTORY | O_STAT) != 0;
        return if listed {
            Ok(Handle::Top)
        } else {
            Err(Error::new(EISDIR))
        };
    }
    if path == "bsp" {
        return Ok(Handle::Bsp);
    }
    if let Some(rest) = path.strip_prefix("cpu-") {
        let (cpu, irq) = rest.split_at_checked(2).ok_or(missing)?;
        let cpu = u8::from_str_radix(cpu, 16).map_err(|_| missing)?;
        if usize::from(cpu) >= CPUS {
            return Err(missing);
        }
        let irq = irq.trim_end_matches('/');
        if irq.is_empty() {
            return Ok(Handle::Cpu(cpu));
        }
        let irq = irq.strip_prefix('/').ok_or(missing)?;
        return reserve(irq.parse().map_err(|_| missing)?, flags);
    }
    let irq: u8 = path.parse().map_err(|_| missing)?;
    if irq < LEGACY_IRQS {
        Ok(plain(irq))
    } else {
        Err(missing)
    }
}

fn plain(irq: u8) -> Handle {
    Handle::Irq {
        irq,
        acknowledged: 0,
        reserved: false,
    }
}

/// Reserves a vector: `ENOENT` out of range, `EINVAL` without O_CREAT, `EEXIST` when it is taken.
fn reserve(irq: u8, flags: usize) -> Result<Handle> {
    if irq < LEGACY_IRQS || flags & O_STAT != 0 && usize::from(irq) < IRQ_COUNT {
        return Ok(plain(irq));
    }
    if usize::from(irq) >= IRQ_COUNT {
        return Err(Error::new(ENOENT));
    }
    if flags & O_CREAT == 0 {
        return Err(Error::new(EINVAL));
    }
    if !COUNTS.lock().reserve(irq) {
        return Err(Error::new(EEXIST));
    }
    Ok(Handle::Irq {
        irq,
        acknowledged: 0,
        reserved: true,
    })
}

fn list_top(buf: UserBuf, header: u16, start: usize) -> Result<usize> {
    let cpus: Vec<_> = (0..CPUS).map(|cpu| format!("cpu-{cpu:02x}")).collect();
    let bsp = ("bsp", DirentKind::CharDev);
    let names = [bsp]
        .into_iter()
        .chain(cpus.iter().map(|c| (c.as_str(), DirentKind::Directory)));
    let entries = names
        .enumerate()
        .skip(start)
        .map(|(index, (name, kind))| DirEntry {
            inode: 0,
            next_opaque_id: index as u64 + 1,
            name,
            kind,
        });
    dirents::store(buf, header, entries)
}

fn list_cpu(buf: UserBuf, header: u16, start: usize) -> Result<usize> {
    // A list of all would be longer than a page.
    let names: LinkedList<_> = COUNTS
        .lock()
        .free(start)
        .map(|irq| (u64::from(irq) + 1, irq.to_string()))
        .collect();
    let entries = names.iter().map(|(next, name)| DirEntry {
        inode: 0,
        next_opaque_id: *next,
        name,
        kind: DirentKind::CharDev,
    });
    dirents::store(buf, header, entries)
}

impl Scheme for IrqScheme {
    fn open(
        &self,
        number: usize,
        path: &str,
        flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        if number != ROOT || caller.uid != 0 {
            return Err(Error::new(EACCES));
        }
        let handle = parse(path.trim_start_matches('/'), flags)?;
        let number = HANDLES.lock().insert(handle);
        match handle {
            Handle::Top | Handle::Cpu(_) => OpenResult::positioned(number),
            Handle::Bsp | Handle::Irq { .. } => OpenResult::plain(number),
        }
    }

    fn read_at(&self, number: usize, buf: UserBuf, _offset: u64, _flags: u32) -> Result<usize> {
        let handle = handle(number)?;
        if matches!(handle, Handle::Top | Handle::Cpu(_)) {
            return Err(Error::new(EISDIR));
        }
        if buf.len() < WORD {
            return Err(Error::new(EINVAL));
        }
        match handle {
            // Stores four bytes and reports eight, as Redox does.
            Handle::Bsp => buf.write_all(&arch::bsp_id().to_ne_bytes()).map(|()| WORD),
            Handle::Irq {
                irq, acknowledged, ..
            } => {
                let new_count = COUNTS.lock().new_count(irq, acknowledged);
                match new_count {
                    Some(count) => buf.write_word(count).map(|()| WORD),
                    None => Ok(0),
                }
            }
            Handle::Top | Handle::Cpu(_) => Err(Error::new(EISDIR)),
        }
    }

    fn write_at(&self, number: usize, buf: UserBuf, offset: u64, _flags: u32) -> Result<usize> {
        let Handle::Irq { irq, .. } = handle(number)? else {
            return Err(Error::new(EBADF));
        };
        if offset != NO_OFFSET {
            return Err(Error::new(::syscall::error::ESPIPE));
        }
        let count = buf.word(0)?;
        if !COUNTS.lock().is_current(irq, count) {
            return Ok(0);
        }
        if let Handle::Irq { acknowledged, .. } = HANDLES.lock().get_mut(number)? {
            *acknowledged = count;
        }
        if irq < LEGACY_IRQS {
            lines::unmask(irq);
        }
        Ok(WORD)
    }

    fn path(&self, number: usize) -> Result<String> {
        Ok(match handle(number)? {
            Handle::Top => String::from("irq:"),
            Handle::Bsp => String::from("irq:bsp"),
            Handle::Cpu(cpu) => format!("irq:cpu-{cpu:2x}"),
            Handle::Irq { irq, .. } => format!("irq:{irq}"),
        })
    }

    fn stat(&self, number: usize) -> Result<Stat> {
        let device = |mode, inode| Stat {
            st_mode: MODE_CHR | mode,
            st_size: WORD as u64,
            st_blocks: 1,
            st_blksize: WORD as u32,
            st_ino: inode,
            st_nlink: 1,
            ..Stat::default()
        };
        let directory = |mode, inode, links| Stat {
            st_mode: MODE_DIR | mode,
            st_ino: inode,
            st_nlink: links,
            ..Stat::default()
        };
        Ok(match handle(number)? {
            Handle::Top => directory(0o500, INO_TOP, 1),
            Handle::Cpu(cpu) => directory(0o700, INO_CPU | u64::from(cpu) << 32, 2),
            Handle::Bsp => device(0o400, INO_BSP),
            Handle::Irq { irq, .. } => device(0o600, u64::from(irq)),
        })
    }

    fn getdents(&self, number: usize, buf: UserBuf, header: u16, start: u64) -> Result<usize> {
        let Ok(start) = usize::try_from(start) else {
            return Ok(0);
        };
        match handle(number)? {
            Handle::Top => list_top(buf, header, start),
            Handle::Cpu(_) => list_cpu(buf, header, start),
            Handle::Bsp | Handle::Irq { .. } => Err(Error::new(ENOTDIR)),
        }
    }

    fn close(&self, number: usize) {
        let closed = HANDLES.lock().remove(number);
        if let Some(Handle::Irq {
            irq,
            reserved: true,
            ..
        }) = closed
        {
            COUNTS.lock().release(irq);
        }
    }
}
