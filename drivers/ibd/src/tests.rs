//! Tests of the commands: a program that writes them, and the tables of what each does.

mod errors;
mod fixture;
mod flow;
mod frames;
mod mads;
mod paths;
pub mod peers;
mod posting;
mod queue_errors;
mod reports;
