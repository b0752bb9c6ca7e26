//! The modules of a crate, read from its sources: the imports of each, and the circles of modules
//! that import each other.

use harness::base::report::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module, as the names on its path below the crate's `src`; empty for the root.
pub type Module = Vec<String>;

/// A name that a source imports from another module of its crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// Line, counted from 1.
    pub line: usize,
    /// The path of the module that the name comes from, and the name.
    pub path: Module,
}

/// The sources of a crate: the path in its `src`, and the text.
pub struct Sources(pub BTreeMap<String, String>);

/// A source that is not a test.
pub struct Source<'a> {
    /// Its path in `src`.
    pub path: &'a str,
    /// Its module.
    pub module: Module,
    /// Its imports from other modules of the crate.
    pub imports: Vec<Import>,
}

/// Modules of one folder that import each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    /// The folder, as a path in `src`; empty for `src` itself.
    pub folder: String,
    /// The modules, in the order of their names.
    pub modules: Vec<String>,
    /// One import for each edge of the circle: path, line, and the two modules.
    pub arrows: Vec<(String, usize, String, String)>,
}

impl Sources {
    /// Reads the sources of the crate in a directory; none if it has no `src`.
    pub fn read(directory: &Path) -> Result<Self> {
        let (top, mut found) = (directory.join("src"), BTreeMap::new());
        let mut directories = vec![top.clone()];
        while let Some(directory) = directories.pop().filter(|directory| directory.is_dir()) {
            let shown = || format!("read {}", directory.display());
            for item in std::fs::read_dir(&directory).context(shown)? {
                let path = item.context(shown)?.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let shown = || format!("read {}", path.display());
                    let name = path.strip_prefix(&top).unwrap_or(&path);
                    let text = std::fs::read_to_string(&path).context(shown)?;
                    found.insert(name.to_string_lossy().into_owned(), text);
                }
            }
        }
        Ok(Self(found))
    }

    /// The sources that are not tests, with their imports.
    pub fn imports(&self) -> Vec<Source<'_>> {
        let tree = Tree::new(self);
        let sources = self.0.iter().filter(|(path, _)| !is_test(path));
        let sources = sources.map(|(path, text)| Source {
            path: path.as_str(),
            module: module_of(path),
            imports: tree.imports(path, text),
        });
        sources.collect()
    }

    /// The circles of modules that import each other, within each folder. The file of the folder
    /// itself (`mod.rs`, or the file of the same name) may use all modules in it, and they may use
    /// it.
    pub fn circles(&self) -> Vec<Circle> {
        let sources = self.imports();
        let folders: BTreeSet<&[String]> = sources
            .iter()
            .filter_map(|source| source.module.split_last())
            .map(|(_, folder)| folder)
            .collect();
        let mut circles = Vec::new();
        for folder in folders {
            circles.extend(circles_in(folder, &sources));
        }
        circles
    }
}

/// The circles of the modules in one folder.
fn circles_in(folder: &[String], sources: &[Source<'_>]) -> Vec<Circle> {
    let inside = |module: &[String]| module.strip_prefix(folder)?.first().cloned();
    let names: BTreeSet<String> = sources
        .iter()
        .filter_map(|source| inside(&source.module))
        .collect();
    let mut uses: BTreeMap<String, BTreeMap<String, (String, usize)>> = BTreeMap::new();
    for source in sources {
        let Some(own) = inside(&source.module) else {
            continue;
        };
        for Import { line, path } in &source.imports {
            if let Some(other) = inside(path).filter(|other| *other != own && names.contains(other))
            {
                let arrows = uses.entry(own.clone()).or_default();
                let place = || (source.path.to_string(), *line);
                arrows.entry(other).or_insert_with(place);
            }
        }
    }
    let mut known = BTreeSet::new();
    let mut circles = Vec::new();
    for name in &names {
        let is_mutual = |to: &&String| reached(&uses, to).contains(name);
        let circle: BTreeSet<&String> =
            reached(&uses, name).into_iter().filter(is_mutual).collect();
        if circle.is_empty() || !known.insert(circle.clone()) {
            continue;
        }
        let arrows = circle.iter().flat_map(|from| {
            let to = uses.get(*from).into_iter().flatten();
            let to = to.filter(|(to, _)| circle.contains(to));
            to.map(|(to, (path, line))| (path.clone(), *line, from.to_string(), to.clone()))
        });
        circles.push(Circle {
            folder: folder.join("/"),
            arrows: arrows.collect(),
            modules: circle.into_iter().cloned().collect(),
        });
    }
    circles
}

/// The modules that can be reached along edges from `from`.
fn reached<'a, T>(
    uses: &'a BTreeMap<String, BTreeMap<String, T>>,
    from: &'a String,
) -> BTreeSet<&'a String> {
    let (mut known, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(at) = left.pop() {
        let next = uses.get(at).into_iter().flat_map(|arrows| arrows.keys());
        left.extend(next.filter(|to| known.insert(*to)));
    }
    known
}

