//! Process groups and sessions of what init starts.

use alloc::vec::Vec;

use guest_tests::Suite;
use libredox::protocol::ProcCall;
use runtime::{fd, state};

use crate::processes;

/// A signal to our group, or to all processes, does not meet the services.
pub fn services(suite: &mut Suite) {
    let group = |pid: u64| {
        let words = [ProcCall::Setpgid as u64, pid, u64::MAX];
        fd::call(state::proc_fd(), &words).map_err(|error| error.errno)
    };
    let own = group(0);
    suite.equal("own group", own.is_ok_and(|group| group > 1), true);
    let session = |pid: u64| {
        let words = [ProcCall::Getsid as u64, pid];
        fd::call(state::proc_fd(), &words).map_err(|error| error.errno)
    };
    for name in ["zerod", "ramfs", "micd"] {
        let services = processes().into_iter();
        let services = services.filter(|line| line.len() == 5 && line[4] == name);
        let groups: Vec<_> = services
            .filter_map(|line| line[0].parse().ok())
            .map(|pid| (group(pid) == Ok(pid as usize), session(pid) == session(1)))
            .collect();
        let first = groups.first().copied();
        suite.equal("a service leads its group", first, Some((true, true)));
    }
    suite.equal("own session", session(0) == session(1), false);
}
