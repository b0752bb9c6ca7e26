//! A device of `ibd` in this process, and the rules for changes of state without a device.

use conformance::errno::{EFAULT, Errno};
use conformance::verbs::bench::Checked;
use conformance::verbs::commands::{Device, GONE};
use conformance::verbs::transitions::{Change, Changes, STATES, TYPES};
use ibd::context::Owner;
use ibd::device::ContextId;
use verbs_abi::frame::Frame;
use verbs_core::transition::check;
use verbs_core::types::{AttributeMask, QpState, QpType};

/// The work of the daemon around commands.
pub struct Local {
    device: ibd::device::Device,
    context: Option<ContextId>,
    now: u64,
}

/// A user.
const OWNER: Owner = Owner { pid: 7, uid: 1000 };

impl Default for Local {
    fn default() -> Local {
        Local {
            device: ibd::device::Device::new(0),
            context: None,
            now: 0,
        }
    }
}

impl Local {
    fn execute(&mut self, bytes: &[u8], is_exact: bool) -> Result<Vec<u8>, Errno> {
        self.now += 1000;
        let context = self.context.ok_or(GONE)?;
        let (answer, result) = self.device.execute(context, bytes, is_exact, self.now);
        self.device.progress(self.now);
        result.map_err(|error| Errno(error.errno))?;
        Ok(answer)
    }
}

impl Device for Local {
    fn open(&mut self) -> Checked {
        if let Some(context) = self.context.take() {
            self.device.close(context);
        }
        let left = self.present()?;
        if left.iter().any(|count| *count > 0) {
            return Err(format!("left behind: {left:?}"));
        }
        let opened = self.device.open(OWNER);
        self.context = Some(opened.map_err(|error| format!("open: {error}"))?);
        Ok(())
    }

    fn call(&mut self, bytes: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
        let mut payload = bytes.to_vec();
        payload.resize(bytes.len().max(room), 0);
        let frame = Frame::read(&payload, false);
        if frame.is_ok_and(|frame| frame.room() > payload.len()) {
            return Err(EFAULT);
        }
        self.execute(&payload, false)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.execute(bytes, true).map(|_| bytes.len())
    }

    fn present(&mut self) -> Checked<Vec<u64>> {
        let Some(ibd::files::Found::Text(index)) = ibd::files::find("stats") else {
            return Err("no stats".into());
        };
        let viewer = ibd::files::Viewer { uid: 0 };
        let text = ibd::files::text(index, &self.device, viewer);
        Ok(conformance::verbs::commands::present(&text))
    }

    fn gone(&mut self) -> Checked<Option<Errno>> {
        if let Some(context) = self.context {
            self.device.close(context);
        }
        Ok(Some(GONE))
    }

    fn is_root(&self) -> bool {
        OWNER.uid == 0
    }
}

/// The rules of `verbs-core`.
pub struct Rules;

impl Changes for Rules {
    fn attempt(&mut self, change: Change) -> Checked<Option<bool>> {
        let state = |number: u32| QpState::ALL[number as usize];
        let kind = QpType::ALL
            .into_iter()
            .find(|kind| *kind as u32 == change.kind);
        let kind = kind.ok_or("no such type")?;
        let mask = AttributeMask::from_bits_retain(change.mask);
        let answer = |mask| check(state(change.from), state(change.to), kind, mask).is_ok();
        let without = AttributeMask::from_bits_retain(change.mask & !1);
        // It must make no difference whether the state is given as well.
        match answer(mask) == answer(without) {
            true => Ok(Some(answer(mask))),
            false => Err(format!("{change:?}: STATE decides")),
        }
    }
}

/// Checks that names and numbers are those of the rules.
pub fn numbers() -> Checked {
    for (number, name) in (0..).zip(STATES) {
        let known = QpState::ALL
            .into_iter()
            .find(|state| *state as u32 == number);
        let found = known.map(|state| format!("{state:?}").to_uppercase());
        if found.as_deref() != Some(name) {
            return Err(format!("{number}: {found:?}, not {name}"));
        }
    }
    for (name, number) in TYPES {
        let known = QpType::ALL.into_iter().find(|kind| *kind as u32 == number);
        let found = known.map(|kind| conformance::verbs::names::in_c(&kind));
        if found.as_deref() != Some(name) {
            return Err(format!("{number}: {found:?}, not {name}"));
        }
    }
    for bit in (21..25).chain(26..32) {
        let mask = AttributeMask::from_bits_retain(1 << bit);
        for (from, to) in QpState::ALL
            .into_iter()
            .zip(QpState::ALL.into_iter().cycle().skip(1))
        {
            for kind in QpType::ALL {
                if check(from, to, kind, mask).is_ok() {
                    return Err(format!("bit {bit} is accepted"));
                }
            }
        }
    }
    Ok(())
}
