//! The share of the processors that a thread has, and all programs that it starts.

use crate::base::report::{Context, Result};

/// The least share that there is on Linux.
const LEAST: i32 = 19;

/// From here on this thread and what it starts only take what others leave.
///
/// # Errors
/// The system's.
pub fn give_way() -> Result<()> {
    // On Linux "the own process" is the own thread here.
    rustix::process::setpriority_process(None, LEAST)
        .context(|| format!("set the own priority to {LEAST}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The priority of a program that is started now.
    fn inherited() -> String {
        let output = Command::new("nice").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    #[test]
    fn a_thread_gives_way_alone() {
        let before = inherited();
        let there = std::thread::spawn(|| {
            give_way().unwrap();
            inherited()
        });
        assert_eq!(there.join().unwrap(), LEAST.to_string());
        assert_eq!(inherited(), before);
    }
}
