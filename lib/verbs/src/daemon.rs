//! The device's daemon as a context uses it. It has the objects by handle, their states and what
//! they have done, for its accounts, its text files and its cleanup (docs/infiniband.md). Data
//! does not pass through it.
//!
//! A context keeps its objects itself, by the same rules as the daemon. A new object is made here
//! first, and removed again if the daemon refuses it; a change is made when the daemon has agreed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use syscall::error::{EAGAIN, EIO, ENODEV};
use syscall::flag::{CallFlags, F_SETFL};
use verbs_abi::call;
use verbs_abi::command::Command;
use verbs_abi::events::AsyncRecord;
use verbs_abi::records as abi;
use verbs_core::context::QpView;
use verbs_core::table::Id;
use verbs_core::types::EventType;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::error::{Error, Result};
use crate::events::{AsyncEvent, Events};
use crate::report::qp_report;

/// The directory of the device.
pub const DIRECTORY: &str = "/scheme/infiniband";
/// The only port.
pub const PORT: u8 = 1;
/// Most reports in one call.
const MOST_REPORTS: usize = 256;

/// An object, as the context names it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Name {
    Pd(Id),
    Xrcd(Id),
    /// A memory region, by the part of its key that does not change.
    Mr(u32),
    /// A memory window, by the part of its keys that does not change.
    Mw(u32),
    Cq(Id),
    Srq(Id),
    Qp(u32),
    Ah(Id),
}

impl Name {
    /// The memory region of a key.
    pub fn region(key: u32) -> Name {
        Name::Mr(key >> 8)
    }

    /// The memory window of a key.
    pub fn window(key: u32) -> Name {
        Name::Mw(key >> 8)
    }
}

/// The state of a context's objects, for [`Daemon::report`].
#[derive(Default)]
pub struct Changes {
    pub qps: Vec<(u32, QpView)>,
    /// The completions that each queue holds, and those that have been added.
    pub cqs: Vec<(Id, (usize, u64))>,
    /// The receives that each queue holds, and its limit.
    pub srqs: Vec<(Id, (usize, u32))>,
}

/// The open device of a context; see the module.
pub struct Daemon {
    device: Fd,
    handles: BTreeMap<Name, u32>,
    /// The last reports of each object.
    qps: BTreeMap<u32, abi::QpReport>,
    cqs: BTreeMap<Id, abi::CqReport>,
    srqs: BTreeMap<Id, abi::SrqReport>,
    /// The daemon has died, and its side of the context with it.
    is_lost: bool,
    events: Arc<Events<AsyncEvent>>,
}

impl Daemon {
    /// Opens the device. Its events can be read from the second descriptor.
    ///
    /// # Errors
    /// `ENODEV`: there is none. `ENOMEM`: the user has too many contexts.
    pub fn open(events: Arc<Events<AsyncEvent>>) -> Result<(Self, Fd)> {
        let path = format!("{DIRECTORY}/uverbs0");
        let device = Fd::open(&path, O_RDWR | O_CLOEXEC, 0).map_err(no_device)?;
        let mut daemon = Self {
            device,
            handles: BTreeMap::new(),
            qps: BTreeMap::new(),
            cqs: BTreeMap::new(),
            srqs: BTreeMap::new(),
            is_lost: false,
            events,
        };
        let begun = abi::GetContext::default();
        let _: abi::GetContextAnswer = daemon.ask(Command::GetContext, &begun)?;
        let incoming = Fd::new(daemon.device.dup(b"async")?);
        incoming.fcntl(F_SETFL, O_NONBLOCK as usize)?;
        Ok((daemon, incoming))
    }

    /// The descriptor of the device.
    pub fn fd(&self) -> usize {
        self.device.raw()
    }

    /// Notes that the daemon has died: from now on the context has no device, which an event
    /// reports. Connections stay.
    pub fn lose(&mut self) {
        if !core::mem::replace(&mut self.is_lost, true) {
            self.events.push(AsyncEvent {
                kind: EventType::DeviceFatal,
                subject: None,
                user: PORT.into(),
            });
        }
    }

    /// Whether the daemon is known to have died.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    // ---- Commands ----

    /// Sends a command and returns its answer.
    ///
    /// # Errors
    /// Those of the command; `EIO`: the daemon has died.
    pub fn ask<R, A>(&mut self, command: Command, request: &R) -> Result<A>
    where
        R: IntoBytes + Immutable,
        A: FromBytes + IntoBytes,
    {
        self.ask_with(command, request, &[])
    }

