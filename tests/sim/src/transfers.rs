//! Transfers and fences of a program, as random as possible without disturbing each other.

use scif_abi::Error;
use scif_abi::flags::{FenceFlags, Protection, RmaFlags};
use scif_abi::limits::PAGE_BYTES;
use scif_core::{Direction, Local, Pages, PinId, Rma, Signal, Ticket};

use crate::actor::Context;
use crate::model::{Segment, Transfer};
use crate::rma::{Awaited, Expectation, Kind, Outstanding, RmaEnd, judge, noise};
use crate::rng::Rng;
use crate::spaces::Cover;

/// Chooses the flags of a transfer. Now and then some of them are undefined.
fn rma_flags(rng: &mut Rng) -> u32 {
    if rng.one_in(40) {
        0x10 << rng.below(28) | rng.below(16) as u32
    } else {
        rng.below(16) as u32
    }
}

/// Adds to a transfer's cover what follows from its flags.
fn with_flags(mut cover: Cover, flags: u32) -> Cover {
    if RmaFlags::from_bits(flags).is_none() {
        cover.errors.push(Error::InvalidArgument);
        cover.is_bad = true;
    }
    cover
}

/// Returns the protection that the remote side needs, and the protection that the local side
/// needs.
fn protections(direction: Direction) -> [u32; 2] {
    let [read, write] = [Protection::READ.bits(), Protection::WRITE.bits()];
    match direction {
        Direction::Read => [read, write],
        Direction::Write => [write, read],
    }
}

fn direction(rng: &mut Rng) -> Direction {
    if rng.one_in(2) {
        Direction::Read
    } else {
        Direction::Write
    }
}

impl RmaEnd {
    /// Chooses a place in a window of `end` or near it. Returns the offset and the number of bytes
    /// that windows cover from there on.
    fn some_place(&self, context: &mut Context<'_>, end: u64) -> Option<(i64, u64)> {
        let windows = &context.model.ends.get(&end)?.windows;
        let window = windows.get(context.rng.below(windows.len() as u64) as usize)?;
        let bytes = window.pages * PAGE_BYTES as u64;
        let mut at = context.rng.below(bytes);
        if context.rng.one_in(3) {
            at &= !63;
        }
        if context.rng.one_in(4) {
            at = 0;
        }
        let offset = window.offset + at as i64;
        Some((offset, context.model.extent(end, offset)))
    }

    /// Chooses a length that mostly fits into `most` bytes.
    fn some_length(rng: &mut Rng, most: u64) -> u64 {
        if rng.one_in(12) {
            return most + 1 + rng.size(10_000);
        }
        let length = if rng.one_in(2) {
            rng.below(most)
        } else {
            rng.size(most.saturating_sub(1))
        };
        1 + length
    }

    fn both_ends(&self, peer: u64) -> [u64; 2] {
        [self.me, peer]
    }

    /// Makes the model's record of a transfer whose source and destination are known and quiet.
    fn prepare(
        &self,
        context: &Context<'_>,
        peer: u64,
        from: Vec<Segment>,
        to: Vec<Segment>,
        data: Vec<u8>,
        flags: u32,
    ) -> Transfer {
        let nodes = [context.node, context.model.ends[&peer].node];
        Transfer {
            ends: self.both_ends(peer),
            is_signal: false,
            from,
            to,
            data,
            is_ordered: flags & RmaFlags::ORDERED.bits() != 0,
            is_lost: !context.model.ends[&peer].is_open,
            nodes,
        }
    }

    fn out(&mut self, ticket: Ticket, kind: Kind) {
        self.outstanding.push(Outstanding { ticket, kind });
    }

