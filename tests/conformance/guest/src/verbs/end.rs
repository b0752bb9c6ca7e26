//! An end: a context of `lib/verbs`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use conformance::verbs::bench::{Checked, MEMORY, Verbs};
use libredox::flag::O_NONBLOCK;
use runtime::{println, thread};
use scif::Memory;
use syscall::flag::F_SETFL;
use verbs::raw::{Channel, Context};
use verbs::{AddressVector, Attributes, Subject, Worker, address};
use verbs_core::context::{Counts, QpView};
use verbs_core::keys::{Region, WindowType};
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::{AttributeMask, Error, EventType, Result};
use verbs_core::work::{QpInit, ReceiveRequest, SendRequest, WorkCompletion};

/// An end with a context of `lib/verbs`.
pub struct End {
    raw: Context,
    memory: Arc<Memory>,
    channels: BTreeMap<Id, Arc<Channel>>,
    lid: u16,
}

/// The error of a call. An error of the system is printed, since it would look like one of the
/// verbs.
fn own(error: verbs::Error) -> Error {
    match error {
        verbs::Error::Invalid => Error::Invalid,
        verbs::Error::NoMemory => Error::NoMemory,
        verbs::Error::Busy => Error::Busy,
        verbs::Error::NotFound => Error::NotFound,
        verbs::Error::NotSupported => Error::NotSupported,
        verbs::Error::Scif(_) => {
            println!("verbs-conformance: an error of the system: {error}");
            Error::NotSupported
        }
    }
}

/// Sets a descriptor of events so that reads do not wait.
fn nonblocking(fd: usize) -> Checked {
    let set = libredox::call::fcntl(fd, F_SETFL, O_NONBLOCK as usize);
    set.map(drop).map_err(|error| format!("fcntl: {error}"))
}

impl End {
    /// Opens a context with a progress thread of this program.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn open() -> Checked<End> {
        let start = |worker: Worker| {
            let run = move || {
                if let Err(error) = worker.run() {
                    println!("verbs-conformance: the progress thread ends: {error}");
                }
            };
            thread::spawn(run).map(drop).map_err(verbs::Error::from)
        };
        let raw = Context::open(start).map_err(|error| format!("open: {error}"))?;
        nonblocking(raw.events().fd())?;
        let memory = Memory::new(MEMORY as usize).map_err(|error| format!("memory: {error}"))?;
        Ok(End {
            lid: address::lid(raw.node()),
            raw,
            memory: Arc::new(memory),
            channels: BTreeMap::new(),
        })
    }
}

impl Verbs for End {
    fn base(&self) -> u64 {
        self.memory.address() as u64
    }

    fn lid(&self) -> u16 {
        self.lid
    }

