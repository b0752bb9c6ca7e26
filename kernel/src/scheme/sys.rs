//! `sys`: text files about the system, and the switches of the machine.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
};
use core::fmt::Write;

use ::syscall::{
    data::Stat,
    dirent::{DirEntry, DirentKind},
    error::{EBADF, EINVAL, EISDIR, ENOENT, ENOTDIR, EPERM, Error, Result},
    flag::{MODE_DIR, MODE_FILE, UPPER_FDTBL_TAG},
};
use spin::{Mutex, Once};

use super::{
    Caller, OpenResult, Scheme, SchemeRef, acpi, dirents, event_counts,
    handles::{Handles, ROOT},
    irq, pipe,
};
use crate::{
    arch::{self, power},
    console,
    mm::{UserBuf, frame, space::bounce_frames},
    proc,
    sched::{self, ContextRef, State},
    time,
};

const PREFIX: &str = "/scheme/sys/";

/// Longest text about all contexts or their files, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Longest command for a switch, in bytes.
const MAX_COMMAND: usize = 256;

#[derive(Clone, Copy)]
enum Kind {
    Text(fn() -> String),
    Switch(fn(&[u8]) -> Result<usize>),
}

const FILES: &[(&str, Kind)] = &[
    ("block", Kind::Text(block)),
    ("context", Kind::Text(contexts)),
    ("cpu", Kind::Text(cpu)),
    ("env", Kind::Text(env)),
    ("exe", Kind::Text(exe)),
    ("iostat", Kind::Text(iostat)),
    ("irq", Kind::Text(irqs)),
    ("kstop", Kind::Switch(kstop)),
    ("log", Kind::Text(log)),
    ("numa", Kind::Text(String::new)),
    ("numa_dist", Kind::Text(String::new)),
    ("numa_dom", Kind::Text(String::new)),
    ("stat", Kind::Text(stat)),
    ("syscall", Kind::Text(syscalls)),
    ("uname", Kind::Text(uname)),
    ("update_time_offset", Kind::Switch(update_time_offset)),
];

#[derive(Clone)]
enum Handle {
    Top,
    File {
        name: &'static str,
        kind: Kind,
        /// The text at the last read of its beginning.
        text: Option<Arc<String>>,
    },
}

static HANDLES: Mutex<Handles<Handle>> = Mutex::new(Handles::new());

fn handle(number: usize) -> Result<Handle> {
    HANDLES.lock().get(number).cloned()
}

/// The text of a handle. It is made when it `begins`, so that a reader sees a single state up to
/// the end, and one who goes back to the beginning sees the next one.
fn text(number: usize, begins: bool) -> Result<Arc<String>> {
    let make = match handle(number)? {
        Handle::File {
            text: Some(text), ..
        } if !begins => return Ok(text),
        Handle::File {
            kind: Kind::Text(make),
            ..
        } => make,
        Handle::File {
            kind: Kind::Switch(_),
            ..
        } => return Err(Error::new(EISDIR)),
        Handle::Top => return Err(Error::new(EBADF)),
    };
    // A handle keeps its text, and a program has many handles.
    frame::check_room()?;
    let made = Arc::new(make());
    if let Handle::File { text, .. } = HANDLES.lock().get_mut(number)? {
        *text = Some(made.clone());
    }
    Ok(made)
}

pub struct SysScheme;

