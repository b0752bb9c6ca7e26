//! The common part of the test programs: steps that say how they end.

/// Runs a step; a panic in it is reported and fails the program.
pub fn step(name: &str, action: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    let passed = std::panic::catch_unwind(action).is_ok();
    println!("STEP {name}: {}", if passed { "ok" } else { "FAIL" });
    passed
}

/// The program's status: how many steps failed, at most 100.
pub fn status(passed: &[bool]) -> i32 {
    passed.iter().filter(|passed| !**passed).count().min(100) as i32
}
