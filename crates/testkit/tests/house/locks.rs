//! Locks that are taken outside the room that has them.
//!
//! A lock is a field of a struct whose type names a `Mutex` or an `RwLock`. It is taken by `lock(&….field)`, or by `try_lock`,
//! `lock_short`, `read` or `write` in its place. A room is a module that
//! the root of a crate names, with the files below it: within the room that declares the field the lock is at home. Fields are known
//! by their names: of several with one name any will do.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Expr, Field, Item, Member, Type};

use crate::source::{Source, is_test};

/// What takes a lock.
const TAKERS: [&str; 5] = ["lock", "try_lock", "lock_short", "read", "write"];

/// The fields that are locks, with the modules that declare them.
fn locks(source: &Source) -> BTreeMap<String, BTreeSet<usize>> {
    let mut all: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (own, module) in source.modules.iter().enumerate() {
        for item in &module.items {
            if let Item::Struct(found) = item {
                let locks = found.fields.iter().filter(|field| is_lock(&field.ty));
                for name in locks.filter_map(name_of) {
                    all.entry(name).or_default().insert(own);
                }
            }
        }
    }
    all
}

fn name_of(field: &Field) -> Option<String> {
    field.ident.as_ref().map(ToString::to_string)
}

fn is_lock(ty: &Type) -> bool {
    struct Named(bool);
    impl<'ast> Visit<'ast> for Named {
        fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
            self.0 |= segment.ident == "Mutex" || segment.ident == "RwLock";
            syn::visit::visit_path_segment(self, segment);
        }
    }
    let mut named = Named(false);
    named.visit_type(ty);
    named.0
}

/// The names of fields of which one is taken, in the order of the text.
#[derive(Default)]
struct Taken(Vec<String>);

impl<'ast> Visit<'ast> for Taken {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let by = match &*call.func {
            Expr::Path(path) => path.path.segments.last(),
            _ => None,
        };
        let of = match call.args.first() {
            Some(Expr::Reference(of)) => Some(&*of.expr),
            _ => None,
        };
        if let (Some(by), Some(Expr::Field(of))) = (by, of)
            && TAKERS.iter().any(|taker| by.ident == taker)
            && let Member::Named(name) = &of.member
        {
            self.0.push(name.to_string());
        }
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            syn::visit::visit_impl_item_fn(self, function);
        }
    }
}

/// Each place where a lock is taken in another room: its module, and the field.
pub(crate) fn taken_by_others(source: &Source) -> Vec<(usize, String)> {
    let locks = locks(source);
    let mut all = Vec::new();
    for (own, module) in source.modules.iter().enumerate() {
        let mut taken = Taken::default();
        module.items.iter().for_each(|item| taken.visit_item(item));
        let foreign = taken.0.into_iter().filter(|name| {
            let homes = locks.get(name);
            homes.is_some_and(|homes| !homes.iter().any(|home| is_of_one_room(source, own, *home)))
        });
        all.extend(foreign.map(|name| (own, name)));
    }
    all
}

/// Whether two modules are of one room: one module, or files below the same one that the root of the crate names.
fn is_of_one_room(source: &Source, own: usize, other: usize) -> bool {
    own == other || room(source, own).is_some_and(|of| room(source, other) == Some(of))
}

/// The module below the root above which a module lies; `None` of the root itself.
fn room(source: &Source, module: usize) -> Option<usize> {
    let parent = source.modules[module].parent?;
    Some(room(source, parent).unwrap_or(module))
}
