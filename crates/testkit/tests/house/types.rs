//! Over how many files the methods of a type spread.

use std::collections::{BTreeMap, BTreeSet};

use syn::{FnArg, GenericArgument, ImplItem, Item, PathArguments, Type};

use crate::paths::Names;
use crate::source::Source;

/// What is held so is meant itself.
const WRAPPERS: [&str; 8] = [
    "Arc",
    "Box",
    "Mutex",
    "MutexGuard",
    "Option",
    "Rc",
    "RwLock",
    "Weak",
];

#[derive(Default)]
pub(crate) struct Spread {
    pub methods: usize,
    pub files: BTreeSet<usize>,
}

/// The types that a crate defines, by name and module.
pub(crate) fn types(source: &Source) -> BTreeMap<String, Spread> {
    let names = Names::new(source);
    let mut found: BTreeMap<String, Spread> = BTreeMap::new();
    for (own, module) in source.modules.iter().enumerate() {
        let mut add = |of: &Type, methods: usize| {
            let Some((at, name)) = named(of).and_then(|path| names.definition(own, &path)) else {
                return;
            };
            if methods > 0 && is_type(&source.modules[at].items, &name) {
                let module = &source.modules[at].name;
                let spread = found.entry(format!("{module}::{name}")).or_default();
                spread.methods += methods;
                spread.files.insert(own);
            }
        };
        for item in &module.items {
            match item {
                Item::Impl(i) => {
                    let methods = i.items.iter().filter(|i| matches!(i, ImplItem::Fn(_)));
                    add(&i.self_ty, methods.count());
                }
                Item::Fn(f) => {
                    if let Some(FnArg::Typed(first)) = f.sig.inputs.first() {
                        add(&first.ty, 1);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn is_type(items: &[Item], name: &str) -> bool {
    items.iter().any(|item| match item {
        Item::Struct(i) => i.ident == name,
        Item::Enum(i) => i.ident == name,
        Item::Union(i) => i.ident == name,
        _ => false,
    })
}

/// The path of a type, without what it is wrapped in.
fn named(of: &Type) -> Option<Vec<String>> {
    match of {
        Type::Reference(r) => named(&r.elem),
        Type::Paren(p) => named(&p.elem),
        Type::Path(p) => {
            let last = p.path.segments.last()?;
            if WRAPPERS.iter().any(|w| last.ident == w)
                && let PathArguments::AngleBracketed(inner) = &last.arguments
            {
                let mut types = inner.args.iter().filter_map(|arg| match arg {
                    GenericArgument::Type(t) => Some(t),
                    _ => None,
                });
                return named(types.next()?);
            }
            let names = p.path.segments.iter().map(|s| s.ident.to_string());
            Some(names.collect())
        }
        _ => None,
    }
}
