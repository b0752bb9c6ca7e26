//! The means of rows: two ends, queue pairs between them, and the rule for every row: nothing
//! unexpected happens, and nothing is left behind.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

use verbs_core::attributes::Attributes;
use verbs_core::keys::Region;
use verbs_core::table::Id;
use verbs_core::types::{Access, AttributeMask as M, Error, QpState, QpType};
use verbs_core::work::{QpInit, ReceiveRequest, Segment, SendRequest};

pub use super::end::{MEMORY, Verbs};
pub use super::parts::{
    ALL, Checked, Driver, Job, OTHER, Place, QKEY, Qp, REGION, Reply, Side, Spec, Thing,
};
pub use super::watch::LOOKS;
use super::word;

/// The bench of one row.
pub struct Bench<'a> {
    pub(super) driver: &'a mut dyn Driver,
    pub(super) things: Vec<(Side, Thing)>,
    pub(super) qps: Vec<Qp>,
}

/// The handle in a reply.
fn id(words: &[u64]) -> Id {
    Id(word(words, 0) as u32)
}

/// The reply to a call that returns no value.
fn done(result: Result<(), Error>) -> Reply {
    result.map(|()| Vec::new())
}

/// Fails unless both values are equal.
///
/// # Errors
/// They are not.
pub fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Checked {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, not {expected:?}")),
    }
}

impl<'a> Bench<'a> {
    /// A bench for a new row.
    pub fn new(driver: &'a mut dyn Driver) -> Bench<'a> {
        Bench {
            driver,
            things: Vec::new(),
            qps: Vec::new(),
        }
    }

    /// The place.
    pub fn driver(&mut self) -> &mut dyn Driver {
        self.driver
    }

    // ---- Calls ----

    /// Runs calls at an end and returns their reply, also if they fail.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn call(
        &mut self,
        side: Side,
        mut job: impl FnMut(&mut dyn Verbs) -> Reply,
    ) -> Checked<Reply> {
        self.driver.at(side, &mut job)
    }

    /// Runs calls that must succeed, and returns the words of their reply.
    ///
    /// # Errors
    /// They fail.
    pub fn ok(
        &mut self,
        what: &str,
        side: Side,
        job: impl FnMut(&mut dyn Verbs) -> Reply,
    ) -> Checked<Vec<u64>> {
        let reply = self.call(side, job)?;
        reply.map_err(|error| format!("{what}: {error:?}"))
    }

    /// Runs a call that must fail with this error.
    ///
    /// # Errors
    /// It does not.
    pub fn fails(
        &mut self,
        what: &str,
        side: Side,
        error: Error,
        mut call: impl FnMut(&mut dyn Verbs) -> Result<(), Error>,
    ) -> Checked {
        let reply = self.call(side, |end| done(call(end)))?;
        same(what, reply, Err(error))
    }

    /// Runs a call that must succeed, and returns no value.
    ///
    /// # Errors
    /// It fails.
    pub fn run(
        &mut self,
        what: &str,
        side: Side,
        mut call: impl FnMut(&mut dyn Verbs) -> Result<(), Error>,
    ) -> Checked {
        self.ok(what, side, |end| done(call(end))).map(drop)
    }

    /// Makes an object, which the end of the row will destroy.
    fn make(
        &mut self,
        what: &str,
        side: Side,
        mut call: impl FnMut(&mut dyn Verbs) -> Result<u32, Error>,
        thing: impl FnOnce(u32) -> Thing,
    ) -> Checked<u32> {
        let words = self.ok(what, side, |end| call(end).map(|made| vec![made.into()]))?;
        let made = word(&words, 0) as u32;
        self.own(side, thing(made));
        Ok(made)
    }

    /// Notes an object that the end of the row is to destroy.
    pub fn own(&mut self, side: Side, thing: Thing) {
        self.things.push((side, thing));
    }

    /// Notes that an object has been destroyed.
    pub fn forget(&mut self, side: Side, thing: Thing) {
        self.things.retain(|known| *known != (side, thing));
        if let Thing::Qp(number) = thing {
            self.qps.retain(|qp| (qp.side, qp.number) != (side, number));
        }
    }

    /// Notes that all objects of an end have been destroyed with it.
    pub fn gone(&mut self, side: Side) {
        self.things.retain(|(of, _)| *of != side);
        self.qps.retain(|qp| qp.side != side);
    }

