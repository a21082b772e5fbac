//! In which files an option's name stands.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, File, Module};
use super::tokens::names_a_type;

/// How many times a name may be passed on by `use` before it is given up.
const HOPS: usize = 8;

/// A type: its crate, as paths name it, and its name.
type Type = (String, String);

/// A struct or an enum, and what its declaration names.
struct Shape<'a> {
    name: Type,
    fields: &'a BTreeSet<String>,
    holds: BTreeSet<Type>,
}

/// A file, and the types that it names.
struct Naming<'a> {
    /// Its crate.
    of: String,
    file: &'a File,
    types: BTreeSet<Type>,
}

/// Each long option, and in how many files its name stands: in a text as `--name`, as a field or
/// parameter in the crate that has the option, and in other crates where a type is named that carries it.
///
/// A way begins at the option's own struct and goes on in each file that names the option and a type
/// of the way, or one that holds such a type: what else this file names with a field of that name is
/// on the way, too. Methods, macros, locals and modules of that name (`format!`, `.max()`) are
/// something else, and so are fields of types that no option reaches: `over`, which a conversation in
/// `dialect` is, is no `--over` of a sweep.
///
/// What many structs on the way have (`streams`) is found too often still. Not found is, in another
/// crate, a field of a value whose type is written nowhere in the file, and a parameter beside no type of
/// the way. So the median is looked at.
pub fn options(crates: &[Crate]) -> Vec<(&str, usize)> {
    let (mut shapes, mut files, mut options) = (vec![], vec![], BTreeMap::new());
    for one in crates {
        let types = Types { one, crates };
        for (module, found) in one.modules.iter().enumerate() {
            shapes.extend(found.shapes.iter().map(|shape| Shape {
                name: (one.path_name(), shape.name.clone()),
                fields: &shape.fields,
                holds: types.of(module, &shape.holds),
            }));
        }
        for (at, file) in one.files.iter().enumerate() {
            let modules = one.modules.iter().enumerate().filter(|(_, module)| module.file == at);
            let types = modules.flat_map(|(m, module)| types.of(m, &module.paths)).collect();
            files.push(Naming { of: one.path_name(), file, types });
            for (field, long) in &file.options {
                let (fields, owners) =
                    options.entry(&**long).or_insert_with(|| (BTreeSet::new(), BTreeSet::new()));
                fields.extend([field.clone(), long.replace('-', "_")]);
                let here = one.modules.iter().filter(|module| module.file == at);
                let shapes = here.flat_map(|module| &module.shapes);
                let owning = shapes.filter(|shape| shape.fields.contains(field));
                owners.extend(owning.map(|shape| (one.path_name(), shape.name.clone())));
            }
        }
    }
    let count = |(long, (fields, owners)): (_, (BTreeSet<String>, BTreeSet<Type>))| {
        let own: BTreeSet<String> = owners.iter().map(|(of, _)| of.clone()).collect();
        let carriers = carriers(&shapes, &files, &fields, owners);
        let typed = format!("--{long}");
        let named = |naming: &&Naming<'_>| {
            naming.file.words.contains(&typed)
                || naming.carries(&fields, &carriers)
                || own.contains(&naming.of) && !naming.file.words.is_disjoint(&fields)
        };
        (long, files.iter().filter(named).count())
    };
    options.into_iter().map(count).collect()
}

/// Types that an option's value passes through under its own name, and those that hold them.
fn carriers(
    shapes: &[Shape<'_>],
    files: &[Naming<'_>],
    names: &BTreeSet<String>,
    owners: BTreeSet<Type>,
) -> BTreeSet<Type> {
    let mut found = owners;
    loop {
        let before = found.len();
        let on_the_way = files.iter().filter(|naming| naming.carries(names, &found));
        let named: BTreeSet<&Type> = on_the_way.flat_map(|naming| &naming.types).collect();
        let next = shapes.iter().filter(|shape| {
            !shape.holds.is_disjoint(&found)
                || !shape.fields.is_disjoint(names) && named.contains(&shape.name)
        });
        let next: Vec<_> = next.map(|shape| shape.name.clone()).collect();
        found.extend(next);
        if found.len() == before {
            return found;
        }
    }
}

impl Naming<'_> {
    /// Whether the file names an option as a field, and a type that carries it.
    fn carries(&self, names: &BTreeSet<String>, carriers: &BTreeSet<Type>) -> bool {
        !self.file.words.is_disjoint(names) && !self.types.is_disjoint(carriers)
    }
}

/// The types that paths of a crate lead to.
struct Types<'a> {
    one: &'a Crate,
    crates: &'a [Crate],
}

impl Types<'_> {
    fn of(&self, module: usize, paths: &BTreeSet<Vec<String>>) -> BTreeSet<Type> {
        let module = &self.one.modules[module];
        paths.iter().filter_map(|path| self.named(module, path, 0)).collect()
    }

    fn named(&self, module: &Module, path: &[String], hops: usize) -> Option<Type> {
        let name = path.iter().find(|name| names_a_type(name))?;
        let first = path.first()?;
        let known = |of: String| Some((of, name.clone()));
        let here = module.children.contains_key(first);
        if here || ["crate", "self", "super"].contains(&&**first) {
            return known(self.one.path_name());
        }
        if self.crates.iter().any(|one| one.path_name() == *first) {
            return known(first.clone());
        }
        if let Some(import) = module.imports.get(first).filter(|_| hops < HOPS) {
            let whole: Vec<String> = import.iter().chain(&path[1..]).cloned().collect();
            return self.named(module, &whole, hops + 1);
        }
        let mut globs = module.globs.iter().filter_map(|glob| glob.first());
        let glob = globs.find(|of| {
            let of = self.crates.iter().find(|one| one.path_name() == **of);
            of.is_some_and(|one| one.declares(name))
        });
        let own = || (self.one.declares(name) && first == name).then(|| self.one.path_name());
        known(own().or_else(|| glob.cloned())?)
    }
}

impl Crate {
    /// As paths of other crates begin.
    fn path_name(&self) -> String {
        self.name.replace('-', "_")
    }

    fn declares(&self, name: &str) -> bool {
        self.modules.iter().any(|module| module.shapes.iter().any(|shape| shape.name == name))
    }
}