    /// Starts a readfrom or a writeto.
    pub(crate) fn registered_transfer(
        &mut self,
        context: &mut Context<'_>,
        peer: u64,
    ) -> Result<(), String> {
        let (Some((local, here)), Some((remote, there))) = (
            self.some_place(context, self.me),
            self.some_place(context, peer),
        ) else {
            return Ok(());
        };
        let length = RmaEnd::some_length(context.rng, here.min(there));
        let direction = direction(context.rng);
        let flags = rma_flags(context.rng);
        let [far, near] = protections(direction);
        let own = context.model.cover(self.me, true, local, length, near);
        let other = context.model.cover(peer, false, remote, length, far);
        let (from, to) = match direction {
            Direction::Read => (other.segments.clone(), own.segments.clone()),
            Direction::Write => (own.segments.clone(), other.segments.clone()),
        };
        let cover = with_flags(own.and(other), flags);
        let rma = Rma {
            direction,
            local: Local::Window(local),
            remote,
            length,
            flags,
        };
        self.start(context, peer, rma, from.zip(to), &cover)?;
        Ok(())
    }

    /// Starts a transfer unless it would disturb another one. Returns its number.
    fn start(
        &mut self,
        context: &mut Context<'_>,
        peer: u64,
        rma: Rma,
        known: Option<(Vec<Segment>, Vec<Segment>)>,
        cover: &Cover,
    ) -> Result<Option<u64>, String> {
        let flags = rma.flags;
        let transfer = match known {
            Some((from, to)) if context.model.is_quiet(&from, &to) => {
                let data = context.model.content(&from);
                Some(self.prepare(context, peer, from, to, data, flags))
            }
            // The call must fail, so it disturbs no transfer.
            _ if cover.is_bad => None,
            _ => return Ok(None),
        };
        let result = context.engine.rma(self.endpoint, rma);
        let expected = Expectation::from(cover);
        let ticket = judge(context, self.endpoint, "a transfer", result, &expected)?;
        let (Some(ticket), Some(transfer)) = (ticket, transfer) else {
            return Ok(None);
        };
        let id = context.model.begin(transfer);
        let is_sync = flags & (RmaFlags::SYNC | RmaFlags::USECPU).bits() != 0;
        self.out(ticket, Kind::Transfer { id, is_sync });
        Ok(Some(id))
    }

    /// Starts a vreadfrom or vwriteto on memory that is pinned for it.
    pub(crate) fn pinned_transfer(
        &mut self,
        context: &mut Context<'_>,
        peer: u64,
    ) -> Result<(), String> {
        let Some((remote, there)) = self.some_place(context, peer) else {
            return Ok(());
        };
        let count = 1 + context.rng.below(4) as usize;
        let Some((pin, use_id)) = context.model.pin(context.node, count, context.rng) else {
            return Ok(());
        };
        let offset = context.rng.below((count * PAGE_BYTES) as u64);
        let room = (count * PAGE_BYTES) as u64 - offset;
        let length = RmaEnd::some_length(context.rng, there.min(room));
        let direction = direction(context.rng);
        let flags = rma_flags(context.rng);
        let [far, _] = protections(direction);
        let mut cover = context.model.cover(peer, false, remote, length, far);
        let end = (offset + length) as usize;
        let near = vec![Segment {
            pin,
            bytes: offset as usize..end,
        }];
        if length > room {
            cover.segments = None;
            cover.errors.push(Error::BadAddress);
            cover.is_bad = true;
        }
        let known = cover.segments.clone().map(|far| match direction {
            Direction::Read => (far, near),
            Direction::Write => (near, far),
        });
        let pages = Pages {
            pin: PinId(use_id),
            runs: context.model.runs(pin, context.rng),
            is_charged: false,
        };
        let rma = Rma {
            direction,
            local: Local::Pages { pages, offset },
            remote,
            length,
            flags,
        };
        let cover = with_flags(cover, flags);
        match self.start(context, peer, rma, known, &cover)? {
            Some(id) => context.model.bind_use(context.node, use_id, id),
            None => {
                context.model.not_used(context.node, use_id)?;
            }
        }
        Ok(())
    }

