//! Windows of a program: it registers them at valid and invalid places, and unregisters them as a
//! whole and in part.

use scif_abi::Error;
use scif_abi::flags::{MapFlags, Protection};
use scif_abi::limits::{AUTOMATIC_OFFSETS, PAGE_BYTES};
use scif_core::{Memory, Pages, PinId, Resource, Scope};

use crate::actor::Context;
use crate::model::Segment;
use crate::rma::{Expectation, Kind, Outstanding, PAGE, RmaEnd, judge, noise};
use crate::spaces::{Window, WindowState};

impl RmaEnd {
    pub(crate) fn register(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let node = context.node;
        let old = context.model.any_pin(node, context.rng);
        let old = old.filter(|_| context.rng.one_in(6));
        let pinned = match old {
            Some(pin) => context.model.use_again(pin).map(|use_id| (pin, use_id)),
            None => {
                let pages = 1 + context.rng.size(15) as usize;
                context.model.pin(node, pages, context.rng)
            }
        };
        let Some((pin, use_id)) = pinned else {
            return Ok(());
        };
        let protection = match context.rng.below(8) {
            0 => Protection::READ,
            1 => Protection::WRITE,
            _ => Protection::all(),
        };
        let is_fixed = !context.rng.one_in(4);
        let mut window = Window {
            use_id,
            offset: 0,
            pages: context.model.pages(pin) as u64,
            protection: protection.bits(),
            pin,
            state: WindowState::Registering,
            signals: 0,
        };
        let (mut errors, mut is_bad) = (Vec::new(), false);
        let mut flags = MapFlags::empty().bits();
        if is_fixed {
            window.offset = self.choose_offset(context);
            flags = MapFlags::FIXED.bits();
            let end = &context.model.ends[&self.me];
            for other in &end.windows {
                if other.offset < window.end() && window.offset < other.end() {
                    errors.push(Error::AddressInUse);
                    is_bad |= other.state == WindowState::Live;
                }
            }
            if end.choosing > 0 && window.end() > AUTOMATIC_OFFSETS.start {
                errors.push(Error::AddressInUse);
            }
        }
        if context.rng.one_in(40) {
            flags |= 1 << context.rng.below(4);
            errors.push(Error::InvalidArgument);
            is_bad = true;
        }
        let is_charged = !context.rng.one_in(8);
        let over = |user: u32| {
            let used = context.engine.used(Resource::Pages, Scope::User, user);
            used + window.pages > context.engine.limit(Resource::Pages, Scope::User)
        };
        if is_charged && (over(0) || over(1)) {
            errors.push(Error::WouldBlock);
            // For a fixed offset the engine first handles messages, which may free windows.
            is_bad |= over(0) && over(1) && !is_fixed;
        }
        let pages = Pages {
            pin: PinId(use_id),
            runs: context.model.runs(pin, context.rng),
            is_charged,
        };
        let result = context.engine.register(
            context.memory,
            self.endpoint,
            pages,
            window.offset,
            window.protection,
            flags,
        );
        let expected = Expectation { errors, is_bad };
        let Some(ticket) = judge(context, self.endpoint, "register", result, &expected)? else {
            context.model.not_used(node, use_id)?;
            return Ok(());
        };
        if let Some(end) = context.model.ends.get_mut(&self.me) {
            if is_fixed {
                end.windows.push(window.clone());
            } else {
                end.choosing += 1;
            }
        }
        let kind = Kind::Register { window, is_fixed };
        self.outstanding.push(Outstanding { ticket, kind });
        Ok(())
    }

    /// Chooses an offset, often near another window, so that there are neighbours and overlaps.
    fn choose_offset(&self, context: &mut Context<'_>) -> i64 {
        let windows = &context.model.ends[&self.me].windows;
        let pick = windows.get(context.rng.below(windows.len() as u64) as usize);
        match (context.rng.below(4), pick) {
            (0, _) | (_, None) => (context.rng.below(64) * PAGE) as i64,
            (1, Some(window)) => window.offset + PAGE as i64,
            (_, Some(window)) => window.end(),
        }
    }

