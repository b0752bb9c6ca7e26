//! The command line of `scifrun`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use scif_abi::NodeId;

use crate::protocol::is_plain_name;

/// The text of `--help`.
pub const HELP: &str = "\
usage: scifrun [OPTION…] NODE PROGRAM [ARGUMENT…]

Runs a program on another node, as ssh does, or on this one: standard input goes
to it, its output and errors come back, and its exit status is scifrun's. A PROGRAM
with a slash is a file of this node and is sent; one without is found there by
PATH. ^C, or any other end of scifrun, ends the program and all it has started.
Only root may do so.

NODE is a number, `host`, or `card1` or `node1` for node 1.

  -f FILE[:NAME]   send a file, too; the program runs in a directory of its own
                   that holds the files, and goes with it in the end
  -g NAME[:FILE]   get this file of the directory when the program has ended
  -e NAME=VALUE    set a variable of the program
  -d DIRECTORY     run in this directory of the node; not with files, nor with a
                   PROGRAM that is sent
  -u UID           run as this user and group
  -r               PROGRAM is a path of the node: do not send it
  -c               PROGRAM and ARGUMENTs together are one command line for the
                   node's shell, as with ssh; rsh does the same
  -n               no standard input
  -h, --help       print this
  -V, --version    print the version

Exit status: the program's, 128 and the signal that ended it, 127 when it was not
found, 126 when it cannot be run, 255 when the node cannot be reached, 1 when a
file or stream here fails, 2 for wrong arguments.
";

/// A file to send or to get: its path on this node, and its name on the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The path on this node.
    pub path: String,
    /// The name on the other node, in the directory of the run.
    pub name: String,
}

/// What to run, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The node.
    pub node: u16,
    /// The program and its arguments, as sent to the node.
    pub arguments: Vec<String>,
    /// Files to send. If the program is sent, it is the last one.
    pub send: Vec<Transfer>,
    /// Files to get after the program's end.
    pub get: Vec<Transfer>,
    /// Variables of the program, each as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// The node's directory to run in; empty if none was given.
    pub directory: String,
    /// The user id, which is also used as group id.
    pub user: u32,
    /// Whether standard input is not passed on.
    pub no_input: bool,
}

/// The parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run a program.
    Run(Options),
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// Parses the words after the program's name.
///
/// # Errors
/// The error, as text for people.
pub fn parse(words: &[String]) -> Result<Command, String> {
    let mut options = Options::default();
    let (mut is_remote, mut is_command_line) = (false, false);
    let mut words = words.iter();
    let node = loop {
        let word = words.next().ok_or("NODE and PROGRAM are missing")?;
        let mut value = |what: &str| {
            let value = words.next().cloned();
            value.ok_or_else(|| format!("{word} needs {what}"))
        };
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "-V" | "--version" => return Ok(Command::Version),
            "-f" => {
                let (path, name) = split(&value("a FILE")?);
                let name = name.unwrap_or_else(|| last_part(&path));
                options.send.push(transfer(path, name)?);
            }
            "-g" => {
                let (name, path) = split(&value("a NAME")?);
                let path = path.unwrap_or_else(|| name.clone());
                options.get.push(transfer(path, name)?);
            }
            "-e" => {
                let pair = value("NAME=VALUE")?;
                if pair.split_once('=').is_none_or(|(name, _)| name.is_empty()) {
                    return Err(format!("-e {pair}: NAME=VALUE is expected"));
                }
                options.environment.push(pair);
            }
            "-d" => options.directory = value("a DIRECTORY")?,
            "-u" => {
                let user = value("a UID")?;
                options.user = user
                    .parse()
                    .map_err(|_| format!("-u {user}: a number is expected"))?;
            }
            "-r" => is_remote = true,
            "-c" => is_command_line = true,
            "-n" => options.no_input = true,
            "--" => break words.next().ok_or("NODE and PROGRAM are missing")?,
            _ if word.starts_with('-') => return Err(format!("`{word}` is not understood")),
            _ => break word,
        }
    };
    options.node = node_of(node).ok_or_else(|| {
        format!(
            "`{node}` is no node: give a number, host, card1 or node1; `scifctl nodes` lists them"
        )
    })?;
    options.arguments = words.cloned().collect();
    let program = options.arguments.first_mut().ok_or("PROGRAM is missing")?;
    if is_command_line {
        let line = options.arguments.join(" ");
        options.arguments = ["sh", "-c", &line].map(String::from).into();
    } else if program.contains('/') && !is_remote {
        let name = last_part(program);
        options.send.push(transfer(program.clone(), name.clone())?);
        *program = format!("./{name}");
    }
    check(&options)?;
    Ok(Command::Run(options))
}

