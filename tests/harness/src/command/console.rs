//! `console NODE=n`: attaches this terminal to a node of the machine that `make run` runs in
//! another terminal.

use crate::base::report::{Context, Result};
use crate::base::settings::{MAX_NODES, Settings};
use crate::command::terminal::{self, Raw};
use crate::node::logs;
use crate::node::machine;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The directory of the sockets of one of the runs that go on.
pub(super) fn choose(runs: &[(String, PathBuf)], wanted: Option<&str>) -> Result<PathBuf> {
    let names: Vec<_> = runs.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(", ");
    match (runs, wanted) {
        ([], _) => {
            Err("no machine runs here: start one with `make run` in another terminal".into())
        }
        (runs, Some(wanted)) => match runs.iter().find(|(name, _)| name == wanted) {
            Some((_, directory)) => Ok(directory.clone()),
            None => Err(format!("RUN={wanted}: does not run; there is {names}").into()),
        },
        ([(_, directory)], None) => Ok(directory.clone()),
        (_, None) => Err(format!("several machines run: add RUN=, which is one of {names}").into()),
    }
}

/// The command.
pub fn command(settings: &Settings) -> Result<()> {
    let node = settings.node()?;
    let directory = choose(&logs::running()?, settings.run())?;
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
    if terminal::present() {
        let mut sizes = keyboard
            .try_clone()
            .context(|| "share a connection".to_string())?;
        terminal::follow_size(move |report| sizes.write_all(report).is_ok());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_several_runs_one_must_be_named() {
        let run = |name: &str| (name.to_string(), PathBuf::from(format!("/{name}")));
        let runs = [run("run"), run("run-2")];
        assert!(choose(&[], None).is_err());
        assert_eq!(choose(&runs[..1], None).unwrap(), PathBuf::from("/run"));
        let message = choose(&runs, None).unwrap_err().message;
        assert!(message.ends_with("one of run, run-2"), "{message}");
        let second = choose(&runs, Some("run-2")).unwrap();
        assert_eq!(second, PathBuf::from("/run-2"));
        assert!(choose(&runs, Some("run-3")).is_err());
    }
}
