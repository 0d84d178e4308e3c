//! Refuses what is no record: all mistakes of a struct at once, each on the user's own token.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Ident, Path};

use crate::attr::{self, Item, List, Value};
use crate::model::{Column, Record, RenameAll, Role};

/// Reads a record and refuses what is wrong with it.
///
/// The record is there after a refusal too, its gaps filled: its impls keep the compiler from
/// reporting, beside the mistake, every place that needs them.
pub(crate) fn check(input: &DeriveInput, default_root: TokenStream) -> (Record, Option<Error>) {
    let mut refusals = Refusals::default();
    let mut record = Record::new(input, default_root);
    if let Some(parameter) = input.generics.params.first() {
        let message = format!(
            "a record is one table: `{}` cannot have lifetime, type or const parameters",
            input.ident
        );
        refusals.add(parameter.span(), message);
    }
    keys(input, &mut record, &mut refusals);
    columns(input, &mut record, &mut refusals);
    (record, refusals.errors.finish().err())
}

/// Reads `#[outbox(..)]`.
fn keys(input: &DeriveInput, record: &mut Record, refusals: &mut Refusals) {
    let mut seen: Vec<String> = Vec::new();
    let lists = refusals.lists(&input.attrs, "outbox");
    for item in lists.into_iter().flat_map(|list| list.items) {
        if seen.contains(&item.key) {
            refusals.twice(&item);
            continue;
        }
        match item.key.as_str() {
            "table" => {
                if let Some(table) = refusals.identifier(&item) {
                    record.table = table;
                }
            }
            "schema" => record.schema = refusals.identifier(&item),
            "publish" => record.publish = refusals.flag(&item),
            "custom" => record.custom = refusals.flag(&item),
            "crate" => record.root = refusals.root(&item),
            unknown => refusals.misspelt(
                item.span,
                format!(
                    "unknown key `{unknown}`: expected `table`, `schema`, `publish`, `custom` or \
                     `crate`"
                ),
            ),
        }
        seen.push(item.key);
    }
    if !seen.iter().any(|key| key == "table") {
        let message = format!(
            "`{}` names no table: add `#[outbox(table = \"..\")]`",
            input.ident
        );
        refusals.missing(input.ident.span(), message);
    }
}

/// Reads the fields, and what sqlx says about their names.
fn columns(input: &DeriveInput, record: &mut Record, refusals: &mut Refusals) {
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(&fields.named),
            Fields::Unnamed(_) | Fields::Unit => None,
        },
        Data::Enum(_) | Data::Union(_) => None,
    };
    let Some(fields) = fields else {
        refusals.add(
            input.ident.span(),
            "`#[derive(Outbox)]` takes a struct with named fields, the columns of its table",
        );
        return;
    };

    refusals.unclear = false;
    let rename_all = rename_all(&input.attrs, refusals);
    for field in fields {
        let Some((column, role_span)) = column(field, rename_all, refusals) else {
            continue;
        };
        if let Some(first) = record.column(column.role) {
            let message = format!(
                "the role `{}` belongs to the field `{}` already: a record has one field of each \
                 role",
                column.role.key(),
                first.field
            );
            refusals.add(role_span, message);
            continue;
        }
        if let Some(first) = record
            .columns
            .iter()
            .find(|first| first.name == column.name)
        {
            let message = format!(
                "the column `{}` belongs to the field `{}` already: each role needs a column of \
                 its own",
                first.name, first.field
            );
            refusals.add(column.field.span(), message);
        }
        record.columns.push(column);
    }
    if let (Some(marks), None) = (record.column(Role::Marks), record.column(Role::ProcessedAt)) {
        let message = format!(
            "`{}` has `marks` and no `processed_at`: the last consumer writes it, so put \
             `#[field(processed_at)]` on the field that holds {}",
            input.ident,
            Role::ProcessedAt.meaning(),
        );
        refusals.missing(marks.field.span(), message);
    }
    for role in Role::ALL.into_iter().filter(|role| role.required()) {
        if record.column(role).is_none() {
            let message = format!(
                "`{}` has no `{role}`: put `#[field({role})]` on the field that holds {}",
                input.ident,
                role.meaning(),
                role = role.key(),
            );
            refusals.missing(input.ident.span(), message);
        }
    }
}

