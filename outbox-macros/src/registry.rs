//! `outbox! { .. }`: reads the entries, refuses what is wrong with them, and emits the registry.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Lit, LitStr, Result, Token, Type, bracketed};

/// The whole macro: the two brackets of the backend, then the user's entries.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let read = |input: ParseStream<'_>| {
        let root = bracket(input)?;
        let default_driver = bracket(input)?;
        Entries::read(input).map(|entries| entries.emit(&root, &default_driver))
    };
    // In a block, several errors are one expression, and it has no type that could be a wrong one.
    read.parse2(input).unwrap_or_else(|refused| {
        let errors = refused.into_compile_error();
        quote!({ #errors })
    })
}

/// What the backend passes stays tokens: `$crate` is a path to the compiler alone.
fn bracket(input: ParseStream<'_>) -> Result<TokenStream> {
    let content;
    bracketed!(content in input);
    content.parse()
}

/// What the user wrote.
#[derive(Default)]
struct Entries {
    tracked: Vec<Tracked>,
    pool: Option<Expr>,
    driver: Option<Type>,
}

/// `"name" => Record`
struct Tracked {
    name: LitStr,
    record: Type,
}

impl Entries {
    /// Reads to the end, and reports the mistakes of all entries together.
    fn read(input: ParseStream<'_>) -> Result<Self> {
        let mut entries = Self::default();
        let mut refused: Option<Error> = None;
        while !input.is_empty() {
            let entry = entries.entry(input).and_then(|()| end_of_entry(input));
            if let Err(error) = entry {
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<TokenTree>()?;
                }
                match &mut refused {
                    Some(first) => first.combine(error),
                    None => refused = Some(error),
                }
            }
            input.parse::<Option<Token![,]>>()?;
        }
        if refused.is_none() && entries.tracked.is_empty() {
            refused = Some(Error::new(
                Span::call_site(),
                "a registry tracks at least one name: `outbox! { \"payments\" => PaymentOutbox }`",
            ));
        }
        refused.map_or(Ok(entries), Err)
    }

    fn entry(&mut self, input: ParseStream<'_>) -> Result<()> {
        if input.peek(Lit) {
            self.name(input)
        } else if input.peek(Ident::peek_any) && input.peek2(Token![:]) && !input.peek2(Token![::])
        {
            self.setting(input)
        } else {
            Err(no_name(input.span()))
        }
    }

    fn name(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = match input.parse()? {
            Lit::Str(name) => name,
            other => return Err(no_name(other.span())),
        };
        let text = name.value();
        let at_end = input.is_empty() || input.peek(Token![,]);
        if input.parse::<Option<Token![=>]>>()?.is_none() {
            let span = if at_end { name.span() } else { input.span() };
            let message =
                format!("write the record type after `=>`: `\"{text}\" => PaymentOutbox`");
            return Err(Error::new(span, message));
        }
        if input.is_empty() || input.peek(Token![,]) {
            return Err(Error::new(name.span(), "expected a record type after `=>`"));
        }
        let record: Type = input.parse()?;
        if text.is_empty() {
            return Err(Error::new(name.span(), "a name is not empty"));
        }
        if let Some(first) = self.tracked.iter().find(|first| first.name.value() == text) {
            let first = &first.record;
            let message = format!(
                "the name `{text}` is registered already, with the record `{}`: keep one of the \
                 two entries",
                quote!(#first)
            );
            return Err(Error::new(name.span(), message));
        }
        self.tracked.push(Tracked { name, record });
        Ok(())
    }

    fn setting(&mut self, input: ParseStream<'_>) -> Result<()> {
        let key = Ident::parse_any(input)?;
        input.parse::<Token![:]>()?;
        let given = if key == "pool" {
            self.pool.replace(input.parse()?).is_some()
        } else if key == "driver" {
            self.driver.replace(input.parse()?).is_some()
        } else {
            let message = format!("unknown key `{key}`: expected `pool` or `driver`");
            return Err(Error::new(key.span(), message));
        };
        if given {
            return Err(Error::new(
                key.span(),
                format!("`{key}` is given twice: keep one"),
            ));
        }
        Ok(())
    }

    fn emit(&self, root: &TokenStream, default_driver: &TokenStream) -> TokenStream {
        let driver = self
            .driver
            .as_ref()
            .map_or(default_driver.clone(), |driver| quote!(#driver));
        let deferred = || quote!(deferred());
        let start = self
            .pool
            .as_ref()
            .map_or_else(deferred, |pool| quote!(new(#pool)));
        let mut names = TokenStream::new();
        let mut tracks = TokenStream::new();
        for (index, Tracked { name, record }) in self.tracked.iter().enumerate() {
            let ty = format_ident!("__OutboxName{index}", span = name.span());
            names.extend(quote_spanned! {name.span()=>
                struct #ty;
                impl #root::TrackedName for #ty {
                    const NAME: &'static str = #name;
                }
            });
            // A record that cannot be tracked is reported where the user wrote it.
            tracks.extend(quote_spanned!(record.span()=> .track::<#record, #ty>()));
        }
        quote!({ #names #root::Outbox::<#driver>::#start #tracks })
    }
}

fn end_of_entry(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(());
    }
    Err(input.error("expected `,` between two entries"))
}

fn no_name(span: Span) -> Error {
    Error::new(
        span,
        "expected a name and its record type, `\"payments\" => PaymentOutbox`, or `pool: ..` or \
         `driver: ..`; a name that is not a string literal is registered with \
         `.register::<PaymentOutbox>(name)`",
    )
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::{Entries, Result};
    use proc_macro2::TokenStream;
    use syn::parse::Parser;

    fn read(entries: TokenStream) -> Result<Entries> {
        Entries::read.parse2(entries)
    }

    #[test]
    fn names_keep_their_order_and_settings_stand_anywhere() {
        let entries = read(quote! {
            driver: Rusqlite,
            "refunds" => crate::records::Refund<u8, u16>,
            pool: build(1, 2),
            "payments" => PaymentOutbox,
        })
        .unwrap();
        let names: Vec<_> = entries.tracked.iter().map(|t| t.name.value()).collect();
        assert_eq!(names, ["refunds", "payments"]);
        assert!(entries.pool.is_some() && entries.driver.is_some());
    }

    #[test]
    fn every_wrong_entry_is_reported() {
        let refused = read(quote!("" => A, pol: 1, "payments" => A, 7 => A, "payments" => B));
        let Err(refused) = refused else {
            panic!("four entries are wrong");
        };
        assert_eq!(refused.into_iter().count(), 4);
    }
}