    fn read(&mut self, at: u64, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; count as usize];
        // Outside the memory a row reads zeros.
        let _ = self.memory.copy_out(at as usize, &mut bytes);
        bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        if let Err(error) = self.memory.copy_in(at as usize, bytes) {
            println!("verbs-conformance: a store at {at:#x}: {error}");
        }
    }

    fn alloc_pd(&mut self) -> Result<Id> {
        self.raw.alloc_pd().map_err(own)
    }

    fn dealloc_pd(&mut self, pd: Id) -> Result<()> {
        self.raw.dealloc_pd(pd).map_err(own)
    }

    fn register(&mut self, region: Region) -> Result<u32> {
        let held = self.memory.clone().into();
        self.raw.register(region, held).map_err(own)
    }

    fn reregister(&mut self, key: u32, region: Region) -> Result<u32> {
        let held = self.memory.clone().into();
        self.raw.reregister(key, region, Some(held)).map_err(own)
    }

    fn deregister(&mut self, key: u32) -> Result<()> {
        self.raw.deregister(key).map(drop).map_err(own)
    }

    fn alloc_mw(&mut self, pd: Id, kind: WindowType) -> Result<u32> {
        self.raw.alloc_mw(pd, kind).map_err(own)
    }

    fn dealloc_mw(&mut self, pd: Id, key: u32) -> Result<()> {
        self.raw.dealloc_mw(pd, key).map_err(own)
    }

    fn create_cq(&mut self, size: u32) -> Result<Id> {
        let channel = Arc::new(Channel::new().map_err(own)?);
        if let Err(what) = nonblocking(channel.fd()) {
            println!("verbs-conformance: {what}");
            return Err(Error::NotSupported);
        }
        let cq = self.raw.create_cq(size, Some(&channel), 0).map_err(own)?;
        self.channels.insert(cq, channel);
        Ok(cq)
    }

    fn destroy_cq(&mut self, cq: Id) -> Result<()> {
        self.raw.destroy_cq(cq).map_err(own)?;
        self.channels.remove(&cq);
        Ok(())
    }

    fn resize_cq(&mut self, cq: Id, size: u32) -> Result<()> {
        self.raw.resize_cq(cq, size).map_err(own)
    }

    fn poll_cq(&mut self, cq: Id) -> Result<Option<WorkCompletion>> {
        let mut found = None;
        let polled = self
            .raw
            .poll_cq(cq, 1, |completion| found = Some(completion));
        polled.map_err(own)?;
        Ok(found)
    }

    fn req_notify_cq(&mut self, cq: Id, solicited_only: bool) -> Result<()> {
        self.raw.req_notify_cq(cq, solicited_only).map_err(own)
    }

    fn told(&mut self, cq: Id) -> u64 {
        let Some(channel) = self.channels.get(&cq) else {
            return 0;
        };
        core::iter::from_fn(|| channel.next().ok()).count() as u64
    }

    fn create_srq(&mut self, pd: Id, max_wr: u32, limit: u32) -> Result<Id> {
        self.raw.create_srq(pd, (max_wr, 2), limit, 0).map_err(own)
    }

    fn create_xrc_srq(&mut self, pd: Id, of: Xrc, max_wr: u32) -> Result<Id> {
        let made = self.raw.create_xrc_srq((pd, of), (max_wr, 2), 0, 0);
        made.map_err(own)
    }

    fn destroy_srq(&mut self, srq: Id) -> Result<()> {
        self.raw.destroy_srq(srq).map_err(own)
    }

    fn modify_srq(&mut self, srq: Id, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        self.raw.modify_srq(srq, max_wr, limit).map_err(own)
    }

    fn query_srq(&mut self, srq: Id) -> Result<(u32, u32)> {
        let (max_wr, _, limit) = self.raw.query_srq(srq).map_err(own)?;
        Ok((max_wr, limit))
    }

    fn post_srq_recv(&mut self, srq: Id, request: ReceiveRequest) -> Result<()> {
        self.raw.post_srq_recv(srq, [request]).1.map_err(own)
    }

    fn open_xrcd(&mut self) -> Result<Id> {
        self.raw.open_xrcd().map_err(own)
    }

    fn close_xrcd(&mut self, domain: Id) -> Result<()> {
        self.raw.close_xrcd(domain).map_err(own)
    }

    fn create_qp(&mut self, init: QpInit) -> Result<u32> {
        self.raw.create_qp(init, 0).map_err(own)
    }

    fn destroy_qp(&mut self, number: u32) -> Result<()> {
        self.raw.destroy_qp(number).map_err(own)
    }

    fn modify_qp(&mut self, number: u32, new: &Attributes, mask: AttributeMask) -> Result<()> {
        self.raw.modify_qp(number, new, mask).map_err(own)
    }

    fn query_qp(&mut self, number: u32) -> Result<QpView> {
        self.raw.query_qp(number).map_err(own)
    }

    fn post_send(&mut self, number: u32, request: SendRequest) -> Result<()> {
        self.raw.post_send(number, [request]).1.map_err(own)
    }

    fn post_recv(&mut self, number: u32, request: ReceiveRequest) -> Result<()> {
        self.raw.post_recv(number, [request]).1.map_err(own)
    }

    fn create_ah(&mut self, pd: Id, vector: AddressVector) -> Result<Id> {
        self.raw.create_ah(pd, vector).map_err(own)
    }

    fn destroy_ah(&mut self, pd: Id, ah: Id) -> Result<()> {
        self.raw.destroy_ah(pd, ah).map_err(own)
    }

    fn attach_multicast(&mut self, number: u32, gid: address::Gid) -> Result<()> {
        let lid = address::FIRST_MULTICAST_LID;
        self.raw.attach_multicast(number, gid, lid).map_err(own)
    }

    fn detach_multicast(&mut self, number: u32, gid: address::Gid) -> Result<()> {
        let lid = address::FIRST_MULTICAST_LID;
        self.raw.detach_multicast(number, gid, lid).map_err(own)
    }

    fn qkey_violations(&mut self) -> u32 {
        self.raw.qkey_violations()
    }

    fn next_event(&mut self) -> Option<(EventType, u32)> {
        loop {
            let event = self.raw.events().next().ok()?;
            match event.subject {
                Some(Subject::Qp(number)) => return Some((event.kind, number)),
                Some(Subject::Cq(id) | Subject::Srq(id)) => return Some((event.kind, id.0)),
                // The rows are not about the port.
                None => {}
            }
        }
    }

    fn counts(&mut self) -> Counts {
        self.raw.counts()
    }

    fn exposed(&mut self) -> u64 {
        self.raw.exposed() as u64
    }
}
