//! Memory windows of a world of verbs: their owners bind them and take them back, while peers use
//! them, misuse them and have them invalidated.

use verbs_core::keys::{WindowType, next_key};
use verbs_core::types::{Access, Error, Opcode};
use verbs_core::work::{Bind, Remote, SendRequest};

use super::World;
use super::oracle::{Does, PART, PARTS, Posted};

/// Bytes in a window: the bytes that peers write to.
const LENGTH: u64 = PARTS * PART;

/// A memory window on a part of a target, which peers may write but not read.
#[derive(Clone)]
pub struct Window {
    kind: WindowType,
    /// The window's last key, which names it.
    pub key: u32,
    /// Whether the peer can use the window.
    pub is_bound: bool,
    /// Whether a request that changes the window has not completed.
    pub is_changing: bool,
    /// The key before the last change, if there was one.
    stale: Option<u32>,
    is_zero_based: bool,
}

impl Window {
    /// Returns whether the window's key can be invalidated.
    pub fn is_two(&self) -> bool {
        self.kind == WindowType::Two
    }

    /// Returns a place in the target as reached by this window.
    pub fn place(&self, address: u64, target: u64) -> Remote {
        let start = if self.is_zero_based { target } else { 0 };
        Remote {
            address: address - start,
            key: self.key,
        }
    }

    /// Returns a place that a request must not reach, and whether the request uses the window. If
    /// `is_beyond` is set, the place is behind the window's end or the window does not have the
    /// right; otherwise the place has a former key.
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

    /// Records that the window has another key, or that its key has become invalid.
    fn change(&mut self, key: u32, is_bound: bool) {
        self.stale = Some(self.key);
        self.key = key;
        (self.is_bound, self.is_changing) = (is_bound, false);
    }
}

impl World {
    /// Gives a window to some of the queue pairs.
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

    /// Makes the owner of a window bind it, or take it back if no send of the peer needs it.
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
                    // A region that allows no windows.
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

    /// Records the changes of windows by a send that succeeded.
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