    pub(crate) fn unregister(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let Some((mut offset, mut length)) = self.some_windows(context, self.me) else {
            return Ok(());
        };
        match context.rng.below(6) {
            0 => length += PAGE,
            1 => offset += PAGE as i64,
            2 if length > PAGE => length -= PAGE,
            _ => {}
        }
        let end = offset + length as i64;
        let own = &context.model.ends[&self.me];
        let inside: Vec<&Window> = own
            .windows
            .iter()
            .filter(|w| w.offset < end && offset < w.end())
            .collect();
        let live = |w: &&Window| w.state == WindowState::Live;
        let bytes: u64 = inside
            .iter()
            .filter(|w| live(w))
            .map(|w| (w.end().min(end) - w.offset.max(offset)) as u64)
            .sum();
        let is_partial = |w: &&Window| w.offset < offset || w.end() > end;
        let unsure = [WindowState::Registering, WindowState::Unknown];
        let is_unsure = own.choosing > 0 || inside.iter().any(|w| unsure.contains(&w.state));
        let (has_part, has_hole) = (inside.iter().any(is_partial), bytes < length);
        let mut errors = Vec::new();
        if has_part || is_unsure {
            errors.push(Error::InvalidArgument);
        }
        if has_hole || is_unsure {
            errors.push(Error::NoSuchAddress);
        }
        let is_bad = (inside.iter().filter(|w| live(w)).any(is_partial) || has_hole) && !is_unsure;
        if inside.iter().any(|w| w.signals > 0) {
            return Ok(());
        }
        let ended: Vec<u64> = inside.iter().map(|w| w.use_id).collect();
        let pins: Vec<_> = inside.iter().map(|w| w.pin).collect();
        let result = context
            .engine
            .unregister(context.memory, self.endpoint, offset, length);
        let expected = Expectation { errors, is_bad };
        let ticket = judge(context, self.endpoint, "unregister", result, &expected)?;
        let Some(ticket) = ticket else { return Ok(()) };
        if let Some(end) = context.model.ends.get_mut(&self.me) {
            for window in &mut end.windows {
                if ended.contains(&window.use_id) {
                    window.state = WindowState::Ended;
                }
            }
        }
        pins.into_iter()
            .for_each(|pin| context.model.window_ended(pin));
        let kind = Kind::Unregister;
        self.outstanding.push(Outstanding { ticket, kind });
        Ok(())
    }

    /// Returns the range of a window of `end`, or of two windows that are neighbours.
    fn some_windows(&self, context: &mut Context<'_>, end: u64) -> Option<(i64, u64)> {
        let windows = &context.model.ends.get(&end)?.windows;
        let pick = windows.get(context.rng.below(windows.len() as u64) as usize)?;
        let next = windows.iter().find(|w| w.offset == pick.end());
        let next = next.filter(|_| context.rng.one_in(2));
        let last = next.unwrap_or(pick).end();
        Some((pick.offset, (last - pick.offset) as u64))
    }

    /// Changes own memory that no copy uses at the moment.
    pub(crate) fn store_own(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let Some(pin) = context.model.any_pin(context.node, context.rng) else {
            return Ok(());
        };
        let page = context.rng.below(context.model.pages(pin) as u64) as usize;
        let start = page * PAGE_BYTES + context.rng.below(PAGE) as usize;
        let bytes = start..(page + 1) * PAGE_BYTES;
        let segment = Segment { pin, bytes };
        let quiet = context.model.is_quiet(&[], std::slice::from_ref(&segment));
        let Some(address) = context.model.address(pin, start).filter(|_| quiet) else {
            return Ok(());
        };
        let data = noise(context.rng, segment.bytes.len());
        context.memory.write(address, &data);
        context.model.stored(&segment, &data);
        Ok(())
    }
}
