//! The layers of the project (`config/layers.toml`): which crate may use which, and within a crate
//! which folder. Dependencies point down.

use harness::base::report::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The file, in the project.
pub const FILE: &str = "config/layers.toml";
/// The page with its picture.
pub const PAGE: &str = "docs/architecture.md";
/// What the picture stands between.
const BEGIN: &str = "<!-- config/layers.toml -->\n```\n";
const END: &str = "```\n";

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    group: Vec<Group>,
    /// The crate's directory → its folders, lowest first; those of one word list do not use each
    /// other.
    folders: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    crates: Vec<String>,
    uses: Vec<String>,
}

/// A name that a source takes out of another module of its crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// Line, counted from 1.
    pub line: usize,
    /// The module at the crate's root.
    pub module: String,
}

impl Layers {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context(|| format!("understand {FILE}"))
    }

    /// The group of a crate, and its place in there.
    fn place(&self, name: &str) -> Option<(&Group, usize)> {
        self.group.iter().find_map(|group| {
            let place = group.crates.iter().position(|known| known == name)?;
            Some((group, place))
        })
    }

    /// What is wrong with the groups themselves: each uses only what stands before it.
    fn check_groups(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut known = BTreeSet::new();
        for group in &self.group {
            for used in group.uses.iter().filter(|used| !known.contains(used)) {
                let name = &group.name;
                wrong.push(format!(
                    "the group '{name}' uses '{used}', which is not before it"
                ));
            }
            known.insert(&group.name);
        }
        wrong
    }

    /// What is wrong with the crates that the crate `name` uses; `uses` are all of the project's.
    fn check_crate(&self, name: &str, uses: &BTreeSet<String>) -> Vec<String> {
        let Some((group, place)) = self.place(name) else {
            return vec![format!("the crate '{name}' is in no group of {FILE}")];
        };
        let is_allowed = |used: &&String| match self.place(used) {
            Some((other, before)) if other.name == group.name => before < place,
            Some((other, _)) => group.uses.contains(&other.name),
            // Complained of for itself.
            None => true,
        };
        let upward = uses.iter().filter(|used| !is_allowed(used));
        upward
            .map(|used| format!("'{name}' must not use '{used}': see the groups in {FILE}"))
            .collect()
    }

    /// What is wrong with the imports of a crate's sources, by path and line.
    pub fn check_sources(
        &self,
        directory: &str,
        sources: &Sources,
    ) -> Vec<(String, usize, String)> {
        let Some(order) = self.folders.get(directory) else {
            return Vec::new();
        };
        let layer = |name: &str| {
            let has = |layer: &String| layer.split(' ').any(|known| known == name);
            order.iter().position(has)
        };
        let mut wrong = Vec::new();
        for (inside, own, imports) in sources.modules() {
            let mut complain = |line, what| {
                wrong.push((format!("{directory}/src/{inside}"), line, what));
            };
            let Some(place) = layer(&own) else {
                complain(1, format!("the module '{own}' is in no layer of {FILE}"));
                continue;
            };
            for Import { line, module } in imports {
                if module != own && layer(&module).is_some_and(|other| other >= place) {
                    let what = format!("'{own}' must not use '{module}', which is not below it");
                    complain(line, format!("{what} ({FILE})"));
                }
            }
        }
        wrong
    }

    /// The picture: a line for each group, the highest first.
    fn picture(&self) -> String {
        let mut lines = String::new();
        for group in self.group.iter().rev() {
            let mut rows = vec![String::new()];
            for name in &group.crates {
                let row = rows.last_mut().expect("never empty");
                if row.len() + name.len() > CRATES_WIDTH {
                    rows.push(name.clone());
                } else {
                    *row = format!("{row} {name}").trim_start().to_string();
                }
            }
            let uses = match group.uses.len() {
                0 => "nothing".to_string(),
                count if count + 1 == self.group.len() => "all".to_string(),
                _ => group.uses.join(" "),
            };
            for (index, row) in rows.iter().enumerate() {
                let (name, uses) = match index {
                    0 => (group.name.as_str(), format!("uses {uses}")),
                    _ => ("", String::new()),
                };
                let line = format!(" {name:9} {row:CRATES_WIDTH$}  {uses}");
                lines += line.trim_end();
                lines.push('\n');
            }
        }
        lines
    }

    /// Whether the page has the picture; else what it should be.
    fn check_page(&self, page: &str) -> Option<String> {
        let picture = self.picture();
        let found = page
            .split_once(BEGIN)
            .and_then(|(_, rest)| rest.split_once(END));
        if found.is_some_and(|(found, _)| found == picture) {
            return None;
        }
        Some(format!(
            "the picture of the layers should be\n{BEGIN}{picture}{END}"
        ))
    }
}

/// Width of the crates in the picture, in characters.
const CRATES_WIDTH: usize = 56;

