//! What an ordinary user must not be able to do.

use guest_tests::Suite;
use libredox::Fd;
use runtime::process::{self, Command};
use runtime::{fd, fs, path, state};
use syscall::error::{EACCES, EPERM};

use crate::errno;

/// An ordinary user.
const USER: u32 = 1000;

/// Has a process of an ordinary user try it.
pub fn limits(suite: &mut Suite) {
    let user = Command::new("process-test")
        .arg("user")
        .uid(USER)
        .gid(USER)
        .spawn();
    let user = user
        .and_then(|mut child| child.wait())
        .map(|status| status.success());
    suite.equal(
        "a user's limits",
        user.map_err(|error| error.errno),
        Ok(true),
    );
}

/// Runs as an ordinary user.
pub fn run() -> i32 {
    let mut suite = Suite::new("process-test user");
    suite.equal("user id", process::own_meta().euid, USER);
    suite.equal("kill of init", errno(process::kill(1, 9)), EPERM);
    let root = process::set_ids(state::proc_fd(), Some(0), None);
    suite.equal("becoming root", errno(root), EPERM);
    let child = Command::new("process-test")
        .args(["exit", "0"])
        .uid(0)
        .spawn();
    suite.equal("a child of root", errno(child), EPERM);
    let capability = path::open("/scheme/namespace/scheme-creation-cap", 0).map(Fd::new);
    let scheme = capability.and_then(|cap| fd::dup(cap.raw(), b"create-scheme"));
    suite.equal("creating a scheme", errno(scheme), EACCES);
    let init = path::open("/scheme/proc/init", syscall::O_RDWR);
    suite.equal("the handle of init", errno(init), EACCES);
    for name in ["auth-3-attrs", "auth-3-status"] {
        let result = fd::dup(state::thread_fd(), name.as_bytes());
        suite.equal("the manager's own rights", errno(result), EPERM);
    }
    suite.equal("the debug port", fs::read("/scheme/debug").is_err(), true);
    suite.finish()
}
