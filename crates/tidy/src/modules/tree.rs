//! Modules of one crate, the names that they define and import, and the module that a path leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{Module, StructSize};
use super::parse::parse;
use crate::SourceFile;

/// Maximum number of imports that lead to one definition. A longer chain is a circle of imports.
const IMPORTS_MAX: usize = 16;

/// Path from one module to a name that another module defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Module that contains the path.
    pub from: String,
    /// Module that defines the name.
    pub to: String,
    /// File and line of the path.
    pub place: String,
}

/// Modules of one crate.
#[derive(Debug)]
pub struct Crate {
    /// Name of the package, without the prefix `gristmill-`.
    pub name: String,
    /// Modules by their paths. The root's path is empty.
    pub(super) modules: BTreeMap<Vec<String>, Module>,
}

impl Crate {
    /// Parses the root file of a crate and the files of its modules.
    ///
    /// # Panics
    /// If a file is missing, or it is not Rust code.
    #[must_use]
    pub fn new(files: &[SourceFile], root: &str) -> Self {
        let by_path: BTreeMap<&str, &SourceFile> =
            files.iter().map(|file| (file.path.as_str(), file)).collect();
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let root_file = by_path.get(root).unwrap_or_else(|| panic!("{root} is missing"));
        let mut modules = BTreeMap::new();
        let mut open = vec![(Vec::new(), *root_file)];
        while let Some((path, file)) = open.pop() {
            for module in parse(file, &path) {
                for child in &module.children {
                    let base = format!("{folder}/{}", child.join("/"));
                    let places = [format!("{base}.rs"), format!("{base}/mod.rs")];
                    let file = places.iter().find_map(|place| by_path.get(place.as_str()));
                    let file = file.unwrap_or_else(|| panic!("{base}.rs is missing"));
                    open.push((child.clone(), *file));
                }
                modules.insert(module.path.clone(), module);
            }
        }
        let name = root_file.crate_name().unwrap_or(root).to_owned();
        Self { name, modules }
    }

    /// Returns one reference for each ordered pair of modules of which the first refers to the second. Leaves out pairs of
    /// which one module contains the other.
    #[must_use]
    pub fn references(&self) -> Vec<Reference> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (from, module) in &self.modules {
            let imports = module.imports.values().chain(&module.globs);
            for path in imports.chain(&module.paths) {
                let Some((to, _)) = self.resolve(from, &path.names) else { continue };
                let is_related = from.starts_with(&to) || to.starts_with(from);
                if !is_related && seen.insert((from, to.clone())) {
                    let place = format!("{}:{}", module.file, path.line);
                    found.push(Reference { from: from.join("::"), to: to.join("::"), place });
                }
            }
        }
        found
    }

    /// Returns the files with `impl` blocks of each type, by the type's path.
    #[must_use]
    pub fn impl_files(&self) -> BTreeMap<String, BTreeSet<&str>> {
        let mut files: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for path in &module.impls {
                let (mut owner, rest) = match self.resolve(from, &path.names) {
                    Some(resolved) => resolved,
                    None => match module.imports.get(&path.names[0]) {
                        Some(foreign) => (foreign.names.clone(), path.names[1..].to_vec()),
                        None => (from.clone(), path.names.clone()),
                    },
                };
                owner.extend(rest);
                files.entry(owner.join("::")).or_default().insert(&module.file);
            }
        }
        files
    }

    /// Returns the structs with named fields.
    pub fn structs(&self) -> impl Iterator<Item = &StructSize> {
        self.modules.values().flat_map(|module| &module.structs)
    }

    /// Returns the module that defines the first name of `names` that is not itself a module, and the names from there on.
    /// Returns nothing if the path leads out of the crate, or begins with a name that the module defines itself.
    fn resolve(&self, from: &[String], names: &[String]) -> Option<(Vec<String>, Vec<String>)> {
        let (absolute, mut rest) = start(from, names);
        let mut is_own = absolute.is_some();
        let mut module = absolute.unwrap_or_else(|| from.to_vec());
        for _ in 0..IMPORTS_MAX {
            while let Some((name, after)) = rest.split_first() {
                let mut child = module.clone();
                child.push(name.clone());
                if !self.modules.contains_key(&child) {
                    break;
                }
                (module, rest, is_own) = (child, after.to_vec(), true);
            }
            let Some((name, after)) = rest.split_first() else { break };
            let Some(import) = self.modules.get(&module)?.imports.get(name) else { break };
            let (absolute, mut names) = start(&module, &import.names);
            if absolute.is_none() && !self.is_known(&module, &names[0]) {
                // The name comes from another crate. If this module re-exports it, the path still leads to this module.
                break;
            }
            is_own |= absolute.is_some();
            names.extend_from_slice(after);
            rest = names;
            module = absolute.unwrap_or(module);
        }
        is_own.then_some((module, rest))
    }

    /// Returns true if a module has a child or an import of this name.
    fn is_known(&self, module: &[String], name: &str) -> bool {
        let mut child = module.to_vec();
        child.push(name.to_owned());
        self.modules.contains_key(&child)
            || self.modules.get(module).is_some_and(|module| module.imports.contains_key(name))
    }
}

/// Returns the module where an absolute path begins, or nothing for a relative one, and the names after that.
fn start(from: &[String], names: &[String]) -> (Option<Vec<String>>, Vec<String>) {
    let mut module = None;
    let mut rest = names;
    while let Some((name, after)) = rest.split_first() {
        match name.as_str() {
            "crate" => module = Some(Vec::new()),
            "self" => module = module.or_else(|| Some(from.to_vec())),
            "super" => {
                let mut at: Vec<String> = module.take().unwrap_or_else(|| from.to_vec());
                at.pop();
                module = Some(at);
            }
            _ => break,
        }
        rest = after;
    }
    (module, rest.to_vec())
}
