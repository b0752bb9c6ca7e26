//! `console NODE=n`: attaches this terminal to a node of the machine that `make run` runs in
//! another terminal.

use crate::machine;
use crate::report::{Context, Result};
use crate::settings::{MAX_NODES, Settings};
use crate::terminal::{self, Raw};
use crate::workspace::{self, Place};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The file that names the running machine's directory.
fn record() -> Result<PathBuf> {
    Ok(workspace::make(Place::Run)?.join("current"))
}

/// Says where the consoles of the machine that runs now are.
pub fn announce(machine: &machine::Machine) -> Result<()> {
    let path = record()?;
    std::fs::write(&path, machine.directory().display().to_string())
        .context(|| format!("write {}", path.display()))
}

/// The command.
pub fn command(settings: &Settings) -> Result<()> {
    let node = settings.node()?;
    let nothing_runs = "no machine runs here: start one with `make run` in another terminal";
    let directory = std::fs::read_to_string(record()?).map_err(|_| nothing_runs.to_string())?;
    let directory = PathBuf::from(directory.trim());
    if !directory.is_dir() {
        return Err(nothing_runs.into());
    }
    let path = machine::console_path(&directory, node);
    let mut stream = UnixStream::connect(&path).map_err(|error| {
        let nodes: Vec<_> = (0..MAX_NODES)
            .filter(|node| machine::console_path(&directory, *node).exists())
            .map(|node| node.to_string())
            .collect();
        format!(
            "NODE={node}: cannot attach ({error}); the running machine offers the consoles of \
             the nodes {}",
            nodes.join(", ")
        )
    })?;
    eprintln!("attached to node {node}; leave with Ctrl-]");
    let _raw = if terminal::present() {
        Some(Raw::enter()?)
    } else {
        None
    };
    let mut keyboard = stream
        .try_clone()
        .context(|| "share a connection".to_string())?;
    std::thread::spawn(move || {
        terminal::read_keys(|keys| keyboard.write_all(keys).is_ok());
        let _ = keyboard.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 4096];
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            break;
        }
        terminal::show(&buffer[..count]);
    }
    Ok(())
}