/// The modules of a crate, and the names that each re-exports.
struct Tree {
    /// The names that a module imports, and the path that each stands for.
    names: BTreeMap<Module, BTreeMap<String, Module>>,
    /// The roots of programs and libraries, which `crate` stands for in the modules below.
    roots: BTreeSet<Module>,
}

impl Tree {
    fn new(sources: &Sources) -> Self {
        let mut tree = Self {
            names: BTreeMap::new(),
            roots: BTreeSet::from([Module::new()]),
        };
        for path in sources.0.keys() {
            let module = module_of(path);
            let is_program = path.starts_with("bin/") && path.matches('/').count() == 1;
            if path.ends_with("main.rs") || is_program {
                tree.roots.insert(module);
            }
        }
        for (path, text) in &sources.0 {
            let module = module_of(path);
            let known = tree.names.entry(module.clone()).or_default();
            known.extend(uses(text, &module, root_of(&tree.roots, &module)));
        }
        tree
    }

    /// The path with every re-exported name replaced by its origin.
    fn resolve(&self, mut path: Module) -> Module {
        // Each replacement follows one `use`. More than this many would be a circle of names.
        for _ in 0..16 {
            let passed_on = (0..path.len()).find_map(|length| {
                let (module, rest) = path.split_at(length);
                let (name, rest) = rest.split_first()?;
                let is_module = self.names.contains_key(&path[..=length]);
                let from = self.names.get(module)?.get(name).filter(|_| !is_module)?;
                Some([from.as_slice(), rest].concat())
            });
            match passed_on {
                Some(next) if next != path => path = next,
                _ => break,
            }
        }
        path
    }

    /// All names that a source imports from other modules of its crate, unit tests excluded.
    fn imports(&self, path: &str, text: &str) -> Vec<Import> {
        let (module, text) = (module_of(path), code(text));
        let mut imports = Vec::new();
        for word in ["crate::", "super::"] {
            for (at, _) in text.match_indices(word) {
                let before = text[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                let line = 1 + text[..at].matches('\n').count();
                for path in expand(first_tree(&text[at..])) {
                    let root = root_of(&self.roots, &module);
                    if let Some(path) = absolute(&path, &module, root) {
                        let path = self.resolve(path);
                        imports.push(Import { line, path });
                    }
                }
            }
        }
        imports
    }
}

/// The innermost root above a module.
fn root_of<'a>(roots: &BTreeSet<Module>, module: &'a [String]) -> &'a [String] {
    let above = (0..=module.len()).rev().map(|length| &module[..length]);
    above
        .into_iter()
        .find(|above| roots.contains(*above))
        .unwrap_or_default()
}

/// The names that a source imports by `use`, and the paths that they stand for.
fn uses(text: &str, module: &[String], root: &[String]) -> BTreeMap<String, Module> {
    let mut names = BTreeMap::new();
    for statement in code(text).split(';') {
        let Some((before, tree)) = statement.rsplit_once("use ") else {
            continue;
        };
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        for path in expand(tree.trim()) {
            let (path, name) = match path.split_once(" as ") {
                Some((path, name)) => (path.to_string(), name.trim().to_string()),
                None => {
                    let name = path.rsplit("::").next().unwrap_or_default().to_string();
                    (path, name)
                }
            };
            if let Some(path) = absolute(&path, module, root).filter(|path| path.len() > 1) {
                names.insert(name, path);
            }
        }
    }
    names
}

/// A path in a module as a path below the crate's `src`; `None` if it leads out of the crate.
fn absolute(path: &str, module: &[String], root: &[String]) -> Option<Module> {
    let path = path.split(" as ").next().unwrap_or_default();
    let mut base = module.to_vec();
    let mut rest = Vec::new();
    for word in path.split("::").map(str::trim) {
        match word {
            "crate" => base = root.to_vec(),
            "super" => {
                base.pop()?;
            }
            "self" => {}
            "" => return None,
            name => rest.push(name.to_string()),
        }
    }
    base.extend(rest);
    Some(base)
}

/// Whether a source is a test as a whole.
pub fn is_test(inside: &str) -> bool {
    let mut parts = inside.split('/');
    parts.any(|part| part == "tests" || part.ends_with("tests.rs"))
}

