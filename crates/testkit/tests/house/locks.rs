//! Locks that are taken outside the room that has them.
//!
//! A lock is a field of a struct whose type names a `Mutex` or an `RwLock`. It is taken by `lock(&….field)`, or by `try_lock`,
//! `lock_short`, `read` or `write` in its place. So is one that a method hands out whole: its name begins with `lock_`, and its result
//! names a guard. A room is a module that
//! the root of a crate names, with the files below it: within the room that declares the field, or the method, the lock is at home.
//! Fields and methods are known by their names: of several with one name any will do.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Expr, Field, ImplItem, Item, Member, ReturnType, Type};

use crate::source::{Source, is_test};

/// What takes a lock.
const TAKERS: [&str; 5] = ["lock", "try_lock", "lock_short", "read", "write"];

/// How the names of methods begin that hand a lock out whole.
const HANDS_OUT: &str = "lock_";

/// The fields that are locks, and the methods that hand one out, with the modules that declare them.
fn locks(source: &Source) -> BTreeMap<String, BTreeSet<usize>> {
    let mut all: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (own, module) in source.modules.iter().enumerate() {
        for item in &module.items {
            let names: Vec<String> = match item {
                Item::Struct(found) => {
                    let locks = found.fields.iter().filter(|field| is_lock(&field.ty));
                    locks.filter_map(name_of).collect()
                }
                Item::Impl(found) => found.items.iter().filter_map(handed_out).collect(),
                _ => Vec::new(),
            };
            for name in names {
                all.entry(name).or_default().insert(own);
            }
        }
    }
    all
}

/// The name of a method that hands a lock out.
fn handed_out(item: &ImplItem) -> Option<String> {
    let ImplItem::Fn(method) = item else {
        return None;
    };
    let name = method.sig.ident.to_string();
    match &method.sig.output {
        ReturnType::Type(_, of) if name.starts_with(HANDS_OUT) && is_guard(of) => Some(name),
        _ => None,
    }
}

fn name_of(field: &Field) -> Option<String> {
    field.ident.as_ref().map(ToString::to_string)
}

fn is_lock(ty: &Type) -> bool {
    names_any(ty, &["Mutex", "RwLock"])
}

fn is_guard(ty: &Type) -> bool {
    let guards = ["MutexGuard", "RwLockReadGuard", "RwLockWriteGuard"];
    names_any(ty, &guards)
}

/// Whether any of these is named in the type.
fn names_any(ty: &Type, any: &[&str]) -> bool {
    struct Named<'n>(&'n [&'n str], bool);
    impl<'ast> Visit<'ast> for Named<'_> {
        fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
            self.1 |= self.0.iter().any(|name| segment.ident == name);
            syn::visit::visit_path_segment(self, segment);
        }
    }
    let mut named = Named(any, false);
    named.visit_type(ty);
    named.1
}

/// The names of fields of which one is taken, and of methods that hand one out, in the order of the text.
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

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        if name.starts_with(HANDS_OUT) {
            self.0.push(name);
        }
        syn::visit::visit_expr_method_call(self, call);
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