/// Checks that the files have different names, and one directory to be in.
fn check(options: &Options) -> Result<(), String> {
    for (what, list) in [("sent", &options.send), ("fetched", &options.get)] {
        for (index, file) in list.iter().enumerate() {
            if list.iter().take(index).any(|of| of.name == file.name) {
                return Err(format!("two files are {what} as `{}`", file.name));
            }
        }
    }
    let has_files = !options.send.is_empty() || !options.get.is_empty();
    match options.directory.is_empty() || !has_files {
        true => Ok(()),
        false => Err(format!(
            "-d {}: a run with files has a directory of its own (-r: PROGRAM is not sent)",
            options.directory
        )),
    }
}

/// Splits at the last colon, if there is one.
fn split(text: &str) -> (String, Option<String>) {
    match text.rsplit_once(':') {
        Some((first, second)) => (first.to_string(), Some(second.to_string())),
        None => (text.to_string(), None),
    }
}

fn last_part(path: &str) -> String {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path).to_string()
}

fn transfer(path: String, name: String) -> Result<Transfer, String> {
    if path.is_empty() || !is_plain_name(&name) {
        return Err(format!(
            "`{name}` must be the name of a file, without directories"
        ));
    }
    Ok(Transfer { path, name })
}

/// The number of the node that a word means: by its name, or the number itself.
fn node_of(word: &str) -> Option<NodeId> {
    let is_digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number = || word.parse().ok().filter(|_| is_digits);
    scif_abi::node_by_name(word).or_else(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    fn run(text: &str) -> Options {
        match parse(&words(text)) {
            Ok(Command::Run(options)) => options,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn of(path: &str, name: &str) -> Transfer {
        transfer(path.into(), name.into()).unwrap()
    }

    #[test]
    fn options_come_before_the_node() {
        let options = run("-n -u 5 -e A=b=c -d /tmp card2 ls -n --help");
        assert_eq!((options.node, options.user, options.no_input), (2, 5, true));
        assert_eq!(options.arguments, words("ls -n --help"));
        assert_eq!(options.environment, words("A=b=c"));
        assert_eq!(options.directory, "/tmp");
        assert!(options.send.is_empty());
        assert_eq!(run("-d /tmp -r 1 ./solve").directory, "/tmp");
        assert_eq!(run("host true").node, 0);
        assert_eq!(run("-- 1 true").node, 1);
    }

    #[test]
    fn a_node_has_names_and_a_number() {
        for (word, node) in [("host", 0), ("card2", 2), ("node2", 2), ("17", 17)] {
            assert_eq!(node_of(word), Some(node), "{word}");
        }
        for odd in ["", "mic0", "card+1", "+1", "-1", "65536"] {
            assert_eq!(node_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn files_go_and_come() {
        let options = run("-f /tmp/in.dat -f x:y -g out -g log:/tmp/l 1 ./bin/solve in.dat");
        assert_eq!(
            options.send,
            [
                of("/tmp/in.dat", "in.dat"),
                of("x", "y"),
                of("./bin/solve", "solve")
            ]
        );
        assert_eq!(options.get, [of("out", "out"), of("/tmp/l", "log")]);
        assert_eq!(options.arguments, words("./solve in.dat"));
        let there = run("-r 1 /scheme/initfs/bin/ls");
        assert!(there.send.is_empty());
        assert_eq!(there.arguments, words("/scheme/initfs/bin/ls"));
    }

    #[test]
    fn a_command_line_is_for_the_shell_there() {
        let options = run("-c -n node1 \"/bin/worker\" --rank 1 > log");
        assert_eq!((options.node, options.no_input), (1, true));
        let line = "\"/bin/worker\" --rank 1 > log";
        assert_eq!(options.arguments, ["sh", "-c", line]);
        assert!(options.send.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, says) in [
            ("", "missing"),
            ("1", "PROGRAM"),
            ("-c 1", "PROGRAM"),
            (
                "x ls",
                "`x` is no node: give a number, host, card1 or node1; `scifctl nodes` lists them",
            ),
            ("70000 ls", "no node"),
            ("-z 1 ls", "`-z`"),
            ("-e =x 1 ls", "NAME=VALUE"),
            ("-u me 1 ls", "number"),
            ("-f", "FILE"),
            ("-f a:b/c 1 ls", "directories"),
            ("-g ../x 1 ls", "directories"),
            ("1 /", "directories"),
            ("-d /tmp -f a 1 ls", "-d /tmp: "),
            ("-d /tmp -g a 1 ls", "-d /tmp: "),
            ("-d /tmp 1 ./solve", "-d /tmp: "),
            ("-f a -f b:a 1 ls", "two files are sent as `a`"),
            ("-f a:solve 1 ./solve", "two files are sent as `solve`"),
            ("-g a -g a:b 1 ls", "two files are fetched as `a`"),
        ] {
            let error = parse(&words(line)).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
        assert_eq!(parse(&words("--help")), Ok(Command::Help));
        assert_eq!(parse(&words("-V 1 ls")), Ok(Command::Version));
    }
}