/// The module of a source: `a/b.rs` is `a`, `b`.
fn module_of(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let last = path.rsplit('/').next().unwrap_or_default();
    let path = match last {
        "mod" | "lib" | "main" => path.trim_end_matches(last).trim_end_matches('/'),
        _ => path,
    };
    let words = path.split('/').filter(|word| !word.is_empty());
    words.map(str::to_string).collect()
}

/// A source without comments and unit tests; the remaining lines keep their numbers.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let next = lines.next().unwrap_or_default().trim();
            if next.starts_with("mod ") && next.ends_with('{') {
                break;
            }
            code.push('\n');
        } else {
            code += line.split("//").next().unwrap_or_default();
        }
        code.push('\n');
    }
    code
}

/// The path or tree of paths at the beginning of a text: `a::b` or `{a::b, c}` or `a::{b, c}`.
fn first_tree(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        let is_part = c.is_alphanumeric() || "_:{".contains(c) || depth > 0 || c == '}';
        depth < 0 || !is_part
    });
    &text[..end.unwrap_or(text.len())]
}

/// The paths in a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.to_string()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut paths) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner[start..at].trim();
                if !part.is_empty() {
                    paths.extend(expand(part).iter().map(|path| format!("{prefix}{path}")));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let files = files.iter();
        Sources(
            files
                .map(|(path, text)| (path.to_string(), text.to_string()))
                .collect(),
        )
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let circles = sources(files).circles();
        circles
            .iter()
            .map(|circle| format!("{}: {}", circle.folder, circle.modules.join(" ")))
            .collect()
    }

    #[test]
    fn circles_of_files_and_folders_are_found() {
        let files = [
            ("lib.rs", "pub use c::X;\n"),
            ("a/mod.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::X;\n"),
            ("c/deep.rs", "use crate::a;\n"),
            ("d/mod.rs", "use crate::a;\n"),
        ];
        assert_eq!(circles(&files), [": a b c"]);
        // Without one of its edges there is no circle.
        for left_out in ["a/mod.rs", "b.rs", "c/deep.rs"] {
            let rest: Vec<_> = files.iter().filter(|(path, _)| *path != left_out).collect();
            let rest: Vec<_> = rest.into_iter().copied().collect();
            assert_eq!(circles(&rest), [""; 0], "without {left_out}");
        }
    }

    #[test]
    fn circles_within_a_folder_are_found() {
        // By names that the folder's own file imports and re-exports.
        let files = [
            (
                "a.rs",
                "mod x;\nmod y;\nuse x::One;\npub use self::y::Two as Second;\n",
            ),
            ("a/x.rs", "use crate::a::Second;\n"),
            ("a/y.rs", "use super::One;\n"),
        ];
        assert_eq!(circles(&files), ["a: x y"]);
        // The folder's own file and its modules may use each other.
        let files = [
            ("a/mod.rs", "mod x;\nuse x::One;\npub struct Two;\n"),
            ("a/x.rs", "use super::Two;\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }

    #[test]
    fn arrows_are_told_once_with_their_place() {
        let files = [
            (
                "a.rs",
                "//! A.\nuse crate::b::{One, Two};\nfn f() {\n    crate::b::three()\n}\n",
            ),
            ("b.rs", "fn f() {\n    super::a::f()\n}\n"),
        ];
        let arrow = |path: &str, line, from: &str, to: &str| {
            (path.to_string(), line, from.to_string(), to.to_string())
        };
        let found = sources(&files).circles();
        let expected = [arrow("a.rs", 2, "a", "b"), arrow("b.rs", 2, "b", "a")];
        assert_eq!(found[0].arrows, expected);
    }

    #[test]
    fn tests_and_comments_import_nothing() {
        let files = [
            (
                "a.rs",
                "// crate::b\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n",
            ),
            ("a/tests.rs", "use crate::b;\n"),
            ("b.rs", "use crate::a;\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }

    #[test]
    fn each_program_has_modules_of_its_own() {
        let files = [
            ("one/main.rs", "mod a;\nmod b;\n"),
            ("one/a.rs", "use crate::b;\n"),
            ("one/b.rs", "use crate::a;\n"),
            ("two/main.rs", "mod a;\nmod b;\n"),
            ("two/a.rs", "use crate::b;\n"),
            ("two/b.rs", "use super::a;\n"),
            ("bin/three.rs", "mod a {}\nuse crate::a;\n"),
        ];
        assert_eq!(circles(&files), ["one: a b", "two: a b"]);
    }
}
