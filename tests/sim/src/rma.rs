//! A program's use of registered memory: windows, transfers, fences and mappings of one end of a
//! connection, all checked against the [`Model`].

use scif_abi::Error;
use scif_abi::flags::Readiness;
use scif_abi::limits::{AUTOMATIC_OFFSETS, PAGE_BYTES};
use scif_core::{Direction, EndpointId, Ticket};

use crate::actor::Context;
use crate::mapping::{Held, Mappings};
use crate::model::Model;
use crate::rng::Rng;
use crate::spaces::{Cover, End, Window, WindowState};

/// Bytes in a page.
pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// The result of a turn.
pub(crate) enum Progress {
    /// The program did something.
    Some,
    /// The program can do nothing before an event, or has done everything.
    None,
}

/// A call whose result is not there yet.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) ticket: Ticket,
    pub(crate) kind: Kind,
}

/// The kind of a call.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A register. The window has its offset already if the offset is fixed.
    Register {
        window: Window,
        is_fixed: bool,
    },
    Unregister,
    /// A transfer: its number in the model, and whether it is over when the call is.
    Transfer {
        id: u64,
        is_sync: bool,
    },
    /// A virtual transfer: its number in the model, and the data of the program.
    Virtual {
        id: u64,
        direction: Direction,
        data: Vec<u8>,
        /// The bytes that a read must find.
        expected: Vec<u8>,
    },
    /// A fence_mark, with the transfers in progress at the time of the call.
    Mark(Vec<u64>),
    /// A fence_wait, with the transfers that must be over afterwards.
    Wait(Vec<u64>),
    /// A fence_signal, with the end and use of each window that must not end before the peer has
    /// looked it up.
    Signal(Vec<(u64, u64)>),
}

/// The store of a fence_signal: its number in the model, and the transfers in progress before it.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) id: u64,
    pub(crate) before: Vec<u64>,
}

/// The registered memory of one end.
#[derive(Debug)]
pub(crate) struct RmaEnd {
    pub(crate) endpoint: EndpointId,
    /// The seed of the end's own stream, which names the end.
    pub(crate) me: u64,
    actions_left: u64,
    pub(crate) outstanding: Vec<Outstanding>,
    /// The marks, each with the transfers it stands for.
    pub(crate) marks: Vec<(i32, Vec<u64>)>,
    pub(crate) awaited: Vec<Awaited>,
    mappings: Mappings,
}

/// The results that a call may have.
pub(crate) struct Expectation {
    /// The errors that the call may return.
    pub(crate) errors: Vec<Error>,
    /// Whether the call must return one of them.
    pub(crate) is_bad: bool,
}

impl From<&Cover> for Expectation {
    fn from(cover: &Cover) -> Expectation {
        Expectation {
            errors: cover.errors.clone(),
            is_bad: cover.is_bad,
        }
    }
}

/// Returns whether the connection is gone, so that calls may return errors for that reason.
pub(crate) fn is_gone(context: &mut Context<'_>, endpoint: EndpointId) -> bool {
    let ready = context.engine.poll(context.memory, endpoint);
    ready.intersects(Readiness::HUP | Readiness::ERR)
}

/// Returns the value of a call; `None` if it failed in a way it may. Any other result is a broken
/// rule.
pub(crate) fn judge<T>(
    context: &mut Context<'_>,
    endpoint: EndpointId,
    what: &str,
    result: Result<T, Error>,
    expected: &Expectation,
) -> Result<Option<T>, String> {
    let node = context.node;
    context.trace.note(|| {
        let outcome = match &result {
            Ok(_) => "accepted".to_string(),
            Err(error) => error.to_string(),
        };
        format!(
            "node {node}: {what} of endpoint {:#x}: {outcome}",
            endpoint.number()
        )
    });
    let error = match result {
        Ok(_) if expected.is_bad => {
            return Err(format!(
                "{what} must fail with one of {:?}",
                expected.errors
            ));
        }
        Ok(value) => return Ok(Some(value)),
        Err(error) => error,
    };
    let ends = [Error::ConnectionReset, Error::NoDevice, Error::NotConnected];
    if expected.errors.contains(&error) {
        context.model.counts.refused += 1;
        return Ok(None);
    }
    let excused = ends.contains(&error) && is_gone(context, endpoint)
        || error == Error::NoMemory && context.model.is_scarce();
    if excused {
        Ok(None)
    } else {
        Err(format!("{what}: {error}"))
    }
}

impl RmaEnd {
    pub(crate) fn new(
        context: &mut Context<'_>,
        endpoint: EndpointId,
        me: u64,
        peer_node: usize,
    ) -> RmaEnd {
        let end = End {
            node: context.node,
            endpoint,
            windows: Vec::new(),
            choosing: 0,
            is_open: true,
            peer_node,
            is_broken: false,
        };
        context.model.ends.insert(me, end);
        let actions_left = match context.rng.below(3) {
            _ if context.is_calm => 20 + context.rng.below(300),
            0 => 0,
            _ => context.rng.below(60),
        };
        RmaEnd {
            endpoint,
            me,
            actions_left,
            outstanding: Vec::new(),
            marks: Vec::new(),
            awaited: Vec::new(),
            mappings: Mappings::default(),
        }
    }

