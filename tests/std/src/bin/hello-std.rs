//! The smallest program of its kind: its size and start are measured beside those of other kinds.

fn main() {
    println!("hello");
}
