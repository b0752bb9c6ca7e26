//! Runs the conformance suite in the place `sim`, one line a case. An argument selects cases whose
//! name contains it.

mod simulated;

use std::process::ExitCode;

use simulated::Simulated;

fn main() -> ExitCode {
    // Arguments for the usual test harness are ignored.
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let mut driver = Simulated::new();
    let totals = conformance::run(&mut driver, only.as_deref().unwrap_or(""), &mut |line| {
        println!("{line}");
    });
    ExitCode::from(u8::from(!totals.is_success()))
}