    /// Starts a vreadfrom or vwriteto with the data in the call.
    pub(crate) fn virtual_transfer(
        &mut self,
        context: &mut Context<'_>,
        peer: u64,
    ) -> Result<(), String> {
        let Some((remote, there)) = self.some_place(context, peer) else {
            return Ok(());
        };
        let length = RmaEnd::some_length(context.rng, there);
        let direction = direction(context.rng);
        let flags = rma_flags(context.rng);
        let [far, _] = protections(direction);
        let cover = context.model.cover(peer, false, remote, length, far);
        let cover = with_flags(cover, flags);
        let data = noise(context.rng, length as usize);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        match (direction, cover.segments.clone()) {
            (Direction::Read, Some(segments)) => from = segments,
            (Direction::Write, Some(segments)) => to = segments,
            _ => {}
        }
        let is_known = cover.segments.is_some() && context.model.is_quiet(&from, &to);
        if !is_known && !cover.is_bad {
            return Ok(());
        }
        let result = context
            .engine
            .virtual_start(self.endpoint, direction, remote, length, flags);
        let expected = Expectation::from(&cover);
        let ticket = judge(
            context,
            self.endpoint,
            "a virtual transfer",
            result,
            &expected,
        )?;
        let Some(ticket) = ticket else { return Ok(()) };
        let expected = context.model.content(&from);
        let arriving = match direction {
            Direction::Read => Vec::new(),
            Direction::Write => data.clone(),
        };
        let transfer = self.prepare(context, peer, from, to, arriving, flags);
        let id = context.model.begin(transfer);
        let kind = Kind::Virtual {
            id,
            direction,
            data,
            expected,
        };
        self.out(ticket, kind);
        Ok(())
    }

    /// Makes a fence_mark.
    pub(crate) fn mark(&mut self, context: &mut Context<'_>, peer: u64) -> Result<(), String> {
        let [own, other] = [FenceFlags::INIT_SELF.bits(), FenceFlags::INIT_PEER.bits()];
        let flags = match context.rng.below(20) {
            0 => 0,
            1 => own | other,
            2 => own | FenceFlags::SIGNAL_LOCAL.bits(),
            3..11 => own,
            _ => other,
        };
        let is_bad = flags != own && flags != other;
        let errors = is_bad.then_some(Error::InvalidArgument);
        let before = context
            .model
            .begun_by(if flags == own { self.me } else { peer });
        let result = context.engine.fence_mark(self.endpoint, flags);
        let errors = errors.into_iter().collect();
        let expected = Expectation { errors, is_bad };
        if let Some(ticket) = judge(context, self.endpoint, "fence_mark", result, &expected)? {
            self.out(ticket, Kind::Mark(before));
        }
        Ok(())
    }

    /// Makes a fence_wait, for a mark that exists or for one that does not.
    pub(crate) fn wait(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let pick = context.rng.below(self.marks.len() as u64) as usize;
        let known = self.marks.get(pick).cloned();
        let known = known.filter(|_| !context.rng.one_in(6));
        let is_bad = known.is_none();
        let nonsense = context.rng.number() as i32 | 1 << 29;
        let (mark, before) = known.unwrap_or((nonsense, Vec::new()));
        let errors = is_bad.then_some(Error::InvalidArgument);
        let errors = errors.into_iter().collect();
        let result = context.engine.fence_wait(self.endpoint, mark);
        let expected = Expectation { errors, is_bad };
        if let Some(ticket) = judge(context, self.endpoint, "fence_wait", result, &expected)? {
            self.out(ticket, Kind::Wait(before));
        }
        Ok(())
    }

