//! Tells the linker the kernel's addresses (linker.ld).

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rerun-if-changed=linker.ld");
    println!("cargo::rustc-link-arg-bins=-T{dir}/linker.ld");
    println!("cargo::rustc-link-arg-bins=--no-dynamic-linker");
    println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
}