    /// Returns whether nothing is left to do and no call is in progress.
    pub(crate) fn is_done(&self) -> bool {
        self.actions_left == 0 && self.outstanding.is_empty()
    }

    /// Returns the mappings.
    pub(crate) fn held(&self) -> &[Held] {
        self.mappings.held()
    }

    /// Marks the mappings across the link between two nodes, or across any link of `node`, as
    /// lost.
    pub(crate) fn lose(&mut self, node: usize, other: Option<usize>) {
        self.mappings.lose(node, other);
    }

    /// Does one thing. `peer` is the other end, once it is known.
    pub(crate) fn turn(
        &mut self,
        context: &mut Context<'_>,
        peer: Option<u64>,
    ) -> Result<Progress, String> {
        self.look_for_signals(context.model)?;
        let mut any = false;
        for index in (0..self.outstanding.len()).rev() {
            any |= self.collect(context, index)?;
        }
        let is_gone = is_gone(context, self.endpoint);
        if is_gone {
            context.model.lose_end(self.me);
        }
        if context.finishing || is_gone {
            self.actions_left = 0;
        }
        let peer = peer.filter(|peer| context.model.ends.contains_key(peer));
        let Some(peer) = peer.filter(|_| self.actions_left > 0) else {
            return Ok(if any { Progress::Some } else { Progress::None });
        };
        self.actions_left -= 1;
        if self.outstanding.len() < 8 {
            self.act(context, peer)?;
        }
        Ok(Progress::Some)
    }

    fn act(&mut self, context: &mut Context<'_>, peer: u64) -> Result<(), String> {
        let (end, me) = (self.endpoint, self.me);
        match context.rng.below(25) {
            0..4 => self.register(context),
            4 => self.unregister(context),
            5..7 => self.registered_transfer(context, peer),
            7..9 => {
                // As programs do: data, followed by a flag.
                self.registered_transfer(context, peer)?;
                self.signal(context, peer)
            }
            9..11 => self.pinned_transfer(context, peer),
            11..14 => self.virtual_transfer(context, peer),
            14..16 => self.mark(context, peer),
            16 => self.wait(context),
            17..19 => self.signal(context, peer),
            19..21 => self.mappings.map(context, end, [me, peer]),
            21 => self.mappings.access(context),
            22 => self.mappings.unmap_some(context),
            23 => self.mappings.put_some(context, end),
            _ => self.store_own(context),
        }
    }

    // Ends of calls.

    /// Checks one call for its result. Returns whether the call made progress.
    fn collect(&mut self, context: &mut Context<'_>, index: usize) -> Result<bool, String> {
        let Outstanding { ticket, kind } = &mut self.outstanding[index];
        let ticket = *ticket;
        let result = if let Kind::Virtual { data, .. } = kind {
            if !context.engine.virtual_is_ready(ticket) {
                return Ok(false);
            }
            let budget = 1 + context.rng.size(10_000) as usize;
            let step = context
                .engine
                .virtual_step(context.memory, ticket, data, budget);
            match step {
                Some(result) => result,
                None => return Ok(true),
            }
        } else {
            match context.engine.finish(ticket) {
                Some(result) => result,
                // At times a program abandons its call.
                None if !context.finishing && context.rng.one_in(200) => {
                    let Outstanding { ticket, kind } = self.outstanding.swap_remove(index);
                    context.engine.abandon(context.memory, ticket);
                    self.abandoned(context, &kind);
                    return Ok(true);
                }
                None => return Ok(false),
            }
        };
        let Outstanding { kind, .. } = self.outstanding.swap_remove(index);
        self.ended(context, kind, result)?;
        Ok(true)
    }

    fn ended(
        &mut self,
        context: &mut Context<'_>,
        kind: Kind,
        result: Result<u64, Error>,
    ) -> Result<(), String> {
        let expected = Expectation {
            errors: Vec::new(),
            is_bad: false,
        };
        let what = format!("{kind:?}");
        let value = judge(context, self.endpoint, &what, result, &expected)?;
        let model = &mut context.model;
        match (kind, value) {
            (Kind::Register { window, is_fixed }, value) => {
                self.registered(context, window, is_fixed, value)?;
            }
            (Kind::Transfer { id, is_sync }, Some(_)) => {
                if is_sync {
                    model.complete(id)?;
                }
            }
            (
                Kind::Virtual {
                    id,
                    direction,
                    data,
                    expected,
                },
                Some(_),
            ) => {
                let is_wrong = direction == Direction::Read && data != expected;
                if is_wrong && !model.is_lost(id) {
                    return Err("a virtual read found other bytes than were there".into());
                }
                model.complete(id)?;
            }
            (Kind::Transfer { id, .. } | Kind::Virtual { id, .. }, None) => model.give_up(id),
            (Kind::Mark(before), Some(mark)) => {
                let mark = i32::try_from(mark).map_err(|_| "a mark beyond 2^31".to_string())?;
                self.marks.push((mark, before));
            }
            (Kind::Wait(before), Some(_)) => {
                model.counts.marks += 1;
                before.into_iter().try_for_each(|id| model.complete(id))?;
            }
            (Kind::Unregister, Some(_)) => model.counts.unregistered += 1,
            (Kind::Signal(windows), _) => model.release(&windows),
            (Kind::Mark(_) | Kind::Wait(_) | Kind::Unregister, None) => {}
        }
        Ok(())
    }

