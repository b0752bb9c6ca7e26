//! `id`: prints user and group.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;

use tools::io;

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let (user, group) = (io::own_user(), io::own_group());
    let text = match arguments.as_slice() {
        [] => format!(
            "uid={user}({}) gid={group}({})\n",
            io::user_name(user),
            io::user_name(group)
        ),
        [word] if word == "-u" => format!("{user}\n"),
        [word] if word == "-g" => format!("{group}\n"),
        [word, ..] => return io::usage(Some(word)),
    };
    match io::output(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) => io::output_failed("id", error),
    }
}
