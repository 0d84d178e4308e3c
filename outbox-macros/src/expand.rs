//! Emits the impls of a record, with the refusals beside them.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{DeriveInput, GenericParam, Ident, parse_quote};

use crate::check::check;
use crate::model::{Record, Role};

/// The whole derive.
pub(crate) fn expand(input: &DeriveInput, default_root: TokenStream) -> TokenStream {
    let (record, refused) = check(input, default_root);
    let errors = refused.map(darling::Error::write_errors);
    let impls = record.root.as_ref().map(|root| impls(&record, root));
    quote!(#errors #impls)
}

fn impls(record: &Record, root: &TokenStream) -> TokenStream {
    let described = described(record, root);
    let batched = quote!(
        const BATCHED: bool = true;
    );
    let mark =
        (!record.custom).then(|| for_every_driver(record, root, &quote!(Mark), Some(&batched)));
    let publish = record.publish.then(|| {
        let driver = driver();
        let body = quote! {
            #batched

            fn publish(
                conn: &mut #driver::Connection,
                msg: &#root::OutgoingMessage<'_>,
            ) -> impl ::core::future::Future<
                Output = ::core::result::Result<Self::Id, #driver::Error>,
            > + ::core::marker::Send {
                <#driver as #root::Statements<Self>>::insert(conn, msg)
            }
        };
        for_every_driver(record, root, &quote!(Publish), Some(&body))
    });
    quote!(#described #mark #publish)
}

/// `impl Record`.
fn described(record: &Record, root: &TokenStream) -> TokenStream {
    let ident = &record.ident;
    let (impl_generics, ty_generics, where_clause) = record.generics.split_for_impl();
    let id = match record.column(Role::Id) {
        Some(column) => &column.ty,
        None => &parse_quote!(i64),
    };
    let read = read(record);
    let table = &record.table;
    let [id_column, name, payload] =
        [Role::Id, Role::Name, Role::Payload].map(|role| record.column_name(role));
    let schema = record.schema.iter();
    let headers = record.column(Role::Headers).map(|column| &column.name);
    let processed_at = record.column(Role::ProcessedAt).map(|column| &column.name);
    let marks = record.column(Role::Marks).map(|column| &column.name);
    let headers = headers.iter();
    let processed_at = processed_at.iter();
    let marks = marks.iter();
    quote! {
        #[automatically_derived]
        impl #impl_generics #root::Record for #ident #ty_generics #where_clause {
            type Id = #id;
            const SPEC: #root::OutboxSpec = {
                #read
                #root::OutboxSpec::new(#table, #id_column, #name, #payload)
                    #(.schema(#schema))*
                    #(.headers(#headers))*
                    #(.processed_at(#processed_at))*
                    #(.marks(#marks))*
            };
        }
    }
}

/// One impl that covers every driver that can run the record's statements.
fn for_every_driver(
    record: &Record,
    root: &TokenStream,
    event: &TokenStream,
    body: Option<&TokenStream>,
) -> TokenStream {
    let ident = &record.ident;
    let driver = driver();
    let (_, ty_generics, _) = record.generics.split_for_impl();
    let mut generics = record.generics.clone();
    let parameter: GenericParam = parse_quote!(#driver: #root::Statements<Self>);
    generics.params.push(parameter);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #root::#event<#driver> for #ident #ty_generics #where_clause {
            #body
        }
    }
}

/// Reads every field with a role, nowhere: the outbox knows the columns by name, so the service
/// may never touch the fields, and the compiler would call them dead. Inside the impl it speaks for
/// the fields alone: a record that is not registered anywhere is still reported.
fn read(record: &Record) -> Option<TokenStream> {
    let fields = record.columns.iter().map(|column| &column.field);
    (!record.columns.is_empty())
        .then(|| quote!(let _ = |__record: &Self| { #(let _ = &__record.#fields;)* };))
}

/// A name that no service's record has.
fn driver() -> Ident {
    Ident::new("__OutboxDriver", Span::mixed_site())
}
