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

/// The derive that `outbox_sqlite` exports as `Outbox`.
///
#[doc = include_str!("../docs/derive.md")]
#[proc_macro_derive(SqliteOutbox, attributes(outbox, field, sqlx))]
pub fn derive_sqlite_outbox(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input, quote!(::outbox_sqlite::private)).into()
}

/// The derive that `outbox_postgres` exports as `Outbox`.
///
#[doc = include_str!("../docs/derive.md")]
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
#[proc_macro]
pub fn registry(input: TokenStream) -> TokenStream {
    registry::expand(input.into()).into()
}