/// The sources of a crate: path in its `src`, and text.
pub struct Sources(pub BTreeMap<String, String>);

impl Sources {
    /// Reads those of the crate in a directory; none where there is no `src`.
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

    /// Each source that is neither root nor test: its path, its module at the crate's root, and
    /// what it imports from modules there.
    pub fn modules(&self) -> impl Iterator<Item = (&str, String, Vec<Import>)> {
        let mut exported = BTreeMap::new();
        for root in ["main.rs", "lib.rs"] {
            exported.extend(self.0.get(root).into_iter().flat_map(|text| exports(text)));
        }
        self.0.iter().filter_map(move |(inside, text)| {
            let module = module_path(inside);
            let own = module.first().filter(|own| *own != "bin")?.clone();
            let imports = imports(&module, text, &exported);
            (!is_test(inside)).then_some((inside.as_str(), own, imports))
        })
    }
}

/// The crates of the project: directory, name, and the project's crates that it uses.
pub fn crates(root: &Path) -> Result<Vec<(String, String, BTreeSet<String>)>> {
    let manifest = |directory: &str| -> Result<toml::Table> {
        let path = root.join(directory).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        text.parse()
            .context(|| format!("understand {}", path.display()))
    };
    let workspace = manifest("")?;
    let members = workspace
        .get("workspace")
        .and_then(|table| table.get("members"));
    let members = members.and_then(|members| members.as_array());
    let mut crates = Vec::new();
    for directory in members
        .into_iter()
        .flatten()
        .filter_map(|member| member.as_str())
    {
        let manifest = manifest(directory)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name")?.as_str());
        let targets = manifest
            .get("target")
            .and_then(|targets| targets.as_table());
        let targets = targets.into_iter().flat_map(|targets| targets.values());
        let tables = targets
            .filter_map(|target| target.as_table())
            .chain([&manifest]);
        let lists = tables.filter_map(|table| table.get("dependencies")?.as_table());
        let uses: BTreeSet<String> = lists.flat_map(|list| list.keys().cloned()).collect();
        crates.push((
            directory.to_string(),
            name.unwrap_or_default().to_string(),
            uses,
        ));
    }
    let names: BTreeSet<String> = crates.iter().map(|(_, name, _)| name.clone()).collect();
    for (_, _, uses) in &mut crates {
        uses.retain(|used| names.contains(used));
    }
    Ok(crates)
}

/// All that is wrong with the project in a directory: path, line and what to do.
pub fn complaints(root: &Path) -> Result<Vec<(String, usize, String)>> {
    let read =
        |name: &str| std::fs::read_to_string(root.join(name)).context(|| format!("read {name}"));
    let layers = Layers::parse(&read(FILE)?)?;
    let mut found = Vec::new();
    for what in layers.check_groups() {
        found.push((FILE.to_string(), 1, what));
    }
    if let Some(what) = layers.check_page(&read(PAGE)?) {
        found.push((PAGE.to_string(), 1, what));
    }
    for (directory, name, uses) in crates(root)? {
        for what in layers.check_crate(&name, &uses) {
            found.push((format!("{directory}/Cargo.toml"), 1, what));
        }
        found.extend(layers.check_sources(&directory, &Sources::read(&root.join(&directory))?));
    }
    Ok(found)
}

/// Whether a source is a test as a whole.
pub fn is_test(inside: &str) -> bool {
    let mut parts = inside.split('/');
    parts.any(|part| part == "tests" || part.ends_with("tests.rs"))
}

/// The module of a source, from the crate's root on: `a/b.rs` is `a`, `b`; empty for the root.
fn module_path(inside: &str) -> Vec<String> {
    let path = inside.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Vec::new(),
        path => path.split('/').map(str::to_string).collect(),
    }
}

/// Where the names come from that a crate's root passes on from its modules.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in code(root).split(';') {
        let Some((_, tree)) = statement.rsplit_once("use ") else {
            continue;
        };
        for path in expand(tree.trim()) {
            let path = path
                .trim_start_matches("crate::")
                .trim_start_matches("self::");
            if let Some((module, _)) = path.split_once("::") {
                let name = path.rsplit([':', ' ']).next().unwrap_or_default();
                exports.insert(name.to_string(), module.to_string());
            }
        }
    }
    exports
}

/// All names that a source of the module `own` takes from its crate's root, or from a module there.
/// Its unit tests do not count.
fn imports(own: &[String], text: &str, exports: &BTreeMap<String, String>) -> Vec<Import> {
    let text = code(text);
    let mut imports = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            // As many steps up as there are words, of which all but the last lead to the root.
            let rest = text[at..].trim_start_matches("super::");
            let steps = (text.len() - at - rest.len()) / "super::".len();
            if word == "super::" && steps != own.len() {
                continue;
            }
            let rest = rest.strip_prefix("crate::").unwrap_or(rest);
            let line = 1 + text[..at].matches('\n').count();
            for path in expand(first_tree(rest)) {
                let name = path.split("::").next().unwrap_or_default().trim();
                let module = exports.get(name).map_or(name, String::as_str).to_string();
                imports.push(Import { line, module });
            }
        }
    }
    imports
}