    // ---- Objects ----

    /// Makes a protection domain.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn domain(&mut self, side: Side) -> Checked<Id> {
        let make = |end: &mut dyn Verbs| end.alloc_pd().map(|pd| pd.0);
        let made = self.make("alloc_pd", side, make, |made| Thing::Pd(Id(made)))?;
        Ok(Id(made))
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn queue(&mut self, side: Side, size: u32) -> Checked<Id> {
        let make = |end: &mut dyn Verbs| end.create_cq(size).map(|cq| cq.0);
        let made = self.make("create_cq", side, make, |made| Thing::Cq(Id(made)))?;
        Ok(Id(made))
    }

    /// Registers part of an end's memory.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn register(
        &mut self,
        side: Side,
        pd: Id,
        (at, length): (u64, u64),
        access: Access,
    ) -> Checked<u32> {
        let make = |end: &mut dyn Verbs| {
            let start = end.base() + at;
            end.register(Region {
                pd,
                start,
                length,
                iova: start,
                access,
            })
        };
        self.make("register", side, make, Thing::Key)
    }

    /// Registers a page with other rights in this queue pair's domain.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn page(&mut self, qp: &Qp, access: Access) -> Checked<u32> {
        self.register(qp.side, qp.pd, (OTHER, 4096), access)
    }

    /// Makes a queue pair in RESET, with all objects that belong to it.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn qp(&mut self, side: Side, spec: &Spec) -> Checked<Qp> {
        let pd = self.domain(side)?;
        self.qp_of(side, spec, pd)
    }

    /// Makes such a queue pair in an existing domain.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn qp_of(&mut self, side: Side, spec: &Spec, pd: Id) -> Checked<Qp> {
        let sends = self.queue(side, spec.completions)?;
        let receives = self.queue(side, spec.completions)?;
        let key = self.register(side, pd, (0, REGION), ALL)?;
        let srq = match spec.shared {
            true => {
                let make = |end: &mut dyn Verbs| end.create_srq(pd, 16, 0).map(|srq| srq.0);
                let made = self.make("create_srq", side, make, |made| Thing::Srq(Id(made)))?;
                Some(Id(made))
            }
            false => None,
        };
        let init = QpInit {
            kind: spec.kind,
            pd,
            send_cq: sends,
            recv_cq: receives,
            srq,
            xrcd: None,
            capacity: spec.capacity,
            signal_all: spec.signal_all,
        };
        self.qp_with(side, init, key)
    }

    /// Makes a queue pair of existing objects.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn qp_with(&mut self, side: Side, init: QpInit, key: u32) -> Checked<Qp> {
        let make = |end: &mut dyn Verbs| end.create_qp(init);
        let number = self.make("create_qp", side, make, Thing::Qp)?;
        let place = self.ok("place", side, |end| Ok(vec![end.base(), end.lid().into()]))?;
        let qp = Qp {
            side,
            kind: init.kind,
            pd: init.pd,
            sends: init.send_cq,
            receives: init.recv_cq,
            srq: init.srq,
            key,
            number,
            base: word(&place, 0),
            lid: word(&place, 1) as u16,
        };
        self.qps.push(qp);
        Ok(qp)
    }

    /// Changes a queue pair.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn modify(&mut self, qp: &Qp, new: Attributes, mask: M) -> Checked {
        let number = qp.number;
        let call = |end: &mut dyn Verbs| end.modify_qp(number, &new, mask);
        self.run(&format!("modify_qp to {:?}", new.state), qp.side, call)
    }

    /// Changes a queue pair to INIT.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn init(&mut self, qp: &Qp, spec: &Spec) -> Checked {
        let last = match qp.kind {
            QpType::Ud => M::QKEY,
            _ => M::ACCESS_FLAGS,
        };
        let new = Attributes {
            state: QpState::Init,
            access: spec.access,
            ..spec.attributes
        };
        self.modify(qp, new, M::STATE | M::PKEY_INDEX | M::PORT | last)
    }

    /// Changes a queue pair to RTR.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn rtr(&mut self, qp: &Qp, spec: &Spec, (lid, number): (u16, u32)) -> Checked {
        let path = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let mask = match qp.kind {
            QpType::Rc | QpType::XrcRecv => path | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
            QpType::Ud => M::STATE,
            _ => path,
        };
        let new = Attributes {
            state: QpState::Rtr,
            dlid: lid,
            dest_qpn: number,
            ..spec.attributes
        };
        self.modify(qp, new, mask)
    }

    /// Changes a queue pair to RTS.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn rts(&mut self, qp: &Qp, spec: &Spec) -> Checked {
        let retries = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        let mask = match qp.kind {
            QpType::Rc | QpType::XrcSend => retries,
            QpType::XrcRecv => M::TIMEOUT,
            QpType::Uc | QpType::Ud => M::empty(),
        };
        let new = Attributes {
            state: QpState::Rts,
            ..spec.attributes
        };
        self.modify(qp, new, M::STATE | M::SQ_PSN | mask)
    }

    /// Changes both queue pairs to INIT, RTR and RTS.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn connect(&mut self, a: &Qp, b: &Qp, spec: &Spec) -> Checked {
        self.init(a, spec)?;
        self.init(b, spec)?;
        self.rtr(a, spec, (b.lid, b.number))?;
        self.rtr(b, spec, (a.lid, a.number))?;
        self.rts(a, spec)?;
        self.rts(b, spec)
    }

    /// Makes two queue pairs that are connected and can send.
    ///
    /// # Errors
    /// The errors of the calls.
    pub fn pair(&mut self, spec: &Spec) -> Checked<(Qp, Qp)> {
        let (a, b) = (self.qp(Side::A, spec)?, self.qp(Side::B, spec)?);
        self.connect(&a, &b, spec)?;
        Ok((a, b))
    }

    /// Changes a queue pair to a state without attributes.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn to(&mut self, qp: &Qp, state: QpState) -> Checked {
        let new = Attributes {
            state,
            ..Attributes::default()
        };
        self.modify(qp, new, M::STATE)
    }

    // ---- Posting ----

    /// Posts a request.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn post(&mut self, qp: &Qp, request: &SendRequest) -> Checked {
        let number = qp.number;
        let call = |end: &mut dyn Verbs| end.post_send(number, request.clone());
        self.run("post_send", qp.side, call)
    }

    /// Posts a SEND of this number of bytes from the beginning of the region.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn send(&mut self, qp: &Qp, id: u64, length: u32) -> Checked {
        self.post(qp, &qp.send(id, length))
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn post_receive(&mut self, qp: &Qp, id: u64, segments: Vec<Segment>) -> Checked {
        let request = ReceiveRequest {
            id,
            segments: segments.into(),
        };
        let (number, srq) = (qp.number, qp.srq);
        let call = |end: &mut dyn Verbs| match srq {
            Some(srq) => end.post_srq_recv(srq, request.clone()),
            None => end.post_recv(number, request.clone()),
        };
        self.run("post_recv", qp.side, call)
    }

    /// Posts a receive of this number of bytes at an offset of the region.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn receive(&mut self, qp: &Qp, id: u64, at: u64, length: u32) -> Checked {
        self.post_receive(qp, id, vec![qp.segment(at, length)])
    }

    // ---- Memory ----

    /// Stores bytes into an end's memory.
    ///
    /// # Errors
    /// The errors of the place.
    pub fn fill(&mut self, side: Side, at: u64, bytes: &[u8]) -> Checked {
        self.run("fill", side, |end| {
            end.write(at, bytes);
            Ok(())
        })
    }

    /// Checks bytes of an end's memory.
    ///
    /// # Errors
    /// They differ.
    pub fn holds(&mut self, side: Side, at: u64, bytes: &[u8]) -> Checked {
        let look = |end: &mut dyn Verbs| {
            let found = end.read(at, bytes.len() as u64);
            let wrong = found
                .iter()
                .zip(bytes)
                .position(|(found, wanted)| found != wanted);
            Ok(vec![wrong.map_or(u64::MAX, |at| at as u64)])
        };
        let words = self.ok("look", side, look)?;
        match word(&words, 0) {
            u64::MAX => Ok(()),
            wrong => Err(format!("byte {wrong} at {at:#x} of {side:?} is wrong")),
        }
    }
}

/// A handle in a reply.
pub fn handle(words: &[u64]) -> Id {
    id(words)
}
