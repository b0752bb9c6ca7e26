//! `sim`: runs the protocol simulator for a number of seeds, or for one seed to repeat a failure.

use harness::base::cargo;
use harness::base::report::{Context, Failure, Result};
use harness::base::settings::Settings;

/// Number of seeds that are run by default.
const USUAL_SEEDS: u64 = 200;

/// Runs the command: the simulator's program, with the first seed and the number of seeds.
pub fn command(settings: &Settings) -> Result<()> {
    let seed = settings.seed()?;
    let usual = if seed.is_some() { 1 } else { USUAL_SEEDS };
    let seeds = settings.seeds()?.unwrap_or(usual);
    let mut command = cargo::in_project();
    command.args(["run", "--profile=sim", "--quiet", "--package=sim", "--"]);
    command.args([seed.unwrap_or(0).to_string(), seeds.to_string()]);
    let status = command.status().context(|| "start cargo".to_string())?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::silent(1)),
        _ => Err(format!("the simulator ended with {status}").into()),
    }
}
