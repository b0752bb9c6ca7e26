//! Changes of state by commands, on any device that executes them.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use verbs_abi::command::Command::{
    self, CreateCq, CreateQp, DestroyQp, GetContext, ModifyQp, OpenXrcd, PostSend, QueryQp,
};

use super::bench::Checked;
use super::commands::{Device, Field, frame, put};
use super::transitions::{Change, Changes};
use crate::errno::EINVAL;

/// Number of polls for the state that a failing send leads to.
const LOOKS: usize = 1000;

/// Handles, in the order in which the objects are made.
const PD: u64 = 0;
const CQ: u64 = 1;
const XRCD: u64 = 2;

/// Changes by the commands of a device.
pub struct ByCommands<'a> {
    device: &'a mut dyn Device,
    is_open: bool,
    /// The present queue pair: its type, state and handle, and the answer to QUERY_QP.
    present: Option<(u32, u32, u64, Vec<u8>)>,
}

/// The bits of a mask with which a queue pair of a type can change to a state.
fn needed(kind: u32, to: u32) -> u32 {
    let path = 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12;
    let retries = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13;
    1 | match (to, kind) {
        (1, 4) => 1 << 4 | 1 << 5 | 1 << 6,
        (1, _) => 1 << 3 | 1 << 4 | 1 << 5,
        (2, 4) => 0,
        (2, 2 | 10) => path | 1 << 17 | 1 << 15,
        (2, _) => path,
        (3, 2 | 9) => 1 << 16 | retries,
        (3, 10) => 1 << 16 | 1 << 9,
        (3, _) => 1 << 16,
        _ => 0,
    }
}

