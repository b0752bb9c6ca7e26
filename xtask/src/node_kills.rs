//! `node-kills`: boots two nodes and cuts the power of the second one again and again in the
//! middle of transfers of all kinds; the first one counts what is left of it. The programs are
//! `scif-loss` (tests/guest/src/bin/scif-loss).

use crate::build::Contents;
use crate::report::Result;
use crate::run;
use crate::script::{self, Printer};
use crate::settings::Settings;
use std::time::Duration;

/// Kills unless COUNT= says otherwise.
const COUNT: u64 = 100;
/// How long one kill may take, with the load before and the boot behind it.
const LIMIT_S: u64 = 120;

/// The command.
pub fn command(settings: &Settings) -> Result<()> {
    let count = settings.count()?.unwrap_or(COUNT);
    let parts = run::prepare(settings, Contents::Tests)?;
    let limit = Duration::from_secs((count + 1) * LIMIT_S);
    let mut run = run::run_of("node-kills", settings, limit)?;
    run.nodes = 2;
    let conduct =
        format!("scif-loss kills {count}\nstatus=$?\necho \"LAUNCHER kill 1\"\nexit \"$status\"\n");
    run.scripts.insert(0, conduct.into_bytes());
    run.scripts.insert(1, b"scif-loss serve\n".to_vec());
    let outcome = run.execute(&parts, &mut Printer)?;
    script::conclude(&outcome)
}
