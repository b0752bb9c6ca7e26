//! Stops a process while another action runs, and lets it continue afterwards.

use crate::base::report::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the threads of a QEMU may take to stop: one that waits for a disk is late.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between two checks whether all threads have stopped.
const POLL: Duration = Duration::from_millis(5);

/// Runs `body` while no thread of the process runs. The reference to the child keeps its number
/// from being reused.
pub fn during<T>(child: &Child, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let signal = |signal| {
        let sent = kill_process(Pid::from_child(child), signal);
        sent.context(|| format!("stop and continue process {}", child.id()))
    };
    signal(Signal::STOP)?;
    let result = wait_for_stop(child.id()).and_then(|()| body());
    signal(Signal::CONT)?;
    result
}

/// Waits until a process has stopped after the signal. When `kill` returns, the signal is only
/// sent: each thread runs until it takes it.
fn wait_for_stop(process: u32) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !stands_still(process)? {
        if Instant::now() > deadline {
            return Err(format!(
                "process {process} still runs {} s after SIGSTOP",
                LIMIT.as_secs()
            )
            .into());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Whether no thread of a process runs.
fn stands_still(process: u32) -> Result<bool> {
    let path = format!("/proc/{process}/task");
    let failed = || format!("read {path}");
    for task in std::fs::read_dir(&path).context(failed)? {
        let task = task.context(failed)?.path();
        // A thread that has ended meanwhile has no state.
        let stat = std::fs::read_to_string(task.join("stat"));
        if stat.is_ok_and(|stat| !is_stopped(&stat)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the file `stat` of a thread says that it is stopped, or has ended.
fn is_stopped(stat: &str) -> bool {
    // The state follows the name, which is in parentheses and may hold anything.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_waited_for_until_it_stands_still() {
        assert!(is_stopped("12 (a) R (b) T 1 1 0"));
        assert!(!is_stopped("12 (T) S 1 1 0"));
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        assert!(!stands_still(child.id()).unwrap());
        let stood_still = during(&child, || stands_still(child.id()));
        let goes_on = (0..1000).any(|_| {
            std::thread::sleep(POLL);
            !stands_still(child.id()).unwrap()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stood_still.unwrap() && goes_on);
        assert!(stands_still(child.id()).is_err());
    }
}