/// Reads `#[field(..)]`, and where the role stands. `None`: the field is the service's own, or its
/// role was refused.
fn column(
    field: &Field,
    rename_all: Option<RenameAll>,
    refusals: &mut Refusals,
) -> Option<(Column, Span)> {
    let ident = field.ident.as_ref()?;
    let lists = refusals.lists(&field.attrs, "field");
    let (list, more) = lists.split_first()?;
    for second in more {
        let message =
            format!("a second `#[field(..)]` on `{ident}`: one holds both the role and the column");
        refusals.misspelt(second.span, message);
    }

    let mut role: Option<(Role, Span)> = None;
    let mut given: Option<Option<String>> = None;
    for item in &list.items {
        match (Role::of(&item.key), role) {
            (Some(this), None) => {
                if !matches!(item.value, Value::None) {
                    let message = format!(
                        "`{}` takes no value: a column is named by `column = \"..\"` beside it",
                        this.key()
                    );
                    refusals.add(item.span, message);
                }
                role = Some((this, item.span));
            }
            (Some(this), Some((first, _))) if this == first => refusals.twice(item),
            (Some(this), Some((first, _))) => refusals.misspelt(
                item.span,
                format!(
                    "`{ident}` has the role `{}` already: give `{}` to a field of its own",
                    first.key(),
                    this.key()
                ),
            ),
            (None, _) if item.key != "column" => refusals.misspelt(
                item.span,
                format!("unknown role `{}`: expected {}", item.key, roles()),
            ),
            (None, _) if given.is_some() => refusals.twice(item),
            (None, _) => given = Some(refusals.identifier(item)),
        }
    }
    let Some((role, span)) = role else {
        if list.items.iter().all(|item| item.key == "column") {
            let message = format!("`{ident}` has no role: add {}", roles());
            refusals.misspelt(list.span, message);
        }
        return None;
    };
    let name = given.unwrap_or_else(|| sqlx_name(field, ident, rename_all, refusals));
    let column = Column {
        role,
        field: ident.clone(),
        ty: field.ty.clone(),
        name: name.unwrap_or_else(|| ident.unraw().to_string()),
    };
    Some((column, span))
}

/// What `sqlx::FromRow` calls the column of a field. `None`: it was refused.
fn sqlx_name(
    field: &Field,
    ident: &Ident,
    rename_all: Option<RenameAll>,
    refusals: &mut Refusals,
) -> Option<String> {
    if let Some(rename) = refusals.sqlx(&field.attrs, "rename") {
        return refusals.identifier(&rename);
    }
    let name = ident.unraw().to_string();
    Some(rename_all.map_or_else(|| name.clone(), |rule| rule.apply(&name)))
}

fn rename_all(attrs: &[Attribute], refusals: &mut Refusals) -> Option<RenameAll> {
    let item = refusals.sqlx(attrs, "rename_all")?;
    let Value::Text(rule) = &item.value else {
        refusals.no_text(&item);
        return None;
    };
    let known = RenameAll::of(&rule.value());
    if known.is_none() {
        let rules = RenameAll::ALL.map(|(key, _)| key);
        let message = format!("unknown `rename_all`: expected {}", one_of(&rules));
        refusals.add(rule.span(), message);
    }
    known
}

fn roles() -> String {
    one_of(&Role::ALL.map(Role::key))
}

/// `a`, `b` or `c`.
fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// The mistakes so far.
#[derive(Default)]
struct Refusals {
    errors: Accumulator,
    /// A refused word may have been meant as what is now missing, which is then not said.
    unclear: bool,
}

impl Refusals {
    fn add(&mut self, span: Span, message: impl Into<String>) {
        let message: String = message.into();
        self.errors.push(Error::custom(message).with_span(&span));
    }

    fn misspelt(&mut self, span: Span, message: String) {
        self.unclear = true;
        self.add(span, message);
    }

    fn missing(&mut self, span: Span, message: String) {
        if !self.unclear {
            self.add(span, message);
        }
    }

    fn twice(&mut self, item: &Item) {
        self.add(
            item.span,
            format!("`{}` is given twice: keep one", item.key),
        );
    }

    fn no_text(&mut self, item: &Item) {
        let span = match item.value {
            Value::Other(span) => span,
            Value::Text(_) | Value::None => item.span,
        };
        let message = format!("`{key}` takes a string: `{key} = \"..\"`", key = item.key);
        self.add(span, message);
    }

    /// The attributes called `name`, without those that are no list.
    fn lists(&mut self, attrs: &[Attribute], name: &str) -> Vec<List> {
        let mut lists = Vec::new();
        for list in attr::lists(attrs, name) {
            match self.errors.handle(list) {
                Some(list) => lists.push(list),
                None => self.unclear = true,
            }
        }
        lists
    }