    fn registered(
        &mut self,
        context: &mut Context<'_>,
        window: Window,
        is_fixed: bool,
        value: Option<u64>,
    ) -> Result<(), String> {
        let Some(end) = context.model.ends.get_mut(&self.me) else {
            return Ok(());
        };
        let mut window = window;
        if !is_fixed {
            end.choosing -= 1;
        }
        let known = end.windows.iter_mut().find(|w| w.use_id == window.use_id);
        match (value, known) {
            (Some(offset), Some(known)) => {
                if offset != known.offset as u64 {
                    return Err(format!("a fixed window is at {offset:#x}"));
                }
                known.state = WindowState::Live;
            }
            (Some(offset), None) if !is_fixed => {
                window.offset = offset as i64;
                let range = AUTOMATIC_OFFSETS;
                let fits = window.offset >= range.start && window.end() <= range.end;
                let overlaps = end
                    .windows
                    .iter()
                    .any(|w| w.offset < window.end() && window.offset < w.end());
                if !fits || overlaps || offset % PAGE != 0 {
                    return Err(format!("a window was put at {offset:#x}"));
                }
                window.state = WindowState::Live;
                end.windows.push(window);
            }
            // Released before its program could ask, because the node was lost.
            (Some(_), None) => {}
            (None, Some(known)) => known.state = WindowState::Ended,
            (None, None) => {}
        }
        if value.is_some() {
            context.model.counts.windows += 1;
        }
        Ok(())
    }

    fn abandoned(&mut self, context: &mut Context<'_>, kind: &Kind) {
        let model = &mut context.model;
        match kind {
            Kind::Register { window, is_fixed } => {
                if let Some(end) = model.ends.get_mut(&self.me) {
                    if !is_fixed {
                        // The window may stay for ever at an offset that no program knows.
                        return;
                    }
                    if let Some(w) = end.windows.iter_mut().find(|w| w.use_id == window.use_id) {
                        w.state = WindowState::Unknown;
                    }
                }
            }
            Kind::Transfer { id, .. } | Kind::Virtual { id, .. } => model.give_up(*id),
            // The program does not learn when the peer has looked up the windows, so they stay.
            Kind::Signal(_) | Kind::Unregister | Kind::Mark(_) | Kind::Wait(_) => {}
        }
    }

    /// Checks for the signals of this end. A signal that can be seen proves that everything before
    /// it has arrived.
    pub(crate) fn look_for_signals(&mut self, model: &mut Model) -> Result<(), String> {
        let mut result = Ok(());
        self.awaited.retain(|awaited| {
            if !model.is_under_way(awaited.id) {
                return false;
            }
            if result.is_ok() && model.has_arrived(awaited.id) {
                model.counts.signals += 1;
                let before = awaited.before.iter().chain([&awaited.id]);
                result = before.copied().try_for_each(|id| model.complete(id));
                return false;
            }
            true
        });
        result
    }

    /// Handles the close of the endpoint: all calls must have ended.
    pub(crate) fn closed(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        context.model.close(self.me);
        for Outstanding { ticket, kind } in std::mem::take(&mut self.outstanding) {
            match kind {
                Kind::Virtual { id, mut data, .. } => {
                    let step =
                        context
                            .engine
                            .virtual_step(context.memory, ticket, &mut data, usize::MAX);
                    if step.is_none() {
                        return Err("a virtual transfer outlives its endpoint".into());
                    }
                    context.model.give_up(id);
                }
                _ if context.engine.finish(ticket).is_none() => {
                    return Err(format!("{kind:?} outlives its endpoint"));
                }
                _ => {}
            }
        }
        self.mappings.leave(context);
        Ok(())
    }

    /// Checks for a missing event, when the program sleeps and nothing is in progress.
    pub(crate) fn check_asleep(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        for index in (0..self.outstanding.len()).rev() {
            if self.collect(context, index)? {
                return Err("a call had its result and its endpoint did not change".into());
            }
        }
        Ok(())
    }
}

/// Returns random bytes.
pub(crate) fn noise(rng: &mut Rng, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8)).flat_map(|_| rng.number().to_le_bytes());
    words.take(length).collect()
}
