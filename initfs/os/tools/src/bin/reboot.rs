//! `reboot`: starts the machine again (root only).
#![no_std]
#![no_main]

use tools::power;

tools::main!(main);

fn main() -> i32 {
    power::run("reboot", "reset")
}
