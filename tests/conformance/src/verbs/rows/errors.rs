//! The table of errors: one request between two queue pairs, and the completions of both ends.

mod table;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use verbs_core::types::WcStatus::{Success, WrFlushErr};
use verbs_core::types::{Access, EventType, Opcode, QpState, QpType, WcStatus};
use verbs_core::work::{Data, Remote, Segment, SendRequest};

use crate::verbs::bench::{ALL, Bench, Checked, OTHER, Qp, REGION, Side, Spec};
use crate::verbs::names::in_c;

pub use table::ERRORS;

/// The requester's own memory of a request.
#[derive(Clone, Copy)]
pub enum Own {
    /// The beginning of its region.
    Good,
    /// Memory without a key.
    NoKey,
    /// A region of another domain.
    OtherDomain,
    /// Memory that exceeds a region by a byte.
    Behind,
    /// A region that the owner may not write.
    ReadOnly,
    /// No memory.
    Nothing,
}

/// The peer's memory of a request.
#[derive(Clone, Copy)]
pub enum Far {
    /// Memory without a key.
    NoKey,
    /// A key that no end has.
    Guessed,
    /// A region of another domain.
    OtherDomain,
    /// This offset of the peer's region.
    At(u64),
    /// The last addresses of the address space.
    Last,
    /// A region with this access.
    With(Access),
}

/// The request.
pub struct Request {
    /// The operation.
    pub opcode: Opcode,
    /// The length in bytes.
    pub length: u32,
    /// The own memory.
    pub own: Own,
    /// The peer's memory.
    pub far: Far,
    /// The access that the responder's queue pair allows.
    pub access: Access,
    /// The number of reads that the responder's queue pair allows, and that the requester's does.
    pub reads: [u8; 2],
}

/// The numbers and results of completions, in order.
type Results = &'static [(u64, WcStatus)];

/// The completions and states of both ends after the request.
pub struct Outcome {
    /// Completions at the requester. The request has the number 1, the SEND of 8 bytes behind it
    /// 2.
    pub sends: Results,
    /// Completions at the responder. The receives of 64 bytes have the numbers 10 and 11.
    pub receives: Results,
    /// The event at the responder.
    pub event: Option<EventType>,
    /// The states of requester and responder.
    pub states: [QpState; 2],
}

/// A row.
pub struct ErrorRow {
    /// The type of both queue pairs.
    pub kind: QpType,
    /// The fault, as text.
    pub what: &'static str,
    /// The request.
    pub request: Request,
    /// The outcome.
    pub outcome: &'static Outcome,
}

impl ErrorRow {
    fn build(&self, bench: &mut Bench<'_>, a: &Qp, b: &Qp) -> Checked<SendRequest> {
        let request = &self.request;
        let at = |at: u64, key: u32| Segment {
            address: a.base + at,
            length: request.length,
            key,
        };
        let segments = match request.own {
            Own::Good => vec![at(0, a.key)],
            Own::NoKey => vec![at(0, 0)],
            Own::Behind => vec![at(REGION + 1 - u64::from(request.length), a.key)],
            Own::Nothing => Vec::new(),
            Own::OtherDomain => {
                let pd = bench.domain(Side::A)?;
                vec![at(OTHER, bench.register(Side::A, pd, (OTHER, 4096), ALL)?)]
            }
            Own::ReadOnly => vec![at(OTHER, bench.page(a, Access::empty())?)],
        };
        let remote = match request.far {
            Far::NoKey => b.place(0, 0),
            Far::Guessed => b.place(0, b.key ^ 1),
            Far::At(at) => b.place(at, b.key),
            Far::Last => Remote {
                address: u64::MAX - 3,
                key: b.key,
            },
            Far::With(access) => b.place(OTHER, bench.page(b, access)?),
            Far::OtherDomain => {
                let pd = bench.domain(Side::B)?;
                b.place(OTHER, bench.register(Side::B, pd, (OTHER, 4096), ALL)?)
            }
        };
        Ok(SendRequest {
            remote,
            data: Data::Segments(segments.clone()),
            ..SendRequest::new(1, request.opcode, segments)
        })
    }

    /// Runs the row after this number of good messages.
    ///
    /// # Errors
    /// The difference from the row.
    pub fn run(&self, bench: &mut Bench<'_>, before: u64) -> Checked {
        let [of_responder, of_requester] = self.request.reads;
        let mut spec = Spec::new(self.kind);
        spec.access = self.request.access;
        spec.attributes.max_dest_rd_atomic = of_responder;
        spec.attributes.max_rd_atomic = of_requester;
        let (a, b) = bench.pair(&spec)?;
        for id in 0..before {
            bench.receive(&b, 20 + id, 0x100, 64)?;
            bench.send(&a, 30 + id, 64)?;
            bench.sent(&a, &[(30 + id, Success)])?;
            bench.received(&b, &[(20 + id, Success)])?;
        }
        bench.fill(Side::B, OTHER, &[0x5a; 64])?;
        for id in [10, 11] {
            bench.receive(&b, id, 0x4000 + id * 64, 64)?;
        }
        let request = self.build(bench, &a, &b)?;
        bench.post(&a, &request)?;
        bench.send(&a, 2, 8)?;
        bench.sent(&a, self.outcome.sends)?;
        bench.received(&b, self.outcome.receives)?;
        let [own, far] = self.outcome.states;
        bench.state(&a, own)?;
        bench.state(&b, far)?;
        let event = self.outcome.event.map(|event| (event, b.number));
        bench.events(Side::B, &Vec::from_iter(event))?;
        // A refused request must have stored nothing.
        bench.holds(Side::B, OTHER, &[0x5a; 64])?;
        if own == QpState::Err {
            // Requests posted from now on must be flushed.
            bench.send(&a, 3, 8)?;
            bench.receive(&a, 4, 0, 8)?;
            bench.sent(&a, &[(3, WrFlushErr)])?;
            bench.received(&a, &[(4, WrFlushErr)])?;
        }
        Ok(())
    }

    /// The columns of the row on the page.
    pub fn columns(&self) -> [String; 6] {
        let list = |results: Results| match results {
            [] => String::from("none"),
            _ => {
                let names = results.iter().map(|(_, status)| in_c(status));
                names.collect::<Vec<_>>().join(", ")
            }
        };
        let event = self
            .outcome
            .event
            .map_or("none".into(), |event| in_c(&event));
        let [own, far] = self.outcome.states;
        [
            in_c(&self.kind),
            self.what.into(),
            list(self.outcome.sends),
            list(self.outcome.receives),
            event,
            format!("{}, {}", in_c(&own), in_c(&far)),
        ]
    }
}
