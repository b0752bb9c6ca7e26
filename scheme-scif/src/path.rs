//! Paths below `/scheme/scif/`: the meaning of a name, whether or not the object exists.
//!
//! Pure text. The rules are the tables of docs/scheme.md; the tests hold their examples.

use core::fmt;

use syscall::error::{EINVAL, ENAMETOOLONG, ENODEV, ENOENT, ENOTDIR, Error, Result};

/// The longest component of a path, in bytes.
pub const NAME_MAX: usize = 255;
/// The longest path, in bytes. The kernel has the same limit.
pub const PATH_MAX: usize = 4096;

/// The object that a path names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// The root directory.
    Root,
    /// The directory of one node.
    Node(u16),
    /// A connection to a port of a node.
    Connect {
        /// The node to connect to; may be this node.
        node: u16,
        /// The port to connect to, never 0.
        port: u16,
    },
    /// The directory of listening ports.
    ListenDirectory,
    /// A listener; port 0 takes a free one.
    Listen(u16),
    /// The directory of ports that a program may accept on.
    AcceptDirectory,
    /// One connection to a port of this node, never 0.
    Accept(u16),
    /// A fresh endpoint.
    Endpoint,
    /// A memory object that is still to be made.
    Memory,
    /// The list of nodes that come and go.
    Peers,
    /// A text file.
    Text(TextFile),
}

/// What a connection's stream carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// Bytes, as in SCIF.
    Bytes,
    /// Messages of Scheduled Transfers: names below the directory `stp`.
    Messages,
}

/// The name of the directory for [`Content::Messages`].
const MESSAGES: &str = "stp";

/// An object, and the content of the connections that it makes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name {
    /// The content of the connections' streams.
    pub content: Content,
    /// The object. With [`Content::Messages`], `Root` is the directory `stp`.
    pub path: Path,
}

impl Name {
    /// The name of an object whose connections carry bytes.
    pub const fn of(path: Path) -> Self {
        Self {
            content: Content::Bytes,
            path,
        }
    }

    /// Reads a path relative to the scheme's root.
    ///
    /// # Errors
    /// Those of [`Path::parse`]; `ENOENT` for a name below `stp` that makes no connections.
    pub fn parse(path: &str) -> Result<Self> {
        let Some(rest) = path.strip_prefix(MESSAGES) else {
            return Path::parse(path).map(Self::of);
        };
        let path = match rest.strip_prefix('/') {
            None if rest.is_empty() => Path::Root,
            None => return Path::parse(path).map(Self::of),
            Some("") => return Err(Error::new(EINVAL)),
            Some(rest) => Path::parse(rest)?,
        };
        match path {
            Path::Endpoint | Path::Memory | Path::Peers | Path::Text(_) => Err(Error::new(ENOENT)),
            path => Ok(Self {
                content: Content::Messages,
                path,
            }),
        }
    }

    /// Another object with the same content.
    pub const fn with(self, path: Path) -> Self {
        Self { path, ..self }
    }
}

/// The text of the name behind the scheme's root.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.content == Content::Messages {
            write!(f, "/{MESSAGES}")?;
        }
        write!(f, "{}", self.path)
    }
}

/// The text files of the root directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextFile {
    /// Nodes that are online.
    Nodes,
    /// Ports in use.
    Ports,
    /// Connections of this node.
    Connections,
    /// Windows of this node, and of its peers as far as they are in use here.
    Windows,
    /// The mappings of this node's programs.
    Mappings,
    /// Pages of programs that are pinned where they are.
    Pins,
    /// Coprocessor cards, which root can command.
    Cards,
    /// Limits, which root can change.
    Limits,
    /// Counters.
    Stats,
    /// The traffic between this node and each other one.
    Traffic,
    /// Name and version.
    Version,
}

impl TextFile {
    /// All text files, in the order of a listing.
    pub const ALL: [Self; 11] = [
        Self::Nodes,
        Self::Ports,
        Self::Connections,
        Self::Windows,
        Self::Mappings,
        Self::Pins,
        Self::Cards,
        Self::Limits,
        Self::Stats,
        Self::Traffic,
        Self::Version,
    ];

    /// Whether root may write to it.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Cards | Self::Limits)
    }

    /// The file's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Ports => "ports",
            Self::Connections => "connections",
            Self::Windows => "windows",
            Self::Mappings => "mappings",
            Self::Pins => "pins",
            Self::Cards => "cards",
            Self::Limits => "limits",
            Self::Stats => "stats",
            Self::Traffic => "traffic",
            Self::Version => "version",
        }
    }
}