    /// [`ask`](Self::ask) with data of the provider behind the request.
    fn ask_with<R, A>(&mut self, command: Command, request: &R, provider: &[u32]) -> Result<A>
    where
        R: IntoBytes + Immutable,
        A: FromBytes + IntoBytes,
    {
        let (request, provider) = (request.as_bytes(), provider.as_bytes());
        let length = size_of::<abi::Header>() + request.len() + provider.len();
        let header = abi::Header {
            command: command.number(),
            in_words: (length / 4) as u16,
            out_words: (size_of::<A>() / 4) as u16,
        };
        let mut payload = [header.as_bytes(), request, provider].concat();
        payload.resize(length.max(size_of::<A>()), 0);
        self.call(call::EXECUTE, &mut payload)?;
        let mut answer = A::new_zeroed();
        if let Some(bytes) = payload.get(..size_of::<A>()) {
            answer.as_mut_bytes().copy_from_slice(bytes);
        }
        Ok(answer)
    }

    fn call(&mut self, operation: u64, payload: &mut [u8]) -> Result<usize> {
        let lost = Error::from_errno(EIO);
        if self.is_lost {
            return Err(lost);
        }
        let called = self
            .device
            .call_rw(payload, CallFlags::empty(), &[operation]);
        called.map_err(|error| match Error::from(error).errno() {
            ENODEV => {
                self.lose();
                lost
            }
            number => Error::from_errno(number),
        })
    }

    /// The handle of an object.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn handle(&self, name: Name) -> Result<u32> {
        self.handles.get(&name).copied().ok_or(Error::NotFound)
    }

    /// Makes the daemon create an object. `A`: the answer, which begins with the handle.
    ///
    /// # Errors
    /// Those of the command.
    pub fn make<R, A>(
        &mut self,
        name: Name,
        command: Command,
        request: &R,
        provider: &[u32],
    ) -> Result<()>
    where
        R: IntoBytes + Immutable,
        A: FromBytes + IntoBytes + Immutable,
    {
        let answer: A = self.ask_with(command, request, provider)?;
        if let Ok((handle, _)) = u32::read_from_prefix(answer.as_bytes()) {
            self.handles.insert(name, handle);
        }
        Ok(())
    }

    /// Makes the daemon destroy an object that this context has destroyed. Nothing is asked for
    /// that was refused here, so a refusal means that the daemon has died, and the object with it.
    pub fn end(&mut self, name: Name) {
        let Some(handle) = self.handles.remove(&name) else {
            return;
        };
        let (command, answer) = match name {
            Name::Pd(_) => (Command::DeallocPd, 0),
            Name::Xrcd(_) => (Command::CloseXrcd, 0),
            Name::Mr(_) => (Command::DeregMr, 0),
            Name::Mw(_) => (Command::DeallocMw, 0),
            Name::Ah(_) => (Command::DestroyAh, 0),
            Name::Cq(_) => (Command::DestroyCq, size_of::<abi::DestroyCqAnswer>()),
            Name::Srq(_) => (Command::DestroySrq, size_of::<abi::DestroySrqAnswer>()),
            Name::Qp(_) => (Command::DestroyQp, size_of::<abi::DestroyQpAnswer>()),
        };
        let _ = match answer {
            0 => self.ask::<_, ()>(command, &handle),
            4 => self.destroy::<u32>(command, handle),
            _ => self.destroy::<u64>(command, handle),
        };
        match name {
            Name::Qp(number) => drop(self.qps.remove(&number)),
            Name::Cq(id) => drop(self.cqs.remove(&id)),
            Name::Srq(id) => drop(self.srqs.remove(&id)),
            _ => {}
        }
    }

    /// Destroys an object that has events: DESTROY_QP, or a command of the same form.
    fn destroy<A: FromBytes + IntoBytes>(&mut self, command: Command, handle: u32) -> Result<()> {
        let request = abi::DestroyQp {
            qp_handle: handle,
            ..abi::DestroyQp::default()
        };
        self.ask::<_, A>(command, &request).map(drop)
    }

    /// Makes the daemon change a memory region, whose key is another one from then on.
    ///
    /// # Errors
    /// Those of the command.
    pub fn reregister(&mut self, request: &abi::ReregMr, key: u32) -> Result<()> {
        let answer: Result<abi::ReregMrAnswer> =
            self.ask_with(Command::ReregMr, request, &[key, 0]);
        answer.map(drop)
    }

    // ---- Reports ----

    /// Reports what objects have done to the daemon, if that has changed.
    pub fn report(&mut self, changes: &Changes) {
        let mut qps = Vec::new();
        for (number, view) in &changes.qps {
            let handle = self.handles.get(&Name::Qp(*number)).copied();
            let report = handle.map(|handle| qp_report(handle, view));
            qps.extend(changed(&mut self.qps, *number, report));
        }
        let mut cqs = Vec::new();
        for (id, (waiting, completions)) in &changes.cqs {
            let handle = self.handles.get(&Name::Cq(*id)).copied();
            let report = handle.map(|cq_handle| abi::CqReport {
                cq_handle,
                waiting: *waiting as u32,
                completions: *completions,
            });
            cqs.extend(changed(&mut self.cqs, *id, report));
        }
        let mut srqs = Vec::new();
        for (id, (queued, limit)) in &changes.srqs {
            let handle = self.handles.get(&Name::Srq(*id)).copied();
            let report = handle.map(|srq_handle| abi::SrqReport {
                srq_handle,
                queued: *queued as u32,
                limit: *limit,
            });
            srqs.extend(changed(&mut self.srqs, *id, report));
        }
        self.tell(call::REPORT_QPS, &qps);
        self.tell(call::REPORT_CQS, &cqs);
        self.tell(call::REPORT_SRQS, &srqs);
    }

    fn tell<T: IntoBytes + Immutable>(&mut self, operation: u64, reports: &[T]) {
        for some in reports.chunks(MOST_REPORTS) {
            // An error means that the daemon has died, which the next command or event reports.
            let _ = self.call(operation, &mut some.as_bytes().to_vec());
        }
    }
}

