//! Links bootstrap as the first program of an image: flat, at the address where the packer puts
//! it.

fn main() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../lib/os/runtime/flat.ld"
    );
    println!("cargo::rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("redox") {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}
