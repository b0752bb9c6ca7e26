//! Runs of scripts on nodes: the lines of their consoles, the run, and the verdict.

pub mod console_protocol;
pub mod suite_run;
pub mod suites;
