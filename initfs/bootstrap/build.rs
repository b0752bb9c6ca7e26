//! Links bootstrap as a flat image for a fixed address instead of as an ordinary program.

fn main() {
    println!("cargo:rerun-if-changed=bootstrap.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("redox") {
        let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".into());
        println!("cargo:rustc-link-arg-bins=-T{directory}/bootstrap.ld");
    }
}
