//! Which module uses which.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Item, UseTree, Visibility};

use crate::source::{Module, Source, is_test};

/// The modules that each one uses.
pub(crate) fn uses(source: &Source) -> Vec<BTreeSet<usize>> {
    let names = Names::new(source);
    let modules = source.modules.iter().enumerate();
    modules
        .map(|(own, module)| {
            let mut paths = Paths::default();
            module.items.iter().for_each(|item| paths.visit_item(item));
            let mut found = paths.modules(&names, own);
            found.remove(&own);
            found
        })
        .collect()
}

/// What names stand for.
pub(crate) struct Names<'a> {
    source: &'a Source,
    /// What each module takes from elsewhere, by the name that it gives it: imports, and re-exports.
    imports: Vec<BTreeMap<String, Vec<String>>>,
    /// Modules of which a module re-exports all.
    globs: Vec<Vec<Vec<String>>>,
    /// What each module defines.
    defines: Vec<BTreeSet<String>>,
}

impl<'a> Names<'a> {
    pub fn new(source: &'a Source) -> Names<'a> {
        let mut names = Names {
            source,
            imports: Vec::new(),
            globs: Vec::new(),
            defines: Vec::new(),
        };
        for module in &source.modules {
            let (mut imports, mut globs) = (BTreeMap::new(), Vec::new());
            let mut defines = BTreeSet::new();
            for item in &module.items {
                if let Item::Use(u) = item {
                    flatten(&u.tree, &mut Vec::new(), &mut |path, name| match name {
                        Some(name) => {
                            imports.insert(name.to_string(), path.to_vec());
                        }
                        None => globs.push(path.to_vec()),
                    });
                }
                defines.extend(defined(item));
            }
            names.imports.push(imports);
            names.globs.push(globs);
            names.defines.push(defines);
        }
        names
    }

    /// The module that a path leads to, as it is written in module `own`.
    pub fn module_of(&self, own: usize, path: &[String]) -> Option<usize> {
        self.lead(own, path, 0).map(|(module, _)| module)
    }

    /// The module that defines what a path names, and its name there, if it is of this crate.
    pub fn definition(&self, own: usize, path: &[String]) -> Option<(usize, String)> {
        let (module, name) = self.lead(own, path, 0)?;
        Some((module, name?))
    }

    fn lead(&self, own: usize, path: &[String], depth: usize) -> Option<(usize, Option<String>)> {
        if depth > 20 {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let modules = &self.source.modules;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => own,
            "super" => modules[own].parent?,
            "Self" => return None,
            _ => {
                rest = path;
                own
            }
        };
        let bare = std::ptr::eq(rest, path);
        while let Some((name, behind)) = rest.split_first() {
            if name == "super" {
                (at, rest) = (modules[at].parent?, behind);
                continue;
            }
            let module: &Module = &modules[at];
            if let Some(child) = module.children.get(name) {
                (at, rest) = (*child, behind);
                continue;
            }
            if self.defines[at].contains(name) {
                return Some((at, Some(name.clone())));
            }
            if let Some(import) = self.imports[at].get(name)
                && import != path
            {
                let whole = [import, behind].concat();
                return self.lead(at, &whole, depth + 1);
            }
            let globs = self.globs[at].iter();
            let mut through = globs.filter_map(|glob| {
                let whole = [glob, rest].concat();
                let (module, name) = self.lead(at, &whole, depth + 1)?;
                Some((module, Some(name?)))
            });
            if let Some(found) = through.next() {
                return Some(found);
            }
            // A name of another crate, of a local thing, or one that a macro makes.
            return (!bare).then_some((at, None));
        }
        Some((at, None))
    }
}

/// The names that an item defines in its module.
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Mod(i) if i.content.is_some() => &i.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Each path of a `use`, and the name that it gets; none for all that is there.
fn flatten(
    tree: &UseTree,
    before: &mut Vec<String>,
    each: &mut impl FnMut(&[String], Option<&str>),
) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, each);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            let last = before.last().cloned().unwrap_or_default();
            each(before, Some(&last));
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            before.push(name.clone());
            each(before, Some(&name));
            before.pop();
        }
        UseTree::Rename(rename) => {
            before.push(rename.ident.to_string());
            each(before, Some(&rename.rename.to_string()));
            before.pop();
        }
        UseTree::Glob(_) => each(before, None),
        UseTree::Group(group) => {
            let trees = group.items.iter();
            trees.for_each(|tree| flatten(tree, before, each));
        }
    }
}

/// The paths that a module has.
#[derive(Default)]
struct Paths {
    /// Those of imports.
    imported: BTreeSet<Vec<String>>,
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    /// Where they lead.
    fn modules(&self, names: &Names, own: usize) -> BTreeSet<usize> {
        let imported = self.imported.iter();
        let imported = imported.filter_map(|path| names.module_of(own, path));
        let found = self.found.iter().filter_map(|path| match path.len() {
            // A word alone never is a module: where one has that name, this is a variable or a field.
            1 => Some(names.definition(own, path)?.0),
            _ => names.module_of(own, path),
        });
        imported.chain(found).collect()
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, u: &'ast syn::ItemUse) {
        // To re-export is not to use.
        if matches!(u.vis, Visibility::Inherited) && !is_test(&u.attrs) {
            flatten(&u.tree, &mut Vec::new(), &mut |path, _| {
                self.imported.insert(path.to_vec());
            });
        }
    }

    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test(&m.attrs) {
            syn::visit::visit_item_mod(self, m);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|s| s.ident.to_string());
        self.found.insert(names.collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        self.tokens(m.tokens.clone());
        syn::visit::visit_macro(self, m);
    }
}

impl Paths {
    /// The paths within a macro's arguments.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(p) if p.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end(&mut path);
                    self.tokens(group.stream());
                    colons = 0;
                }
                _ => {
                    self.end(&mut path);
                    colons = 0;
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.found.insert(std::mem::take(path));
        }
    }
}

#[test]
fn a_path_leads_to_where_the_thing_is() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "lib.rs",
        "mod a; mod b; mod c; pub use b::deep::Thing; fn f(a: u8) -> u8 { a }",
    );
    write("a.rs", "use crate::Thing; fn f(t: &Thing) { t.go() }");
    write(
        "b.rs",
        "pub mod deep; pub fn g() { deep::h() } #[cfg(test)] mod tests;",
    );
    write(
        "b/deep.rs",
        "pub struct Thing; impl Thing { fn go(&self) {} } pub fn h() {} trait T { fn t() {} fn u(); }",
    );
    write("b/tests.rs", "use crate::c::C;");
    write(
        "c.rs",
        "pub struct C; fn f() { let a = 1; assert!(super::b::g() == a); } #[cfg(test)] mod tests { use crate::a; }",
    );
    let source = Source::read(dir.path());
    let number = |name: &str| source.modules.iter().position(|m| m.name == name).unwrap();
    let uses = uses(&source);
    let of = |name: &str| -> Vec<&str> {
        let found = uses[number(name)].iter();
        found.map(|to| source.modules[*to].name.as_str()).collect()
    };
    // What is re-exported is where it is; what tests use does not count, nor a variable with a module's name; macros do.
    assert_eq!(of(""), [""; 0]);
    assert_eq!(of("a"), ["b::deep"]);
    assert_eq!(of("b"), ["b::deep"]);
    assert_eq!(of("b::deep"), [""; 0]);
    assert_eq!(of("c"), ["b"]);
    let types = crate::types::types(&source);
    let thing = &types["b::deep::Thing"];
    assert_eq!((thing.methods, thing.files.len()), (2, 2));
    assert_eq!(source.functions().count(), 7);
}
