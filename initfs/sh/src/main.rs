//! sh
fn main() {}
