//! micd's x100 backend against the model.

mod bad;
mod boot;
mod both;
mod copies;
mod log;
mod offsets;
mod redox;
mod storm;
mod talk;
mod traps;
