//! Memory windows of a world of verbs: their owners bind them and take them back, peers use them,
//! misuse them and have them invalidated.

use verbs_core::keys::{WindowType, next_key};
use verbs_core::types::{Access, Error, Opcode};
use verbs_core::work::{Bind, Remote, SendRequest};

use super::World;
use super::oracle::{Does, PART, PARTS, Posted};

/// Bytes of a window: those that peers write to.
const LENGTH: u64 = PARTS * PART;

/// A memory window on part of a target, which peers may write and not read.
#[derive(Clone)]
pub struct Window {
    kind: WindowType,
    /// Its last key, which names it.
    pub key: u32,
    /// The peer can use it.
    pub is_bound: bool,
    /// A request that changes it has not completed.
    pub is_changing: bool,
    /// A former key.
    stale: Option<u32>,
    is_zero_based: bool,
}

impl Window {
    /// Whether its key can be invalidated.
    pub fn is_two(&self) -> bool {
        self.kind == WindowType::Two
    }

    /// A place in the target, by this window.
    pub fn place(&self, address: u64, target: u64) -> Remote {
        let start = if self.is_zero_based { target } else { 0 };
        Remote {
            address: address - start,
            key: self.key,
        }
    }

    /// A place that a request must not reach, and whether that needs the window: by a former key,
    /// or, as `is_beyond` has it, without the right or behind its end.
    pub fn misuse(&self, does: Does, target: u64, is_beyond: bool) -> Option<(Remote, bool)> {
        let former = self.stale.map(|key| Remote {
            address: target,
            key,
        });
        let beyond = match does {
            Does::Read(_) | Does::Add => target,
            _ => target + LENGTH,
        };
        match is_beyond {
            false => former.map(|former| (former, false)),
            true => self.is_bound.then(|| (self.place(beyond, target), true)),
        }
    }

    /// It has another key, or the same one fails.
    fn change(&mut self, key: u32, is_bound: bool) {
        self.stale = Some(self.key);
        self.key = key;
        (self.is_bound, self.is_changing) = (is_bound, false);
    }
}

impl World {
    /// Gives some queue pairs a window each.
    pub(super) fn allocate_windows(&mut self, at: usize) -> Result<(), String> {
        for side in 0..2 {
            let pair = &mut self.pairs[at];
            let half = &mut pair.halves[side];
            let program = self.programs[half.program].as_mut();
            let Some(program) = program.filter(|_| half.target.is_some() && self.rng.one_in(2))
            else {
                continue;
            };
            let kind = match self.rng.one_in(2) {
                true => WindowType::One,
                false => WindowType::Two,
            };
            let pd = program.arenas[pair.arena].pd;
            let key = program.context.alloc_mw(pd, kind);
            half.window = Some(Window {
                kind,
                key: key.map_err(|error| format!("alloc_mw: {error:?}"))?,
                is_bound: false,
                is_changing: false,
                stale: None,
                is_zero_based: self.rng.one_in(2),
            });
        }
        Ok(())
    }

    /// The owner of a window binds it, or takes it back when nothing of its peer needs it.
    pub(super) fn change_window(&mut self, at: usize, side: usize) -> Result<(), String> {
        let pair = &mut self.pairs[at];
        let is_used = pair.halves[1 - side].sends.iter().any(|of| of.uses_window);
        let half = &mut pair.halves[side];
        let (Some(window), Some(target)) = (&mut half.window, half.target) else {
            return Ok(());
        };
        let Some(program) = &mut self.programs[half.program] else {
            return Ok(());
        };
        if is_used || window.is_changing {
            return Ok(());
        }
        let arena = &mut program.arenas[pair.arena];
        let Some(slot) = arena.take() else {
            return Ok(());
        };
        let id = self.number;
        self.number += 1;
        let key = next_key(window.key);
        let mut access = Access::REMOTE_WRITE;
        access.set(Access::ZERO_BASED, window.is_zero_based);
        let mut bind = Bind {
            window: window.key,
            key,
            region: arena.all,
            address: target,
            length: LENGTH,
            access,
        };
        let mut is_bad = false;
        let (opcode, does) = match (window.is_bound, window.kind) {
            (true, WindowType::Two) => (Opcode::LocalInv, Does::Invalidate),
            (true, WindowType::One) if self.rng.one_in(2) => {
                bind.length = 0;
                (Opcode::BindMw, Does::Unbind(key))
            }
            _ => {
                if self.rng.one_in(40) {
                    // A region that has no windows.
                    (bind.region, is_bad) = (arena.constant, true);
                }
                (Opcode::BindMw, Does::Bind(key))
            }
        };
        let request = SendRequest {
            immediate: window.key,
            bind: (opcode == Opcode::BindMw).then_some(bind),
            ..SendRequest::new(id, opcode, Vec::new())
        };
        match program.context.post_send(half.number, request) {
            Ok(()) => {}
            Err(Error::NoMemory) => {
                arena.give(slot);
                return Ok(());
            }
            Err(error) => return Err(format!("{opcode:?} on {}: {error:?}", half.number)),
        }
        (window.is_bound, window.is_changing) = (false, true);
        pair.is_troubled |= is_bad;
        half.sends.push_back(Posted {
            id,
            does,
            length: 0,
            is_signaled: true,
            is_bad,
            uses_window: false,
            invalidates: None,
            slot,
        });
        self.report.windows += 1;
        Ok(())
    }

    /// A send that changes windows has succeeded.
    pub(super) fn windows_changed(
        &mut self,
        at: usize,
        side: usize,
        does: Does,
        invalidates: Option<u32>,
    ) {
        let [own, peers] = [side, 1 - side].map(|side| self.pairs[at].halves[side].window.clone());
        let halves = &mut self.pairs[at].halves;
        if let Some(mut window) = own {
            match does {
                Does::Bind(key) => window.change(key, true),
                Does::Unbind(key) => window.change(key, false),
                Does::Invalidate => window.change(window.key, false),
                _ => {}
            }
            halves[side].window = Some(window);
        }
        if let (Some(mut window), Some(key)) = (peers, invalidates) {
            window.change(key, false);
            halves[1 - side].window = Some(window);
        }
    }
}
