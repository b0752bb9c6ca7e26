//! `start NODE=n`: boots a node that is off in the machine that `make run` runs in another
//! terminal.

use crate::base::report::Result;
use crate::base::settings::Settings;
use crate::command::console;
use crate::node::{logs, start_requests};

/// The command.
pub fn command(settings: &Settings) -> Result<()> {
    let node = settings.node()?;
    let directory = console::choose(&logs::running()?, settings.run())?;
    start_requests::ask(&directory, node)?;
    eprintln!("node {node} boots; its console: make console NODE={node}");
    Ok(())
}