impl Scheme for SysScheme {
    fn open(
        &self,
        _number: usize,
        path: &str,
        _flags: usize,
        _fcntl_flags: u32,
        caller: Caller,
    ) -> Result<OpenResult> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return OpenResult::positioned(HANDLES.lock().insert(Handle::Top));
        }
        let &(name, kind) = FILES
            .iter()
            .find(|(name, _)| *name == path)
            .ok_or(Error::new(ENOENT))?;
        if matches!(kind, Kind::Switch(_)) && caller.uid != 0 {
            return Err(Error::new(EPERM));
        }
        OpenResult::positioned(HANDLES.lock().insert(Handle::File {
            name,
            kind,
            text: None,
        }))
    }

    fn read_at(&self, number: usize, buf: UserBuf, offset: u64, _flags: u32) -> Result<usize> {
        let text = text(number, offset == 0)?;
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| text.as_bytes().get(offset..));
        buf.write(rest.unwrap_or(&[]))
    }

    fn write_at(&self, number: usize, buf: UserBuf, _offset: u64, _flags: u32) -> Result<usize> {
        let Handle::File {
            kind: Kind::Switch(act),
            ..
        } = handle(number)?
        else {
            return Err(Error::new(EISDIR));
        };
        let mut command = [0_u8; MAX_COMMAND];
        let count = buf.read(&mut command)?;
        act(command.get(..count).unwrap_or(&[]))
    }

    fn fsize(&self, number: usize) -> Result<u64> {
        match handle(number)? {
            Handle::Top
            | Handle::File {
                kind: Kind::Switch(_),
                ..
            } => Ok(0),
            Handle::File { .. } => text(number, false).map(|text| text.len() as u64),
        }
    }

    fn path(&self, number: usize) -> Result<String> {
        let name = match handle(number)? {
            Handle::Top => "",
            Handle::File { name, .. } => name,
        };
        Ok(format!("{PREFIX}{name}"))
    }

    fn stat(&self, number: usize) -> Result<Stat> {
        let st_mode = match handle(number)? {
            Handle::Top => MODE_DIR | 0o444,
            Handle::File { .. } => MODE_FILE | 0o666,
        };
        Ok(Stat {
            st_mode,
            st_size: self.fsize(number)?,
            ..Stat::default()
        })
    }

    fn getdents(&self, number: usize, buf: UserBuf, header: u16, start: u64) -> Result<usize> {
        let Ok(start) = usize::try_from(start) else {
            return Ok(0);
        };
        if !matches!(handle(number)?, Handle::Top) {
            return Err(Error::new(ENOTDIR));
        }
        let entries = FILES
            .iter()
            .enumerate()
            .skip(start)
            .map(|(index, &(name, _))| DirEntry {
                inode: index as u64,
                next_opaque_id: index as u64 + 1,
                name,
                kind: DirentKind::Regular,
            });
        dirents::store(buf, header, entries)
    }

    fn close(&self, number: usize) {
        if number != ROOT {
            HANDLES.lock().remove(number);
        }
    }
}

fn kstop(command: &[u8]) -> Result<usize> {
    match command.trim_ascii() {
        b"shutdown" => {
            acpi::request_shutdown();
            power::shutdown()
        }
        b"reset" | b"emergency_reset" => power::reset(),
        _ => Err(Error::new(EINVAL)),
    }
}

fn update_time_offset(bytes: &[u8]) -> Result<usize> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| Error::new(EINVAL))?;
    // 292 years in either direction.
    let ns = i64::try_from(i128::from_ne_bytes(bytes)).map_err(|_| Error::new(EINVAL))?;
    time::set_offset(ns);
    Ok(bytes.len())
}

static ENVIRONMENT: Once<String> = Once::new();

/// Sets the content of `env`: `KEY=value` lines. Called once, at boot.
pub fn set_environment(text: String) {
    ENVIRONMENT.call_once(|| text);
}

fn env() -> String {
    ENVIRONMENT.get().cloned().unwrap_or_default()
}

fn log() -> String {
    text_of(|text| {
        console::log_text().utf8_chunks().try_for_each(|chunk| {
            let lost = match chunk.invalid() {
                [] => "",
                _ => "\u{fffd}",
            };
            write!(text, "{}{lost}", chunk.valid())
        })
    })
}

/// The system, its version, the machine, and the name of the source, by which programs distinguish
/// this kernel from Redox's (`hal::kernel`).
fn uname() -> String {
    format!("Redox\n{}\nx86_64\nskiff\n", env!("CARGO_PKG_VERSION"))
}

fn exe() -> String {
    proc::name(&sched::current())
}

fn cpu() -> String {
    format!("CPUs: {}\n{}", arch::cpu_count(), arch::cpu_info())
}

