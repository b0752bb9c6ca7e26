//! `as uid program [argument…]`: runs a program as another user and group (root only).
#![no_std]
#![no_main]

use runtime::process::Command;
use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (uid, name, rest) = match io::behind_dashes(&arguments) {
        [uid, name, rest @ ..] => match uid.parse() {
            Ok(uid) => (uid, name, rest),
            Err(_) => {
                runtime::eprintln!("as: `{uid}` is not a user id");
                return 2;
            }
        },
        _ => return io::usage(None),
    };
    let mut command = Command::new(name);
    command.args(rest).uid(uid).gid(uid);
    // It becomes the program, so that signals for it reach the program.
    let error = command.exec();
    io::report("as", name, error);
    if error.errno == syscall::ENOENT {
        127
    } else {
        126
    }
}