impl<'a> ByCommands<'a> {
    /// Changes by the commands of a device.
    pub fn new(device: &'a mut dyn Device) -> ByCommands<'a> {
        ByCommands {
            device,
            is_open: false,
            present: None,
        }
    }

    fn give(
        &mut self,
        command: Command,
        length: usize,
        fields: &[Field],
        room: usize,
    ) -> Checked<Vec<u8>> {
        let mut request = vec![0; length];
        for field in fields {
            put(&mut request, *field);
        }
        let answer = self
            .device
            .call(&frame(command, false, &request, room), room);
        answer.map_err(|errno| format!("{command:?}: {errno}"))
    }

    fn open(&mut self) -> Checked {
        self.device.open()?;
        self.give(GetContext, 8, &[], 8)?;
        self.give(Command::AllocPd, 8, &[], 4)?;
        self.give(CreateCq, 32, &[(16, 4, 64), (24, 4, 0xffff_ffff)], 8)?;
        self.give(
            OpenXrcd,
            16,
            &[(8, 4, 0xffff_ffff), (12, 4, 0x0200_0000)],
            4,
        )?;
        self.is_open = true;
        Ok(())
    }

    fn query(&mut self, handle: u64) -> Checked<Vec<u8>> {
        self.give(QueryQp, 16, &[(8, 4, handle)], 128)
    }

    /// Makes a change with valid values for all attributes.
    fn modify(&mut self, handle: u64, change: Change) -> Result<(), crate::errno::Errno> {
        let mut request = vec![0; 112];
        for field in [
            (64, 4, handle),
            (68, 4, u64::from(change.mask)),
            (20, 2, 1),
            (31, 1, 1),
            (52, 2, 1),
            (63, 1, 1),
            (72, 4, 0x1111),
            (84, 4, 0x44_0000),
            (88, 4, 7),
            (96, 1, u64::from(change.to)),
            (97, 1, u64::from(change.from)),
            (98, 1, 5),
            (101, 1, 1),
            (102, 1, 1),
            (103, 1, 12),
            (104, 1, 1),
            (105, 1, 14),
            (106, 1, 7),
            (107, 1, 7),
            (108, 1, 1),
            (109, 1, 14),
        ] {
            put(&mut request, field);
        }
        let bytes = frame(ModifyQp, false, &request, 0);
        self.device.call(&bytes, 0).map(drop)
    }

    /// Makes a queue pair of this type in this state; `None` if no queue pair can be in it.
    fn place(&mut self, kind: u32, state: u32) -> Checked<Option<(u64, Vec<u8>)>> {
        if let Some((of, at, handle, view)) = &self.present {
            if (*of, *at) == (kind, state) {
                return Ok(Some((*handle, view.clone())));
            }
            let handle = *handle;
            self.present = None;
            self.give(DestroyQp, 16, &[(8, 4, handle)], 4)?;
        }
        // A failing send leads to SQE, on the types that have that state.
        if state == 5 && !matches!(kind, 3 | 4) {
            return Ok(None);
        }
        if !self.is_open {
            self.open()?;
        }
        let domain = if kind == 10 { XRCD } else { PD };
        let fields = [
            (16, 4, domain),
            (20, 4, CQ),
            (24, 4, CQ),
            (32, 4, 4),
            (36, 4, 4),
            (40, 4, 1),
            (44, 4, 1),
            (53, 1, u64::from(kind)),
        ];
        let made = self.give(CreateQp, 56, &fields, 32)?;
        let handle = u64::from(u32::from_le_bytes(*made.first_chunk().ok_or("no handle")?));
        let steps: &[u32] = match state {
            0 => &[],
            1 => &[1],
            2 => &[1, 2],
            3 | 5 => &[1, 2, 3],
            4 => &[1, 2, 3, 4],
            _ => &[1, 6],
        };
        for (step, to) in steps.iter().enumerate() {
            let change = Change {
                kind,
                from: step as u32,
                to: *to,
                mask: needed(kind, *to),
            };
            let done = self.modify(handle, change);
            done.map_err(|errno| format!("on the way to {state}: {errno}"))?;
        }
        if state == 5 {
            // A send of one byte with an invalid key.
            let fields = [
                (8, 4, handle),
                (12, 4, 1),
                (16, 4, 1),
                (20, 4, 56),
                (32, 4, 1),
                (36, 4, 2),
                (40, 4, 2),
                (48, 8, 0),
                (88, 4, 1),
            ];
            match kind {
                4 => self.too_long(handle)?,
                _ => self.give(PostSend, 96, &fields, 4).map(drop)?,
            }
        }
        let mut view = self.query(handle)?;
        for _ in 0..LOOKS {
            if u32::from(view.get(108).copied().unwrap_or_default()) == state {
                self.present = Some((kind, state, handle, view.clone()));
                return Ok(Some((handle, view)));
            }
            view = self.query(handle)?;
        }
        Err(format!("type {kind} does not come to state {state}"))
    }

    /// Posts a datagram that fails for a local reason; it needs an address.
    fn too_long(&mut self, handle: u64) -> Checked {
        let fields = [(16, 4, PD), (48, 2, 1), (54, 1, 1)];
        let made = self.give(Command::CreateAh, 56, &fields, 4)?;
        let address = u64::from(u32::from_le_bytes(*made.first_chunk().ok_or("no handle")?));
        let fields = [
            (8, 4, handle),
            (12, 4, 1),
            (16, 4, 1),
            (20, 4, 56),
            (32, 4, 1),
            (36, 4, 2),
            (40, 4, 2),
            (48, 4, address),
            (52, 4, 7),
            (56, 4, 0x1111),
            (88, 4, 1),
        ];
        self.give(PostSend, 96, &fields, 4)?;
        self.give(Command::DestroyAh, 4, &[(0, 4, address)], 0)
            .map(drop)
    }
}

impl Changes for ByCommands<'_> {
    fn attempt(&mut self, change: Change) -> Checked<Option<bool>> {
        let Some((handle, before)) = self.place(change.kind, change.from)? else {
            return Ok(None);
        };
        match self.modify(handle, change) {
            Ok(()) => {
                let now = self.query(handle)?;
                self.present = None;
                self.give(DestroyQp, 16, &[(8, 4, handle)], 4)?;
                let state = now.get(108).copied().unwrap_or_default();
                match u32::from(state) == change.to {
                    true => Ok(Some(true)),
                    false => Err(format!("{change:?} led to {state}")),
                }
            }
            Err(errno) => {
                let unknown = change.mask >> 25 & 1 == 1;
                if errno != EINVAL && !unknown {
                    return Err(format!("{change:?}: {errno}"));
                }
                match self.query(handle)? == before {
                    true => Ok(Some(false)),
                    false => Err(format!("{change:?} was refused and changed something")),
                }
            }
        }
    }
}