impl Path {
    /// Reads a path relative to the scheme's root.
    ///
    /// # Errors
    /// `ENAMETOOLONG`, `ENOENT` for an unknown first word, `EINVAL` for junk after it, `ENODEV`
    /// for a node number that no node can have, `ENOTDIR` for a path below a file.
    pub fn parse(path: &str) -> Result<Self> {
        if path.len() > PATH_MAX || path.split('/').any(|word| word.len() > NAME_MAX) {
            return Err(Error::new(ENAMETOOLONG));
        }
        if path.is_empty() {
            return Ok(Self::Root);
        }
        let mut words = path.split('/');
        let first = words.next().unwrap_or("");
        let rest = (words.next(), words.next());
        if first.is_empty() {
            return Err(Error::new(EINVAL));
        }
        if is_number(first) {
            return Self::parse_node(first, rest);
        }
        match first {
            "listen" => match rest {
                (None, _) => Ok(Self::ListenDirectory),
                (Some(port), None) => parse_port(port).map(Self::Listen),
                (Some(_), Some(_)) => Err(Error::new(EINVAL)),
            },
            "accept" => match rest {
                (None, _) => Ok(Self::AcceptDirectory),
                (Some(port), None) => parse_nonzero_port(port).map(Self::Accept),
                (Some(_), Some(_)) => Err(Error::new(EINVAL)),
            },
            "endpoint" => below_file(rest.0).map(|()| Self::Endpoint),
            "memory" => below_file(rest.0).map(|()| Self::Memory),
            "peers" => below_file(rest.0).map(|()| Self::Peers),
            _ => {
                let file = TextFile::ALL.into_iter().find(|file| file.name() == first);
                let file = file.ok_or(Error::new(ENOENT))?;
                below_file(rest.0).map(|()| Self::Text(file))
            }
        }
    }

    fn parse_node(first: &str, rest: (Option<&str>, Option<&str>)) -> Result<Self> {
        let port = match rest {
            (None, _) => None,
            (Some(port), None) => Some(parse_nonzero_port(port)?),
            (Some(_), Some(_)) => return Err(Error::new(EINVAL)),
        };
        let node = first.parse().map_err(|_| Error::new(ENODEV))?;
        Ok(match port {
            None => Self::Node(node),
            Some(port) => Self::Connect { node, port },
        })
    }
}

/// The text of the path behind the scheme's root.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Node(node) => write!(f, "/{node}"),
            Self::Connect { node, port } => write!(f, "/{node}/{port}"),
            Self::ListenDirectory => f.write_str("/listen"),
            Self::Listen(port) => write!(f, "/listen/{port}"),
            Self::AcceptDirectory => f.write_str("/accept"),
            Self::Accept(port) => write!(f, "/accept/{port}"),
            Self::Endpoint => f.write_str("/endpoint"),
            Self::Memory => f.write_str("/memory"),
            Self::Peers => f.write_str("/peers"),
            Self::Text(file) => write!(f, "/{}", file.name()),
        }
    }
}

/// Whether the word is decimal digits only: the standard parser would also take a sign.
fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_port(word: &str) -> Result<u16> {
    if !is_number(word) {
        return Err(Error::new(EINVAL));
    }
    word.parse().map_err(|_| Error::new(EINVAL))
}

fn parse_nonzero_port(word: &str) -> Result<u16> {
    match parse_port(word)? {
        0 => Err(Error::new(EINVAL)),
        port => Ok(port),
    }
}

