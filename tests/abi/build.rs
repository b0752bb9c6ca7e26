//! Links the test as the first program of an image: flat, at the place the packer puts it.
fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/os/runtime/flat.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rustc-link-arg-bins=-T{script}");
}
