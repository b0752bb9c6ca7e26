//! `sim`: runs the protocol simulator with a seed of one's own, to repeat a failure.

use crate::report::{Context, Failure, Result};
use crate::settings::Settings;
use crate::toolchain;
use crate::workspace;
use std::process::Command;

/// The command: the simulator's tests, with the seed and the number of runs in the environment.
pub fn command(settings: &Settings) -> Result<()> {
    let mut command = toolchain::clean(Command::new("cargo"));
    command.current_dir(workspace::root());
    command.args(["test", "--release", "--package", "sim", "--", "--nocapture"]);
    for (key, variable) in [("SEED", "SKIFF_SIM_SEED"), ("RUNS", "SKIFF_SIM_RUNS")] {
        if let Some(number) = settings.simulation(key)? {
            command.env(variable, number.to_string());
        }
    }
    let status = command.status().context(|| "start cargo".to_string())?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::silent(1))
    }
}