/// Nothing lies below a file: a name there gives `ENOTDIR`, an empty component `EINVAL`.
fn below_file(word: Option<&str>) -> Result<()> {
    match word {
        None => Ok(()),
        Some("") => Err(Error::new(EINVAL)),
        Some(_) => Err(Error::new(ENOTDIR)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn good_paths_mean_what_the_table_says() {
        let table = [
            ("", Path::Root),
            ("0", Path::Node(0)),
            ("7", Path::Node(7)),
            ("65535", Path::Node(65535)),
            (
                "1/2050",
                Path::Connect {
                    node: 1,
                    port: 2050,
                },
            ),
            ("0/1", Path::Connect { node: 0, port: 1 }),
            (
                "1/65535",
                Path::Connect {
                    node: 1,
                    port: 65535,
                },
            ),
            ("listen", Path::ListenDirectory),
            ("listen/0", Path::Listen(0)),
            ("listen/2050", Path::Listen(2050)),
            ("accept", Path::AcceptDirectory),
            ("accept/2050", Path::Accept(2050)),
            ("endpoint", Path::Endpoint),
            ("memory", Path::Memory),
            ("peers", Path::Peers),
            ("windows", Path::Text(TextFile::Windows)),
            ("mappings", Path::Text(TextFile::Mappings)),
            ("cards", Path::Text(TextFile::Cards)),
            ("limits", Path::Text(TextFile::Limits)),
            ("nodes", Path::Text(TextFile::Nodes)),
            ("ports", Path::Text(TextFile::Ports)),
            ("connections", Path::Text(TextFile::Connections)),
            ("stats", Path::Text(TextFile::Stats)),
            ("traffic", Path::Text(TextFile::Traffic)),
            ("version", Path::Text(TextFile::Version)),
        ];
        for (path, meaning) in table {
            assert_eq!(Path::parse(path), Ok(meaning), "{path:?}");
            assert_eq!(meaning.to_string().trim_start_matches('/'), path);
        }
    }

    #[test]
    fn names_below_stp_are_those_of_connections() {
        let connect = Path::Connect {
            node: 1,
            port: 2050,
        };
        let table = [
            ("stp", Path::Root),
            ("stp/1", Path::Node(1)),
            ("stp/1/2050", connect),
            ("stp/listen", Path::ListenDirectory),
            ("stp/listen/0", Path::Listen(0)),
            ("stp/accept", Path::AcceptDirectory),
            ("stp/accept/2050", Path::Accept(2050)),
        ];
        for (name, path) in table {
            let content = Content::Messages;
            let parsed = Name::parse(name);
            assert_eq!(parsed, Ok(Name { content, path }), "{name:?}");
            assert_eq!(parsed.unwrap().to_string(), alloc::format!("/{name}"));
        }
        assert_eq!(Name::parse("1/2050"), Ok(Name::of(connect)));
        let bad = [
            ("stp/", EINVAL),
            ("stp//1", EINVAL),
            ("stp/1/0", EINVAL),
            ("stp/stp/1", ENOENT),
            ("stp/nodes", ENOENT),
            ("stp/endpoint", ENOENT),
            ("stp/memory", ENOENT),
            ("stp/peers", ENOENT),
            ("stpx/1", ENOENT),
        ];
        for (name, errno) in bad {
            assert_eq!(Name::parse(name), Err(Error::new(errno)), "{name:?}");
        }
    }

    #[test]
    fn bad_paths_give_the_documented_error() {
        let long = "x".repeat(NAME_MAX + 1);
        let long_port = "1/".to_string() + &"1".repeat(NAME_MAX + 1);
        let many = "1/".repeat(PATH_MAX / 2) + "1";
        let longest_name = "x".repeat(NAME_MAX);
        let table: &[(&str, i32)] = &[
            ("foo", ENOENT),
            ("foo/1", ENOENT),
            ("Nodes", ENOENT),
            ("window", ENOENT),
            ("-1", ENOENT),
            ("+1/5", ENOENT),
            ("1x/2050", ENOENT),
            ("..", ENOENT),
            (".", ENOENT),
            (&longest_name, ENOENT),
            ("1/x", EINVAL),
            ("1/65536", EINVAL),
            ("1/99999999999999999999999999", EINVAL),
            ("1/-1", EINVAL),
            ("1/+1", EINVAL),
            ("1/0x10", EINVAL),
            ("1/ 5", EINVAL),
            ("1/", EINVAL),
            ("1//2050", EINVAL),
            ("1/2050/x", EINVAL),
            ("1/2050/", EINVAL),
            ("/1/2050", EINVAL),
            ("/", EINVAL),
            ("listen/x", EINVAL),
            ("listen/", EINVAL),
            ("listen/5/6", EINVAL),
            ("accept/x", EINVAL),
            ("accept/70000", EINVAL),
            ("1/0", EINVAL),
            ("accept/0", EINVAL),
            ("nodes/", EINVAL),
            ("nodes/x", ENOTDIR),
            ("endpoint/x", ENOTDIR),
            ("memory/1", ENOTDIR),
            ("peers/", EINVAL),
            ("65536", ENODEV),
            ("65536/2050", ENODEV),
            ("99999999999999999999999/2050", ENODEV),
            ("65536/x", EINVAL),
            (&long, ENAMETOOLONG),
            (&long_port, ENAMETOOLONG),
            (&many, ENAMETOOLONG),
        ];
        for &(path, errno) in table {
            let error = Path::parse(path).map_err(|error| error.errno);
            assert_eq!(
                error,
                Err(errno),
                "{:?}",
                path.chars().take(40).collect::<String>()
            );
        }
    }
}