    /// The item `key` of `#[sqlx(..)]`. What else stands there is sqlx's own affair.
    fn sqlx(&mut self, attrs: &[Attribute], key: &str) -> Option<Item> {
        let lists = self.lists(attrs, "sqlx");
        let mut items = lists.into_iter().flat_map(|list| list.items);
        items.find(|item| item.key == key)
    }

    /// The value of `key = ".."`, as a name that a database takes.
    fn identifier(&mut self, item: &Item) -> Option<String> {
        let Value::Text(text) = &item.value else {
            self.no_text(item);
            return None;
        };
        let name = text.value();
        if name.is_empty() {
            self.add(
                text.span(),
                format!("`{}` is empty: write the name", item.key),
            );
            return None;
        }
        if name.contains('\0') {
            let message = format!("`{}` holds a NUL character, which no name may", item.key);
            self.add(text.span(), message);
            return None;
        }
        Some(name)
    }

    /// Whether the key is there; it must stand alone.
    fn flag(&mut self, item: &Item) -> bool {
        if !matches!(item.value, Value::None) {
            let message = format!(
                "`{key}` takes no value: write `{key}` alone",
                key = item.key
            );
            self.add(item.span, message);
        }
        true
    }

    /// `private` of the backend that `crate = ".."` names.
    fn root(&mut self, item: &Item) -> Option<TokenStream> {
        let Value::Text(text) = &item.value else {
            self.no_text(item);
            return None;
        };
        let Ok(path) = text.parse_with(Path::parse_mod_style) else {
            let message = "`crate` takes the path of a backend: `crate = \"my_backend\"`";
            self.add(text.span(), message);
            return None;
        };
        let local = ["crate", "self", "super"];
        let first = path.segments.first().map(|segment| &segment.ident);
        let is_local = first.is_some_and(|first| local.iter().any(|word| first == word));
        let colons = (!is_local && path.leading_colon.is_none()).then_some(quote!(::));
        Some(quote!(#colons #path::private))
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{DeriveInput, parse_quote};

    use super::{check, one_of};
    use crate::model::Record;

    fn accepted(input: &DeriveInput) -> Record {
        let (record, refused) = check(input, quote!(::outbox_sqlite::private));
        assert!(refused.is_none(), "{refused:?}");
        record
    }

    fn refused(input: &DeriveInput) -> Vec<String> {
        let (_, refused) = check(input, quote!(::outbox_sqlite::private));
        let refused = refused.expect("there is a mistake");
        refused.into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn a_column_is_named_by_its_role_then_by_sqlx_then_by_its_field() {
        let record = accepted(&parse_quote! {
            #[outbox(table = "outbox")]
            #[sqlx(rename_all = "SCREAMING_SNAKE_CASE", default)]
            struct PaymentOutbox {
                #[field(id, column = "key")] #[sqlx(rename = "number")] id: i64,
                #[field(name)] #[sqlx(skip, rename = "channel")] name: String,
                #[field(payload)] message_bytes: Vec<u8>,
                #[field(headers)] r#type: String,
                own: u8,
            }
        });
        let names: Vec<_> = record.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["key", "channel", "MESSAGE_BYTES", "TYPE"]);
    }

    #[test]
    fn the_backend_is_a_crate_unless_its_path_begins_in_this_one() {
        for (given, root) in [
            ("my_backend", ":: my_backend :: private"),
            ("::my_backend", ":: my_backend :: private"),
            ("my::backend", ":: my :: backend :: private"),
            ("crate", "crate :: private"),
            ("crate::backend", "crate :: backend :: private"),
        ] {
            let record = accepted(&parse_quote! {
                #[outbox(table = "outbox", crate = #given)]
                struct PaymentOutbox {
                    #[field(id)] id: i64,
                    #[field(name)] name: String,
                    #[field(payload)] payload: Vec<u8>,
                }
            });
            assert_eq!(record.root.unwrap().to_string(), root, "{given}");
        }
    }

    #[test]
    fn a_misspelt_role_is_not_a_missing_one_too() {
        let refused = refused(&parse_quote! {
            #[outbox(table = "outbox")]
            struct PaymentOutbox {
                #[field(id)] id: i64,
                #[field(nam)] name: String,
                #[field(payload)] payload: Vec<u8>,
            }
        });
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with("unknown role `nam`: expected `id`, "));
    }

    #[test]
    fn a_list_of_words_ends_with_or() {
        assert_eq!(one_of(&["pool", "driver"]), "`pool` or `driver`");
        assert_eq!(
            one_of(&["id", "name", "payload"]),
            "`id`, `name` or `payload`"
        );
    }
}
