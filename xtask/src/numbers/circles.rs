//! Files of a crate that cannot be understood, or moved, one without the other.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::Crate;

/// How many times a name may be passed on by `use` before it is given up.
const HOPS: usize = 8;

impl Crate {
    /// Sets of files that use each other, in both directions and perhaps by way of others.
    pub fn circles(&self) -> Vec<Vec<&Path>> {
        let mut uses = vec![BTreeSet::new(); self.files.len()];
        for (at, module) in self.modules.iter().enumerate() {
            let paths = module.paths.iter().filter_map(|path| self.resolve(at, path, 0));
            let others = paths.filter(|target| !self.is_within(at, *target));
            uses[module.file].extend(others.map(|target| self.modules[target].file));
        }
        let reach: Vec<BTreeSet<usize>> =
            (0..uses.len()).map(|from| reached(&uses, from)).collect();
        let mut circles: BTreeSet<Vec<usize>> = BTreeSet::new();
        for from in 0..uses.len() {
            let circle: Vec<usize> =
                reach[from].iter().copied().filter(|to| reach[*to].contains(&from)).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let paths = |circle: &Vec<usize>| circle.iter().map(|at| &*self.files[*at].path).collect();
        circles.iter().map(paths).collect()
    }

    /// Whether `outer` is `module` itself or one that it is a part of.
    fn is_within(&self, module: usize, outer: usize) -> bool {
        let mut at = Some(module);
        while at.is_some_and(|at| at != outer) {
            at = at.and_then(|at| self.modules[at].parent);
        }
        at.is_some()
    }

    /// The module in which what `path` names stands, if that is in this crate.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let mut root = module;
        while let Some(parent) = self.modules[root].parent {
            root = parent;
        }
        let here = match first.as_str() {
            "crate" => root,
            "self" => module,
            "super" => self.modules[module].parent?,
            _ => return self.found(module, path, depth),
        };
        match rest {
            [] => Some(here),
            _ if rest[0] == "super" => self.resolve(here, rest, depth),
            _ => self.found(here, rest, depth).or(Some(here)),
        }
    }

    /// The same for a path whose first name is looked up in `module`.
    fn found(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let here = &self.modules[module];
        if let Some(child) = here.children.get(first) {
            return if rest.is_empty() {
                Some(*child)
            } else {
                self.found(*child, rest, depth).or(Some(*child))
            };
        }
        if here.items.contains(first) {
            return Some(module);
        }
        if depth > HOPS {
            return None;
        }
        if let Some(import) = here.imports.get(first) {
            let whole: Vec<String> = import.iter().chain(rest).cloned().collect();
            return self.resolve(module, &whole, depth + 1);
        }
        here.globs.iter().find_map(|glob| {
            let from = self.resolve(module, glob, depth + 1)?;
            if from == module { None } else { self.found(from, path, depth + 1) }
        })
    }
}

fn reached(uses: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut found, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(at) = todo.pop() {
        todo.extend(uses[at].iter().copied().filter(|to| found.insert(*to)));
    }
    found
}