fn irqs() -> String {
    let mut text = String::new();
    for (irq, count) in irq::counts().iter().enumerate() {
        let _ = writeln!(text, "{irq}: {count}");
    }
    text
}

/// A text about all contexts or their files, or of the log. It is cut off at [`MAX_TEXT`] bytes,
/// and where memory has no room for more.
#[derive(Default)]
struct Text(String);

impl Write for Text {
    fn write_str(&mut self, part: &str) -> core::fmt::Result {
        let length = self.0.len() + part.len();
        let has_room = length <= self.0.capacity() || frame::check_room().is_ok();
        if length > MAX_TEXT || !has_room || self.0.try_reserve(part.len()).is_err() {
            return Err(core::fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// The text that `write` makes, up to the end or to the first part for which there is no room: the
/// rest would be work for nothing.
fn text_of(write: impl FnOnce(&mut Text) -> core::fmt::Result) -> String {
    let mut text = Text::default();
    let _ = write(&mut text);
    text.0
}

/// All contexts with pid and name, in the order in which they were made.
fn identified() -> impl Iterator<Item = (proc::Identity, ContextRef)> {
    proc::contexts().map(|context| (proc::identity(&context), context))
}

fn block() -> String {
    text_of(|text| {
        identified().try_for_each(|(identity, context)| {
            writeln!(text, "{}: {}", identity.pid, identity.name)?;
            match context.state() {
                State::Blocked => writeln!(text, "  waiting"),
                _ => Ok(()),
            }
        })
    })
}

fn syscalls() -> String {
    text_of(|text| {
        identified()
            .try_for_each(|(identity, _)| writeln!(text, "{}: {}", identity.pid, identity.name))
    })
}

fn state_letters(context: &ContextRef) -> &'static str {
    if sched::processor_of(context).is_some() {
        return "UR+";
    }
    match context.state() {
        State::Runnable => "UR",
        State::New | State::Blocked | State::Stopped => "UB",
        State::Dead => "UZ",
    }
}

fn contexts() -> String {
    text_of(write_contexts)
}

fn write_contexts(text: &mut Text) -> core::fmt::Result {
    writeln!(
        text,
        "{:<6}{:<6}{:<6}{:<6}{:<6}{:<11}{:<12}{:<8}{:<8}{:<8}{:<8}NAME",
        "PID",
        "EUID",
        "EGID",
        "STAT",
        "CPU",
        "AFFINITY",
        "TIME",
        "PRIVATE",
        "SHARED",
        "PAGES",
        "OWN"
    )?;
    sched::charge_all();
    // The threads of a process share a space, so its tables are walked once.
    let mut counted = BTreeMap::new();
    for (identity, context) in identified() {
        let (private, shared) = context.space().map_or((0, 0), |space| space.bytes());
        let (pages, own) = context.space().map_or((0, 0), |space| {
            let key = Arc::as_ptr(&space);
            let count = || (space.pages(), space);
            // The space is kept as long as its figures: a later one could get its address.
            counted.entry(key).or_insert_with(count).0
        });
        writeln!(
            text,
            "{:<6}{:<6}{:<6}{:<6}{:<6}{:<11}{:<12}{:<8}{:<8}{pages:<8}{own:<8}{}",
            identity.pid,
            identity.euid,
            identity.egid,
            state_letters(&context),
            format!("#{}", context.last_processor()),
            "*",
            run_time(context.run_time()),
            bytes(private),
            bytes(shared),
            identity.name,
        )?;
    }
    Ok(())
}

/// Hours, minutes, seconds and hundredths.
fn run_time(ns: u64) -> String {
    let (s, hundredths) = (ns / 1_000_000_000, ns / 10_000_000 % 100);
    format!(
        "{:02}:{:02}:{:02}.{hundredths:02}",
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

/// A size with three digits and a unit.
fn bytes(size: usize) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let Some((unit, name)) = units.into_iter().find(|&(unit, _)| size > unit) else {
        return format!("{size} B");
    };
    let (whole, rest) = (size / unit, size % unit);
    match whole {
        0..10 => format!("{whole}.{:02} {name}", rest * 100 / unit),
        10..100 => format!("{whole}.{} {name}", rest * 10 / unit),
        _ => format!("{whole} {name}"),
    }
}

/// Open descriptors of all processes, without the paths of daemons' objects: the reader may be one
/// of these daemons.
fn iostat() -> String {
    text_of(write_files)
}

fn write_files(text: &mut Text) -> core::fmt::Result {
    for (identity, context) in identified() {
        writeln!(text, "{}: {}", identity.pid, identity.name)?;
        for (fd, file) in proc::files_of(&context).entries().unwrap_or_default() {
            let table = if fd & UPPER_FDTBL_TAG == 0 { " " } else { "U" };
            let (scheme, number) = (file.scheme(), file.number());
            let flags = file.state().flags;
            let path = match super::get(scheme) {
                Ok(SchemeRef::Kernel(scheme)) => scheme
                    .path(number)
                    .unwrap_or_else(|error| error.to_string()),
                Ok(SchemeRef::User(_)) => String::from("(daemon)"),
                Err(_) => String::from("no scheme"),
            };
            let fd = fd & !UPPER_FDTBL_TAG;
            let scheme = scheme.0;
            writeln!(
                text,
                "{table} {fd:>4}: {scheme:>8} {number:>8} {flags:>08X}: {path}"
            )?;
        }
    }
    Ok(())
}

/// The first lines of Linux's `/proc/stat`, of all processors and of each: the time in microseconds
/// that contexts have run, as user time, and the idle time. The other numbers are not counted.
fn processor_times() -> String {
    let mut lines = String::new();
    let (mut user, mut idle) = (0, 0);
    for (number, busy_ns, idle_ns) in sched::processor_times() {
        let own = (busy_ns / 1000, idle_ns / 1000);
        let _ = writeln!(lines, "cpu{number} {} 0 0 {} 0 0 0 0 0 0", own.0, own.1);
        user += own.0;
        idle += own.1;
    }
    format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\n{lines}")
}

fn stat() -> String {
    let (mut alive, mut running, mut blocked) = (0, 0, 0);
    for context in proc::contexts() {
        alive += 1;
        match context.state() {
            State::Runnable => running += 1,
            State::Blocked => blocked += 1,
            State::New | State::Stopped | State::Dead => {}
        }
    }
    let (event_files, event_subscriptions) = event_counts();
    let (futexes, futex_waiters) = sched::futex::counts();
    let (idle_polls, idle_polls_seen) = sched::idle_poll::counts();
    let irqs = irq::counts();
    let memory = frame::stats();
    let turns = sched::turns();
    let mut text = processor_times();
    let _ = write!(text, "IRQs {}", irqs.iter().sum::<usize>());
    for irq in &irqs {
        let _ = write!(text, " {irq}");
    }
    let boot_time = time::realtime_ns().saturating_sub(u128::from(time::now_ns())) / 1_000_000_000;
    let (bounce, idle_bounce) = bounce_frames();
    let _ = write!(
        text,
        "\nboot_time: {boot_time}\n\
         contexts_created: {}\n\
         contexts_alive: {alive}\n\
         contexts_running: {running}\n\
         contexts_blocked: {blocked}\n\
         event_registries: {event_files}\n\
         event_subcribers: {event_subscriptions}\n\
         futex_registries: {futexes}\n\
         futex_subcribers: {futex_waiters}\n\
         idle_polls: {idle_polls}\n\
         idle_polls_seen: {idle_polls_seen}\n\
         pipe_subcribers: {}\n\
         frames_total: {}\n\
         frames_free: {}\n\
         frames_heap: {}\n\
         frames_tables: {}\n\
         frames_stacks: {}\n\
         frames_bounce: {bounce}\n\
         frames_bounce_idle: {idle_bounce}\n\
         turns_woken: {}\n\
         turns_computing: {}\n\
         turns_owed: {}\n\
         turns_due: {}\n",
        proc::created(),
        pipe::count(),
        memory.total,
        memory.free,
        memory.heap,
        memory.tables,
        memory.stacks,
        turns.woken,
        turns.computing,
        turns.owed,
        sched::debts(),
    );
    text
}
