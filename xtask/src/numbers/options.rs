//! In which files an option's name stands.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::source::{Crate, File, Module};
use super::tokens::names_a_type;

/// How many times a name may be passed on by `use` before it is given up.
const HOPS: usize = 8;

/// A type: its crate, as paths name it, and its name.
type Type = (String, String);

/// Types by number, in place of two texts that are compared again and again.
#[derive(Default)]
struct Numbered(HashMap<Type, usize>);

impl Numbered {
    fn of(&mut self, name: Type) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }
}

/// A struct or an enum, and what its declaration names.
struct Shape<'a> {
    name: usize,
    fields: &'a BTreeSet<String>,
    holds: BTreeSet<usize>,
}

/// A file, and the types that it names.
struct Naming<'a> {
    /// Its crate.
    of: String,
    file: &'a File,
    types: BTreeSet<usize>,
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
    let mut numbered = Numbered::default();
    for one in crates {
        let types = Types { one, crates };
        for (module, found) in one.modules.iter().enumerate() {
            shapes.extend(found.shapes.iter().map(|shape| Shape {
                name: numbered.of((one.path_name(), shape.name.clone())),
                fields: &shape.fields,
                holds: types.of(module, &shape.holds).map(|name| numbered.of(name)).collect(),
            }));
        }
        for (at, file) in one.files.iter().enumerate() {
            let modules = one.modules.iter().enumerate().filter(|(_, module)| module.file == at);
            let types = modules.flat_map(|(m, module)| types.of(m, &module.paths));
            let types = types.map(|name| numbered.of(name)).collect();
            files.push(Naming { of: one.path_name(), file, types });
            for (field, long) in &file.options {
                let (fields, owners, own) = options
                    .entry(&**long)
                    .or_insert_with(|| (BTreeSet::new(), BTreeSet::new(), BTreeSet::new()));
                fields.extend([field.clone(), long.replace('-', "_")]);
                let here = one.modules.iter().filter(|module| module.file == at);
                let shapes = here.flat_map(|module| &module.shapes);
                let owning = shapes.filter(|shape| shape.fields.contains(field));
                for shape in owning {
                    owners.insert(numbered.of((one.path_name(), shape.name.clone())));
                    own.insert(one.path_name());
                }
            }
        }
    }
    type Found = (BTreeSet<String>, BTreeSet<usize>, BTreeSet<String>);
    let count = |(long, (fields, owners, own)): (_, Found)| {
        let naming = |naming: &&Naming<'_>| !naming.file.words.is_disjoint(&fields);
        let fielded: Vec<_> = files.iter().filter(naming).collect();
        let carriers = carriers(&shapes, &fielded, &fields, owners);
        let typed = format!("--{long}");
        let named = |naming: &&Naming<'_>| {
            naming.file.words.contains(&typed)
                || !naming.file.words.is_disjoint(&fields)
                    && (!naming.types.is_disjoint(&carriers) || own.contains(&naming.of))
        };
        (long, files.iter().filter(named).count())
    };
    options.into_iter().map(count).collect()
}

/// Types that an option's value passes through under its own name, in files that name it, and those that hold them.
fn carriers(
    shapes: &[Shape<'_>],
    files: &[&Naming<'_>],
    names: &BTreeSet<String>,
    owners: BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut found = owners;
    loop {
        let before = found.len();
        let on_the_way = files.iter().filter(|naming| !naming.types.is_disjoint(&found));
        let named: BTreeSet<usize> =
            on_the_way.flat_map(|naming| naming.types.iter().copied()).collect();
        let next = shapes.iter().filter(|shape| {
            !shape.holds.is_disjoint(&found)
                || !shape.fields.is_disjoint(names) && named.contains(&shape.name)
        });
        let next: Vec<_> = next.map(|shape| shape.name).collect();
        found.extend(next);
        if found.len() == before {
            return found;
        }
    }
}

/// The types that paths of a crate lead to.
struct Types<'a> {
    one: &'a Crate,
    crates: &'a [Crate],
}

impl Types<'_> {
    fn of(&self, module: usize, paths: &BTreeSet<Vec<String>>) -> impl Iterator<Item = Type> {
        let module = &self.one.modules[module];
        paths.iter().filter_map(|path| self.named(module, path, 0))
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
