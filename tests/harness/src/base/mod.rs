//! The modules that all other parts use: reports, settings, paths, descriptions in `config/`,
//! packages of the system, and calls of cargo.

pub mod cargo;
pub mod config;
pub mod packages;
pub mod priority;
pub mod report;
pub mod run_directory;
pub mod settings;
pub mod workspace;