/// A report, unless it equals the last one.
fn changed<K: Ord, T: Copy + PartialEq>(
    last: &mut BTreeMap<K, T>,
    name: K,
    report: Option<T>,
) -> Option<T> {
    let report = report?;
    let before = last.insert(name, report);
    (before != Some(report)).then_some(report)
}

/// Without the scheme there is no device.
fn no_device(error: libredox::error::Error) -> Error {
    match Error::from(error) {
        Error::NotFound => Error::from_errno(ENODEV),
        error => error,
    }
}

/// Reads the events that have come and passes those of the port to `sink`. Returns whether the
/// daemon is alive.
pub fn take_events(incoming: &Fd, mut sink: impl FnMut(EventType)) -> bool {
    loop {
        let mut record = AsyncRecord::new_zeroed();
        match incoming.read(record.as_mut_bytes()) {
            // Events of objects come from the context itself.
            Ok(_) => match record.event_type {
                of if of == EventType::PortActive as u32 => sink(EventType::PortActive),
                of if of == EventType::PortErr as u32 => sink(EventType::PortErr),
                _ => {}
            },
            Err(error) => return error.errno() == EAGAIN,
        }
    }
}

/// The daemon's table of this node's devices: their names and nodes.
///
/// # Errors
/// `ENODEV`: there is no daemon.
pub fn devices() -> Result<Vec<(alloc::string::String, u16)>> {
    let path = format!("{DIRECTORY}/devices");
    let file = Fd::open(&path, libredox::flag::O_RDONLY | O_CLOEXEC, 0).map_err(no_device)?;
    let mut text = [0; 1024];
    let count = file.read(&mut text)?;
    let text = core::str::from_utf8(text.get(..count).unwrap_or_default()).unwrap_or_default();
    Ok(parse_devices(text))
}

fn parse_devices(text: &str) -> Vec<(alloc::string::String, u16)> {
    let lines = text.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        Some((name.into(), words.next()?.parse().ok()?))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::parse_devices;

    #[test]
    fn devices_are_read_from_their_table() {
        let text = "device node port state lid guid contexts\nscif0 3 1 ACTIVE 0x4 0253 0\n";
        assert_eq!(parse_devices(text), [("scif0".into(), 3)]);
        assert_eq!(parse_devices("device node\n"), []);
        assert_eq!(parse_devices(""), []);
    }
}
