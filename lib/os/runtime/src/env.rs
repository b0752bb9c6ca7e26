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
    // A panic can happen while the list is held; a message without a name is better than none.
    let Some(args) = ARGS.try_lock() else {
        return String::from("?");
    };
    match args.first() {
        Some(first) => String::from(first.rsplit('/').next().unwrap_or(first)),
        None => String::from("?"),
    }
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

/// Sets a variable for this process and the children it starts from now on.
pub fn set_var(name: &str, value: &str) {
    environment(
        |env| match env.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => env.push((name.into(), value.into())),
        },
    );
}
