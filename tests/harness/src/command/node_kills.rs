//! `node-kills`: boots two nodes and cuts the power of the second one again and again in the
//! middle of transfers of all kinds; the first one counts what is left of it. The programs are
//! `scif-loss` (tests/guest/src/bin/scif-loss).

use crate::base::report::{Context, Result};
use crate::base::settings::Settings;
use crate::base::workspace;
use crate::node::image::{Builder, Contents, prepare};
use crate::suite::suite_run::{self, Printer, Run};
use std::time::Duration;

/// Kills unless COUNT= says otherwise.
const COUNT: u64 = 100;
/// How long one kill may take, with the load before and the boot behind it.
const LIMIT_S: u64 = 120;

/// The script of the node that is killed, as in the suite of this name. Its heart must beat as
/// often as the first one expects.
const VICTIM: &str = "tests/guest/scripts/loss-1.sh";

/// The command.
pub fn command(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    let count = settings.count()?.unwrap_or(COUNT);
    let limit = Duration::from_secs((count + 1) * LIMIT_S);
    let mut run = Run::new("node-kills", settings, limit)?;
    run.nodes = 2;
    let conduct =
        format!("scif-loss kills {count}\nstatus=$?\necho \"LAUNCHER kill 1\"\nexit \"$status\"\n");
    let victim = std::fs::read_to_string(workspace::root().join(VICTIM));
    let victim = victim.context(|| format!("read {VICTIM}"))?;
    let scripts = [conduct.as_str(), &victim];
    let contents = Contents::named_in(settings.purpose()?, scripts);
    let image = prepare(builder, settings, &contents)?;
    for (node, script) in scripts.iter().enumerate() {
        run.scripts.insert(node, script.as_bytes().to_vec());
    }
    let outcome = run.execute(&*image, &mut Printer)?;
    suite_run::conclude(&outcome)
}
