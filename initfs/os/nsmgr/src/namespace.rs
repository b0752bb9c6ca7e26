//! A namespace: names and the roots behind them.

use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use libredox::Fd;
use runtime::fd;

/// A name with its root. Namespaces that were forked from the one where it was registered share
/// it.
struct Entry {
    root: RefCell<Rc<Fd>>,
    /// The namespace where it was registered. Only there can a successor of its scheme replace the
    /// root, for all namespaces.
    home: Weak<Namespace>,
}

impl Entry {
    fn root(&self) -> Rc<Fd> {
        Rc::clone(&self.root.borrow())
    }

    fn is_served(&self) -> bool {
        fd::is_served(self.root().raw())
    }
}

/// Names with their roots. Namespaces made from one another share the roots, not the names.
pub struct Namespace {
    entries: RefCell<BTreeMap<String, Rc<Entry>>>,
}

/// Longest name of a scheme, in bytes.
const MAX_NAME: usize = 255;

/// Whether a daemon may take this name: text without separators, and not the name under which the
/// manager itself is known.
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.contains(['/', ':', '\0'])
        && !matches!(name, "namespace" | "." | "..")
}

impl Namespace {
    /// An empty namespace.
    pub fn new() -> Rc<Self> {
        Rc::new(Namespace {
            entries: RefCell::new(BTreeMap::new()),
        })
    }

    fn entry(&self, name: &str) -> Option<Rc<Entry>> {
        self.entries.borrow().get(name).cloned()
    }

    /// Registers a name. Returns false if a scheme whose daemon lives has it. In the namespace
    /// where a dead scheme was registered the new one replaces it in all namespaces.
    pub fn insert(self: &Rc<Self>, name: &str, root: Fd) -> bool {
        let (root, home) = (Rc::new(root), Rc::downgrade(self));
        match self.entry(name) {
            Some(entry) if entry.is_served() => return false,
            Some(entry) if entry.home.ptr_eq(&home) => {
                entry.root.replace(root);
            }
            _ => {
                let root = RefCell::new(root);
                let entry = Rc::new(Entry { root, home });
                self.entries.borrow_mut().insert(name.into(), entry);
            }
        }
        true
    }

    /// Whether a living scheme has the name.
    pub fn is_taken(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.is_served())
    }

    /// The root behind a name.
    pub fn root(&self, name: &str) -> Option<Rc<Fd>> {
        self.entry(name).map(|entry| entry.root())
    }

    /// The names of all living schemes, in order. Forgets names of dead schemes that no other
    /// namespace has.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.entries.borrow_mut().retain(|name, entry| {
            let lives = entry.is_served();
            if lives {
                names.push(name.clone());
            }
            lives || Rc::strong_count(entry) > 1
        });
        names
    }

    /// Forks a namespace that has those of the given names that exist here.
    pub fn fork<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Rc<Namespace> {
        let forked = Namespace::new();
        for name in names {
            if let Some(entry) = self.entry(name) {
                forked.entries.borrow_mut().insert(name.into(), entry);
            }
        }
        forked
    }
}
