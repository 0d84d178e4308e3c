//! The derive and the registry macro of the outbox for RustStream services.
//!
//! A service does not name this crate: a backend crate re-exports its derive as `Outbox` and wraps
//! [`registry!`] in a macro `outbox!`. Whatever is generated reaches the backend crate through its
//! module `private` alone.

mod attr;
mod check;
mod expand;
mod model;
mod registry;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

// `sqlx` is a helper attribute of these derives as well as of `sqlx::FromRow`: a record needs no
// `FromRow`, and a struct that drops it keeps the names of its columns. A struct may have both
// derives; an attribute is legal as soon as one derive declares it.

/// Makes a struct a record of the SQLite outbox; `outbox_sqlite` exports it as `Outbox`.
///
/// The struct attribute is `#[outbox(table = "..")]`, with the keys
///
/// - `table`: the table; required;
/// - `schema`: the schema it lives in;
/// - `publish`: derive `Publish`, the insert;
/// - `custom`: leave `Mark` to the service;
/// - `crate`: the crate of a third party's backend, as a path.
///
/// A field of the table has one role: `#[field(id)]`, `#[field(name)]` and `#[field(payload)]` are
/// required, `#[field(headers)]` and `#[field(processed_at)]` are not. Fields without a role are
/// the service's own. A column is named by `#[field(.., column = "..")]`, else by
/// `#[sqlx(rename = "..")]` or the struct's `#[sqlx(rename_all = "..")]`, else by its field.
///
/// # Examples
///
/// ```text
/// #[derive(Outbox)]
/// #[outbox(table = "outbox", publish)]
/// struct PaymentOutbox {
///     #[field(id)]      id: i64,
///     #[field(name)]    name: String,
///     #[field(payload)] payload: Vec<u8>,
/// }
/// ```
#[proc_macro_derive(SqliteOutbox, attributes(outbox, field, sqlx))]
pub fn derive_sqlite_outbox(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input, quote!(::outbox_sqlite::private)).into()
}

/// Makes a struct a record of the Postgres outbox; `outbox_postgres` exports it as `Outbox`.
///
/// Its attributes are those of [`SqliteOutbox`].
#[proc_macro_derive(PostgresOutbox, attributes(outbox, field, sqlx))]
pub fn derive_postgres_outbox(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input, quote!(::outbox_postgres::private)).into()
}

/// Builds a registry; a backend crate wraps it as `outbox!`.
///
/// The first bracket is the path of the backend's `private`, the second one its default driver.
/// What follows is the user's: `"name" => Record` entries, tracked in this order, and the settings
/// `pool: <expression>` and `driver: <type>`, in any order. A name given twice does not compile.
///
/// # Examples
///
/// ```text
/// macro_rules! outbox {
///     ($($t:tt)*) => {
///         $crate::private::registry!([$crate::private] [$crate::outbox::DefaultDriver] $($t)*)
///     };
/// }
/// let tracking = outbox! { "payments" => PaymentOutbox, pool: pool };
/// ```
#[proc_macro]
pub fn registry(input: TokenStream) -> TokenStream {
    registry::expand(input.into()).into()
}
