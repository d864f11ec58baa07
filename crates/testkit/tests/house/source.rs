//! The modules of a crate, as they are written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, Item};

/// A crate's `src`, without tests.
pub(crate) struct Source {
    pub modules: Vec<Module>,
}

/// A file.
pub(crate) struct Module {
    /// Its path in the crate: `a::b`; empty for the crate itself.
    pub name: String,
    pub lines: usize,
    pub items: Vec<Item>,
    /// Its modules with files of their own, by name.
    pub children: BTreeMap<String, usize>,
    pub parent: Option<usize>,
}

pub(crate) struct Function {
    pub name: String,
    pub lines: usize,
}

impl Source {
    pub fn read(src: &Path) -> Source {
        let mut source = Source {
            modules: Vec::new(),
        };
        for root in ["lib.rs", "main.rs"] {
            let path = src.join(root);
            if path.is_file() {
                source.read_file(&path, src, String::new(), None);
                break;
            }
        }
        source
    }

    /// Reads a file whose own modules lie in `dir`.
    fn read_file(&mut self, path: &Path, dir: &Path, name: String, parent: Option<usize>) -> usize {
        let text = std::fs::read_to_string(path).unwrap();
        let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let items: Vec<Item> = file
            .items
            .into_iter()
            .filter(|i| !is_test(item_attrs(i)))
            .collect();
        items.iter().for_each(|item| refuse_hidden(item, path));
        let own = self.modules.len();
        let declared: Vec<String> = items
            .iter()
            .filter_map(|item| match item {
                Item::Mod(m) if m.content.is_none() => Some(m.ident.to_string()),
                _ => None,
            })
            .collect();
        self.modules.push(Module {
            lines: text.lines().count(),
            name: name.clone(),
            items,
            children: BTreeMap::new(),
            parent,
        });
        for child in declared {
            let (file, dir) = place(dir, &child);
            let full = match name.as_str() {
                "" => child.clone(),
                name => format!("{name}::{child}"),
            };
            let number = self.read_file(&file, &dir, full, Some(own));
            self.modules[own].children.insert(child, number);
        }
        own
    }

    /// All functions, those in functions included.
    pub fn functions(&self) -> impl Iterator<Item = Function> + '_ {
        self.modules.iter().flat_map(|module| {
            let mut found = Functions {
                module: &module.name,
                functions: Vec::new(),
            };
            module.items.iter().for_each(|item| found.visit_item(item));
            found.functions
        })
    }
}

/// Refuses what would keep a part of the source from being measured: text that is included, a module in another place.
fn refuse_hidden(item: &Item, file: &Path) {
    let hidden = match item {
        Item::Macro(m) => m.mac.path.is_ident("include"),
        Item::Mod(m) => m.attrs.iter().any(|attr| attr.path().is_ident("path")),
        _ => false,
    };
    assert!(!hidden, "{}: a source that is not measured", file.display());
}

/// Where a module of a folder lies, and the folder of its own modules.
fn place(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (file, own) = (dir.join(format!("{name}.rs")), dir.join(name));
    match file.is_file() {
        true => (file, own),
        false => (own.join("mod.rs"), own),
    }
}

pub(crate) fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let what = list.tokens.to_string();
            what == "test" || what.starts_with("all (test") || what.starts_with("all (loom , test")
        }
        _ => false,
    })
}

fn item_attrs(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

struct Functions<'a> {
    module: &'a str,
    functions: Vec<Function>,
}

impl Functions<'_> {
    fn add(&mut self, name: &syn::Ident, whole: proc_macro2::Span) {
        self.functions.push(Function {
            name: format!("{}::{name}", self.module),
            lines: whole.end().line - whole.start().line + 1,
        });
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        if !is_test(&f.attrs) {
            self.add(
                &f.sig.ident,
                f.sig.span().join(f.block.span()).unwrap_or(f.block.span()),
            );
            syn::visit::visit_item_fn(self, f);
        }
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.add(
            &f.sig.ident,
            f.sig.span().join(f.block.span()).unwrap_or(f.block.span()),
        );
        syn::visit::visit_impl_item_fn(self, f);
    }

    /// Functions that a trait has a body for.
    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(block) = &f.default {
            let whole = f.sig.span().join(block.span());
            self.add(&f.sig.ident, whole.unwrap_or(block.span()));
        }
        syn::visit::visit_trait_item_fn(self, f);
    }

    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !is_test(&m.attrs) {
            syn::visit::visit_item_mod(self, m);
        }
    }
}
