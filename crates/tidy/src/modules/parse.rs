//! Reader of one source file: its modules, imports, paths, `impl` blocks and structs.

use proc_macro2::{Spacing, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, Item, ItemImpl, ItemMod, ItemUse, Meta, Type, UseTree, Visibility};

use super::module::{Module, SourcePath, StructSize};
use crate::SourceFile;

/// Returns the module of a file, and the modules that are written inline in it.
pub(super) fn parse(file: &SourceFile, path: &[String]) -> Vec<Module> {
    let parsed = syn::parse_file(&file.text);
    let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.path));
    let mut reader = Reader { file: &file.path, modules: Vec::new(), current: 0 };
    reader.read_module(path.to_vec(), &parsed.items);
    reader.modules
}

struct Reader<'a> {
    file: &'a str,
    modules: Vec<Module>,
    /// Index of the module that is being read.
    current: usize,
}

impl Reader<'_> {
    fn read_module(&mut self, path: Vec<String>, items: &[Item]) {
        let outer = self.current;
        self.current = self.modules.len();
        self.modules.push(Module { path, file: self.file.to_owned(), ..Module::default() });
        for item in items {
            self.visit_item(item);
        }
        self.current = outer;
    }

    fn module(&mut self) -> &mut Module {
        &mut self.modules[self.current]
    }

    /// Records the names that a `use` declaration brings in.
    fn read_use(&mut self, tree: &UseTree, before: &[String]) {
        let mut names = before.to_vec();
        let line = line(tree.span());
        match tree {
            UseTree::Path(path) => {
                names.push(path.ident.to_string());
                self.read_use(&path.tree, &names);
            }
            UseTree::Name(name) if name.ident == "self" => {
                let own = names.last().cloned().unwrap_or_default();
                self.module().imports.insert(own, SourcePath { names, line });
            }
            UseTree::Name(name) => {
                let own = name.ident.to_string();
                names.push(own.clone());
                self.module().imports.insert(own, SourcePath { names, line });
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    names.push(rename.ident.to_string());
                }
                // Several names may be imported as `_`.
                let own = match rename.rename.to_string() {
                    own if own == "_" => format!("_ {}", names.join("::")),
                    own => own,
                };
                self.module().imports.insert(own, SourcePath { names, line });
            }
            UseTree::Glob(_) => self.module().globs.push(SourcePath { names, line }),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, before);
                }
            }
        }
    }

    /// Records the paths in the text of a macro call or an attribute.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut names: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut at = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_path(std::mem::take(&mut names), at);
                        at = line(ident.span());
                    }
                    names.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' && !names.is_empty() => {
                    let is_first = colons == 0 && sign.spacing() == Spacing::Joint;
                    if is_first || colons == 1 {
                        colons += 1;
                        continue;
                    }
                }
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            self.add_path(std::mem::take(&mut names), at);
            colons = 0;
        }
        self.add_path(names, at);
    }

    /// Records a path. A single name needs no entry: an import or the module itself brings it in.
    fn add_path(&mut self, names: Vec<String>, line: usize) {
        if names.len() > 1 {
            self.module().paths.push(SourcePath { names, line });
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let mut path = self.module().path.clone();
        path.push(item.ident.to_string());
        match &item.content {
            Some((_, items)) => self.read_module(path, items),
            None => self.module().children.push(path),
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.read_use(&item.tree, &[]);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let mut own = &*item.self_ty;
        while let Type::Reference(reference) = own {
            own = &reference.elem;
        }
        if let Type::Path(own) = own {
            let names: Vec<String> = names(&own.path);
            // An `impl` for a type parameter is one for all types of a trait.
            let is_parameter = item
                .generics
                .type_params()
                .any(|parameter| names.len() == 1 && parameter.ident == names[0]);
            if !is_parameter {
                let line = line(own.span());
                self.module().impls.push(SourcePath { names, line });
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if let Fields::Named(fields) = &item.fields {
            let place = format!("{}:{}", self.file, line(item.ident.span()));
            let (name, fields) = (item.ident.to_string(), fields.named.len());
            self.module().structs.push(StructSize { name, place, fields });
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add_path(names(path), line(path.span()));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.read_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
    }

    /// Skips `pub(in path)`: it grants access and needs nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

fn line(span: Span) -> usize {
    span.start().line
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns true if only a build of the tests compiles what these attributes stand on.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
    })
}

fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let parts =
        list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated);
    let Ok(parts) = parts else { return false };
    if list.path.is_ident("all") {
        parts.iter().any(needs_test)
    } else {
        list.path.is_ident("any") && parts.iter().all(needs_test)
    }
}
