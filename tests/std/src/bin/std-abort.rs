//! A program that panics, built with panics that abort: the signal ends it, and no destructor runs.

/// Ends the program with a status that is none of a panic's.
struct Destroyed;

impl Drop for Destroyed {
    fn drop(&mut self) {
        std::process::exit(3);
    }
}

fn main() {
    let _destroyed = Destroyed;
    panic!("no more of it");
}
