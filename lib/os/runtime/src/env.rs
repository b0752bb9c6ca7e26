//! Arguments, environment variables and the current directory, after `std::env`.

use alloc::string::String;
use alloc::vec::{IntoIter, Vec};

use crate::sync::Mutex;

pub use crate::path::{current_dir, set_current_dir};

static ARGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ENVIRONMENT: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

pub(crate) fn set_args(args: Vec<String>) {
    *ARGS.lock() = args;
}

/// Locks arguments and variables as long as the result lives.
#[cfg(not(feature = "std"))]
pub(crate) fn hold() -> impl Sized {
    (ARGS.lock(), ENVIRONMENT.lock())
}

/// Runs `action` on the environment.
pub(crate) fn environment<T>(action: impl FnOnce(&mut Vec<(String, String)>) -> T) -> T {
    action(&mut ENVIRONMENT.lock())
}

/// The program's arguments; the first is its own name.
pub fn args() -> IntoIter<String> {
    ARGS.lock().clone().into_iter()
}

/// The program's short name for messages: the last part of its first argument.
pub fn program_name() -> String {
    with_program_name(|name| String::from(name))
}

/// Calls `action` with the [`program_name`], and takes no memory.
pub(crate) fn with_program_name<T>(action: impl FnOnce(&str) -> T) -> T {
    // A panic can happen while the list is held; a message without a name is better than none.
    let args = ARGS.try_lock();
    let first = args.as_ref().and_then(|args| args.first());
    action(first.map_or("?", |first| first.rsplit('/').next().unwrap_or(first)))
}

/// For services, which scripts start and people rarely do: answers `--help` and `--version`, and
/// reports the first argument beyond `most`. Returns the exit status in each of these cases.
pub fn answer_people(arguments: &str, purpose: &str, most: usize) -> Option<i32> {
    let name = program_name();
    let usage = alloc::format!("usage: {name} {arguments}");
    let words: Vec<String> = args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--help") => crate::println!("{}\n\n{purpose}", usage.trim_end()),
        Some("--version") => crate::println!("{name} (Skiff) {}", env!("CARGO_PKG_VERSION")),
        _ => {
            let wrong = words.get(most)?;
            crate::eprintln!("{name}: `{wrong}` is not understood\n{}", usage.trim_end());
            return Some(2);
        }
    }
    Some(0)
}

/// The value of a variable.
pub fn var(name: &str) -> Option<String> {
    environment(|env| {
        env.iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    })
}

/// All variables.
pub fn vars() -> Vec<(String, String)> {
    environment(|env| env.clone())
}

/// Removes all variables.
pub fn clear_vars() {
    environment(Vec::clear);
}

/// Sets a variable for this process and the children it starts from now on.
pub fn set_var(name: &str, value: &str) {
    environment(
        |env| match env.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => env.push((name.into(), value.into())),
        },
    );
}
