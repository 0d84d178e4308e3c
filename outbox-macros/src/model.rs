//! What a derive knows of a record once it was read: the roles, their columns, and how they are named.

use heck::{ToKebabCase, ToLowerCamelCase, ToShoutySnakeCase, ToSnakeCase, ToUpperCamelCase};
use proc_macro2::TokenStream;
use syn::{DeriveInput, GenericParam, Generics, Ident, Type, TypeParamBound, parse_quote};

/// Stands for a name that was refused: the compiler gets to see it, a database never does.
const REFUSED: &str = "refused";

/// A record, ready to be emitted.
pub(crate) struct Record {
    /// The struct.
    pub(crate) ident: Ident,
    /// Empty, unless the struct was refused for having some.
    pub(crate) generics: Generics,
    /// The backend's `private`. `None`: the attribute that names it was refused.
    pub(crate) root: Option<TokenStream>,
    pub(crate) table: String,
    pub(crate) schema: Option<String>,
    pub(crate) publish: bool,
    pub(crate) custom: bool,
    /// One for each role that the struct has.
    pub(crate) columns: Vec<Column>,
}

/// A record must be `'static`, and so on. A generic struct is refused as it is; that its parameters
/// are not bounded need not be said as well.
fn bounded(generics: &Generics) -> Generics {
    let mut bounded = generics.clone();
    for parameter in &mut bounded.params {
        match parameter {
            GenericParam::Lifetime(lifetime) => lifetime.bounds.push(parse_quote!('static)),
            GenericParam::Type(ty) => {
                ty.bounds.extend::<[TypeParamBound; 3]>([
                    parse_quote!(::core::marker::Send),
                    parse_quote!(::core::marker::Sync),
                    parse_quote!('static),
                ]);
            }
            GenericParam::Const(_) => {}
        }
    }
    bounded
}

/// A field with a role.
pub(crate) struct Column {
    pub(crate) role: Role,
    pub(crate) field: Ident,
    pub(crate) ty: Type,
    /// The column's name in the database.
    pub(crate) name: String,
}

impl Record {
    /// A record of which nothing was read yet.
    pub(crate) fn new(input: &DeriveInput, root: TokenStream) -> Self {
        Self {
            ident: input.ident.clone(),
            generics: bounded(&input.generics),
            root: Some(root),
            table: REFUSED.to_owned(),
            schema: None,
            publish: false,
            custom: false,
            columns: Vec::new(),
        }
    }

    /// The name of a column; of one that was refused, too.
    pub(crate) fn column_name(&self, role: Role) -> &str {
        self.column(role).map_or(REFUSED, |column| &column.name)
    }

    /// The column of `role`.
    pub(crate) fn column(&self, role: Role) -> Option<&Column> {
        self.columns.iter().find(|column| column.role == role)
    }
}

/// What a field is to the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Id,
    Name,
    Payload,
    Headers,
    ProcessedAt,
    Marks,
}

impl Role {
    pub(crate) const ALL: [Self; 6] = [
        Self::Id,
        Self::Name,
        Self::Payload,
        Self::Headers,
        Self::ProcessedAt,
        Self::Marks,
    ];

    /// As `#[field(..)]` spells it.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::Payload => "payload",
            Self::Headers => "headers",
            Self::ProcessedAt => "processed_at",
            Self::Marks => "marks",
        }
    }

    /// What a field of this role holds.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Id => "the primary key",
            Self::Name => "the name that the message is published under",
            Self::Payload => "the bytes of the message",
            Self::Headers => "the headers of the message",
            Self::ProcessedAt => "the time at which the message was processed",
            Self::Marks => "the marks of the name's consumers",
        }
    }

    pub(crate) const fn required(self) -> bool {
        matches!(self, Self::Id | Self::Name | Self::Payload)
    }

    pub(crate) fn of(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.key() == key)
    }
}

/// The value of `#[sqlx(rename_all = "..")]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenameAll {
    Lower,
    Snake,
    Upper,
    ScreamingSnake,
    Kebab,
    Camel,
    Pascal,
}

impl RenameAll {
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("lowercase", Self::Lower),
        ("snake_case", Self::Snake),
        ("UPPERCASE", Self::Upper),
        ("SCREAMING_SNAKE_CASE", Self::ScreamingSnake),
        ("kebab-case", Self::Kebab),
        ("camelCase", Self::Camel),
        ("PascalCase", Self::Pascal),
    ];

    pub(crate) fn of(value: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find_map(|(key, rule)| (key == value).then_some(rule))
    }

    /// Names a column as `sqlx::FromRow` does.
    pub(crate) fn apply(self, field: &str) -> String {
        match self {
            // These two keep the underscores.
            Self::Lower => field.to_lowercase(),
            Self::Upper => field.to_uppercase(),
            Self::Snake => field.to_snake_case(),
            Self::ScreamingSnake => field.to_shouty_snake_case(),
            Self::Kebab => field.to_kebab_case(),
            Self::Camel => field.to_lower_camel_case(),
            Self::Pascal => field.to_upper_camel_case(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RenameAll, Role};

    #[test]
    fn a_field_is_renamed_as_sqlx_renames_it() {
        let renamed = |value, field| RenameAll::of(value).unwrap().apply(field);
        for (value, processed_at, version) in [
            ("lowercase", "processed_at", "v2_id"),
            ("snake_case", "processed_at", "v2_id"),
            ("UPPERCASE", "PROCESSED_AT", "V2_ID"),
            ("SCREAMING_SNAKE_CASE", "PROCESSED_AT", "V2_ID"),
            ("kebab-case", "processed-at", "v2-id"),
            ("camelCase", "processedAt", "v2Id"),
            ("PascalCase", "ProcessedAt", "V2Id"),
        ] {
            assert_eq!(renamed(value, "processed_at"), processed_at, "{value}");
            assert_eq!(renamed(value, "v2_id"), version, "{value}");
        }
    }

    #[test]
    fn a_rule_that_sqlx_does_not_know_is_none() {
        assert_eq!(RenameAll::of("Train-Case"), None);
        assert_eq!(RenameAll::of("camelcase"), None);
    }

    #[test]
    fn a_role_is_found_by_its_key() {
        for role in Role::ALL {
            assert_eq!(Role::of(role.key()), Some(role));
        }
        assert_eq!(Role::of("identifier"), None);
    }
}