    /// Makes a fence_signal.
    pub(crate) fn signal(&mut self, context: &mut Context<'_>, peer: u64) -> Result<(), String> {
        let mut flags = FenceFlags::empty();
        let by_peer = context.rng.one_in(2);
        flags |= if by_peer {
            FenceFlags::INIT_PEER
        } else {
            FenceFlags::INIT_SELF
        };
        let (local, remote) = match context.rng.below(3) {
            0 => (true, true),
            1 => (true, false),
            _ => (false, true),
        };
        flags.set(FenceFlags::SIGNAL_LOCAL, local);
        flags.set(FenceFlags::SIGNAL_REMOTE, remote);
        let mut signal = Signal {
            flags: flags.bits(),
            ..Signal::default()
        };
        let mut errors = Vec::new();
        let mut is_bad = false;
        if context.rng.one_in(30) {
            signal.flags ^= 1 << context.rng.below(8);
            let valid = FenceFlags::from_bits(signal.flags);
            let inits = FenceFlags::INIT_SELF | FenceFlags::INIT_PEER;
            let one_init = valid.is_some_and(|f| (f & inits).bits().is_power_of_two());
            let stores = FenceFlags::SIGNAL_LOCAL | FenceFlags::SIGNAL_REMOTE;
            if !(one_init && valid.is_some_and(|f| f.intersects(stores))) {
                errors.push(Error::InvalidArgument);
                is_bad = true;
            } else {
                return Ok(());
            }
        }
        let mut stores = Vec::new();
        let ends = [(local, self.me, true), (remote, peer, false)];
        for (is_wanted, end, own) in ends {
            if !is_wanted {
                continue;
            }
            let Some((place, _)) = self.some_place(context, end) else {
                return Ok(());
            };
            let is_odd = context.rng.one_in(20);
            let offset = if is_odd { place | 1 } else { place & !3 };
            let write = Protection::WRITE.bits();
            let cover = context.model.cover(end, own, offset, 8, write);
            let value = context.rng.number();
            if own {
                (signal.local_offset, signal.local_value) = (offset, value);
            } else {
                (signal.remote_offset, signal.remote_value) = (offset, value);
            }
            if is_odd {
                errors.push(Error::InvalidArgument);
                is_bad = true;
            }
            // An error that only the peer finds would come much later.
            if by_peer && !cover.is_good {
                return Ok(());
            }
            errors.extend(&cover.errors);
            is_bad |= cover.is_bad;
            let segments = cover.segments.unwrap_or_default();
            // A signal may not span two windows, even if they are neighbours.
            if segments.len() > 1 && by_peer {
                return Ok(());
            }
            if segments.len() > 1 {
                errors.push(Error::NoSuchAddress);
                is_bad = true;
            }
            stores.push((segments, value));
        }
        let quiet =
            |(to, _): &(Vec<Segment>, u64)| !to.is_empty() && context.model.is_quiet(&[], to);
        let apart = match &stores[..] {
            [(a, _), (b, _)] => a.iter().all(|x| b.iter().all(|y| x.pin != y.pin)),
            _ => true,
        };
        let is_quiet = apart && stores.iter().all(quiet);
        if !is_bad && !is_quiet {
            return Ok(());
        }
        let executor = if by_peer { peer } else { self.me };
        let before = context.model.begun_by(executor);
        let result = context.engine.fence_signal(self.endpoint, signal);
        let expected = Expectation { errors, is_bad };
        let ticket = judge(context, self.endpoint, "fence_signal", result, &expected)?;
        let Some(ticket) = ticket else { return Ok(()) };
        let places = [(self.me, signal.local_offset), (peer, signal.remote_offset)];
        let held = places.into_iter().zip([local, remote]);
        let held = held.filter(|(_, is_wanted)| *is_wanted && by_peer);
        let held = held.filter_map(|((end, offset), _)| context.model.hold(end, offset));
        let held = held.collect();
        self.out(ticket, Kind::Signal(held));
        for (to, value) in stores {
            let data = value.to_le_bytes().to_vec();
            let mut transfer = self.prepare(context, peer, Vec::new(), to, data, 0);
            transfer.is_signal = true;
            if by_peer {
                transfer.ends.reverse();
            }
            let id = context.model.begin(transfer);
            let before = before.clone();
            self.awaited.push(Awaited { id, before });
        }
        Ok(())
    }
}
