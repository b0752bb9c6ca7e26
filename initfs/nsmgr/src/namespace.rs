//! A namespace: names and the roots behind them.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use libredox::Fd;
use runtime::fd;

/// Names with their roots. Namespaces made from one another share the roots, not the names.
pub struct Namespace {
    roots: RefCell<BTreeMap<String, Rc<Fd>>>,
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
            roots: RefCell::new(BTreeMap::new()),
        })
    }

    /// Adds a name. False when it is taken by a scheme whose daemon lives.
    pub fn insert(&self, name: &str, root: Fd) -> bool {
        if self.is_taken(name) {
            return false;
        }
        self.roots.borrow_mut().insert(name.into(), Rc::new(root));
        true
    }

    /// Whether a living scheme has the name. The name of a dead one is given up here.
    pub fn is_taken(&self, name: &str) -> bool {
        let root = self.root(name);
        match root {
            Some(root) if fd::is_served(root.raw()) => true,
            Some(_) => {
                self.roots.borrow_mut().remove(name);
                false
            }
            None => false,
        }
    }

    /// The root behind a name.
    pub fn root(&self, name: &str) -> Option<Rc<Fd>> {
        self.roots.borrow().get(name).cloned()
    }

    /// All names in order, after giving up those of dead schemes.
    pub fn names(&self) -> Vec<String> {
        self.roots
            .borrow_mut()
            .retain(|_, root| fd::is_served(root.raw()));
        self.roots.borrow().keys().cloned().collect()
    }

    /// A namespace with those of the given names that exist here.
    pub fn fork<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Rc<Namespace> {
        let forked = Namespace::new();
        for name in names {
            if let Some(root) = self.root(name) {
                forked.roots.borrow_mut().insert(name.into(), root);
            }
        }
        forked
    }
}