/// A source without comments and unit tests; lines stay where they are.
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

/// The path or tree of paths that a text begins with: `a::b` or `{a::b, c}` or `a::{b, c}`.
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

/// The paths of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
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

    const LAYERS: &str = r#"
[[group]]
name = "low"
crates = ["abi", "ring"]
uses = []
[[group]]
name = "high"
crates = ["engine"]
uses = ["low"]
[folders]
"lib/engine" = ["base", "window call", "rma", "flow"]
"#;

    const ROOT: &str = "//! Root.\nmod base;\npub use flow::rma::{Rma, Marks as Fences};\n";

    const NONE: [usize; 0] = [];

    fn layers() -> Layers {
        Layers::parse(LAYERS).unwrap()
    }

    fn uses(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn crates_use_what_is_below_them() {
        let layers = layers();
        assert_eq!(layers.check_groups(), [""; 0]);
        assert_eq!(
            layers.check_crate("engine", &uses(&["abi", "ring"])),
            [""; 0]
        );
        assert_eq!(layers.check_crate("ring", &uses(&["abi"])), [""; 0]);
        assert_eq!(layers.check_crate("abi", &uses(&["ring"])).len(), 1);
        assert_eq!(
            layers.check_crate("ring", &uses(&["abi", "engine"])).len(),
            1
        );
        assert_eq!(layers.check_crate("other", &uses(&[])).len(), 1);
        let turned = LAYERS.replace("uses = []", "uses = [\"high\"]");
        assert_eq!(Layers::parse(&turned).unwrap().check_groups().len(), 1);
    }

    #[test]
    fn an_upward_import_is_found() {
        let layers = layers();
        let lines = |path: &str, text: &str| {
            let path = path.strip_prefix("lib/engine/src/").unwrap().to_string();
            let sources = [
                ("lib.rs".to_string(), ROOT.to_string()),
                (path, text.to_string()),
            ];
            let found = layers.check_sources("lib/engine", &Sources(sources.into()));
            found
                .into_iter()
                .map(|(_, line, _)| line)
                .collect::<Vec<_>>()
        };
        let rma = "lib/engine/src/rma/job.rs";
        assert_eq!(
            lines(rma, "use crate::base::Table;\nuse super::Job;\n"),
            NONE
        );
        assert_eq!(
            lines(rma, "use crate::window::Space;\nuse crate::rma::X;\n"),
            NONE
        );
        assert_eq!(lines(rma, "//! Job.\nuse crate::flow::connect;\n"), [2]);
        assert_eq!(
            lines(rma, "use crate::{\n    base::{A, B},\n    flow,\n};\n"),
            [1]
        );
        assert_eq!(lines(rma, "fn f() {\n    crate::flow::run();\n}\n"), [2]);
        assert_eq!(lines(rma, "use super::super::flow::X;\n"), [1]);
        assert_eq!(lines(rma, "// crate::flow is not used\n"), NONE);
        // By way of the root.
        assert_eq!(lines(rma, "use crate::{Fences, Engine};\n"), [1]);
        // Not beside it either.
        assert_eq!(
            lines("lib/engine/src/call.rs", "use crate::window::Space;\n"),
            [1]
        );
        assert_eq!(
            lines("lib/engine/src/call/mod.rs", "use super::rma::Job;\n"),
            [1]
        );
        assert_eq!(lines("lib/engine/src/new.rs", ""), [1]);
        // Roots and tests are free.
        assert_eq!(
            lines("lib/engine/src/lib.rs", "use crate::flow::X;\n"),
            NONE
        );
        let test = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::flow::X;\n}\n";
        assert_eq!(lines(rma, test), NONE);
        assert_eq!(
            lines("lib/engine/src/rma/tests.rs", "use crate::flow::X;\n"),
            NONE
        );
    }

    #[test]
    fn the_picture_is_compared() {
        let layers = layers();
        let page = format!("# Page\n{BEGIN}{}{END}more\n", layers.picture());
        assert_eq!(layers.check_page(&page), None);
        assert!(
            layers
                .check_page(&page.replace("engine", "motor"))
                .is_some()
        );
        assert!(layers.check_page("# Page\n").is_some());
        let lines: Vec<_> = layers.picture().lines().map(str::to_string).collect();
        assert!(lines[0].starts_with(" high      engine") && lines[0].ends_with("uses all"));
        assert!(lines[1].ends_with("uses nothing"));
    }
}
