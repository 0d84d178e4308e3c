//! Reads `#[outbox(..)]`, `#[field(..)]` and `#[sqlx(..)]` as they were written, without a judgement.

use darling::ast::NestedMeta;
use darling::{Error, Result};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Path};

/// The attributes called `name`, each with its items.
pub(crate) fn lists<'a>(
    attrs: &'a [Attribute],
    name: &'a str,
) -> impl Iterator<Item = Result<List>> + 'a {
    attrs
        .iter()
        .filter(move |attr| attr.path().is_ident(name))
        .map(move |attr| List::read(attr, name))
}

/// One attribute: `#[name(item, ..)]`.
pub(crate) struct List {
    /// The attribute's own name.
    pub(crate) span: Span,
    /// What its parentheses hold.
    pub(crate) items: Vec<Item>,
}

/// One item of a list.
pub(crate) struct Item {
    /// What stands before `=`, or alone.
    pub(crate) key: String,
    /// Where the key stands.
    pub(crate) span: Span,
    /// What stands behind it.
    pub(crate) value: Value,
}

/// What an item holds behind its key.
pub(crate) enum Value {
    /// Nothing: `key`.
    None,
    /// A string: `key = ".."`.
    Text(LitStr),
    /// Anything else: `key = 3`, `key(..)`.
    Other(Span),
}

impl List {
    fn read(attr: &Attribute, name: &str) -> Result<Self> {
        let nested = match &attr.meta {
            Meta::Path(_) => Vec::new(),
            Meta::List(list) => NestedMeta::parse_meta_list(list.tokens.clone())?,
            Meta::NameValue(pair) => {
                let message = format!("`{name}` takes a list: write `#[{name}(..)]`");
                return Err(Error::custom(message).with_span(&pair.value.span()));
            }
        };
        Ok(Self {
            span: attr.path().span(),
            items: nested.iter().map(Item::read).collect(),
        })
    }
}

impl Item {
    fn read(nested: &NestedMeta) -> Self {
        let (path, value) = match nested {
            NestedMeta::Meta(Meta::Path(path)) => (path, Value::None),
            NestedMeta::Meta(Meta::List(list)) => (&list.path, Value::Other(list.path.span())),
            NestedMeta::Meta(Meta::NameValue(pair)) => (&pair.path, Value::read(&pair.value)),
            NestedMeta::NameValueInvalidExpr(pair) => (&pair.path, Value::Other(pair.value.span())),
            NestedMeta::Lit(lit) => {
                return Self {
                    key: text_of(lit),
                    span: lit.span(),
                    value: Value::None,
                };
            }
        };
        Self {
            key: dotted(path),
            span: path.span(),
            value,
        }
    }
}

impl Value {
    fn read(expr: &Expr) -> Self {
        match expr {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Self::Text(text.clone()),
            other => Self::Other(other.span()),
        }
    }
}

fn text_of(lit: &Lit) -> String {
    quote::quote!(#lit).to_string()
}

fn dotted(path: &Path) -> String {
    let segments: Vec<_> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    segments.join("::")
}
